"""Tasks of benchmarks/development.jsonl: puzzles, rituals and small algorithms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from tools.drawn_tasks import TICKS, DrawnTask, Sketch, posing, winding_path

from karelsynth.karel.program import Program
from karelsynth.karel.world import HEADINGS, Cell, World

TASKS: Final[list[DrawnTask]] = []
posed = posing(TASKS)


def lane(rng: Random, cols: int, most_rows: int = 5) -> tuple[Sketch, int]:
    """A world of so many columns, Karel at the west end of some row; and the row."""
    sketch = Sketch(rng.randint(2, most_rows), cols)
    row = rng.randrange(sketch.rows)
    return sketch.place(row, 0), row


def strew(sketch: Sketch, rng: Random, kept: Iterable[Cell], share: float = 0.15, most: int = 2) -> Sketch:
    """Stray walls and markers on some of the cells that are not kept."""
    kept = {*kept, sketch.hero[:2]}
    for row in range(sketch.rows):
        for col in range(sketch.cols):
            cell = row, col
            if cell not in kept and cell not in sketch.walls and cell not in sketch.markers and rng.random() < share:
                if rng.random() < 0.5:
                    sketch.wall(row, col)
                else:
                    sketch.mark(row, col, rng.randint(1, most))
    return sketch


def cells(rows: Iterable[int] | int, cols: Iterable[int] | int) -> set[Cell]:
    cols = [cols] if isinstance(cols, int) else list(cols)
    return {(row, col) for row in ([rows] if isinstance(rows, int) else rows) for col in cols}


def until_it_runs(text: str, draw: Callable[[], World]) -> World:
    """The first world drawn that the program changes without a crash or a time-out."""
    program = Program.parse(text, "paper")
    while True:
        world = draw()
        run = program.run(world, max_ticks=TICKS)
        if run.ok and run.world != world:
            return world


# Easy: up to 14 tokens.


@posed(
    "The frog hops two cells at a time as long as it lands on a lily pad (a marker). Where it lands on water it puts a "
    "pad of its own, at once if it starts on water. What it jumps over does not matter.",
    "while with a marker, step of two",
    "your own: the frog on the pond",
    """
    def run():
      while(markersPresent):
        move()
        move()
      putMarker()
    """,
)
def lily_pads(rng: Random) -> World:
    hops, start = rng.randint(0, 4), rng.randint(0, 1)
    sketch, row = lane(rng, start + 2 * hops + rng.randint(2, 3))
    for hop in range(hops):
        sketch.mark(row, start + 2 * hop, rng.choice([1, 1, 2]))
    for col in range(start + 1, sketch.cols, 2):
        if rng.random() < 0.4:
            sketch.mark(row, col)
    return strew(sketch.place(row, start), rng, cells(row, range(sketch.cols))).world()


@posed(
    "The crab looks ahead and walks sideways, to its left, until it is blocked there, and lays a marker on every cell "
    "that it comes to. It never changes its heading for good.",
    "while with a wall, sidestep",
    "your own: the crab",
    """
    def run():
      while(leftIsClear):
        turnLeft()
        move()
        turnRight()
        putMarker()
    """,
)
def crab_walk(rng: Random) -> World:
    sketch, row = lane(rng, rng.randint(3, 8))
    start = rng.randint(0, sketch.cols - 2)
    end = rng.randint(start + 2, sketch.cols)
    if end < sketch.cols:
        sketch.wall(row, end)
    for col in range(sketch.cols):
        if rng.random() < 0.2 and col != end:
            sketch.mark(row, col, rng.randint(1, 2))
    kept = cells(row, range(sketch.cols))
    return strew(sketch.place(row, start, "south"), rng, kept).world(rng.randrange(4))


@posed(
    "Four plates stand in a square and Karel is on one of them. It eats one marker, goes on to the plate ahead, turns "
    "right, and so on round and round, until it comes to an empty plate.",
    "while with a marker, circle",
    "your own: a table for four",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
        turnRight()
    """,
)
def four_plates(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(2, 6))
    row, col = rng.randint(1, sketch.rows - 1), rng.randint(0, sketch.cols - 2)
    plates = cells([row - 1, row], [col, col + 1])
    for plate in sorted(plates):
        if plate == (row, col) or rng.random() < 0.85:
            sketch.mark(*plate, rng.randint(1, 4))
    return strew(sketch.place(row, col), rng, plates).world(rng.randrange(4))


