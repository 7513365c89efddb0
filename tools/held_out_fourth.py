"""Write benchmarks/held_out_4.jsonl: `python tools/held_out_fourth.py [--only NAME ...]`

Sixty tasks of the kind that teachers and textbooks pose. Their author saw no other set of tasks, except one task of the
third and a few names in tests/test_held_out.py, and no generator, and did not run the solver on them. The format is
that of benchmarks/held_out.jsonl. Worlds are small and tidy. In about a third of the tasks Karel's heading differs from
world to world, in more his place does. Everything is seeded: the same sources write the same file. A task's source is
the course or book whose exercises it resembles; words and worlds are new. Tasks of more than 20 tokens that an earlier
set has too were replaced: a script compared the references and printed the names of those tasks only.

Examples are chosen as in tools/make_held_out.py and ordered by its `make_ordered`: typical ones first, edge cases last.

With --only nothing is written: the examples of these tasks are printed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tools.drawn_tasks import DrawnTask, Sketch, posing, winding_path  # noqa: E402
from tools.make_held_out import make_ordered, write_tasks  # noqa: E402

from karelsynth.karel.world import HEADINGS, STEP, Cell, World  # noqa: E402

FILE: Final = ROOT / "benchmarks" / "held_out_4.jsonl"
TASKS: Final[list[DrawnTask]] = []
posed = posing(TASKS)


def main() -> None:
    write_tasks(__doc__.splitlines()[0], TASKS, make_ordered, FILE)


# Parts of worlds.


def field(rng: Random, rows: tuple[int, int], cols: tuple[int, int]) -> Sketch:
    """An empty world. Karel stands in the bottom left corner and faces east."""
    return Sketch(rng.randint(*rows), rng.randint(*cols))


def turn(heading: str, lefts: int) -> str:
    """The heading after so many quarter turns to the left."""
    return HEADINGS[(HEADINGS.index(heading) - lefts) % 4]


def ahead(sketch: Sketch, cell: Cell, heading: str) -> list[Cell]:
    """The free cells before that one, up to the next wall."""
    found = []
    row, col = cell[0] + STEP[heading][0], cell[1] + STEP[heading][1]
    while 0 <= row < sketch.rows and 0 <= col < sketch.cols and (row, col) not in sketch.walls:
        found.append((row, col))
        row, col = row + STEP[heading][0], col + STEP[heading][1]
    return found


def somewhere(
    rng: Random,
    sketch: Sketch,
    front: int = 0,
    left: int = 0,
    back: int = 0,
    right: int = 0,
    headings: Sequence[str] = HEADINGS,
) -> list[Cell]:
    """Place Karel on any free cell with any of the headings and so many free cells around. The cells before him."""
    while True:
        cell, heading = (rng.randrange(sketch.rows), rng.randrange(sketch.cols)), rng.choice(headings)
        ways = [ahead(sketch, cell, turn(heading, lefts)) for lefts in range(4)]
        if cell not in sketch.walls and all(map(lambda way, n: len(way) >= n, ways, (front, left, back, right))):
            sketch.place(*cell, heading)
            return ways[0]


def some(rng: Random, numbers: Iterable[int], least: int = 1, most: int = 99) -> list[int]:
    """At least and at most so many of the numbers, in order."""
    numbers = list(numbers)
    return sorted(rng.sample(numbers, rng.randint(min(least, len(numbers)), min(most, len(numbers)))))


def spaced(rng: Random, first: int, last: int, gap: int) -> list[int]:
    """Numbers from first to last, each at least `gap` after the one before. At least one."""
    found = [min(first + rng.randint(0, 1), last)]
    while found[-1] + gap <= last:
        found.append(found[-1] + gap + rng.choice((0, 0, 1)))
    return [number for number in found if number <= last]


def rock(rows: int, cols: int, free: Iterable[Cell]) -> Sketch:
    """Solid rock but for these cells."""
    sketch = Sketch(rows, cols)
    sketch.walls = {(row, col) for row in range(rows) for col in range(cols)} - set(free)
    return sketch


def ground(rows: int, heights: Sequence[int]) -> Sketch:
    """Ground of such a height in each column. Karel stands on the leftmost and faces east."""
    sketch = Sketch(rows, len(heights)).place(heights[0], 0)
    for col, height in enumerate(heights):
        sketch.wall(range(height), col)
    return sketch


def street(cols: int, depths: dict[int, int], rows: int) -> Sketch:
    """A street at the bottom, above it houses with openings of such a depth at these columns."""
    sketch = Sketch(rows, cols)
    for col in range(cols):
        sketch.wall(range(1 + depths.get(col, 0), rows), col)
    return sketch


def maze(rng: Random, rows: int, cols: int) -> Sketch:
    """A maze without loops. Rows and columns are odd. Karel stands in the bottom left corner."""
    free, stack = {(0, 0)}, [(0, 0)]
    while stack:
        row, col = stack[-1]
        ways = [(row + 2 * up, col + 2 * right) for up, right in STEP.values()]
        ways = [(r, c) for r, c in ways if 0 <= r < rows and 0 <= c < cols and (r, c) not in free]
        if ways:
            to = rng.choice(ways)
            free |= {to, ((row + to[0]) // 2, (col + to[1]) // 2)}
            stack.append(to)
        else:
            stack.pop()
    return rock(rows, cols, free)


# Easy: references of up to 14 tokens.


@posed(
    "Take a step, put two beepers on top of each other, and take another step.",
    "sequence",
    "CodeHS",
    """
    def run():
      move()
      putMarker()
      putMarker()
      move()
    """,
)
def short_stack(rng: Random) -> World:
    sketch = field(rng, (2, 5), (3, 7))
    somewhere(rng, sketch, front=2, headings=("east",))
    return sketch.world()


@posed(
    "A knight jumps: two steps ahead and one to the right. Mark the place where it lands.",
    "sequence",
    "own",
    """
    def run():
      move()
      move()
      turnRight()
      move()
      putMarker()
    """,
)
def knight_jump(rng: Random) -> World:
    sketch = field(rng, (3, 6), (3, 6))
    somewhere(rng, sketch, front=2, right=1)
    return sketch.world()


@posed(
    "Put three pancakes on the plate in front of you and walk on.",
    "repeat",
    "CodeHS",
    """
    def run():
      move()
      repeat(3):
        putMarker()
      move()
    """,
)
def three_pancakes(rng: Random) -> World:
    sketch = field(rng, (2, 5), (3, 8))
    somewhere(rng, sketch, front=2, headings=("east",))
    return sketch.world()


@posed(
    "Build two piles of four bricks side by side, starting where you stand. Stop behind the second.",
    "repeat, nested",
    "own",
    """
    def run():
      repeat(2):
        repeat(4):
          putMarker()
        move()
    """,
)
def two_piles_of_four(rng: Random) -> World:
    sketch = field(rng, (2, 5), (3, 8))
    somewhere(rng, sketch, front=2, headings=("east",))
    return sketch.world()


@posed(
    "There is a beeper on this place and on the next five. Take all six and stop behind the last.",
    "repeat",
    "Robot Karol",
    """
    def run():
      repeat(6):
        pickMarker()
        move()
    """,
)
def harvest_six(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 4), rng.randint(7, 10))
    row, col = rng.randrange(sketch.rows), rng.randint(0, sketch.cols - 7)
    for at in range(col, col + 6):
        sketch.mark(row, at)
    return sketch.place(row, col).world()


@posed(
    "Run once round the bases, which are two steps apart, and put a beeper on each of the four.",
    "repeat, square",
    "own",
    """
    def run():
      repeat(4):
        move()
        move()
        putMarker()
        turnLeft()
    """,
)
def four_bases(rng: Random) -> World:
    sketch = field(rng, (3, 6), (3, 7))
    somewhere(rng, sketch, front=2, left=2)
    return sketch.world()


@posed(
    "Climb the three stairs before you.",
    "repeat, stairs",
    "CodeHS",
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
    flat = rng.randint(1, 4)
    sketch = ground(rng.randint(4, 7), [0] * flat + [1, 2] + [3] * rng.randint(1, 4))
    return sketch.place(0, flat - 1).world()


@posed(
    "Build a tower of single beepers from where you stand up to the ceiling.",
    "while, tower",
    "CodeHS",
    """
    def run():
      turnLeft()
      while(frontIsClear):
        putMarker()
        move()
      putMarker()
    """,
)
def big_tower(rng: Random) -> World:
    sketch = field(rng, (2, 8), (2, 6))
    return sketch.place(0, rng.randrange(sketch.cols)).world()


@posed(
    "In front of you is a pile of beepers. Take all of them and step to the far side.",
    "while, pile",
    "CodeHS",
    """
    def run():
      move()
      while(markersPresent):
        pickMarker()
      move()
    """,
)
def take_the_whole_pile(rng: Random) -> World:
    sketch = field(rng, (2, 5), (3, 7))
    way = somewhere(rng, sketch, front=2, headings=("east",))
    return sketch.mark(*way[0], rng.randint(1, 7)).world()


@posed(
    "Turn around, walk to the wall behind you and put the ball down there.",
    "while, turn around",
    "CS106A",
    """
    def run():
      turnLeft()
      turnLeft()
      while(frontIsClear):
        move()
      putMarker()
    """,
)
def ball_to_the_wall_behind(rng: Random) -> World:
    sketch = field(rng, (2, 5), (3, 9))
    somewhere(rng, sketch, back=1)
    return sketch.world()


@posed(
    "Walk along the wall on your left and stop at the first door in it.",
    "while, sensors",
    "Pattis",
    """
    def run():
      while(not leftIsClear):
        move()
    """,
)
def first_door_on_the_left(rng: Random) -> World:
    cols = rng.randint(4, 9)
    start = rng.randint(0, 1)
    sketch = Sketch(rng.randint(3, 4), cols).place(0, start)
    doors = some(rng, range(start + 1, cols), 1, 2)
    return sketch.wall(1, set(range(cols)) - set(doors)).world()


@posed(
    "Walk on to the flowers, pick one of them and turn to the left.",
    "while, search",
    "Robot Karol",
    """
    def run():
      while(noMarkersPresent):
        move()
      pickMarker()
      turnLeft()
    """,
)
def pick_a_flower(rng: Random) -> World:
    sketch = field(rng, (2, 5), (3, 8))
    way = somewhere(rng, sketch, front=1)
    return sketch.mark(*rng.choice(way), rng.randint(1, 4)).world()


@posed(
    "Put the letter down beside the first house on the right side of the street and look at the house.",
    "while, sensors",
    "own",
    """
    def run():
      while(rightIsClear):
        move()
      putMarker()
      turnRight()
    """,
)
def letter_for_the_first_house(rng: Random) -> World:
    sketch = field(rng, (2, 4), (4, 9))
    start = rng.randint(0, 1)
    return sketch.wall(0, some(rng, range(start + 1, sketch.cols), 1, 3)).place(1, start).world()


@posed(
    "Put a stone on each place from here up to the one before the ball. Stop at the ball and turn to the left.",
    "while, trail",
    "Karel J Robot",
    """
    def run():
      while(noMarkersPresent):
        putMarker()
        move()
      turnLeft()
    """,
)
def stones_up_to_the_ball(rng: Random) -> World:
    sketch = field(rng, (2, 5), (4, 8))
    way = somewhere(rng, sketch, front=1, headings=("east",))
    return sketch.mark(*rng.choice(way), rng.randint(1, 2)).world()


@posed(
    "If there is a ball on the next place, take it. In either case go on round the corner to the left.",
    "if",
    "own",
    """
    def run():
      move()
      if(markersPresent):
        pickMarker()
      turnLeft()
      move()
    """,
)
def perhaps_a_ball(rng: Random) -> World:
    sketch = field(rng, (2, 5), (2, 6))
    way = somewhere(rng, sketch, front=1, left=1)
    if rng.random() < 0.6:
        sketch.mark(*way[0], rng.randint(1, 2))
    return sketch.world()


@posed(
    "Put a ball on the place behind your back and return to where you were, looking the same way.",
    "sequence, turn around",
    "Code in Place",
    """
    def run():
      turnLeft()
      turnLeft()
      move()
      putMarker()
      turnLeft()
      turnLeft()
      move()
    """,
)
def ball_behind_your_back(rng: Random) -> World:
    sketch = field(rng, (2, 5), (2, 6))
    somewhere(rng, sketch, back=1)
    return sketch.world()


# Medium: references of 15 to 35 tokens.


@posed(
    "Walk to the end of the passage. Mark the crossings: the places with a way to the left and to the right.",
    "while, if, sensors",
    "Blockly",
    """
    def run():
      while(frontIsClear):
        move()
        if(leftIsClear):
          if(rightIsClear):
            putMarker()
    """,
)
def mark_the_crossings(rng: Random) -> World:
    cols = rng.randint(5, 10)
    free = [(1, col) for col in range(cols)]
    for col in range(1, cols):
        kind = rng.choice("  lrbb")
        free += [(2, col)] * (kind in "lb") + [(0, col)] * (kind in "rb")
    return rock(3, cols, free).place(1, 0).world()


@posed(
    "Put half of the pile under you on the place in front of you. If its number is odd, one beeper is lost.",
    "while, if, halving",
    "own",
    """
    def run():
      while(markersPresent):
        pickMarker()
        if(markersPresent):
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
def half_of_the_pile(rng: Random) -> World:
    sketch = field(rng, (2, 4), (2, 5))
    somewhere(rng, sketch, front=1, headings=("east",))
    return sketch.mark(*sketch.hero[:2], rng.randint(1, 9)).world()


