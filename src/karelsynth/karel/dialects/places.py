"""Reading a program together with the places of its statements in the text.

Programs themselves hold no places, since little needs them: who shows a run in the text, statement by statement. Where
a classroom program calls a helper, the helper's statements are written out in the call's place, so a step inside a
helper is shown in the helper.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from karelsynth.karel.dialects import data, paper, recognise, stanford
from karelsynth.karel.dialects.lexer import lines_of
from karelsynth.karel.program import Action, inner_blocks

if TYPE_CHECKING:
    from karelsynth.karel.dialects.lexer import Word
    from karelsynth.karel.program import Program, Statement


class Place(NamedTuple):
    """The first line of a statement, without the colon. `line` and `column` count from 1."""

    line: int
    column: int
    width: int


def parse_with_places(text: str, dialect: str | None = None) -> tuple[Program, dict[int, Place]]:
    """Read a program in any dialect; the places of its statements, by the index of their first token.

    Raises ProgramSyntaxError.
    """
    dialect = dialect or recognise(text)
    if dialect == "tokens":
        program = data.parse_text(text)
        return program, _places_of_tokens(text, program)
    places: list[Place] = []

    def note(first: Word, last: Word) -> None:
        places.append(Place(first.line, first.column, last.column + len(last.text) - first.column))

    program = (paper if dialect == "paper" else stanford).parse(text, note)
    return program, {at: place for (at, _), place in zip(program.walk(), places, strict=True)}


def _places_of_tokens(text: str, program: Program) -> dict[int, Place]:
    words = [
        Place(number, match.start() + 1, len(match.group()))
        for number, line in enumerate(lines_of(text), 1)
        for match in re.finditer(r"\S+", line)
    ]
    places = {}
    for at, statement in program.walk():
        first, last = words[at], words[at + _head_size(statement) - 1]
        width = last.column + last.width - first.column if last.line == first.line else first.width
        places[at] = first._replace(width=width)
    return places


def _head_size(statement: Statement) -> int:
    """The number of tokens before the bracket that opens the first block."""
    return 1 if isinstance(statement, Action) else inner_blocks(statement)[0][0] - 1
