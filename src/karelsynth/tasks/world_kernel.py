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
from karelsynth.tasks.program_kernel import choose, draw, mix

MOST: Final = 9
"""Markers on a cell, before and after: the original never has more."""
LONGEST_TRACE: Final = 73
"""Actions; the original has none longer."""
BAD, GOOD, ENDLESS = 0, 1, 2
OPEN: Final = 10
UNKNOWN: Final = 255
ROOMY: Final = np.uint64(40_000)
"""The chance, out of 65,536, that a hero is turned or moved to where it has more room ahead."""
_MOVE, _LEFT, _RIGHT, _PICK, _PUT = (ID[name] for name in ("move", "turnLeft", "turnRight", "pickMarker", "putMarker"))
_S16, _S32, _S48, _LOW = np.uint64(16), np.uint64(32), np.uint64(48), np.uint64(0xFFFF)
_ZERO, _ONE, _TRUE, _BOTH, _SURE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(1 << 16)
_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.array([SIDE, 1, -SIDE, -1])  # north, east, south, west
# The columns of a world's description.
KEY, WALLS, MARKERS, ROWS, COLS, PLACE, HEADING, LAST_PLACE, LAST_HEADING, TRACE, SEEN, LENGTH = range(12)
DESCRIPTION: Final = 12


@compiled()
def _bits(key: np.uint64, cell: int) -> np.uint64:  # pragma: no cover - compiled
    """The 64 bits that decide a cell: 16 for a wall, 16 for markers, 32 for their number."""
    bits: np.uint64 = mix(key + np.uint64(cell) * _GAMMA)
    return bits


@compiled()
def _pile(sampler: Sampler, bits: np.uint64) -> int:  # pragma: no cover - compiled
    """How many markers a cell with markers has."""
    more: int = choose(sampler, PILE_ROW, bits << _S32 | (bits & _LOW))
    return 1 + more


@compiled()
def _marked(sampler: Sampler, key: np.uint64, cell: int, chance: np.uint64) -> int:  # pragma: no cover - compiled
    """The number of markers on a cell that is no wall and has some by the given chance."""
    bits = _bits(key, cell)
    return _pile(sampler, bits) if (bits >> _S32 & _LOW) < chance else 0


@compiled()
def _wall(key: np.uint64, rows: int, cols: int, cell: int, density: np.uint64) -> int:  # pragma: no cover - compiled
    """FRAME, WALL or OPEN."""
    row, col = cell // SIDE, cell % SIDE
    if row == 0 or col == 0 or row > rows or col > cols:
        return FRAME
    return WALL if (_bits(key, cell) >> _S48) < density else OPEN


@compiled()
def begin_world(
    state: NDArray[np.uint64], sampler: Sampler, bare: bool, worlds: NDArray[np.uint64], slot: int
) -> None:  # pragma: no cover - compiled
    """Draw what a world has besides its cells, into a row of `worlds` [E, DESCRIPTION]."""
    worlds[slot, KEY] = draw(state)
    rows = 2 + choose(sampler, ROWS_ROW, draw(state))
    cols = 2 + choose(sampler, COLS_ROW, draw(state))
    worlds[slot, ROWS], worlds[slot, COLS] = np.uint64(rows), np.uint64(cols)
    worlds[slot, WALLS] = _ZERO if bare else sampler[WALL_LEVELS_ROW, choose(sampler, WALL_ROW, draw(state))]
    worlds[slot, MARKERS] = sampler[MARKER_LEVELS_ROW, choose(sampler, MARKER_ROW + (0 if bare else 1), draw(state))]
    worlds[slot, HEADING] = np.uint64(choose(sampler, HEADING_ROW, draw(state)))
    heading = np.int64(worlds[slot, HEADING])
    row, col = 0, 0
    if (draw(state) >> _S48) >= sampler[SETTINGS_ROW, CORNER]:
        while True:
            bits = draw(state)
            row = int((bits >> _S48) * np.uint64(rows) >> _S16)
            col = int((bits >> _S32 & _LOW) * np.uint64(cols) >> _S16)
            at_end = (row == 0 or row == rows - 1) + (col == 0 or col == cols - 1)
            if (bits & _LOW) < sampler[SETTINGS_ROW, ON_EDGE if at_end == 1 else ELSEWHERE]:
                # Programs move ahead more often than not: of this place and its mirror image, mostly the one with room.
                if bits >> _S16 & _LOW < ROOMY:
                    if heading & 1:
                        ahead = cols - 1 - col if heading == 1 else col
                        col = cols - 1 - col if 2 * ahead < cols - 1 else col
                    else:
                        ahead = rows - 1 - row if heading == 0 else row
                        row = rows - 1 - row if 2 * ahead < rows - 1 else row
                break
    elif heading >= 2 and (draw(state) >> _S48) < ROOMY:
        worlds[slot, HEADING] = np.uint64(heading - 2)
    worlds[slot, PLACE] = np.uint64((row + 1) * SIDE + col + 1)


