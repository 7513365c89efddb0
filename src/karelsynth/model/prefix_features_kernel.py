"""The state of an example after a prefix of a program, as 114 small features; compiled.

Each feature is a number from 0 to 15. So a state against its target takes 114 bytes, and the network's first layer is a
product with one-hot rows. Features are relative to the hero's place and heading, as a program's sensors are. The first
81 are a window of 9 × 9 cells around the hero, turned to its heading (ahead is up; row by row, from the upper left).
A prefix runs for at most 200 ticks, an endless loop too: networks are trained on that. A pile of more than ten markers
counts as ten. `tests/test_prefix_runner.py` has the same definition in plain Python.

| feature | |
|---|---|
| 0 … 80 | a cell of the window: `CELL_CODE` of its content and the target's |
| 81 | the target's heading, in quarter turns to the right |
| 82, 83 | the target's place to the right and ahead, clipped to ±7, plus 7 |
| 84, 85 | markers under the hero, and in the target at that place |
| 86 | 0 the target is reached; 1 all markers are correct; else 1 + the bucket of the number of wrong cells |
| 87, 88 | the buckets of the numbers of cells with too many markers, and with too few |
| 89 | 0 the run has reached the end of the text; else the number of open blocks whose end it waits for |
| 90 | the run's status |
| 91 | ticks used: 0, 1, 2 … 3, 4 … 7, …, 128 and more |
| 92 … 95 | free cells ahead, to the right, behind and to the left, at most 15 |
| 96 … 99 | on those cells, the distance to the first one with markers; 0 without any |
| 100 … 103 | and to the first one whose markers differ from the target's |
| 104, 105 | the nearest wrong cell of all: its place, as 82 and 83; 15 without any |
| 106 … 109 | with the innermost open block closed here: 1 + the status, or 7 if the run waits then; and 86, 82, 83 |
| 110 … 113 | the same with all open blocks closed, up to one that cannot be: an IFELSE without its ELSE |

The last eight show the effect of a loop before the token that ends it is chosen. They are 15 (`NOTHING`) where no block
can be closed: none is open, or the innermost one is empty.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import types

from karelsynth.karel.compiled import BoolArray, I16Array, I32Array, I64Array, U8Array, compiled, read_only
from karelsynth.karel.formats.codes import HERO, SIDE, WALL
from karelsynth.karel.interpreter import PAPER_TICKS, Status
from karelsynth.karel.machine_kernel import (
    CELLS,
    PARSER_TYPE,
    code_buffers,
    compile_program,
    find_heroes,
    put_hero_back,
    run_code,
    take_hero_out,
)
from karelsynth.karel.structure_kernel import open_blocks
from karelsynth.karel.syntax_compiler import ParserTables
from karelsynth.karel.tokens import ACTIONS, ID

VALUES: Final = 16
"""Every feature is less than this."""
REACH: Final = 4
"""How far the window goes to each side of the hero."""
WINDOW: Final = (2 * REACH + 1) ** 2
_BEYOND_WINDOW: Final = 15 + 2 * 4 + 2
"""Features of a state other than the window."""
FEATURES: Final = WINDOW + _BEYOND_WINDOW + 2 * 4
FARTHEST: Final = 7
NOTHING: Final = VALUES - 1
WAITING: Final = 7
BLOCKED: Final = 1
"""The code of a cell that cannot be walked on: a wall, the frame or beyond."""


def cell_code(now: int, target: int) -> int:
    """The code of a cell with `now` markers where there should be `target`."""
    if now == target:
        return (0, 2, 3)[min(now, 2)]
    if now < target:
        return (4 if now == 0 else 7) + min(target - now, 3) - 1
    return 10 + min(now - target, 3) - 1 if target == 0 else 13 + min(now - target, 2) - 1


def _cell_codes() -> U8Array:
    codes = np.full((HERO, HERO), BLOCKED, np.uint8)
    for now in range(WALL):
        for target in range(HERO):
            codes[now, target] = cell_code(now, target if target < WALL else 0)
    return codes.ravel()


def _changing() -> BoolArray:
    changing = np.zeros(256, np.bool_)
    changing[[ID[name] for name in (*ACTIONS, "w(", "i(", "r(", "w)", "i)", "r)", "e)")]] = True
    return changing


CELL_CODE: Final = _cell_codes()
"""uint8 [256]: by 16 · content + target's content."""
BUCKETS: Final = np.array([0, 1, 2, 3, 4, 5, 6, 8, 11, 16, 24, 40])
"""Where each bucket of a number of cells begins."""
_BUCKET_OF: Final = (np.searchsorted(BUCKETS, np.arange(CELLS + 1), side="right") - 1).astype(np.uint8)
CHANGING: Final = _changing()
"""bool [256], by token id: tokens that may change an example's state."""
_UP: Final = np.array([1, 0, -1, 0])  # north, east, south, west
_RIGHT: Final = np.array([0, 1, 0, -1])
_OK, _INVALID, _TOO_HIGH = int(Status.OK), int(Status.INVALID_PROGRAM), int(Status.PILE_TOO_HIGH)
_RAYS: Final = WINDOW + 11
"""The index of the first feature of the four directions."""
_NEAREST: Final = WINDOW + 23
"""The index of the first feature of the nearest wrong cell."""
_CLOSED: Final = WINDOW + _BEYOND_WINDOW
"""The index of the first feature of closed blocks."""
_OPEN_W, _OPEN_R, _OPEN_I, _ELSE = ID["w("], ID["r("], ID["i("], ID["ELSE"]
_FNV_PRIME: Final = np.uint64(0x100000001B3)
_FNV_SEED: Final = np.uint64(0xCBF29CE484222325)
_FOLD: Final = np.uint64(29)


