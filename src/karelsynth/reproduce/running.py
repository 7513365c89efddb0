"""Measuring rows: train what has no model yet, evaluate it, write its result; and stop in time.

    Runner(places).run(jobs_of("objectives"))

Each job is a run of `train.loop` in a folder of its own, so that what was stopped goes on exactly. Here one job follows
the other in one process: what is compiled at first use is compiled once. `side_by_side` has several at a time.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from karelsynth.errors import KarelsynthError
from karelsynth.evaluate import evaluate, origin
from karelsynth.files import write_whole, writing_into
from karelsynth.model.storage import save_model
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.reproduce.aliasing import PROGRAM_A, opinions
from karelsynth.reproduce.masks import masks_along, masks_over
from karelsynth.reproduce.results import (
    Results,
    check_recipe,
    check_trained,
    essence,
    read_json,
    read_results,
    row_recipe,
    write_result,
)
from karelsynth.reproduce.rows import ROWS, Job
from karelsynth.reproduce.validity import validity
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.sets import load_tasks, named_tasks
from karelsynth.train.loop import BEST, FINAL, Diverged, Progress, train
from karelsynth.train.metrics import METRICS
from karelsynth.train.recipe import Recipe

OWN_TEST: Final = "our own test set"
"""What results say of their tasks, if they are the named set `test`."""
BEAM: Final = 64
_TRAINED: Final = "trained.json"
"""Beside a kept model: its recipe, and what its training took."""
_MACHINES: Final = "machines.json"
"""In a run's folder: the machines that it was trained on, one after the other."""
_PART_BYTES: Final = 15_000_000
_STARTS: Final = frozenset(row.start for row in ROWS.values())


@dataclass(frozen=True)
class Places:
    """Where everything is."""

    recipes: Path
    runs: Path
    results: Path
    keep: Path | None = None
    """Where models that others start from are kept in bfloat16, in files of at most 15 MB, and looked for."""
    data: Path | None = None
    """Test tasks instead of our own: a set's folder or a file in the original's format."""
    train_data: Path | None = None
    """Training tasks instead of our own."""


