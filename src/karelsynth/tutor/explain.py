"""Why a run is wrong, in words that a student understands.

    report = explain_run(read_source(text), example)
    report.sentences  # what happened, where in the student's text, and what the world should look like

A run can crash, never end, or end in the wrong world. For the last, the step at which it went wrong is the first step
that put or picked a marker for good in a cell that now has the wrong number. If no step is to blame, because something
was never done, there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from karelsynth.karel.interpreter import MAX_TICKS, Status, Tick, run
from karelsynth.karel.program import Action

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karelsynth.karel.dialects.source import SourceProgram
    from karelsynth.karel.interpreter import Run
    from karelsynth.karel.program import Program
    from karelsynth.karel.world import Cell, World
    from karelsynth.tasks.task import Example

TUTOR_TICKS: Final = MAX_TICKS
"""The most ticks of a student's run. People's worlds need more than the data's 200."""
LONGEST_BLAMED: Final = 1_000
"""The most ticks of a run in which the step that went wrong is looked for."""
_MOST_CELLS: Final = 4
"""The most wrong cells that are described in words."""


@dataclass(frozen=True)
class WrongStep:
    """The step at which a run went wrong."""

    number: int
    """Counted in actions, from 1."""
    line: int
    """The line of the student's text, from 1."""
    column: int
    code: str
    """The statement as the student wrote it."""


@dataclass(frozen=True)
class RunReport:
    """What a program did on an example."""

    right: bool
    status: Status
    expected: World
    actual: World
    """The world at the end, or just before the crash."""
    cells: tuple[Cell, ...]
    """The cells that differ, from the north west."""
    step: WrongStep | None
    """The step at which the run went wrong, if it is known."""
    sentences: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain data; worlds are text drawings."""
        step = self.step
        return {
            "right": self.right,
            "status": self.status.name.lower(),
            "expected": self.expected.to_text(),
            "actual": self.actual.to_text(),
            "cells": [list(cell) for cell in self.cells],
            "step": step and {"number": step.number, "line": step.line, "column": step.column, "code": step.code},
            "explanation": " ".join(self.sentences),
        }


def explain_run(source: SourceProgram, example: Example, *, max_ticks: int = TUTOR_TICKS) -> RunReport:
    """Run a student's program on an example and explain what is wrong."""
    outcome = run(source.program, example.input, max_ticks=max_ticks)
    expected, actual = example.output, outcome.world
    cells = differing_cells(expected, actual)
    right = outcome.ok and not cells
    step, sentences = None, ["right"]
    if not outcome.ok and outcome.where is None:
        sentences = [f"The program {outcome.explain()}."]
    elif not outcome.ok and outcome.where is not None:
        step = _step(source, outcome.where, len(outcome.trace) + outcome.status.crashed)
        sentences = [_failure(outcome, step)]
    elif not right:
        blamed, sentences = None, []
        if outcome.ticks <= LONGEST_BLAMED:
            blamed = _first_wrong(source.program, example, max_ticks)
        if blamed is not None:
            number, where, action, cell = blamed
            step = _step(source, where, number)
            verb = "puts a marker" if action is Action.PUT_MARKER else "picks a marker"
            has = _markers(expected.markers.get(cell, 0))
            there = f"at {cell_name(cell)}, which should have {has} in the end"
            sentences.append(f"Step {number}, line {step.line}: `{step.code}` {verb} {there}.")
        sentences += difference_sentences(expected, actual)
    return RunReport(right, outcome.status, expected, actual, cells, step, tuple(sentences))


def differing_cells(expected: World, actual: World) -> tuple[Cell, ...]:
    """The cells with another number of markers, and those of the hero if it is elsewhere or faces another way."""
    heroes = {expected.hero[:2], actual.hero[:2]} if expected.hero != actual.hero else set()
    return tuple(_from_north_west(heroes.union(differing_piles(expected, actual))))


def differing_piles(one: World, other: World) -> list[Cell]:
    """The cells whose number of markers is not the same in two worlds, from the north west."""
    cells = {*one.markers, *other.markers}
    return _from_north_west(cell for cell in cells if one.markers.get(cell, 0) != other.markers.get(cell, 0))


