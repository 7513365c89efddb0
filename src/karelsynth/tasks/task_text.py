"""Tasks as people type them.

    name: Clean the row
    about: Karel walks to the wall and takes every marker on the way.

    input:                 example 2:
    . . . .                . . .     . . .
    > 1 . 2                > . 1 ->  . . >

    output:
    . . . .
    . . . >

A text task (two columns above only to save room) is a list of headings. Under `input:` and `output:` is a drawing as
`World.parse` reads it, and a pair of them is an example; under `example:` the two are drawn side by side, `->` between
them on at least one line. Numbers after headings, upper case and blank lines are as you like. `name:` and `about:` may
be left out; what they say may run on over several lines. There are no comments, for `#` is a wall: use `about:`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from karelsynth.errors import TaskFileError, WorldError, listed, nearest
from karelsynth.karel.world import World, quoted
from karelsynth.tasks.task import MOST_EXAMPLES, Example, Task

_HEADINGS: Final = ("name", "about", "input", "output", "example")
_SYNONYMS: Final = {"before": "input", "after": "output", "in": "input", "out": "output", "title": "name",
                    "description": "about", "pair": "example", "task": "name"}  # fmt: skip
_ARROWS: Final = ("->", "=>", "→")
_WIDTH: Final = 100
_HOW: Final = "a task is `input:` and a drawing, then `output:` and a drawing, once for each example"


@dataclass(frozen=True)
class _Section:
    """A heading and what follows it, the rest of its own line first."""

    heading: str
    number: str
    """As written after the heading, or empty."""
    line: int
    """Of the heading, from 1."""
    lines: list[str]

    @property
    def paragraph(self) -> str:
        return " ".join(" ".join(self.lines).split())

    def world(self, which: str, lines: Iterable[str]) -> World:
        """The world drawn in these lines; empty ones before them make its errors count as an editor does."""
        try:
            return World.parse("\n" * (self.line - 1) + "\n".join(lines))
        except WorldError as error:
            raise TaskFileError(f"the {which} at line {self.line}: {error}") from None


def parse_task(text: str, where: str = "") -> Task:
    """Read a text task. `where` (a file's name, say) goes in front of what a TaskFileError says."""
    try:
        return _task(_sections(text))
    except TaskFileError as error:
        raise TaskFileError(f"{where}: {error}" if where else str(error)) from None


def render_task(task: Task) -> str:
    """The text that `parse_task` reads; of white space in the name and in the words only single spaces are kept."""
    parts = []
    head = [
        f"{heading}: {said}" for heading, said in (("name", _tidy(task.name)), ("about", _wrapped(task.about))) if said
    ]
    if head:
        parts.append("\n".join(head))
    for example in task.examples:
        parts += [f"input:\n{example.input.to_text()}", f"output:\n{example.output.to_text()}"]
    return "\n\n".join(parts) + "\n"


def _tidy(text: str) -> str:
    return " ".join(text.split())


def _wrapped(text: str) -> str:
    """In lines of some 100 letters; in a single one, if a line in between could be taken for something else."""
    lines = textwrap.wrap(_tidy(text), _WIDTH - len("about: "), break_long_words=False, break_on_hyphens=False)
    return ("\n  " if all(map(_is_prose, lines[1:])) else " ").join(lines)


def _sections(text: str) -> list[_Section]:
    sections: list[_Section] = []
    ended = True  # no paragraph that the line could go on with
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        heading = _heading(line)
        drawn_below = bool(sections) and sections[-1].heading not in ("name", "about")
        if heading and heading[0] in _HEADINGS:
            word, mark, rest = heading
            sections.append(_Section(word, mark, number, [rest]))
            ended = False
        elif not line.strip():
            ended = True
            if sections:
                sections[-1].lines.append("")
        elif heading and (drawn_below or ended):
            raise TaskFileError(f"line {number}: {_unknown(heading[0])}")
        elif drawn_below or (not ended and _is_prose(line)):
            sections[-1].lines.append(line)
        else:
            raise TaskFileError(f"line {number}: {quoted(line.strip())} is not under any heading; {_HOW}")
    return sections


def _heading(line: str) -> tuple[str, str, str] | None:
    """The word in lower case, the number and the rest of a line that looks like a heading, known or not."""
    head, colon, rest = line.partition(":")
    words = head.split(maxsplit=2)
    match = re.fullmatch(r"([A-Za-z]+)#?([0-9]*)", "".join(words)) if colon and len(words) <= 2 else None
    return (match[1].lower(), match[2], rest) if match else None


def _is_prose(line: str) -> bool:
    """Whether a line can go on with a paragraph: neither a heading nor a piece of a drawing."""
    heading = _heading(line)
    drawn = all(word in _ARROWS or re.fullmatch(r"[.#]|[\^>v<]?[0-9]*", word) for word in line.split())
    return not drawn and not (heading and heading[0] in _HEADINGS)


def _unknown(word: str) -> str:
    meant = _SYNONYMS.get(word) or nearest(word, _HEADINGS)
    hint = f"did you mean `{meant}:`?" if meant else f"the headings are {listed(_HEADINGS, 'and')}"
    return f"unknown heading {quoted(word + ':')}; {hint}"


def _task(sections: list[_Section]) -> Task:
    count = sum(section.heading in ("output", "example") for section in sections)
    if count > MOST_EXAMPLES:  # before any is read: a file may hold thousands
        raise TaskFileError(f"a task has at most {MOST_EXAMPLES} examples, not {count}: leave some out")
    said: dict[str, _Section] = {}
    examples: list[Example] = []
    before: _Section | None = None
    for section in sections:
        at = f"line {section.line}"
        if before and section.heading in ("input", "example"):
            raise TaskFileError(
                f"{at}: another `{section.heading}:`, but the input at line {before.line} has no output yet; "
                "above this line, write `output:` and the world after the run"
            )
        match section.heading:
            case "input":
                before = section
            case "output":
                if before is None:
                    raise TaskFileError(f"{at}: `output:` without an `input:` of its own before it; {_HOW}")
                examples.append(_pair(before, section))
                before = None
            case "example":
                left, right = _sides(section)
                examples.append(Example(section.world("input", left), section.world("output", right)))
            case _ as heading:
                if heading in said:
                    raise TaskFileError(
                        f"{at}: a second `{heading}:`, after the one in line {said[heading].line}; "
                        "a task has only one, and a file holds one task"
                    )
                said[heading] = section
    if before:
        raise TaskFileError(
            f"the input at line {before.line} has no output: below it, write `output:` and the world after the run"
        )
    if not examples:
        raise TaskFileError(f"there is no example in it: {_HOW}")
    name, about = (said[heading].paragraph if heading in said else "" for heading in ("name", "about"))
    return Task(tuple(examples), name, about)


def _pair(before: _Section, after: _Section) -> Example:
    if before.number and after.number and int(before.number[:9]) != int(after.number[:9]):
        raise TaskFileError(
            f"line {after.line}: this is output {after.number[:9]}, but the input before it, at line {before.line}, "
            f"is {before.number[:9]}; put each output right after its input"
        )
    return Example(before.world("input", before.lines), after.world("output", after.lines))


def _sides(section: _Section) -> tuple[list[str], list[str]]:
    """The lines of the left drawing and of the right one."""
    lines = [line.split() for line in section.lines]
    if not any(word in _ARROWS for words in lines for word in words):
        raise TaskFileError(
            f"line {section.line}: no `->` in this example; draw the worlds before and after side by side with `->` "
            "between them, or write them under `input:` and `output:`"
        )
    sides: tuple[list[str], list[str]] = ([], [])
    for number, words in enumerate(lines, section.line):
        arrow = next((at for at, word in enumerate(words) if word in _ARROWS), None)
        left = words[: len(words) // 2 if arrow is None else arrow]
        right = words[len(left) + (arrow is not None) :]
        if len(left) != len(right):
            raise TaskFileError(
                f"line {number} has {len(left) + len(right)} cells, which do not make two worlds side by side: "
                "as many are needed on the left of `->` as on the right, with spaces between them"
            )
        for side, cells in zip(sides, (left, right), strict=True):
            side.append(" ".join(cells))
    return sides