@posed(
    "Walk to the wall. Put a milestone where you start, on every third place from there, and at the wall.",
    "while, repeat, if",
    "CS106A",
    """
    def run():
      while(frontIsClear):
        putMarker()
        repeat(3):
          if(frontIsClear):
            move()
      putMarker()
    """,
)
def milestones(rng: Random) -> World:
    sketch = field(rng, (2, 4), (4, 12))
    return sketch.place(rng.randrange(sketch.rows), rng.randint(0, 1)).world()


@posed(
    "Walk down to the river, which is at the wall. Put a stone wherever you have just come down a step.",
    "while, if, stairs",
    "CodeHS",
    """
    def run():
      while(frontIsClear):
        move()
        if(rightIsClear):
          turnRight()
          move()
          turnLeft()
          putMarker()
    """,
)
def down_the_steps(rng: Random) -> World:
    heights = [rng.randint(1, 4)]
    for _ in range(rng.randint(3, 8)):
        heights.append(max(0, heights[-1] - rng.choice((0, 1, 1))))
    return ground(heights[0] + rng.randint(2, 3), heights).world()


@posed(
    "Walk to the well, climb down to the water, take the bucket and climb back up to the road.",
    "while, sensors",
    "own",
    """
    def run():
      while(not rightIsClear):
        move()
      turnRight()
      while(frontIsClear):
        move()
      pickMarker()
      turnLeft()
      turnLeft()
      while(not leftIsClear):
        move()
    """,
)
def bucket_from_the_well(rng: Random) -> World:
    depth, cols = rng.randint(1, 4), rng.randint(3, 7)
    well = rng.randint(1, cols - 1)
    heights = [depth] * cols
    heights[well] = rng.randint(0, depth - 1)
    return ground(depth + rng.randint(1, 3), heights).mark(heights[well], well).world()


