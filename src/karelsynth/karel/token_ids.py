"""Token ids as arrays, in the one byte that compiled code takes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.tokens import VOCABULARY_SIZE

NO_TOKEN: Final = 255
"""Instead of every number that is no token's: cut to a byte, 259 would become a 3."""


def token_bytes(tokens: NDArray[Any]) -> NDArray[np.uint8]:
    """Whole numbers as uint8 of the same shape, in C order; what is no token stays none. Bytes are not copied."""
    tokens = np.asarray(tokens)
    if tokens.dtype != np.uint8:
        tokens = np.where((tokens >= 0) & (tokens < VOCABULARY_SIZE), tokens, NO_TOKEN).astype(np.uint8)
    return np.ascontiguousarray(tokens)
