"""Worksheets to print: exercises with their worlds drawn large, and the sheet with the solutions; as HTML and as PDF.

The PDF has one page an exercise, A4, as pictures, by Pillow. The HTML pages have the same content as text and vector
graphics, and break before each exercise when printed.
"""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from karelsynth.karel.draw import examples_svg
from karelsynth.tutor.pose import PosedExercise

if TYPE_CHECKING:
    from PIL import Image

_CELL: Final = 34
"""The side of a cell in the pages' drawings, in pixels."""
_DOTS_PER_INCH: Final = 150
_PAGE: Final = (1240, 1754)
"""A4 at that resolution."""
_MARGIN: Final = 90
_STYLE: Final = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #111; }
section { break-inside: avoid; page-break-inside: avoid; margin: 0 0 3em; }
section + section { break-before: page; page-break-before: always; }
svg { max-width: 100%; height: auto; }
pre { font: 15px/1.4 ui-monospace, monospace; background: #f4f4f4; padding: 0.8em; }
.lines { border-bottom: 1px solid #bbb; height: 1.8em; }
@page { size: A4; margin: 15mm; }
"""


def sheet_html(exercises: Sequence[PosedExercise], title: str, *, solutions: bool) -> str:
    """The worksheet, or the sheet with the solutions, as one page of HTML that loads nothing."""
    parts = []
    for exercise in exercises:
        task = exercise.task
        drawing = examples_svg(task.examples, cell=_CELL, name=task.name, about=task.about)
        if solutions:
            below = f"<pre>{html.escape(exercise.program.to('paper'))}</pre>"
        else:
            below = '<div class="lines"></div>' * 8
        about = f"{html.escape(task.about)} Level: {exercise.level}."
        parts.append(f"<section>\n<h2>{html.escape(task.name)}</h2>\n<p>{about}</p>\n{drawing}\n{below}\n</section>")
    heading = html.escape(title)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{heading}</title>\n'
        f"<style>\n{_STYLE}</style>\n</head>\n<body>\n<h1>{heading}</h1>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def sheet_pdf(exercises: Sequence[PosedExercise], title: str, *, solutions: bool) -> bytes:
    """The same as PDF, one page an exercise."""
    pages = [
        _page(exercise, f"{title}, {number} of {len(exercises)}", solutions=solutions)
        for number, exercise in enumerate(exercises, 1)
    ]
    file = io.BytesIO()
    pages[0].save(file, format="PDF", save_all=True, append_images=pages[1:], resolution=_DOTS_PER_INCH, title=title)
    return file.getvalue()


def _page(exercise: PosedExercise, head: str, *, solutions: bool) -> Image.Image:
    from PIL import Image, ImageDraw, ImageFont

    from karelsynth.karel.draw.board import sheet_scene
    from karelsynth.karel.draw.raster import scene_image

    page = Image.new("RGB", _PAGE, "white")
    draw = ImageDraw.Draw(page)
    large, small = ImageFont.load_default(36), ImageFont.load_default(24)
    task, y = exercise.task, _MARGIN
    draw.text((_MARGIN, y - 50), head, "#666666", small)
    draw.text((_MARGIN, y), task.name, "black", large)
    draw.text((_MARGIN, y + 52), f"{task.about} Level: {exercise.level}.", "#333333", small)
    y += 110
    picture = scene_image(sheet_scene(task.examples, theme="light", cell=_CELL)).convert("RGB")
    room = _PAGE[0] - 2 * _MARGIN, (_PAGE[1] - y - _MARGIN) * 2 // 3
    scale = min(room[0] / picture.width, room[1] / picture.height, 2.0)
    picture = picture.resize((max(1, int(picture.width * scale)), max(1, int(picture.height * scale))))
    page.paste(picture, (_MARGIN, y))
    y += picture.height + 40
    if solutions:
        lines = exercise.program.to("paper").split("\n")
        step = max(8, min(32, (_PAGE[1] - _MARGIN - y) // max(1, len(lines))))
        font = ImageFont.load_default(step * 3 // 4)
        for number, line in enumerate(lines):
            indent = len(line) - len(line.lstrip())
            draw.text((_MARGIN + indent * 14, y + number * step), line.lstrip(), "black", font)
    else:
        while y + 60 < _PAGE[1] - _MARGIN:
            y += 60
            draw.line((_MARGIN, y, _PAGE[0] - _MARGIN, y), "#bbbbbb")
    return page
