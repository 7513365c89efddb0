"""Tasks for tests of the solver, whose answers are known, and a check of any solution."""

from __future__ import annotations

from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.solve import Solution
from karelsynth.tasks.task import Example, Task

PATIENT = 60.0
"""Seconds: so long that no test depends on how fast the machine is."""
ROW = World.parse("> . . .\n. . . .")
MOVED = World.parse(". > . .\n. . . .")
CLEAN = "def run():\n  while(frontIsClear):\n    move()\n    while(markersPresent):\n      pickMarker()"
"""Walks to the wall and picks up every marker on the way."""


def by(program: str, *inputs: World) -> Task:
    """The task that a program poses."""
    runs = [Program.parse(program).run(world) for world in inputs]
    assert all(run.ok for run in runs)
    return Task(tuple(Example(world, run.world) for world, run in zip(inputs, runs, strict=True)))


def impossible() -> Task:
    """One example of a step, one of a step through a wall."""
    walled = World.parse("> # .\n. # .")
    return Task((Example(ROW, MOVED), Example(walled, walled.with_hero(1, 2, "east"))))


TASK = by(CLEAN, *map(World.parse, ("> . 1 . 2\n. . . . .", ". . .\n> 3 .", "> . . .\n# . . .", "> 1\n. .")))
"""The task of `CLEAN`, with four examples."""


def assert_honest(solution: Solution, task: Task) -> None:
    """What a solution claims is what the interpreter says."""
    for answer in solution.answers:
        runs = [answer.program.run(example.input) for example in task.examples]
        right = tuple(run.ok and run.world == pair.output for run, pair in zip(runs, task.examples, strict=True))
        assert answer.right == right
    assert solution.solved == (bool(solution.answers) and all(solution.right))
    assert bool(solution) == solution.solved
    if solution.solved:
        assert all(answer.solves for answer in solution.answers)
        probabilities = [answer.probability for answer in solution.answers if answer.probability is not None]
        assert len(probabilities) == len(solution.answers)
        assert probabilities == sorted(probabilities, reverse=True)
        assert len({answer.program for answer in solution.answers}) == len(solution.answers)
