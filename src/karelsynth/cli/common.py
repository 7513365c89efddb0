"""Parts that several commands share: options, output, progress, and reading of arguments."""

from __future__ import annotations

import atexit
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from karelsynth.errors import KarelsynthError, ProgramSyntaxError, WorldError, need
from karelsynth.files import STDIN, check_writable, exists, is_file, name_of, read_text, write_atomically
from karelsynth.terminal_text import printable

if TYPE_CHECKING:
    import torch
    from rich.console import Console
    from rich.text import Text

    from karelsynth.cluster import Mapper
    from karelsynth.karel.program import Program
    from karelsynth.karel.world import Cell, World
    from karelsynth.tasks.batch import TaskBatch
    from karelsynth.tasks.task import Task

# Options

OUT: Final = ("--out", "--output", "-o")
"""The names of the option that says where to write, in every command that writes."""
MODEL_HELP: Final = (
    "A folder with a trained model, or one of the Hugging Face hub, OWNER/NAME; `shipped`, the package's, if not given."
)
TASKS_HELP: Final = (
    "The name of a set (`test`, `val`, `classroom` …; `karelsynth generate --list` has all), a set's folder, or a file "
    "in the original's format (- for standard input)."
)
Device = Annotated[str | None, typer.Option(help="cpu or cuda; by default a GPU if there is one.")]
CpuDevice = Annotated[str, typer.Option("--device", help="Where the model runs: cpu or cuda.")]
Model = Annotated[str | None, typer.Option("--model", metavar="DIR", help=MODEL_HELP)]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Divide the work among the CPUs of a Ray cluster: HOST:PORT, or auto on one of its nodes.",
    ),
]

# Output

INTERRUPTED: Final = 130
"""The exit status that shells report for a process ended by Ctrl-C."""


@cache
def console() -> Console:
    """Standard output, for a command's results."""
    return _console(stderr=False)


@cache
def error_console() -> Console:
    """Standard error, for everything else."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    """A console that prints text as it is, without markup, and replaces control characters.

    All output of commands goes through it, so no message has to escape what a file or its name may contain.
    """
    from rich.console import Console
    from rich.segment import Segment

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # handled in `cli/__init__.py`

        def render(self, *args: Any, **more: Any) -> Iterator[Segment]:
            for segment in super().render(*args, **more):  # control segments are rich's own
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

    return Plain(stderr=stderr, highlight=False, markup=False, emoji=False)


def print_out(text: Any, style: str | None = None) -> None:
    """Print to standard output, without wrapping."""
    if isinstance(text, str) and style is None:  # rich would take as long to import as a short command takes otherwise
        sys.stdout.write(f"{printable(text.expandtabs())}\n")
        sys.stdout.flush()
    else:
        console().print(text, style=style, soft_wrap=True)


def print_err(text: str, style: str | None = None) -> None:
    """Print to standard error, without wrapping."""
    error_console().print(text, style=style, soft_wrap=True)


def print_worlds(worlds: Sequence[tuple[str, World]], marked: Collection[Cell] = ()) -> None:
    """Print worlds with headings next to each other; cells that are `marked` stand out."""
    from karelsynth.karel.draw.terminal import side_by_side

    out = console()
    out.print(side_by_side(worlds, color=out.color_system is not None, width=out.width, marked=marked))


def marks() -> tuple[str, str]:
    """The marks for right and wrong, in characters that the terminal can show."""
    from karelsynth.karel.draw.terminal import supports_unicode

    return ("✓", "✗") if supports_unicode(console().encoding) else ("yes", "NO")


_leaving: list[int] = []


def leave(status: int) -> NoReturn:
    """End a command without Python's clean-up, which takes half a second if torch is loaded.

    `__main__` skips the clean-up once output is written; in other processes this is an ordinary exit.
    """
    _leaving.append(status)
    raise typer.Exit(status)


def leave_at_once() -> None:
    """End the process if the command called `leave`. By then, nothing of the command runs in the background."""
    if _leaving:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        atexit._run_exitfuncs()
        os._exit(_leaving[0])


def write_text(text: str, path: Path | None) -> None:
    """Write a text to a file, or to standard output if `path` is None."""
    text = text.rstrip("\n") + "\n"
    if path is None:
        sys.stdout.write(text)
        sys.stdout.flush()  # a reader gets it at once, and an error is raised here
    else:
        write_atomically(path, text.encode())


def check_outputs(*paths: Path | None) -> None:
    """Raise FileError if one of these files cannot be written. Call it before long work."""
    for path in paths:
        if path is not None:
            check_writable(path)


# Progress

_FUNCTIONS: Final = 190
"""About how many functions a solver compiles."""


@contextmanager
def loading() -> Iterator[None]:
    """Say what is done while a model is loaded and code is compiled: a line that changes, or one in a file or pipe.

    Compiling starts here, at once, if something is not compiled: in another process, while this one imports modules.
    """
    need("torch")
    out, started = error_console(), time.perf_counter()
    with out.status(_LoadingText(started)):
        from karelsynth.solve.compiling import start_compiling

        if start_compiling() and not out.is_terminal:
            print_err("compiling for this machine, once: this takes about half a minute")
        yield


class _LoadingText:
    """What is being done; rich asks for it a few times a second."""

    def __init__(self, started: float) -> None:
        self._started = started

    def __rich__(self) -> Text:
        from rich.text import Text

        compiling = sys.modules.get("karelsynth.solve.compiling")  # not there as long as it is being imported
        count = getattr(compiling, "compiled_functions", int)()
        if not count:
            return Text("loading the model")
        seconds = time.perf_counter() - self._started
        return Text(f"compiling for this machine, once: {count} functions of about {_FUNCTIONS}, {seconds:.0f} s")


@contextmanager
def counter(what: str, *, unit: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A progress bar with rate and time left. Yields a function that advances it by a number of units."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Any) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.0f} {unit}/s" if speed else f"– {unit}/s", style="progress.data.speed")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=error_console(), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """On Ctrl-C, print a message to standard error and exit."""
    try:
        yield
    except KeyboardInterrupt:
        print_err(message)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def spread(address: str | None, device: str | None = None) -> Iterator[Mapper | None]:
    """A Ray cluster's `map`; None without an address."""
    if address is None:
        yield None
        return
    if device not in (None, "cpu"):
        raise KarelsynthError("on a cluster models run on CPUs: drop --device or --ray")
    from karelsynth.cluster import Cluster

    with Cluster(address) as cluster:
        yield cluster.map


