"""The gallery: tasks made by hand, from easy to hard, each with a program of the language behind it.

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
from karelsynth.tasks.task_text import parse_task

_ENDING: Final = ".task"


@dataclass(frozen=True)
class GalleryTask:
    """A task of the gallery and the short name it goes by in commands, addresses and file names."""

    slug: str
    task: Task


@cache
def gallery() -> tuple[GalleryTask, ...]:
    """All of them, the easy ones first."""
    folder = files("karelsynth.tasks") / "gallery_tasks"
    found = sorted((file.name, file) for file in folder.iterdir() if file.name.endswith(_ENDING))
    return tuple(
        GalleryTask(name.removesuffix(_ENDING).partition("-")[2], parse_task(file.read_text(encoding="utf-8"), name))
        for name, file in found
    )


def gallery_task(slug: str) -> Task:
    """The task of that name; raises KarelsynthError for an unknown one."""
    tasks = {entry.slug: entry.task for entry in gallery()}
    if slug in tasks:
        return tasks[slug]
    close = nearest(slug, tasks)
    hint = f"did you mean `{close}`?" if close else f"it has {', '.join(tasks)}"
    raise KarelsynthError(f"there is no task {quoted(slug)} in the gallery; {hint}")
