"""Programs in the data's JSON: read, written and refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given

from karelsynth.errors import KarelsynthError, TaskFileError
from karelsynth.karel.formats import msr
from karelsynth.karel.program import DEEPEST, Program
from tests.strategies import LIKELY_JSON, programs


def test_program_json_by_hand() -> None:
    program = Program.parse(
        "DEF run m( REPEAT R=3 r( IFELSE c( not c( frontIsClear c) c) i( turnLeft i) ELSE e( move e) r) "
        "WHILE c( markersPresent c) w( pickMarker w) IF c( leftIsClear c) i( putMarker i) m)"
    )
    blocked = {"condition": {"type": "frontIsClear"}, "type": "not"}
    branch = {"condition": blocked, "elseBody": [{"type": "move"}], "ifBody": [{"type": "turnLeft"}], "type": "ifElse"}
    tree = {
        "run": [
            {"body": [branch], "times": 3, "type": "repeat"},
            {"body": [{"type": "pickMarker"}], "condition": {"type": "markersPresent"}, "type": "while"},
            {"body": [{"type": "putMarker"}], "condition": {"type": "leftIsClear"}, "type": "if"},
        ]
    }
    assert json.dumps(msr.program_to_json(program)) == json.dumps(tree)
    assert msr.program_from_json(tree) == program


@given(programs())
def test_program_json_round_trips(program: Program) -> None:
    record = json.loads(json.dumps(msr.program_to_json(program)))
    assert msr.program_from_json(record) == program


def _nested(depth: int) -> dict[str, Any]:
    node: dict[str, Any] = {"type": "move"}
    for _ in range(depth):
        node = {"type": "repeat", "times": 2, "body": [node]}
    return {"run": [node]}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "the program: an object with `run` is expected, not a list"),
        ({}, "the program: the field `run` is missing"),
        ({"run": [{"type": "move"}], "walk": []}, "the program: unexpected field `walk`"),
        ({"run": []}, "run: a block holds at least one statement"),
        ({"run": {"type": "move"}}, "run: a list of statements is expected, not an object"),
        ({"run": ["move"]}, "run[0]: an object with `type` is expected, not a string"),
        ({"run": [{"type": "move"}, {}]}, "run[1]: the field `type` is missing"),
        ({"run": [{"type": 3}]}, "run[0]: `type` is a string, not a number"),
        ({"run": [{"type": "trunLeft"}]}, "run[0]: no type `trunLeft` (did you mean `turnLeft`?); expected `move`"),
        ({"run": [{"type": "frontIsClear"}]}, "run[0]: no type `frontIsClear`"),
        ({"run": [{"type": "move", "times": 2}]}, "run[0]: unexpected field `times`"),
        ({"run": [{"type": "repeat", "body": [{"type": "move"}]}]}, "run[0]: the field `times` is missing"),
        ({"run": [{"type": "repeat", "times": 20, "body": [{"type": "move"}]}]}, "run[0].times: repeat counts are"),
        ({"run": [{"type": "repeat", "times": True, "body": [{"type": "move"}]}]}, "from 0 to 19, not `true`"),
        ({"run": [{"type": "repeat", "times": 2, "body": [{"type": "mov"}]}]}, "run[0].body[0]: no type `mov`"),
        ({"run": [{"type": "if", "condition": None, "body": [{"type": "move"}]}]}, "run[0].condition: an object"),
        ({"run": [{"type": "if", "condition": {"type": "move"}, "body": []}]}, "run[0].condition: no type `move`"),
        (
            {"run": [{"type": "while", "condition": {"type": "not", "condition": {"type": "?"}}, "body": []}]},
            "run[0].condition.condition: no type `?`; expected `markersPresent`",
        ),
        (_nested(5000), "nested more than 200 deep"),
    ],
)
def test_bad_program_json_is_refused(record: Any, message: str) -> None:
    with pytest.raises(TaskFileError) as caught:
        msr.program_from_json(record)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


def test_deep_programs_are_read() -> None:
    """As deep as the dialects' readers go."""
    assert msr.program_to_json(msr.program_from_json(_nested(DEEPEST))) == _nested(DEEPEST)


@given(LIKELY_JSON)
def test_any_json_is_a_program_or_refused(value: Any) -> None:
    for record in (
        value,
        {"run": value},
        {"run": [value]},
        {"run": [{"type": "if", "condition": value, "body": value}]},
    ):
        with contextlib.suppress(KarelsynthError):
            assert isinstance(msr.program_from_json(record), Program)
