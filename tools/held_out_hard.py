"""The hard tasks of benchmarks/held_out.jsonl: references of more than 35 tokens."""

from __future__ import annotations

from random import Random
from typing import Final

from tools.drawn_tasks import DrawnTask, Sketch, posing

from karelsynth.karel.world import World

TASKS: Final[list[DrawnTask]] = []
posed = posing(TASKS)


@posed(
    "Wherever a marker lies in the road, Karel builds a hospital: two columns of three markers.",
    "while loop, if, counted loop, building",
    "Stanford CS106A, hospital Karel",
    """
    def run():
      while(frontIsClear):
        if(markersPresent):
          pickMarker()
          turnLeft()
          repeat(2):
            putMarker()
            move()
          putMarker()
          turnRight()
          move()
          turnRight()
          repeat(2):
            putMarker()
            move()
          putMarker()
          turnLeft()
        if(frontIsClear):
          move()
    """,
)
def build_hospitals(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(3, 13)).place(0, 0)
    col = rng.randint(0, 2)
    while col <= sketch.cols - 2:
        if rng.random() < 0.7:
            sketch.mark(0, col)
        col += rng.randint(2, 4)
    return sketch.world()


@posed(
    "Every fourth column of the arcade is a pillar with stones missing. Karel puts them where they are missing.",
    "nested while, if, counted loop, building",
    "Stanford CS106A, StoneMasonKarel",
    """
    def run():
      while(frontIsClear):
        repeat(4):
          move()
        turnLeft()
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
        turnLeft()
    """,
)
def repair_the_pillars(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 7), rng.choice((5, 5, 9, 9, 13))).place(0, 0)
    for col in range(4, sketch.cols, 4):
        top = sketch.rows
        if rng.random() < 0.4:
            top = rng.randint(1, sketch.rows - 1)
            sketch.wall(top, range(max(0, col - 1), min(sketch.cols, col + 2)))
        for row in range(top):
            if rng.random() < 0.5:
                sketch.mark(row, col)
    return sketch.world()


@posed(
    "Karel finds the middle of the row and ends on a marker there.",
    "nested while, invariants",
    "Stanford CS106A, MidpointFindingKarel",
    """
    def run():
      putMarker()
      while(frontIsClear):
        move()
      putMarker()
      turnLeft()
      turnLeft()
      move()
      while(noMarkersPresent):
        while(noMarkersPresent):
          move()
        pickMarker()
        turnLeft()
        turnLeft()
        move()
        putMarker()
        move()
      pickMarker()
      turnLeft()
      turnLeft()
      move()
    """,
)
def midpoint(rng: Random) -> World:
    return Sketch(rng.randint(2, 12), rng.randint(2, 12)).place(0, 0).world()


@posed(
    "Karel paints the two rows at the bottom like a checkerboard: out along one, back along the other.",
    "while loop, if else, alternation",
    "Stanford CS106A, CheckerboardKarel on two rows",
    """
    def run():
      putMarker()
      while(frontIsClear):
        ifelse(markersPresent):
          move()
        else:
          move()
          putMarker()
      turnLeft()
      ifelse(markersPresent):
        move()
      else:
        move()
        putMarker()
      turnLeft()
      while(frontIsClear):
        ifelse(markersPresent):
          move()
        else:
          move()
          putMarker()
    """,
)
def checkerboard_of_two_rows(rng: Random) -> World:
    return Sketch(rng.randint(2, 10), rng.randint(2, 14)).place(0, 0).world()


