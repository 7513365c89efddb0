"""The right programs nearest to a student's: a search over edits, by their number.

    found = nearest_programs(code_of(source).bodies, inputs, outputs, deadline=time.perf_counter() + 1.0)
    found.repairs  # right on all examples, with the fewest edits that the search found

The programs one edit away are all run. Those two and three edits away are too many: the search continues from the
most promising ones, as `search.repair` does, with usual edits before rare ones. A program is promising if it is right
on many examples and nearly right on the others, and if its edits are usual.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karelsynth.search.repair import ProgramScorer
from karelsynth.tutor.edits import HEAD, TAIL, Edit, edits, flat_tokens

MOST_EDITS: Final = 3
"""The most edits of a repair. A student who needs more gets the next step instead."""
PER_EXAMPLE: Final = 2.0
PER_CELL: Final = 0.5
PER_COST: Final = 0.5
"""The priority of a program: what it gains for a right example, and pays for a wrong cell and for its edits' cost."""
MOST_EQUIVALENT: Final = 3
"""The most programs that are continued from among those that leave all examples in the same states."""
AT_ONCE: Final = 3_000
"""About how many programs are run before the clock is read."""
STAGES: Final = ((1, False, 0.35), (1, True, 0.5), (2, False, 1.0), (2, True, 1.0))
"""After all programs one edit away: from how many edits the search continues, whether with unusual edits too, and the
share of the time at which the stage ends."""
WIDE: Final = 24
"""Programs of each level, the most promising ones, for which unusual edits are tried as well."""
MOST_QUEUED: Final = 500
"""The most programs of one run that wait to be expanded."""
FURTHER: Final = 40
"""Programs, at least, that are expanded after the first repair to find more usual ones with as many edits."""
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

    @property
    def edit_count(self) -> int:
        """The number of edits."""
        return sum(edit.edit_count for edit in self.path)


@dataclass(frozen=True)
class NearestPrograms:
    """The result of a search."""

    repairs: tuple[Repair, ...]
    """Right programs, all with equally many edits; empty if none was found."""
    best: Repair | None
    """Without repairs: the program one edit away that comes nearest to being right, if it is nearer than before."""
    neighbours: tuple[Repair, ...]
    """Without repairs: all programs one edit away."""
    tried: int
    """How many programs were run."""


@dataclass
class _Level:
    """The programs with a number of edits that wait to be expanded."""

    waiting: list[tuple[float, int, Repair]] = field(default_factory=list)
    """Priority, number, program."""
    by_behaviour: Counter[int] = field(default_factory=Counter)
    expanded: list[Repair] = field(default_factory=list)
    """Programs whose usual edits have been tried, but not the rare ones."""


def nearest_programs(
    bodies: tuple[bytes, ...],
    inputs: NDArray[np.uint8],
    outputs: NDArray[np.uint8],
    *,
    deadline: float,
    clock: Callable[[], float] = time.perf_counter,
) -> NearestPrograms:
    """Search until `deadline` on a clock.

    Args:
        bodies: a program that is wrong on some example, as `edits.code_of` makes it.
        inputs, outputs: the examples as cell codes, uint8 [K, 18, 18].
    """
    return _Search(bodies, inputs, outputs, clock).run(deadline)


