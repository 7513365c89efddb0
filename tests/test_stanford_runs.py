"""Programs printed for Stanford Karel do there what they do here.

The package `stanfordkarel` runs them as it runs students' files, only without a window: the file is imported,
its names are bound to a Karel in a world read from a `.w` file, and `main` is called.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from karelsynth.karel.interpreter import Status
from karelsynth.karel.tokens import ACTIONS, SENSORS
from karelsynth.karel.world import Hero, World
from tests.strategies import random_program, random_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from karelsynth.karel.program import Program

pytest.importorskip("tkinter")
pytest.importorskip("stanfordkarel")

from stanfordkarel.karel_application import StudentCode
from stanfordkarel.karel_program import KarelException, KarelProgram


def cases(seed: int) -> Iterator[tuple[Program, World]]:
    """Random programs on random worlds, most of which crash."""
    rng = random.Random(seed)
    while True:
        yield random_program(rng, depth=rng.choice((1, 2, 3))), random_world(rng)


def run_there(program: Program, world: World, folder: Path, number: int) -> World:
    """The world after the run in Stanford Karel; raises KarelException where it crashes."""
    code, grid = folder / f"program_{number}.py", folder / f"world_{number}.w"  # modules are cached by file name
    code.write_text(program.to("stanford"), encoding="utf-8")
    grid.write_text(world.to_stanford(), encoding="utf-8")
    karel: Any = KarelProgram(str(grid))
    student: Any = StudentCode(code)
    student.inject_namespace(karel)
    student.mods[0].main()
    beepers = {(street - 1, avenue - 1): count for (avenue, street), count in karel.world.beepers.items()}
    hero = Hero(karel.street - 1, karel.avenue - 1, karel.direction.value)
    return World(world.rows, world.cols, hero, world.walls, beepers)


def test_finished_runs_end_in_the_same_world(tmp_path: Path) -> None:
    finished = itertools.islice(
        ((program, world, run) for program, world in cases(1) if (run := program.run(world)).ok and len(run.trace) > 2),
        250,
    )
    used: Counter[str] = Counter()
    for number, (program, world, run) in enumerate(finished):
        assert run_there(program, world, tmp_path, number) == run.world, (program, world)
        used.update(set(program.tokens))
    everything = {*ACTIONS, *SENSORS, "not", "WHILE", "IF", "IFELSE", "REPEAT"}
    assert all(used[token] >= 5 for token in everything), used


@pytest.mark.parametrize("status", [Status.HIT_WALL, Status.NO_MARKER_TO_PICK])
def test_crashes_are_crashes_there(status: Status, tmp_path: Path) -> None:
    """Not so for an eleventh marker: their corners hold any number."""
    crashing = ((program, world) for program, world in cases(2) if program.run(world).status is status)
    for number, (program, world) in enumerate(itertools.islice(crashing, 60)):
        with pytest.raises(KarelException):
            run_there(program, world, tmp_path, number)


def test_what_is_not_imported_is_given_to_programs_there(tmp_path: Path) -> None:
    """Why a file that imports single names may use the others, as long as `main` is started by the package."""
    code = tmp_path / "few_imports.py"
    code.write_text("from stanfordkarel import move\n\ndef main():\n    turn_left()\n    move()\n", encoding="utf-8")
    karel: Any = KarelProgram("5x5")
    student: Any = StudentCode(code)
    student.inject_namespace(karel)
    student.mods[0].main()
    assert (karel.avenue, karel.street, karel.direction.value) == (1, 2, "north")
