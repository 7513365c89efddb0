"""An LSTM's cell, compiled: from the terms of the gates to the new state in one pass.

As tensor operations, the sums, sigmoids, tanhs and products would read and write memory a dozen times. On a CPU that
takes as long as the matrix products. Here a row's gates stay in the fastest cache, and the compiler turns each short
loop into vector instructions. bfloat16 numbers are passed as the uint16 of their bits; the new h may be in eight bits
(`devices`).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
from numba import from_dtype, types
from numba.extending import overload
from numpy.typing import NDArray

from karelsynth.karel.compiled import I64Array, compiled, read_only
from karelsynth.model.devices import ONE, ZERO

_STEEPEST: Final = np.float32(40)
"""Exponents of two are clipped to ±40: 1 + 2⁻⁴⁰ is 1 in float32, and products of two such powers do not overflow."""
_LOG2_E: Final = np.float32(1.4426950408889634)
_ROUNDING: Final = np.float32(3 << 22)
"""Added to a small float32, it leaves the nearest whole number in the lowest bits."""
_POWERS: Final = tuple(np.float32(np.log(2) ** n / np.prod(np.arange(1.0, n + 1))) for n in range(8))
"""The coefficients of the series of 2^x. For |x| ≤ ½ these terms are exact in float32."""

_ONE: Final = np.float32(ONE)
_HALF_ABOVE_ZERO: Final = np.float32(ZERO + 0.5)
"""The code of 0, plus ½: the conversion to an integer truncates, so adding ½ rounds."""


def _widen(value: Any) -> Any:
    """A float32 of a float32 or of bfloat16's bits."""


def _narrow(value: Any, like: Any) -> Any:
    """A float32 as it is, as the bits of the nearest bfloat16, ties to even, or between −1 and 1 in eight bits."""


@overload(_widen, strict=False)
def _widen_typed(value: Any) -> Any:
    if isinstance(value, types.Float):
        return lambda value: value
    return lambda value: np.uint32(np.uint32(value) << np.uint32(16)).view(np.float32)


@overload(_narrow, strict=False)
def _narrow_typed(value: Any, like: Any) -> Any:
    if isinstance(like, types.Float):
        return lambda value, like: value
    if like == types.uint8:
        return lambda value, like: np.uint8(np.int32(np.float32(value * _ONE + _HALF_ABOVE_ZERO)))

    def to_bits(value: Any, like: Any) -> Any:
        bits = np.float32(value).view(np.uint32)
        return np.uint16((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))

    return to_bits


@compiled()
def _exponentials(values: NDArray[np.float32], factor: np.float32) -> None:
    """e^(factor · value), in place."""
    scale = factor * _LOG2_E
    for at in range(values.shape[0]):
        power = min(max(values[at] * scale, -_STEEPEST), _STEEPEST)
        shifted = np.float32(power + _ROUNDING)
        rest = power - (shifted - _ROUNDING)
        total = _POWERS[7]
        total = total * rest + _POWERS[6]
        total = total * rest + _POWERS[5]
        total = total * rest + _POWERS[4]
        total = total * rest + _POWERS[3]
        total = total * rest + _POWERS[2]
        total = total * rest + _POWERS[1]
        total = np.float32(total * rest + _POWERS[0])
        # Adding to a float's exponent multiplies by a power of two.
        values[at] = np.uint32((shifted.view(np.uint32) << np.uint32(23)) + total.view(np.uint32)).view(np.float32)


def cells(*arrays: NDArray[Any]) -> None:
    """`_cells`, compiled for the types of its last two arguments, new_h and new_c."""
    *_, new_h, new_c = arrays
    _compiled_cells(new_c.dtype, new_h.dtype)(*arrays)


@cache
def _compiled_cells(kind: np.dtype[Any], of_h: np.dtype[Any]) -> Any:
    """Compiled for numbers float32, or uint16 for bfloat16, and h of the same type or uint8."""
    number, hidden = from_dtype(kind), from_dtype(of_h)
    many, few, rows = read_only(number, 3), read_only(number, 2), read_only(types.int64, 1)
    signature = types.void(
        many, rows, few, read_only(types.int64, 2), few, rows, many, rows, hidden[:, :, ::1], number[:, :, ::1]
    )
    return compiled(signature)(_cells)


def _cells(
    of_states: NDArray[Any],
    states: I64Array,
    of_inputs: NDArray[Any],
    inputs: I64Array,
    of_tokens: NDArray[Any],
    tokens: I64Array,
    c: NDArray[Any],
    parents: I64Array,
    new_h: NDArray[Any],
    new_c: NDArray[Any],
) -> None:
    """One layer's cells for N hypotheses with K examples; gates in the order i, f, o, g.

    The gates are the sum of three terms, each read from the row that an index names.

    Args:
        of_states: […, K, 4 · H], by `states` [N].
        of_inputs: […, 4 · H], by `inputs` [N, K].
        of_tokens: […, 4 · H], by `tokens` [N], the same for all examples.
        c: […, K, H], the state before, by `parents` [N].
        new_h, new_c: [N, K, H], to be filled.
    """
    examples, size = new_h.shape[1:]
    one = np.float32(1)
    gates = np.empty(4 * size, np.float32)
    i, f = gates[:size], gates[size : 2 * size]
    o, g = gates[2 * size : 3 * size], gates[3 * size :]
    for row in range(new_h.shape[0]):
        of_token = of_tokens[tokens[row]]
        for example in range(examples):
            of_state, of_input = of_states[states[row], example], of_inputs[inputs[row, example]]
            for at in range(4 * size):
                gates[at] = _widen(of_state[at]) + _widen(of_input[at]) + _widen(of_token[at])
            # With a = e^−x, the sigmoid is 1 / (1 + a). With a = e^−2x, tanh is (1 − a) / (1 + a).
            _exponentials(gates[: 3 * size], np.float32(-1))
            _exponentials(g, np.float32(-2))
            for at in range(size):
                g[at] = np.divide(one - g[at], (one + g[at]) * (one + i[at]))
            before = c[parents[row], example]
            for at in range(size):
                g[at] += np.divide(_widen(before[at]), one + f[at])
            after, hidden = new_c[row, example], new_h[row, example]
            for at in range(size):
                after[at] = _narrow(g[at], after[at])
            _exponentials(g, np.float32(-2))
            for at in range(size):
                value = np.divide(one - g[at], (one + g[at]) * (one + o[at]))
                hidden[at] = _narrow(value, hidden[at])
