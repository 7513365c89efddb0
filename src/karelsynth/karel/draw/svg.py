"""Scenes as SVG text."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from karelsynth.karel.draw.scene import Circle, Line, Point, Polygon, Rect, Scene, Shape, ShapeGroup, Text

FONT: Final = "ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"


def scene_svg(scene: Scene, *, style: str = "", extra: str = "", identity: str = "", each_once: bool = False) -> str:
    """A standalone SVG document, `extra` after the scene's groups. `identity` becomes the id that `style` scopes to.

    With `each_once`, what occurs several times, as boards and heroes do, is written once and then referred to.
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
            # The baseline is computed, for `dominant-baseline` is not understood everywhere.
            weight = ' font-weight="700"' if bold else ""
            return (
                f'<text x="{number(x)}" y="{number(shape.baseline)}" font-size="{number(size)}"{weight} fill="{fill}">'
                f"{escape(text)}</text>"
            )


def _point(point: Point) -> str:
    return f"{number(point[0])},{number(point[1])}"


def number(value: float) -> str:
    """With at most two decimals and no needless zero."""
    return f"{round(value, 2) + 0.0:g}"  # adding 0.0 takes the sign off a negative zero
