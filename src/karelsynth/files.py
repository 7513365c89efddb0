"""Reading and writing of files, with errors for people.

A file that is written is whole or not there: a kill, a full disk or a power cut never leaves half a one under its name.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from karelsynth.errors import KarelsynthError

STDIN: Final = "-"
_LARGEST: Final = 2**20
"""In bytes: no program, world or recipe needs more."""


class FileError(KarelsynthError, OSError):
    """A file or folder that cannot be read or written."""


def read_text(path: str | Path) -> str:
    """The text of a file, or of standard input for `-`. Raises FileError with the path in front."""
    try:
        data = _read(path)
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise FileError(f"{path}: this is a directory, not a file") from None
    except (OSError, ValueError) as error:  # ValueError: a path that holds a null character
        raise FileError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > _LARGEST:
        raise FileError(f"{path}: too large: more than {_LARGEST:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not UTF-8 text (byte {error.start})") from None


def _read(path: str | Path) -> bytes:
    if path == STDIN:
        if sys.stdin is None:  # started without one, as by `<&-`
            raise OSError(errno.EBADF, "there is no standard input; give a file, or send the text through a pipe")
        return sys.stdin.buffer.read(_LARGEST + 1)
    with Path(path).open("rb") as file:
        return file.read(_LARGEST + 1)


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file in one go; see `whole_file`."""
    try:
        with whole_file(Path(path)) as file:
            file.write(content)
    except ValueError as error:  # a path without a name, or with a null character
        raise FileError(f"{path}: cannot be written: {error}") from None


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that appears at `path`, whole and on disk, when the block ends; if the block fails, not at all.

    The temporary name is always the same, so what a killed process left is overwritten by the next.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        _discard(temporary)
        if isinstance(error, FileError):  # of something else, inside the block
            raise
        raise cannot_write(path, error) from None
    except BaseException:
        _discard(temporary)
        raise


def sync_folder(path: Path) -> None:
    """See to it that renames in a folder survive a power cut, where the system can (Windows cannot)."""
    try:
        folder = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(folder)
    except OSError:  # some network file systems refuse; the rename itself is done
        pass
    finally:
        os.close(folder)


@contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """Make a folder, if need be, and hold it against a second writer until the block ends.

    What the system refuses inside the block is told as a FileError. A killed process lets go of the folder by itself.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder):
            yield
    except (FileError, BrokenPipeError):  # a broken pipe is the output's, not the folder's
        raise
    except OSError as error:
        raise cannot_write(folder, error) from None


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Hold a folder. Where there are no such locks (Windows, some network file systems), nothing is held."""
    try:
        import fcntl

        held = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileError(f"{folder}: another process is writing there; wait for it or choose another") from None
        except OSError:  # no locks on this file system
            pass
        yield
    finally:
        os.close(held)


def cannot_write(path: Path, error: OSError) -> FileError:
    """The error in words for the person who chose the place."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            reason = "the disk is full; make room and run the same command again"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            reason = "no permission to write there; choose another place"
        case errno.ENOENT if not path.parent.exists():
            reason = f"there is no folder {path.parent}; make it first"
        case errno.EEXIST | errno.ENOTDIR:
            reason = "a file of that name is in the way"
        case _:
            reason = error.strerror or str(error)
    return FileError(f"{path}: cannot be written: {reason}")


def _discard(path: Path) -> None:
    with suppress(OSError):  # the first error says what is wrong
        path.unlink(missing_ok=True)
