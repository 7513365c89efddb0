"""Checkpoints: everything that a run needs to resume exactly, as safetensors and JSON; nothing is unpickled.

A checkpoint is a folder that is renamed into place, so it is complete or absent. A run's folder holds its newest
checkpoint.

`SHA256SUMS` in it has the checksums of the other files. Loading compares them.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from karelsynth.errors import KarelsynthError
from karelsynth.files import FileError, cannot_write, sync_folder, write_atomically
from karelsynth.model.storage import Checksums, read_tensors, write_sums
from karelsynth.parsing import parse_json

_PREFIX = "checkpoint-"
_UNFINISHED = ".checkpoint.tmp"
"""Always the same name: the next checkpoint removes what a killed process left."""


class CheckpointError(KarelsynthError):
    """A checkpoint that cannot be used."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after `step` steps."""

    step: int
    model: dict[str, torch.Tensor]
    optimizer: dict[str, torch.Tensor]
    """`name/slot` for each parameter's name and each of its slots in the optimizer."""
    notes: dict[str, Any]
    """The recipe, the best validation score so far, and the like."""


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint beside the older ones, then remove those."""
    target = folder / f"{_PREFIX}{checkpoint.step:08d}"
    unfinished = folder / _UNFINISHED
    files = {
        "model.safetensors": safetensors.torch.save(_plain(checkpoint.model)),
        "optimizer.safetensors": safetensors.torch.save(_plain(checkpoint.optimizer)),
        "notes.json": json.dumps({"step": checkpoint.step, **checkpoint.notes}, indent=1).encode(),
    }
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for name, content in files.items():
            write_atomically(unfinished / name, content)
        write_sums(unfinished, files)
        shutil.rmtree(target, ignore_errors=True)
        unfinished.rename(target)
        sync_folder(folder)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)  # on a full disk it would take up space
        raise error if isinstance(error, FileError) else cannot_write(target, error) from None
    for older in _all(folder):
        if older != target:
            shutil.rmtree(older, ignore_errors=True)


def newest_folder(folder: Path) -> Path | None:
    """The folder of the newest checkpoint."""
    found = _all(folder)
    return found[-1] if found else None


def load_newest(folder: Path) -> Checkpoint | None:
    """The newest checkpoint of a run's folder, or None."""
    newest = newest_folder(folder)
    if newest is None:
        return None
    try:
        sums = Checksums(newest)
        notes, model, optimizer = (
            sums.check(newest / name, (newest / name).read_bytes())
            for name in ("notes.json", "model.safetensors", "optimizer.safetensors")
        )
        record = parse_json(notes)
        if missing := {"step", "recipe", "best"} - record.keys():
            raise ValueError(f"notes.json lacks `{min(missing)}`")
        tensors = read_tensors(newest / "model.safetensors", model)
        return Checkpoint(record.pop("step"), tensors, safetensors.torch.load(optimizer), record)
    except Exception as error:  # whatever is wrong with these files, the message must name them
        raise CheckpointError(f"{newest}: this checkpoint cannot be read ({error}); remove it to start again") from None


def _plain(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def _all(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_PREFIX}*")) if folder.is_dir() else []
