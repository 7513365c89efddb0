"""The statistics, on tasks small enough to count by hand."""

from __future__ import annotations

import numpy as np
import pytest

from karelsynth.errors import KarelsynthError
from karelsynth.generator.sampler import MAX_TOKENS, STATEMENTS
from karelsynth.karel.formats.codes import worlds_to_codes
from karelsynth.karel.grammar import NORMAL_FORM
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.statistics import ORIGINAL, PAIR_COUNTS, FigureComparison, compare, compute

PROGRAMS = (
    "DEF run m( move putMarker m)",
    "DEF run m( REPEAT R=3 r( putMarker r) IFELSE c( not c( leftIsClear c) c) i( move i) ELSE e( move e) m)",
    "DEF run m( WHILE c( markersPresent c) w( pickMarker IF c( frontIsClear c) i( move turnLeft i) w) move m)",
)
ROOM = """
. . . .
> 2 1 .
"""
CORNER = """
. #
^ .
"""


def make(programs: tuple[str, ...], rooms: tuple[str, ...]) -> TaskBatch:
    tokens = np.zeros((len(programs), MAX_TOKENS), np.uint8)
    encoded = encode_programs([Program.parse(text) for text in programs])
    tokens[:, : encoded.shape[1]] = encoded
    codes = worlds_to_codes([World.parse(room) for room in rooms])
    inputs = np.repeat(codes[None], len(programs), axis=0)
    runs = run_batch(tokens, inputs)
    assert runs.worlds is not None
    lengths = (tokens != 0).sum(axis=1).astype(np.uint8)
    return TaskBatch(tokens, lengths, inputs, runs.worlds, np.zeros(len(programs), np.bool_))


@pytest.fixture(scope="module")
def groups() -> dict[str, dict[str, float]]:
    return {name: dict(group) for name, group in compute(make(PROGRAMS, (ROOM, ROOM, CORNER))).groups.items()}


def test_programs(groups: dict[str, dict[str, float]]) -> None:
    third = pytest.approx(1 / 3)
    assert groups["control depth"] == {"0": third, "1": third, "2": third, "3": 0, "4": 0, "5": 0}
    assert groups["control statements"]["2"] == pytest.approx(2 / 3)
    assert groups["top-level statements"]["2"] == 1
    assert groups["a program"] == {"actions": 3, "control": pytest.approx(4 / 3)}
    assert groups["actions"]["move"] == pytest.approx(5 / 9)
    assert groups["control"] == {"REPEAT": 0.25, "WHILE": 0.25, "IF": 0.25, "IFELSE": 0.25}
    assert groups["programs that hold"]["not"] == third
    assert groups["conditions"]["not leftIsClear"] == third
    assert groups["conditions"]["markersPresent"] == third
    assert groups["repeat count"]["3"] == 1
    assert groups["body length of WHILE"]["2"] == 1
    assert groups["body length of IF"]["2"] == 1
    assert groups["body length of then"]["1"] == groups["body length of else"]["1"] == 1
    assert groups["children of run"] == pytest.approx(
        {"action": 0.5, "REPEAT": 1 / 6, "WHILE": 1 / 6, "IF": 0, "IFELSE": 1 / 6}
    )
    assert groups["children of WHILE"]["IF"] == 0.5
    assert groups["actions in IF"]["turnLeft"] == 0.5
    assert groups["alone in a body"]["move"] == pytest.approx(2 / 3)
    assert groups["after move"] == pytest.approx(
        dict.fromkeys(groups["after move"], 0) | {"putMarker": 0.5, "turnLeft": 0.5}
    )
    assert groups["after REPEAT"]["IFELSE"] == 1
    assert groups["IFELSE"]["equal branches"] == 1


def test_conditions_outside_the_normal_form_count_as_what_they_ask() -> None:
    texts = (
        "not c( markersPresent c)",
        "not c( noMarkersPresent c)",
        "not c( not c( leftIsClear c) c)",
        "frontIsClear",
    )
    programs = tuple(f"DEF run m( IF c( {text} c) i( move i) m)" for text in texts)
    conditions = {name: share for name, share in compute(make(programs, (ROOM,))).groups["conditions"].items() if share}
    assert conditions == dict.fromkeys(("noMarkersPresent", "markersPresent", "leftIsClear", "frontIsClear"), 0.25)


def test_runs(groups: dict[str, dict[str, float]]) -> None:
    # The second program sees its wall on the left in the corner only, the third meets no marker at its start.
    assert groups["branches"]["outcome unseen"] == pytest.approx(1 / 3)
    assert groups["distinct traces"]["1"] == 1
    assert groups["trace length"]["50 %"] == 2
    assert groups["trace length, ends"] == {"shortest": 1, "longest": 4}
    assert groups["executed actions"] == pytest.approx(
        {"move": 9 / 21, "turnLeft": 0, "turnRight": 0, "pickMarker": 0, "putMarker": 12 / 21}
    )


def test_worlds(groups: dict[str, dict[str, float]]) -> None:
    third = pytest.approx(1 / 3)
    assert groups["rows"]["2"] == 1
    assert groups["columns"] == dict.fromkeys(map(str, range(2, 17)), 0) | {"2": third, "4": pytest.approx(2 / 3)}
    assert groups["heading"]["north"] == third
    assert groups["hero"] == {"bottom left": 1, "edge, no corner": 0, "on a marker": 0}
    assert groups["worlds"] == {"without walls": pytest.approx(2 / 3), "without markers": third}
    assert groups["share of walls"]["50 %"] == 0.25
    assert groups["share of markers"]["50 %"] == 0.25
    assert groups["markers on a cell"]["2"] == 0.5


def test_compare_has_every_figure_of_the_original() -> None:
    rows = compare(compute(make(PROGRAMS, (ROOM, CORNER))))
    assert [(row.group, row.name) for row in rows] == [
        (group, name) for group, figures in ORIGINAL.items() for name in figures.values
    ]
    assert not all(row.within for row in rows)


def test_rows() -> None:
    row = FigureComparison("actions", "move", 0.377, 0.358, 0.02)
    assert row.distance == pytest.approx(0.019)
    assert row.within
    assert not FigureComparison("actions", "move", 0.38, 0.358, 0.02).within
    assert FigureComparison("a program", "actions", 9, 5.1, None).within


def test_the_originals_shares_are_shares() -> None:
    whole = ("actions", "control", "conditions", "repeat count", "heading", "distinct traces", "executed actions")
    for name in (*whole, *(f"children of {parent}" for parent in ("run", "REPEAT", "WHILE", "IF", "IFELSE"))):
        assert sum(ORIGINAL[name].values.values()) == pytest.approx(1, abs=0.006), name
    for name in ("after move", "after IFELSE"):
        assert sum(ORIGINAL[name].values.values()) == pytest.approx(1)


def test_the_originals_pairs_keep_to_the_normal_form() -> None:
    for first, row in zip(STATEMENTS, PAIR_COUNTS, strict=True):
        for second, count in zip(STATEMENTS, row, strict=True):
            assert (count == 0) == ((first, second) in NORMAL_FORM.never_adjacent)


def test_nothing_to_count() -> None:
    with pytest.raises(KarelsynthError, match="no tasks"):
        compute(make(PROGRAMS, (ROOM, CORNER))[:0])
