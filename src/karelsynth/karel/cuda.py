"""Numba's CUDA module, for the files that compile kernels for a GPU: `pip install ".[cuda]"`.

Importing this module loads it, so only such files import it.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any, Final

import numpy as np

if not hasattr(np, "row_stack"):  # NumPy 2.5 has dropped it, and numba-cuda 0.30 looks for it when it first compiles
    np.row_stack = np.vstack
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its own, with NumPy 2.5
    from numba import cuda as numba_cuda
    from numba.cuda import dispatcher as numba_dispatcher

cuda: Any = numba_cuda  # its names are made at run time
dispatcher: Any = numba_dispatcher
dispatcher.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # the last tasks of a search are few
launch_lock: Final = threading.Lock()
"""One thread at a time launches kernels."""


def why_not() -> str | None:
    """Why Numba cannot use a GPU here; None if it can."""
    try:
        return None if cuda.is_available() else str(cuda.cuda_error() or "it lacks a part of CUDA")
    except Exception as error:  # half-installed drivers and packages raise anything
        return f"{type(error).__name__}: {error}"


def on_stream(number: int) -> Any:
    """The stream with the number that other libraries know it by; 0 is the default stream."""
    return cuda.external_stream(number) if number else 0
