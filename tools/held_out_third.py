"""Write benchmarks/held_out_3.jsonl: `python tools/held_out_third.py [--only NAME ...]`

Sixty tasks of the kind that teachers pose. Their author saw no other set of tasks, except the twelve names in
tests/test_held_out.py, and no generator, and did not run the solver on them. The format is that of
benchmarks/held_out.jsonl. Worlds are small and tidy, nearly always drawn the same way up. Everything is seeded:
the same sources write the same file.

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

from karelsynth.karel.world import HEADINGS, STEP, Cell, World  # noqa: E402

FILE: Final = ROOT / "benchmarks" / "held_out_3.jsonl"
TASKS: Final[list[DrawnTask]] = []
posed = posing(TASKS)


def main() -> None:
    write_tasks(__doc__.splitlines()[0], TASKS, make_ordered, FILE)


# Parts of worlds.


def street(rng: Random, short: int, most: int, rows: tuple[int, int] = (2, 4)) -> Sketch:
    """An open world of so many columns. Karel stands in the bottom left corner and faces east."""
    return Sketch(rng.randint(*rows), rng.randint(short, most))


def some(rng: Random, cells: range, least: int = 1, most: int = 99) -> list[int]:
    """Some of the numbers, in order."""
    return sorted(rng.sample(cells, rng.randint(least, min(most, len(cells)))))


def apart(rng: Random, first: int, last: int, gap: int, most: int = 9) -> list[int]:
    """At most so many columns from first to last, each at least `gap` after the one before. At least one."""
    found = [rng.randint(first, min(last, first + 2))]
    while len(found) < most and found[-1] + gap <= last:
        found.append(found[-1] + gap + rng.choice((0, 0, 1, 2)))
    return [col for col in found if col <= last]


def facade(cols: int, doors: list[int]) -> Sketch:
    """A street with houses above it, which have doors at these columns. Karel stands at the left end."""
    sketch = Sketch(3, cols)
    return sketch.wall(1, [col for col in range(cols) if col not in doors]).wall(2, range(cols))


def carved(rows: int, cols: int, path: list[Cell]) -> Sketch:
    """Solid rock but for the path. Karel stands at its start and faces east."""
    sketch = Sketch(rows, cols).place(*path[0])
    sketch.walls = {(row, col) for row in range(rows) for col in range(cols)} - set(path)
    return sketch


def tunnel(rng: Random, least: int = 5) -> tuple[Sketch, list[Cell]]:
    """A winding tunnel through rock with at least one bend, and its cells."""
    path: list[Cell] = []
    while len(path) < least or len({row for row, _ in path}) == 1:
        rows, cols = rng.randint(4, 7), rng.randint(5, 8)
        path = winding_path(rng, rows, cols, rng.randint(least, 12))
    return carved(rows, cols, path), path


def hurdles(rng: Random, sketch: Sketch, cols: list[int], highest: int) -> Sketch:
    """Hurdles on the bottom row at these columns, each 1 to `highest` high."""
    for col in cols:
        sketch.wall(range(rng.randint(1, highest)), col)
    return sketch


# Easy: references of up to 14 tokens.


@posed(
    "Pick up the beeper in front of you, carry it up onto the ledge, put it down there and take one more step.",
    "sequence",
    "CS106A",
    """
    def run():
      move()
      pickMarker()
      move()
      turnLeft()
      move()
      turnRight()
      move()
      putMarker()
      move()
    """,
)
def carry_it_up_the_ledge(rng: Random) -> World:
    col, width = rng.randint(0, 3), rng.randint(2, 4)
    sketch = Sketch(rng.randint(3, 6), col + 3 + width).place(0, col).mark(0, col + 1)
    return sketch.wall(0, range(col + 3, sketch.cols)).world()


@posed(
    "Bring your neighbour five apples and turn around to go home.",
    "sequence, counted loop",
    "Hour of Code",
    """
    def run():
      move()
      repeat(5):
        putMarker()
      turnLeft()
      turnLeft()
      move()
    """,
)
def five_apples_for_the_neighbour(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(2, 6))
    row, col = rng.randrange(sketch.rows), rng.randrange(sketch.cols - 1)
    return sketch.place(row, col).mark(row, col + 1, rng.choice((0, 0, 1, 2, 3))).world()


@posed(
    "Walk around a small square and hang a lantern on each of its four corners.",
    "counted loop, shapes",
    "CodeHS",
    """
    def run():
      repeat(4):
        putMarker()
        move()
        move()
        turnLeft()
    """,
)
def four_lanterns(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 7), rng.randint(3, 7))
    return sketch.place(rng.randint(0, sketch.rows - 3), rng.randint(0, sketch.cols - 3)).world()


@posed(
    "Climb the three steps and plant a flag at the top.",
    "counted loop, stairs",
    "Reeborg",
    """
    def run():
      repeat(3):
        turnLeft()
        move()
        turnRight()
        move()
      putMarker()
    """,
)
def three_steps_and_a_flag(rng: Random) -> World:
    col = rng.randint(0, 4)
    sketch = Sketch(rng.randint(4, 7), col + 3 + rng.randint(1, 4)).place(0, col)
    for row in range(3):
        sketch.wall(row, range(col + 1 + row, sketch.cols))
    return sketch.world()


@posed(
    "Four houses stand along the street with a garden between each two: put a letter in front of each house.",
    "counted loop",
    "CodeHS",
    """
    def run():
      repeat(4):
        putMarker()
        move()
        move()
    """,
)
def letters_for_four_houses(rng: Random) -> World:
    col = rng.randint(0, 3)
    sketch = Sketch(rng.randint(2, 5), col + 9 + rng.randint(0, 3))
    row = rng.randint(0, sketch.rows - 2)
    return sketch.place(row, col).wall(row + 1, range(col, col + 8, 2)).world()


@posed(
    "Put a beeper on each of the four cells around you and come back to the middle each time.",
    "counted loop, shapes",
    "own",
    """
    def run():
      repeat(4):
        move()
        putMarker()
        turnLeft()
        turnLeft()
        move()
        turnLeft()
    """,
)
def a_star_around_me(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 7), rng.randint(3, 7))
    return sketch.place(rng.randint(1, sketch.rows - 2), rng.randint(1, sketch.cols - 2)).world()


@posed(
    "There may be letters in the box in front of you. If so, take one. Then walk on by one step.",
    "condition",
    "CodeHS",
    """
    def run():
      move()
      if(markersPresent):
        pickMarker()
      move()
    """,
)
def look_into_the_letterbox(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 4), rng.randint(3, 7))
    row, col = rng.randint(0, sketch.rows - 2), rng.randint(0, sketch.cols - 3)
    return sketch.place(row, col).wall(row + 1, col + 1).mark(row, col + 1, rng.choice((0, 0, 1, 1, 2, 3))).world()


@posed(
    "Kick the ball: it rolls straight on until it hits the wall, and you run after it.",
    "while loop",
    "own",
    """
    def run():
      pickMarker()
      while(frontIsClear):
        move()
      putMarker()
    """,
)
def kick_the_ball(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(3, 8))
    row, col = rng.randrange(sketch.rows), rng.randint(0, sketch.cols - 2)
    return sketch.place(row, col).mark(row, col).world(rng.choice((0, 0, 0, 1)))


@posed(
    "Plant a tulip on every cell from where you stand to the end of the bed.",
    "while loop, fencepost",
    "CS106A",
    """
    def run():
      putMarker()
      while(frontIsClear):
        move()
        putMarker()
    """,
)
def tulips_to_the_end(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 4), rng.randint(2, 8))
    return sketch.place(rng.randrange(sketch.rows), rng.randint(0, min(2, sketch.cols - 2))).world()


@posed(
    "Hansel and Gretel eat their breadcrumbs: walk along the trail and pick up every crumb until it ends.",
    "while loop",
    "Hour of Code",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
    """,
)
def eat_the_breadcrumbs(rng: Random) -> World:
    sketch = street(rng, 4, 9)
    row, start, length = rng.randrange(sketch.rows), rng.randint(0, 1), rng.randint(1, sketch.cols - 3)
    sketch.place(row, start)
    for col in range(start, start + length):
        sketch.mark(row, col)
    return sketch.world()


