"""The easy tasks of benchmarks/held_out.jsonl: references of up to 14 tokens."""

from __future__ import annotations

from random import Random
from typing import Final

from tools.drawn_tasks import DrawnTask, Sketch, posing

from karelsynth.karel.world import World

TASKS: Final[list[DrawnTask]] = []
posed = posing(TASKS)


def row_of(rng: Random, short: int = 3, long: int = 10, high: int = 6) -> tuple[Sketch, int]:
    """A world with a row for Karel, which stands at its west end, and clutter in the other rows; and the row."""
    sketch = Sketch(rng.randint(2, high), rng.randint(short, long))
    row = rng.randrange(sketch.rows)
    return sketch.place(row, 0), row


def others(sketch: Sketch, row: int) -> list[int]:
    return [other for other in range(sketch.rows) if other != row]


@posed(
    "Karel picks up the marker, climbs the ledge, puts the marker down on it and takes one more step.",
    "sequence",
    "Stanford CS106A, the first program",
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
def over_the_ledge(rng: Random) -> World:
    start = rng.randint(0, 3)
    sketch = Sketch(rng.randint(2, 7), start + rng.randint(5, 8)).place(0, start)
    sketch.mark(0, start + 1, rng.randint(1, 3)).wall(0, range(start + 3, sketch.cols))
    if rng.random() < 0.3:
        sketch.mark(1, start + 3, rng.randint(1, 2))
    return sketch.clutter(rng, range(2, sketch.rows)).world()


@posed(
    "Karel makes three stacks of three pancakes, one on each of the next three cells.",
    "counted loop, nested loop",
    "CodeHS, Pancake Karel",
    """
    def run():
      repeat(3):
        move()
        repeat(3):
          putMarker()
    """,
)
def pancakes(rng: Random) -> World:
    sketch, row = row_of(rng, 4, 10)
    sketch.place(row, rng.randint(0, sketch.cols - 4))
    for col in range(sketch.cols):
        if rng.random() < 0.2:
            sketch.mark(row, col, rng.randint(1, 4))
    return sketch.clutter(rng, others(sketch, row)).world()


@posed(
    "Karel builds a tower of three markers to the north and stands on top of it.",
    "counted loop",
    "CodeHS, Tower of Karel",
    """
    def run():
      turnLeft()
      repeat(3):
        putMarker()
        move()
    """,
)
def tower_of_three(rng: Random) -> World:
    sketch = Sketch(rng.randint(4, 9), rng.randint(2, 9))
    col = rng.randrange(sketch.cols)
    sketch.place(rng.randint(0, sketch.rows - 4), col)
    sketch.clutter(rng, range(sketch.rows), 0.1)
    for row in range(sketch.rows):
        sketch.walls.discard((row, col))
    return sketch.world()


@posed(
    "Karel slides down the pole to the ground and looks east again.",
    "while loop",
    "CodeHS, Fireman Karel",
    """
    def run():
      turnRight()
      while(frontIsClear):
        move()
      turnLeft()
    """,
)
def fire_pole(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 12), rng.randint(2, 8))
    ground, col = rng.randint(0, 1), rng.randrange(sketch.cols)
    if ground:
        sketch.wall(0, range(sketch.cols))
    top = rng.randint(ground + 1, sketch.rows - 1)
    if col:
        sketch.wall(range(ground, top), range(rng.randint(0, col - 1), col))  # the fire station
    return sketch.place(top, col).world()


@posed(
    "Karel clears all markers from the cell on which it stands, then steps off it.",
    "while loop, piles",
    "Karel J Robot, exercises",
    """
    def run():
      while(markersPresent):
        pickMarker()
      move()
    """,
)
def clear_the_doorstep(rng: Random) -> World:
    sketch, row = row_of(rng)
    col = rng.randint(0, sketch.cols - 2)
    sketch.clutter(rng, others(sketch, row)).place(row, col)
    if rng.random() < 0.85:
        sketch.mark(row, col, rng.randint(1, 9))
    if rng.random() < 0.4:
        sketch.mark(row, col + 1, rng.randint(1, 4))
    return sketch.world()


@posed(
    "Karel stands between walls and turns left until the way ahead is open.",
    "while loop, conditions",
    "Karel J Robot, exercises",
    """
    def run():
      while(not frontIsClear):
        turnLeft()
    """,
)
def find_the_open_side(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 8), rng.randint(3, 8))
    row, col = rng.randint(1, sketch.rows - 2), rng.randint(1, sketch.cols - 2)
    sides = [(row + 1, col), (row, col + 1), (row - 1, col), (row, col - 1)]
    sketch.walls.update(rng.sample(sides, rng.choice((1, 2, 3, 3, 3))))
    for corner in ((row + 1, col + 1), (row + 1, col - 1), (row - 1, col + 1), (row - 1, col - 1)):
        if rng.random() < 0.3:
            sketch.walls.add(corner)
    if rng.random() < 0.3:
        sketch.mark(row, col)
    return sketch.place(row, col, rng.choice(("north", "east", "south", "west"))).world()


