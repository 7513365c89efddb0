"""Task sets: on disk, and from and to the original's files.

    write_named_set("val", "data/val")            # or write_set("data/own", seed=9, count=2_500)
    tasks = open_set("data/val")
    tasks[:64]                                    # a TaskBatch of memory-mapped arrays
    load_tasks("data/val")                        # also a JSON-lines file of the original format, or a set's name

`named` has the names. As in the original's parts, short programs recur across sets. The longer programs that are
reserved for testing (see `generate`) occur in sets for testing only, where `novel` marks them.

A set on disk is a folder of shards and a manifest. Every file is written under another name, synced and renamed, and
the manifest lists a shard only when it is complete. So the same command, run again after an interruption, resumes after
the last complete shard, and the folder gets the same bytes as without the interruption.

Damage never goes unnoticed. Opening a set checks the size and the header of every shard. This costs next to nothing and
finds shards that are missing, cut off, swapped or foreign. The first use of a shard compares its SHA-256 with the
manifest's. That reads pages that are about to be used anyway: some 0.05 s for a shard of 16,384 tasks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from karelsynth.cluster import Mapper
from karelsynth.errors import KarelsynthError, TaskFileError, checked_int
from karelsynth.files import STDIN, atomic_writer, exists, is_folder, locked_folder, name_of
from karelsynth.generator.sampler import MAX_TOKENS
from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.tasks.batch import EXAMPLES, GIVEN_EXAMPLES, TaskBatch, concatenate
from karelsynth.tasks.generate import checked_stream, generate
from karelsynth.tasks.manifest import (
    FILE_NAME,
    Generated,
    Imported,
    Manifest,
    Shard,
    ShardFile,
    read_manifest,
    shard_name,
)
from karelsynth.tasks.msr_tasks import read_batches, write_tasks
from karelsynth.tasks.named import NAMED_SETS, named_set, named_tasks
from karelsynth.tasks.original_files import recognise_original, unpacked
from karelsynth.tasks.purposeful.generator import PURPOSEFUL_TOKENS, generate_purposeful

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.tasks.msr_records import ReadingProgress, RecordProblem

SHARD_SIZE: Final = 16_384
"""Tasks in a shard: 65 MB."""
MOST_SHARDS: Final = 1_000_000
"""Of a generated set."""
_PART: Final = 4_096
"""Tasks of a shard that one piece of work on a cluster makes: 16 MB."""
_SUMMED_UP: Final = 16_384
"""The manifest has the statistics of the first tasks, at most this many."""
_COMPARED: Final = 16
"""Tasks that are generated again and compared before a set is continued."""
_NAME: Final = re.compile(r"\w[\w-]*")
"""What may be the name of a set; other texts are paths."""
Progress = Callable[[int], None]
"""Called with the number of tasks just done."""


class Scoring(NamedTuple):
    """How programs are scored on tasks."""

    given: int = GIVEN_EXAMPLES
    """How many examples a synthesizer sees."""
    max_ticks: int = PAPER_TICKS
    """The time that a program may take."""


def scoring_of(source: str | Path) -> Scoring:
    """How the tasks of a named set, written to a folder or not, are scored; others are scored in the usual way."""
    origin = _origin(source)
    name = origin.name if origin is not None else str(source) if is_named(source) else None
    found = NAMED_SETS.get(name or "")
    return Scoring() if found is None else Scoring(found.given, found.max_ticks)


def holds_purposeful_tasks(path: str | Path) -> bool:
    """Whether a path is the folder of a set of purposeful tasks."""
    origin = _origin(path)
    return origin is not None and origin.purposeful is True


def _origin(path: str | Path) -> Generated | None:
    """How the tasks of a set's folder were generated; None for an imported set, and for anything but a folder."""
    source = read_manifest(Path(path)).source if is_folder(path) else None
    return source if isinstance(source, Generated) else None


def is_named(source: str | Path) -> bool:
    """Whether a command's argument names a set. A file or folder of that name takes precedence."""
    return str(source) in NAMED_SETS and not exists(source)


