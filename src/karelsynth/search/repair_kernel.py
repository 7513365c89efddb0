"""All programs that are one change away from another, and how near programs come to what is asked for; compiled.

A change takes a program apart at the ends of statements and puts it together again:

    tokens[: at] + piece + tokens[p : q] + piece + tokens[r : s] + piece + tokens[rest :]

Pieces are short runs of tokens, from none to the head of a loop, numbered in a table. Whatever a change makes parses.
What is not in the normal form is left out: it does what some shorter neighbour does.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled
from karelsynth.karel.grammar import NORMAL_FORM
from karelsynth.karel.interpreter import MAX_TICKS, Status
from karelsynth.karel.machine_kernel import CELLS, compile_program, put_hero_back, run_code, take_hero_out
from karelsynth.karel.tokens import ACTIONS, CLOSERS, COUNTS, ID, OPENERS, VOCABULARY_SIZE
from karelsynth.tasks.kernel_layout import CONDITIONS
from karelsynth.tasks.program_kernel import GAMMA, mix

MOST: Final = 6000
"""Room for the neighbours of a program; what is beyond is left out."""
LONGEST_WRAPPED: Final = 4
"""Statements that are put into a block at a time."""
CRASH: Final = 8
"""What a crash counts as, in cells that are not as they should be."""

_COUNTS: Final = COUNTS[2:11]


def _condition(name: str) -> tuple[str, ...]:
    """The tokens of one of the conditions."""
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
_ACTION, _CONDITION, _COUNT = (_FIRST[kind] for kind in ("action", "condition", "count"))
_WHILE_HEAD, _IF_HEAD, _IFELSE_HEAD, _REPEAT_HEAD = (_FIRST[kind] for kind in ("while", "if", "if-else", "repeat"))
_ELSE = _FIRST["else"]
_T_WHILE, _T_IF, _T_IFELSE, _T_OPEN_W, _T_OPEN_I, _T_CLOSE_W, _T_CLOSE_I, _T_CLOSE_R, _T_ELSE = range(
    _FIRST["token"], _FIRST["token"] + 9
)
_ACTION_KINDS, _CONDITION_KINDS, _COUNT_KINDS = len(ACTIONS), len(CONDITIONS), len(_COUNTS)
_MOVE, _PUT = ID["move"], ID["putMarker"]
_WHILE, _IF, _IFELSE, _REPEAT = ID["WHILE"], ID["IF"], ID["IFELSE"], ID["REPEAT"]
_BEGINS: Final = np.isin(np.arange(256), [ID[name] for name in (*ACTIONS, "WHILE", "IF", "IFELSE", "REPEAT")])
_OPENS: Final = np.isin(np.arange(256), [ID[name] for name in OPENERS])
_CLOSES: Final = np.isin(np.arange(256), [ID[name] for name in CLOSERS])
_ELSE_TOKEN = ID["ELSE"]


def _never() -> NDArray[np.bool_]:
    never = np.zeros((VOCABULARY_SIZE, VOCABULARY_SIZE), np.bool_)
    for one, other in NORMAL_FORM.never_adjacent:
        never[ID[one], ID[other]] = True
    return never


_NEVER: Final = _never()
_OK = int(Status.OK)
_ZERO, _ONE, _S8 = np.uint64(0), np.uint64(1), np.uint64(8)


@compiled()
def _is_new(bits: np.uint64, seen: NDArray[np.uint64]) -> bool:  # pragma: no cover - compiled
    """Put a number into a set: an open table whose size is a power of two, at most half full; 0 is no number."""
    bits = bits | _ONE
    last = np.uint64(seen.shape[0] - 1)
    place = (bits >> _S8) & last
    while seen[place] != _ZERO:
        if seen[place] == bits:
            return False
        place = (place + _ONE) & last
    seen[place] = bits
    return True


@compiled()
def _structure(
    tokens: NDArray[np.uint8], length: int, ends: NDArray[np.int64], opens: NDArray[np.int64], elses: NDArray[np.int64]
) -> None:  # pragma: no cover - compiled
    """For every statement, at its first token: the place after it, its `w(`, `r(` or `i(`, and its ELSE; else 0."""
    stack = np.empty(length + 1, np.int64)
    depth = 0
    for at in range(length):
        ends[at], opens[at], elses[at] = 0, 0, 0
    for at in range(3, length - 1):
        token = tokens[at]
        if _MOVE <= token <= _PUT:
            ends[at] = at + 1
        elif _BEGINS[token]:
            stack[depth] = at
            depth += 1
        elif token == _ELSE_TOKEN:
            elses[stack[depth - 1]] = at
        elif _OPENS[token]:
            if elses[stack[depth - 1]] == 0:
                opens[stack[depth - 1]] = at
        elif _CLOSES[token]:
            begin = stack[depth - 1]
            if tokens[begin] != _IFELSE or elses[begin] > 0:
                ends[begin] = at + 1
                depth -= 1


@compiled()
def _edit(
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
    """Note a change down, as the module's docstring has it; returns how many there are then. Piece 0 is nothing."""
    if count == edits.shape[0]:
        return count
    edits[count, 0], edits[count, 1], edits[count, 2], edits[count, 3] = at, first, p, q
    edits[count, 4], edits[count, 5], edits[count, 6], edits[count, 7] = second, r, s, third
    edits[count, 8] = rest
    return count + 1