@posed(
    "Walk to the ball, pick it up and turn around.",
    "while loop",
    "Reeborg",
    """
    def run():
      while(noMarkersPresent):
        move()
      pickMarker()
      turnLeft()
      turnLeft()
    """,
)
def fetch_the_ball(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 4), rng.randint(3, 8))
    row, col = rng.randrange(sketch.rows), rng.randint(0, 1)
    return sketch.place(row, col).mark(row, rng.randint(col + 1, sketch.cols - 1)).world()


@posed(
    "A long house is on your left. Walk along it and stop beside the door.",
    "while loop, walls",
    "Reeborg",
    """
    def run():
      while(not leftIsClear):
        move()
    """,
)
def stop_at_the_door(rng: Random) -> World:
    cols = rng.randint(4, 9)
    first = rng.randint(1, cols - 2)
    doors = [first] if rng.random() < 0.7 or first == cols - 2 else [first, cols - 1]
    return facade(cols, doors).world()


@posed(
    "Walk over the row of stones to its end and make it longer by one stone.",
    "while loop",
    "own",
    """
    def run():
      while(markersPresent):
        move()
      putMarker()
    """,
)
def one_stone_longer(rng: Random) -> World:
    sketch = street(rng, 4, 9)
    row, start, length = rng.randrange(sketch.rows), rng.randint(0, 1), rng.randint(1, sketch.cols - 3)
    sketch.place(row, start)
    for col in range(start, start + length):
        sketch.mark(row, col)
    return sketch.world()


