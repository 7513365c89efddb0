"""The command about where a model's abilities end: curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karelsynth.cli.common import (
    RayAddress,
    check_outputs,
    choose_device,
    console,
    counter,
    error_console,
    loading,
    spread,
    write_text,
)
from karelsynth.errors import KarelsynthError

if TYPE_CHECKING:
    import torch

    from karelsynth.curves import Curves, Key
    from karelsynth.model.synthesizer import Synthesizer


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
    device: Annotated[str | None, typer.Option(help="cpu or cuda; by default a GPU if there is one.")] = None,
    ray: RayAddress = None,
) -> None:
    """Score a model out of distribution: fewer examples, other worlds, longer programs.

    Every point has a fixed set of tasks and is compared with `test`, the data's own distribution. With --json, points
    that are in the file already are not measured again; several processes may add to one file.
    """
    if plot is not None and plot.suffix.lower() != ".svg":
        raise KarelsynthError(f"cannot draw curves as {plot}: the name must end in `.svg`")
    from karelsynth.curves import Curves, CurveSettings, check_settings, keys, measure, read_curves
    from karelsynth.curves_page import render as write_page

    if render:
        written = write_page(Path())
        console().print(f"wrote {', '.join(map(str, written))}", soft_wrap=True)
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
    try:
        rounds = 1 if solve is None else 2
        with (
            spread(ray, device) as mapper,
            counter("measuring", unit="tasks", total=len(missing) * tasks * rounds) as progress,
        ):
            for key in missing:
                point = measure(solver, key, settings, progress=progress, mapper=mapper)
                now = now.with_point(key, point)
                now = _save(now, output, plot, key)
                error_console().print(_line(key, now), soft_wrap=True)
    except KeyboardInterrupt:
        kept = "" if output is None else f"; the same command resumes from {output}"
        error_console().print(f"stopped{kept}", soft_wrap=True)
        raise typer.Exit(130) from None
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
    from karelsynth.curves import save_curves
    from karelsynth.curves_page import picture

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
