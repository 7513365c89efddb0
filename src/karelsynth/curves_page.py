"""docs/limits.md and its picture, made of results/curves.json; no figure is typed.

    render(root)                     # what `karelsynth curves --render` does

`rendered` gives the same as text, so that a test can compare it with the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from karelsynth.curves import FAMILIES, MEASURES, REFERENCE, Curves, Point, Share, read_curves
from karelsynth.errors import KarelsynthError
from karelsynth.files import write_atomically
from karelsynth.karel.draw.scene import THEMES, Circle, Line, Rect, Scene, Shape, ShapeGroup, Text
from karelsynth.karel.draw.svg import scene_svg
from karelsynth.tasks.original import ORIGINAL
from karelsynth.tasks.shifted import SHIFTS

RESULTS: Final = "results/curves.json"
PAGE: Final = "docs/limits.md"
PICTURE: Final = "docs/pictures/limits.svg"
NOT_YET: Final = "not yet measured"
_AXES: Final = {"examples": "examples given", **{name: shift.what for name, shift in SHIFTS.items()}}
_HEAD: Final = """
# Limits

<!-- Rendered from {results} by `karelsynth curves --render`; change src/karelsynth/curves_page.py, not this. -->

How a model does on tasks unlike its training data: with fewer examples, in other worlds, on longer programs.
The first curve is about the tasks of `test`. Each point of the others has tasks of its own, made by the generator with
one thing changed (`tasks/shifted.py`); since programs and worlds that do not fit together are rejected, they also come
to differ in other ways.

```console
$ {command}
$ karelsynth curves --render     # this page and its picture
```

{measured}{guided}
In percent of tasks, with 95 % intervals:

- *top 1*: the likeliest program of the beam search, as it is, is right on all six examples;
- *filtered top 1*: the likeliest one that is right on the given examples is right on all six;
- *some consistent*: some program that was found is right on the given examples.{solve}
"""
_GUIDED: Final = """
This model sees where its program leads on the given examples while it writes, so that its likeliest program is not
unfiltered in the paper's sense; it nearly always fits them, and *top 1* and *filtered top 1* are nearly the same."""
_SOLVE: Final = """
- *solve: an answer*, *a right one*: what `karelsynth solve` finds is right on the given examples, on all six."""
_TITLES: Final = {
    "examples": "Fewer examples",
    "size": "Small and large worlds",
    "walls": "Worlds full of walls",
    "markers": "Worlds full of markers",
    "length": "Longer programs",
    "controls": "More control statements",
}
_ABOUT: Final = {
    "examples": "The tasks of `test`; the model sees the first one to five of their six examples. The fewer they are, "
    "the more\nprograms fit them all, and the less likely one that fits is right.",
    "size": "Every world has as many rows as columns. Grids are at most 16 by 16, and the data has worlds of all sizes "
    "up to that: there\nis nothing larger to try.",
    "walls": "The chance that a cell is a wall; cells that the program enters without testing them first never are.",
    "markers": "The chance that a cell has markers, unless the program needs it otherwise.",
    "length": "The last band is longer than any program of the data, and ends with the longest that the model can "
    "write. `solve`\nlooks for shorter programs first and gets to these only if time allows.",
    "controls": "REPEAT, WHILE, IF and IFELSE, at any depth. Programs with more of them are longer, too.",
}
_THEME: Final = THEMES["light"]
_COLOURS: Final = {
    "generalization": _THEME.muted,
    "filtered_generalization": _THEME.hero,
    "any_consistent": "#9db7f5",
    "solved_generalization": _THEME.marker,
}
"""Of the measures that are drawn."""
_ACROSS: Final = 3
_PANEL: Final = (360, 250)
_GAP: Final = 16
_HEADER: Final = 76
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 348, 40, 206
"""The frame of a panel's curves."""
_SMALL: Final = 10.5
_LETTER: Final = 5.7
"""The width of a letter of the legend, on average."""


