"""Results: a small JSON file for each row and seed.

    {"row": "mle", "seed": 0, "data": "test", "digest": …, "recipe": {…}, "start": null, "training": {"seconds": …,
     "steps": …, "tasks": …, "device": …, "gpu_gib": …, "validations": […]}, "report": {…}, "solved": {…},
     "written": {…}, "last": {…}, "claims": {…}, "aliasing": […], "validity": {…}, "masks": {…}}

- `data`: the name of the test tasks; `digest`: their digest (`TaskBatch.digest`).
- `start`: the recipe of the model that the run started from, if any.
- `training`: its seconds, its last step (before the recipe's, if `run.patience` ended it), tasks and device; `gpu_gib`,
  the most GPU memory (null on a CPU); `validations`, lists of a step and the generalization and exact match on the
  validation tasks, in percent.
- `report`, `solved`, `written`: the output of `karelsynth evaluate`, with provenance. `solved` and `written` have by
  rank a bit for each task: whether it counts as generalized, and as exact.
- `last`: the scores of the last checkpoint on the same tasks; `report` has those of the one that validation chose.
- `claims`: the scores on many more tasks, to decide claims: {"data", "digest", "tasks", "generalization", "exact",
  "confidence_95"}, and `solved` and `written` at the ranks that claims are about.
- `aliasing`: the scores of Figure 1's programs. `validity`: for models with learned syntax. `masks`: for the model of
  the paper's figure.

Older results lack `digest`, `steps`, `validations`, `solved`, `written`, `last` or `claims`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.errors import KarelsynthError
from karelsynth.evaluate import PAIRED, SOLVED, from_bits
from karelsynth.files import read_text, write_atomically
from karelsynth.parsing import ParseError, parse_json
from karelsynth.reproduce.rows import ROWS, SHORT, VALIDITY, Budget, Job
from karelsynth.train.recipe import Recipe, RecipeError, load_recipe, recipe_from

Results = Mapping[Job, "Result"]
Recipes = Mapping[str, Recipe]
"""Today's recipes, by name."""
_AGAIN: Final = "remove the file, and `karelsynth reproduce` measures the row again"
Shape = dict[str, Any]
"""The fields that a JSON object must have: by name the kind of a value (see `_is`), or a shape."""
_RECIPE: Final[Shape] = dict.fromkeys(("model", "objective", "optimizer", "data", "run"), "object")
_MAY_DIFFER: Final = frozenset({"run.seed", "run.compile", "run.log_every", "run.checkpoint_every", "run.patience"})
"""Settings in which two runs of a row may differ. Validation settings may not: they select the best model. Patience
only decides when a run ends, and a result says at which step that was."""
_TRAINING: Final = {"seconds": "number", "tasks": "number", "device": "text"}


def _top(kind: str) -> Shape:
    return {"exact": {"1": kind}, "generalization": dict.fromkeys(("1", "5", "50"), kind)}


def _scores(kind: str) -> Shape:
    return {**_top(kind), "filtered_generalization": kind, "any_consistent": kind}


_REPORT: Final[Shape] = {
    **_scores("number"),
    "confidence_95": _scores("interval"),
    "provenance": "object",
    "novel": {"tasks": "number"},
}
_NOVEL: Final[Shape] = {
    "novel": {"generalization": {"1": "number"}, "confidence_95": {"generalization": {"1": "interval"}}}
}
_BRIEF: Final[Shape] = {"data": "text", "tasks": "number", **_top("number"), "confidence_95": _top("interval")}
_VALIDITY: Final[Shape] = {
    way: {str(rank): {"share": "number", "confidence_95": "interval"} for rank in VALIDITY}
    for way in ("joint", "without")
}
_MASK_FIGURES: Final = ("valid_refused", "invalid_passed", "reference_refused")
_MASKS: Final[Shape] = {
    "program": "object",
    "tasks": {
        "table": "object",
        "positions": "number",
        **dict.fromkeys(_MASK_FIGURES, "number"),
        "confidence_95": dict.fromkeys(_MASK_FIGURES, "interval"),
    },
}
CLAIM_BITS: Final = (("solved", ("1", "5", "50")), ("written", ("1",)))
"""Of the many tasks that decide claims: the bits by task that are kept, and their ranks."""


class ResultError(KarelsynthError, ValueError):
    """A result that cannot be used."""


