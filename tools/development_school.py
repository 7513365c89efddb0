"""Tasks of benchmarks/development.jsonl: a teacher's own exercises."""

from __future__ import annotations

from random import Random
from typing import Final

from tools.drawn_tasks import DrawnTask, Sketch, posing

from karelsynth.karel.world import HEADINGS, STEP, Cell, World

TASKS: Final[list[DrawnTask]] = []
posed = posing(TASKS)


def any_way(rng: Random, sketch: Sketch) -> World:
    """The world, turned at random."""
    return sketch.world(rng.randrange(4))


def strew(rng: Random, sketch: Sketch, but: set[Cell], share: float = 0.15, most: int = 3) -> Sketch:
    """Markers on some free cells outside `but`."""
    for row in range(sketch.rows):
        for col in range(sketch.cols):
            if (row, col) not in sketch.walls | but and (row, col) not in sketch.markers and rng.random() < share:
                sketch.mark(row, col, rng.randint(1, most))
    return sketch


def blocks(rng: Random, sketch: Sketch, but: set[Cell], share: float = 0.15) -> Sketch:
    """Walls on some cells without markers outside `but`."""
    for row in range(sketch.rows):
        for col in range(sketch.cols):
            if (row, col) not in but and (row, col) not in sketch.markers and rng.random() < share:
                sketch.wall(row, col)
    return sketch


def along(row: int, cols: range) -> set[Cell]:
    return {(row, col) for col in cols}


@posed(
    "The chess knight jumps: Karel takes one marker from its cell, goes two cells ahead and one to the left, and puts "
    "the marker down there.",
    "sequence",
    "own; chess club",
    """
    def run():
      pickMarker()
      move()
      move()
      turnLeft()
      move()
      putMarker()
    """,
)
def knight_jump(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(3, 7))
    row, col = rng.randint(0, sketch.rows - 2), rng.randint(0, sketch.cols - 3)
    sketch.place(row, col).mark(row, col, rng.randint(1, 3))
    path = along(row, range(col, col + 3)) | {(row + 1, col + 2)}
    if rng.random() < 0.4:
        sketch.mark(row + 1, col + 2, rng.randint(1, 3))
    return any_way(rng, blocks(rng, sketch, path, 0.1))


@posed(
    "The tram drives to the first stop where passengers (markers) wait, which may be where it stands. One gets in, "
    "and the tram goes one cell into the street on its left.",
    "conditional loop, sequence",
    "own; traffic",
    """
    def run():
      while(noMarkersPresent):
        move()
      pickMarker()
      turnLeft()
      move()
    """,
)
def tram_stop(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(3, 9))
    row, start = rng.randint(0, sketch.rows - 2), rng.randint(0, 1)
    stop = rng.randint(start, sketch.cols - 1)
    sketch.place(row, start).mark(row, stop, rng.randint(1, 5))
    for col in range(sketch.cols):
        if col != stop and rng.random() < 0.5:
            sketch.wall(row + 1, col)
        if col > stop and rng.random() < 0.3:
            sketch.mark(row, col, rng.randint(1, 5))
    return sketch.world()


@posed(
    "Karel strolls along the open meadow on its left. As soon as a hedge or fence is on its left, it turns right, "
    "drops a marker and takes one step.",
    "conditional loop, sequence",
    "own; a walk",
    """
    def run():
      while(leftIsClear):
        move()
      turnRight()
      putMarker()
      move()
    """,
)
def meadow_walk(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(3, 9))
    row, start = rng.randint(1, sketch.rows - 2), rng.randint(0, 2)
    hedge = rng.randint(start, sketch.cols - 1)
    sketch.place(row, start).wall(row + 1, range(hedge, rng.randint(hedge + 1, sketch.cols)))
    but = along(row, range(sketch.cols)) | along(row + 1, range(start, hedge)) | {(row - 1, hedge)}
    blocks(rng, sketch, but, 0.1)
    return strew(rng, sketch, set(), 0.12).world()


