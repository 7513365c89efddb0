"""The compiled core of the batch machine: a bytecode compiler and the loop that runs the bytecode.

`compile_program` checks a program's tokens with the syntax machine's tables and translates them into bytecode, which
`run_code` runs on each world. An instruction is one integer: operation, a small operand, a jump target, and the index
of the conditional or counter. Loops test at their end, so an iteration costs one instruction besides its body. Each
REPEAT has its own counter. Cells are the codes of `formats.codes` without the hero; the codes from HERO on are piles
that no world holds (`run_code`). The frame around the grid keeps the hero inside without further checks.

The functions release the GIL and start no threads. `machine` splits the work over threads.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import types

from karelsynth.karel.compiled import BoolArray, I16Array, I32Array, I64Array, U8Array, compiled, read_only, tuple_type
from karelsynth.karel.formats.codes import HERO, SIDE, WALL
from karelsynth.karel.interpreter import FIRST_REMEMBERED, MOST_IN_PASSING, Status
from karelsynth.karel.syntax_compiler import (
    ACCEPT,
    CONTROL_BITS,
    CONTROL_MASK,
    NEVER,
    OPERATION_BITS,
    POP,
    STAY,
    ParserTables,
)
from karelsynth.karel.tokens import COUNTS, ID, PAD, VOCABULARY_SIZE
from karelsynth.karel.world import MOST_MARKERS

CELLS: Final = SIDE * SIDE
IF, IFELSE, WHILE, REPEAT = ID["IF"], ID["IFELSE"], ID["WHILE"], ID["REPEAT"]
_MOVE, _LEFT, _RIGHT, _PICK, _PUT = (ID[name] for name in ("move", "turnLeft", "turnRight", "pickMarker", "putMarker"))
_NOT = ID["not"]
_MARKERS, _NO_MARKERS = ID["markersPresent"], ID["noMarkersPresent"]
_LEFT_CLEAR, _RIGHT_CLEAR = ID["leftIsClear"], ID["rightIsClear"]  # frontIsClear is the test without a turn
_FIRST_COUNT, _LAST_COUNT = ID[COUNTS[0]], ID[COUNTS[-1]]
_OPEN_R, _CLOSE_R, _OPEN_W, _CLOSE_W = ID["r("], ID["r)"], ID["w("], ID["w)"]
_OPEN_I, _CLOSE_I, _CLOSE_E, _CLOSE_M = ID["i("], ID["i)"], ID["e)"], ID["m)"]

# Operations. Actions keep their token's id, so a trace is written as it is run.
END: Final = 0
JUMP: Final = 1
BRANCH: Final = 2  # test; go on if true, else jump
AGAIN: Final = 3  # test; jump back if true, else go on
SET: Final = 4  # start a REPEAT, or jump over it if it has no iteration
LOOP: Final = 5  # next iteration of a REPEAT: jump back, or go on
# An instruction: operation | operand << 8 | target << 16 | index << 32 (of the conditional or the counter).
# A test's operand: the sensor's quarter turn 0, 1 or 3, or 4 for markers, plus 8 if negated.
ON_MARKERS: Final = 4
NEGATED: Final = 8

_OK, _INVALID = int(Status.OK), int(Status.INVALID_PROGRAM)
_HIT_WALL, _NO_MARKER = int(Status.HIT_WALL), int(Status.NO_MARKER_TO_PICK)
_TOO_MANY, _OUT_OF_TICKS = int(Status.TOO_MANY_MARKERS), int(Status.OUT_OF_TICKS)
_FOREVER, _TOO_HIGH = int(Status.RUNS_FOREVER), int(Status.PILE_TOO_HIGH)
_PAUSED: Final = -1
_HIGHEST: Final = HERO + MOST_IN_PASSING - MOST_MARKERS - 1
"""The code of the highest pile."""
_NEVER_SHIFT = CONTROL_BITS + OPERATION_BITS
PARSER_TYPE: Final = tuple_type(ParserTables, types.int32[:, ::1], types.int64, types.int64)
"""The type of `ParserTables` in signatures."""


class CodeBuffers(NamedTuple):
    """Memory for compiling and running one program of up to L tokens; see `code_buffers`."""

    code: I64Array
    """[2 · L + 2], the instructions."""
    origin: I16Array
    """[2 · L + 2], the index of the token of each instruction."""
    stack: I32Array
    """[L + 2], the parser's stack."""
    opened: I32Array
    """[L + 2, 3], the open blocks: keyword, first instruction, index of the keyword."""
    counters: I32Array
    """[2 · (L + 1) + 324], the counters of the REPEATs; then room for a state that `run_code` remembers: place, number
    and counters of the open REPEATs, cells."""


