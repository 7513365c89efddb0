"""Drawing programs (Numba): statement by statement from the sampler's tables, always in the normal form.

The functions here and in the other kernels share a source of random bits: one 64-bit counter that each draw advances
by a constant and scrambles (splitmix64).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled
from karelsynth.karel.tokens import COUNTS, ID, PAD
from karelsynth.tasks.kernel_layout import (
    ALONE,
    BEFORE,
    BODY_ROW,
    CONDITION_ROW,
    COUNT_ROW,
    KEEP_CONTROLS_ROW,
    KEEP_HOLDING_ROW,
    KEEP_LENGTH_ROW,
    KEEP_TRACES_ROW,
    LEVELS,
    LONGEST,
    STATEMENT_ROW,
    TRACE_EDGES,
    Sampler,
)

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_S4, _S16, _SLOT = np.uint64(4), np.uint64(16), np.uint64(15)
SCRATCH_TOKENS: Final = LONGEST + 16
"""Room for the longest program and for what is written before it is found to be too long."""

_ACTION = ID["move"]
_PICK_KIND, _PUT_KIND, _FIRST_CONTROL = 3, 4, 5
_REPEAT_KIND, _WHILE_KIND, _IFELSE_KIND = 5, 6, 8
_REPEAT, _ELSE, _NOT = ID["REPEAT"], ID["ELSE"], ID["not"]
_SENSOR, _FIRST_COUNT = ID["markersPresent"], ID[COUNTS[2]]
_SENSORS = 5
_FIRST_CLEAR = ID["leftIsClear"]
_OPEN_C, _CLOSE_C = ID["c("], ID["c)"]
_THEN, _OTHERWISE = 4, 5  # among the bodies
_OPENERS = np.array([ID[name] for name in ("m(", "r(", "w(", "i(", "i(", "e(")], np.uint8)
_CLOSERS = np.array([ID[name] for name in ("m)", "r)", "w)", "i)", "i)", "e)")], np.uint8)
_HEAD = np.array([ID["DEF"], ID["run"], ID["m("]], np.uint8)
_EDGES = np.array(TRACE_EDGES)
_RESERVED: Final = np.uint64((1 << 32) // 10)
SHORTEST_RESERVED: Final = 12


@compiled()
def mix(bits: np.uint64) -> np.uint64:  # pragma: no cover - compiled
    """Scramble 64 bits."""
    bits = (bits ^ (bits >> _S30)) * _FIRST
    bits = (bits ^ (bits >> _S27)) * _SECOND
    return bits ^ (bits >> _S31)


@compiled()
def draw(state: NDArray[np.uint64]) -> np.uint64:  # pragma: no cover - compiled
    """The next 64 random bits; `state` [1] advances."""
    state[0] += _GAMMA
    bits: np.uint64 = mix(state[0])
    return bits


@compiled()
def choose(sampler: Sampler, row: int, bits: np.uint64) -> int:  # pragma: no cover - compiled
    """A number from 0 to 15, drawn from an alias row with 64 random bits (the lowest 4, the highest 32)."""
    slot = bits & _SLOT
    entry = sampler[row, slot]
    alias = np.uint64((bits >> _S32) >= entry >> _S4)  # arithmetic, since no processor could foresee the branch
    return int(slot + alias * ((entry & _SLOT) - slot))


@compiled()
def is_reserved_program(tokens: NDArray[np.uint8], length: int) -> bool:  # pragma: no cover - compiled
    """Whether the program of `length` tokens is one of the tenth of the longer ones that are kept for testing."""
    if length < SHORTEST_RESERVED:
        return False
    bits = np.uint64(length)
    for at in range(length):
        bits = mix(bits * _GAMMA + np.uint64(tokens[at]))
    return bool((bits >> _S32) < _RESERVED)


@compiled()
def reserved_rows(tokens: NDArray[np.uint8], reserved: NDArray[np.bool_]) -> None:  # pragma: no cover - compiled
    """Fill `reserved` [N] for programs [N, L], padded with `<pad>`."""
    for row in range(len(tokens)):
        length = 0
        while length < tokens.shape[1] and tokens[row, length] != PAD:
            length += 1
        reserved[row] = is_reserved_program(tokens[row], length)


@compiled()
def trace_class(length: int) -> int:  # pragma: no cover - compiled
    """The class of a trace's length; see TRACE_EDGES."""
    number = 0
    while number < len(_EDGES) and length >= _EDGES[number]:
        number += 1
    return number


