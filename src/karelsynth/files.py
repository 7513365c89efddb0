"""Reading and writing files, with readable errors.

Files are written atomically: a kill, a full disk or a power cut never leaves half a file under its name. Links and
temporary files that other users may have planted are neither followed nor reused (`ownership`).
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from karelsynth.errors import KarelsynthError
from karelsynth.ownership import SharedFolder, cache_home, follow_links, private_folder, private_temporary_folder

STDIN: Final = "-"
_LARGEST: Final = 2**20
"""Bytes. No program, world or recipe needs more."""
_OPEN: Final = re.compile(r"/dev/std(?P<name>out|err)|/(?:dev|proc/self)/fd/(?P<number>\d{1,6})")
"""Paths that stand for a file descriptor of this process."""
LOCK_TIMEOUT: Final = 5.0
"""Seconds to wait for another process that writes the same file."""
_UNFINISHED: Final = ".unfinished.tmp"
"""The folder, inside the new one, that holds all files until the last is written."""
_LONGEST_NAME: Final = 255
"""Bytes of the longest file name that common file systems allow."""


class FileError(KarelsynthError, OSError):
    """A file or folder that cannot be read or written."""


def is_folder(path: str | Path) -> bool:
    """Whether there is such a folder. Unlike `Path.is_dir`, it raises no error for names that cannot be looked up."""
    return os.path.isdir(path)  # noqa: PTH112


def is_file(path: str | Path) -> bool:
    """Whether there is such a regular file; see `is_folder`."""
    return os.path.isfile(path)  # noqa: PTH113


def exists(path: str | Path) -> bool:
    """Whether there is a file, folder, pipe or device of that name; see `is_folder`."""
    return os.path.exists(path)  # noqa: PTH110


def read_text(path: str | Path, largest: int = _LARGEST) -> str:
    """The text of a file, or of standard input for `-`. Raises FileError with the path in front."""
    try:
        with opened(path) as file:
            data = file.read(largest + 1)
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


@contextmanager
def opened(path: str | Path) -> Iterator[io.BufferedReader]:
    """Open a file to read, or standard input for the string `-`. `Path("-")` is a file."""
    if path != STDIN:
        with Path(path).open("rb") as file:
            yield file
        return
    if sys.stdin is None:  # started without one, as by `<&-`
        raise OSError(errno.EBADF, "there is no standard input; give a file, or send the text through a pipe")
    file = io.BufferedReader(cast("Any", sys.stdin.buffer))  # a replaced stdin may lack `peek`
    try:
        yield file
    finally:
        file.detach()


def name_of(path: str | Path) -> str:
    """The name of a file or of standard input, for messages."""
    return "standard input" if path == STDIN else str(path)


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file; see `atomic_writer`."""
    with atomic_writer(Path(path)) as file:
        file.write(content)


@contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """A file that replaces `path` when the block ends. If the block raises, `path` stays as it was.

    A file that is replaced keeps its mode. Links are followed, unless another user may have planted them. Pipes and
    devices, such as /dev/null, are written directly.
    """
    with _naming(path), _open_special(path) or _replacing(_target(path)) as file:
        yield file


def check_writable(path: Path) -> None:
    """Raise FileError if no file can be written there. Call it before long work."""
    with _naming(path):
        if not _is_open_or_special(path):  # opening and closing a pipe would end its reader
            target = _target(path)
            with _locked(target, LOCK_TIMEOUT):
                temporary, opened = _create_beside(target)
                os.close(opened)
                _discard(temporary)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """An OSError inside the block becomes a FileError that names the path."""
    try:
        path.lstat()
    except ValueError as error:  # no name of a file can be like that, with a null character for example
        raise FileError(f"{path}: cannot be written: {error}") from None
    except OSError:  # there is no such file yet
        pass
    try:
        yield
    except (FileError, BrokenPipeError):  # a reader that has closed its pipe has nothing to do with the path
        raise
    except OSError as error:
        raise cannot_write(path, error) from None


def _target(path: Path) -> Path:
    """The file that a path names, links followed."""
    if is_folder(path):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    target = follow_links(path)
    if not target.name:
        raise FileNotFoundError(errno.ENOENT, "the name of a file is missing")
    return target


def _open_special(path: Path) -> BinaryIO | None:
    """Open a device, a pipe or a file descriptor of this process, such as /dev/stdout; None for regular files."""
    if opened := _OPEN.fullmatch(str(path)):
        number = {"out": 1, "err": 2}.get(opened["name"]) or int(opened["number"])
        if number == 1 and sys.stdout is not None:
            sys.stdout.flush()
        return os.fdopen(os.dup(number), "wb")  # opening it again would start at its beginning
    return path.open("wb") if _is_open_or_special(path) else None


def _is_open_or_special(path: Path) -> bool:
    """Whether it is a device, a pipe or a file descriptor of this process."""
    if _OPEN.fullmatch(str(path)):
        return True
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISDIR(kind) or stat.S_ISREG(kind))


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """See `atomic_writer`."""
    with _locked(target, LOCK_TIMEOUT):
        temporary, opened = _create_beside(target)
        with os.fdopen(opened, "wb") as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if os.name == "nt":  # pragma: no cover - an open file cannot be renamed there
                    file.close()
                temporary.replace(target)
            except BaseException:
                _discard(temporary)
                with suppress(OSError):  # flushing may fail again
                    file.close()
                raise
    sync_folder(target.parent)


