"""Pictures of worlds, and of a task's examples in one sheet.

A `BoardLayout` says where things go. The functions make the groups of shapes of the board, of a cell's markers and of
the hero. A still picture shows them together; an animated one moves them separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, cast
from unicodedata import normalize

from karelsynth.errors import KarelsynthError
from karelsynth.karel.draw.scene import (
    LETTER,
    Circle,
    Line,
    Palette,
    Point,
    Polygon,
    Rect,
    Scene,
    Shape,
    ShapeGroup,
    Text,
    fitted,
    theme_named,
)
from karelsynth.karel.world import HEADINGS, Cell, Hero, World
from karelsynth.terminal_text import display_width

SMALLEST_CELL: Final = 12
LARGEST_CELL: Final = 400
CAPTION_SIZE: Final = 16
CAPTION_HEIGHT: Final = 56
NARROWEST_FILM: Final = 300
"""Pixels. A caption needs that much below a small world."""
WIDEST: Final = 54
"""The width of a row of examples in cells, margins included. A single example may be wider."""
_ARROW: Final = 14 / 22
"""The gap between input and output, relative to the side of a cell."""
_SMALLEST_ARROW: Final = 14
_SMALLEST_TITLE: Final = 16

Pair = tuple[World, World]


@dataclass(frozen=True)
class BoardLayout:
    """Where things go in the picture of a world of `rows` × `cols` cells, each `cell` pixels wide."""

    rows: int
    cols: int
    cell: int
    theme: Palette
    labels: bool = False
    title: str | None = None
    caption: bool = False

    @property
    def margin(self) -> int:
        return max(6, self.cell * 2 // 5)

    @property
    def border(self) -> int:
        return max(2, self.cell // 12)

    @property
    def label_room(self) -> int:
        """The room for labels to the left of the board and below it."""
        return self.cell // 2 if self.labels else 0

    @property
    def needed_width(self) -> int:
        return self.cols * self.cell + 2 * self.margin + self.label_room

    @property
    def width(self) -> int:
        return max(self.needed_width, NARROWEST_FILM) if self.caption else self.needed_width

    @property
    def left(self) -> int:
        """Where column 0 begins."""
        return self.margin + self.label_room + (self.width - self.needed_width) // 2

    @property
    def top(self) -> int:
        """Where the top row begins."""
        return self.margin + (round(self.title_size * 1.6) if self.title else 0)

    @property
    def board_bottom(self) -> int:
        """Where the board and its labels end; below are the margin and the caption."""
        return self.top + self.rows * self.cell + self.label_room

    @property
    def caption_top(self) -> int:
        """Where the caption begins, or the picture ends if it has none."""
        return self.board_bottom + self.margin

    @property
    def height(self) -> int:
        return self.caption_top + (CAPTION_HEIGHT if self.caption else 0)

    @property
    def title_size(self) -> float:
        return min(28.0, max(12.0, 0.42 * self.cell))

    def corner(self, cell: Cell) -> tuple[int, int]:
        """The left upper corner of a cell."""
        row, col = cell
        return self.left + col * self.cell, self.top + (self.rows - 1 - row) * self.cell

    def centre(self, cell: Cell) -> Point:
        x, y = self.corner(cell)
        return x + self.cell / 2, y + self.cell / 2


def layout_of(
    world: World, *, theme: str, cell: int, labels: bool = False, title: str | None = None, caption: bool = False
) -> BoardLayout:
    """The layout of a world's pictures; raises KarelsynthError for an unknown theme or an absurd size."""
    if not SMALLEST_CELL <= cell <= LARGEST_CELL:
        raise KarelsynthError(f"a cell is {SMALLEST_CELL} to {LARGEST_CELL} pixels wide, not {cell}")
    if title is not None:  # both back ends can show one line of printable text
        whole = normalize("NFC", title)  # more fonts have composed letters than combining marks
        title = " ".join("".join(letter if letter.isprintable() else " " for letter in whole).split())
    return BoardLayout(world.rows, world.cols, cell, theme_named(theme), labels, title or None, caption)


def world_scene(world: World, layout: BoardLayout, *, alarm: bool = False, caption: ShapeGroup | None = None) -> Scene:
    """The picture of a world, with a warning sign at the hero if `alarm`."""
    groups = [*board_groups(layout, world.walls), *groups_below(layout, world), hero_group(layout, world.hero)]
    groups += groups_above(layout, world, alarm=alarm)
    return scene_of(layout, world, (*groups, caption) if caption else tuple(groups))


