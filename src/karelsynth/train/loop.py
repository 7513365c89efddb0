"""The one training loop, for every objective.

    train(recipe, folder)                 # resumes from the folder's newest checkpoint, if there is one

A step depends only on the recipe, the weights and the step's number, which seeds batches, held-out examples and
samples. So a run that was stopped at any moment and resumed ends with the same weights as an uninterrupted one. On a
GPU the weights are nearly the same, since the order of sums may differ.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from karelsynth._version import __version__
from karelsynth.errors import KarelsynthError
from karelsynth.files import exists, locked_folder, write_atomically
from karelsynth.karel.threads import core_count
from karelsynth.model.devices import tensor_threads, usable_device
from karelsynth.model.storage import RECIPE, load_settings, model_folder
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.tasks.named import NAMED_SETS
from karelsynth.tasks.streams import TaskSource
from karelsynth.train import checkpoint
from karelsynth.train.batches import BatchLoader, TrainingBatch, check_lengths, open_source
from karelsynth.train.distributed import ProcessGroup
from karelsynth.train.metrics import MetricsLog, StepAverages
from karelsynth.train.optimizers import Optimizers, learning_rate
from karelsynth.train.recipe import Recipe, RecipeError, load_recipe, recipe_from
from karelsynth.train.steps import Loss
from karelsynth.train.validation import Validator

BEST = "best"
"""Folders inside a run's: the model with the best validation score, and the last one."""
FINAL = "final"
_SMALL_NETWORK = 1_000_000
"""Parameters. The steps of networks with fewer are faster on one thread."""


class Diverged(KarelsynthError):
    """The loss or a weight is not finite."""


@dataclass(frozen=True)
class TrainingProgress:
    """The state of a run, every `run.log_every` steps."""

    step: int
    steps: int
    tasks_per_second: float
    metrics: dict[str, float]


