"""The hint for a student who has written nothing yet."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from karelsynth.karel.dialects import parse
from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.tasks.task import Task
from karelsynth.tutor.beginning import first_hint, opened
from karelsynth.tutor.hint import Hint
from tests.posed import CLEAN, TASK, by

STEP = "def run():\n  move()"


@pytest.mark.parametrize(
    ("text", "dialect", "empty"),
    [
        ("", None, "def run():\n  # nothing here yet"),
        (" \n", "tokens", None),  # a row of tokens has no comments, so no empty block
        ("# Ada\n", "paper", "# Ada\ndef run():\n  # nothing here yet"),
        ("# Ada\ndef run()\n", None, "# Ada\ndef run():\n  # nothing here yet\n"),
        ("def main():\n    # first\n", None, "def main():\n    # nothing here yet\n    # first\n"),
        ("def run():\n  # nothing here yet", None, "def run():\n  # nothing here yet"),
        ("def run():\n  move()", None, None),
        ("def run():\n  while(frontIsClear):\n    # nothing here yet", None, None),
        ("move()", None, None),
        ("def run():\n  # nothing here yet\n\ndef turn():\n  # nothing here yet", None, None),
        (
            "def turn():\n  turnLeft()\n\ndef run():",
            None,
            "def turn():\n  turnLeft()\n\ndef run():\n  # nothing here yet",
        ),
    ],
)
def test_texts_without_a_statement(text: str, dialect: str | None, empty: str | None) -> None:
    assert opened(text, dialect) == empty


def hint_for(text: str, *programs: str, task: Task = TASK, hidden: Task | None = None, dialect: str = "paper") -> Hint:
    def solve(task: Task, seconds: float) -> Sequence[Program]:
        return [Program.parse(program) for program in programs]

    more = () if hidden is None else hidden.examples
    return first_hint(task, text, dialect=dialect, hidden=more, solve=solve, clock=itertools.count().__next__)


def test_it_is_the_first_statement_with_one_action() -> None:
    hint = hint_for("# Ada\n", CLEAN)
    assert (hint.kind, hint.edits, hint.report) == ("begin", 1, None)
    assert hint.text == "# Ada\ndef run():\n  while(frontIsClear):\n    move()"
    (step,) = hint.steps
    assert step.where.startswith("Nothing is written yet.")
    assert step.kind == "A right program begins with a loop: it goes on while the way ahead is clear."
    assert step.change == "Begin with `while(frontIsClear): move()`."
    assert "nothing here yet" not in "".join(hint.change)
    assert hint.program == parse(hint.text)
    assert hint_for("", CLEAN, dialect="stanford").text.splitlines()[3:6] == [  # type: ignore[union-attr]
        "def main():",
        "    while front_is_clear():",
        "        move()",
    ]


@pytest.mark.parametrize(
    ("first", "kind", "code"),
    [
        ("move()", "a step", "move()"),
        ("turnRight()", "a turn", "turnRight()"),
        ("putMarker()", "putting a marker down", "putMarker()"),
        (
            "repeat(3):\n    if(frontIsClear):\n      move()",
            "a loop that runs a fixed number of times",
            "repeat(3): move()",
        ),
        (
            "ifelse(not frontIsClear):\n    turnLeft()\n  else:\n    move()",
            "a test: whether the way ahead is blocked",
            "if(not frontIsClear): turnLeft()",
        ),
    ],
)
def test_every_beginning_has_words(first: str, kind: str, code: str) -> None:
    program = f"def run():\n  {first}\n  turnLeft()"
    (step,) = hint_for("def run():", program, task=by(program, World.parse("> . . . .\n. . . . ."))).steps
    assert (step.kind, step.change) == (f"A right program begins with {kind}.", f"Begin with `{code}`.")


def test_a_program_that_is_wrong_on_hidden_tests_shows_no_way() -> None:
    walk = "def run():\n  while(frontIsClear):\n    move()"
    short, long = (by(walk, World.parse(drawn)) for drawn in ("> .\n. .", "> . .\n. . ."))
    assert hint_for("", STEP, walk, task=short).program == Program.parse(STEP)
    assert hint_for("", STEP, walk, task=short, hidden=long).program == Program.parse(walk)
    assert hint_for("", task=short).kind == "none"
