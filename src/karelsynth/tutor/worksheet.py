"""Worksheets to print: exercises with their worlds drawn large, and the sheet with the solutions; as HTML and as PDF.

Each exercise begins a page: its examples, before and after side by side, and below them lines to write on or the
program. The PDF's pages are pictures, by Pillow. The HTML has the same as text and vector graphics.
"""

from __future__ import annotations

import html
import io
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from karelsynth.errors import KarelsynthError
from karelsynth.karel.draw import world_image, world_svg
from karelsynth.karel.draw.raster import font_for
from karelsynth.tutor.pose import PosedExercise

if TYPE_CHECKING:
    from PIL import Image

    from karelsynth.karel.draw.raster import Font
    from karelsynth.tasks.task import Example, Task

_THEME: Final = "paper"
_LINES: Final = 6
"""Lines to write on below an exercise of the HTML."""
_PIXELS_PER_INCH: Final = 96
"""Of the HTML."""
_AIR: Final = 70
"""The room that the HTML's headings need beyond the PDF's, in pixels of the PDF."""
_STYLE: Final = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #111; }
header { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline; gap: 0 2em; }
h1 { font-size: 1.1em; font-weight: 400; margin: 0; }
h2 { margin: 0.6em 0 0; }
section { margin: 0 0 3em; }
section + section { break-before: page; }
.examples { display: flex; flex-wrap: wrap; gap: 0.5em 2.5em; margin: 1em 0; padding: 0; list-style: none; }
.examples li { break-inside: avoid; max-width: 100%; }
.pair { display: flex; align-items: center; gap: 0.5em; }
figure { margin: 0; min-width: 0; }
figcaption { color: #444; font-size: 0.85em; padding-left: 1.2em; }
svg { display: block; max-width: 100%; height: auto; }
pre { font: 15px/1.4 ui-monospace, monospace; background: #f4f4f4; padding: 0.8em; break-inside: avoid; }
.lines { break-inside: avoid; }
.lines div { border-bottom: 1px solid #999; height: 2em; }
@page { size: A4; margin: 15mm; }
@media print { body { margin: 0; padding: 0; max-width: none; } section { margin: 0; } }
"""
_FIELDS: Final = "Name: ____________________   Date: __________"

_DOTS_PER_INCH: Final = 150
_PAGE: Final = (1240, 1754)
"""A4 at that resolution."""
_MARGIN: Final = 90
_WIDTH: Final = _PAGE[0] - 2 * _MARGIN
_LARGEST_CELL: Final = 56
"""Pixels of the PDF: 9.5 mm."""
_SMALLEST_CELL: Final = 24
"""Examples that are too high for cells of this size go on another page."""
_ARROW: Final = 60
"""The room between before and after."""
_GAP: Final = 50
_HEADING: Final = 62
"""The room above a pair, for its number and for the words Before and After."""
_RULE: Final = 60
_TITLE: Final = 130
"""The room for the name of an exercise and what is said of it."""
_WRITING: Final = 5 * _RULE
"""The least room for a program to be written."""
_LINE: Final = 32
"""The height of a line of a program."""


def sheet_html(exercises: Sequence[PosedExercise], title: str, *, solutions: bool) -> str:
    """The worksheet, or the sheet with the solutions, as one page of HTML that loads nothing."""
    parts = []
    for number, exercise in enumerate(exercises, 1):
        task = exercise.task
        below = f'<div class="lines">{"<div></div>" * _LINES}</div>'
        if solutions:
            below = f"<pre>{html.escape(exercise.program.to('paper'))}</pre>"
        fields = "" if solutions else f"<span>{_FIELDS.replace('   ', ' &nbsp; ')}</span>"
        head = f"<header><h1>{html.escape(_head(title, number, exercises))}</h1>{fields}</header>"
        needed = _WRITING if not solutions else _needed(exercise)
        cell = _arranged(task, _PAGE[1] - 2 * _MARGIN - _TITLE - _AIR - needed)[0] * _PIXELS_PER_INCH // _DOTS_PER_INCH
        examples = "\n".join(_example_html(pair, at, cell) for at, pair in enumerate(task.examples, 1))
        parts.append(
            f"<section>\n{head}\n<h2>{html.escape(task.name)}</h2>\n<p>{html.escape(_about(exercise))}</p>\n"
            f'<ol class="examples">\n{examples}\n</ol>\n{below}\n</section>'
        )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f"<style>\n{_STYLE}</style>\n</head>\n<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _head(title: str, number: int, exercises: Sequence[PosedExercise]) -> str:
    return f"{title}, {number} of {len(exercises)}"


def _about(exercise: PosedExercise) -> str:
    return f"{exercise.task.about} Level: {exercise.level}."


def _example_html(pair: Example, number: int, cell: int) -> str:
    before, after = (world_svg(world, theme=_THEME, cell=cell, labels=True) for world in pair)
    return (
        f'<li><strong>Example {number}</strong>\n<div class="pair">\n<figure><figcaption>Before</figcaption>{before}'
        '</figure>\n<span aria-hidden="true">→</span>\n'
        f"<figure><figcaption>After</figcaption>{after}</figure>\n</div></li>"
    )


def sheet_pdf(exercises: Sequence[PosedExercise], title: str, *, solutions: bool) -> bytes:
    """The same as PDF. An exercise has one page, or more if its worlds need them. No date is in it: the same exercises
    give the same file."""
    pages = [
        page
        for number, exercise in enumerate(exercises, 1)
        for page in _Sheet(exercise, _head(title, number, exercises), solutions=solutions).pages()
    ]
    file = io.BytesIO()
    dates = {"creationDate": None, "modDate": None}
    pages[0].save(
        file, format="PDF", save_all=True, append_images=pages[1:], resolution=_DOTS_PER_INCH, title=title, **dates
    )
    return file.getvalue()


class _Sheet:
    """The pages of an exercise in the PDF."""

    def __init__(self, exercise: PosedExercise, head: str, *, solutions: bool) -> None:
        self.exercise, self.head, self.solutions = exercise, head, solutions

    def pages(self) -> list[Image.Image]:
        self.made: list[Image.Image] = []
        self.turn()
        self.title()
        needed = _needed(self.exercise) if self.solutions else _WRITING
        cell, rows = _arranged(self.exercise.task, _PAGE[1] - 2 * _MARGIN - _TITLE - needed)
        for row in rows:
            height = max(_pair_size(self.exercise.task.examples[at], cell)[1] for at in row)
            self.make_room(height)
            x = _MARGIN
            for at in row:
                self.pair(at, x, cell)
                x += _pair_size(self.exercise.task.examples[at], cell)[0] + _GAP
            self.y += height + _GAP // 2
        if self.solutions:
            self.program()
        else:
            self.make_room(_WRITING)
            while self.y + _RULE < _PAGE[1] - _MARGIN:
                self.y += _RULE
                self.draw.line((_MARGIN, self.y, _PAGE[0] - _MARGIN, self.y), "#999999")
        return self.made

    def turn(self) -> None:
        """Begin a page."""
        from PIL import Image, ImageDraw

        self.made.append(Image.new("RGB", _PAGE, "white"))
        self.draw = ImageDraw.Draw(self.made[-1])
        self.text(_MARGIN, _MARGIN - 40, self.head, 24, "#444444")
        if not self.solutions:
            self.draw.text((_PAGE[0] - _MARGIN, _MARGIN - 40), _FIELDS, "#444444", font_for(_FIELDS, 24), anchor="ra")
        self.y = _MARGIN + 20

    def make_room(self, height: int) -> None:
        if self.y + height > _PAGE[1] - _MARGIN:
            self.turn()

    def title(self) -> None:
        self.text(_MARGIN, self.y, self.exercise.task.name, 36, "black")
        self.text(_MARGIN, self.y + 52, _about(self.exercise), 24, "#333333")
        self.y = _MARGIN + _TITLE

    def text(self, x: int, y: int, text: str, size: int, colour: str) -> None:
        letters, font = _lettering(text, size)
        self.draw.text((x, y), letters, colour, font)

    def pair(self, at: int, x: int, cell: int) -> None:
        self.text(x, self.y, f"Example {at + 1}", 24, "black")
        for name, world in zip(("Before", "After"), self.exercise.task.examples[at], strict=True):
            picture = world_image(world, theme=_THEME, cell=cell, labels=True).convert("RGB")
            self.text(x + cell, self.y + 34, name, 20, "#444444")
            self.made[-1].paste(picture, (x, self.y + _HEADING))
            x += picture.width
            if name == "Before":
                middle = self.y + _HEADING + picture.height // 2
                self.draw.line((x + 10, middle, x + _ARROW - 16, middle), "#444444", 3)
                tip = (x + _ARROW - 8, middle)
                self.draw.polygon([tip, (tip[0] - 14, middle - 8), (tip[0] - 14, middle + 8)], "#444444")
            x += _ARROW

    def program(self) -> None:
        """Every letter has the same width, as in an editor: Pillow's own font has no such letters."""
        self.y += 20
        for line in self.exercise.program.to("paper").split("\n"):
            self.make_room(_LINE)
            for place, letter in enumerate(line):
                self.draw.text((_MARGIN + 15 * place + 7, self.y), letter, "black", font_for(letter, 24), anchor="ma")
            self.y += _LINE


def _needed(exercise: PosedExercise) -> int:
    """The room for a program below its examples. A long one may go on another page."""
    return min(_PAGE[1] // 3, max(_WRITING, (exercise.program.to("paper").count("\n") + 2) * _LINE))


def _lettering(text: str, size: int) -> tuple[str, Font]:
    """A text and its font. If no font here has all its letters, they lose their accents; the HTML has them all."""
    try:
        return text, font_for(text, size)
    except KarelsynthError:
        parts = unicodedata.normalize("NFKD", text.translate({ord(dash): "-" for dash in "–—"}))
        plain = "".join(part if part.isascii() else "?" for part in parts if not unicodedata.combining(part))
        return plain, font_for(plain, size)


def _pair_size(pair: Example, cell: int) -> tuple[int, int]:
    """The width and the height of an example in the PDF."""
    from karelsynth.karel.draw.board import layout_of

    layouts = [layout_of(world, theme=_THEME, cell=cell, labels=True) for world in pair]
    return sum(each.width for each in layouts) + _ARROW, max(each.height for each in layouts) + _HEADING


def _arranged(task: Task, room: int) -> tuple[int, list[list[int]]]:
    """The largest cell with which the examples need no more than `room`, and the examples of each row."""
    cell = _LARGEST_CELL
    while True:
        sizes = [_pair_size(pair, cell) for pair in task.examples]
        rows = list(_rows([width for width, _ in sizes]))
        is_narrow = max(width for width, _ in sizes) <= _WIDTH
        is_low = sum(max(sizes[at][1] for at in row) + _GAP // 2 for row in rows) <= room
        if is_narrow and (is_low or cell <= _SMALLEST_CELL):
            return cell, rows
        cell -= 2


def _rows(widths: Sequence[int]) -> Iterator[list[int]]:
    """As many examples in each row as fit."""
    row: list[int] = []
    for at, width in enumerate(widths):
        if row and sum(widths[one] + _GAP for one in row) + width > _WIDTH:
            yield row
            row = []
        row.append(at)
    yield row
