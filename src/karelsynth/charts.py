"""Charts for the docs, by matplotlib: one style, and SVG that is the same on every run.

    figure, (axes,) = panels(660, 360)
    line(axes, [1, 2, 3], [70, 80, 85], colour=BLUE, label="top 1", low=[68, 78, 83], high=[72, 82, 87])
    percent_axis(axes)
    save_chart(figure, "picture.svg", title="Top 1", description="1: 70 %; 2: 80 %; 3: 85 %")

`panels` returns matplotlib's own figure and axes, which callers may use directly. matplotlib is imported on first use.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from karelsynth.errors import KarelsynthError, naming_extras
from karelsynth.files import write_atomically

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

INK: Final = "#1e293b"
MUTED: Final = "#64748b"
GRID: Final = "#dde4ee"
CANVAS: Final = "#f4f6fa"
BLUE: Final = "#2563eb"
LIGHT_BLUE: Final = "#9db7f5"
AMBER: Final = "#d97706"
RED: Final = "#c81e3a"
GREY: Final = "#b6c1d1"
"""Colours of series. Those of the drawings of worlds are similar."""
_STYLE: Final[Mapping[str, Any]] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GRID,
    "axes.facecolor": "#ffffff",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.labelsize": 11,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "figure.constrained_layout.h_pad": 0.1,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.facecolor": CANVAS,
    "figure.titlesize": 15,
    "figure.titleweight": "bold",
    "font.family": "sans-serif",
    "font.size": 10,
    "grid.color": GRID,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "lines.linewidth": 2,
    "lines.markersize": 5,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "karelsynth",
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.color": MUTED,
    "ytick.major.size": 0,
}


def _style() -> AbstractContextManager[None]:
    with naming_extras():
        import matplotlib
    style: Any = dict(_STYLE)
    return matplotlib.rc_context(style)


def panels(
    width: float, height: float, *, rows: int = 1, columns: int = 1, title: str = "", **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure, its size in pixels, and its axes, row by row; `options` go to `Figure.subplots`."""
    with _style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **options)
        if title:
            figure.suptitle(title)
    return figure, list(axes.flat)


def line(
    axes: Axes,
    x: Sequence[float],
    y: Sequence[float],
    *,
    colour: str,
    label: str = "",
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
    markers: bool = True,
) -> None:
    """A line through points; with `low` and `high`, also each point's interval."""
    axes.plot(x, y, color=colour, label=label or None, marker="o" if markers else None)
    if low is not None and high is not None:
        axes.vlines(x, low, high, color=colour, linewidth=1)


def bars(axes: Axes, labels: Sequence[str], series: Mapping[str, tuple[Sequence[float], str | Sequence[str]]]) -> None:
    """Groups of bars, side by side: by name, each series' values and its colour (or one for each bar)."""
    width = 0.8 / len(series)
    for place, (name, (values, colour)) in enumerate(series.items()):
        middles = [number + (place - (len(series) - 1) / 2) * width for number in range(len(labels))]
        axes.bar(middles, values, width * 0.94, color=colour, label=name)
    axes.set_xticks(range(len(labels)), labels)


def heatmap(axes: Axes, colours: NDArray[np.float64], rows: Sequence[str], columns: Sequence[str]) -> None:
    """Coloured cells: RGB [rows, columns, 3], from 0 to 1, with their labels."""
    axes.imshow(colours, interpolation="none", aspect="equal")
    axes.grid(False)
    axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=7)
    axes.set_yticks(range(len(rows)), rows, fontsize=7)


def second_axis(axes: Axes) -> Axes:
    """Axes over the same x with a vertical scale of their own, on the right."""
    with _style():
        right = axes.twinx()
        right.grid(False)
    return right


def legend(target: Axes | Figure, **options: Any) -> None:
    """The legend of some axes or of a whole figure; `options` are matplotlib's."""
    with _style():
        target.legend(**options)


def colour_legend(figure: Figure, colours: Mapping[str, Any]) -> None:
    """A legend of coloured squares below a figure: by name, what each colour means."""
    with _style():
        from matplotlib.patches import Patch

        squares = [Patch(facecolor=colour, edgecolor=MUTED, label=name) for name, colour in colours.items()]
        figure.legend(handles=squares, loc="outside lower center", ncols=len(squares))


def percent_axis(axes: Axes, low: float = 0.0) -> None:
    """A vertical axis up to 100 %, with room for the markers at its ends."""
    room = 0.025 * (100 - low)
    axes.set_ylim(low - room, 100 + room)
    axes.yaxis.set_major_formatter("{x:.0f} %")


def chart_svg(figure: Figure, *, title: str, description: str) -> str:
    """The figure as SVG with a title and a description for readers that cannot see it. The same on every run."""
    file = io.StringIO()
    with _style():
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"^.*?(?=<svg)", "", file.getvalue(), flags=re.DOTALL)
    text = re.sub(r" *<metadata>.*?</metadata>\n", "", text, flags=re.DOTALL)
    text = re.sub(r'(width|height)="([\d.]+)pt"', r'\1="\2"', text, count=2)
    inside = f"<title>{escape(title)}</title>\n <desc>{escape(description)}</desc>\n"
    return re.sub(r"<svg ([^>]*)>\n", lambda tag: f'<svg role="img" {tag[1]}>\n {inside}', text, count=1)


def save_chart(figure: Figure, path: str | Path, *, title: str, description: str) -> None:
    """Save a figure as `.svg` or `.png`."""
    path = Path(path)
    if path.suffix.lower() == ".svg":
        data = chart_svg(figure, title=title, description=description).encode()
    elif path.suffix.lower() == ".png":
        file = io.BytesIO()
        with _style():
            figure.savefig(file, format="png", dpi=144, metadata={"Software": None})
        data = file.getvalue()
    else:
        raise KarelsynthError(f"cannot save a chart as {path}: the name must end in `.svg` or `.png`")
    write_atomically(path, data)