@dataclass(frozen=True)
class Result:
    """The result of a job."""

    job: Job
    record: Mapping[str, Any]
    """The file; see the module's docstring."""
    stale: bool = False
    """Whether it is of another recipe than today's; see `with_staleness`."""

    @property
    def validations(self) -> list[list[float]]:
        """Lists of step, generalization and exact match; empty if the file has none."""
        kept: list[list[float]] = self.record["training"].get("validations", [])
        return kept

    @property
    def report(self) -> Mapping[str, Any]:
        """The evaluator's report."""
        report: Mapping[str, Any] = self.record["report"]
        return report

    @property
    def digest(self) -> str | None:
        """The digest of the test tasks; None in older results."""
        return self.record.get("digest")

    def top(self, measure: str, rank: int = 1) -> float:
        """A measure at a rank, in percent of tasks."""
        return float(self.report[measure][str(rank)])

    def interval(self, measure: str, rank: int = 1) -> tuple[float, float]:
        """Wilson's 95 % interval over tasks."""
        low, high = self.report["confidence_95"][measure][str(rank)]
        return float(low), float(high)

    def solved(self, rank: int, measure: str = "generalization") -> NDArray[np.bool_] | None:
        """Which tasks count at a rank, bool [tasks]; None if the file does not have it."""
        bits = self.record.get(SOLVED[measure], {}).get(str(rank))
        return None if bits is None else from_bits(bits, int(self.report["tasks"]))

    @property
    def last(self) -> Mapping[str, Any] | None:
        """The scores of the last checkpoint; None in older results."""
        return self.record.get("last")

    def on_claim_tasks(self) -> Result | None:
        """The same with the scores on the tasks that decide claims; None if it has none."""
        scores = self.record.get("claims")
        if scores is None:
            return None
        bits = {key: scores.get(key, {}) for key in SOLVED.values()}
        return replace(self, record={**self.record, "report": scores, **bits})

    def is_current(self, recipes: Recipes) -> bool:
        """Whether the run, and the one it started from, followed today's recipes, except for seed and logging."""
        row = self.job.row
        was, start = (None, None) if row.start is None else (self.record["start"], recipes[row.start].to_json())
        try:
            return defining_settings(self.record["recipe"], was) == defining_settings(
                recipes[row.recipe].to_json(), start
            )
        except RecipeError:  # a version with other settings wrote it
            return False


def with_staleness(results: Results, recipes: Recipes) -> Results:
    """The results with those marked as stale that did not follow these recipes."""
    return {job: replace(result, stale=not result.is_current(recipes)) for job, result in results.items()}


def defining_settings(recipe: Mapping[str, Any], start: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings that determine a model, by name (`optimizer.warmup`), and those of its start.

    A setting that the recipe lacks has its default. Raises RecipeError for an unknown setting.
    """
    whole = recipe_from({"name": "", **recipe}).to_json()
    sections = {name: record for name, record in whole.items() if isinstance(record, dict)}
    places = {f"{name}.{key}": value for name, record in sections.items() for key, value in record.items()}
    found = {place: value for place, value in places.items() if place not in _MAY_DIFFER}
    return {**found, "start_from": None if start is None else defining_settings(start, None)}


def row_recipe(
    folder: Path,
    name: str,
    train_data: Path | None = None,
    val_data: Path | None = None,
    *,
    seed: int = 0,
    budget: Budget = SHORT,
) -> Recipe:
    """A row's recipe with a seed and a budget, and with other training or validation tasks if given.

    Paths of tasks become absolute, so that the same tasks have the same name.
    """
    loaded = load_recipe(folder / f"{name}.toml", [*budget.changes(ROWS[name]), f"run.seed={seed}"])
    given = {"source": train_data, "validation": val_data}
    others: dict[str, Any] = {key: str(path.resolve()) for key, path in given.items() if path is not None}
    return replace(loaded, data=replace(loaded.data, **others))


def write_result(folder: Path, job: Job, record: Mapping[str, Any]) -> None:
    """Write a job's file."""
    text = json.dumps({"row": job.row.recipe, "seed": job.seed, **record}, indent=1, allow_nan=False)
    write_atomically(folder / f"{job.name}.json", f"{text}\n".encode())


def read_results(folder: Path) -> Results:
    """All results of a folder; empty if there is no such folder. Raises ResultError for a file that is no result."""
    results: dict[Job, Result] = {}
    for path in sorted(folder.glob("*.json")):
        result = _read(path)
        results[result.job] = result
    names = {result.record["data"]: result for result in results.values()}
    digests = {result.digest: result for result in results.values() if result.digest is not None}
    for kinds in (names, digests):
        if len(kinds) > 1:
            one, two, *_ = (
                f"{result.job.name}.json on {result.record['data']}"
                + f" with digest {result.digest}" * (kinds is digests)
                for result in kinds.values()
            )
            raise ResultError(
                f"{folder}: holds results on different test tasks ({one}, {two}); keep each kind in a folder of its own"
            )
    return results


def read_json(path: Path, again: str) -> dict[str, Any]:
    """Read a JSON object. Raises ResultError with the advice `again`."""
    try:
        record = parse_json(read_text(path))
    except ParseError as error:
        raise ResultError(f"{path}: not valid JSON ({error.reason}); {again}") from None
    if not isinstance(record, dict):
        raise ResultError(f"{path}: not a JSON object; {again}")
    return record


def check_recipe(record: Mapping[str, Any], path: Path, again: str) -> None:
    """Raise ResultError unless this is a recipe as JSON."""
    _check(record, _RECIPE, path, again)


def check_trained(record: Mapping[str, Any], path: Path, again: str) -> None:
    """Raise ResultError unless this has the recipe of a model and the cost of its training."""
    _check(record, {"recipe": _RECIPE, "training": _TRAINING}, path, again)
    validations = record["training"].get("validations", [])
    if not isinstance(validations, list) or not all(
        isinstance(one, list) and len(one) == 3 and all(_is("number", value) for value in one) for one in validations
    ):
        raise ResultError(f'{path}: "training.validations" is not a list of lists of three numbers; {again}')


def _check(record: Any, shape: Shape, path: Path, again: str = _AGAIN, place: str = "") -> None:
    """Raise ResultError unless a value of a file, the one at `place`, is an object of this shape."""
    for name, kind in shape.items():
        if not isinstance(record, dict) or name not in record:
            raise ResultError(f'{path}: has no "{place}{name}"; {again}')
        if isinstance(kind, dict):
            _check(record[name], kind, path, again, f"{place}{name}.")
        elif not _is(kind, record[name]):
            raise ResultError(f'{path}: "{place}{name}" has the wrong type (expected: {kind}); {again}')


def _is(kind: str, value: Any) -> bool:
    match kind:
        case "object":
            return isinstance(value, dict)
        case "text":
            return isinstance(value, str)
        case "number or null":
            return value is None or _is("number", value)
        case "interval":
            return isinstance(value, list) and len(value) == 2 and all(_is("number", end) for end in value)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)


