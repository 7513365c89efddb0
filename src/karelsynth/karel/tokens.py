"""The table of the 52 tokens: the single source of their names and ids.

Ids are those of the original data's vocabulary file: `<pad>` is 0, then one token a line. A program is
`DEF run m( … m)`. It ends at its `m)`; there is no end token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ACTIONS: Final = ("move", "turnLeft", "turnRight", "pickMarker", "putMarker")
SENSORS: Final = ("markersPresent", "noMarkersPresent", "leftIsClear", "rightIsClear", "frontIsClear")
BRACKETS: Final = ("m(", "m)", "c(", "c)", "r(", "r)", "w(", "w)", "i(", "i)", "e(", "e)")
OPENERS: Final = ("m(", "r(", "w(", "i(", "e(")
"""The tokens that begin a block of statements."""
CLOSERS: Final = ("m)", "r)", "w)", "i)", "e)")
"""The tokens that end a block, in the same order."""
LARGEST_COUNT: Final = 19
COUNTS: Final = tuple(f"R={n}" for n in range(LARGEST_COUNT + 1))

TOKENS: Final[tuple[str, ...]] = (
    "<pad>", "<s>", "not", "DEF", "run", "REPEAT", "WHILE", "IF", "IFELSE", "ELSE",
    *SENSORS, *ACTIONS, *BRACKETS, *COUNTS,
)  # fmt: skip

ID: Final[dict[str, int]] = {token: number for number, token in enumerate(TOKENS)}
VOCABULARY_SIZE: Final = len(TOKENS)
PAD: Final = ID["<pad>"]
START: Final = ID["<s>"]
END: Final = ID["m)"]
"""The last token of every program."""
NO_TOKEN: Final = 255
"""Stands for every number that is no token id. (Cut to a byte, 259 would become 3.)"""


def token_name(number: int) -> str:
    """The token's name; for a number that is no id, the number in angle brackets."""
    return TOKENS[number] if 0 <= number < VOCABULARY_SIZE else f"<{number}>"


def token_bytes(tokens: NDArray[Any]) -> NDArray[np.uint8]:
    """Token ids as uint8 of the same shape, in C order. Numbers that are no id become NO_TOKEN. No copy of bytes."""
    import numpy as np

    tokens = np.asarray(tokens)
    if tokens.dtype != np.uint8:
        tokens = np.where((tokens >= 0) & (tokens < VOCABULARY_SIZE), tokens, NO_TOKEN).astype(np.uint8)
    return np.ascontiguousarray(tokens)
