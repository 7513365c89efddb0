"""Where a beginning of a program has led an example, in 96 small codes; compiled.

Each code is a number from 0 to 15, so that a state against its target is 96 bytes and the network's first layer a
product with one-hot rows. All is told as the hero sees it, which makes equal what is equal to a program: the first 81
codes are a window of 9 × 9 cells around the hero, turned to its heading (ahead is up; row by row, from the upper left),
the others say what the window does not. `tests/test_execution.py` has the same in plain Python.

| code | |
|---|---|
| 0 … 80 | a cell of the window: `CELL_CODE` of what is there and what the target has there |
| 81 | the target's heading, in quarter turns to the right |
| 82, 83 | the target's place to the right and ahead, cut off at ±7, plus 7 |
| 84, 85 | markers under the hero, and in the target at that place |
| 86 | 0 the target is reached; 1 all markers are right; else 1 + the bucket of how many cells are not |
| 87, 88 | the buckets of how many cells have too many markers, and too few |
| 89 | 0 the run has come to the end of the text; else how many open blocks it waits for the end of |
| 90 | the run's status |
| 91 | ticks used: 0, 1, 2 … 3, 4 … 7, …, 128 and more |
| 92 … 95 | free cells ahead, to the right, behind and to the left, at most 15 |
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled, given
from karelsynth.karel.formats.codes import HERO, SIDE, WALL
from karelsynth.karel.interpreter import MAX_TICKS
from karelsynth.karel.machine_kernel import CELLS, IF, IFELSE, find_heroes, run_range
from karelsynth.karel.tokens import ACTIONS, ID, VOCABULARY_SIZE

VALUES: Final = 16
"""Every code is less than this."""
REACH: Final = 4
"""How far the window goes to each side of the hero."""
WINDOW: Final = (2 * REACH + 1) ** 2
FEATURES: Final = WINDOW + 15
FARTHEST: Final = 7
BLOCKED: Final = 1
"""The code of a cell that cannot be walked on, be it a wall, the frame or beyond."""


def cell_code(now: int, target: int) -> int:
    """The code of a cell with `now` markers where there should be `target`."""
    if now == target:
        return (0, 2, 3)[min(now, 2)]
    if now < target:
        return (4 if now == 0 else 7) + min(target - now, 3) - 1
    return 10 + min(now - target, 3) - 1 if target == 0 else 13 + min(now - target, 2) - 1


def _cell_codes() -> NDArray[np.uint8]:
    codes = np.full((HERO, HERO), BLOCKED, np.uint8)
    for now in range(WALL):
        for target in range(HERO):
            codes[now, target] = cell_code(now, target if target < WALL else 0)
    return codes.ravel()


def _changing() -> NDArray[np.bool_]:
    changing = np.zeros(VOCABULARY_SIZE, np.bool_)
    changing[[ID[name] for name in (*ACTIONS, "w(", "i(", "r(", "w)", "i)", "r)", "e)")]] = True
    return changing


CELL_CODE: Final = _cell_codes()
"""uint8 [256]: by 16 · content + target's content."""
BUCKETS: Final = np.array([0, 1, 2, 3, 4, 5, 6, 8, 11, 16, 24, 40])
"""Where each bucket of a number of cells begins."""
_BUCKET_OF: Final = (np.searchsorted(BUCKETS, np.arange(CELLS + 1), side="right") - 1).astype(np.uint8)
CHANGING: Final = _changing()
"""bool [52]: tokens that may lead an example to another state; after all others it is where it was."""
_UP: Final = np.array([1, 0, -1, 0])  # north, east, south, west
_RIGHT: Final = np.array([0, 1, 0, -1])
_OPEN_W, _OPEN_R, _OPEN_I = ID["w("], ID["r("], ID["i("]
_CLOSE_W, _CLOSE_R, _CLOSE_I, _CLOSE_E = ID["w)"], ID["r)"], ID["i)"], ID["e)"]


@compiled()
def open_blocks(tokens: NDArray[np.uint8]) -> int:  # pragma: no cover - compiled
    """How many blocks are open at the end of tokens [L]; an IFELSE's two are one, open from `i(` to `e)`."""
    depth, kind = 0, 0
    with_else = np.zeros(tokens.shape[0] + 1, np.bool_)
    for token in tokens:
        if token == IF or token == IFELSE:
            kind = token
        elif token == _OPEN_W or token == _OPEN_R or token == _OPEN_I:
            with_else[depth] = token == _OPEN_I and kind == IFELSE
            depth += 1
        elif token == _CLOSE_I and depth > 0 and with_else[depth - 1]:
            with_else[depth - 1] = False
        elif token == _CLOSE_W or token == _CLOSE_R or token == _CLOSE_I or token == _CLOSE_E:
            depth = max(0, depth - 1)
    return depth