def _from_north_west(cells: Iterable[Cell]) -> list[Cell]:
    return sorted(cells, key=lambda cell: (-cell[0], cell[1]))


def _first_wrong(program: Program, example: Example, max_ticks: int) -> tuple[int, int, Action, Cell] | None:
    """The first action after which a cell never again had the number of markers that it should have in the end.

    Its number, counted in actions from 1, its statement's first token, the action and the cell; None if there is none.
    """
    expected, before = example.output.markers, dict(example.input.markers)
    wrong_since: dict[Cell, tuple[int, int, Action, Cell]] = {}
    number = 0

    def observe(tick: Tick) -> None:
        nonlocal number
        if tick.action is None:
            return
        number += 1
        if tick.action not in (Action.PUT_MARKER, Action.PICK_MARKER):
            return
        cell = tick.hero[:2]
        count, wanted = tick.piles.get(cell, 0), expected.get(cell, 0)
        if count == wanted:
            wrong_since.pop(cell, None)
        elif abs(count - wanted) > abs(before.get(cell, 0) - wanted):
            wrong_since.setdefault(cell, (number, tick.where, tick.action, cell))
        before[cell] = count

    run(program, example.input, max_ticks=max_ticks, observe=observe)
    return min(wrong_since.values(), default=None, key=lambda blamed: blamed[0])


def _step(source: SourceProgram, where: int, number: int) -> WrongStep:
    span = source.spans[where]
    line = source.lines[span.line - 1]
    return WrongStep(number, span.line, span.column, line[span.column - 1 : span.column - 1 + span.width])


def _failure(outcome: Run, step: WrongStep) -> str:
    """A crash or a run without an end as a sentence."""
    where = f"line {step.line}: `{step.code}`"
    row, col, heading = outcome.world.hero
    place = f"{cell_name((row, col))}, facing {heading}"
    match outcome.status:
        case Status.HIT_WALL:
            return f"Step {step.number}, {where} moves into a wall or off the grid, from {place}."
        case Status.NO_MARKER_TO_PICK:
            return f"Step {step.number}, {where} picks at {cell_name((row, col))}, where there is no marker."
        case Status.TOO_MANY_MARKERS:
            return f"Step {step.number}, {where} puts a marker at {cell_name((row, col))}, which is full."
        case Status.OUT_OF_TICKS:
            spent = f"after {outcome.ticks:,} steps and tests it still runs"
            return f"This takes too long: {spent}, in {where}, with Karel at {place}."
    return f"An endless loop: `{step.code}` in line {step.line} repeats for ever, with Karel at {place}."


def difference_sentences(expected: World, actual: World) -> list[str]:
    """What differs between the expected world and the one in which a run has ended."""
    sentences = []
    if expected.hero[:2] != actual.hero[:2]:
        sentences.append(f"Karel ends at {cell_name(actual.hero[:2])} instead of {cell_name(expected.hero[:2])}.")
    elif expected.hero != actual.hero:
        sentences.append(f"Karel ends facing {actual.hero.heading} instead of {expected.hero.heading}.")
    wrong = differing_piles(expected, actual)
    for cell in wrong[:_MOST_CELLS]:
        wanted, found = expected.markers.get(cell, 0), actual.markers.get(cell, 0)
        there = {0: "there is none", 1: "there is 1"}.get(found, f"there are {found}")
        sentences.append(f"At {cell_name(cell)} there should be {_markers(wanted)}, but {there}.")
    if len(wrong) > _MOST_CELLS:
        sentences.append(f"{len(wrong) - _MOST_CELLS} more cells have the wrong number of markers.")
    return sentences


def cell_name(cell: Cell) -> str:
    """A cell for people: row 1 is the bottom row, column 1 the leftmost."""
    return f"row {cell[0] + 1}, column {cell[1] + 1}"


def _markers(count: int) -> str:
    return {0: "no marker", 1: "1 marker"}.get(count, f"{count} markers")
