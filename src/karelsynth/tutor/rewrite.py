"""Changes in a student's own text: lines that do not change stay as they are, with their comments.

`rewritten` writes changed functions into a text. A statement that is kept is copied with its lines. Only the heads that
change, and new statements, are written anew, in the text's own indentation.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from karelsynth.errors import ProgramSyntaxError
from karelsynth.karel.dialects import SPELLINGS, read_source, render
from karelsynth.karel.dialects.indented import head_of, lines_of, source_lines
from karelsynth.karel.dialects.source import SourceBlock, SourceProgram, SourceStatement
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import OPENERS

_TURN_RIGHT: Final = ("def turn_right():", "    for _ in range(3):", "        turn_left()")


def rewritten(source: SourceProgram, changed: Mapping[str, SourceBlock], program: Program) -> str:
    """The text with changed functions. `program` is what the new text must mean; it is checked by reading the text."""
    if source.dialect != "tokens":
        text = _Rewriter(source, changed).text()
        try:
            if read_source(text, source.dialect).program == program:
                return text
        except ProgramSyntaxError:  # a text that is too unusual to be changed in place
            pass
    return render(program, source.dialect)


@dataclass
class _Rewriter:
    source: SourceProgram
    changed: Mapping[str, SourceBlock]
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spelling = SPELLINGS[self.source.dialect]
        self.originals: dict[int, SourceStatement] = {}
        self.starting: dict[int, list[SourceStatement | None]] = {}
        """The statements that begin in each line; None for the head of a function."""
        self.heads: set[int] = set()
        """The lines of heads and of `else`."""
        for function in self.source.functions.values():
            self.starting.setdefault(function.span.line, []).append(None)
            for written in function.body:
                for statement in written.walk():
                    assert statement.place is not None
                    self.originals[id(statement.place)] = statement
                    self.starting.setdefault(statement.place.span.line, []).append(statement)
                    self.heads |= {statement.place.span.line, statement.place.else_line}
        self.done: set[int] = set()
        """The lines of statements in the old text that have been written or replaced."""
        self.above: dict[int, list[int]] = {}
        """The comments and blank lines that go above each line of a statement that stays."""
        self.unit = self._unit()

    def _unit(self) -> str:
        """One level of indentation, as the text has it."""
        for function in self.source.functions.values():
            margin, outer = self.margin_of(function.body[0]), self.margin(function.span.line)
            if margin is not None and margin != outer and margin.startswith(outer):
                return margin[len(outer) :]
        return " " * self.spelling.indent

    def text(self) -> str:
        old = self.source.lines
        out: list[str] = []
        at = 0  # lines of the old text that are in `out`
        functions = sorted(self.source.functions.values(), key=lambda function: function.span.line)
        for function in functions:
            if function.name not in self.changed:
                continue
            last = max((each.place.last_line for each in function.body if each.place is not None), default=0)
            head = function.span.line
            out += old[at : head - 1]
            line = old[head - 1]
            margin = self.margin_of(function.body[0])
            if margin is None:  # the body begins in the line of its head
                margin = self.margin(head) + self.unit
                end = function.span.column - 1 + function.span.width
                line = line[:end] + ":" + self.comment_of(head)
            out.append(line)
            self.lines, self.done = [], {head}
            self.assign_comments(head, last, self.changed[function.name])
            self.flush(head, margin)
            self.write_block(self.changed[function.name], margin)
            self.flush(last + 1, margin)
            out += self.lines
            at = last
        out += old[at:]
        return "\n".join(self._with_turn_right(out))

    def _with_turn_right(self, lines: list[str]) -> list[str]:
        """Classroom Python has no right turn: the first one needs a function."""
        source = self.source
        uses = any(
            statement.keyword == "turnRight"
            for block in self.changed.values()
            for written in block
            for statement in written.walk()
        )
        if not uses or source.dialect != "stanford" or "turn_right" in source.functions:
            return lines
        if "turnRight" in source.program.tokens:  # without a function before, too
            return lines
        first = min(function.span.line for function in source.functions.values()) - 1
        while first > 0 and lines[first - 1].lstrip().startswith("#"):
            first -= 1
        return [*lines[:first], *_TURN_RIGHT, "", "", *lines[first:]]

    # Lines of the old text

    def margin(self, line: int) -> str:
        text = self.source.lines[line - 1]
        return text[: len(text) - len(text.lstrip())]

    def margin_of(self, statement: SourceStatement) -> str | None:
        """The indentation of a statement; None if it is new or does not begin its line."""
        if statement.place is None:
            return None
        line = statement.place.span.line
        margin = self.margin(line)
        return margin if len(margin) == statement.place.span.column - 1 else None

    def comment_of(self, line: int) -> str:
        """The comment at the end of a line, with two spaces before it."""
        found = [comment.text for comment in self.source.comments if comment.line == line and not comment.alone]
        return "".join(f"  {text}" for text in found[:1])

    def assign_comments(self, head: int, last: int, block: SourceBlock) -> None:
        """Find out where the comments and blank lines of a function go.

        They stay above the statement that they were above; if it is removed, they go above the next one that stays. A
        docstring stays below the head.
        """
        places = [inner.place for each in block for inner in each.walk() if inner.place is not None]
        stays = {line for place in places for line in (place.span.line, place.else_line)}
        docstrings = {comment.line for comment in self.source.comments if not comment.text.startswith("#")}
        start = head + 1
        if start in docstrings:
            start = next((line for line in range(start, last + 1) if line in self.heads), last + 1)
        self.above = {head: list(range(head + 1, start))}
        waiting: list[int] = []
        for line in range(start, last + 1):
            if line not in self.heads:
                waiting.append(line)
            elif line in stays:
                self.above[line], waiting = waiting, []
        self.above[last + 1] = waiting

    def flush(self, line: int, margin: str) -> None:
        """Write the comments and blank lines that go above a line."""
        for above in self.above.pop(line, ()):
            text = self.source.lines[above - 1]
            self.lines.append(text if not text.strip() else self.moved(text, self.margin(above), margin))

    @staticmethod
    def moved(text: str, old: str, new: str) -> str:
        return new + text[len(old) :] if text.startswith(old) else text

    # New lines

    def write_block(self, block: SourceBlock, margin: str) -> None:
        at = 0
        while at < len(block):
            group = self.whole_lines(block, at)
            if group:
                self.write_copy(block[at : at + group], margin)
                at += group
            else:
                self.write_changed(block[at], margin)
                at += 1

    def whole_lines(self, block: SourceBlock, at: int) -> int:
        """How many statements from `at` on are unchanged and have all their lines to themselves; 0 for none."""
        group: set[int] = set()
        for number in range(at, len(block)):
            statement = block[number]
            place = statement.place
            if place is None or self.originals.get(id(place)) is not statement:
                return 0
            group |= {id(inner) for inner in statement.walk()}
            first = block[at].place
            assert first is not None
            lines = range(first.span.line, place.last_line + 1)
            others = [id(each) for line in lines for each in self.starting.get(line, ())]
            if self.margin_of(block[at]) is not None and all(other in group for other in others):
                return number - at + 1
            if number + 1 < len(block):
                follower = block[number + 1].place
                if follower is None or follower.span.line != place.last_line:
                    return 0
        return 0

    def write_copy(self, statements: Sequence[SourceStatement], margin: str) -> None:
        """Copy the lines of statements, indented as needed."""
        first, last = statements[0].place, statements[-1].place
        assert first is not None
        assert last is not None
        self.flush(first.span.line, margin)
        old = self.margin(first.span.line)
        for line in range(first.span.line, last.last_line + 1):
            self.done.add(line)
            self.lines.append(self.moved(self.source.lines[line - 1], old, margin))

    def write_changed(self, statement: SourceStatement, margin: str) -> None:
        """Write a statement that is new, has changed, or shares its lines with others."""
        place = statement.place
        head = head_of(statement, self.spelling)
        colon = ":" if statement.blocks else ""
        if place is None:
            self.lines.append(f"{margin}{head}{colon}")
        else:
            line = place.span.line
            self.flush(line, margin)
            first = line not in self.done
            self.done.add(line)
            old, text = self.originals[id(place)], self.source.lines[line - 1]
            alone = len(self.starting[line]) == 1 and self.margin_of(statement) is not None
            if alone and bool(old.blocks) == bool(statement.blocks):
                if (old.keyword, old.detail) != (statement.keyword, statement.detail):
                    start = place.span.column - 1
                    text = text[:start] + head + text[start + place.span.width :]
                self.lines.append(self.moved(text, self.margin(line), margin))
            else:
                self.lines.append(f"{margin}{head}{colon}{self.comment_of(line) if first else ''}")
        for number, block in enumerate(statement.blocks):
            if number:
                self.write_else(statement, margin)
            self.write_block(block, self.inner_margin(block, margin))

    def write_else(self, statement: SourceStatement, margin: str) -> None:
        line = 0 if statement.place is None else statement.place.else_line
        text = self.source.lines[line - 1] if line else ""
        if line:
            self.flush(line, margin + self.unit)
            self.done.add(line)
        if line and line not in self.starting:
            self.lines.append(self.moved(text, self.margin(line), margin))
        else:
            self.lines.append(f"{margin}else:{self.comment_of(line) if line else ''}")

    def inner_margin(self, block: SourceBlock, margin: str) -> str:
        """The indentation of a block: that of its old statements, if they are inside this margin."""
        for statement in block:
            old = self.margin_of(statement)
            if old is not None and old.startswith(margin) and old != margin:
                inside = self.originals.get(id(statement.place)) is statement
                if inside:
                    return old
        return margin + self.unit


def changed_lines(old: str, new: str) -> list[str]:
    """The change as lines that begin with `-`, `+` or a space, with two lines around each change."""
    before, after = (lines_of(text.rstrip("\r\n")) for text in (old, new))
    found = difflib.unified_diff(before, after, lineterm="", n=2)
    return list(found)[2:]


def fragment(statement: SourceStatement, dialect: str, text: Sequence[str] = ()) -> str:
    """A statement on one line, for sentences: its head, or all of it if one action is inside.

    A statement that is in `text`, the student's lines, is quoted as it is there.
    """
    if dialect == "tokens":
        return _token_fragment(statement)
    lines = [line.strip() for line in source_lines((statement,), SPELLINGS[dialect], 0)]
    parts = [statement, *(statement.blocks[0] if len(lines) == 2 else ())]
    for number, place in enumerate(part.place for part in parts):
        if text and place is not None:
            start = place.span.column - 1
            own = text[place.span.line - 1][start : start + place.span.width]
            lines[number] = own + ":" * lines[number].endswith(":")
    return " ".join(lines) if len(lines) <= 2 else lines[0].removesuffix(":")


def _token_fragment(statement: SourceStatement) -> str:
    if not statement.blocks:
        return statement.keyword
    inside = statement.blocks[0] if len(statement.blocks) == 1 else ()
    is_short = len(inside) == 1 and not inside[0].blocks
    body = inside if is_short else (SourceStatement("move"),)
    written = SourceStatement(statement.keyword, statement.detail, (body,) * (1 + (statement.keyword == "IFELSE")))
    text = "\n".join(["def run():", *source_lines((written,), SPELLINGS["paper"], 1)])
    words = Program.parse(text, "paper").tokens[3:-1]
    return " ".join(words if is_short else takewhile(lambda word: word not in OPENERS, words))
