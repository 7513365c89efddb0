"""Reading and writing of files, with errors for people.

Files are written atomically: a kill, a full disk or a power cut never leaves half a file under its name.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from karelsynth.errors import KarelsynthError

STDIN: Final = "-"
_LARGEST: Final = 2**20
"""In bytes: no program, world or recipe needs more."""
_OPEN: Final = re.compile(r"/dev/std(?P<name>out|err)|/(?:dev|proc/self)/fd/(?P<number>\d{1,6})")
"""What stands for something that the process has open."""
_PATIENCE: Final = 5.0
"""Seconds to wait for another process that writes the same file."""


class FileError(KarelsynthError, OSError):
    """A file or folder that cannot be read or written."""


def is_folder(path: str | Path) -> bool:
    """Whether there is such a folder. `Path.is_dir` fails for names that are too long or may not be looked at."""
    return os.path.isdir(path)  # noqa: PTH112


def is_file(path: str | Path) -> bool:
    """Whether there is such a file, and no pipe or device; see `is_folder`."""
    return os.path.isfile(path)  # noqa: PTH113


def exists(path: str | Path) -> bool:
    """Whether there is anything of that name; see `is_folder`."""
    return os.path.exists(path)  # noqa: PTH110


def read_text(path: str | Path, largest: int = _LARGEST) -> str:
    """The text of a file, or of standard input for `-`. Raises FileError with the path in front."""
    try:
        data = _read(path, largest)
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise FileError(f"{path}: this is a directory, not a file") from None
    except (OSError, ValueError) as error:  # ValueError: a path that holds a null character
        raise FileError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > largest:
        raise FileError(f"{path}: too large: more than {largest:,} bytes; is it the right file?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not UTF-8 text (byte {error.start})") from None


def _read(path: str | Path, largest: int) -> bytes:
    with opened(path) as file:
        return file.read(largest + 1)


@contextmanager
def opened(path: str | Path) -> Iterator[io.BufferedReader]:
    """A file to read, or standard input for `-`, which stays open. A `Path` is a file even if it is called so."""
    if path != STDIN:
        with Path(path).open("rb") as file:
            yield file
        return
    if sys.stdin is None:  # started without one, as by `<&-`
        raise OSError(errno.EBADF, "there is no standard input; give a file, or send the text through a pipe")
    file = io.BufferedReader(cast("Any", sys.stdin.buffer))  # what stands in for it may not be able to peek
    try:
        yield file
    finally:
        file.detach()


def name_of(path: str | Path) -> str:
    """What messages call a file that may be standard input."""
    return "standard input" if path == STDIN else str(path)


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file in one go; see `atomic_writer`."""
    with atomic_writer(Path(path)) as file:
        file.write(content)


@contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """A file that appears at `path`, whole and on disk, when the block ends; if the block fails, not at all.

    Links are followed. What is not a regular file, such as /dev/null or a pipe, is written to directly.
    """
    try:
        writing: AbstractContextManager[BinaryIO] = _written_as_it_is(path) or _appearing(_target(path))
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise cannot_write(path, error) from None
    try:
        with writing as file:
            yield file
    except (FileError, BrokenPipeError):  # of something else, inside the block; or of what reads a pipe
        raise
    except OSError as error:
        raise cannot_write(path, error) from None


def check_writable(path: Path) -> None:
    """Raise FileError if no file can be written there: whoever works for long should know before, not after."""

    class Tried(Exception):
        pass

    try:
        if not _is_open_or_special(path):  # a pipe that is closed again would end for its reader
            with suppress(Tried), _appearing(_target(path)):
                raise Tried
    except (OSError, ValueError) as error:
        raise cannot_write(path, error) from None


def _target(path: Path) -> Path:
    """The file that a path means."""
    if is_folder(path):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    target = path.resolve() if path.is_symlink() else path
    if not target.name:
        raise FileNotFoundError(errno.ENOENT, "the name of a file is missing")
    return target


def _written_as_it_is(path: Path) -> BinaryIO | None:
    """A device or a pipe, or what this process has open, as /dev/stdout; None for all else."""
    if opened := _OPEN.fullmatch(str(path)):
        number = {"out": 1, "err": 2}.get(opened["name"]) or int(opened["number"])
        if number == 1 and sys.stdout is not None:
            sys.stdout.flush()
        return os.fdopen(os.dup(number), "wb")  # where it is now: to open it again would begin anew
    return path.open("wb") if _is_open_or_special(path) else None


def _is_open_or_special(path: Path) -> bool:
    """Whether it is a device or a pipe, or what this process has open."""
    if _OPEN.fullmatch(str(path)):
        return True
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISDIR(kind) or stat.S_ISREG(kind))


@contextmanager
def _appearing(target: Path) -> Iterator[BinaryIO]:
    """See `atomic_writer`. The temporary name is always the same, so what a killed process left is overwritten."""
    temporary = target.with_name(f".{target.name}.tmp")
    with os.fdopen(_claimed(temporary), "wb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if os.name == "nt":  # pragma: no cover - where what is open cannot be renamed, and nothing is held
                file.close()
            temporary.replace(target)
        except BaseException:
            _discard(temporary)
            with suppress(OSError):  # what is left to be written is not wanted, and may fail again
                file.close()
            raise
    sync_folder(target.parent)


def _claimed(temporary: Path) -> int:
    """A file, open and empty, that no other process writes as long as it is open."""
    until = time.monotonic() + _PATIENCE
    while True:
        opened = os.open(temporary, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            # Another process may have held it, finished and given it its own name meanwhile.
            if _hold(opened) and _still_there(temporary, opened):
                os.ftruncate(opened, 0)
                return opened
            if time.monotonic() > until:
                raise OSError(errno.EBUSY, "another process is writing it; wait for it or choose another place")
        except BaseException:
            os.close(opened)
            raise
        os.close(opened)
        time.sleep(0.02)


def _still_there(path: Path, opened: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(opened))
    except FileNotFoundError:
        return False


def _hold(opened: int) -> bool:
    """Lock a file or folder against other processes, until it is closed; False if one of them has locked it.

    Where there are no such locks (Windows, some network file systems), nothing is locked.
    """
    try:
        import fcntl

        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        pass
    return True


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
def locked_folder(folder: Path) -> Iterator[None]:
    """Make a folder, if need be, and lock it against a second writer until the block ends.

    An OSError inside the block becomes a FileError. The lock ends with the process, even if that is killed.
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
    try:
        held = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        yield
        return
    try:
        if not _hold(held):
            raise FileError(f"{folder}: another process is writing there; wait for it or choose another folder")
        yield
    finally:
        os.close(held)


def cannot_write(path: Path, error: OSError | ValueError) -> FileError:
    """The error in words for the person who chose the place."""
    if isinstance(error, ValueError):
        return FileError(f"{path}: cannot be written: {error}")
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            reason = "the disk is full; make room and run the same command again"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            reason = "no permission to write there; choose another place"
        case errno.ENOENT if not exists(path.parent):
            reason = f"there is no folder {path.parent}; make it first"
        case errno.EEXIST | errno.ENOTDIR:
            reason = "a file of that name is in the way"
        case _:
            reason = error.strerror or str(error)
    return FileError(f"{path}: cannot be written: {reason}")


def _discard(path: Path) -> None:
    with suppress(OSError):  # the first error says what is wrong
        path.unlink(missing_ok=True)
