"""The usual form of the original data's records, read by looking its words up in tables.

None means that something is not usual, which need not be wrong: `msr_records` then reads it in full. Tests hold the two
ways equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from karelsynth.karel.formats.codes import BEYOND, FRAME, FRAME_PLANE, HERO, PLANES, SIDE, WALL, WALL_PLANE
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.syntax import syntax_machine
from karelsynth.karel.tokens import ACTIONS, COUNTS, END, ID, SENSORS
from karelsynth.karel.world import HEADINGS, LARGEST_SIDE, MOST_MARKERS, SMALLEST_SIDE

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS: Final = [f"{index}:1.0" for index in range(PLANES * SIDE * SIDE)]
"""Of a tensor string, by index."""
ACTION_IDS: Final = {action: ID[action] for action in ACTIONS}
_WORLD_FIELDS: Final = 6
_LONGEST: Final = 200
_DEEPEST: Final = 16
"""Tokens, and blocks inside each other, of usual programs; the readers of `karel` have limits of their own."""
_Item = tuple[int, int, int]
"""What a word of a world's JSON stands for: the cell, of 18 · 18; what its code becomes, or for a hero what is added
to it; the index in the tensor."""


def _item(row: int, col: int, code: int, plane: int) -> _Item:
    cell = (row + 1) * SIDE + col + 1
    return cell, code, plane * SIDE * SIDE + cell


_PLACES: Final = [(row, col) for row in range(LARGEST_SIDE) for col in range(LARGEST_SIDE)]
_WALLS: Final = {f"{row}:{col}": _item(row, col, WALL, WALL_PLANE) for row, col in _PLACES}
_MARKERS: Final = {
    f"{row}:{col}:{count}": _item(row, col, count, FRAME_PLANE + count)
    for row, col in _PLACES
    for count in range(1, MOST_MARKERS + 1)
}
_HEROES: Final = {
    f"{row}:{col}:{heading}": _item(row, col, HERO * (number + 1), number)
    for row, col in _PLACES
    for number, heading in enumerate(HEADINGS)
}


def _place(words: str, items: Mapping[str, _Item], codes: bytearray) -> list[int]:
    """Put things on a world's cells; returns their indices in the tensor. KeyError if it is not done the usual way."""
    indices = []
    for word in words.split():
        cell, code, index = items[word]
        if codes[cell]:  # outside, or given twice
            raise KeyError(word)
        codes[cell] = code
        indices.append(index)
    return indices


@cache
def _empty_world(rows: int, cols: int) -> tuple[bytes, str, str]:
    """The codes of a world with nothing in it; its frame as in the original's tensors, and with sorted indices."""
    codes = np.full((SIDE, SIDE), BEYOND, np.uint8)
    codes[: rows + 2, : cols + 2] = FRAME
    codes[1 : rows + 1, 1 : cols + 1] = 0
    places = [(row, col) for row in (-1, rows) for col in range(-1, cols + 1)]
    places += [(row, col) for col in (-1, cols) for row in range(rows)]
    indices = [_item(row, col, FRAME, FRAME_PLANE)[2] for row, col in places]
    return codes.tobytes(), _words(indices), _words(sorted(indices))


def _words(indices: list[int]) -> str:
    return " ".join([WORDS[index] for index in indices])


def usual_world(record: Any, tensor: Any) -> NDArray[np.uint8] | None:
    """Cell codes [18, 18] of a right world with all fields; its tensor, if any, in the original's order or sorted."""
    try:
        rows, cols, crashed = record["rows"], record["cols"], record["crashed"]
        if len(record) != _WORLD_FIELDS or crashed is not False:
            return None
        if type(rows) is not int or type(cols) is not int:  # True and 2.0 are refused elsewhere
            return None
        if not (SMALLEST_SIDE <= rows <= LARGEST_SIDE and SMALLEST_SIDE <= cols <= LARGEST_SIDE):
            return None
        empty, frame, frame_sorted = _empty_world(rows, cols)
        codes = bytearray(empty)
        walls = _place(record["blocked"], _WALLS, codes)
        markers = _place(record["markers"], _MARKERS, codes)
        cell, heading, hero = _HEROES[record["hero"]]
    except (KeyError, TypeError, AttributeError):
        return None
    if codes[cell] >= WALL:
        return None
    codes[cell] += heading
    if tensor is not None and tensor != f"{_words([hero, *markers, *walls])} {frame}":
        walls.sort()
        markers.sort()
        if tensor != f"{_words([hero, *walls])} {frame_sorted} {_words(markers)}".rstrip():
            return None
    return np.frombuffer(codes, np.uint8).reshape(SIDE, SIDE)


def usual_program(record: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The token ids of a right program given as tokens and, if there is one, as the same tree."""
    try:
        names, tree = record["program_tokens"], record.get("program_json")
        if type(names) is not list or len(names) > _LONGEST:
            return None
        ids = tuple([ID[name] for name in names])
        if tree is None:
            return ids if ids[-1] == END and syntax_machine(KAREL, _LONGEST).admits(ids) else None
        printed = ["DEF", "run", "m("]
        if len(tree) != 1 or not _print_block(tree["run"], printed, 0):
            return None
        return ids if [*printed, "m)"] == names else None
    except (KeyError, TypeError, AttributeError, IndexError):
        return None


def _print_block(block: Any, names: list[str], depth: int) -> bool:
    """Append the tokens of a block of a program's tree; False if it is not a right and usual one."""
    if type(block) is not list or not block or depth > _DEEPEST:
        return False
    for node in block:
        kind = node["type"]
        if kind in ACTION_IDS:
            names.append(kind)
            right = len(node) == 1
        elif kind == "repeat":
            times = node["times"]
            if type(times) is not int or not 0 <= times < len(COUNTS) or len(node) != 3:
                return False
            names += ("REPEAT", COUNTS[times], "r(")
            right = _print_block(node["body"], names, depth + 1)
            names.append("r)")
        elif kind == "ifElse":
            names.append("IFELSE")
            right = len(node) == 4 and _print_condition(node["condition"], names)
            names.append("i(")
            right = right and _print_block(node["ifBody"], names, depth + 1)
            names += ("i)", "ELSE", "e(")
            right = right and _print_block(node["elseBody"], names, depth + 1)
            names.append("e)")
        elif kind == "if" or kind == "while":
            letter = kind[0]
            names.append(kind.upper())
            right = len(node) == 3 and _print_condition(node["condition"], names)
            names.append(f"{letter}(")
            right = right and _print_block(node["body"], names, depth + 1)
            names.append(f"{letter})")
        else:
            right = False
        if not right:
            return False
    return True


def _print_condition(node: Any, names: list[str]) -> bool:
    """Append the tokens of a sensor or of its negation; False if it is neither."""
    kind = node["type"]
    if kind == "not":
        names += ("c(", "not")
        right = len(node) == 2 and node["condition"]["type"] != "not" and _print_condition(node["condition"], names)
        names.append("c)")
        return right
    names += ("c(", kind, "c)")
    return kind in SENSORS and len(node) == 1