def groups_below(layout: BoardLayout, world: World) -> list[ShapeGroup]:
    """The markers, drawn below the hero."""
    here = world.hero[:2]
    return [
        tint_group(layout, cell) if cell == here else marker_group(layout, cell, count)
        for cell, count in world.markers.items()
    ]


def groups_above(layout: BoardLayout, world: World, *, alarm: bool) -> list[ShapeGroup]:
    """The groups above the hero: the count of the markers it stands on, and the sign of a failed run."""
    count = world.markers.get(world.hero[:2])
    groups = [badge_group(layout, world.hero, count)] if count else []
    return [*groups, alarm_group(layout, world.hero)] if alarm else groups


def scene_of(layout: BoardLayout, world: World, groups: tuple[ShapeGroup, ...]) -> Scene:
    """A scene of these groups, with a description of the world."""
    title = layout.title or f"Karel world of {world.rows} rows and {world.cols} columns"
    return Scene(layout.width, layout.height, layout.theme.canvas, groups, title, description(world))


def description(world: World) -> str:
    """The world in words, for screen readers; rows and columns count from 1."""
    row, col, heading = world.hero
    parts = [f"Karel stands at row {row + 1}, column {col + 1} and faces {heading}."]
    if world.walls:
        parts.append("Walls (row:column): " + " ".join(f"{r + 1}:{c + 1}" for r, c in sorted(world.walls)) + ".")
    if world.markers:
        counts = " ".join(f"{r + 1}:{c + 1}:{count}" for (r, c), count in world.markers.items())
        parts.append(f"Markers (row:column:count): {counts}.")
    return " ".join(parts)


def board_groups(layout: BoardLayout, walls: frozenset[Cell]) -> tuple[ShapeGroup, ...]:
    """The parts that no program changes: title, labels, border, floor, grid and walls."""
    groups = [ShapeGroup("board", _floor(layout))]
    if walls:
        groups += [ShapeGroup("wall-joins", _joins(layout, walls)), ShapeGroup("walls", _walls(layout, walls))]
    if layout.labels:
        groups.append(ShapeGroup("labels", _labels(layout)))
    if layout.title:
        text, size = fitted(layout.title, layout.title_size, layout.width - layout.margin)
        y = layout.top - layout.border - 0.8 * layout.title_size
        groups.append(ShapeGroup("heading", (Text(layout.width / 2, y, text, size, layout.theme.ink),)))
    return tuple(groups)


def _floor(layout: BoardLayout) -> tuple[Shape, ...]:
    theme, cell, border = layout.theme, layout.cell, layout.border
    left, top = layout.left, layout.top
    width, height = layout.cols * cell, layout.rows * cell
    thin = max(1.0, cell / 40)
    return (
        Rect(left - border, top - border, width + 2 * border, height + 2 * border, theme.wall, 0.12 * cell + border),
        Rect(left, top, width, height, theme.floor, 0.12 * cell),
        *(Line(left + n * cell, top, left + n * cell, top + height, thin, theme.grid) for n in range(1, layout.cols)),
        *(Line(left, top + n * cell, left + width, top + n * cell, thin, theme.grid) for n in range(1, layout.rows)),
    )


def _walls(layout: BoardLayout, walls: frozenset[Cell]) -> tuple[Shape, ...]:
    """One block for each wall cell."""
    gap, side = _gap(layout), layout.cell - 2 * _gap(layout)
    corners = [layout.corner(cell) for cell in sorted(walls)]
    return tuple(Rect(x + gap, y + gap, side, side, layout.theme.wall, 0.14 * layout.cell) for x, y in corners)


def _joins(layout: BoardLayout, walls: frozenset[Cell]) -> tuple[Shape, ...]:
    """Rectangles from centre to centre that join neighbouring blocks, and fill the hole in squares of four."""
    cell, gap, wall = layout.cell, _gap(layout), layout.theme.wall
    joins: list[Shape] = []
    for row, col in sorted(walls):
        x, y = layout.corner((row, col))
        right, above = (row, col + 1) in walls, (row + 1, col) in walls
        if right:
            joins.append(Rect(x + cell / 2, y + gap, cell, cell - 2 * gap, wall))
        if above:
            joins.append(Rect(x + gap, y - cell / 2, cell - 2 * gap, cell, wall))
        if right and above and (row + 1, col + 1) in walls:
            joins.append(Rect(x + cell / 2, y - cell / 2, cell, cell, wall))
    return tuple(joins)


