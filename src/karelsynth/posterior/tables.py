"""The generator's tables, read as chances."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.grammar import KAREL
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.posterior.chain_kernel import Tables
from karelsynth.tasks.kernel_layout import SLOTS, WALL_LEVELS_ROW, Sampler
from karelsynth.tasks.sampler import fitted_sampler


def log_chances(sampler: Sampler) -> NDArray[np.float64]:
    """The logarithms of the chances that the rows of a sampler's table stand for, flat: [rows · 16]."""
    entries = sampler[:WALL_LEVELS_ROW]
    own = np.minimum((entries >> np.uint64(4)).astype(np.float64) / 2**32, 1.0)
    chances = own.copy()
    for row in range(len(entries)):
        np.add.at(chances[row], (entries[row] & np.uint64(SLOTS - 1)).astype(np.int64), 1 - own[row])
    with np.errstate(divide="ignore"):
        logs: NDArray[np.float64] = np.log(chances / SLOTS).ravel()
    return logs


def tables_of(sampler: Sampler) -> Tables:
    """A sampler's."""
    grammar = compile_grammar(KAREL)
    return Tables(sampler.ravel(), log_chances(sampler), grammar.tables.transition, grammar.symbols, grammar.start)


@cache
def fitted_tables() -> Tables:
    """Those of the generator as it is."""
    return tables_of(fitted_sampler())
