"""A task's examples in one picture: each world before above the same world after, side by side and in rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from karelsynth.karel.draw.board import BoardLayout, layout_of, world_scene
from karelsynth.karel.draw.scene import LETTER, Palette, Polygon, Scene, ShapeGroup, Text, fitted
from karelsynth.karel.world import World
from karelsynth.terminal_text import display_width

WIDEST: Final = 54
"""Cells that a row of examples may take in width, margins included, unless one alone takes more."""
_ARROW: Final = 14 / 22
"""Between a world before and the same after, in sides of a cell."""
_SMALLEST_ARROW: Final = 14
_SMALLEST_TITLE: Final = 16

Pair = tuple[World, World]


def sheet_scene(
    pairs: Sequence[Pair],
    *,
    theme: str,
    cell: int,
    labels: bool = False,
    title: str | None = None,
    name: str = "",
    about: str = "",
) -> Scene:
    """The picture; `title` is put on top, `name` and `about` are for those who cannot see it."""
    layouts = [layout_of(before, theme=theme, cell=cell, labels=labels, title=title) for before, _ in pairs]
    words = layouts[0].title  # as it can be shown
    layouts = [replace(layout, title=None) for layout in layouts]
    gap, large = max(_SMALLEST_ARROW, round(_ARROW * cell)), max(_SMALLEST_TITLE, cell)
    groups: list[ShapeGroup] = []
    width, top = 0, 2 * large if words else 0
    for row in _rows(layouts, WIDEST * cell):
        shown, left = [layouts[number] for number in row], 0
        band = max(layout.height for layout in shown)
        for number, layout in zip(row, shown, strict=True):
            before, after = pairs[number]
            groups += _moved(before, layout, left, top + band - layout.height)  # both as near to the arrow as they can
            groups.append(_arrow(layout.theme, gap, left + layout.width / 2, top + band))
            groups += _moved(after, layout, left, top + band + gap)
            left += layout.width
        width, top = max(width, left), top + 2 * band + gap
    if words:
        needed = round(LETTER * large * display_width(words)) + 2 * layouts[0].margin
        wider = max(width, min(needed, WIDEST * cell))  # a long title has room above a small world
        groups = [replace(group, at=(group.at[0] + (wider - width) / 2, group.at[1])) for group in groups]
        text, size = fitted(words, large, wider - layouts[0].margin)
        groups.append(ShapeGroup("heading", (Text(wider / 2, 1.2 * large, text, size, layouts[0].theme.ink),)))
        width = wider
    count = "One example." if len(pairs) == 1 else f"{len(pairs)} examples."
    called = name or words or "Examples for Karel"
    return Scene(width, top, layouts[0].theme.canvas, tuple(groups), called, f"{count} {about}".rstrip())


def _rows(layouts: Sequence[BoardLayout], room: int) -> list[list[int]]:
    """The numbers of the examples of each row: as many as there is room for, and about as many in each."""
    count = 1
    while True:
        size = -(-len(layouts) // count)
        rows = [list(range(start, min(start + size, len(layouts)))) for start in range(0, len(layouts), size)]
        if size == 1 or all(sum(layouts[number].width for number in row) <= room for row in rows):
            return rows
        count += 1


def _moved(world: World, layout: BoardLayout, right: float, down: float) -> list[ShapeGroup]:
    """The groups of a world's picture, elsewhere."""
    scene = world_scene(world, layout)
    return [replace(group, at=(group.at[0] + right, group.at[1] + down)) for group in scene.groups]


def _arrow(theme: Palette, size: int, x: float, y: float) -> ShapeGroup:
    points = ((-size / 2, 2.0), (size / 2, 2.0), (0.0, size - 2.0))
    return ShapeGroup("arrow", (Polygon(points, theme.muted, 2),), at=(x, y))
