"""Write benchmarks/held_out_2.jsonl: `python tools/held_out_new.py [--only NAME ...]`

Fifty tasks of the kind that teachers pose, written without a look at other sets of tasks, but for the names in the
gallery, and without running the solver on them. The format is that of benchmarks/held_out.jsonl. Worlds are small and
tidy: the same idea in each, in different sizes, nearly always drawn the same way up. Everything is seeded: the same
sources write the same file.

Examples are chosen as in tools/make_held_out.py and ordered by its `make_ordered`: typical ones first, edge cases last.

With --only nothing is written: the examples of these tasks are printed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tools.drawn_tasks import DrawnTask, Sketch, posing, winding_path  # noqa: E402
from tools.make_held_out import make_ordered, write_tasks  # noqa: E402

from karelsynth.karel.world import HEADINGS, Cell, World  # noqa: E402

FILE: Final = ROOT / "benchmarks" / "held_out_2.jsonl"
TASKS: Final[list[DrawnTask]] = []
posed = posing(TASKS)


def main() -> None:
    write_tasks(__doc__.splitlines()[0], TASKS, make_ordered, FILE)


# Parts of worlds.


def line(rng: Random, short: int, most: int, start: int | None = None) -> tuple[Sketch, int, int, int]:
    """Karel faces east on a row of so many cells, maybe with a wall behind its end: a sketch, row, start and length."""
    rows, length = rng.randint(2, 4), rng.randint(short, most)
    before, wall = (rng.randint(0, 2) if start is None else start), rng.random() < 0.25
    sketch = Sketch(rows, max(2, before + length + wall))
    row = rng.randrange(rows)
    if wall or sketch.cols > before + length:
        sketch.wall(row, before + length)
    sketch.place(row, before)
    return sketch, row, before, length


def field(rng: Random, rows: int, cols: int, heading: str = "east") -> tuple[Sketch, int, int]:
    """A field with hedges on some sides and Karel in its corner, bottom left: a sketch, that row and that column."""
    below, left, above, right = (int(rng.random() < 0.25) for _ in range(4))
    sketch = Sketch(rows + below + above, cols + left + right).place(below, left, heading)
    if below:
        sketch.wall(0, range(sketch.cols))
    if above:
        sketch.wall(sketch.rows - 1, range(sketch.cols))
    if left:
        sketch.wall(range(sketch.rows), 0)
    if right:
        sketch.wall(range(sketch.rows), sketch.cols - 1)
    return sketch, below, left


def corridor(rng: Random, length: int) -> tuple[Sketch, list[Cell]]:
    """A winding corridor in rock, Karel at one end, and its cells."""
    rows, cols = rng.randint(5, 7), rng.randint(5, 8)
    path = winding_path(rng, rows, cols, length)
    low, left = min(row for row, _ in path) - 1, min(col for _, col in path) - 1
    path = [(row - low, col - left) for row, col in path]
    sketch = Sketch(max(row for row, _ in path) + 2, max(col for _, col in path) + 2).place(*path[0])
    sketch.walls = {(r, c) for r in range(sketch.rows) for c in range(sketch.cols)} - set(path)
    return sketch, path


def ground(sketch: Sketch, heights: list[int]) -> Sketch:
    """Earth up to these heights, one for each column."""
    for col, height in enumerate(heights):
        sketch.wall(range(height), col)
    return sketch


# Easy: at most 14 tokens.


@posed(
    "A parcel lies at Karel's feet. Carry it to the wall and put it down there.",
    "sequence, while, markers",
    "after first delivery tasks of school courses",
    """
    def run():
      pickMarker()
      while(frontIsClear):
        move()
      putMarker()
    """,
)
def deliver_the_parcel(rng: Random) -> World:
    sketch, row, start, _ = line(rng, 2, 7)
    return sketch.mark(row, start).world()


@posed(
    "Walk along the path until there is a tree on your right, and put a marker there.",
    "while, side sensor, markers",
    "after avenue tasks in Robot Karol lessons",
    """
    def run():
      while(rightIsClear):
        move()
      putMarker()
    """,
)
def first_tree_on_the_right(rng: Random) -> World:
    cols, start = rng.randint(4, 8), rng.randint(0, 2)
    sketch = Sketch(rng.randint(2, 4), cols).place(1, start)
    first = rng.randint(min(start + 1, cols - 1) if rng.random() < 0.9 else start, cols - 1)
    sketch.wall(0, first)
    for col in (*range(start), *range(first + 1, cols)):
        if rng.random() < 0.35:
            sketch.wall(0, col)
    return sketch.world()


@posed(
    "The bus stops two cells behind the marker. Take Karel there.",
    "while, sequence, search",
    "after bus stop tasks in beginners' courses",
    """
    def run():
      while(noMarkersPresent):
        move()
      move()
      move()
    """,
)
def two_past_the_stop(rng: Random) -> World:
    sketch, row, start, length = line(rng, 3, 8)
    return sketch.mark(row, start + rng.randint(0 if rng.random() < 0.15 else min(1, length - 3), length - 3)).world()


@posed(
    "Build a tower of five markers on the next cell, then step past it.",
    "repeat, markers",
    "after tower tasks in Robot Karol lessons",
    """
    def run():
      move()
      repeat(5):
        putMarker()
      move()
    """,
)
def tower_of_five(rng: Random) -> World:
    sketch, _, _, _ = line(rng, 3, 6)
    return sketch.world(rng.randrange(4))


@posed(
    "There is a wall beside Karel. Turn left until Karel looks at it.",
    "while, turning",
    "after turning tasks in beginners' courses",
    """
    def run():
      while(frontIsClear):
        turnLeft()
    """,
)
def face_the_wall(rng: Random) -> World:
    rows, cols = rng.randint(3, 5), rng.randint(3, 5)
    row, col = rng.randint(1, rows - 2), rng.randint(1, cols - 2)
    beside = rng.choice([(row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)])
    return Sketch(rows, cols).place(row, col, rng.choice(HEADINGS)).wall(*beside).world()


@posed(
    "On its way Karel passes a letter box. If a letter is in it, take the letter. Go on one step either way.",
    "if, markers",
    "after first tasks with if",
    """
    def run():
      move()
      if(markersPresent):
        pickMarker()
      move()
    """,
)
def letter_in_the_box(rng: Random) -> World:
    sketch, row, start, _ = line(rng, 3, 6)
    if rng.random() < 0.6:
        sketch.mark(row, start + 1)
    return sketch.world()


@posed(
    "Put a goalpost where Karel stands and another at the end of the row.",
    "while, markers",
    "after CodeHS-like first loops",
    """
    def run():
      putMarker()
      while(frontIsClear):
        move()
      putMarker()
    """,
)
def two_goalposts(rng: Random) -> World:
    sketch, _, _, _ = line(rng, 2, 8)
    return sketch.world()


@posed(
    "Climb three stairs.",
    "repeat, turning, stairs",
    "after stairs tasks in Czech and German schools",
    """
    def run():
      repeat(3):
        turnLeft()
        move()
        turnRight()
        move()
    """,
)
def three_stairs(rng: Random) -> World:
    start, landing = rng.randint(0, 3), rng.randint(0, 3)
    sketch = Sketch(rng.randint(4, 6), start + 4 + landing).place(0, start)
    return ground(sketch, [0] * (start + 1) + [1, 2, 3] + [3] * landing).world()


@posed(
    "Karel stands at the beginning of a path of tiles. Walk to its end and make it one tile longer.",
    "while, markers",
    "after path tasks in beginners' courses",
    """
    def run():
      while(markersPresent):
        move()
      putMarker()
    """,
)
def one_more_tile(rng: Random) -> World:
    sketch, row, start, length = line(rng, 2, 8)
    tiles = rng.randint(1, length - 1)
    for col in range(start, start + tiles):
        sketch.mark(row, col)
    return sketch.world()


@posed(
    "Eat the trail of crumbs, one from each cell, up to the first gap.",
    "while, markers",
    "after crumb trail tasks",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
    """,
)
def trail_of_crumbs(rng: Random) -> World:
    sketch, row, start, length = line(rng, 2, 8)
    crumbs = rng.randint(1, length - 1)
    for col in range(start, start + crumbs):
        sketch.mark(row, col)
    for col in range(start + crumbs + 1, start + length):
        if rng.random() < 0.3:
            sketch.mark(row, col)
    return sketch.world()


