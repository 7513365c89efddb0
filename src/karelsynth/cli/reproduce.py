"""The command that makes the paper's tables: reproduce."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karelsynth.cli.show import chosen_device, console, error_console
from karelsynth.errors import KarelsynthError, listed
from karelsynth.reproduce.rows import TABLES, jobs_of

if TYPE_CHECKING:
    from karelsynth.reproduce.running import Outcome
    from karelsynth.train.loop import Progress

_TELL_EVERY = 20.0
"""Seconds between two lines about a run."""
_RESULTS = Path("results/reproduce")


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(reproduce)


def reproduce(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="objectives, ranks, syntax, validity, masks, aliasing or all."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ROW", help="Only this row, by its recipe's name; may be repeated.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="0,1,2", help="Other seeds than 0 (full set) and 0,1,2 (small set).")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Save what is under way and stop after so many minutes of training.")
    ] = None,
    render: Annotated[
        bool, typer.Option("--render", help="Write docs/results.md, its pictures and the README's table.")
    ] = False,
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Where models are trained.")] = Path("runs/reproduce"),
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where results are.")] = _RESULTS,
    recipes: Annotated[Path, typer.Option(metavar="DIR", help="Where the rows' recipes are.")] = Path("recipes"),
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep models that RL rows start from here, small, and start from those."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Other test tasks: a set or a file in the original's format.")
    ] = None,
    train: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Other training tasks: a set or a file, as for --data.")
    ] = None,
    commit: Annotated[
        str | None, typer.Option(help="The source tree's commit, for results made where git cannot tell.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; by default a GPU if there is one.")] = None,
) -> None:
    """Make a table or figure of the paper: train and score every row that has no result yet, then show the table.

    Give the command again to go on where it stopped. With --render and no TABLE nothing is trained.
    The exit status is 1 if the training of a row diverged, and 0 if rows are left because time was up.
    """
    if table is None and not render:
        raise KarelsynthError(f"say which table: {listed(TABLES)}; or --render")
    if (data or train) and results == _RESULTS:
        raise KarelsynthError(
            f"{_RESULTS} is for our own tasks: with --data or --train, give another folder with --results"
        )
    from karelsynth.reproduce.page import README, has_place, load_recipes, table_text
    from karelsynth.reproduce.page import render as write_pages
    from karelsynth.reproduce.results import read_results

    root = Path()
    if render and not has_place(root):
        raise KarelsynthError(
            f"{root.resolve()}: not the repository's folder (no {README} there has a place for the table), whose pages "
            "--render writes; call this there"
        )
    diverged = False
    if table is not None:
        from karelsynth.reproduce.running import Places, Runner

        jobs = jobs_of(table, only=only or (), seeds=None if seeds is None else _numbers(seeds))
        where = chosen_device(device)
        places = Places(recipes, runs, results, keep, data, train)
        runner = Runner(places, device=where, commit=commit, say=_say, observe=_Teller())
        try:
            outcome = runner.run(jobs, minutes=minutes)
        except KeyboardInterrupt:
            _say("stopped; the same command goes on from the last checkpoint")
            raise typer.Exit(130) from None
        text = table_text(table, read_results(results), load_recipes(recipes, train))
        console().print(text, markup=False, soft_wrap=True)
        _say(_summary(outcome, len(jobs)))
        diverged = bool(outcome.diverged)
    if render:
        written = write_pages(results, load_recipes(recipes, train), root)
        console().print(f"wrote {', '.join(map(str, written))}", markup=False, soft_wrap=True)
    if diverged:
        raise typer.Exit(1)


def _summary(outcome: Outcome, jobs: int) -> str:
    left = ", ".join(job.name for job in outcome.left)
    diverged = ", ".join(job.name for job in outcome.diverged)
    before = jobs - sum(map(len, (outcome.done, outcome.left, outcome.diverged)))
    told = f"{len(outcome.done)} measured now, {before} before; "
    told += f"diverged: {diverged}; " * bool(diverged)
    return told + (f"left, as time was up: {left}" if left else "left: nothing")


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise KarelsynthError(f"--seeds {text}: write whole numbers from 0 with commas between them, such as 0,1,2")
    return numbers


class _Teller:
    """Says now and then how training goes: lines, not a bar, for these commands mostly run unattended."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _TELL_EVERY
            told = progress.metrics
            reward = f", reward {told['reward']:.3f}" if "reward" in told else ""
            speed = f"{progress.tasks_per_second:,.0f} tasks/s"
            _say(f"  step {progress.step:,} of {progress.steps:,}, {speed}, loss {told['loss']:.4f}{reward}")


def _say(line: str) -> None:
    error_console().print(line, markup=False, soft_wrap=True)
