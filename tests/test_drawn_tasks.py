"""What `tools/drawn_tasks.py` offers: turned worlds, mutants of programs, the choice of examples, winding paths."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from tools.drawn_tasks import DrawnTask, Sketch, choose_examples, mutants, turned, winding_path
from tools.make_held_out import TASKS

from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from tests.strategies import worlds


@given(worlds())
def test_four_quarter_turns_are_none(world: World) -> None:
    assert turned(turned(turned(turned(world)))) == world
    assert turned(world) != world


def test_a_program_does_the_same_in_a_turned_world() -> None:
    for task in TASKS[:30]:
        for before, after in task.pairs(Random(task.name), 3):
            assert task.answer(turned(before))[0] == turned(after)


def test_mutants_are_one_change_away() -> None:
    program = Program.parse("def run():\n  while(frontIsClear):\n    move()\n  putMarker()")
    texts = {other.to("paper") for other in mutants(program)}
    assert program.to("paper") not in texts
    for wanted in (
        "def run():\n  while(frontIsClear):\n    move()",  # a statement is removed
        "def run():\n  move()\n  putMarker()",  # unwrapped
        "def run():\n  move()\n  while(frontIsClear):\n    move()\n  putMarker()",  # inserted
        "def run():\n  putMarker()\n  while(frontIsClear):\n    move()",  # swapped
        "def run():\n  if(frontIsClear):\n    move()\n  putMarker()",  # another keyword
        "def run():\n  repeat(7):\n    move()\n  putMarker()",
        "def run():\n  while(not markersPresent):\n    move()\n  putMarker()",  # another condition
        "def run():\n  while(frontIsClear):\n    turnLeft()\n  putMarker()",  # replaced
    ):
        assert wanted in texts
    branches = Program.parse("def run():\n  ifelse(frontIsClear):\n    move()\n  else:\n    turnLeft()")
    assert Program.parse("def run():\n  ifelse(frontIsClear):\n    turnLeft()\n  else:\n    move()") in mutants(
        branches
    )


def test_examples_are_chosen_to_tell_mutants_apart() -> None:
    """Of many rows of the same length and one of another, the other is chosen: it rules out counting."""
    rows = [Sketch(2 + at, 5).place(0, 0).world() for at in range(8)] + [Sketch(2, 9).place(0, 0).world()]
    text = "def run():\n  while(frontIsClear):\n    move()"
    task = DrawnTask("walk", "", (), "", text, lambda rng: rng.choice(rows))
    pool = [(world, task.answer(world)[0]) for world in rows]
    examples, survivors = choose_examples(task, pool, 2)
    assert survivors == 0
    assert examples[-1][0] == rows[-1], "and the longest run comes last"
    assert choose_examples(task, pool[:-1], 1)[1] == 0, "no mutant counts that the pool does not tell apart"


def test_a_task_whose_reference_crashes_is_an_error() -> None:
    task = DrawnTask("crash", "", (), "", "def run():\n  pickMarker()", lambda _: Sketch(2, 2).world())
    with pytest.raises(AssertionError, match="crash: crashed: picked where there is no marker"):
        task.pairs(Random(0), 1)


def test_winding_paths_do_not_touch_themselves() -> None:
    for seed in range(200):
        rng = Random(seed)
        rows, cols = rng.randint(4, 10), rng.randint(4, 10)
        path = winding_path(rng, rows, cols, 12)
        assert 2 <= len(path) == len(set(path)) <= 12
        assert all(1 <= row <= rows - 2 and 1 <= col <= cols - 2 for row, col in path)
        for at, (row, col) in enumerate(path):
            near = [other for other, (r, c) in enumerate(path) if abs(row - r) + abs(col - c) == 1]
            assert near == [other for other in (at - 1, at + 1) if 0 <= other < len(path)]
