"""The command line: the application, its commands, and how they end on errors of the system."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from karelsynth._version import __version__
from karelsynth.cli import grade, karel, model, reproduce, score, solve, tasks, tutor
from karelsynth.cli.common import INTERRUPTED, print_err
from karelsynth.errors import KarelsynthError, missing_extra, out_of_memory
from karelsynth.files import FileError

_CLOSED_PIPE: Final = 141
"""The exit status that shells report for a process that wrote to a closed pipe."""
_STDOUT_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors without a file name that come from writing to standard output."""


class CommandGroup(TyperGroup):
    """The commands of the application. Errors of the system become a KarelsynthError or an exit status."""

    def make_context(self, *args: Any, **more: Any) -> Any:
        """Parse the command line; this also runs `--help` and `--version`."""
        with _system_errors():
            return super().make_context(*args, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # characters that the terminal's encoding lacks are replaced
                stream.reconfigure(errors="replace")
        with _system_errors():
            return super().invoke(ctx)


@contextmanager
def _system_errors() -> Iterator[None]:
    try:
        yield
    except KarelsynthError:
        raise
    except KeyboardInterrupt:
        print_err("stopped")
        raise typer.Exit(INTERRUPTED) from None
    except ImportError as error:
        raise missing_extra(error) or error from None
    except BrokenPipeError:  # the reader, such as `head`, has ended
        _discard_output()
        raise typer.Exit(_CLOSED_PIPE) from None
    except OSError as error:  # such as a full disk
        _discard_output()
        where = error.filename or ("standard output" if error.errno in _STDOUT_ERRORS else "system error")
        raise FileError(f"{where}: {error.strerror or error}") from None
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        raise KarelsynthError("not enough memory for this much at once: choose smaller numbers") from None


def _discard_output() -> None:
    """Discard unwritten output: Python flushes it at exit, which would fail again."""
    with suppress(OSError, ValueError):  # standard output may be closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    name="karelsynth",
    cls=CommandGroup,
    help="Program synthesis for Karel the robot: solve tasks, here or on a page in the browser; run, check, "
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


for command in (  # the order of `--help`
    *(solve.solve, solve.serve),
    *(karel.run, karel.check, karel.convert, karel.draw, karel.verify),
    *(grade.grade, tutor.hint, tutor.probe, tutor.pose),
    *(tasks.generate, tasks.stats, tasks.import_msr, tasks.download_val, tasks.export_msr),
    *(model.train, model.evaluate, score.score, score.prompt, score.ask, reproduce.reproduce, reproduce.curves),
    *(reproduce.pack_weights, reproduce.unpack_weights),
):
    app.command()(command)
