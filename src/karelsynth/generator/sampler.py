"""The sampler: one table with the probabilities of all that the generator draws.

It covers statements, conditions, counts, grid sizes, walls and markers. The weights are data, integers in
`sampler_weights.json`. `tools/fit_generator.py` fits them so that the tasks that pass all filters have the statistics
of the original data. `build` makes them into one array (one, because each array passed to a compiled function costs
time). All arithmetic is on integers, so a draw is the same on every machine.

A draw takes 64 random bits and one row of 16 entries (Walker's alias method). The low four bits choose a slot; the
high 32 bits decide between the number of the slot and its alias.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.grammar import KAREL, NORMAL_FORM
from karelsynth.karel.syntax_compiler import ParserTables, compile_grammar
from karelsynth.karel.tokens import ACTIONS

MAX_TOKENS: Final = 72
"""Tokens of the longest program that any table may draw; the width of token arrays. The original has at most 65."""
STATEMENTS: Final = (*ACTIONS, "REPEAT", "WHILE", "IF", "IFELSE")
PARENTS: Final = ("run", "REPEAT", "WHILE", "IF", "IFELSE")
BODIES: Final = ("run", "REPEAT", "WHILE", "IF", "then", "else")
SLOTS: Final = 16
LONGEST_FITTED: Final = 65
"""Tokens of the longest program of the fitted table, as in the original. Other tables may have longer ones."""
LEVELS: Final = 6
"""Depths of statements: 0 for those of `run`, up to 5."""

# Alias rows. A statement's row depends on its parent, its depth and its context.
STATEMENT_ROW: Final = 0
ALONE: Final = 1 + len(STATEMENTS)
"""The context of the only statement of a body. The others: 0 for the first of several, 1 + n after a statement of
kind n."""
CONTEXTS: Final = ALONE + 1
BODY_ROW: Final = STATEMENT_ROW + len(PARENTS) * LEVELS * CONTEXTS
CONDITION_ROW: Final = BODY_ROW + len(BODIES)
COUNT_ROW: Final = CONDITION_ROW + 1
ROWS_ROW: Final = COUNT_ROW + 1
COLS_ROW: Final = ROWS_ROW + 1
HEADING_ROW: Final = COLS_ROW + 1
WALL_ROW: Final = HEADING_ROW + 1
MARKER_ROW: Final = WALL_ROW + 1
"""Two rows: without walls, with walls."""
PILE_ROW: Final = MARKER_ROW + 2

# Rows of plain numbers, out of 65,536.
WALL_LEVELS_ROW: Final = PILE_ROW + 1
MARKER_LEVELS_ROW: Final = WALL_LEVELS_ROW + 1
"""The densities that WALL_ROW and MARKER_ROW choose from."""
SETTINGS_ROW: Final = MARKER_LEVELS_ROW + 1
KEEP_CONTROLS_ROW: Final = SETTINGS_ROW + 1
"""This row and the next three hold factors of the probability that a program is kept. This one: by the number of its
control statements."""
KEEP_HOLDING_ROW: Final = KEEP_CONTROLS_ROW + 1
"""By kind of statement: the first row for programs without it, the second for those with it."""
KEEP_LENGTH_ROW: Final = KEEP_HOLDING_ROW + 2
"""By length; five rows that are read as one."""
KEEP_TRACES_ROW: Final = KEEP_LENGTH_ROW + 5
"""By class of the expected trace length, for programs with control statements."""
KEEP_DISTINCT_ROW: Final = KEEP_TRACES_ROW + 1
"""The probability that a task with conditions is kept, by number of distinct traces."""
MOST_DISTINCT: Final = 6
"""This many distinct traces and more are one class."""
TABLE_ROWS: Final = KEEP_DISTINCT_ROW + 1

# Columns of SETTINGS_ROW: probabilities out of 65,536, except the last.
BARE: Final = 0
"""No world of a task has walls."""
CORNER: Final = 1
"""The hero starts at the bottom left."""
ON_EDGE: Final = 2
ELSEWHERE: Final = 3
"""A place drawn uniformly is kept with probability ON_EDGE on an edge but in no corner, and else with ELSEWHERE."""
UNDER_HERO: Final = 4
"""There are markers under the hero, in a world with markers."""
PICK: Final = 5
"""There are markers on a cell that the program picks from before it has tested it."""
ALIKE: Final = 6
"""A world is rejected if an earlier example has the same trace and it shows no new branch outcome."""
SHORT: Final = 7
"""A world is rejected if its trace is shorter than that of the last example or of a good world rejected since."""
SEEK: Final = 8
"""A cell gets the content that shows a condition's only unseen outcome when the condition first tests it."""
UNSEEN: Final = 9
"""A branch outcome may stay unseen in all examples."""
MOST_TOKENS: Final = 10
"""Tokens of the longest program. This is no probability."""
SETTINGS: Final = ("bare", "corner", "on_edge", "elsewhere", "under_hero", "pick", "alike", "short", "seek", "unseen")
ONE: Final = 1 << 16

