"""The layout of prefix tries, with and without sharing, compiled: threads that pack batches then run in parallel."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled, read_only
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.tokens import ID, START

ALL_TOKENS: Final = np.ones(256, np.bool_)
UNFORCED: Final = ~np.isin(np.arange(256), [ID[token] for token in KAREL.forced_tokens()])
"""bool [256]: which tokens are packed: all, or only those that the grammar does not force."""


def packed_places(
    tokens: NDArray[np.uint8], lengths: NDArray[np.integer], *, skip_forced_tokens: bool
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which tokens of programs [N, L] are packed, bool [N, L], and their positions from the left, int64 [N, L].

    Entries beyond a program's number of packed tokens are undefined.
    """
    packed = (UNFORCED if skip_forced_tokens else ALL_TOKENS)[tokens] & (np.arange(tokens.shape[1]) < lengths[:, None])
    return packed, np.argsort(~packed, axis=1, kind="stable")


class PackedLayout(NamedTuple):
    """Where the P packed tokens of N programs [N, L] lie: by step, then by program, the longest first."""

    order: NDArray[np.int64]
    """[N]: the programs by how many of their tokens are packed, the most first."""
    step_sizes: NDArray[np.int64]
    """[T]: how many programs have a token at each step."""
    rows: NDArray[np.int64]
    """[N, L], programs in that order: the row of each token, or -1 if it is not packed."""
    columns: NDArray[np.int32]
    """[5, P]: the packed token before, `<s>` for the first; the token; its program's number as given, and in that
    order; its place in the program."""


@compiled(
    types.void(read_only(types.uint8, 2), read_only(types.int64, 1), read_only(types.boolean, 1), types.int64[::1])
)
def _count(
    tokens: NDArray[np.uint8], lengths: NDArray[np.int64], packed: NDArray[np.bool_], counts: NDArray[np.int64]
) -> None:  # pragma: no cover - compiled
    for program in range(len(tokens)):
        counts[program] = 0
        for at in range(lengths[program]):
            counts[program] += packed[tokens[program, at]]


@compiled(
    types.void(
        read_only(types.uint8, 2), read_only(types.int64, 1), read_only(types.int64, 1), read_only(types.int64, 1),
        read_only(types.boolean, 1), types.int64[:, ::1], types.int32[:, ::1],
    )
)  # fmt: skip
def _pack(
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    order: NDArray[np.int64],
    offsets: NDArray[np.int64],
    packed: NDArray[np.bool_],
    rows: NDArray[np.int64],
    columns: NDArray[np.int32],
) -> None:  # pragma: no cover - compiled
    for number in range(len(order)):
        program, before, step = order[number], START, 0
        for at in range(lengths[program]):
            token = tokens[program, at]
            if packed[token]:
                row = offsets[step] + number
                rows[number, at] = row
                columns[0, row], columns[1, row] = before, token
                columns[2, row], columns[3, row], columns[4, row] = program, number, at
                before = token
                step += 1


def packed_layout(
    tokens: NDArray[np.uint8], lengths: NDArray[np.int64], packed: NDArray[np.bool_] = ALL_TOKENS
) -> PackedLayout:
    """Lay out the tokens of programs [N, L] of so many tokens [N] that are `packed` [256], by token."""
    tokens, counts = np.ascontiguousarray(tokens), np.empty(len(tokens), np.int64)
    _count(tokens, lengths, packed, counts)
    order = np.argsort(-counts, kind="stable")
    steps = int(counts.max(initial=0))
    step_sizes = len(tokens) - np.searchsorted(counts[order][::-1], np.arange(steps), side="right")
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(step_sizes, dtype=np.int64)])
    rows = np.full(tokens.shape, -1, np.int64)
    columns = np.empty((5, int(offsets[-1])), np.int32)
    _pack(tokens, lengths, order, offsets, packed, rows, columns)
    return PackedLayout(order, step_sizes, rows, columns)


class TrieNodes(NamedTuple):
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
def _build_trie(
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


def trie_layout(tokens: NDArray[np.uint8], lengths: NDArray[np.int64], tasks: NDArray[np.int64]) -> TrieNodes:
    """The distinct prefixes of programs [N, L] of 1 … L tokens [N] for tasks [N], sorted by task and by tokens."""
    shared, sizes = np.empty(len(tokens), np.int64), np.zeros(int(lengths.max(initial=0)), np.int64)
    _shared(tokens, lengths, tasks, shared, sizes)
    out = np.zeros((5, int(sizes.sum())), np.int32)
    before = np.empty(int(lengths.sum()), np.int32)
    _build_trie(tokens, lengths, shared, np.cumsum(sizes) - sizes, out, before)
    return TrieNodes(sizes, out[0], out[1], out[2], out[3], out[4], before)