@posed(
    "Take markers from the pile until just one is left.",
    "while, piles",
    "after pile tasks in school courses",
    """
    def run():
      while(markersPresent):
        pickMarker()
      putMarker()
    """,
)
def just_one_left(rng: Random) -> World:
    rows, cols = rng.randint(2, 4), rng.randint(2, 4)
    row, col = rng.randrange(rows), rng.randrange(cols)
    return Sketch(rows, cols).place(row, col).mark(row, col, rng.randint(2, 9)).world()


@posed(
    "Jump like a knight: two cells ahead and one to the left. Leave a marker where you land.",
    "sequence, turning, markers",
    "after chess puzzles for beginners",
    """
    def run():
      move()
      move()
      turnLeft()
      move()
      putMarker()
    """,
)
def knight_jump(rng: Random) -> World:
    rows, cols = rng.randint(2, 5), rng.randint(3, 5)
    return Sketch(rows, cols).place(rng.randint(0, rows - 2), rng.randint(0, cols - 3)).world(rng.randrange(4))


# Medium: 15 to 35 tokens.


@posed(
    "Karel sits in a cell with one way out. Turn until the way is free, then run to its end.",
    "while, not, turning",
    "after escape tasks in school courses",
    """
    def run():
      while(not frontIsClear):
        turnLeft()
      while(frontIsClear):
        move()
    """,
)
def way_out_of_the_cell(rng: Random) -> World:
    sketch = Sketch(3, rng.randint(3, 7)).place(1, 1, rng.choice(HEADINGS))
    sketch.wall((0, 2), 1).wall(1, 0)
    if rng.random() < 0.5:
        sketch.wall((0, 2), (0, 2))
    return sketch.world(rng.randrange(4))