# Arguments

_GALLERY_NAME: Final = re.compile(r"[a-z][a-z -]*", re.IGNORECASE)
"""What a name or title of a task of the gallery looks like. A file of the same name takes precedence."""
_TASK_TEXT: Final = re.compile(rb"\s*(?:name|about|input|output|example)\s*#?\d*\s*:", re.I)
_TASK_START: Final = re.compile(r'\s*(?:(name|about|input|output|example)\s*#?\d*\s*:|[\[{].*"examples")', re.I | re.S)
"""The start of a task file, as text or as JSON. No program and no world starts like this."""


def read_program(path: str, dialect: str | None = None) -> tuple[str, Program]:
    """A program file's text and program; `-` is standard input."""
    text = read_text(path)
    return text, parse_program(text, path, dialect)


def parse_program(text: str, path: str, dialect: str | None = None) -> Program:
    """The program of a file's text; errors name the file."""
    from karelsynth.karel.program import Program

    try:
        return Program.parse(text, dialect)
    except ProgramSyntaxError as error:
        _refuse_task(text, path)
        name = "standard input" if path == STDIN else path
        raise KarelsynthError(f"{name}, {error}") from None


def read_world(path: str) -> World:
    """A world file's world; `-` is standard input."""
    text = read_text(path)
    _refuse_task(text, path)
    return _parse_world(text, path)


def gallery_task_named(name: str) -> Task | None:
    """The gallery's task of that name; None if it is a file's name or cannot be a task's."""
    from karelsynth.tasks.task_files import gallery_task

    if not _GALLERY_NAME.fullmatch(name) or exists(name):
        return None
    try:
        return gallery_task(name)
    except KarelsynthError as error:
        raise KarelsynthError(f"{name}: there is no such file, and {error}") from None


def read_world_or_task(path: str) -> World | Task:
    """The world of a file, or a single task, of a file or by its name in the gallery; `-` is standard input."""
    from karelsynth.tasks.manifest import FILE_NAME
    from karelsynth.tasks.task_files import not_a_task_file, tasks_from_text

    task = gallery_task_named(path)
    if task is not None:
        return task
    if exists(Path(path) / FILE_NAME):
        raise not_a_task_file(path)
    text = read_text(path)
    if not _TASK_START.match(text):
        return _parse_world(text, path)
    tasks = tasks_from_text(text, path)
    if len(tasks) > 1:
        raise KarelsynthError(
            f"{path}: holds {len(tasks)} tasks, and a picture shows one: save it in a file of its own"
        )
    return tasks[0]


def _parse_world(text: str, path: str) -> World:
    from karelsynth.karel.formats import world_from_text

    try:
        return world_from_text(text)
    except WorldError as error:
        raise WorldError(f"{path}: {error}") from None


def _refuse_task(text: str, path: str) -> None:
    """Raise an error that explains the mistake if the text is a task and not a program or a world."""
    if _TASK_START.match(text):
        raise KarelsynthError(
            f"{path}: this is a task, not a program or a world; `karelsynth solve {path}` finds its program. "
            f"`karelsynth draw {path}` draws it. To use one of its worlds here, copy the drawing to a file of its own"
        )


def refuse_task_text(path: str) -> None:
    """Raise an error that says what to do if a file is a task as text, where one in the original's format is wanted."""
    if path == STDIN or not is_file(path):
        return
    with Path(path).open("rb") as file:
        start = file.read(4096)
    if _TASK_TEXT.match(start):
        raise KarelsynthError(
            f"{path}: this is a task as text: it has no program whose runs could be compared. `karelsynth grade {path} "
            f"PROGRAM` tries a program on it, `karelsynth solve {path}` finds one"
        )


def load_scored(tasks: str, limit: int | None = None) -> TaskBatch:
    """The tasks of a command's argument. Problems of a file, and a set that has changed, are printed."""
    from karelsynth.tasks.named import DIGESTED, KARELBENCH, named_set
    from karelsynth.tasks.sets import is_named, load_tasks

    problems: list[str] = []
    batch = load_tasks(tasks, limit=limit, on_problem=lambda problem: problems.append(str(problem)))
    if problems:
        left_out = f"{name_of(tasks)}: {len(problems)} problems; these tasks are left out. The first: {problems[0]}"
        print_err(left_out, "yellow")
    if is_named(tasks) and len(batch) == named_set(tasks).count <= DIGESTED and batch.digest != named_set(tasks).digest:
        print_err(
            f"`{tasks}` has the digest {batch.digest}, and in KarelBench {KARELBENCH} it is {named_set(tasks).digest}: "
            "this version makes other tasks, so figures do not compare",
            "yellow",
        )
    return batch


def choose_device(name: str | None) -> torch.device:
    """The device of that name, by default a GPU if there is one. Raises KarelsynthError if it is not available."""
    import torch

    from karelsynth.model.devices import usable_device

    return usable_device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
