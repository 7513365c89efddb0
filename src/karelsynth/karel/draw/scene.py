"""A picture as a list of shapes, which any back end can paint.

Lengths are pixels, x to the right and y downwards. A scene knows nothing of Karel: `board` makes scenes out of
worlds, `svg` and `raster` paint them, and a test that both paint the same is a test of the list.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import accumulate
from math import hypot
from types import MappingProxyType
from typing import Final, Literal, Union

from karelsynth.errors import KarelsynthError, listed, nearest
from karelsynth.terminal_text import display_width

Point = tuple[float, float]


@dataclass(frozen=True)
class Rect:
    """A rectangle, with round corners if `radius` is not 0."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    radius: float = 0


@dataclass(frozen=True)
class Circle:
    """A disc."""

    x: float
    y: float
    radius: float
    fill: str


@dataclass(frozen=True)
class Polygon:
    """A filled polygon with round corners: each gives way to a parabola that begins and ends `radius` away."""

    points: tuple[Point, ...]
    fill: str
    radius: float

    @property
    def corners(self) -> list[tuple[Point, Point, Point]]:
        """Of each corner the start, the control point and the end of its parabola."""
        return [
            (_towards(point, self.points[place - 1], self.radius), point, _towards(point, after, self.radius))
            for place, (point, after) in enumerate(zip(self.points, self.points[1:] + self.points[:1], strict=True))
        ]


@dataclass(frozen=True)
class Line:
    """A straight line."""

    x1: float
    y1: float
    x2: float
    y2: float
    width: float
    fill: str


@dataclass(frozen=True)
class Text:
    """One line of text; y is the middle of its capital letters."""

    x: float
    y: float
    text: str
    size: float
    fill: str
    bold: bool = True

    @property
    def baseline(self) -> float:
        return self.y + CAPITAL / 2 * self.size


Shape = Union[Rect, Circle, Polygon, Line, Text]
CAPITAL: Final = 0.71
"""The height of capital letters and digits in sizes of the font, about the same in every sans serif."""
_SMALLEST: Final = 9
"""The size that text is not made smaller than: it is cut short instead."""
LETTER: Final = 0.62
"""The width of a letter in sizes of the font, on the generous side."""
_ROUNDING: Final = 1e-6
"""Of a column: a size that was made for a text must not seem too large for it."""


@dataclass(frozen=True)
class ShapeGroup:
    """Shapes that belong together, turned clockwise by quarter turns and then moved to `at`."""

    name: str
    shapes: tuple[Shape, ...]
    at: Point = (0, 0)
    turns: Literal[0, 1, 2, 3] = 0


@dataclass(frozen=True)
class Scene:
    """A picture. `title` and `description` are for those who cannot see it."""

    width: int
    height: int
    background: str
    groups: tuple[ShapeGroup, ...]
    title: str
    description: str


@dataclass(frozen=True)
class Palette:
    """The colours, as `#rrggbb`. Blue hero, amber markers: a pair that every kind of colour vision tells apart."""

    canvas: str
    floor: str
    grid: str
    wall: str
    marker: str
    marker_text: str
    tint: str
    """Of the cell where the hero stands on markers."""
    hero: str
    hero_trim: str
    hero_face: str
    ink: str
    muted: str
    alarm: str

    @property
    def colours(self) -> tuple[str, ...]:
        """Every colour once."""
        return tuple(dict.fromkeys(getattr(self, field.name) for field in fields(self)))


THEMES: Final = MappingProxyType(
    {
        "light": Palette(
            canvas="#f4f6fa",
            floor="#ffffff",
            grid="#dde4ee",
            wall="#334155",
            marker="#fbb117",
            marker_text="#3b2300",
            tint="#ffe9b0",
            hero="#2563eb",
            hero_trim="#132a63",
            hero_face="#ffffff",
            ink="#1e293b",
            muted="#64748b",
            alarm="#c81e3a",
        ),
        "dark": Palette(
            canvas="#0b1120",
            floor="#141d31",
            grid="#263450",
            wall="#7c8ca5",
            marker="#fbbf24",
            marker_text="#2b1a00",
            tint="#5a4310",
            hero="#38a8ff",
            hero_trim="#d9eeff",
            hero_face="#06182f",
            ink="#e6edf7",
            muted="#93a3ba",
            alarm="#ff5d73",
        ),
    }
)


def theme_named(name: str) -> Palette:
    """The theme of that name; raises KarelsynthError for an unknown one."""
    if name in THEMES:
        return THEMES[name]
    close = nearest(name, THEMES)
    hint = f"; did you mean `{close}`?" if close else ""
    raise KarelsynthError(f"there is no theme `{name}`: choose {listed(THEMES)}{hint}")


def fitted(text: str, size: float, room: float) -> tuple[str, float]:
    """The text and a size of at most `size` with which it fits into `room` pixels; if need be it is cut short.

    Letters that take two columns of a terminal, as Chinese ones do, count as two here as well.
    """
    size = min(size, max(_SMALLEST, room / (LETTER * max(1, display_width(text)))))
    columns = max(1, int(room / (LETTER * size) + _ROUNDING))
    if display_width(text) <= columns:
        return text, size
    ends = accumulate(map(display_width, text))
    return text[: sum(end < columns for end in ends)] + "…", size


def _towards(start: Point, goal: Point, distance: float) -> Point:
    share = distance / hypot(goal[0] - start[0], goal[1] - start[1])
    return start[0] + share * (goal[0] - start[0]), start[1] + share * (goal[1] - start[1])
