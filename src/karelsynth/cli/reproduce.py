"""The commands that measure models for the docs: reproduce, with pack-weights and unpack-weights, and curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karelsynth.cli.common import (
    OUT,
    Device,
    RayAddress,
    check_outputs,
    choose_device,
    console,
    counter,
    interruptible,
    loading,
    print_err,
    print_out,
    spread,
    write_text,
)
from karelsynth.errors import KarelsynthError, listed
from karelsynth.files import make_folder
from karelsynth.reproduce.rows import BUDGETS, LONG, SHORT, TABLES, Job, budget_named, jobs_of

if TYPE_CHECKING:
    import torch

    from karelsynth.curves import Curves, Key
    from karelsynth.model.synthesizer import Synthesizer
    from karelsynth.reproduce.running import HowEnded, Paths


def reproduce(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help=f"One of: {', '.join(TABLES)}."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ROW", help="Only this row, by its recipe's name; may be repeated.")
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="0,1,2",
            help="Seeds to use; by default 0 (full set) and 0,1,2 (small set); for the long budget 0 to 4 and 0 to 7.",
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option(help=f"How long to train: {listed(BUDGETS)}. Each has runs and results of its own.")
    ] = SHORT.name,
    claim_tasks: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=100_000,
            help="Also score models on this many tasks of `test_large`, to decide claims on; by default 100000 for the "
            "long budget and 0 for the short one.",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="Save and stop after this many minutes; no row is begun in the last minute."),
    ] = None,
    at_once: Annotated[
        int, typer.Option(min=1, max=64, help="How many rows to train at a time, each in its own process.")
    ] = 1,
    render: Annotated[bool, typer.Option("--render", help="Write docs/results.md and its pictures.")] = False,
    runs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where models are trained; by default runs/reproduce, or runs/reproduce-long for the long budget.",
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where results are; by default results/reproduce, or results/reproduce-long for the long budget.",
        ),
    ] = None,
    recipes: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the rows' recipes are; the package's if not given.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep the models that RL rows start from here, in bfloat16; RL rows then start from these only.",
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
    device: Device = None,
) -> None:
    """Make a table or figure of the paper: train and score every row that has no result yet, then show the table.

    Run the command again to resume where it stopped. With --render and no TABLE nothing is trained.
    The exit status is 1 if the training of a row diverged or failed, and 0 if time merely ran out.
    """
    if table is None and not render:
        raise KarelsynthError(f"say which table: {listed(TABLES)}; or --render")
    chosen = budget_named(budget)
    results, runs = results or chosen.results, runs or chosen.runs
    if (data or train or val) and results == chosen.results:
        raise KarelsynthError(
            f"{results} is for our own tasks: with --data, --train or --val, give another folder with --results"
        )
    from karelsynth.reproduce.page import PAGE, load_recipes, table_text
    from karelsynth.reproduce.page import render as write_pages
    from karelsynth.reproduce.results import read_results
    from karelsynth.train.recipe import RECIPES

    root, recipes = Path(), recipes or RECIPES
    if render and not (root / PAGE).is_file():
        raise KarelsynthError(f"{root.resolve()}: --render must run in the repository's root (there is no {PAGE} here)")
    ended: dict[Job, HowEnded] = {}
    if table is not None:
        from karelsynth.reproduce.running import Paths

        make_folder(results)
        jobs = jobs_of(table, only=only or (), seeds=None if seeds is None else _seeds(seeds), by_set=chosen.seeds)
        if claim_tasks is None and data is None:
            claim_tasks = chosen.claim_tasks
        paths = Paths(recipes, runs, results, keep, data, train, val, chosen, claim_tasks or None)
        with interruptible("stopped; the same command resumes from the last checkpoint"):
            ended = _measure(paths, jobs, at_once, minutes, commit, device)
        print_out(table_text(table, read_results(results), load_recipes(recipes, train, val, chosen)))
        print_err(_summary(ended, len(jobs)))
    if render:
        short = SHORT.results if chosen == LONG else results
        long = results if chosen == LONG else LONG.results if results == SHORT.results else None
        longer = None if long is None else (long, load_recipes(recipes, train, val, LONG))
        written = write_pages(short, load_recipes(recipes, train, val), root, longer)
        print_out(f"wrote {', '.join(map(str, written))}")
    if not {"diverged", "failed"}.isdisjoint(ended.values()):
        raise typer.Exit(1)


def pack_weights(
    models: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER…", help="Folders of finished runs, of kept models or of any models."),
    ],
    out: Annotated[Path, typer.Option(*OUT, metavar="FILE", help="The archive, such as weights.zip.")],
    part_mb: Annotated[
        float | None, typer.Option(min=0.001, help="Split it into files of at most this many megabytes.")
    ] = None,
) -> None:
    """Put the weights of models, in bfloat16, into one small archive.

    The same models always give the same archive. unpack-weights checks it and restores the folders.
    """
    from karelsynth.reproduce.archive import pack_weights as pack

    size = pack(models, out, None if part_mb is None else int(1e6 * part_mb))
    print_out(f"packed {len(models)} into {out}: {size / 1e6:.1f} MB")


def unpack_weights(
    archive: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="An archive of pack-weights, whole or in parts.")],
    out: Annotated[
        Path | None,
        typer.Option(*OUT, metavar="DIR", help="Where to make a folder for each model; without it, only check."),
    ] = None,
) -> None:
    """Check an archive of weights, and restore its models.

    `karelsynth evaluate DIR/NAME test` scores one; `karelsynth reproduce … --keep DIR` starts RL rows from them.
    """
    from karelsynth.reproduce.archive import check_weights
    from karelsynth.reproduce.archive import unpack_weights as unpack

    names = check_weights(archive) if out is None else [str(folder) for folder in unpack(archive, out)]
    said = "intact" if out is None else "restored"
    print_out(f"{said}: {', '.join(names)}")


def _measure(
    paths: Paths, jobs: list[Job], at_once: int, minutes: float | None, commit: str | None, device: str | None
) -> dict[Job, HowEnded]:
    from karelsynth.reproduce.parallel import run_in_parallel
    from karelsynth.reproduce.running import ProgressLines, Runner

    chosen = choose_device(device)
    if at_once > 1:
        return run_in_parallel(paths, jobs, at_once, device=chosen, minutes=minutes, commit=commit, log=print_err)
    runner = Runner(paths, device=chosen, commit=commit, log=print_err, on_progress=ProgressLines(" ", print_err))
    return runner.run(jobs, minutes=minutes)


def _summary(ended: dict[Job, HowEnded], jobs: int) -> str:
    if not ended:
        return f"all {jobs} were measured before; give another folder with --results to measure them again"
    names = {how: ", ".join(job.name for job in ended if ended[job] == how) for how in ended.values()}
    wrong = "".join(f"{how}: {names[how]}; " for how in ("diverged", "failed") if how in names)
    left = f"{names['left']}; run the same command again to continue" if "left" in names else "nothing"
    done = list(ended.values()).count("done")
    return f"{done} measured now, {jobs - len(ended)} before; {wrong}left: {left}"


def _seeds(text: str) -> list[int]:
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError:
        seeds = []
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise KarelsynthError(f"--seeds {text}: write whole numbers from 0 with commas between them, such as 0,1,2")
    return seeds


def curves(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="A folder with a trained model; `shipped`, the package's, if not given."),
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, max=2500, help="Tasks per point.")] = 500,
    beam: Annotated[int, typer.Option(min=1, help="Beam width.")] = 64,
    solve: Annotated[
        float | None, typer.Option(min=0.01, metavar="SECONDS", help="Also measure `solve` with this time per task.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FAMILY", help="Only one of examples, size, walls, markers, length, controls; may be repeated."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Save the figures here after every point; resumes from this file."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw the curves.")] = None,
    render: Annotated[
        bool, typer.Option("--render", help="Only write docs/limits.md and its picture, from results/curves.json.")
    ] = False,
    device: Device = None,
    ray: RayAddress = None,
) -> None:
    """Score a model out of distribution: fewer examples, other worlds, longer programs.

    Every point has a fixed set of tasks and is compared with `test`, the data's own distribution. With --json, points
    that are in the file already are not measured again; several processes may add to one file.
    """
    if plot is not None and plot.suffix.lower() != ".svg":
        raise KarelsynthError(f"cannot draw curves as {plot}: the name must end in `.svg`")
    from karelsynth.curves import Curves, CurveSettings, check_settings, keys, measure, read_curves
    from karelsynth.curves import render as write_page

    if render:
        written = write_page(Path())
        print_out(f"wrote {', '.join(map(str, written))}")
        return
    wanted = keys(only or ())
    check_outputs(output, plot)
    found = None if output is None else read_curves(output)
    with loading():
        from karelsynth.solve.solver import Solver

        where = choose_device(device if ray is None else "cpu")
        solver = Solver.load(model, device=where)
        settings = CurveSettings.of(solver, tasks=tasks, beam=beam, solve=solve)
        if output is not None and found is not None:
            check_settings(output, found.settings, settings)
        if solve is not None and ray is None:
            solver.warm_up()
        now = Curves(settings, _provenance(model, solver.model, where), {} if found is None else found.points)
        missing = now.missing(wanted)
        if found is not None and not missing:
            now = found  # with the provenance of whoever measured it
    now = _save(now, output, plot)  # first: a path that cannot be written must fail before the work
    rounds = 1 if solve is None else 2
    with (
        interruptible("stopped" if output is None else f"stopped; the same command resumes from {output}"),
        spread(ray, device) as mapper,
        counter("measuring", unit="tasks", total=len(missing) * tasks * rounds) as progress,
    ):
        for key in missing:
            now = now.with_point(key, measure(solver, key, settings, progress=progress, mapper=mapper))
            now = _save(now, output, plot, key)
            print_err(_line(key, now))
    _show(now, wanted)


def _provenance(folder: str | None, model: Synthesizer, device: torch.device) -> dict[str, Any]:
    from karelsynth.evaluate import environment
    from karelsynth.model.storage import SHIPPED, read_recipe

    return {
        "model": folder or SHIPPED,
        "recipe": read_recipe(folder or SHIPPED),
        "decoding": "execution-guided" if model.settings.execution else "unfiltered",
        **environment(device),
    }


def _save(curves: Curves, output: Path | None, plot: Path | None, measured: Key | None = None) -> Curves:
    """Write what is wanted; returns the curves with what other processes have added to the file."""
    from karelsynth.curves import picture, save_curves

    if output is not None:
        curves = save_curves(output, curves, measured)
    if plot is not None:
        write_text(picture(curves), plot)
    return curves


def _line(key: Key, curves: Curves) -> str:
    """A point just measured, in a line."""
    from karelsynth.curves import MEASURES

    shares = curves.points[key].shares
    shown = ", ".join(f"{MEASURES[name]} {share.percent:.2f} %" for name, share in shares.items())
    return f"{key[0]} {key[1]}: {shown}"


def _show(curves: Curves, keys: list[Key]) -> None:
    from rich.table import Table

    from karelsynth.curves import MEASURES

    settings = curves.settings
    table = Table(title=f"{settings.tasks:,} tasks a point, beam {settings.beam}", title_justify="left")
    table.add_column("% of tasks")
    for name in settings.measures:
        table.add_column(MEASURES[name], justify="right")
    before = None
    for key in keys:
        if before is not None and key[0] != before:
            table.add_section()
        before = key[0]
        shares = curves.points[key].shares
        table.add_row(" ".join(key), *(f"{shares[name].percent:.2f}" for name in settings.measures))
    console().print(table)
