"""Reading and writing of small files, with errors for people. A file that is written is whole or not there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from karelsynth.errors import KarelsynthError

STDIN: Final = "-"
_LARGEST: Final = 2**20
"""In bytes: no program or world needs more."""


def read_text(path: str | Path) -> str:
    """The text of a file, or of standard input for `-`. Raises KarelsynthError with the path in front."""
    try:
        data = _read(path)
    except FileNotFoundError:
        raise KarelsynthError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise KarelsynthError(f"{path}: this is a directory, not a file") from None
    except (OSError, ValueError) as error:  # ValueError: a path that holds a null character
        raise KarelsynthError(f"{path}: cannot be read: {_reason(error)}") from None
    if len(data) > _LARGEST:
        raise KarelsynthError(f"{path}: too large: more than {_LARGEST:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise KarelsynthError(f"{path}: not UTF-8 text (byte {error.start})") from None


def _read(path: str | Path) -> bytes:
    if path == STDIN:
        return sys.stdin.buffer.read(_LARGEST + 1)
    with Path(path).open("rb") as file:
        return file.read(_LARGEST + 1)


def write_whole(path: str | Path, content: bytes) -> None:
    """Write to a temporary file beside `path` and rename it, so that a reader never sees half a file."""
    path = Path(path)
    try:
        if not path.parent.is_dir():
            raise KarelsynthError(f"{path}: cannot be written: there is no folder {path.parent}; make it first")
        if path.is_dir():
            raise KarelsynthError(f"{path}: cannot be written: it is a folder")
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a path without a name, or with a null character
        raise KarelsynthError(f"{path}: cannot be written: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
