"""The commands about tasks: generate, stats, import-msr, download-val, export-msr."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from karelsynth.cli.common import (
    OUT,
    TASKS_HELP,
    RayAddress,
    check_outputs,
    console,
    counter,
    error_console,
    interruptible,
    print_err,
    print_out,
    spread,
    write_text,
)
from karelsynth.errors import KarelsynthError
from karelsynth.files import STDIN, exists, is_file, make_folder, name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karelsynth.tasks.batch import TaskBatch
    from karelsynth.tasks.msr_records import RecordProblem
    from karelsynth.tasks.sets import TaskSet
    from karelsynth.tasks.statistics import FigureComparison

STATS_LIMIT: Final = 100_000
"""The default number of tasks of a file or set that `stats` reads."""
_SHOWN_PROBLEMS: Final = 20
_MEGABYTE: Final = 1_000_000
_ENOUGH: Final = 10_000
"""With fewer tasks, the sampling error of some figures exceeds the tolerance."""
Folder = Annotated[Path, typer.Option(*OUT, metavar="DIR", help="The folder to write: a new or an empty one.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Exit with 0 even if records were bad and left out.")]
Threads = Annotated[int | None, typer.Option(min=1, help="How many threads; by default one for each core.")]


def _list_sets(wanted: bool) -> None:
    if wanted:
        from karelsynth.tasks.named import NAMED_SETS

        rows = [(name, f"{made.count:,}", made.digest, made.about) for name, made in NAMED_SETS.items()]
        name, count, _, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
        write_text("\n".join(f"{row[0]:{name}}  {row[1]:>{count}}  {row[2]}  {row[3]}" for row in rows), None)
        raise typer.Exit


def generate(
    out: Folder,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A set by name, such as small, val or test; --list has all.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="How many tasks.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed: the same one gives the same tasks.")] = None,
    start: Annotated[int | None, typer.Option(min=0, help="The index of the seed's first task to make.")] = None,
    examples: Annotated[int | None, typer.Option(help="Examples per task, 2 to 20; the first five are given.")] = None,
    reserved: Annotated[
        bool,
        typer.Option(
            "--reserved", help="Also use programs that are reserved for testing: for validation, not for training."
        ),
    ] = False,
    purposeful: Annotated[
        bool,
        typer.Option("--purposeful", help="Make purposeful tasks: programs and worlds like those that people pose."),
    ] = False,
    shard_size: Annotated[int | None, typer.Option(min=1, max=1_000_000, help="Tasks per file.")] = None,
    threads: Threads = None,
    ray: RayAddress = None,
    list_sets: Annotated[
        bool,
        typer.Option("--list", help="List the named sets and exit.", callback=_list_sets, is_eager=True),
    ] = False,
) -> None:
    """Make tasks like the original data's, or purposeful ones: a named set, or --count tasks of a --seed.

    If stopped or killed, run the same command again: it resumes and ends with the same files, byte for byte.
    """
    from karelsynth.tasks.named import named_set
    from karelsynth.tasks.sets import write_named_set, write_set

    given = {"count": count, "seed": seed, "start": start, "examples": examples, "shard_size": shard_size}
    chosen: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
    if name is not None:
        fixed = [option for option in chosen if option != "shard_size"]
        fixed += ["reserved"] * reserved + ["purposeful"] * purposeful
        if fixed:
            raise KarelsynthError(f"`{name}` is a predefined set: drop NAME or --{fixed[0]}")
    elif count is None or seed is None:
        raise KarelsynthError("say which tasks to make: a NAME (--list has them), or --count and --seed")
    total = chosen["count"] if name is None else named_set(name).count
    stopped = f"stopped; complete files in {out} are kept. Run the same command again to resume from there."
    with (
        interruptible(stopped),
        spread(ray) as mapper,
        counter("generating", unit="tasks", total=total) as progress,
    ):
        more: dict[str, Any] = {**chosen, "threads": threads, "progress": progress, "mapper": mapper}
        if name is None:
            written = write_set(out, **more, reserved=reserved, purposeful=purposeful)
        else:
            written = write_named_set(name, out, **more)
    _print_set(written)


def import_msr(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Tasks in the original's JSON lines, .gz and .zip too; - for standard input."
        ),
    ],
    out: Folder,
    skip_bad: SkipBad = False,
) -> None:
    """Make a task set from a file of the original data; every example is checked by running its program.

    Bad records are reported by line and left out. The exit status is then 1, unless --skip-bad is given. The original's
    validation set is recognised by its checksum.
    """
    _import(file, out, skip_bad)


def download_val(
    out: Folder,
    skip_bad: SkipBad = False,
) -> None:
    """Download the original's validation set, check it, and make a task set of it.

    It is on the Hugging Face hub and needs the extra `hub`. The revision is fixed; the checksums of the archive and of
    the file in it are compared.
    """
    from karelsynth.tasks.original_files import download_original

    if exists(out):  # what is wrong with it is said before the download
        make_folder(out)
    _import(str(download_original("val")), out, skip_bad)


def _import(file: str, out: Path, skip_bad: bool) -> None:
    """Import a file, with progress and all problems printed, and exit."""
    from karelsynth.tasks.manifest import Imported
    from karelsynth.tasks.original_files import ORIGINALS
    from karelsynth.tasks.sets import import_msr as run_import

    reporter = _Reporter(file)
    total = max(1, Path(file).stat().st_size // _MEGABYTE) if file != STDIN and is_file(file) else None
    with counter("importing", unit="MB", total=None if file.endswith(".zip") else total) as progress:
        rest = 0

        def read(more: int) -> None:
            nonlocal rest
            megabytes, rest = divmod(rest + more, _MEGABYTE)
            if megabytes:
                progress(megabytes)

        written = run_import(file, out, on_problem=reporter, progress=read)
    reporter.print_summary()
    source = written.manifest.source
    if isinstance(source, Imported) and source.original is not None:
        known = ORIGINALS[source.original]
        print_out(f"this is the original's `{source.original}`, {known.tasks:,} tasks: its checksum is right", "green")
    _print_set(written)
    raise typer.Exit(1 if reporter.lines and not skip_bad else 0)


def export_msr(
    task_set: Annotated[str, typer.Argument(metavar="SET", help="The folder of a task set, or the name of a set.")],
    out: Annotated[Path, typer.Option(*OUT, metavar="FILE", help="The file to write: .jsonl or .jsonl.gz.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Write only the first N tasks.")] = None,
) -> None:
    """Write a task set in the original's format: JSON lines, compressed if the name ends in .gz."""
    from karelsynth.karel.interpreter import PAPER_TICKS
    from karelsynth.tasks.named import named_set, named_tasks
    from karelsynth.tasks.sets import export_msr as run_export
    from karelsynth.tasks.sets import is_named, open_set, scoring_of

    tasks: TaskSet | TaskBatch
    if is_named(task_set):
        tasks = named_tasks(task_set, limit)
    else:
        if not exists(task_set) and Path(task_set).name == task_set:
            try:
                named_set(task_set)
            except KarelsynthError as error:
                raise KarelsynthError(f"{task_set}: there is no such folder, and {error}") from None
        tasks = open_set(task_set) if limit is None else open_set(task_set)[:limit]
    with counter("exporting", unit="tasks", total=len(tasks)) as progress:
        slow = run_export(tasks, out, progress, max_ticks=scoring_of(task_set).max_ticks)
    print_err(f"{out}: {len(tasks):,} tasks")  # not to standard output, which may be the file
    if slow:
        print_err(
            f"{slow} of them need more ticks than the original allows ({PAPER_TICKS}): `verify` and `import-msr` "
            "refuse these",
            "yellow",
        )


