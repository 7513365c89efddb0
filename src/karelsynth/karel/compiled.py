"""How functions are compiled: with Numba, without the GIL, once.

Numba keeps compiled functions on disk and looks at a function's own file to see whether they are still good. It
does not notice that a constant or a function imported from another file has changed, and would use the old one. So
the folder that holds them is named after a digest of all sources that compiled code is made from.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import numba

_KEPT: Final = 8
"""How many digests' folders stay when a new one is made."""
_SOURCES: Final = (
    "karel/*.py",
    "karel/formats/codes.py",
    "generator/*.py",
    "model/eight_bits.py",
    "search/closing.py",
    "search/pruning.py",
    "search/repair.py",
    "**/*kernel*.py",
)
"""What compiled code is made from."""
_lock = threading.Lock()


def compiled(*signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function: compile it for a signature, or when it is first called, and keep the result on disk.

    Options are Numba's.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        with _lock:
            config: Any = numba.config  # its names are made at run time
            njit: Any = numba.njit  # typed in some versions, not in others
            before = config.CACHE_DIR
            config.CACHE_DIR = str(cache_folder())
            try:
                return njit(*signature, nogil=True, cache=True, **options)(function)
            finally:
                config.CACHE_DIR = before

    return decorate


def read_only(kind: Any, dimensions: int) -> Any:
    """The type of an input array in C order. Read-only arrays, such as memory maps, are accepted."""
    return numba.types.Array(kind, dimensions, "C", readonly=True)


def tuple_type(kind: type, *fields: Any) -> Any:
    """The type of a NamedTuple with fields of these types."""
    named_tuple: Any = numba.types.NamedTuple  # untyped
    return named_tuple(fields, kind)


@cache
def cache_folder() -> Path:
    """Where compiled functions are kept: in $NUMBA_CACHE_DIR/karelsynth, or in the user's cache folder."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for source in sorted(path for pattern in _SOURCES for path in package.glob(pattern)):
        digest.update(source.relative_to(package).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    try:
        base = _base()
        folder = base / digest.hexdigest()[:16]
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)  # another process may have been faster
            _forget_old(base)
        if not os.access(folder, os.W_OK):
            raise PermissionError
    except (OSError, RuntimeError):  # a read-only home, or none at all: compile for this process only
        folder = Path(tempfile.mkdtemp(prefix="karelsynth-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _base() -> Path:
    """Where the folders of digests are; raises RuntimeError for a user without a home, as containers may have."""
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(chosen) / "karelsynth"
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "karelsynth" / "compiled"


def _forget_old(base: Path) -> None:
    """Remove the oldest of the folders that are named as ours are."""
    with suppress(OSError):  # another process is doing so too
        ours = [path for path in base.iterdir() if re.fullmatch("[0-9a-f]{16}", path.name) and path.is_dir()]
        ours.sort(key=lambda path: path.stat().st_mtime)
        for folder in ours[:-_KEPT]:
            shutil.rmtree(folder, ignore_errors=True)
