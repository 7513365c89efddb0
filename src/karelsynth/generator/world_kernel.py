"""Worlds (Numba): drawing one while a program runs in it, and the log-probability of such a draw.

`run_world` decides what a cell holds when the program first tests or enters it. 64 bits decide, which depend on the
world's key and the cell alone. `complete_world` fills in the other cells once the world is accepted. So a rejected
world, as most are, costs little more than its run. There is no wall where the program moves without a test. Where it
picks without a test, markers are there with a fitted probability: this saves rejections.

So the probability of a world depends on the program. `replay` runs a program in a finished world and records all cells
that were drawn in such a special way; `world_log_probability` adds up. Grid size, the hero's place and the number of
markers on a marked cell have the same distribution for all programs; these factors are left out.

Cell codes are those of `karel.formats.codes`, with two more while a world is drawn: OPEN, no wall but the markers not
yet decided (drawn worlds have at most 9 markers on a cell, so 10 is free), and UNKNOWN.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from karelsynth.generator.random_kernel import GAMMA, choose, mix, setting, signed
from karelsynth.generator.sampler import (
    COLS_ROW,
    CORNER,
    ELSEWHERE,
    HEADING_ROW,
    MARKER_LEVELS_ROW,
    MARKER_ROW,
    ON_EDGE,
    ONE,
    PICK,
    PILE_ROW,
    ROWS_ROW,
    SEEK,
    SETTINGS_ROW,
    SLOTS,
    UNDER_HERO,
    WALL_LEVELS_ROW,
    WALL_ROW,
    Sampler,
)
from karelsynth.karel.compiled import F64Array, I64Array, U8Array, U64Array, compiled
from karelsynth.karel.formats.codes import BEYOND, FRAME, HERO, SIDE, WALL
from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.machine_kernel import AGAIN, BRANCH, CELLS, END, JUMP, LOOP, NEGATED, ON_MARKERS
from karelsynth.karel.tokens import ID
from karelsynth.karel.world import MOST_MARKERS

MOST_DRAWN_MARKERS: Final = 9
"""Markers on a cell, before and after the run: the original never has more."""
LONGEST_TRACE: Final = 73
"""Actions of the longest run; the original has none longer."""
BAD, GOOD, ENDLESS, _RUNNING = range(4)
OPEN: Final = 10
UNKNOWN: Final = 255
ROOMY: Final = np.uint64(40_000)
"""The probability, out of 65,536, that a hero is turned or moved to where it has more room ahead."""
_MOVE, _LEFT, _RIGHT, _PICK, _PUT = (ID[name] for name in ("move", "turnLeft", "turnRight", "pickMarker", "putMarker"))
_S16, _S32, _S48, _LOW = np.uint64(16), np.uint64(32), np.uint64(48), np.uint64(0xFFFF)
_ZERO, _ONE, _TWO, _SIDE, _SURE = (np.uint64(number) for number in (0, 1, 2, SIDE, 1 << 16))
_FALSE, _TRUE, _BOTH, _THREE, _S8, _BYTE = _ONE, _TWO, np.uint64(3), np.uint64(3), np.uint64(8), np.uint64(0xFF)
_CELLS, _WALL, _NEGATED, _ON_MARKERS = (np.uint64(number) for number in (CELLS, WALL, NEGATED, ON_MARKERS))
# Cells are unsigned: Numba checks every signed index for a negative one. Sums wrap.
_SIGNED_STEP = np.array([SIDE, 1, -SIDE, -1])  # north, east, south, west
_STEP = _SIGNED_STEP.astype(np.uint64)
_ROW, _COL = (
    (np.indices((SIDE, SIDE)) - 1).astype(np.uint8).reshape(2, CELLS)
)  # of a cell; 255 below and left of the grid
# The columns of a drawn world.
KEY, WALLS, MARKERS, ROWS, COLS, PLACE, HEADING, LAST_PLACE, LAST_HEADING, TRACE, SEEN, LENGTH = range(12)
DRAWN_WORLD: Final = 12
# The columns of a replayed run.
RUN_TRACE, RUN_SEEN, RUN_LENGTH, ENTERED, PICKED, UNDER_PICKED, TESTS = range(7)
"""Trace, outcomes seen and length, as of a drawn world. The number of cells entered without a test. The number of cells
picked from without a test, except the hero's first cell. Whether that one is picked from without a test. The number of
first tests."""
REPLAYED_RUN: Final = 7
MOST_TESTS: Final = 256
# What `replay` knows of a cell: nothing, that it is no wall, its markers too.
_UNTESTED, _NO_WALL, _KNOWN = range(3)
# The bits of a recorded test; the number of its condition is above these.
PRESENT, IS_NEGATED, AT_START, FOR_MARKERS = 1, 8, 16, 32  # 2 and 4: the outcomes seen before in this run
CONDITION_SHIFT: Final = 8
# The columns of a world's counts.
WALL_CELLS, OPEN_CELLS, MARKED_CELLS, UNMARKED_CELLS, START_MARKED, START, START_HEADING = range(7)
COUNTED: Final = 7


@compiled()
def _bits(key: np.uint64, cell: np.uint64) -> np.uint64:
    """The 64 bits that decide a cell: 16 for a wall, 16 for markers, 32 for their number."""
    bits: np.uint64 = mix(key + cell * GAMMA)
    return bits


@compiled()
def _pile(sampler: Sampler, bits: np.uint64) -> np.uint64:
    """The number of markers on a cell that has any."""
    more: np.uint64 = choose(sampler, PILE_ROW, bits << _S32 | (bits & _LOW))
    return _ONE + more


@compiled()
def _marked(sampler: Sampler, key: np.uint64, cell: np.uint64, probability: np.uint64) -> np.uint64:
    """The number of markers on a cell that is no wall. It has any with `probability`, out of 65,536."""
    bits = _bits(key, cell)
    number: np.uint64 = _pile(sampler, bits) * np.uint64((bits >> _S32 & _LOW) < probability)
    return number


@compiled()
def begin_world(state: U64Array, sampler: Sampler, bare: bool, worlds: U64Array, slot: int) -> None:
    """Draw size, densities and hero of a world into row `slot` of `worlds` [E, DRAWN_WORLD]."""
    counter = state[0] + GAMMA  # a local variable: the compiler must assume that `state` and `worlds` overlap
    worlds[slot, KEY] = mix(counter)
    rows = _TWO + choose(sampler, ROWS_ROW, mix(counter + GAMMA))
    counter += GAMMA + GAMMA
    cols = _TWO + choose(sampler, COLS_ROW, mix(counter))
    worlds[slot, ROWS], worlds[slot, COLS] = rows, cols
    walls = _ZERO
    if not bare:
        counter += GAMMA
        walls = setting(sampler, WALL_LEVELS_ROW, choose(sampler, WALL_ROW, mix(counter)))
    worlds[slot, WALLS] = walls
    counter += GAMMA
    level = choose(sampler, MARKER_ROW if bare else MARKER_ROW + 1, mix(counter))
    counter += GAMMA
    heading = choose(sampler, HEADING_ROW, mix(counter))
    row, col = _ZERO, _ZERO
    counter += GAMMA
    if (mix(counter) >> _S48) >= setting(sampler, SETTINGS_ROW, CORNER):
        bits = _ZERO
        top, right = rows - _ONE, cols - _ONE
        on_edge, elsewhere = setting(sampler, SETTINGS_ROW, ON_EDGE), setting(sampler, SETTINGS_ROW, ELSEWHERE)
        while True:
            counter += GAMMA
            bits = mix(counter)
            row = (bits >> _S48) * rows >> _S16
            col = (bits >> _S32 & _LOW) * cols >> _S16
            one_end = ((row == _ZERO) | (row == top)) ^ ((col == _ZERO) | (col == right))
            if (bits & _LOW) < (on_edge if one_end else elsewhere):
                break
        # Programs mostly move ahead: of the place and its mirror image, prefer the one with more room ahead.
        if (bits >> _S16 & _LOW) < ROOMY:
            if heading & _ONE:
                nearer, farther = min(col, right - col), max(col, right - col)
                col = nearer if heading == _ONE else farther
            else:
                nearer, farther = min(row, top - row), max(row, top - row)
                row = nearer if heading == _ZERO else farther
    elif heading >= _TWO:
        counter += GAMMA
        heading -= _TWO * np.uint64((mix(counter) >> _S48) < ROOMY)
    worlds[slot, MARKERS] = setting(sampler, MARKER_LEVELS_ROW, level)
    worlds[slot, HEADING] = heading
    worlds[slot, PLACE] = (row + _ONE) * _SIDE + col + _ONE
    state[0] = counter


@compiled()
def run_world(
    sampler: Sampler,
    code: U64Array,
    counters: U64Array,
    unseen: np.uint64,
    worlds: U64Array,
    cells: U8Array,
    marked: U8Array,
    slot: int,
) -> int:
    """Run compiled code in a world that is drawn meanwhile; returns GOOD for a good example, BAD or ENDLESS.

    A good example neither crashes nor runs out of ticks, has a move and a pick or put in its trace, changes something,
    never has more than 9 markers on a cell and takes at most 73 actions.

    Args:
        unseen: two bits for each condition, 1 for false and 2 for true: the outcomes that no other example shows yet.
        worlds: [E, DRAWN_WORLD]; the last columns of row `slot` get the description of the run.
        cells: [E · 324]; row `slot` gets the world after the run, UNKNOWN where the program did not look.
        marked: [E · 324]; row `slot` gets the number of markers before the run, where it is known.

    There is one return and no row is passed as an array: otherwise Numba would count references to the arrays, which
    takes as long as a short run.
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
    start, start_heading = worlds[slot, PLACE], worlds[slot, HEADING]
    at, heading = start, start_heading
    cells[base + at] = OPEN
    used, length, moves, marks, changed, pc = 0, 0, 0, 0, 0, _ZERO
    trace, seen = _ONE, _ZERO
    outcome = _RUNNING
    while outcome == _RUNNING:
        instruction = code[pc]
        operation = signed(instruction & _BYTE)
        pc += _ONE
        if operation == END:
            good = moves > 0 and marks > 0 and (changed > 0 or at != start or heading != start_heading)
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
        if used == PAPER_TICKS:
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
                if number < 0 or number > MOST_DRAWN_MARKERS:
                    outcome = BAD
                    continue
                cells[base + at] = number
                marks += 1
            if length == LONGEST_TRACE:
                outcome = ENDLESS
                continue
            trace = trace * GAMMA + np.uint64(operation)
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
                    probability = under if at == start else markers
                    if seeks and some and _bits(key, at + _CELLS) >> _S48 < seeking:
                        probability = _SURE if (sought == _TRUE) != negated else _ZERO
                    number = signed(_marked(sampler, key, at, probability))
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
                        probability = walls
                        if seeks and walls > _ZERO and _bits(key, beside + _CELLS) >> _S48 < seeking:
                            probability = _ZERO if (sought == _TRUE) != negated else _SURE
                        there = WALL if (_bits(key, beside) >> _S48) < probability else OPEN
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
    worlds: U64Array,
    cells: U8Array,
    marked: U8Array,
    slot: int,
    inputs: U8Array,
    outputs: U8Array,
    task: int,
    place: int,
) -> None:
    """Draw the cells that the run left unknown; write the worlds before and after the run.

    They become example `place` of `task` in `inputs` and `outputs`, [N, E, 324].
    """
    key, markers, walls = worlds[slot, KEY], worlds[slot, MARKERS], worlds[slot, WALLS]
    rows, cols, start = signed(worlds[slot, ROWS]), signed(worlds[slot, COLS]), signed(worlds[slot, PLACE])
    for cell in range(CELLS):
        inputs[task, place, cell] = BEYOND
    for row in range(rows + 2):
        for cell in range(row * SIDE, row * SIDE + cols + 2):
            inputs[task, place, cell] = FRAME
    # First draw every cell, without branches on random bits, which no processor predicts; then overwrite known cells.
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


