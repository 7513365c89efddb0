"""Measuring rows: train each that has no model yet, evaluate it, and write its result.

    Runner(paths).run(jobs_of("objectives"))

Each job is a run of `train.loop` in a folder of its own, so a job that was stopped resumes exactly. `Runner.run` does
one job after the other in one process. `parallel` runs several at a time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal

import torch

from karelsynth.errors import KarelsynthError, out_of_memory
from karelsynth.evaluate import Report, environment, evaluate
from karelsynth.files import exists, locked_folder
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.reproduce.aliasing import PROGRAM_A, score_aliases
from karelsynth.reproduce.learned_syntax import masks_of_program, masks_over, validity
from karelsynth.reproduce.results import CLAIM_BITS, Results, read_results, row_recipe, write_result
from karelsynth.reproduce.rows import SHORT, STARTS, Budget, Job
from karelsynth.reproduce.trained import (
    Trained,
    check_same,
    from_kept,
    from_run,
    is_finished,
    is_kept,
    keep,
    read_history,
    write_history,
)
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.named import NAMED_SETS, named_tasks
from karelsynth.tasks.sets import load_tasks
from karelsynth.train.checkpoint import newest_folder
from karelsynth.train.loop import Diverged, TrainingProgress, train
from karelsynth.train.recipe import Recipe
from karelsynth.train.validation import validation_tasks

OWN_TEST: Final = "our own test set"
"""The name of the set `test` in results."""
CLAIM_TASKS: Final = "test_large"
"""The set that claims are decided on."""
BEAM: Final = 64
_TOO_LATE: Final = 60.0
"""No row starts in this many seconds before the deadline: loading would take most of them."""
_LOG_EVERY: Final = 20.0
"""Seconds between two lines about a run."""
HowEnded = Literal["done", "left", "diverged", "failed"]
"""How a job ended. *Left*: there was no time for it. *Diverged*: its training did. *Failed*: memory ran out, or, in a
process of its own (`parallel`), there was any other error. A job whose start is not done ends like its start."""


class OutOfMemory(KarelsynthError):
    """A run needs more memory than there is."""


@dataclass(frozen=True)
class Paths:
    """The folders and files of a reproduction."""

    recipes: Path
    runs: Path
    results: Path
    keep: Path | None = None
    """A folder for the models that other rows start from, in bfloat16 and in files of at most 15 MB.

    If given, rows start from these models only, and these are measured. So no result depends on whether the run that
    made the model is still there.
    """
    data: Path | None = None
    """Test tasks instead of `test`: a set's folder or a file in the original's format."""
    train_data: Path | None = None
    """Training tasks instead of the recipe's."""
    val_data: Path | None = None
    """Tasks for model selection instead of the recipe's."""
    budget: Budget = SHORT
    claim_tasks: int | None = None
    """How many tasks of `test_large` models are also scored on, to decide claims; None for none."""


