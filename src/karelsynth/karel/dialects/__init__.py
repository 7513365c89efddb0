"""The three ways to write a program; they convert into each other without loss.

- `tokens`: the data's tokens, `DEF run m( move m)`
- `paper`: the paper's text, `def run():` and indented lines
- `stanford`: classroom Python, a complete file for the package `stanfordkarel`

The paper's text and classroom Python may have helper functions and comments, and `convert` keeps both. A function is
renamed if its name means something else in the other dialect. Tokens have neither functions nor comments: calls are
replaced by the helpers' statements, and comments are left out. Notes say what has changed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from karelsynth.errors import KarelsynthError, did_you_mean, listed
from karelsynth.karel.dialects import data, paper, stanford
from karelsynth.karel.dialects.indented import Spelling, head_of
from karelsynth.karel.dialects.source import (
    CALL,
    Comment,
    SourceBlock,
    SourceFunction,
    SourcePlace,
    SourceProgram,
    SourceStatement,
)
from karelsynth.karel.dialects.source import SourceSpan as SourceSpan
from karelsynth.karel.tokens import BRACKETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from karelsynth.karel.program import Program

_FORMS: Final[Mapping[str, tuple[Callable[[str], SourceProgram], Callable[[Program], str]]]] = {
    "tokens": (data.read, data.render),
    "paper": (paper.read, paper.render),
    "stanford": (stanford.read, stanford.render),
}
"""Reader and printer of each dialect."""
SPELLINGS: Final[Mapping[str, Spelling]] = {each.dialect: each for each in (paper.SPELLING, stanford.SPELLING)}
"""The words of the dialects that are indented."""
DIALECTS: Final = tuple(_FORMS)


def read_source(text: str, dialect: str | None = None) -> SourceProgram:
    """Read a program with its helpers, comments and places; without `dialect`, it is recognised.

    Raises ProgramSyntaxError.
    """
    read, _ = _form(recognise(text) if dialect is None else dialect)
    return read(text)


def parse(text: str, dialect: str | None = None) -> Program:
    """Read a program; without `dialect`, it is recognised. Raises ProgramSyntaxError."""
    return read_source(text, dialect).program


def render(program: Program, dialect: str) -> str:
    """The program's text in a dialect."""
    _, print_text = _form(dialect)
    return print_text(program)


def _form(dialect: str) -> tuple[Callable[[str], SourceProgram], Callable[[Program], str]]:
    if dialect not in _FORMS:
        hint = did_you_mean(dialect, DIALECTS)
        raise KarelsynthError(f"there is no dialect `{dialect}`; expected {listed(DIALECTS)}{hint}")
    return _FORMS[dialect]


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


_USUAL_VARIABLES: Final = frozenset({"", "_", "i"})
"""Names of loop variables that mean nothing. No note says that they are gone."""


class Conversion(NamedTuple):
    """A program's text in another dialect."""

    text: str
    notes: tuple[str, ...]
    """What could not be kept, one sentence each; empty if nothing is lost."""


def convert(text: str, to: str, dialect: str | None = None) -> Conversion:
    """Write a program in another dialect. Helpers and comments are kept; `notes` says what could not be kept."""
    _form(to)
    source = read_source(text, dialect)
    if to == "tokens":
        return Conversion(data.render(source.program), tuple(_lost_in_tokens(source)))
    names = _new_names(source, to)
    notes = [
        f"the function `{old}` is now `{new}`: `{old}` means something else there"
        for old, new in names.items()
        if old != new and old != source.main
    ]
    if to != "stanford":
        variables = dict.fromkeys(
            statement.place.variable
            for function in source.functions.values()
            for statement in function.walk()
            if statement.place is not None and statement.place.variable not in _USUAL_VARIABLES
        )
        if variables:
            notes.append(f"loop variables have no names there: {listed(variables, 'and')}")
    return Conversion(_Writer(source, to, names).text(), tuple(notes))


def _lost_in_tokens(source: SourceProgram) -> list[str]:
    notes = []
    if source.helpers:
        names, verb = listed(source.helpers, "and"), "is" if len(source.helpers) == 1 else "are"
        notes.append(f"tokens have no functions: {names} {verb} written out at each call")
    if source.comments:
        count = len(source.comments)
        notes.append(f"tokens have no comments: {count} {'is' if count == 1 else 'are'} left out")
    return notes