def render(root: Path) -> list[Path]:
    """Write the page, and the picture if there is something to show, below the repository's folder; returns which."""
    if not (root / PAGE).parent.is_dir():
        raise KarelsynthError(f"{root.resolve()}: not the repository's root (there is no docs folder); run this there")
    written = []
    for name, text in rendered(root).items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, text.encode())
        written.append(path)
    return written


def rendered(root: Path) -> dict[str, str]:
    """The text of every file, by its name below the root."""
    curves = read_curves(root / RESULTS)
    files = {PAGE: page(curves)}
    if curves is not None:
        files[PICTURE] = scene_svg(picture(curves))
    return files


def _original(family: str) -> str:
    """What the original data is like, where the figures of a family are to be seen beside it."""
    match family:
        case "walls" | "markers":
            shares, ends = ORIGINAL[f"share of {family}"].values, ORIGINAL[f"share of {family}, ends"].values
            without = ORIGINAL["worlds"].values[f"without {family}"]
            return (
                f"Of the original data's worlds {100 * without:.0f} % have none; in the others the median is "
                f"{100 * shares['50 %']:.0f} % of cells,\nthe 90th percentile {100 * shares['90 %']:.0f} %, "
                f"the maximum {100 * ends['most']:.0f} %."
            )
        case "length":
            lengths, beyond = ORIGINAL["program length"].values, ORIGINAL["program length beyond"].values
            return (
                f"Of the original data's programs half have at most {lengths['50 %']:.0f} tokens, 95 % at most "
                f"{lengths['95 %']:.0f}, all at most {beyond['longest']:.0f}."
            )
        case _:
            return ""


def page(curves: Curves | None) -> str:
    """docs/limits.md."""
    head = _HEAD.format(
        results=RESULTS,
        command=command(curves),
        solve=_SOLVE if curves is not None and curves.settings.solve is not None else "",
        measured=_measured(curves),
        guided=_GUIDED if curves is not None and curves.provenance.get("decoding") == "execution-guided" else "",
    )
    parts = [head.strip()]
    if curves is not None:
        parts.append("![a panel of curves for each family](pictures/limits.svg)")
    for family, title in _TITLES.items():
        about = f"{_ABOUT[family]}\n{_original(family)}".rstrip()
        parts += [f"## {title}", about, NOT_YET if curves is None else table(curves, family)]
    return "\n\n".join(parts) + "\n"


def command(curves: Curves | None) -> str:
    """What measures the same again."""
    if curves is None:
        return f"karelsynth curves --json {RESULTS}"
    settings, model = curves.settings, curves.provenance.get("model")
    place = f" {model}" * (model not in (None, "shipped"))
    solve = "" if settings.solve is None else f" --solve {settings.solve:g}"
    return f"karelsynth curves{place} --tasks {settings.tasks} --beam {settings.beam}{solve} --json {RESULTS}"


def _measured(curves: Curves | None) -> str:
    if curves is None:
        return f"This is {NOT_YET}."
    settings, told = curves.settings, curves.provenance
    solve = "" if settings.solve is None else f", {settings.solve:g} s a task for solve"
    return (
        f"{settings.tasks:,} tasks a point, beam {settings.beam}{solve}; decoding is {told.get('decoding')}; "
        f"on {settings.device}.\nModel: {told.get('model')}, its weights' digest `{settings.model}`."
    )


def table(curves: Curves, family: str) -> str:
    """A family's points as Markdown, and the data's own distribution below them."""
    measures = curves.settings.measures
    rows = [(point, curves.points.get((family, point))) for point in FAMILIES[family]]
    if not any(point for _, point in rows):
        return NOT_YET
    if family != REFERENCE[0]:
        rows.append(("*the data's own*", curves.points.get(REFERENCE)))
    lines = [
        f"| {_AXES[family]} | {' | '.join(MEASURES[name] for name in measures)} |",
        f"| ---: | {' | '.join('---:' for _ in measures)} |",
    ]
    for label, point in rows:
        cells = ["not yet" if point is None else _cell(point, name) for name in measures]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(point: Point, measure: str) -> str:
    share = point.shares[measure]
    return f"{share.percent:.2f} ({share.confidence_95[0]:.2f}–{share.confidence_95[1]:.2f})"