@posed(
    "Karel walks along the wall on its left and stops at the first gap in it.",
    "while loop, conditions",
    "Robot Karol, exercises",
    """
    def run():
      while(not leftIsClear):
        move()
    """,
)
def first_gap_in_the_wall(rng: Random) -> World:
    sketch, row = row_of(rng, 4, 12)
    row = rng.randint(0, sketch.rows - 2)
    gap = rng.randint(1, sketch.cols - 1)
    sketch.wall(row + 1, range(gap))
    sketch.wall(row + 1, [col for col in range(gap + 1, sketch.cols) if rng.random() < 0.7])
    return sketch.place(row, rng.randint(0, max(0, gap - 2))).world()


@posed(
    "Karel walks straight on until it stands on a marker. It leaves the marker there.",
    "while loop, search",
    "omegaUp, introduction",
    """
    def run():
      while(noMarkersPresent):
        move()
    """,
)
def walk_to_the_beeper(rng: Random) -> World:
    sketch, row = row_of(rng, 3, 14)
    at = rng.randint(1, sketch.cols - 1)
    sketch.mark(row, at, rng.randint(1, 3)).clutter(rng, others(sketch, row))
    for col in range(at + 1, sketch.cols):
        if rng.random() < 0.3:
            sketch.mark(row, col)
    return sketch.world(rng.randrange(4))


