"""What a world looks like: the one place that knows.

A `BoardLayout` says where things go; the functions give the groups of shapes of the board, of a cell's markers and of
the hero, so that a still picture can show them together and an animated one can move them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, cast
from unicodedata import normalize

from karelsynth.errors import KarelsynthError
from karelsynth.karel.draw.scene import (
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

SMALLEST_CELL: Final = 12
LARGEST_CELL: Final = 400
CAPTION_SIZE: Final = 16
CAPTION_HEIGHT: Final = 56
NARROWEST_FILM: Final = 300
"""Pixels, so that a caption can be read below a small world."""


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
        """What the labels need to the left of the board and below it."""
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
    if title is not None:  # any text may be given; one line of what can be printed is what both back ends can show
        whole = normalize("NFC", title)  # an umlaut in one piece is in more fonts than its two dots
        title = " ".join("".join(letter if letter.isprintable() else " " for letter in whole).split())
    return BoardLayout(world.rows, world.cols, cell, theme_named(theme), labels, title or None, caption)


def world_scene(world: World, layout: BoardLayout, *, alarm: bool = False, caption: ShapeGroup | None = None) -> Scene:
    """The picture of a world, with a warning sign at the hero if `alarm`."""
    groups = [*board_groups(layout, world.walls), *groups_below(layout, world), hero_group(layout, world.hero)]
    groups += groups_above(layout, world, alarm=alarm)
    return scene_of(layout, world, (*groups, caption) if caption else tuple(groups))


def groups_below(layout: BoardLayout, world: World) -> list[ShapeGroup]:
    """What lies under the hero's layer: the markers."""
    here = world.hero[:2]
    return [
        tint_group(layout, cell) if cell == here else marker_group(layout, cell, count)
        for cell, count in world.markers.items()
    ]


def groups_above(layout: BoardLayout, world: World, *, alarm: bool) -> list[ShapeGroup]:
    """What lies over the hero: the count of the markers it stands on, and the sign of a failed run."""
    count = world.markers.get(world.hero[:2])
    groups = [badge_group(layout, world.hero, count)] if count else []
    return [*groups, alarm_group(layout, world.hero)] if alarm else groups


def scene_of(layout: BoardLayout, world: World, groups: tuple[ShapeGroup, ...]) -> Scene:
    """A scene of these groups, with the world described in words."""
    title = layout.title or f"Karel world of {world.rows} rows and {world.cols} columns"
    return Scene(layout.width, layout.height, layout.theme.canvas, groups, title, description(world))


def description(world: World) -> str:
    """The world in words, for those who cannot see the picture."""
    row, col, heading = world.hero
    parts = [f"Karel stands at row {row}, column {col} and faces {heading}."]
    if world.walls:
        parts.append("Walls (row:column): " + " ".join(f"{r}:{c}" for r, c in sorted(world.walls)) + ".")
    if world.markers:
        counts = " ".join(f"{r}:{c}:{count}" for (r, c), count in world.markers.items())
        parts.append(f"Markers (row:column:count): {counts}.")
    return " ".join(parts)


def board_groups(layout: BoardLayout, walls: frozenset[Cell]) -> tuple[ShapeGroup, ...]:
    """Everything that no program changes: title, labels, border, floor, grid and walls."""
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
    """One block a wall cell."""
    gap, side = _gap(layout), layout.cell - 2 * _gap(layout)
    corners = [layout.corner(cell) for cell in sorted(walls)]
    return tuple(Rect(x + gap, y + gap, side, side, layout.theme.wall, 0.14 * layout.cell) for x, y in corners)


def _joins(layout: BoardLayout, walls: frozenset[Cell]) -> tuple[Shape, ...]:
    """Rectangles from centre to centre that melt neighbouring blocks into one; squares of four lose their hole."""
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
    """Between the edge of a cell and a block in it; whole pixels, or the joins would show at blurred edges."""
    return max(1, round(layout.cell / 20))


def _labels(layout: BoardLayout) -> tuple[Shape, ...]:
    size, colour = max(8.0, 0.3 * layout.cell), layout.theme.muted
    away = layout.border + 0.32 * layout.cell
    below = layout.top + layout.rows * layout.cell + away
    rows = [Text(layout.left - away, layout.centre((n, 0))[1], str(n), size, colour) for n in range(layout.rows)]
    cols = [Text(layout.centre((0, n))[0], below, str(n), size, colour) for n in range(layout.cols)]
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
    """Under the hero, where it stands on markers."""
    (x, y), gap = layout.corner(cell), _gap(layout)
    side = layout.cell - 2 * gap
    return ShapeGroup("tint", (Rect(x + gap, y + gap, side, side, layout.theme.tint, 0.14 * layout.cell),))


def badge_group(layout: BoardLayout, hero: Hero, count: int) -> ShapeGroup:
    """Over the hero, at its back: the number of markers it stands on."""
    theme = layout.theme
    size = (0.3 if count < 10 else 0.26) * layout.cell
    right_upper = hero.heading in ("south", "west")
    x, y = _corner_sign(layout, hero, right=right_upper, upper=right_upper)
    return ShapeGroup(
        "badge",
        (*_disc(layout, x, y, theme.marker_text, theme.marker), Text(x, y, str(count), size, theme.marker_text)),
    )


def alarm_group(layout: BoardLayout, hero: Hero) -> ShapeGroup:
    """Over the hero, at the other corner of its back: the run has failed here."""
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
    """Two lines below the board: what happens, and when."""
    text, size = fitted(caption, CAPTION_SIZE, layout.width - 16)
    x, y = layout.width / 2, layout.caption_top + 12
    colour = layout.theme.alarm if alarm else layout.theme.ink
    return ShapeGroup(
        "caption",
        (Text(x, y, text, size, colour), Text(x, y + 24, f"tick {tick}", 13, layout.theme.muted, bold=False)),
    )