class RunOutputs(NamedTuple):
    """The arrays that `run_range` fills; see `machine.BatchRun`. Those that are not wanted have size 0.

    `worlds` is [P · K, 324], `traces` [P · K, max_ticks], `coverage` [P · K, C]; the others are [P, K].
    """

    status: U8Array
    ticks: I16Array
    where: I16Array
    worlds: U8Array
    correct: BoolArray
    traces: U8Array
    trace_lengths: I16Array
    coverage: U8Array
    waits: I16Array


_OUTPUTS_TYPE: Final = tuple_type(
    RunOutputs, types.uint8[:, ::1], types.int16[:, ::1], types.int16[:, ::1], types.uint8[:, ::1],
    types.boolean[:, ::1], types.uint8[:, ::1], types.int16[:, ::1], types.uint8[:, ::1], types.int16[:, ::1],
)  # fmt: skip


def _edge() -> U8Array:
    edge = np.ones((SIDE, SIDE), np.uint8)
    edge[1:-1, 1:-1] = 0
    return edge.ravel()


EDGE: Final = _edge()
"""uint8 [324]: 1 for cells at the array's border."""


@compiled(forceinline=True)
def hero_cell(worlds: U8Array, number: int, edge: U8Array) -> int:
    """The index of the hero's cell in worlds[number] of [N, 324], or -1 if the world is bad. `edge` is EDGE.

    A world is bad if a run on it could leave the array or is not defined: it has no hero or several, the hero is not on
    a free cell, or the hero could walk on the array's border.
    """
    # Sums without branches, which the compiler turns into vector instructions.
    count, place, open_edge = np.int32(0), np.int32(0), np.int32(0)
    for cell in range(CELLS):
        here = np.int32(worlds[number, cell] >= HERO)
        count += here
        place += here * np.int32(cell)
        open_edge += np.int32(edge[cell] & (np.uint8(worlds[number, cell] - WALL) >= HERO - WALL))
    if count != 1 or open_edge > 0:
        return -1
    hero = worlds[number, place]
    return -1 if hero >= 5 * HERO or hero % HERO > MOST_MARKERS else int(place)


@compiled(types.int64(types.int64, types.int64, read_only(types.uint8, 4), types.int16[:, ::1]))
def find_heroes(first: int, last: int, worlds: U8Array, heroes: I16Array) -> int:
    """For rows first … last − 1 of worlds [W, K, 18, 18], fill `heroes` [W, K] with the index of the hero's cell.

    Returns the index of the first bad world, or -1; see `hero_cell`.
    """
    per_row = worlds.shape[1]
    flat = worlds.reshape(worlds.shape[0] * per_row, CELLS)
    for row in range(first, last):
        for number in range(per_row):
            place = hero_cell(flat, row * per_row + number, EDGE)
            if place < 0:
                return int(row * per_row + number)
            heroes[row, number] = place
    return -1


@compiled()
def code_buffers(length: int) -> CodeBuffers:
    """Allocate the buffers for programs of up to `length` tokens."""
    return CodeBuffers(
        np.empty(2 * length + 2, np.int64),
        np.empty(2 * length + 2, np.int16),
        np.empty(length + 2, np.int32),
        np.empty((length + 2, 3), np.int32),
        np.empty(2 * (length + 1) + CELLS, np.int32),
    )