@posed(
    "Karel stands at a fork. If the way to its left is open it takes that one, else it goes straight on: two cells "
    "far, where it leaves a marker.",
    "if",
    "your own: the fork",
    """
    def run():
      if(leftIsClear):
        turnLeft()
      move()
      move()
      putMarker()
    """,
)
def at_the_fork(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(3, 6))
    row, col = rng.randint(0, sketch.rows - 3), rng.randint(0, sketch.cols - 3)
    sketch.place(row, col)
    kept = cells(row, [col + 1, col + 2]) | cells([row + 1, row + 2], col)
    if rng.random() < 0.5:
        sketch.wall(row + 1, col)
    elif rng.random() < 0.4:
        sketch.wall(row, col + rng.randint(1, 2))
    for cell in sorted(kept - sketch.walls):
        if rng.random() < 0.2:
            sketch.mark(*cell, rng.randint(1, 2))
    return strew(sketch, rng, kept).world(rng.randrange(4))


@posed(
    "Karel walks until a statue (a wall) stands on its right, which may be at once. It turns its back on the statue, "
    "takes one step and leaves a marker.",
    "while with a wall at the side",
    "your own: the statue",
    """
    def run():
      while(rightIsClear):
        move()
      turnLeft()
      move()
      putMarker()
    """,
)
def statue(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(3, 9))
    row, at = rng.randint(1, sketch.rows - 2), rng.randint(1, sketch.cols - 1)
    start = rng.randint(max(0, at - 6), at)
    sketch.place(row, start).wall(row - 1, at)
    for col in range(sketch.cols):
        if col != at and rng.random() < 0.25:
            sketch.wall(row + 1, col)
        if col > at and rng.random() < 0.4:
            sketch.wall(row - 1, col)
        if rng.random() < 0.15:
            sketch.mark(row, col, rng.randint(1, 2))
    kept = cells(row, range(sketch.cols)) | cells(row - 1, range(start, at)) | {(row + 1, at)}
    return strew(sketch, rng, kept).world(rng.randrange(4))


@posed(
    "Karel wakes up with its nose to a wall and turns to the right until the way ahead is open.",
    "while with a negation",
    "your own: the way out",
    """
    def run():
      while(not(frontIsClear)):
        turnRight()
    """,
)
def nose_to_the_wall(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(3, 6))
    row, col = rng.randint(1, sketch.rows - 2), rng.randint(1, sketch.cols - 2)
    sides = [(row + 1, col), (row, col + 1), (row - 1, col), (row, col - 1)]
    heading = rng.randrange(4)
    for turn, side in enumerate(sides[heading:] + sides[:heading]):
        if turn == 0 or (turn < 3 and rng.random() < 0.6):
            sketch.wall(*side)
    return strew(sketch.place(row, col, HEADINGS[heading]), rng, sides, 0.2).world()


@posed(
    "The bishop walks along a diagonal, a step ahead and a step to its left, until a wall is right in front of it.",
    "diagonal, while with a wall",
    "your own: the bishop",
    """
    def run():
      while(frontIsClear):
        move()
        turnLeft()
        move()
        turnRight()
    """,
)
def bishop(rng: Random) -> World:
    steps = rng.randint(1, 5)
    sketch = Sketch(steps + rng.randint(1, 3), steps + rng.randint(1, 3))
    row, col = rng.randint(0, sketch.rows - steps - 1), rng.randint(0, sketch.cols - steps - 1)
    sketch.place(row, col)
    if col + steps + 1 < sketch.cols:
        sketch.wall(row + steps, col + steps + 1)
    kept = {(row + at, col + at + way) for at in range(steps + 1) for way in (0, 1)}
    for at in range(steps):
        if rng.random() < 0.15:
            sketch.mark(row + at, col + at)
    return strew(sketch, rng, kept).world(rng.randrange(4))


@posed(
    "Karel rides a merry-go-round: two cells ahead, then a turn to the left, from corner to corner of a square, until "
    "the corner that it has come to holds a marker. It takes one. Between corners it takes nothing.",
    "while with no marker, circle",
    "your own: the merry-go-round",
    """
    def run():
      while(noMarkersPresent):
        move()
        move()
        turnLeft()
      pickMarker()
    """,
)
def merry_go_round(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(3, 6))
    row, col = rng.randint(0, sketch.rows - 3), rng.randint(0, sketch.cols - 3)
    ring = cells(range(row, row + 3), range(col, col + 3)) - {(row + 1, col + 1)}
    corners = [(row, col), (row, col + 2), (row + 2, col + 2), (row + 2, col)]
    first = rng.choice([0, 1, 2, 2, 3, 3])
    for corner in corners[first:]:
        if corner == corners[first] or rng.random() < 0.4:
            sketch.mark(*corner, rng.randint(1, 3))
    for cell in sorted(ring - {*corners}):
        if rng.random() < 0.3:
            sketch.mark(*cell)
    if rng.random() < 0.5:
        sketch.wall(row + 1, col + 1)
    return strew(sketch.place(row, col), rng, ring).world(rng.randrange(4))


