"""Somebody's text as a terminal shows it: nothing in it may act, and carets must know how wide it is.

A file to be checked may hold anything: an escape sequence would clear the screen of whoever checks it, or rename their
window.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_JOINERS: Final = "\u200c\u200d"
"""They have no width and do no harm, and some scripts cannot be written without them."""


def printable(text: str) -> str:
    """The text with what cannot be shown replaced; lines stay lines. Each letter is replaced by itself."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in _JOINERS else _instead(letter) for letter in text)


def _instead(letter: str) -> str:
    if letter == "\n":
        return letter
    if letter == "\t" or unicodedata.category(letter) == "Zs":
        return " " * cells(letter)  # no-break spaces and their like; the ideographic one is wide
    return _REPLACEMENT


def cells(text: str) -> int:
    """How many columns of a terminal a printable text takes: two for wide letters, none for combining marks."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(letter: str) -> int:
    if unicodedata.east_asian_width(letter) in "WF":
        return 2
    return 0 if unicodedata.category(letter) in ("Mn", "Me") or letter in _JOINERS else 1
