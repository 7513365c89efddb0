"""Drawings in the terminal: worlds, and programs that are played."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from rich.console import Console

from karelsynth.karel.draw import run_frames, terminal
from karelsynth.karel.draw.terminal import line_of_token, play, side_by_side, world_text
from karelsynth.karel.program import Action, IfElse, Program, inner_blocks
from tests.drawn import CRASH, ON_MARKERS, ROOM, TIDY
from tests.strategies import programs


def test_world_as_text() -> None:
    assert world_text(ROOM, color=False, unicode=True).plain.splitlines() == [
        "╭────────╮",
        "│1 · ██· │",
        "│· ████· │",
        "│▶ 2 · 10│",
        "╰────────╯",
    ]
    ascii_text = world_text(ON_MARKERS, color=False, unicode=False).plain
    assert ascii_text.splitlines() == ["+----+", "|<+. |", "|####|", "+----+"]
    assert ascii_text.isascii()


def test_colour_adds_styles_and_no_characters() -> None:
    plain, colourful = (world_text(ROOM, color=color, unicode=True) for color in (False, True))
    assert plain.plain == colourful.plain
    assert not [span for span in plain.spans if span.style]
    styles = {colourful.plain[span.start : span.end]: str(span.style) for span in colourful.spans}
    assert (styles["▶ "], styles["2 "]) == (terminal.HERO, terminal.MARKER)
    on_markers = world_text(ON_MARKERS, color=True, unicode=True)
    assert terminal.HERO_ON_MARKERS in [span.style for span in on_markers.spans]


@pytest.mark.parametrize(("encoding", "fits"), [("utf-8", True), ("UTF8", True), ("ascii", False), (None, False)])
def test_encodings(encoding: str | None, fits: bool) -> None:
    assert terminal.supports_unicode(encoding) is fits


def test_side_by_side() -> None:
    pair = [("before", ROOM), ("a long heading", ON_MARKERS)]
    wide = side_by_side(pair, color=False, width=80, unicode=True).plain.splitlines()
    assert wide == [
        "before       a long heading",
        "╭────────╮   ╭────╮",
        "│1 · ██· │   │◀+· │",
        "│· ████· │   │████│",
        "│▶ 2 · 10│   ╰────╯",
        "╰────────╯",
    ]
    narrow = side_by_side(pair, color=False, width=20, unicode=True).plain.splitlines()
    assert len(narrow) == 6 + 1 + 5
    assert max(map(len, narrow)) <= 20


@given(programs())
@settings(max_examples=40, deadline=None)
def test_lines_of_tokens(program: Program) -> None:
    text, lines = program.to("paper").splitlines(), line_of_token(program)
    heads = {"REPEAT": "repeat(", "WHILE": "while(", "IF": "if(", "IFELSE": "ifelse("}
    statements = dict(program.walk())
    assert lines.keys() == statements.keys()
    for at, statement in statements.items():
        token = program.tokens[at]
        assert text[lines[at]].lstrip().startswith(heads.get(token, f"{token}("))
        for offset, _ in inner_blocks(statement):
            indent = len(text[lines[at]]) - len(text[lines[at]].lstrip())
            assert text[lines[at + offset]].startswith(" " * (indent + 2))
    others = sum(isinstance(statement, IfElse) for statement in statements.values())
    assert len(text) == 1 + len(lines) + others


def a_console(*, is_terminal: bool) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=is_terminal, width=70, height=20, color_system=None, legacy_windows=False
    )
    return console, file


def test_play(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    console, file = a_console(is_terminal=True)
    play(CRASH, ROOM, console=console, speed=10)
    assert pauses == [0.6, 0.1, 0.1]
    screens = file.getvalue().split("def run():")
    for remark, marked in [
        ("tick   0  start", None),
        ("tick   1  move", "▶   move()"),
        ("tick   2  turnLeft", "▶   turnLeft()"),
        ("tick   3  crashed: moved into a wall or off the grid", "▶   move()"),
    ]:
        (screen, *_) = [screen for screen in screens if remark in screen]
        assert marked in screen if marked else screen.count("▶") == 1  # the hero


def test_a_long_program_scrolls() -> None:
    console, _ = a_console(is_terminal=True)
    program = Program((Action.TURN_LEFT,) * 40 + (Action.MOVE,))
    stage, frames = terminal._Stage(program, console), run_frames(program, ROOM)
    assert stage.program_text(frames[0]).plain.startswith("  def run():")
    shown = stage.program_text(frames[-2]).plain.splitlines()
    assert shown[-1] == "▶   move()"
    assert len(shown) == 17


def test_stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    console, file = a_console(is_terminal=True)
    with pytest.raises(KeyboardInterrupt):  # whoever plays several runs wants to know
        play(TIDY, ROOM, console=console)
    assert file.getvalue().rstrip("\n").endswith("\x1b[?25h")  # the cursor is back
    assert "tick   0  start" in file.getvalue()


def test_play_into_a_file() -> None:
    console, file = a_console(is_terminal=False)
    play(TIDY, ROOM, console=console)
    assert file.getvalue().splitlines() == [
        "start        end",
        "╭────────╮   ╭────────╮",
        "│1 · ██· │   │1 · ██▲ │",
        "│· ████· │   │· ████· │",
        "│▶ 2 · 10│   │· 1 · 9 │",
        "╰────────╯   ╰────────╯",
        "finished after 17 ticks",
    ]
