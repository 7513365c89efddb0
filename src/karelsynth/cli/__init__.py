"""The command line. Each module holds the commands of one subject and registers them here."""

from __future__ import annotations

from typing import Annotated

import typer

from karelsynth._version import __version__
from karelsynth.cli import curves, karel, model, reproduce, solve, tasks, web
from karelsynth.cli.commands import Commands

app = typer.Typer(
    name="karelsynth",
    cls=Commands,
    help="Programs from examples, for Karel the robot: solve tasks, here or on a page in the browser; run, check, "
    "convert and draw programs and worlds; make tasks; train and score models. "
    "In every command `--out` says where to write; `--output` and `-o` are aliases.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"karelsynth {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


for subject in (solve, web, karel, tasks, model, reproduce, curves):  # as `--help` lists them
    subject.register(app)