def picture(curves: Curves) -> Scene:
    """A panel for each family that was measured; the thin lines across are the data's own distribution."""
    width, height = _PANEL
    groups = []
    families = [family for family, names in FAMILIES.items() if any((family, name) in curves.points for name in names)]
    for place, family in enumerate(families):
        row, column = divmod(place, _ACROSS)
        at = (_GAP + column * (width + _GAP), _HEADER + row * (height + _GAP))
        groups.append(ShapeGroup(family, tuple(_panel(curves, family)), at=at))
    whole = _GAP + _ACROSS * (width + _GAP)
    groups.append(ShapeGroup("legend", tuple(_legend(curves, whole))))
    told = "; ".join(
        f"{_AXES[family]} {point}: {found.shares['filtered_generalization'].percent:.1f}"
        for family, points in FAMILIES.items()
        for point in points
        if (found := curves.points.get((family, point)))
    )
    title = "How the model does away from its data"
    bottom = _HEADER + -(-len(families) // _ACROSS) * (height + _GAP)
    return Scene(whole, bottom, _THEME.canvas, tuple(groups), title, f"Filtered top 1 in percent. {told}.")


def _panel(curves: Curves, family: str) -> Iterator[Shape]:
    width, height = _PANEL
    yield Rect(0, 0, width, height, _THEME.floor, 6)
    yield Text(width / 2, 20, _TITLES[family], 13, _THEME.ink)
    for level in range(0, 101, 25):
        yield Line(_LEFT, _y(level), _RIGHT, _y(level), 1, _THEME.grid)
        yield Text(_LEFT - 20, _y(level), f"{level} %", _SMALL, _THEME.muted, bold=False)
    slot = (_RIGHT - _LEFT) / len(FAMILIES[family])
    middles = {point: _LEFT + slot * (place + 0.5) for place, point in enumerate(FAMILIES[family])}
    for point, x in middles.items():
        yield Text(x, _BOTTOM + 14, point, _SMALL, _THEME.muted, bold=False)
    yield Text((_LEFT + _RIGHT) / 2, _BOTTOM + 32, _AXES[family], 11, _THEME.ink, bold=False)
    # Beside each other, not on top: intervals overlap more often than not.
    drawn = _drawn(curves)
    for number, name in enumerate(drawn):
        aside = 3 * (number - (len(drawn) - 1) / 2)
        found = [
            (x + aside, curves.points[family, point].shares[name])
            for point, x in middles.items()
            if (family, point) in curves.points
        ]
        yield from _curve(found, _COLOURS[name])
        if REFERENCE in curves.points:
            y = _y(curves.points[REFERENCE].shares[name].percent)
            yield Line(_LEFT, y, _RIGHT, y, 0.8, _COLOURS[name])


def _curve(points: Sequence[tuple[float, Share]], colour: str) -> Iterator[Shape]:
    """Shares at their places, with whiskers for the intervals."""
    for (x1, first), (x2, second) in pairwise(points):
        yield Line(x1, _y(first.percent), x2, _y(second.percent), 2, colour)
    for x, share in points:
        low, high = share.confidence_95
        yield Line(x, _y(low), x, _y(high), 1, colour)
        yield Circle(x, _y(share.percent), 3, colour)


def _drawn(curves: Curves) -> list[str]:
    return [name for name in _COLOURS if name in curves.settings.measures]


def _y(share: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * share / 100


def _legend(curves: Curves, width: float) -> Iterator[Shape]:
    yield Text(width / 2, 24, "How the model does away from its data", 17, _THEME.ink)
    entries = [(_COLOURS[name], MEASURES[name]) for name in _drawn(curves)]
    entries.append((_THEME.grid, "thin across: the data's own distribution"))
    at = (width - sum(len(what) * _LETTER + 44 for _, what in entries)) / 2
    for colour, what in entries:
        room = len(what) * _LETTER
        yield Rect(at, 46, 12, 12, colour, 2)
        yield Text(at + 18 + room / 2, 52, what, 12, _THEME.muted, bold=False)
        at += room + 44
