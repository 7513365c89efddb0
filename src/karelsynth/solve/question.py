"""Which program is meant? A question that a person can answer.

If likely programs differ, the question shows one of the person's own worlds with one small change, says in words what
was changed, and gives two or three outcomes to choose from. The chosen one becomes the next example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from karelsynth.karel.formats.codes import FRAME, HERO, world_from_codes
from karelsynth.karel.interpreter import MAX_TICKS, Status
from karelsynth.karel.machine import run_batch
from karelsynth.solve.solution import Ambiguity, Outcome
from karelsynth.tasks.variations import KINDS, fingerprints, vary

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_OUTCOMES: Final = 3
LIKELY: Final = 0.05
"""An answer is likely if its odds of being right are at least this share of the first answer's odds."""
_FAILURE_WEIGHT: Final = 0.2
"""The weight of outcomes that are failures in a world's score; nobody chooses a crash."""
_KIND_PENALTY: Final = 0.03
"""How much a world's score falls from one kind of change to the next, in nats."""
_CELL_PENALTY: Final = 0.0005
"""How much a world's score falls with each cell, in nats: small worlds are read faster."""


def find_ambiguity(
    programs: NDArray[np.uint8],
    probabilities: NDArray[np.float64],
    inputs: NDArray[np.uint8],
    max_ticks: int = MAX_TICKS,
) -> Ambiguity | None:
    """The variation of an input that best distinguishes the likely programs; None if they agree on all of them.

    Its score is the entropy of the outcomes, each with the odds of its likeliest program. Failures weigh little. Worlds
    on which the first program fails, or with more than MOST_OUTCOMES outcomes of likely programs, are left out.

    Args:
        programs: consistent ones, [N, L], padded; the top-ranked one first.
        probabilities: [N], of being right on a further example.
        inputs: the examples' inputs as cell codes, [K, 18, 18].
        max_ticks: the most ticks of a run.
    """
    odds = probabilities / np.maximum(1 - probabilities, 1e-9)
    likely = odds >= LIKELY * odds[0]
    likely[0] = True
    if likely.sum() < 2:
        return None
    variations, worlds = vary(inputs)
    runs = run_batch(programs, worlds[None], max_ticks=max_ticks)
    assert runs.worlds is not None
    ends = fingerprints(runs.worlds, runs.status)
    sizes = ((worlds % HERO) < FRAME).sum((1, 2))
    best, best_score = -1, 0.0
    for number in np.flatnonzero(runs.ok[0] & (ends[likely] != ends[0]).any(0)).tolist():
        score = _score(ends[likely, number], runs.ok[likely, number], odds[likely])
        score -= _KIND_PENALTY * KINDS.index(variations[number].kind) + _CELL_PENALTY * sizes[number]
        if score > best_score or (best < 0 and score > -np.inf):
            best, best_score = number, score
    if best < 0:
        return None
    outcomes = []
    for end in dict.fromkeys(ends[likely, best].tolist()):
        members = np.flatnonzero(ends[:, best] == end)
        status, world = Status(int(runs.status[members[0], best])), world_from_codes(runs.worlds[members[0], best])
        outcomes.append(Outcome(tuple(map(int, members)), status, world))
    variation = variations[best]
    return Ambiguity(world_from_codes(worlds[best]), tuple(outcomes), variation.example, str(variation))


def _score(ends: NDArray[np.int64], ok: NDArray[np.bool_], odds: NDArray[np.float64]) -> float:
    """The entropy of the outcomes `ends` [N] in nats, times the share of those that are no failure."""
    different, first = np.unique(ends, return_index=True)
    if len(different) > MOST_OUTCOMES:
        return -np.inf
    weights = np.array([odds[ends == end].max() for end in different])
    weights /= weights.sum()
    usable = np.where(ok[first], 1.0, _FAILURE_WEIGHT)
    return float(-(weights * np.log(weights)).sum() * (weights * usable).sum())
