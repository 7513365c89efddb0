"""The right programs nearest to a student's: a search over edits, by their number.

    search = NearestSearch(EditedCode(source).bodies, inputs, outputs, seconds=1.0)
    search.run(until=time.perf_counter() + 1.0)
    search.repairs  # right on all examples, with the fewest edits that the search found

The programs one edit away are all run. Those two and three edits away are too many: the search continues from the
most promising ones, as `search.repair` does, with usual edits before rare ones. A program is promising if it is right
on many examples and nearly right on the others, and if its edits are usual.

The search can be interrupted and continued. `run_towards` directs it towards known right programs, for example those
that `solve` found.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.machine import run_batch
from karelsynth.search.repair import PER_EXAMPLE as SCORE_PER_EXAMPLE
from karelsynth.search.repair import ProgramScorer
from karelsynth.tutor.edits import HEAD, Edit, edits, flat_tokens

MOST_EDITS: Final = 3
"""The most edits of a repair. A student who needs more gets the next step instead."""
PER_EXAMPLE: Final = 2.0
PER_CELL: Final = 0.5
PER_COST: Final = 0.5
"""The priority of a program: what it gains for a right example, and pays for a wrong cell and for its edits' cost."""
MOST_EQUIVALENT: Final = 3
"""The most programs that are continued from among those that leave all examples in the same states."""
AT_ONCE: Final = 3_000
"""The most programs that are run before the clock is read."""
TICKS_AT_ONCE: Final = 5_000_000
"""Ticks of runs before the clock is read, some hundredths of a second, if all programs run as long as the student's."""
STAGES: Final = ((1, False, 0.35), (1, True, 0.5), (2, False, 1.0), (2, True, 1.0))
"""The stages after all programs one edit away have been run. Each continues from programs with so many edits, by usual
edits or (True) by unusual ones, and ends after that share of the time."""
WIDE: Final = 24
"""Programs of each level, the most promising ones, for which unusual edits are tried as well."""
MOST_QUEUED: Final = 500
"""The most programs of one run that wait to be expanded."""
FURTHER: Final = 40
"""After the first repair, at most so many programs are expanded to find more usual repairs with as many edits; or as
many as were expanded before it, if that is more."""
DIRECTED: Final = 4
"""Programs that are expanded at a time on the way towards known right ones."""
DIRECTED_ROUNDS: Final = 3
"""How many times this is done."""
PER_DISTANCE: Final = 10.0
"""The cost of edits that outweighs a token of distance on this way."""
LEAST_COST: Final = 0.5
"""The cost of the most usual edit."""
LONGEST: Final = 400
"""The most tokens of a program that is run."""


class Repair(NamedTuple):
    """A program and the edits that lead to it."""

    bodies: tuple[bytes, ...]
    tokens: bytes
    path: tuple[Edit, ...]
    cost: float
    edit_count: int


Candidate = tuple[bytes, Repair, Edit]
"""A program to run: its tokens, the program that it comes from, and the edit. Most are forgotten after their run."""


def repair_of(candidate: Candidate) -> Repair:
    """The program of a candidate with all its edits."""
    tokens, parent, edit = candidate
    path, count = (*parent.path, edit), parent.edit_count + edit.edit_count
    return Repair(edit.applied(parent.bodies), tokens, path, parent.cost + edit.cost, count)


@dataclass
class _Level:
    """The programs with a number of edits that wait to be expanded."""

    waiting: list[tuple[float, int, Repair]] = field(default_factory=list)
    """Priority, number, program."""
    by_behaviour: Counter[int] = field(default_factory=Counter)
    expanded: list[Repair] = field(default_factory=list)
    """Programs whose usual edits have been tried, but not the rare ones."""


