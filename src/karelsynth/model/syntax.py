"""The handwritten syntax for hypotheses as tensors: it sets the logits of inadmissible tokens to −∞.

The other syntax model, learned, is an LSTM: `lstm.LearnedSyntax`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from karelsynth.karel.syntax import SyntaxMachine
from karelsynth.model import triton_launch
from karelsynth.model.prefix_runner import cuda_available

if TYPE_CHECKING:
    from karelsynth.karel.syntax_compiler import SyntaxTables


class HandwrittenSyntax(NamedTuple):
    """A syntax machine whose tables lie on a device, for hypotheses as tensors."""

    machine: SyntaxMachine
    tables: SyntaxTables

    def initial(self, count: int) -> Tensor:
        """States before the first token, int64 [count, width]."""
        return torch.from_numpy(self.machine.initial(count)).to(self.tables.price.device)

    def mask(self, states: Tensor) -> Tensor:
        """Tokens that are admitted, bool [..., 52]."""
        if states.is_cuda and triton_launch.available():
            return triton_launch.syntax_mask(self.machine, self.tables, states)
        admitted: Tensor = self.machine.mask(states, self.tables)
        return admitted

    def advance(self, states: Tensor, tokens: Tensor) -> Tensor:
        """The states [..., width] after one token [...] each."""
        if states.is_cuda and triton_launch.available():
            return triton_launch.syntax_advance(self.machine, self.tables, states, tokens)
        after: Tensor = self.machine.advance(states, tokens, self.tables)
        return after

    def forced_token(self, states: Tensor) -> Tensor:
        """The token [...] that the grammar forces at each state, or −1 if there is a choice."""
        token: Tensor = self.machine.forced_token(states, self.tables)
        return token

    def write(
        self,
        states: Tensor,
        tokens: Tensor,
        lengths: Tensor,
        chosen: Tensor,
        active: Tensor,
        *,
        forced_tokens: bool,
    ) -> tuple[Tensor, Tensor]:
        """Append a token to each active prefix, and then the tokens that it forces.

        Where neither a CPU nor Numba on a GPU does it, writing forced tokens synchronises with the device.

        Args:
            states: int64 [N, width].
            tokens: uint8 [N, L], the prefixes; updated in place.
            lengths: int64 [N].
            chosen: int64 [N], the token to append; −1 to append forced tokens only.
            active: bool [N].
            forced_tokens: whether to append forced tokens.

        Returns the new states [N, width] and lengths [N].
        """
        if states.is_cpu:
            if not tokens.is_contiguous():
                raise ValueError("tokens are written in place: they must be contiguous")
            states, lengths = (part.clone(memory_format=torch.contiguous_format) for part in (states, lengths))
            arrays = (part.contiguous().numpy() for part in (states, tokens, lengths, chosen, active))
            self.machine.append_tokens(*arrays, append_forced=forced_tokens)
            return states, lengths
        if forced_tokens and states.is_cuda and tokens.is_contiguous() and cuda_available():
            from karelsynth.model.syntax_cuda import append_tokens_on_gpu

            states, lengths = (part.clone(memory_format=torch.contiguous_format) for part in (states, lengths))
            append_tokens_on_gpu(self.machine, self.tables, states, tokens, lengths, chosen, active)
            return states, lengths
        return self.write_by_tensors(states, tokens, lengths, chosen, active, forced_tokens=forced_tokens)

    def write_by_tensors(
        self,
        states: Tensor,
        tokens: Tensor,
        lengths: Tensor,
        chosen: Tensor,
        active: Tensor,
        *,
        forced_tokens: bool,
    ) -> tuple[Tensor, Tensor]:
        """`write` as tensor operations, for every device; on a CPU it is slower than the compiled loop."""
        if forced_tokens:
            chosen = torch.where(chosen >= 0, chosen, self.forced_token(states))
        while True:
            writing = active & (chosen >= 0) & (lengths < tokens.shape[1])
            if forced_tokens and not bool(writing.any()):
                return states, lengths
            put_tokens(tokens, lengths, chosen, writing)
            states = torch.where(writing[:, None], self.advance(states, chosen.clamp(min=0)), states)
            lengths = lengths + writing
            if not forced_tokens:
                return states, lengths
            chosen = self.forced_token(states)

    def after_forced_tokens(self, states: Tensor) -> Tensor:
        """The states [..., width] after all tokens that the grammar forces next. Synchronises with the device."""
        while True:
            token = self.forced_token(states)
            if not bool((token >= 0).any()):
                return states
            states = torch.where(token[..., None] >= 0, self.advance(states, token.clamp(min=0)), states)


def put_tokens(tokens: Tensor, places: Tensor, chosen: Tensor, writing: Tensor | None = None) -> None:
    """Write tokens int64 [N] at `places` int64 [N] of uint8 [N, L], where `writing` bool [N] is set and they fit."""
    room = places < tokens.shape[1] if writing is None else writing & (places < tokens.shape[1])
    at = places.clamp(max=tokens.shape[1] - 1)[:, None]
    tokens.scatter_(1, at, torch.where(room[:, None], chosen[:, None].to(torch.uint8), tokens.gather(1, at)))


@cache
def handwritten_syntax(machine: SyntaxMachine, device: torch.device) -> HandwrittenSyntax:
    """The machine on a device; its tables are copied there once."""
    return HandwrittenSyntax(machine, machine.tables.convert(lambda table: torch.from_numpy(table).to(device)))
