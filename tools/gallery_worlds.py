"""A generator of worlds for each task of the gallery, to tell whether a program is general.

    for task in gallery_tasks():
        pairs = task.pairs(Random(task.name), 100)

The references are tests/golden/gallery/SLUG.karel. Worlds are drawn with Karel facing east and then turned.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from tools.drawn_tasks import Draw, DrawnTask, Sketch

from karelsynth.karel.world import Cell, World
from karelsynth.tasks.task_files import gallery

PROGRAMS: Final = Path(__file__).resolve().parents[1] / "tests" / "golden" / "gallery"
"""SLUG.karel is the reference of a task."""
WORLDS: Final[dict[str, Draw]] = {}
"""The generator of each task, by slug."""


def gallery_tasks() -> list[DrawnTask]:
    """The tasks of the gallery with their references and worlds, in its order."""
    return [
        DrawnTask(
            name=entry.slug,
            about=entry.task.about,
            concepts=(),
            source="gallery",
            text=(PROGRAMS / f"{entry.slug}.karel").read_text(encoding="utf-8"),
            draw=WORLDS[entry.slug],
        )
        for entry in gallery()
    ]


def worlds_of(draw: Draw) -> Draw:
    """A decorator: the function draws the worlds of the gallery's task of its name."""
    WORLDS[draw.__name__.replace("_", "-")] = draw
    return draw


def room(rng: Random, most: int = 9) -> Sketch:
    return Sketch(rng.randint(2, most), rng.randint(2, most))


def furnished(sketch: Sketch, rng: Random, keep: Sequence[Cell], share: float = 0.12) -> World:
    """The world with stray walls and markers on cells that the task is not about, turned at random."""
    kept = {*keep, *sketch.walls, *sketch.markers, sketch.hero[:2]}
    for row in range(sketch.rows):
        for col in range(sketch.cols):
            if (row, col) not in kept and rng.random() < share:
                if rng.random() < 0.6:
                    sketch.wall(row, col)
                else:
                    sketch.mark(row, col, rng.randint(1, 3))
    return sketch.world(rng.randrange(4))


def lane(rng: Random, short: int = 1, most: int = 9) -> tuple[Sketch, list[Cell]]:
    """Karel on a row with a wall or the end of the world ahead; and the cells from its own to the last free one."""
    sketch = Sketch(rng.randint(2, 6), rng.randint(max(2, short), most))
    row, end = rng.randrange(sketch.rows), sketch.cols
    if end > short and rng.random() < 0.4:
        end = rng.randint(short, end - 1)
        sketch.wall(row, end)
    start = rng.randint(0, end - short)
    sketch.place(row, start)
    return sketch, [(row, col) for col in range(start, end)]


def strew(sketch: Sketch, rng: Random, cells: Sequence[Cell], share: float = 0.5, most: int = 3) -> None:
    """Markers on some of these cells."""
    for cell in cells:
        if rng.random() < share:
            sketch.mark(*cell, rng.randint(1, most))


@worlds_of
def first_marker(rng: Random) -> World:
    sketch, cells = lane(rng, 3)
    strew(sketch, rng, cells, 0.1)
    return furnished(sketch, rng, cells)


@worlds_of
def turn_around(rng: Random) -> World:
    sketch, cells = lane(rng, 2)
    strew(sketch, rng, cells, 0.1)
    return furnished(sketch, rng, cells)


@worlds_of
def walk_to_the_wall(rng: Random) -> World:
    sketch, cells = lane(rng)
    strew(sketch, rng, cells, 0.1)
    return furnished(sketch, rng, cells)


@worlds_of
def flag_at_the_end(rng: Random) -> World:
    return walk_to_the_wall(rng)


@worlds_of
def find_the_marker(rng: Random) -> World:
    sketch, cells = lane(rng, 2)
    at = rng.randrange(1, len(cells))
    sketch.mark(*cells[at], rng.choice((1, 1, 2)))
    strew(sketch, rng, cells[at + 1 :], 0.2)
    return furnished(sketch, rng, cells)


@worlds_of
def empty_the_pile(rng: Random) -> World:
    sketch, cells = lane(rng, 2)
    sketch.mark(*cells[1], rng.randint(1, 9))
    strew(sketch, rng, cells[2:], 0.2)
    return furnished(sketch, rng, cells)


@worlds_of
def fill_the_row(rng: Random) -> World:
    sketch, cells = lane(rng)
    return furnished(sketch, rng, cells)