class Runner:
    """See the module's docstring.

    Args:
        device: where to train; by default a GPU if there is one.
        at_once: how many runs share the device. Results record it, since sharing makes each run slower.
        commit: of the source tree, where git is not available.
        log: callback for messages, a line each.
        on_progress: callback for the progress of training, see `train`.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        device: torch.device | None = None,
        at_once: int = 1,
        commit: str | None = None,
        log: Callable[[str], None] = lambda line: None,
        on_progress: Callable[[TrainingProgress], None] | None = None,
    ) -> None:
        self._paths, self._commit, self._log, self._on_progress = paths, commit, log, on_progress
        self._device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._at_once = at_once
        self._deadline = math.inf
        if not paths.recipes.is_dir():
            raise KarelsynthError(f"{paths.recipes}: there is no such folder of recipes")

    def run(self, jobs: Sequence[Job], *, minutes: float | None = None) -> dict[Job, HowEnded]:
        """Measure the jobs that have no result yet; returns how each of these ended.

        After `minutes`, the current run is saved and no further one is begun.
        """
        deadline = deadline_after(minutes)
        ended: dict[Job, HowEnded] = {}
        with locked_folder(self._paths.results):
            missing = self.missing(jobs, read_results(self._paths.results))
            for job in self.with_starts(missing):
                start = self.missing_start(job)
                if start is None:
                    ended[job] = self._attempt(job, deadline, result=job in missing)
                    continue
                ended[job] = ended[start]
                if ended[start] in ("diverged", "failed"):
                    self._log(f"{job.name}: {missing_start_message(start)}")
        return {job: ended[job] for job in missing}

    def _attempt(self, job: Job, deadline: float, *, result: bool) -> HowEnded:
        """Train and measure a job. A job that diverges or runs out of memory does not stop the others."""
        try:
            done = time_to_start(deadline) and self.train_and_measure(job, deadline, result=result)
        except (Diverged, OutOfMemory) as error:
            self._log(f"{job.name}: {error}")
            return "diverged" if isinstance(error, Diverged) else "failed"
        return "done" if done else "left"

    def train_and_measure(self, job: Job, deadline: float, *, result: bool = True) -> bool:
        """Make a job's model and, if `result`, its result; False if `time.monotonic()` reaches the deadline first.

        The caller has locked the folder of results. Raises OutOfMemory.
        """
        self._deadline = deadline
        if time.monotonic() >= deadline:
            return False
        try:
            return self._measure(job) if result else self._trained(job) is not None
        except (RuntimeError, MemoryError) as error:
            if out_of_memory(error):
                advice = "; run the command again with a smaller --at-once" if self._at_once > 1 else ""
                raise OutOfMemory(f"there is not enough memory for it on {self._device}{advice}") from error
            raise

    def missing_start(self, job: Job) -> Job | None:
        """The job whose model must be made (and kept, with `Paths.keep`) before this one can start, if any."""
        start = job.start
        if start is None or is_finished(self._run_of(job)):
            return None
        return None if self._is_made(start) else start

    def with_starts(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs, each after the job whose model must be made for it, if any."""
        return list(dict.fromkeys(each for job in jobs for each in (self.missing_start(job), job) if each))

    def missing(self, jobs: Sequence[Job], results: Results) -> list[Job]:
        """The jobs without a result, and those whose recipe, or whose start's recipe, has changed since.

        Checks all tasks first, since training takes long. Raises KarelsynthError if the folder has results on other
        test tasks, if test or validation tasks cannot be used, or if both are the same.
        """
        for result in results.values():
            if result.record["data"] != self._data_name:
                raise KarelsynthError(
                    f"{self._paths.results}: has results on {result.record['data']}, not on {self._data_name}; "
                    "choose another folder with --results"
                )
        found = []
        for job in jobs:
            if job not in results:
                found.append(job)
            elif not results[job].is_current({each.row.recipe: self.recipe(each) for each in (job, job.start) if each}):
                self._log(f"{job.name}: its recipe, or its starting model's, has changed since it was measured")
                found.append(job)
        digests = {result.digest for result in results.values()} - {None}
        reads_tasks = digests or (found and self._paths.data is not None)  # so errors in a file appear now
        if reads_tasks and digests - {self.test_tasks.digest}:
            raise KarelsynthError(
                f"{self._paths.results}: has results on other tasks than these, though both are called "
                f"{self._data_name}; choose another folder with --results"
            )
        self._check_validation(found)
        return found

    def _check_validation(self, missing: Sequence[Job]) -> None:
        """Raise KarelsynthError if validation tasks of the missing jobs cannot be read, or are the test tasks.

        Named sets are compared by name. A model that is already trained does not need its validation tasks.
        """
        pairs = [(self.recipe(job), self._is_made(job)) for job in self.with_starts(missing)]
        recipes = {(recipe.data.validation, recipe.run.validation_tasks, made): recipe for recipe, made in pairs}
        for (source, _, made), recipe in recipes.items():
            if made and source not in NAMED_SETS and not exists(source):
                continue
            if self._paths.data is None and source in NAMED_SETS:
                same = source == "test"
            else:
                same = validation_tasks(recipe).begins_like(self.test_tasks)
            if same:
                raise KarelsynthError(
                    f"models would be chosen on {source} and then scored on the same tasks ({self._data_name}): their "
                    "scores would be too high; give other tasks to choose on with --val, or to score on with --data"
                )

    @property
    def _data_name(self) -> str:
        """The name of the test tasks in results."""
        return OWN_TEST if self._paths.data is None else self._paths.data.name

    def recipe(self, job: Job) -> Recipe:
        """The recipe of a job: its row's, with the job's seed and the chosen tasks."""
        paths = self._paths
        return row_recipe(
            paths.recipes, job.row.recipe, paths.train_data, paths.val_data, seed=job.seed, budget=paths.budget
        )

    def _run_of(self, job: Job) -> Path:
        """The folder of the job's run."""
        return self._paths.runs / job.name

    def _kept(self, job: Job) -> Path | None:
        """The folder in which the job's model is kept, if it is to be."""
        keep = self._paths.keep
        return None if keep is None or job.row.recipe not in STARTS else keep / job.name

    def _is_made(self, job: Job) -> bool:
        """Whether the job's model is there; with `Paths.keep`, whether it is kept."""
        kept = self._kept(job)
        return is_finished(self._run_of(job)) if kept is None else is_kept(kept)

    def _measure(self, job: Job) -> bool:
        """Make a job's result; False if time ran out first."""
        trained = self._trained(job)
        if trained is None:
            return False
        model = Synthesizer.from_pretrained(trained.model, self._device)
        tasks = self.test_tasks
        start = time.perf_counter()
        provenance = {"model": str(trained.model), **({"commit": self._commit} if self._commit else {})}
        found = evaluate(model, tasks, beam=BEAM, provenance=provenance)
        report = found.to_json()
        record: dict[str, Any] = {
            "data": self._data_name,
            "recipe": trained.recipe,
            "start": trained.start,
            "training": trained.training,
            "report": report,
            **found.by_task(),
            "aliasing": score_aliases(model, beam=BEAM),
        }
        if model.syntax is not None:
            record["validity"] = validity(model, tasks)
        if model.syntax is not None and job.row.draws_masks:
            record["masks"] = {
                "program": masks_of_program(model, PROGRAM_A).to_json(),
                "tasks": masks_over(model, tasks.tokens, tasks.lengths),
            }
        if trained.last is not None:
            last = Synthesizer.from_pretrained(trained.last, self._device)
            record["last"] = _brief(evaluate(last, tasks, beam=BEAM), self._data_name)
        if self._paths.claim_tasks is not None:
            scored = evaluate(model, _claim_tasks(self._paths.claim_tasks), beam=BEAM)
            record["claims"] = {**_brief(scored, CLAIM_TASKS), **_claim_bits(scored)}
        write_result(self._paths.results, job, record)
        self._log(
            f"{job.name}: top 1 generalizes {report['generalization']['1']:.2f} %, exact {report['exact']['1']:.2f} %"
            f" (trained {trained.training['seconds']:.0f} s, evaluated {time.perf_counter() - start:.0f} s)"
        )
        return True

    def _trained(self, job: Job) -> Trained | None:
        """The job's model, trained if necessary; None if time ran out."""
        wanted, kept = self.recipe(job), self._kept(job)
        if kept is None or not is_kept(kept):
            folder = self._run_of(job)
            if not is_finished(folder) and not self._train(job, wanted, folder):
                return None
            trained = from_run(folder, wanted, None if job.start is None else self.recipe(job.start).to_json())
            if kept is None:
                return trained
            keep(trained, kept)
        return from_kept(kept, wanted)

    def _train(self, job: Job, recipe: Recipe, folder: Path) -> bool:
        """Train a job, and what it starts from; False if time ran out."""
        history = read_history(folder)
        if job.start is not None:
            start = self._trained(job.start)
            if start is None:
                return False
            if newest_folder(folder) is not None:  # the run resumes from its checkpoint, whatever it started from
                check_same(recipe.to_json(), history.start, recipe, start.recipe, folder)
            recipe, history = replace(recipe, start_from=str(start.model)), replace(history, start=start.recipe)
        if time.monotonic() >= self._deadline:
            return False
        self._log(f"{job.name}: training")
        shared = f" (up to {self._at_once} runs at once)" if self._at_once > 1 else ""
        machines = dict.fromkeys([*history.machines, f"{environment(self._device)['device']}{shared}"])
        history = replace(history, machines=tuple(machines))
        write_history(folder, history)
        if self._device.type == "cuda":
            torch.cuda.empty_cache()  # memory of the previous run
            torch.cuda.reset_peak_memory_stats(self._device)
        final = train(recipe, folder, device=self._device, on_progress=self._on_progress, deadline=self._deadline)
        if self._device.type == "cuda":
            memory = round(torch.cuda.max_memory_reserved(self._device) / 2**30, 1)
            write_history(folder, replace(history, gpu_gib=max(memory, history.gpu_gib or 0.0)))
        if not final.is_dir():
            self._log(f"{job.name}: time is up; saved in {folder}, from where it can be resumed")
        return final.is_dir()

    @cached_property
    def test_tasks(self) -> TaskBatch:
        """The test tasks: those of `Paths.data`, or the set `test`."""
        if self._paths.data is None:
            return named_tasks("test")
        return load_tasks(self._paths.data, on_problem=self._left_out, scored=True)

    def _left_out(self, problem: object) -> None:
        self._log(f"{self._paths.data}: left out: {problem}")


