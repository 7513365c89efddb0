"""Programs that fit the same examples and differ elsewhere: a world that tells them apart.

The worlds to try are the examples' own inputs, changed a little, so that a person recognises them, and worlds such as
the generator's. The best one splits the answers most evenly, weighted by how likely they are, among outcomes that a
person can choose from; a crash makes a poor question and counts little.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from karelsynth.karel.formats.codes import HERO, SIDE, world_from_codes
from karelsynth.karel.interpreter import Status
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.world import HEADINGS, MOST_MARKERS
from karelsynth.solve.solution import Ambiguity, Answer, Outcome
from karelsynth.tasks.generate import generate

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHANGED: Final = 96
"""Worlds that are made by changing inputs."""
FRESH: Final = 96
"""Worlds that are the generator's."""
_SEED: Final = 2018
_MOST_PILED: Final = 3
_CRASH_WORTH: Final = 0.2
"""What answers that crash count towards a world's worth."""


def find_ambiguity(answers: Sequence[Answer], inputs: NDArray[np.uint8]) -> Ambiguity | None:
    """The world that best tells right answers, the preferred first, apart; None if they agree on all that were tried.

    Args:
        inputs: the examples' inputs as cell codes, [K, 18, 18].
    """
    worlds = np.concatenate([_changed(inputs), _fresh()])
    runs = run_batch(encode_programs([answer.program for answer in answers]), worlds[None])
    assert runs.worlds is not None
    ok = runs.ok
    logprobs = np.array([answer.logprob for answer in answers])
    weights = np.exp(logprobs - logprobs.max())
    weights /= weights.sum()
    best, best_worth = -1, -1.0
    for number in np.flatnonzero(ok[0]):  # the chosen program must end well, or there is nothing to choose
        groups = _groups(runs.worlds[:, number], runs.status[:, number])
        if groups.any():  # not all do the same
            worth = _worth(groups, ok[:, number], weights)
            if worth > best_worth + 1e-9:
                best, best_worth = int(number), worth
    if best < 0:
        return None
    groups = _groups(runs.worlds[:, best], runs.status[:, best])
    outcomes = [
        Outcome(
            tuple(int(place) for place in np.flatnonzero(groups == group)),
            Status(int(runs.status[first, best])),
            world_from_codes(runs.worlds[first, best]),
        )
        for group, first in ((group, int(np.argmax(groups == group))) for group in dict.fromkeys(groups.tolist()))
    ]
    return Ambiguity(world_from_codes(worlds[best]), tuple(outcomes))


def _groups(ends: NDArray[np.uint8], statuses: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Numbers of groups that end alike, [A], in the order of their first, which is 0."""
    numbers: dict[tuple[bytes, int], int] = {}
    every = zip(ends, statuses.tolist(), strict=True)
    return np.array([numbers.setdefault((end.tobytes(), status), len(numbers)) for end, status in every])


def _worth(groups: NDArray[np.int64], ok: NDArray[np.bool_], weights: NDArray[np.float64]) -> float:
    """How much asking about a world tells, in nats: the entropy of what the answers do there, failures being one."""
    groups = np.where(ok, groups, -1)
    shares = [weights[groups == group].sum() for group in np.unique(groups)]
    told = -sum(share * np.log(share) for share in shares if share > 0)
    return float(told * (weights[ok].sum() + _CRASH_WORTH * weights[~ok].sum()))


def _changed(inputs: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Worlds like the examples' inputs, [CHANGED, 18, 18], the same each time for the same inputs.

    They have the hero elsewhere, or up to three cells with markers more or fewer, or both. Walls stay.
    """
    rng = random.Random(_SEED)
    worlds = np.resize(inputs, (CHANGED, SIDE * SIDE))
    for cells in worlds:
        free = np.flatnonzero((cells <= MOST_MARKERS) | (cells >= HERO)).tolist()
        place = int(np.argmax(cells >= HERO))
        heading, cells[place] = divmod(int(cells[place]), HERO)
        kind = rng.randrange(3)
        if kind != 0:
            place, heading = rng.choice(free), rng.randint(1, len(HEADINGS))
        if kind != 1:
            for cell in rng.sample(free, min(len(free), rng.randint(1, 3))):
                cells[cell] = 0 if cells[cell] else rng.randint(1, _MOST_PILED)
        cells[place] += heading * HERO
    return worlds.reshape(CHANGED, SIDE, SIDE)


@cache
def _fresh() -> NDArray[np.uint8]:
    """Worlds that the generator makes, [FRESH, 18, 18]."""
    worlds: NDArray[np.uint8] = np.ascontiguousarray(generate(_SEED, 0, FRESH).inputs[:, 0])
    return worlds
