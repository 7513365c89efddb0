"""Changes of programs (Numba): how a change is represented, and how the changed program is written.

A change cuts a program at statement boundaries and joins the parts with short runs of new tokens, called pieces:

    tokens[: at] + piece + tokens[p : q] + piece + tokens[r : s] + piece + tokens[rest :]

Pieces, from nothing to the head of a loop, are numbered in a table. `tasks.simplify_kernel` enumerates the changes that
shorten a program, `search.repair` all neighbours of a program.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.generator.sampler import CONDITIONS
from karelsynth.karel.compiled import compiled
from karelsynth.karel.tokens import ACTIONS, COUNTS, ID

PARTS: Final = 9
"""The numbers of a change: at, first piece, p, q, second piece, r, s, third piece, rest."""

_COUNTS: Final = COUNTS[2:11]


def _condition(name: str) -> tuple[str, ...]:
    """The tokens of a condition, given by its name in CONDITIONS."""
    *negated, sensor = name.split()
    return ("not", "c(", sensor, "c)") if negated else (sensor,)


def _pieces() -> tuple[dict[str, int], NDArray[np.uint8], NDArray[np.int64]]:
    """Where each kind of piece begins in the table, the table [pieces, 9], and the pieces' lengths."""
    conditions = [_condition(name) for name in CONDITIONS]
    kinds: dict[str, list[tuple[str, ...]]] = {
        "nothing": [()],
        "action": [(action,) for action in ACTIONS],
        "condition": conditions,
        "count": [(count,) for count in _COUNTS],
        "while": [("WHILE", "c(", *condition, "c)", "w(") for condition in conditions],
        "if": [("IF", "c(", *condition, "c)", "i(") for condition in conditions],
        "if-else": [("IFELSE", "c(", *condition, "c)", "i(") for condition in conditions],
        "repeat": [("REPEAT", count, "r(") for count in _COUNTS],
        "else": [("i)", "ELSE", "e(", action, "e)") for action in ACTIONS],
        "token": [("WHILE",), ("IF",), ("IFELSE",), ("w(",), ("i(",), ("w)",), ("i)",), ("r)",), ("i)", "ELSE", "e(")],
    }
    first: dict[str, int] = {}
    table: list[tuple[str, ...]] = []
    for kind, pieces in kinds.items():
        first[kind] = len(table)
        table += pieces
    tokens = np.zeros((len(table), max(map(len, table))), np.uint8)
    for row, piece in enumerate(table):
        tokens[row, : len(piece)] = [ID[token] for token in piece]
    return first, tokens, np.array([len(piece) for piece in table])


_FIRST, _PIECES, _SIZES = _pieces()
ACTION, CONDITION, COUNT = (_FIRST[kind] for kind in ("action", "condition", "count"))
WHILE_HEAD, IF_HEAD, IFELSE_HEAD, REPEAT_HEAD = (_FIRST[kind] for kind in ("while", "if", "if-else", "repeat"))
ELSE_WITH = _FIRST["else"]
TO_WHILE, TO_IF, TO_IFELSE, OPEN_W, OPEN_I, CLOSE_W, CLOSE_I, CLOSE_R, ELSE = range(
    _FIRST["token"], _FIRST["token"] + 9
)
ACTION_KINDS, CONDITION_KINDS, COUNT_KINDS = len(ACTIONS), len(CONDITIONS), len(_COUNTS)


@compiled()
def note_edit(
    edits: NDArray[np.int64],
    count: int,
    at: int,
    first: int,
    p: int,
    q: int,
    second: int,
    r: int,
    s: int,
    third: int,
    rest: int,
) -> int:  # pragma: no cover - compiled
    """Append a change (see the module's docstring; piece 0 is nothing) to `edits`; returns the new count."""
    if count == edits.shape[0]:
        return count
    edits[count, 0], edits[count, 1], edits[count, 2], edits[count, 3] = at, first, p, q
    edits[count, 4], edits[count, 5], edits[count, 6], edits[count, 7] = second, r, s, third
    edits[count, 8] = rest
    return count + 1


@compiled()
def edited_length(edits: NDArray[np.int64], number: int, length: int) -> int:  # pragma: no cover - compiled
    """The number of tokens of a program of `length` tokens after a change."""
    kept = edits[number, 0] + edits[number, 3] - edits[number, 2] + edits[number, 6] - edits[number, 5]
    pieces = _SIZES[edits[number, 1]] + _SIZES[edits[number, 4]] + _SIZES[edits[number, 7]]
    return int(kept + pieces + length - edits[number, 8])


@compiled()
def write_edited(
    tokens: NDArray[np.uint8], length: int, edits: NDArray[np.int64], number: int, out: NDArray[np.uint8], row: int
) -> None:  # pragma: no cover - compiled
    """Write a changed program to out[row]."""
    size = 0
    for part in range(4):
        # tokens[begin : stop], then a piece; after the last part, none.
        begin = 0 if part == 0 else edits[number, 3 * part - 1] if part < 3 else edits[number, 8]
        stop = edits[number, 0] if part == 0 else edits[number, 3 * part] if part < 3 else length
        piece = edits[number, 3 * part + 1] if part < 3 else 0
        for place in range(begin, stop):
            out[row, size] = tokens[place]
            size += 1
        for place in range(_SIZES[piece]):
            out[row, size] = _PIECES[piece, place]
            size += 1
