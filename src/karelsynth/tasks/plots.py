"""The statistics of tasks as a picture: each group of figures a panel of bars beside the original's.

Panels flow like words, each as wide as its labels need, and the rows are stretched to one width.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import ceil, floor, isfinite, log10
from pathlib import Path
from typing import Final

from karelsynth.errors import KarelsynthError
from karelsynth.files import write_atomically
from karelsynth.karel.draw.raster import scene_image
from karelsynth.karel.draw.scene import LETTER, THEMES, Line, Rect, Scene, Shape, ShapeGroup, Text, scene_svg
from karelsynth.tasks.statistics import FigureComparison

_WIDTH: Final = 1400
_MARGIN: Final = 24
_GAP: Final = 14
_HEADER: Final = 84
_TITLE: Final = 30
_BARS: Final = 96
"""The height of the tallest bar that fits."""
_LABELS: Final = 40
"""The height of the labels, up to three lines."""
_PANEL: Final = _TITLE + _BARS + _LABELS
_AXIS: Final = 40
"""The width of the axis with its numbers."""
_SMALL: Final = 9.5
_THEME: Final = THEMES["light"]
_ORIGINAL: Final = "#b6c1d1"


def save_plot(rows: Sequence[FigureComparison], tasks: int, path: str | Path) -> None:
    """Save the picture of some figures (see `statistics.compare`) of so many tasks as `.svg` or `.png`."""
    path = Path(path)
    if path.suffix.lower() not in (".svg", ".png"):
        raise KarelsynthError(f"cannot save a picture as {path}: the name must end in `.svg` or `.png`")
    scene = plot_scene(rows, tasks)
    if path.suffix.lower() == ".svg":
        write_atomically(path, scene_svg(scene).encode())
    else:
        file = io.BytesIO()
        scene_image(scene).save(file, format="PNG", optimize=True)
        write_atomically(path, file.getvalue())


def plot_scene(rows: Sequence[FigureComparison], tasks: int) -> Scene:
    """The picture; figures that are for information only, or not finite, are left out."""
    judged = [row for row in rows if row.allowed is not None and isfinite(row.value)]
    panels = [_Panel(name, tuple(figures)) for name, figures in groupby(judged, key=lambda row: row.group)]
    within = sum(row.within for row in judged)
    title = f"{tasks:,} tasks beside the original data: {within} of {len(judged)} figures near enough"
    groups = [ShapeGroup("header", tuple(_header(title)))]
    top = _HEADER
    for line in _flow(panels):
        spare = _WIDTH - 2 * _MARGIN - (len(line) - 1) * _GAP - sum(panel.width for panel in line)
        left: float = _MARGIN
        for panel in line:
            # A row that is nearly empty, as the last may be, is not torn apart.
            width = panel.width + (spare * panel.width / sum(p.width for p in line) if spare < _WIDTH / 3 else 0)
            groups.append(ShapeGroup(panel.name, tuple(panel.shapes(width)), at=(round(left), top)))
            left += width + _GAP
        top += _PANEL + _GAP
    return Scene(_WIDTH, top + _MARGIN - _GAP, _THEME.canvas, tuple(groups), title, _description(judged))


def _description(rows: Sequence[FigureComparison]) -> str:
    outside = [f"{row.group}, {row.name}: {row.value:.3g} for {row.original:.3g}" for row in rows if not row.within]
    return f"Too far off: {'; '.join(outside)}." if outside else "All are near enough."


def _header(title: str) -> Iterator[Shape]:
    yield Text(_WIDTH / 2, 28, title, 20, _THEME.ink)
    at = _WIDTH / 2 - 210
    for colour, what in ((_ORIGINAL, "original"), (_THEME.hero, "these tasks"), (_THEME.alarm, "too far off")):
        yield Rect(at, 52, 12, 12, colour, 2)
        yield Text(at + 66, 58, what, 13, _THEME.muted, bold=False)
        at += 160


def _flow(panels: Sequence[_Panel]) -> Iterator[list[_Panel]]:
    """The panels in rows."""
    line: list[_Panel] = []
    room = _WIDTH - 2 * _MARGIN
    for panel in panels:
        if line and sum(p.width + _GAP for p in line) + panel.width > room:
            yield line
            line = []
        line.append(panel)
    if line:
        yield line


@dataclass(frozen=True)
class _Panel:
    """A group of figures."""

    name: str
    rows: tuple[FigureComparison, ...]

    @cached_property
    def slot(self) -> float:
        """The width that a pair of bars and its label need."""
        longest = max(len(line) for row in self.rows for line in _lines(row.name))
        return max(24.0, longest * LETTER * _SMALL + 6)

    @cached_property
    def width(self) -> float:
        return max(_AXIS + self.slot * len(self.rows) + 12, len(self.name) * LETTER * 12 + 24)

    def shapes(self, width: float) -> Iterator[Shape]:
        """The panel, from its upper left corner, stretched to a width."""
        yield Rect(0, 0, width, _PANEL, _THEME.floor, 6)
        yield Text(width / 2, 16, self.name, 12, _THEME.ink)
        bottom = _TITLE + _BARS
        step, steps = _scale(max(max(row.value, row.original) for row in self.rows))
        for number in range(steps + 1):
            y = bottom - _BARS * number / steps
            yield Line(_AXIS, y, width - 10, y, 1, _THEME.grid)
            yield Text(_AXIS / 2 + 1, y, f"{number * step:.6g}", _SMALL, _THEME.muted, bold=False)
        slot = (width - _AXIS - 12) / len(self.rows)
        bar = min(18.0, slot * 0.36)
        for place, row in enumerate(self.rows):
            middle = _AXIS + slot * (place + 0.5)
            colour = _THEME.hero if row.within else _THEME.alarm
            for x, value, fill in ((middle - bar - 0.5, row.original, _ORIGINAL), (middle + 0.5, row.value, colour)):
                height = _BARS * value / (step * steps)
                yield Rect(x, bottom - height, bar, height, fill)
            for number, line in enumerate(_lines(row.name)):
                yield Text(middle, bottom + 9 + 10 * number, line, _SMALL, _THEME.muted, bold=False)


def _lines(name: str) -> list[str]:
    """A label in up to three lines, broken before capitals and at spaces: `no`, `Markers`, `Present`."""
    words = [name] if name.isupper() or "%" in name else re.findall(r"[A-Z]?[^A-Z\s]+|[A-Z]+", name)
    return words if len(words) <= 3 else [" ".join(words[:-2]), *words[-2:]]


def _scale(largest: float) -> tuple[float, int]:
    """A round step and how many of them reach the largest value, 2 to 5."""
    if largest <= 0:
        return 1, 2
    size = 10.0 ** floor(log10(largest))
    step = next(step for step in (size / 5, size / 2, size, 2 * size, 5 * size) if ceil(largest / step - 1e-9) <= 5)
    return step, max(2, ceil(largest / step - 1e-9))
