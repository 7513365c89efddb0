"""The semantics of programs: the specification that every faster path is tested against.

A tick is counted for each action, for each evaluation of an IF, IFELSE or WHILE condition (also the last, false one),
and for the start of each REPEAT iteration. A run may take `max_ticks`; needing one more is a time-out.
A program crashes if it moves into a wall or off the grid, picks where there is no marker, or puts where there are 101.
The crashing action takes its tick but changes nothing and is not in the trace.

A world holds at most ten markers on a cell. A run may pass through higher piles. If it ends with one, its status is
PILE_TOO_HIGH, because the result is no world. Where a run's state is given as a world, a higher pile counts as ten.

An endless loop is recognised because the state of the run repeats: the place in the program, the iterations left of
every open REPEAT, the hero and all markers. From tick 32 on, the state after each iteration of a WHILE is compared with
one that is remembered, and remembered itself whenever the ticks have doubled (Brent's algorithm).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from karelsynth.errors import checked_int
from karelsynth.karel.program import (
    BODY_AT,
    Action,
    Block,
    Condition,
    If,
    IfElse,
    Not,
    Program,
    Repeat,
    Sensor,
    While,
    inner_blocks,
)
from karelsynth.karel.world import HEADINGS, MOST_MARKERS, STEP, Cell, Hero, World

MAX_TICKS: Final = 10_000
"""The ticks that a run may take, by default."""
PAPER_TICKS: Final = 200
"""The ticks that a run may take in the paper: in its data, in training on such data, and in evaluation."""
MOST_TICKS: Final = 30_000
"""The largest `max_ticks` of tasks and of the batch machine, whose ticks are 16-bit integers."""
MOST_IN_PASSING: Final = 101
"""The most markers on a cell during a run."""
FIRST_REMEMBERED: Final = 32
"""The tick from which on states are remembered. Most runs end earlier and pay nothing."""


class Status(IntEnum):
    """How a run ended. The numbers are also the batch machine's."""

    OK = 0
    HIT_WALL = 1
    NO_MARKER_TO_PICK = 2
    TOO_MANY_MARKERS = 3
    OUT_OF_TICKS = 4
    INVALID_PROGRAM = 5  # only the batch machine, which runs any sequence of tokens
    RUNS_FOREVER = 6
    PILE_TOO_HIGH = 7

    @property
    def crashed(self) -> bool:
        return Status.HIT_WALL <= self <= Status.TOO_MANY_MARKERS

    @property
    def reason(self) -> str:
        """In words, as the end of a sentence."""
        return _REASONS[self]


_REASONS: Final = {
    Status.OK: "finished",
    Status.HIT_WALL: "moved into a wall or off the grid",
    Status.NO_MARKER_TO_PICK: "picked where there is no marker",
    Status.TOO_MANY_MARKERS: f"put a marker where there are {MOST_IN_PASSING} already",
    Status.OUT_OF_TICKS: "ran out of ticks",
    Status.INVALID_PROGRAM: "is not a program",
    Status.RUNS_FOREVER: "runs forever: the state repeats",
    Status.PILE_TOO_HIGH: f"ended with more than {MOST_MARKERS} markers on a cell",
}

Outcome = tuple[int, bool]
"""A branch outcome: the index of the IF, IFELSE or WHILE token, and the value of the condition."""


@dataclass(frozen=True)
class Run:
    """The result of a run.

    `where` is the index of the token whose statement crashed, ran out of ticks or repeats forever, None if the program
    came to its end. `world` is the world at the end, or just before the crash. `piles` are the cells that hold more
    than ten markers then, with their numbers.
    """

    status: Status
    world: World
    ticks: int
    trace: tuple[Action, ...]
    outcomes: frozenset[Outcome]
    where: int | None = None
    piles: Mapping[Cell, int] = field(default_factory=dict, hash=False)

    @property
    def ok(self) -> bool:
        return self.status is Status.OK

    def explain(self) -> str:
        """The result in one sentence; rows and columns count from 1 there."""
        if self.ok:
            return f"finished after {self.ticks} tick{'s' * (self.ticks != 1)}"
        if self.status is Status.PILE_TOO_HIGH:
            (row, col), count = max(self.piles.items(), key=lambda pile: pile[1])
            return f"{self.status.reason}: {count} at row {row + 1}, column {col + 1} (tick {self.ticks})"
        row, col, heading = self.world.hero
        place = f"at row {row + 1}, column {col + 1}, facing {heading}"
        if self.status is Status.OUT_OF_TICKS:
            return f"{self.status.reason} after {self.ticks} {place}"
        crashed = "crashed: " if self.status.crashed else ""
        return f"{crashed}{self.status.reason} {place} (tick {self.ticks})"


@dataclass(frozen=True)
class Tick:
    """One tick of a run, after the statement at token `where` has acted or been evaluated."""

    number: int
    where: int
    start: World
    hero: Hero
    piles: Mapping[Cell, int]
    """The numbers of markers, which may be more than a world holds."""
    action: Action | None = None
    outcome: bool | None = None

    @property
    def world(self) -> World:
        """The state as a world. It is made when it is asked for: a run may have thousands of ticks."""
        return _as_world(self.start, self.hero, self.piles)


def _as_world(start: World, hero: Hero, piles: Mapping[Cell, int]) -> World:
    """The start with another hero and other markers, at most ten on a cell."""
    if max(piles.values(), default=0) > MOST_MARKERS:
        piles = {cell: min(count, MOST_MARKERS) for cell, count in piles.items()}
    return World(start.rows, start.cols, hero, start.walls, piles)


