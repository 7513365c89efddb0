"""The tasks of medium length of benchmarks/held_out.jsonl: references of 15 to 35 tokens."""

from __future__ import annotations

from random import Random
from typing import Final

from tools.drawn_tasks import DrawnTask, Sketch, posing, winding_path

from karelsynth.karel.world import World

TASKS: Final[list[DrawnTask]] = []
posed = posing(TASKS)


@posed(
    "Karel walks along the south wall to the east, then north, and puts a marker where it can go no further.",
    "while loop",
    "Hour of Code, go to the far corner",
    """
    def run():
      while(frontIsClear):
        move()
      turnLeft()
      while(frontIsClear):
        move()
      putMarker()
    """,
)
def to_the_far_corner(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 10), rng.randint(2, 10))
    end, top = sketch.cols - 1, sketch.rows - 1
    if rng.random() < 0.4 and end > 1:
        end = rng.randint(1, end - 1)
        sketch.wall(0, end + 1)
    if rng.random() < 0.3 and top > 1:
        top = rng.randint(1, top - 1)
        sketch.wall(top + 1, end)
    sketch.place(0, rng.randint(0, end - 1))
    for row in range(1, sketch.rows):
        for col in range(sketch.cols):
            if col != end and rng.random() < 0.08:
                sketch.wall(row, col)
    if rng.random() < 0.2:
        sketch.mark(top, end, 2)
    return sketch.world()


@posed(
    "The newspaper lies outside the door of the house. Karel fetches it and goes back to where it stood.",
    "while loop, turning around",
    "Stanford CS106A, CollectNewspaperKarel",
    """
    def run():
      turnRight()
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
      move()
      turnRight()
    """,
)
def collect_the_newspaper(rng: Random) -> World:
    wide, high, west, south = rng.randint(2, 6), rng.randint(2, 4), rng.randint(0, 2), rng.randint(0, 2)
    sketch = Sketch(south + high + 2 + rng.randint(0, 1), west + wide + 2 + rng.randint(1, 4))
    sketch.wall((south, south + high + 1), range(west, west + wide + 2))
    sketch.wall(range(south, south + high + 2), (west, west + wide + 1))
    door = south + rng.randint(1, high - 1)
    sketch.walls.discard((door, west + wide + 1))
    sketch.mark(door, rng.randint(west + wide + 1, sketch.cols - 1), rng.choice((1, 1, 2)))
    return sketch.place(door + 1, west + 1).world()


