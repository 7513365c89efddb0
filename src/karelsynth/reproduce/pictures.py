"""The pictures of the page: masks side by side, and program aliasing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.draw.board import layout_of, world_scene
from karelsynth.karel.draw.scene import LETTER, THEMES, Line, Rect, Scene, Shape, ShapeGroup, Text
from karelsynth.karel.tokens import TOKENS, VOCABULARY_SIZE
from karelsynth.reproduce.aliasing import ELSEWHERE, PROGRAM_A, PROGRAM_B, aliasing_examples
from karelsynth.reproduce.masks import MaskTable

Colour = tuple[int, int, int]

_THEME: Final = THEMES["light"]
_MARGIN: Final = 20
_CELL: Final = 11
_LABEL: Final = 8.5
_TOP: Final = 62
"""The height of a panel's title and of the legend."""
_SIDE: Final = 92
"""The width of the tokens' names."""
_FOOT: Final = 92
"""The height of the places' names, which are turned."""
_REFUSED: Final = (0xC8, 0x1E, 0x3A)
_PASSED: Final = (0x25, 0x63, 0xEB)
_DARK: Final = (0x1E, 0x29, 0x3B)
_WHITE: Final = (0xFF, 0xFF, 0xFF)
_WORLD_CELL: Final = 30
_CAPTION: Final = 16
_SEEN: Final = 0.02
"""Cells that differ less than this from the ground are not painted."""


def masks_scene(table: MaskTable, title: str) -> Scene:
    """Handwritten, learned and their difference: places to the right, the tokens that might come next downwards."""
    columns = len(table.places)
    wide = columns * _CELL + _MARGIN
    panels = (
        ("handwritten", _DARK, _mixed(table.handwritten, _DARK, _WHITE)),
        ("learned", _DARK, _mixed(table.learned, _DARK, _WHITE)),
        ("difference", _WHITE, _differences(table)),
    )
    bottom = _TOP + VOCABULARY_SIZE * _CELL
    shapes: list[Shape] = [
        Text(_SIDE / 2, _TOP + _CELL * (row + 0.5), name, _LABEL, _THEME.muted, bold=False)
        for row, name in enumerate(TOKENS)
    ]
    groups = [ShapeGroup("tokens", tuple(shapes))]
    for number, (name, ground, cells) in enumerate(panels):
        left = _SIDE + number * wide
        groups.append(ShapeGroup(name, tuple(_panel(name, columns, ground, cells)), at=(left, _TOP)))
        groups += [_turned(place, left + _CELL * (at + 0.5), bottom) for at, place in enumerate(table.places)]
    width = max(_SIDE + len(panels) * wide, 520)
    groups.append(ShapeGroup("legend", tuple(_legend(width))))
    told = "Columns: the token read last; rows: the token that might come next."
    return Scene(width, bottom + _FOOT, _THEME.canvas, tuple(groups), title, told)


def _panel(name: str, columns: int, ground: Colour, cells: NDArray[np.float64]) -> Iterator[Shape]:
    yield Text(max(columns * _CELL / 2, 30), -14, name, 12, _THEME.ink)
    yield Rect(0, 0, columns * _CELL, VOCABULARY_SIZE * _CELL, _colour(np.array(ground, np.float64)))
    painted = np.abs(cells - np.array(ground)).max(2) > 255 * _SEEN
    for column, row in zip(*np.nonzero(painted), strict=True):
        yield Rect(column * _CELL, row * _CELL, _CELL, _CELL, _colour(cells[column, row]))
    for column in range(columns + 1):
        yield Line(column * _CELL, 0, column * _CELL, VOCABULARY_SIZE * _CELL, 0.4, _THEME.grid)
    for row in range(VOCABULARY_SIZE + 1):
        yield Line(0, row * _CELL, columns * _CELL, row * _CELL, 0.4, _THEME.grid)


def _differences(table: MaskTable) -> NDArray[np.float64]:
    """[C, 52, 3]: red where valid tokens are refused, blue where invalid ones pass, white where both masks agree."""
    red, blue = _mixed(table.refused, _WHITE, _REFUSED), _mixed(table.passed, _WHITE, _PASSED)
    return np.where((table.refused >= table.passed)[:, :, None], red, blue)


def _mixed(share: NDArray[np.float64], none: Colour, whole: Colour) -> NDArray[np.float64]:
    """[C, 52, 3]: from one colour to another by shares [C, 52]."""
    first, last = np.array(none, np.float64), np.array(whole, np.float64)
    return first + share[:, :, None] * (last - first)


def _turned(text: str, x: float, y: float) -> ShapeGroup:
    """A label below a column, read from the top down."""
    return ShapeGroup("place", (Text(_FOOT / 2, 0, text, _LABEL, _THEME.muted, bold=False),), at=(x, y), turns=1)


def _legend(width: float) -> Iterator[Shape]:
    entries = (
        (_WHITE, "passes"),
        (_DARK, "refused"),
        (_REFUSED, "valid, yet refused"),
        (_PASSED, "invalid, yet passes"),
    )
    at = width / 2 - 245
    for colour, what in entries:
        room = len(what) * 11 * LETTER
        yield Rect(at, 10, 12, 12, _THEME.muted, 2)
        yield Rect(at + 1, 11, 10, 10, _colour(np.array(colour, np.float64)), 1)
        yield Text(at + 18 + room / 2, 16, what, 11, _THEME.muted, bold=False)
        at += room + 40


def _colour(rgb: NDArray[np.float64]) -> str:
    """In 32 levels: more would only make the file longer."""
    return "#" + "".join(f"{min(255, round(value / 255 * 31) * 255 // 31):02x}" for value in rgb)


def aliasing_scene() -> Scene:
    """An example that both programs are right on, and below it a world where they differ."""
    before, after = aliasing_examples()[0]
    alike = (("before", before), ("after A, and after B", after))
    elsewhere = (
        ("elsewhere, before", ELSEWHERE),
        ("after A", PROGRAM_A.run(ELSEWHERE).world),
        ("after B", PROGRAM_B.run(ELSEWHERE).world),
    )
    groups: list[ShapeGroup] = []
    top, widest = _CAPTION, 0
    for line in (alike, elsewhere):
        left = 0
        for caption, world in line:
            layout = layout_of(world, theme="light", cell=_WORLD_CELL)
            for group in world_scene(world, layout).groups:
                groups.append(replace(group, at=(group.at[0] + left, group.at[1] + top)))
            groups.append(ShapeGroup("caption", (Text(left + layout.width / 2, top, caption, 12, _THEME.ink),)))
            left += layout.width
        widest = max(widest, left)
        top += layout.height + _CAPTION
    told = "Two programs that are both right on the example above, and differ on the one below."
    return Scene(widest, top, _THEME.canvas, tuple(groups), "Program aliasing", told)
