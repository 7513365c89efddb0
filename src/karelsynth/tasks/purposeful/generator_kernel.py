"""Making purposeful tasks (Numba): draw a plan, a program of that plan, then worlds in which the program makes sense.

Task n of a seed depends on these two numbers alone. The functions release the GIL and run on one thread.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from karelsynth.generator.program_kernel import is_reserved_program
from karelsynth.generator.random_kernel import GAMMA, mix, shuffle, signed
from karelsynth.karel.compiled import BoolArray, I16Array, I32Array, I64Array, U8Array, U64Array, compiled
from karelsynth.karel.formats.codes import HERO, WALL
from karelsynth.karel.interpreter import PAPER_TICKS, Status
from karelsynth.karel.machine_kernel import (
    CELLS,
    IF,
    IFELSE,
    WHILE,
    code_buffers,
    compile_program,
    run_code,
    take_hero_out,
)
from karelsynth.karel.syntax_compiler import ParserTables
from karelsynth.tasks.purposeful.program_kernel import (
    LONGEST,
    RAW,
    STACK,
    PlanTables,
    append_way_back,
    below,
    choose_statement,
    counts_markers,
    draw_counts,
    expand,
    insert,
    mirror,
    mutate,
    needs_markers,
    normalise,
    percent,
    pick_threshold,
    wrap,
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
from karelsynth.tasks.simplify import Workspace, find_shorter, new_workspace

_OK, _NO_MARKER = int(Status.OK), int(Status.NO_MARKER_TO_PICK)
_MOST: Final = 9
"""Markers on a cell, before and after."""
_REPAIRS: Final = 40
"""Markers that are laid where a program picks without having looked."""
_FIRST_PATIENCE: Final = 8
"""Worlds that are tried for the first example."""
_PATIENCE: Final = 14
"""Worlds that are tried for each example once the first was found."""
_PROGRAMS: Final = 12
"""Programs that are tried for one plan."""
_JOINED: Final = 25
"""Percent of the programs that get a second part: of the same plan, or one that suits any world."""
_RETURNED: Final = 6
"""Percent of the programs that also come back: their mirror image follows. They get no other second part."""
_MUTATED: Final = 45
"""Percent of the programs that are changed at random, in one place or more."""
_LONGEST_GRAFT: Final = 40
"""Tokens of the longest statement that a program gets from another plan."""
_OTHER_WORLDS: Final = 6
"""Percent of the programs that run in the worlds of another plan."""
_LAX: Final = 2
"""Percent of the tasks in which a condition may have the same outcome in all examples."""
_UNCHANGED: Final = 20
"""Percent of the worlds that the program does not change and that are accepted; at most one for each task."""
_ALIKE: Final = 80
"""Percent of the worlds with a known trace that are rejected."""
_MISSES: Final = 20
"""Worlds that are tried, once half of the examples are found, for outcomes that none of them shows."""
_SHORT: Final = 50
"""Percent of the worlds that are rejected if their trace is less than half as long as the longest so far."""
_BARE: Final = 75
"""Percent of the tasks without markers, if the program neither picks nor looks at any."""
_KEPT: Final = 60
"""Percent of a program that the examples must need. It loses the rest."""
_STREAM: Final = np.uint64(0x6F6C6B6A)


class Scratch(NamedTuple):
    """Buffers for the task that is being made."""

    taste: I64Array
    """[8]: what the worlds of a task have in common; see `world_kernel`."""
    chosen: I64Array
    """[rules]: the alternatives that a program draws once."""
    counts: I64Array
    """[3]: the counts that a program draws once."""
    stack: I64Array
    """Symbols that are still to be expanded."""
    raw: U8Array
    """[RAW]: the program as it was drawn."""
    text: U8Array
    """[RAW]: the program in the normal form."""
    grid: U8Array
    """[16, 16]: the stage of a scene."""
    info: I64Array
    """[4]: the stage's size and Karel's place."""
    before: U8Array
    """[E, 324]: the inputs of the examples found so far."""
    after: U8Array
    """[E, 324]: their outputs."""
    heroes: I16Array
    """[E]: the hero's cell in each input."""
    hashes: U64Array
    """[E]: hashes of their traces."""
    traces: U8Array
    """[1, ticks]: the trace of the current run."""
    seen: U8Array
    """[1, conditions]: the outcomes of each condition in the current run: 1 for false, plus 2 for true."""
    shown: U8Array
    """[E, conditions]: the same for each example found so far, …"""
    all_seen: U8Array
    """[conditions]: … and over all of them."""
    cells: U8Array
    """[1, 324]: a world to run in."""


