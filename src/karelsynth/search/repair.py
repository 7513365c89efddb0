"""Repair of near misses: from programs that are right on some examples, one change at a time, to one right on all.

    found = repair(tokens, lengths, logprobs, inputs, outputs, stop=lambda: time.monotonic() > late)

A network that has not found an answer has mostly written most of it: a branch is missing, or a condition is the wrong
one. A best-first search takes the most promising programs so far, makes everything that is one change away from them
(see `repair_kernel`), and runs all of that on the examples; two cores run some hundred thousand programs a second, and
leave off where a program cannot become promising any more.
Promising is what is right on many examples and nearly so on the others, was likely to begin with, is short, and has not
been changed often. Programs that lead all examples to the same ends are the same so far: a few of each kind go on.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from karelsynth.karel.grammar import KAREL
from karelsynth.karel.machine import heroes_of
from karelsynth.karel.machine_kernel import CELLS
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.karel.threads import parallel_for
from karelsynth.karel.tokens import PAD
from karelsynth.search.repair_kernel import MOST, judge_range, neighbours

if TYPE_CHECKING:
    from numpy.typing import NDArray

PER_EXAMPLE: Final = 2.0
"""What being right on one more example is worth."""
PER_CELL: Final = 0.5
"""What a cell that is not as it should be costs."""
PER_NAT: Final = 0.15
"""What a nat less of likelihood costs, of the program that the network wrote."""
PER_CHANGE: Final = 1.0
"""What each change since then costs."""
PER_TOKEN: Final = 0.05
AT_ONCE: Final = 8
"""How many programs are changed at a time: more of them keep all cores busy, fewer are more choosy."""
KEPT: Final = 20
"""How many neighbours of a program, on average, may be taken further."""
ALIKE: Final = 3
"""How many programs with the same ends may."""
OPEN: Final = 512
"""How many programs are queued to be changed. At twice as many the less promising half is dropped; from then on, while
this many are queued, programs less promising than all that were kept are given up early."""
_SEEN: Final = 1 << 22
"""Places of the table of programs that were met; it is never more than half full."""


@dataclass(frozen=True)
class Repaired:
    """What a repair found: programs that are right on all examples, all of them one change away from a few, or all of
    them among those that it began with.

    Or, if there is none, the one that came nearest of those that were taken further; without a program to begin with,
    not even that.
    """

    tokens: NDArray[np.uint8]
    """[N, L], padded with `<pad>`."""
    lengths: NDArray[np.int64]
    solves: bool
    tried: int
    """How many programs were run."""


class _Judge:
    """Runs programs on a task's examples."""

    def __init__(self, inputs: NDArray[np.uint8], outputs: NDArray[np.uint8]) -> None:
        self.examples = len(inputs)
        self._heroes = heroes_of("inputs", inputs[None])[0]
        self._inputs, self._targets = (np.ascontiguousarray(part).reshape(-1, CELLS) for part in (inputs, outputs))

    def __call__(
        self, tokens: NDArray[np.uint8], lengths: NDArray[np.int64], bounds: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]:
        """On how many examples programs [N, L] are right, by how many cells not, and a number for what they do.

        -1 for those that do not parse or are certain to come to more than their bounds [N]; see `judge_range`.
        """
        right, wrong = np.empty(len(tokens), np.int64), np.empty(len(tokens), np.int64)
        behaviour, parser = np.empty(len(tokens), np.uint64), compile_grammar(KAREL).parser

        def work(first: int, last: int) -> None:
            judge_range(
                first, last, tokens, lengths, self._inputs, self._heroes, self._targets, parser,
                PER_EXAMPLE, PER_CELL, bounds, right, wrong, behaviour,
            )  # fmt: skip

        parallel_for(work, len(tokens), self.examples, None)
        return right, wrong, behaviour