@compiled()
def _compared(worlds: U8Array, targets: U8Array, number: int) -> tuple[Any, ...]:
    """Compare world and target `number` of [K, 324].

    Returns the hero's cell and heading; features 81, 82, 83 and 86; the numbers of cells with too many markers and with
    too few.
    """
    # Sums without branches: the compiler vectorises them.
    place, aim, more, fewer = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    for cell in range(CELLS):
        now, then = worlds[number, cell], targets[number, cell]
        place += np.int32(now >= HERO) * np.int32(cell)
        aim += np.int32(then >= HERO) * np.int32(cell)
        now, then = now & np.uint8(15), then & np.uint8(15)
        both = np.int32(now < WALL) & np.int32(then < WALL)
        more += both & np.int32(now > then)
        fewer += both & np.int32(now < then)
    aim = min(aim, np.int32(CELLS - 1))  # an unchecked target may have several heroes: stay within the array
    heading = np.int64(worlds[number, place] // HERO) - 1
    turns = (np.int64(targets[number, aim] // HERO) - 1 - heading) & 3
    up, over = np.int64(aim // SIDE - place // SIDE), np.int64(aim % SIDE - place % SIDE)
    aside = up * _UP[(heading + 1) & 3] + over * _RIGHT[(heading + 1) & 3]
    ahead = up * _UP[heading] + over * _RIGHT[heading]
    aside, ahead = (min(max(aside, -FARTHEST), FARTHEST), min(max(ahead, -FARTHEST), FARTHEST))
    missing = 1 + np.int64(_BUCKET_OF[more + fewer])
    if more + fewer == 0:
        missing = np.int64(0 if place == aim and turns == 0 else 1)
    return place, heading, turns, aside + FARTHEST, ahead + FARTHEST, missing, more, fewer


@compiled()
def _describe_window(
    worlds: U8Array, targets: U8Array, number: int, place: int, heading: int, out: U8Array, row: int
) -> None:
    """Features 0 … 80: the cells around the hero."""
    ahead_row, ahead_col = _UP[heading], _RIGHT[heading]
    right_row, right_col = _UP[(heading + 1) & 3], _RIGHT[(heading + 1) & 3]
    at_row, at_col = np.int64(place // SIDE), np.int64(place % SIDE)
    at = 0
    for up in range(REACH, -REACH - 1, -1):
        for over in range(-REACH, REACH + 1):
            r = at_row + up * ahead_row + over * right_row
            c = at_col + up * ahead_col + over * right_col
            if 0 <= r < SIDE and 0 <= c < SIDE:
                cell = r * SIDE + c
                out[row, at] = CELL_CODE[(worlds[number, cell] & 15) << 4 | (targets[number, cell] & 15)]
            else:
                out[row, at] = BLOCKED
            at += 1


@compiled()
def _describe_rays(
    worlds: U8Array, targets: U8Array, number: int, place: int, heading: int, out: U8Array, row: int
) -> None:
    """Features 92 … 103: the free cells in the four directions, the first marked and the first wrong one."""
    for side in range(4):
        step = _UP[(heading + side) & 3] * SIDE + _RIGHT[(heading + side) & 3]
        beside, free, marked, wrong = place + step, 0, 0, 0
        while free < VALUES - 1 and (worlds[number, beside] & 15) < WALL:
            free += 1
            now, then = worlds[number, beside] & 15, targets[number, beside] & 15
            if now > 0 and marked == 0:
                marked = free
            if now != then and then < WALL and wrong == 0:
                wrong = free
            beside += step
        out[row, _RAYS + side] = free
        out[row, _RAYS + 4 + side] = marked
        out[row, _RAYS + 8 + side] = wrong


@compiled()
def _nearest_wrong(
    worlds: U8Array, targets: U8Array, number: int, place: int, heading: int
) -> tuple[np.int64, np.int64]:
    """Features 104 and 105: the nearest cell whose markers differ, to the right and ahead."""
    at_row, at_col = np.int64(place // SIDE), np.int64(place % SIDE)
    near_aside, near_ahead, nearest = np.int64(NOTHING), np.int64(NOTHING), np.int64(2 * SIDE)
    for cell in range(CELLS):
        now, then = worlds[number, cell] & 15, targets[number, cell] & 15
        if now != then and now < WALL and then < WALL:
            rows, cols = np.int64(cell // SIDE) - at_row, np.int64(cell % SIDE) - at_col
            distance = abs(rows) + abs(cols)
            if distance < nearest:
                nearest = distance
                over = rows * _UP[(heading + 1) & 3] + cols * _RIGHT[(heading + 1) & 3]
                up = rows * _UP[heading] + cols * _RIGHT[heading]
                near_aside = min(max(over, -FARTHEST), FARTHEST) + FARTHEST
                near_ahead = min(max(up, -FARTHEST), FARTHEST) + FARTHEST
    return near_aside, near_ahead


@compiled()
def _describe(
    worlds: U8Array, targets: U8Array, number: int, status: int, waits: int, ticks: int, out: U8Array, row: int
) -> None:
    """Write the features of world and target `number` of [K, 324] to out[row], except those of closed blocks."""
    place, heading, turns, aside, ahead, missing, more, fewer = _compared(worlds, targets, number)
    _describe_window(worlds, targets, number, place, heading, out, row)
    at = WINDOW
    out[row, at] = turns
    out[row, at + 1] = aside
    out[row, at + 2] = ahead
    out[row, at + 3] = worlds[number, place] & 15
    wanted = targets[number, place] & 15
    out[row, at + 4] = wanted if wanted < WALL else 0
    out[row, at + 5] = missing
    out[row, at + 6] = _BUCKET_OF[more]
    out[row, at + 7] = _BUCKET_OF[fewer]
    out[row, at + 8] = min(waits, VALUES - 1)
    out[row, at + 9] = status
    used = 0
    while ticks > 0 and used < 8:
        ticks >>= 1
        used += 1
    out[row, at + 10] = used
    _describe_rays(worlds, targets, number, place, heading, out, row)
    out[row, _NEAREST], out[row, _NEAREST + 1] = NOTHING, NOTHING
    if more + fewer > 0:
        out[row, _NEAREST], out[row, _NEAREST + 1] = _nearest_wrong(worlds, targets, number, place, heading)


@compiled()
def _write_text(prefix: U8Array, text: U8Array, closing: U8Array) -> tuple[int, int, int, int]:
    """Write a prefix, up to its last token that may change a state, and then the tokens that close its blocks.

    Returns the number of open blocks, and the length of the text as it is, with one block closed, and with all.
    """
    first = prefix.shape[0]
    while first > 0 and not CHANGING[prefix[first - 1]]:
        first -= 1
    for at in range(first):
        text[at] = prefix[at]
    blocks = open_blocks(text[:first], closing)
    inner, outer = first, first
    if first > 0 and text[first - 1] != _OPEN_W and text[first - 1] != _OPEN_R and text[first - 1] != _OPEN_I:
        for depth in range(blocks - 1, -1, -1):
            if closing[depth] == 0 or closing[depth] == _ELSE:  # an IFELSE without its ELSE
                break
            text[outer] = closing[depth]
            outer += 1
        inner = min(outer, first + 1)
    return blocks, first, inner, outer


@compiled()
def run_and_describe(
    prefix: U8Array,
    inputs: U8Array,
    heroes: I16Array,
    targets: U8Array,
    parser: ParserTables,
    text: U8Array,
    closing: U8Array,
    code: I64Array,
    origin: I16Array,
    stack: I32Array,
    opened: I32Array,
    counters: I32Array,
    worlds: U8Array,
    out: U8Array,
    first_row: int,
) -> None:
    """Run a prefix [L] on inputs [K, 324] with heroes [K], and write features to K rows of `out` [·, 114].

    The prefix is run up to its last token that may change a state. Only models without handwritten syntax write a wrong
    token in a head; it shows at the next such token, in training and decoding alike.

    Scratch memory: `text` [2 · L] holds the prefix and the tokens that close its blocks, `closing` [L + 1] is for
    `open_blocks`, the next five are the `CodeBuffers` for 2 · L tokens, and `worlds` [K, 324] gets the final worlds.
    The function allocates nothing, so a GPU can run it.
    """
    count = inputs.shape[0]
    blocks, first, inner, outer = _write_text(prefix, text, closing)
    for turn in range(3):  # the text as it is, with one block closed, with all blocks closed
        length = first if turn == 0 else inner if turn == 1 else outer
        place = _CLOSED + 4 * (turn - 1)
        if turn > 0 and length == first:
            for row in range(first_row, first_row + count):
                for at in range(place, place + 4):
                    out[row, at] = NOTHING
            continue
        if turn == 2 and outer == inner:
            for row in range(first_row, first_row + count):
                for at in range(place, place + 4):
                    out[row, at] = out[row, at - 4]
            continue
        wrong = compile_program(text[:length], parser, code, origin, stack, opened)
        for number in range(count):
            row = first_row + number
            at = int(heroes[number])
            heading = take_hero_out(inputs, number, at, worlds, number)
            status, ticks, waits = _INVALID, 0, -1
            if wrong < 0 or wrong == length:
                status, ticks, pc, _, at, heading = run_code(
                    code, counters, worlds, number, at, heading, PAPER_TICKS, worlds, False, worlds, False, 0, False,
                    True,
                )  # fmt: skip
                if status == _TOO_HIGH:  # only in passing
                    status = _OK
                if wrong == length and status == _OK:
                    waits = int(origin[pc])
            put_hero_back(worlds, number, at, heading)
            if turn == 0:
                _describe(worlds, targets, number, status, 0 if waits < 0 else blocks - waits, ticks, out, row)
            else:
                _, _, _, aside, ahead, missing, _, _ = _compared(worlds, targets, number)
                out[row, place] = WAITING if waits >= 0 else 1 + status
                out[row, place + 1] = missing
                out[row, place + 2] = aside
                out[row, place + 3] = ahead


@compiled(
    types.void(
        types.int64, types.int64, read_only(types.uint8, 2), read_only(types.int64, 1), read_only(types.int64, 1),
        read_only(types.uint8, 3), read_only(types.int16, 2), read_only(types.uint8, 3), PARSER_TYPE,
        types.uint8[:, ::1],
    )
)  # fmt: skip
def features_range(
    first: int,
    last: int,
    tokens: U8Array,
    lengths: I64Array,
    tasks: I64Array,
    inputs: U8Array,
    heroes: I16Array,
    targets: U8Array,
    parser: ParserTables,
    out: U8Array,
) -> None:
    """Write the features of prefixes first … last − 1 of tokens [N, L] with lengths [N] to out [N · K, 114].

    Args:
        tasks: [N], the row of `inputs` that each prefix runs on.
        inputs, targets: [B, K, 324].
        heroes: [B, K], the heroes' cells in the inputs.
    """
    count, most = inputs.shape[1], tokens.shape[1]
    text, closing = np.empty(2 * most, np.uint8), np.empty(most + 1, np.uint8)
    worlds = np.empty((count, CELLS), np.uint8)
    code, origin, stack, opened, counters = code_buffers(2 * most)
    for number in range(first, last):
        task = tasks[number]
        run_and_describe(
            tokens[number, : lengths[number]], inputs[task], heroes[task], targets[task], parser,
            text, closing, code, origin, stack, opened, counters, worlds, out, number * count,
        )  # fmt: skip


@compiled(
    types.int64(
        types.int64, types.int64, read_only(types.uint8, 2), read_only(types.int64, 1), read_only(types.int64, 2),
        read_only(types.int64, 2), read_only(types.uint8, 2), read_only(types.uint8, 2), PARSER_TYPE,
        types.uint8[:, ::1],
    )
)  # fmt: skip
def features_along_range(
    first: int,
    last: int,
    tokens: U8Array,
    lengths: I64Array,
    rows: I64Array,
    which: I64Array,
    inputs: U8Array,
    outputs: U8Array,
    parser: ParserTables,
    out: U8Array,
) -> int:
    """Write the features before every packed token of programs first … last − 1 to out [P · K, 114].

    Args:
        tokens: [N, L].
        lengths: [N].
        rows: [N, L], the row of each token among the P that are packed; -1 if it is not.
        which: [N, K], the examples that each program runs on.
        inputs, outputs: [·, 324].

    Returns the number of the first example that is no world, or -1.
    """
    count, most = which.shape[1], tokens.shape[1]
    heroes = np.empty((1, count), np.int16)
    befores, targets = np.empty((count, CELLS), np.uint8), np.empty((count, CELLS), np.uint8)
    text, closing = np.empty(2 * most, np.uint8), np.empty(most + 1, np.uint8)
    worlds = np.empty((count, CELLS), np.uint8)
    code, origin, stack, opened, counters = code_buffers(2 * most)
    for program in range(first, last):
        for number in range(count):
            for cell in range(CELLS):
                befores[number, cell] = inputs[which[program, number], cell]
                targets[number, cell] = outputs[which[program, number], cell]
        bad = find_heroes(0, 1, befores.reshape(1, count, SIDE, SIDE), heroes)
        if bad >= 0:
            return int(which[program, bad])
        before, changed = 0, True
        for at in range(lengths[program]):
            changed = changed or CHANGING[tokens[program, at - 1]]
            if rows[program, at] < 0:
                continue
            row = rows[program, at] * count
            if changed:
                run_and_describe(
                    tokens[program, :at], befores, heroes[0], targets, parser, text, closing, code,
                    origin, stack, opened, counters, worlds, out, row,
                )  # fmt: skip
            else:
                for number in range(count):
                    for feature in range(FEATURES):
                        out[row + number, feature] = out[before + number, feature]
            before, changed = row, False
    return -1


@compiled(types.int64(read_only(types.int64, 1), read_only(types.uint8, 3), types.int64[::1], types.int64[:, ::1]))
def group_states(tasks: I64Array, codes: U8Array, representatives: I64Array, index: I64Array) -> int:
    """Number the distinct states, in the order of their first occurrence.

    Two states are equal if they belong to the same example of the same task and have equal features. A hash table
    finds candidates; features are compared byte by byte.

    Args:
        tasks: [N].
        codes: [N, K, …], the features of N hypotheses on K examples.
        representatives: [N · K], filled with the first state n · K + k of each kind.
        index: [N, K], filled with the number of each state.

    Returns how many distinct states there are.
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
            key = (_FNV_SEED ^ np.uint64(tasks[row] * examples + example)) * _FNV_PRIME
            for at in range(width):
                key = (key ^ np.uint64(own[at])) * _FNV_PRIME
            place = (key ^ (key >> _FOLD)) & mask
            while True:
                number = table[place]
                if number < 0:
                    table[place], representatives[found], index[row, example] = found, row * examples + example, found
                    found += 1
                    break
                other = representatives[number] // examples
                if representatives[number] % examples == example and tasks[other] == tasks[row]:
                    same = True
                    there = codes[other, example]
                    for at in range(width):
                        same &= there[at] == own[at]
                    if same:
                        index[row, example] = number
                        break
                place = (place + np.uint64(1)) & mask
    return found