@posed(
    "The pile under Karel is a compass: Karel takes its markers one by one, turns a quarter to the right for each, "
    "takes a step in the direction where that ends, and leaves one marker there. No pile, no turn.",
    "pile as a number, modulo four",
    "your own: the compass",
    """
    def run():
      while(markersPresent):
        pickMarker()
        turnRight()
      move()
      putMarker()
    """,
)
def compass(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(2, 5))
    row, col = rng.randrange(sketch.rows), rng.randrange(sketch.cols)
    heading, pile = rng.randrange(4), rng.randint(0, 7)
    ways = [(row + 1, col), (row, col + 1), (row - 1, col), (row, col - 1)]
    goal = ways[(heading + pile) % 4]
    if not (0 <= goal[0] < sketch.rows and 0 <= goal[1] < sketch.cols):
        return compass(rng)
    if pile:
        sketch.mark(row, col, pile)
    if rng.random() < 0.2:
        sketch.mark(*goal)
    return strew(sketch.place(row, col, HEADINGS[heading]), rng, [goal], 0.2).world()


# Medium: 15 to 35 tokens.


@posed(
    "Karel puts a marker under itself and on every third cell after that, and goes on to the wall. The cell at the "
    "wall gets none.",
    "modulo three, nested loop, if",
    "your own: lamps every third cell",
    """
    def run():
      while(frontIsClear):
        putMarker()
        repeat(3):
          if(frontIsClear):
            move()
    """,
)
def every_third(rng: Random) -> World:
    sketch, row = lane(rng, rng.randint(4, 10))
    end = sketch.cols if rng.random() < 0.6 else rng.randint(3, sketch.cols - 1)
    if end < sketch.cols:
        sketch.wall(row, end)
    for col in range(end):
        if rng.random() < 0.1:
            sketch.mark(row, col)
    sketch.place(row, rng.randint(0, min(2, end - 2)))
    return strew(sketch, rng, cells(row, range(sketch.cols))).world(rng.choice([0, 0, 2]))


@posed(
    "Two frogs (markers) sit one behind the other, and Karel is on the one in front. The one behind leaps over the one "
    "in front, again and again, until there is a wall before the front one. Karel carries the leaper and is always on "
    "the front one in between. Of larger piles only one marker leaps.",
    "while with a wall, there and back, leapfrog",
    "your own: leapfrog",
    """
    def run():
      while(frontIsClear):
        turnLeft()
        turnLeft()
        move()
        pickMarker()
        turnLeft()
        turnLeft()
        move()
        move()
        putMarker()
    """,
)
def leapfrog(rng: Random) -> World:
    start = rng.randint(1, 3)
    leaps = rng.randint(1, 6)
    sketch, row = lane(rng, start + leaps + rng.randint(1, 2))
    if start + leaps + 1 < sketch.cols:
        sketch.wall(row, start + leaps + 1)
    for col in range(start + leaps + 1):
        if col in (start - 1, start) or rng.random() < 0.12:
            sketch.mark(row, col, rng.choice([1, 1, 1, 2]))
    sketch.place(row, start)
    return strew(sketch, rng, cells(row, range(sketch.cols))).world(rng.randrange(4))


ANT: Final = """
def run():
  repeat(9):
    ifelse(markersPresent):
      pickMarker()
      turnLeft()
      move()
    else:
      putMarker()
      turnRight()
      move()
"""


@posed(
    "Langton's ant for nine steps: on a marked cell it takes a marker and turns left, on an empty cell it puts one and "
    "turns right, and then it moves on.",
    "counted loop, if else, cellular automaton",
    "Langton's ant",
    ANT,
)
def langtons_ant(rng: Random) -> World:
    def draw() -> World:
        sketch = Sketch(rng.randint(4, 7), rng.randint(4, 7))
        row, col = rng.randint(1, sketch.rows - 2), rng.randint(1, sketch.cols - 2)
        for cell in sorted(cells(range(sketch.rows), range(sketch.cols))):
            if rng.random() < 0.2:
                sketch.mark(*cell, rng.choice([1, 1, 1, 2]))
        return sketch.place(row, col, rng.choice(HEADINGS)).world()

    return until_it_runs(ANT, draw)


