"""Numbers that the plans' tables and the kernels share."""

from __future__ import annotations

from typing import Final

REGISTERS: Final = 100
"""The first symbol that stands for a count drawn once for each program."""
RULE: Final = 200
"""The first symbol that stands for a rule."""
KINDS: Final = (
    "room", "fetch", "ceiling", "potholes", "niches", "gap", "stairs", "descent", "mountain", "hurdles", "hurdles-any",
    "house", "island", "door", "room-door", "winding", "trail", "snail", "maze", "signs", "lanes",
    "cliffs",
)  # fmt: skip
"""Kinds of worlds."""
PLACES: Final = ("corner", "floor", "start", "any", "roomy")
"""Where Karel stands: bottom left, in the bottom row, in the first column, anywhere, or with room ahead."""
MARKERS: Final = (
    "none", "row", "full", "one", "two", "trail", "few", "field", "full-field", "one-field", "columns", "pile", "piles",
    "pile-front", "niches", "path", "goal", "towers", "above", "two-rows",
)  # fmt: skip
"""Where markers lie."""