def load_tasks(
    path: str | Path,
    *,
    limit: int | None = None,
    on_problem: Callable[[RecordProblem], None] | None = None,
    scored: bool = False,
) -> TaskBatch:
    """The tasks, or the first `limit`, of a set, as one batch.

    `path` is a set's folder, a file in the original format (`.gz` too; `-` is standard input), or the name of a set, if
    no file or folder is called so.
    A task of a file with a problem is left out and passed to `on_problem`; without it, the problem is raised as a
    TaskFileError. With `scored`, tasks without a held-out example are a TaskFileError, too.
    """
    if limit is not None:
        limit = checked_int("limit", limit, 0)
    if _NAME.fullmatch(str(path)) and not exists(path):
        try:
            tasks = named_tasks(str(path), limit)
        except KarelsynthError as error:
            raise TaskFileError(f"{path}: there is no such file, and {error}") from None
    elif path != STDIN and is_folder(path):
        tasks = open_set(path)[:limit]
    else:
        tasks = _load_file(path, limit, on_problem)
    examples = tasks.inputs.shape[1]
    if scored and examples < EXAMPLES:
        raise TaskFileError(
            f"{name_of(path)}: its tasks have {examples} examples each; to score models on them there must be "
            f"{EXAMPLES} or more, {GIVEN_EXAMPLES} to show and the rest to hold out"
        )
    return tasks


def _load_file(path: str | Path, limit: int | None, on_problem: Callable[[RecordProblem], None] | None) -> TaskBatch:
    batches: list[TaskBatch] = []
    for batch in read_batches(path, on_problem=on_problem):
        batches.append(batch)
        if limit is not None and sum(map(len, batches)) >= limit:
            break
    return concatenate(batches)[:limit]


def import_msr(
    file: str | Path,
    folder: str | Path,
    *,
    shard_size: int = SHARD_SIZE,
    on_problem: Callable[[RecordProblem], None] | None = None,
    progress: ReadingProgress | None = None,
) -> TaskSet:
    """Write a file in the original format (`-`: standard input) to a set; memory is bounded by the size of a shard.

    The file may be compressed, or a zip archive with one such file. One of the original's own is recognised by its
    checksum, and the manifest says so.
    Tasks with a problem are left out and passed to `on_problem`; without it, the first is raised as a TaskFileError.
    `novel` marks programs that are in no training set of ours. An interrupted import starts again. A finished one is
    compared with the file, and damaged shards are written again.
    """
    folder = Path(folder)
    with unpacked(file) as lines:
        shards = _in_shards(read_batches(lines, on_problem=on_problem, progress=progress), shard_size)
        first = next(shards)  # before anything is written: the file may be missing or have no tasks
        with locked_folder(folder):
            writer = _finished_import(folder)
            if writer is None:
                source = Imported(Path(name_of(file)).name, recognise_original(lines))
                writer = SetWriter.begin(folder, Manifest(source, 0, first.inputs.shape[1], shard_size))
            finished, count = writer.manifest.complete, 0
            for count, tasks in enumerate(chain([first], shards), 1):
                if finished and not writer.lists(count - 1, tasks):
                    raise _other_set(folder)
                if not writer.holds(count - 1):
                    writer.save(count - 1, tasks)
            if count < len(writer.manifest.shards):
                raise _other_set(folder)
            writer.finish()
    return open_set(folder)


def _finished_import(folder: Path) -> SetWriter | None:
    """The writer of the complete import in a folder, if there is one. Removes the files of an interrupted import."""
    if not exists(folder / FILE_NAME):
        return None
    manifest = read_manifest(folder)
    if not isinstance(manifest.source, Imported):
        raise _other_set(folder)
    if manifest.complete:
        return SetWriter(folder, manifest)
    for path in (*folder.glob("shard-*.safetensors"), *folder.glob(".shard-*.tmp"), folder / FILE_NAME):
        path.unlink()
    return None


def _other_set(folder: Path) -> KarelsynthError:
    return KarelsynthError(f"{folder}: holds another task set already; choose another folder")


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


def export_msr(
    tasks: TaskSet | TaskBatch,
    file: str | Path,
    progress: Callable[[int], None] | None = None,
    *,
    max_ticks: int = PAPER_TICKS,
) -> int:
    """Write a set in the original format; see `write_tasks`."""
    return write_tasks(tasks.batches() if isinstance(tasks, TaskSet) else [tasks], file, progress, max_ticks=max_ticks)


