"""Consoles and reading of arguments, shared by the commands."""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from karelsynth.errors import KarelsynthError, ProgramSyntaxError, WorldError
from karelsynth.files import STDIN, exists, read_text, write_atomically
from karelsynth.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import torch
    from rich.console import Console
    from rich.status import Status

    from karelsynth.karel.program import Program
    from karelsynth.karel.world import World
    from karelsynth.tasks.task import Task

OUT: Final = ("--out", "--output", "-o")
"""The names of the option that says where to write, in every command that writes."""
_GALLERY_NAME: Final = re.compile(r"[a-z][a-z -]*", re.IGNORECASE)
"""What a task of the gallery may be called, by its name or its title; a file of the same name comes first."""
_TASK: Final = re.compile(r'\s*(?:(name|about|input|output|example)\s*#?\d*\s*:|[\[{].*"examples")', re.I | re.S)
"""How a file of tasks begins, as text or as JSON; no program and no world does."""


@cache
def console() -> Console:
    """Standard output, for a command's results."""
    return _console(stderr=False)


@cache
def error_console() -> Console:
    """Standard error, for everything else."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    """Text is shown as it is, whatever brackets and colons it has; only what would act on the terminal is replaced.

    All that commands print goes through here, so that no message needs to think of what a file or its name may hold.
    """
    from rich.console import Console
    from rich.segment import Segment

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # to be told apart from an error: see `commands`

        def render(self, *args: Any, **more: Any) -> Iterator[Segment]:
            for segment in super().render(*args, **more):  # those that steer the terminal are rich's own
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

    return Plain(stderr=stderr, highlight=False, markup=False, emoji=False)


def loading() -> Status:
    """A line that moves while a model is loaded and the code around it compiled."""
    return error_console().status("loading the model; the first time on a machine, compiling takes up to a minute more")


def read_program(path: str, dialect: str | None = None) -> tuple[str, Program]:
    """A program file's text and program; `-` is standard input."""
    from karelsynth.karel.program import Program

    text = read_text(path)
    try:
        return text, Program.parse(text, dialect)
    except ProgramSyntaxError as error:
        _refuse_task(text, path)
        name = "standard input" if path == STDIN else path
        raise KarelsynthError(f"{name}, {error}") from None


def read_world(path: str) -> World:
    """A world file's world; `-` is standard input."""
    from karelsynth.karel.formats import world_from_text

    text = read_text(path)
    try:
        return world_from_text(text)
    except WorldError as error:
        _refuse_task(text, path)
        raise WorldError(f"{path}: {error}") from None


def named_task(name: str) -> Task | None:
    """The gallery's task of that name; None if it is a file's or cannot be a task's."""
    from karelsynth.tasks.gallery import gallery_task

    if not _GALLERY_NAME.fullmatch(name) or exists(name):
        return None
    try:
        return gallery_task(name)
    except KarelsynthError as error:
        raise KarelsynthError(f"{name}: there is no such file, and {error}") from None


def read_world_or_task(path: str) -> World | Task:
    """A world file's world, or a single task: of a file, or of the gallery by its name; `-` is standard input."""
    from karelsynth.karel.formats import world_from_text
    from karelsynth.tasks.task_files import tasks_from_text

    named = named_task(path)
    if named is not None:
        return named
    text = read_text(path)
    if not _TASK.match(text):
        try:
            return world_from_text(text)
        except WorldError as error:
            raise WorldError(f"{path}: {error}") from None
    tasks = tasks_from_text(text, path)
    if len(tasks) > 1:
        raise KarelsynthError(
            f"{path}: holds {len(tasks)} tasks, and a picture shows one: save it in a file of its own"
        )
    return tasks[0]


def _refuse_task(text: str, path: str) -> None:
    """Say so if a file that could not be read is a task: a slip that the error itself would not explain."""
    if _TASK.match(text):
        raise KarelsynthError(
            f"{path}: this is a task, not a program or a world; `karelsynth solve {path}` finds its program. "
            f"`karelsynth draw {path}` draws it. To use one of its worlds here, copy the drawing to a file of its own"
        )


def chosen_device(name: str | None) -> torch.device:
    """The device of that name, by default a GPU if there is one; raises KarelsynthError if it cannot be had."""
    import torch

    from karelsynth.model.devices import usable_device

    return usable_device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


def write_text(text: str, path: Path | None) -> None:
    """Write a text to a file, or to standard output."""
    text = text.rstrip("\n") + "\n"
    if path is None:
        sys.stdout.write(text)
        sys.stdout.flush()  # so that whoever reads it need not wait, and what fails fails here
    else:
        write_atomically(path, text.encode())