@posed(
    "Build a pile of twice as many markers on the next cell. The old pile is used up.",
    "while, piles, doubling",
    "after Stanford's doubling of beepers",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
        putMarker()
        putMarker()
        turnLeft()
        turnLeft()
        move()
        turnLeft()
        turnLeft()
    """,
)
def twice_as_many(rng: Random) -> World:
    sketch, row, start, _ = line(rng, 2, 5)
    return sketch.mark(row, start, rng.randint(1, 4)).world()


@posed(
    "Karel's pile has an even number of markers. Give half of them to the friend on the next cell and eat the rest.",
    "while, piles, halving",
    "after sharing tasks in school courses",
    """
    def run():
      while(markersPresent):
        pickMarker()
        pickMarker()
        move()
        putMarker()
        turnLeft()
        turnLeft()
        move()
        turnLeft()
        turnLeft()
    """,
)
def half_for_a_friend(rng: Random) -> World:
    sketch, row, start, _ = line(rng, 2, 5)
    return sketch.mark(row, start, rng.choice([2, 4, 6, 8])).world()


@posed(
    "Build a flagpole of markers from the floor to the ceiling, climb down again and look east.",
    "while, columns, comeback",
    "after column tasks in Code in Place",
    """
    def run():
      turnLeft()
      while(frontIsClear):
        putMarker()
        move()
      putMarker()
      turnLeft()
      turnLeft()
      while(frontIsClear):
        move()
      turnLeft()
    """,
)
def flagpole(rng: Random) -> World:
    rows, cols = rng.randint(3, 7), rng.randint(2, 5)
    sketch = Sketch(rows, cols).place(0, rng.randrange(cols))
    if rng.random() < 0.4:
        sketch.wall(rng.randint(2, rows - 1), range(cols))
    return sketch.world()


@posed(
    "Put a fence post on every third cell, from the first to the last cell of the row.",
    "while, patterns",
    "after fence tasks in school courses",
    """
    def run():
      putMarker()
      while(frontIsClear):
        move()
        move()
        move()
        putMarker()
    """,
)
def every_third_post(rng: Random) -> World:
    length, rows = rng.choice([4, 7, 10]), rng.randint(2, 4)
    before, wall, row = rng.randint(0, 2), int(rng.random() < 0.3), rng.randrange(rows)
    sketch = Sketch(rows, before + length + wall).place(row, before)
    return (sketch.wall(row, before + length) if wall else sketch).world()


@posed(
    "Walk along the house to the second door on the left and step into it.",
    "while, not, doors",
    "after door tasks in school courses",
    """
    def run():
      while(not leftIsClear):
        move()
      move()
      while(not leftIsClear):
        move()
      turnLeft()
      move()
    """,
)
def second_door(rng: Random) -> World:
    cols = rng.randint(4, 9)
    doors = sorted(rng.sample(range(cols), rng.choice([2, 2, 3])))
    sketch = Sketch(rng.randint(2, 3), cols).place(0, rng.randint(0, doors[0]))
    return sketch.wall(1, [col for col in range(cols) if col not in doors]).world()


@posed(
    "Walk once along the four walls and pick up the litter there. Leave what lies in the middle.",
    "repeat, while, if, borders",
    "after room cleaning tasks",
    """
    def run():
      repeat(4):
        while(frontIsClear):
          move()
          if(markersPresent):
            pickMarker()
        turnLeft()
    """,
)
def litter_along_the_walls(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(3, 6))
    for row in range(sketch.rows):
        for col in range(sketch.cols):
            if rng.random() < 0.3:
                sketch.mark(row, col)
    return sketch.world()


@posed(
    "Walk down the stairs, whose steps are of different height and width, to the wall and put a flag there.",
    "while, stairs, side sensor",
    "after stairs tasks in Czech and German schools",
    """
    def run():
      while(frontIsClear):
        move()
        while(rightIsClear):
          turnRight()
          move()
          turnLeft()
      putMarker()
    """,
)
def downstairs(rng: Random) -> World:
    heights = [0] * rng.randint(1, 2)
    while len(heights) < 6 and heights[0] < 4:
        heights = [heights[0] + rng.choice([1, 1, 2])] * rng.choice([1, 1, 2]) + heights
    sketch = Sketch(heights[0] + rng.randint(1, 2), len(heights)).place(heights[0], 0)
    return ground(sketch, heights).world()


@posed(
    "Follow the signs and collect them: one marker means turn left, two mean turn right. Stop at the wall.",
    "while, if, ifelse, signs",
    "after signpost tasks in school courses",
    """
    def run():
      while(frontIsClear):
        move()
        if(markersPresent):
          pickMarker()
          ifelse(markersPresent):
            pickMarker()
            turnRight()
          else:
            turnLeft()
    """,
)
def one_left_two_right(rng: Random) -> World:
    rows, cols = rng.randint(4, 7), rng.randint(4, 7)
    path = winding_path(rng, rows, cols, rng.randint(4, 10))
    sketch = Sketch(rows, cols).place(*path[0])
    for before, here, after in zip(path, path[1:], path[2:], strict=False):
        step = here[0] - before[0], here[1] - before[1]
        then = after[0] - here[0], after[1] - here[1]
        if then != step:
            sketch.mark(*here, 1 if then == (step[1], -step[0]) else 2)
    return sketch.world()


@posed(
    "Follow the winding corridor to the marker.",
    "while, if, ifelse, corridors",
    "after tunnel tasks in school courses",
    """
    def run():
      while(noMarkersPresent):
        if(not frontIsClear):
          ifelse(leftIsClear):
            turnLeft()
          else:
            turnRight()
        move()
    """,
)
def winding_corridor(rng: Random) -> World:
    sketch, path = corridor(rng, rng.randint(4, 10))
    return sketch.mark(*path[-1]).world()


@posed(
    "Put each book of the shelf one shelf higher. The last place of the shelf is empty.",
    "while, if, rows",
    "after shelf tasks in school courses",
    """
    def run():
      while(frontIsClear):
        if(markersPresent):
          pickMarker()
          turnLeft()
          move()
          putMarker()
          turnLeft()
          turnLeft()
          move()
          turnLeft()
        move()
    """,
)
def up_one_shelf(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 4), rng.randint(3, 7))
    row = rng.randrange(sketch.rows - 1)
    sketch.place(row, 0)
    for col in range(sketch.cols - 1):
        if rng.random() < 0.5:
            sketch.mark(row, col)
        if rng.random() < 0.15:
            sketch.mark(row + 1, col)
    return sketch.world()


@posed(
    "Walk to the end of the road and mark the narrow places, where there is a rock on both sides.",
    "while, if, side sensors",
    "after path tasks in competitions for beginners",
    """
    def run():
      while(frontIsClear):
        move()
        if(not leftIsClear):
          if(not rightIsClear):
            putMarker()
    """,
)
def narrow_places(rng: Random) -> World:
    sketch = Sketch(3, rng.randint(4, 9)).place(1, 0)
    for col in range(1, sketch.cols):
        for row in rng.choice([(), (0,), (2,), (0, 2), (0, 2)]):
            sketch.wall(row, col)
    return sketch.world()


@posed(
    "Draw a plus sign around Karel: four arms, each two markers long. Come back to the middle each time.",
    "repeat, shapes",
    "after drawing tasks with repeat",
    """
    def run():
      repeat(4):
        repeat(2):
          move()
          putMarker()
        turnLeft()
        turnLeft()
        repeat(2):
          move()
        turnLeft()
    """,
)
def plus_sign(rng: Random) -> World:
    rows, cols = rng.randint(5, 7), rng.randint(5, 7)
    sketch = Sketch(rows, cols).place(rng.randint(2, rows - 3), rng.randint(2, cols - 3))
    return sketch.world(rng.randrange(4))


@posed(
    "Go along the table. On every plate there shall be exactly one biscuit, however many there are now.",
    "while, nested while, piles",
    "after table laying tasks",
    """
    def run():
      while(frontIsClear):
        move()
        while(markersPresent):
          pickMarker()
        putMarker()
    """,
)
def one_on_every_plate(rng: Random) -> World:
    sketch, row, start, length = line(rng, 3, 7)
    for col in range(start + 1, start + length):
        if count := rng.choice([0, 0, 1, 2, 3, 4]):
            sketch.mark(row, col, count)
    return sketch.world()


@posed(
    "Fetch the ball: go to it, take it, carry it back to the wall where you started, and lay it down.",
    "while, search, comeback",
    "after fetch tasks in beginners' courses",
    """
    def run():
      while(noMarkersPresent):
        move()
      pickMarker()
      turnLeft()
      turnLeft()
      while(frontIsClear):
        move()
      putMarker()
    """,
)
def fetch_the_ball(rng: Random) -> World:
    sketch, row, start, length = line(rng, 2, 8, start=rng.choice([0, 0, 1]))
    if start:
        sketch.wall(row, 0)
    return sketch.mark(row, start + rng.randint(1, length - 1)).world()


@posed(
    "A pea lies under one of two cups, here or on the next cell. Put it under the other one. Stop at the second cup.",
    "ifelse, swap",
    "after shell game puzzles",
    """
    def run():
      ifelse(markersPresent):
        pickMarker()
        move()
        putMarker()
      else:
        move()
        pickMarker()
        turnLeft()
        turnLeft()
        move()
        putMarker()
        turnLeft()
        turnLeft()
        move()
    """,
)
def pea_under_the_cup(rng: Random) -> World:
    sketch, row, start, _ = line(rng, 2, 5)
    return sketch.mark(row, start + rng.randint(0, 1)).world()


@posed(
    "Walk once around the house, which is on your right, and put a lamp at each of its four corners.",
    "repeat, while, not, walls",
    "after house tasks in Robot Karol lessons",
    """
    def run():
      repeat(4):
        while(not rightIsClear):
          move()
        putMarker()
        turnRight()
        move()
    """,
)
def lamps_at_the_corners(rng: Random) -> World:
    high, wide = rng.randint(1, 4), rng.randint(1, 4)
    low, left = rng.randint(1, 2), rng.randint(1, 2)
    sketch = Sketch(low + high + rng.randint(1, 2), left + wide + rng.randint(1, 2)).place(low, left - 1, "north")
    return sketch.wall(range(low, low + high), range(left, left + wide)).world()


@posed(
    "There is a marker in each locker on the left of the corridor. Collect them all.",
    "while, if, niches",
    "after locker tasks in CodeHS-like courses",
    """
    def run():
      while(frontIsClear):
        move()
        if(leftIsClear):
          turnLeft()
          move()
          pickMarker()
          turnLeft()
          turnLeft()
          move()
          turnLeft()
    """,
)
def lockers(rng: Random) -> World:
    sketch = Sketch(2, rng.randint(4, 9)).wall(1, 0)
    for col in range(1, sketch.cols):
        if rng.random() < 0.5:
            sketch.mark(1, col)
        else:
            sketch.wall(1, col)
    return sketch.world()


@posed(
    "Two piles play: one marker is taken from each in turn, first here, then there. Stop where a pile has run out.",
    "while, if, piles, comparing",
    "after comparing tasks in competitions for beginners",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
        if(markersPresent):
          pickMarker()
          turnLeft()
          turnLeft()
          move()
          turnLeft()
          turnLeft()
    """,
)
def who_runs_out_first(rng: Random) -> World:
    sketch, row, start, _ = line(rng, 2, 5)
    return sketch.mark(row, start, rng.randint(1, 5)).mark(row, start + 1, rng.randint(1, 5)).world()