@posed(
    "Draw the teeth of a saw: beepers on this row and the next by turns, up to the wall.",
    "while, pattern",
    "Robot Karol",
    """
    def run():
      while(frontIsClear):
        putMarker()
        move()
        turnLeft()
        move()
        putMarker()
        turnRight()
        move()
        turnRight()
        move()
        turnLeft()
      putMarker()
    """,
)
def teeth_of_a_saw(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.choice((3, 5, 7, 9)))
    return sketch.place(rng.randint(0, sketch.rows - 2), 0).world()


@posed(
    "Put chairs along all four walls of the hall, but none in the corners. Come back to your corner.",
    "repeat, while, border",
    "own",
    """
    def run():
      repeat(4):
        move()
        while(frontIsClear):
          putMarker()
          move()
        turnLeft()
    """,
)
def chairs_along_the_walls(rng: Random) -> World:
    return field(rng, (2, 7), (2, 8)).world()


@posed(
    "The toy car drives on and turns right whenever it bumps into something. At the ball it stops and takes it.",
    "while, if else",
    "Open Roberta",
    """
    def run():
      while(noMarkersPresent):
        ifelse(frontIsClear):
          move()
        else:
          turnRight()
      pickMarker()
    """,
)
def toy_car(rng: Random) -> World:
    while True:
        sketch = field(rng, (3, 6), (4, 7))
        for _ in range(rng.randint(2, 6)):
            sketch.wall(rng.randrange(sketch.rows), rng.randrange(sketch.cols))
        somewhere(rng, sketch)
        cell, heading = sketch.hero[:2], sketch.hero.heading
        seen, new = {cell}, []
        for lefts in (0, 3, 3, 3, 3)[: rng.randint(2, 5)]:
            heading = turn(heading, lefts)
            way = ahead(sketch, cell, heading)
            new = [to for to in way if to not in seen]
            seen.update(way)
            cell = way[-1] if way else cell
        if new:
            return sketch.mark(*rng.choice(new)).world()


