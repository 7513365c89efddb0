"""Helper functions of a text: a new one, another name, one less. All other lines stay as they are.

text = define_helper(text, "turnAround")  # above the main function, empty: its one line is HOLE
text = rename_helper(text, "turnAround", "halfTurn")  # at its definition and at all calls
text = delete_helper(text, "halfTurn")  # only if nothing calls it
"""

from __future__ import annotations

from keyword import iskeyword
from typing import Final

from karelsynth.errors import KarelsynthError, ProgramSyntaxError
from karelsynth.karel.dialects import SPELLINGS
from karelsynth.karel.dialects.indented import lines_of
from karelsynth.karel.dialects.source import CALL, SourceFunction, SourceProgram, SourceStatement
from karelsynth.tutor.blocks import HOLE, HOLE_CALL, read_with_holes, started

LONGEST_NAME: Final = 40
_MAINS: Final = ("run", "main")


def define_helper(text: str, name: str, dialect: str | None = None) -> str:
    """The text with a new helper, which is empty. Raises KarelsynthError for a name that it cannot have.

    Args:
        dialect: that of an empty text, `paper` if it is not given.
    """
    source = _source(started(text, dialect))
    _check_name(source, name)
    lines = list(source.lines)
    main = source.functions[source.main]
    margin, place = _margin(lines, main), _first_line(source, main) - 1
    unit = " " * SPELLINGS[source.dialect].indent
    body = main.body[0].place
    if body is not None and body.span.line > main.span.line:
        unit = lines[body.span.line - 1][len(margin) : body.span.column - 1] or unit
    blank = [""] * (2 if source.dialect == "stanford" else 1)
    new = [f"{margin}def {name}():", f"{margin}{unit}{HOLE}", *blank]
    return _checked(source, [*lines[:place], *new, *lines[place:]])


def rename_helper(text: str, name: str, new_name: str) -> str:
    """The text with another name for a helper, at its definition and at all calls. Comments stay as they are."""
    source = _source(text)
    function = _helper(source, name)
    if new_name == name:
        return text
    _check_name(source, new_name)
    places = [(function.span.line, function.span.column + len("def"))]
    places += [call.place.span[:2] for call in _calls(source, name) if call.place is not None]
    lines = list(source.lines)
    for line, column in sorted(places, reverse=True):  # from the right: what is to the left stays in its place
        old = lines[line - 1]
        at = old.index(name, column - 1)
        lines[line - 1] = old[:at] + new_name + old[at + len(name) :]
    return _checked(source, lines)


def delete_helper(text: str, name: str) -> str:
    """The text without a helper and the comments right above it. Raises KarelsynthError if something calls it."""
    source = _source(text)
    function = _helper(source, name)
    called = sorted({call.place.span.line for call in _calls(source, name) if call.place is not None})
    if called:
        where = f"line {called[0]}" if len(called) == 1 else f"lines {', '.join(map(str, called))}"
        these = "that call" if len(called) == 1 else "these calls"
        raise KarelsynthError(f"`{name}` is still called in {where}: remove {these} first")
    lines = list(source.lines)
    first, last = _first_line(source, function), _last_line(source, function)
    while last < len(lines) and not lines[last].strip():
        last += 1
    left = [*lines[: first - 1], *lines[last:]]
    if last == len(lines):
        while left and not left[-1].strip():
            left.pop()
        left += [""] * (not lines[-1])
    return _checked(source, left)


def _source(text: str) -> SourceProgram:
    source = read_with_holes(text)
    if source.dialect == "tokens":
        raise KarelsynthError("a program on one line has no helper functions: choose another language first")
    length = len(lines_of(text))  # without the helper that stands for holes
    lines = tuple(line.replace(f"{HOLE_CALL}()", HOLE) for line in source.lines[:length])
    return SourceProgram(text, source.dialect, lines, source.main, source.functions, source.comments, source.built_in)


def _helper(source: SourceProgram, name: str) -> SourceFunction:
    if name == source.main:
        raise KarelsynthError(f"the program begins with `{name}`: it keeps its name and cannot be removed")
    if name not in source.helpers or name == HOLE_CALL:
        raise KarelsynthError(f"the text has no helper function `{name}`")
    return source.functions[name]


def _calls(source: SourceProgram, name: str) -> list[SourceStatement]:
    return [
        statement
        for function in source.functions.values()
        for written in function.body
        for statement in written.walk()
        if statement.keyword == CALL and statement.detail == name
    ]


def _check_name(source: SourceProgram, name: str) -> None:
    """Raise KarelsynthError if no new helper of the text can have this name."""
    if not name.strip():
        raise KarelsynthError("a helper function needs a name")
    if len(name) > LONGEST_NAME:
        raise KarelsynthError(f"this name is too long: at most {LONGEST_NAME} letters are allowed")
    if not name.isidentifier():
        raise KarelsynthError(
            f"`{name}` is no name: use letters, digits and `_` without spaces, and begin with a letter"
        )
    words = {word for each in SPELLINGS.values() for word in (*each.actions, *each.conditions, *each.keywords)}
    if name in words or name in _MAINS or name == HOLE_CALL or iskeyword(name):
        raise KarelsynthError(f"`{name}` already means something to Karel: choose another name")
    if name in source.functions:
        raise KarelsynthError(f"there is already a function `{name}`: choose another name")


def _margin(lines: list[str], function: SourceFunction) -> str:
    return lines[function.span.line - 1][: function.span.column - 1]


def _first_line(source: SourceProgram, function: SourceFunction) -> int:
    """The line of a function's head, or the first of the comments right above it."""
    alone = {comment.line for comment in source.comments if comment.alone and comment.text.startswith("#")}
    line = function.span.line
    while line - 1 in alone:
        line -= 1
    return line


def _last_line(source: SourceProgram, function: SourceFunction) -> int:
    """The last line of a function, with the comments at the end of its body."""
    last = max(each.place.last_line for each in function.body if each.place is not None)
    lines = list(source.lines)
    margin = _margin(lines, function)
    inside = [
        comment.line
        for comment in source.comments
        if comment.alone and comment.line > last and comment.column > len(margin) + 1
    ]
    for line in inside:
        if all(not between.strip() for between in lines[last : line - 1]):
            last = line
    return last


def _checked(source: SourceProgram, lines: list[str]) -> str:
    """The new text, if it means the same as the old one."""
    text = "\n".join(lines)
    try:
        means_same = read_with_holes(text).program == source.program
    except ProgramSyntaxError as error:
        raise KarelsynthError(f"this is not possible: {error.reason}") from None
    if not means_same:
        raise KarelsynthError("this text is too unusual to be changed here: change it by hand")
    return text
