"""Completing prefixes: what a search has left unfinished, as programs that can be run and repaired.

    tokens, lengths = close_programs(prefixes)

Every open block is closed. An IFELSE without its ELSE, or with nothing in it, becomes an IF. What ends within a head,
or with a block in which nothing stands yet, cannot be closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karelsynth.karel.tokens import PAD
from karelsynth.search.closing_kernel import close_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


def close_programs(prefixes: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Programs uint8 [N, 2 L], padded, and their lengths [N], of padded prefixes [N, L]; 0 where there is none."""
    tokens = np.full((len(prefixes), 2 * prefixes.shape[1]), PAD, np.uint8)
    lengths = np.empty(len(prefixes), np.int64)
    close_rows(np.ascontiguousarray(prefixes), tokens, lengths)
    tokens[lengths == 0] = PAD
    return tokens, lengths
