"""Scenes as pixels, with Pillow.

Shapes are painted four times as large, and then the picture is reduced, which gives smooth edges. A box of the scene
has the same pixels whether it is painted alone or with the whole picture, so a film repaints only what has changed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from karelsynth.errors import KarelsynthError, listed
from karelsynth.karel.draw.scene import Circle, Line, Point, Polygon, Rect, Scene, Shape, ShapeGroup, Text

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont

    Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

SUPERSAMPLING: Final = 4
"""Painted pixels for each pixel of the picture, in each direction."""
_PROBE: Final = 32
"""The font size for testing whether a font has a letter."""
_NO_LETTER: Final = "\U0010ffff"
_SYSTEM_FONTS: Final = (
    *("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "FreeSans.ttf", "Arial.ttf"),
    *("segoeui.ttf", "Arial Unicode.ttf", "NotoSansCJK-Regular.ttc", "wqy-microhei.ttc", "DroidSansFallbackFull.ttf"),
    *("Hiragino Sans GB.ttc", "AppleSDGothicNeo.ttc", "msyh.ttc", "YuGothM.ttc", "malgun.ttf"),
)
"""Common fonts of Linux, macOS and Windows. Pillow knows their folders."""
Box = tuple[int, int, int, int]
"""Left, top, right, bottom, in whole pixels of the scene."""


def scene_image(scene: Scene, box: Box | None = None) -> Image.Image:
    """The scene, or the part of it in `box`, as an RGB image."""
    from PIL import Image, ImageDraw

    left, top, right, bottom = box or (0, 0, scene.width, scene.height)
    large = Image.new("RGB", ((right - left) * SUPERSAMPLING, (bottom - top) * SUPERSAMPLING), scene.background)
    brush = _Brush(ImageDraw.Draw(large), left, top)
    for group in scene.groups:
        for shape in group.shapes:
            x1, y1, x2, y2 = _bounds(shape, group)
            if x1 < right and x2 > left and y1 < bottom and y2 > top:
                brush.paint(shape, group)
    return large.reduce(SUPERSAMPLING)


class _Brush:
    """Paints shapes on the large image whose corner is at (left, top) of the scene."""

    def __init__(self, draw: ImageDraw.ImageDraw, left: int, top: int) -> None:
        self.draw, self.left, self.top = draw, left, top

    def paint(self, shape: Shape, group: ShapeGroup) -> None:
        match shape:
            case Rect(x, y, width, height, fill, radius):
                box = self.box((x, y), (x + width, y + height), group)
                if box[2] >= box[0] and box[3] >= box[1]:
                    self.draw.rounded_rectangle(box, radius * SUPERSAMPLING, fill)
            case Circle(x, y, radius, fill):
                self.draw.ellipse(self.box((x - radius, y - radius), (x + radius, y + radius), group), fill)
            case Polygon(_, fill):
                outline = [point for corner in shape.corners for point in _parabola(*corner)]
                self.draw.polygon([self.place(point, group) for point in outline], fill)
            case Line(x1, y1, x2, y2, width, fill):
                ends = [self.place((x1, y1), group), self.place((x2, y2), group)]
                self.draw.line(ends, fill, max(1, round(width * SUPERSAMPLING)))
            case Text(x, _, text, size, fill, bold):
                self.draw.text(
                    self.place((x, shape.baseline), group),
                    text,
                    fill,
                    font_for(text, round(size * SUPERSAMPLING)),
                    anchor="ms",
                    stroke_width=max(1, round(size * SUPERSAMPLING / 50)) if bold else 0,
                )

    def place(self, point: Point, group: ShapeGroup) -> Point:
        x, y = point
        for _ in range(group.turns):
            x, y = -y, x
        return (x + group.at[0] - self.left) * SUPERSAMPLING, (y + group.at[1] - self.top) * SUPERSAMPLING

    def box(self, start: Point, end: Point, group: ShapeGroup) -> tuple[float, float, float, float]:
        """The corners in Pillow's order. Its boxes include their last pixel."""
        (x1, y1), (x2, y2) = self.place(start, group), self.place(end, group)
        return round(min(x1, x2)), round(min(y1, y2)), round(max(x1, x2)) - 1, round(max(y1, y2)) - 1


def _bounds(shape: Shape, group: ShapeGroup) -> tuple[float, float, float, float]:
    """A bounding box of the shape in the scene. Most shapes are outside of a film's boxes, so this must be fast."""
    match shape:
        case Rect(x, y, width, height):
            x1, y1, x2, y2 = x, y, x + width, y + height
        case Circle(x, y, radius):
            x1, y1, x2, y2 = x - radius, y - radius, x + radius, y + radius
        case Polygon(points):
            xs, ys = zip(*points, strict=True)
            x1, y1, x2, y2 = min(xs), min(ys), max(xs), max(ys)
        case Line(x1, y1, x2, y2, width):
            x1, y1, x2, y2 = x1 - width, y1 - width, x2 + width, y2 + width
        case Text(x, y, text, size):
            half = size * (len(text) + 1) / 2
            x1, y1, x2, y2 = x - half, y - size, x + half, y + size
    for _ in range(group.turns):
        x1, y1, x2, y2 = -y2, x1, -y1, x2
    x, y = group.at
    return x1 + x, y1 + y, x2 + x, y2 + y


def _parabola(start: Point, tip: Point, end: Point, steps: int = 6) -> list[Point]:
    shares = [step / steps for step in range(steps + 1)]
    return [
        (
            (1 - t) ** 2 * start[0] + 2 * t * (1 - t) * tip[0] + t**2 * end[0],
            (1 - t) ** 2 * start[1] + 2 * t * (1 - t) * tip[1] + t**2 * end[1],
        )
        for t in shares
    ]


def font_for(text: str, size: int) -> Font:
    """Pillow's own font, so that pictures are equal on every machine. If it lacks a letter, a system font that has all.

    Raises KarelsynthError if no font has all letters, because fonts draw boxes for missing ones.
    """
    fewest = text
    for name in (None, *_SYSTEM_FONTS):
        with suppress(OSError):  # not installed
            lacking = _lacking(name, text)
            if not lacking:
                return _font(name, size)
            fewest = min(fewest, lacking, key=len)
    letters = listed(fewest, "and")
    raise KarelsynthError(f"no font here can paint {letters} of `{text}`; save the picture as .svg, or leave them out")


@lru_cache(maxsize=256)
def _lacking(name: str | None, text: str) -> str:
    """The letters of a text that a font lacks: it draws them like a letter that does not exist."""
    font = _font(name, _PROBE)
    nothing = _painted(font, _NO_LETTER)
    return "".join(letter for letter in dict.fromkeys(text) if _painted(font, letter) == nothing)


def _painted(font: Font, letter: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(letter)
    return mask.size, bytes(mask)


@lru_cache(maxsize=64)
def _font(name: str | None, size: int) -> Font:
    from PIL import ImageFont

    return ImageFont.load_default(size=size) if name is None else ImageFont.truetype(name, size)