@posed(
    "The cake covers four cells: Karel's, the one ahead, and the two to the left of these. Karel puts one more candle "
    "on each and ends where it began, with the heading it had.",
    "counted loop",
    "own; baking",
    """
    def run():
      repeat(4):
        putMarker()
        move()
        turnLeft()
    """,
)
def cake_candles(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(2, 6))
    row, col = rng.randint(0, sketch.rows - 2), rng.randint(0, sketch.cols - 2)
    cake = {(row + up, col + right) for up in range(2) for right in range(2)}
    strew(rng, sketch.place(row, col), set(), 0.2)
    return blocks(rng, sketch, cake, 0.08).world()


@posed(
    "The washing line: Karel puts a peg where it stands, walks straight on as far as it can and puts a peg there. If "
    "it cannot walk at all, both pegs are in its cell.",
    "conditional loop, sequence",
    "own; laundry",
    """
    def run():
      putMarker()
      while(frontIsClear):
        move()
      putMarker()
    """,
)
def washing_line(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 7), rng.randint(3, 7))
    row, col = rng.randrange(sketch.rows), rng.randrange(sketch.cols)
    sketch.place(row, col, rng.choice(HEADINGS))
    strew(rng, sketch, set(), 0.12)
    return blocks(rng, sketch, {(row, col)}, 0.1).world()


@posed(
    "The parcel van: if there is a driveway on its right, it turns into it. In any case it goes one cell on and "
    "leaves a parcel there.",
    "branch",
    "own; post",
    """
    def run():
      if(rightIsClear):
        turnRight()
      move()
      putMarker()
    """,
)
def driveway(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(2, 6))
    row, col = rng.randint(0, sketch.rows - 1), rng.randint(0, sketch.cols - 2)
    sketch.place(row, col)
    if row and rng.random() < 0.4:
        sketch.wall(row - 1, col)
    strew(rng, sketch, set(), 0.2)
    return blocks(rng, sketch, {(row, col), (row, col + 1), (row - 1, col)}, 0.15).world()


@posed(
    "The kangaroo jumps over one cell after the other until the fence is right ahead (the way is an even number of "
    "cells). In each cell that it jumps over it leaves a marker.",
    "conditional loop",
    "own; animals",
    """
    def run():
      while(frontIsClear):
        move()
        putMarker()
        move()
    """,
)
def kangaroo(rng: Random) -> World:
    jumps, start = rng.randint(1, 4), rng.randint(0, 2)
    end = start + 2 * jumps
    sketch = Sketch(rng.randint(2, 5), end + 1 + rng.randint(0, 2))
    row = rng.randrange(sketch.rows)
    sketch.place(row, start)
    if end + 1 < sketch.cols:
        sketch.wall(row, end + 1)
    strew(rng, sketch, set(), 0.12)
    return blocks(rng, sketch, along(row, range(end + 1)), 0.08).world()


@posed(
    "The queen walks along the red carpet of markers. On the first cell without carpet she turns around and puts a "
    "marker down. If she stands beside the carpet already, she does so at once.",
    "conditional loop, sequence",
    "own; festival",
    """
    def run():
      while(markersPresent):
        move()
      turnLeft()
      turnLeft()
      putMarker()
    """,
)
def red_carpet(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(3, 9))
    row, start = rng.randrange(sketch.rows), rng.randint(0, 2)
    end = rng.randint(start, sketch.cols - 1)
    sketch.place(row, start)
    for col in range(start, sketch.cols):
        if col < end or (col > end and rng.random() < 0.5):
            sketch.mark(row, col, rng.choice([1, 1, 2]))
    return blocks(rng, sketch, along(row, range(sketch.cols)), 0.1).world(1)