@posed(
    "Karel follows the crumbs, takes one from each cell, and stops where there are none.",
    "while loop, trail",
    "Hansel and Gretel; Kara, leaves",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
    """,
)
def trail_of_crumbs(rng: Random) -> World:
    sketch, row = row_of(rng, 3, 12)
    start = rng.randint(0, sketch.cols - 2)
    end = rng.randint(start + 1, sketch.cols - 1)
    for col in range(start, end):
        sketch.mark(row, col, rng.choice((1, 1, 1, 2)))
    if end + 1 < sketch.cols and rng.random() < 0.5:
        sketch.mark(row, end + 1)
    return sketch.place(row, start).clutter(rng, others(sketch, row)).world()


@posed(
    "Karel leaves a marker on every cell that it steps on until it reaches a wall.",
    "while loop",
    "Hour of Code, paint the road",
    """
    def run():
      while(frontIsClear):
        move()
        putMarker()
    """,
)
def lay_a_trail(rng: Random) -> World:
    sketch, row = row_of(rng, 3, 12)
    end = rng.randint(2, sketch.cols)
    if end < sketch.cols:
        sketch.wall(row, end)
    for col in range(end):
        if rng.random() < 0.15:
            sketch.mark(row, col, rng.randint(1, 3))
    return sketch.place(row, rng.randint(0, end - 2)).clutter(rng, others(sketch, row)).world()


@posed(
    "Karel steps to the mailbox, takes a letter if there is one, and goes one step on.",
    "if",
    "Hour of Code, conditionals",
    """
    def run():
      move()
      if(markersPresent):
        pickMarker()
      move()
    """,
)
def check_the_mailbox(rng: Random) -> World:
    sketch, row = row_of(rng, 3, 9)
    col = rng.randint(0, sketch.cols - 3)
    for at in range(sketch.cols):
        if rng.random() < (0.6 if at == col + 1 else 0.25):
            sketch.mark(row, at, rng.randint(1, 3))
    return sketch.place(row, col).clutter(rng, others(sketch, row)).world()


@posed(
    "Karel climbs the stairs up to the marker.",
    "while loop, stairs",
    "LEAPS, StairClimber; Stanford CS106A",
    """
    def run():
      while(noMarkersPresent):
        turnLeft()
        move()
        turnRight()
        move()
    """,
)
def stair_climber(rng: Random) -> World:
    steps, lane = rng.randint(2, 7), rng.randint(0, 2)
    sketch = Sketch(steps + rng.randint(1, 3), lane + steps + rng.randint(1, 4)).place(0, lane)
    for col in range(lane + 1, sketch.cols):
        sketch.wall(range(min(col - lane, steps)), col)
    at = rng.randint(1, steps)
    sketch.mark(at, lane + at)
    if rng.random() < 0.4:
        sketch.mark(at, lane + at, 2)
    return sketch.world()


@posed(
    "Karel turns around and walks back as far as it can.",
    "while loop, turning around",
    "CodeHS, turn around",
    """
    def run():
      turnLeft()
      turnLeft()
      while(frontIsClear):
        move()
    """,
)
def retreat(rng: Random) -> World:
    sketch, row = row_of(rng, 3, 10)
    col = rng.randint(1, sketch.cols - 1)
    if rng.random() < 0.4:
        sketch.wall(row, rng.randint(0, col - 1))
    for at in range(sketch.cols):
        if rng.random() < 0.15 and (row, at) not in sketch.walls:
            sketch.mark(row, at)
    return sketch.place(row, col).clutter(rng, others(sketch, row)).world(rng.randrange(4))


@posed(
    "Karel puts eight markers on its cell and steps aside.",
    "counted loop, piles",
    "CodeHS, For Loops",
    """
    def run():
      repeat(8):
        putMarker()
      move()
    """,
)
def pile_of_eight(rng: Random) -> World:
    sketch, row = row_of(rng)
    col = rng.randint(0, sketch.cols - 2)
    if rng.random() < 0.3:
        sketch.mark(row, col)
    if rng.random() < 0.3:
        sketch.mark(row, col + 1, rng.randint(1, 5))
    return sketch.place(row, col).clutter(rng, others(sketch, row)).world()


@posed(
    "Karel sows a marker on every cell until it comes to the sign, a marker that is there already.",
    "while loop, search",
    "Pattis, Karel the Robot, exercises",
    """
    def run():
      while(noMarkersPresent):
        putMarker()
        move()
    """,
)
def sow_until_the_sign(rng: Random) -> World:
    sketch, row = row_of(rng, 3, 12)
    start = rng.randint(0, sketch.cols - 2)
    sign = rng.randint(start + 1, sketch.cols - 1)
    sketch.mark(row, sign, rng.randint(1, 3)).place(row, start)
    if start and rng.random() < 0.3:
        sketch.mark(row, start - 1)
    return sketch.clutter(rng, others(sketch, row)).world()


@posed(
    "Karel walks on until there is a tree on its left.",
    "while loop, conditions",
    "Kara, stop at the tree",
    """
    def run():
      while(leftIsClear):
        move()
    """,
)
def stop_beside_the_tree(rng: Random) -> World:
    sketch, row = row_of(rng, 4, 13)
    row = rng.randint(0, sketch.rows - 2)
    tree = rng.randint(1, sketch.cols - 1)
    sketch.wall(row + 1, tree).wall(row + 1, [col for col in range(tree + 1, sketch.cols) if rng.random() < 0.3])
    if row:
        sketch.wall(row - 1, [col for col in range(sketch.cols) if rng.random() < 0.3])
    return sketch.place(row, rng.randint(0, tree - 1)).world()


@posed(
    "Karel pushes the box, a marker under it, to the wall.",
    "while loop, carrying",
    "Robot Karol, carry a brick",
    """
    def run():
      while(frontIsClear):
        pickMarker()
        move()
        putMarker()
    """,
)
def push_the_box(rng: Random) -> World:
    sketch, row = row_of(rng, 3, 12)
    end = rng.randint(2, sketch.cols)
    if end < sketch.cols:
        sketch.wall(row, end)
    start = rng.randint(0, end - 2)
    sketch.place(row, start).mark(row, start, rng.choice((1, 1, 1, 2)))
    for col in range(start + 1, end):
        if rng.random() < 0.15:
            sketch.mark(row, col, rng.randint(1, 2))
    return sketch.clutter(rng, others(sketch, row)).world()


@posed(
    "The row is a binary number: a marker is a one. Karel begins at the last digit and adds one.",
    "while loop, numbers",
    "Kara, binary numbers; Turing machines",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
      putMarker()
    """,
)
def binary_plus_one(rng: Random) -> World:
    sketch, row = row_of(rng, 3, 10, 4)
    ones = rng.randint(0, sketch.cols - 2)
    sketch.place(row, sketch.cols - 1, "west")
    for place in range(sketch.cols):
        if place < ones or (place > ones and rng.random() < 0.5):
            sketch.mark(row, sketch.cols - 1 - place)
    return sketch.world()


@posed(
    "Karel walks diagonally through the room, from its corner until it can go no further.",
    "while loop",
    "Karel J Robot, exercises",
    """
    def run():
      while(frontIsClear):
        move()
        turnLeft()
        move()
        turnRight()
    """,
)
def diagonal_walk(rng: Random) -> World:
    side = rng.randint(2, 10)
    sketch = Sketch(min(16, side + rng.choice((0, 0, 1, 3))), side)
    for row in range(sketch.rows):
        for col in range(sketch.cols):
            if rng.random() < 0.08:
                sketch.mark(row, col, rng.randint(1, 3))
    return sketch.place(0, 0).world()


@posed(
    "Karel lays five stepping stones, one on every second cell, and stands behind the last gap.",
    "counted loop",
    "CodeHS, For Loops",
    """
    def run():
      repeat(5):
        putMarker()
        move()
        move()
    """,
)
def stepping_stones(rng: Random) -> World:
    sketch, row = row_of(rng, 11, 16, 5)
    for col in range(sketch.cols):
        if rng.random() < 0.1:
            sketch.mark(row, col, rng.randint(1, 2))
    return sketch.place(row, rng.randint(0, sketch.cols - 11)).clutter(rng, others(sketch, row)).world()
