"""Compilation with Numba, with a cache on disk. Compiled functions release the GIL.

Numba's cache checks only the function's own file. It does not notice a changed constant or function of another file. So
the name of the cache folder is a digest of all sources of compiled code.

The cache is a pickle: a user who can write to the folder can run code as its reader. A folder that others can change
is not used; the log says so.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import numba
import numpy as np
from numba.core import registry
from numpy.typing import NDArray

from karelsynth.errors import KarelsynthError
from karelsynth.ownership import SharedFolder, cache_home, folder_for_this_process, private_folder

U8Array = NDArray[np.uint8]
"""This and the following: short names for signatures, which may list a dozen arrays."""
I16Array = NDArray[np.int16]
I32Array = NDArray[np.int32]
I64Array = NDArray[np.int64]
U64Array = NDArray[np.uint64]
F64Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

log = logging.getLogger("karelsynth.compiled")

_KEPT: Final = 8
"""The number of cache folders that are kept."""
_SOURCES: Final = (
    "karel/*.py",
    "karel/formats/codes.py",
    "generator/*.py",
    "model/devices.py",
    "search/pruning.py",
    "search/repair.py",
    "tasks/simplify.py",
    "tasks/batch.py",
    "errors.py",
    "**/*kernel*.py",
)
"""The sources of compiled code, and all files that these import from."""
_lock = threading.Lock()


def compiled(*signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function to be compiled when it is first called, for a signature if one is given.

    Options are Numba's. Compiled functions cannot be passed as values to compiled functions: Numba's wrappers for that
    take time to compile.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        _check_enabled()
        with _lock:
            config: Any = numba.config  # its names exist only at run time
            njit: Any = numba.njit  # typed in some versions, not in others
            before = config.CACHE_DIR
            config.CACHE_DIR = str(cache_folder())
            try:
                dispatcher = njit(nogil=True, cache=True, no_cfunc_wrapper=True, **options)(function)
            finally:
                config.CACHE_DIR = before
        _share_constants(dispatcher)
        if signature:
            _compile_on_first_call(dispatcher, *signature)
        return dispatcher

    return decorate


def _check_enabled() -> None:
    """Raise KarelsynthError if Numba does not compile: our code needs integers that overflow.

    The command line ignores the setting (`__main__`). Here it is too late: Numba's own functions are not compiled.
    """
    config: Any = numba.config
    if config.DISABLE_JIT:
        raise KarelsynthError("NUMBA_DISABLE_JIT is set, and karelsynth runs only compiled: unset it and start again")


def _share_constants(dispatcher: Any) -> None:
    """Compile one version for all constants that compiled callers pass; Numba itself compiles one for each."""
    plain = dispatcher.get_call_template

    def get_call_template(args: Any, more: Any) -> Any:
        unliteral: Any = numba.types.unliteral
        return plain([unliteral(kind) for kind in args], {name: unliteral(kind) for name, kind in more.items()})

    dispatcher.get_call_template = get_call_template


def _compile_on_first_call(dispatcher: Any, signature: Any) -> None:
    """Compile for a signature at the first call; Numba itself would do so at once, while modules are imported.

    If no compiled version fits the arguments of a call, Numba calls the method `_compile_for_args`, and then what that
    returns.
    """

    entries: list[Any] = []
    lock = threading.Lock()

    def compile_for_args(*args: Any, **more: Any) -> Any:
        with lock:
            if not entries:  # no other thread was faster
                entries.append(dispatcher.compile(signature))
                dispatcher.disable_compile()
                del dispatcher._compile_for_args
        return entries[0]

    dispatcher._compile_for_args = compile_for_args


def read_only(kind: Any, dimensions: int) -> Any:
    """The type of an input array in C order. Read-only arrays, such as memory maps, are accepted."""
    return numba.types.Array(kind, dimensions, "C", readonly=True)


def tuple_type(kind: type, *fields: Any) -> Any:
    """The type of a NamedTuple with fields of these types."""
    named_tuple: Any = numba.types.NamedTuple  # untyped
    return named_tuple(fields, kind)


@cache
def cache_folder() -> Path:
    """The folder of compiled functions: in $NUMBA_CACHE_DIR/karelsynth, or in the user's cache folder.

    If others can change either, or it cannot be written, it is a temporary folder for this process only.
    """
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for source in sorted(path for pattern in _SOURCES for path in package.glob(pattern)):
        digest.update(source.relative_to(package).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    name = digest.hexdigest()[:16]
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        try:
            return _folder_in(Path(chosen) / "karelsynth", name)
        except SharedFolder as error:
            log.warning("compiled code is not kept in $NUMBA_CACHE_DIR, where it would not be safe: %s", error.strerror)
        except OSError:
            return folder_for_this_process()
    try:
        return _folder_in(cache_home() / "compiled", name)
    except SharedFolder as error:
        log.warning("compiled code is not kept, so every start takes longer: %s", error.strerror)
    except (OSError, RuntimeError):  # no writable home
        pass
    return folder_for_this_process()


def _folder_in(base: Path, name: str) -> Path:
    """A cache folder, made if need be; raises OSError."""
    new = not (base / name).exists()
    folder = private_folder(base / name)
    if new:
        _remove_old(base)
    if not os.access(folder, os.W_OK):
        raise PermissionError
    return folder


def is_shared() -> bool:
    """Whether other processes use the same cache folder."""
    return re.fullmatch("[0-9a-f]{16}", cache_folder().name) is not None


def mark_complete(part: str) -> None:
    """Note that all functions of a part are in the cache."""
    with suppress(OSError):
        _mark(part).touch()


def is_complete(part: str) -> bool:
    """Whether a part was noted as complete for this CPU and this version of Numba."""
    return _mark(part).exists()


def _mark(part: str) -> Path:
    target: Any = registry.cpu_target.target_context
    kind = (numba.__version__, sys.version_info[:2], target.codegen().magic_tuple())
    return cache_folder() / f"{part}-{hashlib.sha256(repr(kind).encode()).hexdigest()[:8]}"


def _remove_old(base: Path) -> None:
    """Remove the oldest cache folders."""
    with suppress(OSError):  # another process may remove them, too
        ours = [path for path in base.iterdir() if re.fullmatch("[0-9a-f]{16}", path.name) and path.is_dir()]
        ours.sort(key=lambda path: path.stat().st_mtime)
        for folder in ours[:-_KEPT]:
            shutil.rmtree(folder, ignore_errors=True)


# A loop, since `target[:] = source` takes a second to compile with its error messages.


@compiled()
def copy_row(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy a row into another, which is as long or longer."""
    for place in range(len(source)):
        target[place] = source[place]