@posed(
    "Karel has lost its keys somewhere in its row, ahead or behind. It walks, turns round at walls, and takes one "
    "marker where it first finds some, maybe at once.",
    "search in two directions, if else",
    "your own: lost keys",
    """
    def run():
      while(noMarkersPresent):
        ifelse(frontIsClear):
          move()
        else:
          turnLeft()
          turnLeft()
      pickMarker()
    """,
)
def lost_keys(rng: Random) -> World:
    sketch, row = lane(rng, rng.randint(4, 10))
    low, high = rng.choice([-1, -1, 0, 1]), rng.choice([sketch.cols, sketch.cols, sketch.cols - 1])
    for col in (low, high):
        if 0 <= col < sketch.cols:
            sketch.wall(row, col)
    start = rng.randint(low + 1, high - 1)
    for col in rng.sample(range(low + 1, high), rng.choice([1, 1, min(2, high - low - 1)])):
        sketch.mark(row, col, rng.randint(1, 3))
    sketch.place(row, start, rng.choice(["east", "west"]))
    return strew(sketch, rng, cells(row, range(sketch.cols))).world(rng.choice([0, 1]))


WEAVER: Final = """
def run():
  repeat(6):
    while(markersPresent):
      move()
    putMarker()
    turnLeft()
    turnLeft()
"""


@posed(
    "Six times Karel goes on over marked cells to the first cell without a marker, puts one there and turns round. So "
    "the thread grows at both of its ends in turn. Threads that lie in the way are joined to it.",
    "counted loop, while with a marker, both directions",
    "your own: the weaver's shuttle",
    WEAVER,
)
def weavers_shuttle(rng: Random) -> World:
    def draw() -> World:
        sketch, row = lane(rng, rng.randint(6, 10), 4)
        for col in range(sketch.cols):
            if rng.random() < 0.2:
                sketch.mark(row, col, rng.choice([1, 1, 2]))
        sketch.place(row, rng.randint(2, sketch.cols - 3), rng.choice(["east", "west"]))
        return strew(sketch, rng, cells(row, range(sketch.cols)), 0.1).world(rng.choice([0, 1]))

    return until_it_runs(WEAVER, draw)


@posed(
    "Karel follows road signs until a wall stops it: one marker means left, two or more mean right. Signs stay. A sign "
    "under Karel at the start does not count.",
    "state machine, markers as signals, nested if",
    "your own: road signs",
    """
    def run():
      while(frontIsClear):
        move()
        if(markersPresent):
          pickMarker()
          ifelse(markersPresent):
            turnRight()
          else:
            turnLeft()
          putMarker()
    """,
)
def road_signs(rng: Random) -> World:
    sketch = Sketch(rng.randint(4, 8), rng.randint(4, 9))
    path = winding_path(rng, sketch.rows, sketch.cols, rng.randint(4, 12))
    sketch.place(*path[0])
    step = (0, 1)
    for at, to in zip(path[1:], [*path[2:], None], strict=True):
        if to is None:
            if rng.random() < 0.8:
                sketch.wall(at[0] + step[0], at[1] + step[1])
        elif (to[0] - at[0], to[1] - at[1]) != step:
            left = (to[0] - at[0], to[1] - at[1]) == (step[1], -step[0])
            sketch.mark(*at, 1 if left else rng.choice([2, 2, 3]))
            step = to[0] - at[0], to[1] - at[1]
    kept = {*path, (path[-1][0] + step[0], path[-1][1] + step[1])}
    if rng.random() < 0.2:
        sketch.mark(*path[0], rng.randint(1, 2))
    return strew(sketch, rng, kept, 0.1).world(rng.randrange(4))


@posed(
    "Karel looks round once and puts down as many markers as there are open sides next to it.",
    "counted loop, if, counting",
    "your own: count the doors",
    """
    def run():
      repeat(4):
        if(frontIsClear):
          putMarker()
        turnLeft()
    """,
)
def count_the_doors(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(2, 5))
    row, col = rng.randrange(sketch.rows), rng.randrange(sketch.cols)
    for side in [(row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)]:
        if 0 <= side[0] < sketch.rows and 0 <= side[1] < sketch.cols and rng.random() < 0.4:
            sketch.wall(*side)
    if rng.random() < 0.25:
        sketch.mark(row, col, rng.randint(1, 3))
    return strew(sketch.place(row, col, rng.choice(HEADINGS)), rng, [], 0.15).world()


@posed(
    "A clockwork dancer makes six figures: if the way is open, a step and a turn to the right; if not, it stamps a "
    "marker on the floor and turns left.",
    "dance, counted loop, if else",
    "your own: the clockwork dancer",
    """
    def run():
      repeat(6):
        ifelse(frontIsClear):
          move()
          turnRight()
        else:
          putMarker()
          turnLeft()
    """,
)
def clockwork_dancer(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(2, 5))
    row, col = rng.randrange(sketch.rows), rng.randrange(sketch.cols)
    return strew(sketch.place(row, col, rng.choice(HEADINGS)), rng, [], 0.4, 1).world()


EVERY_OTHER: Final = """
def run():
  while(frontIsClear):
    move()
    if(markersPresent):
      pickMarker()
      while(noMarkersPresent):
        move()
"""


