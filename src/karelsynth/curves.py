"""Scores of a synthesizer out of distribution: curves over one changed property of the tasks.

    curves = Curves(CurveSettings.of(solver, tasks=500, beam=64, solve=1.0), environment(device), {})
    for key in curves.missing(keys()):
        curves = curves.with_point(key, measure(solver, key, curves.settings))

The points are the tasks of `test` with fewer examples, and tasks with shifted worlds or programs (`tasks.shifted`).
Each point has *top 1*, the top-ranked program; *filtered top 1*, the top-ranked program that is correct on the given
examples; *some consistent*, whether there is such a program; and optionally the answers of `solve` within a time
budget. A program is correct if it is correct on all six examples, however few are given. The reference point is `test`
with five examples, the data's own distribution.

    render(root)        # docs/limits.md and its picture from results/curves.json: `karelsynth curves --render`
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from karelsynth.charts import AMBER, BLUE, LIGHT_BLUE, MUTED, chart_svg, legend, line, panels, percent_axis
from karelsynth.cluster import Mapper
from karelsynth.errors import KarelsynthError, names_hint, quoted
from karelsynth.evaluate import encode_answers, environment, evaluate, interval, percent
from karelsynth.files import atomic_writer, exists, read_text, write_atomically
from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.model.storage import SHIPPED, read_recipe
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.parsing import parse_json
from karelsynth.solve.solver import Solver
from karelsynth.tasks.batch import GIVEN_EXAMPLES, TaskBatch, run_candidates
from karelsynth.tasks.named import named_tasks
from karelsynth.tasks.shifted import SHIFTS, shifted_tasks
from karelsynth.tasks.statistics import ORIGINAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Key = tuple[str, str]
"""A family and one of its points."""
REFERENCE: Final[Key] = ("examples", str(GIVEN_EXAMPLES))
"""The data's own distribution."""
FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "examples": tuple(str(given) for given in range(1, GIVEN_EXAMPLES + 1)),
    **{name: tuple(shift.points) for name, shift in SHIFTS.items()},
}
_MODEL: Final = {
    "generalization": "top 1",
    "filtered_generalization": "filtered top 1",
    "any_consistent": "some consistent",
}
_SOLVE: Final = {"solved": "solve: an answer", "solved_generalization": "solve: a right one"}
MEASURES: Final = {**_MODEL, **_SOLVE}
"""The measures, and their labels."""


class CurvesError(KarelsynthError, ValueError):
    """A file of curves that cannot be used."""


@dataclass(frozen=True)
class CurveSettings:
    """What determines the figures, besides the tasks. All points of a file have the same settings."""

    model: str
    """A digest of its weights."""
    tasks: int
    """At each point."""
    beam: int
    solve: float | None
    """The time budget of `solve` for a task in seconds, if it is measured."""
    device: str
    """The machine: scores within a time budget depend on it."""

    @staticmethod
    def of(solver: Solver, *, tasks: int, beam: int, solve: float | None) -> CurveSettings:
        return CurveSettings(_digest(solver.model), tasks, beam, solve, environment(solver.model.device)["device"])

    @property
    def measures(self) -> Mapping[str, str]:
        return _MODEL if self.solve is None else MEASURES


@dataclass(frozen=True)
class Share:
    """Percent of tasks, with Wilson's 95 % interval."""

    percent: float
    confidence_95: tuple[float, float]

    @staticmethod
    def of(number: int, count: int) -> Share:
        low, high = interval(number, count)
        return Share(percent(number, count), (low, high))


@dataclass(frozen=True)
class Point:
    """The scores at a point."""

    data: str
    """`TaskBatch.digest` of its tasks."""
    shares: Mapping[str, Share]
    """By measure."""
    commit: str | None
    """The commit of the source tree that measured it."""


@dataclass(frozen=True)
class Curves:
    """All points measured so far."""

    settings: CurveSettings
    provenance: Mapping[str, Any]
    points: Mapping[Key, Point]

    def with_point(self, key: Key, point: Point) -> Curves:
        """These curves with a point added or replaced."""
        return replace(self, points={**self.points, key: point})

    def missing(self, wanted: Iterable[Key]) -> list[Key]:
        """The points that are not measured yet, or were measured on other tasks."""
        count = self.settings.tasks
        return [key for key in wanted if key not in self.points or self.points[key].data != _tasks(key, count).digest]

    def to_json(self) -> dict[str, Any]:
        """As JSON, with families and points in their order."""
        found = {
            family: {name: asdict(self.points[family, name]) for name in names if (family, name) in self.points}
            for family, names in FAMILIES.items()
        }
        return {"settings": asdict(self.settings), "provenance": dict(self.provenance), "families": found}