@posed(
    "From the corridor in the west Karel sweeps every row above its own and takes a marker wherever one lies.",
    "nested while, if, rows",
    "CodeHS, Super Cleanup Karel",
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
def super_cleanup(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(2, 6)).place(0, 0, "north")
    for row in range(sketch.rows):
        end = sketch.cols
        if row and rng.random() < 0.2 and end > 3:
            end = rng.randint(2, end - 1)
            sketch.wall(row, end)
        for col in range(1, end):
            if rng.random() < (0.5 if row else 0.2):
                sketch.mark(row, col, rng.choice((1, 1, 1, 2)))
    return sketch.world()


@posed(
    "Karel sows the whole field, two rows at a time: out along one, back along the next.",
    "nested while, rows",
    "HPRL, Seeder",
    """
    def run():
      while(frontIsClear):
        putMarker()
        move()
      putMarker()
      turnLeft()
      move()
      turnLeft()
      while(frontIsClear):
        putMarker()
        move()
      putMarker()
      turnRight()
      while(frontIsClear):
        move()
        turnRight()
        while(frontIsClear):
          putMarker()
          move()
        putMarker()
        turnLeft()
        move()
        turnLeft()
        while(frontIsClear):
          putMarker()
          move()
        putMarker()
        turnRight()
    """,
)
def seed_the_field(rng: Random) -> World:
    sketch = Sketch(rng.choice((2, 4, 4, 6, 6, 8)), rng.randint(2, 7)).place(0, 0)
    for row in range(sketch.rows):
        for col in range(sketch.cols):
            if rng.random() < 0.04:
                sketch.mark(row, col)
    return sketch.world()


@posed(
    "Karel exchanges its pile and the next one. The cell behind them is free for keeping one of them meanwhile.",
    "while loop, piles, variables",
    "Stanford CS106A, exam; omegaUp, exchange",
    """
    def run():
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
    """,
)
def swap_two_piles(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(3, 7))
    row, col = rng.randrange(sketch.rows), rng.randint(0, sketch.cols - 3)
    return sketch.place(row, col).mark(row, col, rng.randint(0, 4)).mark(row, col + 1, rng.randint(0, 5)).world()


@posed(
    "There are wells along the road, some deep, some not. Karel puts a marker at the bottom of each.",
    "nested while, if, walls",
    "Karel J Robot, potholes",
    """
    def run():
      while(frontIsClear):
        move()
        if(rightIsClear):
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
def to_the_bottom_of_the_wells(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(3, 11))
    top = sketch.rows - 1
    sketch.wall(range(top), range(sketch.cols))
    left = 5
    for col in range(1, sketch.cols):
        if rng.random() < 0.4 and left:
            left -= 1
            sketch.walls.difference_update((row, col) for row in range(rng.randint(0, top - 1), top))
    return sketch.place(top, 0).world()


@posed(
    "Karel runs to the marker and climbs over hurdles of every height on the way.",
    "nested while, if else, hurdles",
    "Stanford CS106A, Steeplechase; Pattis, hurdles",
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
    sketch = Sketch(rng.randint(3, 8), rng.randint(3, 14)).place(0, 0)
    col = rng.randint(1, 3)
    while col < sketch.cols - 1:
        sketch.wall(range(rng.randint(1, min(4, sketch.rows - 1))), col)
        col += rng.randint(2, 4)
    free = [col for col in range(1, sketch.cols) if (0, col) not in sketch.walls]
    return sketch.mark(0, max(free[-1:] if rng.random() < 0.7 else rng.sample(free, 1))).world()


@posed(
    "The corridor has niches on both sides. Karel puts a lamp into each and ends at the end of the corridor.",
    "while loop, if, walls",
    "Kara, street lights",
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
        if(rightIsClear):
          turnRight()
          move()
          putMarker()
          turnLeft()
          turnLeft()
          move()
          turnRight()
    """,
)
def lamps_in_the_niches(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 5), rng.randint(3, 10))
    row = rng.randint(1, sketch.rows - 2)
    sketch.wall([other for other in range(sketch.rows) if other != row], range(sketch.cols)).place(row, 0)
    for side in (row - 1, row + 1):
        sketch.walls.difference_update((side, col) for col in range(sketch.cols) if rng.random() < 0.35)
    return sketch.world()


@posed(
    "Every second column is a ballot. If its middle was punched, Karel removes all chads above and below it.",
    "nested while, if, piles",
    "Stanford CS106A, Karel defends democracy",
    """
    def run():
      while(frontIsClear):
        move()
        if(noMarkersPresent):
          turnLeft()
          move()
          while(markersPresent):
            pickMarker()
          turnLeft()
          turnLeft()
          move()
          move()
          while(markersPresent):
            pickMarker()
          turnLeft()
          turnLeft()
          move()
          turnRight()
        move()
    """,
)
def hanging_chads(rng: Random) -> World:
    sketch = Sketch(3, rng.choice((3, 5, 7, 9))).place(1, 0)
    for col in range(1, sketch.cols, 2):
        if rng.random() < 0.4:
            sketch.mark(1, col)
        for row in (0, 2):
            if rng.random() < 0.7:
                sketch.mark(row, col, rng.choice((1, 1, 2, 3)))
    return sketch.world()


