"""Making purposeful tasks (Numba): a plan, a program of it, then worlds of its kind in which the program makes sense.

Task number n of a seed depends on nothing but those two. The functions release the GIL and call nothing parallel.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.generator.program_kernel import is_reserved_program
from karelsynth.generator.random_kernel import GAMMA, mix, shuffle, signed
from karelsynth.karel.compiled import compiled
from karelsynth.karel.formats.codes import HERO, WALL
from karelsynth.karel.interpreter import MAX_TICKS, Status
from karelsynth.karel.machine_kernel import CELLS, IF, IFELSE, WHILE, code_buffers, compile_program, run_code
from karelsynth.karel.syntax_compiler import ParserTables
from karelsynth.tasks.purposeful.program_kernel import (
    LONGEST,
    RAW,
    below,
    counts_markers,
    expand,
    mirror,
    mutate,
    needs_markers,
    normalise,
    percent,
    pick_threshold,
)
from karelsynth.tasks.purposeful.world_kernel import (
    MIRRORED,
    NO_MARKERS,
    STAGE,
    VALUES,
    draw_scene,
    draw_taste,
    stage_world,
)

_OK, _NO_MARKER = int(Status.OK), int(Status.NO_MARKER_TO_PICK)
_MOST: Final = 9
"""Markers on a cell, before and after."""
_REPAIRS: Final = 40
"""Markers that are laid where a program picks without having looked."""
_FIRST_PATIENCE: Final = 14
"""Worlds that are tried for the first example."""
_PATIENCE: Final = 14
"""Worlds that are tried for each example once the first was found."""
_PROGRAMS: Final = 12
"""Programs that are tried for one plan."""
_MUTATED: Final = 15
"""Percent of the programs that are changed at random."""
_LAX: Final = 2
"""Percent of the tasks in which a condition may have the same outcome throughout."""
_UNCHANGED: Final = 20
"""Percent of the worlds without a change that are taken, one for each task at most."""
_ALIKE: Final = 80
"""Percent of the worlds with a known trace that are passed over."""
_MISSES: Final = 20
"""Worlds that are tried, once half of the examples are found, for outcomes that none of them shows."""
_SHORT: Final = 50
"""Percent of the worlds with a trace of less than half the longest so far that are passed over."""
_BARE: Final = 75
"""Percent of the tasks without markers, if the program neither picks nor looks at any."""
_STREAM: Final = np.uint64(0x6F6C6B6A)


@compiled()
def program_hash(tokens: NDArray[np.uint8], length: int) -> np.uint64:  # pragma: no cover - compiled
    """64 bits that tell a program from others."""
    bits = np.uint64(length) + _STREAM
    for at in range(length):
        bits = mix(bits * GAMMA + np.uint64(tokens[at]))
    return bits


@compiled()
def hash_rows(
    tokens: NDArray[np.uint8], lengths: NDArray[np.int64], out: NDArray[np.uint64]
) -> None:  # pragma: no cover - compiled
    """Hashes [N] of programs [N, L]."""
    for row in range(len(tokens)):
        out[row] = program_hash(tokens[row], lengths[row])


@compiled()
def _among(found: np.uint64, hashes: NDArray[np.uint64]) -> bool:  # pragma: no cover - compiled
    same = False
    for number in range(len(hashes)):
        same |= hashes[number] == found
    return same


@compiled()
def _draw_program(
    state: NDArray[np.uint64],
    tables: Any,
    rule: int,
    taste: NDArray[np.int64],
    chosen: NDArray[np.int64],
    stack: NDArray[np.int64],
    raw: NDArray[np.uint8],
    text: NDArray[np.uint8],
) -> int:  # pragma: no cover - compiled
    """Write a program of a plan to `text`; returns its length, or 0 if it came to nothing."""
    size = expand(
        state, rule, tables.first, tables.once, tables.threshold, tables.begins, tables.symbols, chosen, stack, raw
    )
    if size == 0:
        return 0
    if percent(state, _MUTATED):
        size = mutate(state, raw, size)
        if percent(state, 30):
            size = mutate(state, raw, size)
    if taste[VALUES] == 0 and counts_markers(raw, size):
        taste[VALUES] = 1 + below(state, 2)
    if taste[MIRRORED]:
        mirror(raw, size)
    length = normalise(raw, size, text)
    return length if 5 <= length <= LONGEST else 0


@compiled()
def _run_world(
    code: NDArray[np.int64],
    counters: NDArray[np.int32],
    before: NDArray[np.uint8],
    after: NDArray[np.uint8],
    slot: int,
    start: int,
    facing: int,
    traces: NDArray[np.uint8],
    seen: NDArray[np.uint8],
) -> tuple[bool, bool, np.uint64, int, bool]:  # pragma: no cover - compiled
    """Run in the world before[slot], without its hero; returns whether it is good, whether something changed, a hash of
    the trace, its length, and whether the run went on and on.

    Markers are laid where the program picks one without having found out. `after` gets the result, hero included, and
    `before` its hero.
    """
    status, length, at, heading, used = _NO_MARKER, 0, start, facing, 0
    repairs = 0
    while status == _NO_MARKER:
        for cell in range(CELLS):
            after[slot, cell] = before[slot, cell]
        for number in range(seen.shape[1]):
            seen[0, number] = 0
        status, used, _, length, at, heading = run_code(
            code, counters, after, slot, start, facing, MAX_TICKS, traces, True, seen, True, 0
        )
        if status == _NO_MARKER:
            repairs += 1
            if before[slot, at] >= _MOST or repairs > _REPAIRS:
                break
            before[slot, at] += 1
    trace = np.uint64(length)
    if status != _OK:
        return False, False, trace, length, used == MAX_TICKS
    for step in range(length):
        trace = mix(trace * GAMMA + np.uint64(traces[0, step]))
    changed = at != start or heading != facing
    most = 0
    for cell in range(CELLS):
        here = after[slot, cell]
        changed |= here != before[slot, cell]
        most = max(most, signed(here) if here < WALL else 0)
    before[slot, start] += np.uint8(HERO * (facing + 1))
    after[slot, at] += np.uint8(HERO * (heading + 1))
    return most <= _MOST, changed, trace, length, False


@compiled()
def _find_worlds(
    state: NDArray[np.uint64],
    taste: NDArray[np.int64],
    kind: int,
    place: int,
    some: int,
    code: NDArray[np.int64],
    conditionals: int,
    counters: NDArray[np.int32],
    grid: NDArray[np.uint8],
    info: NDArray[np.int64],
    before: NDArray[np.uint8],
    after: NDArray[np.uint8],
    hashes: NDArray[np.uint64],
    traces: NDArray[np.uint8],
    seen: NDArray[np.uint8],
    all_seen: NDArray[np.uint8],
) -> bool:  # pragma: no cover - compiled
    """Fill `before` and `after` [E, 324] with good examples; False if there seem to be too few."""
    wanted = before.shape[0]
    found, tried, unchanged, longest, missed = 0, 0, 0, 0, 0
    complete = conditionals == 0
    for number in range(conditionals):
        all_seen[number] = 0
    strict = not percent(state, _LAX)
    while found < wanted and missed < _MISSES and tried < (_PATIENCE * (found + 1) if found > 0 else _FIRST_PATIENCE):
        tried += 1
        # With half of the examples found, only those count that show what is still unseen.
        lacking = strict and not complete and 2 * found >= wanted
        missed += lacking
        draw_scene(state, taste, kind, place, some, grid, info)
        placed = stage_world(state, taste, grid, info, before, found)
        good, changed, trace, length, endless = _run_world(
            code, counters, before, after, found, placed // 4, placed % 4, traces, seen
        )
        if not good:
            tried += 2 * endless
            continue
        shows_new = False
        for number in range(conditionals):
            shows_new |= (seen[0, number] | all_seen[number]) != all_seen[number]
        longest = max(longest, length)
        if lacking and not shows_new:
            continue
        if not changed and (unchanged > 0 or not percent(state, _UNCHANGED)):
            continue
        if conditionals > 0 and not shows_new and 2 * tried < _PATIENCE * (found + 1):
            known = False
            for other in range(found):
                known |= hashes[other] == trace
            if known and percent(state, _ALIKE):
                continue
            if 2 * length < longest and percent(state, _SHORT):
                continue
        same = False
        for other in range(found):
            cell = 0
            while cell < CELLS and before[other, cell] == before[found, cell]:
                cell += 1
            same |= cell == CELLS
        if same:
            continue
        complete = True
        for number in range(conditionals):
            all_seen[number] |= seen[0, number]
            complete &= all_seen[number] == 3
        hashes[found] = trace
        unchanged += not changed
        found += 1
    if found < wanted:
        return False
    distinct = 0
    for number in range(found):
        new = True
        for other in range(number):
            new &= hashes[other] != hashes[number]
        distinct += new
    return (complete or not strict) and (conditionals == 0 or distinct >= min(3, 1 + conditionals))


@compiled()
def generate_range(
    first: int,
    last: int,
    start: int,
    seed: int,
    reserved: bool,
    tables: Any,
    rejected: NDArray[np.uint64],
    parser: ParserTables,
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.uint8],
    inputs: NDArray[np.uint8],
    outputs: NDArray[np.uint8],
    novel: NDArray[np.bool_],
    plans: NDArray[np.uint8],
) -> None:  # pragma: no cover - compiled
    """Make tasks start + first … start + last − 1 and write them to rows first … last − 1.

    Arrays as in `TaskBatch`, with the grids flat, [N, E, 324]; the tokens must come filled with `<pad>`. `plans` [N]
    gets the numbers of the plans.
    """
    examples = inputs.shape[1]
    state = np.empty(1, np.uint64)
    taste = np.empty(8, np.int64)
    chosen = np.empty(len(tables.once), np.int64)
    stack = np.empty(512, np.int64)
    raw, text = np.empty(RAW, np.uint8), np.empty(RAW, np.uint8)
    code, origin, parse_stack, opened, counters = code_buffers(LONGEST)
    grid, info = np.empty(STAGE * STAGE, np.uint8), np.empty(4, np.int64)
    before, after = np.empty((examples, CELLS), np.uint8), np.empty((examples, CELLS), np.uint8)
    hashes, order = np.empty(examples, np.uint64), np.empty(examples, np.int64)
    traces, seen = np.empty((1, MAX_TICKS + 1), np.uint8), np.zeros((1, LONGEST), np.uint8)
    all_seen = np.empty(LONGEST, np.uint8)
    stream = mix(mix(np.uint64(seed) + _STREAM) + np.uint64(reserved))
    for task in range(first, last):
        state[0] = mix(stream + np.uint64(start + task) * GAMMA)
        done, length = False, 0
        while not done:
            plan = pick_threshold(state, tables.plan_threshold, 0, len(tables.plans))
            for _ in range(_PROGRAMS):
                draw_taste(state, taste)
                length = _draw_program(state, tables, tables.plans[plan], taste, chosen, stack, raw, text)
                if length == 0:
                    continue
                if compile_program(text[:length], parser, code, origin, parse_stack, opened) >= 0:
                    continue
                if not reserved and is_reserved_program(text, length):
                    continue
                if _among(program_hash(text, length), rejected):
                    continue
                conditionals = 0
                for at in range(length):
                    conditionals += text[at] == IF or text[at] == IFELSE or text[at] == WHILE
                variants = tables.worlds_first[plan + 1] - tables.worlds_first[plan]
                world = tables.worlds[tables.worlds_first[plan] + below(state, variants)]
                some = world[2]
                if some != NO_MARKERS and not needs_markers(text, length) and percent(state, _BARE):
                    some = NO_MARKERS
                done = _find_worlds(
                    state, taste, world[0], world[1], some, code, conditionals, counters, grid, info, before,
                    after, hashes, traces, seen[:, : max(1, conditionals)], all_seen,
                )  # fmt: skip
                if done:
                    break
            if done:
                plans[task] = plan
        shuffle(state, order)
        for number in range(examples):
            for cell in range(CELLS):
                inputs[task, order[number], cell] = before[number, cell]
                outputs[task, order[number], cell] = after[number, cell]
        for at in range(length):
            tokens[task, at] = text[at]
        lengths[task] = length
        novel[task] = is_reserved_program(text, length)