@worlds_of
def four_lamps(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 8), rng.randint(3, 8))
    row, col = rng.randint(0, sketch.rows - 3), rng.randint(0, sketch.cols - 3)
    around = [(row + up, col + along) for up in range(3) for along in range(3) if (up, along) != (1, 1)]
    strew(sketch, rng, around, 0.1)
    return furnished(sketch.place(row, col), rng, around)


@worlds_of
def three_candles(rng: Random) -> World:
    sketch, cells = lane(rng, 2)
    strew(sketch, rng, cells, 0.1)
    return furnished(sketch, rng, cells)


@worlds_of
def one_from_each(rng: Random) -> World:
    sketch, cells = lane(rng)
    strew(sketch, rng, cells, 0.5, 5)
    return furnished(sketch, rng, cells)


@worlds_of
def clean_the_row(rng: Random) -> World:
    sketch, cells = lane(rng)
    strew(sketch, rng, cells[1:], 0.5, 5)
    return furnished(sketch, rng, cells)


@worlds_of
def plant_a_garden(rng: Random) -> World:
    sketch, cells = lane(rng)
    strew(sketch, rng, cells[1:], 0.4)
    return furnished(sketch, rng, cells)


@worlds_of
def every_other_cell(rng: Random) -> World:
    sketch, cells = lane(rng)
    return furnished(sketch, rng, cells)


@worlds_of
def thin_out_the_row(rng: Random) -> World:
    sketch, cells = lane(rng)
    strew(sketch, rng, cells, 1.0, 2)
    return furnished(sketch, rng, cells)


@worlds_of
def mark_the_doors(rng: Random) -> World:
    sketch, cells = lane(rng)
    beside = [(row - 1, col) for row, col in cells if row]
    sketch.walls.update(cell for cell in beside if rng.random() < 0.6)
    return furnished(sketch, rng, cells + beside)


@worlds_of
def first_door(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 7), rng.randint(2, 9))
    row, start = rng.randint(2, sketch.rows - 1), rng.randrange(sketch.cols)
    door = rng.randint(start, sketch.cols - 1)
    sketch.place(row, start).wall(row - 1, range(start, door)).mark(row - 2, door, rng.randint(1, 2))
    kept = [(row, col) for col in range(start, door + 1)] + [(row - 1, door), (row - 2, door)]
    return furnished(sketch, rng, kept)


@worlds_of
def newspaper(rng: Random) -> World:
    wide, high, west, south = rng.randint(1, 3), rng.randint(1, 3), rng.randint(0, 1), rng.randint(0, 1)
    sketch = Sketch(south + high + 2 + rng.randint(0, 1), west + wide + 2 + rng.randint(1, 4))
    sketch.wall((south, south + high + 1), range(west, west + wide + 2))
    sketch.wall(range(south, south + high + 2), (west, west + wide + 1))
    door = south + rng.randint(1, high)
    sketch.walls.discard((door, west + wide + 1))
    paper = rng.randint(west + wide + 1, sketch.cols - 1)
    start = rng.randint(west + 1, west + wide)
    return sketch.place(door, start).mark(door, paper, rng.choice((1, 1, 2))).world(rng.randrange(4))


@worlds_of
def build_a_staircase(rng: Random) -> World:
    steps, row, col = rng.randint(1, 6), rng.randint(0, 2), rng.randint(0, 2)
    sketch = Sketch(row + steps + 1 + rng.randint(0, 2), col + steps + 1 + rng.randint(0, 2)).place(row, col)
    path = [(row + step, col + step + side) for step in range(steps) for side in (0, 1)] + [(row + steps, col + steps)]
    if sketch.cols > col + steps + 1:
        sketch.wall(row + steps, col + steps + 1)
    return furnished(sketch, rng, path, 0.06)


@worlds_of
def climb_the_stairs(rng: Random) -> World:
    steps, lead, ground = rng.randint(1, 6), rng.randint(0, 2), rng.randint(0, 1)
    sketch = Sketch(ground + steps + rng.randint(1, 3), lead + steps + 2 + rng.randint(0, 2)).place(ground, lead)
    sketch.wall(range(ground), range(sketch.cols))
    for col in range(lead + 1, sketch.cols):
        sketch.wall(range(ground, ground + min(col - lead, steps)), col)
    if ground + steps + 2 < sketch.rows and rng.random() < 0.3:
        sketch.mark(sketch.rows - 1, rng.randrange(sketch.cols))
    return sketch.world(rng.randrange(4))


