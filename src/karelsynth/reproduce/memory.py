"""When memory runs out: because parallel runs each hold their own training tasks, or otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

from karelsynth.errors import KarelsynthError
from karelsynth.tasks.batch import TaskBatch

_SYSTEM: Final = Path("/proc/meminfo")
_CONTAINER: Final = Path("/sys/fs/cgroup")


class NoRoom(KarelsynthError):
    """A run needs more memory than there is left."""


def check_memory(sets: Sequence[int], at_once: int, free: int | None) -> None:
    """Raise KarelsynthError if the `at_once` largest sets together need more bytes than are free, if that is known.

    The rest of what a process needs is small beside that.
    """
    sets = sorted(sets, reverse=True)[:at_once]
    if free is None or sum(sets) <= free:
        return
    fits = max(count for count in range(len(sets)) if sum(sets[:count]) <= free)
    raise KarelsynthError(
        f"{len(sets)} runs at once need {sum(sets) / 1e9:.1f} GB of memory for their training tasks, and "
        f"{free / 1e9:.1f} GB are free: "
        + (f"choose --at-once {fits}" if fits else "not enough even for one; free some memory")
    )


def size_of(tasks: TaskBatch) -> int:
    """In bytes."""
    return sum(getattr(tasks, field.name).nbytes for field in fields(tasks))


def free_memory() -> int | None:
    """Bytes that this process and its children may still take, by system and container; None if nothing tells."""
    known = []
    if available := _figure(_SYSTEM, "MemAvailable:"):
        known.append(1024 * available)
    limit, used = (_lines(_CONTAINER / name)[:1] for name in ("memory.max", "memory.current"))
    if limit and used and limit[0].isdigit():  # else it says `max`
        # What was read from files counts as used, too, but is given up when memory is wanted.
        known.append(max(0, int(limit[0]) - int(used[0]) + _figure(_CONTAINER / "memory.stat", "inactive_file")))
    return min(known, default=None)


def _figure(path: Path, name: str) -> int:
    """The figure behind a name in a file of names and figures; 0 if there is none."""
    return next((int(line.split()[1]) for line in _lines(path) if line.split()[:1] == [name]), 0)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return []
