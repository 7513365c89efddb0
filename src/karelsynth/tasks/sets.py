"""Task sets by name, and from and to the original's files.

    write_named_set("val", "data/val")
    load_tasks("data/val")                        # also a JSON-lines file of the original format

The names are those of the original's parts. As there, short programs recur across them; the longer programs that are
reserved for testing (see `generator`) occur in `val` and `test` only, where `novel` marks them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karelsynth.errors import KarelsynthError, TaskFileError, checked_int, listed, nearest
from karelsynth.files import STDIN, is_folder, locked_folder, name_of
from karelsynth.karel.world import quoted
from karelsynth.tasks.batch import EXAMPLES, GIVEN_EXAMPLES, TaskBatch, concatenate
from karelsynth.tasks.generate import generate
from karelsynth.tasks.manifest import FILE_NAME, Imported, Manifest, read_manifest
from karelsynth.tasks.msr_tasks import read_tasks, write_tasks
from karelsynth.tasks.shards import SHARD_SIZE, Progress, SetWriter, TaskSet, open_set, write_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karelsynth.tasks.msr_records import Problem, ReadingProgress


@dataclass(frozen=True)
class Recipe:
    """How a named set is made; see `write_set`."""

    seed: int
    count: int
    reserved: bool
    about: str


NAMED_SETS: Final = {
    "full": Recipe(1, 1_116_854, False, "training tasks, as many as the original has"),
    "small": Recipe(1, 10_000, False, "the first of `full`"),
    "val": Recipe(2, 2_500, True, "for validation"),
    "test": Recipe(3, 2_500, True, "for the final figures"),
}
"""Whoever trains on an endless stream takes a seed of their own: these share no task with any other seed."""


def recipe(name: str) -> Recipe:
    """The recipe of a named set; raises KarelsynthError for another name."""
    if name not in NAMED_SETS:
        close = nearest(name, NAMED_SETS)
        hint = f"did you mean `{close}`?" if close else f"there are {listed(NAMED_SETS, 'and')}"
        raise KarelsynthError(f"there is no set called {quoted(name)}; {hint}")
    return NAMED_SETS[name]


def named_tasks(name: str, limit: int | None = None) -> TaskBatch:
    """The tasks of a named set, or the first `limit`, made here and now; raises KarelsynthError for another name."""
    made = recipe(name)
    count = made.count if limit is None else min(checked_int("limit", limit, 0), made.count)
    return generate(made.seed, 0, count, reserved=made.reserved)


def write_named_set(
    name: str, folder: str | Path, *, threads: int | None = None, progress: Progress | None = None
) -> TaskSet:
    """Make a named set, or finish making it."""
    made = recipe(name)
    return write_set(
        folder, seed=made.seed, count=made.count, reserved=made.reserved, threads=threads, progress=progress
    )


def load_tasks(
    path: str | Path,
    *,
    limit: int | None = None,
    on_problem: Callable[[Problem], None] | None = None,
    scored: bool = False,
) -> TaskBatch:
    """The tasks, or the first `limit`, of a set's folder or a file in the original format (`.gz` too), as one batch.

    `-` is standard input.
    A task of a file with something wrong is left out and `on_problem` told; without it, that is a TaskFileError.
    `scored`: models are to be scored on them, so it is also one if no example is left to hold out.
    """
    if limit is not None:
        limit = checked_int("limit", limit, 0)
    in_folder = path != STDIN and is_folder(path)
    tasks = open_set(path)[:limit] if in_folder else _load_file(path, limit, on_problem)
    examples = tasks.inputs.shape[1]
    if scored and examples < EXAMPLES:
        raise TaskFileError(
            f"{name_of(path)}: its tasks have {examples} examples each; to score models on them there must be "
            f"{EXAMPLES} or more, {GIVEN_EXAMPLES} to show and the rest to hold out"
        )
    return tasks


def _load_file(path: str | Path, limit: int | None, on_problem: Callable[[Problem], None] | None) -> TaskBatch:
    batches: list[TaskBatch] = []
    for batch in _good_tasks(path, on_problem):
        batches.append(batch)
        if limit is not None and sum(map(len, batches)) >= limit:
            break
    return concatenate(batches)[:limit]


def _good_tasks(
    path: str | Path, on_problem: Callable[[Problem], None] | None, progress: ReadingProgress | None = None
) -> Iterator[TaskBatch]:
    """As `read_tasks`, but if there is no good task in the file, that is a TaskFileError with the first problem."""
    first: list[Problem] = []

    def note(problem: Problem) -> None:
        if not first:
            first.append(problem)
        if on_problem is not None:
            on_problem(problem)

    batches = read_tasks(path, on_problem=on_problem and note, progress=progress)
    found = next(batches, None)
    if found is None:
        why = f"; the first problem: {first[0]}" if first else ""
        raise TaskFileError(f"{name_of(path)}: there is no good task in it{why}")
    yield found
    yield from batches


def import_msr(
    file: str | Path,
    folder: str | Path,
    *,
    shard_size: int = SHARD_SIZE,
    on_problem: Callable[[Problem], None] | None = None,
    progress: ReadingProgress | None = None,
) -> TaskSet:
    """Make a set of a file in the original format (`-`: standard input); memory is bounded by the size of a shard.

    Tasks with something wrong are left out and `on_problem` told; without it, the first is a TaskFileError. `novel`
    marks programs that no training set of ours holds. An interrupted import begins anew.
    """
    folder = Path(folder)
    shards = _in_shards(_good_tasks(file, on_problem, progress), shard_size)
    first = next(shards)  # before anything is written: the file may not be there, or be no file of tasks
    with locked_folder(folder):
        _clear_unfinished(folder)
        source = Imported(Path(name_of(file)).name)
        writer = SetWriter.begin(folder, Manifest(source, 0, first.inputs.shape[1], shard_size))
        writer.add(first)
        for tasks in shards:
            writer.add(tasks)
        writer.finish()
    return open_set(folder)


def _in_shards(batches: Iterator[TaskBatch], size: int) -> Iterator[TaskBatch]:
    """The same tasks, `size` at a time."""
    waiting: list[TaskBatch] = []
    for batch in batches:
        waiting.append(batch)
        while sum(map(len, waiting)) >= size:
            together = concatenate(waiting)
            yield together[:size]
            waiting = [together[size:]]
    if sum(map(len, waiting)):
        yield concatenate(waiting)


def _clear_unfinished(folder: Path) -> None:
    """Remove what an interrupted import has left."""
    if not (folder / FILE_NAME).exists():
        return
    manifest = read_manifest(folder)
    if manifest.complete or not isinstance(manifest.source, Imported):
        raise KarelsynthError(f"{folder}: holds a task set already; choose another folder")
    for path in (*folder.glob("shard-*.safetensors"), *folder.glob(".shard-*.tmp"), folder / FILE_NAME):
        path.unlink()


def export_msr(tasks: TaskSet | TaskBatch, file: str | Path, progress: Callable[[int], None] | None = None) -> None:
    """Write a set in the original format; see `write_tasks`."""
    write_tasks(tasks.batches() if isinstance(tasks, TaskSet) else [tasks], file, progress)