@compiled()
def program_hash(tokens: U8Array, length: int) -> np.uint64:
    """A 64-bit hash of a program."""
    bits = np.uint64(length) + _STREAM
    for at in range(length):
        bits = mix(bits * GAMMA + np.uint64(tokens[at]))
    return bits


@compiled()
def hash_rows(tokens: U8Array, lengths: I64Array, out: U64Array) -> None:
    """Hashes [N] of programs [N, L]."""
    for row in range(len(tokens)):
        out[row] = program_hash(tokens[row], lengths[row])


@compiled()
def _among(found: np.uint64, hashes: U64Array) -> bool:
    same = False
    for number in range(len(hashes)):
        same |= hashes[number] == found
    return same


@compiled()
def _draw_program(state: U64Array, tables: PlanTables, rule: int, scratch: Scratch) -> int:
    """Write a program of a plan to `scratch.text`; returns its length, or 0 if it is too short or too long."""
    taste, raw = scratch.taste, scratch.raw
    chosen, counts, stack = scratch.chosen, scratch.counts, scratch.stack
    draw_counts(state, chosen, counts)
    returns = percent(state, _RETURNED)
    begin = expand(state, tables.depart, tables, chosen, counts, stack, raw, 0) if returns else 0
    size = expand(state, rule, tables, chosen, counts, stack, raw, begin)
    if size > 0 and returns:
        end = size
        size = expand(state, tables.back, tables, chosen, counts, stack, raw, end)
        size = append_way_back(raw, begin, end, size) if size > 0 else 0
    elif size > 0 and percent(state, _JOINED):
        size = expand(state, tables.joint, tables, chosen, counts, stack, raw, size)
        if size > 0:
            again = percent(state, 60)
            if not again or percent(state, 50):
                draw_counts(state, chosen, counts)
            size = expand(state, rule if again else tables.part, tables, chosen, counts, stack, raw, size)
    if size == 0:
        return 0
    changing = percent(state, _MUTATED)
    while changing:
        kind = below(state, 5)
        if kind < 2:
            size = mutate(state, raw, size)
        elif kind == 4:
            other = tables.plans[pick_threshold(state, tables.plan_threshold, 0, len(tables.plans))]
            length = expand(state, other, tables, chosen, counts, stack, scratch.text, 0)
            if length > 0:
                begin, end = choose_statement(state, scratch.text, length)
                if end - begin <= _LONGEST_GRAFT:
                    size = insert(state, raw, size, scratch.text[begin:end], end - begin)
        elif kind == 2:
            length = expand(state, tables.inner, tables, chosen, counts, stack, scratch.text, 0)
            size = insert(state, raw, size, scratch.text, length)
        else:
            length = expand(state, tables.guard, tables, chosen, counts, stack, scratch.text, 0)
            size = wrap(state, raw, size, scratch.text, length)
        changing = percent(state, 35)
    if taste[VALUES] == 0 and counts_markers(raw, size):
        taste[VALUES] = 1 + below(state, 2)
    if taste[MIRRORED]:
        mirror(raw, size)
    length = normalise(raw, size, scratch.text)
    return length if 5 <= length <= LONGEST else 0