@worlds_of
def corner_posts(rng: Random) -> World:
    sketch = room(rng, 8)
    edge = [(row, col) for row in range(sketch.rows) for col in (0, sketch.cols - 1)]
    edge += [(row, col) for row in (0, sketch.rows - 1) for col in range(sketch.cols)]
    return furnished(sketch.place(0, rng.randrange(sketch.cols - 1) if rng.random() < 0.3 else 0), rng, edge, 0.3)


@worlds_of
def fence_the_room(rng: Random) -> World:
    sketch = room(rng, 8)
    edge = [(row, col) for row in range(sketch.rows) for col in (0, sketch.cols - 1)]
    edge += [(row, col) for row in (0, sketch.rows - 1) for col in range(sketch.cols)]
    return furnished(sketch.place(0, 0), rng, edge, 0.3)


@worlds_of
def light_switches(rng: Random) -> World:
    sketch, cells = lane(rng)
    strew(sketch, rng, cells[1:], 0.5, 1)
    return furnished(sketch, rng, cells)


@worlds_of
def turn_at_the_signs(rng: Random) -> World:
    """The way winds inwards: each leg ends before it meets an earlier one."""
    sketch = Sketch(rng.randint(3, 9), rng.randint(3, 9))
    row, col = rng.randint(0, sketch.rows // 2), rng.randint(0, sketch.cols // 2)
    sketch.place(row, col)
    signs = rng.randint(0, 4)
    east = rng.randint(col + 1, sketch.cols - 1)
    north = rng.randint(row + 1, sketch.rows - 1)
    west = rng.randint(0, east - 1)
    turns = [(row, east), (north, east), (north, west)]
    if north - row > 1:
        turns.append((rng.randint(row + 1, north - 1), west))
    for cell in turns[:signs]:
        sketch.mark(*cell, rng.choice((1, 1, 2)))
    return sketch.world(rng.randrange(4))


@worlds_of
def left_or_right(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(2, 8))
    row, end, start = rng.randint(1, sketch.rows - 2), sketch.cols - 1, rng.randint(0, sketch.cols - 2)
    if rng.random() < 0.7:
        sketch.wall((row - 1, row + 1), range(end))
    if rng.random() < 0.5:
        sketch.mark(row, end, rng.randint(1, 3))
    kept = [(row, col) for col in range(sketch.cols)] + [(row - 1, end), (row + 1, end)]
    return furnished(sketch.place(row, start), rng, kept)


@worlds_of
def move_the_pile(rng: Random) -> World:
    sketch, cells = lane(rng, 2)
    pile = rng.randint(1, 8)
    sketch.mark(*cells[0], pile)
    if rng.random() < 0.3:
        sketch.mark(*cells[1], rng.randint(1, 9 - pile))
    return furnished(sketch, rng, cells)


@worlds_of
def around_the_rock(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 7), rng.randint(3, 9))
    row, rock = rng.randint(0, sketch.rows - 2), rng.randint(1, sketch.cols - 2)
    start = rng.randint(0, rock - 1)
    kept = [(row, col) for col in range(start, rock + 2)] + [(row + 1, col) for col in range(rock - 1, rock + 2)]
    return furnished(sketch.place(row, start).wall(row, rock), rng, kept, 0.15)


@worlds_of
def fix_the_road(rng: Random) -> World:
    sketch, cells = lane(rng, 2)
    if not cells[0][0]:
        sketch.rows += 1
        cells = [(row + 1, col) for row, col in cells]
        sketch.walls = {(row + 1, col) for row, col in sketch.walls}
        sketch.place(cells[0][0], cells[0][1])
    beside = [(row - 1, col) for row, col in cells]
    sketch.walls.update(cell for cell in beside[1:] if rng.random() < 0.6)
    sketch.walls.add(beside[0])
    return furnished(sketch, rng, cells + beside)


@worlds_of
def copy_the_row(rng: Random) -> World:
    sketch, cells = lane(rng, 2)
    if cells[0][0] == sketch.rows - 1:
        sketch.rows += 1
    strew(sketch, rng, cells[1:], 0.5, 2)
    return furnished(sketch, rng, cells + [(row + 1, col) for row, col in cells])


@worlds_of
def harvest_two_strips(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(3, 8))
    row, end = rng.randint(0, sketch.rows - 2), sketch.cols
    if end > 3 and rng.random() < 0.3:
        end = rng.randint(3, end - 1)
        sketch.wall(row, end)
    start = 0
    if end > 3 and rng.random() < 0.3:
        start = rng.randint(1, end - 3)  # only the second strip ends at a wall
        sketch.wall(row + 1, start - 1)
    first, second = ([(strip, col) for col in range(start, end)] for strip in (row, row + 1))
    strew(sketch, rng, first[1:], 0.7, 2)
    strew(sketch, rng, second[:-1], 0.7, 2)
    return furnished(sketch.place(row, start), rng, first + second)


