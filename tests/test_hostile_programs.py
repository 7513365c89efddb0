"""Programs in depth, and texts that nobody would write."""

from __future__ import annotations

import ast
import copy
import pickle
import random
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karelsynth.errors import KarelsynthError, ProgramSyntaxError
from karelsynth.karel.dialects import DIALECTS, parse, recognise, render
from karelsynth.karel.dialects.indented import lex
from karelsynth.karel.program import DEEPEST, Action, If, Not, Program, Repeat, Sensor, While
from tests.strategies import random_program
from tests.written import FRONT, GOLDEN, loop


def nested(depth: int) -> dict[str, str]:
    return {
        "tokens": "DEF run m( " + "REPEAT R=1 r( " * depth + "move" + " r)" * depth + " m)",
        "paper": "def run(): " + "repeat(1): " * depth + "move",
        "stanford": "def main():\n"
        + "".join(" " * (n + 1) + "for _ in range(1):\n" for n in range(depth))
        + " " * (depth + 1)
        + "move()",
    }


def negated(depth: int) -> dict[str, str]:
    return {
        "tokens": "DEF run m( IF c( " + "not c( " * depth + "frontIsClear" + " c)" * depth + " c) i( move i) m)",
        "paper": "def run():\n  if " + "not(" * depth + "frontIsClear" + ")" * depth + ": move()",
        "stanford": "def main():\n  if " + "not " * depth + "front_is_clear(): move()",
    }


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nesting_has_the_same_limit_in_every_dialect(dialect: str) -> None:
    for deepest in (nested(DEEPEST)[dialect], negated(DEEPEST - 1)[dialect]):
        program = parse(deepest, dialect)
        assert all(parse(render(program, other)) == program for other in DIALECTS)
    for too_deep in (nested(DEEPEST + 1), negated(DEEPEST), nested(5000) if dialect != "stanford" else negated(5000)):
        with pytest.raises(ProgramSyntaxError, match=f"nested more than {DEEPEST} deep"):
            parse(too_deep[dialect], dialect)


def test_programs_that_are_built_have_the_same_limit() -> None:
    def built(depth: int) -> Repeat:
        node = Repeat(1, (Action.MOVE,))
        for _ in range(depth - 1):
            node = Repeat(1, (node, Action.MOVE))
        return node

    def denied(depth: int) -> While:
        condition: Sensor | Not = FRONT
        for _ in range(depth - 1):
            condition = Not(condition)
        return While(condition, (Action.MOVE,))

    for make in (built, denied):
        program = Program((Action.MOVE, make(DEEPEST)))
        assert parse(render(program, "paper")) == program
        for depth in (DEEPEST + 1, 1500):
            with pytest.raises(KarelsynthError, match=f"^the program is nested more than {DEEPEST} deep$"):
                Program((Action.MOVE, make(depth)))


def test_parentheses_are_no_nesting() -> None:
    assert parse("def run():\n  while" + "(" * 5000 + "frontIsClear" + ")" * 5000 + ": move()") == loop(FRONT)


def test_helpers_may_not_explode() -> None:
    doubling = "".join(f"def f{n}():\n    f{n + 1}()\n    f{n + 1}()\n" for n in range(40))
    chain = "".join(f"def f{n}():\n    f{n + 1}()\n" for n in range(1000))
    for text in (
        f"{doubling}def f40(): move()\ndef main(): f0()",
        f"{chain}def f1000(): move()\ndef main(): f0()",
        "def f():\n" + "    move()\n" * 200 + "def main():\n" + "    f()\n" * 60,  # few calls, each of a long one
    ):
        for written in (text, text.replace("main", "run")):
            with pytest.raises(ProgramSyntaxError, match=r"too long|nested more than"):
                parse(written)


def test_a_long_line_is_recognised_in_no_time() -> None:
    """Its words, not its length squared: `import` over and over once took a minute."""
    began = time.monotonic()
    assert recognise("import " * 100_000) == "paper"
    assert recognise("stanfordkarel " * 50_000) == "paper"
    assert time.monotonic() - began < 5
    assert recognise("from karel.stanfordkarel import *") == "stanford"
    assert recognise("import os\nstanfordkarel") == "paper"


def read_or_complain(text: str, dialect: str | None) -> Program | ProgramSyntaxError:
    try:
        return parse(text, dialect)
    except ProgramSyntaxError as error:
        return error