@posed(
    "The sailing boat passes three buoys: three times it sails two cells straight on and turns right.",
    "counted loop, nested loop",
    "own; regatta",
    """
    def run():
      repeat(3):
        repeat(2):
          move()
        turnRight()
    """,
)
def regatta(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(3, 7))
    row, col = rng.randint(2, sketch.rows - 1), rng.randint(0, sketch.cols - 3)
    course = {(row - down, col + right) for down in range(3) for right in range(3)} - {(row - 1, col + 1)}
    sketch.place(row, col)
    if rng.random() < 0.5:
        sketch.wall(row - 1, col + 1)
    blocks(rng, sketch, course, 0.15)
    return strew(rng, sketch, set(), 0.1).world()


@posed(
    "The mouse is hemmed in. It turns left until the way ahead is free (not at all if it is free already), runs "
    "straight on as far as it can, and leaves a crumb there.",
    "conditional loop, negation",
    "own; animals",
    """
    def run():
      while(not(frontIsClear)):
        turnLeft()
      while(frontIsClear):
        move()
      putMarker()
    """,
)
def trapped_mouse(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(3, 6))
    row, col = rng.randrange(sketch.rows), rng.randrange(sketch.cols)
    heading = rng.choice(HEADINGS)
    sketch.place(row, col, heading)
    around = {way: (row + STEP[way][0], col + STEP[way][1]) for way in HEADINGS}
    free = {way: cell for way, cell in around.items() if 0 <= cell[0] < sketch.rows and 0 <= cell[1] < sketch.cols}
    way_out = rng.choice(list(free))
    for way, cell in free.items():
        if way != way_out and rng.random() < 0.75:
            sketch.wall(*cell)
    strew(rng, sketch, set(), 0.1)
    return blocks(rng, sketch, {(row, col), *free.values()}, 0.1).world()


@posed(
    "Two children sit on either side of a bowl of sweets, one ahead of Karel and one behind it. Karel gives one sweet "
    "to the child ahead, comes back to the bowl, gives the next to the other child, and so on in turn, until the bowl "
    "is empty. So it ends at the bowl, facing the child whose turn it would be.",
    "conditional loop",
    "own; sharing",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
        putMarker()
        turnLeft()
        turnLeft()
        move()
    """,
)
def fair_share(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(3, 6))
    row, col = rng.randrange(sketch.rows), rng.randint(1, sketch.cols - 2)
    sketch.place(row, col).mark(row, col, rng.randint(1, 9))
    for child in (col - 1, col + 1):
        if rng.random() < 0.4:
            sketch.mark(row, child, rng.randint(1, 4))
    strew(rng, sketch, along(row, range(col - 1, col + 2)), 0.1)
    return blocks(rng, sketch, along(row, range(col - 1, col + 2)), 0.1).world()


@posed(
    "Every baking tray in the row gets exactly two buns: Karel clears whatever lies on the tray and puts two there. "
    "The last tray, before the wall, stays as it is.",
    "conditional loop, nested loop",
    "own; baking",
    """
    def run():
      while(frontIsClear):
        while(markersPresent):
          pickMarker()
        putMarker()
        putMarker()
        move()
    """,
)
def two_buns(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 4), rng.randint(2, 7))
    row, end = rng.randrange(sketch.rows), rng.randint(1, sketch.cols - 1)
    start = rng.randint(0, min(1, end - 1))
    sketch.place(row, start)
    if end + 1 < sketch.cols:
        sketch.wall(row, end + 1)
    for col in range(end + 1):
        if rng.random() < 0.6:
            sketch.mark(row, col, rng.randint(1, 5))
    but = along(row, range(sketch.cols))
    return blocks(rng, strew(rng, sketch, but, 0.1), but, 0.1).world()


@posed(
    "The postwoman looks for the first side street on her left, which may be where she stands. She drives in to its "
    "end, leaves a letter, drives back to the main road and looks along it as before.",
    "conditional loop, negation, sequence",
    "own; post",
    """
    def run():
      while(not(leftIsClear)):
        move()
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
def side_street(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 7), rng.randint(3, 8))
    start = rng.randint(0, 2)
    street, length = rng.randint(start, sketch.cols - 1), rng.randint(1, sketch.rows - 1)
    sketch.place(0, start).wall(range(1, sketch.rows), range(sketch.cols))
    for col in (street, rng.randrange(sketch.cols)):
        if col == street or col < start - 1 or col > street + 1:
            cells = range(1, length + 1 if col == street else rng.randint(2, sketch.rows))
            sketch.walls -= {(row, col) for row in cells}
            if rng.random() < 0.4:
                sketch.mark(cells[-1] if cells else 0, col, rng.randint(1, 3))
    return sketch.world()


