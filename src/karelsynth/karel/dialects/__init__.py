"""The three ways to write a program; they convert into each other without loss.

- `tokens`: the data's tokens, `DEF run m( move m)`
- `paper`: the paper's text, `def run():` and indented lines
- `stanford`: classroom Python, a complete file for the package `stanfordkarel`

The paper's text and classroom Python may have helper functions and comments, and `convert` keeps both. Tokens have
neither.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

from karelsynth.errors import KarelsynthError, listed, nearest
from karelsynth.karel.dialects import data, paper, stanford
from karelsynth.karel.dialects.conversion import Conversion, converted
from karelsynth.karel.dialects.indented import Spelling
from karelsynth.karel.dialects.source import SourceProgram
from karelsynth.karel.dialects.source import SourceSpan as SourceSpan
from karelsynth.karel.tokens import BRACKETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karelsynth.karel.program import Program

_READERS: Final[Mapping[str, Callable[[str], SourceProgram]]] = {
    "tokens": data.read,
    "paper": paper.read,
    "stanford": stanford.read,
}
_PRINTERS: Final[Mapping[str, Callable[[Program], str]]] = {
    "tokens": data.print_text,
    "paper": paper.render,
    "stanford": stanford.render,
}
SPELLINGS: Final[Mapping[str, Spelling]] = {"paper": paper.SPELLING, "stanford": stanford.SPELLING}
"""The words of the dialects that are indented."""
DIALECTS: Final = tuple(_READERS)

_T = TypeVar("_T")


def read_source(text: str, dialect: str | None = None) -> SourceProgram:
    """Read a program with its helpers, comments and places; without `dialect`, it is recognised.

    Raises ProgramSyntaxError.
    """
    return _of(_READERS, recognise(text) if dialect is None else dialect)(text)


def parse(text: str, dialect: str | None = None) -> Program:
    """Read a program; without `dialect`, it is recognised. Raises ProgramSyntaxError."""
    return read_source(text, dialect).program


def parse_with_spans(text: str, dialect: str | None = None) -> tuple[Program, dict[int, SourceSpan]]:
    """Read a program, with the span of each statement by the index of the statement's first token.

    A call of a helper function is replaced by the helper's statements. Their spans are in the helper.
    Raises ProgramSyntaxError.
    """
    source = read_source(text, dialect)
    return source.program, source.spans


def convert(text: str, to: str, dialect: str | None = None) -> Conversion:
    """Write a program in another dialect. Helpers and comments are kept; `notes` says what could not be kept."""
    _of(_PRINTERS, to)
    return converted(read_source(text, dialect), to)


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
