"""What a synthesizer knows of the syntax, beside nothing: rules that are written down, or an LSTM that learns them.

Either is added to the decoder's scores before the softmax: −∞ for tokens that the rules refuse, or −exp(score) by
the syntax LSTM, which sees the tokens before and no examples.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from karelsynth.karel.syntax import SyntaxMachine
from karelsynth.karel.syntax_kernel import append_tokens
from karelsynth.model import cell_gpu, syntax_gpu
from karelsynth.model.decoder import token_scores
from karelsynth.model.recurrent import PrefixLSTM

if TYPE_CHECKING:
    from karelsynth.karel.syntax_compiler import SyntaxTables
    from karelsynth.model.settings import ModelSettings


class LearnedSyntax(nn.Module):
    """The syntax LSTM. It shares the tokens' embeddings with the decoder."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.recurrent = PrefixLSTM(settings.embedding_size, settings.syntax_size, settings.layers)
        self.output = token_scores(settings.syntax_size)


class HandwrittenSyntax(NamedTuple):
    """A syntax machine whose tables lie on a device, for hypotheses as tensors."""

    machine: SyntaxMachine
    tables: SyntaxTables

    def initial(self, count: int) -> Tensor:
        """States before the first token, int64 [count, width]."""
        return torch.from_numpy(self.machine.initial(count)).to(self.tables.price.device)

    def mask(self, states: Tensor) -> Tensor:
        """Tokens that are admitted, bool [..., 52]."""
        if states.is_cuda and cell_gpu.available():
            return syntax_gpu.mask(self.machine, self.tables, states)
        admitted: Tensor = self.machine.mask(states, self.tables)
        return admitted

    def advance(self, states: Tensor, tokens: Tensor) -> Tensor:
        """The states [..., width] after one token [...] each."""
        if states.is_cuda and cell_gpu.available():
            return syntax_gpu.advance(self.machine, self.tables, states, tokens)
        after: Tensor = self.machine.advance(states, tokens, self.tables)
        return after

    def follows(self, states: Tensor) -> Tensor:
        """The token [...] that must come next where that is scaffolding and no choice, or else −1."""
        token: Tensor = self.machine.forced_token(states, self.tables)
        return token

    def write(
        self, states: Tensor, tokens: Tensor, lengths: Tensor, chosen: Tensor, going: Tensor, *, scaffolding: bool
    ) -> tuple[Tensor, Tensor]:
        """Write a token int64 [N] to each prefix uint8 [N, L], so long [N], that is `going` [N], and what must follow.

        `tokens` is overwritten; `chosen` is −1 where only that is wanted, and `scaffolding` says whether it is. Returns
        the new states [N, width] and lengths. Elsewhere than on a CPU it waits for the device if scaffolding is wanted.
        """
        if states.is_cpu:
            if not tokens.is_contiguous():
                raise ValueError("tokens are written in place: they must be contiguous")
            states, lengths = (part.clone(memory_format=torch.contiguous_format) for part in (states, lengths))
            arrays = (part.contiguous().numpy() for part in (states, tokens, lengths, chosen, going))
            append_tokens(self.machine, *arrays, append_forced=scaffolding)
            return states, lengths
        return self._write_on_device(states, tokens, lengths, chosen, going, scaffolding=scaffolding)

    def _write_on_device(
        self, states: Tensor, tokens: Tensor, lengths: Tensor, chosen: Tensor, going: Tensor, *, scaffolding: bool
    ) -> tuple[Tensor, Tensor]:
        """`write` by operations on tensors; on a CPU it is the same, and slower."""
        if scaffolding:
            chosen = torch.where(chosen >= 0, chosen, self.follows(states))
        while True:
            writing = going & (chosen >= 0) & (lengths < tokens.shape[1])
            if scaffolding and not bool(writing.any()):
                return states, lengths
            put_tokens(tokens, lengths, chosen, writing)
            states = torch.where(writing[:, None], self.advance(states, chosen.clamp(min=0)), states)
            lengths = lengths + writing
            if not scaffolding:
                return states, lengths
            chosen = self.follows(states)

    def settled(self, states: Tensor) -> Tensor:
        """The states after all scaffolding that must come next: there is a choice now. Waits for the device."""
        while True:
            token = self.follows(states)
            if not bool((token >= 0).any()):
                return states
            states = torch.where(token[..., None] >= 0, self.advance(states, token.clamp(min=0)), states)


def put_tokens(tokens: Tensor, places: Tensor, chosen: Tensor, writing: Tensor | None = None) -> None:
    """Write tokens int64 [N] to the places int64 [N] of uint8 [N, L], if there is room, where `writing` [N] says so."""
    room = places < tokens.shape[1] if writing is None else writing & (places < tokens.shape[1])
    at = places.clamp(max=tokens.shape[1] - 1)[:, None]
    tokens.scatter_(1, at, torch.where(room[:, None], chosen[:, None].to(torch.uint8), tokens.gather(1, at)))


@cache
def handwritten_syntax(machine: SyntaxMachine, device: torch.device) -> HandwrittenSyntax:
    """The machine on a device; its tables are copied there once."""
    return HandwrittenSyntax(machine, machine.tables.convert(lambda table: torch.from_numpy(table).to(device)))
