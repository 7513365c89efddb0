"""Whose files these are: which folders and links can be trusted on a machine that several people use.

Another user may have made a folder, a link or a temporary file before us, under a name that is easy to guess. That is
dangerous in two cases. Compiled code is loaded from a folder and run, so whoever can write there can run code as this
user. And a file that we write replaces the file that a link points to. This user and root are trusted. On Windows
nothing is checked.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

_MOST_LINKS: Final = 40
"""Links on one path, as the kernel allows."""


class SharedFolder(OSError):
    """A folder that others can change. `strerror` says who and where."""


def user_number() -> int:
    """The number of the user that this process acts as; 0 on Windows."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def private_folder(folder: Path) -> Path:
    """Make a folder for this user alone if there is none; returns it with links followed.

    Raises SharedFolder if others can change what is in it: it or a folder above it belongs to another user or is open
    to others. A folder above with the sticky bit, such as /tmp, is fine: others cannot rename what is ours there.
    """
    folder = folder.resolve()
    places = [folder, *folder.parents]
    missing = next(number for number, place in enumerate(places) if place.exists())
    _check_private(places[missing:], folder)  # first, so that nothing is left where it is refused
    for place in reversed(places[:missing]):
        place.mkdir(mode=0o700 if place == folder else 0o755, exist_ok=True)  # another process may be faster
    _check_private(places, folder)
    if not hasattr(os, "geteuid"):
        return folder
    if folder.stat().st_uid == os.geteuid() and folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def _check_private(places: list[Path], folder: Path) -> None:
    for place in places if hasattr(os, "geteuid") else ():
        status = place.stat()
        if not _is_ours(status):
            raise SharedFolder(errno.EPERM, f"{place} belongs to another user")
        if _open_to_others(status) and (place == folder or not status.st_mode & stat.S_ISVTX):
            raise SharedFolder(errno.EPERM, f"other users may write to {place}")


def private_temporary_folder(purpose: str) -> Path:
    """This user's folder for a purpose in the system's temporary folder, the same for all processes.

    Raises SharedFolder as `private_folder` does.
    """
    from tempfile import gettempdir  # takes a while to import

    return private_folder(Path(gettempdir()) / f"karelsynth-{purpose}-{user_number()}")


def folder_for_this_process() -> Path:
    """A new folder of this user alone, which goes away with the process."""
    import atexit
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="karelsynth-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def keep_torch_code_private() -> None:
    """Have PyTorch keep the code that it compiles, and reads back and runs, in a folder of this user alone.

    Its own choice has a name in /tmp that anyone can guess and make first.
    """
    chosen = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    try:
        folder = private_folder(Path(chosen)) if chosen else private_temporary_folder("torch")
    except OSError as error:
        import logging

        folder = folder_for_this_process()
        logging.getLogger("karelsynth.ownership").warning(
            "PyTorch's compiled code is not kept: %s", error.strerror or error
        )
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)


def cache_home() -> Path:
    """The user's cache folder. Raises RuntimeError for a user without a home, as in some containers.

    A path that is not absolute would be another folder for each working directory. As the XDG specification says, it is
    ignored.
    """
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    folder = chosen if chosen.is_absolute() else Path.home() / ".cache"
    if not folder.is_absolute():
        raise RuntimeError("the user has no home")
    return folder / "karelsynth"


def follow_links(path: Path) -> Path:
    """The path with its links followed, also those to folders on the way. The last part need not exist.

    Raises OSError for a link that another user made in a folder that others may write to.
    """
    path, followed = path.absolute(), 0
    while True:  # the first part that is `..` or a link is resolved, until there is none
        places = (*reversed(path.parents), path)
        place = next((place for place in places if place.name == ".." or place.is_symlink()), None)
        if place is None:
            return path
        rest = path.relative_to(place)
        if place.name == "..":
            path = place.parent.parent / rest
            continue
        _check_link(place)
        followed += 1
        if followed > _MOST_LINKS:
            raise OSError(errno.ELOOP, "links that lead to each other")
        path = place.parent / place.readlink() / rest


def _check_link(link: Path) -> None:
    folder = link.parent.stat()
    if not _is_ours(link.lstat()) and (not _is_ours(folder) or _open_to_others(folder)):
        reason = f"{link} is a link that another user made; name the file that it should lead to, or another place"
        raise OSError(errno.ELOOP, reason)


def _is_ours(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid in (0, os.geteuid())


def _open_to_others(status: os.stat_result) -> bool:
    """Whether users other than this one and root may write to a folder."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_private_group(status.st_gid)


def _is_private_group(number: int) -> bool:
    """Whether a group is root's, or has nobody but this user, as many systems make for each user."""
    if number == 0:
        return True
    try:
        import grp
        import pwd

        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except (ImportError, KeyError):
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