@compiled()
def count_world(grid: U8Array, counts: I64Array, cells: U8Array) -> None:
    """Count the cells of a world [324], the hero's own aside, and locate the hero: to `counts` [COUNTED].

    `cells` [324] gets the world without its hero.
    """
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
    counts[WALL_CELLS], counts[OPEN_CELLS], counts[MARKED_CELLS], counts[UNMARKED_CELLS] = (
        walls,
        marked + bare,
        marked,
        bare,
    )
    counts[START_MARKED], counts[START], counts[START_HEADING] = cells[start] > 0, start, heading


@compiled()
def replay(
    code: I64Array,
    counters: I64Array,
    before: U8Array,
    start: int,
    start_heading: int,
    cells: U8Array,
    known: U8Array,
    run: U64Array,
    tests: I64Array,
) -> bool:
    """Run compiled code in a finished world; returns False if the run makes no good example.

    Args:
        before, start, start_heading: the world without its hero [324], the hero's cell and heading.
        cells: [324] gets the world after the run, with the hero.
        known: [324] is scratch space.
        run: [REPLAYED_RUN] gets the description of the run.
        tests: [MOST_TESTS] gets the first test of each cell whose content a test was the first to decide.
    """
    for cell in range(CELLS):
        cells[cell] = before[cell]
        known[cell] = _UNTESTED
    at, heading = start, start_heading
    known[at] = _NO_WALL
    used, length, moves, marks, changed, pc = 0, 0, 0, 0, 0, 0
    entered, picked, under, tested = 0, 0, 0, 0
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
        if used == PAPER_TICKS:
            return False
        used += 1
        if operation >= _MOVE:
            if operation == _MOVE:
                at += _SIGNED_STEP[heading]
                if cells[at] >= WALL:
                    return False
                if known[at] == _UNTESTED:
                    known[at] = _NO_WALL
                    entered += 1
                moves += 1
            elif operation == _LEFT:
                heading = (heading + 3) & 3
            elif operation == _RIGHT:
                heading = (heading + 1) & 3
            else:
                number, was = signed(cells[at]), signed(before[at])
                if known[at] == _NO_WALL:
                    known[at] = _KNOWN
                    if operation == _PICK:
                        picked += at != start
                        under |= at == start
                changed -= number != was
                number += 1 if operation == _PUT else -1
                changed += number != was
                if number < 0 or number > MOST_MARKERS:  # nine in generated tasks, ten in some of people
                    return False
                cells[at] = number
                marks += 1
            if length == LONGEST_TRACE:
                return False
            trace = trace * GAMMA + np.uint64(operation)
            length += 1
        elif operation == BRANCH or operation == AGAIN:
            operand = instruction >> 8 & 0xFF
            negated = (operand & NEGATED) != 0
            condition = instruction >> 32
            shown = signed(seen >> np.uint64(2 * condition)) & 3
            test = condition << CONDITION_SHIFT | shown << 1 | (IS_NEGATED if negated else 0)
            first = False
            if operand & ON_MARKERS:
                there = cells[at] > 0
                holds = there ^ negated
                if known[at] == _NO_WALL:
                    known[at] = _KNOWN
                    first = True
                    test |= FOR_MARKERS | (AT_START if at == start else 0)
            else:
                beside = at + _SIGNED_STEP[(heading + operand) & 3]
                there = cells[beside] >= WALL
                holds = (not there) ^ negated
                if known[beside] == _UNTESTED and cells[beside] != FRAME:
                    known[beside] = _KNOWN if there else _NO_WALL
                    first = True
            if first:
                if tested == MOST_TESTS:
                    return False  # cannot happen: a run has at most 200 ticks
                tests[tested] = test | (PRESENT if there else 0)
                tested += 1
            seen |= np.uint64(2 if holds else 1) << np.uint64(2 * condition)
            if holds == (operation == AGAIN):
                pc = instruction >> 16 & 0xFFFF
        elif operation == LOOP:
            pc = instruction >> 16 & 0xFFFF
        else:
            counters[instruction >> 32] = instruction >> 8 & 0xFF
    if moves == 0 or marks == 0 or (changed == 0 and at == start and heading == start_heading):
        return False
    cells[at] += np.uint8(HERO * (heading + 1))
    run[RUN_TRACE], run[RUN_SEEN], run[RUN_LENGTH] = trace, seen, np.uint64(length)
    run[ENTERED], run[PICKED], run[UNDER_PICKED] = np.uint64(entered), np.uint64(picked), np.uint64(under)
    run[TESTS] = np.uint64(tested)
    return True