@posed(
    "For every marker of its pile Karel puts two on the next cell. It ends there.",
    "while loop, piles",
    "Stanford CS106A, double beepers",
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
      move()
    """,
)
def double_the_pile(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(2, 8))
    row, col = rng.randrange(sketch.rows), rng.randint(0, sketch.cols - 2)
    sketch.place(row, col)
    if rng.random() < 0.9:
        sketch.mark(row, col, rng.randint(1, 4))
    if rng.random() < 0.2:
        sketch.mark(row, col + 1)
    return sketch.clutter(rng, [other for other in range(sketch.rows) if other != row], 0.1).world()


@posed(
    "Karel runs the race and jumps over four hurdles, one on every third cell.",
    "counted loop, hurdles",
    "CodeHS, Hurdle Karel",
    """
    def run():
      repeat(4):
        move()
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
def four_hurdles(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(13, 16))
    start = rng.randint(0, sketch.cols - 13)
    ground = rng.randint(0, sketch.rows - 2)
    if ground:
        sketch.wall(ground - 1, range(sketch.cols))
    sketch.wall(ground, range(start + 2, start + 12, 3)).place(ground, start)
    if rng.random() < 0.5:
        sketch.mark(ground, start + 12)
    return sketch.world()


@posed(
    "Markers lie diagonally, like stairs. Karel picks up one from each and stops where there is none.",
    "while loop, trail",
    "Pattis, Karel the Robot, beepers on a staircase",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
        turnLeft()
        move()
        turnRight()
    """,
)
def diagonal_harvest(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 10), rng.randint(3, 10))
    row, col = rng.randint(0, sketch.rows // 2 - 1), rng.randint(0, sketch.cols // 2 - 1)
    sketch.place(row, col)
    for step in range(rng.randint(1, min(sketch.rows - row, sketch.cols - col) - 1)):
        sketch.mark(row + step, col + step, rng.choice((1, 1, 1, 2, 3)))
    return sketch.world()


@posed(
    "One marker says: turn left. Two say: turn right. Karel takes them, follows the signs and walks to the wall.",
    "while loop, if else, signs",
    "Pattis, Karel the Robot, treasure hunt",
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
def treasure_hunt(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 10), rng.randint(3, 10))
    row, col = rng.randrange(sketch.rows), rng.randint(0, sketch.cols - 2)
    step, visited = (0, 1), {(row, col)}
    sketch.place(row, col)
    for _ in range(rng.randint(1, 4)):
        leg: list[tuple[int, int]] = []
        at = (row + step[0], col + step[1])
        while 0 <= at[0] < sketch.rows and 0 <= at[1] < sketch.cols and at not in sketch.markers:
            leg.append(at)
            at = (at[0] + step[0], at[1] + step[1])
        choices = [cell for cell in leg if cell not in visited]
        if not choices:
            break
        row, col = rng.choice(choices)
        visited.update(leg[: leg.index((row, col)) + 1])
        count = rng.randint(1, 2)
        sketch.mark(row, col, count)
        step = (step[1], -step[0]) if count == 1 else (-step[1], step[0])
    return sketch.world()


@posed(
    "Karel leaves the tunnel: it walks until the wall on its left ends, then until the wall on its right ends.",
    "while loop, conditions",
    "Kara, tunnel",
    """
    def run():
      while(not leftIsClear):
        move()
      while(not rightIsClear):
        move()
    """,
)
def out_of_the_tunnel(rng: Random) -> World:
    sketch = Sketch(rng.randint(3, 6), rng.randint(4, 13))
    row = rng.randint(1, sketch.rows - 2)
    left, right = rng.randint(1, sketch.cols - 1), rng.randint(1, sketch.cols - 1)
    sketch.wall(row + 1, range(left)).wall(row - 1, range(right))
    return sketch.place(row, rng.randint(0, min(left, right) - 1)).world()


@posed(
    "A trail of leaves winds through the meadow. Karel eats all of it: the next leaf is ahead, right or left.",
    "while loop, nested if, trail",
    "Kara, leaf trail",
    """
    def run():
      while(markersPresent):
        pickMarker()
        move()
        if(noMarkersPresent):
          turnLeft()
          turnLeft()
          move()
          turnLeft()
          move()
          if(noMarkersPresent):
            turnLeft()
            turnLeft()
            move()
            move()
    """,
)
def leaf_trail(rng: Random) -> World:
    sketch = Sketch(rng.randint(4, 10), rng.randint(4, 10))
    path = winding_path(rng, sketch.rows, sketch.cols, rng.randint(2, 10))
    for cell in path:
        sketch.mark(*cell)
    return sketch.place(*path[0]).world()


@posed(
    "Karel brings all markers of the next cell to the one on which it began, one by one.",
    "while loop, piles",
    "omegaUp, sums",
    """
    def run():
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
def add_two_piles(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(2, 8))
    row, col = rng.randrange(sketch.rows), rng.randint(0, sketch.cols - 2)
    first, second = rng.randint(0, 5), rng.randint(0, 4)
    sketch.place(row, col).mark(row, col, first).mark(row, col + 1, second)
    return sketch.world()


@posed(
    "Karel walks along the row and puts one more marker wherever there is one.",
    "while loop, if, fence posts",
    "LEAPS, TopOff",
    """
    def run():
      while(frontIsClear):
        if(markersPresent):
          putMarker()
        move()
      if(markersPresent):
        putMarker()
    """,
)
def top_off(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(2, 12))
    end = sketch.cols if rng.random() < 0.7 else rng.randint(2, sketch.cols)
    if end < sketch.cols:
        sketch.wall(0, end)
    for col in range(end):
        if rng.random() < 0.5:
            sketch.mark(0, col, rng.choice((1, 1, 1, 2, 3)))
    return sketch.clutter(rng, range(1, sketch.rows), 0.1).world()


@posed(
    "Karel deals out its pile along the row, one marker on each cell, and ends where it began.",
    "nested while, piles, shuttle",
    "Karel J Robot, spread beepers",
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
def deal_out_the_pile(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(3, 10))
    row, pile = rng.randrange(sketch.rows), rng.randint(1, min(5, sketch.cols - 1))
    sketch.place(row, 0).mark(row, 0, pile)
    for col in range(1, sketch.cols - pile):
        if rng.random() < 0.1:
            sketch.mark(row, col)
    return sketch.world()


@posed(
    "Karel brings the markers of the row home to the west wall, one at a time, and ends at the east wall.",
    "nested while, if, shuttle",
    "Robot Karol, tidy up",
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
          putMarker()
          turnLeft()
          turnLeft()
    """,
)
def bring_them_home(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(3, 9))
    row, left = rng.randrange(sketch.rows), 4
    for col in rng.sample(range(1, sketch.cols), rng.randint(1, min(3, sketch.cols - 1))):
        count = rng.choice((1, 1, 2)) if left > 1 else min(1, left)
        sketch.mark(row, col, count)
        left -= count
    if rng.random() < 0.3:
        sketch.mark(row, 0, rng.randint(1, 3))
    return sketch.place(row, 0).world()


@posed(
    "Karel walks along the walls of the room, which are on its right, and leaves through the door.",
    "while loop, if else, walls",
    "Pattis, Karel the Robot, escape from a room",
    """
    def run():
      while(not rightIsClear):
        ifelse(frontIsClear):
          move()
        else:
          turnLeft()
      turnRight()
      move()
    """,
)
def out_of_the_room(rng: Random) -> World:
    high, wide = rng.randint(2, 6), rng.randint(2, 7)
    sketch = Sketch(high + 4, wide + 4)
    sketch.wall((1, high + 2), range(1, wide + 3)).wall(range(1, high + 3), (1, wide + 2))
    doors = [(1, col) for col in range(2, wide + 2)] + [(high + 2, col) for col in range(2, wide + 2)]
    doors += [(row, side) for row in range(2, high + 2) for side in (1, wide + 2)]
    sketch.walls.discard(rng.choice(doors))
    return sketch.place(2, rng.randint(2, wide + 1)).world()


@posed(
    "Karel follows the crooked corridor to the marker at its end.",
    "while loop, nested if else, walls",
    "Robot Karol, corridor",
    """
    def run():
      while(noMarkersPresent):
        ifelse(frontIsClear):
          move()
        else:
          ifelse(leftIsClear):
            turnLeft()
          else:
            turnRight()
    """,
)
def crooked_corridor(rng: Random) -> World:
    sketch = Sketch(rng.randint(4, 10), rng.randint(4, 10))
    path = winding_path(rng, sketch.rows, sketch.cols, rng.randint(3, 16))
    sketch.wall(range(sketch.rows), range(sketch.cols))
    sketch.walls.difference_update(path)
    return sketch.place(*path[0]).mark(*path[-1]).world(rng.randrange(4))


@posed(
    "Karel climbs the pyramid on its west side and goes down on its east side.",
    "while loop, stairs",
    "Karel J Robot, mountain climbing",
    """
    def run():
      while(not frontIsClear):
        turnLeft()
        move()
        turnRight()
        move()
      while(frontIsClear):
        move()
        turnRight()
        move()
        turnLeft()
    """,
)
def over_the_pyramid(rng: Random) -> World:
    steps, down = rng.randint(1, 6), rng.randint(1, 6)
    down = min(down, steps)
    sketch = Sketch(steps + rng.randint(1, 8), 1 + steps + down)
    for col in range(1, steps + 1):
        sketch.wall(range(col), col)
    for step in range(1, down + 1):
        sketch.wall(range(steps - step), steps + step)
    if rng.random() < 0.5:
        sketch.mark(steps, steps, rng.randint(1, 3))
    return sketch.place(0, 0).world()


@posed(
    "Karel draws a large L: down to the south wall, then along it to the east wall.",
    "while loop, drawing",
    "CodeHS, letters",
    """
    def run():
      while(frontIsClear):
        putMarker()
        move()
      turnLeft()
      while(frontIsClear):
        putMarker()
        move()
      putMarker()
    """,
)
def letter_l(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 10), rng.randint(2, 10))
    col, end = rng.randint(0, sketch.cols - 2), sketch.cols
    if rng.random() < 0.3 and col + 2 < end:
        end = rng.randint(col + 2, end - 1)
        sketch.wall(0, end)
    return sketch.place(rng.randint(1, sketch.rows - 1), col, "south").world()


@posed(
    "Karel runs two laps around the room and puts a marker in every corner that it comes to.",
    "counted loop, nested while",
    "CodeHS, Racing Karel",
    """
    def run():
      repeat(8):
        while(frontIsClear):
          move()
        putMarker()
        turnLeft()
    """,
)
def two_laps(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 7), rng.randint(2, 7))
    for row in range(1, sketch.rows - 1):
        for col in range(1, sketch.cols - 1):
            if rng.random() < 0.3:
                sketch.wall(row, col)
    if rng.random() < 0.3:
        sketch.mark(sketch.rows - 1, sketch.cols - 1, rng.randint(1, 3))
    return sketch.place(0, rng.randint(0, sketch.cols - 1) if rng.random() < 0.4 else 0).world()


@posed(
    "Karel takes the pile away in pairs. If one marker is left over, it takes that and steps forward.",
    "while loop, if else, numbers",
    "omegaUp, odd or even",
    """
    def run():
      while(markersPresent):
        pickMarker()
        ifelse(markersPresent):
          pickMarker()
        else:
          move()
    """,
)
def odd_or_even(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(2, 7))
    row, col = rng.randrange(sketch.rows), rng.randint(0, sketch.cols - 2)
    return sketch.place(row, col).mark(row, col, rng.randint(1, 9)).world(rng.randrange(4))


@posed(
    "Karel sows its row as it goes east and the row above as it comes back. The last cell of each stays empty.",
    "while loop, rows",
    "Pattis, Karel the Robot, planting",
    """
    def run():
      while(frontIsClear):
        putMarker()
        move()
      turnLeft()
      move()
      turnLeft()
      while(frontIsClear):
        putMarker()
        move()
    """,
)
def down_the_row_and_back(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(2, 10))
    row = rng.randint(0, sketch.rows - 2)
    start, end = rng.randint(0, sketch.cols - 2), sketch.cols
    if rng.random() < 0.3 and start + 2 < end:
        end = rng.randint(start + 2, end - 1)
        sketch.wall(row, end)
    if rng.random() < 0.3 and start:
        sketch.wall(row + 1, rng.randint(0, start - 1))
    return sketch.place(row, start).world()


@posed(
    "Karel carries its pile to the far wall, one marker at a time, and ends where it began.",
    "nested while, piles, shuttle",
    "Robot Karol, move the tower",
    """
    def run():
      while(markersPresent):
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
    """,
)
def pile_to_the_far_wall(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(2, 9))
    row, west, east = rng.randrange(sketch.rows), 0, sketch.cols
    if rng.random() < 0.3 and sketch.cols > 4:
        west = 1
        sketch.wall(row, 0)
    if rng.random() < 0.3 and sketch.cols > 4:
        east = rng.randint(west + 2, sketch.cols - 1)
        sketch.wall(row, east)
    sketch.place(row, west).mark(row, west, rng.randint(1, 4))
    if rng.random() < 0.2:
        sketch.mark(row, east - 1, rng.randint(1, 3))
    return sketch.world()


@posed(
    "The sentry walks from wall to wall three times, leaves a marker at each wall and turns around.",
    "counted loop, nested while",
    "Kara, patrol",
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
def sentry(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(3, 12))
    row, west, east = rng.randrange(sketch.rows), 0, sketch.cols - 1
    if rng.random() < 0.4 and sketch.cols > 5:
        west = 1 + rng.randint(0, 1)
        sketch.wall(row, west - 1)
    if rng.random() < 0.4 and sketch.cols > 5:
        east = sketch.cols - 2
        sketch.wall(row, east + 1)
    sketch.place(row, rng.randint(west, east - 1))
    return sketch.clutter(rng, [other for other in range(sketch.rows) if other != row], 0.1).world()


@posed(
    "Karel paints the whole room in a spiral from its corner inwards.",
    "nested while, if else, spiral",
    "Karel J Robot, spirals",
    """
    def run():
      while(noMarkersPresent):
        while(noMarkersPresent):
          putMarker()
          ifelse(frontIsClear):
            move()
          else:
            turnLeft()
            move()
        turnLeft()
        turnLeft()
        move()
        turnRight()
        move()
    """,
)
def paint_the_spiral(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(2, 7))
    return sketch.place(0, 0).world()


@posed(
    "Karel deals its pile to two players, the one ahead and the one behind, by turns.",
    "while loop, piles",
    "Karel J Robot, dealing",
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
def deal_to_two_players(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 6), rng.randint(3, 8))
    row, col = rng.randrange(sketch.rows), rng.randint(1, sketch.cols - 2)
    sketch.place(row, col).mark(row, col, rng.randint(1, 8))
    if rng.random() < 0.3:
        sketch.mark(row, col + rng.choice((-1, 1)), rng.randint(1, 3))
    return sketch.world()


@posed(
    "Everyone in the queue moves up: Karel carries each pile of the row one cell back.",
    "nested while, piles",
    "Stanford CS106A, section problems",
    """
    def run():
      while(frontIsClear):
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
def everyone_moves_up(rng: Random) -> World:
    sketch = Sketch(rng.randint(2, 5), rng.randint(2, 9))
    row, left = rng.randrange(sketch.rows), 12
    for col in range(1, sketch.cols):
        if rng.random() < 0.6 and left:
            count = rng.randint(1, min(3, left))
            sketch.mark(row, col, count)
            left -= count
    return sketch.place(row, 0).world()
