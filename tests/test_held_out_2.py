"""The second file of held-out tasks: it follows from its source, its references are right, and its examples suffice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from benchmarks.classroom import read_pairs, read_tasks
from tools.drawn_tasks import mutants, rights
from tools.held_out_new import FILE, TASKS, make_ordered
from tools.make_held_out import with_parts

from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.program import Program
from karelsynth.karel.world import Cell, World

RECORDS: list[dict[str, Any]] = read_tasks(FILE)
NAMED: dict[str, dict[str, Any]] = {record["name"]: record for record in RECORDS}


def test_the_file_is_as_its_source_makes_it() -> None:
    made = []
    for task in TASKS:
        record, survivors = make_ordered(task)
        assert survivors == 0, task.name
        made.append(record)
    assert with_parts(made) == RECORDS, "python tools/held_out_new.py writes it again"


def test_there_are_fifty_different_tasks() -> None:
    assert len(RECORDS) == len(NAMED) == len({record["reference"] for record in RECORDS}) == 50
    assert Counter(record["level"] for record in RECORDS) == {"easy": 12, "medium": 23, "hard": 15}
    assert FILE.stat().st_size < 350_000


@pytest.mark.parametrize("record", RECORDS, ids=[record["name"] for record in RECORDS])
def test_references_are_right(record: dict[str, Any]) -> None:
    program = Program.parse(record["reference"], "paper")
    examples, fresh = read_pairs(record["examples"]), read_pairs(record["fresh"])
    assert (len(examples), len(fresh)) == (5, 24)
    assert len({before for before, _ in examples + fresh}) == 29
    assert rights([program], examples, PAPER_TICKS).all()
    assert rights([program], fresh, record.get("needs_ticks", PAPER_TICKS)).all()
    assert record["tokens"] == program.size
    assert record["level"] == ("easy" if program.size <= 14 else "medium" if program.size <= 35 else "hard")
    assert all(count <= 9 for pair in examples + fresh for world in pair for count in world.markers.values())


@pytest.mark.parametrize("record", RECORDS, ids=[record["name"] for record in RECORDS])
def test_examples_rule_out_what_fresh_worlds_do(record: dict[str, Any]) -> None:
    """No program one change away from the reference is right on all examples and wrong on a fresh world."""
    changed = mutants(Program.parse(record["reference"], "paper"))
    on_examples, on_fresh = (rights(changed, read_pairs(record[part])).all(1) for part in ("examples", "fresh"))
    assert not (on_examples & ~on_fresh).any()


def free(world: World) -> set[Cell]:
    return {(row, col) for row in range(world.rows) for col in range(world.cols)} - world.walls


def at(world: World, row: int, col: int) -> int:
    return world.markers.get((row, col), 0)


def columns(world: World) -> list[int]:
    return [sum(at(world, row, col) for row in range(world.rows)) for col in range(world.cols)]


def swapped(before: World, after: World) -> bool:
    row, col, _ = before.hero
    return (at(before, row, col), at(before, row, col + 1)) == (at(after, row, col + 1), at(after, row, col))


def fenced(before: World, after: World) -> bool:
    near = {(row + r, col + c) for row, col in before.walls for r in (-1, 0, 1) for c in (-1, 0, 1)}
    return after.markers == dict.fromkeys(near - before.walls, 1)


def in_the_middle(before: World, after: World) -> bool:
    row = before.hero.row
    length = sum(cell[0] == row for cell in free(before))
    return after.markers == {(row, length // 2): 1}


def measured(before: World, after: World) -> bool:
    steps = sum(cell[0] == before.hero.row for cell in free(before)) - 1
    return after.hero == before.hero and after.markers == {before.hero[:2]: steps}


def crossed(before: World, after: World) -> bool:
    cells = free(before)
    low, left = min(cells)
    size = max(row for row, _ in cells) - low
    return after.markers == {
        (row, col): 1 for row, col in cells if row - low == col - left or row - low + col - left == size
    }


GOALS: dict[str, Callable[[World, World], bool]] = {
    "bar-chart": lambda before, after: columns(before) == columns(after) and max(after.markers.values()) == 1,
    "checkerboard": lambda before, after: (
        after.markers == {cell: 1 for cell in free(before) if (sum(cell) - sum(before.hero[:2])) % 2}
    ),
    "falling-apples": lambda before, after: (
        columns(before) == columns(after) and all(row == 0 for row, _ in after.markers)
    ),
    "fence-round-the-lake": fenced,
    "half-for-a-friend": lambda before, after: 2 * sum(after.markers.values()) == sum(before.markers.values()),
    "measure-the-room": measured,
    "midpoint": in_the_middle,
    "sow-the-field": lambda before, after: after.markers == dict.fromkeys(free(before), 1),
    "swap-two-piles": swapped,
    "twice-as-many": lambda before, after: sum(after.markers.values()) == 2 * sum(before.markers.values()),
    "weed-the-lawn": lambda _, after: not after.markers,
    "x-in-the-room": crossed,
}


@pytest.mark.parametrize("name", GOALS)
def test_references_do_what_the_task_says(name: str) -> None:
    for part in ("examples", "fresh"):
        for before, after in read_pairs(NAMED[name][part]):
            assert GOALS[name](before, after), f"{before}\nbecomes\n{after}"