@compiled()
def compile_program(
    tokens: U8Array, parser: ParserTables, code: I64Array, origin: I16Array, stack: I32Array, opened: I32Array
) -> int:
    """Translate tokens [L] into bytecode. The arrays are those of `CodeBuffers`.

    Returns -1, or the index of the first wrong token, or L if the tokens are a prefix of a program. The code of a
    prefix can be run: it ends where the tokens end, with origin -1, and where a jump leaves an open block, with that
    block's depth as origin.
    """
    transition, symbols = parser.transition, parser.symbols
    control, depth, length = parser.start, 0, tokens.shape[0]
    stack[0] = 0
    size, blocks, counters, conditionals = 0, 0, 0, 0
    kind, kind_at, operand, times = 0, 0, 0, 0
    for at in range(length):
        token = tokens[at]
        if token >= VOCABULARY_SIZE:
            return at
        # Syntax.
        entry = transition[control * symbols + stack[depth], token]
        if entry >> _NEVER_SHIFT >= NEVER:
            return at
        control = entry & CONTROL_MASK
        operation = (entry >> CONTROL_BITS) & POP
        if operation == POP:
            depth -= 1
        elif operation != STAY:
            depth += 1
            stack[depth] = operation
        # Code.
        if _MOVE <= token <= _PUT:
            code[size] = token
            origin[size] = at
            size += 1
        elif token == WHILE or token == IF or token == IFELSE or token == REPEAT:
            kind, kind_at, operand = token, at, 0
        elif token == _NOT:
            operand ^= NEGATED
        elif token == _MARKERS:
            operand |= ON_MARKERS
        elif token == _NO_MARKERS:
            operand = (operand | ON_MARKERS) ^ NEGATED
        elif token == _LEFT_CLEAR:
            operand |= 3
        elif token == _RIGHT_CLEAR:
            operand |= 1
        elif _FIRST_COUNT <= token <= _LAST_COUNT:
            times = token - _FIRST_COUNT
        elif token == _OPEN_W or token == _OPEN_I:
            opened[blocks, 0], opened[blocks, 1], opened[blocks, 2] = kind, size, kind_at
            blocks += 1
            code[size] = BRANCH | operand << 8 | conditionals << 32
            origin[size] = kind_at
            conditionals += 1
            size += 1
        elif token == _OPEN_R:
            opened[blocks, 0], opened[blocks, 1], opened[blocks, 2] = kind, size, kind_at
            blocks += 1
            code[size] = SET | times << 8 | counters << 32
            origin[size] = kind_at
            counters += 1
            size += 1
        elif token == _CLOSE_W or token == _CLOSE_R:
            blocks -= 1
            begin = opened[blocks, 1]
            back = AGAIN if token == _CLOSE_W else LOOP
            code[size] = (code[begin] & ~0xFF) | back | (begin + 1) << 16
            origin[size] = opened[blocks, 2]
            size += 1
            code[begin] |= size << 16
            if token == _CLOSE_R:
                counters -= 1
        elif token == _CLOSE_I:
            blocks -= 1
            begin = opened[blocks, 1]
            if opened[blocks, 0] == IFELSE:
                opened[blocks, 1] = size
                blocks += 1
                code[size] = JUMP
                origin[size] = at
                size += 1
            code[begin] |= size << 16
        elif token == _CLOSE_E:
            blocks -= 1
            code[opened[blocks, 1]] |= size << 16
        elif token == _CLOSE_M:
            code[size] = END
            origin[size] = at
            size += 1
    if control == ACCEPT:
        return -1
    code[size] = END
    origin[size] = -1
    size += 1
    for depth in range(blocks):
        code[opened[depth, 1]] |= size << 16
        code[size] = END
        origin[size] = depth
        size += 1
    return int(length)