@posed(
    "The plane flies on as long as the way ahead is free. Each time it leaves a puff of smoke in its cell, goes one "
    "cell on and then rises by one cell (to its left) if there is no cloud or ceiling. It stops at the first obstacle "
    "ahead.",
    "conditional loop, branch",
    "own; air show",
    """
    def run():
      while(frontIsClear):
        putMarker()
        move()
        turnLeft()
        if(frontIsClear):
          move()
        turnRight()
    """,
)
def smoke_trail(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 7), rng.randint(4, 9))
    row, col = rng.randint(0, 1), rng.randint(0, 1)
    sketch.place(row, col)
    blocks(rng, sketch, {(row, col), (row, col + 1)}, 0.14)
    return strew(rng, sketch, set(), 0.06).world()


@posed(
    "Karel goes straight on until it cannot. On the way it obeys the signposts that it comes to: at each it takes one "
    "marker away; if more are left there it turns left, otherwise right. A marker in its first cell is no sign, but a "
    "signpost that it comes to again counts with what is left.",
    "conditional loop, branch, nested branch",
    "own; treasure hunt",
    """
    def run():
      while(frontIsClear):
        move()
        if(markersPresent):
          pickMarker()
          ifelse(markersPresent):
            turnLeft()
          else:
            turnRight()
    """,
)
def signposts(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 7), rng.randint(3, 7))
    at, heading = (rng.randrange(sketch.rows), rng.randrange(sketch.cols)), rng.choice(HEADINGS)
    sketch.place(*at, heading)
    if rng.random() < 0.2:
        sketch.mark(*at)
    visited = {at}
    for _ in range(rng.randint(1, 4)):
        ahead: list[Cell] = []
        cell = at
        while True:
            cell = cell[0] + STEP[heading][0], cell[1] + STEP[heading][1]
            if not (0 <= cell[0] < sketch.rows and 0 <= cell[1] < sketch.cols) or cell in visited:
                break
            ahead.append(cell)
        if not ahead:
            break
        steps = rng.randint(1, len(ahead))
        visited.update(ahead[:steps])
        at = ahead[steps - 1]
        left = rng.random() < 0.5
        sketch.mark(*at, rng.randint(2, 3) if left else 1)
        heading = HEADINGS[(HEADINGS.index(heading) + (-1 if left else 1)) % 4]
    return blocks(rng, sketch, visited, 0.1).world()


@posed(
    "Three lengths in the swimming pool: Karel swims to the wall ahead, from there to the opposite wall and back "
    "again. At each turn it leaves a marker at the wall and turns around. It may start in the middle of the lane.",
    "counted loop, nested loop",
    "own; sports",
    """
    def run():
      repeat(3):
        while(frontIsClear):
          move()
        putMarker()
        turnLeft()
        turnLeft()
    """,
)
def three_lengths(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(3, 9))
    row = rng.randrange(sketch.rows)
    first, last = rng.randint(0, 1), sketch.cols - 1 - rng.randint(0, 1)
    sketch.place(row, rng.randint(first, last), rng.choice(["east", "west"]))
    lane = along(row, range(first, last + 1))
    if first:
        sketch.wall(row, first - 1)
    if last + 1 < sketch.cols:
        sketch.wall(row, last + 1)
    strew(rng, sketch, set(), 0.12)
    return any_way(rng, blocks(rng, sketch, lane, 0.1))


