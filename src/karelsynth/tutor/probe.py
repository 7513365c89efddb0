"""Probing a task: is it well posed?

    report = probe(task, reference)
    report.impostors  # simple wrong programs that pass all examples, each with a small world that unmasks it
    impossible_examples(task)  # examples that no program can turn into their outputs, each with the reason

An impostor is right on every example of the task, yet does something else than the reference on another world of the
same kind. Impostors are searched one and two edits away from the reference, and among short programs. The world that
unmasks one is made as small as possible.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.errors import KarelsynthError
from karelsynth.karel.dialects import read_source
from karelsynth.karel.dialects.source import SourceProgram
from karelsynth.karel.formats.codes import FRAME, HERO, WALL, world_from_codes
from karelsynth.karel.interpreter import Run
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import ACTIONS, ID
from karelsynth.karel.world import LARGEST_SIDE, MOST_MARKERS, STEP, Cell, World
from karelsynth.search.repair import ProgramScorer
from karelsynth.tasks.task import MOST_EXAMPLES, Example, Task
from karelsynth.tasks.variations import RandomVariations, smaller
from karelsynth.tutor.edits import edits, flat_tokens, one_function
from karelsynth.tutor.explain import TUTOR_TICKS, cell_name, difference_sentences, differing_piles
from karelsynth.tutor.nearest import token_rows

WORLDS: Final = 256
"""Varied worlds on which programs are compared with the reference."""
MOST_VARIED: Final = 12
"""How many sets of varied worlds are tried, one after the other, to unmask a program."""
MOST_SHOWN: Final = 10
DEFAULT_PROGRAMS: Final = 100_000
"""About how many programs are tried. It is a number, not a time, so that the result does not depend on how busy the
machine is."""
_GENERATIONS, _PARENTS, _CHILDREN = 6, 12, 64
"""How many times the largest worlds are varied again, how many of them, and into how many."""
MOST_ROUNDS: Final = 5
"""The most searches in which worlds are added."""
_MOST_THINGS: Final = LARGEST_SIDE * LARGEST_SIDE * (MOST_MARKERS + 1)
"""More walls and markers than a world has."""


@dataclass(frozen=True)
class Impostor:
    """A wrong program that passes all examples of a task."""

    program: Program
    world: World
    """A small world on which it does something else than the reference."""
    expected: World
    """What the reference makes of it."""
    actual: World
    """What the impostor makes of it; if it fails, the world at that point."""
    explanation: str
    """What the impostor does there instead, in sentences."""
    share: float
    """The share of varied worlds on which it is wrong."""

    def to_json(self, dialect: str) -> dict[str, Any]:
        """As plain data."""
        return {
            "program": self.program.to(dialect),
            "world": self.world.to_text(),
            "expected": self.expected.to_text(),
            "actual": self.actual.to_text(),
            "explanation": self.explanation,
            "share": self.share,
        }


@dataclass(frozen=True)
class ProbeReport:
    """What a probe found."""

    task: Task
    """The task, with the added examples if they were wanted."""
    reference: Program
    impostors: tuple[Impostor, ...]
    """Those that pass all examples of `task`, the simplest first, at most MOST_SHOWN."""
    passing: int
    """How many wrong programs pass."""
    added: tuple[Example, ...]
    tried: int
    """How many programs were run on the examples."""
    seconds: float

    @property
    def well_posed(self) -> bool:
        """Whether no wrong program was found that passes."""
        return not self.passing

    def to_json(self, dialect: str = "paper") -> dict[str, Any]:
        """As plain data, with programs in a dialect."""
        return {
            "well_posed": self.well_posed,
            "reference": self.reference.to(dialect),
            "passing": self.passing,
            "impostors": [each.to_json(dialect) for each in self.impostors],
            "added": [{"input": pair.input.to_text(), "output": pair.output.to_text()} for pair in self.added],
            "tried": self.tried,
            "seconds": self.seconds,
        }


# Outputs that cannot be reached


def impossible_examples(task: Task) -> list[tuple[int, str]]:
    """Examples that no program can do, by number from 1, with the proof in a sentence.

    Karel reaches only cells that a path leads to. It changes markers only there. (Karel's bag is never empty.)
    """
    found = []
    for number, (before, after) in enumerate(task.examples, 1):
        reach = reachable(before)
        if after.hero[:2] not in reach:
            ends = f"from {cell_name(before.hero[:2])} to {cell_name(after.hero[:2])}"
            found.append((number, f"no way leads Karel {ends}: walls close it off"))
            continue
        closed = next((cell for cell in differing_piles(before, after) if cell not in reach), None)
        if closed is not None:
            reason = f"the markers at {cell_name(closed)} change, but walls keep Karel from getting there"
            found.append((number, reason))
    return found


def reachable(world: World) -> set[Cell]:
    """The cells that Karel can get to."""
    reach, waiting = {world.hero[:2]}, [world.hero[:2]]
    while waiting:
        row, col = waiting.pop()
        for by_row, by_col in STEP.values():
            cell = row + by_row, col + by_col
            if cell not in reach and world.is_clear(cell):
                reach.add(cell)
                waiting.append(cell)
    return reach


# Worlds that unmask


class Comparison:
    """Varied worlds of a task on which the reference ends well, with its outcomes: cell codes [W, 18, 18].

    `larger` worlds, varied again and again, unmask what is wrong on large worlds only, and many programs at once.
    """

    def __init__(self, task: Task, reference: Program, *, seed: int = 0, larger: bool = False) -> None:
        inputs, _ = task.codes()
        every = np.concatenate([inputs, RandomVariations(inputs, seed).worlds(WORLDS)])
        every = np.concatenate([every, *(smaller(world) for world in every[:8])])
        for generation in range(_GENERATIONS if larger else 0):
            largest = every[np.argsort(_sizes(every), kind="stable")[-_PARENTS:]]
            every = np.concatenate([every, RandomVariations(largest, seed + generation + 1).worlds(_CHILDREN)])
        _, first = np.unique(every.reshape(len(every), -1), axis=0, return_index=True)
        worlds = every[np.sort(first)]
        runs = run_batch([reference], worlds, max_ticks=TUTOR_TICKS)
        assert runs.worlds is not None
        self.reference = reference
        self.inputs, self.outputs = worlds[runs.ok[0]], runs.worlds[0, runs.ok[0]]

    def wrong(self, programs: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """On which worlds programs [N, L] differ from the reference, bool [N, W]."""
        runs = run_batch(programs, self.inputs, expected=self.outputs, keep_worlds=False, max_ticks=TUTOR_TICKS)
        assert runs.correct is not None
        return ~runs.correct

    def smallest(self, program: Program, wrong: NDArray[np.bool_]) -> World | None:
        """The smallest world among those on which a program is wrong, made smaller as long as it still is."""
        if not wrong.any():
            return None
        places = np.flatnonzero(wrong)
        return world_from_codes(self.shrunk(int(places[_sizes(self.inputs[places]).argmin()]), [program]))

    def shrunk(self, place: int, programs: Sequence[Program]) -> NDArray[np.uint8]:
        """A world [18, 18], made smaller as long as all these programs are wrong on it."""
        tokens, world = encode_programs(programs), self.inputs[place]
        while True:
            candidates = smaller(world)
            if len(candidates):
                candidates = candidates[wrong_on(self.reference, tokens, candidates).all(0)]
            if not len(candidates):
                return np.asarray(world)
            world = candidates[_sizes(candidates).argmin()]


def wrong_on(
    reference: Program, programs: NDArray[np.uint8], worlds: Sequence[World] | NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """On which worlds [W, 18, 18] the reference ends well and programs [N, L] do not do the same, bool [N, W]."""
    right = run_batch([reference], worlds, max_ticks=TUTOR_TICKS)
    assert right.worlds is not None
    runs = run_batch(programs, worlds, expected=right.worlds[0], keep_worlds=False, max_ticks=TUTOR_TICKS)
    assert runs.correct is not None
    return np.asarray(right.ok[0] & ~runs.correct)


def differing(reference: Program, program: Program, worlds: Sequence[World] | NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Deprecated: use `wrong_on`; removed in 0.2."""
    return np.asarray(wrong_on(reference, encode_programs([program]), worlds)[0])


def as_source(program: Program) -> SourceProgram:
    """Deprecated: use `read_source` of the program's text; removed in 0.2."""
    return read_source(program.to("tokens"))


def unmasking_world(task: Task, reference: Program, program: Program, *, seed: int = 0) -> World | None:
    """The smallest world found on which a program does something else than the reference; None if none was found."""
    for turn in range(MOST_VARIED):
        comparison = Comparison(task, reference, seed=seed + turn)
        wrong = comparison.wrong(encode_programs([program]))[0]
        if wrong.any():
            return comparison.smallest(program, wrong)
    return None


def _sizes(worlds: NDArray[np.uint8]) -> NDArray[np.int64]:
    """How large worlds [N, 18, 18] are, [N]: by cells, then by walls and markers."""
    content = (worlds % HERO).astype(np.int64)
    cells, walls = content < FRAME, content == WALL
    markers = np.where(cells & ~walls, content, 0).sum((1, 2))
    return np.asarray(cells.sum((1, 2)) * _MOST_THINGS + walls.sum((1, 2)) + markers)


# Impostors


def probe(
    task: Task,
    reference: Program,
    *,
    add: bool = False,
    programs: int = DEFAULT_PROGRAMS,
    thorough: bool = True,
    seconds: float = math.inf,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> ProbeReport:
    """Search wrong programs that pass all examples of a task. With `add`, add worlds that unmask them, all if possible.

    A task with more examples leads the search elsewhere. So after worlds have been added, it begins again.

    Args:
        programs: a search ends after about so many; those one edit away and the shortest ones are always tried.
        thorough: compare on larger worlds, too, and with `add` search again, up to MOST_ROUNDS times, until a search
            finds nothing.
        seconds: the most time to search, for callers who cannot wait. If it ends the search, another call may find
            other programs.
        clock: returns the time in seconds.

    Raises KarelsynthError if the reference is not right on the task's examples, or if an example is impossible.
    """
    start = clock()
    for number, reason in impossible_examples(task):
        raise KarelsynthError(f"example {number} cannot be done by any program: {reason}")
    check_reference(task, reference)
    given, tried = len(task.examples), 0
    for number in range(MOST_ROUNDS if add and thorough else 1):
        end = start + (seconds / 2 if add and number == 0 else seconds)
        comparison = Comparison(task, reference, seed=seed, larger=thorough)
        passing, more = _passing(task, comparison, programs, end, clock)
        tried += more
        if not add or not passing:
            break
        task, passing = _with_worlds_against(passing, task, comparison)
        if passing or clock() > start + seconds:
            break
    impostors = _described(comparison, passing)
    return ProbeReport(task, reference, impostors, len(passing), task.examples[given:], tried, clock() - start)


def check_reference(task: Task, reference: Program) -> None:
    """Raise KarelsynthError if a program is not right on the task's examples."""
    for number, (before, after) in enumerate(task.examples, 1):
        outcome = reference.run(before, max_ticks=TUTOR_TICKS)
        if not outcome.ok or outcome.world != after:
            raise KarelsynthError(f"the reference is wrong on example {number}. {_what_happens(outcome, after)}")


def _with_worlds_against(passing: list[Program], task: Task, comparison: Comparison) -> tuple[Task, list[Program]]:
    """The task with worlds that unmask programs, as far as it may have more examples; the programs that still pass."""
    reference = comparison.reference
    while passing and len(task.examples) < MOST_EXAMPLES:
        wrong = comparison.wrong(encode_programs(passing))
        best = int(wrong.sum(0).argmax())  # the world that unmasks most of them
        unmasked = [program for program, differs in zip(passing, wrong[:, best], strict=True) if differs]
        codes = comparison.shrunk(best, unmasked)
        world = world_from_codes(codes)
        example = Example(world, reference.run(world, max_ticks=TUTOR_TICKS).world)
        task = replace(task, examples=(*task.examples, example))
        keep = ~wrong_on(reference, encode_programs(passing), codes[None])[:, 0]
        passing = [program for program, kept in zip(passing, keep, strict=True) if kept]
    return task, passing


def _passing(
    task: Task, comparison: Comparison, most: int, end: float, clock: Callable[[], float]
) -> tuple[list[Program], int]:
    """Wrong programs that pass, simplest first, one for each behaviour on the compared worlds; how many were run.

    The search ends after `most` programs, or when the clock is past `end`.
    """
    scorer = ProgramScorer(*task.codes())
    seen: set[bytes] = set()
    found: dict[bytes, Program] = {}
    tried = 0

    def check(candidates: list[bytes]) -> list[bytes]:
        """The candidates that pass; notes the wrong ones among them."""
        nonlocal tried
        if not candidates:
            return []
        tried += len(candidates)
        rows, lengths = token_rows(candidates)
        right, _, _ = scorer(rows, lengths, np.full(len(rows), np.inf))
        passes = np.flatnonzero(right == len(task.examples))
        if len(passes):
            wrong = comparison.wrong(rows[passes])
            for row, differs in zip(passes.tolist(), wrong, strict=True):
                if differs.any():
                    program = Program.from_tokens(list(candidates[row]))
                    known = found.setdefault(differs.tobytes(), program)
                    if program.size < known.size:
                        found[differs.tobytes()] = program
        return [candidates[row] for row in passes.tolist()]

    def neighbours(program: bytes) -> list[bytes]:
        """The programs one edit away that are new."""
        made, bodies = [], one_function(program)
        for edit in edits(bodies):
            tokens = flat_tokens(edit.applied(bodies))
            if tokens not in seen:
                seen.add(tokens)
                made.append(tokens)
        return made

    root = bytes(comparison.reference.token_ids)
    seen.add(root)
    near = neighbours(root)
    waiting = check(near)
    check([tokens for tokens in _short_programs() if tokens not in seen])
    for tokens in [*waiting, *near]:  # two edits away, first from those that pass
        if tried >= most or clock() > end:
            break
        check(neighbours(tokens))
    return sorted(found.values(), key=lambda program: program.size), tried


@cache
def _short_programs() -> list[bytes]:
    """Programs of up to two edits from a single action: the simplest ones there are."""
    found: dict[bytes, None] = {}
    for action in ACTIONS:
        root = (bytes([ID[action]]),)
        for edit in edits(root):
            bodies = edit.applied(root)
            found[flat_tokens(bodies)] = None
            for second in edits(bodies, rare=False):
                found[flat_tokens(second.applied(bodies))] = None
    return list(found)


def _described(comparison: Comparison, programs: Sequence[Program]) -> tuple[Impostor, ...]:
    described = []
    for program in programs[:MOST_SHOWN]:
        wrong = comparison.wrong(encode_programs([program]))[0]
        world = comparison.smallest(program, wrong)
        assert world is not None
        outcome = program.run(world, max_ticks=TUTOR_TICKS)
        expected = comparison.reference.run(world, max_ticks=TUTOR_TICKS).world
        what = _what_happens(outcome, expected)
        described.append(Impostor(program, world, expected, outcome.world, what, float(wrong.mean())))
    return tuple(described)


def _what_happens(outcome: Run, expected: World) -> str:
    """What a run does instead of ending in the expected world, in sentences."""
    return " ".join(difference_sentences(expected, outcome.world)) if outcome.ok else f"It {outcome.explain()}."