def stats(
    tasks: Annotated[str | None, typer.Argument(metavar="TASKS", help=TASKS_HELP)] = None,
    fresh: Annotated[
        int | None, typer.Option("--generate", min=1, max=1_000_000, help="Make this many fresh tasks instead.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The seed of fresh tasks; 1 if not given.")] = None,
    purposeful: Annotated[bool, typer.Option("--purposeful", help="With --generate: make purposeful tasks.")] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Use only the first N of TASKS; 100,000 if not given.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the figures: .svg or .png.")] = None,
    as_json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Save the figures as JSON.")] = None,
) -> None:
    """Compare the statistics of tasks with those of the original data.

    Purposeful tasks are of another kind: the original's figures stand beside theirs without a verdict.
    """
    from karelsynth.tasks.generate import generate as generate_tasks
    from karelsynth.tasks.purposeful.generator import generate_purposeful
    from karelsynth.tasks.sets import holds_purposeful_tasks
    from karelsynth.tasks.statistics import compare, compute

    if (tasks is None) == (fresh is None):
        raise KarelsynthError("say which tasks to use: either TASKS or --generate")
    if tasks is not None and seed is not None:
        raise KarelsynthError("--seed applies only to --generate: use that instead of TASKS, or drop --seed")
    if tasks is not None and purposeful:
        raise KarelsynthError("--purposeful applies only to --generate: a set knows which tasks it holds")
    if fresh is not None and limit is not None:
        raise KarelsynthError("--limit applies only to TASKS: --generate already says how many tasks to make")
    if plot is not None and plot.suffix.lower() not in (".svg", ".png"):  # before the work, not after it
        raise KarelsynthError(f"cannot save a picture as {plot}: the name must end in `.svg` or `.png`")
    check_outputs(plot, as_json)
    with error_console().status("computing statistics"):
        if tasks is not None:
            batch = _load(tasks, limit or STATS_LIMIT)
            purposeful = holds_purposeful_tasks(tasks)
        else:
            stream = generate_purposeful if purposeful else generate_tasks
            batch = stream(1 if seed is None else seed, 0, fresh or 0)
        statistics = compute(batch)
    rows = compare(statistics, judge=not purposeful)
    if plot is not None:
        from karelsynth.tasks.statistics import save_plot

        save_plot(rows, statistics.tasks, plot)
    if as_json is not None:
        write_text(json.dumps(_statistics_json(rows, statistics.tasks), indent=1), as_json)
    console().print(_table(rows))
    if purposeful:
        console().print(f"{statistics.tasks:,} purposeful tasks, beside the original's random ones")
        return
    judged = [row for row in rows if row.allowed is not None]
    near = sum(row.within for row in judged)
    console().print(f"{statistics.tasks:,} tasks: {near} of {len(judged)} figures near enough to the original's")
    if statistics.tasks < _ENOUGH and near < len(judged):
        console().print(f"(with fewer than {_ENOUGH:,} tasks, figures may be off by sampling error alone)", style="dim")