def _create_beside(target: Path) -> tuple[Path, int]:
    """Create a temporary file beside another, exclusively: nobody else has it open. Returns its path and descriptor.

    Its name is made from the target's, so that the next process removes what a killed one has left. If what is there
    cannot be removed, such as another user's file in /tmp, the name is random. Call it with the target locked.
    """
    name = f".{target.name}.tmp"
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = f".{hashlib.sha256(os.fsencode(target.name)).hexdigest()}.tmp"
    temporary = target.with_name(name)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    old = _own_file(target)
    mode = 0o666 if old is None else 0o600  # until the old mode is set, nobody else may open it
    try:
        with suppress(FileNotFoundError):
            temporary.unlink()
        opened = os.open(temporary, flags, mode)
    except (FileExistsError, IsADirectoryError, PermissionError):
        temporary = target.with_name(f".{os.urandom(16).hex()}.tmp")
        opened = os.open(temporary, flags, mode)
    if old is not None:
        _copy_mode(old, opened)
    return temporary, opened


def _own_file(path: Path) -> os.stat_result | None:
    """The status of a regular file that belongs to this user, None for anything else."""
    try:
        status = path.lstat()
    except OSError:
        return None
    ours = stat.S_ISREG(status.st_mode) and hasattr(os, "fchmod") and status.st_uid == os.geteuid()
    return status if ours else None


def _copy_mode(old: os.stat_result, opened: int) -> None:
    """Give an open file the group and the mode of another."""
    mode = stat.S_IMODE(old.st_mode) & 0o777
    if os.fstat(opened).st_gid != old.st_gid:
        try:
            os.fchown(opened, -1, old.st_gid)
        except OSError:  # not a member of that group: our own group gets the rights of all others
            mode = mode & ~0o070 | (mode & 0o007) << 3
    os.fchmod(opened, mode)


@contextmanager
def _locked(path: Path, timeout: float) -> Iterator[None]:
    """Lock a file or folder against other writers; raises OSError if another holds the lock for `timeout` seconds.

    The lock file is in the system's temporary folder, so that none remains beside `path`. The lock ends with the
    process, even if that is killed.
    """
    from filelock import FileLock, Timeout  # takes a while to import

    digest = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    lock = FileLock(_lock_folder() / f"{digest}.lock")
    try:
        lock.acquire(timeout=timeout)
    except Timeout:
        reason = "another process is writing there; wait for it or choose another place"
        raise OSError(errno.EBUSY, reason) from None
    try:
        yield
    finally:
        lock.release()


def _lock_folder() -> Path:
    """The folder of lock files, the same for all processes of this user; raises OSError."""
    try:
        return private_temporary_folder("locks")
    except OSError as error:  # another user has taken the name
        try:
            return private_folder(cache_home() / "locks")
        except (OSError, RuntimeError):
            raise error from None


def sync_folder(path: Path) -> None:
    """Make renames in a folder survive a power cut, where the system can."""
    with suppress(OSError):  # Windows cannot, some network file systems refuse; the rename itself is done
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def make_folder(folder: Path) -> None:
    """Make a folder if there is none. Raises FileError if nothing can be written there. Call it before long work."""
    with _naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "no permission")


def make_new_folder(folder: Path) -> None:
    """Make a folder, or take an empty one. Raises FileError if anything is in it, except what a killed process left."""
    make_folder(folder)
    names = {path.name for path in folder.iterdir()}
    if names and _UNFINISHED not in names:
        raise FileError(f"{folder}: there is something already; choose a new folder")


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files, by their paths, into a folder of `make_new_folder`. They appear there once all of them are written.

    Until then they are in a hidden folder inside it. A hidden folder beside it might need a permission that we do not
    have, and might be on another disk, from which files cannot be renamed.
    """
    import shutil  # takes a while to import

    with locked_folder(folder):
        hidden = folder / _UNFINISHED
        if exists(hidden):
            shutil.rmtree(hidden)
        for name, content in files.items():
            (hidden / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(hidden / name, content)
        for name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (hidden / name).replace(folder / name)
        shutil.rmtree(hidden)
        sync_folder(folder)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Make a folder if there is none, and lock it against a second writer until the block ends.

    An OSError inside the block becomes a FileError.
    """
    make_folder(folder)
    with _naming(folder), _locked(folder, 0):
        yield


@contextmanager
def appending(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read it and to append to it, locked against a second writer until the block ends.

    It is made if there is none. An OSError inside the block becomes a FileError.
    """
    with _naming(path):
        if _is_open_or_special(path):
            raise OSError(errno.EINVAL, "it is not a regular file, so what it holds cannot be read again")
        target = _target(path)
        with _locked(target, 0), target.open("a+b") as file:
            yield file


def cannot_write(path: Path, error: OSError) -> FileError:
    """The error with its reason and what to do."""
    if isinstance(error, SharedFolder):
        return FileError(f"{path}: cannot be written: {error.strerror}; set TMPDIR to a folder of yours")
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
