"""The command line: the application, its commands, and how they end on errors of the system.

A command's module is imported when the command is first used, so that no command waits for the others' imports.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from karelsynth._version import __version__
from karelsynth.cli.common import INTERRUPTED, print_err
from karelsynth.errors import KarelsynthError, missing_extra, out_of_memory
from karelsynth.files import FileError

_CLOSED_PIPE: Final = 141
"""The exit status that shells report for a process that wrote to a closed pipe."""
_STDOUT_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors without a file name that come from writing to standard output."""
_MODULES: Final = {
    "solve": ("solve", "serve"),
    "karel": ("run", "check", "convert", "draw", "verify"),
    "grade": ("grade",),
    "tutor": ("hint", "probe", "pose"),
    "tasks": ("generate", "stats", "import-msr", "download-val", "export-msr"),
    "model": ("train", "evaluate"),
    "score": ("score", "prompt", "ask"),
    "reproduce": ("reproduce", "curves", "pack-weights", "unpack-weights"),
}
"""By module, its commands, in the order of `--help`."""
_MARKUP: Final = "markdown"


class Commands(Mapping[str, Any]):
    """The commands by name; each is made when it is first looked up."""

    def __init__(self) -> None:
        self._home = {name: module for module, names in _MODULES.items() for name in names}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module = import_module(f"karelsynth.cli.{self._home[name]}")
            alone = typer.Typer(add_completion=False, rich_markup_mode=_MARKUP, pretty_exceptions_enable=False)
            alone.command()(getattr(module, name.replace("-", "_")))
            self._made[name] = typer.main.get_command(alone)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._home)

    def __len__(self) -> int:
        return len(self._home)


class CommandGroup(TyperGroup):
    """The commands of the application. Errors of the system become a KarelsynthError or an exit status."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**{**more, "commands": Commands()})

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
    except BrokenPipeError:  # the reader, such as `head`, has ended
        _discard_output()
        raise typer.Exit(_CLOSED_PIPE) from None
    except OSError as error:  # such as a full disk
        _discard_output()
        where = error.filename or ("standard output" if error.errno in _STDOUT_ERRORS else "system error")
        raise FileError(f"{where}: {error.strerror or error}") from None
    except (MemoryError, RuntimeError, ImportError) as error:
        if out_of_memory(error):
            raise KarelsynthError("not enough memory for this much at once: choose smaller numbers") from None
        if isinstance(error, ImportError):
            raise missing_extra(error) or error from None
        raise


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
    rich_markup_mode=_MARKUP,
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