@compiled()
def run_world(
    sampler: Sampler,
    code: NDArray[np.int64],
    counters: NDArray[np.int64],
    unseen: np.uint64,
    worlds: NDArray[np.uint64],
    cells: NDArray[np.uint8],
    change: NDArray[np.int8],
    slot: int,
) -> int:  # pragma: no cover - compiled
    """Run compiled code in a world that is drawn as it goes: GOOD if it makes a good example, BAD, or ENDLESS.

    `unseen` has two bits for each condition, 1 for false and 2 for true: outcomes that other examples do not show yet.
    Row `slot` of `cells` [E, 324] gets what has been seen of the world before the run, that of `change` [E, 324] how
    the markers changed. (Rows are not handed over as arrays: making one takes as long as a short run.)
    A good example neither crashes nor runs out of ticks, has a move and a pick or put in its trace, changes
    something, never has more than 9 markers on a cell and takes at most 73 actions. The end of the row of
    `worlds` [E, DESCRIPTION] then describes the run.
    """
    for cell in range(CELLS):
        cells[slot, cell] = UNKNOWN
        change[slot, cell] = 0
    key, rows, cols = worlds[slot, KEY], np.int64(worlds[slot, ROWS]), np.int64(worlds[slot, COLS])
    markers = worlds[slot, MARKERS]
    some = markers > _ZERO
    picking = sampler[SETTINGS_ROW, PICK] if some else _ZERO
    under = sampler[SETTINGS_ROW, UNDER_HERO] if some else _ZERO
    walls, seeking = worlds[slot, WALLS], sampler[SETTINGS_ROW, SEEK]
    bare = walls == _ZERO
    start = np.int64(worlds[slot, PLACE])
    at, heading = start, np.int64(worlds[slot, HEADING])
    cells[slot, at] = OPEN
    used, length, moves, marks, changed, pc = 0, 0, 0, 0, 0, 0
    trace, seen = _ONE, _ZERO
    while True:
        instruction = code[pc]
        operation = instruction & 0xFF
        if operation == END:
            break
        if operation == JUMP:
            pc = (instruction >> 16) & 0xFFFF
            continue
        if operation == LOOP:
            counter = instruction >> 32
            counters[counter] -= 1
            if counters[counter] == 0:
                pc += 1
                continue
        if used == MAX_TICKS:
            return ENDLESS
        used += 1
        if operation >= _MOVE:
            if operation == _MOVE:
                at += _STEP[heading]
                if cells[slot, at] == UNKNOWN:
                    cells[slot, at] = _wall(key, rows, cols, at, _ZERO)
                if cells[slot, at] >= WALL:
                    return BAD
                moves += 1
            elif operation == _LEFT:
                heading = (heading + 3) & 3
            elif operation == _RIGHT:
                heading = (heading + 1) & 3
            else:
                if cells[slot, at] == OPEN:
                    natural = under if at == start else markers
                    cells[slot, at] = _marked(sampler, key, at, picking if operation == _PICK else natural)
                was = change[slot, at]
                now = was + (1 if operation == _PUT else -1)
                if cells[slot, at] + now < 0 or cells[slot, at] + now > MOST:
                    return BAD
                change[slot, at] = now
                changed += (1 if was == 0 else 0) - (1 if now == 0 else 0)
                marks += 1
            if length == LONGEST_TRACE:
                return ENDLESS
            trace = trace * _GAMMA + np.uint64(operation)
            length += 1
            pc += 1
        elif operation == BRANCH or operation == AGAIN:
            operand = (instruction >> 8) & 0xFF
            outcomes = np.uint64(2 * (instruction >> 32))
            sought = (unseen & ~seen) >> outcomes & _BOTH
            if operand & ON_MARKERS:
                if cells[slot, at] == OPEN:
                    chance = under if at == start else markers
                    if (sought == _ONE or sought == _TRUE) and some and _bits(key, at + CELLS) >> _S48 < seeking:
                        chance = _SURE if (sought == _TRUE) != ((operand & NEGATED) != 0) else _ZERO
                    cells[slot, at] = _marked(sampler, key, at, chance)
                holds = cells[slot, at] + change[slot, at] > 0
            else:
                beside = at + _STEP[(heading + operand) & 3]
                if cells[slot, beside] == UNKNOWN:
                    chance = walls
                    if (
                        (sought == _ONE or sought == _TRUE)
                        and not bare
                        and _bits(key, beside + CELLS) >> _S48 < seeking
                    ):
                        chance = _ZERO if (sought == _TRUE) != ((operand & NEGATED) != 0) else _SURE
                    cells[slot, beside] = _wall(key, rows, cols, beside, chance)
                holds = cells[slot, beside] < WALL
            holds ^= (operand & NEGATED) != 0
            seen |= (_TRUE if holds else _ONE) << outcomes
            if holds == (operation == AGAIN):
                pc = (instruction >> 16) & 0xFFFF
            else:
                pc += 1
        elif operation == LOOP:
            pc = (instruction >> 16) & 0xFFFF
        else:  # SET; the normal form has no REPEAT of nothing
            counters[instruction >> 32] = (instruction >> 8) & 0xFF
            pc += 1
    if moves == 0 or marks == 0:
        return BAD
    if changed == 0 and at == start and heading == np.int64(worlds[slot, HEADING]):
        return BAD
    worlds[slot, LAST_PLACE], worlds[slot, LAST_HEADING] = np.uint64(at), np.uint64(heading)
    worlds[slot, TRACE], worlds[slot, SEEN], worlds[slot, LENGTH] = trace, seen, np.uint64(length)
    return GOOD