class ProgressLines:
    """Logs a line about a run now and then. A bar would not do: these commands mostly run unattended."""

    def __init__(self, name: str, log: Callable[[str], None]) -> None:
        self._name, self._log = name, log
        self._next, self._first = 0.0, (0.0, 0)

    def __call__(self, progress: TrainingProgress) -> None:
        now = time.monotonic()
        since, step = self._first
        left = ""
        if not since or progress.step <= step:  # another run has begun
            self._first = (now, progress.step)
        else:  # at the mean speed so far, with validations
            seconds = (now - since) / (progress.step - step) * (progress.steps - progress.step)
            left = f"{timedelta(seconds=round(seconds))} left, "
        if now < self._next:
            return
        self._next = now + _LOG_EVERY
        metrics = progress.metrics
        reward = f", reward {metrics['reward']:.3f}" if "reward" in metrics else ""
        self._log(
            f"{self._name} step {progress.step:,} of {progress.steps:,}, {progress.tasks_per_second:,.0f} tasks/s, "
            f"{left}loss {metrics['loss']:.4f}{reward}"
        )


@cache
def _claim_tasks(count: int) -> TaskBatch:
    """The first of the tasks that claims are decided on."""
    return named_tasks(CLAIM_TASKS, count)


def _brief(report: Report, data: str) -> dict[str, Any]:
    """The scores that a result file keeps of further tasks, or of a further model."""
    whole = report.to_json()
    intervals = whole["confidence_95"]
    return {
        "data": data,
        "tasks": whole["tasks"],
        **{name: whole[name] for name in ("generalization", "exact")},
        "confidence_95": {name: intervals[name] for name in ("generalization", "exact")},
    }


def _claim_bits(report: Report) -> dict[str, Any]:
    """Which tasks count, for paired comparisons: only what claims are about, since there are many tasks."""
    whole = report.by_task()
    return {"digest": whole["digest"], **{key: {rank: whole[key][rank] for rank in ranks} for key, ranks in CLAIM_BITS}}


def deadline_after(minutes: float | None) -> float:
    """By `time.monotonic()`, which is the same in all processes."""
    return math.inf if minutes is None else time.monotonic() + 60 * minutes


def time_to_start(deadline: float) -> bool:
    """Whether there is enough time to start a row."""
    return time.monotonic() < deadline - _TOO_LATE


def missing_start_message(start: Job) -> str:
    """The message for a job whose start cannot be made."""
    return f"cannot begin without the model of {start.name}"