def _load(path: str, limit: int) -> TaskBatch:
    """The first tasks of a set or a file, at most `limit`; problems of a file are printed."""
    from karelsynth.tasks.sets import load_tasks

    reporter = _Reporter(path)
    batch = load_tasks(path, limit=limit, on_problem=reporter)
    reporter.print_summary()
    return batch


class _Reporter:
    """Prints the first problems of a file and counts all of them."""

    def __init__(self, file: str) -> None:
        self.file = name_of(file)
        self.lines: set[int] = set()
        self.problems = 0

    def __call__(self, problem: RecordProblem) -> None:
        self.lines.add(problem.line)
        self.problems += 1
        if self.problems <= _SHOWN_PROBLEMS:
            print_err(f"{self.file}, {problem}", "red")

    def print_summary(self) -> None:
        if self.problems > _SHOWN_PROBLEMS:
            print_err(f"… and {self.problems - _SHOWN_PROBLEMS:,} more problems", "red")
        if self.lines:
            records = "record" if len(self.lines) == 1 else "records"
            print_err(f"{len(self.lines):,} bad {records} left out", "red")


def _print_set(tasks: TaskSet) -> None:
    manifest = tasks.manifest
    size = sum(shard.bytes for shard in manifest.shards) / _MEGABYTE
    shards = f"{len(manifest.shards)} shard{'s' * (len(manifest.shards) != 1)}"
    print_out(
        f"{tasks.folder}: {len(tasks):,} tasks of {manifest.examples} examples, {manifest.novel:,} of them with "
        f"programs reserved for testing; {shards}, {size:,.1f} MB"
    )


def _table(rows: Sequence[FigureComparison]) -> Any:
    """The figures by group; those outside the tolerance are marked."""
    from rich.table import Table

    from karelsynth.karel.draw.terminal import supports_unicode

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("figure", "", "here", "original", "distance", ""):
        table.add_column(heading, justify="left" if heading in ("figure", "") else "right", no_wrap=True)
    group, pointer = None, "◄" if supports_unicode(console().encoding) else "<"
    for row in rows:
        digits = 3 if row.original <= 1 and (row.allowed or 0) < 1 else 2
        table.add_row(
            row.group if row.group != group else "",
            row.name,
            f"{row.value:.{digits}f}",
            f"{row.original:.{digits}f}",
            f"{row.distance:.{digits}f}",
            "" if row.within else f"{pointer} > {row.allowed:g}",
            style=None if row.within else "red",
        )
        group = row.group
    return table


def _statistics_json(rows: Sequence[FigureComparison], tasks: int) -> dict[str, Any]:
    figures = [
        {
            "group": row.group,
            "name": row.name,
            "value": round(row.value, 6),
            "original": row.original,
            "distance": round(row.distance, 6),
            "allowed": row.allowed,
            "within": row.within,
        }
        for row in rows
    ]
    return {"tasks": tasks, "figures": figures}
