"""The hypotheses of a beam search: open ones and finished programs, task by task, as rows of fixed-shape arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from karelsynth.karel.tokens import END
from karelsynth.model.decoder import StepTasks
from karelsynth.model.syntax import put_tokens

if TYPE_CHECKING:
    from karelsynth.search.candidates import Candidates

_RANK: Final = 1000.0
"""What one more right example is worth among finished programs: more than any likelihood."""


@dataclass
class Beams:
    """The search of B tasks so far. Tasks that are done have left."""

    number: Tensor
    """int64 [B]: which task each one is."""
    tasks: StepTasks
    scores: Tensor
    """float32 [B, S]: of open hypotheses, best first; −∞ where there is none."""
    tokens: Tensor
    """uint8 [B, S, L], padded."""
    lengths: Tensor
    """int64 [B, S]: how many tokens each has."""
    syntax: Tensor | None
    """int64 [B, S, width]: states of the handwritten syntax."""
    state: Any
    """The decoder's, of the rows that the last step was run for."""
    row: Tensor
    """int64 [B, S]: the row of `state` that each open hypothesis goes on from."""
    last: Tensor
    """int64 [B, S]: the token to go on from, the last choice for models with `skip_forced_tokens`."""
    pool_scores: Tensor
    """float32 [B, S]: of finished programs, best first; −∞ where there is none."""
    pool_tokens: Tensor
    """uint8 [B, S, L]."""
    pool_lengths: Tensor
    """int64 [B, S]."""
    right: Tensor | None
    """int64 [B, S], with pruning: how many examples an open hypothesis would be right on if it ended."""
    pool_right: Tensor | None
    """int64 [B, S], with pruning: how many examples finished programs are right on."""

    def active(self) -> tuple[Tensor, int]:
        """Which tasks have open hypotheses, int64 [B'], and the most that one has. Waits for the device."""
        number = (self.scores > -torch.inf).sum(1)
        return number.nonzero()[:, 0], int(number.max())

    def keep(self, active: Tensor, width: int) -> None:
        """Go on with some of the tasks, and the first `width` places: open hypotheses are sorted, best first."""
        if len(active) < len(self.number):
            own = ("number", "scores", "tokens", "lengths", "row", "last", "pool_scores", "pool_tokens", "pool_lengths")
            for name in own:
                setattr(self, name, getattr(self, name).index_select(0, active))
            self.tasks = self.tasks.select(active)
            for name in ("syntax", "right", "pool_right"):
                if getattr(self, name) is not None:
                    setattr(self, name, getattr(self, name).index_select(0, active))
        for name in ("scores", "tokens", "lengths", "row", "last"):
            setattr(self, name, getattr(self, name)[:, :width])
        self.syntax = None if self.syntax is None else self.syntax[:, :width]
        self.right = None if self.right is None else self.right[:, :width]

    def collect(self, scores: Tensor) -> None:
        """Let programs that end now, with scores [B, S], compete for the pool."""
        ended = self.tokens.clone()
        put_tokens(ended.flatten(0, 1), self.lengths.flatten(), torch.full_like(self.last.flatten(), END))
        lengths = (self.lengths + 1).masked_fill(scores == -torch.inf, 0)
        scores = torch.cat([self.pool_scores, scores], dim=1)
        if self.right is None or self.pool_right is None:
            self.pool_scores, best = scores.topk(self.pool_scores.shape[1])
        else:
            right = torch.cat([self.pool_right, self.right], dim=1)
            best = (scores + _RANK * right.double()).topk(self.pool_scores.shape[1]).indices
            self.pool_scores, self.pool_right = scores.gather(1, best), right.gather(1, best)
        self.pool_tokens = gathered(torch.cat([self.pool_tokens, ended], dim=1), best)
        self.pool_lengths = torch.cat([self.pool_lengths, lengths], dim=1).gather(1, best)

    def record(self, found: Candidates) -> None:
        """Write the pools to their tasks' rows of the result; what is unfinished in a slot is blank."""
        empty = self.pool_lengths == 0
        found.tokens.index_copy_(0, self.number, self.pool_tokens.masked_fill(empty[:, :, None], 0))
        found.lengths.index_copy_(0, self.number, self.pool_lengths)
        found.logprobs.index_copy_(0, self.number, self.pool_scores)


def gathered(values: Tensor, places: Tensor) -> Tensor:
    """values [B, S, …] at places [B, S'] of each task, by one flat `index_select`."""
    count, width = values.shape[:2]
    first = torch.arange(0, count * width, width, device=values.device)[:, None]
    return values.flatten(0, 1).index_select(0, (first + places).flatten()).view(*places.shape, *values.shape[2:])
