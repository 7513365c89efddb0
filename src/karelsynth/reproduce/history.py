"""What the training loop does not record of a run: `history.json` in its folder, from before its first step on.

A run may take several sessions, on several machines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from karelsynth.errors import KarelsynthError
from karelsynth.files import write_atomically

_NAME: Final = "history.json"


@dataclass(frozen=True)
class History:
    """How a run has come about."""

    machines: tuple[str, ...] = ()
    """That it was trained on, one after the other."""
    start: Mapping[str, Any] | None = None
    """The recipe of the model that it started from, if it started from one."""
    gpu_gib: float | None = None
    """The most GPU memory that a sitting had reserved; None if none has ended yet, or had no GPU."""


def read_history(folder: Path) -> History:
    """Of a run's folder; an empty one if nothing is known."""
    path = folder / _NAME
    if not path.is_file():
        return History()
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        machines, start, memory = record["machines"], record["start"], record["gpu_gib"]
        kinds = isinstance(machines, list), isinstance(start, dict | None), isinstance(memory, float | None)
        if all(kinds) and all(isinstance(name, str) for name in machines):
            return History(tuple(machines), start, memory)
    except (OSError, LookupError, RecursionError, TypeError, ValueError):
        pass
    raise KarelsynthError(f"{path}: not the history of a run; remove {folder} to have it trained again")


def write_history(folder: Path, history: History) -> None:
    """Into a run's folder, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _NAME, json.dumps(asdict(history), indent=1).encode())
