"""The three dialects: they convert without loss, are read generously, and complain precisely."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karelsynth.errors import KarelsynthError, ProgramSyntaxError
from karelsynth.karel.dialects import DIALECTS, SourceSpan, parse, read_source, recognise, render
from karelsynth.karel.interpreter import run
from karelsynth.karel.program import If, IfElse, Not, Program, Repeat, While
from karelsynth.karel.world import World
from karelsynth.terminal_text import display_width
from tests.strategies import programs, worlds
from tests.written import FRONT, GOLDEN, LEFT, MOVE, PROGRAM, RIGHT, loop

# Conversion


def test_the_dialects_have_their_names() -> None:
    assert DIALECTS == ("tokens", "paper", "stanford")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_golden_texts(dialect: str) -> None:
    assert render(PROGRAM, dialect) == GOLDEN[dialect]
    assert parse(GOLDEN[dialect]) == PROGRAM
    assert Program.parse(GOLDEN[dialect], dialect).to(dialect) == GOLDEN[dialect]


@given(programs())
@settings(max_examples=60, deadline=None)
def test_programs_survive_every_dialect(program: Program) -> None:
    for dialect in DIALECTS:
        text = render(program, dialect)
        assert recognise(text) == dialect
        assert parse(text) == parse(text, dialect) == program


@given(programs())
@settings(max_examples=60, deadline=None)
def test_stanford_files_are_python_and_define_what_they_need(program: Program) -> None:
    module = ast.parse(render(program, "stanford"))
    defined = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    called = {
        node.func.id for node in ast.walk(module) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert ("turn_right" in defined) == ("turn_right" in called)
    assert "main" in defined


def test_tokens_may_be_names_or_ids_with_padding() -> None:
    assert Program.from_tokens(PROGRAM.tokens) == PROGRAM
    assert Program.from_tokens([*PROGRAM.token_ids, 0, 0]) == PROGRAM
    assert parse("\ufeff" + GOLDEN["tokens"].replace(" ", "\r\n")) == PROGRAM
    with pytest.raises(ProgramSyntaxError, match="unknown word `<99>`"):
        Program.from_tokens([*PROGRAM.token_ids[:3], 99])


@pytest.mark.parametrize("token", [1.7, 3.0, None, (3,)])
def test_a_token_is_a_name_or_a_whole_number(token: Any) -> None:
    with pytest.raises(KarelsynthError, match="a token is a name or a whole number, not `"):
        Program.from_tokens([3, token])


def test_an_unknown_dialect_is_explained() -> None:
    with pytest.raises(KarelsynthError, match=r"no dialect `papper`; expected .*did you mean `paper`\?"):
        render(PROGRAM, "papper")
    with pytest.raises(KarelsynthError, match=r"expected `tokens`, `paper` or `stanford`$"):
        parse("def run(): move()", "xyz")


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("DEF run m( mvoe m)", "tokens"),
        ("DEF run", "tokens"),
        ("def run m( move m)", "tokens"),
        ("\ufeffDEF run m( move m)\r\n", "tokens"),
        ("DEF run():\n  move()", "paper"),
        ("repeat(4): putMarker()", "paper"),
        ("def run(): turn_left()", "paper"),
        ("# i) like in stanfordkarel's def main():\ndef run(): move()", "paper"),
        ("move()", "paper"),
        ("", "paper"),
        ("for i in range(4):\n    put_beeper()", "stanford"),
        ("def main():\n    # i) go\n    turnLeft()", "stanford"),
        ('"""i) go"""\ndef main():\n    move()', "stanford"),
        ("from karel.stanfordkarel import *", "stanford"),
        ("def turn_around():\n    turn_left()", "stanford"),
    ],
)
def test_recognition(text: str, dialect: str) -> None:
    assert recognise(text) == dialect


# Spelling variants


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("def run(): while(frontIsClear): move()", loop(FRONT)),
        ("def run():\n while frontIsClear:\n  move", loop(FRONT)),
        ("def run() :\n\twhile ( frontIsClear ( ) ) :\n\t\tmove ( )\n", loop(FRONT)),
        ("\ufeffdef run():\r\n  while (((frontIsClear()))):\r\n    move();\r\n\r\n", loop(FRONT)),
        ("def run():\r  while frontIsClear():\r    move()", loop(FRONT)),
        ("\n# why\n  def run():  # head\n\n    while(frontIsClear):\n  # out\n         move()  # go\n", loop(FRONT)),
        ("def run:\n  while(frontIsClear):\n\xa0\xa0\xa0\xa0move()", loop(FRONT)),
        ('"""What it does."""\ndef run():\n  """More\nof it."""\n  while frontIsClear: move()', loop(FRONT)),
        ("def run():\n  while(not(frontIsClear())): move()", loop(Not(FRONT))),
        ("def run():\n  while not frontIsClear: move(); move; turnLeft();", loop(Not(FRONT), MOVE, MOVE, LEFT)),
        ("def run():\n  while(not (not(not frontIsClear))): move()", loop(Not(Not(Not(FRONT))))),
        ("def run():\n  repeat 4: move()", Program((Repeat(4, (MOVE,)),))),
        ("def run():\n  repeat ( 19 ) : move()", Program((Repeat(19, (MOVE,)),))),
        (
            "def run(): move(); repeat(2): while(frontIsClear): move()",
            Program((MOVE, Repeat(2, (loop(FRONT).body[0],)))),
        ),
        ("def run():\n  if (frontIsClear): move\n  else: turnLeft", Program((IfElse(FRONT, (MOVE,), (LEFT,)),))),
        ("def run():\n  ifelse frontIsClear: move\n  else:\n    turnLeft", Program((IfElse(FRONT, (MOVE,), (LEFT,)),))),
        (
            "def run():\n  if frontIsClear: if frontIsClear: move()\n  else: turnLeft()",
            Program((IfElse(FRONT, (If(FRONT, (MOVE,)),), (LEFT,)),)),
        ),
        (
            "def run():\n  if(frontIsClear):\n    if(frontIsClear):\n      move\n  else:\n    turnLeft",
            Program((IfElse(FRONT, (If(FRONT, (MOVE,)),), (LEFT,)),)),
        ),
    ],
)
def test_the_paper_is_read_generously(text: str, program: Program) -> None:
    assert parse(text) == program


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("def main():\n    while not front_is_clear():\n        move()", loop(Not(FRONT))),
        ("def main():\n    while (not (front_is_blocked())):\n        move()", loop(Not(Not(FRONT)))),
        ("def main() -> None:\n\twhile(front_is_clear()): move(); turn_left()", loop(FRONT, MOVE, LEFT)),
        ("def main():\n    for step in range(3):\n        move()", Program((Repeat(3, (MOVE,)),))),
        ("from karel.stanfordkarel import *\ndef main(): move()\nrun_karel_program('3x5')", Program((MOVE,))),
        ("from stanfordkarel import move, turn_left\n\ndef main():\n  move()", Program((MOVE,))),
        (
            "from stanfordkarel import move, run_karel_program\ndef main(): turn_left()\nrun_karel_program()",
            Program((LEFT,)),
        ),
        ("from stanfordkarel import *\ndef main(): move()\nmain()\nrun_karel_program()", Program((MOVE,))),
        ("def go(): move()\ndef main():\n  for go in range(3):\n    turn_left()", Program((Repeat(3, (LEFT,)),))),
        ("def main():\n    turn_right()", Program((RIGHT,))),
        ("def main(): turn_right()\ndef turn_right():\n  for i in range(3): turn_left()", Program((RIGHT,))),
        ("def main():\n    move()\nif __name__ == '__main__':\n    main()", Program((MOVE,))),
        ("def main(): move()\nif __name__ == '__main__': run_karel_program()", Program((MOVE,))),
        (
            '"""File."""\ndef go():\n    """Go."""\n    move()\n    about()\n\ndef main():\n    # twice\n    go()\n'
            "    if front_is_clear():\n        go()\n\ndef about():\n    turn_left()\n    turn_left()\n",
            Program((MOVE, LEFT, LEFT, If(FRONT, (MOVE, LEFT, LEFT)))),
        ),
    ],
)
def test_stanford_is_read_as_students_write_it(text: str, program: Program) -> None:
    assert recognise(text) == "stanford"
    assert parse(text) == program


# Complaints: the mark ¦ shows where the error is.

BROKEN = [
    ("paper", "¦", "the program is empty; expected `def run():`", None),
    ("paper", "¦# nothing but a comment\n", "the program is empty; expected `def run():`", None),
    ("paper", "def run():\n  ¦turnLfet()", "unknown word `turnLfet`; expected a statement: `move`", "turnLeft"),
    ("paper", "def run():\n  while(¦frontIsClaer): move()", "expected a condition: `markersPresent`", "frontIsClear"),
    ("paper", "def run():\n  ¦whlie(frontIsClear):\n    move()", "unknown word `whlie`", "while"),
    ("paper", "¦DEF run():\n  move()", "unknown word `DEF`; expected `def run():`", "def"),
    ("paper", "¦move()", "unexpected `move`; expected `def run():`", None),
    ("paper", "def ¦rnu():\n  move()", "expected `run`", "run"),
    ("paper", "def run()¦\n  move()", "the line ends here; expected `:`", None),
    ("paper", "def run():\n  while(frontIsClear)¦  # so\n    move()", "the line ends here; expected `:`", None),
    ("paper", "def run():\n  while(frontIsClear) ¦move()", "unexpected `move`; expected `:`", None),
    ("paper", "def run():\n  while(frontIsClear¦:\n    move()", "expected `)` to close the `(` in column 8", None),
    ("paper", "def run():\n  move(¦", "the line ends here; expected `)`", None),
    ("paper", "def run():\n  move(¦3)", "unexpected `3`; expected `)`; `move` takes nothing", None),
    ("paper", "def run():\n  while(frontIsClear):\n  ¦move()", "the body of the `while` in line 2", None),
    ("paper", "¦def run():\n", "the `def` has an empty body", None),
    ("paper", "def run():\n  ¦if(frontIsClear):\n", "the `if` has an empty body; expected at least one", None),
    ("paper", "def run():\n  ¦ifelse(frontIsClear):\n  else:\n    move()", "the `ifelse` has an empty body", None),
    ("paper", "def run():\n  if frontIsClear: move()\n  ¦else:\n\nmove()", "the `else` has an empty body", None),
    ("paper", "¦def run():\n  'only a docstring'", "the `def` has an empty body", None),
    ("paper", "def run():\n  move()\n    ¦move()", "indented more than the one above; expected a statement", None),
    ("paper", "def run():\n    move()\n  ¦move()", "indented less than the one above, but lines up with no", None),
    ("paper", "def run():\n    move()\n\t¦move()", "mixes tabs and spaces", None),
    ("paper", "def run():\n  ¦else:\n    move()", "this `else` has no `if`", None),
    ("paper", "def run():\n  while(frontIsClear): move()\n  ¦else: move()", "this `else` has no `if`", None),
    ("paper", "def run():\n  ifelse(frontIsClear):\n    move()\n  ¦move()", "`else:` of the `ifelse` in line 2", None),
    ("paper", "def run():\n  if(frontIsClear): ¦ifelse(frontIsClear): move()", "must begin a line of its own", None),
    ("paper", "def run():\n  move()\n¦move()", "the program has ended", None),
    ("paper", "def run():\n  go()\ndef go():\n  move()\n  ¦go()", "`go` calls itself", None),
    ("paper", "def run():\n  ¦go()\ndef back():\n  move()", "unknown word `go`; expected a statement", None),
    ("paper", "def run():\n  ¦bakc()\ndef back():\n  move()", "unknown word `bakc`", "back"),
    ("paper", "def run():\n  ¦run()", "`run` is the whole program; expected a loop instead: there is no", None),
    ("paper", "def run():\n  move()\ndef ¦move():\n  turnLeft()", "`move` is a built-in name", None),
    ("paper", "def run():\n  move()\ndef ¦main():\n  turnLeft()", "`main` is a built-in name", None),
    ("paper", "def go(): move()\ndef ¦go(): move()\ndef run(): go()", "`go` is defined twice", None),
    ("paper", "def go(¦n): move()\ndef run(): go()", "functions take no arguments", None),
    ("paper", "def run():\n  move()\ndef ¦3():\n  move()", "expected the name of a function", None),
    ("paper", "def run():\n  move() ¦move()", "unexpected `move`; expected `;` or the end of the line", None),
    (
        "paper",
        "def run():\n  repeat(¦20):\n    move()",
        "`20` is not a valid count; expected a number from 0 to 19",
        None,
    ),
    ("paper", "def run():\n  repeat(¦-1):\n    move()", "unexpected `-`; expected a number from 0 to 19", None),
    ("paper", "def run():\n  repeat(¦n):\n    move()", "there are no variables; expected a number", None),
    ("paper", "def run():\n  repeat ¦" + "9" * 5000 + ": move()", "is not a valid count", None),
    ("paper", "def run():\n  ¦n = 4", "there are no variables", None),
    ("paper", "def run():\n  ¦frontIsClear()", "`frontIsClear` is a condition, not an action", None),
    ("paper", "def run():\n  while(¦move): move()", "`move` is an action, not a condition", None),
    ("paper", "def run():\n  while(¦): move()", "unexpected `)`; expected a condition", None),
    ("paper", "def run():\n  ¦put_beeper()", "unknown word `put_beeper`", "putMarker"),
    ("paper", "def run():\n  if(¦front_is_blocked): move()", "unknown word", "not frontIsClear"),
    ("paper", "def run():\n  ¦for i in range(4): move()", "to do something four times, write `repeat(4):`", None),
    ("paper", "def run():\n  ¦'''move()\n  move()", "this quotation mark is never closed", None),
    ("paper", "def run():\n  move()¦\x07", "unexpected character U+0007", None),
    ("paper", "def run():\n  ¦$", "unexpected `$`; expected a statement", None),
    ("stanford", "¦", "the program is empty; expected `def main():`", None),
    ("stanford", "def ¦mian():\n    move()\n", "there is no `main`", "main"),
    ("stanford", "def turn_right():\n    for i in range(3): turn_left()¦", "without a `main`", None),
    ("stanford", "¦move()\ndef main():\n    move()", "`move` is outside any function", None),
    ("stanford", "def main():\n    move()\n¦if front_is_clear():\n    move()", "`if` is outside any function", None),
    ("stanford", "def main():\n    ¦turnLeft()", "unknown word `turnLeft`", "turn_left"),
    ("stanford", "def main():\n    ¦putMarker()", "unknown word `putMarker`", "put_beeper"),
    ("stanford", "def main():\n    ¦trun_left()", "unknown word `trun_left`", "turn_left"),
    ("stanford", "def main():\n    ¦move\n", "expected `()` after `move`", "move()"),
    ("stanford", "def main():\n    while ¦front_is_clear:\n        move()", "expected `()`", "front_is_clear()"),
    ("stanford", "def main():\n    if front_is_clear():\n        move()\n    ¦elif x", "write `else:` with", None),
    ("stanford", "def main():\n    if ¦facing_north():\n        move()", "cannot sense its heading", None),
    ("stanford", "def main():\n    ¦paint_corner(RED)", "no colours", None),
    ("stanford", "def main():\n    while ¦beepers_in_bag():\n        move()", "bag is never empty", None),
    ("stanford", "def main():\n    while ¦True:\n        move()", "there is no `True`", None),
    ("stanford", "def main():\n    while front_is_clear() ¦and beepers_present():\n        move()", "no `and`", None),
    ("stanford", "def main():\n    while front_is_clear():\n        ¦break", "there is no `break`", None),
    ("stanford", "def main():\n    if front_is_clear():\n        ¦pass", "there is no `pass`", None),
    ("stanford", "def main():\n    ¦count = 0", "there are no variables; to do something four times, write `for", None),
    ("stanford", "def main():\n    for i in range(¦25):\n        move()", "`25` is not a valid count; expected", None),
    ("stanford", "def main():\n    for i in range(1¦, 5):\n        move()", "`range` takes one number", None),
    ("stanford", "def main():\n    for i ¦on range(5):\n        move()", "unknown word `on`; expected `in`", None),
    ("stanford", "def main():\n    for i in ¦rnage(5):\n        move()", "expected `range`", "range"),
    ("stanford", "def main():\n    for ¦in range(5):\n        move()", "expected a loop variable", None),
    ("stanford", "def main():\n    ¦repeat(4):\n        move()", "write `for _ in range(4):`", None),
    ("stanford", "def main():\n    ¦def inner():\n        move()", "only possible at the left margin", None),
    ("stanford", "def main():\n    if front_is_clear(): ¦while front_is_clear(): move()", "must begin a line", None),
    ("stanford", "def ¦turn_right():\n    turn_left()\ndef main():\n    move()", "exactly three `turn_left()`", None),
    ("stanford", "def go(¦n):\n    move()\ndef main():\n    go(3)", "take no arguments", None),
    ("stanford", "def go():\n    move()\ndef main():\n    go(¦3)", "`go` takes nothing", None),
    ("stanford", "def go():\n    move()\ndef ¦go():\n    move()\n", "`go` is defined twice", None),
    ("stanford", "def ¦move():\n    turn_left()\n", "`move` is a built-in name", None),
    ("stanford", "def go():\n    move()\n    ¦go()\ndef main():\n    go()", "`go` calls itself", None),
    ("stanford", "def go():\n    ¦main()\ndef main():\n    go()", "`main` is the whole program; expected a loop", None),
    ("stanford", "def turn_around():\n    move()\ndef main():\n    ¦trun_arond()", "unknown word", "turn_around"),
    ("stanford", "from stanfordkarel import¦\n", "the line ends here; expected `*`", None),
    ("stanford", "import ¦random\ndef main():\n    move()", "expected `from stanfordkarel import *`", None),
    ("stanford", "def main():\n    move()\nif __name__ == ¦'main':\n    main()", 'expected `"__main__"`', None),
    ("stanford", "def main():\n  for move in range(3):\n    ¦move()", "Python cannot call a number", None),
    ("stanford", "def main():\n  ¦move()\n  for move in range(3): turn_left()", "`move` is a loop variable", None),
    ("stanford", "def main():\n  for go in range(3):\n    ¦go()\ndef go(): move()", "`go` is a loop variable", None),
    ("stanford", "def main():\n  for range in ¦range(3): move()", "`range` is a loop variable", None),
    ("stanford", "def main():\n  for front_is_clear in range(3):\n    if ¦front_is_clear(): move()", "variable", None),
    ("stanford", "def ¦range():\n    move()\n", "`range` is a built-in name", None),
    ("stanford", "from stanfordkarel import move\ndef main(): move()\n¦run_karel_program()", "NameError; write", None),
    ("stanford", "from stanfordkarel import move\ndef main(): ¦turn_left()\nmain()", "`turn_left` is not", None),
    ("stanford", "def main(): move()\nmain()\n¦main()", "Python would run the program again", None),
    ("stanford", "def main():\n    ¦print('hi')", "`put_beeper`, `for`, `while` or `if`", None),
    ("stanford", "def go():\n    ¦turn()\ndef trun(): move()\ndef main(): go()", "`if` or `trun`", "trun"),
    ("tokens", "¦", "the program ends too early; expected `DEF`", None),
    ("tokens", "DEF run m( ¦turnLfet m)", "unknown word `turnLfet`; expected `move`", "turnLeft"),
    ("tokens", "DEF run m( ¦m)", "unexpected `m)`; expected `move`", None),
    ("tokens", "DEF run m(\n move\n IF c( ¦move c)", "unexpected `move`; expected `markersPresent`", None),
    ("tokens", "DEF run m( REPEAT ¦R=20 r( move r) m)", "expected `R=0` … `R=19`", "R=2"),
    ("tokens", "DEF run m( move m) ¦m)", "nothing may follow", None),
    ("tokens", "DEF run m( move ¦", "the program ends too early", None),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "marked", "reason", "suggestion"), BROKEN)
def test_broken_programs_are_explained(dialect: str, marked: str, reason: str, suggestion: str | None) -> None:
    before, _, after = marked.partition("¦")
    with pytest.raises(ProgramSyntaxError) as caught:
        parse(before + after, dialect)
    error = caught.value
    assert reason in error.reason
    assert (error.line, error.column) == (before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1)
    assert error.suggestion == suggestion


def test_the_message_shows_the_place() -> None:
    with pytest.raises(ProgramSyntaxError) as caught:
        Program.parse("def run():\n\tmove()\n\tturnLfet()  # oops\n")
    first, line, caret, hint = str(caught.value).split("\n")
    assert first.startswith("line 3, column 2: unknown word `turnLfet`; expected a statement: `move`, ")
    assert (line, caret) == ("     turnLfet()  # oops", "     ^^^^^^^^")
    assert hint == "Did you mean `turnLeft`?"


@pytest.mark.parametrize(
    ("before", "shown"),
    [
        ("'\t'; ", 5),
        ("'日本語'; ", 10),  # wide letters
        ("'cafe\u0301'; ", 8),  # a combining accent
        ("'\u3000\xa0'; ", 7),
        ("'\x1b[2J\u202e\x7f'; ", 10),
        ("'" + "語" * 120 + "'; ", 1 + 2 * 47 + 3),  # cut to the neighbourhood, and what is cut is marked
    ],
)
def test_carets_stand_where_the_reader_sees_the_word(before: str, shown: int) -> None:
    with pytest.raises(ProgramSyntaxError) as caught:
        Program.parse(f"def run():\n  move()\n  {before}turnLfet()")
    _, line, caret, _ = str(caught.value).split("\n")
    assert line.isprintable()
    place = line.index("turnLfet")
    assert display_width(line[:place]) == len(caret) - len("turnLfet")
    assert caret.strip() == "^" * len("turnLfet")
    assert display_width(line[:place]) == shown + (4 if "…" in line else 6)


def test_spaces_of_every_width_indent() -> None:
    for space in ("\u3000", "\xa0\xa0", "\u2003 ", "  "):
        assert parse(f"def run():\n{space}move()\n  turnLeft()") == Program((MOVE, LEFT))
        assert parse(f"def run():\n  while{space}frontIsClear:\n  {space}move()") == loop(FRONT)


# Places


@given(programs(), worlds(), st.sampled_from(DIALECTS))
@settings(max_examples=60, deadline=None)
def test_places_are_those_of_the_statements(program: Program, world: World, dialect: str) -> None:
    """Whatever the program: the word at a statement's place is the statement's."""
    text = render(program, dialect)
    places = read_source(text).spans
    assert read_source(text).program == program
    assert set(places) == {at for at, _ in program.walk()}
    lines = text.splitlines()
    for at, statement in program.walk():
        line, column, width = places[at]
        head = lines[line - 1][column - 1 : column - 1 + width]
        alone = render(Program((statement,)), dialect)
        assert head.split("(")[0].split()[0] in alone
        assert not head.endswith(":")
        assert head == head.strip()
    seen: list[int] = []
    run(program, world, observe=lambda tick: seen.append(tick.where))
    assert set(seen) <= set(places)


def test_places_of_helpers_are_in_the_helpers() -> None:
    text = "def main():\n    go()\n    while front_is_clear() :\n        go()\n"
    text += "def go(): move(); turn_left ( )\ndef no(): move()"
    source = read_source(text)
    assert source.program == Program((MOVE, LEFT, While(FRONT, (MOVE, LEFT))))
    move, left = SourceSpan(5, 11, 6), SourceSpan(5, 19, 13)
    assert list(source.spans.values()) == [move, left, SourceSpan(3, 5, 22), move, left]