class GivenWorlds(NamedTuple):
    """The G given worlds of a task, and the runs of a program in them."""

    cells: U8Array
    """[G, 324], without the hero."""
    counts: I64Array
    """[G, COUNTED], by `count_world`."""
    runs: U64Array
    """[G, REPLAYED_RUN], by `replay`."""
    tests: I64Array
    """[G, MOST_TESTS], by `replay`."""


@compiled()
def given_worlds(inputs: U8Array) -> GivenWorlds:
    """Count the worlds [G, 324]; runs and tests are left to `replay`."""
    examples = len(inputs)
    given = GivenWorlds(
        np.empty((examples, CELLS), np.uint8),
        np.zeros((examples, COUNTED), np.int64),
        np.zeros((examples, REPLAYED_RUN), np.uint64),
        np.zeros((examples, MOST_TESTS), np.int64),
    )
    for example in range(examples):
        count_world(inputs[example], given.counts[example], given.cells[example])
    return given


@compiled()
def _times(count: int, probability: float) -> float:
    """count · log(probability), with 0 · log(0) = 0."""
    return 0.0 if count == 0 else count * np.log(probability) if probability > 0 else -np.inf


@compiled(inline="always")
def _sought(unseen: np.uint64, test: int) -> int:
    """The outcomes of a test's condition that were unseen when it was made, as bits. A single one was steered to."""
    bits: int = signed(unseen >> np.uint64(2 * (test >> CONDITION_SHIFT))) & 3 & ~(test >> 1 & 3)
    return bits


