"""The chance that the generator draws a world for a program (Numba).

`tasks.world_kernel` draws cells when the program looks at them, and some otherwise than it would draw them afterwards:
no walls where it moves without having looked, markers by another chance where it picks without having looked, and
where a condition has one outcome still to show, often that outcome. So the chance of a world depends on the program.
`replay` runs a program in a finished world and notes all such cells, `world_chance` multiplies.

Sizes of piles, the grid's size and the hero's place are drawn alike for all programs; these factors are left out.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled
from karelsynth.karel.formats.codes import FRAME, HERO, SIDE, WALL
from karelsynth.karel.interpreter import MAX_TICKS
from karelsynth.karel.machine_kernel import AGAIN, BRANCH, CELLS, END, JUMP, LOOP, NEGATED, ON_MARKERS
from karelsynth.karel.tokens import ID
from karelsynth.karel.world import MOST_MARKERS
from karelsynth.tasks.kernel_layout import (
    MARKER_LEVELS_ROW,
    MARKER_ROW,
    ONE,
    PICK,
    SEEK,
    SETTINGS_ROW,
    SLOTS,
    UNDER_HERO,
    WALL_LEVELS_ROW,
    WALL_ROW,
    Sampler,
)
from karelsynth.tasks.program_kernel import setting, signed
from karelsynth.tasks.world_kernel import LONGEST_TRACE

_MOVE, _LEFT, _RIGHT, _PICK_TOKEN, _PUT = (
    ID[name] for name in ("move", "turnLeft", "turnRight", "pickMarker", "putMarker")
)
_STEP = np.array([SIDE, 1, -SIDE, -1])
_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
# What is known of a cell while a program runs: nothing, that it is no wall, its markers too.
_UNKNOWN, _OPEN, _KNOWN = 0, 1, 2
# The columns of a run's description.
TRACE, SEEN, LENGTH, ENTERED, PICKED, UNDER_PICKED, LOOKS = range(7)
"""Trace and outcomes as in `tasks.world_kernel`; cells entered without looking, cells picked from without looking,
whether the hero's own is among these; the number of looks that might have been steered."""
RUN: Final = 7
MOST_LOOKS: Final = 256
# The bits of a look: the number of its condition above these.
WALL_THERE, OUTCOMES, IS_NEGATED, AT_START, ON_PILE = 1, 6, 8, 16, 32
CONDITION_SHIFT: Final = 8
# The columns of a world's counts.
WALLS_IN, OPEN_IN, MARKED_IN, BARE_IN, START_MARKED, START, HEADING = range(7)
COUNTED: Final = 7


@compiled()
def count_world(grid: NDArray[np.uint8], counts: NDArray[np.int64], cells: NDArray[np.uint8]) -> None:
    """Of a world [324]: walls, other cells, those with markers and without (the hero's own cell aside), whether there
    are markers under the hero, and where it stands; `cells` [324] gets the world without its hero."""
    walls, marked, bare, start, heading = 0, 0, 0, 0, 0
    for cell in range(CELLS):
        code = signed(grid[cell])
        cells[cell] = code % HERO
        if code >= HERO:
            start, heading = cell, code // HERO - 1
        elif code == WALL:
            walls += 1
        elif code < WALL:
            marked += code > 0
            bare += code == 0
    counts[WALLS_IN], counts[OPEN_IN], counts[MARKED_IN], counts[BARE_IN] = walls, marked + bare, marked, bare
    counts[START_MARKED], counts[START], counts[HEADING] = cells[start] > 0, start, heading


@compiled()
def replay(
    code: NDArray[np.int64],
    counters: NDArray[np.int64],
    before: NDArray[np.uint8],
    start: int,
    turned: int,
    cells: NDArray[np.uint8],
    known: NDArray[np.uint8],
    run: NDArray[np.uint64],
    looks: NDArray[np.int64],
) -> bool:  # pragma: no cover - compiled
    """Run compiled code in a world without its hero [324]; False if the run makes no good example.

    `cells` [324] gets the world after the run, with the hero; `run` [RUN] its description and `looks` [MOST_LOOKS] the
    cells that a condition was the first to look at. `known` [324] is scratch space.
    """
    for cell in range(CELLS):
        cells[cell] = before[cell]
        known[cell] = _UNKNOWN
    at, heading = start, turned
    known[at] = _OPEN
    used, length, moves, marks, changed, pc = 0, 0, 0, 0, 0, 0
    entered, picked, under, looked = 0, 0, 0, 0
    trace, seen = np.uint64(1), np.uint64(0)
    while True:
        instruction = code[pc]
        operation = instruction & 0xFF
        pc += 1
        if operation == END:
            break
        if operation == JUMP:
            pc = instruction >> 16 & 0xFFFF
            continue
        if operation == LOOP:
            counter = instruction >> 32
            counters[counter] -= 1
            if counters[counter] == 0:
                continue
        if used == MAX_TICKS:
            return False
        used += 1
        if operation >= _MOVE:
            if operation == _MOVE:
                at += _STEP[heading]
                if cells[at] >= WALL:
                    return False
                if known[at] == _UNKNOWN:
                    known[at] = _OPEN
                    entered += 1
                moves += 1
            elif operation == _LEFT:
                heading = (heading + 3) & 3
            elif operation == _RIGHT:
                heading = (heading + 1) & 3
            else:
                number, was = signed(cells[at]), signed(before[at])
                if known[at] == _OPEN:
                    known[at] = _KNOWN
                    if operation == _PICK_TOKEN:
                        picked += at != start
                        under |= at == start
                changed -= number != was
                number += 1 if operation == _PUT else -1
                changed += number != was
                if number < 0 or number > MOST_MARKERS:  # the generator stops at nine; people do not
                    return False
                cells[at] = number
                marks += 1
            if length == LONGEST_TRACE:
                return False
            trace = trace * _GAMMA + np.uint64(operation)
            length += 1
        elif operation == BRANCH or operation == AGAIN:
            operand = instruction >> 8 & 0xFF
            negated = (operand & NEGATED) != 0
            condition = instruction >> 32
            shown = signed(seen >> np.uint64(2 * condition)) & 3
            look = condition << CONDITION_SHIFT | shown << 1 | (IS_NEGATED if negated else 0)
            first = False
            if operand & ON_MARKERS:
                there = cells[at] > 0
                holds = there ^ negated
                if known[at] == _OPEN:
                    known[at] = _KNOWN
                    first = True
                    look |= ON_PILE | (AT_START if at == start else 0)
            else:
                beside = at + _STEP[(heading + operand) & 3]
                there = cells[beside] >= WALL
                holds = (not there) ^ negated
                if known[beside] == _UNKNOWN and cells[beside] != FRAME:
                    known[beside] = _KNOWN if there else _OPEN
                    first = True
            if first:
                if looked == MOST_LOOKS:
                    return False  # there are no more cells than this in a run of 200 ticks
                looks[looked] = look | (WALL_THERE if there else 0)
                looked += 1
            seen |= np.uint64(2 if holds else 1) << np.uint64(2 * condition)
            if holds == (operation == AGAIN):
                pc = instruction >> 16 & 0xFFFF
        elif operation == LOOP:
            pc = instruction >> 16 & 0xFFFF
        else:
            counters[instruction >> 32] = instruction >> 8 & 0xFF
    if moves == 0 or marks == 0 or (changed == 0 and at == start and heading == turned):
        return False
    cells[at] += np.uint8(HERO * (heading + 1))
    run[TRACE], run[SEEN], run[LENGTH] = trace, seen, np.uint64(length)
    run[ENTERED], run[PICKED], run[UNDER_PICKED] = np.uint64(entered), np.uint64(picked), np.uint64(under)
    run[LOOKS] = np.uint64(looked)
    return True