@posed(
    "Build two towers of three single beepers, with a gap of one place between them, and walk on.",
    "repeat, nested, tower",
    "CodeHS",
    """
    def run():
      repeat(2):
        move()
        turnLeft()
        repeat(3):
          putMarker()
          move()
        turnLeft()
        turnLeft()
        repeat(3):
          move()
        turnLeft()
        move()
    """,
)
def two_towers(rng: Random) -> World:
    sketch = field(rng, (4, 6), (5, 8))
    sketch.place(rng.randint(0, sketch.rows - 4), rng.randint(0, sketch.cols - 5))
    return sketch.world()


@posed(
    "Mend the road: put a stone into every hole in it, unless there is one already.",
    "while, if, nested",
    "CS106A",
    """
    def run():
      while(frontIsClear):
        if(rightIsClear):
          turnRight()
          move()
          if(noMarkersPresent):
            putMarker()
          turnLeft()
          turnLeft()
          move()
          turnRight()
        move()
    """,
)
def mend_the_road(rng: Random) -> World:
    cols = rng.randint(4, 9)
    holes = some(rng, range(cols - 1), 2, 5)
    sketch = ground(rng.randint(2, 4), [int(col not in holes) for col in range(cols)]).place(1, 0)
    for col in holes:
        if rng.random() < 0.4:
            sketch.mark(0, col)
    return sketch.world()


