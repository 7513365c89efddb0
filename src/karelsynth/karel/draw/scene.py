"""Pictures as lists of shapes, and their SVG.

Lengths are pixels, x to the right and y downwards. A scene knows nothing of Karel: `board` makes scenes of worlds.
`scene_svg` writes them as SVG, and `raster` paints them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from html import escape
from itertools import accumulate
from math import hypot
from types import MappingProxyType
from typing import Final, Literal, Union

from karelsynth.errors import KarelsynthError, did_you_mean, listed
from karelsynth.terminal_text import display_width

Point = tuple[float, float]
FONT: Final = "ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"


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
    """A filled polygon. Each corner is rounded to a parabola that begins and ends `radius` away."""

    points: tuple[Point, ...]
    fill: str
    radius: float

    @property
    def corners(self) -> list[tuple[Point, Point, Point]]:
        """The start, the control point and the end of each corner's parabola."""
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
"""The height of capital letters and digits, relative to the font size; about the same in every sans serif."""
_SMALLEST: Final = 9
"""The smallest font size. Text that does not fit is cut short."""
LETTER: Final = 0.62
"""An upper estimate of the width of a letter, relative to the font size."""
_ROUNDING: Final = 1e-6
"""A tolerance in columns: text must fit into the room that its size was computed from."""


@dataclass(frozen=True)
class ShapeGroup:
    """Shapes that belong together, rotated clockwise by quarter turns and then translated to `at`."""

    name: str
    shapes: tuple[Shape, ...]
    at: Point = (0, 0)
    turns: Literal[0, 1, 2, 3] = 0


@dataclass(frozen=True)
class Scene:
    """A picture. `title` and `description` are for screen readers."""

    width: int
    height: int
    background: str
    groups: tuple[ShapeGroup, ...]
    title: str
    description: str


@dataclass(frozen=True)
class Palette:
    """The colours, as `#rrggbb`. Every kind of colour vision distinguishes the blue hero from the amber markers."""

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


_LIGHT: Final = Palette(
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
)
_DARK: Final = Palette(
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
)
# White, with lines that a printer does not lose.
_PAPER: Final = replace(_LIGHT, canvas="#ffffff", grid="#94a3b8", ink="#111111", muted="#475569")
THEMES: Final = MappingProxyType({"light": _LIGHT, "dark": _DARK, "paper": _PAPER})


def theme_named(name: str) -> Palette:
    """The theme of that name; raises KarelsynthError for an unknown one."""
    if name in THEMES:
        return THEMES[name]
    raise KarelsynthError(f"there is no theme `{name}`: choose {listed(THEMES)}{did_you_mean(name, THEMES)}")


def fitted(text: str, size: float, room: float) -> tuple[str, float]:
    """The text and a font size of at most `size` that fit into `room` pixels. Long text is cut short.

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


def scene_svg(scene: Scene, *, style: str = "", extra: str = "", identity: str = "", each_once: bool = False) -> str:
    """A standalone SVG document, with `extra` after the scene's groups. `identity` is the id that `style` refers to.

    With `each_once`, groups that occur several times, such as boards and heroes, are written once and then referenced.
    """
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {scene.width} {scene.height}" '
        f'width="{scene.width}" height="{scene.height}" role="img" text-anchor="middle" font-family="{FONT}"'
        + (f' id="{identity}">' if identity else ">"),
        f"<title>{escape(scene.title)}</title>",
        f"<desc>{escape(scene.description)}</desc>",
    ]
    if style:
        lines.append(f"<style>\n{style}\n</style>")
    lines.append(f'<rect width="{scene.width}" height="{scene.height}" fill="{scene.background}"/>')
    lines += _each_once(scene.groups) if each_once else [group_svg(group) for group in scene.groups]
    if extra:
        lines.append(extra)
    return "\n".join([*lines, "</svg>"]) + "\n"


def group_svg(group: ShapeGroup, *, classes: str = "", attributes: str = "") -> str:
    """`<g class="name">…</g>`, with more `classes` and `attributes` (each after a space) if given."""
    inner = "".join(f"\n{_shape_svg(shape)}" for shape in group.shapes)
    names = f"{group.name} {classes}".rstrip()
    return f'<g class="{names}"{_transform(group)}{attributes}>{inner}\n</g>'


def _each_once(groups: Iterable[ShapeGroup]) -> list[str]:
    names: dict[tuple[Shape, ...], str] = {}
    lines = []
    for group in groups:
        if group.shapes not in names:
            names[group.shapes] = f"g{len(names)}"
            identity = f' id="{names[group.shapes]}"'
            lines.append(f"<defs>{group_svg(ShapeGroup(group.name, group.shapes), attributes=identity)}</defs>")
        turn = f" rotate({90 * group.turns})" if group.turns else ""
        place = f"translate({number(group.at[0])} {number(group.at[1])}){turn}"
        lines.append(f'<use href="#{names[group.shapes]}" transform="{place}"/>')
    return lines


def _transform(group: ShapeGroup) -> str:
    steps = []
    if group.at != (0, 0):
        steps.append(f"translate({number(group.at[0])} {number(group.at[1])})")
    if group.turns:
        steps.append(f"rotate({90 * group.turns})")
    return f' transform="{" ".join(steps)}"' if steps else ""


def _shape_svg(shape: Shape) -> str:
    match shape:
        case Rect(x, y, width, height, fill, radius):
            corners = f' rx="{number(radius)}"' if radius else ""
            return (
                f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
                f'{corners} fill="{fill}"/>'
            )
        case Circle(x, y, radius, fill):
            return f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" fill="{fill}"/>'
        case Polygon(_, fill):
            curves = "L".join(f"{_point(start)}Q{_point(tip)} {_point(end)}" for start, tip, end in shape.corners)
            return f'<path d="M{curves}Z" fill="{fill}"/>'
        case Line(x1, y1, x2, y2, width, fill):
            return f'<path d="M{_point((x1, y1))}L{_point((x2, y2))}" stroke="{fill}" stroke-width="{number(width)}"/>'
        case Text(x, _, text, size, fill, bold):
            # The baseline is computed, because some programs ignore `dominant-baseline`.
            weight = ' font-weight="700"' if bold else ""
            return (
                f'<text x="{number(x)}" y="{number(shape.baseline)}" font-size="{number(size)}"{weight} fill="{fill}">'
                f"{escape(text)}</text>"
            )


def _point(point: Point) -> str:
    return f"{number(point[0])},{number(point[1])}"


def number(value: float) -> str:
    """A number with at most two decimals and without trailing zeros."""
    return f"{round(value, 2) + 0.0:g}"  # adding 0.0 turns -0.0 into 0.0
