"""The metrics of a run: their averages over some steps, and the log.

The log is `metrics.jsonl`, a line for each entry, and TensorBoard's files if it is installed.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import torch
from torch import Tensor

from karelsynth.errors import KarelsynthError
from karelsynth.files import write_atomically
from karelsynth.parsing import parse_json

METRICS = "metrics.jsonl"


class StepAverages:
    """Averages of metrics over the steps since it was made."""

    def __init__(self, device: torch.device) -> None:
        self.steps, self._device = 0, device
        self._sums, self._began = dict[str, Tensor](), time.perf_counter()

    def add(self, metrics: dict[str, Tensor]) -> None:
        """Add the metrics of a step. Does not synchronise with the device."""
        self.steps += 1
        for name, value in metrics.items():
            self._sums[name] = self._sums.get(name, torch.zeros((), device=self._device)) + value.detach()

    def averages(self) -> dict[str, float]:
        """By name. Waits for the device."""
        return {name: float(value) / self.steps for name, value in self._sums.items()}

    def steps_per_second(self) -> float:
        """The speed so far; call it after `averages`, so that the steps are done."""
        return self.steps / (time.perf_counter() - self._began)


class MetricsLog:
    """Writes entries. First removes entries of steps that a resumed run repeats."""

    def __init__(self, folder: Path | None, step: int) -> None:
        self._folder, self._step = folder, step
        self._file: TextIO | None = None
        self._board: Any = None

    def __enter__(self) -> MetricsLog:
        if self._folder is not None:
            path = self._folder / METRICS
            write_atomically(path, b"".join(line + b"\n" for line in _kept(path, self._step)))
            self._file = path.open("a", buffering=1, encoding="utf-8")
            self._board = _board(self._folder, self._step)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
        if self._board is not None:
            self._board.close()

    def write(self, step: int, values: dict[str, float], sample: str | None = None) -> None:
        """Add an entry: numbers, and optionally sample programs."""
        if self._file is not None:
            entry: dict[str, Any] = {"step": step, **values}
            if sample is not None:
                entry["sample"] = sample
            self._file.write(json.dumps(entry) + "\n")
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)
            if sample is not None:
                self._board.add_text("sample", f"```\n{sample}\n```", step)


def _kept(path: Path, step: int) -> list[bytes]:
    """The lines of a log up to a step, without an incomplete last line."""
    kept = []
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for number, line in enumerate(lines[:-1], 1):
        try:
            if line and parse_json(line)["step"] <= step:
                kept.append(line)
        except (LookupError, TypeError, ValueError):
            raise KarelsynthError(
                f"{path}, line {number}: not an entry of a training run's log; remove the line to continue without it"
            ) from None
    return kept


def _board(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