class _Stop(Exception):
    def __init__(self, status: Status, where: int) -> None:
        self.status, self.where = status, where


def run(
    program: Program,
    world: World,
    *,
    max_ticks: int = MAX_TICKS,
    observe: Callable[[Tick], None] | None = None,
) -> Run:
    """Run a program on a world. `observe`, if given, is called after every tick."""
    karel = _Karel(world, checked_int("max_ticks", max_ticks, 0), observe)
    status, where = Status.OK, None
    try:
        karel.run_block(program.body, BODY_AT)
    except _Stop as stop:
        status, where = stop.status, stop.where
    piles = {cell: count for cell, count in karel.markers.items() if count > MOST_MARKERS}
    if piles and status is Status.OK:
        status = Status.PILE_TOO_HIGH
    after = _as_world(world, karel.hero, karel.markers)
    return Run(status, after, karel.ticks, tuple(karel.trace), frozenset(karel.outcomes), where, piles)


class _Karel:
    """The state of a run."""

    def __init__(self, world: World, max_ticks: int, observe: Callable[[Tick], None] | None) -> None:
        self.start, self.max_ticks, self.observe = world, max_ticks, observe
        self.cell: Cell = (world.hero.row, world.hero.col)
        self.heading = HEADINGS.index(world.hero.heading)
        self.markers = dict(world.markers)
        self.ticks = 0
        self.trace: list[Action] = []
        self.outcomes: set[Outcome] = set()
        self.iterations_left: list[int] = []  # of each open REPEAT
        self.remembered: object = None
        self.remember_at = FIRST_REMEMBERED

    @property
    def hero(self) -> Hero:
        return Hero(*self.cell, HEADINGS[self.heading])

    def run_block(self, block: Block, at: int) -> None:
        for statement in block:
            blocks = [(at + offset, body) for offset, body in inner_blocks(statement)]
            match statement:
                case Action():
                    self.act(statement, at)
                case Repeat(times, body):
                    self.iterations_left.append(times)
                    while self.iterations_left[-1]:
                        self.tick(at)
                        self.notify(at)
                        self.run_block(body, blocks[0][0])
                        self.iterations_left[-1] -= 1
                    self.iterations_left.pop()
                case While(condition, body):
                    while self.test(condition, at):
                        self.run_block(body, blocks[0][0])
                        self.find_repetition(at)
                case If(condition, body):
                    if self.test(condition, at):
                        self.run_block(body, blocks[0][0])
                case IfElse(condition, then, otherwise):
                    if self.test(condition, at):
                        self.run_block(then, blocks[0][0])
                    else:
                        self.run_block(otherwise, blocks[1][0])
            at += statement.size

    def tick(self, at: int) -> None:
        if self.ticks == self.max_ticks:
            raise _Stop(Status.OUT_OF_TICKS, at)
        self.ticks += 1

    def notify(self, at: int, action: Action | None = None, outcome: bool | None = None) -> None:
        if self.observe is not None:
            self.observe(Tick(self.ticks, at, self.start, self.hero, dict(self.markers), action, outcome))

    def find_repetition(self, at: int) -> None:
        if (at, self.iterations_left, self.cell, self.heading, self.markers) == self.remembered:
            raise _Stop(Status.RUNS_FOREVER, at)
        if self.ticks >= self.remember_at:
            self.remembered = (at, self.iterations_left.copy(), self.cell, self.heading, self.markers.copy())
            self.remember_at = 2 * self.ticks

    def act(self, action: Action, at: int) -> None:
        self.tick(at)
        here = self.markers.get(self.cell, 0)
        match action:
            case Action.MOVE:
                if not self.clear(0):
                    raise _Stop(Status.HIT_WALL, at)
                self.cell = self.neighbour(0)
            case Action.TURN_LEFT:
                self.heading = (self.heading - 1) % 4
            case Action.TURN_RIGHT:
                self.heading = (self.heading + 1) % 4
            case Action.PICK_MARKER:
                if here == 0:
                    raise _Stop(Status.NO_MARKER_TO_PICK, at)
                self.markers[self.cell] = here - 1
                if here == 1:
                    del self.markers[self.cell]
            case Action.PUT_MARKER:
                if here == MOST_IN_PASSING:
                    raise _Stop(Status.TOO_MANY_MARKERS, at)
                self.markers[self.cell] = here + 1
        self.trace.append(action)
        self.notify(at, action=action)

    def test(self, condition: Condition, at: int) -> bool:
        self.tick(at)
        outcome = self.holds(condition)
        self.outcomes.add((at, outcome))
        self.notify(at, outcome=outcome)
        return outcome

    def holds(self, condition: Condition) -> bool:
        match condition:
            case Not(inner):
                return not self.holds(inner)
            case Sensor.FRONT_IS_CLEAR:
                return self.clear(0)
            case Sensor.LEFT_IS_CLEAR:
                return self.clear(-1)
            case Sensor.RIGHT_IS_CLEAR:
                return self.clear(1)
            case Sensor.MARKERS_PRESENT:
                return self.markers.get(self.cell, 0) > 0
            case Sensor.NO_MARKERS_PRESENT:
                return self.markers.get(self.cell, 0) == 0
        raise AssertionError(condition)

    def neighbour(self, turn: int) -> Cell:
        """The next cell ahead (0), to the left (-1) or to the right (1)."""
        by_row, by_col = STEP[HEADINGS[(self.heading + turn) % 4]]
        return self.cell[0] + by_row, self.cell[1] + by_col

    def clear(self, turn: int) -> bool:
        return self.start.is_clear(self.neighbour(turn))
