"""Drawing programs (Numba): statement by statement from the sampler's tables, always in the normal form.

The functions here and in the other kernels share a source of random bits: one 64-bit counter that each draw advances
by a constant and scrambles (splitmix64).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled
from karelsynth.karel.tokens import COUNTS, ID, PAD
from karelsynth.tasks.batch import MAX_TOKENS
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
    MOST_TOKENS,
    SETTINGS_ROW,
    SLOTS,
    STATEMENT_ROW,
    TRACE_EDGES,
    Sampler,
)

GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
"""mix(n · GAMMA) for n = 1, 2, … are splitmix64's numbers."""
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_ZERO, _S4, _S16, _SLOT, _SLOTS = np.uint64(0), np.uint64(4), np.uint64(16), np.uint64(15), np.uint64(SLOTS)
SCRATCH_TOKENS: Final = MAX_TOKENS + 16
"""Room for the longest program and for what is written before it is found to be too long."""

signed: Any = np.int64
"""For numbers that are to meet signed ones: of one with a sign and one without, Numba makes a float."""
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
_CLASSES = np.searchsorted(TRACE_EDGES, np.arange(TRACE_EDGES[-1] + 1), side="right")
"""The class of a trace's length, up to the last edge."""
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
    state[0] += GAMMA
    bits: np.uint64 = mix(state[0])
    return bits


@compiled()
def choose(sampler: Sampler, row: int, bits: np.uint64) -> np.uint64:  # pragma: no cover - compiled
    """A number from 0 to 15, drawn from an alias row with 64 random bits (the lowest 4, the highest 32)."""
    slot = bits & _SLOT
    entry = sampler[np.uint64(row) * _SLOTS + slot]
    alias = np.uint64((bits >> _S32) >= entry >> _S4)  # arithmetic, since no processor could foresee the branch
    number: np.uint64 = slot + alias * ((entry & _SLOT) - slot)
    return number


@compiled()
def setting(sampler: Sampler, row: int, column: int) -> np.uint64:  # pragma: no cover - compiled
    """A plain number of the table."""
    number: np.uint64 = sampler[np.uint64(row) * _SLOTS + np.uint64(column)]
    return number


@compiled()
def _longest(sampler: Sampler) -> int:  # pragma: no cover - compiled
    """How many tokens a program has at most."""
    tokens: int = signed(setting(sampler, SETTINGS_ROW, MOST_TOKENS))
    return tokens


@compiled()
def is_reserved_program(tokens: NDArray[np.uint8], length: int) -> bool:  # pragma: no cover - compiled
    """Whether the program of `length` tokens is one of the tenth of the longer ones that are kept for testing."""
    if length < SHORTEST_RESERVED:
        return False
    bits = np.uint64(length)
    for at in range(length):
        bits = mix(bits * GAMMA + np.uint64(tokens[at]))
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
def draw_program(
    state: NDArray[np.uint64], sampler: Sampler, tokens: NDArray[np.uint8], blocks: NDArray[np.int64]
) -> int:  # pragma: no cover - compiled
    """Write one program into `tokens` [SCRATCH_TOKENS]; returns its length, or 0 if this draw came to nothing.

    For the innermost block: which body it is, how many statements are left to draw, the kind of the one before plus 1
    (0: none yet), whether it and the one before it are equal actions, and how often, in sixteenths, the block may be
    expected to run: a WHILE is taken to run its body twice, an IF every other time. `blocks` [4 · LEVELS] is scratch
    space for the blocks around it.

    Nineteen programs of twenty are thrown away, so this is a third of the generator's work. The counter of the random
    bits is a local variable, and the bits of the next draw are made ready before the branches that depend on this one.
    """
    counter = state[0] + GAMMA
    ahead = mix(counter)
    tokens[0], tokens[1], tokens[2] = _HEAD[0], _HEAD[1], _HEAD[2]
    size, depth, controls, held, actions = 3, 0, 0, 0, 0
    body, before, twice, runs = 0, 0, False, 16
    left = 1 + signed(choose(sampler, BODY_ROW, ahead))
    counter += GAMMA
    ahead = mix(counter)
    while depth >= 0 and size <= _longest(sampler):
        if left == 0:
            tokens[size] = _CLOSERS[body]
            size += 1
            if body == _THEN:
                tokens[size], tokens[size + 1] = _ELSE, _OPENERS[_OTHERWISE]
                size += 2
                body, before, twice = _OTHERWISE, 0, False
                left = 1 + signed(choose(sampler, BODY_ROW + _OTHERWISE, ahead))
                counter += GAMMA
                ahead = mix(counter)
            else:
                depth -= 1
                outer = 4 * max(depth, 0)
                body, left, before, runs = blocks[outer], blocks[outer + 1], blocks[outer + 2], blocks[outer + 3]
                twice = False  # the last one was a control statement
            continue
        # What is drawn first in a body of one statement has a row of its own.
        row = STATEMENT_ROW + (min(body, _THEN) * LEVELS + depth) * BEFORE
        row += ALONE if before == 0 and left == 1 else before
        kind = signed(choose(sampler, row, ahead))
        counter += GAMMA
        ahead = mix(counter)
        again = before == kind + 1
        if again and twice:
            continue  # a third equal action: draw another statement
        twice = again and kind < _FIRST_CONTROL
        left -= 1
        before = kind + 1
        held |= 1 << kind
        if kind < _FIRST_CONTROL:
            tokens[size] = _ACTION + kind
            size += 1
            actions += runs
            continue
        outer = 4 * depth
        blocks[outer], blocks[outer + 1], blocks[outer + 2], blocks[outer + 3] = body, left, before, runs
        depth += 1
        controls += 1
        body = kind - _FIRST_CONTROL + 1
        tokens[size] = _REPEAT + kind - _REPEAT_KIND
        if kind == _REPEAT_KIND:
            count = signed(choose(sampler, COUNT_ROW, ahead))
            tokens[size + 1] = _FIRST_COUNT + count
            size += 2
            runs *= 2 + count
        else:
            runs = runs * 2 if kind == _WHILE_KIND else runs >> 1
            condition = signed(choose(sampler, CONDITION_ROW, ahead))
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
        tokens[size] = _OPENERS[body]
        size += 1
        counter += GAMMA
        before, twice = 0, False
        left = 1 + signed(choose(sampler, BODY_ROW + body, mix(counter)))
        counter += GAMMA
        ahead = mix(counter)
    drawn, keep = ahead >> _S32, _ZERO
    if size > _longest(sampler) or not held & 1 or not held & (1 << _PICK_KIND | 1 << _PUT_KIND):
        counter -= GAMMA  # the bits that were made ready are left for the next program
    else:
        keep = setting(sampler, KEEP_LENGTH_ROW, size) * setting(sampler, KEEP_CONTROLS_ROW, controls)
        if controls > 0:
            keep = keep * setting(sampler, KEEP_TRACES_ROW, _CLASSES[min(actions >> 4, TRACE_EDGES[-1])]) >> _S16
    kind = 0
    while drawn < keep and kind <= _IFELSE_KIND:  # no chance is above 1: once too small, the product stays so
        keep = keep * setting(sampler, KEEP_HOLDING_ROW + (held >> kind & 1), kind) >> _S16
        kind += 1
    state[0] = counter
    return size if drawn < keep else 0
