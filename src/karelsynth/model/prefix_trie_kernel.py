"""The layout of prefix tries, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled, read_only
from karelsynth.karel.tokens import START


class Nodes(NamedTuple):
    """P distinct prefixes by depth: the nodes of `prefix_trie.PrefixTrie`."""

    sizes: NDArray[np.int64]
    """[T]."""
    tokens: NDArray[np.int32]
    """[P]: the last, `<s>` at depth 0."""
    rows: NDArray[np.int32]
    """[P]: a program with this prefix."""
    parents: NDArray[np.int32]
    """[P]."""
    first: NDArray[np.int32]
    """[P]."""
    last: NDArray[np.int32]
    """[P]."""
    before: NDArray[np.int32]
    """[total]: the node before each token, program by program."""


@compiled(
    types.void(
        read_only(types.uint8, 2),
        read_only(types.int64, 1),
        read_only(types.int64, 1),
        types.int64[::1],
        types.int64[::1],
    )
)
def _shared(
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    tasks: NDArray[np.int64],
    shared: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:  # pragma: no cover - compiled
    """Fill the number of prefixes that each program shares with the last one, [N], and of nodes by depth, [T]."""
    for row in range(tokens.shape[0]):
        same = 0
        if row and tasks[row] == tasks[row - 1]:
            limit = min(lengths[row], lengths[row - 1])
            same = 1
            while same < limit and tokens[row, same - 1] == tokens[row - 1, same - 1]:
                same += 1
        shared[row] = same
        for depth in range(same, lengths[row]):
            sizes[depth] += 1


@compiled(
    types.void(
        read_only(types.uint8, 2),
        read_only(types.int64, 1),
        read_only(types.int64, 1),
        read_only(types.int64, 1),
        types.int32[:, ::1],
        types.int32[::1],
    )
)
def _lay_out(
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    shared: NDArray[np.int64],
    offsets: NDArray[np.int64],
    out: NDArray[np.int32],
    before: NDArray[np.int32],
) -> None:  # pragma: no cover - compiled
    depths = offsets.shape[0]
    used = np.zeros(depths, np.int64)
    current = np.zeros(depths, np.int64)
    """The nodes on the path of the current program, numbered within their depth."""
    total = 0
    for row in range(tokens.shape[0]):
        for depth in range(shared[row], lengths[row]):
            number = used[depth]
            used[depth] += 1
            current[depth] = number
            node = offsets[depth] + number
            out[0, node] = tokens[row, depth - 1] if depth else START
            out[1, node] = row
            if depth:
                parent = offsets[depth - 1] + current[depth - 1]
                out[2, node] = current[depth - 1]
                if out[4, parent] == 0:
                    out[3, parent] = number
                out[4, parent] = number + 1
        for depth in range(lengths[row]):
            before[total] = offsets[depth] + current[depth]
            total += 1


def lay_out(tokens: NDArray[np.uint8], lengths: NDArray[np.int64], tasks: NDArray[np.int64]) -> Nodes:
    """The distinct prefixes of programs [N, L] of 1 … L tokens [N] for tasks [N], sorted by task and by tokens."""
    shared, sizes = np.empty(len(tokens), np.int64), np.zeros(int(lengths.max(initial=0)), np.int64)
    _shared(tokens, lengths, tasks, shared, sizes)
    out = np.zeros((5, int(sizes.sum())), np.int32)
    before = np.empty(int(lengths.sum()), np.int32)
    _lay_out(tokens, lengths, shared, np.cumsum(sizes) - sizes, out, before)
    return Nodes(sizes, out[0], out[1], out[2], out[3], out[4], before)