class Interrupt:
    """A context in which Ctrl-C sets `stop_requested`, so that a run can finish its step and save.

    A second Ctrl-C raises KeyboardInterrupt at once. Only the main thread receives signals.
    """

    def __init__(self) -> None:
        self.stop_requested = False
        self._before: Any = None

    def __enter__(self) -> Interrupt:
        # A signal that is ignored, as in a background job, or handled outside of Python stays so.
        ours = signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None)
        if ours and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._request_stop)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._restore()

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop_requested = True
        self._restore()

    def _restore(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None


def train(
    recipe: Recipe | str | Path,
    folder: str | Path,
    *,
    device: torch.device | str | None = None,
    on_progress: Callable[[TrainingProgress], None] | None = None,
    stop_after: int | None = None,
    deadline: float | None = None,
    extend: bool = False,
) -> Path:
    """Train by a recipe in a folder, from its newest checkpoint if it has one; returns the final model's folder.

    Args:
        recipe: what `load_recipe` returns, or what it reads: the name of one of the package's, or a file.
        on_progress: callback, called every `run.log_every` steps.
        stop_after: end the run, with a checkpoint, after this many steps in total.
        deadline: end the run, with a checkpoint, after the step in which `time.monotonic()` reaches this. Several
            processes, which must agree, check it only when they log.
        extend: whether the recipe may have more steps than the run in the folder began with, finished or not. From its
            last step on, the run then follows the longer schedule.

    A run that ends early has no final model yet. Ctrl-C ends it with a checkpoint, too, and then raises
    KeyboardInterrupt; a second Ctrl-C does not wait for the checkpoint. The folder is locked against other processes.
    """
    recipe = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    folder = Path(folder)
    group = ProcessGroup.join(usable_device(device) if isinstance(device, str) else device)
    try:
        with locked_folder(folder) if group.is_main else nullcontext():
            run = _Run(recipe, folder, group, extend=extend)
            return run.run(
                on_progress or (lambda progress: None), stop_after, math.inf if deadline is None else deadline
            )
    finally:
        group.close()


class _Run:
    """A run: its state between steps."""

    def __init__(self, recipe: Recipe, folder: Path, group: ProcessGroup, *, extend: bool = False) -> None:
        self.began = time.monotonic()
        saved = checkpoint.load_newest(folder)
        if recipe.inherits_model:
            recipe = _with_model(recipe, None if saved is None else saved.notes["recipe"])
        self.recipe, self.folder, self.group = recipe, folder, group
        if saved is not None:
            _check_same_run(saved.notes["recipe"], recipe.to_json(), folder, extend=extend)
        torch.manual_seed(recipe.run.seed)
        # A checkpoint holds the weights. The model that the run started from need not exist any more.
        self.model = (_start_model(recipe) if saved is None else Synthesizer(recipe.model)).to(group.device)
        self.optimizers = Optimizers(self.model, recipe.optimizer)
        self.threads = min(torch.get_num_threads(), core_count())
        self.step, self.best = 0, -math.inf
        self.since_best = 0
        """Validations since the best one. Only the main process validates, so it alone counts."""
        self.spent: float | None = 0.0
        """Seconds of earlier sessions; None if a version that did not record them began the run."""
        self.tasks: dict[str, str | None] = {}
        """By setting, the fingerprint of the tasks in its file; empty for runs of older versions."""
        if saved is not None:
            self.model.load_state_dict(saved.model)
            self.optimizers.restore(saved.optimizer)
            self.step, self.best = saved.step, saved.notes["best"] if saved.notes["best"] is not None else -math.inf
            self.spent, self.tasks = saved.notes.get("seconds"), dict(saved.notes.get("tasks", {}))
            self.since_best = saved.notes.get("since_best", 0)
            if recipe.run.steps > saved.notes["recipe"]["run"]["steps"] and self._out_of_patience():
                self.since_best = 0  # extended after it had ended
        self.ended = self._out_of_patience()

    def run(self, on_progress: Callable[[TrainingProgress], None], stop_after: int | None, deadline: float) -> Path:
        """Train until the last step, `stop_after` or the deadline; returns the folder of the final model."""
        recipe, group = self.recipe, self.group
        steps = recipe.run.steps
        last = steps if stop_after is None else min(stop_after, steps)
        if self.ended or self.step >= last or self._deadline_reached(deadline):
            return self._finish()
        validator = Validator(recipe, group)  # first: its tasks are few, so errors in them appear early
        source = open_source(recipe.data)
        self._check_tasks(source, validator)
        if self.step == 0:
            check_lengths(source, recipe)
        objective = Loss(self.model, recipe.objective, group)
        loader = self._loader(source, pack=objective.uses_references)
        if recipe.run.compile:
            self.model.compile_parts()
        loss_of: nn.Module = DistributedDataParallel(objective) if group.size > 1 else objective
        done = self.step or -1  # a run from the start repeats step 0, too
        with (
            MetricsLog(self.folder if group.is_main else None, done) as log,
            Interrupt() as interrupt,
            tensor_threads(min(self.threads, _step_threads(self.model))),
        ):
            if self.step == 0 and recipe.run.validate_start:
                self._validate(validator, log)
            stops, since_entry = False, StepAverages(group.device)
            for batch in loader.batches(self.step, last):
                since_entry.add(self._update(loss_of, batch))
                validates = self.step % recipe.run.validate_every == 0 or self.step == steps
                may_end = validates and recipe.run.patience > 0
                logs = self.step % recipe.run.log_every == 0 or self.step == last or may_end
                until = -math.inf if interrupt.stop_requested else deadline
                stops = (logs or group.size == 1) and self._deadline_reached(until)
                if logs or stops:
                    self._log(since_entry, log, on_progress)
                    since_entry = StepAverages(group.device)
                saves = self.step % recipe.run.checkpoint_every == 0 or self.step == last or stops
                if validates or saves:
                    self._check_weights()
                if validates:
                    self._validate(validator, log)
                    if not since_entry.steps:  # validation does not count as time of the next steps
                        since_entry = StepAverages(group.device)
                if may_end:
                    self.ended = self._any(self.group.is_main and self._out_of_patience())
                if saves or self.ended:
                    self._save()
                if stops or self.ended:
                    break
        final = self._finish()
        # If another process was interrupted, all have stopped before the deadline.
        stopped = stops and self.step < last and not self.ended
        if interrupt.stop_requested or (stopped and time.monotonic() < deadline):
            raise KeyboardInterrupt
        return final

    def _loader(self, source: TaskSource, *, pack: bool) -> BatchLoader:
        """This process's part of the batches; `pack`: with the references packed for teacher forcing."""
        return BatchLoader(
            source,
            self.model,
            batch_size=self.recipe.run.batch_size,
            seed=self.recipe.run.seed,
            pack=pack,
            drop_examples=self.recipe.data.drop_examples,
            shuffle_examples=self.recipe.data.shuffle_examples,
            rank=self.group.rank,
            ranks=self.group.size,
        )

    def _update(self, loss_of: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        """One step: update the weights by a batch; returns the loss and the metrics."""
        optimizer = self.recipe.optimizer
        self.model.train()
        with self.group.precision(self.recipe.run.precision):
            loss, metrics = loss_of(batch, self._generator())
        self.optimizers.zero_grad()
        loss.backward()
        if optimizer.clip is not None:
            metrics["gradient_norm"] = nn.utils.clip_grad_norm_(self.model.parameters(), optimizer.clip)
        self.optimizers.step(learning_rate(optimizer, self.step, self.recipe.run.steps))
        self.step += 1
        return {"loss": loss, **metrics}

    def _check_tasks(self, source: TaskSource, validator: Validator) -> None:
        """Raise CheckpointError if a file of tasks has changed since the run began."""
        data, files = self.recipe.data, list[tuple[str, str, str | None]]()
        if data.source != "stream":
            files.append(("data.source", data.source, source.fingerprint))
        if data.validation not in NAMED_SETS:
            files.append(("data.validation", data.validation, validator.fingerprint))
        for setting, path, found in files:
            if self.tasks.setdefault(setting, found) != found:
                raise checkpoint.CheckpointError(
                    f"{path} (`{setting}`) holds other tasks than when the run in {self.folder} began; put the old "
                    "ones back to resume it, or choose another folder for a new run"
                )

    def _generator(self) -> torch.Generator:
        """The generator for this step's samples. Each process has its own."""
        generator = torch.Generator(self.group.device)
        seed = (self.recipe.run.seed * 1_000_003 + self.step) * 4096 + self.group.rank
        return generator.manual_seed(seed % 2**63)

    def _deadline_reached(self, deadline: float) -> bool:
        """Whether any process has reached the deadline. All must stop after the same step."""
        return self._any(time.monotonic() >= deadline)

    def _any(self, value: bool) -> bool:
        """Whether `value` is true in any process. All must call this after the same step."""
        if self.group.size == 1:
            return value
        return bool(self.group.total(torch.tensor(float(value), device=self.group.device)))

    def _out_of_patience(self) -> bool:
        return 0 < self.recipe.run.patience <= self.since_best

    def _seconds(self) -> dict[str, float]:
        """`seconds`: the run's time so far, over all sessions, with validation and checkpoints."""
        return {} if self.spent is None else {"seconds": round(self.spent + time.monotonic() - self.began, 3)}

    def _log(self, since_entry: StepAverages, log: MetricsLog, on_progress: Callable[[TrainingProgress], None]) -> None:
        """Log and report the averages since the last entry. Raises Diverged if they are not finite."""
        metrics, steps = since_entry.averages(), self.recipe.run.steps
        for name, what in (("loss", "the loss"), ("gradient_norm", "the norm of the gradient")):
            if not math.isfinite(metrics.get(name, 0.0)):
                raise self._diverged(f"{what} is {metrics[name]}")
        speed = self.recipe.run.batch_size * since_entry.steps_per_second()
        rate = learning_rate(self.recipe.optimizer, self.step - 1, steps)
        log.write(self.step, {**metrics, "learning_rate": rate, "tasks_per_second": speed, **self._seconds()})
        on_progress(TrainingProgress(self.step, steps, speed, metrics))

    def _check_weights(self) -> None:
        """Raise Diverged if a weight is not finite, before weights are saved over others."""
        if not all(bool(value.isfinite().all()) for value in self.model.parameters()):
            raise self._diverged("a weight is no longer a finite number")

    def _diverged(self, sign: str) -> Diverged:
        best = self.folder / BEST
        kept = f" from the best model so far (`--set start_from={best}`)" if exists(best) else ""
        return Diverged(
            f"{sign} after step {self.step}: the run has diverged. Start a new run{kept} in another folder (`--out`), "
            "with a lower `optimizer.learning_rate` or `optimizer.clip` or a longer `optimizer.warmup` (`--set`)"
        )

    def _validate(self, validator: Validator, log: MetricsLog) -> None:
        with tensor_threads(self.threads):  # a search divides its tasks among its own threads
            found = validator.score(self.model)
        if not self.group.is_main:
            return
        scores = {f"validation_{name}": value for name, value in found.metrics.items()}
        score = found.metrics[self.recipe.run.select_by]
        self.since_best = 0 if score > self.best else self.since_best + 1
        log.write(self.step, {**scores, "validations_since_best": self.since_best, **self._seconds()}, found.sample)
        if score > self.best:
            self.best = score
            self._save_model(self.folder / BEST)

    def _save(self) -> None:
        if self.group.is_main:
            notes: dict[str, Any] = {
                "recipe": self.recipe.to_json(),
                "tasks": self.tasks,
                "best": self.best if math.isfinite(self.best) else None,
                "since_best": self.since_best,
                "version": __version__,
                "torch": torch.__version__,
                **self._seconds(),
            }
            tensors = self.optimizers.tensors()
            checkpoint.save(
                self.folder, checkpoint.Checkpoint(self.step, dict(self.model.state_dict()), tensors, notes)
            )

    def _finish(self) -> Path:
        """Save the final model, if this was the last step; returns its folder."""
        target = self.folder / FINAL
        if self.group.is_main and (self.ended or self.step >= self.recipe.run.steps):
            self._save_model(target)
        return target

    def _save_model(self, target: Path) -> None:
        """Save the model and, last, its recipe: `final/recipe.json` marks a run as finished."""
        self.model.save_pretrained(target)
        write_atomically(target / RECIPE, json.dumps(self.recipe.to_json(), indent=1).encode())


def _step_threads(model: Synthesizer) -> int:
    """How many threads each operation of a training step is divided among.

    Sums depend on it, so it depends on nothing that varies between sessions.

    Operations of small networks end before other threads have woken up, and would wait for a thread whose core is
    busy. So they use one thread, and the other cores make batches.
    """
    small = sum(parameter.numel() for parameter in model.parameters()) < _SMALL_NETWORK
    return 1 if small and model.device.type == "cpu" else core_count()


def _start_folder(start: str) -> Path:
    folder = model_folder(os.path.expandvars(start))
    if not exists(folder):
        raise KarelsynthError(
            f"{folder}, which the recipe starts from, is not there: train it first, or say where it is with "
            "`--set start_from=FOLDER`"
        )
    return folder


def _with_model(recipe: Recipe, saved: dict[str, Any] | None) -> Recipe:
    """The recipe with the network of the model that it starts from, or of the run that it continues."""
    assert recipe.start_from is not None
    model = load_settings(_start_folder(recipe.start_from)) if saved is None else recipe_from(saved).model
    return dataclasses.replace(recipe, model=model, inherits_model=False)


def _start_model(recipe: Recipe) -> Synthesizer:
    if recipe.start_from is None:
        return Synthesizer(recipe.model)
    folder = _start_folder(recipe.start_from)
    model = Synthesizer.from_pretrained(folder)
    found, wanted = dataclasses.asdict(model.settings), dataclasses.asdict(recipe.model)
    differing = [key for key in wanted if found[key] != wanted[key] and key != "max_length"]  # no weight depends on it
    if differing:
        pairs = ", ".join(f"`{key}` is {found[key]} there and {wanted[key]} in the recipe" for key in differing)
        raise KarelsynthError(
            f"the model in {recipe.start_from} differs from the recipe's [model]: {pairs}. A recipe without [model] "
            "has that of the model it starts from"
        )
    model.settings = recipe.model
    return model


def _check_same_run(saved: dict[str, Any], recipe: dict[str, Any], folder: Path, *, extend: bool) -> None:
    """Raise CheckpointError if a run began with another recipe. Its name and the path of `start_from` may differ.

    With `extend` the recipe may have more steps, too.

    A setting that the saved recipe lacks, because an older version wrote it, counts as its default.
    """
    with suppress(RecipeError):  # settings that no longer exist appear as differences
        saved = recipe_from(saved).to_json()
    one, two = (
        {**recorded, "name": None, "about": None, "start_from": recorded.get("start_from") is not None}
        for recorded in (json.loads(json.dumps(saved)), json.loads(json.dumps(recipe)))
    )
    different = _differences(one, two)
    more = different == ["run.steps"] and two["run"]["steps"] > one["run"]["steps"]
    if different and not (more and extend):
        hint = f"; `--extend` continues it to step {two['run']['steps']:,}" if more else ""
        raise checkpoint.CheckpointError(
            f"{folder} holds a run of another recipe (different: {', '.join(different)}); "
            f"choose another folder, or use the same recipe to resume{hint}"
        )


def _differences(one: Any, two: Any, place: str = "") -> list[str]:
    if isinstance(one, dict) and isinstance(two, dict):
        keys = sorted(one.keys() | two.keys())
        return [
            found for key in keys for found in _differences(one.get(key), two.get(key), f"{place}.{key}".strip("."))
        ]
    return [] if one == two else [place]