@posed(
    "He loves me, he loves me not: pluck the daisy petal by petal, turn around with each petal, then run one step.",
    "while loop, odd and even",
    "own",
    """
    def run():
      while(markersPresent):
        pickMarker()
        turnLeft()
        turnLeft()
      move()
    """,
)
def pluck_the_daisy(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 4), rng.randint(3, 7))
    row, col = rng.randrange(sketch.rows), rng.randint(1, sketch.cols - 2)
    return sketch.place(row, col).mark(row, col, rng.randint(1, 8)).world()


@posed(
    "Jump like a knight three times, two ahead and one to the side, and leave a beeper before each jump.",
    "counted loop, chess",
    "own",
    """
    def run():
      repeat(3):
        putMarker()
        move()
        move()
        turnLeft()
        move()
        turnRight()
    """,
)
def three_knight_jumps(rng: Random) -> World:
    sketch = Sketch(rng.randint(4, 7), rng.randint(7, 9))
    return sketch.place(rng.randint(0, sketch.rows - 4), rng.randint(0, sketch.cols - 7)).world()


@posed(
    "The row of beepers is a binary number and you stand on its last digit. Add one: carry as long as you meet a one.",
    "while loop, binary numbers",
    "own",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
      putMarker()
    """,
)
def add_one_in_binary(rng: Random) -> World:
    digits = rng.randint(4, 8)
    sketch = Sketch(2, digits).place(0, digits - 1, "west")
    zero = digits - 1 - rng.randint(0, min(4, digits - 1))
    for col in range(1, digits):
        sketch.mark(0, col, int(col > zero or (col < zero and rng.random() < 0.6)))
    return sketch.world()


# Medium: references of 15 to 35 tokens.


@posed(
    "Put a lamp into every corner of the room.",
    "nested loops, corners",
    "CodeHS",
    """
    def run():
      repeat(4):
        while(frontIsClear):
          move()
        putMarker()
        turnLeft()
    """,
)
def lamp_in_every_corner(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 7), rng.randint(2, 7))
    return sketch.place(0, rng.randint(0, min(2, sketch.cols - 2))).world()


@posed(
    "Find the ball on your way, bring it home to the wall behind you and put it down there.",
    "while loop, there and back",
    "CS106A",
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
def bring_the_ball_home(rng: Random) -> World:
    sketch = street(rng, 3, 8)
    row = rng.randrange(sketch.rows)
    return sketch.place(row, 0).mark(row, rng.randint(1, sketch.cols - 1)).world()


@posed(
    "Climb the mountain, plant a flag on its peak and climb down on the other side.",
    "while loop, stairs",
    "own",
    """
    def run():
      while(not frontIsClear):
        turnLeft()
        move()
        turnRight()
        move()
      putMarker()
      while(frontIsClear):
        move()
        turnRight()
        move()
        turnLeft()
    """,
)
def over_the_mountain(rng: Random) -> World:
    height, before = rng.randint(1, 5), rng.randint(0, 3)
    peak = before + height
    sketch = Sketch(height + rng.randint(1, 4), peak + height + 1).place(0, before)
    for row in range(height):
        sketch.wall(row, range(before + 1 + row, peak + height - row))
    return sketch.world()


@posed(
    "Some coins lie on the street. Walk to its end and collect them all.",
    "while loop, condition",
    "Robot Karol",
    """
    def run():
      while(frontIsClear):
        move()
        if(markersPresent):
          pickMarker()
    """,
)
def collect_the_coins(rng: Random) -> World:
    sketch = street(rng, 3, 9)
    for col in some(rng, range(1, sketch.cols), most=sketch.cols // 2 + 1):
        sketch.mark(0, col)
    return sketch.world()


@posed(
    "Some posts of the fence are missing. Walk along and put a post wherever there is none.",
    "while loop, condition",
    "Robot Karol",
    """
    def run():
      while(frontIsClear):
        move()
        if(noMarkersPresent):
          putMarker()
    """,
)
def mend_the_fence(rng: Random) -> World:
    sketch = street(rng, 3, 9)
    row = rng.randrange(sketch.rows)
    gaps = some(rng, range(1, sketch.cols), most=4)
    for col in range(sketch.cols):
        sketch.mark(row, col, int(col not in gaps))
    return sketch.place(row, 0).world()


@posed(
    "Exam in the lecture hall: put a sheet on every second seat of the row, beginning with yours.",
    "while loop, every second",
    "own",
    """
    def run():
      putMarker()
      while(frontIsClear):
        move()
        if(frontIsClear):
          move()
          putMarker()
    """,
)
def every_second_seat(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(3, 9))
    return sketch.place(rng.randrange(sketch.rows), 0).world()


@posed(
    "Walk down the street and put a letter inside each door on your left.",
    "while loop, condition, walls",
    "CS106A",
    """
    def run():
      while(frontIsClear):
        move()
        if(leftIsClear):
          turnLeft()
          move()
          putMarker()
          turnLeft()
          turnLeft()
          move()
          turnLeft()
    """,
)
def mail_through_the_doors(rng: Random) -> World:
    cols = rng.randint(4, 9)
    return facade(cols, apart(rng, 1, cols - 1, 2, 4)).world()


@posed(
    "Two rows of carrots are ripe. Pull out all carrots of the first row on the way there and of the second on the "
    "way back.",
    "while loop, there and back, fencepost",
    "Robot Karol",
    """
    def run():
      pickMarker()
      while(frontIsClear):
        move()
        pickMarker()
      turnLeft()
      move()
      turnLeft()
      pickMarker()
      while(frontIsClear):
        move()
        pickMarker()
    """,
)
def two_rows_of_carrots(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(2, 8))
    row = rng.randint(0, sketch.rows - 2)
    for col in range(sketch.cols):
        sketch.mark(row, col).mark(row + 1, col)
    return sketch.place(row, 0).world()


@posed(
    "Lay a border of tiles along all four walls of the room.",
    "nested loops, borders",
    "Robot Karol",
    """
    def run():
      repeat(4):
        while(frontIsClear):
          putMarker()
          move()
        turnLeft()
    """,
)
def tiles_along_the_walls(rng: Random) -> World:
    return Sketch(rng.randint(2, 7), rng.randint(2, 7)).world()


@posed(
    "Walk to the end of the street. If there is a signpost, go left there, otherwise right, to the end of that street.",
    "condition, while loop",
    "Reeborg",
    """
    def run():
      while(frontIsClear):
        move()
      ifelse(markersPresent):
        turnLeft()
      else:
        turnRight()
      while(frontIsClear):
        move()
    """,
)
def follow_the_signpost(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 7), rng.randint(3, 7))
    row, end = rng.randint(1, sketch.rows - 2), sketch.cols - 1
    for other in range(sketch.rows):
        if other != row:
            sketch.wall(other, range(end))
    return sketch.place(row, 0).mark(row, end, rng.randint(0, 1)).world()


@posed(
    "Crawl through the winding tunnel to the beeper and pick it up. There is only one way.",
    "while loop, nested condition",
    "Reeborg",
    """
    def run():
      while(noMarkersPresent):
        if(not frontIsClear):
          ifelse(leftIsClear):
            turnLeft()
          else:
            turnRight()
        move()
      pickMarker()
    """,
)
def through_the_winding_tunnel(rng: Random) -> World:
    sketch, path = tunnel(rng)
    return sketch.mark(*path[-1]).world()


@posed(
    "Keep your right hand on the wall until you find the cheese in the maze, and take it.",
    "while loop, maze",
    "Reeborg",
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
    rows, cols = rng.choice(((3, 5), (5, 5), (5, 5), (5, 7)))
    free = {(0, 0)}
    ways = [((0, 0), (0, 0))]
    while ways:
        between, cell = ways.pop(rng.randrange(len(ways)))
        if cell in free and cell != (0, 0):
            continue
        free |= {between, cell}
        for row, col in STEP.values():
            to = cell[0] + 2 * row, cell[1] + 2 * col
            if 0 <= to[0] < rows and 0 <= to[1] < cols and to not in free:
                ways.append(((cell[0] + row, cell[1] + col), to))
    sketch = carved(rows, cols, [(0, 0), *free])
    ends = [cell for cell in sorted(free) if sum((cell[0] + r, cell[1] + c) in free for r, c in STEP.values()) == 1]
    return sketch.mark(*rng.choice([cell for cell in ends if cell != (0, 0)])).world()


@posed(
    "Walk once around the house and put a lamp at each of its corners.",
    "nested loops, walls",
    "Reeborg",
    """
    def run():
      repeat(4):
        putMarker()
        move()
        while(not leftIsClear):
          move()
        turnLeft()
    """,
)
def lamps_around_the_house(rng: Random) -> World:
    deep, wide = rng.randint(1, 4), rng.randint(1, 4)
    low, left = rng.randint(0, 1), rng.randint(0, 2)
    sketch = Sketch(low + deep + 2 + rng.randint(0, 1), left + wide + 2 + rng.randint(0, 2)).place(low, left)
    return sketch.wall(range(low + 1, low + 1 + deep), range(left + 1, left + 1 + wide)).world()


@posed(
    "Plant flowers diagonally up to the wall, beginning where you stand.",
    "while loop, patterns",
    "CodeHS",
    """
    def run():
      putMarker()
      while(frontIsClear):
        move()
        turnLeft()
        move()
        turnRight()
        putMarker()
    """,
)
def flowers_on_the_diagonal(rng: Random) -> World:
    sketch = street(rng, 2, 8)
    col = rng.randint(0, min(2, sketch.cols - 2))
    sketch.rows = sketch.cols - col + rng.randint(0, 3)
    return sketch.place(0, col).world()


@posed(
    "Signs show the way: where one stone lies, turn left, where two lie, turn right. Take all signs with you.",
    "while loop, nested condition, signs",
    "own",
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
def one_for_left_two_for_right(rng: Random) -> World:
    sketch = Sketch(rng.randint(4, 7), rng.randint(4, 7))
    row, col, way = rng.randint(0, sketch.rows - 2), 0, 1
    sketch.place(row, col)
    seen = {(row, col)}
    for _ in range(rng.randint(1, 4)):
        ahead = []
        down, right = STEP[HEADINGS[way]]
        while 0 <= row + down < sketch.rows and 0 <= col + right < sketch.cols:
            row, col = row + down, col + right
            ahead.append((row, col))
        signs = [at for at, cell in enumerate(ahead) if cell not in seen]
        if not signs:
            break
        at = rng.choice(signs)
        turn = rng.choice((1, 2))
        sketch.mark(*ahead[at], turn)
        seen.update(ahead[: at + 1])
        row, col = ahead[at]
        way = (way + (1 if turn == 2 else -1)) % 4
    return sketch.world()


@posed(
    "Draw a picture frame of beepers, five wide and three high.",
    "nested counted loops, shapes",
    "Hour of Code",
    """
    def run():
      repeat(2):
        repeat(4):
          putMarker()
          move()
        turnLeft()
        repeat(2):
          putMarker()
          move()
        turnLeft()
    """,
)
def picture_frame(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(5, 8))
    return sketch.place(rng.randint(0, sketch.rows - 3), rng.randint(0, sketch.cols - 5)).world()


@posed(
    "The guard walks from wall to wall, four times in all, and leaves a token whenever he reaches a wall.",
    "nested loops, patrol",
    "own",
    """
    def run():
      repeat(4):
        while(frontIsClear):
          move()
        putMarker()
        turnLeft()
        turnLeft()
    """,
)
def guard_on_the_wall(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 4), rng.randint(3, 8))
    return sketch.place(rng.randrange(sketch.rows), rng.randint(0, sketch.cols - 2)).world()


@posed(
    "Copy the row: for each beeper on your way put one on the cell above it.",
    "while loop, condition, copying",
    "own",
    """
    def run():
      while(frontIsClear):
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
def copy_the_row_upstairs(rng: Random) -> World:
    sketch = street(rng, 3, 8)
    for col in some(rng, range(1, sketch.cols), most=sketch.cols // 2 + 1):
        sketch.mark(0, col)
    return sketch.world()


@posed(
    "Sweep all leaves along the path to its end, so that they lie there in one heap.",
    "nested loops, moving piles",
    "own",
    """
    def run():
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
def sweep_the_leaves_along(rng: Random) -> World:
    sketch = street(rng, 3, 6, (2, 3))
    for col in some(rng, range(sketch.cols - 1), most=3):
        sketch.mark(0, col, rng.randint(1, 2))
    return sketch.world()


@posed(
    "You owe your neighbour, who stands before you, as much as his bill shows. Take every beeper of the bill away, and "
    "one from your money for each.",
    "while loop, counting with piles",
    "own",
    """
    def run():
      move()
      while(markersPresent):
        pickMarker()
        turnLeft()
        turnLeft()
        move()
        pickMarker()
        turnLeft()
        turnLeft()
        move()
    """,
)
def pay_the_bill(rng: Random) -> World:
    sketch = street(rng, 2, 6)
    row, col, bill = rng.randrange(sketch.rows), rng.randint(0, sketch.cols - 2), rng.randint(1, 6)
    return sketch.place(row, col).mark(row, col, rng.randint(bill, 9)).mark(row, col + 1, bill).world()


@posed(
    "Two piles fight: each loses one soldier at a time until one pile is gone. Karel ends up on the empty field.",
    "while loop, condition, comparing piles",
    "own",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
        ifelse(markersPresent):
          pickMarker()
          turnLeft()
          turnLeft()
          move()
          turnLeft()
          turnLeft()
        else:
          turnLeft()
          turnLeft()
          move()
          putMarker()
          turnLeft()
          turnLeft()
          move()
    """,
)
def battle_of_two_piles(rng: Random) -> World:
    sketch = street(rng, 2, 5)
    row, col = rng.randrange(sketch.rows), rng.randint(0, sketch.cols - 2)
    return sketch.place(row, col).mark(row, col, rng.randint(1, 6)).mark(row, col + 1, rng.randint(1, 6)).world()


@posed(
    "The children in the queue left gaps. Move everyone up behind the first child, which stands where you are.",
    "while loop, sorting",
    "own",
    """
    def run():
      while(frontIsClear):
        move()
        if(markersPresent):
          pickMarker()
          turnLeft()
          turnLeft()
          while(noMarkersPresent):
            move()
          turnLeft()
          turnLeft()
          move()
          putMarker()
    """,
)
def close_up_the_queue(rng: Random) -> World:
    sketch = street(rng, 4, 9).mark(0, 0)
    for col in some(rng, range(1, sketch.cols), most=min(5, sketch.cols - 3)):
        sketch.mark(0, col)
    return sketch.world()


@posed(
    "How many doors has the street? Carry a heap of beepers along and add one for each door on your left.",
    "nested loops, counting with piles",
    "own",
    """
    def run():
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
        if(leftIsClear):
          putMarker()
    """,
)
def count_the_doors(rng: Random) -> World:
    cols = rng.randint(3, 7)
    return facade(cols, apart(rng, 1, cols - 1, 2, 4)).world()


@posed(
    "Follow the trail of crumbs around its bends and eat every crumb.",
    "while loop, nested condition, trails",
    "Reeborg",
    """
    def run():
      while(markersPresent):
        pickMarker()
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
def crumbs_around_the_bends(rng: Random) -> World:
    rows, cols = rng.randint(4, 7), rng.randint(4, 8)
    path = winding_path(rng, rows, cols, rng.randint(3, 10))
    sketch = Sketch(rows, cols).place(*path[0])
    for cell in path:
        sketch.mark(*cell)
    return sketch.world()


@posed(
    "Somewhere on the beach lies a shell. Search the beach row by row, each from left to right, and pick it up.",
    "while loop, search",
    "own",
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
    """,
)
def search_the_beach(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(3, 7))
    row = rng.randrange(sketch.rows)
    return sketch.mark(row, rng.randint(int(row == 0), sketch.cols - 1)).world()


@posed(
    "The carpet is rolled up in the corner. Unroll it: lay its pieces one after the other on the floor before you.",
    "nested loops, piles",
    "own",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
        while(markersPresent):
          move()
        putMarker()
        turnLeft()
        turnLeft()
        while(frontIsClear):
          move()
        turnLeft()
        turnLeft()
    """,
)
def unroll_the_carpet(rng: Random) -> World:
    sketch = street(rng, 3, 8)
    row = rng.randrange(sketch.rows)
    return sketch.place(row, 0).mark(row, 0, rng.randint(1, min(6, sketch.cols - 1))).world()


# Hard: references of more than 35 tokens.


@posed(
    "Run the steeplechase to the beeper. The hurdles have different heights, and you jump as low as you can.",
    "nested loops, hurdles",
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
          move()
          turnRight()
          while(frontIsClear):
            move()
          turnLeft()
    """,
)
def steeplechase(rng: Random) -> World:
    sketch = street(rng, 5, 10, (4, 5))
    cols = apart(rng, 1, sketch.cols - 2, 2, rng.randint(1, 4))
    return hurdles(rng, sketch, cols, 3).mark(0, sketch.cols - 1).world()


@posed(
    "The road has deep holes. Fill each to the brim, but not higher, and walk on to the end of the road.",
    "nested loops, walls",
    "CS106A",
    """
    def run():
      while(frontIsClear):
        move()
        if(rightIsClear):
          turnRight()
          while(frontIsClear):
            move()
          turnLeft()
          turnLeft()
          while(not leftIsClear):
            putMarker()
            move()
          turnRight()
    """,
)
def fill_the_deep_holes(rng: Random) -> World:
    depth = rng.randint(1, 3)
    sketch = Sketch(depth + rng.randint(1, 3), rng.randint(3, 9)).place(depth, 0)
    sketch.wall(range(depth), range(sketch.cols))
    for col in apart(rng, 1, sketch.cols - 2, 2, 4):
        sketch.walls -= {(row, col) for row in range(rng.randrange(depth), depth)}
    return sketch.world()


@posed(
    "A pillar stands on each foundation stone, but stones are missing in the pillars. Repair them up to the ceiling.",
    "nested loops, condition",
    "CS106A",
    """
    def run():
      while(frontIsClear):
        move()
        if(markersPresent):
          turnLeft()
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
def repair_the_pillars(rng: Random) -> World:
    sketch = street(rng, 4, 9, (3, 5))
    for col in apart(rng, 1, sketch.cols - 1, 2, 3):
        for row in range(sketch.rows):
            sketch.mark(row, col, int(row == 0 or rng.random() < 0.5))
    return sketch.world()


@posed(
    "Harvest the field row by row. Walk up the path on its left, and come back to the path after each row.",
    "nested loops, condition, field",
    "Robot Karol",
    """
    def run():
      while(frontIsClear):
        move()
        turnRight()
        while(frontIsClear):
          move()
          if(markersPresent):
            pickMarker()
        turnLeft()
        turnLeft()
        while(frontIsClear):
          move()
        turnRight()
    """,
)
def harvest_row_by_row(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(3, 7)).place(0, 0, "north")
    for row in range(1, sketch.rows):
        for col in range(1, sketch.cols):
            sketch.mark(row, col, int(rng.random() < 0.7))
    return sketch.world()


@posed(
    "Paint the whole floor, up one lane and back the next, until you reach the top. The number of lanes is even.",
    "nested loops, field",
    "Robot Karol",
    """
    def run():
      while(noMarkersPresent):
        putMarker()
        while(frontIsClear):
          move()
          putMarker()
        turnLeft()
        move()
        turnLeft()
        putMarker()
        while(frontIsClear):
          move()
          putMarker()
        if(rightIsClear):
          turnRight()
          move()
          turnRight()
    """,
)
def paint_in_lanes(rng: Random) -> World:
    lanes, length, frame = rng.choice((2, 2, 4, 4, 6)), rng.randint(2, 8), rng.randint(0, 1)
    sketch = Sketch(lanes + 2 * frame, length + 2 * frame).place(frame, frame)
    if frame:
        sketch.wall((0, sketch.rows - 1), range(sketch.cols)).wall(range(sketch.rows), (0, sketch.cols - 1))
    return sketch.world()


@posed(
    "Give the field stripes: sow every second row, beginning with the one above you.",
    "nested loops, patterns, field",
    "own",
    """
    def run():
      while(frontIsClear):
        move()
        turnRight()
        putMarker()
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
    """,
)
def striped_field(rng: Random) -> World:
    return Sketch(rng.randint(2, 7), rng.randint(2, 7)).place(0, 0, "north").world()


@posed(
    "Photocopy the pile onto the next cell. The original must be there again when you are done.",
    "while loop, copying piles",
    "own",
    """
    def run():
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
      move()
      while(markersPresent):
        pickMarker()
        turnLeft()
        turnLeft()
        move()
        move()
        putMarker()
        turnLeft()
        turnLeft()
        move()
        move()
    """,
)
def photocopy_the_pile(rng: Random) -> World:
    sketch = street(rng, 3, 6)
    row, col = rng.randrange(sketch.rows), rng.randint(0, sketch.cols - 3)
    return sketch.place(row, col).mark(row, col, rng.randint(1, 6)).world()


@posed(
    "Deal all cards one at a time to three players: on your left, in front of you, on your right.",
    "while loop, condition, sharing piles",
    "own",
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
          move()
          putMarker()
          turnLeft()
          turnLeft()
          move()
          turnLeft()
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
    sketch = Sketch(rng.randint(3, 5), rng.randint(2, 5))
    row, col = rng.randint(1, sketch.rows - 2), rng.randint(0, sketch.cols - 2)
    return sketch.place(row, col).mark(row, col, rng.randint(1, 9)).world()


@posed(
    "Sort the post: put single letters onto the shelf above the row and double ones onto the shelf below it.",
    "while loop, nested condition, sorting",
    "own",
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
def sort_the_post(rng: Random) -> World:
    sketch = Sketch(3, rng.randint(3, 8)).place(1, 0)
    for col in some(rng, range(1, sketch.cols)):
        sketch.mark(1, col, rng.randint(1, 2))
    return sketch.world()


@posed(
    "Leave a lamp at the entrance, crawl through the cave to the treasure, bring it back and put it beside the lamp.",
    "while loop, nested condition, there and back",
    "Reeborg",
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
      move()
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
def treasure_out_of_the_cave(rng: Random) -> World:
    sketch, path = tunnel(rng, 4)
    return sketch.mark(*path[-1]).world()


@posed(
    "Each beeper on the street is the left foot of a gate, three high and three wide. Build all gates.",
    "loops in a condition, building",
    "CS106A",
    """
    def run():
      while(frontIsClear):
        move()
        if(markersPresent):
          turnLeft()
          repeat(2):
            move()
            putMarker()
          turnRight()
          repeat(2):
            move()
            putMarker()
          turnRight()
          repeat(2):
            move()
            putMarker()
          turnLeft()
    """,
)
def gates_in_the_street(rng: Random) -> World:
    sketch = street(rng, 5, 13, (3, 5))
    for col in apart(rng, 1, sketch.cols - 3, 4, 3):
        sketch.mark(0, col)
    return sketch.world()


@posed(
    "A pile lies here and another two cells ahead. Carry both to the cell between them, one beeper at a time.",
    "while loop, moving piles",
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
        turnLeft()
      move()
      move()
      turnLeft()
      turnLeft()
      while(markersPresent):
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
def both_piles_to_the_middle(rng: Random) -> World:
    sketch = street(rng, 3, 6)
    row, col = rng.randrange(sketch.rows), rng.randint(0, sketch.cols - 3)
    return sketch.place(row, col).mark(row, col, rng.randint(1, 5)).mark(row, col + 2, rng.randint(0, 4)).world()


@posed(
    "Along the corridor of the hotel, rooms open on your left. Go to the end of each room and switch its lamp: "
    "out if it is on, on if it is out.",
    "nested loops, condition",
    "own",
    """
    def run():
      while(frontIsClear):
        move()
        if(leftIsClear):
          turnLeft()
          while(frontIsClear):
            move()
          ifelse(markersPresent):
            pickMarker()
          else:
            putMarker()
          turnLeft()
          turnLeft()
          while(frontIsClear):
            move()
          turnLeft()
    """,
)
def lamps_in_the_hotel(rng: Random) -> World:
    sketch = street(rng, 4, 9, (3, 4))
    sketch.wall(range(1, sketch.rows), range(sketch.cols))
    for col in apart(rng, 1, sketch.cols - 1, 2, 4):
        end = rng.randint(1, sketch.rows - 1)
        sketch.walls -= {(row, col) for row in range(1, end + 1)}
        sketch.mark(end, col, rng.randint(0, 1))
    return sketch.world()


@posed(
    "Obstacle course: jump over the hurdles and fill the potholes until you reach the beeper.",
    "while loop, nested condition, hurdles",
    "own",
    """
    def run():
      while(noMarkersPresent):
        ifelse(frontIsClear):
          move()
          if(rightIsClear):
            turnRight()
            move()
            putMarker()
            turnLeft()
            turnLeft()
            move()
            turnRight()
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
def obstacle_course(rng: Random) -> World:
    sketch = street(rng, 5, 11, (3, 4)).place(1, 0)
    sketch.wall(0, range(sketch.cols)).mark(1, sketch.cols - 1)
    for col in apart(rng, 1, sketch.cols - 2, 2):
        if rng.random() < 0.5:
            sketch.wall(1, col)
        elif (1, col - 1) not in sketch.walls:
            sketch.walls.discard((0, col))
    return sketch.world()


@posed(
    "Two rows of socks lie one above the other. Where both rows have a sock, it is a pair: mark it above.",
    "while loop, nested condition, logic",
    "own",
    """
    def run():
      while(frontIsClear):
        move()
        if(markersPresent):
          turnLeft()
          move()
          ifelse(markersPresent):
            move()
            putMarker()
            turnLeft()
            turnLeft()
            move()
            move()
            turnLeft()
          else:
            turnLeft()
            turnLeft()
            move()
            turnLeft()
    """,
)
def pairs_of_socks(rng: Random) -> World:
    sketch = street(rng, 4, 8, (3, 4))
    for row in (0, 1):
        for col in some(rng, range(1, sketch.cols), 2, sketch.cols - 2):
            sketch.mark(row, col)
    return sketch.world()


@posed(
    "Climb the stairs and pick up the litter that lies on some steps. Then come all the way down again.",
    "while loop, condition, stairs, there and back",
    "own",
    """
    def run():
      while(not frontIsClear):
        turnLeft()
        move()
        turnRight()
        move()
        if(markersPresent):
          pickMarker()
      turnLeft()
      turnLeft()
      while(frontIsClear):
        move()
        turnLeft()
        move()
        turnRight()
    """,
)
def litter_on_the_stairs(rng: Random) -> World:
    steps = rng.randint(1, 6)
    sketch = Sketch(steps + rng.randint(1, 3), steps + rng.randint(2, 4))
    for row in range(steps):
        sketch.wall(row, range(row + 1, sketch.cols)).mark(row + 1, row + 1, rng.randint(0, 1))
    return sketch.world()


@posed(
    "Build the pillars of the temple: one where you stand and one at every third place, each up to the ceiling.",
    "nested loops, building, fencepost",
    "CS106A",
    """
    def run():
      pillar()
      while(frontIsClear):
        repeat(3):
          move()
        pillar()

    def pillar():
      turnLeft()
      putMarker()
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
def pillars_of_the_temple(rng: Random) -> World:
    col = rng.randint(0, 2)
    return Sketch(rng.randint(2, 6), col + 3 * rng.randint(1, 3) + 1).place(0, col).world()


@posed(
    "Relay race: leave a beeper at the start, run over the low hurdles to the baton, pick it up, run back over the "
    "hurdles and put it down at the start.",
    "while loop, condition, hurdles, there and back",
    "own",
    """
    def run():
      putMarker()
      move()
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
      pickMarker()
      turnLeft()
      turnLeft()
      move()
      while(noMarkersPresent):
        ifelse(frontIsClear):
          move()
        else:
          turnRight()
          move()
          turnLeft()
          move()
          move()
          turnLeft()
          move()
          turnRight()
      putMarker()
    """,
)
def relay_over_the_hurdles(rng: Random) -> World:
    sketch = street(rng, 5, 10, (2, 4))
    cols = apart(rng, 2, sketch.cols - 3, 2, rng.randint(1, 3))
    return hurdles(rng, sketch, cols, 1).mark(0, sketch.cols - 1).world()


if __name__ == "__main__":
    main()