@compiled()
def _run_world(
    code: I64Array, counters: I32Array, conditionals: int, scratch: Scratch, slot: int, start: int, facing: int
) -> tuple[bool, bool, np.uint64, int, bool]:
    """Run in the world before[slot], without its hero; returns whether it is good, whether something changed, a hash of
    the trace, its length, and whether the run has used all its ticks.

    Markers are laid where the program picks one without having found out. `after` gets the result, hero included, and
    `before` its hero.
    """
    before, after, traces, seen = scratch.before, scratch.after, scratch.traces, scratch.seen
    status, length, at, heading, used = _NO_MARKER, 0, start, facing, 0
    repairs = 0
    while status == _NO_MARKER:
        for cell in range(CELLS):
            after[slot, cell] = before[slot, cell]
        for number in range(conditionals):
            seen[0, number] = 0
        status, used, _, length, at, heading = run_code(
            code, counters, after, slot, start, facing, PAPER_TICKS, traces, True, seen, True, 0, False, False
        )
        if status == _NO_MARKER:
            repairs += 1
            if before[slot, at] >= _MOST or repairs > _REPAIRS:
                break
            before[slot, at] += 1
    trace = np.uint64(length)
    if status != _OK:
        return False, False, trace, length, used == PAPER_TICKS
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
    state: U64Array,
    kind: int,
    place: int,
    some: int,
    code: I64Array,
    counters: I32Array,
    conditionals: int,
    scratch: Scratch,
) -> bool:
    """Fill `scratch.before` and `scratch.after` with good examples; False if the tries find too few."""
    taste, before, hashes, seen, all_seen = (
        scratch.taste,
        scratch.before,
        scratch.hashes,
        scratch.seen,
        scratch.all_seen,
    )
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
        draw_scene(state, taste, kind, place, some, scratch.grid, scratch.info)
        placed = stage_world(state, taste, scratch.grid, scratch.info, before, found)
        good, changed, trace, length, endless = _run_world(
            code, counters, conditionals, scratch, found, placed // 4, placed % 4
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
            scratch.shown[found, number] = seen[0, number]
            all_seen[number] |= seen[0, number]
            complete &= all_seen[number] == 3
        hashes[found], scratch.heroes[found] = trace, placed // 4
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
def _count_conditionals(text: U8Array, length: int) -> int:
    """The number of conditions of a program."""
    conditionals = 0
    for at in range(length):
        conditionals += text[at] == IF or text[at] == IFELSE or text[at] == WHILE
    return conditionals


@compiled()
def _take_out_needless(text: U8Array, length: int, scratch: Scratch, parser: ParserTables, work: Workspace) -> int:
    """Remove from a program what no example needs; returns the length of what is left, in the normal form.

    Returns 0 if that is no program: in the normal form a block may become empty.
    """
    code, origin, stack, opened, _ = work.buffers
    while True:
        shorter = find_shorter(
            text[:length], 0, scratch.heroes, scratch.before, scratch.after, parser, PAPER_TICKS, True, True, work
        )
        if shorter == length:
            return length
        for at in range(shorter - 4):  # without `DEF run m(` and `m)`
            scratch.raw[at] = work.text[0, at + 3]
        length = normalise(scratch.raw, shorter - 4, text)
        if compile_program(text[:length], parser, code, origin, stack, opened) >= 0:
            return 0


@compiled()
def _show_outcomes(code: I64Array, counters: I32Array, conditionals: int, scratch: Scratch) -> None:
    """Run a program on the examples again, for the outcomes of its conditions in each."""
    for example in range(len(scratch.heroes)):
        at = signed(scratch.heroes[example])
        heading = take_hero_out(scratch.before, example, at, scratch.cells, 0)
        for number in range(conditionals):
            scratch.seen[0, number] = 0
        run_code(
            code, counters, scratch.cells, 0, at, heading, PAPER_TICKS, scratch.traces, False, scratch.seen, True, 0,
            False, False,
        )  # fmt: skip
        for number in range(conditionals):
            scratch.shown[example, number] = scratch.seen[0, number]


@compiled()
def teaching_order(state: U64Array, shown: U8Array, all_seen: U8Array, order: I64Array) -> None:
    """Fill `order` with the examples as a teacher would show them; ties are broken at random.

    Each example shows the most outcomes of conditions that none before it shows. Once all are shown, the rest follow at
    random.

    Args:
        shown: [E, C], the outcomes of C conditions in each example: 1 for false, plus 2 for true.
        all_seen: [C], overwritten.
        order: [E].
    """
    shuffle(state, order)
    all_seen[:] = 0
    for place in range(len(order)):
        best, most = place, -1
        for other in range(place, len(order)):
            new = 0
            for number in range(len(all_seen)):
                lacking = shown[order[other], number] & ~all_seen[number]
                new += (lacking & 1) + (lacking >> 1)
            if new > most:
                best, most = other, new
        order[place], order[best] = order[best], order[place]
        for number in range(len(all_seen)):
            all_seen[number] |= shown[order[place], number]


@compiled()
def generate_range(
    first: int,
    last: int,
    start: int,
    seed: int,
    reserved: bool,
    tables: PlanTables,
    rejected: U64Array,
    parser: ParserTables,
    tokens: U8Array,
    lengths: U8Array,
    inputs: U8Array,
    outputs: U8Array,
    novel: BoolArray,
    plans: U8Array,
) -> None:
    """Make tasks start + first … start + last − 1 and write them to rows first … last − 1.

    Arrays as in `TaskBatch`, with the grids flat, [N, E, 324]; the tokens must come filled with `<pad>`. `plans` [N]
    gets the numbers of the plans. The examples come in the order of `teaching_order`.
    """
    examples = inputs.shape[1]
    state = np.empty(1, np.uint64)
    work = new_workspace(LONGEST)
    code, origin, parse_stack, opened, counters = code_buffers(LONGEST)
    order = np.empty(examples, np.int64)
    scratch = Scratch(
        np.empty(8, np.int64), np.empty(len(tables.once), np.int64), np.empty(3, np.int64), np.empty(STACK, np.int64),
        np.empty(RAW, np.uint8), np.empty(RAW, np.uint8), np.empty((STAGE, STAGE), np.uint8), np.empty(4, np.int64),
        np.empty((examples, CELLS), np.uint8), np.empty((examples, CELLS), np.uint8),
        np.empty(examples, np.int16), np.empty(examples, np.uint64),
        np.empty((1, PAPER_TICKS + 1), np.uint8), np.zeros((1, LONGEST), np.uint8),
        np.empty((examples, LONGEST), np.uint8), np.empty(LONGEST, np.uint8), np.empty((1, CELLS), np.uint8),
    )  # fmt: skip
    text = scratch.text
    stream = mix(mix(np.uint64(seed) + _STREAM) + np.uint64(reserved))
    for task in range(first, last):
        state[0] = mix(stream + np.uint64(start + task) * GAMMA)
        done, length, conditionals = False, 0, 0
        while not done:
            plan = pick_threshold(state, tables.plan_threshold, 0, len(tables.plans))
            for _ in range(_PROGRAMS):
                draw_taste(state, scratch.taste)
                length = _draw_program(state, tables, tables.plans[plan], scratch)
                if length == 0:
                    continue
                if compile_program(text[:length], parser, code, origin, parse_stack, opened) >= 0:
                    continue
                if not reserved and is_reserved_program(text, length):
                    continue
                if _among(program_hash(text, length), rejected):
                    continue
                conditionals = _count_conditionals(text, length)
                scene = plan
                if percent(state, _OTHER_WORLDS):
                    scene = pick_threshold(state, tables.plan_threshold, 0, len(tables.plans))
                variants = tables.worlds_first[scene + 1] - tables.worlds_first[scene]
                world = tables.worlds[tables.worlds_first[scene] + below(state, variants)]
                some = world[2]
                if some != NO_MARKERS and not needs_markers(text, length) and percent(state, _BARE):
                    some = NO_MARKERS
                done = _find_worlds(state, world[0], world[1], some, code, counters, conditionals, scratch)
                if done:  # a person's examples show what each part of the program is for
                    whole = length
                    length = _take_out_needless(text, length, scratch, parser, work)
                    done = 100 * length >= _KEPT * whole
                    if done and length < whole:
                        compile_program(text[:length], parser, code, origin, parse_stack, opened)
                        done = reserved or not is_reserved_program(text, length)
                        done &= not _among(program_hash(text, length), rejected)
                        conditionals = _count_conditionals(text, length)
                        _show_outcomes(code, counters, conditionals, scratch)
                if done:
                    break
            if done:
                plans[task] = plan
        teaching_order(state, scratch.shown[:, :conditionals], scratch.all_seen[:conditionals], order)
        for place in range(examples):
            for cell in range(CELLS):
                inputs[task, place, cell] = scratch.before[order[place], cell]
                outputs[task, place, cell] = scratch.after[order[place], cell]
        for at in range(length):
            tokens[task, at] = text[at]
        lengths[task] = length
        novel[task] = is_reserved_program(text, length)