@posed(
    "Deal the pile of cards to the two players beside Karel: one to the left, one to the right, until none is left.",
    "while, if, piles, alternation",
    "after card dealing tasks",
    """
    def run():
      while(markersPresent):
        pickMarker()
        turnLeft()
        move()
        putMarker()
        turnLeft()
        turnLeft()
        move()
        turnLeft()
        if(markersPresent):
          pickMarker()
          turnRight()
          move()
          putMarker()
          turnLeft()
          turnLeft()
          move()
          turnRight()
    """,
)
def deal_the_cards(rng: Random) -> World:
    rows, cols = rng.randint(3, 5), rng.randint(2, 5)
    row, col = rng.randint(1, rows - 2), rng.randrange(cols)
    return Sketch(rows, cols).place(row, col).mark(row, col, rng.randint(1, 8)).world()


@posed(
    "Lay out the pile as a row: one marker on each cell, from Karel's cell on, and stop behind the last.",
    "while, nested while, piles",
    "after spreading tasks in competitions for beginners",
    """
    def run():
      while(markersPresent):
        pickMarker()
        while(markersPresent):
          pickMarker()
          move()
          putMarker()
          turnLeft()
          turnLeft()
          move()
          turnLeft()
          turnLeft()
        putMarker()
        move()
    """,
)
def lay_out_the_pile(rng: Random) -> World:
    count, rows = rng.choice([1, 2, 2, 3, 3, 4, 4, 5]), rng.randint(2, 4)
    start, row = rng.randint(0, 1), rng.randrange(rows)
    sketch = Sketch(rows, start + count + rng.randint(1, 2))
    return sketch.place(row, start).mark(row, start, count).world()