def keys(only: Sequence[str] = ()) -> list[Key]:
    """The reference point, then the points of some families, by default of all."""
    for name in only:
        if name not in FAMILIES:
            raise KarelsynthError(f"there is no family called {quoted(name)}; {names_hint(name, FAMILIES)}")
    chosen = [(family, point) for family in only or FAMILIES for point in FAMILIES[family]]
    return list(dict.fromkeys([REFERENCE, *chosen]))


def measure(
    solver: Solver,
    key: Key,
    settings: CurveSettings,
    *,
    progress: Callable[[int], None] | None = None,
    mapper: Mapper | None = None,
) -> Point:
    """Measure a point with the solver's model.

    `progress` is called with the number of further tasks done: each task once, and once more with `solve`. A `mapper`
    runs ranges of tasks elsewhere (`karelsynth.cluster.Cluster.map`).
    """
    report_progress = progress or (lambda more: None)
    tasks, given = _tasks(key, settings.tasks), _given(key)
    report = evaluate(
        solver.model, tasks, beam=settings.beam, given=given, progress=report_progress, mapper=mapper or map
    ).to_json()
    bounds = report["confidence_95"]
    shares = {
        "generalization": Share(report["generalization"]["1"], tuple(bounds["generalization"]["1"])),
        **{name: Share(report[name], tuple(bounds[name])) for name in ("filtered_generalization", "any_consistent")},
    }
    if settings.solve is not None:
        solved, right = _solved(solver, tasks, given, settings.solve, report_progress, mapper)
        shares |= {"solved": Share.of(solved, len(tasks)), "solved_generalization": Share.of(right, len(tasks))}
    return Point(tasks.digest, shares, report["provenance"]["commit"])


def _solved(
    solver: Solver,
    tasks: TaskBatch,
    given: int,
    budget: float,
    progress: Callable[[int], None],
    mapper: Mapper | None,
) -> tuple[int, int]:
    """The number of tasks that `solve` answers, and of those whose answer is correct on all examples."""
    shown = tasks.examples(given)
    if mapper is None:
        solutions = solver.solve_many(
            shown, budget=budget, max_ticks=PAPER_TICKS, on_solution=lambda number, solution: progress(1)
        )
    else:
        solutions = []
        for solution in solver.solve_elsewhere(mapper, shown, budget=budget, max_ticks=PAPER_TICKS):
            solutions.append(solution)
            progress(1)
    programs = [[solution.program] if solution.solved and solution.program else [] for solution in solutions]
    outcomes = run_candidates(*encode_answers(programs, len(tasks)), tasks.inputs, tasks.outputs)
    return sum(map(bool, solutions)), int(outcomes.generalizes.sum())


def _tasks(key: Key, count: int) -> TaskBatch:
    family, point = key
    return named_tasks("test", count) if family == "examples" else shifted_tasks(family, point, count)


def _given(key: Key) -> int:
    family, point = key
    return int(point) if family == "examples" else GIVEN_EXAMPLES