def _gap(layout: BoardLayout) -> int:
    """The gap between the edge of a cell and its block, in whole pixels: blurred edges would show the joins."""
    return max(1, round(layout.cell / 20))


def _labels(layout: BoardLayout) -> tuple[Shape, ...]:
    size, colour = max(8.0, 0.3 * layout.cell), layout.theme.muted
    away = layout.border + 0.32 * layout.cell
    below = layout.top + layout.rows * layout.cell + away
    rows = [Text(layout.left - away, layout.centre((n, 0))[1], str(n + 1), size, colour) for n in range(layout.rows)]
    cols = [Text(layout.centre((0, n))[0], below, str(n + 1), size, colour) for n in range(layout.cols)]
    return (*rows, *cols)


def marker_group(layout: BoardLayout, cell: Cell, count: int) -> ShapeGroup:
    """A diamond, with the count on it if there is more than one."""
    (x, y), theme = layout.centre(cell), layout.theme
    reach = (0.26 if count == 1 else 0.42) * layout.cell
    corners = ((x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y))
    shapes: tuple[Shape, ...] = (Polygon(corners, theme.marker, 0.09 * layout.cell),)
    if count > 1:
        shapes += (Text(x, y, str(count), (0.4 if count < 10 else 0.36) * layout.cell, theme.marker_text),)
    return ShapeGroup("marker", shapes)


def tint_group(layout: BoardLayout, cell: Cell) -> ShapeGroup:
    """The floor below a hero that stands on markers."""
    (x, y), gap = layout.corner(cell), _gap(layout)
    side = layout.cell - 2 * gap
    return ShapeGroup("tint", (Rect(x + gap, y + gap, side, side, layout.theme.tint, 0.14 * layout.cell),))


def badge_group(layout: BoardLayout, hero: Hero, count: int) -> ShapeGroup:
    """The number of markers that the hero stands on, at its back."""
    theme = layout.theme
    size = (0.3 if count < 10 else 0.26) * layout.cell
    right_upper = hero.heading in ("south", "west")
    x, y = _corner_sign(layout, hero, right=right_upper, upper=right_upper)
    return ShapeGroup(
        "badge",
        (*_disc(layout, x, y, theme.marker_text, theme.marker), Text(x, y, str(count), size, theme.marker_text)),
    )


def alarm_group(layout: BoardLayout, hero: Hero) -> ShapeGroup:
    """The sign of a failed run, at the other corner of the hero's back."""
    theme = layout.theme
    x, y = _corner_sign(layout, hero, right=hero.heading in ("north", "west"), upper=hero.heading in ("south", "east"))
    disc = _disc(layout, x, y, theme.floor, theme.alarm)
    return ShapeGroup("alarm", (*disc, Text(x, y, "!", 0.32 * layout.cell, theme.floor)))


def _corner_sign(layout: BoardLayout, hero: Hero, *, right: bool, upper: bool) -> Point:
    """The middle of a sign in a corner of the hero's cell."""
    (x, y), away = layout.centre((hero.row, hero.col)), 0.27 * layout.cell
    return x + (away if right else -away), y - (away if upper else -away)


def _disc(layout: BoardLayout, x: float, y: float, rim: str, fill: str) -> tuple[Shape, ...]:
    return Circle(x, y, 0.22 * layout.cell, rim), Circle(x, y, 0.19 * layout.cell, fill)


