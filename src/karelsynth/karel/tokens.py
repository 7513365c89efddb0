"""The table of the 52 tokens: the one place that knows their names and numbers.

Ids are those of the original data's vocabulary: `<pad>` is 0, then one token a line. A program is
`DEF run m( … m)`; it ends at its `m)`, there is no end token.
"""

from __future__ import annotations

from typing import Final

ACTIONS: Final = ("move", "turnLeft", "turnRight", "pickMarker", "putMarker")
SENSORS: Final = ("markersPresent", "noMarkersPresent", "leftIsClear", "rightIsClear", "frontIsClear")
BRACKETS: Final = ("m(", "m)", "c(", "c)", "r(", "r)", "w(", "w)", "i(", "i)", "e(", "e)")
OPENERS: Final = ("m(", "r(", "w(", "i(", "e(")
"""What begins a block of statements."""
CLOSERS: Final = ("m)", "r)", "w)", "i)", "e)")
"""What ends it, in the same order."""
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


def token_name(number: int) -> str:
    """The token's name; a number that is none's in angle brackets, for messages."""
    return TOKENS[number] if 0 <= number < VOCABULARY_SIZE else f"<{number}>"