@posed(
    "On the way to the wall Karel takes every other marker: the first goes, the second stays, the third goes, ... "
    "However far they are apart, their number is even. A pile of two counts as two. Karel's first cell does not count.",
    "parity of markers, nested while, if",
    "your own: every other one",
    EVERY_OTHER,
)
def every_other_one(rng: Random) -> World:
    def draw() -> World:
        sketch, row = lane(rng, rng.randint(4, 10))
        for col in range(sketch.cols):
            if rng.random() < 0.5:
                sketch.mark(row, col, rng.choice([1, 1, 1, 1, 2]))
        if rng.random() < 0.3:
            end = rng.randint(3, sketch.cols - 1)
            sketch.wall(row, end).markers.pop((row, end), None)
        return strew(sketch, rng, cells(row, range(sketch.cols))).world(rng.choice([0, 0, 1, 2]))

    return until_it_runs(EVERY_OTHER, draw)


@posed(
    "Karel halves the pile under it. For each two markers that it takes it puts one on the cell to its left. If one is "
    "left over, that goes to the cell on Karel's right, and Karel walks on over it to the cell beyond. Else it stays.",
    "division by two with a remainder, unary arithmetic, if else",
    "your own: half a pile",
    """
    def run():
      while(markersPresent):
        pickMarker()
        ifelse(markersPresent):
          pickMarker()
          turnLeft()
          move()
          putMarker()
          turnLeft()
          turnLeft()
          move()
          turnLeft()
        else:
          turnRight()
          move()
          putMarker()
          move()
    """,
)
def half_a_pile(rng: Random) -> World:
    sketch = Sketch(rng.randint(4, 6), rng.randint(2, 5))
    row, col = rng.randint(2, sketch.rows - 2), rng.randrange(sketch.cols)
    sketch.place(row, col).mark(row, col, rng.randint(1, 9))
    kept = cells(range(row - 2, row + 2), col)
    for side in (row - 1, row + 1):
        if rng.random() < 0.15:
            sketch.mark(side, col)
    return strew(sketch, rng, kept).world(rng.randrange(4))


@posed(
    "Karel walks through a winding gallery to its dead end. It hangs a lantern (a marker) at each bend and at the end.",
    "cave, nested while, if else",
    "your own: lanterns",
    """
    def run():
      while(frontIsClear):
        while(frontIsClear):
          move()
        putMarker()
        ifelse(leftIsClear):
          turnLeft()
        else:
          turnRight()
    """,
)
def lanterns(rng: Random) -> World:
    sketch = Sketch(rng.randint(4, 7), rng.randint(4, 8))
    path = winding_path(rng, sketch.rows, sketch.cols, rng.randint(4, 14))
    sketch.place(*path[0])
    sketch.walls |= cells(range(sketch.rows), range(sketch.cols)) - {*path}
    for cell in path:
        if rng.random() < 0.1:
            sketch.mark(*cell)
    return sketch.world(rng.randrange(4))


@posed(
    "The ball rolls until it hits a wall, four times over, and bounces off to its right each time. A bumper (a pile) "
    "that it rolls onto loses a marker and throws it to the left. A wall that is ahead after a turn counts as hit.",
    "nested loops, reaction to the world",
    "your own: pinball",
    """
    def run():
      repeat(4):
        while(frontIsClear):
          move()
          if(markersPresent):
            pickMarker()
            turnLeft()
        turnRight()
    """,
)
def pinball(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 7), rng.randint(3, 7))
    row, col = rng.randrange(sketch.rows), rng.randrange(sketch.cols)
    for cell in sorted(cells(range(sketch.rows), range(sketch.cols)) - {(row, col)}):
        if rng.random() < 0.15:
            sketch.mark(*cell, rng.choice([1, 1, 2]))
    return strew(sketch.place(row, col, rng.choice(HEADINGS)), rng, [], 0.15).world()


@posed(
    "A caterpillar of markers crawls three cells ahead: each time Karel, on its tail, takes that and puts it before "
    "the head, and goes back to the new tail. Leaves (markers) that the head reaches become part of it.",
    "queue, counted loop, while with a marker, there and back",
    "your own: the caterpillar",
    """
    def run():
      repeat(3):
        pickMarker()
        move()
        while(markersPresent):
          move()
        putMarker()
        turnLeft()
        turnLeft()
        while(markersPresent):
          move()
        turnLeft()
        turnLeft()
        move()
    """,
)
def caterpillar(rng: Random) -> World:
    tail, length, leaves = rng.randint(0, 2), rng.randint(1, 4), rng.choice([0, 0, 1])
    sketch, row = lane(rng, tail + length + 3 + leaves + rng.randint(0, 2), 4)
    for col in range(tail, tail + length):
        sketch.mark(row, col)
    if leaves:
        sketch.mark(row, tail + length + rng.randint(1, 2))
    if tail == 2 and rng.random() < 0.5:
        sketch.mark(row, 0)
    sketch.place(row, tail)
    return strew(sketch, rng, cells(row, range(sketch.cols))).world(rng.randrange(4))