def _new_names(source: SourceProgram, to: str) -> Mapping[str, str]:
    """The name of every function in the other dialect."""
    spelling = SPELLINGS[to]
    taken = {*spelling.reserved, *(name for each in SPELLINGS.values() for name in (each.main, *each.names))}
    names = {source.main: spelling.main}
    for helper in source.helpers:
        name = helper
        while name in taken or (name != helper and name in source.functions):
            name += "_"
        taken.add(name)
        names[helper] = name
    return names


class _Writer:
    """Writes the functions in the order of the text. `waiting` holds the comments that are not yet written."""

    def __init__(self, source: SourceProgram, to: str, names: Mapping[str, str]) -> None:
        self.source, self.to, self.names = source, to, names
        self.spelling: Spelling = SPELLINGS[to]
        left_out = [function for name, function in source.functions.items() if name not in names]
        self.waiting = [
            _without_quotes(comment) if any(_is_inside(comment, function) for function in left_out) else comment
            for comment in source.comments
        ]
        self.lines: list[str] = []

    def text(self) -> str:
        parts = []
        functions = [each for name, each in self.source.functions.items() if name in self.names]
        for function in functions:
            parts.append(self.function(function))
        self.lines = []
        self.write_comments(lambda comment: True, "")
        parts += [self.lines] if self.lines else []
        if self.to == "stanford":
            turns_right = any(each.keyword == "turnRight" for function in functions for each in function.walk())
            return stanford.complete_file(parts, turns_right=turns_right)
        return "\n\n".join("\n".join(part) for part in parts)

    def function(self, function: SourceFunction) -> list[str]:
        """The lines of a function and of the comments above it."""
        self.lines = []
        first = _place(function.body[0]).span.line
        self.write_line(f"def {self.names[function.name]}():", function.span.line, first, "")
        self.write_block(function.body, 1, self.line_after(function), function.span)
        return self.lines

    def line_after(self, function: SourceFunction) -> int:
        """The first line that is no longer the function's; comments decide by their column."""
        starts = [other.span.line for other in self.source.functions.values() if other.span.line > function.span.line]
        return min(starts, default=len(self.source.lines) + 1)

    def write_comments(self, belongs: Callable[[Comment], bool], margin: str) -> None:
        """Write the waiting comments up to the first that does not belong here, on lines of their own."""
        while self.waiting and belongs(self.waiting[0]):
            self.lines += (margin + self.waiting.pop(0).text).split("\n")

    def write_line(self, text: str, line: int, after: int, margin: str) -> None:
        """Write what begins in a line of the source, and the comments above. `after` is the line of what follows."""
        self.write_comments(lambda comment: comment.line < line, margin)
        if after > line and self.waiting and self.waiting[0].line == line:
            text += f"  {self.waiting.pop(0).text}"
        self.lines.append(margin + text)

    def write_block(self, block: SourceBlock, level: int, end: int, head: SourceSpan) -> None:
        """Write the block of a head, and its comments before line `end`."""
        margin = " " * (self.spelling.indent * level)
        for number, statement in enumerate(block):
            after = end if number + 1 == len(block) else _place(block[number + 1]).span.line
            self.write_statement(statement, level, after, margin)
        first = _place(block[0]).span
        inside = first.column if first.line > head.line else head.column + 1
        self.write_comments(lambda comment: comment.line < end and comment.column >= inside, margin)

    def write_statement(self, statement: SourceStatement, level: int, after: int, margin: str) -> None:
        """Write a statement; `after` is the line of what follows it."""
        if statement.keyword == CALL:
            statement = replace(statement, detail=self.names[str(statement.detail)])
        text, place = head_of(statement, self.spelling), _place(statement)
        head = place.span
        if not statement.blocks:
            self.write_line(text, head.line, after, margin)
        for number, block in enumerate(statement.blocks):
            if number:
                text, head = "else", head._replace(line=place.else_line)
            self.write_line(f"{text}:", head.line, _place(block[0]).span.line, margin)
            end = place.else_line if number == 0 and place.else_line else after
            self.write_block(block, level + 1, end, head)


def _is_inside(comment: Comment, function: SourceFunction) -> bool:
    return function.span.line <= comment.line <= _place(function.body[-1]).last_line


def _without_quotes(comment: Comment) -> Comment:
    """The docstring of a function that is left out, as a `#` comment: nothing that it could describe remains."""
    if comment.text.startswith("#"):
        return comment
    lines = comment.text.lstrip("rRbBuUfF").strip("\"'").strip().splitlines()
    return comment._replace(text="\n".join(f"# {line.strip()}".rstrip() for line in lines))


def _place(statement: SourceStatement) -> SourcePlace:
    assert statement.place is not None
    return statement.place
