"""The layout of packed programs, compiled: batches are packed by threads, which should not hold up each other."""

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
"""bool [256]: which tokens are packed, all of them or only those that are a choice."""


def packed_places(
    tokens: NDArray[np.uint8], lengths: NDArray[np.integer], *, skip_forced_tokens: bool
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which tokens of programs [N, L] are packed, [N, L], and their places, of each program from the left, [N, L].

    Places beyond a program's number of packed tokens mean nothing.
    """
    packed = (UNFORCED if skip_forced_tokens else ALL_TOKENS)[tokens] & (np.arange(tokens.shape[1]) < lengths[:, None])
    return packed, np.argsort(~packed, axis=1, kind="stable")


class Layout(NamedTuple):
    """Where the P packed tokens of N programs [N, L] lie: by step, and within a step by program, the longest first."""

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
def _lay_out(
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


def lay_out(tokens: NDArray[np.uint8], lengths: NDArray[np.int64], packed: NDArray[np.bool_] = ALL_TOKENS) -> Layout:
    """Lay out the tokens of programs [N, L] of so many tokens [N] that are `packed` [256], by token."""
    tokens, counts = np.ascontiguousarray(tokens), np.empty(len(tokens), np.int64)
    _count(tokens, lengths, packed, counts)
    order = np.argsort(-counts, kind="stable")
    steps = int(counts.max(initial=0))
    step_sizes = len(tokens) - np.searchsorted(counts[order][::-1], np.arange(steps), side="right")
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(step_sizes, dtype=np.int64)])
    rows = np.full(tokens.shape, -1, np.int64)
    columns = np.empty((5, int(offsets[-1])), np.int32)
    _lay_out(tokens, lengths, order, offsets, packed, rows, columns)
    return Layout(order, step_sizes, rows, columns)
