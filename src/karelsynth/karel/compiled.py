"""Compilation with Numba, with a cache on disk. Compiled functions release the GIL.

Numba's cache checks only the function's own file. It does not notice a changed constant or function of another file. So
the name of the cache folder is a digest of all sources of compiled code.
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
"""The number of cache folders that are kept."""
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
"""The sources of compiled code."""
_lock = threading.Lock()


def compiled(*signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function to be compiled, for a signature or when it is first called. Options are Numba's."""

    def decorate(function: Callable[..., Any]) -> Any:
        with _lock:
            config: Any = numba.config  # its names exist only at run time
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
    """The folder of compiled functions: in $NUMBA_CACHE_DIR/karelsynth, or in the user's cache folder."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for source in sorted(path for pattern in _SOURCES for path in package.glob(pattern)):
        digest.update(source.relative_to(package).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    try:
        base = _base()
        folder = base / digest.hexdigest()[:16]
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)  # another process may have made it
            _remove_old(base)
        if not os.access(folder, os.W_OK):
            raise PermissionError
    except (OSError, RuntimeError):  # no writable home: compile for this process only
        folder = Path(tempfile.mkdtemp(prefix="karelsynth-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _base() -> Path:
    """The parent of the cache folders. Raises RuntimeError for a user without a home, as in some containers."""
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(chosen) / "karelsynth"
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "karelsynth" / "compiled"


def _remove_old(base: Path) -> None:
    """Remove the oldest cache folders."""
    with suppress(OSError):  # another process may remove them, too
        ours = [path for path in base.iterdir() if re.fullmatch("[0-9a-f]{16}", path.name) and path.is_dir()]
        ours.sort(key=lambda path: path.stat().st_mtime)
        for folder in ours[:-_KEPT]:
            shutil.rmtree(folder, ignore_errors=True)
