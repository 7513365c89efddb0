"""Which of many states are the same, compiled: a hash table whose entries are compared to the last byte."""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled, read_only

_PRIME: Final = np.uint64(0x100000001B3)
_SEED: Final = np.uint64(0xCBF29CE484222325)
"""Of FNV-1a."""
_FOLD: Final = np.uint64(29)


@compiled(types.int64(read_only(types.int64, 1), read_only(types.uint8, 3), types.int64[::1], types.int64[:, ::1]))
def find_kinds(
    tasks: NDArray[np.int64], codes: NDArray[np.uint8], some: NDArray[np.int64], kinds: NDArray[np.int64]
) -> int:  # pragma: no cover - compiled
    """Number the kinds of states that there are, in the order in which they come.

    Two are of one kind if they are of the same example of the same task and have the same codes.

    Args:
        tasks: [N].
        codes: [N, K, …], of N hypotheses with K examples.
        some: [N · K], to be filled with one state n · K + k of each kind.
        kinds: [N, K], to be filled.

    Returns how many there are.
    """
    count, examples, width = codes.shape
    size = 16
    while size < 2 * count * examples:
        size *= 2
    mask = np.uint64(size - 1)
    table = np.full(size, -1, np.int64)
    found = 0
    for row in range(count):
        for example in range(examples):
            own = codes[row, example]
            key = (_SEED ^ np.uint64(tasks[row] * examples + example)) * _PRIME
            for at in range(width):
                key = (key ^ np.uint64(own[at])) * _PRIME
            place = (key ^ (key >> _FOLD)) & mask
            while True:
                kind = table[place]
                if kind < 0:
                    table[place], some[found], kinds[row, example] = found, row * examples + example, found
                    found += 1
                    break
                other = some[kind] // examples
                if some[kind] % examples == example and tasks[other] == tasks[row]:
                    same = True
                    there = codes[other, example]
                    for at in range(width):
                        same &= there[at] == own[at]
                    if same:
                        kinds[row, example] = kind
                        break
                place = (place + np.uint64(1)) & mask
    return found
