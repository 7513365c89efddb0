"""Which of several answers to prefer: the one that is likeliest to be right on what it has not seen.

All are right on the given examples. Chains (`posterior.Chain`) draw programs that fit these, each as likely as it is by
the generator's own chances, and with each a further example: the share of these that an answer is right on is its
`chance`. If the network's favourite is best after a few thousand steps, that is that; else more steps are made. Tasks
that the generator never makes have no chains; there the network's order stays, and there are no chances.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from karelsynth.karel.machine import encode_programs
from karelsynth.karel.threads import share_out
from karelsynth.posterior.chain import Chain, Samples

if TYPE_CHECKING:
    from karelsynth.solve.found import Search

STEPS: Final = (4_000, 4_000, 8_000)
"""Of each chain, one round after the other."""
_AT_LEAST: Final = 2
"""Rounds that are made in any case."""
_SEEDS: Final = (1, 2)
_BEGINNING: Final = 0.1
"""The share of what a chain has noted that is left out: it depends on where it started."""
_ALONE: Final = 256
"""Work enough for a thread of its own (see `share_out`)."""


def prefer(search: Search, *, deadline: float, stop: Callable[[], bool], threads: int | None = None) -> None:
    """Put a task's answers, all of them right, in order, and tell their chances, as far as time allows."""
    programs = encode_programs([answer.program for answer in search.answers])
    chains = [Chain(search.inputs, search.outputs, programs, seed=seed) for seed in _SEEDS]
    if not all(chain.started for chain in chains):
        return
    noted: list[list[Samples]] = [[] for _ in chains]
    chances = None
    for round_, steps in enumerate(STEPS):
        if stop() or time.perf_counter() >= deadline:
            break

        def work(first: int, last: int, steps: int = steps) -> None:
            for number in range(first, last):
                noted[number].append(chains[number].walk(steps))

        share_out(work, len(chains), _ALONE, threads)
        whole = [Samples.join(parts) for parts in noted]
        samples = Samples.join([part[int(_BEGINNING * len(part)) :] for part in whole])
        chances = samples.agreement(programs).mean(1)
        if round_ + 1 >= _AT_LEAST and chances[0] == chances.max():
            break
    if chances is not None:
        order = np.argsort(-chances, kind="stable")
        search.answers = [replace(search.answers[row], chance=float(chances[row])) for row in order]