@compiled()
def _times(count: int, chance: float) -> float:  # pragma: no cover - compiled
    """count · log(chance), where nothing is left of a chance of 0 that never had to be taken."""
    return 0.0 if count == 0 else count * np.log(chance) if chance > 0 else -np.inf


@compiled()
def world_chance(
    sampler: Sampler,
    logs: NDArray[np.float64],
    bare: bool,
    unseen: np.uint64,
    counts: NDArray[np.int64],
    run: NDArray[np.uint64],
    looks: NDArray[np.int64],
) -> float:  # pragma: no cover - compiled
    """The logarithm of the chance that a world's walls and markers are drawn for a program in one try.

    `unseen` has two bits for each condition, as in `tasks.world_kernel.run_world`.
    """
    seek = setting(sampler, SETTINGS_ROW, SEEK) / ONE
    entered, picked, under_picked = signed(run[ENTERED]), signed(run[PICKED]), run[UNDER_PICKED] > 0
    walls = -np.inf
    for level in range(1 if bare else SLOTS):
        density = 0.0 if bare else setting(sampler, WALL_LEVELS_ROW, level) / ONE
        chance = 0.0 if bare else logs[WALL_ROW * SLOTS + level]
        if chance == -np.inf:
            continue
        free = counts[OPEN_IN] - entered
        built = counts[WALLS_IN]
        for number in range(signed(run[LOOKS])):
            look = looks[number]
            if look & ON_PILE or density == 0:
                continue
            sought = signed(unseen >> np.uint64(2 * (look >> CONDITION_SHIFT))) & 3 & ~(look >> 1 & 3)
            if sought == 1 or sought == 2:
                wanted = (sought == 2) == ((look & IS_NEGATED) != 0)  # a wall
                there = (look & WALL_THERE) != 0
                natural = density if there else 1 - density
                chance += np.log(seek * (wanted == there) + (1 - seek) * natural)
                built -= there
                free -= not there
        chance += _times(built, density) + _times(free, 1 - density)
        walls = np.logaddexp(walls, chance)
    if walls == -np.inf:
        return walls
    markers = -np.inf
    row = MARKER_ROW if bare else MARKER_ROW + 1
    for level in range(SLOTS):
        density = setting(sampler, MARKER_LEVELS_ROW, level) / ONE
        chance = logs[row * SLOTS + level]
        if chance == -np.inf:
            continue
        some = density > 0
        under = setting(sampler, SETTINGS_ROW, UNDER_HERO) / ONE if some else 0.0
        picking = setting(sampler, SETTINGS_ROW, PICK) / ONE if some else 0.0
        marked, free = counts[MARKED_IN] - picked, counts[BARE_IN]
        here = under_picked
        chance += _times(picked, picking)
        if under_picked:
            chance += _times(1, picking)
        for number in range(signed(run[LOOKS])):
            look = looks[number]
            if not look & ON_PILE or not some:
                continue
            sought = signed(unseen >> np.uint64(2 * (look >> CONDITION_SHIFT))) & 3 & ~(look >> 1 & 3)
            if sought == 1 or sought == 2:
                wanted = (sought == 2) != ((look & IS_NEGATED) != 0)  # markers
                there = (look & WALL_THERE) != 0
                base = under if look & AT_START else density
                natural = base if there else 1 - base
                chance += np.log(seek * (wanted == there) + (1 - seek) * natural)
                if look & AT_START:
                    here = True
                else:
                    marked -= there
                    free -= not there
        if not here:
            chance += _times(1, under if counts[START_MARKED] else 1 - under)
        chance += _times(marked, density) + _times(free, 1 - density)
        markers = np.logaddexp(markers, chance)
    return walls + markers