def write_set(
    folder: str | Path,
    *,
    seed: int,
    count: int,
    start: int = 0,
    examples: int = EXAMPLES,
    reserved: bool = False,
    purposeful: bool = False,
    shard_size: int = SHARD_SIZE,
    threads: int | None = None,
    progress: Progress | None = None,
    mapper: Mapper | None = None,
) -> TaskSet:
    """Generate tasks `start` … `start + count - 1` of a seed into a folder, or finish doing so.

    `purposeful` takes them from the stream of purposeful tasks. `mapper` generates ranges of tasks elsewhere
    (`karelsynth.cluster.Cluster.map`); the files are written here and are the same.

    Intact shards of the same set are kept, damaged ones are generated again. A folder with other contents is an error.
    """
    count, shard_size = checked_int("the count", count, 1), checked_int("the shard size", shard_size, 1)
    seed, start, count, examples = checked_stream(seed, start, count, examples)  # before anything is written
    source = Generated(seed, start, reserved, purposeful or None)
    width = PURPOSEFUL_TOKENS if purposeful else MAX_TOKENS
    return _write(folder, Manifest(source, count, examples, shard_size, width), threads, progress, mapper)


def write_named_set(
    name: str,
    folder: str | Path,
    *,
    shard_size: int = SHARD_SIZE,
    threads: int | None = None,
    progress: Progress | None = None,
    mapper: Mapper | None = None,
) -> TaskSet:
    """Write a named set to a folder, or finish doing so; see `write_set`."""
    named = named_set(name)
    source = Generated(named.seed, 0, named.reserved, name=None if named.is_plain else name)
    manifest = Manifest(source, named.count, named.examples, checked_int("the shard size", shard_size, 1), named.width)
    return _write(folder, manifest, threads, progress, mapper)


def _make(source: Generated, examples: int, threads: int | None, part: tuple[int, int]) -> TaskBatch:
    """A part of the set with this source, given by its first task's number in the set and the number of tasks."""
    first, count = part
    if source.name is not None:
        return named_set(source.name).tasks(first, count, threads)
    stream = generate_purposeful if source.purposeful else generate
    start = source.start + first
    return stream(source.seed, start, count, examples=examples, reserved=source.reserved, threads=threads)


def _write(
    folder: str | Path, manifest: Manifest, threads: int | None, progress: Progress | None, mapper: Mapper | None
) -> TaskSet:
    """Generate the set that a manifest describes, or finish it. A `mapper` gets smaller parts than shards."""
    assert isinstance(manifest.source, Generated)
    folder, shard_size = Path(folder), manifest.shard_size
    if manifest.shard_count > MOST_SHARDS:
        raise KarelsynthError(
            f"{manifest.count:,} tasks make {manifest.shard_count:,} shards, and a set has at most {MOST_SHARDS:,}: "
            "choose fewer tasks or a greater shard size"
        )
    make = partial(_make, manifest.source, manifest.examples, threads)
    with locked_folder(folder):
        writer = SetWriter.resume(folder, manifest)
        numbers = range(manifest.shard_count)
        kept = [number for number in numbers if writer.holds(number)]
        missing = sorted(set(numbers) - set(kept))
        if kept and missing:
            writer.compare(kept[-1], make((kept[-1] * shard_size, min(shard_size, _COMPARED))))
        if kept and progress is not None:
            progress(sum(manifest.shard_file(number).count for number in kept))
        part_size = shard_size if mapper is None else _PART
        parts = [_parts(number * shard_size, manifest.shard_file(number).count, part_size) for number in missing]
        made = (mapper or map)(make, chain.from_iterable(parts))
        with ThreadPoolExecutor(1) as background:  # one shard is written while the next is generated
            writing: Future[None] | None = None
            for number, own in zip(missing, parts, strict=True):
                tasks = concatenate([next(made) for _ in own])
                if writing is not None:
                    writing.result()
                writing = background.submit(writer.save, number, tasks)
                if progress is not None:
                    progress(len(tasks))
            if writing is not None:
                writing.result()
        writer.finish()
    return open_set(folder)