@posed(
    "Find the cheese in the maze with your right hand on the wall, and take it.",
    "while, nested while, not, mazes",
    "after mouse and cheese mazes",
    """
    def run():
      while(noMarkersPresent):
        turnRight()
        while(not frontIsClear):
          turnLeft()
        move()
      pickMarker()
    """,
)
def cheese_in_the_maze(rng: Random) -> World:
    rows, cols = rng.choice([3, 5, 5, 7]), rng.choice([5, 7])
    sketch = Sketch(rows, cols).place(0, 0, rng.choice(["north", "east"]))
    free, stack = {(0, 0)}, [(0, 0)]
    while stack:
        row, col = stack[-1]
        ways = [(r, c) for r, c in ((0, 2), (2, 0), (0, -2), (-2, 0)) if (row + r, col + c) not in free]
        ways = [(r, c) for r, c in ways if 0 <= row + r < rows and 0 <= col + c < cols]
        if ways:
            r, c = rng.choice(ways)
            free |= {(row + r // 2, col + c // 2), (row + r, col + c)}
            stack.append((row + r, col + c))
        else:
            stack.pop()
    sketch.walls = {(row, col) for row in range(rows) for col in range(cols)} - free
    ends = [
        (row, col)
        for row, col in sorted(free - {(0, 0)})
        if sum((row + r, col + c) in free for r, c in ((0, 1), (1, 0), (0, -1), (-1, 0))) == 1
    ]
    return sketch.mark(*rng.choice(ends)).world()


@posed(
    "All children in the row move up one seat towards the wall, where the last seat is free.",
    "while, if, rows, shifting",
    "after shifting tasks in school courses",
    """
    def run():
      while(frontIsClear):
        move()
      turnLeft()
      turnLeft()
      while(frontIsClear):
        move()
        if(markersPresent):
          pickMarker()
          turnLeft()
          turnLeft()
          move()
          putMarker()
          turnLeft()
          turnLeft()
    """,
)
def move_up_one_seat(rng: Random) -> World:
    sketch, row, _, length = line(rng, 3, 7, start=0)
    for col in range(length - 1):
        if rng.random() < 0.6:
            sketch.mark(row, col)
    return sketch.world()


# Hard: more than 35 tokens.


@posed(
    "Sow the whole field: one marker on every cell.",
    "while, nested while, fields",
    "after field tasks in school courses",
    """
    def run():
      putMarker()
      while(frontIsClear):
        while(frontIsClear):
          move()
          putMarker()
        turnLeft()
        turnLeft()
        while(frontIsClear):
          move()
        turnRight()
        if(frontIsClear):
          move()
          putMarker()
          turnRight()
    """,
)
def sow_the_field(rng: Random) -> World:
    sketch, _, _ = field(rng, rng.randint(2, 5), rng.randint(2, 5))
    return sketch.world()


@posed(
    "Make a checkerboard of markers. The board has an even number of rows, and its first corner stays empty.",
    "while, if, patterns, fields",
    "after Stanford's checkerboard",
    """
    def run():
      while(noMarkersPresent):
        while(frontIsClear):
          move()
          putMarker()
          if(frontIsClear):
            move()
        turnLeft()
        turnLeft()
        while(frontIsClear):
          move()
        turnRight()
        move()
        turnRight()
        putMarker()
        while(frontIsClear):
          move()
          if(frontIsClear):
            move()
            putMarker()
        turnLeft()
        turnLeft()
        while(frontIsClear):
          move()
        turnRight()
        if(frontIsClear):
          move()
          turnRight()
    """,
)
def checkerboard(rng: Random) -> World:
    sketch, _, _ = field(rng, rng.choice([2, 4, 4, 6]), rng.randint(2, 6))
    return sketch.world()


@posed(
    "Every third column of the hall has lost some stones. Put back those that are missing, from floor to ceiling.",
    "while, if, columns, repairing",
    "after Stanford's stone mason",
    """
    def run():
      while(frontIsClear):
        repeat(3):
          move()
        turnLeft()
        if(noMarkersPresent):
          putMarker()
        while(frontIsClear):
          move()
          if(noMarkersPresent):
            putMarker()
        turnLeft()
        turnLeft()
        while(frontIsClear):
          move()
        turnLeft()
    """,
)
def stone_columns(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 5), rng.choice([4, 7, 7, 10]))
    for col in range(3, sketch.cols, 3):
        for row in range(sketch.rows):
            if rng.random() < 0.5:
                sketch.mark(row, col)
    return sketch.world()


@posed(
    "Leave a marker at the cave's entrance, follow the passage to the treasure, and bring it back to the entrance.",
    "while, if, ifelse, corridors, comeback",
    "after cave tasks in competitions for beginners",
    """
    def run():
      putMarker()
      move()
      while(noMarkersPresent):
        if(not frontIsClear):
          ifelse(leftIsClear):
            turnLeft()
          else:
            turnRight()
        move()
      pickMarker()
      turnLeft()
      turnLeft()
      while(noMarkersPresent):
        if(not frontIsClear):
          ifelse(leftIsClear):
            turnLeft()
          else:
            turnRight()
        move()
      putMarker()
    """,
)
def treasure_and_back(rng: Random) -> World:
    sketch, path = corridor(rng, rng.randint(4, 10))
    return sketch.mark(*path[-1]).world()


@posed(
    "Swap two neighbouring piles. There is a free cell above the first one. Come back to the first pile.",
    "while, piles, swap",
    "after swapping tasks in school courses",
    """
    def run():
      while(markersPresent):
        pickMarker()
        turnLeft()
        move()
        putMarker()
        turnLeft()
        turnLeft()
        move()
        turnLeft()
      move()
      while(markersPresent):
        pickMarker()
        turnLeft()
        turnLeft()
        move()
        putMarker()
        turnLeft()
        turnLeft()
        move()
      turnLeft()
      move()
      turnLeft()
      move()
      while(markersPresent):
        pickMarker()
        turnLeft()
        move()
        turnLeft()
        move()
        putMarker()
        turnLeft()
        turnLeft()
        move()
        turnRight()
        move()
        turnLeft()
      turnLeft()
      move()
      turnLeft()
    """,
)
def swap_two_piles(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 4), rng.randint(2, 5))
    row, col = rng.randrange(sketch.rows - 1), rng.randrange(sketch.cols - 1)
    here, there = rng.sample(range(5) if rng.random() < 0.3 else range(1, 5), 2)
    sketch.place(row, col)
    for at, count in ((col, here), (col + 1, there)):
        if count:
            sketch.mark(row, at, count)
    return sketch.world()


