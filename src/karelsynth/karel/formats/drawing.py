"""Worlds as text drawings: cells with spaces between them, north at the top.

    . . #
    > 2 .

`.` or `0` is an empty cell, `#` a wall, `1` … `10` markers, `^ > v <` the hero, `>3` the hero on three
markers. `#` is a wall, so there are no comments; blank lines before and after the drawing are ignored.
Errors give the line as an editor counts it and the cell of that line, both from 1.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from karelsynth.errors import WorldError, listed, quoted
from karelsynth.karel.world import HEADINGS, LARGEST_SIDE, MOST_MARKERS, SMALLEST_SIDE, Cell, Hero, World

_HEROES: Final = dict(zip("^>v<", HEADINGS, strict=True))
_CELL: Final = re.compile(r"(?P<hero>[\^>v<])?(?P<count>[0-9]+)?")
_STUCK: Final = re.compile(r"[.#]|[\^>v<]?[0-9]+|[\^>v<]")
_LOOKALIKES: Final = str.maketrans({"V": "v", "↑": "^", "→": ">", "↓": "v", "←": "<", "█": "#", "_": ".", "·": "."})
_ALLOWED: Final = (
    f"cells have spaces between them and are `.` (empty), `#` (wall), `1` to `{MOST_MARKERS}` (markers), "
    "`^`, `>`, `v` or `<` (Karel), or Karel on markers, as in `>3`"
)

_Place = tuple[int, int]
"""The line of the text and the cell of that line, both from 1."""


def parse(text: str) -> World:
    """Read a drawing."""
    lines = [(number, line.split()) for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1)]
    filled = [place for place, (_, words) in enumerate(lines) if words]
    if not filled:
        raise WorldError(f"the drawing is empty: {_ALLOWED}")
    lines = lines[filled[0] : filled[-1] + 1]
    bottom = lines[-1][0]  # the line of row 0
    cells = {
        (bottom - line, col): _read(word, (line, col + 1)) for line, words in lines for col, word in enumerate(words)
    }
    cols = _width({line: len(words) for line, words in lines})
    _check_side("line", "lines", len(lines), "rows")
    _check_side("cell on every line", "cells on every line", cols, "columns")
    walls = frozenset(cell for cell, (_, content) in cells.items() if content is None)
    markers = {cell: content for cell, (_, content) in cells.items() if content}
    return World(len(lines), cols, _hero(cells, bottom), walls, markers)


def render(world: World) -> str:
    """Draw a world: columns aligned, no spaces at the ends of lines, no newline at the end."""
    rows = [[_draw(world, (row, col)) for col in range(world.cols)] for row in reversed(range(world.rows))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(" ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _draw(world: World, cell: Cell) -> str:
    if cell in world.walls:
        return "#"
    hero = "^>v<"[HEADINGS.index(world.hero.heading)] if cell == world.hero[:2] else ""
    return f"{hero}{world.markers.get(cell, '')}" or "."


def _read(word: str, place: _Place) -> tuple[str, int | None]:
    """A cell as its hero (or "") and its markers; None markers for a wall."""
    if word == ".":
        return "", 0
    if word == "#":
        return "", None
    match = _CELL.fullmatch(word)
    if match is None:
        raise _bad_cell(word, place)
    digits = (match["count"] or "").lstrip("0") or "0"
    if len(digits) > len(str(MOST_MARKERS)) or int(digits) > MOST_MARKERS:
        raise WorldError(f"{_at(place)}: a cell holds 0 to {MOST_MARKERS} markers, not {quoted(digits)}")
    return match["hero"] or "", int(digits)


def _bad_cell(word: str, place: _Place) -> WorldError:
    if word.count("#") == 1 and _CELL.fullmatch(word.replace("#", "")):
        what = "Karel stands in a wall" if set(word) & set(_HEROES) else "there are markers in a wall"
        return WorldError(f"{_at(place)}: {what}, {quoted(word)}; a cell is a wall or can be stood on, not both")
    return WorldError(f"{_at(place)}: {quoted(word)} is not a cell{_suggestion(word)}; {_ALLOWED}")


def _suggestion(word: str) -> str:
    word = word.translate(_LOOKALIKES)
    backwards = re.fullmatch(r"([0-9]+)([\^>v<])", word)
    on_empty = re.fullmatch(r"([\^>v<])\.|\.([\^>v<])", word)
    if backwards:
        word = backwards[2] + backwards[1]
    elif on_empty:
        word = on_empty[1] or on_empty[2]
    pieces = _STUCK.findall(word)
    if len(word) > 2 * LARGEST_SIDE or "".join(pieces) != word:
        return ""
    return f" (did you mean `{' '.join(pieces)}`?)"


def _width(widths: dict[int, int]) -> int:
    """The number of cells that all lines have, given the number of each line."""
    for line, width in widths.items():
        if width == 0:
            raise WorldError(f"line {line} is empty in the middle of the drawing; take it out or fill it with cells")
    (expected, _), *_ = Counter(widths.values()).most_common(1)
    like = next(line for line, width in widths.items() if width == expected)
    for line, width in widths.items():
        if width != expected:
            raise WorldError(
                f"line {line} has {width} cell{'s' * (width != 1)} where {expected} are expected, as on line {like}; "
                "all lines need the same number"
            )
    return expected


def _check_side(one: str, many: str, size: int, side: str) -> None:
    if not SMALLEST_SIDE <= size <= LARGEST_SIDE:
        raise WorldError(
            f"the drawing has {size} {one if size == 1 else many}; a world has {SMALLEST_SIDE} to {LARGEST_SIDE} {side}"
        )


def _hero(cells: dict[Cell, tuple[str, int | None]], bottom: int) -> Hero:
    heroes = [cell for cell, (hero, _) in cells.items() if hero]
    if not heroes:
        raise WorldError(f"Karel is missing in the drawing: put {listed(_HEROES)} where it stands")
    if len(heroes) > 1:
        shown = " and ".join(_at((bottom - row, col + 1)) for row, col in heroes[:2])
        more = ", and more" if len(heroes) > 2 else ""
        raise WorldError(f"a world has one Karel, but the drawing has {len(heroes)}: {shown}{more}")
    return Hero(*heroes[0], _HEROES[cells[heroes[0]][0]])


def _at(place: _Place) -> str:
    return f"line {place[0]}, cell {place[1]}"