@compiled(inline="always")
def _walls_log_probability(
    sampler: Sampler, logs: F64Array, bare: bool, unseen: np.uint64, counts: I64Array, run: U64Array, tests: I64Array
) -> float:
    """The walls' part of `world_log_probability`: a sum over their densities."""
    seek, entered = setting(sampler, SETTINGS_ROW, SEEK) / ONE, signed(run[ENTERED])
    walls = -np.inf
    for level in range(1 if bare else SLOTS):
        density = 0.0 if bare else setting(sampler, WALL_LEVELS_ROW, level) / ONE
        total = 0.0 if bare else logs[WALL_ROW * SLOTS + level]
        if total == -np.inf:
            continue
        free = counts[OPEN_CELLS] - entered
        built = counts[WALL_CELLS]
        for number in range(signed(run[TESTS])):
            test = tests[number]
            if test & FOR_MARKERS or density == 0:
                continue
            sought = _sought(unseen, test)
            if sought == 1 or sought == 2:
                wanted = (sought == 2) == ((test & IS_NEGATED) != 0)  # a wall
                there = (test & PRESENT) != 0
                natural = density if there else 1 - density
                total += np.log(seek * (wanted == there) + (1 - seek) * natural)
                built -= there
                free -= not there
        total += _times(built, density) + _times(free, 1 - density)
        walls = np.logaddexp(walls, total)
    return walls