@posed(
    "Karel hangs a garland in the empty hall, one marker in each cell along the walls, which it keeps to its right. "
    "It stops as soon as it comes to a cell that has a marker already: its own first one, or one that hung there "
    "before.",
    "conditional loop, branch, negation",
    "own; festival",
    """
    def run():
      while(noMarkersPresent):
        putMarker()
        if(not(frontIsClear)):
          turnLeft()
        move()
    """,
)
def garland(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(2, 6))
    sketch.place(0, rng.randint(0, sketch.cols - 1))
    inner = [(row, col) for row in range(2, sketch.rows - 2) for col in range(2, sketch.cols - 2)]
    for cell in inner:
        if rng.random() < 0.3:
            sketch.wall(*cell)
    if rng.random() < 0.35:
        sketch.mark(rng.randint(1, sketch.rows - 1), rng.choice([0, sketch.cols - 1]), rng.randint(1, 2))
    return any_way(rng, sketch)


@posed(
    "The wheel of fortune: for each marker in its cell, Karel takes it away and turns left by a quarter. Then it runs "
    "straight on as far as it can and puts a marker there.",
    "conditional loop",
    "own; fair",
    """
    def run():
      while(markersPresent):
        pickMarker()
        turnLeft()
      while(frontIsClear):
        move()
      putMarker()
    """,
)
def wheel_of_fortune(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(3, 6))
    row, col = rng.randrange(sketch.rows), rng.randrange(sketch.cols)
    sketch.place(row, col, rng.choice(HEADINGS)).mark(row, col, rng.randint(0, 6))
    strew(rng, sketch, {(row, col)}, 0.12)
    return blocks(rng, sketch, {(row, col)}, 0.12).world()


@posed(
    "The polite guest walks along the buffet to its end and takes one from each dish that she comes to, but she never "
    "takes the last one: a dish with a single one stays as it is.",
    "conditional loop, branch, nested branch",
    "own; festival",
    """
    def run():
      while(frontIsClear):
        move()
        if(markersPresent):
          pickMarker()
          if(noMarkersPresent):
            putMarker()
    """,
)
def polite_guest(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 4), rng.randint(3, 9))
    row, end = rng.randrange(sketch.rows), rng.randint(2, sketch.cols - 1)
    sketch.place(row, 0)
    if end + 1 < sketch.cols:
        sketch.wall(row, end + 1)
    for col in range(end + 1):
        if rng.random() < 0.65:
            sketch.mark(row, col, rng.choice([1, 1, 2, 3, 4]))
    but = along(row, range(sketch.cols))
    return blocks(rng, strew(rng, sketch, but, 0.1), but, 0.1).world()


@posed(
    "The guard walks once around the statue (a rectangle of walls), which is on her right. At each of the four "
    "corners outside it she puts a lamp. She ends beside the first cell of the side where she started, and looks as "
    "before.",
    "counted loop, nested loop, negation",
    "own; museum",
    """
    def run():
      repeat(4):
        while(not(rightIsClear)):
          move()
        putMarker()
        turnRight()
        move()
    """,
)
def statue_guard(rng: Random) -> World:
    high, wide = rng.randint(1, 4), rng.randint(1, 4)
    bottom, left = rng.randint(1, 2), rng.randint(1, 2)
    sketch = Sketch(high + bottom + rng.randint(1, 2), wide + left + rng.randint(1, 2))
    sketch.wall(range(bottom, bottom + high), range(left, left + wide))
    sketch.place(bottom + high, rng.randint(left, left + wide - 1))
    return any_way(rng, strew(rng, sketch, set(), 0.06))