def hero_group(layout: BoardLayout, hero: Hero) -> ShapeGroup:
    """Karel from above, drawn facing north around the origin: tracks, a body with a prow, a visor and two eyes."""
    theme, unit = layout.theme, layout.cell

    def rect(x: float, y: float, width: float, height: float, fill: str, radius: float) -> Rect:
        return Rect(x * unit, y * unit, width * unit, height * unit, fill, radius * unit)

    body = [(0, -0.46), (0.29, -0.12), (0.29, 0.34), (-0.29, 0.34), (-0.29, -0.12)]
    shapes: tuple[Shape, ...] = (
        rect(-0.4, -0.08, 0.16, 0.4, theme.hero_trim, 0.06),
        rect(0.24, -0.08, 0.16, 0.4, theme.hero_trim, 0.06),
        Polygon(tuple((x * unit, y * unit) for x, y in body), theme.hero, 0.1 * unit),
        rect(-0.2, -0.13, 0.4, 0.2, theme.hero_face, 0.1),
        Circle(-0.095 * unit, -0.03 * unit, 0.055 * unit, theme.hero_trim),
        Circle(0.095 * unit, -0.03 * unit, 0.055 * unit, theme.hero_trim),
        rect(-0.11, 0.17, 0.22, 0.06, theme.hero_trim, 0.03),
    )
    turns = cast("Literal[0, 1, 2, 3]", HEADINGS.index(hero.heading))
    return ShapeGroup("hero", shapes, layout.centre((hero.row, hero.col)), turns)


def caption_group(layout: BoardLayout, caption: str, tick: int, *, alarm: bool = False) -> ShapeGroup:
    """Two lines below the board: the event and the tick."""
    text, size = fitted(caption, CAPTION_SIZE, layout.width - 16)
    x, y = layout.width / 2, layout.caption_top + 12
    colour = layout.theme.alarm if alarm else layout.theme.ink
    return ShapeGroup(
        "caption",
        (Text(x, y, text, size, colour), Text(x, y + 24, f"tick {tick}", 13, layout.theme.muted, bold=False)),
    )


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
    """A task's examples in one picture, each input above its output, side by side and in rows.

    `title` is put on top; `name` and `about` are for screen readers.
    """
    layouts = [layout_of(before, theme=theme, cell=cell, labels=labels, title=title) for before, _ in pairs]
    words = layouts[0].title  # the printable part
    layouts = [replace(layout, title=None) for layout in layouts]
    gap, large = max(_SMALLEST_ARROW, round(_ARROW * cell)), max(_SMALLEST_TITLE, cell)
    groups: list[ShapeGroup] = []
    width, top = 0, 2 * large if words else 0
    for row in _rows(layouts, WIDEST * cell):
        shown, left = [layouts[number] for number in row], 0
        band = max(layout.height for layout in shown)
        for number, layout in zip(row, shown, strict=True):
            before, after = pairs[number]
            groups += _translated(before, layout, left, top + band - layout.height)  # next to the arrow
            groups.append(_arrow(layout.theme, gap, left + layout.width / 2, top + band))
            groups += _translated(after, layout, left, top + band + gap)
            left += layout.width
        width, top = max(width, left), top + 2 * band + gap
    if words:
        needed = round(LETTER * large * display_width(words)) + 2 * layouts[0].margin
        wider = max(width, min(needed, WIDEST * cell))  # a long title may be wider than a small world
        groups = [replace(group, at=(group.at[0] + (wider - width) / 2, group.at[1])) for group in groups]
        text, size = fitted(words, large, wider - layouts[0].margin)
        groups.append(ShapeGroup("heading", (Text(wider / 2, 1.2 * large, text, size, layouts[0].theme.ink),)))
        width = wider
    count = "One example." if len(pairs) == 1 else f"{len(pairs)} examples."
    called = name or words or "Examples for Karel"
    return Scene(width, top, layouts[0].theme.canvas, tuple(groups), called, f"{count} {about}".rstrip())


def _rows(layouts: Sequence[BoardLayout], room: int) -> list[list[int]]:
    """The indices of the examples of each row: as few rows as there is room for, of about equal size."""
    count = 1
    while True:
        size = -(-len(layouts) // count)
        rows = [list(range(start, min(start + size, len(layouts)))) for start in range(0, len(layouts), size)]
        if size == 1 or all(sum(layouts[number].width for number in row) <= room for row in rows):
            return rows
        count += 1


def _translated(world: World, layout: BoardLayout, right: float, down: float) -> list[ShapeGroup]:
    """The groups of a world's picture, translated."""
    scene = world_scene(world, layout)
    return [replace(group, at=(group.at[0] + right, group.at[1] + down)) for group in scene.groups]


def _arrow(theme: Palette, size: int, x: float, y: float) -> ShapeGroup:
    points = ((-size / 2, 2.0), (size / 2, 2.0), (0.0, size - 2.0))
    return ShapeGroup("arrow", (Polygon(points, theme.muted, 2),), at=(x, y))