@compiled()
def _within(
    edits: NDArray[np.int64], count: int, kind: int, at: int, opened: int, otherwise: int, end: int
) -> int:  # pragma: no cover - compiled
    """Changes of a control statement itself: its condition or count, its kind, or only what is in it."""
    close = otherwise - 1 if otherwise > 0 else end - 1  # of the first block
    body = opened + 1
    count = _edit(edits, count, at, 0, body, close, 0, 0, 0, 0, end)
    if kind == _REPEAT:
        for times in range(_COUNT_KINDS):
            count = _edit(edits, count, at + 1, _COUNT + times, 0, 0, 0, 0, 0, 0, at + 2)
        for condition in range(_CONDITION_KINDS):
            count = _edit(edits, count, at, _WHILE_HEAD + condition, body, close, _T_CLOSE_W, 0, 0, 0, end)
        return count
    for condition in range(_CONDITION_KINDS):
        count = _edit(edits, count, at + 2, _CONDITION + condition, 0, 0, 0, 0, 0, 0, opened - 1)
    if kind == _IF:
        count = _edit(edits, count, at, _T_WHILE, at + 1, opened, _T_OPEN_W, body, close, _T_CLOSE_W, end)
        for action in range(_ACTION_KINDS):
            count = _edit(edits, count, at, _T_IFELSE, at + 1, close, _ELSE + action, 0, 0, 0, end)
    elif kind == _WHILE:
        count = _edit(edits, count, at, _T_IF, at + 1, opened, _T_OPEN_I, body, close, _T_CLOSE_I, end)
        for times in range(_COUNT_KINDS):
            count = _edit(edits, count, at, _REPEAT_HEAD + times, body, close, _T_CLOSE_R, 0, 0, 0, end)
    else:
        other = otherwise + 2
        count = _edit(edits, count, at, 0, other, end - 1, 0, 0, 0, 0, end)
        count = _edit(edits, count, at, _T_IF, at + 1, close + 1, 0, 0, 0, 0, end)
        count = _edit(edits, count, body, 0, other, end - 1, _T_ELSE, body, close, 0, end - 1)  # the other way around
    return count


@compiled()
def _around(
    edits: NDArray[np.int64], count: int, at: int, last: int, single: bool
) -> int:  # pragma: no cover - compiled
    """The statements from `at` to `last` in a block of their own."""
    for condition in range(_CONDITION_KINDS):
        count = _edit(edits, count, at, _WHILE_HEAD + condition, at, last, _T_CLOSE_W, 0, 0, 0, last)
        count = _edit(edits, count, at, _IF_HEAD + condition, at, last, _T_CLOSE_I, 0, 0, 0, last)
        if single:
            for action in range(_ACTION_KINDS):
                count = _edit(edits, count, at, _IFELSE_HEAD + condition, at, last, _ELSE + action, 0, 0, 0, last)
    for times in range(_COUNT_KINDS):
        count = _edit(edits, count, at, _REPEAT_HEAD + times, at, last, _T_CLOSE_R, 0, 0, 0, last)
    return count


@compiled()
def _all_edits(tokens: NDArray[np.uint8], length: int, edits: NDArray[np.int64]) -> int:  # pragma: no cover - compiled
    """Every change of a program, to `edits` [·, 9]; returns how many."""
    ends, opens, elses = np.empty(length, np.int64), np.empty(length, np.int64), np.empty(length, np.int64)
    _structure(tokens, length, ends, opens, elses)
    count = 0
    for at in range(3, length):
        here = tokens[at]
        if not _BEGINS[here] and not _CLOSES[here]:
            continue
        for action in range(_ACTION_KINDS):  # one more action
            count = _edit(edits, count, at, _ACTION + action, 0, 0, 0, 0, 0, 0, at)
        end = ends[at]
        if end == 0:
            continue
        if not (_OPENS[tokens[at - 1]] and _CLOSES[tokens[end]]):  # one statement fewer
            count = _edit(edits, count, at, 0, 0, 0, 0, 0, 0, 0, end)
        after = ends[end]
        if after > 0:  # two in the other order
            count = _edit(edits, count, at, 0, end, after, 0, at, end, 0, after)
        if _MOVE <= here <= _PUT:  # another action
            for action in range(_ACTION_KINDS):
                count = _edit(edits, count, at, _ACTION + action, 0, 0, 0, 0, 0, 0, end)
        else:
            count = _within(edits, count, here, at, opens[at], elses[at], end)
        last = end
        for number in range(LONGEST_WRAPPED):
            count = _around(edits, count, at, last, number == 0)
            if ends[last] == 0:
                break
            last = ends[last]
    return count


