"""Tasks that come with a generator of worlds: what they are, how worlds are sketched, and how examples are chosen.

A `DrawnTask` has a reference program and a function that draws a random world of its kind. `tools/held_out_*.py` and
`tools/gallery_worlds.py` hold such tasks; `tools/make_held_out.py` and `tools/render_gallery.py` use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from textwrap import dedent
from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.machine import run_batch
from karelsynth.karel.program import Action, Block, Condition, If, IfElse, Not, Program, Repeat, Sensor, While
from karelsynth.karel.world import HEADINGS, Cell, Hero, World

TICKS: Final = 200
"""What a run may take in the examples of a task."""
MOST_TICKS: Final = 1000
"""What a run may take on fresh worlds. Mutants may take as many, so that slowness alone is no difference."""
MOST_MARKERS: Final = 9
"""In a cell, before and after: what one character of a drawing shows."""

Draw = Callable[[Random], World]
Pair = tuple[World, World]


@dataclass
class Sketch:
    """A world in the making. Rows count from 0 at the bottom."""

    rows: int
    cols: int
    hero: Hero = field(default_factory=lambda: Hero(0, 0, "east"))
    walls: set[Cell] = field(default_factory=set)
    markers: dict[Cell, int] = field(default_factory=dict)

    def place(self, row: int, col: int, heading: str = "east") -> Sketch:
        """Karel stands there."""
        self.hero = Hero(row, col, heading)
        return self

    def mark(self, row: int, col: int, count: int = 1) -> Sketch:
        self.markers[row, col] = count
        return self

    def wall(self, rows: Iterable[int] | int, cols: Iterable[int] | int) -> Sketch:
        """Walls on all cells of these rows and columns."""
        for row in [rows] if isinstance(rows, int) else rows:
            self.walls.update((row, col) for col in ([cols] if isinstance(cols, int) else cols))
        return self

    def clutter(self, rng: Random, rows: Iterable[int], share: float = 0.12) -> Sketch:
        """Stray walls and markers on some free cells of rows that the task is not about."""
        for row in rows:
            for col in range(self.cols):
                if (row, col) not in self.walls and (row, col) not in self.markers and rng.random() < share:
                    if rng.random() < 0.5:
                        self.wall(row, col)
                    else:
                        self.mark(row, col, rng.randint(1, 3))
        return self

    def world(self, turns: int = 0) -> World:
        """The world, after so many quarter turns to the left."""
        world = World(self.rows, self.cols, self.hero, frozenset(self.walls), self.markers)
        for _ in range(turns):
            world = turned(world)
        return world


def turned(world: World) -> World:
    """A world after a quarter turn to the left."""

    def moved(cell: Cell) -> Cell:
        return cell[1], world.rows - 1 - cell[0]

    return World(
        world.cols,
        world.rows,
        Hero(*moved(world.hero[:2]), HEADINGS[HEADINGS.index(world.hero.heading) - 1]),
        frozenset(map(moved, world.walls)),
        {moved(cell): count for cell, count in world.markers.items()},
    )


@dataclass(frozen=True)
class DrawnTask:
    """A task, its reference program and its worlds."""

    name: str
    about: str
    concepts: tuple[str, ...]
    source: str
    text: str
    """The reference in the paper's dialect."""
    draw: Draw

    @cached_property
    def reference(self) -> Program:
        return Program.parse(self.text, "paper")

    def answer(self, world: World) -> tuple[World, int]:
        """The world after the reference, and its ticks. A crash or too many markers is an error in the task."""
        run = self.reference.run(world, max_ticks=MOST_TICKS)
        if not run.ok or max(run.world.markers.values(), default=0) > MOST_MARKERS:
            raise AssertionError(f"{self.name}: {run.explain()} on\n{world}\nwhich becomes\n{run.world}")
        return run.world, run.ticks

    def pairs(self, rng: Random, count: int, *, ticks: int = MOST_TICKS, but: Iterable[World] = ()) -> list[Pair]:
        """Different worlds, none of `but`, that the reference changes within so many ticks. Fewer if there are few."""
        seen, found = set(but), []
        for _ in range(40 * count):
            world = self.draw(rng)
            if world in seen:
                continue
            seen.add(world)
            after, took = self.answer(world)
            if took <= ticks and after != world:
                found.append((world, after))
                if len(found) == count:
                    break
        return found


def posing(tasks: list[DrawnTask]) -> Callable[[str, str, str, str], Callable[[Draw], Draw]]:
    """A decorator for functions that draw: it adds a task to the list, named as the function.

    Its arguments are what the task is about, its concepts with commas between them, its source, and the reference.
    """

    def posed(about: str, concepts: str, source: str, text: str) -> Callable[[Draw], Draw]:
        def add(draw: Draw) -> Draw:
            name = draw.__name__.replace("_", "-")
            tasks.append(DrawnTask(name, about, tuple(concepts.split(", ")), source, dedent(text).strip(), draw))
            return draw

        return add

    return posed