@compiled()
def draw_program(
    state: NDArray[np.uint64], sampler: Sampler, tokens: NDArray[np.uint8], blocks: NDArray[np.int64]
) -> int:  # pragma: no cover - compiled
    """Write one program into `tokens` [SCRATCH_TOKENS]; returns its length, or 0 if this draw came to nothing.

    `blocks` [LEVELS + 1, 5] is scratch space. For each open block: which body it is, how many statements are to come,
    the kind of the last one plus 1 (0: none yet), whether the last two are equal actions, and how often, in
    sixteenths, it may be expected to run: a WHILE is taken to run its body twice, an IF every other time.
    """
    tokens[0], tokens[1], tokens[2] = _HEAD[0], _HEAD[1], _HEAD[2]
    size, depth, controls, held, actions = 3, 0, 0, 0, 0
    blocks[0, 0], blocks[0, 2], blocks[0, 3], blocks[0, 4] = 0, 0, 0, 16
    blocks[0, 1] = 1 + choose(sampler, BODY_ROW, draw(state))
    while depth >= 0:
        if size > LONGEST:
            return 0
        body = blocks[depth, 0]
        if blocks[depth, 1] == 0:
            tokens[size] = _CLOSERS[body]
            size += 1
            if body == _THEN:
                tokens[size], tokens[size + 1] = _ELSE, _OPENERS[_OTHERWISE]
                size += 2
                blocks[depth, 0], blocks[depth, 2], blocks[depth, 3] = _OTHERWISE, 0, 0
                blocks[depth, 1] = 1 + choose(sampler, BODY_ROW + _OTHERWISE, draw(state))
            else:
                depth -= 1
            continue
        before = blocks[depth, 2]
        if before == 0 and blocks[depth, 1] == 1:
            before = ALONE
        row = STATEMENT_ROW + (min(body, _THEN) * LEVELS + depth) * BEFORE + before
        kind = choose(sampler, row, draw(state))
        if before == kind + 1:
            if blocks[depth, 3]:
                continue  # a third equal action: draw another statement
            blocks[depth, 3] = kind < _FIRST_CONTROL
        else:
            blocks[depth, 3] = 0
        blocks[depth, 1] -= 1
        blocks[depth, 2] = kind + 1
        held |= 1 << kind
        if kind < _FIRST_CONTROL:
            tokens[size] = _ACTION + kind
            size += 1
            actions += blocks[depth, 4]
            continue
        controls += 1
        runs = blocks[depth, 4]
        inner = kind - _FIRST_CONTROL + 1
        tokens[size] = _REPEAT + kind - _REPEAT_KIND
        if kind == _REPEAT_KIND:
            count = choose(sampler, COUNT_ROW, draw(state))
            tokens[size + 1] = _FIRST_COUNT + count
            size += 2
            runs *= 2 + count
        else:
            runs = runs * 2 if kind == _WHILE_KIND else runs >> 1
            condition = choose(sampler, CONDITION_ROW, draw(state))
            tokens[size + 1] = _OPEN_C
            size += 2
            if condition < _SENSORS:
                tokens[size] = _SENSOR + condition
                size += 1
            else:
                tokens[size], tokens[size + 1] = _NOT, _OPEN_C
                tokens[size + 2], tokens[size + 3] = _FIRST_CLEAR + condition - _SENSORS, _CLOSE_C
                size += 4
            tokens[size] = _CLOSE_C
            size += 1
        tokens[size] = _OPENERS[inner]
        size += 1
        depth += 1
        blocks[depth, 0], blocks[depth, 2], blocks[depth, 3], blocks[depth, 4] = inner, 0, 0, runs
        blocks[depth, 1] = 1 + choose(sampler, BODY_ROW + inner, draw(state))
    if size > LONGEST or not held & 1 or not held & (1 << _PICK_KIND | 1 << _PUT_KIND):
        return 0
    keep = sampler[KEEP_LENGTH_ROW + (size >> 4), size & 15]
    keep = keep * sampler[KEEP_CONTROLS_ROW, controls]
    if controls > 0:
        keep = keep * sampler[KEEP_TRACES_ROW, trace_class(actions >> 4)] >> _S16
    for kind in range(_IFELSE_KIND + 1):
        keep = keep * sampler[KEEP_HOLDING_ROW + (held >> kind & 1), kind] >> _S16
    return size if (draw(state) >> _S32) < keep else 0
