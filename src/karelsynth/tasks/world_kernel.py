"""Drawing worlds while a program runs in them (Numba).

What a cell holds is decided by 64 bits that depend on the world's key and the cell alone, and only when the program
looks at it; the rest of the grid is filled in once the world is accepted. So most worlds, which are not, cost little
more than the run. Where the program moves without having looked there is no wall, and where it picks without having
looked there are markers by a chance that is part of the fit: it spares the rejections that would enforce the same.

A cell's code is that of `karel.formats.codes`, with two more: OPEN, no wall but the markers not yet decided (worlds
here hold at most 9 markers a cell, so 10 is free), and UNKNOWN.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled
from karelsynth.karel.formats.codes import BEYOND, FRAME, HERO, SIDE, WALL
from karelsynth.karel.interpreter import MAX_TICKS
from karelsynth.karel.machine_kernel import AGAIN, BRANCH, CELLS, END, JUMP, LOOP, NEGATED, ON_MARKERS
from karelsynth.karel.tokens import ID
from karelsynth.tasks.kernel_layout import (
    COLS_ROW,
    CORNER,
    ELSEWHERE,
    HEADING_ROW,
    MARKER_LEVELS_ROW,
    MARKER_ROW,
    ON_EDGE,
    PICK,
    PILE_ROW,
    ROWS_ROW,
    SEEK,
    SETTINGS_ROW,
    UNDER_HERO,
    WALL_LEVELS_ROW,
    WALL_ROW,
    Sampler,
)
from karelsynth.tasks.program_kernel import choose, mix, setting, signed

MOST: Final = 9
"""Markers on a cell, before and after: the original never has more."""
LONGEST_TRACE: Final = 73
"""Actions; the original has none longer."""
BAD, GOOD, ENDLESS, _RUNNING = 0, 1, 2, 3
OPEN: Final = 10
UNKNOWN: Final = 255
ROOMY: Final = np.uint64(40_000)
"""The chance, out of 65,536, that a hero is turned or moved to where it has more room ahead."""
_MOVE, _LEFT, _RIGHT, _PICK, _PUT = (ID[name] for name in ("move", "turnLeft", "turnRight", "pickMarker", "putMarker"))
_S16, _S32, _S48, _LOW = np.uint64(16), np.uint64(32), np.uint64(48), np.uint64(0xFFFF)
_ZERO, _ONE, _TWO, _SIDE, _SURE = (np.uint64(number) for number in (0, 1, 2, SIDE, 1 << 16))
_FALSE, _TRUE, _BOTH, _THREE, _S8, _BYTE = _ONE, _TWO, np.uint64(3), np.uint64(3), np.uint64(8), np.uint64(0xFF)
_CELLS, _WALL, _NEGATED, _ON_MARKERS = (np.uint64(number) for number in (CELLS, WALL, NEGATED, ON_MARKERS))
_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
# Places are unsigned, since Numba treats a negative index as one from the end and would ask at each use. Sums wrap.
_STEP = np.array([SIDE, 1, -SIDE, -1]).astype(np.uint64)  # north, east, south, west
_ROW, _COL = (
    (np.indices((SIDE, SIDE)) - 1).astype(np.uint8).reshape(2, CELLS)
)  # of a cell; 255 below and left of the grid
# The columns of a world's description.
KEY, WALLS, MARKERS, ROWS, COLS, PLACE, HEADING, LAST_PLACE, LAST_HEADING, TRACE, SEEN, LENGTH = range(12)
DESCRIPTION: Final = 12


@compiled()
def _bits(key: np.uint64, cell: np.uint64) -> np.uint64:  # pragma: no cover - compiled
    """The 64 bits that decide a cell: 16 for a wall, 16 for markers, 32 for their number."""
    bits: np.uint64 = mix(key + cell * _GAMMA)
    return bits


@compiled()
def _pile(sampler: Sampler, bits: np.uint64) -> np.uint64:  # pragma: no cover - compiled
    """How many markers a cell with markers has."""
    more: np.uint64 = choose(sampler, PILE_ROW, bits << _S32 | (bits & _LOW))
    return _ONE + more


@compiled()
def _marked(
    sampler: Sampler, key: np.uint64, cell: np.uint64, chance: np.uint64
) -> np.uint64:  # pragma: no cover - compiled
    """The number of markers on a cell that is no wall and has some by the given chance."""
    bits = _bits(key, cell)
    number: np.uint64 = _pile(sampler, bits) * np.uint64((bits >> _S32 & _LOW) < chance)
    return number


@compiled()
def begin_world(
    state: NDArray[np.uint64], sampler: Sampler, bare: bool, worlds: NDArray[np.uint64], slot: int
) -> None:  # pragma: no cover - compiled
    """Draw what a world has besides its cells, into row `slot` of `worlds` [E, DESCRIPTION]."""
    counter = state[0] + _GAMMA  # kept out of the array: the compiler cannot know that it is apart from `worlds`
    worlds[slot, KEY] = mix(counter)
    rows = _TWO + choose(sampler, ROWS_ROW, mix(counter + _GAMMA))
    counter += _GAMMA + _GAMMA
    cols = _TWO + choose(sampler, COLS_ROW, mix(counter))
    worlds[slot, ROWS], worlds[slot, COLS] = rows, cols
    walls = _ZERO
    if not bare:
        counter += _GAMMA
        walls = setting(sampler, WALL_LEVELS_ROW, choose(sampler, WALL_ROW, mix(counter)))
    worlds[slot, WALLS] = walls
    counter += _GAMMA
    level = choose(sampler, MARKER_ROW if bare else MARKER_ROW + 1, mix(counter))
    counter += _GAMMA
    heading = choose(sampler, HEADING_ROW, mix(counter))
    row, col = _ZERO, _ZERO
    counter += _GAMMA
    if (mix(counter) >> _S48) >= setting(sampler, SETTINGS_ROW, CORNER):
        bits = _ZERO
        top, right = rows - _ONE, cols - _ONE
        on_edge, elsewhere = setting(sampler, SETTINGS_ROW, ON_EDGE), setting(sampler, SETTINGS_ROW, ELSEWHERE)
        while True:
            counter += _GAMMA
            bits = mix(counter)
            row = (bits >> _S48) * rows >> _S16
            col = (bits >> _S32 & _LOW) * cols >> _S16
            one_end = ((row == _ZERO) | (row == top)) ^ ((col == _ZERO) | (col == right))
            if (bits & _LOW) < (on_edge if one_end else elsewhere):
                break
        # Programs move ahead more often than not: of this place and its mirror image, mostly the one with room.
        if (bits >> _S16 & _LOW) < ROOMY:
            if heading & _ONE:
                nearer, farther = min(col, right - col), max(col, right - col)
                col = nearer if heading == _ONE else farther
            else:
                nearer, farther = min(row, top - row), max(row, top - row)
                row = nearer if heading == _ZERO else farther
    elif heading >= _TWO:
        counter += _GAMMA
        heading -= _TWO * np.uint64((mix(counter) >> _S48) < ROOMY)
    worlds[slot, MARKERS] = setting(sampler, MARKER_LEVELS_ROW, level)
    worlds[slot, HEADING] = heading
    worlds[slot, PLACE] = (row + _ONE) * _SIDE + col + _ONE
    state[0] = counter


@compiled()
def run_world(
    sampler: Sampler,
    code: NDArray[np.uint64],
    counters: NDArray[np.uint64],
    unseen: np.uint64,
    worlds: NDArray[np.uint64],
    cells: NDArray[np.uint8],
    marked: NDArray[np.uint8],
    slot: int,
) -> int:  # pragma: no cover - compiled
    """Run compiled code in a world that is drawn as it goes: GOOD if it makes a good example, BAD, or ENDLESS.

    `unseen` has two bits for each condition, 1 for false and 2 for true: outcomes that other examples do not show yet.
    Row `slot` of `cells` [E · 324] gets what the run leaves of the world, as far as it has been seen; where that is a
    number of markers, that of `marked` [E · 324] gets how many there were before.
    A good example neither crashes nor runs out of ticks, has a move and a pick or put in its trace, changes
    something, never has more than 9 markers on a cell and takes at most 73 actions. The end of the row of
    `worlds` [E, DESCRIPTION] then describes the run.

    There is one way out, and rows are not handed over as arrays: else Numba would count references to the arrays,
    which takes as long as a short run.
    """
    base = np.uint64(slot * CELLS)
    for cell in range(CELLS):
        cells[base + np.uint64(cell)] = UNKNOWN
    key, rows, cols = worlds[slot, KEY], worlds[slot, ROWS], worlds[slot, COLS]
    markers, walls = worlds[slot, MARKERS], worlds[slot, WALLS]
    some = markers > _ZERO
    picking = setting(sampler, SETTINGS_ROW, PICK) if some else _ZERO
    under = setting(sampler, SETTINGS_ROW, UNDER_HERO) if some else _ZERO
    seeking = setting(sampler, SETTINGS_ROW, SEEK)
    start, turned = worlds[slot, PLACE], worlds[slot, HEADING]
    at, heading = start, turned
    cells[base + at] = OPEN
    used, length, moves, marks, changed, pc = 0, 0, 0, 0, 0, _ZERO
    trace, seen = _ONE, _ZERO
    outcome = _RUNNING
    while outcome == _RUNNING:
        instruction = code[pc]
        operation = signed(instruction & _BYTE)
        pc += _ONE
        if operation == END:
            good = moves > 0 and marks > 0 and (changed > 0 or at != start or heading != turned)
            outcome = GOOD if good else BAD
            continue
        if operation == JUMP:
            pc = instruction >> _S16 & _LOW
            continue
        if operation == LOOP:
            counter = instruction >> _S32
            counters[counter] -= _ONE
            if counters[counter] == _ZERO:
                continue
        if used == MAX_TICKS:
            outcome = ENDLESS
            continue
        used += 1
        if operation >= _MOVE:
            if operation == _MOVE:
                at += _STEP[heading]
                here = cells[base + at]
                if here == UNKNOWN:
                    here = FRAME if (_ROW[at] >= rows) | (_COL[at] >= cols) else OPEN
                    cells[base + at] = OPEN
                if here >= WALL:
                    outcome = BAD
                    continue
                moves += 1
            elif operation == _LEFT:
                heading = (heading + _THREE) & _THREE
            elif operation == _RIGHT:
                heading = (heading + _ONE) & _THREE
            else:
                number = signed(cells[base + at])
                if number == OPEN:
                    natural = under if at == start else markers
                    number = signed(_marked(sampler, key, at, picking if operation == _PICK else natural))
                    marked[base + at] = number
                was = signed(marked[base + at])
                changed -= number != was
                number += 1 if operation == _PUT else -1
                changed += number != was
                if number < 0 or number > MOST:
                    outcome = BAD
                    continue
                cells[base + at] = number
                marks += 1
            if length == LONGEST_TRACE:
                outcome = ENDLESS
                continue
            trace = trace * _GAMMA + np.uint64(operation)
            length += 1
        elif operation == BRANCH or operation == AGAIN:
            operand = instruction >> _S8 & _BYTE
            negated = (operand & _NEGATED) != _ZERO
            outcomes = _TWO * (instruction >> _S32)
            sought = (unseen & ~seen) >> outcomes & _BOTH
            seeks = sought == _TRUE or sought == _FALSE
            if operand & _ON_MARKERS:
                number = signed(cells[base + at])
                if number == OPEN:
                    chance = under if at == start else markers
                    if seeks and some and _bits(key, at + _CELLS) >> _S48 < seeking:
                        chance = _SURE if (sought == _TRUE) != negated else _ZERO
                    number = signed(_marked(sampler, key, at, chance))
                    cells[base + at] = number
                    marked[base + at] = number
                holds = (number > 0) ^ negated
            else:
                beside = at + _STEP[(heading + operand) & _THREE]
                there = signed(cells[base + beside])
                if there == UNKNOWN:
                    if (_ROW[beside] >= rows) | (_COL[beside] >= cols):
                        there = FRAME
                    else:
                        chance = walls
                        if seeks and walls > _ZERO and _bits(key, beside + _CELLS) >> _S48 < seeking:
                            chance = _ZERO if (sought == _TRUE) != negated else _SURE
                        there = WALL if (_bits(key, beside) >> _S48) < chance else OPEN
                    cells[base + beside] = there
                holds = (there < WALL) ^ negated
            seen |= (_TRUE if holds else _FALSE) << outcomes
            if holds == (operation == AGAIN):
                pc = instruction >> _S16 & _LOW
        elif operation == LOOP:
            pc = instruction >> _S16 & _LOW
        else:  # SET; the normal form has no REPEAT of nothing
            counters[instruction >> _S32] = instruction >> _S8 & _BYTE
    worlds[slot, LAST_PLACE], worlds[slot, LAST_HEADING] = at, heading
    worlds[slot, TRACE], worlds[slot, SEEN], worlds[slot, LENGTH] = trace, seen, np.uint64(length)
    return outcome


@compiled()
def complete_world(
    sampler: Sampler,
    worlds: NDArray[np.uint64],
    cells: NDArray[np.uint8],
    marked: NDArray[np.uint8],
    slot: int,
    inputs: NDArray[np.uint8],
    outputs: NDArray[np.uint8],
    task: int,
    place: int,
) -> None:  # pragma: no cover - compiled
    """Draw the cells that the program never looked at; write the worlds before and after the run.

    They go to example `place` of `task` in `inputs` and `outputs`, [N, E, 324].
    """
    key, markers, walls = worlds[slot, KEY], worlds[slot, MARKERS], worlds[slot, WALLS]
    rows, cols, start = signed(worlds[slot, ROWS]), signed(worlds[slot, COLS]), signed(worlds[slot, PLACE])
    for cell in range(CELLS):
        inputs[task, place, cell] = BEYOND
    for row in range(rows + 2):
        for cell in range(row * SIDE, row * SIDE + cols + 2):
            inputs[task, place, cell] = FRAME
    # First as if the program had looked nowhere, without branches that no processor could foresee; then what it saw.
    for row in range(1, rows + 1):
        for cell in range(row * SIDE + 1, row * SIDE + cols + 1):
            bits = _bits(key, np.uint64(cell))
            wall = np.uint64((bits >> _S48) < walls)
            some = np.uint64((bits >> _S32 & _LOW) < markers)
            inputs[task, place, cell] = wall * _WALL + (_ONE - wall) * some * _pile(sampler, bits)
    for cell in range(CELLS):
        outputs[task, place, cell] = inputs[task, place, cell]
    base = slot * CELLS
    under = setting(sampler, SETTINGS_ROW, UNDER_HERO) if markers > _ZERO else _ZERO
    for row in range(1, rows + 1):
        for cell in range(row * SIDE + 1, row * SIDE + cols + 1):
            now = cells[base + cell]
            if now != UNKNOWN:
                was = marked[base + cell] if now < OPEN else now
                if now == OPEN:
                    now = np.uint8(_marked(sampler, key, np.uint64(cell), under if cell == start else markers))
                    was = now
                inputs[task, place, cell] = was
                outputs[task, place, cell] = now
    inputs[task, place, start] += np.uint8(HERO * (signed(worlds[slot, HEADING]) + 1))
    last = signed(worlds[slot, LAST_PLACE])
    outputs[task, place, last] += np.uint8(HERO * (signed(worlds[slot, LAST_HEADING]) + 1))