def _check_bits(record: Mapping[str, Any], key: str, ranks: Sequence[str], scores: str, path: Path) -> None:
    """Check the bits `key` of a section of the file, of as many tasks as the section `scores` says."""
    _check(record, {scores: {"tasks": "number"}}, path)
    tasks = record[scores]["tasks"]
    if type(tasks) is not int or tasks < 1:
        raise ResultError(f'{path}: "{scores}.tasks" is no number of tasks; {_AGAIN}')
    size = 2 * -(-tasks // 8)
    section, place = (record, "") if scores == "report" else (record[scores], f"{scores}.")
    _check(section, {key: dict.fromkeys(ranks, "text")}, path, place=place)
    for rank in ranks:
        digits = section[key][rank]
        if len(digits) != size or not re.fullmatch("[0-9a-f]*", digits):
            raise ResultError(f'{path}: "{place}{key}.{rank}" is not {size} hexadecimal digits; {_AGAIN}')


def _read(path: Path) -> Result:
    record = read_json(path, _AGAIN)
    row, seed = ROWS.get(str(record.get("row"))), record.get("seed")
    if row is None or type(seed) is not int or not isinstance(record.get("data"), str):
        raise ResultError(f'{path}: not a result: its "row", "seed" or "data" is missing or unknown; {_AGAIN}')
    job = Job(row, seed)
    if path.stem != job.name:
        raise ResultError(f"{path}: holds the result of {job.name}; call it {job.name}.json, or remove it")
    check_trained(record, path, _AGAIN)
    shape: Shape = {"report": _REPORT}
    if row.start is not None:
        shape["start"] = _RECIPE
    if row.draws_masks:
        shape |= {"validity": _VALIDITY, "masks": _MASKS}
    later = {"digest": "text", "last": _BRIEF, "claims": {**_BRIEF, "digest": "text"}}  # older results lack them
    _check(record, {**shape, **{name: kind for name, kind in later.items() if name in record}}, path)
    if record["report"]["novel"]["tasks"]:
        _check(record["report"], _NOVEL, path, place="report.")
    for key in SOLVED.values():
        if key in record:
            _check_bits(record, key, [str(rank) for rank in PAIRED], "report", path)
    for key, ranks in CLAIM_BITS:
        if key in record.get("claims", {}):
            _check_bits(record, key, ranks, "claims", path)
    aliasing = record.get("aliasing")
    if not isinstance(aliasing, list) or len(aliasing) != 2:
        raise ResultError(f'{path}: has no "aliasing", a list of two; {_AGAIN}')
    for scores in aliasing:
        _check(scores, {"logprob": "number", "rank": "number or null"}, path)
    return Result(job, record)