@compiled(inline="always")
def _markers_log_probability(
    sampler: Sampler, logs: F64Array, bare: bool, unseen: np.uint64, counts: I64Array, run: U64Array, tests: I64Array
) -> float:
    """The markers' part of `world_log_probability`: a sum over their densities."""
    seek = setting(sampler, SETTINGS_ROW, SEEK) / ONE
    picked, under_picked = signed(run[PICKED]), run[UNDER_PICKED] > 0
    markers = -np.inf
    row = MARKER_ROW if bare else MARKER_ROW + 1
    for level in range(SLOTS):
        density = setting(sampler, MARKER_LEVELS_ROW, level) / ONE
        total = logs[row * SLOTS + level]
        if total == -np.inf:
            continue
        some = density > 0
        under = setting(sampler, SETTINGS_ROW, UNDER_HERO) / ONE if some else 0.0
        picking = setting(sampler, SETTINGS_ROW, PICK) / ONE if some else 0.0
        marked, free = counts[MARKED_CELLS] - picked, counts[UNMARKED_CELLS]
        here = under_picked
        total += _times(picked, picking)
        if under_picked:
            total += _times(1, picking)
        for number in range(signed(run[TESTS])):
            test = tests[number]
            if not test & FOR_MARKERS or not some:
                continue
            sought = _sought(unseen, test)
            if sought == 1 or sought == 2:
                wanted = (sought == 2) != ((test & IS_NEGATED) != 0)  # markers
                there = (test & PRESENT) != 0
                base = under if test & AT_START else density
                natural = base if there else 1 - base
                total += np.log(seek * (wanted == there) + (1 - seek) * natural)
                if test & AT_START:
                    here = True
                else:
                    marked -= there
                    free -= not there
        if not here:
            total += _times(1, under if counts[START_MARKED] else 1 - under)
        total += _times(marked, density) + _times(free, 1 - density)
        markers = np.logaddexp(markers, total)
    return markers


@compiled()
def world_log_probability(
    sampler: Sampler, logs: F64Array, bare: bool, unseen: np.uint64, counts: I64Array, run: U64Array, tests: I64Array
) -> float:
    """The log-probability that one try draws the walls and markers of a world for a program.

    Args:
        bare: whether the task's worlds have no walls.
        unseen: as in `run_world`.
        counts, run, tests: of the world by `count_world`, and of the program in it by `replay`.
    """
    total: float = _walls_log_probability(sampler, logs, bare, unseen, counts, run, tests)
    if total > -np.inf:
        total += _markers_log_probability(sampler, logs, bare, unseen, counts, run, tests)
    return total
