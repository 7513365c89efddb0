"""The data's tokens: `DEF run m( move WHILE c( frontIsClear c) w( move w) m)`.

Reader and writer follow the grammar's rules and know no statement by name. The parts of an alternative become, in
order, the fields of the node that its first token names.
"""

from __future__ import annotations

import re
from operator import index
from typing import TYPE_CHECKING, Any, Final, NoReturn

from karelsynth.errors import KarelsynthError, ProgramSyntaxError, listed, nearest, quoted
from karelsynth.karel.dialects.indented import lines_of
from karelsynth.karel.dialects.source import (
    SourceFunction,
    SourcePlace,
    SourceProgram,
    SourceSpan,
    source_block,
)
from karelsynth.karel.grammar import BLOCK, KAREL
from karelsynth.karel.program import (
    COMPOSITES,
    DEEPEST,
    TOO_DEEP,
    Action,
    Part,
    Program,
    Sensor,
    Statement,
    inner_blocks,
)
from karelsynth.karel.tokens import ACTIONS, COUNTS, PAD, SENSORS, TOKENS, token_name

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAIN: Final = "run"


def read(text: str) -> SourceProgram:
    """Read tokens with white space between them, as a text with places."""
    lines = lines_of(text)
    program, spans = _Reader(re.findall(r"\S+", "\n".join(lines)), lines).program(), _spans_of(lines)

    def place_of(at: int, statement: Statement) -> SourcePlace:
        inner = inner_blocks(statement)
        first, last = spans[at], spans[at + (inner[0][0] - 2 if inner else 0)]
        width = last.column + last.width - first.column if last.line == first.line else first.width
        return SourcePlace(first._replace(width=width), spans[at + statement.size - 1].line)

    functions = {_MAIN: SourceFunction(_MAIN, source_block(program.body, place_of), spans[0])}
    return SourceProgram(text, "tokens", tuple(lines), _MAIN, functions)


def parse_tokens(tokens: Sequence[str] | Sequence[int]) -> Program:
    """Read a program from token names or ids; padding after the end is ignored."""
    names = [token if isinstance(token, str) else _name(token) for token in tokens]
    while names and names[-1] == TOKENS[PAD]:
        names.pop()
    words = " ".join(names).split()
    return _Reader(words, [" ".join(words)]).program()


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


def render(program: Program) -> str:
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


def _spans_of(lines: Sequence[str]) -> list[SourceSpan]:
    """The places of the words of a text. Each word is a token, so both have the same indices."""
    return [
        SourceSpan(number, match.start() + 1, match.end() - match.start())
        for number, line in enumerate(lines, 1)
        for match in re.finditer(r"\S+", line)
    ]


class _Reader:
    """A predictive parser over the grammar's rules. `lines` are the lines of the text, for messages."""

    def __init__(self, words: Sequence[str], lines: Sequence[str]) -> None:
        self.words, self.lines, self.at, self.depth = words, lines, 0, 0

    def program(self) -> Program:
        (body,) = self.sequence(KAREL.rules["program"][0])
        if self.at < len(self.words):
            self.fail("the program has ended, so nothing may follow")
        assert isinstance(body, tuple)
        return Program(body)

    def peek(self) -> str | None:
        return self.words[self.at] if self.at < len(self.words) else None

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
        if first is None or first not in KAREL.alternatives[name]:
            self.expected([*KAREL.alternatives[name], *instead])
        if first not in COMPOSITES:
            self.at += 1
            return _leaf(first)
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(TOO_DEEP)
        parts = self.sequence(KAREL.alternatives[name][first])
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
        spans = _spans_of(self.lines)
        if self.at < len(spans):
            line, column, width = spans[self.at]
        elif spans:
            line, column, width = spans[-1]._replace(column=spans[-1].column + spans[-1].width + 1, width=1)
        else:
            line, column, width = 1, 1, 1
        source = self.lines[line - 1] if self.lines else ""
        raise ProgramSyntaxError(
            reason, line=line, column=column, source_line=source, suggestion=suggestion, width=width
        )
