"""Posing exercises: tasks with the concepts of a lesson, from easy to hard.

    exercises = pose(Wish(concepts={"while", "ifelse"}, tokens=(21, 35)), count=20, seed=7)

Programs and worlds are purposeful ones (`tasks.purposeful`), simplified. An exercise is kept if its examples leave no
doubt: no program that the search finds is as short as the stated one, passes all examples, and does something else
elsewhere. Examples that unmask such programs are added.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from karelsynth.errors import KarelsynthError, listed, nearest
from karelsynth.karel.formats.codes import world_from_codes
from karelsynth.karel.program import Action, Block, If, IfElse, Program, Repeat, While, inner_blocks
from karelsynth.karel.world import Hero, World
from karelsynth.tasks.purposeful.generator import generate_purposeful, plans_of
from karelsynth.tasks.simplify import simplify
from karelsynth.tasks.task import Example, Task
from karelsynth.tasks.variations import fresh_examples
from karelsynth.tutor.probe import probe

CONCEPTS: Final = ("sequence", "repeat", "while", "if", "ifelse", "nested")
"""What an exercise can be about. `sequence` is none of the others; `nested` is a block with control inside control."""
_LEAST_TOKENS: Final = {"repeat": 4, "while": 6, "if": 6, "ifelse": 10}
"""Tokens that a control statement adds to a program with one action."""
_LEAST_PROGRAM: Final = 5
"""Tokens of a program with one action."""
FEWEST_EXAMPLES, MOST_EXAMPLES = 3, 6
_AT_ONCE: Final = 500
_MOST_DRAWN: Final = 100_000
"""Tasks that are drawn before the search for exercises ends."""
_PROBE_PROGRAMS: Final = 25_000
"""Programs that are tried to find out whether an exercise is ambiguous. It is a number, not a time: so a seed gives
the same exercises on every machine."""
_NAMES: Final = {
    **dict.fromkeys(("free", "mixed", "conditions", "steering"), "Find the rule"),
    "ends": "The ends of a row",
    "row": "Along the row",
    "row-counted": "Count your steps",
    "find": "Find the marker",
    "trail": "Follow the trail",
    "between": "Between two markers",
    "laps": "Back and forth",
    "signs": "Follow the signs",
    "two-works": "Two jobs",
}
"""Names of exercises for students, where the plan's own says little."""
_LEVELS: Final = ((14, "easy"), (35, "medium"))


