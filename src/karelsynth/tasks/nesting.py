"""Which control statements of a program are nested in which: for sets that hold compositions out of training.

    nestings(batch.tokens)[:, PARENTS.index("IFELSE"), PARENTS.index("WHILE")]   # some WHILE is directly in an IFELSE

A statement is *directly in* the innermost control statement that encloses it; those of `run` itself are in none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from karelsynth.generator.sampler import PARENTS, STATEMENTS, Sampler, build, read_weights
from karelsynth.karel.tokens import ID

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

Nesting = tuple[str, str]
"""An outer control statement, and the one that is directly in it."""
HELD_OUT: Final[tuple[Nesting, ...]] = (
    ("IFELSE", "WHILE"),
    ("WHILE", "REPEAT"),
    ("REPEAT", "IF"),
    ("IF", "IFELSE"),
)
"""Compositions that `compositions_train` never has and every task of `compositions` has. Each of the four statements is
once outside and once inside. So each is still trained on in both places, with three other partners."""
_OPEN: Final = [ID[name] for name in ("r(", "w(", "i(", "e(")]
_CLOSE: Final = [ID[name] for name in ("r)", "w)", "i)", "e)")]
_KIND: Final = {ID[name]: number for number, name in enumerate(PARENTS) if number}


def nestings(tokens: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Bool [N, 5, 5], for programs [N, L] padded with `<pad>`: whether a control statement is directly in another.

    Both axes are in the order of `PARENTS`; row 0 has the control statements of `run` itself, column 0 is empty.
    """
    count, width = tokens.shape
    rows = np.arange(count)
    found = np.zeros((count, len(PARENTS), len(PARENTS)), np.bool_)
    enclosing = np.zeros((count, width + 2), np.int64)  # the kind of each open block, by depth
    depth, latest = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for column in tokens.T:
        for token, kind in _KIND.items():
            here = rows[column == token]
            found[here, enclosing[here, depth[here]], kind] = True
            latest[here] = kind
        opening = np.isin(column, _OPEN)
        depth[opening] += 1
        # `e(` comes after other statements of its IFELSE; the others come right after their own keyword.
        kinds = np.where(column == ID["e("], PARENTS.index("IFELSE"), latest)
        enclosing[rows[opening], depth[opening]] = kinds[opening]
        depth[np.isin(column, _CLOSE)] -= 1
    return found


def holds_nesting(tokens: NDArray[np.uint8], pairs: Iterable[Nesting]) -> NDArray[np.bool_]:
    """Which programs [N, L] have at least one of these nestings, bool [N]."""
    found = nestings(tokens)
    held = np.zeros(len(tokens), np.bool_)
    for outer, inner in pairs:
        held |= found[:, PARENTS.index(outer), PARENTS.index(inner)]
    return held


def sampler_without(pairs: Iterable[Nesting]) -> Sampler:
    """The fitted sampler, except that it never draws these nestings."""
    weights: dict[str, Any] = read_weights()
    for outer, inner in pairs:
        weights["children"][PARENTS.index(outer)][STATEMENTS.index(inner)] = 0
    return build(weights)
