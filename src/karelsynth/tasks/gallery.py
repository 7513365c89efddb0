"""The gallery: tasks made by hand, from easy to hard. A program of the language solves each of them.

The files are in `gallery_tasks`, numbered in their order: `07-fill-the-row.task` is the task `fill-the-row`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from karelsynth.errors import KarelsynthError, nearest
from karelsynth.karel.world import quoted
from karelsynth.tasks.task import Task
from karelsynth.tasks.task_files import parse_task

_ENDING: Final = ".task"


@dataclass(frozen=True)
class GalleryTask:
    """A task of the gallery and its short name in commands, URLs and file names."""

    slug: str
    task: Task


@cache
def gallery() -> tuple[GalleryTask, ...]:
    """All tasks, the easy ones first."""
    folder = files("karelsynth.tasks") / "gallery_tasks"
    found = sorted((file.name, file) for file in folder.iterdir() if file.name.endswith(_ENDING))
    return tuple(
        GalleryTask(name.removesuffix(_ENDING).partition("-")[2], parse_task(file.read_text(encoding="utf-8"), name))
        for name, file in found
    )


def gallery_task(name: str) -> Task:
    """The task with this short name or title, ignoring case; raises KarelsynthError for an unknown one."""
    entries = {known.casefold(): entry for entry in gallery() for known in (entry.slug, entry.task.name)}
    wanted = name.strip().casefold()
    if wanted in entries:
        return entries[wanted].task
    close = nearest(wanted, entries)
    hint = f"did you mean `{entries[close].slug}`?" if close else f"it has {', '.join(e.slug for e in gallery())}"
    raise KarelsynthError(f"there is no task {quoted(name)} in the gallery; {hint}")
