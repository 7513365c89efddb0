"""How functions are compiled: with Numba, without the GIL, once.

Numba keeps compiled functions on disk and looks at a function's own file to see whether they are still good. It
does not see that a constant or a function taken from another file has changed, and would go on with the old one. So
the folder that holds them is named after a digest of all sources that compiled code is made from.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import numba

_KEPT: Final = 8
"""How many digests' folders stay when a new one is made."""
_SOURCES: Final = ("karel/*.py", "karel/formats/codes.py", "tasks/batch.py", "*/*kernel*.py")
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


def given(kind: Any, dimensions: int) -> Any:
    """The type of an input array, in C order; read-only ones, such as memory maps, are welcome."""
    return numba.types.Array(kind, dimensions, "C", readonly=True)


@cache
def cache_folder() -> Path:
    """Where compiled functions are kept: $NUMBA_CACHE_DIR, or the user's cache folder."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for source in sorted(path for pattern in _SOURCES for path in package.glob(pattern)):
        digest.update(source.relative_to(package).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    base = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(home) / "karelsynth" / "compiled")
    try:
        folder = base / digest.hexdigest()[:16]
        if not folder.exists():
            folder.mkdir(parents=True)
            _forget_old(base)
        if not os.access(folder, os.W_OK):
            raise PermissionError
    except OSError:  # a read-only home: compile for this process only
        folder = Path(tempfile.mkdtemp(prefix="karelsynth-"))
    return folder


def _forget_old(base: Path) -> None:
    folders = sorted((path for path in base.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for folder in folders[:-_KEPT]:
        shutil.rmtree(folder, ignore_errors=True)
