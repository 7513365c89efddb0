"""The three ways to write a program; they convert into each other without loss.

- `tokens`: the data's tokens, `DEF run m( move m)`
- `paper`: the paper's text, `def run():` and indented lines
- `stanford`: classroom Python, a complete file for the package `stanfordkarel`
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from karelsynth.errors import KarelsynthError, listed, nearest
from karelsynth.karel.dialects import data, paper, stanford
from karelsynth.karel.dialects.indented import lines_of
from karelsynth.karel.program import Action, inner_blocks
from karelsynth.karel.tokens import BRACKETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karelsynth.karel.dialects.indented import Word
    from karelsynth.karel.program import Program, Statement

_PARSERS: Final[Mapping[str, Callable[[str], Program]]] = {
    "tokens": data.parse_text,
    "paper": paper.parse,
    "stanford": stanford.parse,
}
_PRINTERS: Final[Mapping[str, Callable[[Program], str]]] = {
    "tokens": data.print_text,
    "paper": paper.render,
    "stanford": stanford.render,
}
DIALECTS: Final = tuple(_PARSERS)

_T = TypeVar("_T")


def parse(text: str, dialect: str | None = None) -> Program:
    """Read a program; without `dialect`, it is recognised. Raises ProgramSyntaxError."""
    return _of(_PARSERS, recognise(text) if dialect is None else dialect)(text)


class SourceSpan(NamedTuple):
    """The first line of a statement in the text, without the colon. `line` and `column` count from 1."""

    line: int
    column: int
    width: int


def parse_with_spans(text: str, dialect: str | None = None) -> tuple[Program, dict[int, SourceSpan]]:
    """Read a program, with the span of each statement by the index of the statement's first token.

    A call of a helper function is replaced by the helper's statements. Their spans are in the helper.
    Raises ProgramSyntaxError.
    """
    dialect = dialect or recognise(text)
    if dialect == "tokens":
        program = data.parse_text(text)
        return program, _token_spans(text, program)
    spans: list[SourceSpan] = []

    def note(first: Word, last: Word) -> None:
        spans.append(SourceSpan(first.line, first.column, last.column + len(last.text) - first.column))

    program = (paper if dialect == "paper" else stanford).parse(text, note)
    return program, {at: span for (at, _), span in zip(program.walk(), spans, strict=True)}


def _token_spans(text: str, program: Program) -> dict[int, SourceSpan]:
    words = [
        SourceSpan(number, match.start() + 1, len(match.group()))
        for number, line in enumerate(lines_of(text), 1)
        for match in re.finditer(r"\S+", line)
    ]
    spans = {}
    for at, statement in program.walk():
        first, last = words[at], words[at + _head_size(statement) - 1]
        width = last.column + last.width - first.column if last.line == first.line else first.width
        spans[at] = first._replace(width=width)
    return spans


def _head_size(statement: Statement) -> int:
    """The number of tokens before the bracket that opens the first block."""
    return 1 if isinstance(statement, Action) else inner_blocks(statement)[0][0] - 1


def render(program: Program, dialect: str) -> str:
    """The program's text in a dialect."""
    return _of(_PRINTERS, dialect)(program)


def recognise(text: str) -> str:
    """The dialect of a text, also of one with mistakes.

    The head of the program decides. A text without a head is judged by its words, and if they do not decide either, it
    counts as the paper's.
    """
    code = re.sub(r"#.*", "", text)
    if re.search(r"\bdef\s+main\b", code) or any(map(_imports_stanfordkarel, code.splitlines())):
        return "stanford"
    if re.search(r"\bdef\s+run\s*[(:]", code):
        return "paper"
    words = code.removeprefix("\ufeff").split()
    if words[:2] == ["DEF", "run"] or not set(words).isdisjoint(BRACKETS):
        return "tokens"
    names = set(re.findall(r"\w+", code))
    only_paper, only_stanford = (names & words for words in _distinctive_words())
    return "stanford" if len(only_stanford) > len(only_paper) else "paper"


def _imports_stanfordkarel(line: str) -> bool:
    # Word by word: one regular expression for the line would take quadratic time.
    return "stanfordkarel" in line and {"import", "stanfordkarel"} <= set(re.findall(r"\w+", line))


def _distinctive_words() -> tuple[set[str], set[str]]:
    """The words that only the paper's text has, and those that only classroom Python has."""
    one, other = (
        {*spelling.actions, *spelling.conditions, *spelling.keywords}
        for spelling in (paper.SPELLING, stanford.SPELLING)
    )
    return one - other, other - one


def _of(table: Mapping[str, _T], dialect: str) -> _T:
    if dialect not in table:
        close = nearest(dialect, DIALECTS)
        hint = f"; did you mean `{close}`?" if close else ""
        raise KarelsynthError(f"there is no dialect `{dialect}`; expected {listed(DIALECTS)}{hint}")
    return table[dialect]