@dataclass(frozen=True)
class Trained:
    """A model that a job has ended with."""

    model: Path
    recipe: dict[str, Any]
    training: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a call of `Runner.run` has come to."""

    done: tuple[Job, ...]
    left: tuple[Job, ...]
    """For which there was no time."""
    diverged: tuple[Job, ...]
    failed: tuple[Job, ...] = ()
    """Whose process met another error (side by side; in one process such an error ends the call)."""


class Runner:
    """See the module's docstring.

    Args:
        device: where to train; by default a GPU if there is one.
        at_once: how many runs share the device, this one included; results say so, for it makes each of them slower.
        commit: of the source tree, where git cannot tell.
        say: told what is going on, a line at a time.
        observe: told how training goes, see `train`.
    """

    def __init__(
        self,
        places: Places,
        *,
        device: torch.device | None = None,
        at_once: int = 1,
        commit: str | None = None,
        say: Callable[[str], None] = lambda line: None,
        observe: Callable[[Progress], None] | None = None,
    ) -> None:
        self._places, self._commit, self._say, self._observe = places, commit, say, observe
        self._device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._at_once = at_once
        self._deadline = math.inf
        self._tasks: TaskBatch | None = None
        if not places.recipes.is_dir():
            raise KarelsynthError(
                f"{places.recipes}: there is no such folder of recipes; call this in the repository's, or say where"
            )

    def run(self, jobs: Sequence[Job], *, minutes: float | None = None) -> Outcome:
        """Measure the jobs that have no result yet; after so many minutes, save what is under way and stop."""
        deadline = deadline_after(minutes)
        with writing_into(self._places.results):
            missing = self.missing(jobs, read_results(self._places.results))
            done: list[Job] = []
            diverged: list[Job] = []
            for job in missing:
                try:
                    if not self.bring_about(job, deadline):
                        break
                except Diverged as error:  # the other rows can do without this one
                    self._say(f"{job.name}: {error}")
                    diverged.append(job)
                else:
                    done.append(job)
        left = [job for job in missing if job not in done and job not in diverged]
        return Outcome(tuple(done), tuple(left), tuple(diverged))

    def bring_about(self, job: Job, deadline: float, *, result: bool = True) -> bool:
        """Make a job's model and, if wanted, its result; False if `time.monotonic()` comes to the deadline before.

        The caller holds the folder of results.
        """
        self._deadline = deadline
        if time.monotonic() >= deadline:
            return False
        return self._measure(job) if result else self._trained(job) is not None

    def waits_for(self, job: Job) -> Job | None:
        """The job whose model must be made (and kept, where models are kept) before this one can begin, if any."""
        start = job.start
        if start is None or self._finished(job).is_file():
            return None
        made = self._finished(start) if self._places.keep is None else self._places.keep / start.name / _TRAINED
        return None if made.is_file() else start

    def missing(self, jobs: Sequence[Job], results: Results) -> list[Job]:
        """The jobs without a result, or whose recipe has changed since."""
        found = []
        for job in jobs:
            if job not in results:
                found.append(job)
            elif not results[job].follows(self.recipe(job)):
                self._say(f"{job.name}: its recipe has changed since it was measured")
                found.append(job)
        return found

    def recipe(self, job: Job) -> Recipe:
        """The recipe of a job: its row's, with the job's seed and the chosen tasks."""
        return row_recipe(self._places.recipes, job.row.recipe, self._places.train_data, seed=job.seed)

    def _finished(self, job: Job) -> Path:
        """The file that is there when the job is trained."""
        return self._places.runs / job.name / FINAL / "recipe.json"

    def _measure(self, job: Job) -> bool:
        """Bring one result about; False if time ran out before."""
        trained = self._trained(job)
        if trained is None:
            return False
        model = Synthesizer.from_pretrained(trained.model, self._device)
        tasks = self._test_tasks()
        start = time.perf_counter()
        provenance = {"model": str(trained.model), **({"commit": self._commit} if self._commit else {})}
        report = evaluate(model, tasks, beam=BEAM, provenance=provenance).to_json()
        told: dict[str, Any] = {
            "data": OWN_TEST if self._places.data is None else self._places.data.name,
            "recipe": trained.recipe,
            "training": trained.training,
            "report": report,
            "aliasing": opinions(model, beam=BEAM),
        }
        if model.syntax is not None:
            told["validity"] = validity(model, tasks)
        if model.syntax is not None and job.row.draws_masks:
            told["masks"] = {
                "program": masks_along(model, PROGRAM_A).to_json(),
                "tasks": masks_over(model, tasks.tokens, tasks.lengths),
            }
        write_result(self._places.results, job, told)
        self._say(
            f"{job.name}: top 1 generalizes {report['generalization']['1']:.2f} %, exact {report['exact']['1']:.2f} %"
            f" (trained {trained.training['seconds']:.0f} s, evaluated {time.perf_counter() - start:.0f} s)"
        )
        return True

    def _trained(self, job: Job) -> Trained | None:
        """The job's model, trained if need be; None if time ran out."""
        folder, wanted = self._places.runs / job.name, self.recipe(job)
        kept = None if self._places.keep is None else self._places.keep / job.name
        finished = self._finished(job)
        if not finished.is_file():
            if kept is not None and (kept / _TRAINED).is_file():
                told = read_json(kept / _TRAINED, _anew(kept))
                check_trained(told, kept / _TRAINED, _anew(kept))
                return Trained(kept, _same(told["recipe"], wanted, kept), told["training"])
            if not self._train(job, wanted, folder):
                return None
        told = read_json(finished, _anew(folder))
        check_recipe(told, finished, _anew(folder))
        recipe = _same(told, wanted, folder)
        trained = Trained(folder / BEST, recipe, self._training(wanted, folder))
        if kept is not None and job.row.recipe in _STARTS:
            _keep(trained, kept)
        return trained

    def _train(self, job: Job, recipe: Recipe, folder: Path) -> bool:
        """Train a job, and what it starts from; False if time ran out."""
        if job.start is not None:
            start = self._trained(job.start)
            if start is None:
                return False
            recipe = replace(recipe, start_from=str(start.model))
        if time.monotonic() >= self._deadline:
            return False
        self._say(f"{job.name}: training")
        folder.mkdir(parents=True, exist_ok=True)
        shared = f" (up to {self._at_once} runs at once)" if self._at_once > 1 else ""
        machines = dict.fromkeys([*_machines(folder), f"{origin(self._device)['device']}{shared}"])
        write_whole(folder / _MACHINES, json.dumps(list(machines)).encode())
        final = train(recipe, folder, device=self._device, observe=self._observe, deadline=self._deadline)
        if not final.is_dir():
            self._say(f"{job.name}: time is up; it is saved in {folder} and goes on from there")
        return final.is_dir()

    def _training(self, recipe: Recipe, folder: Path) -> dict[str, Any]:
        """What training took, by the run's own log: it may have gone on in several sittings."""
        steps = seconds = 0.0
        try:
            for line in (folder / METRICS).read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                if "tasks_per_second" in entry:
                    seconds += (entry["step"] - steps) * recipe.run.batch_size / entry["tasks_per_second"]
                    steps = entry["step"]
        except (OSError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise KarelsynthError(
                f"{folder / METRICS}: not the log of a training run ({error}); {_anew(folder)}"
            ) from None
        return {
            "seconds": round(seconds, 1),
            "tasks": recipe.run.steps * recipe.run.batch_size,
            "device": ", then ".join(_machines(folder)) or "not recorded",
        }

    def _test_tasks(self) -> TaskBatch:
        if self._tasks is None:
            if self._places.data is None:
                self._tasks = named_tasks("test")
            else:
                self._tasks = load_tasks(self._places.data, on_problem=self._left_out)
        return self._tasks

    def _left_out(self, problem: object) -> None:
        self._say(f"{self._places.data}: left out: {problem}")


def deadline_after(minutes: float | None) -> float:
    """By `time.monotonic()`, whose reading is the same in all processes."""
    return math.inf if minutes is None else time.monotonic() + 60 * minutes


def _same(told: dict[str, Any], wanted: Recipe, folder: Path) -> dict[str, Any]:
    """The recipe that a model was made by, if it is the one wanted."""
    old, new = essence(told), essence(wanted.to_json())
    if old != new:
        different = ", ".join(
            f"{section}.{key}"
            for section in new
            for key in sorted(old[section].keys() | new[section].keys())
            if old[section].get(key) != new[section].get(key)
        )
        raise KarelsynthError(
            f"{folder}: holds a model of another recipe than {wanted.name} is today (different: {different}); "
            "move it away, and it is made anew"
        )
    return told


def _machines(folder: Path) -> list[str]:
    """Where a run has been trained so far."""
    path = folder / _MACHINES
    if not path.is_file():
        return []
    try:
        names = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise KarelsynthError(f'{path}: not a JSON list of names; remove it, and the run\'s machine is "not recorded"')
    return names


def _anew(folder: Path) -> str:
    return f"remove {folder}, and it is made anew"


def _keep(trained: Trained, folder: Path) -> None:
    if (folder / _TRAINED).exists():
        return
    model = Synthesizer.from_pretrained(trained.model)
    save_model(folder, model.settings, model.state_dict(), torch.bfloat16, part_bytes=_PART_BYTES)
    told = {"recipe": trained.recipe, "training": trained.training}
    write_whole(folder / _TRAINED, json.dumps(told, indent=1).encode())  # last: it says that the rest is there
