"""Helper functions and comments: in both indented dialects, kept by conversion, with places in the text."""

from __future__ import annotations

import ast
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karelsynth.karel.dialects import SourceSpan, convert, parse, read_source
from karelsynth.karel.program import Program, While
from tests.strategies import random_program, with_helpers
from tests.written import FRONT, LEFT, MOVE

PAPER = '''\
"""A lesson."""
# Turn around.
def turnAround():  # twice to the left
  """Left, left."""
  turnLeft(); turnLeft()

def run():
  # Walk.
  while(frontIsClear):  # as far as possible
    move()
    # still inside
  # outside again
  ifelse(markersPresent):
    pickMarker()
    # none left?
  else:  # nothing here
    turnAround()  # back
# The end.'''
STANFORD = '''\
from stanfordkarel import *


"""A lesson."""
# Turn around.
def turnAround():  # twice to the left
    """Left, left."""
    turn_left()
    turn_left()


def main():
    # Walk.
    while front_is_clear():  # as far as possible
        move()
        # still inside
    # outside again
    if beepers_present():
        pick_beeper()
        # none left?
    else:  # nothing here
        turnAround()  # back


# The end.


if __name__ == "__main__":
    run_karel_program()
'''


def test_conversion_keeps_names_and_comments() -> None:
    there = convert(PAPER, "stanford")
    assert there == (STANFORD, ())
    back = convert(STANFORD, "paper")
    assert back.notes == ()
    assert re.findall("#.*", back.text) == re.findall("#.*", PAPER)
    assert "def turnAround():" in back.text
    assert parse(back.text) == parse(PAPER) == parse(STANFORD)
    assert convert(back.text, "stanford").text == STANFORD


def test_notes_name_what_cannot_be_kept() -> None:
    text, notes = convert(PAPER, "tokens")
    assert parse(text) == parse(PAPER)
    assert notes == (
        "tokens have no functions: `turnAround` is written out at each call",
        "tokens have no comments: 12 are left out",
    )
    text, notes = convert("def main():\n  for step in range(3): run()\ndef run(): move()", "paper")
    assert notes == (
        "the function `run` is now `run_`: `run` means something else there",
        "loop variables have no names there: `step`",
    )
    assert text == "def run():\n  repeat(3):\n    run_()\n\ndef run_():\n  move()"
    assert convert("def run(): move()", "stanford").notes == ()


def test_a_right_turn_needs_no_helper_in_the_paper() -> None:
    text = "def go():\n    turn_right()\ndef turn_right():\n    for _ in range(3): turn_left()\ndef main():\n    go()\n"
    there = convert(text, "paper")
    assert there.text == "def go():\n  turnRight()\n\ndef run():\n  go()"
    assert there.notes == ()
    back = convert(there.text, "stanford").text
    assert back.count("def turn_right") == 1
    assert parse(back) == parse(text)


def test_the_docstring_of_a_right_turn_becomes_a_comment() -> None:
    text = 'def turn_right():\n    """Turns\n    right."""\n    for i in range(3):\n        turn_left()  # once\n'
    written = convert(f"# mine\n{text}def main():\n    turn_right()\n", "paper").text
    assert written == "# mine\n# Turns\n# right.\n# once\ndef run():\n  turnRight()"


def test_places_of_helpers_are_in_the_helpers() -> None:
    text = "def run():\n  go()\n  while frontIsClear:\n    go\ndef go: move(); turnLeft ( )"
    source = read_source(text)
    assert source.program == Program((MOVE, LEFT, While(FRONT, (MOVE, LEFT))))
    move, left = SourceSpan(5, 9, 6), SourceSpan(5, 17, 12)
    assert list(source.spans.values()) == [move, left, SourceSpan(3, 3, 18), move, left]


def test_statements_know_their_lines() -> None:
    source = read_source(PAPER)
    walk, choice = source.body
    assert walk.place is not None
    assert choice.place is not None
    assert (walk.place.span.line, walk.place.last_line) == (9, 10)
    assert (choice.place.span.line, choice.place.else_line, choice.place.last_line) == (13, 16, 17)
    assert source.helpers == ("turnAround",)
    assert source.functions["turnAround"].span == SourceSpan(3, 1, 16)
    assert [comment.alone for comment in source.comments[:3]] == [True, True, False]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_conversion_round_trip(seed: int) -> None:
    """Random programs: the same program, names, and comments, each before or beside the same statement."""
    rng = random.Random(seed)
    program = random_program(rng, depth=2)
    text, comments = with_helpers(program, rng)
    source = read_source(text)
    assert source.program == program
    assert source.dialect == "paper"
    there = convert(text, "stanford")
    ast.parse(there.text)
    back = convert(there.text, "paper")
    assert there.notes == back.notes == ()
    assert parse(there.text) == parse(back.text) == program
    for written in (there.text, back.text):
        assert re.findall("#.*", written) == comments
    assert [line for line in back.text.split("\n") if line] == text.split("\n")


@pytest.mark.parametrize("dialect", ["paper", "stanford"])
def test_converting_to_the_same_dialect_changes_nothing_more(dialect: str) -> None:
    once = convert(PAPER, dialect).text
    assert convert(once, dialect).text == once


def test_calls_are_found_in_what_runs() -> None:
    text = "def b():\n  move()\ndef a():\n  b()\n  while(frontIsClear):\n    b()\ndef run():\n  turnLeft()\n  a(); b()"
    source = read_source(text)
    tokens = source.program.tokens
    found = [(call.name, call.span.line, tokens[call.start : call.end]) for call in source.calls]
    loop = ("WHILE", "c(", "frontIsClear", "c)", "w(", "move", "w)")
    assert found == [
        ("a", 9, ("move", *loop)),
        ("b", 4, ("move",)),
        ("b", 6, ("move",)),
        ("b", 9, ("move",)),
    ]
    assert [call.start for call in source.calls] == [4, 4, 10, 12]
    assert read_source("def run():\n  move()").calls == ()