@posed(
    "Behind Karel is a wall, under it a pile, and ahead a binary number, units first: a marker is a one. Karel adds "
    "the pile to the number: it takes a marker, adds one with all carries, comes back, and so on.",
    "binary counter, simulated machine, unary to binary",
    "the binary counter of computer science courses",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
        while(markersPresent):
          pickMarker()
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
def binary_counter(rng: Random) -> World:
    bits = rng.randint(2, 4)
    sketch, row = lane(rng, bits + rng.randint(1, 3), 4)
    pile = rng.randint(1, min(6, 2**bits - 1))
    number = rng.choice([0, rng.randint(0, 2**bits - 1 - pile)])
    home = rng.randint(bits, sketch.cols - 1)
    sketch.place(row, home, "west").mark(row, home, pile)
    if home + 1 < sketch.cols:
        sketch.wall(row, home + 1)
    for bit in range(bits):
        if number >> bit & 1:
            sketch.mark(row, home - 1 - bit)
    return strew(sketch, rng, cells(row, range(sketch.cols))).world(rng.randrange(4))


@posed(
    "Karel, in a corner of a room, lays tiles in a spiral to the left until it is shut in by tiles: it turns left "
    "where a wall is ahead, and where it steps on a tile it steps back and turns left. It stops on the tile that it "
    "steps on after such a turn.",
    "spiral, own traces, if, while with no marker",
    "your own: the spiral mosaic",
    """
    def run():
      while(noMarkersPresent):
        putMarker()
        if(not(frontIsClear)):
          turnLeft()
        move()
        if(markersPresent):
          turnLeft()
          turnLeft()
          move()
          turnRight()
          move()
    """,
)
def spiral_mosaic(rng: Random) -> World:
    rows, cols = rng.randint(2, 5), rng.randint(2, 6)
    above, beside = rng.randint(0, 2), rng.randint(0, 2)
    sketch = Sketch(rows + above, cols + beside).place(0, 0)
    if above:
        sketch.wall(rows, range(cols))
    if beside:
        sketch.wall(range(rows), cols)
    return strew(sketch, rng, cells(range(rows), range(cols)), 0.25).world(rng.randrange(4))


@posed(
    "Karel shows where a rook could go: one after the other, turning right, it lays markers along the four straight "
    "lines from its cell to the walls, and goes back over them each time. It ends where and as it began.",
    "counted loop, two kinds of while, there and back",
    "your own: the rook",
    """
    def run():
      repeat(4):
        while(frontIsClear):
          move()
          putMarker()
        turnLeft()
        turnLeft()
        while(markersPresent):
          move()
        turnLeft()
    """,
)
def the_rook(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 7), rng.randint(2, 7))
    row, col = rng.randrange(sketch.rows), rng.randrange(sketch.cols)
    return strew(sketch.place(row, col, rng.choice(HEADINGS)), rng, [], 0.25).world()


@posed(
    "Along the wall on its right Karel makes every pile after its first cell zero or one. It takes all markers and "
    "turns round for each. If it looks back at the end (there is no wall on its right) the pile was odd: Karel leaves "
    "one and turns ahead again.",
    "parity, the heading as memory, nested while, if",
    "your own: modulo two",
    """
    def run():
      while(frontIsClear):
        move()
        while(markersPresent):
          pickMarker()
          turnLeft()
          turnLeft()
        if(rightIsClear):
          putMarker()
          turnLeft()
          turnLeft()
    """,
)
def modulo_two(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(3, 8))
    for col in range(sketch.cols):
        if rng.random() < 0.7:
            sketch.mark(0, col, rng.randint(1, 5))
        if rng.random() < 0.15:
            sketch.mark(1, col)
    kept = cells([0, 1], range(sketch.cols))
    return strew(sketch.place(0, 0), rng, kept).world(rng.randrange(4))


# Hard: more than 35 tokens.


@posed(
    "Karel walks to the wall ahead. Whenever a column (a wall) stands on its left, after a step, it throws its shadow: "
    "Karel goes to its right up to the wall, leaves a marker there, comes back to the column, and goes on.",
    "nested while, if with a negation, there and back",
    "your own: shadows",
    """
    def run():
      while(frontIsClear):
        move()
        if(not(leftIsClear)):
          turnRight()
          while(frontIsClear):
            move()
          putMarker()
          turnLeft()
          turnLeft()
          while(frontIsClear):
            move()
          turnRight()
    """,
)
def shadows(rng: Random) -> World:
    deep, cols = rng.randint(1, 4), rng.randint(3, 7)
    sketch = Sketch(deep + rng.randint(2, 3), cols)
    lane_row = deep
    for col in range(cols):
        if rng.random() < 0.4:
            sketch.wall(deep + 1, col)
        if rng.random() < 0.3:
            sketch.wall(rng.randint(0, deep - 1), col)
        elif rng.random() < 0.15:
            sketch.mark(rng.randint(0, deep), col)
    kept = cells(range(deep + 2), range(cols))
    return strew(sketch.place(lane_row, 0), rng, kept).world(rng.randrange(4))


