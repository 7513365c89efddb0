"""Random numbers (Numba): splitmix64, and draws from the rows of a `Sampler`.

The state of the source is one 64-bit counter, an array [1]. Each draw adds a constant to it and scrambles the sum.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from karelsynth.generator.sampler import SLOTS, Sampler
from karelsynth.karel.compiled import I64Array, U64Array, compiled

GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
"""mix(n · GAMMA) for n = 1, 2, … are splitmix64's numbers."""
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_S4, _S11, _S27, _S30, _S31, _S32 = (np.uint64(bits) for bits in (4, 11, 27, 30, 31, 32))
_SLOT, _SLOTS, _ONE = np.uint64(SLOTS - 1), np.uint64(SLOTS), np.uint64(1)
_UNIT: Final = 2.0**-53

signed: Any = np.int64
"""Casts an unsigned integer for arithmetic with signed ones: Numba makes a float of a sum of both kinds."""


@compiled()
def mix(bits: np.uint64) -> np.uint64:
    """Scramble 64 bits."""
    bits = (bits ^ (bits >> _S30)) * _FIRST
    bits = (bits ^ (bits >> _S27)) * _SECOND
    return bits ^ (bits >> _S31)


@compiled()
def draw(state: U64Array) -> np.uint64:
    """The next 64 random bits; `state` [1] advances."""
    state[0] += GAMMA
    bits: np.uint64 = mix(state[0])
    return bits


@compiled()
def uniform(state: U64Array) -> float:
    """A random number, uniform in [0, 1)."""
    return np.float64(draw(state) >> _S11) * _UNIT


@compiled()
def shuffle(state: U64Array, order: I64Array) -> None:
    """Fill `order` with a random permutation of 0, 1, …; all are equally probable."""
    for number in range(len(order)):
        other = np.int64((draw(state) >> _S32) * np.uint64(number + 1) >> _S32)
        order[number] = order[other]
        order[other] = number


@compiled()
def choose(sampler: Sampler, row: int, bits: np.uint64) -> np.uint64:
    """A number from 0 to 15, drawn from an alias row with 64 random bits (the lowest 4, the highest 32)."""
    slot = bits & _SLOT
    entry = sampler[np.uint64(row) * _SLOTS + slot]
    alias = np.uint64((bits >> _S32) >= entry >> _S4)  # arithmetic: a branch on random bits cannot be predicted
    number: np.uint64 = slot + alias * ((entry & _SLOT) - slot)
    return number


@compiled()
def setting(sampler: Sampler, row: int, column: int) -> np.uint64:
    """A plain number of the table."""
    number: np.uint64 = sampler[np.uint64(row) * _SLOTS + np.uint64(column)]
    return number