TRACE_EDGES: Final = (3, 4, 5, 6, 7, 9, 11, 14, 18, 23, 30, 40)
"""Where each class of trace lengths begins, except the first."""

Sampler = NDArray[np.uint64]
"""[rows, 16]. An entry of an alias row is the probability of the slot's own number, out of 2³², times 16, plus the
alias. Kernels take the table flat, [rows · 16]: one index costs less than two."""


def alias_row(weights: Sequence[int]) -> list[int]:
    """The 16 entries of the alias row that draws numbers in proportion to `weights` (at most 16)."""
    padded = [int(weight) for weight in weights] + [0] * (SLOTS - len(weights))
    total = sum(padded)
    if total <= 0 or min(padded) < 0 or len(padded) > SLOTS:
        raise ValueError(f"a row holds at most {SLOTS} weights, none negative and not all 0: {list(weights)}")
    share = [weight * SLOTS for weight in padded]  # a full slot holds `total`
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
    """The weights of one row for each parent, depth and context."""
    rows = []
    for parent in range(len(PARENTS)):
        for depth in range(LEVELS):
            for context in range(CONTEXTS):
                row = [
                    weights["children"][parent][kind] * weights["pairs"][context][kind]
                    for kind in range(len(STATEMENTS))
                ]
                for kind in range(len(STATEMENTS)):
                    row[kind] *= ONE if kind < len(ACTIONS) else weights["deeper"][depth]
                    if (
                        0 < context < ALONE
                        and (STATEMENTS[context - 1], STATEMENTS[kind]) in NORMAL_FORM.never_adjacent
                    ):
                        row[kind] = 0
                rows.append(row)
    return rows


def build(weights: Mapping[str, Any]) -> Sampler:
    """The table for `weights`, named as in the JSON file. The length of `keep_length` limits that of programs."""
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
    text = files("karelsynth.generator").joinpath("sampler_weights.json").read_text(encoding="utf-8")
    weights: dict[str, Any] = json.loads(text)
    return weights


@cache
def fitted_sampler() -> Sampler:
    """The table fitted to the original data."""
    return build(read_weights())


def log_probabilities(sampler: Sampler) -> NDArray[np.float64]:
    """The log-probability of every number of every alias row, flat: [alias rows · 16]."""
    entries = sampler[:WALL_LEVELS_ROW]
    own = np.minimum((entries >> np.uint64(4)).astype(np.float64) / 2**32, 1.0)
    probabilities = own.copy()
    for row in range(len(entries)):
        np.add.at(probabilities[row], (entries[row] & np.uint64(SLOTS - 1)).astype(np.int64), 1 - own[row])
    with np.errstate(divide="ignore"):
        logs: NDArray[np.float64] = np.log(probabilities / SLOTS).ravel()
    return logs


class GeneratorTables(NamedTuple):
    """What the kernels that compute probabilities read: the same for all tasks."""

    sampler: Sampler
    """Flat."""
    logs: NDArray[np.float64]
    """`log_probabilities` of the sampler."""
    parser: ParserTables
    """Of the grammar, for `compile_program`."""


def tables_of(sampler: Sampler) -> GeneratorTables:
    """The tables of a generator that draws from `sampler`."""
    grammar = compile_grammar(KAREL)
    logs = log_probabilities(sampler)
    return GeneratorTables(sampler.ravel(), logs, grammar.parser)


@cache
def fitted_tables() -> GeneratorTables:
    """The tables of the generator fitted to the original data."""
    return tables_of(fitted_sampler())