@dataclass(frozen=True)
class Wish:
    """What exercises should be like."""

    concepts: frozenset[str]
    """All of them occur, and no other control statement."""
    tokens: tuple[int, int] = (6, 40)
    """The least and the most tokens of the stated program."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "concepts", frozenset(self.concepts))
        for concept in sorted(self.concepts - set(CONCEPTS)):
            close = nearest(concept, CONCEPTS)
            hint = f"; did you mean `{close}`?" if close else ""
            raise KarelsynthError(f"there is no concept `{concept}`; there are {listed(CONCEPTS, 'and')}{hint}")
        least, most = self.tokens
        if not 5 <= least <= most:
            raise KarelsynthError(
                f"a range of tokens begins at 5 or more and does not end below its beginning: {least}-{most}"
            )
        if self.concepts == {"nested"}:
            raise KarelsynthError("`nested` needs statements to nest: name them, too, as in while,nested")
        if most < self.least_tokens:
            raise KarelsynthError(
                f"programs with {listed(sorted(self.concepts), 'and')} have at least {self.least_tokens} tokens, "
                f"so {least}-{most} admits none"
            )

    @property
    def least_tokens(self) -> int:
        """The tokens of the shortest program with these concepts: each control statement inside another."""
        costs = [cost for name, cost in _LEAST_TOKENS.items() if name in self.concepts]
        twice = min(costs) if "nested" in self.concepts and len(costs) == 1 else 0
        return _LEAST_PROGRAM + sum(costs) + twice

    def fits(self, program: Program) -> bool:
        """Whether a program is of this kind. `nested` may always occur, but has to if it is wished."""
        least, most = self.tokens
        found, wished = concepts_of(program), self.concepts
        return least <= program.size <= most and wished <= found <= wished | {"nested"}


@dataclass(frozen=True)
class PosedExercise:
    """A task with its stated program."""

    task: Task
    program: Program
    difficulty: float
    """An estimate, in tokens of a program without control statements."""

    @property
    def level(self) -> str:
        """easy, medium or hard."""
        return next((name for most, name in _LEVELS if self.program.size <= most), "hard")

    def to_json(self) -> dict[str, Any]:
        """As plain data: the task as `Task.to_json` has it, with more fields."""
        return {
            **self.task.to_json(),
            "reference": self.program.to("paper"),
            "concepts": sorted(concepts_of(self.program)),
            "tokens": self.program.size,
            "level": self.level,
            "difficulty": self.difficulty,
        }


def concepts_of(program: Program) -> frozenset[str]:
    """The concepts that occur in a program."""
    names: dict[type, str] = {Repeat: "repeat", While: "while", If: "if", IfElse: "ifelse"}
    found = {names[type(statement)] for _, statement in program.walk() if type(statement) in names}
    if _depth(program.body) > 1:
        found.add("nested")
    return frozenset(found or {"sequence"})


def _depth(block: Block) -> int:
    """The depth of nested control statements."""
    return max((1 + _depth(inner) for statement in block for _, inner in inner_blocks(statement)), default=0)


def difficulty_of(program: Program) -> float:
    """An estimate of how hard a program is to find: its tokens, more for each control statement and its depth."""

    def effort(block: Block, depth: int) -> float:
        total = 0.0
        for statement in block:
            total += 1 if isinstance(statement, Action) else 3 + 2 * depth
            if isinstance(statement, While | IfElse):
                total += 1
            total += sum(effort(inner, depth + 1) for _, inner in inner_blocks(statement))
        return total

    return effort(program.body, 0)


def pose(
    wish: Wish,
    *,
    count: int,
    seed: int = 0,
    seconds: float | None = None,
    progress: Callable[[int], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[PosedExercise]:
    """Up to `count` exercises with different programs, from easy to hard; fewer if few fit the wish.

    A seed always gives the same exercises, unless `seconds` ends the search.

    Args:
        seconds: the most time; None for as long as it takes.
        progress: called with 1 for each exercise that is found.
        clock: returns the time in seconds.
    """
    found: list[PosedExercise] = []
    seen: set[Program] = set()
    deadline = math.inf if seconds is None else clock() + seconds
    for task, program in _drawn(seed):
        if len(found) == count or clock() >= deadline:
            break
        if program in seen or not wish.fits(program):
            continue
        seen |= {program, Program(mirrored_block(program.body))}
        exercise = _well_posed(task, program, clock)
        if exercise is not None:
            found.append(exercise)
            if progress is not None:
                progress(1)
    found.sort(key=lambda exercise: (exercise.difficulty, exercise.program.size))
    return [
        replace(each, task=replace(each.task, name=f"{number}. {each.task.name}"))
        for number, each in enumerate(found, 1)
    ]


def _drawn(seed: int) -> Iterator[tuple[Task, Program]]:
    """Purposeful tasks with simplified programs."""
    for start in range(0, _MOST_DRAWN, _AT_ONCE):
        batch = simplify(generate_purposeful(seed, start, _AT_ONCE))
        names = plans_of(seed, start, _AT_ONCE)
        for row in range(_AT_ONCE):
            program = Program.from_tokens(batch.tokens[row, : batch.lengths[row]].tolist())
            pairs = [
                Example(world_from_codes(before), world_from_codes(after))
                for before, after in zip(batch.inputs[row], batch.outputs[row], strict=True)
            ]
            examples = tuple(dict.fromkeys(pairs))
            if len(examples) >= FEWEST_EXAMPLES:
                name = _NAMES.get(names[row], names[row].replace("-", " ").capitalize())
                yield Task(examples[:MOST_EXAMPLES], name), program


def _well_posed(task: Task, program: Program, clock: Callable[[], float]) -> PosedExercise | None:
    """The exercise with the examples that leave no doubt about its program; None if there is doubt."""
    size = lambda example: (example.input.rows * example.input.cols, len(example.input.markers))  # noqa: E731
    pairs = sorted(task.examples, key=size)[:FEWEST_EXAMPLES]
    given = replace(task, examples=tuple(pairs))
    report = probe(given, program, add=True, programs=_PROBE_PROGRAMS, thorough=False, clock=clock)
    examples = report.task.examples
    if len(examples) > MOST_EXAMPLES or any(each.program.size <= program.size for each in report.impostors):
        return None
    if all(example.input == example.output for example in examples):
        return None
    names = ", ".join(sorted(concepts_of(program)))
    return PosedExercise(replace(report.task, about=f"Practises: {names}."), program, difficulty_of(program))


def variants(
    task: Task,
    reference: Program,
    *,
    count: int,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[PosedExercise]:
    """The same task for other classes: each with other worlds of the same kind, every second one mirrored.

    Worlds that unmask wrong programs are among them, as far as MOST_EXAMPLES allow.
    """
    wanted = max(FEWEST_EXAMPLES, min(len(task.examples), MOST_EXAMPLES))
    found = []
    for number in range(count):
        fresh = fresh_examples(task, reference, count=wanted, seed=seed + number)
        if len(fresh) < wanted:
            raise KarelsynthError("too few worlds of this task's kind were found: its examples leave nothing to vary")
        few = Task(tuple(fresh[:FEWEST_EXAMPLES]))
        report = probe(few, reference, add=True, programs=_PROBE_PROGRAMS, thorough=False, seed=seed + number)
        every = dict.fromkeys((*report.task.examples, *fresh))
        examples = list(every)[: max(wanted, min(len(report.task.examples), MOST_EXAMPLES))]
        program = reference
        if number % 2:
            program = Program(mirrored_block(reference.body))
            examples = [Example(mirrored_world(before), mirrored_world(after)) for before, after in examples]
        name = f"{task.name}, variant {number + 1}".removeprefix(", ")
        found.append(PosedExercise(Task(tuple(examples), name, task.about), program, difficulty_of(program)))
        if progress is not None:
            progress(1)
    return found


_MIRRORED: Final = {
    "turnLeft": "turnRight",
    "turnRight": "turnLeft",
    "leftIsClear": "rightIsClear",
    "rightIsClear": "leftIsClear",
}


def mirrored_block(block: Block) -> Block:
    """A block with left and right swapped."""
    return Program.from_tokens([_MIRRORED.get(token, token) for token in Program(block).tokens]).body


def mirrored_world(world: World) -> World:
    """A world with east and west swapped."""
    last = world.cols - 1
    heading = {"east": "west", "west": "east"}.get(world.hero.heading, world.hero.heading)
    walls = frozenset((row, last - col) for row, col in world.walls)
    markers = {(row, last - col): count for (row, col), count in world.markers.items()}
    return World(world.rows, world.cols, Hero(world.hero.row, last - world.hero.col, heading), walls, markers)
