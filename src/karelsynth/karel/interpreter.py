"""The semantics of programs: the specification that every faster path is tested against.

A tick is counted for each action, for each evaluation of an IF, IFELSE or WHILE condition (also the last, false one),
and for the start of each REPEAT iteration. A program may use 200 ticks; needing one more is a time-out.
A program crashes if it moves into a wall or off the grid, picks where there is no marker, or puts where there are ten.
The crashing action takes its tick but changes nothing and is not in the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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

MAX_TICKS: Final = 200


class Status(IntEnum):
    """How a run ended. The numbers are also the batch machine's."""

    OK = 0
    HIT_WALL = 1
    NO_MARKER_TO_PICK = 2
    TOO_MANY_MARKERS = 3
    OUT_OF_TICKS = 4
    INVALID_PROGRAM = 5  # only the batch machine, which runs any sequence of tokens

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
    Status.TOO_MANY_MARKERS: f"put a marker where there are {MOST_MARKERS} already",
    Status.OUT_OF_TICKS: "ran out of ticks",
    Status.INVALID_PROGRAM: "is not a program",
}

Outcome = tuple[int, bool]
"""A branch outcome: the index of the IF, IFELSE or WHILE token, and the value of the condition."""


@dataclass(frozen=True)
class Run:
    """The result of a run.

    `where` is the index of the token whose statement crashed or ran out of ticks, None if the run is ok. `world` is the
    world at the end, or just before the crash.
    """

    status: Status
    world: World
    ticks: int
    trace: tuple[Action, ...]
    outcomes: frozenset[Outcome]
    where: int | None = None

    @property
    def ok(self) -> bool:
        return self.status is Status.OK

    def explain(self) -> str:
        """The result in one sentence."""
        if self.ok:
            return f"finished after {self.ticks} tick{'s' * (self.ticks != 1)}"
        row, col, heading = self.world.hero
        place = f"at row {row}, column {col}, facing {heading}"
        if self.status.crashed:
            return f"crashed: {self.status.reason} {place} (tick {self.ticks})"
        return f"{self.status.reason} after {self.ticks} {place}"


@dataclass(frozen=True)
class Tick:
    """One tick of a run, after the statement at token `where` has acted or been evaluated."""

    number: int
    where: int
    world: World
    action: Action | None = None
    outcome: bool | None = None


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
    return Run(status, karel.world(), karel.ticks, tuple(karel.trace), frozenset(karel.outcomes), where)


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

    def world(self) -> World:
        start = self.start
        hero = Hero(*self.cell, HEADINGS[self.heading])
        return World(start.rows, start.cols, hero, start.walls, self.markers)

    def run_block(self, block: Block, at: int) -> None:
        for statement in block:
            blocks = [(at + offset, body) for offset, body in inner_blocks(statement)]
            match statement:
                case Action():
                    self.act(statement, at)
                case Repeat(times, body):
                    for _ in range(times):
                        self.tick(at)
                        self.seen(at)
                        self.run_block(body, blocks[0][0])
                case While(condition, body):
                    while self.test(condition, at):
                        self.run_block(body, blocks[0][0])
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

    def seen(self, at: int, action: Action | None = None, outcome: bool | None = None) -> None:
        if self.observe is not None:
            self.observe(Tick(self.ticks, at, self.world(), action, outcome))

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
            case Action.PUT_MARKER:
                if here == MOST_MARKERS:
                    raise _Stop(Status.TOO_MANY_MARKERS, at)
                self.markers[self.cell] = here + 1
        self.trace.append(action)
        self.seen(at, action=action)

    def test(self, condition: Condition, at: int) -> bool:
        self.tick(at)
        outcome = self.holds(condition)
        self.outcomes.add((at, outcome))
        self.seen(at, outcome=outcome)
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
