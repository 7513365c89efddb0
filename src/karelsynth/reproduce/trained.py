"""Trained models of rows: in a run's folder, or kept in bfloat16 for the rows that start from them.

A model trained by an outdated recipe, or started from such a model, is refused. `history.json` in a run's folder
records what the training loop does not: machines, memory, and the recipe of the start. A run may take several sessions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch

from karelsynth.errors import KarelsynthError
from karelsynth.files import read_text, write_atomically
from karelsynth.model.storage import save_model
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.parsing import parse_json
from karelsynth.reproduce.results import check_recipe, check_trained, defining_settings, read_json
from karelsynth.train.loop import BEST, FINAL
from karelsynth.train.metrics import METRICS
from karelsynth.train.recipe import Recipe, RecipeError

KEPT: Final = "trained.json"
"""Beside a kept model: its recipe, and the cost of its training."""
_HISTORY: Final = "history.json"
_PART_BYTES: Final = 15_000_000
_LARGEST_LOG: Final = 2**28
"""Bytes of the largest log of a run."""


@dataclass(frozen=True)
class History:
    """How a run came about."""

    machines: tuple[str, ...] = ()
    """The machines that trained it, in order."""
    start: Mapping[str, Any] | None = None
    """The recipe of the model that it started from, if any."""
    gpu_gib: float | None = None
    """The most GPU memory that a session had reserved; None if no session has ended yet, or without a GPU."""


def read_history(folder: Path) -> History:
    """The history in a run's folder; an empty one if there is none."""
    path = folder / _HISTORY
    if not path.is_file():
        return History()
    try:
        record = parse_json(read_text(path))
        machines, start, memory = record["machines"], record["start"], record["gpu_gib"]
        kinds = isinstance(machines, list), isinstance(start, dict | None), isinstance(memory, float | None)
        if all(kinds) and all(isinstance(name, str) for name in machines):
            return History(tuple(machines), start, memory)
    except (OSError, LookupError, TypeError, ValueError):
        pass
    raise KarelsynthError(f"{path}: not the history of a run; remove {folder} to train it again")


def write_history(folder: Path, history: History) -> None:
    """Write the history into a run's folder, which is made if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _HISTORY, json.dumps(asdict(history), indent=1).encode())


@dataclass(frozen=True)
class Trained:
    """The trained model of a job."""

    model: Path
    recipe: dict[str, Any]
    start: Mapping[str, Any] | None
    """The recipe of the model that it started from."""
    training: dict[str, Any]
    """The cost of training: see `results`."""
    last: Path | None = None
    """The last model, if it is still there; `model` is the one that validation chose."""


def is_finished(folder: Path) -> bool:
    """Whether a run's folder holds its final model."""
    return _finished(folder).is_file()


def from_run(folder: Path, wanted: Recipe, start: Mapping[str, Any] | None) -> Trained:
    """The model of a finished run that followed the wanted recipe."""
    trained = read_run(folder)
    check_same(trained.recipe, trained.start, wanted, start, folder)
    return trained


def read_run(folder: Path) -> Trained:
    """The model of a finished run."""
    history, recipe = read_history(folder), read_json(_finished(folder), _retrain(folder))
    check_recipe(recipe, _finished(folder), _retrain(folder))
    seconds, steps, validations = _logged(folder)
    training = {
        "seconds": seconds,
        "steps": steps,
        "tasks": steps * recipe["run"]["batch_size"],
        "device": ", then ".join(history.machines) or "not recorded",
        "gpu_gib": history.gpu_gib,
        "validations": validations,
    }
    return Trained(folder / BEST, recipe, history.start, training, folder / FINAL)


def is_kept(folder: Path) -> bool:
    """Whether a folder holds a kept model."""
    return (folder / KEPT).is_file()


def from_kept(folder: Path, wanted: Recipe) -> Trained:
    """A kept model. It started from random weights."""
    record = read_json(folder / KEPT, _retrain(folder))
    check_trained(record, folder / KEPT, _retrain(folder))
    check_same(record["recipe"], None, wanted, None, folder)
    return Trained(folder, record["recipe"], None, record["training"])


def keep(trained: Trained, folder: Path) -> None:
    """Keep a model that started from random weights, in bfloat16 and in files of at most 15 MB."""
    model = Synthesizer.from_pretrained(trained.model)
    save_model(folder, model.settings, model.state_dict(), torch.bfloat16, part_bytes=_PART_BYTES)
    record = {"recipe": trained.recipe, "training": trained.training}
    write_atomically(folder / KEPT, json.dumps(record, indent=1).encode())  # last: it marks the folder as complete


def check_same(
    recipe: Mapping[str, Any],
    start: Mapping[str, Any] | None,
    wanted: Recipe,
    wanted_start: Mapping[str, Any] | None,
    folder: Path,
) -> None:
    """Raise KarelsynthError unless a folder's model was made by the wanted recipe from the wanted start."""
    try:
        old, new = defining_settings(recipe, start), defining_settings(wanted.to_json(), wanted_start)
        different = ", ".join(sorted(place for place in new if old[place] != new[place]))
    except RecipeError as error:
        different = str(error)
    if different:
        raise KarelsynthError(
            f"{folder}: holds a model trained by another version of {wanted.name} (different: {different}); "
            "move it away to train it again"
        )


def _finished(folder: Path) -> Path:
    """The file that the training loop writes last."""
    return folder / FINAL / "recipe.json"


def _logged(folder: Path) -> tuple[float, int, list[list[float]]]:
    """From a run's log: its seconds over all sessions, its last step, and its validations (see `results`)."""
    try:
        entries = [parse_json(line) for line in read_text(folder / METRICS, _LARGEST_LOG).splitlines()]
        seconds, steps = float(entries[-1]["seconds"]), int(entries[-1]["step"])
        names = "step", "validation_generalization", "validation_exact"
        validations = [[entry[name] for name in names] for entry in entries if names[1] in entry]
        for value in (seconds, *(value for validation in validations for value in validation)):
            if not math.isfinite(value):
                raise ValueError(f"{value} in it")
    except (OSError, LookupError, OverflowError, TypeError, ValueError) as error:
        raise KarelsynthError(
            f"{folder / METRICS}: not the log of a training run ({error}); {_retrain(folder)}"
        ) from None
    return round(seconds, 1), steps, validations


def _retrain(folder: Path) -> str:
    return f"remove {folder} to train it again"
