"""Which of several answers to prefer: the network's favourite, unless another is clearly likelier to be right on more.

All are right on the given examples. MCMC (`posterior.MarkovChain`) samples programs that fit these examples, each with
a further example. The weight of the further examples that an answer is right on is its `chance`. Stop once the
network's favourite is nearly certain after a few thousand steps; otherwise run more steps. Only an answer that is
clearly better overrules it; the others follow by their chances. Tasks that the generator never makes have no chains;
there the network's order stays, and there are no chances, and likewise if time is up before the first look.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from karelsynth.karel.machine import encode_programs
from karelsynth.karel.threads import parallel_for
from karelsynth.posterior.mcmc import MarkovChain, PosteriorSamples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.solve.found import Search

STEPS: Final = 4_000
"""Of each chain at a time: some hundredths of a second."""
LOOKS: Final = (1, 2, 4, 8)
"""After how many times the chances are looked at; after the last one it ends."""
SURE: Final = 0.97
"""The chance of the network's favourite that is enough to end sooner."""
CLEARLY: Final = 1 - SURE
"""How much better another answer must be to be preferred to the favourite."""
_SEEDS: Final = (1, 2)
_ALONE: Final = 256
"""Work enough for a thread of its own (see `parallel_for`)."""


def prefer(search: Search, *, deadline: float, stop: Callable[[], bool], threads: int | None = None) -> None:
    """Put a task's answers, all of them right, in order, and tell their chances, as far as time allows.

    A single answer has nothing to be preferred to; its chance is told after the first look. That this is cut short does
    not count as stopping the search: all answers have been found.
    """

    def late() -> bool:
        return stop() or time.perf_counter() >= deadline

    if late():
        return
    programs = encode_programs([answer.program for answer in search.answers])
    chains = [MarkovChain(search.inputs, search.outputs, programs, seed=seed) for seed in _SEEDS]
    chains = [chain for chain in chains if chain.started]
    if not chains:
        return

    def work(first: int, last: int) -> None:
        for chain in chains[first:last]:
            chain.run(STEPS)

    def look() -> NDArray[np.float64]:
        return PosteriorSamples.join([chain.samples for chain in chains]).probabilities(programs, threads)

    chances, looked, times = None, 0, 0
    while times < LOOKS[-1] and not late():
        parallel_for(work, len(chains), _ALONE, threads)
        times += 1
        if times in LOOKS:
            chances, looked = look(), times
            if len(programs) == 1 or chances[0] >= SURE:
                break
    if looked < times:  # it was cut short
        chances = look()
    if chances is not None:
        order = np.argsort(-chances, kind="stable")
        if chances[order[0]] - chances[0] <= CLEARLY:
            order = np.concatenate([[0], order[order != 0]])
        search.answers = [replace(search.answers[row], probability=float(chances[row])) for row in order]