@posed(
    "The pile under you says how many steps to go. Use it up on the way and put one beeper where you arrive.",
    "while, nested, counting",
    "own",
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
        move()
      putMarker()
    """,
)
def as_many_steps_as_beepers(rng: Random) -> World:
    sketch = field(rng, (2, 6), (3, 7))
    way = somewhere(rng, sketch, front=1)
    return sketch.mark(*sketch.hero[:2], rng.randint(1, min(5, len(way)))).world()


@posed(
    "Bring the sand heap to the other side of the low wall, one beeper at a time.",
    "while, carrying",
    "Robot Karol",
    """
    def run():
      while(markersPresent):
        pickMarker()
        turnLeft()
        move()
        turnRight()
        move()
        move()
        turnRight()
        move()
        turnLeft()
        putMarker()
        turnLeft()
        move()
        turnLeft()
        move()
        move()
        turnLeft()
        move()
        turnLeft()
    """,
)
def sand_over_the_wall(rng: Random) -> World:
    sketch = field(rng, (2, 4), (3, 6))
    row, col = rng.randint(0, sketch.rows - 2), rng.randint(0, sketch.cols - 3)
    sketch.wall(range(row + 1), col + 1).place(row, col).mark(row, col, rng.randint(1, 5))
    return sketch.world()


@posed(
    "Go straight on to the flag. Walk round each rock that is in the way on its left side.",
    "while, if else, obstacles",
    "Pattis",
    """
    def run():
      while(noMarkersPresent):
        ifelse(frontIsClear):
          move()
        else:
          turnLeft()
          move()
          turnRight()
          move()
          move()
          turnRight()
          move()
          turnLeft()
    """,
)
def round_the_rocks(rng: Random) -> World:
    sketch = field(rng, (2, 4), (5, 10))
    row = rng.randint(0, sketch.rows - 2)
    sketch.wall(row, spaced(rng, 1, sketch.cols - 2, 2)).mark(row, sketch.cols - 1)
    return sketch.place(row, 0).world()


@posed(
    "Fetch the ball that lies at the wall ahead and bring it to the place where you started.",
    "while, carrying",
    "Code in Place",
    """
    def run():
      putMarker()
      while(frontIsClear):
        move()
      pickMarker()
      turnLeft()
      turnLeft()
      while(noMarkersPresent):
        move()
    """,
)
def fetch_the_ball(rng: Random) -> World:
    sketch = field(rng, (2, 5), (3, 8))
    way = somewhere(rng, sketch, front=1)
    return sketch.mark(*way[-1]).world()


@posed(
    "Treasure hunt: take the beepers under you, turn left as many times, walk to the wall. Go on until you find none.",
    "while, nested, counting",
    "Pattis",
    """
    def run():
      while(markersPresent):
        while(markersPresent):
          pickMarker()
          turnLeft()
        while(frontIsClear):
          move()
    """,
)
def treasure_hunt(rng: Random) -> World:
    while True:
        sketch = field(rng, (4, 6), (4, 7))
        for _ in range(rng.randint(2, 4)):
            sketch.wall(rng.randrange(sketch.rows), rng.randrange(sketch.cols))
        somewhere(rng, sketch)
        cell, heading = sketch.hero[:2], sketch.hero.heading
        for _ in range(rng.randint(2, 4)):
            count = rng.randint(1, 3)
            heading = turn(heading, count)
            way = ahead(sketch, cell, heading)
            if cell in sketch.markers or not way:
                break
            sketch.mark(*cell, count)
            cell = way[-1]
        else:
            if cell not in sketch.markers:
                return sketch.world()


@posed(
    "Follow the winding trail of beepers to its end and put a second one on each.",
    "while, if, trail",
    "CodeHS",
    """
    def run():
      while(markersPresent):
        putMarker()
        move()
        if(noMarkersPresent):
          turnLeft()
          turnLeft()
          move()
          turnRight()
          move()
          if(noMarkersPresent):
            turnLeft()
            turnLeft()
            move()
            move()
    """,
)
def double_the_trail(rng: Random) -> World:
    sketch = field(rng, (5, 7), (5, 8))
    path = winding_path(rng, sketch.rows, sketch.cols, rng.randint(4, 10))
    for cell in path:
        sketch.mark(*cell)
    return sketch.place(*path[0]).world()


@posed(
    "Walk to the tower, climb it, put a flag on its top and climb down on the other side.",
    "while, sensors, tower",
    "Pattis",
    """
    def run():
      while(frontIsClear):
        move()
      turnLeft()
      while(not rightIsClear):
        move()
      turnRight()
      move()
      putMarker()
      move()
      turnRight()
      while(frontIsClear):
        move()
      turnLeft()
    """,
)
def flag_on_the_tower(rng: Random) -> World:
    height = rng.randint(1, 5)
    heights = [0] * rng.randint(1, 4) + [height] + [0] * rng.randint(1, 4)
    return ground(height + rng.randint(1, 3), heights).world()


@posed(
    "It rains. Walk once round the room along its walls and close every window with a beeper.",
    "repeat, while, if, border",
    "Pattis",
    """
    def run():
      repeat(4):
        while(frontIsClear):
          if(rightIsClear):
            turnRight()
            move()
            putMarker()
            turnLeft()
            turnLeft()
            move()
            turnRight()
          move()
        turnLeft()
    """,
)
def close_the_windows(rng: Random) -> World:
    rows, cols = rng.randint(3, 5), rng.randint(3, 6)
    windows = [(row, col) for row in (0, rows + 1) for col in some(rng, range(2, cols), 0, 2)]
    windows += [(row, col) for col in (0, cols + 1) for row in some(rng, range(2, rows), 0, 2)]
    room = [(row, col) for row in range(1, rows + 1) for col in range(1, cols + 1)]
    return rock(rows + 2, cols + 2, room + windows).place(1, 1).world()


@posed(
    "Walk round the house, which is on your left, and put up a fence of beepers on all places around it.",
    "while, if, border",
    "Pattis",
    """
    def run():
      while(noMarkersPresent):
        putMarker()
        if(leftIsClear):
          turnLeft()
        move()
    """,
)
def fence_round_the_house(rng: Random) -> World:
    rows, cols = rng.randint(1, 3), rng.randint(1, 4)
    bottom, left = rng.randint(1, 2), rng.randint(1, 2)
    sketch = Sketch(bottom + rows + rng.randint(1, 2), left + cols + rng.randint(1, 2))
    sketch.wall(range(bottom, bottom + rows), range(left, left + cols))
    return sketch.place(bottom - 1, left + rng.randrange(cols)).world()


@posed(
    "Football: take the ball that lies on your way, carry it to the goal at the wall and run back to your own goal.",
    "while, carrying",
    "Code in Place",
    """
    def run():
      while(noMarkersPresent):
        move()
      pickMarker()
      while(frontIsClear):
        move()
      putMarker()
      turnLeft()
      turnLeft()
      while(frontIsClear):
        move()
    """,
)
def ball_into_the_goal(rng: Random) -> World:
    sketch = field(rng, (2, 4), (4, 9))
    row = rng.randrange(sketch.rows)
    return sketch.mark(row, rng.randint(0, sketch.cols - 2)).place(row, 0).world(rng.choice((0, 0, 2)))


@posed(
    "Compare the pile under you with the next: behind them make one of the smaller's size, taking as many from both.",
    "while, if, comparing",
    "OMI",
    """
    def run():
      while(markersPresent):
        move()
        if(markersPresent):
          pickMarker()
          move()
          putMarker()
          turnLeft()
          turnLeft()
          move()
          move()
          pickMarker()
          turnLeft()
          turnLeft()
    """,
)
def size_of_the_smaller_pile(rng: Random) -> World:
    sketch = field(rng, (2, 4), (3, 5))
    (to, *_) = somewhere(rng, sketch, front=2)
    sketch.mark(*sketch.hero[:2], rng.randint(1, 5))
    other = rng.randint(0, 5)
    return (sketch.mark(*to, other) if other else sketch).world()


@posed(
    "Deal the pile under you to the four places around: the first beeper ahead, the next to the right, and so on.",
    "while, pile",
    "own",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
        putMarker()
        turnLeft()
        turnLeft()
        move()
        turnLeft()
    """,
)
def deal_around_the_table(rng: Random) -> World:
    sketch = field(rng, (3, 5), (3, 6))
    somewhere(rng, sketch, front=1, left=1, back=1, right=1)
    return sketch.mark(*sketch.hero[:2], rng.randint(1, 9)).world()