def check_any_text(text: str) -> None:
    """Whatever the text, there is a program or an error with a place inside the text."""
    for dialect in (None, *DIALECTS):
        result = read_or_complain(text, dialect)
        if isinstance(result, Program):
            assert parse(render(result, "tokens")) == result
        else:
            assert result.line >= 1
            assert 1 <= result.column <= len(result.source_line) + 2
            assert result.source_line in text
            assert str(result).startswith(f"line {result.line}, column {result.column}: ")


FRAGMENTS = sorted(
    {word for text in GOLDEN.values() for word in text.split()}
    | set("()[]:;,#'\"\\=+-\t\n\r\f \x00²é9")
    | {
        "\n  ",
        "\n    ",
        '"""',
        "'''",
        "def run():\n  ",
        "def main():\n    ",
        "elif",
        "import",
        "\ufeff",
        "\u2028",
        "->",
    }
)


@given(st.one_of(st.text(), st.lists(st.sampled_from(FRAGMENTS)).map("".join)))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_program_or_a_syntax_error(text: str) -> None:
    check_any_text(text)


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """A valid text with a few characters or lines deleted, doubled or replaced."""
    program = random_program(random.Random(draw(st.integers(0, 10**6))), depth=2)
    text = render(program, draw(st.sampled_from(DIALECTS)))
    for _ in range(draw(st.integers(1, 3))):
        pieces = text.splitlines(keepends=True) if draw(st.booleans()) else list(text)
        if not pieces:
            break
        at = draw(st.integers(0, len(pieces) - 1))
        other = draw(st.sampled_from([*"()[]:;=#. \t\nxX01_", "not ", "pass", "else:", *pieces[:20]]))
        pieces[at] = draw(st.sampled_from(["", pieces[at] * 2, other, pieces[at] + other]))
        text = "".join(pieces)
    return text


@given(mutants())
@settings(max_examples=300, deadline=None)
def test_mutants_are_programs_or_syntax_errors(text: str) -> None:
    check_any_text(text)


@given(mutants())
@settings(max_examples=200, deadline=None)
def test_what_stanford_accepts_is_python(text: str) -> None:
    if isinstance(read_or_complain(text, "stanford"), Program):
        ast.parse(text)


@pytest.mark.parametrize("text", ["'" + "\\'" * 100_000, '"""' + '\\"""' * 100_000])
def test_a_quotation_mark_is_looked_for_once(text: str) -> None:
    """Or else time grows with the square of what hostile text holds."""
    words, _, _ = lex(text)
    assert [word.kind for word in words] == ["unclosed", "newline", "end"]
    assert words[0].text == text[: 3 if text.startswith('"""') else 1]


@pytest.mark.parametrize(
    ("node", "parts", "message"),
    [
        (Program, [("fly",)], "'fly' is not a statement"),
        (Program, [(Sensor.FRONT_IS_CLEAR,)], "is not a statement"),
        (If, [Action.MOVE, (Action.MOVE,)], "is not a condition"),
        (Not, ["frontIsClear"], "is not a condition"),
        (While, [Sensor.FRONT_IS_CLEAR, [Action.MOVE]], "a block is a tuple of statements, not a list"),
        (Repeat, [2.5, (Action.MOVE,)], "a repeat count is a whole number, not 2.5"),
        (Repeat, [3, ()], "at least one statement"),
    ],
)
def test_trees_made_by_hand_are_checked(node: type[Any], parts: list[Any], message: str) -> None:
    with pytest.raises(KarelsynthError, match=message):
        node(*parts)


def test_counts_may_be_numpys() -> None:
    program = Program((Repeat(np.int64(3), (Action.MOVE,)),))  # type: ignore[arg-type]
    assert program == Program.parse("DEF run m( REPEAT R=3 r( move r) m)")
    assert program.tokens[4] == "R=3"


def test_syntax_errors_travel_between_processes() -> None:
    with pytest.raises(ProgramSyntaxError) as caught:
        Program.parse("def run():\n  turnLfet()")
    for other in (pickle.loads(pickle.dumps(caught.value)), copy.deepcopy(caught.value)):
        assert type(other) is ProgramSyntaxError
        assert str(other) == str(caught.value)
        assert (other.line, other.column, other.suggestion) == (2, 3, "turnLeft")
