"""All programs that are one change away from another, and how near programs come to what is asked for; compiled.

`generator.edit_kernel` describes how a change is recorded and written. Whatever a change makes parses. What is not
in the normal form is left out, unless the program itself is not: mostly it does what a shorter neighbour does.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.generator.edit_kernel import (
    ACTION,
    ACTION_KINDS,
    BEGINS,
    CLOSE_I,
    CLOSE_R,
    CLOSE_W,
    CLOSES,
    CONDITION,
    CONDITION_KINDS,
    COUNT,
    COUNT_KINDS,
    ELSE,
    ELSE_WITH,
    FIRST_ACTION,
    IF_HEAD,
    IFELSE_HEAD,
    LAST_ACTION,
    OPEN_I,
    OPEN_W,
    OPENS,
    PARTS,
    REPEAT_HEAD,
    TO_IF,
    TO_IFELSE,
    TO_WHILE,
    WHILE_HEAD,
    edited_length,
    note_edit,
    structure,
    write_edited,
)
from karelsynth.generator.random_kernel import GAMMA, mix
from karelsynth.karel.compiled import compiled
from karelsynth.karel.grammar import NORMAL_FORM
from karelsynth.karel.interpreter import MAX_TICKS, Status
from karelsynth.karel.machine_kernel import (
    CELLS,
    IF,
    REPEAT,
    WHILE,
    code_buffers,
    compile_program,
    put_hero_back,
    run_code,
    take_hero_out,
)
from karelsynth.karel.syntax_compiler import ParserTables
from karelsynth.karel.tokens import ID, VOCABULARY_SIZE

MOST: Final = 10_000
"""Room for the changes of a program; what is beyond is left out. A plain action has 152, and 60 tokens hold 56."""
LONGEST_WRAPPED: Final = 4
"""Statements that are put into a block at a time."""
CRASH: Final = 8
"""What a crash counts as, in cells that are not as they should be."""


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
def _within(
    edits: NDArray[np.int64], count: int, kind: int, at: int, opened: int, otherwise: int, end: int
) -> int:  # pragma: no cover - compiled
    """Changes of a control statement itself: its condition or count, its kind, or only what is in it."""
    close = otherwise - 1 if otherwise > 0 else end - 1  # of the first block
    body = opened + 1
    count = note_edit(edits, count, at, 0, body, close, 0, 0, 0, 0, end)
    if kind == REPEAT:
        for times in range(COUNT_KINDS):
            count = note_edit(edits, count, at + 1, COUNT + times, 0, 0, 0, 0, 0, 0, at + 2)
        for condition in range(CONDITION_KINDS):
            count = note_edit(edits, count, at, WHILE_HEAD + condition, body, close, CLOSE_W, 0, 0, 0, end)
        return count
    for condition in range(CONDITION_KINDS):
        count = note_edit(edits, count, at + 2, CONDITION + condition, 0, 0, 0, 0, 0, 0, opened - 1)
    if kind == IF:
        count = note_edit(edits, count, at, TO_WHILE, at + 1, opened, OPEN_W, body, close, CLOSE_W, end)
        for action in range(ACTION_KINDS):
            count = note_edit(edits, count, at, TO_IFELSE, at + 1, close, ELSE_WITH + action, 0, 0, 0, end)
    elif kind == WHILE:
        count = note_edit(edits, count, at, TO_IF, at + 1, opened, OPEN_I, body, close, CLOSE_I, end)
        for times in range(COUNT_KINDS):
            count = note_edit(edits, count, at, REPEAT_HEAD + times, body, close, CLOSE_R, 0, 0, 0, end)
    else:
        other = otherwise + 2
        count = note_edit(edits, count, at, 0, other, end - 1, 0, 0, 0, 0, end)
        count = note_edit(edits, count, at, TO_IF, at + 1, close + 1, 0, 0, 0, 0, end)
        count = note_edit(edits, count, body, 0, other, end - 1, ELSE, body, close, 0, end - 1)  # the other way around
    return count


@compiled()
def _around(
    edits: NDArray[np.int64], count: int, at: int, last: int, single: bool
) -> int:  # pragma: no cover - compiled
    """The statements from `at` to `last` in a block of their own."""
    for condition in range(CONDITION_KINDS):
        count = note_edit(edits, count, at, WHILE_HEAD + condition, at, last, CLOSE_W, 0, 0, 0, last)
        count = note_edit(edits, count, at, IF_HEAD + condition, at, last, CLOSE_I, 0, 0, 0, last)
        if single:
            for action in range(ACTION_KINDS):
                count = note_edit(
                    edits, count, at, IFELSE_HEAD + condition, at, last, ELSE_WITH + action, 0, 0, 0, last
                )
    for times in range(COUNT_KINDS):
        count = note_edit(edits, count, at, REPEAT_HEAD + times, at, last, CLOSE_R, 0, 0, 0, last)
    return count


@compiled()
def _all_edits(tokens: NDArray[np.uint8], length: int, edits: NDArray[np.int64]) -> int:  # pragma: no cover - compiled
    """Every change of a program, to `edits` [·, 9]; returns how many."""
    ends, opens, elses = np.empty(length, np.int64), np.empty(length, np.int64), np.empty(length, np.int64)
    structure(tokens, length, ends, opens, elses)
    count = 0
    for at in range(3, length):
        here = tokens[at]
        if not BEGINS[here] and not CLOSES[here]:
            continue
        for action in range(ACTION_KINDS):  # one more action
            count = note_edit(edits, count, at, ACTION + action, 0, 0, 0, 0, 0, 0, at)
        end = ends[at]
        if end == 0:
            continue
        if not (OPENS[tokens[at - 1]] and CLOSES[tokens[end]]):  # one statement fewer
            count = note_edit(edits, count, at, 0, 0, 0, 0, 0, 0, 0, end)
        after = ends[end]
        if after > 0:  # two in the other order
            count = note_edit(edits, count, at, 0, end, after, 0, at, end, 0, after)
        if FIRST_ACTION <= here <= LAST_ACTION:  # another action
            for action in range(ACTION_KINDS):
                count = note_edit(edits, count, at, ACTION + action, 0, 0, 0, 0, 0, 0, end)
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
    edits = np.empty((MOST, PARTS), np.int64)
    faults = _faults(tokens, length)
    count = 0
    for number in range(_all_edits(tokens, length, edits)):
        if count == out.shape[0]:
            break
        size = edited_length(edits, number, length)
        if size > longest:
            continue
        write_edited(tokens, length, edits, number, out, count)
        if _faults(out[count], size) <= faults and _is_new(_number_of(out[count], size), seen):
            lengths[count] = size
            count += 1
    return count


@compiled()
def _faults(row: NDArray[np.uint8], size: int) -> int:  # pragma: no cover - compiled
    """How many times the program in row[:size] leaves the normal form."""
    faults = 0
    for place in range(2, size):
        token, before = row[place], row[place - 1]
        if _NEVER[before, token] or (token == before == row[place - 2] and FIRST_ACTION <= token <= LAST_ACTION):
            faults += 1
    return faults


@compiled()
def _number_of(row: NDArray[np.uint8], size: int) -> np.uint64:  # pragma: no cover - compiled
    """A number for the program in row[:size]."""
    bits = np.uint64(size)
    for place in range(size):
        bits = mix(bits + np.uint64(row[place]) * GAMMA)
    return bits


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
    parser: ParserTables,
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
    code, origin, stack, opened, counters = code_buffers(tokens.shape[1])
    cells = np.empty((1, CELLS), np.uint8)
    for number in range(first, last):
        text = tokens[number, : lengths[number]]
        if compile_program(text, parser, code, origin, stack, opened) >= 0:
            right[number], wrong[number], behaviour[number] = -1, 0, _ZERO
            continue
        good, bad, bits = 0, 0, _ZERO
        for example in range(inputs.shape[0]):
            at = int(heroes[example])
            heading = take_hero_out(inputs, example, at, cells, 0)
            status, _, _, _, at, heading = run_code(
                code, counters, cells, 0, at, heading, MAX_TICKS, cells, False, cells, False, 0
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