class _Waiting:
    """Programs that wait to be changed, those with the least `price` first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, NDArray[np.uint8], float, int]] = []
        self._kinds: Counter[int] = Counter()
        self._pushed, self._dearest = 0, np.inf

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def bound(self) -> float:
        """The price above which a program need not be queued: enough better ones are, or have been."""
        return self._dearest if len(self._heap) >= OPEN else np.inf

    def push(self, price: float, program: NDArray[np.uint8], cost: float, kind: int) -> bool:
        """Queue a program and what it has cost so far, unless enough of its kind are or have been here."""
        if self._kinds[kind] >= ALIKE:
            return False
        self._kinds[kind] += 1
        self._pushed += 1  # of two that are equal the older one goes first
        heapq.heappush(self._heap, (price, self._pushed, program.copy(), cost, kind))
        return True

    def pop(self) -> tuple[NDArray[np.uint8], float]:
        """The most promising one, and what it has cost so far."""
        _, _, program, cost, _ = heapq.heappop(self._heap)
        return program, cost

    def trim(self) -> None:
        """Let the least promising ones go if there are too many. Others of their kinds may then come."""
        if len(self._heap) > 2 * OPEN:
            self._heap.sort()  # which leaves it a heap
            self._kinds.subtract(entry[-1] for entry in self._heap[OPEN:])
            del self._heap[OPEN:]
            self._dearest = self._heap[-1][0]


def repair(
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    logprobs: NDArray[np.floating],
    inputs: NDArray[np.uint8],
    outputs: NDArray[np.uint8],
    *,
    longest: int,
    stop: Callable[[], bool],
) -> Repaired:
    """Search from programs [N, L], those that parse, until something is right on all examples or it is told to stop.

    Args:
        logprobs: [N], the programs' log-probabilities.
        inputs, outputs: the examples, uint8 [K, 18, 18].
        longest: how long a program may become, in tokens.
        stop: asked after every AT_ONCE programs, some dozen times a second.
    """
    judge = _Judge(inputs, outputs)
    seen = np.zeros(_SEEN, np.uint64)
    made, sizes = np.zeros((AT_ONCE * MOST, longest), np.uint8), np.empty(AT_ONCE * MOST, np.int64)
    waiting, tried = _Waiting(), 0
    nearest, best = (-1, 0), np.zeros(0, np.uint8)

    def queue(rows: NDArray[np.uint8], counts: NDArray[np.int64], costs: NDArray[np.float64], most: int) -> list[int]:
        """Judge programs that have cost so much so far, and queue the most promising; returns those that are right."""
        nonlocal nearest, best
        own = costs + PER_TOKEN * counts
        right, wrong, behaviour = judge(rows, counts, waiting.bound - own)
        prices = own + PER_CELL * wrong - PER_EXAMPLE * right
        pushed = 0
        judged = np.flatnonzero(right >= 0)
        for row in judged[prices[judged].argsort(kind="stable")]:
            program = rows[row, : counts[row]]
            if waiting.push(prices[row], program, costs[row], int(behaviour[row])):
                if (right[row], -wrong[row]) > nearest:
                    nearest, best = (right[row], -wrong[row]), program.copy()
                pushed += 1
                if pushed == most:
                    break
        waiting.trim()
        return np.flatnonzero(right == judge.examples).tolist()

    def result(rows: NDArray[np.uint8], counts: NDArray[np.int64], *, solves: bool) -> Repaired:
        padded = np.where(np.arange(rows.shape[1]) < counts[:, None], rows, PAD).astype(np.uint8)
        return Repaired(padded, counts, solves, tried)

    short = lengths <= longest
    own = -PER_NAT * logprobs[short].astype(np.float64)
    given, counts = np.ascontiguousarray(tokens[short]), lengths[short].astype(np.int64)
    if answers := queue(given, counts, own, len(given)):
        return result(given[answers], counts[answers], solves=True)
    while waiting and not stop() and tried < _SEEN // 2 - AT_ONCE * MOST:
        count, costs = 0, []
        for _ in range(min(AT_ONCE, len(waiting))):
            program, cost = waiting.pop()
            more = neighbours(program, len(program), longest, seen, made[count : count + MOST], sizes[count:])
            costs.append(np.full(more, cost + PER_CHANGE))
            count += more
        tried += count
        if answers := queue(made[:count], sizes[:count], np.concatenate(costs), KEPT * len(costs)):
            return result(made[answers], sizes[answers], solves=True)
    some = int(len(best) > 0)
    return result(best[None][:some], np.full(some, len(best)), solves=False)
