"""What was measured: a small JSON file for each row and seed, and nothing that cannot be traced.

    {"row": "mle", "seed": 0, "data": "test", "recipe": {…}, "training": {"seconds": …, "tasks": …, "device": …},
     "report": {…}, "aliasing": […], "validity": {…}, "masks": {…}}

`report` is what `karelsynth evaluate` writes, provenance included; `validity` is there for models that learn the
syntax, `masks` for the one that the figure shows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from karelsynth.errors import KarelsynthError
from karelsynth.files import read_text, write_whole
from karelsynth.model.settings import ModelSettings
from karelsynth.reproduce.rows import ROWS, Job
from karelsynth.train.recipe import Recipe

Results = Mapping[Job, "Result"]
_NEEDED: Final = {
    "recipe": ("model", "objective", "optimizer", "data", "run"),
    "training": ("seconds", "tasks", "device"),
    "report": ("tasks", "generalization", "exact", "filtered_generalization", "confidence_95", "novel", "provenance"),
}
"""What a file must have; the rest is up to the row."""


class ResultError(KarelsynthError, ValueError):
    """A result that cannot be used."""


@dataclass(frozen=True)
class Result:
    """The outcome of a job."""

    job: Job
    told: Mapping[str, Any]
    """The file; see the module's docstring."""

    @property
    def report(self) -> Mapping[str, Any]:
        """The evaluator's."""
        report: Mapping[str, Any] = self.told["report"]
        return report

    def top(self, measure: str, rank: int = 1) -> float:
        """Percent of tasks."""
        return float(self.report[measure][str(rank)])

    def interval(self, measure: str, rank: int = 1) -> tuple[float, float]:
        """Wilson's, over tasks."""
        low, high = self.report["confidence_95"][measure][str(rank)]
        return float(low), float(high)

    def follows(self, recipe: Recipe) -> bool:
        """Whether the run did what the recipe says today, seed and logging aside."""
        return essence(self.told["recipe"]) == essence(recipe.to_json())


def essence(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What of a recipe decides how good its model becomes. A setting that it says nothing of was at its default."""
    run = {key: recipe["run"].get(key) for key in ("steps", "batch_size", "precision")}
    data = {key: recipe["data"].get(key) for key in ("seed", "tasks")}
    model = {**asdict(ModelSettings()), **recipe["model"]}
    told = {
        "model": model,
        "objective": recipe["objective"],
        "optimizer": recipe["optimizer"],
        "run": run,
        "data": data,
    }
    plain: dict[str, Any] = json.loads(json.dumps(told))
    return plain


def write_result(folder: Path, job: Job, told: Mapping[str, Any]) -> None:
    """Write a job's file."""
    text = json.dumps({"row": job.row.recipe, "seed": job.seed, **told}, indent=1, allow_nan=False)
    write_whole(folder / f"{job.name}.json", f"{text}\n".encode())


def read_results(folder: Path) -> Results:
    """All results of a folder, none if it is not there; raises ResultError for a file that is no result."""
    results: dict[Job, Result] = {}
    for path in sorted(folder.glob("*.json")):
        result = _read(path)
        results[result.job] = result
    sources = {result.told["data"]: result.job.name for result in results.values()}
    if len(sources) > 1:
        (one, first), (two, second), *_ = sources.items()
        raise ResultError(
            f"{folder}: holds results on different test tasks ({first}.json on {one}, {second}.json on {two}); "
            "keep each kind in a folder of its own"
        )
    return results


def _read(path: Path) -> Result:
    again = "remove the file, and `karelsynth reproduce` measures the row again"
    try:
        told = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, KarelsynthError):
            raise
        raise ResultError(f"{path}: not valid JSON ({error}); {again}") from None
    if not isinstance(told, dict):
        raise ResultError(f"{path}: is no result; {again}")
    row, seed = ROWS.get(str(told.get("row"))), told.get("seed")
    if row is None or type(seed) is not int or not isinstance(told.get("data"), str):
        raise ResultError(f'{path}: is no result: its "row", "seed" or "data" is missing or unknown; {again}')
    job = Job(row, seed)
    if path.stem != job.name:
        raise ResultError(f"{path}: holds the result of {job.name}; call it {job.name}.json, or remove it")
    for section, keys in _NEEDED.items():
        for key in keys:
            if not isinstance(told.get(section), dict) or key not in told[section]:
                raise ResultError(f'{path}: has no "{section}.{key}"; {again}')
    for section in ("aliasing", *("masks", "validity") * row.draws_masks):
        if section not in told:
            raise ResultError(f'{path}: has no "{section}"; {again}')
    return Result(job, told)
