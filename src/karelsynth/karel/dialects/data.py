"""The data's tokens: `DEF run m( move WHILE c( frontIsClear c) w( move w) m)`.

Reader and writer follow the grammar's rules and know no statement by name. The parts of an alternative become, in
order, the fields of the node that its first token names.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate
from operator import index
from typing import TYPE_CHECKING, Any, Final, NoReturn

from karelsynth.errors import KarelsynthError, ProgramSyntaxError, listed, nearest, quoted
from karelsynth.karel.dialects.indented import lines_of
from karelsynth.karel.dialects.source import (
    SourceBlock,
    SourceFunction,
    SourcePlace,
    SourceProgram,
    SourceSpan,
    source_statement,
)
from karelsynth.karel.grammar import BLOCK, KAREL
from karelsynth.karel.program import (
    BODY_AT,
    COMPOSITES,
    DEEPEST,
    TOO_DEEP,
    Action,
    Block,
    Part,
    Program,
    Sensor,
    inner_blocks,
)
from karelsynth.karel.tokens import ACTIONS, COUNTS, PAD, SENSORS, TOKENS, token_name

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAIN: Final = "run"
_ALTERNATIVES: Final = {
    rule: {alternative[0]: alternative for alternative in alternatives} for rule, alternatives in KAREL.rules.items()
}


def read(text: str) -> SourceProgram:
    """Read tokens as a text with places."""
    program, lines = parse_text(text), lines_of(text)
    words = [SourceSpan(line, column, len(word)) for word, line, column in _words_of(lines)]
    body = _placed(program.body, BODY_AT, words)
    functions = {_MAIN: SourceFunction(_MAIN, body, words[0])}
    return SourceProgram(text, "tokens", tuple(lines), _MAIN, functions)


def _placed(block: Block, at: int, words: list[SourceSpan]) -> SourceBlock:
    """The statements of a block with the places of their words; the block's first token is words[at]."""
    found = []
    for statement in block:
        inner = inner_blocks(statement)
        first, last = words[at], words[at + (inner[0][0] - 2 if inner else 0)]
        width = last.column + last.width - first.column if last.line == first.line else first.width
        blocks = tuple(_placed(body, at + offset, words) for offset, body in inner)
        written, end = source_statement(statement), words[at + statement.size - 1].line
        found.append(replace(written, blocks=blocks, place=SourcePlace(first._replace(width=width), end)))
        at += statement.size
    return tuple(found)


def parse_text(text: str) -> Program:
    """Read a program written as tokens with white space between them."""
    return _Reader.of_text(text).program()


def parse_tokens(tokens: Sequence[str] | Sequence[int]) -> Program:
    """Read a program from token names or ids; padding after the end is ignored."""
    names = [token if isinstance(token, str) else _name(token) for token in tokens]
    while names and names[-1] == TOKENS[PAD]:
        names.pop()
    words = " ".join(names).split()
    columns = accumulate((len(word) + 1 for word in words), initial=1)
    places = [(word, 1, column) for word, column in zip(words, columns, strict=False)]
    return _Reader(places, [" ".join(words)]).program()


def _name(token: Any) -> str:
    try:
        return token_name(index(token))
    except TypeError:
        raise KarelsynthError(f"a token is a name or a whole number, not {quoted(repr(token))}") from None


def print_tokens(program: Program) -> tuple[str, ...]:
    """The program's tokens, from `DEF` to `m)`."""
    names: list[str] = []
    for symbol in KAREL.rules["program"][0]:
        _emit(program.body if symbol == BLOCK else symbol, names)
    return tuple(names)


def print_text(program: Program) -> str:
    """The program's tokens on one line."""
    return " ".join(program.tokens)


def _emit(item: str | Part, names: list[str]) -> None:
    if isinstance(item, tuple):
        for statement in item:
            _emit(statement, names)
    elif isinstance(item, str):
        names.append(item)
    elif isinstance(item, int):
        names.append(COUNTS[item])
    elif isinstance(item, Action | Sensor):
        names.append(item.value)
    else:
        for _, part in item.layout:
            _emit(part, names)


def _leaf(token: str) -> Part:
    if token in ACTIONS:
        return Action(token)
    return Sensor(token) if token in SENSORS else COUNTS.index(token)


def _words_of(lines: Sequence[str]) -> list[tuple[str, int, int]]:
    """The words of a text, each with its line and column, which count from 1."""
    return [
        (match.group(), number, match.start() + 1)
        for number, line in enumerate(lines, 1)
        for match in re.finditer(r"\S+", line)
    ]


class _Reader:
    """A predictive parser over the grammar's rules."""

    def __init__(self, words: list[tuple[str, int, int]], lines: list[str]) -> None:
        self.words, self.lines, self.at, self.depth = words, lines, 0, 0

    @classmethod
    def of_text(cls, text: str) -> _Reader:
        lines = lines_of(text)
        return cls(_words_of(lines), lines)

    def program(self) -> Program:
        (body,) = self.sequence(KAREL.rules["program"][0])
        if self.at < len(self.words):
            self.fail("the program has ended, so nothing may follow")
        assert isinstance(body, tuple)
        return Program(body)

    def peek(self) -> str | None:
        return self.words[self.at][0] if self.at < len(self.words) else None

    def sequence(self, symbols: Sequence[str]) -> list[Part]:
        """Read an alternative; return its parts."""
        parts: list[Part] = []
        for place, symbol in enumerate(symbols):
            if symbol == BLOCK:
                closing = symbols[place + 1]
                statements = [self.rule("statement")]
                while self.peek() != closing:
                    statements.append(self.rule("statement", closing))
                parts.append(tuple(statements))  # type: ignore[arg-type]
            elif symbol in KAREL.rules:
                parts.append(self.rule(symbol))
            elif self.peek() == symbol:
                self.at += 1
            else:
                self.expected([symbol])
        return parts

    def rule(self, name: str, *instead: str) -> Part:
        """Read one of a rule's alternatives. `instead` names other possible tokens, for the error message."""
        first = self.peek()
        if first is None or first not in _ALTERNATIVES[name]:
            self.expected([*_ALTERNATIVES[name], *instead])
        if first not in COMPOSITES:
            self.at += 1
            return _leaf(first)
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(TOO_DEEP)
        parts = self.sequence(_ALTERNATIVES[name][first])
        self.depth -= 1
        return COMPOSITES[first](*parts)  # type: ignore[return-value]

    def expected(self, choices: list[str]) -> NoReturn:
        shown = [choice for choice in choices if choice not in COUNTS]
        if len(shown) < len(choices):
            shown.append(f"{COUNTS[0]}` … `{COUNTS[-1]}")
        word = self.peek()
        if word is None:
            self.fail(f"the program ends too early; expected {listed(shown)}")
        unknown = word not in TOKENS
        self.fail(
            f"{'unknown word' if unknown else 'unexpected'} `{word}`; expected {listed(shown)}",
            nearest(word, choices if nearest(word, choices) else TOKENS) if unknown else None,
        )

    def fail(self, reason: str, suggestion: str | None = None) -> NoReturn:
        if self.at < len(self.words):
            word, line, column = self.words[self.at]
            width = len(word)
        elif self.words:
            word, line, column = self.words[-1]
            column, width = column + len(word) + 1, 1
        else:
            line, column, width = 1, 1, 1
        source = self.lines[line - 1] if self.lines else ""
        raise ProgramSyntaxError(
            reason, line=line, column=column, source_line=source, suggestion=suggestion, width=width
        )
