"""Words with their places: the lexer of the two indented dialects.

Indentation becomes `indent` and `dedent` words, as in Python. Levels are compared as text, so any width will
do and tabs are fine as long as they are used consistently. The lexer never fails: what it cannot read becomes
a word with a `problem`, which the parser reports when it gets there, so that the first mistake in the text
is the one that is named.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Word(NamedTuple):
    """A piece of the text. `line` and `column` count from 1.

    `kind` is `name`, `number`, `string`, `mark` (anything else that is visible), or, with an empty text,
    `newline`, `indent`, `dedent`, `end`.
    """

    kind: str
    text: str
    line: int
    column: int
    problem: str = ""


_PIECE: Final = re.compile(
    r'''
      (?P<string> [rRbBuUfF]{0,2} (?: """ (?:[^\\]|\\.)*? """ | \'\'\' (?:[^\\]|\\.)*? \'\'\'
                                    | "(?!"") (?:[^"\\\n]|\\[^\n])* " | '(?!\'\') (?:[^'\\\n]|\\[^\n])* ' ) )
    | (?P<unclosed> """ .* | \'\'\' .* | ["'] [^\n]* )  # all that it was looked for in: it is not looked for again
    | (?P<comment> \#[^\n]* )
    | (?P<newline> \n )
    | (?P<space> [ \t\f\xa0\u2000-\u200a\u202f\u3000]+ )  # as copied from web pages, or typed on a Japanese keyboard
    | (?P<number> [0-9]\w* )
    | (?P<name> [^\W\d]\w* )
    | (?P<mark> -> | == | . )
    ''',
    re.VERBOSE | re.DOTALL,
)
_SPACES: Final = {ord(space): " " for space in "\xa0\u202f" + "".join(map(chr, range(0x2000, 0x200B)))} | {0x3000: "  "}
"""What looks like spaces is as good as spaces in an indentation; the ideographic one is as wide as two."""


def lines_of(text: str) -> list[str]:
    """The lines of a text as all places in programs count them: fewer things end one than `str.splitlines` knows."""
    return re.sub(r"\r\n?", "\n", text.removeprefix("\ufeff")).split("\n")


def lex(text: str) -> tuple[list[Word], list[str]]:
    """The words of a text, the last one an `end`, and the text's lines."""
    lines = lines_of(text)
    text = "\n".join(lines)
    words: list[Word] = []
    levels: list[str] = []
    line, line_start, after, fresh = 1, 0, 1, True
    for match in _PIECE.finditer(text):
        kind, piece = str(match.lastgroup), match.group()
        column = match.start() - line_start + 1
        if kind == "newline":
            if not fresh:
                words.append(Word("newline", "", line, after))
            fresh = True
        elif kind not in ("space", "comment"):
            if fresh:
                words += _change_of_level(text[line_start : match.start()], levels, line, column)
                fresh = False
            if kind == "unclosed":
                mark = piece[:3] if piece[:3] in ('"""', "'''") else piece[0]
                words.append(Word(kind, mark, line, column, "this quotation mark is never closed"))
            else:
                words.append(Word(kind, piece, line, column))
        if "\n" in piece:
            line += piece.count("\n")
            line_start = match.start() + piece.rindex("\n") + 1
        if kind not in ("newline", "space", "comment"):
            after = match.end() - line_start + 1
    if not fresh:
        words.append(Word("newline", "", line, after))
    last = words[-1] if words else Word("end", "", 1, 1)
    ends = ["dedent"] * (len(levels) - 1) + ["end"]
    return words + [Word(kind, "", last.line, last.column) for kind in ends], lines


def _change_of_level(indentation: str, levels: list[str], line: int, column: int) -> list[Word]:
    """The words for a line's indentation; `levels` holds the open ones and is brought up to date.

    The first line sets the margin, so a program may stand indented as a whole.
    """
    indentation = indentation.translate(_SPACES)
    if not levels:
        levels.append(indentation)
    if indentation == levels[-1]:
        return []
    if indentation.startswith(levels[-1]):
        levels.append(indentation)
        return [Word("indent", "", line, column)]
    if indentation in levels:
        closed = len(levels) - 1 - levels.index(indentation)
        del levels[len(levels) - closed :]
        return [Word("dedent", "", line, column)] * closed
    if levels[-1].startswith(indentation):
        problem = "this line is indented less than the one above, but lines up with no earlier line"
    else:
        problem = "the indentation mixes tabs and spaces; use one of them throughout"
    return [Word("mark", "", line, column, problem)]
