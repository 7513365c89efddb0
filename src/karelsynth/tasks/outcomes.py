"""What programs do on the examples of tasks: the inputs of measures and rewards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.interpreter import PAPER_TICKS, Status
from karelsynth.karel.machine import run_batch
from karelsynth.tasks.batch import GIVEN_EXAMPLES


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of running S candidates for each of B tasks on E examples.

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
    example_ticks: NDArray[np.int16] | None = None
    """[B, S, E]: the number of ticks on each example."""
    reference_ticks: NDArray[np.int16] | None = None
    """[B, E]: the same of the reference programs, if they were run."""


def run_candidates(
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    inputs: NDArray[np.uint8],
    outputs: NDArray[np.uint8],
    *,
    given: int = GIVEN_EXAMPLES,
    reference: NDArray[np.uint8] | None = None,
    max_ticks: int = PAPER_TICKS,
) -> Outcomes:
    """Run every candidate on its task's examples.

    Args:
        tokens: [B, S, L], padded with `<pad>`.
        lengths: [B, S], 0 in an empty slot.
        inputs, outputs: cell codes [B, E, 18, 18], of which the first `given` are given.
        reference: programs [B, L], padded, that are run for their ticks.
    """
    count, slots, width = tokens.shape
    which = np.repeat(np.arange(count), slots)
    programs = tokens.reshape(count * slots, width)
    runs = run_batch(programs, inputs, which=which, expected=outputs, keep_worlds=False, max_ticks=max_ticks)
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
        lengths,
        runs.ticks.reshape(count, slots, -1),
        None if reference is None else run_batch(reference, inputs, keep_worlds=False, max_ticks=max_ticks).ticks,
    )