@posed(
    "The apples fall: in every column behind the first, all apples shall lie on the ground.",
    "while, nested while, columns, piles",
    "after gravity puzzles",
    """
    def run():
      while(frontIsClear):
        move()
        turnLeft()
        while(frontIsClear):
          move()
        turnLeft()
        turnLeft()
        while(frontIsClear):
          while(markersPresent):
            pickMarker()
            move()
            putMarker()
            turnLeft()
            turnLeft()
            move()
            turnLeft()
            turnLeft()
          move()
        turnLeft()
    """,
)
def falling_apples(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 4), rng.randint(2, 4))
    for col in range(1, sketch.cols):
        for row in range(sketch.rows):
            if rng.random() < (0.35 if row else 0.15):
                sketch.mark(row, col)
    return sketch.world()


@posed(
    "Climb the mountain, whose steps are of different height, put a flag on the summit, and climb down to the wall.",
    "while, not, stairs, walls",
    "after Stanford's mountain",
    """
    def run():
      while(not frontIsClear):
        turnLeft()
        while(not rightIsClear):
          move()
        turnRight()
        move()
      putMarker()
      while(frontIsClear):
        move()
        turnRight()
        while(frontIsClear):
          move()
        turnLeft()
    """,
)
def flag_on_the_summit(rng: Random) -> World:
    up, down = [rng.randint(1, 3)], []
    while up[-1] < 5 and rng.random() < 0.7:
        up.append(min(5, up[-1] + rng.randint(1, 2)))
    height = up[-1]
    while height > 1 and rng.random() < 0.7:
        height -= rng.randint(1, min(2, height - 1))
        down.append(height)
    heights = [0] * rng.randint(1, 2) + up + down + [0] * rng.randint(1, 2)
    sketch = Sketch(up[-1] + rng.randint(1, 2), len(heights)).place(0, heights.index(up[0]) - 1)
    return ground(sketch, heights).world()