@compiled()
def _describe(
    worlds: NDArray[np.uint8],
    targets: NDArray[np.uint8],
    number: int,
    status: int,
    waits: int,
    ticks: int,
    out: NDArray[np.uint8],
    row: int,
) -> None:  # pragma: no cover - compiled
    """The codes of world and target `number` of [K, 324], to out[row]."""
    # Sums without branches, which the compiler turns into vector instructions.
    place, aim, more, fewer = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    for cell in range(CELLS):
        now, then = worlds[number, cell], targets[number, cell]
        place += np.int32(now >= HERO) * np.int32(cell)
        aim += np.int32(then >= HERO) * np.int32(cell)
        now, then = now & np.uint8(15), then & np.uint8(15)
        both = np.int32(now < WALL) & np.int32(then < WALL)
        more += both & np.int32(now > then)
        fewer += both & np.int32(now < then)
    heading = np.int64(worlds[number, place] // HERO) - 1
    turns = (np.int64(targets[number, aim] // HERO) - 1 - heading) & 3
    ahead_row, ahead_col = _UP[heading], _RIGHT[heading]
    right_row, right_col = _UP[(heading + 1) & 3], _RIGHT[(heading + 1) & 3]
    at_row, at_col = np.int64(place // SIDE), np.int64(place % SIDE)
    at = 0
    for ahead in range(REACH, -REACH - 1, -1):
        for aside in range(-REACH, REACH + 1):
            r = at_row + ahead * ahead_row + aside * right_row
            c = at_col + ahead * ahead_col + aside * right_col
            if 0 <= r < SIDE and 0 <= c < SIDE:
                cell = r * SIDE + c
                both_codes = (worlds[number, cell] & 15) << 4 | (targets[number, cell] & 15)
                out[row, at] = CELL_CODE[both_codes]
            else:
                out[row, at] = BLOCKED
            at += 1
    up_to_go, right_to_go = np.int64(aim // SIDE) - at_row, np.int64(aim % SIDE) - at_col
    aside = up_to_go * right_row + right_to_go * right_col
    ahead = up_to_go * ahead_row + right_to_go * ahead_col
    out[row, at] = turns
    out[row, at + 1] = min(max(aside, -FARTHEST), FARTHEST) + FARTHEST
    out[row, at + 2] = min(max(ahead, -FARTHEST), FARTHEST) + FARTHEST
    out[row, at + 3] = worlds[number, place] & 15
    wanted = targets[number, place] & 15
    out[row, at + 4] = wanted if wanted < WALL else 0
    if more + fewer > 0:
        out[row, at + 5] = 1 + _BUCKET_OF[more + fewer]
    else:
        out[row, at + 5] = 0 if place == aim and turns == 0 else 1
    out[row, at + 6] = _BUCKET_OF[more]
    out[row, at + 7] = _BUCKET_OF[fewer]
    out[row, at + 8] = min(waits, VALUES - 1)
    out[row, at + 9] = status
    used = 0
    while ticks > 0 and used < 8:
        ticks >>= 1
        used += 1
    out[row, at + 10] = used
    for side in range(4):
        step = _UP[(heading + side) & 3] * SIDE + _RIGHT[(heading + side) & 3]
        cell, free = place + step, 0
        while free < VALUES - 1 and (worlds[number, cell] & 15) < WALL:
            cell += step
            free += 1
        out[row, at + 11 + side] = free


@compiled()
def _run_and_describe(
    prefix: NDArray[np.uint8],
    inputs: NDArray[np.uint8],
    heroes: NDArray[np.int16],
    targets: NDArray[np.uint8],
    transition: NDArray[np.int32],
    symbols: int,
    start: int,
    worlds: NDArray[np.uint8],
    out: NDArray[np.uint8],
    first_row: int,
) -> None:  # pragma: no cover - compiled
    """Run tokens [L] on inputs [K, 324] with heroes [1, K], and write codes to K rows of `out` [·, 96].

    They are run up to the last one that may change something, so that a wrong token in a head, which only models
    without handwritten syntax write, shows when the next such token comes: in training and decoding alike.
    `worlds` [K, 324] is scratch space, for the worlds that the examples are led to.
    """
    count, length = inputs.shape[0], prefix.shape[0]
    while length > 0 and not CHANGING[prefix[length - 1]]:
        length -= 1
    telling = prefix[:length].copy()
    status, waits = np.empty((1, count), np.uint8), np.empty((1, count), np.int16)
    ticks, where = np.empty((1, count), np.int16), np.empty((1, count), np.int16)
    correct, nothing = np.empty((0, 0), np.bool_), np.empty((0, 0), np.uint8)
    lengths, seen = np.empty((0, 0), np.int16), np.empty((0, 0, 0), np.uint8)
    run_range(
        0, 1, telling.reshape(1, length), np.zeros(1, np.int64), inputs, heroes, nothing, transition, symbols, start,
        MAX_TICKS, status, ticks, where, worlds, correct, nothing, lengths, seen, waits,
        True, False, False, False, True,
    )  # fmt: skip
    blocks = open_blocks(telling)
    for number in range(count):
        waiting = 0 if waits[0, number] < 0 else blocks - waits[0, number]
        _describe(
            worlds, targets, number, status[0, number], waiting, ticks[0, number], out, first_row + number
        )  # fmt: skip


@compiled(
    types.void(
        types.int64, types.int64, given(types.uint8, 2), given(types.int64, 1), given(types.uint8, 3),
        given(types.int16, 2), given(types.uint8, 3), given(types.int32, 2), types.int64, types.int64,
        types.uint8[:, ::1],
    )
)  # fmt: skip
def features_range(
    first: int,
    last: int,
    tokens: NDArray[np.uint8],
    tasks: NDArray[np.int64],
    inputs: NDArray[np.uint8],
    heroes: NDArray[np.int16],
    targets: NDArray[np.uint8],
    transition: NDArray[np.int32],
    symbols: int,
    start: int,
    out: NDArray[np.uint8],
) -> None:  # pragma: no cover - compiled
    """For prefixes first … last − 1 of tokens [N, L], codes to out [N · K, 96].

    Args:
        tasks: [N], the row of `inputs` that each prefix runs on.
        inputs, targets: [B, K, 324].
        heroes: [B, K], where they stand in the inputs.
    """
    count = inputs.shape[1]
    worlds = np.empty((count, CELLS), np.uint8)
    for number in range(first, last):
        task = tasks[number]
        _run_and_describe(
            tokens[number], inputs[task], heroes[task].reshape(1, count), targets[task], transition,
            symbols, start, worlds, out, number * count,
        )  # fmt: skip


@compiled(
    types.int64(
        types.int64, types.int64, given(types.uint8, 2), given(types.int64, 1), given(types.int64, 1),
        given(types.int64, 2), given(types.uint8, 2), given(types.uint8, 2), given(types.int32, 2), types.int64,
        types.int64, types.uint8[:, ::1],
    )
)  # fmt: skip
def features_along_range(
    first: int,
    last: int,
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    offsets: NDArray[np.int64],
    shown: NDArray[np.int64],
    inputs: NDArray[np.uint8],
    outputs: NDArray[np.uint8],
    transition: NDArray[np.int32],
    symbols: int,
    start: int,
    out: NDArray[np.uint8],
) -> int:  # pragma: no cover - compiled
    """Codes before every token of programs first … last − 1, laid out as packed programs are, to out [P · K, 96].

    Args:
        tokens: [N, L], the longest program first.
        lengths: [N].
        offsets: [T], where each step begins among the P tokens.
        shown: [N, K], which of the examples each program is shown.
        inputs, outputs: [·, 324].

    Returns the number of the first example that is no world, or -1.
    """
    count = shown.shape[1]
    heroes = np.empty((1, count), np.int16)
    befores, targets = np.empty((count, CELLS), np.uint8), np.empty((count, CELLS), np.uint8)
    worlds = np.empty((count, CELLS), np.uint8)
    for program in range(first, last):
        for number in range(count):
            for cell in range(CELLS):
                befores[number, cell] = inputs[shown[program, number], cell]
                targets[number, cell] = outputs[shown[program, number], cell]
        bad = find_heroes(0, 1, befores.reshape(1, count, SIDE, SIDE), heroes)
        if bad >= 0:
            return int(shown[program, bad])
        for at in range(lengths[program]):
            row = (offsets[at] + program) * count
            if at == 0 or CHANGING[tokens[program, at - 1]]:
                _run_and_describe(
                    tokens[program, :at], befores, heroes, targets, transition, symbols, start,
                    worlds, out, row,
                )  # fmt: skip
            else:
                before = (offsets[at - 1] + program) * count
                for number in range(count):
                    for code in range(FEATURES):
                        out[row + number, code] = out[before + number, code]
    return -1