class NearestSearch:
    """The search for one program.

    Args:
        bodies: a program that is wrong on some example, as `edits.EditedCode` has it.
        inputs, outputs: the examples as cell codes, uint8 [K, 18, 18].
        seconds: the most time of the whole search, not counting the time between calls of `run`.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        bodies: tuple[bytes, ...],
        inputs: NDArray[np.uint8],
        outputs: NDArray[np.uint8],
        *,
        seconds: float,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.seconds, self.clock = seconds, clock
        self.used = 0.0
        """Seconds so far."""
        self.tried = 0
        """How many programs were run."""
        self.first: list[Repair] = []
        """The programs one edit away."""
        self._root = Repair(bodies, flat_tokens(bodies), (), 0.0, 0)
        root, _ = token_rows([self._root.tokens])
        runs = run_batch(root, inputs, expected=outputs, keep_worlds=False)
        assert runs.correct is not None
        order = runs.correct[0].argsort(kind="stable")  # most wrong programs fail where this one does
        self._scorer, self._examples = ProgramScorer(inputs[order], outputs[order]), len(inputs)
        self._seen = {self._root.tokens}
        self._made: list[Candidate] = []
        """All programs that were run, but the right ones and those with MOST_EDITS."""
        self._pushed = 0
        self._best: tuple[float, int, Repair] | None = None
        self._levels = [_Level() for _ in range(MOST_EDITS + 1)]
        self._found: list[list[Repair]] = [[] for _ in range(MOST_EDITS + 1)]
        (right,), (wrong,), _ = self._scores([self._root.tokens], np.full(1, np.inf))
        self._root_priority = PER_CELL * wrong - PER_EXAMPLE * right
        ticks = int(runs.ticks.sum(dtype=np.int64))
        self._at_once = int(np.clip(TICKS_AT_ONCE // max(1, ticks), 1, AT_ONCE))
        self._rest = self._stages()

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """Right programs, all with equally many edits, the fewest; empty if none was found."""
        return tuple(next((found for found in self._found if found), ()))

    @property
    def best(self) -> Repair | None:
        """The program one edit away that comes nearest to being right, if it is nearer than the student's."""
        if self._best is None:
            return None
        priority, _, nearest = self._best
        return nearest if priority - PER_COST * nearest.cost < self._root_priority else None

    def close(self) -> None:
        """End the search and free its memory, which it would otherwise keep until the next garbage collection."""
        self._rest.close()

    def run(self, until: float, programs: float = math.inf) -> None:
        """Continue until a time on the clock. Without a repair, stop also after a number of programs in all."""
        began = self.clock() - self.used
        for _ in self._rest:
            now = self.clock()
            self.used = now - began
            if now >= until or (self.tried >= programs and not self.repairs):
                break

    def run_towards(self, targets: Sequence[bytes], until: float) -> None:
        """Expand the programs that are nearest to one of the targets, which are right ones, until one is right itself,
        or until a time on the clock."""
        heap: list[tuple[float, int, Candidate]] = []
        noted = 0
        for _ in range(DIRECTED_ROUNDS):
            new, noted = self._made[noted:], len(self._made)
            if new:
                distances = np.min([token_distances([tokens for tokens, *_ in new], each) for each in targets], axis=0)
                for each, distance in zip(new, distances.tolist(), strict=True):
                    cost = each[1].cost + each[2].cost
                    heapq.heappush(heap, (PER_DISTANCE * distance + cost, len(heap), each))
            queue = [repair_of(heapq.heappop(heap)[2]) for _ in range(min(DIRECTED, len(heap)))]
            for _, made in self._batches(queue, usual=True, rare=True):
                self._expand(made)
                if self.clock() >= until:
                    return
            if self.repairs:
                return

    def _stages(self) -> Generator[None]:
        """The whole search; yields whenever it can be interrupted."""
        for _, made in self._batches([self._root], usual=True, rare=True):
            self.first += map(repair_of, made)
            self._expand(made)
            self._best = min(self._levels[1].waiting, default=None)
            yield
        for depth, rare, share in STAGES:
            if any(self._found[: depth + 1]) or (rare and self._found[depth + 1]):
                return
            yield from self._stage(depth, share * self.seconds, rare=rare)

    def _stage(self, depth: int, end: float, *, rare: bool) -> Generator[None]:
        """Expand the programs of a level in their order, with usual or with rare edits, until one is right or the
        search has used the time up to `end`. Then expand those that may lead to more usual edits, so that a choice can
        be made."""
        level, found = self._levels[depth], self._found[depth + 1]
        level.waiting.sort()
        queue = level.expanded[:WIDE] if rare else [repair for _, _, repair in level.waiting]
        done = 0
        if self.used < end and not found:
            done = yield from self._expand_each(queue, end, found, rare=rare)
        if found:
            limit = min(repair.cost for repair in found) - LEAST_COST
            cheaper = sorted(
                (repair for repair in queue[done:] if repair.cost <= limit), key=lambda repair: repair.cost
            )
            yield from self._expand_each(cheaper[: max(FURTHER, done)], end, (), rare=rare)
        if not rare:
            level.expanded += queue[:done]
            del level.waiting[:done]

    def _expand_each(
        self, queue: Sequence[Repair], end: float, found: Sequence[Repair], *, rare: bool
    ) -> Generator[None, None, int]:
        """Expand programs until one is `found` or the time is up. Returns for how many all edits were tried."""
        done = 0
        for done, made in self._batches(queue, usual=not rare, rare=rare):  # noqa: B007 - returned
            self._expand(made)
            yield
            if self.used >= end or found:
                break
        return done

    def _batches(self, queue: Sequence[Repair], *, usual: bool, rare: bool) -> Iterator[tuple[int, list[Candidate]]]:
        """The new programs one edit away from those of a queue, in batches of about as many as are run at once.

        With each batch comes the number of programs of the queue for which all have been made.
        """
        made: list[Candidate] = []
        seen, most, before = self._seen, self._at_once, len(HEAD)
        for done, parent in enumerate(queue):
            bodies, flat, _, _, count = parent
            alone = len(bodies) == 1
            for edit in edits(bodies, usual=usual, rare=rare, most=MOST_EDITS - count):
                if alone:
                    tokens = flat[: before + edit.begin] + edit.middle + flat[before + edit.end :]
                else:
                    tokens = flat_tokens(edit.applied(bodies))
                if tokens not in seen and len(tokens) <= LONGEST:
                    seen.add(tokens)
                    made.append((tokens, parent, edit))
                    if len(made) >= most:
                        yield done, made
                        made = []
        yield len(queue), made

    def _scores(
        self, programs: Sequence[bytes], bounds: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]:
        """Right examples, wrong cells and a hash of the final states of programs, [N] each; see `ProgramScorer`."""
        self.tried += len(programs)
        return self._scorer(*token_rows(programs), bounds)

    def _expand(self, made: list[Candidate]) -> None:
        """Run programs. Those that are right on all examples are found; the promising ones of the others wait."""
        if not made:
            return
        counts = np.array([parent.edit_count + edit.edit_count for _, parent, edit in made])
        last = counts == MOST_EDITS  # these need not run on after their first wrong example
        bounds = np.where(last, -SCORE_PER_EXAMPLE * self._examples, np.inf)
        right, wrong, behaviours = self._scores([tokens for tokens, *_ in made], bounds)
        for row in np.flatnonzero(right == self._examples).tolist():
            self._found[counts[row]].append(repair_of(made[row]))
        rows = np.flatnonzero(~last & (right != self._examples))
        left = [made[row] for row in rows.tolist()]
        self._made += left
        costs = np.array([parent.cost + edit.cost for _, parent, edit in left])
        priorities = PER_CELL * wrong[rows] - PER_EXAMPLE * right[rows] + PER_COST * costs
        pushed = 0
        for at in priorities.argsort(kind="stable").tolist():
            level, behaviour = self._levels[counts[rows[at]]], int(behaviours[rows[at]])
            if level.by_behaviour[behaviour] < MOST_EQUIVALENT:
                level.by_behaviour[behaviour] += 1
                self._pushed += 1
                level.waiting.append((float(priorities[at]), self._pushed, repair_of(left[at])))
                pushed += 1
                if pushed == MOST_QUEUED:
                    break


