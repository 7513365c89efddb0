"""A decoder of one's own: a GRU. `own_decoder.toml` names it and trains it:

karelsynth train examples/own_decoder.toml
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from karelsynth.karel.tokens import VOCABULARY_SIZE
from karelsynth.model import Decoder, StepDecoder, StepTasks, register_decoder

if TYPE_CHECKING:
    from karelsynth.model import ModelSettings


class GRUDecoder(Decoder):
    """A GRU over [token; code of a pair], the same for every example; their maximum; one linear layer."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self.cell = nn.GRUCell(settings.embedding_size + settings.code_size, settings.hidden_size)
        self.output = nn.Linear(settings.hidden_size, VOCABULARY_SIZE)

    def prepare(self, embedding: Tensor, execution: nn.Module | None, dtype: torch.dtype) -> GRUSteps:
        """See `Decoder.prepare`. This decoder always computes in float32 and ignores execution features."""
        return GRUSteps(self.cell, self.output, embedding)


@dataclass(frozen=True)
class GRUSteps(StepDecoder):
    """The state is a tensor [rows, K, hidden_size]."""

    cell: nn.GRUCell
    output: nn.Linear
    embedding: Tensor

    def tasks(self, codes: Tensor, present: Tensor | None) -> StepTasks:
        """See `StepDecoder.tasks`."""
        return StepTasks(codes.float(), present)

    def start(self, tasks: StepTasks) -> Tensor:
        """See `StepDecoder.start`."""
        return tasks.inputs.new_zeros(*tasks.inputs.shape[:2], self.cell.hidden_size)

    def step(
        self,
        tasks: StepTasks,
        state: Tensor,
        parents: Tensor,
        task: Tensor,
        tokens: Tensor,
        features: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """See `StepDecoder.step`."""
        codes, before = tasks.inputs.index_select(0, task), state.index_select(0, parents)
        read = self.embedding.index_select(0, tokens)[:, None].expand(-1, codes.shape[1], -1)
        hidden = self.cell(torch.cat([read, codes], dim=2).flatten(0, 1), before.flatten(0, 1)).view_as(before)
        present = tasks.present_of(task)
        shown = hidden if present is None else hidden.masked_fill(~present[:, :, None], -torch.inf)
        return self.output(shown.amax(1)), hidden


register_decoder("gru", GRUDecoder)