@posed(
    "Karel stands on vouchers; in the cell ahead are sweets. For each voucher, which is used up, it goes there, takes "
    "one sweet if any is left, and comes back looking as before. So it ends when there are no more vouchers.",
    "conditional loop, branch",
    "own; fair",
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
def vouchers(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(2, 5))
    row, col = rng.randrange(sketch.rows), rng.randint(0, sketch.cols - 2)
    pair = along(row, range(col, col + 2))
    sketch.place(row, col).mark(row, col, rng.randint(1, 7)).mark(row, col + 1, rng.randint(0, 9))
    return blocks(rng, strew(rng, sketch, pair, 0.12), pair, 0.12).world()


@posed(
    "The spider sits in the middle of its web, which is marked. It spins four threads, ahead, right, behind and left: "
    "it runs as far as it can and lays a marker in each cell on the way back to the middle. It looks as before in the "
    "end.",
    "counted loop, nested loop",
    "own; animals",
    """
    def run():
      repeat(4):
        while(frontIsClear):
          move()
        turnLeft()
        turnLeft()
        while(noMarkersPresent):
          putMarker()
          move()
        turnLeft()
    """,
)
def spider_web(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 7), rng.randint(3, 7))
    row, col = rng.randrange(sketch.rows), rng.randrange(sketch.cols)
    sketch.place(row, col, rng.choice(HEADINGS)).mark(row, col, rng.randint(1, 3))
    threads = along(row, range(sketch.cols)) | {(other, col) for other in range(sketch.rows)}
    return strew(rng, blocks(rng, sketch, {(row, col)}, 0.14), threads, 0.12).world()


@posed(
    "Karel walks once around the courtyard, from corner to corner with the wall on its right, back to the corner "
    "where it began. It puts two lanterns inside each gate, a gap in the wall on its right.",
    "counted loop, nested loop, branch",
    "own; castle",
    """
    def run():
      repeat(4):
        while(frontIsClear):
          move()
          if(rightIsClear):
            repeat(2):
              putMarker()
        turnLeft()
    """,
)
def gate_lanterns(rng: Random) -> World:
    sketch = Sketch(rng.randint(4, 8), rng.randint(4, 8))
    top, right = sketch.rows - 1, sketch.cols - 1
    sketch.wall([0, top], range(sketch.cols)).wall(range(sketch.rows), [0, right]).place(1, 1)
    gates = [(row, col) for row in (0, top) for col in range(2, right - 1)]
    gates += [(row, col) for row in range(2, top - 1) for col in (0, right)]
    if gates:
        sketch.walls -= set(rng.sample(gates, rng.randint(1, min(len(gates), 4))))
    for row in range(1, top):
        for col in range(1, right):
            if rng.random() < 0.08:
                sketch.mark(row, col, rng.randint(1, 2))
    return sketch.world()


