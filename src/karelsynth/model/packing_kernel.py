"""The layout of packed programs, compiled: batches are packed by threads, which should not hold up each other."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled, given
from karelsynth.karel.tokens import START


@compiled(
    types.void(
        given(types.uint8, 2), given(types.int64, 1), given(types.int64, 1), given(types.int64, 1), types.int32[:, ::1]
    )
)
def _lay_out(
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    numbers: NDArray[np.int64],
    offsets: NDArray[np.int64],
    out: NDArray[np.int32],
) -> None:  # pragma: no cover - compiled
    for row in range(tokens.shape[0]):
        before = START
        for at in range(lengths[row]):
            place = offsets[at] + row
            out[0, place] = before
            out[1, place] = tokens[row, at]
            out[2, place] = numbers[row]
            before = tokens[row, at]


def lay_out(
    tokens: NDArray[np.uint8], lengths: NDArray[np.int64], numbers: NDArray[np.int64], step_sizes: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Tokens by step, and within a step by program: int32 [3, P], the token before, the token, the program's number.

    Args:
        tokens: [N, L], the longest program first.
        lengths, numbers: [N].
        step_sizes: [T], how many programs have a token at each step.
    """
    out = np.empty((3, int(step_sizes.sum())), np.int32)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(step_sizes, dtype=np.int64)])
    _lay_out(np.ascontiguousarray(tokens), lengths, numbers, offsets, out)
    return out
