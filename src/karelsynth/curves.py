"""How a synthesizer does on data unlike its training data: curves, not averages.

    curves = Curves(CurveSettings.of(solver, tasks=500, beam=64, solve=1.0), environment(device), {})
    for key in curves.missing(keys()):
        curves = curves.with_point(key, measure(solver, key, curves.settings))

The points are fewer examples of `test`'s tasks, and tasks whose worlds or programs are shifted (see `tasks.shifted`).
At each, *top 1* is the likeliest program as it is, *filtered top 1* the likeliest that is right on the given examples,
*some consistent* whether there is one; optionally also what `solve` answers within seconds. An answer is right if it
is right on all six examples, however few are given. `test` with five examples, the data's own distribution, is the
point that all others are to be seen beside. `curves_page` shows it all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from karelsynth.errors import KarelsynthError, listed, nearest
from karelsynth.evaluate import environment, evaluate, interval, percent
from karelsynth.files import atomic_writer, exists, read_text
from karelsynth.karel.formats.codes import world_from_codes
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.world import quoted
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.solve.solver import Solver
from karelsynth.tasks.batch import GIVEN_EXAMPLES, TaskBatch
from karelsynth.tasks.sets import named_tasks
from karelsynth.tasks.shifted import SHIFTS, shifted_tasks

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
"""What is measured, and what people call it."""


class CurvesError(KarelsynthError, ValueError):
    """A file of curves that cannot be used."""


@dataclass(frozen=True)
class CurveSettings:
    """What decides the figures, besides the tasks: points with other settings do not belong in one document."""

    model: str
    """A digest of its weights."""
    tasks: int
    """At each point."""
    beam: int
    solve: float | None
    """Seconds that `solve` has for a task, if it is asked at all."""
    device: str
    """The machine: what fits into a second depends on it."""

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
    """What was measured at a point."""

    data: str
    """A digest of its tasks."""
    shares: Mapping[str, Share]
    """By measure."""
    commit: str | None
    """Of the source tree that measured it."""


@dataclass(frozen=True)
class Curves:
    """All that is measured so far."""

    settings: CurveSettings
    provenance: Mapping[str, Any]
    points: Mapping[Key, Point]

    def with_point(self, key: Key, point: Point) -> Curves:
        """These and one point more, in place of what was there."""
        return replace(self, points={**self.points, key: point})

    def missing(self, wanted: Iterable[Key]) -> list[Key]:
        """Which points are not measured yet, or were on tasks that are no longer made."""
        count = self.settings.tasks
        return [
            key
            for key in wanted
            if key not in self.points or self.points[key].data != _tasks_digest(_tasks(key, count))
        ]

    def to_json(self) -> dict[str, Any]:
        """As plain data, families and points in their order."""
        found = {
            family: {name: asdict(self.points[family, name]) for name in names if (family, name) in self.points}
            for family, names in FAMILIES.items()
        }
        return {"settings": asdict(self.settings), "provenance": dict(self.provenance), "families": found}


def keys(only: Sequence[str] = ()) -> list[Key]:
    """The points of some families, by default of all, after the one that they are compared with."""
    for name in only:
        if name not in FAMILIES:
            close = nearest(name, FAMILIES)
            hint = f"did you mean `{close}`?" if close else f"there are {listed(FAMILIES, 'and')}"
            raise KarelsynthError(f"there is no family called {quoted(name)}; {hint}")
    chosen = [(family, point) for family in only or FAMILIES for point in FAMILIES[family]]
    return list(dict.fromkeys([REFERENCE, *chosen]))


def measure(
    solver: Solver, key: Key, settings: CurveSettings, *, progress: Callable[[int], None] | None = None
) -> Point:
    """Measure a point with the solver's model.

    `progress` is called with how many more tasks are done: each of them once, and once more if `solve` is asked.
    """
    tell = progress or (lambda more: None)
    tasks, given = _tasks(key, settings.tasks), _given(key)
    report = evaluate(solver.model, tasks, beam=settings.beam, given=given, progress=tell).to_json()
    bounds = report["confidence_95"]
    shares = {
        "generalization": Share(report["generalization"]["1"], tuple(bounds["generalization"]["1"])),
        **{name: Share(report[name], tuple(bounds[name])) for name in ("filtered_generalization", "any_consistent")},
    }
    if settings.solve is not None:
        solved, right = _solved(solver, tasks, given, settings.solve, tell)
        shares |= {"solved": Share.of(solved, len(tasks)), "solved_generalization": Share.of(right, len(tasks))}
    return Point(_tasks_digest(tasks), shares, report["provenance"]["commit"])


def _solved(
    solver: Solver, tasks: TaskBatch, given: int, budget: float, progress: Callable[[int], None]
) -> tuple[int, int]:
    """For how many tasks `solve` has an answer, and for how many that is right on the held-out examples too."""
    shown = [
        [
            (world_from_codes(before), world_from_codes(after))
            for before, after in zip(inputs[:given], outputs[:given], strict=True)
        ]
        for inputs, outputs in zip(tasks.inputs, tasks.outputs, strict=True)
    ]
    solutions = solver.solve_many(shown, budget=budget, on_solution=lambda number, solution: progress(1))
    right = 0
    for inputs, outputs, solution in zip(tasks.inputs, tasks.outputs, solutions, strict=True):
        if solution.solved and solution.program is not None:
            runs = run_batch(encode_programs([solution.program]), inputs, expected=outputs, keep_worlds=False)
            assert runs.correct is not None
            right += bool(runs.correct.all())
    return sum(map(bool, solutions)), right


def _tasks(key: Key, count: int) -> TaskBatch:
    family, point = key
    return named_tasks("test", count) if family == "examples" else shifted_tasks(family, point, count)


def _given(key: Key) -> int:
    family, point = key
    return int(point) if family == "examples" else GIVEN_EXAMPLES


def _tasks_digest(tasks: TaskBatch) -> str:
    digest = hashlib.sha256()
    for array in (tasks.tokens, tasks.inputs, tasks.outputs):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


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
        report = json.loads(read_text(path))
        settings = CurveSettings(**report["settings"])
        points = {
            (family, name): _point(report["families"][family][name], settings)
            for family, names in FAMILIES.items()
            for name in names
            if name in report["families"].get(family, {})
        }
        return Curves(settings, dict(report["provenance"]), points)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CurvesError(
            f"{path}: not what `karelsynth curves --json` writes ({type(error).__name__}: {error}); "
            "choose another file, or remove it"
        ) from None


def save_curves(path: Path, curves: Curves, measured: Key | None = None) -> Curves:
    """Write curves to a file together with what another process has put there meanwhile; returns all of that.

    `measured`: the point that the file does not have yet; any other may be newer there. Raises CurvesError if the file
    has come to hold something else.
    """
    with atomic_writer(path) as file:  # until this ends no other process writes it: nothing is lost in between
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