def _digest(model: Synthesizer) -> str:
    digest = hashlib.sha256(json.dumps(asdict(model.settings), sort_keys=True).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def read_curves(path: str | Path) -> Curves | None:
    """The curves of a file, None if it is not there; raises CurvesError if it holds something else."""
    if not exists(path):
        return None
    try:
        report = parse_json(read_text(path))
        settings = CurveSettings(**report["settings"])
        points = {
            (family, name): _point(report["families"][family][name], settings)
            for family, names in FAMILIES.items()
            for name in names
            if name in report["families"].get(family, {})
        }
        return Curves(settings, dict(report["provenance"]), points)
    except (ValueError, OverflowError, TypeError, KeyError, AttributeError) as error:
        raise CurvesError(
            f"{path}: not what `karelsynth curves --json` writes ({type(error).__name__}: {error}); "
            "choose another file, or remove it"
        ) from None


def save_curves(path: Path, curves: Curves, measured: Key | None = None) -> Curves:
    """Write curves to a file, merged with the points that other processes have added; returns all points.

    `measured` is the point to write. For any other point, the file's version wins. Raises CurvesError if the file holds
    something else.
    """
    with atomic_writer(path) as file:  # locked: no other process can write between reading and writing
        found = read_curves(path)
        if found is not None:
            check_settings(path, found.settings, curves.settings)
            own = {} if measured is None else {measured: curves.points[measured]}
            curves = replace(curves, points={**curves.points, **found.points, **own})
        file.write(json.dumps(curves.to_json(), indent=1).encode() + b"\n")
    return curves


def _point(report: Any, settings: CurveSettings) -> Point:
    shares = {}
    for name in settings.measures:
        share, (low, high) = report["shares"][name]["percent"], report["shares"][name]["confidence_95"]
        if not 0 <= low <= share <= high <= 100:
            raise ValueError(f"{name} is no share with its interval: {share}, {low} to {high}")
        shares[name] = Share(float(share), (float(low), float(high)))
    return Point(str(report["data"]), shares, report["commit"])


def check_settings(path: str | Path, found: CurveSettings, wanted: CurveSettings) -> None:
    """Raise CurvesError if the curves of a file were measured with other settings."""
    there, here = asdict(found), asdict(wanted)
    other = [f"{name} {there[name]}, not {here[name]}" for name in here if there[name] != here[name]]
    if other:
        raise CurvesError(
            f"{path}: its curves were measured with other settings: {'; '.join(other)}; "
            "choose another file, or remove it"
        )


# The page docs/limits.md and its picture

RESULTS: Final = "results/curves.json"
PAGE: Final = "docs/limits.md"
PICTURE: Final = "docs/pictures/limits.svg"
NOT_YET: Final = "not yet measured"
_AXES: Final = {"examples": "examples given", **{name: shift.what for name, shift in SHIFTS.items()}}
_TEMPLATE: Final = Path(__file__).parent / "limits_page.md"
_GUIDED: Final = """
This model runs its program on the given examples while it writes, so its top-ranked program nearly always fits them:
*top 1* and *filtered top 1* are nearly the same."""
_ABOUT_SOLVE: Final = """
- *solve: an answer*, *a right one*: what `karelsynth solve` finds is right on the given examples, on all six."""
_TITLES: Final = {
    "examples": "Fewer examples",
    "size": "Small and large worlds",
    "walls": "Worlds full of walls",
    "markers": "Worlds full of markers",
    "length": "Longer programs",
    "controls": "More control statements",
}
_COLOURS: Final = {
    "generalization": MUTED,
    "filtered_generalization": BLUE,
    "any_consistent": LIGHT_BLUE,
    "solved_generalization": AMBER,
}
"""The measures that the picture shows, and their colours."""
_COLUMNS: Final = 3
"""Panels in a row of the picture."""
_TITLE: Final = "Scores of the model out of distribution"


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
    """The original data's statistics that belong beside a family."""
    if family == "length":
        lengths, beyond = ORIGINAL["program length"].values, ORIGINAL["program length beyond"].values
        return (
            f"Of the original data's programs half have at most {lengths['50 %']:.0f} tokens, 95 % at most "
            f"{lengths['95 %']:.0f}, all at most {beyond['longest']:.0f}."
        )
    shares, ends = ORIGINAL[f"share of {family}"].values, ORIGINAL[f"share of {family}, ends"].values
    without = ORIGINAL["worlds"].values[f"without {family}"]
    return (
        f"Of the original data's worlds {100 * without:.0f} % have none; in the others the median is "
        f"{100 * shares['50 %']:.0f} % of cells,\nthe 90th percentile {100 * shares['90 %']:.0f} %, "
        f"the maximum {100 * ends['most']:.0f} %."
    )


def page(curves: Curves | None) -> str:
    """docs/limits.md."""
    settings = None if curves is None else curves.settings
    guided = curves is not None and curves.provenance.get("decoding") == "execution-guided"
    return _TEMPLATE.read_text(encoding="utf-8").format(
        command=command(curves),
        measured=_measured(curves) + _GUIDED * guided,
        solve=_ABOUT_SOLVE if settings is not None and settings.solve is not None else "",
        picture="" if curves is None else "![a panel of curves for each family](pictures/limits.svg)\n\n",
        **{family: NOT_YET if curves is None else table(curves, family) for family in FAMILIES},
        **{f"original_{family}": _original(family) for family in ("walls", "markers", "length")},
    )


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
        f"on {settings.device}.\nModel: {_model(curves)}.\nDigest of its weights: `{settings.model}`."
    )


def _model(curves: Curves) -> str:
    """The model's name. The shipped one has other weights than today's if it was trained by another recipe."""
    model, recipe = curves.provenance.get("model"), curves.provenance.get("recipe")
    now = read_recipe(SHIPPED)
    if model != SHIPPED or recipe is None or now is None or recipe["name"] == now["name"]:
        return str(model)
    return f"{model}, with earlier weights (`{recipe['name']}`; today's are those of `{now['name']}`)"


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
    percent_axis(axes)


def _drawn(curves: Curves) -> list[str]:
    return [name for name in _COLOURS if name in curves.settings.measures]