@posed(
    "Mark both diagonals of the square room. A cell on both gets one marker.",
    "while, if, shapes",
    "after drawing tasks in school courses",
    """
    def run():
      while(frontIsClear):
        putMarker()
        move()
        turnLeft()
        move()
        turnRight()
      putMarker()
      turnRight()
      while(frontIsClear):
        move()
      turnRight()
      while(frontIsClear):
        if(noMarkersPresent):
          putMarker()
        move()
        turnRight()
        move()
        turnLeft()
      putMarker()
    """,
)
def x_in_the_room(rng: Random) -> World:
    size = rng.randint(2, 7)
    sketch, _, _ = field(rng, size, size)
    return sketch.world()


@posed(
    "Turn the row of piles into a bar chart: a pile of three becomes a bar of three cells above it.",
    "while, nested while, piles, columns",
    "after bar chart tasks",
    """
    def run():
      while(frontIsClear):
        move()
        while(markersPresent):
          pickMarker()
          turnLeft()
          move()
          while(markersPresent):
            move()
          putMarker()
          turnLeft()
          turnLeft()
          while(frontIsClear):
            move()
          turnLeft()
    """,
)
def bar_chart(rng: Random) -> World:
    rows, cols = rng.randint(3, 5), rng.randint(3, 6)
    sketch = Sketch(rows, cols)
    for col in range(1, cols):
        if count := rng.randint(0, rows - 1):
            sketch.mark(0, col, count)
    return sketch.world()


@posed(
    "Measure the room: at the start there shall be as many markers as there are steps to the far wall.",
    "while, nested while, counting, comeback",
    "after measuring tasks in competitions for beginners",
    """
    def run():
      while(frontIsClear):
        move()
        putMarker()
      turnLeft()
      turnLeft()
      while(frontIsClear):
        while(markersPresent):
          pickMarker()
          move()
          putMarker()
          turnLeft()
          turnLeft()
          move()
          turnLeft()
          turnLeft()
        move()
      turnLeft()
      turnLeft()
    """,
)
def measure_the_room(rng: Random) -> World:
    sketch, row, start, _ = line(rng, 2, 6, start=rng.choice([0, 0, 1]))
    if start:
        sketch.wall(row, 0)
    return sketch.world()


@posed(
    "Put one marker in the middle of the row. The row has an odd number of cells.",
    "while, ifelse, nested while, search",
    "after Stanford's midpoint",
    """
    def run():
      putMarker()
      while(frontIsClear):
        move()
      putMarker()
      turnLeft()
      turnLeft()
      while(markersPresent):
        pickMarker()
        move()
        ifelse(noMarkersPresent):
          putMarker()
          move()
          while(noMarkersPresent):
            move()
          turnLeft()
          turnLeft()
        else:
          pickMarker()
      putMarker()
    """,
)
def midpoint(rng: Random) -> World:
    length, rows, wall = rng.choice([3, 5, 7, 9]), rng.randint(2, 4), int(rng.random() < 0.3)
    sketch, row = Sketch(rows, length + wall), rng.randrange(rows)
    if wall:
        sketch.wall(row, length)
    return sketch.place(row, 0).world()