@posed(
    "Karel goes around the corner to the marker, takes it, comes back and puts it down where it began.",
    "while loop, carrying",
    "Karel J Robot, fetch",
    """
    def run():
      while(frontIsClear):
        move()
      turnLeft()
      while(noMarkersPresent):
        move()
      pickMarker()
      turnLeft()
      turnLeft()
      while(frontIsClear):
        move()
      turnRight()
      while(frontIsClear):
        move()
      putMarker()
    """,
)
def fetch_from_around_the_corner(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 10), rng.randint(2, 10))
    end, west = sketch.cols - 1, 0
    if rng.random() < 0.4 and end > 2:
        end = rng.randint(2, end - 1)
        sketch.wall(0, end + 1)
    if rng.random() < 0.3 and end > 1:
        west = rng.randint(1, end - 1)
        sketch.wall(0, west - 1)
    top = rng.randint(1, sketch.rows - 1)
    sketch.mark(top, end, rng.choice((1, 1, 2)))
    for row in range(1, sketch.rows):
        for col in range(sketch.cols):
            if col != end and rng.random() < 0.1:
                sketch.wall(row, col)
    return sketch.place(0, west).world()


@posed(
    "Karel draws a large X, as wide as the room.",
    "while loop, drawing",
    "CodeHS, letters",
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
        putMarker()
        move()
        turnRight()
        move()
        turnLeft()
      putMarker()
    """,
)
def letter_x(rng: Random) -> World:
    side = rng.randint(2, 9)
    return Sketch(side + rng.randint(0, 5), side).place(0, 0).world()


@posed(
    "Karel jumps the hurdles to the cup, takes it, and jumps them again on the way back to its marker.",
    "while loop, if else, hurdles",
    "CodeHS, hurdles there and back",
    """
    def run():
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
    """,
)
def hurdles_there_and_back(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(3, 12))
    start = rng.randint(0, 1)
    col, free = start + 2, [start + 1]
    while col < sketch.cols - 1:
        if rng.random() < 0.5:
            sketch.wall(0, col)
            col += 1
        free.append(col)
        col += 1
    finish = free[-1] if rng.random() < 0.7 else rng.choice(free)
    return sketch.place(0, start).mark(0, start, rng.randint(1, 2)).mark(0, finish).world()


@posed(
    "Karel sweeps every row of the room, takes a marker wherever one lies, and ends in the corner above.",
    "nested while, if, rows",
    "LEAPS, Harvester; Robot Karol, clean the room",
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
      turnRight()
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
def sweep_every_row(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(2, 6)).place(0, 0)
    for row in range(sketch.rows):
        for col in range(1, sketch.cols):
            if rng.random() < 0.5:
                sketch.mark(row, col, rng.choice((1, 1, 1, 2)))
    return sketch.world()


@posed(
    "Karel paints the room like a checkerboard, row by row, with a marker in the corner where it begins.",
    "nested while, if else, alternation",
    "Stanford CS106A, CheckerboardKarel",
    """
    def run():
      putMarker()
      while(frontIsClear):
        ifelse(markersPresent):
          move()
        else:
          move()
          putMarker()
      turnLeft()
      turnLeft()
      while(frontIsClear):
        move()
      turnRight()
      while(frontIsClear):
        ifelse(markersPresent):
          move()
        else:
          move()
          putMarker()
        turnRight()
        while(frontIsClear):
          ifelse(markersPresent):
            move()
          else:
            move()
            putMarker()
        turnLeft()
        turnLeft()
        while(frontIsClear):
          move()
        turnRight()
    """,
)
def checkerboard(rng: Random) -> World:
    return Sketch(rng.randint(2, 8), rng.randint(2, 8)).place(0, 0).world()
