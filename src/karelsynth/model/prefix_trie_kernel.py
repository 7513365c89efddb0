"""The layout of prefix tries, with and without sharing, compiled: threads that pack batches then run in parallel."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from karelsynth.karel.compiled import BoolArray, I16Array, I32Array, I64Array, U8Array, compiled, read_only
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.threads import parallel_for
from karelsynth.karel.tokens import ID, START

ALL_TOKENS: Final = np.ones(256, np.bool_)
UNFORCED: Final = ~np.isin(np.arange(256), [ID[token] for token in KAREL.forced_tokens()])
"""bool [256], by token id: tokens that the grammar does not force."""


def packed_places(
    tokens: U8Array, lengths: NDArray[np.integer], *, skip_forced_tokens: bool
) -> tuple[BoolArray, I64Array]:
    """Which tokens of programs [N, L] are packed, bool [N, L], and their positions from the left, int64 [N, L].

    Entries beyond a program's number of packed tokens are undefined.
    """
    packed = (UNFORCED if skip_forced_tokens else ALL_TOKENS)[tokens] & (np.arange(tokens.shape[1]) < lengths[:, None])
    return packed, np.argsort(~packed, axis=1, kind="stable")


class PackedLayout(NamedTuple):
    """Where the P packed tokens of N programs [N, L] lie: by step, then by program, the longest first."""

    order: I64Array
    """[N]: the programs by how many of their tokens are packed, the most first."""
    step_sizes: I64Array
    """[T]: how many programs have a token at each step."""
    rows: I64Array
    """[N, L], programs in that order: the row of each token, or -1 if it is not packed."""
    columns: I32Array
    """[5, P], for each packed token: the packed token before it, `<s>` for the first; the token; its program's number
    as given; the program's place in `order`; the token's place in the program."""


@compiled(
    types.void(read_only(types.uint8, 2), read_only(types.int64, 1), read_only(types.boolean, 1), types.int64[::1])
)
def _count(tokens: U8Array, lengths: I64Array, packed: BoolArray, counts: I64Array) -> None:
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
    tokens: U8Array,
    lengths: I64Array,
    order: I64Array,
    offsets: I64Array,
    packed: BoolArray,
    rows: I64Array,
    columns: I32Array,
) -> None:
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


def packed_layout(tokens: U8Array, lengths: I64Array, packed: BoolArray = ALL_TOKENS) -> PackedLayout:
    """Lay out programs [N, L] with lengths [N]. `packed` [256] says, by token id, which tokens are packed."""
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
    """P distinct prefixes of N programs with M packed tokens, by depth: the nodes of `prefix_trie.PrefixTrie`."""

    order: I64Array
    """[N]: the programs by task, then by their packed tokens."""
    counts: I64Array
    """[N]: how many tokens are packed, programs in that order."""
    sizes: I64Array
    """[T]: the number of nodes at each depth."""
    nodes: I32Array
    """[5, P]: the last token, `<s>` at depth 0; the parent, the first child, and one more than the last child, each
    numbered within its depth; the task."""
    rows: I32Array
    """[2, P]: a program with this prefix, as given; how many of its tokens the prefix has, forced ones included."""
    targets: I32Array
    """[3, M], program by program in that order: the node before a token; the token; its program, as given."""


_LAST, _PARENT, _FIRST, _END, _TASK = range(5)


@compiled()
def _before(one: int, two: int, ids: U8Array, counts: I64Array) -> bool:
    """Whether program `one` comes before program `two`; False if they are equal."""
    for at in range(min(counts[one], counts[two])):
        if ids[one, at] != ids[two, at]:
            return bool(ids[one, at] < ids[two, at])
    return bool(counts[one] < counts[two])


@compiled(
    types.void(
        types.int64, types.int64, read_only(types.int64, 1), read_only(types.uint8, 2), read_only(types.int64, 1),
        read_only(types.boolean, 1), types.uint8[:, ::1], types.int16[:, ::1], types.int64[::1], types.int64[::1],
        types.int64[::1], types.int64[::1], types.int64[:, ::1],
    )
)  # fmt: skip
def _sort_and_count(
    first: int,
    last: int,
    offsets: I64Array,
    tokens: U8Array,
    lengths: I64Array,
    packed: BoolArray,
    ids: U8Array,
    places: I16Array,
    counts: I64Array,
    order: I64Array,
    other: I64Array,
    shared: I64Array,
    sizes: I64Array,
) -> None:
    """For tasks first … last − 1: sort their programs by their packed tokens and count their nodes.

    Args:
        offsets: [G + 1], task g has the programs order[offsets[g]] … order[offsets[g + 1] − 1].
        ids, places, counts: [N, L], [N, L], [N]: the packed tokens, their places, and how many there are; filled.
        order: [N], sorted within each task by merging; `other` is room for it.
        shared: [N], in that order: how many nodes each program shares with the one before it; filled.
        sizes: [G, L], the number of nodes by task and depth; filled.
    """
    for task in range(first, last):
        for at in range(offsets[task], offsets[task + 1]):
            row, count = order[at], 0
            for place in range(lengths[row]):
                if packed[tokens[row, place]]:
                    ids[row, count], places[row, count] = tokens[row, place], place
                    count += 1
            counts[row] = count
        begin, end = offsets[task], offsets[task + 1]
        width = 1
        while width < end - begin:
            for left in range(begin, end, 2 * width):
                middle, right = min(left + width, end), min(left + 2 * width, end)
                one, two = left, middle
                for at in range(left, right):
                    if two < right and (one == middle or _before(order[two], order[one], ids, counts)):
                        other[at] = order[two]
                        two += 1
                    else:
                        other[at] = order[one]
                        one += 1
            order[begin:end] = other[begin:end]
            width *= 2
        for at in range(begin, end):
            row, same = order[at], 0
            if at > begin:
                above = order[at - 1]
                limit = min(counts[row], counts[above])
                same = min(1, limit)
                while same < limit and ids[row, same - 1] == ids[above, same - 1]:
                    same += 1
            shared[at] = same
            for depth in range(same, counts[row]):
                sizes[task, depth] += 1


@compiled(
    types.void(
        types.int64, types.int64, read_only(types.int64, 1), read_only(types.int64, 1), read_only(types.int64, 1),
        read_only(types.uint8, 2), read_only(types.int16, 2), read_only(types.int64, 1), read_only(types.int64, 1),
        read_only(types.int64, 2), read_only(types.int64, 1), read_only(types.int64, 1), types.int32[:, ::1],
        types.int32[:, ::1], types.int32[:, ::1],
    )
)  # fmt: skip
def _fill_nodes(
    first: int,
    last: int,
    offsets: I64Array,
    owners: I64Array,
    order: I64Array,
    ids: U8Array,
    places: I16Array,
    counts: I64Array,
    shared: I64Array,
    starts: I64Array,
    depths: I64Array,
    target_starts: I64Array,
    nodes: I32Array,
    rows: I32Array,
    targets: I32Array,
) -> None:
    """Fill `TrieNodes` for tasks first … last − 1.

    Args:
        owners: [G], the number of each task.
        starts: [G, T], how many nodes of a depth belong to earlier tasks.
        depths: [T], how many nodes have a smaller depth.
        target_starts: [N], how many tokens the programs before have, in `order`.
    """
    levels = depths.shape[0]
    for task in range(first, last):
        used = np.zeros(levels, np.int64)
        current = np.zeros(levels, np.int64)
        """The nodes on the path of the current program, numbered within their depth."""
        for at in range(offsets[task], offsets[task + 1]):
            row = order[at]
            for depth in range(shared[at], counts[row]):
                number = starts[task, depth] + used[depth]
                used[depth] += 1
                current[depth] = number
                node = depths[depth] + number
                nodes[_LAST, node] = ids[row, depth - 1] if depth else START
                nodes[_TASK, node] = owners[task]
                rows[0, node], rows[1, node] = row, places[row, depth]
                if depth:
                    parent = depths[depth - 1] + current[depth - 1]
                    nodes[_PARENT, node] = current[depth - 1]
                    if nodes[_END, parent] == 0:
                        nodes[_FIRST, parent] = number
                    nodes[_END, parent] = number + 1
            start = target_starts[at]
            for depth in range(counts[row]):
                targets[0, start + depth] = depths[depth] + current[depth]
                targets[1, start + depth] = ids[row, depth]
                targets[2, start + depth] = row


def trie_layout(tokens: U8Array, lengths: I64Array, tasks: I64Array, packed: BoolArray = ALL_TOKENS) -> TrieNodes:
    """The distinct prefixes of programs [N, L] with lengths [N] of tasks [N]; `packed` as in `packed_layout`.

    Threads share the tasks: with 64 candidates each, sorting and numbering take longer on one core than a GPU takes to
    search.
    """
    tokens = np.ascontiguousarray(tokens)
    ids, places = np.empty_like(tokens), np.empty_like(tokens, np.int16)
    counts = np.empty(len(tokens), np.int64)
    order = np.arange(len(tokens)) if np.all(tasks[1:] >= tasks[:-1]) else np.argsort(tasks, kind="stable")
    ordered = tasks[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    offsets, owners = np.append(begins, len(tokens)), ordered[begins]
    groups, per_group = len(owners), -(-len(tokens) // len(owners))
    shared, other = np.empty_like(order), np.empty_like(order)
    sizes = np.zeros((groups, tokens.shape[1]), np.int64)
    parallel_for(
        _sort_and_count, groups, per_group, None,
        offsets, tokens, lengths, packed, ids, places, counts, order, other, shared, sizes,
    )  # fmt: skip
    sizes = sizes[:, : int(counts.max(initial=0))]
    whole, in_order = sizes.sum(0), counts[order]
    nodes, rows = np.zeros((5, int(whole.sum())), np.int32), np.empty((2, int(whole.sum())), np.int32)
    targets = np.empty((3, int(counts.sum())), np.int32)
    starts, depths = np.cumsum(sizes, axis=0) - sizes, np.cumsum(whole) - whole
    target_starts = np.cumsum(in_order) - in_order
    parallel_for(
        _fill_nodes, groups, per_group, None,
        offsets, owners, order, ids, places, counts, shared, starts, depths, target_starts, nodes, rows, targets,
    )  # fmt: skip
    return TrieNodes(order, in_order, whole, nodes, rows, targets)
