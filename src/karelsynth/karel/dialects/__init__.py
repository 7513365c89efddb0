"""The three ways to write a program; they convert into each other without loss.

- `tokens`: the data's tokens, `DEF run m( move m)`
- `paper`: the paper's text, `def run():` and indented lines
- `stanford`: classroom Python, a complete file for the package `stanfordkarel`
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

from karelsynth.errors import KarelsynthError, listed, nearest
from karelsynth.karel.dialects import data, paper, stanford
from karelsynth.karel.tokens import BRACKETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karelsynth.karel.program import Program

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


def render(program: Program, dialect: str) -> str:
    """The program's text in a dialect."""
    return _of(_PRINTERS, dialect)(program)


def recognise(text: str) -> str:
    """The dialect that a text is written in, or seems to be meant to be written in.

    The heads decide. Where there is none, the words do; where they are of no help, it is the paper's.
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
    only_paper, only_stanford = (names & words for words in _telling_words())
    return "stanford" if len(only_stanford) > len(only_paper) else "paper"


def _imports_stanfordkarel(line: str) -> bool:
    # By the word, not by one expression for the line: that would take time in the square of a long line's length.
    return "stanfordkarel" in line and {"import", "stanfordkarel"} <= set(re.findall(r"\w+", line))


def _telling_words() -> tuple[set[str], set[str]]:
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