def winding_path(rng: Random, rows: int, cols: int, length: int) -> list[Cell]:
    """A path of at most so many cells that goes east first, never touches itself and stays off the outermost cells."""
    path: list[Cell] = []
    while len(path) < 2:
        path = [(rng.randint(1, rows - 2), rng.randint(1, cols - 2))]
        step = (0, 1)
        while len(path) < length:
            row, col = path[-1]
            ways = [step] if len(path) == 1 else [step, step, (step[1], -step[0]), (-step[1], step[0])]
            rng.shuffle(ways)
            for way in ways:
                to = row + way[0], col + way[1]
                inside = 1 <= to[0] <= rows - 2 and 1 <= to[1] <= cols - 2
                if inside and not any(abs(to[0] - r) + abs(to[1] - c) <= 1 for r, c in path[:-1]):
                    path.append(to)
                    step = way
                    break
            else:
                break
    return path


# Mutants: the programs one change away.

_CONDITIONS: Final[tuple[Condition, ...]] = (*Sensor, *map(Not, Sensor))


def mutants(program: Program) -> list[Program]:
    """Programs one change away: an action or statement is removed, inserted, replaced, swapped or unwrapped; a
    condition, a count or a keyword is another; an else is gone, or the branches are exchanged; a while counts."""
    return list(dict.fromkeys(Program(block) for block in _changed_blocks(program.body) if block != program.body))


def _changed_blocks(block: Block) -> Iterator[Block]:
    for at in range(len(block) + 1):
        before, after = block[:at], block[at:]
        for action in Action:
            yield (*before, action, *after)
        if not after:
            break
        statement, after = after[0], after[1:]
        if before or after:
            yield (*before, *after)
        if after:
            yield (*before, after[0], statement, *after[1:])
        for changed in _changed_statements(statement):
            yield (*before, *changed, *after)


def _changed_statements(statement: Action | Repeat | While | If | IfElse) -> Iterator[Block]:
    if isinstance(statement, Action):
        yield from ((action,) for action in Action)
        return
    if isinstance(statement, Repeat):
        yield from ((replace(statement, times=times),) for times in range(20))
    else:
        yield from ((replace(statement, condition=condition),) for condition in _CONDITIONS)
    if isinstance(statement, IfElse):
        then, otherwise = statement.then, statement.otherwise
        yield from (then, otherwise, (If(statement.condition, then),), (IfElse(statement.condition, otherwise, then),))
        yield from ((replace(statement, then=block),) for block in _changed_blocks(then))
        yield from ((replace(statement, otherwise=block),) for block in _changed_blocks(otherwise))
        return
    yield statement.body
    if isinstance(statement, While):
        yield (If(statement.condition, statement.body),)
        yield from ((Repeat(times, statement.body),) for times in range(2, 20))
    elif isinstance(statement, If):
        yield (While(statement.condition, statement.body),)
    yield from ((replace(statement, body=block),) for block in _changed_blocks(statement.body))


def rights(programs: list[Program], pairs: list[Pair], max_ticks: int = MOST_TICKS) -> NDArray[np.bool_]:
    """bool [programs, pairs]: which program is right on which pair."""
    inputs, outputs = zip(*pairs, strict=True)
    right = run_batch(programs, inputs, expected=outputs, keep_worlds=False, max_ticks=max_ticks).correct
    assert right is not None
    return right


def choose_examples(task: DrawnTask, pool: list[Pair], count: int = 5) -> tuple[list[Pair], int]:
    """Examples as a careful teacher would choose, from simple to general, and how many mutants survive them.

    A mutant counts if it is wrong on some world of the pool. Examples are taken one by one: the one that tells most
    further mutants apart, then the one that is most unlike those chosen so far, then the smallest. At the end each is
    exchanged as long as that leaves fewer mutants.
    """
    wrong = ~rights(mutants(task.reference), pool)
    wrong = wrong[wrong.any(1)]
    ticks = [task.answer(before)[1] for before, _ in pool]
    area = [before.rows * before.cols for before, _ in pool]
    features = [_features(pair, took) for pair, took in zip(pool, ticks, strict=True)]
    chosen: list[int] = []

    def left(choice: list[int]) -> int:
        return int((~wrong[:, choice].any(1)).sum())

    def unlike(at: int) -> int:
        """Minus the number of features that it has in common with those chosen so far."""
        return -sum(mine == other for one in chosen for mine, other in zip(features[at], features[one], strict=True))

    def value(at: int) -> tuple[int, int, int]:
        return -left([*chosen, at]), unlike(at), -area[at]

    for _ in range(min(count, len(pool))):
        chosen.append(max((at for at in range(len(pool)) if at not in chosen), key=value))
    better = left(chosen) > 0
    while better:
        better = False
        for place, at in [(place, at) for place in range(len(chosen)) for at in range(len(pool))]:
            trial = [*chosen[:place], at, *chosen[place + 1 :]]
            if at not in chosen and left(trial) < left(chosen):
                chosen, better = trial, True
    ordered = sorted(chosen, key=lambda at: (ticks[at], area[at]))
    return [pool[at] for at in ordered], left(chosen)


def _features(pair: Pair, ticks: int) -> tuple[object, ...]:
    """What may be alike in two examples although it need not be."""
    before, after = pair
    found, left = sum(before.markers.values()), sum(after.markers.values())
    where = after.hero.row - before.hero.row, after.hero.col - before.hero.col
    sizes = before.rows, before.cols, before.rows % 2, before.cols % 2
    return *sizes, before.hero, where, found, left - found, len(before.walls), ticks