@posed(
    "Karel swaps the pile under it and the pile on the next cell ahead. The cell after that is free and serves as a "
    "third place: the second pile goes there, marker by marker, then the first goes to the second place, and last the "
    "pile from the third place goes to the first. Karel ends on the third place and looks back.",
    "swap, move piles, unary arithmetic",
    "swapping two variables with a third",
    """
    def run():
      move()
      while(markersPresent):
        pickMarker()
        move()
        putMarker()
        turnLeft()
        turnLeft()
        move()
        turnLeft()
        turnLeft()
      turnLeft()
      turnLeft()
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
      move()
      move()
      turnLeft()
      turnLeft()
      while(markersPresent):
        pickMarker()
        move()
        move()
        putMarker()
        turnLeft()
        turnLeft()
        move()
        move()
        turnLeft()
        turnLeft()
    """,
)
def swap_two_piles(rng: Random) -> World:
    sketch, row = lane(rng, rng.randint(3, 6), 4)
    start = rng.randint(0, sketch.cols - 3)
    for col in (start, start + 1):
        if pile := rng.randint(0, 5):
            sketch.mark(row, col, pile)
    kept = cells(row, range(start, start + 3))
    return strew(sketch.place(row, start), rng, kept).world(rng.randrange(4))


@posed(
    "Two armies stand on Karel's cell and the cell ahead. As long as both have soldiers, Karel takes one of each and "
    "sends one of the two to the camp on its right, so the camp gets the smaller number and the larger army keeps the "
    "difference. If Karel's army is the larger, Karel ends one step to the left of it, else on its empty cell.",
    "minimum, difference, comparison, unary arithmetic",
    "your own: the peace treaty",
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
          move()
          putMarker()
          turnLeft()
          turnLeft()
          move()
          turnRight()
        else:
          turnLeft()
          turnLeft()
          move()
          putMarker()
          turnRight()
          move()
    """,
)
def peace_treaty(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(2, 5))
    row, col = rng.randint(1, sketch.rows - 2), rng.randint(0, sketch.cols - 2)
    sketch.place(row, col).mark(row, col, rng.randint(1, 6))
    if other := rng.randint(0, 6):
        sketch.mark(row, col + 1, other)
    if rng.random() < 0.2:
        sketch.mark(row - 1, col, rng.randint(1, 2))
    kept = {(row, col + 1), (row - 1, col), (row + 1, col)}
    return strew(sketch, rng, kept).world(rng.randrange(4))


@posed(
    "Three vessels stand in a row, Karel at the middle one. It pours the one ahead and then the one behind into the "
    "middle, marker by marker, and deals all that is there to both sides in turn, beginning ahead, so that the outer "
    "ones are equal or the one ahead has one more. Karel ends in the middle.",
    "equalise two piles, deal in turn, nested loops",
    "your own: communicating vessels",
    """
    def run():
      repeat(2):
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
      while(markersPresent):
        pickMarker()
        move()
        putMarker()
        turnLeft()
        turnLeft()
        move()
    """,
)
def vessels(rng: Random) -> World:
    sketch, row = lane(rng, rng.randint(3, 6), 4)
    middle = rng.randint(1, sketch.cols - 2)
    for col, most in ((middle - 1, 5), (middle, 1), (middle + 1, 3)):
        if pile := rng.randint(0, most):
            sketch.mark(row, col, pile)
    kept = cells(row, range(middle - 1, middle + 2))
    return strew(sketch.place(row, middle), rng, kept).world(rng.randrange(4))


BEAVER: Final = """
def run():
  ifelse(noMarkersPresent):
    putMarker()
    move()
  else:
    turnLeft()
    turnLeft()
    move()
    turnLeft()
    turnLeft()
  while(noMarkersPresent):
    putMarker()
    turnLeft()
    turnLeft()
    move()
    turnLeft()
    turnLeft()
    ifelse(noMarkersPresent):
      putMarker()
      move()
    else:
      turnLeft()
      turnLeft()
      move()
      turnLeft()
      turnLeft()
  move()
"""


@posed(
    "The busy beaver with two states on a tape of empty and marked cells; Karel always looks ahead. State A: on an "
    "empty cell it puts a marker and goes a step ahead, on a marked one a step back; either way state B follows. "
    "State B: on an empty cell it puts a marker and goes a step back, to state A; on a marked one a step ahead, and it "
    "halts.",
    "Turing machine, if else, while with no marker",
    "the busy beaver with two states",
    BEAVER,
)
def busy_beaver(rng: Random) -> World:
    def draw() -> World:
        sketch, row = lane(rng, rng.randint(5, 9), 3)
        share = rng.choice([0, 0.3, 0.5])
        for col in range(sketch.cols):
            if rng.random() < share:
                sketch.mark(row, col)
        sketch.place(row, rng.randint(1, sketch.cols - 2))
        return strew(sketch, rng, cells(row, range(sketch.cols))).world(rng.choice([0, 0, 1, 3]))

    return until_it_runs(BEAVER, draw)


@posed(
    "Karel stands in a cave where four galleries meet. Turning right each time it walks into each of them to its end, "
    "and if there are markers there, it brings one of them to the crossing. Markers on the way stay. Karel ends as it "
    "began.",
    "cave, search, if else, nested while, counted loop",
    "your own: four galleries",
    """
    def run():
      repeat(4):
        while(frontIsClear):
          move()
        ifelse(markersPresent):
          pickMarker()
          turnLeft()
          turnLeft()
          move()
          while(not(leftIsClear)):
            move()
          putMarker()
        else:
          turnLeft()
          turnLeft()
          move()
          while(not(leftIsClear)):
            move()
        turnLeft()
    """,
)
def four_galleries(rng: Random) -> World:
    north, east, south, west = [rng.randint(1, 3) for _ in range(4)]
    sketch = Sketch(north + south + 1, west + east + 1)
    floor = cells(range(sketch.rows), west) | cells(south, range(sketch.cols))
    sketch.walls |= cells(range(sketch.rows), range(sketch.cols)) - floor
    ends = {(0, west), (sketch.rows - 1, west), (south, 0), (south, sketch.cols - 1)}
    for cell in sorted(floor):
        if rng.random() < (0.6 if cell in ends else 0.15):
            sketch.mark(*cell, rng.randint(1, 3))
    return sketch.place(south, west, rng.choice(HEADINGS)).world()


@posed(
    "Karel walks to the wall and lights every rocket that it steps on: it takes one marker, and sparks (markers) fly "
    "to the cell on its left and the cell on its right, but not into walls.",
    "nesting of four, there and back, reaction to the world",
    "your own: fireworks",
    """
    def run():
      while(frontIsClear):
        move()
        if(markersPresent):
          pickMarker()
          turnLeft()
          repeat(2):
            if(frontIsClear):
              move()
              putMarker()
              turnLeft()
              turnLeft()
              move()
              turnLeft()
              turnLeft()
            turnLeft()
            turnLeft()
          turnRight()
    """,
)
def fireworks(rng: Random) -> World:
    sketch, row = lane(rng, rng.randint(3, 9), 5)
    for col in range(sketch.cols):
        if rng.random() < 0.45:
            sketch.mark(row, col, rng.choice([1, 1, 2]))
    return strew(sketch, rng, cells(row, range(sketch.cols)), 0.3).world(rng.randrange(4))


@posed(
    "Karel draws a mountain range to its right. It climbs diagonally, a step up and a step to the right, until a "
    "ceiling is over it, and comes down in the same way to the floor, as long as there is room on the right. Every "
    "cell at the end of such a pair of steps gets a marker.",
    "zigzag, diagonal, nested while",
    "your own: the mountain range",
    """
    def run():
      while(rightIsClear):
        while(frontIsClear):
          move()
          turnRight()
          move()
          turnLeft()
          putMarker()
        turnLeft()
        turnLeft()
        while(frontIsClear):
          move()
          turnLeft()
          move()
          turnRight()
          putMarker()
        turnLeft()
        turnLeft()
    """,
)
def mountain_range(rng: Random) -> World:
    heights = [rng.choice([1, 1, 2, 2, 3]) for _ in range(rng.randint(1, 3))]
    while sum(heights) > 5:
        heights.pop()
    sketch = Sketch(max(heights) + rng.randint(1, 2), 2 * sum(heights) + 1).place(0, 0, "north")
    col, kept = 0, set()
    for height in heights:
        for at in range(2 * height + 1):
            kept |= cells(range(min(at, 2 * height - at) + 2), col + at)
        if height + 1 < sketch.rows:
            sketch.wall(height + 1, col + height)
        col += 2 * height
    for cell in sorted(kept - sketch.walls):
        if cell[0] < sketch.rows and rng.random() < 0.06:
            sketch.mark(*cell)
    return strew(sketch, rng, kept).world(rng.randrange(4))