@posed(
    "Bunches of balloons are tied along the bottom row. Karel walks along it to its end. From each bunch that it "
    "comes to it lets one rise to the ceiling, which is uneven: it carries it straight up to the highest cell that it "
    "can reach, lets it go there and comes back down. Right below the ceiling that changes nothing.",
    "conditional loop, branch, nested loop",
    "own; festival",
    """
    def run():
      while(frontIsClear):
        move()
        if(markersPresent):
          pickMarker()
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
def balloons(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(3, 7)).place(0, 0)
    end = sketch.cols - 1 - rng.choice([0, 0, 1])
    if end + 1 < sketch.cols:
        sketch.wall(0, end + 1)
    for col in range(sketch.cols):
        if col <= end and rng.random() < 0.5:
            sketch.mark(0, col, rng.choice([1, 1, 2, 3]))
        ceiling = rng.randint(1, sketch.rows)
        if ceiling < sketch.rows:
            sketch.wall(ceiling, col)
        if ceiling > 1 and rng.random() < 0.2:
            sketch.mark(ceiling - 1, col)
    return sketch.world()


@posed(
    "The billiard ball rolls diagonally, one cell ahead and one to the left at a time, and bounces off the sides of "
    "the table: before each step it turns left until the way ahead is free, and then right if the way to the left is "
    "not. It leaves a marker in each cell where a step begins. Where a step ends on a marker, its own or a coin that "
    "lay there, it takes one and stops.",
    "conditional loop, nested loop, branch, negation",
    "own; billiards",
    """
    def run():
      while(noMarkersPresent):
        putMarker()
        while(not(frontIsClear)):
          turnLeft()
        if(not(leftIsClear)):
          turnRight()
        move()
        turnLeft()
        move()
        turnRight()
      pickMarker()
    """,
)
def billiard_ball(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(3, 7))
    row, col = rng.randrange(sketch.rows), rng.randrange(sketch.cols)
    sketch.place(row, col, rng.choice(HEADINGS))
    return strew(rng, sketch, {(row, col)}, rng.choice([0, 0.05, 0.12]), 2).world()


@posed(
    "Knitting in rows from the bottom: in a row eastward, Karel adds a stitch (a marker) to each cell but the last; "
    "in the next row, westward, it drops one stitch from each cell but the last, if there is one. It goes on with "
    "pairs of rows as long as two are left, and stops at the beginning of the top row, looking east.",
    "conditional loop, nested loop, branch",
    "own; knitting",
    """
    def run():
      while(leftIsClear):
        while(frontIsClear):
          putMarker()
          move()
        turnLeft()
        move()
        turnLeft()
        while(frontIsClear):
          if(markersPresent):
            pickMarker()
          move()
        turnRight()
        if(frontIsClear):
          move()
        turnRight()
    """,
)
def knitting(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(2, 6)).place(0, 0)
    return strew(rng, sketch, set(), rng.choice([0.2, 0.5])).world()


@posed(
    "The snail looks along a wall of the empty room, on its left or right. It goes to the corner, turns left, and "
    "creeps inward in a spiral with a trail of one marker in each cell. When it comes onto its own trail, it goes "
    "back one cell and on to the left. If there is trail, too, the room is full, and it stops there.",
    "conditional loop, branch, negation",
    "own; animals",
    """
    def run():
      while(frontIsClear):
        move()
      turnLeft()
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
def snail_spiral(rng: Random) -> World:
    rows = rng.randint(2, 6)
    sketch = Sketch(rows, rng.randint(2, 26 // rows if rows > 3 else 7))
    return any_way(rng, sketch.place(0, rng.randrange(sketch.cols), rng.choice(["east", "west"])))


@posed(
    "Karel sorts the socks under it. As long as there are any it takes one, and if there is one more it takes that, "
    "too, and puts one marker, for the pair, into the drawer in the cell ahead. A sock that is left over goes to the "
    "cell on Karel's left. It comes back each time, looking as before, and finally goes to the drawer.",
    "conditional loop, branch",
    "own; laundry",
    """
    def run():
      while(markersPresent):
        pickMarker()
        ifelse(markersPresent):
          pickMarker()
          move()
          putMarker()
          turnLeft()
          turnLeft()
          move()
          turnLeft()
          turnLeft()
        else:
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
def pairs_of_socks(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(2, 5))
    row, col = rng.randint(0, sketch.rows - 2), rng.randint(0, sketch.cols - 2)
    sketch.place(row, col).mark(row, col, rng.randint(0, 9))
    but = {(row, col), (row, col + 1), (row + 1, col)}
    return blocks(rng, strew(rng, sketch, {(row, col)}, 0.15), but, 0.12).world()


@posed(
    "Slalom: Karel skis straight on to the first pole (a wall), passes it on the left, skis on to the next, passes "
    "that on the right, and so on in turn. When it has passed the second, fourth or a later even pole and lands on a "
    "flag (a marker), it picks it up and stops.",
    "conditional loop, nested loop, sequence",
    "Stanford CS106A, Hurdle Karel; with sides in turn",
    """
    def run():
      while(noMarkersPresent):
        while(frontIsClear):
          move()
        turnLeft()
        move()
        turnRight()
        move()
        move()
        turnRight()
        move()
        turnLeft()
        while(frontIsClear):
          move()
        turnRight()
        move()
        turnLeft()
        move()
        move()
        turnLeft()
        move()
        turnRight()
      pickMarker()
    """,
)
def slalom(rng: Random) -> World:
    poles, row, col = [], rng.randint(1, 2), rng.randint(0, 1)
    start = col
    count = rng.choice([2, 2, 4])
    for _ in range(count):
        poles.append(col + 1 + rng.randint(0, 4 // count))
        col = poles[-1] + 1
    sketch = Sketch(row + 1 + rng.randint(1, 2), min(16, col + 1 + rng.randint(0, 2))).place(row, start)
    for pole in poles:
        sketch.wall(row, pole)
    sketch.mark(row, col, rng.randint(1, 3))
    for at in poles[:-1]:
        if rng.random() < 0.3 and poles.index(at) % 2 == 0:
            sketch.mark(row, at + 1)
    near = {(row + side, at) for side in (-1, 0, 1) for at in range(sketch.cols)}
    if rng.random() < 0.7:
        return blocks(rng, sketch, near, 0.2).world(3)
    return strew(rng, sketch, near, 0.15).world(3)


@posed(
    "The bee lives where four corridors of different lengths meet. It flies to the end of each, first straight on, "
    "then to the right, and so on, and comes back. From a flower with nectar it takes one marker, an empty one gets "
    "one. In the end it is at home and looks as before.",
    "counted loop, nested loop, branch, negation",
    "own; animals",
    """
    def run():
      repeat(4):
        while(frontIsClear):
          move()
        ifelse(markersPresent):
          pickMarker()
        else:
          putMarker()
        turnLeft()
        turnLeft()
        move()
        while(not(leftIsClear)):
          move()
        turnLeft()
    """,
)
def bee_flight(rng: Random) -> World:
    north, east, south, west = (rng.randint(1, 4) for _ in range(4))
    sketch = Sketch(north + south + 1, east + west + 1)
    for row in range(sketch.rows):
        for col in range(sketch.cols):
            if row != south and col != west:
                sketch.wall(row, col)
    for cell in ((sketch.rows - 1, west), (south, sketch.cols - 1), (0, west), (south, 0)):
        if rng.random() < 0.5:
            sketch.mark(*cell, rng.randint(1, 3))
    return sketch.place(south, west, rng.choice(HEADINGS)).world()


@posed(
    "Shunting: Karel stands on one wagon load (a pile), the second is in the cell ahead, and the cell behind is an "
    "empty siding. With the help of the siding it exchanges the two loads, marker by marker, and ends on the siding, "
    "looking towards them as before. Either load may be empty.",
    "conditional loop, sequence",
    "own; railway",
    """
    def run():
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
def shunting(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(3, 6))
    row, col = rng.randrange(sketch.rows), rng.randint(1, sketch.cols - 2)
    track = along(row, range(col - 1, col + 2))
    sketch.place(row, col).mark(row, col, rng.randint(0, 5)).mark(row, col + 1, rng.randint(0, 5))
    return any_way(rng, blocks(rng, strew(rng, sketch, track, 0.1), track, 0.15))


@posed(
    "Dancing the waltz to the wall, Karel stamps one, two, three, one, two, three: it adds one marker to the first "
    "cell, two to the second, three to the third, one to the fourth and so on. The cell before the wall gets none.",
    "conditional loop, branch, nested branch, counted loop",
    "own; music",
    """
    def run():
      while(frontIsClear):
        putMarker()
        move()
        if(frontIsClear):
          repeat(2):
            putMarker()
          move()
          if(frontIsClear):
            repeat(3):
              putMarker()
            move()
    """,
)
def waltz(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 4), rng.randint(3, 10))
    row, start = rng.randrange(sketch.rows), rng.randint(0, 1)
    end = rng.choice([sketch.cols - 1, rng.randint(start + 1, sketch.cols - 1)])
    sketch.place(row, start)
    if end + 1 < sketch.cols:
        sketch.wall(row, end + 1)
    floor = along(row, range(end + 1))
    return blocks(rng, strew(rng, sketch, set(), 0.15, 2), floor, 0.1).world()
