"""How every command ends if it is interrupted, or if the system reports an error."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import typer
from typer.core import TyperGroup

from karelsynth.cli.show import error_console
from karelsynth.errors import KarelsynthError, out_of_memory
from karelsynth.files import FileError

_INTERRUPTED: Final = 130
_NO_READER: Final = 141
"""Exit statuses, as shells report them, of a process ended by Ctrl-C, or by writing to a closed pipe."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What writing to standard output ends with, where it is a file."""


class Commands(TyperGroup):
    """The commands of the application. Errors of the system are reported as a KarelsynthError."""

    def make_context(self, *args: Any, **more: Any) -> Any:
        """Read the command line; `--help` and `--version` are done by this."""
        with _told():
            return super().make_context(*args, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a name or a mark that the terminal cannot show is no reason to fail
                stream.reconfigure(errors="replace")
        with _told():
            return super().invoke(ctx)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except KarelsynthError:
        raise
    except KeyboardInterrupt:
        error_console().print("stopped")
        raise typer.Exit(_INTERRUPTED) from None
    except BrokenPipeError:  # the reader, such as `head`, has gone
        _forget_output()
        raise typer.Exit(_NO_READER) from None
    except OSError as error:  # of standard output on a full disk, say
        _forget_output()
        where = error.filename or ("standard output" if error.errno in _FULL else "system error")
        raise FileError(f"{where}: {error.strerror or error}") from None
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        raise KarelsynthError("not enough memory for this much at once: ask for less") from None


def _forget_output() -> None:
    """Discard unwritten output: flushing it would fail again when Python exits."""
    with suppress(OSError, ValueError):  # there may be no standard output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