def token_rows(programs: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Programs as rows of tokens, padded, [N, L], and their lengths [N]."""
    lengths = np.array([len(tokens) for tokens in programs])
    width = int(lengths.max())
    joined = b"".join([tokens.ljust(width, b"\0") for tokens in programs])
    return np.frombuffer(joined, np.uint8).reshape(len(programs), width), lengths


def token_distances(programs: Sequence[bytes], target: bytes) -> NDArray[np.int64]:
    """The edit distances of N sequences of tokens from one, by dynamic programming over all at once, int64 [N]."""
    rows, lengths = token_rows(programs)
    goal = np.frombuffer(target, np.uint8)[:, None]
    steps = np.arange(len(target) + 1, dtype=np.int16)[:, None]
    distances = np.repeat(steps, len(programs), axis=1)  # [goal + 1, N], of the empty prefix
    result: NDArray[np.int64] = distances[-1].astype(np.int64)
    for place in range(rows.shape[1]):
        best = np.minimum(distances[:-1] + (rows[:, place] != goal), distances[1:] + 1)  # changed or left out
        first = np.full((1, len(programs)), place + 1, np.int16)
        distances = np.minimum.accumulate(np.concatenate([first, best]) - steps) + steps  # or inserted
        ended = lengths == place + 1
        result[ended] = distances[-1, ended]
    return result