@posed(
    "Weed the lawn row by row, there and back like a mower, and stop at the end of the last row.",
    "while, if, fields, zigzag",
    "after lawn mowing tasks",
    """
    def run():
      if(markersPresent):
        pickMarker()
      while(frontIsClear):
        while(frontIsClear):
          move()
          if(markersPresent):
            pickMarker()
        turnLeft()
        if(frontIsClear):
          move()
          if(markersPresent):
            pickMarker()
          turnLeft()
          while(frontIsClear):
            move()
            if(markersPresent):
              pickMarker()
          turnRight()
          if(frontIsClear):
            move()
            if(markersPresent):
              pickMarker()
            turnRight()
    """,
)
def weed_the_lawn(rng: Random) -> World:
    rows, cols = rng.randint(2, 5), rng.randint(2, 6)
    sketch, low, left = field(rng, rows, cols)
    for row in range(low, low + rows):
        for col in range(left, left + cols):
            if rng.random() < 0.4:
                sketch.mark(row, col)
    return sketch.world()


@posed(
    "Karel is in a house with one door. Find it along the walls, leave, walk to the fence and put a marker there.",
    "while, ifelse, not, doors, walls",
    "after tasks about leaving a room",
    """
    def run():
      while(frontIsClear):
        move()
      turnLeft()
      while(not rightIsClear):
        ifelse(frontIsClear):
          move()
        else:
          turnLeft()
      turnRight()
      while(frontIsClear):
        move()
      putMarker()
    """,
)
def way_out_of_the_house(rng: Random) -> World:
    high, wide = rng.randint(2, 3), rng.randint(2, 4)
    margin = [rng.randint(1, 2) if rng.random() < 0.25 else 1 for _ in range(4)]
    low, left = margin[0] + 1, margin[1] + 1
    sketch = Sketch(low + high + 1 + margin[2], left + wide + 1 + margin[3])
    inside = [(row, col) for row in range(low, low + high) for col in range(left, left + wide)]
    sketch.wall(range(low - 1, low + high + 1), range(left - 1, left + wide + 1))
    side = rng.choice(HEADINGS)
    row, col = rng.choice(inside)
    door = {
        "north": (low + high, col),
        "south": (low - 1, col),
        "east": (row, left + wide),
        "west": (row, left - 1),
    }[side]
    sketch.walls -= {*inside, door}
    places = [
        (r, c, heading)
        for r, c in inside
        for heading in HEADINGS
        if heading != side or (c != col if side in ("north", "south") else r != row)
    ]
    return sketch.place(*rng.choice(places)).world()


@posed(
    "Sort the eggs on the belt: single eggs go up to the left, pairs go down to the right.",
    "while, if, ifelse, sorting",
    "after sorting tasks in school courses",
    """
    def run():
      while(frontIsClear):
        move()
        if(markersPresent):
          pickMarker()
          ifelse(markersPresent):
            pickMarker()
            turnRight()
            move()
            putMarker()
            putMarker()
            turnLeft()
            turnLeft()
            move()
            turnRight()
          else:
            turnLeft()
            move()
            putMarker()
            turnLeft()
            turnLeft()
            move()
            turnLeft()
    """,
)
def sort_the_eggs(rng: Random) -> World:
    sketch = Sketch(3, rng.randint(3, 8)).place(1, 0)
    for col in range(1, sketch.cols):
        if count := rng.randint(0, 2):
            sketch.mark(1, col, count)
    return sketch.world()


@posed(
    "Walk to the lake and build a fence around it: one marker on every cell of the shore.",
    "while, nested while, not, walls",
    "after lake tasks with the right-hand rule",
    """
    def run():
      while(frontIsClear):
        move()
      while(not frontIsClear):
        turnLeft()
      putMarker()
      move()
      while(noMarkersPresent):
        putMarker()
        turnRight()
        while(not frontIsClear):
          turnLeft()
        move()
    """,
)
def fence_round_the_lake(rng: Random) -> World:
    shape = rng.choice(
        ["#", "##", "#/#", "##/##", "##/#.", "#./##", "##/.#", ".#/##", "###/.#.", ".#./###", ".#./###/.#."]
    )
    high, wide = len(shape.split("/")), len(shape.split("/")[0])
    low, left = rng.randint(1, 3), rng.randint(1, 2)
    sketch = Sketch(low + high + rng.randint(1, 2), left + wide + rng.randint(1, 2))
    for row, part in enumerate(reversed(shape.split("/"))):
        sketch.wall(low + row, [left + col for col, char in enumerate(part) if char == "#"])
    col = rng.randrange(left, left + wide)
    shore = min(row for row, at in sketch.walls if at == col) - 1
    return sketch.place(rng.randint(max(0, shore - 2), shore), col, "north").world()


if __name__ == "__main__":
    main()