@worlds_of
def snail_shell(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 9), rng.randint(2, 9))
    path, step = [(0, 0)], (0, 1)

    def free(cell: Cell) -> bool:
        inside = 0 <= cell[0] < sketch.rows and 0 <= cell[1] < sketch.cols
        return inside and not any(abs(cell[0] - row) + abs(cell[1] - col) == 1 for row, col in path[:-1])

    while True:
        ways = [step, (step[1], -step[0])]
        nexts = [(way, (path[-1][0] + way[0], path[-1][1] + way[1])) for way in ways]
        found = next(((way, cell) for way, cell in nexts if free(cell) and cell not in path), None)
        if found is None:
            break
        step = found[0]
        path.append(found[1])
    sketch.wall(range(sketch.rows), range(sketch.cols))
    sketch.walls.difference_update(path)
    start = rng.randint(0, min(2, len(path) - 2)) if rng.random() < 0.3 and sketch.cols > 3 else 0
    return (
        sketch.place(*path[start])
        .mark(*path[-1 if rng.random() < 0.7 else rng.randint(start + 1, len(path) - 1)])
        .world(rng.randrange(4))
    )


@worlds_of
def hurdles(rng: Random) -> World:
    return _track(rng, 1)


@worlds_of
def high_hurdles(rng: Random) -> World:
    return _track(rng, 4)


def _track(rng: Random, highest: int) -> World:
    """A track with hurdles and the marker at the goal."""
    sketch = Sketch(rng.randint(2, 4 + highest), rng.randint(3, 12))
    ground = rng.randint(0, 1) if sketch.rows > 2 else 0
    sketch.wall(range(ground), range(sketch.cols))
    start = rng.randint(0, 1)
    col, goals = start + rng.randint(1, 3), []
    while col < sketch.cols - 1:
        sketch.wall(range(ground, ground + rng.randint(1, min(highest, sketch.rows - ground - 1))), col)
        goals.append(col + 1)
        col += rng.randint(2, 4)
    free = [col for col in range(start + 1, sketch.cols) if (ground, col) not in sketch.walls]
    goal = rng.choice(goals) if goals and rng.random() < 0.2 else rng.choice(free) if rng.random() < 0.3 else free[-1]
    return sketch.place(ground, start).mark(ground, goal).world(rng.randrange(4))


@worlds_of
def ceiling_lamps(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(2, 7))
    ground = rng.randint(0, 1) if sketch.rows > 2 else 0
    sketch.wall(range(ground), range(sketch.cols))
    start = rng.randint(0, min(1, sketch.cols - 2))
    for col in range(sketch.cols):
        if col != start and rng.random() < 0.5:
            sketch.wall(rng.randint(ground + 1, sketch.rows - 1), col)
    if rng.random() < 0.2 and start + 2 < sketch.cols:
        sketch.wall(ground, rng.randint(start + 2, sketch.cols - 1))
    if rng.random() < 0.3:
        for row in range(ground, sketch.rows):
            for col in range(sketch.cols):
                if (row, col) not in sketch.walls and rng.random() < 0.15:
                    sketch.mark(row, col, rng.randint(1, 2))
    return sketch.place(ground, start).world(rng.randrange(4))


@worlds_of
def maze(rng: Random) -> World:
    """A maze without loops: every cell that is opened touches exactly one open cell."""
    sketch = Sketch(rng.randint(3, 7), rng.randint(3, 7))
    sketch.wall(range(sketch.rows), range(sketch.cols))
    path = [(rng.randrange(sketch.rows), rng.randrange(sketch.cols))]
    opened = {path[0]}

    def beside(cell: Cell) -> list[Cell]:
        return [(cell[0] + 1, cell[1]), (cell[0], cell[1] + 1), (cell[0] - 1, cell[1]), (cell[0], cell[1] - 1)]

    while path:
        closed = [cell for cell in beside(path[-1]) if cell in sketch.walls and cell not in opened]
        closed = [cell for cell in closed if sum(other in opened for other in beside(cell)) == 1]
        if closed:
            path.append(rng.choice(closed))
            opened.add(path[-1])
        else:
            path.pop()
    sketch.walls -= opened
    start, goal = rng.sample(sorted(opened), 2)
    return sketch.place(*start, rng.choice(("north", "east", "south", "west"))).mark(*goal).world()