@compiled(forceinline=True)
def take_hero_out(worlds: U8Array, source: int, at: int, cells: U8Array, here: int) -> int:
    """Copy worlds[source] to cells[here] without its hero, who stands on cell `at`. Returns the hero's heading."""
    for cell in range(CELLS):
        cells[here, cell] = worlds[source, cell]
    cells[here, at] = worlds[source, at] % HERO
    return int(worlds[source, at] // HERO) - 1


@compiled(forceinline=True)
def put_hero_back(cells: U8Array, here: int, at: int, heading: int) -> None:
    """Put the hero on cell `at` of cells[here]."""
    cells[here, at] += np.uint8(HERO * (heading + 1))


@compiled(forceinline=True)
def _is_clear(cell: int) -> bool:
    return (cell < WALL) | (cell >= HERO)


@compiled(forceinline=True)
def _place(pc: int, at: int, heading: int) -> int:
    """Instruction, cell and heading as one number."""
    return (pc * CELLS + at) * 4 + heading


@compiled(forceinline=True)
def _remember(code: I64Array, counters: I32Array, cells: U8Array, here: int, pc: int, at: int, heading: int) -> None:
    """Remember the state at instruction `pc` in the second part of `counters`."""
    first = counters.shape[0] - CELLS
    for cell in range(CELLS):
        counters[first + cell] = cells[here, cell]
    opened = 0
    for other in range(pc):
        if code[other] & 0xFF == SET and (code[other] >> 16) & 0xFFFF > pc:
            counters[first // 2 + 2 + opened] = counters[opened]
            opened += 1
    counters[first // 2], counters[first // 2 + 1] = _place(pc, at, heading), opened


@compiled(forceinline=True)
def _is_remembered(counters: I32Array, cells: U8Array, here: int, pc: int, at: int, heading: int) -> bool:
    """Whether the state is the one that `_remember` has stored."""
    first = counters.shape[0] - CELLS
    # The cell under the hero is mostly enough to tell states at the same place apart.
    if counters[first // 2] != _place(pc, at, heading) or counters[first + at] != cells[here, at]:
        return False
    different = 0
    for slot in range(counters[first // 2 + 1]):
        different += counters[slot] != counters[first // 2 + 2 + slot]
    for cell in range(CELLS):
        different += cells[here, cell] != counters[first + cell]
    return different == 0


@compiled(forceinline=True)
def run_code(
    code: I64Array,
    counters: I32Array,
    cells: U8Array,
    here: int,
    at: int,
    heading: int,
    max_ticks: int,
    traces: U8Array,
    keep_trace: bool,
    coverage: U8Array,
    keep_coverage: bool,
    row: int,
    find_loops: bool,
    high_piles: bool,
) -> tuple[int, int, int, int, int, int]:
    """Run compiled code in the world cells[here] without its hero, who starts on cell `at` with a heading.

    With `keep_trace`, the actions go to traces[row]; with `keep_coverage`, the outcomes of the conditions to
    coverage[row]. Otherwise these arrays are not accessed, and any will do. Returns the status, the ticks used, the
    last instruction, the length of the trace, and the hero's cell and heading. Allocates nothing, so that a GPU can
    run it.

    With `find_loops`, endless loops are recognised. Without, `counters` need not have room for a remembered state.
    With `high_piles`, a pile may have up to 101 markers, else ten. During the run the codes from HERO on stand for
    11, 12, …; at the end such a pile becomes one of ten.
    """
    delta = (SIDE, 1, -SIDE, -1)  # north, east, south, west
    used, done, pc, high = 0, 0, 0, 0
    remember_at, pause_at = FIRST_REMEMBERED, FIRST_REMEMBERED
    outcome = _OK
    while True:
        while outcome == _OK:
            instruction = code[pc]
            operation = instruction & 0xFF
            if operation >= _MOVE:
                if used == max_ticks:
                    outcome = _OUT_OF_TICKS
                    break
                used += 1
                if operation == _MOVE:
                    ahead = at + delta[heading]
                    if not _is_clear(cells[here, ahead]):
                        outcome = _HIT_WALL
                        break
                    at = ahead
                elif operation == _LEFT:
                    heading = (heading + 3) & 3
                elif operation == _RIGHT:
                    heading = (heading + 1) & 3
                elif operation == _PICK:
                    pile = cells[here, at]
                    if pile == 0:
                        outcome = _NO_MARKER
                        break
                    if pile == HERO:
                        cells[here, at] = MOST_MARKERS
                        high -= 1
                    else:
                        cells[here, at] = pile - 1
                else:
                    pile = cells[here, at]
                    if pile == (_HIGHEST if high_piles else MOST_MARKERS):
                        outcome = _TOO_MANY
                        break
                    if pile == MOST_MARKERS:
                        cells[here, at] = HERO
                        high += 1
                    else:
                        cells[here, at] = pile + 1
                if keep_trace:
                    traces[row, done] = operation
                    done += 1
                pc += 1
            elif operation == BRANCH or operation == AGAIN:
                if find_loops and used >= pause_at and operation == AGAIN:
                    outcome = _PAUSED
                    break
                if used == max_ticks:
                    outcome = _OUT_OF_TICKS
                    break
                used += 1
                operand = (instruction >> 8) & 0xFF
                if operand & ON_MARKERS:
                    holds = cells[here, at] > 0
                else:
                    holds = _is_clear(cells[here, at + delta[(heading + operand) & 3]])
                holds ^= (operand & NEGATED) != 0
                if keep_coverage:
                    coverage[row, instruction >> 32] |= 2 if holds else 1
                if holds == (operation == AGAIN):
                    pc = (instruction >> 16) & 0xFFFF
                else:
                    pc += 1
            elif operation == LOOP:
                slot = instruction >> 32
                counters[slot] -= 1
                if counters[slot] == 0:
                    pc += 1
                else:
                    if used == max_ticks:
                        outcome = _OUT_OF_TICKS
                        break
                    used += 1
                    pc = (instruction >> 16) & 0xFFFF
            elif operation == SET:
                times = (instruction >> 8) & 0xFF
                if times == 0:
                    pc = (instruction >> 16) & 0xFFFF
                else:
                    if used == max_ticks:
                        outcome = _OUT_OF_TICKS
                        break
                    used += 1
                    counters[instruction >> 32] = times
                    pc += 1
            elif operation == JUMP:
                pc = (instruction >> 16) & 0xFFFF
            else:
                break
        if outcome != _PAUSED:
            break
        # After an iteration of a WHILE. This is outside the loop above, which must be as fast as possible.
        if remember_at > FIRST_REMEMBERED and _is_remembered(counters, cells, here, pc, at, heading):
            outcome = _FOREVER
            break
        if used >= remember_at:
            _remember(code, counters, cells, here, pc, at, heading)
            remember_at = 2 * used
        outcome, pause_at = _OK, used + 1
    if high > 0:
        for cell in range(CELLS):
            if cells[here, cell] >= HERO:
                cells[here, cell] = MOST_MARKERS
        if outcome == _OK:
            outcome = _TOO_HIGH
    return outcome, used, pc, done, at, heading


@compiled(
    types.void(
        types.int64, types.int64, read_only(types.uint8, 2), read_only(types.int64, 1), read_only(types.uint8, 2),
        read_only(types.int16, 2), read_only(types.uint8, 2), PARSER_TYPE, types.int64, types.boolean, _OUTPUTS_TYPE,
    ),
)  # fmt: skip
def run_range(
    first: int,
    last: int,
    tokens: U8Array,
    rows: I64Array,
    worlds: U8Array,
    heroes: I16Array,
    expected: U8Array,
    parser: ParserTables,
    max_ticks: int,
    prefixes: bool,
    out: RunOutputs,
) -> None:
    """Run programs first … last − 1 of tokens [P, L] and fill their rows of `out`.

    Args:
        rows: [P], the row of worlds that each program runs on.
        worlds, expected: [W · K, 324]. `expected` has size 0 if `correct` is not wanted.
        heroes: [W, K], the heroes' cells.
        prefixes: whether unfinished programs are accepted, as in `machine.run_batch`.

    Worlds have one index, because slices of arrays inside the loops would cost a tenth of the time.
    """
    # Unpacked outside the loops, because each access to an array in a tuple counts a reference.
    code, origin, stack, opened, counters = code_buffers(tokens.shape[1])
    statuses, ticks, where, final, correct, traces, trace_lengths, coverage, waits = out
    keep_worlds, compare = final.shape[0] > 0, correct.shape[0] > 0
    keep_trace, keep_coverage = trace_lengths.shape[0] > 0, coverage.shape[0] > 0
    cells = final if keep_worlds else np.empty((1, CELLS), np.uint8)
    per_program = heroes.shape[1]
    for program in range(first, last):
        length = tokens.shape[1]
        while prefixes and length > 0 and tokens[program, length - 1] == PAD:
            length -= 1  # to a whole program padding makes no difference
        wrong = compile_program(tokens[program, :length], parser, code, origin, stack, opened)
        open_end = prefixes and wrong == length
        if open_end:
            wrong = -1
        row = rows[program]
        for number in range(per_program):
            source = row * per_program + number
            result = program * per_program + number
            here = result if keep_worlds else 0
            at = int(heroes[row, number])
            heading = take_hero_out(worlds, source, at, cells, here)
            used, done, pc, status = 0, 0, 0, _INVALID
            if wrong < 0:
                status, used, pc, done, at, heading = run_code(
                    code, counters, cells, here, at, heading, max_ticks, traces, keep_trace, coverage, keep_coverage,
                    result, True, True,
                )  # fmt: skip
            put_hero_back(cells, here, at, heading)
            statuses[program, number] = status
            ticks[program, number] = used
            ended = status == _OK or status == _TOO_HIGH
            if ended:
                where[program, number] = -1
            else:
                where[program, number] = wrong if status == _INVALID else origin[pc]
            if prefixes:
                waits[program, number] = origin[pc] if open_end and ended else -1
            if keep_trace:
                trace_lengths[program, number] = done
            if compare:
                different = 0
                for cell in range(CELLS):
                    different += expected[source, cell] != cells[here, cell]
                correct[program, number] = status == _OK and different == 0
