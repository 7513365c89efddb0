"""Text for terminals: control characters replaced, and widths in columns.

User files may hold escape sequences, which would clear the screen or rename the window if they were printed.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_JOINERS: Final = "\u200c\u200d"
"""Zero-width joiners. They are harmless, and some scripts need them."""


def printable(text: str) -> str:
    """The text with unprintable characters replaced one by one; newlines stay."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in _JOINERS else _instead(letter) for letter in text)


def _instead(letter: str) -> str:
    if letter == "\n":
        return letter
    if letter == "\t" or unicodedata.category(letter) == "Zs":
        return " " * display_width(letter)  # the ideographic space is two columns wide
    return _REPLACEMENT


def display_width(text: str) -> int:
    """The number of terminal columns of a printable text: two for a wide letter, none for a combining mark."""
    return len(text) if text.isascii() else sum(map(_letter_width, text))


def _letter_width(letter: str) -> int:
    if unicodedata.east_asian_width(letter) in "WF":
        return 2
    return 0 if unicodedata.category(letter) in ("Mn", "Me") or letter in _JOINERS else 1
