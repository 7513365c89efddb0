"""The held-out tasks: their files follow from their sources, and their references are right."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from benchmarks.classroom import read_pairs, read_tasks
from tools import held_out_fourth, held_out_new, held_out_third, make_development, make_held_out
from tools.drawn_tasks import DrawnTask, mutants, rights

from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.program import Program
from karelsynth.karel.world import HEADINGS, STEP, Cell, World

Record = dict[str, Any]


class HeldOutSet(NamedTuple):
    file: Path
    tasks: Sequence[DrawnTask]
    make: Callable[[DrawnTask], tuple[Record, int]]
    records: list[Record]
    levels: dict[str, dict[str, int]]
    """By part, how many tasks of each level there are."""


SETS = {
    "held_out": HeldOutSet(
        make_held_out.FILE,
        make_held_out.TASKS,
        make_held_out.make,
        read_tasks(make_held_out.FILE),
        {part: {"easy": 10, "medium": 12, "hard": 8} for part in "ab"},
    ),
    "held_out_2": HeldOutSet(
        held_out_new.FILE,
        held_out_new.TASKS,
        make_held_out.make_ordered,
        read_tasks(held_out_new.FILE),
        {"a": {"easy": 6, "medium": 12, "hard": 8}, "b": {"easy": 6, "medium": 11, "hard": 7}},
    ),
    "held_out_3": HeldOutSet(
        held_out_third.FILE,
        held_out_third.TASKS,
        make_held_out.make_ordered,
        read_tasks(held_out_third.FILE),
        {part: {"easy": 8, "medium": 13, "hard": 9} for part in "ab"},
    ),
    "held_out_4": HeldOutSet(
        held_out_fourth.FILE,
        held_out_fourth.TASKS,
        make_held_out.make_ordered,
        read_tasks(held_out_fourth.FILE),
        {part: {"easy": 8, "medium": 13, "hard": 9} for part in "ab"},
    ),
    "development": HeldOutSet(
        make_development.FILE,
        make_development.TASKS,
        make_held_out.make_ordered,
        read_tasks(make_development.FILE),
        {"a": {"easy": 9, "medium": 16, "hard": 9}, "b": {"easy": 9, "medium": 15, "hard": 8}},
    ),
}
LATER = ("held_out_2", "held_out_3", "held_out_4", "development")
"""Those whose examples are ordered and rule out what fresh worlds do."""
each_set = pytest.mark.parametrize("held_out", SETS.values(), ids=SETS)
each_record = pytest.mark.parametrize(
    "record",
    [
        pytest.param(record, id=f"{name}-{record['name']}")
        for name, held_out in SETS.items()
        for record in held_out.records
    ],
)


@each_set
def test_the_file_is_as_its_sources_make_it(held_out: HeldOutSet) -> None:
    """If this fails: `tools/make_held_out.py`, `held_out_new.py`, … or `make_development.py` writes it again."""
    assert [task.name for task in held_out.tasks] == [record["name"] for record in held_out.records]
    for task, written in zip(held_out.tasks, held_out.records, strict=True):
        record, survivors = held_out.make(task)
        assert survivors == 0, task.name
        assert record == {key: value for key, value in written.items() if key != "part"}
    assert make_held_out.with_parts(held_out.records) == held_out.records


@each_set
def test_tasks_are_different_and_parts_are_alike(held_out: HeldOutSet) -> None:
    count = sum(sum(levels.values()) for levels in held_out.levels.values())
    assert len(held_out.records) == count
    for field in ("name", "reference"):
        assert len({record[field] for record in held_out.records}) == count
    for part, levels in held_out.levels.items():
        assert Counter(record["level"] for record in read_tasks(held_out.file, part=part)) == levels


@pytest.mark.parametrize("name", LATER)
def test_later_files_are_small(name: str) -> None:
    assert SETS[name].file.stat().st_size < 350_000


@pytest.mark.parametrize("name", ["held_out_3", "held_out_4"])
def test_the_development_set_has_no_task_of_a_clean_set(name: str) -> None:
    """None of its references is right on all worlds of such a task: what is tuned on it says nothing about them."""
    references = [task.reference for task in make_development.TASKS]
    for record in SETS[name].records:
        worlds = read_pairs(record["examples"]) + read_pairs(record["fresh"])
        assert not rights(references, worlds).all(1).any(), record["name"]


@each_record
def test_references_are_right(record: Record) -> None:
    program = Program.parse(record["reference"], "paper")
    examples, fresh = read_pairs(record["examples"]), read_pairs(record["fresh"])
    assert (len(examples), len(fresh)) == (5, 24)
    assert len({before for before, _ in examples + fresh}) == 29
    assert rights([program], examples, PAPER_TICKS).all()
    assert rights([program], fresh, record.get("needs_ticks", PAPER_TICKS)).all()
    assert record["tokens"] == program.size
    assert record["level"] == ("easy" if program.size <= 14 else "medium" if program.size <= 35 else "hard")
    assert all(count <= 9 for pair in examples + fresh for world in pair for count in world.markers.values())


def test_a_part_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps({"name": "one"}) + "\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="no task is in part b"):
        read_tasks(path, part="b")


@pytest.mark.parametrize(
    "record", [record for name in LATER for record in SETS[name].records], ids=lambda record: record["name"]
)
def test_examples_rule_out_what_fresh_worlds_do(record: Record) -> None:
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


def carpet(before: World, after: World) -> bool:
    row, col, _ = before.hero
    return after.markers == {(row, col + 1 + piece): 1 for piece in range(at(before, row, col))}


def counted(before: World, after: World) -> bool:
    doors = sum(cell[0] == 1 for cell in free(before))
    return after.markers == {(0, before.cols - 1): doors}


def dealt(before: World, after: World) -> bool:
    row, col, _ = before.hero
    cards = at(before, row, col)
    players = ((row + 1, col), (row, col + 1), (row - 1, col))
    return all(at(after, *cell) == (cards + 2 - player) // 3 for player, cell in enumerate(players))


def fought(before: World, after: World) -> bool:
    row, col, _ = before.hero
    left, right = at(before, row, col), at(before, row, col + 1)
    return (at(after, row, col), at(after, row, col + 1)) == (max(left - right, 0), max(right - left, 0))


def number(world: World) -> int:
    """The bottom row as a binary number."""
    return sum(2 ** (world.cols - 1 - col) for _, col in world.markers)


def paired(before: World, after: World) -> bool:
    pairs = {(2, col) for row, col in before.markers if row == 0 and (1, col) in before.markers}
    return after.markers == {**before.markers, **dict.fromkeys(pairs, 1)}


def repaired(before: World, after: World) -> bool:
    feet = {col for row, col in before.markers if row == 0}
    return after.markers == {(row, col): 1 for row in range(before.rows) for col in feet}


def sorted_post(before: World, after: World) -> bool:
    return after.markers == {(2 if count == 1 else 0, col): count for (_, col), count in before.markers.items()}


def cornered(before: World, after: World) -> bool:
    rows, cols = ({cell[axis] for cell in before.walls} for axis in (0, 1))
    return after.markers == {
        (row, col): 1 for row in (min(rows) - 1, max(rows) + 1) for col in (min(cols) - 1, max(cols) + 1)
    }


def switched(before: World, after: World) -> bool:
    """The upper end of each room is switched."""
    doors = {col for row, col in free(before) if row == 1}
    ends = {(max(row for row, at_col in free(before) if at_col == col), col) for col in doors}
    return set(after.markers) == set(before.markers) ^ ends


def crossed(before: World, after: World) -> bool:
    cells = free(before)
    low, left = min(cells)
    size = max(row for row, _ in cells) - low
    return after.markers == {
        (row, col): 1 for row, col in cells if row - low == col - left or row - low + col - left == size
    }


def borders(world: World) -> set[Cell]:
    """The outermost cells."""
    inner = {(row, col) for row in range(1, world.rows - 1) for col in range(1, world.cols - 1)}
    return {(row, col) for row in range(world.rows) for col in range(world.cols)} - inner


def from_karel(start: World, world: World) -> dict[Cell, int]:
    """The markers of a world by the number of steps ahead and to the left of where Karel starts."""
    row, col, heading = start.hero
    (up, right), (up_left, right_left) = STEP[heading], STEP[HEADINGS[HEADINGS.index(heading) - 1]]
    return {
        ((r - row) * up + (c - col) * right, (r - row) * up_left + (c - col) * right_left): count
        for (r, c), count in world.markers.items()
    }


def walked(before: World, after: World) -> Cell:
    """How many steps ahead and to the left of his start Karel ends."""
    alone = replace(after, markers={after.hero[:2]: 1})
    return next(iter(from_karel(before, alone)))


def way(world: World) -> int:
    """How many steps Karel can take ahead."""
    (row, col, heading), steps, open_cells = world.hero, 0, free(world)
    while (row := row + STEP[heading][0], col := col + STEP[heading][1]) in open_cells:
        steps += 1
    return steps


def neighbours(world: World, cell: Cell) -> list[tuple[int, int]]:
    """The directions in which the next cell is free."""
    return [step for step in STEP.values() if (cell[0] + step[0], cell[1] + step[1]) in free(world)]


def heights(world: World) -> list[int]:
    """How many wall cells each column has."""
    return [sum(col == at for _, at in world.walls) for col in range(world.cols)]


def singles(cells: Iterable[Cell]) -> dict[Cell, int]:
    """One marker on each of the cells."""
    return dict.fromkeys(cells, 1)


def coloured(before: World, after: World) -> bool:
    """Each row is filled from its first to its last marker."""
    wanted: set[Cell] = set()
    for row in range(before.rows):
        cols = [col for at, col in before.markers if at == row]
        wanted.update((row, col) for col in range(min(cols, default=0), max(cols, default=-1) + 1))
    return after.markers == singles(wanted)


def between_pairs(before: World, after: World) -> bool:
    """The markers, in order, are pairs; the cells from the first of a pair to its second have one each."""
    posts = sorted(from_karel(before, before))
    pairs = zip(posts[::2], posts[1::2], strict=True)
    return from_karel(before, after) == singles((at, 0) for one, other in pairs for at in range(one[0], other[0] + 1))


def leafy(before: World, after: World) -> bool:
    """Two by two markers lie on and beside the top of each column of walls; the others are as before."""
    trees = [(height, col) for col, height in enumerate(heights(before)) if height]
    leaves = [(row + up, col + right) for row, col in trees for up in (0, 1) for right in (0, 1)]
    return after.markers == dict(before.markers) | singles(leaves)


GOALS: dict[str, dict[str, Callable[[World, World], bool]]] = {
    "held_out_2": {
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
    },
    "held_out_3": {
        "add-one-in-binary": lambda before, after: number(after) == number(before) + 1,
        "battle-of-two-piles": fought,
        "both-piles-to-the-middle": lambda before, after: (
            list(after.markers.values()) == [sum(before.markers.values())]
        ),
        "count-the-doors": counted,
        "crumbs-around-the-bends": lambda _, after: not after.markers,
        "deal-the-cards": dealt,
        "every-second-seat": lambda before, after: (
            after.markers == {(before.hero.row, col): 1 for col in range(0, before.cols, 2)}
        ),
        "fill-the-deep-holes": lambda before, after: (
            after.markers == {cell: 1 for cell in free(before) if cell[0] < before.hero.row}
        ),
        "harvest-row-by-row": lambda _, after: not after.markers,
        "lamps-around-the-house": cornered,
        "lamps-in-the-hotel": switched,
        "mend-the-fence": lambda before, after: (
            after.markers == {(before.hero.row, col): 1 for col in range(before.cols)}
        ),
        "paint-in-lanes": lambda before, after: after.markers == dict.fromkeys(free(before), 1),
        "pairs-of-socks": paired,
        "photocopy-the-pile": lambda before, after: list(after.markers.values()) == 2 * list(before.markers.values()),
        "repair-the-pillars": repaired,
        "sort-the-post": sorted_post,
        "striped-field": lambda before, after: after.markers == {cell: 1 for cell in free(before) if cell[0] % 2},
        "tiles-along-the-walls": lambda before, after: (
            after.markers
            == {cell: 1 for cell in free(before) if cell[0] in (0, before.rows - 1) or cell[1] in (0, before.cols - 1)}
        ),
        "unroll-the-carpet": carpet,
    },
    "held_out_4": {
        "short-stack": lambda before, after: (
            from_karel(before, after) == {(1, 0): 2} and walked(before, after) == (2, 0)
        ),
        "knight-jump": lambda before, after: from_karel(before, after) == {(2, -1): 1},
        "three-pancakes": lambda before, after: (
            from_karel(before, after) == {(1, 0): 3} and walked(before, after) == (2, 0)
        ),
        "harvest-six": lambda before, after: not after.markers and walked(before, after) == (6, 0),
        "two-piles-of-four": lambda before, after: from_karel(before, after) == {(0, 0): 4, (1, 0): 4},
        "four-bases": lambda before, after: from_karel(before, after) == singles([(0, 0), (2, 0), (2, 2), (0, 2)]),
        "three-stairs": lambda before, after: walked(before, after) == (3, 3),
        "big-tower": lambda before, after: (
            after.markers == singles((row, before.hero.col) for row in range(before.rows))
        ),
        "take-the-whole-pile": lambda before, after: not after.markers and walked(before, after) == (2, 0),
        "ball-to-the-wall-behind": lambda before, after: (
            after.markers == {after.hero[:2]: 1} and walked(before, after)[1] == way(after) == 0
        ),
        "pick-a-flower": lambda before, after: (
            sum(after.markers.values()) == sum(before.markers.values()) - 1 and after.hero[:2] in before.markers
        ),
        "letter-for-the-first-house": lambda before, after: (
            after.hero == (1, min(col for _, col in before.walls), "south") and after.markers == {after.hero[:2]: 1}
        ),
        "perhaps-a-ball": lambda before, after: (
            sum(after.markers.values()) == max(0, sum(before.markers.values()) - 1) and walked(before, after) == (1, 1)
        ),
        "ball-behind-your-back": lambda before, after: (
            from_karel(before, after) == {(-1, 0): 1} and after.hero == before.hero
        ),
        "first-door-on-the-left": lambda before, after: (
            after.hero.col == min(col for row, col in free(before) if row == 1 and col >= before.hero.col)
        ),
        "stones-up-to-the-ball": lambda before, after: (
            from_karel(before, after)
            == from_karel(before, before) | singles((step, 0) for step in range(max(from_karel(before, before))[0]))
        ),
        "mark-the-crossings": lambda before, after: (
            after.markers == singles((1, col) for row, col in free(before) if row == 0 and (2, col) in free(before))
        ),
        "half-of-the-pile": lambda before, after: (
            sum(after.markers.values()) == at(before, *before.hero[:2]) // 2 == from_karel(before, after).get((1, 0), 0)
        ),
        "milestones": lambda before, after: (
            from_karel(before, after) == singles((step, 0) for step in [*range(0, way(before), 3), way(before)])
        ),
        "down-the-steps": lambda before, after: (
            after.markers
            == singles(
                (to, col + 1)
                for col, (one, to) in enumerate(zip(heights(before), heights(before)[1:], strict=False))
                if to < one
            )
        ),
        "bucket-from-the-well": lambda before, after: (
            not after.markers and walked(before, after) == (next(col for _, col in before.markers), 0)
        ),
        "teeth-of-a-saw": lambda before, after: (
            from_karel(before, after) == singles((step, step % 2) for step in range(before.cols))
        ),
        "chairs-along-the-walls": lambda before, after: (
            after.markers == singles(cell for cell in free(before) if len(neighbours(before, cell)) == 3)
        ),
        "toy-car": lambda before, after: not after.markers and after.hero[:2] in before.markers,
        "two-towers": lambda before, after: (
            from_karel(before, after) == singles((step, up) for step in (1, 3) for up in range(3))
        ),
        "mend-the-road": lambda before, after: after.markers == singles(cell for cell in free(before) if cell[0] == 0),
        "as-many-steps-as-beepers": lambda before, after: (
            from_karel(before, after) == {(at(before, *before.hero[:2]), 0): 1} == {walked(before, after): 1}
        ),
        "sand-over-the-wall": lambda before, after: (
            from_karel(before, after) == {(2, 0): at(before, *before.hero[:2])} and after.hero == before.hero
        ),
        "round-the-rocks": lambda before, after: (
            after.markers == before.markers and after.hero == (*next(iter(before.markers)), before.hero.heading)
        ),
        "fetch-the-ball": lambda before, after: (
            after.markers == {before.hero[:2]: 1} and walked(before, after) == (0, 0)
        ),
        "treasure-hunt": lambda before, after: not after.markers,
        "double-the-trail": lambda before, after: after.markers == dict.fromkeys(before.markers, 2),
        "flag-on-the-tower": lambda before, after: (
            after.markers == {(max(heights(before)), way(before) + 1): 1}
            and walked(before, after) == (way(before) + 2, 0)
        ),
        "close-the-windows": lambda before, after: after.markers == singles(borders(before) & free(before)),
        "fence-round-the-house": lambda before, after: (
            after.markers
            == singles(
                {(row + r, col + c) for row, col in before.walls for r in (-1, 0, 1) for c in (-1, 0, 1)} & free(before)
            )
        ),
        "ball-into-the-goal": lambda before, after: (
            from_karel(before, after) == {(way(before), 0): 1} and walked(before, after) == (0, 0)
        ),
        "size-of-the-smaller-pile": lambda before, after: (
            sum(after.markers.values()) == max(from_karel(before, before).values())
            and from_karel(before, after).get((2, 0), 0)
            == min(from_karel(before, before).get((at, 0), 0) for at in (0, 1))
        ),
        "deal-around-the-table": lambda before, after: (
            [from_karel(before, after).get(cell, 0) for cell in ((1, 0), (0, -1), (-1, 0), (0, 1))]
            == [(at(before, *before.hero[:2]) + 3 - place) // 4 for place in range(4)]
        ),
        "between-the-posts": between_pairs,
        "letter-u": lambda before, after: (
            from_karel(before, after) == singles((a, b) for a in range(5) for b in range(5) if b in (0, 4) or a == 4)
        ),
        "through-the-gates": lambda before, after: after.hero == (before.rows - 1, 0, "east"),
        "mark-the-bends": lambda before, after: (
            {cell for cell in after.markers if cell not in before.markers}
            == {
                cell
                for cell in free(before)
                if len(ways := neighbours(before, cell)) == 2 and ways[0] != (-ways[1][0], -ways[1][1])
            }
        ),
        "refill-the-shelves": lambda before, after: (
            after.markers == singles(cell for cell in free(before) if cell[0] % 2 == 0)
        ),
        "pearls-on-a-string": lambda before, after: (
            after.markers == singles((0, col) for col in range(len(before.markers)))
        ),
        "carpet-in-each-room": lambda before, after: after.markers == singles(cell for cell in free(before) if cell[0]),
        "both-diagonals": lambda before, after: (
            from_karel(before, after)
            == singles(
                (a, b) for a in range(way(before) + 1) for b in range(way(before) + 1) if b in (a, way(before) - a)
            )
        ),
        "triangle-against-the-wall": lambda before, after: (
            from_karel(before, after)
            == singles((a, b) for b in range(way(before)) for a in range(b + 1, way(before) + 1))
        ),
        "print-the-row-again": lambda before, after: (
            after.markers == singles((row, col) for _, col in before.markers for row in (0, 1))
        ),
        "harvest-the-diamond": lambda before, after: (
            after.markers == {cell: count - 1 for cell, count in before.markers.items() if count > 1}
        ),
        "colour-the-drawing": coloured,
        "leaves-on-the-trees": leafy,
        "add-the-upper-row": lambda before, after: (
            columns(before) == columns(after) and all(row == 0 for row, _ in after.markers)
        ),
        "mark-the-dead-ends": lambda before, after: (
            before.markers == {after.hero[:2]: 1}
            and all(len(neighbours(before, cell)) == 1 for cell in after.markers if cell not in before.markers)
        ),
        "rooms-on-both-sides": lambda before, after: not after.markers and after.hero == (1, before.cols - 1, "east"),
        "shuttle-run": lambda before, after: (
            after.markers == singles((row, before.cols - 1) for row, _ in before.markers)
        ),
        "bring-the-lost-ball-home": lambda before, after: after.markers == {(0, 0): 1} == {after.hero[:2]: 1},
        "multiply-the-piles": lambda before, after: (
            from_karel(before, after)
            == {
                (1, 0): from_karel(before, before)[1, 0],
                (3, 0): from_karel(before, before)[0, 0] * from_karel(before, before)[1, 0],
            }
        ),
        "plant-an-orchard": lambda before, after: (
            after.markers == singles(cell for cell in free(before) if cell[0] % 2 == cell[1] % 2 == 0)
        ),
        "over-the-pyramid": lambda before, after: (
            after.markers == {(max(heights(before)), heights(before).index(max(heights(before)))): 1}
            and after.hero.row == 0
        ),
        "how-wide-is-the-field": lambda before, after: from_karel(before, after) == {(0, 0): way(before) + 1},
    },
}


@pytest.mark.parametrize(("held_out", "name"), [(held_out, name) for held_out in GOALS for name in GOALS[held_out]])
def test_references_do_what_the_task_says(held_out: str, name: str) -> None:
    (record,) = (each for each in SETS[held_out].records if each["name"] == name)
    for part in ("examples", "fresh"):
        for before, after in read_pairs(record[part]):
            assert GOALS[held_out][name](before, after), f"{before}\nbecomes\n{after}"