@compiled()
def complete_world(
    sampler: Sampler,
    worlds: NDArray[np.uint64],
    cells: NDArray[np.uint8],
    change: NDArray[np.int8],
    slot: int,
    before: NDArray[np.uint8],
    after: NDArray[np.uint8],
) -> None:  # pragma: no cover - compiled
    """Draw the cells that the program never looked at; write the worlds before and after the run, [324] each."""
    key, markers, walls = worlds[slot, KEY], worlds[slot, MARKERS], worlds[slot, WALLS]
    rows, cols, start = np.int64(worlds[slot, ROWS]), np.int64(worlds[slot, COLS]), np.int64(worlds[slot, PLACE])
    if cells[slot, start] == OPEN:
        cells[slot, start] = _marked(
            sampler, key, start, sampler[SETTINGS_ROW, UNDER_HERO] if markers > _ZERO else _ZERO
        )
    before[:] = BEYOND
    for row in range(rows + 2):
        for cell in range(row * SIDE, row * SIDE + cols + 2):
            before[cell] = FRAME
    after[:] = before
    # First as if the program had looked nowhere, without branches that no processor could foresee; then what it saw.
    for row in range(1, rows + 1):
        for cell in range(row * SIDE + 1, row * SIDE + cols + 1):
            bits = mix(key + np.uint64(cell) * _GAMMA)
            wall = np.int64((bits >> _S48) < walls)
            some = np.int64((bits >> _S32 & _LOW) < markers)
            code = wall * WALL + (1 - wall) * some * _pile(sampler, bits)
            before[cell] = code
            after[cell] = code
    for row in range(1, rows + 1):
        for cell in range(row * SIDE + 1, row * SIDE + cols + 1):
            if cells[slot, cell] != UNKNOWN:
                code = np.int64(cells[slot, cell])
                if code == OPEN:
                    code = _marked(sampler, key, cell, markers)
                before[cell] = code
                after[cell] = code + change[slot, cell]
    before[start] += HERO * (np.int64(worlds[slot, HEADING]) + 1)
    after[np.int64(worlds[slot, LAST_PLACE])] += HERO * (np.int64(worlds[slot, LAST_HEADING]) + 1)
