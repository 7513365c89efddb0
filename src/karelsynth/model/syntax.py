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
from karelsynth.model import cell_gpu, syntax_gpu
from karelsynth.model.decoder import token_scores
from karelsynth.model.recurrent import PrefixLSTM, autocast_dtype

if TYPE_CHECKING:
    from karelsynth.karel.syntax_compiler import SyntaxTables
    from karelsynth.model.settings import ModelSettings


class LearnedSyntax(nn.Module):
    """The syntax LSTM. It shares the tokens' embeddings with the decoder."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.recurrent = PrefixLSTM(settings.embedding_size, settings.syntax_size, settings.layers)
        self.output = token_scores(settings.syntax_size)

    def forward(self, embedded: Tensor, step_sizes: Tensor) -> Tensor:
        """Penalties exp(score), float32 [P, 52], for packed tokens [P, embedding_size]."""
        inputs = embedded.to(autocast_dtype(embedded.device, embedded.dtype))
        scores: Tensor = self.output(self.recurrent(inputs, step_sizes))
        return scores.float().exp()


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
        token: Tensor = self.machine.follows(states, self.tables)
        return token

    def settled(self, states: Tensor) -> Tensor:
        """The states after all scaffolding that must come next: there is a choice now. Waits for the device."""
        while True:
            token = self.follows(states)
            if not bool((token >= 0).any()):
                return states
            states = torch.where(token[..., None] >= 0, self.advance(states, token.clamp(min=0)), states)


@cache
def handwritten_syntax(machine: SyntaxMachine, device: torch.device) -> HandwrittenSyntax:
    """The machine on a device; its tables are copied there once."""
    return HandwrittenSyntax(machine, machine.tables.convert(lambda table: torch.from_numpy(table).to(device)))