class _Search:
    def __init__(
        self,
        bodies: tuple[bytes, ...],
        inputs: NDArray[np.uint8],
        outputs: NDArray[np.uint8],
        clock: Callable[[], float],
    ) -> None:
        self.scorer, self.clock = ProgramScorer(inputs, outputs), clock
        self.examples = len(inputs)
        self.root = Repair(bodies, flat_tokens(bodies), (), 0.0)
        self.seen = {self.root.tokens}
        self.tried = self.pushed = 0
        self.levels = [_Level() for _ in range(MOST_EDITS + 1)]
        self.found: list[list[Repair]] = [[] for _ in range(MOST_EDITS + 1)]

    def run(self, deadline: float) -> NearestPrograms:
        start = self.clock()
        (right,), (wrong,), _ = self.scores([self.root])
        first = self.neighbours(self.root, usual=True, rare=True)
        self.expand(first)
        best = min(self.levels[1].waiting, default=None)
        for depth, rare, share in STAGES:
            if any(self.found[: depth + 1]) or (rare and self.found[depth + 1]):
                break
            self.stage(depth, start + share * (deadline - start), rare=rare)
        for found in self.found:
            if found:
                return NearestPrograms(tuple(found), None, (), self.tried)
        better = best is not None and best[0] - PER_COST * best[2].cost < PER_CELL * wrong - PER_EXAMPLE * right
        return NearestPrograms((), best[2] if best is not None and better else None, tuple(first), self.tried)

    def stage(self, depth: int, until: float, *, rare: bool) -> None:
        """Expand the programs of a level in their order, with usual or with rare edits, until one is right. Then expand
        those that may lead to more usual edits, so that a choice can be made."""
        level = self.levels[depth]
        level.waiting.sort()
        queue = level.expanded[:WIDE] if rare else [repair for _, _, repair in level.waiting]
        done = 0
        while done < len(queue) and self.clock() < until and not self.found[depth + 1]:
            made: list[Repair] = []
            while done < len(queue) and len(made) < AT_ONCE:
                made += self.neighbours(queue[done], usual=not rare, rare=rare)
                done += 1
            self.expand(made)
        if self.found[depth + 1]:
            self.cheaper(queue[done:], max(FURTHER, done), until, depth, rare=rare)
        if not rare:
            level.expanded += queue[:done]
            del level.waiting[:done]

    def cheaper(self, rest: list[Repair], most: int, until: float, depth: int, *, rare: bool) -> None:
        """After the first repairs of a level: expand programs that may lead to more usual ones, the cheapest first."""
        limit = min(repair.cost for repair in self.found[depth + 1]) - LEAST_COST
        queue = sorted((repair for repair in rest if repair.cost <= limit), key=lambda repair: repair.cost)[:most]
        done = 0
        while done < len(queue) and self.clock() < until:
            made: list[Repair] = []
            while done < len(queue) and len(made) < AT_ONCE:
                made += self.neighbours(queue[done], usual=not rare, rare=rare)
                done += 1
            self.expand(made)

    def neighbours(self, repair: Repair, *, usual: bool, rare: bool) -> list[Repair]:
        """The new programs one edit away."""
        found = []
        bodies, _, path, cost = repair
        seen, alone = self.seen, len(bodies) == 1
        head, tail = (HEAD, TAIL) if alone else (b"", b"")
        body = bodies[0]
        for edit in edits(bodies, usual=usual, rare=rare):
            if alone:
                changed: tuple[bytes, ...] = (body[: edit.begin] + edit.middle + body[edit.end :],)
                tokens = head + changed[0] + tail
            else:
                changed = edit.applied(bodies)
                tokens = flat_tokens(changed)
            if tokens not in seen and len(tokens) <= LONGEST:
                seen.add(tokens)
                found.append(Repair(changed, tokens, (*path, edit), cost + edit.cost))
        return found

    def scores(self, made: list[Repair]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]:
        """Right examples, wrong cells and a hash of the final states of programs, [N] each."""
        width = max(len(repair.tokens) for repair in made)
        joined = b"".join([repair.tokens.ljust(width, b"\0") for repair in made])
        rows = np.frombuffer(joined, np.uint8).reshape(len(made), width)
        lengths = np.array([len(repair.tokens) for repair in made])
        self.tried += len(made)
        return self.scorer(rows, lengths, np.full(len(made), np.inf))

    def expand(self, made: list[Repair]) -> None:
        """Run programs. Those that are right on all examples are found; the promising ones of the others wait."""
        if not made:
            return
        right, wrong, behaviours = self.scores(made)
        for row in np.flatnonzero(right == self.examples).tolist():
            if made[row].edit_count <= MOST_EDITS:
                self.found[made[row].edit_count].append(made[row])
        costs = np.array([repair.cost for repair in made])
        priorities = PER_CELL * wrong - PER_EXAMPLE * right + PER_COST * costs
        pushed = 0
        for row in priorities.argsort(kind="stable").tolist():
            count = made[row].edit_count
            if right[row] == self.examples or count >= MOST_EDITS:
                continue
            level, behaviour = self.levels[count], int(behaviours[row])
            if level.by_behaviour[behaviour] < MOST_EQUIVALENT:
                level.by_behaviour[behaviour] += 1
                self.pushed += 1
                level.waiting.append((float(priorities[row]), self.pushed, made[row]))
                pushed += 1
                if pushed == MOST_QUEUED:
                    break