@compiled()
def neighbours(
    tokens: NDArray[np.uint8],
    length: int,
    longest: int,
    seen: NDArray[np.uint64],
    out: NDArray[np.uint8],
    lengths: NDArray[np.int64],
) -> int:  # pragma: no cover - compiled
    """Write the neighbours of a program [L], none longer than `longest`, to `out` [·, longest]; returns how many.

    Those in `seen` are left out, and the others put there.
    """
    edits = np.empty((MOST, 9), np.int64)
    count = 0
    for number in range(_all_edits(tokens, length, edits)):
        if count == out.shape[0]:
            break
        size = 0
        for part in range(4):
            # tokens[begin : stop], then a piece; after the last part, none.
            begin = 0 if part == 0 else edits[number, 3 * part - 1] if part < 3 else edits[number, 8]
            stop = edits[number, 0] if part == 0 else edits[number, 3 * part] if part < 3 else length
            piece = edits[number, 3 * part + 1] if part < 3 else 0
            if size + stop - begin + _SIZES[piece] > longest:
                size = longest + 1
                break
            for place in range(begin, stop):
                out[count, size] = tokens[place]
                size += 1
            for place in range(_SIZES[piece]):
                out[count, size] = _PIECES[piece, place]
                size += 1
        if size <= longest and _is_wanted(out, count, size, seen):
            lengths[count] = size
            count += 1
    return count


@compiled()
def _is_wanted(
    rows: NDArray[np.uint8], row: int, size: int, seen: NDArray[np.uint64]
) -> bool:  # pragma: no cover - compiled
    """Whether the program in rows[row, :size] is in the normal form and new."""
    bits = np.uint64(size)
    for place in range(size):
        token = rows[row, place]
        if place > 1:
            before = rows[row, place - 1]
            if _NEVER[before, token] or (token == before == rows[row, place - 2] and _MOVE <= token <= _PUT):
                return False
        bits = mix(bits + np.uint64(token) * GAMMA)
    new: bool = _is_new(bits, seen)
    return new


@compiled()
def _found(example: int, place: int, what: int) -> np.uint64:  # pragma: no cover - compiled
    """A number for a byte that an example ends with: the code of a cell, or the status, which has place CELLS."""
    number: np.uint64 = mix(np.uint64(((example * (CELLS + 1) + place) << 8) + what + 1) * GAMMA)
    return number


@compiled()
def judge_range(
    first: int,
    last: int,
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    inputs: NDArray[np.uint8],
    heroes: NDArray[np.int16],
    targets: NDArray[np.uint8],
    transition: NDArray[np.int32],
    symbols: int,
    start: int,
    per_example: float,
    per_cell: float,
    bounds: NDArray[np.float64],
    right: NDArray[np.int64],
    wrong: NDArray[np.int64],
    behaviour: NDArray[np.uint64],
) -> None:  # pragma: no cover - compiled
    """Run programs first … last − 1 of tokens [N, L] on inputs [K, 324].

    For each: on how many examples it is right, or -1 if it does not parse; how many cells are not as in the targets,
    a crash counting as some more; and a number that is the same for programs that lead all examples to the same ends.
    One that comes to more than its bound, each wrong cell costing `per_cell` and each right example saving
    `per_example`, is given up as soon as that is certain, with -1 as well.
    """
    most = tokens.shape[1]
    code, origin = np.empty(2 * most + 2, np.int64), np.empty(2 * most + 2, np.int16)
    stack, opened = np.empty(most + 2, np.int32), np.empty((most + 2, 3), np.int32)
    counters, cells = np.empty(most + 1, np.int32), np.empty((1, CELLS), np.uint8)
    nothing, unseen = np.empty((0, 0), np.uint8), np.empty((0, 0, 0), np.uint8)
    for number in range(first, last):
        text = tokens[number, : lengths[number]]
        if compile_program(text, transition, symbols, start, code, origin, stack, opened) >= 0:
            right[number], wrong[number], behaviour[number] = -1, 0, _ZERO
            continue
        good, bad, bits = 0, 0, _ZERO
        for example in range(inputs.shape[0]):
            at = int(heroes[example])
            heading = take_hero_out(inputs, example, at, cells, 0)
            status, _, _, _, at, heading = run_code(
                code, counters, cells, 0, at, heading, MAX_TICKS, nothing, 0, False, unseen, 0, 0, False
            )
            put_hero_back(cells, 0, at, heading)
            different = 0
            for cell in range(CELLS):
                different += cells[0, cell] != targets[example, cell]
            if different > 0:
                for cell in range(CELLS):
                    if cells[0, cell] != targets[example, cell]:
                        bits += _found(example, cell, int(cells[0, cell]))
            if status == _OK:
                good += different == 0
                bad += different
            else:
                bad += different + CRASH
                bits += _found(example, CELLS, status)
            left = inputs.shape[0] - 1 - example
            if bad > 0 and per_cell * bad - per_example * (good + left) > bounds[number]:
                good = -1
                break
        right[number], wrong[number], behaviour[number] = good, bad, bits