@posed(
    "Posts come in pairs: where one starts, the next ends. Fill the places between the two posts of each pair.",
    "while, if, nested",
    "own",
    """
    def run():
      while(frontIsClear):
        move()
        if(markersPresent):
          move()
          while(noMarkersPresent):
            putMarker()
            move()
    """,
)
def between_the_posts(rng: Random) -> World:
    sketch = field(rng, (2, 4), (6, 12))
    row = rng.randrange(sketch.rows)
    posts = some(rng, range(1, sketch.cols), 2, 6)
    for col in posts[: len(posts) // 2 * 2]:
        sketch.mark(row, col)
    return sketch.place(row, 0).world()


@posed(
    "Write a big letter U, four high and five wide, beginning at the upper end of its left stroke.",
    "repeat, nested, pattern",
    "Pattis",
    """
    def run():
      repeat(3):
        repeat(4):
          putMarker()
          move()
        turnLeft()
      putMarker()
    """,
)
def letter_u(rng: Random) -> World:
    sketch = field(rng, (5, 8), (5, 9))
    return sketch.place(rng.randrange(4, sketch.rows), rng.randint(0, sketch.cols - 5), "south").world()


@posed(
    "Cross the fences to the flag in the corner: each has one gate, and you look for it from the left.",
    "while, nested, sensors",
    "own",
    """
    def run():
      while(noMarkersPresent):
        while(not leftIsClear):
          move()
        turnLeft()
        move()
        move()
        turnLeft()
        while(frontIsClear):
          move()
        turnLeft()
        turnLeft()
    """,
)
def through_the_gates(rng: Random) -> World:
    fences, cols = rng.randint(1, 3), rng.randint(3, 6)
    sketch = Sketch(2 * fences + 1, cols).mark(2 * fences, 0)
    for row in range(1, 2 * fences, 2):
        sketch.wall(row, set(range(cols)) - {rng.randrange(cols)})
    return sketch.world()


@posed(
    "Walk through the tunnel to the light at its end. Put a beeper at each bend on the way.",
    "while, if else, tunnel",
    "Blockly",
    """
    def run():
      while(noMarkersPresent):
        ifelse(frontIsClear):
          move()
        else:
          putMarker()
          ifelse(leftIsClear):
            turnLeft()
          else:
            turnRight()
          move()
    """,
)
def mark_the_bends(rng: Random) -> World:
    path: list[Cell] = []
    while len({row for row, _ in path}) < 2:
        rows, cols = rng.randint(4, 7), rng.randint(5, 8)
        path = winding_path(rng, rows, cols, rng.randint(4, 12))
    return rock(rows, cols, path).place(*path[0]).mark(*path[-1]).world()


# Hard: references of 36 tokens and more.


@posed(
    "Every second row is a shelf. Fill the gaps on all shelves, so that each place has a beeper.",
    "while, if, field",
    "CS106A",
    """
    def run():
      while(frontIsClear):
        if(noMarkersPresent):
          putMarker()
        move()
      if(noMarkersPresent):
        putMarker()
      turnLeft()
      turnLeft()
      while(frontIsClear):
        move()
      turnRight()
      while(frontIsClear):
        move()
        move()
        turnRight()
        while(frontIsClear):
          if(noMarkersPresent):
            putMarker()
          move()
        if(noMarkersPresent):
          putMarker()
        turnLeft()
        turnLeft()
        while(frontIsClear):
          move()
        turnRight()
    """,
)
def refill_the_shelves(rng: Random) -> World:
    sketch = Sketch(rng.choice((3, 3, 5)), rng.randint(3, 6))
    for row in range(0, sketch.rows, 2):
        for col in range(sketch.cols):
            if rng.random() < 0.55:
                sketch.mark(row, col)
    return sketch.world()


@posed(
    "Push the pearls on the string together, so that they lie side by side at the left end.",
    "while, if, sorting",
    "OMI",
    """
    def run():
      while(frontIsClear):
        move()
        if(markersPresent):
          pickMarker()
          turnLeft()
          turnLeft()
          while(frontIsClear):
            move()
          turnLeft()
          turnLeft()
          while(markersPresent):
            move()
          putMarker()
    """,
)
def pearls_on_a_string(rng: Random) -> World:
    sketch = field(rng, (2, 3), (4, 8))
    for col in some(rng, range(sketch.cols), 1, 5):
        sketch.mark(0, col)
    return sketch.world()


@posed(
    "Walk along the street and lay a carpet in each room on its left side, but not in the street.",
    "while, if, nested",
    "Pattis",
    """
    def run():
      while(frontIsClear):
        move()
        if(leftIsClear):
          turnLeft()
          while(frontIsClear):
            move()
            putMarker()
          turnLeft()
          turnLeft()
          while(frontIsClear):
            move()
          turnLeft()
    """,
)
def carpet_in_each_room(rng: Random) -> World:
    rows, cols = rng.randint(3, 5), rng.randint(4, 8)
    return street(cols, {col: rng.randint(1, rows - 1) for col in some(rng, range(1, cols), 1, 4)}, rows).world()


@posed(
    "Draw both diagonals of the square that is as wide as the field. No place gets two beepers.",
    "while, if, diagonal",
    "CS106A",
    """
    def run():
      putMarker()
      while(frontIsClear):
        move()
        turnLeft()
        move()
        turnRight()
        putMarker()
      turnLeft()
      turnLeft()
      while(frontIsClear):
        move()
      turnLeft()
      turnLeft()
      putMarker()
      while(frontIsClear):
        move()
        turnRight()
        move()
        turnLeft()
        if(noMarkersPresent):
          putMarker()
    """,
)
def both_diagonals(rng: Random) -> World:
    side = rng.randint(2, 7)
    return Sketch(side + rng.randint(0, 2), side).world(rng.choice((0, 0, 1, 2, 3)))


@posed(
    "Build a triangle of beepers against the wall before you, from the next place on: each row begins one place later. "
    "Come down again at the end.",
    "while, nested, pattern",
    "CodeHS",
    """
    def run():
      move()
      while(frontIsClear):
        while(frontIsClear):
          putMarker()
          move()
        putMarker()
        turnLeft()
        turnLeft()
        while(markersPresent):
          move()
        turnRight()
        move()
        turnRight()
        move()
        move()
      putMarker()
      turnRight()
      while(frontIsClear):
        move()
    """,
)
def triangle_against_the_wall(rng: Random) -> World:
    side = rng.randint(3, 7)
    return Sketch(side - 1 + rng.randint(0, 2), side).world(rng.choice((0, 0, 1, 2, 3)))


@posed(
    "Print the row again: above every beeper of it there must be another one.",
    "while, if, copying",
    "Code in Place",
    """
    def run():
      while(frontIsClear):
        if(markersPresent):
          turnLeft()
          move()
          putMarker()
          turnLeft()
          turnLeft()
          move()
          turnLeft()
        move()
      if(markersPresent):
        turnLeft()
        move()
        putMarker()
        turnLeft()
        turnLeft()
        move()
        turnLeft()
    """,
)
def print_the_row_again(rng: Random) -> World:
    sketch = field(rng, (2, 4), (2, 8))
    for col in some(rng, range(sketch.cols)):
        sketch.mark(0, col)
    return sketch.world()


@posed(
    "Harvest one beeper from each plant of the diamond, four by four, row by slanting row. Begin at its lowest corner.",
    "repeat, nested, diagonal",
    "Pattis",
    """
    def run():
      repeat(2):
        repeat(3):
          pickMarker()
          move()
          turnLeft()
          move()
          turnRight()
        pickMarker()
        turnLeft()
        move()
        turnLeft()
        move()
        repeat(3):
          pickMarker()
          move()
          turnLeft()
          move()
          turnRight()
        pickMarker()
        turnRight()
        move()
        turnLeft()
        move()
        turnLeft()
        turnLeft()
    """,
)
def harvest_the_diamond(rng: Random) -> World:
    sketch = field(rng, (7, 8), (8, 9))
    bottom, left = rng.randint(0, sketch.rows - 7), rng.randint(4, sketch.cols - 4)
    for down in range(4):
        for right in range(4):
            sketch.mark(bottom + down + right, left + right - down, rng.choice((1, 1, 1, 2)))
    return sketch.place(bottom, left).world()


@posed(
    "Colour the drawing: in each row above you, fill the places between the two beepers of its outline.",
    "while, if, field",
    "own",
    """
    def run():
      while(frontIsClear):
        move()
        turnRight()
        while(frontIsClear):
          move()
          if(markersPresent):
            move()
            while(noMarkersPresent):
              putMarker()
              move()
        turnLeft()
        turnLeft()
        while(frontIsClear):
          move()
        turnRight()
    """,
)
def colour_the_drawing(rng: Random) -> World:
    sketch = field(rng, (3, 5), (5, 7)).place(0, 0, "north")
    left, right = rng.randint(1, 3), rng.randint(3, sketch.cols - 1)
    for row in range(1, sketch.rows - rng.randint(0, 1)):
        right = max(right, left + 1)
        sketch.mark(row, left).mark(row, right)
        left = min(max(left + rng.randint(-1, 1), 1), sketch.cols - 2)
        right = min(right + rng.randint(-1, 1), sketch.cols - 1)
    return sketch.world()


@posed(
    "Spring: put a crown of four leaves, two by two, on each tree. Stop at the beeper.",
    "while, if else, obstacles",
    "CS106A",
    """
    def run():
      while(noMarkersPresent):
        ifelse(frontIsClear):
          move()
        else:
          turnLeft()
          while(not rightIsClear):
            move()
          turnRight()
          move()
          putMarker()
          turnLeft()
          move()
          putMarker()
          turnRight()
          move()
          putMarker()
          turnRight()
          move()
          putMarker()
          while(frontIsClear):
            move()
          turnLeft()
    """,
)
def leaves_on_the_trees(rng: Random) -> World:
    trees = spaced(rng, 1, rng.randint(2, 8), 3)
    sketch = Sketch(rng.randint(5, 6), trees[-1] + rng.randint(3, 4))
    for col in trees:
        sketch.wall(range(rng.randint(1, 3)), col)
    return sketch.mark(0, sketch.cols - 1).world()


@posed(
    "Add up: bring each pile of the upper row down to the pile below it, one beeper at a time.",
    "while, nested, carrying",
    "OMI",
    """
    def run():
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
      turnLeft()
      move()
      turnLeft()
      while(frontIsClear):
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
        turnLeft()
        move()
        turnLeft()
    """,
)
def add_the_upper_row(rng: Random) -> World:
    sketch = field(rng, (2, 3), (2, 5))
    for col in range(sketch.cols):
        for row in (0, 1):
            count = rng.choice((0, 1, 2, 3, 4))
            if count:
                sketch.mark(row, col, count)
    return sketch.world()


@posed(
    "Find the cheese in the maze with your right hand on the wall. Mark each dead end on the way.",
    "while, if else, maze",
    "Pattis",
    """
    def run():
      while(noMarkersPresent):
        ifelse(rightIsClear):
          turnRight()
          move()
        else:
          ifelse(frontIsClear):
            move()
          else:
            ifelse(leftIsClear):
              turnLeft()
              move()
            else:
              putMarker()
              turnLeft()
              turnLeft()
              move()
    """,
)
def mark_the_dead_ends(rng: Random) -> World:
    sketch = maze(rng, rng.choice((3, 5)), rng.choice((5, 7)))
    sketch.place(0, 0, rng.choice([way for way in HEADINGS if ahead(sketch, (0, 0), way)]))
    seen, later, turned, cell, heading = {(0, 0)}, [], False, (0, 0), sketch.hero.heading
    for _ in range(2 * sketch.rows * sketch.cols):
        lefts = next(lefts for lefts in (3, 0, 1, 2) if ahead(sketch, cell, turn(heading, lefts)))
        turned, heading = turned or lefts == 2, turn(heading, lefts)
        cell = ahead(sketch, cell, heading)[0]
        later += [cell] * (turned and cell not in seen)
        seen.add(cell)
    cheese = rng.choice(later if later and rng.random() < 0.8 else sorted(seen - {(0, 0)}))
    return sketch.mark(*cheese).world()


@posed(
    "Walk to the end of the corridor and clean all rooms on both sides.",
    "while, if, nested",
    "LEAPS",
    """
    def run():
      while(frontIsClear):
        move()
        if(leftIsClear):
          turnLeft()
          move()
          while(markersPresent):
            pickMarker()
          turnLeft()
          turnLeft()
          move()
          turnLeft()
        if(rightIsClear):
          turnRight()
          move()
          while(markersPresent):
            pickMarker()
          turnLeft()
          turnLeft()
          move()
          turnRight()
    """,
)
def rooms_on_both_sides(rng: Random) -> World:
    cols = rng.randint(4, 8)
    rooms = [(row, col) for row in (0, 2) for col in some(rng, range(1, cols), 1, 4)]
    sketch = rock(3, cols, [*rooms, *((1, col) for col in range(cols))]).place(1, 0)
    for room in rooms:
        count = rng.randint(0, 3)
        if count:
            sketch.mark(*room, count)
    return sketch.world()


@posed(
    "Shuttle run: on the way to the top, carry the ball of each row, if there is one, to the wall on the right.",
    "while, if, carrying",
    "own",
    """
    def run():
      while(frontIsClear):
        turnRight()
        if(markersPresent):
          pickMarker()
          while(frontIsClear):
            move()
          putMarker()
          turnLeft()
          turnLeft()
          while(frontIsClear):
            move()
          turnLeft()
          turnLeft()
        turnLeft()
        move()
    """,
)
def shuttle_run(rng: Random) -> World:
    sketch = field(rng, (3, 6), (3, 6)).place(0, 0, "north")
    for row in some(rng, range(sketch.rows - 1), 1, 4):
        sketch.mark(row, 0)
    return sketch.world()


@posed(
    "Somewhere on the field lies a ball. Search row by row, take it, bring it to the corner where you started.",
    "while, if else, search, field",
    "Karel J Robot",
    """
    def run():
      while(noMarkersPresent):
        ifelse(frontIsClear):
          move()
        else:
          turnLeft()
          turnLeft()
          while(frontIsClear):
            move()
          turnRight()
          move()
          turnRight()
      pickMarker()
      turnLeft()
      turnLeft()
      while(frontIsClear):
        move()
      turnLeft()
      while(frontIsClear):
        move()
      putMarker()
    """,
)
def bring_the_lost_ball_home(rng: Random) -> World:
    sketch = field(rng, (2, 6), (2, 6))
    row = rng.randrange(sketch.rows)
    return sketch.mark(row, rng.randint(int(row == 0), sketch.cols - 1)).world()


@posed(
    "Multiply: for each beeper under you, put as many as the next pile has two places behind it. That pile stays.",
    "while, nested, counting",
    "OMI",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
        while(markersPresent):
          pickMarker()
          move()
          putMarker()
          move()
          putMarker()
          turnLeft()
          turnLeft()
          move()
          move()
          turnLeft()
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
        turnLeft()
        move()
        move()
        turnLeft()
        turnLeft()
    """,
)
def multiply_the_piles(rng: Random) -> World:
    sketch = field(rng, (2, 3), (4, 6))
    way = somewhere(rng, sketch, front=3)
    one, other = rng.choice(((1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (1, 2), (1, 4), (4, 1)))
    return sketch.mark(*sketch.hero[:2], one).mark(*way[0], other).world()


@posed(
    "Plant an orchard: a tree on every second place of every second row, beginning in your corner.",
    "while, field, pattern",
    "Karel J Robot",
    """
    def run():
      putMarker()
      while(frontIsClear):
        move()
        move()
        putMarker()
      turnLeft()
      turnLeft()
      while(frontIsClear):
        move()
      turnRight()
      while(frontIsClear):
        move()
        move()
        turnRight()
        putMarker()
        while(frontIsClear):
          move()
          move()
          putMarker()
        turnLeft()
        turnLeft()
        while(frontIsClear):
          move()
        turnRight()
    """,
)
def plant_an_orchard(rng: Random) -> World:
    return Sketch(rng.choice((3, 5, 7)), rng.choice((3, 5, 7))).world(rng.randrange(4))


@posed(
    "Climb over the pyramid and down on its other side. Put a flag where you reach the top.",
    "while, stairs",
    "CodeHS",
    """
    def run():
      while(frontIsClear):
        move()
      while(not frontIsClear):
        turnLeft()
        move()
        turnRight()
        move()
      putMarker()
      while(not rightIsClear):
        move()
      while(rightIsClear):
        turnRight()
        move()
        turnLeft()
        move()
    """,
)
def over_the_pyramid(rng: Random) -> World:
    top = rng.randint(1, 3)
    steps = [*range(1, top), *[top] * rng.randint(1, 3), *range(top - 1, 0, -1)]
    heights = [0] * rng.randint(1, 4) + steps + [0] * rng.randint(2, 4)
    return ground(top + rng.randint(1, 2), heights).world()


@posed(
    "How wide is the field? Make a pile here of as many beepers as there are places from here to the wall.",
    "while, nested, counting",
    "own",
    """
    def run():
      while(frontIsClear):
        putMarker()
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
    """,
)
def how_wide_is_the_field(rng: Random) -> World:
    return field(rng, (2, 6), (2, 6)).world(rng.randrange(4))


if __name__ == "__main__":
    main()