def _parts(first: int, count: int, size: int) -> list[tuple[int, int]]:
    """A range of tasks in parts of at most `size`: the first task and the number of each."""
    return [(at, min(size, first + count - at)) for at in range(first, first + count, size)]


def open_set(folder: str | Path, *, verify: bool = False) -> TaskSet:
    """Open a complete set; raises TaskFileError, with the name of the file, if something is wrong.

    `verify` compares all checksums now instead of at each shard's first use.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    if not manifest.complete:
        command = "generate" if isinstance(manifest.source, Generated) else "import-msr"
        raise TaskFileError(
            f"{folder}: not complete: `karelsynth {command}` was interrupted; run the same command again to finish it"
        )
    for number in range(manifest.shard_count):
        manifest.check_shard(folder, number)
    tasks = TaskSet(folder, manifest)
    if verify:
        tasks.verify()
    return tasks


class TaskSet:
    """A set of tasks, memory-mapped; `open_set` makes them."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._shards: dict[int, TaskBatch] = {}

    def __len__(self) -> int:
        return self.manifest.count

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> TaskBatch:
        """Some of the tasks: a slice without step, or any rows in any order.

        A slice within one shard is memory-mapped, without a copy; other rows are copied. `tasks[:]` is all of them.
        """
        if not isinstance(rows, slice):
            return self._gather(np.asarray(rows))
        first, last, step = rows.indices(len(self))
        if step != 1:
            return self._gather(np.arange(first, last, step))
        if last <= first:
            return self._shard(0)[:0]
        size = self.manifest.shard_size
        parts = [
            self._shard(number)[max(0, first - number * size) : last - number * size]
            for number in range(first // size, -(-last // size))
        ]
        return concatenate(parts)

    def _gather(self, rows: NDArray[np.integer]) -> TaskBatch:
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise TypeError(f"rows are integers [N], not {rows.dtype} {list(rows.shape)}")
        if len(rows) and not -len(self) <= rows.min() <= rows.max() < len(self):
            raise IndexError(f"rows go from 0 to {len(self) - 1}, not to {rows.min()} or {rows.max()}")
        shards, places = np.divmod(rows.astype(np.int64) % len(self), self.manifest.shard_size)
        like = self._shard(0)
        gathered = TaskBatch(*(np.empty((len(rows), *a.shape[1:]), a.dtype) for a in _arrays(like)))
        for number in np.unique(shards):
            here = shards == number
            for to, source in zip(_arrays(gathered), _arrays(self._shard(int(number))), strict=True):
                to[here] = source[places[here]]
        return gathered

    def batches(self, size: int = SHARD_SIZE) -> Iterator[TaskBatch]:
        """All tasks in order, `size` at a time (the last may be fewer)."""
        for first in range(0, len(self), size):
            yield self[first : first + size]

    def verify(self) -> None:
        """Compare the checksums of all shards that have not been used yet."""
        for number in range(self.manifest.shard_count):
            self._shard(number)

    def _shard(self, number: int) -> TaskBatch:
        """The tasks of a shard, checked on first use."""
        if number not in self._shards:
            self._shards[number] = self.manifest.read_shard(self.folder, number)
        return self._shards[number]

    def __reduce__(self) -> tuple[Any, ...]:  # a worker process maps the files itself
        return open_set, (self.folder,)

    def __repr__(self) -> str:
        return f"<TaskSet {self.folder}: {len(self):,} tasks of {self.manifest.examples} examples>"


class SetWriter:
    """Writes a set shard by shard, keeping the manifest up to date."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest

    @classmethod
    def begin(cls, folder: Path, manifest: Manifest) -> SetWriter:
        """A new set in an empty folder."""
        unfinished = f".{FILE_NAME}.tmp"  # of a process killed before it had written anything else
        others = sorted(path.name for path in folder.iterdir() if path.name != unfinished)
        if others:
            raise KarelsynthError(f"{folder}: not empty (it holds `{others[0]}`); choose a new or an empty folder")
        manifest.write(folder)
        return cls(folder, manifest)

    @classmethod
    def resume(cls, folder: Path, wanted: Manifest) -> SetWriter:
        """A new set, or an interrupted one with the same values."""
        if not (folder / FILE_NAME).exists():
            return cls.begin(folder, wanted)
        found = read_manifest(folder)
        old, new = found.settings, wanted.settings
        different = [
            f"{key} is {_worded(old.get(key))} there and {_worded(new.get(key))} now"
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
        ]
        if different:
            raise KarelsynthError(
                f"{folder}: holds another set: {'; '.join(different)}. "
                "Choose another folder, or repeat the old values to finish the set there"
            )
        return cls(folder, found)

    def holds(self, number: int) -> bool:
        """Whether a shard is there and intact."""
        try:
            return number < len(self.manifest.shards) and len(self.manifest.read_shard(self.folder, number)) > 0
        except TaskFileError:
            return False

    def compare(self, number: int, tasks: TaskBatch) -> None:
        """Raise KarelsynthError if the generator no longer makes the same tasks as when the set was begun."""
        written = self.manifest.read_shard(self.folder, number)[: len(tasks)]
        if not all(np.array_equal(a, b) for a, b in zip(_arrays(written), _arrays(tasks[: len(written)]), strict=True)):
            raise KarelsynthError(
                f"{self.folder}: cannot be continued: the generator has changed since, so new tasks would not match "
                "the old ones; finish it with the karelsynth version that began it, or choose a new folder"
            )

    def lists(self, number: int, tasks: TaskBatch) -> bool:
        """Whether these are the tasks that the manifest lists as shard `number`."""
        return self.manifest.shards[number : number + 1] == (self._contents(number, tasks)[0],)

    def save(self, number: int, tasks: TaskBatch) -> None:
        """Write a shard and list it in the manifest, or write a damaged one again."""
        shard, parts = self._contents(number, tasks)
        manifest = self.manifest
        if number < len(manifest.shards) and shard != manifest.shards[number]:
            raise TaskFileError(
                f"{self.folder / shard.file}: was damaged, and regenerating it gave other tasks than the manifest "
                "lists; the manifest was altered or comes from another generator: make the set in a new folder"
            )
        with atomic_writer(self.folder / shard.file) as file:
            file.writelines(parts)
        if number == len(manifest.shards):
            count = max(manifest.count, number * manifest.shard_size + len(tasks))  # an import's grows
            self.manifest = replace(manifest, count=count, shards=(*manifest.shards, shard))
            self.manifest.write(self.folder)

    def _contents(self, number: int, tasks: TaskBatch) -> tuple[Shard, list[memoryview]]:
        """The manifest's entry of a shard of these tasks, and the content of its file."""
        examples, width = tasks.inputs.shape[1], tasks.tokens.shape[1]
        layout = ShardFile(len(tasks), examples, width, self.manifest.shard_metadata(number))
        parts, checksum = layout.parts(tasks), hashlib.sha256()
        for part in parts:
            checksum.update(part)
        shard = Shard(shard_name(number), len(tasks), layout.size, checksum.hexdigest(), int(tasks.novel.sum()))
        return shard, parts

    def finish(self) -> None:
        """Add the statistics and mark the set complete, so that it can be opened."""
        if not self.manifest.complete:
            written = TaskSet(self.folder, self.manifest)
            self.manifest = replace(self.manifest, complete=True, statistics=_summary(written[:_SUMMED_UP]))
            self.manifest.write(self.folder)


def _summary(tasks: TaskBatch) -> dict[str, Any]:
    """The statistics of some tasks, for the manifest; rounded, since the last digits may differ between machines."""
    from karelsynth.tasks.statistics import compute

    statistics = compute(tasks)
    groups = {
        group: {name: round(value, 4) if np.isfinite(value) else None for name, value in figures.items()}
        for group, figures in statistics.groups.items()
    }
    return {"tasks": statistics.tasks, "groups": groups}


def _arrays(tasks: TaskBatch) -> list[NDArray[Any]]:
    return [getattr(tasks, field.name) for field in fields(tasks)]


def _worded(value: Any) -> str:
    if value is None:
        return "not given"
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
