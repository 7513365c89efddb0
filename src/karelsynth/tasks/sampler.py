"""The sampler's table: how likely every statement, condition, count, grid size, wall and marker is.

The weights are data, whole numbers in `sampler_weights.json`, fitted by `tools/fit_generator.py` so that the tasks
that survive all filters have the original's statistics. Here they become the one array that the compiled kernels draw
from (one, because every array that is handed to a compiled function costs time). Everything is integer arithmetic, so
that a draw is the same on every machine.

A draw takes 64 random bits and one row of 16 entries (Walker's alias method): the low four bits choose a slot, the
high 32 bits decide between the slot's own number and its alias.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from karelsynth.karel.grammar import NORMAL_FORM
from karelsynth.karel.tokens import ACTIONS
from karelsynth.tasks.batch import MAX_TOKENS
from karelsynth.tasks.kernel_layout import (
    ALONE,
    BEFORE,
    LEVELS,
    ONE,
    PARENTS,
    SETTINGS,
    SLOTS,
    STATEMENTS,
    TABLE_ROWS,
    WALL_LEVELS_ROW,
    Sampler,
)


def alias_row(weights: Sequence[int]) -> list[int]:
    """The entries of one row."""
    padded = [int(weight) for weight in weights] + [0] * (SLOTS - len(weights))
    total = sum(padded)
    if total <= 0 or min(padded) < 0 or len(padded) > SLOTS:
        raise ValueError(f"a row holds at most {SLOTS} weights, none negative and not all 0: {list(weights)}")
    share = [weight * SLOTS for weight in padded]  # a slot is full with `total`
    entries = [(1 << 36) + slot for slot in range(SLOTS)]
    poor = [slot for slot in range(SLOTS) if share[slot] < total]
    rich = [slot for slot in range(SLOTS) if share[slot] >= total]
    while poor and rich:
        slot, giver = poor.pop(), rich[-1]
        entries[slot] = ((share[slot] << 32) // total << 4) + giver
        share[giver] -= total - share[slot]
        if share[giver] < total:
            poor.append(rich.pop())
    return entries


def _statement_rows(weights: Mapping[str, Any]) -> list[list[int]]:
    """One row for each parent, depth and statement before (none first)."""
    rows = []
    for parent in range(len(PARENTS)):
        for depth in range(LEVELS):
            for before in range(BEFORE):
                row = [
                    weights["children"][parent][kind] * weights["pairs"][before][kind]
                    for kind in range(len(STATEMENTS))
                ]
                for kind in range(len(STATEMENTS)):
                    row[kind] *= ONE if kind < len(ACTIONS) else weights["deeper"][depth]
                    if 0 < before < ALONE and (STATEMENTS[before - 1], STATEMENTS[kind]) in NORMAL_FORM.never_adjacent:
                        row[kind] = 0
                rows.append(row)
    return rows


def build(weights: Mapping[str, Any]) -> Sampler:
    """The table of some weights (those of the JSON file, by name).

    Programs have at most as many tokens as `keep_length` has chances for.
    """
    drawn = [
        *_statement_rows(weights), *weights["bodies"], weights["conditions"], weights["counts"], weights["rows"],
        weights["cols"], weights["headings"], weights["walls"], *weights["markers"], weights["piles"],
    ]  # fmt: skip
    assert len(drawn) == WALL_LEVELS_ROW
    lengths = weights["keep_length"]
    longest = len(lengths) - 1
    if longest > MAX_TOKENS:
        raise ValueError(f"there is no room for programs of {longest} tokens: the most is {MAX_TOKENS}")
    plain = [
        *weights["densities"], [*(weights["settings"][name] for name in SETTINGS), longest], weights["keep_controls"],
        *weights["keep_holding"],
        *(lengths[start : start + SLOTS] for start in range(0, len(lengths), SLOTS)),
        weights["keep_traces"], weights["keep_distinct"],
    ]  # fmt: skip
    assert len(drawn) + len(plain) == TABLE_ROWS
    return np.array([alias_row(row) for row in drawn] + [row + [0] * (SLOTS - len(row)) for row in plain], np.uint64)


def read_weights() -> dict[str, Any]:
    """The fitted weights."""
    text = files("karelsynth.tasks").joinpath("sampler_weights.json").read_text(encoding="utf-8")
    weights: dict[str, Any] = json.loads(text)
    return weights


@cache
def fitted_sampler() -> Sampler:
    """The table that imitates the original data."""
    return build(read_weights())
