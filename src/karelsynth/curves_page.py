"""docs/limits.md and its picture, rendered from results/curves.json.

    render(root)                     # the command `karelsynth curves --render`

`rendered` returns the same files as text, for the test that compares them with those of the repository.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from karelsynth.charts import AMBER, BLUE, LIGHT_BLUE, MUTED, chart_svg, legend, line, panels, percent
from karelsynth.curves import FAMILIES, MEASURES, REFERENCE, Curves, Point, read_curves
from karelsynth.errors import KarelsynthError
from karelsynth.files import write_atomically
from karelsynth.tasks.shifted import SHIFTS
from karelsynth.tasks.statistics import ORIGINAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RESULTS: Final = "results/curves.json"
PAGE: Final = "docs/limits.md"
PICTURE: Final = "docs/pictures/limits.svg"
NOT_YET: Final = "not yet measured"
_AXES: Final = {"examples": "examples given", **{name: shift.what for name, shift in SHIFTS.items()}}
_HEAD: Final = """
# Out of distribution

<!-- Rendered from {results} by `karelsynth curves --render`; change src/karelsynth/curves_page.py, not this. -->

Scores of a model on tasks unlike its training data: with fewer examples, in other worlds, on longer programs. The first
curve uses the tasks of `test`. Each point of the others has tasks of its own, generated with one thing changed
(`tasks/shifted.py`). The generator rejects programs and worlds that do not fit together, so these tasks also differ in
other ways.

```console
$ {command}
$ karelsynth curves --render     # this page and its picture
```

{measured}{guided}
In percent of tasks, with 95 % intervals:

- *top 1*: the top-ranked program of the beam search is right on all six examples;
- *filtered top 1*: the top-ranked program that is right on the given examples is right on all six;
- *some consistent*: some program that was found is right on the given examples.{solve}
"""
_GUIDED: Final = """
This model sees the state to which each prefix leads the given examples, so its top-ranked program is not unfiltered in
the paper's sense. It nearly always fits them: *top 1* and *filtered top 1* are nearly the same."""
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
    "examples": "The tasks of `test`; the model sees the first one to five of their six examples. The fewer "
    "examples,\nthe more programs fit them, and the less likely one that fits is right.",
    "size": "Every world has as many rows as columns. The data has worlds of all sizes up to 16 by 16, the largest "
    "that there\nare.",
    "walls": "The probability that a cell is a wall; cells that the program enters untested never are.",
    "markers": "The probability that a cell has markers, unless the program needs it otherwise.",
    "length": "The last band is longer than any program of the data, and ends with the longest that the model can "
    "write.\n`solve` searches shorter programs first and reaches these only if time allows.",
    "controls": "REPEAT, WHILE, IF and IFELSE, at any depth. Programs with more of them are longer, too.",
}
_COLOURS: Final = {
    "generalization": MUTED,
    "filtered_generalization": BLUE,
    "any_consistent": LIGHT_BLUE,
    "solved_generalization": AMBER,
}
"""The measures that the picture shows, and their colours."""
_COLUMNS: Final = 3
_TITLE: Final = "How the model does away from its data"


def render(root: Path) -> list[Path]:
    """Write the page, and the picture if there are results, below the repository's root; returns the paths."""
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
        files[PICTURE] = picture(curves)
    return files


def _original(family: str) -> str:
    """The original data's statistics that belong beside a family; may be empty."""
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
    """The command that measures the same again."""
    if curves is None:
        return f"karelsynth curves --json {RESULTS}"
    settings, model = curves.settings, curves.provenance.get("model")
    place = f" {model}" * (model not in (None, "shipped"))
    solve = "" if settings.solve is None else f" --solve {settings.solve:g}"
    return f"karelsynth curves{place} --tasks {settings.tasks} --beam {settings.beam}{solve} --json {RESULTS}"


def _measured(curves: Curves | None) -> str:
    if curves is None:
        return f"This is {NOT_YET}."
    settings, provenance = curves.settings, curves.provenance
    solve = "" if settings.solve is None else f", {settings.solve:g} s a task for solve"
    return (
        f"{settings.tasks:,} tasks a point, beam {settings.beam}{solve}; decoding is {provenance.get('decoding')}; "
        f"on {settings.device}.\nModel: {provenance.get('model')}, its weights' digest `{settings.model}`."
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


def picture(curves: Curves) -> str:
    """The chart as SVG: a panel for each measured family. Thin lines mark the data's own distribution."""
    values = "; ".join(
        f"{_AXES[family]} {point}: " + ", ".join(f"{found.shares[name].percent:.1f}" for name in _drawn(curves))
        for family, points in FAMILIES.items()
        for point in points
        if (found := curves.points.get((family, point)))
    )
    measures = ", ".join(MEASURES[name] for name in _drawn(curves))
    return chart_svg(figure(curves), title=_TITLE, description=f"In percent ({measures}): {values}.")


def figure(curves: Curves) -> Figure:
    """The chart of `picture`."""
    families = [family for family, names in FAMILIES.items() if any((family, name) in curves.points for name in names)]
    rows = max(1, -(-len(families) // _COLUMNS))
    drawing, axes = panels(1150, 70 + 270 * rows, rows=rows, columns=_COLUMNS, title=_TITLE)
    for family, panel in zip(families, axes, strict=False):
        _draw_family(panel, curves, family)
    for panel in axes[len(families) :]:
        panel.remove()
    handles, labels = axes[0].get_legend_handles_labels()
    if labels:
        legend(drawing, handles=handles, labels=labels, loc="outside lower center", ncols=len(labels))
    return drawing


def _draw_family(axes: Axes, curves: Curves, family: str) -> None:
    names = FAMILIES[family]
    places = [place for place, name in enumerate(names) if (family, name) in curves.points]
    drawn = _drawn(curves)
    for number, measure in enumerate(drawn):
        shares = [curves.points[family, names[place]].shares[measure] for place in places]
        line(
            axes,
            [place + 0.06 * (number - (len(drawn) - 1) / 2) for place in places],  # side by side: intervals overlap
            [share.percent for share in shares],
            colour=_COLOURS[measure],
            label=MEASURES[measure],
            low=[share.confidence_95[0] for share in shares],
            high=[share.confidence_95[1] for share in shares],
        )
        if REFERENCE in curves.points:
            own = curves.points[REFERENCE].shares[measure].percent
            axes.axhline(own, color=_COLOURS[measure], linewidth=0.8, linestyle=":")
    axes.plot([], [], color=MUTED, linewidth=0.8, linestyle=":", label="the data's own distribution")
    axes.set_xticks(range(len(names)), names)
    axes.set_title(_TITLES[family])
    axes.set_xlabel(_AXES[family])
    percent(axes)


def _drawn(curves: Curves) -> list[str]:
    return [name for name in _COLOURS if name in curves.settings.measures]
