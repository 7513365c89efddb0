"""The command that makes the paper's tables: reproduce."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karelsynth.cli.common import choose_device, console, error_console
from karelsynth.errors import KarelsynthError, listed
from karelsynth.reproduce.rows import TABLES, Job, jobs_of

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from karelsynth.reproduce.processes import Event
    from karelsynth.reproduce.running import Paths, RunSummary
    from karelsynth.train.loop import TrainingProgress

_TELL_EVERY = 20.0
"""Seconds between two lines about a run."""
_RESULTS = Path("results/reproduce")


def reproduce(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help=f"One of: {', '.join(TABLES)}."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ROW", help="Only this row, by its recipe's name; may be repeated.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="0,1,2", help="Seeds to use instead of 0 (full set) and 0,1,2 (small set).")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="Save and stop after this many minutes; in the last one no row is begun."),
    ] = None,
    at_once: Annotated[
        int, typer.Option(min=1, max=64, help="How many rows to train at a time, each in its own process.")
    ] = 1,
    render: Annotated[bool, typer.Option("--render", help="Write docs/results.md and its pictures.")] = False,
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Where models are trained.")] = Path("runs/reproduce"),
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where results are.")] = _RESULTS,
    recipes: Annotated[Path, typer.Option(metavar="DIR", help="Where the rows' recipes are.")] = Path("recipes"),
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where to keep the models that RL rows start from (in bfloat16); no others are used."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Other test tasks: a set or a file in the original's format.")
    ] = None,
    train: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Other training tasks: a set or a file, as for --data.")
    ] = None,
    val: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Other tasks to choose models on: a set or a file, as for --data."),
    ] = None,
    commit: Annotated[
        str | None, typer.Option(help="The commit to record in results, where git is not available.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; by default a GPU if there is one.")] = None,
) -> None:
    """Make a table or figure of the paper: train and score every row that has no result yet, then show the table.

    Run the command again to resume where it stopped. With --render and no TABLE nothing is trained.
    The exit status is 1 if the training of a row diverged or failed, and 0 if time merely ran out.
    """
    if table is None and not render:
        raise KarelsynthError(f"say which table: {listed(TABLES)}; or --render")
    if (data or train or val) and results == _RESULTS:
        raise KarelsynthError(
            f"{_RESULTS} is for our own tasks: with --data, --train or --val, give another folder with --results"
        )
    from karelsynth.reproduce.page import PAGE, load_recipes, table_text
    from karelsynth.reproduce.page import render as write_pages
    from karelsynth.reproduce.results import read_results

    root = Path()
    if render and not (root / PAGE).is_file():
        raise KarelsynthError(f"{root.resolve()}: --render must run in the repository's root (there is no {PAGE} here)")
    wrong = False
    if table is not None:
        from karelsynth.reproduce.running import Paths

        jobs = jobs_of(table, only=only or (), seeds=None if seeds is None else _numbers(seeds))
        places = Paths(recipes, runs, results, keep, data, train, val)
        try:
            outcome = _measure(places, jobs, at_once, minutes, commit, device)
        except KeyboardInterrupt:
            _say("stopped; the same command resumes from the last checkpoint")
            raise typer.Exit(130) from None
        text = table_text(table, read_results(results), load_recipes(recipes, train, val))
        console().print(text, soft_wrap=True)
        _say(_summary(outcome, len(jobs)))
        wrong = bool(outcome.diverged or outcome.failed)
    if render:
        written = write_pages(results, load_recipes(recipes, train, val), root)
        console().print(f"wrote {', '.join(map(str, written))}", soft_wrap=True)
    if wrong:
        raise typer.Exit(1)


def _measure(
    places: Paths, jobs: list[Job], at_once: int, minutes: float | None, commit: str | None, device: str | None
) -> RunSummary:
    from karelsynth.reproduce.running import Runner
    from karelsynth.reproduce.side_by_side import SideBySide

    where = choose_device(device)
    if at_once == 1:
        return Runner(places, device=where, commit=commit, say=_say, on_progress=_Teller()).run(jobs, minutes=minutes)
    with _Board() as board:
        several = SideBySide(places, at_once, device=where, commit=commit, say=_say, on_progress=board)
        return several.run(jobs, minutes=minutes)


def _summary(outcome: RunSummary, jobs: int) -> str:
    left, diverged, failed = (
        ", ".join(job.name for job in some) for some in (outcome.left, outcome.diverged, outcome.failed)
    )
    before = jobs - sum(map(len, (outcome.done, outcome.left, outcome.diverged, outcome.failed)))
    told = f"{len(outcome.done)} measured now, {before} before; "
    told += f"diverged: {diverged}; " * bool(diverged) + f"failed: {failed}; " * bool(failed)
    if before == jobs:
        return f"all {jobs} were measured before; give another folder with --results to measure them again"
    return told + (f"left: {left}; run the same command again to continue" if left else "left: nothing")


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise KarelsynthError(f"--seeds {text}: write whole numbers from 0 with commas between them, such as 0,1,2")
    return numbers


class _Teller:
    """Says now and then how a run goes: lines, not a bar, for these commands mostly run unattended."""

    def __init__(self, name: str = " ", *, aloud: bool = True) -> None:
        self._name, self._aloud, self._next = name, aloud, 0.0
        self._first = (0.0, 0)
        self._told = "starting"

    @property
    def line(self) -> str:
        """The latest."""
        return f"{self._name} {self._told}"

    def __call__(self, progress: TrainingProgress) -> None:
        told = progress.metrics
        reward = f", reward {told['reward']:.3f}" if "reward" in told else ""
        speed = f"{progress.tasks_per_second:,.0f} tasks/s"
        step = f"step {progress.step:,} of {progress.steps:,}"
        self._told = f"{step}, {speed}, {self._left(progress)}loss {told['loss']:.4f}{reward}"
        if self._aloud and time.monotonic() >= self._next:
            self._next = time.monotonic() + _TELL_EVERY
            _say(self.line)

    def _left(self, progress: TrainingProgress) -> str:
        """The time left by the pace so far, validations included; nothing as long as there is no pace."""
        now = time.monotonic()
        since, step = self._first
        if not since or progress.step <= step:  # the first of a run
            self._first = (now, progress.step)
            return ""
        seconds = (now - since) / (progress.step - step) * (progress.steps - progress.step)
        return f"{timedelta(seconds=round(seconds))} left, "


class _Board:
    """How runs side by side go: on a terminal a line for each, always the latest; elsewhere a line now and then."""

    def __init__(self) -> None:
        self._runs: dict[Job, _Teller] = {}
        self._live: Live | None = None

    def __enter__(self) -> _Board:
        if error_console().is_terminal:
            from rich.live import Live

            self._live = Live(get_renderable=self._drawn, console=error_console(), transient=True)
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, job: Job, event: Event) -> None:
        from karelsynth.reproduce.processes import Began, Ended

        if isinstance(event, Began):
            self._runs[job] = _Teller(f"{job.name}:", aloud=self._live is None)
        elif isinstance(event, Ended):
            self._runs.pop(job, None)  # it may have ended before it began
        else:
            self._runs[job](event)

    def _drawn(self) -> Text:
        from rich.text import Text

        lines = [run.line for run in list(self._runs.values())]  # a copy: this is called from a thread of its own
        return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")


def _say(line: str) -> None:
    error_console().print(line, soft_wrap=True)
