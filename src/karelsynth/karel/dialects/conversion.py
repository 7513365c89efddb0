"""Conversion of a text from one dialect to another, with its helper functions and comments.

Names stay as they are. Where a name means something else in the other dialect, the function gets a new one, and a note
says so. Tokens have no functions and no comments: helpers are written out, comments are left out, and notes say so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from karelsynth.errors import listed
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

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SPELLINGS: Final = {"paper": paper.SPELLING, "stanford": stanford.SPELLING}
_MAIN: Final = {"paper": "run", "stanford": "main"}
_USUAL_VARIABLES: Final = frozenset({"", "_", "i"})
"""Loop variables that say nothing, so that none is missed."""


class Conversion(NamedTuple):
    """A program's text in another dialect."""

    text: str
    notes: tuple[str, ...]
    """What could not be kept, one sentence each; empty if nothing is lost."""


def converted(source: SourceProgram, to: str) -> Conversion:
    """The program in another dialect, `tokens`, `paper` or `stanford`."""
    if to == "tokens":
        return Conversion(data.print_text(source.program), tuple(_lost_in_tokens(source)))
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
            for written in function.body
            for statement in written.walk()
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
    spelling = _SPELLINGS[to]
    taken = {*spelling.actions, *spelling.conditions, *spelling.reason_lacking, *spelling.keywords}
    taken |= {"range", "run_karel_program", "else", "not", *_MAIN.values()}
    names = {source.main: _MAIN[to]}
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
        self.spelling: Spelling = _SPELLINGS[to]
        self.waiting = list(source.comments)
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
            turns_right = any(token == "turnRight" for token in self.source.program.tokens) or any(
                statement.keyword == "turnRight"
                for function in functions
                for written in function.body
                for statement in written.walk()
            )
            return stanford.complete_file(parts, turns_right=turns_right)
        return "\n\n".join("\n".join(part) for part in parts)

    def function(self, function: SourceFunction) -> list[str]:
        """The lines of a function and of the comments above it."""
        self.lines = []
        self.write_comments(lambda comment: comment.line < function.span.line, "")
        self.lines.append(f"def {self.names[function.name]}():")
        self.write_block(function.body, 1, self.line_after(function), function.span.line, function.span.column)
        return self.lines

    def line_after(self, function: SourceFunction) -> int:
        """The first line that is no longer the function's; comments decide by their column."""
        starts = [other.span.line for other in self.source.functions.values() if other.span.line > function.span.line]
        return min(starts, default=len(self.source.lines) + 1)

    def write_comments(self, belongs: Callable[[Comment], bool], margin: str) -> None:
        """Write the waiting comments up to the first that does not belong here, on lines of their own."""
        while self.waiting and belongs(self.waiting[0]):
            self.lines += (margin + self.waiting.pop(0).text).split("\n")

    def write_head(self, line: int, head: str, margin: str, *, last: bool) -> None:
        """Write the first line of a statement; `last` says that no other statement of its line follows."""
        self.write_comments(lambda comment: comment.line < line, margin)
        text = margin + head
        if last and self.waiting and self.waiting[0].line == line:
            text += f"  {self.waiting.pop(0).text}"
        self.lines.append(text)

    def write_block(self, block: SourceBlock, level: int, end: int, head_line: int, column: int) -> None:
        """Write a block whose head is at `head_line` and `column`, and its comments before line `end`."""
        margin = " " * (self.spelling.indent * level)
        first = _place(block[0]).span
        if self.waiting and self.waiting[0].line == head_line and first.line > head_line:
            self.lines[-1] += f"  {self.waiting.pop(0).text}"
        for number, statement in enumerate(block):
            follower = block[number + 1] if number + 1 < len(block) else None
            after = end if follower is None else _place(follower).span.line
            self.write_statement(statement, level, after, margin)
        inside = first.column if first.line > head_line else column + 1
        self.write_comments(lambda comment: comment.line < end and comment.column >= inside, margin)

    def write_statement(self, statement: SourceStatement, level: int, after: int, margin: str) -> None:
        place = _place(statement)
        if statement.keyword == CALL:
            statement = replace(statement, detail=self.names[str(statement.detail)])
        head, line, column = head_of(statement, self.spelling), place.span.line, place.span.column
        if not statement.blocks:
            self.write_head(line, head, margin, last=after > line)
        for number, block in enumerate(statement.blocks):
            if number:
                head, line = "else", place.else_line
            self.write_head(line, f"{head}:", margin, last=False)
            end = place.else_line if number == 0 and place.else_line else after
            self.write_block(block, level + 1, end, line, column)


def _place(statement: SourceStatement) -> SourcePlace:
    assert statement.place is not None
    return statement.place
