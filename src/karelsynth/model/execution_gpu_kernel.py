"""The GPU's kernel of `execution_gpu`, in a file of its own because only GPUs need Numba's CUDA module."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from karelsynth.karel.machine_kernel import CELLS
from karelsynth.model.execution_gpu import LONGEST
from karelsynth.model.execution_kernel import run_and_describe, scratch_sizes

if not hasattr(np, "row_stack"):  # NumPy 2.5 has dropped it, and numba-cuda 0.30 looks for it when it first compiles
    np.row_stack = np.vstack
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its own, with NumPy 2.5
    from numba import cuda as numba_cuda
    from numba.cuda import dispatcher as numba_dispatcher

cuda: Any = numba_cuda  # its names are made at run time
dispatcher: Any = numba_dispatcher
dispatcher.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # the last tasks of a search are few
_TEXT, _CLOSING, _CODE, _STACK, _COUNTERS = scratch_sizes.py_func(LONGEST)


@cuda.jit  # type: ignore[untyped-decorator]
def features_of_prefixes(
    tokens: Any,
    rows: Any,
    lengths: Any,
    which: Any,
    inputs: Any,
    heroes: Any,
    targets: Any,
    transition: Any,
    symbols: int,
    start: int,
    out: Any,
) -> None:  # pragma: no cover - compiled
    """Codes of prefixes on examples to out [M · K, 114], a thread for each row.

    Args:
        tokens: uint8 [N, L].
        rows, lengths: int64 [M]: each prefix is tokens[row, :length].
        which: int64 [M, K], the examples that it is run on.
        inputs, targets: uint8 [E, 324].
        heroes: int16 [E], where they stand in the inputs.
        transition, symbols, start: of the compiled grammar.
    """
    index = cuda.grid(1)
    examples = which.shape[1]
    if index < out.shape[0]:
        number = index // examples
        example = which[number, index - number * examples]
        run_and_describe(
            tokens[rows[number], : lengths[number]],
            inputs[example : example + 1],
            heroes[example : example + 1],
            targets[example : example + 1],
            transition,
            symbols,
            start,
            cuda.local.array(_TEXT, np.uint8),
            cuda.local.array(_CLOSING, np.uint8),
            cuda.local.array(_CODE, np.int64),
            cuda.local.array(_CODE, np.int16),
            cuda.local.array(_STACK, np.int32),
            cuda.local.array((_STACK, 3), np.int32),
            cuda.local.array(_COUNTERS, np.int32),
            cuda.local.array((1, CELLS), np.uint8),
            cuda.local.array((1, 1), np.uint8),
            cuda.local.array((1, 1, 1), np.uint8),
            out,
            index,
        )
