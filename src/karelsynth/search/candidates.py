"""Candidate programs for tasks, and the outcomes of running them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from karelsynth.karel.interpreter import PAPER_TICKS, Status
from karelsynth.karel.machine import run_batch
from karelsynth.tasks.batch import GIVEN_EXAMPLES

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Candidates:
    """S candidates for each of B tasks, of at most L tokens. Where there are fewer, slots are empty."""

    tokens: Tensor
    """uint8 [B, S, L]: padded with `<pad>`."""
    lengths: Tensor
    """int64 [B, S]: numbers of tokens; 0 in an empty slot."""
    logprobs: Tensor
    """float32 [B, S]: log p(program | examples); −∞ in an empty slot."""

    def cpu(self) -> Candidates:
        """The same on the host. Synchronises with the device once."""
        return Candidates(self.tokens.cpu(), self.lengths.cpu(), self.logprobs.cpu())


def with_reference(candidates: Candidates, tokens: Tensor, lengths: Tensor) -> Candidates:
    """The candidates and one more slot: the reference program, uint8 [B, L'], [B], of each task that lacks it.

    Its log-probability is NaN until `rescore` computes it.
    """
    width = max(candidates.tokens.shape[2], tokens.shape[1])
    padded = torch.nn.functional.pad(candidates.tokens, (0, width - candidates.tokens.shape[2]))
    reference = torch.nn.functional.pad(tokens, (0, width - tokens.shape[1]))[:, None]
    found = ((padded == reference).all(2) & (candidates.lengths == lengths[:, None])).any(1, keepdim=True)
    empty, unknown = candidates.logprobs.new_tensor([-torch.inf, torch.nan])
    return Candidates(
        torch.cat([padded, reference.masked_fill(found[:, :, None], 0)], dim=1),
        torch.cat([candidates.lengths, lengths.long()[:, None].masked_fill(found, 0)], dim=1),
        torch.cat([candidates.logprobs, torch.where(found, empty, unknown)], dim=1),
    )


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of running S candidates for each of B tasks on E examples: the inputs of a reward.

    For an empty slot all is False, and its status is that of an invalid program.
    """

    syntax: NDArray[np.bool_]
    """[B, S]: it parses."""
    consistent: NDArray[np.bool_]
    """[B, S]: it is correct on the given examples."""
    generalizes: NDArray[np.bool_]
    """[B, S]: it is correct on all examples."""
    ticks: NDArray[np.float32]
    """[B, S]: the mean number of ticks over all examples."""
    correct: NDArray[np.bool_]
    """[B, S, E]: it is correct on the example; held-out ones come last."""
    status: NDArray[np.uint8]
    """[B, S, E]: how the run ended, by number of `Status`: done, a crash, out of ticks, an endless loop, …"""
    lengths: NDArray[np.int64]
    """[B, S]: the number of tokens; 0 in an empty slot."""


def check(
    candidates: Candidates, inputs: NDArray[np.uint8], outputs: NDArray[np.uint8], *, given: int = GIVEN_EXAMPLES
) -> Outcomes:
    """Run every candidate on its task's examples, cell codes [B, E, 18, 18], of which the first `given` are given.

    A run has the paper's 200 ticks.
    """
    count, slots, width = candidates.tokens.shape
    programs = candidates.tokens.cpu().numpy().reshape(count * slots, width)
    runs = run_batch(
        programs, inputs, which=np.repeat(np.arange(count), slots), expected=outputs, keep_worlds=False,
        max_ticks=PAPER_TICKS,
    )  # fmt: skip
    assert runs.correct is not None
    correct: NDArray[np.bool_] = runs.correct.reshape(count, slots, -1)
    parses = (runs.status != Status.INVALID_PROGRAM).all(1)
    return Outcomes(
        parses.reshape(count, slots),
        np.all(correct[:, :, :given], axis=2),
        np.all(correct, axis=2),
        runs.ticks.astype(np.float32).mean(1).reshape(count, slots),
        correct,
        runs.status.reshape(count, slots, -1),
        candidates.lengths.cpu().numpy(),
    )
