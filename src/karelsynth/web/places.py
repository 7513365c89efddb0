"""Reading programs that strangers send: with the place of every statement, and with a limit to how many there are.

The parsers build programs without places, since nothing else needs them. Here they are made to note, for each
statement as they come to it, the words of its head. They come to the statements in the order of `Program.walk`, also
where a classroom program calls a helper: its statements are read again at each call, so a step inside a helper is
shown in the helper. Helpers that call helpers can make a short text a program of millions of statements, so what is
noted is also counted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from karelsynth.karel.dialects import data, paper, recognise, stanford
from karelsynth.karel.dialects.indented import Parser
from karelsynth.karel.program import Action, inner_blocks

if TYPE_CHECKING:
    from karelsynth.karel.dialects.lexer import Word
    from karelsynth.karel.program import Block, Program, Statement


_MOST_STATEMENTS: Final = 10_000
"""Read, in all of a text's functions; those of a helper count at each call."""


class Place(NamedTuple):
    """The first line of a statement, without the colon. `line` and `column` count from 1."""

    line: int
    column: int
    width: int


def parse_with_places(text: str) -> tuple[Program, dict[int, Place]]:
    """Read a program in any dialect; the places of its statements, by the index of their first token.

    Raises ProgramSyntaxError.
    """
    dialect = recognise(text)
    if dialect == "tokens":
        program = data.parse_text(text)
        return program, _places_of_tokens(text, program)
    parser = _PaperParser(text) if dialect == "paper" else _StanfordParser(text)
    program = parser.program()
    starts = [at for at, _ in program.walk()]
    return program, dict(zip(starts, parser.places, strict=True))


def _places_of_tokens(text: str, program: Program) -> dict[int, Place]:
    words = [
        Place(number, match.start() + 1, len(match.group()))
        for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1)
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


class _Noting(Parser):
    """Notes the places of statements while they are read."""

    places: list[Place]
    noted = 0

    def note(self, first: Word, end: int) -> None:
        self.noted += 1
        if self.noted > _MOST_STATEMENTS:
            self.fail(first, f"the program is too long: written out, it has over {_MOST_STATEMENTS:,} statements")
        self.places.append(Place(first.line, first.column, end - first.column))

    def compound(self, begins_line: bool) -> Statement:
        head = self.next
        colon = next((word for word in self.words[self.at :] if word.text == ":"), head)
        self.note(head, colon.column)
        return super().compound(begins_line)

    def simple(self) -> Block:
        word, before = self.next, len(self.places)
        block = super().simple()
        if len(self.places) == before:  # an action; the call of a helper has noted the helper's statements
            last = self.words[self.at - 1]
            self.note(word, last.column + len(last.text))
        return block


class _PaperParser(_Noting, paper._Parser):
    def __init__(self, text: str) -> None:
        self.places = []
        super().__init__(text, paper.SPELLING)


class _StanfordParser(_Noting, stanford._Parser):
    def __init__(self, text: str) -> None:
        self.places = []
        self.in_main: list[Place] = []
        super().__init__(text)

    def definition(self, bodies: dict[str, Block]) -> None:
        name = self.words[self.at + 1].text
        self.places = []
        super().definition(bodies)
        if name == "main":
            self.in_main = self.places

    def program(self) -> Program:
        program = super().program()
        self.places = self.in_main
        return program
