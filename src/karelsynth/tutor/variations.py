"""Further worlds of the same kind as a task's inputs: stretched, shrunk, with other markers, walls or starts.

    fresh = fresh_examples(task, reference, count=20, seed=1)

What should happen in them, a right program says: the reference. Worlds on which it crashes or does not end are not of
the task's kind and are left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from karelsynth.errors import checked_int
from karelsynth.karel.formats.codes import world_from_codes
from karelsynth.karel.machine import run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.world import LARGEST_SIDE, SMALLEST_SIDE, Cell, Hero, World
from karelsynth.tasks.task import Example, Task
from karelsynth.tutor.limits import TUTOR_TICKS

_AT_ONCE: Final = 64
"""Worlds that are varied and run at once."""
_FRUITLESS: Final = 40
"""The number of batches after which a search for fresh worlds ends."""
_MOST_CHANGES: Final = 4
_MOST_PILED: Final = 3
Change = Callable[[World, random.Random], World]


def _resized(world: World, line: int, by: int, *, rows: bool) -> World:
    """A row or a column doubled (`by` = 1) or taken out (`by` = −1)."""
    axis = 0 if rows else 1

    def moved(cell: Cell) -> Cell:
        new = list(cell)
        new[axis] += by * (cell[axis] > line)
        return new[0], new[1]

    def copies(cell: Cell) -> list[Cell]:
        if cell[axis] != line:
            return [moved(cell)]
        if by < 0:
            return []
        other = list(cell)
        other[axis] += 1
        return [cell, (other[0], other[1])]

    walls = frozenset(new for cell in world.walls for new in copies(cell))
    markers = {new: count for cell, count in world.markers.items() for new in copies(cell)}
    hero = Hero(*moved(world.hero[:2]), world.hero.heading)
    return World(world.rows + by * rows, world.cols + by * (not rows), hero, walls, markers)


def _stretch(world: World, rng: random.Random) -> World:
    rows = rng.random() < 0.5
    side = world.rows if rows else world.cols
    return _resized(world, rng.randrange(side), 1, rows=rows) if side < LARGEST_SIDE else world


def without_line(world: World, line: int, *, rows: bool) -> World | None:
    """The world without a row or a column; None if the hero is there, or if nothing would be left."""
    side, here = (world.rows, world.hero.row) if rows else (world.cols, world.hero.col)
    return _resized(world, line, -1, rows=rows) if side > SMALLEST_SIDE and line != here else None


def _shrink(world: World, rng: random.Random) -> World:
    rows = rng.random() < 0.5
    return without_line(world, rng.randrange(world.rows if rows else world.cols), rows=rows) or world


def free_cells(world: World) -> list[Cell]:
    """The cells without a wall."""
    every = ((row, col) for row in range(world.rows) for col in range(world.cols))
    return [cell for cell in every if cell not in world.walls]


def _markers(world: World, rng: random.Random) -> World:
    """Another number of markers in one cell; more often in one that has some."""
    cell = rng.choice([*free_cells(world), *list(world.markers) * 3])
    count = 0 if world.markers.get(cell) and rng.random() < 0.5 else rng.randint(1, _MOST_PILED)
    return World(world.rows, world.cols, world.hero, world.walls, {**world.markers, cell: count})


def _walls(world: World, rng: random.Random) -> World:
    """One wall more or less."""
    if world.walls and rng.random() < 0.5:
        walls = world.walls - {rng.choice(sorted(world.walls))}
        return World(world.rows, world.cols, world.hero, walls, dict(world.markers))
    cell = rng.choice(free_cells(world))
    if cell == world.hero[:2]:
        return world
    markers = {place: count for place, count in world.markers.items() if place != cell}
    return World(world.rows, world.cols, world.hero, world.walls | {cell}, markers)


class Variations:
    """Makes worlds of the same kind as some inputs. Only what differs between inputs, or is there at all, is varied:
    Karel's start, its heading, walls and markers."""

    def __init__(self, inputs: Sequence[World], seed: int) -> None:
        self.inputs = list(inputs)
        self.rng = random.Random(seed)
        self.headings = sorted({world.hero.heading for world in inputs})
        self.changes: list[Change] = [_stretch, _stretch, _shrink, _shrink]
        if any(world.markers for world in inputs):
            self.changes += [_markers] * 3
        if any(world.walls for world in inputs):
            self.changes.append(_walls)
        if len({world.hero[:2] for world in inputs}) > 1 or len(inputs) == 1:
            self.changes.append(self._start)

    def _start(self, world: World, rng: random.Random) -> World:
        """Karel starts elsewhere; seldom with another heading."""
        heading = world.hero.heading if rng.random() < 0.8 else rng.choice(self.headings)
        return world.with_hero(*rng.choice(free_cells(world)), heading)

    def __call__(self, number: int) -> World:
        """One of the inputs, by number, with one to four changes."""
        world = self.inputs[number % len(self.inputs)]
        for _ in range(self.rng.randint(1, _MOST_CHANGES)):
            world = self.rng.choice(self.changes)(world, self.rng)
        return world


def fresh_examples(
    task: Task, reference: Program, *, count: int, seed: int = 0, max_ticks: int = TUTOR_TICKS
) -> list[Example]:
    """Up to `count` examples that the task does not have, with the outputs of the reference; fewer if few are found."""
    count = checked_int("the number of fresh worlds", count, 0)
    inputs = [example.input for example in task.examples]
    variations, known = Variations(inputs, seed), set(inputs)
    found: list[Example] = []
    for _ in range(_FRUITLESS):
        if len(found) >= count:
            break
        candidates = [variations(number) for number in range(_AT_ONCE)]
        new = [world for world in dict.fromkeys(candidates) if world not in known]
        known.update(new)
        if new:
            found += _outcomes(reference, new, max_ticks)
    return found[:count]


def _outcomes(reference: Program, worlds: list[World], max_ticks: int) -> list[Example]:
    """The examples that a program makes of worlds on which it ends well."""
    runs = run_batch([reference], worlds, max_ticks=max_ticks)
    assert runs.worlds is not None
    return [
        Example(world, world_from_codes(runs.worlds[0, number]))
        for number, world in enumerate(worlds)
        if runs.ok[0, number]
    ]
