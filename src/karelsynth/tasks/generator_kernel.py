"""Making tasks (Numba): a program, then worlds until enough of them are good examples, else another program.

Task number n of a seed depends on nothing but those two: its source of random bits begins at a scrambling of them.
The functions release the GIL and call nothing parallel: threads are the caller's business.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled
from karelsynth.karel.machine_kernel import CELLS, IF, IFELSE, WHILE, compile_program
from karelsynth.tasks.batch import EXAMPLES
from karelsynth.tasks.kernel_layout import (
    ALIKE,
    BARE,
    KEEP_DISTINCT_ROW,
    LEVELS,
    SETTINGS_ROW,
    SHORT,
    UNSEEN,
    Sampler,
)
from karelsynth.tasks.program_kernel import (
    SCRATCH_TOKENS,
    SHORTEST_RESERVED,
    draw,
    draw_program,
    is_reserved_program,
    mix,
    setting,
)
from karelsynth.tasks.world_kernel import (
    DESCRIPTION,
    ENDLESS,
    GOOD,
    LENGTH,
    LONGEST_TRACE,
    SEEN,
    TRACE,
    begin_world,
    complete_world,
    run_world,
)

_S32, _S48 = np.uint64(32), np.uint64(48)
_ZERO, _ONE, _LONGEST = np.uint64(0), np.uint64(1), np.uint64(LONGEST_TRACE + 1)
_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
FIRST_PATIENCE: Final = 16
"""How many worlds are tried for the first example."""
PATIENCE: Final = 24
"""How many are tried for each example if the first was found. Choosiness among good worlds may use up half of them."""
_HOPELESS: Final = 1 << 32
"""More tries than anyone has patience for."""
TIRING: Final = 6
"""As how many further failures a run counts that would go on and on: most such programs never end."""


@compiled()
def _conditionals(tokens: NDArray[np.uint8], length: int) -> int:  # pragma: no cover - compiled
    count = 0
    for at in range(length):
        count += tokens[at] == IF or tokens[at] == IFELSE or tokens[at] == WHILE
    return count


@compiled()
def _all_outcomes(conditionals: int) -> np.uint64:  # pragma: no cover - compiled
    """The `SEEN` of a world that shows both outcomes of every condition."""
    return (_ONE << np.uint64(2 * conditionals)) - _ONE


@compiled()
def _draw_allowed(
    state: NDArray[np.uint64],
    sampler: Sampler,
    reserved: bool,
    tokens: NDArray[np.uint8],
    blocks: NDArray[np.int64],
) -> int:  # pragma: no cover - compiled
    """A program; returns its length. Unless `reserved`, none of those kept for testing.

    A program that must not be is replaced by one that could have been reserved but is not, so that the short ones,
    which never are, become no commoner.
    """
    shortest, length, allowed = 0, 0, False
    while not allowed:
        length = draw_program(state, sampler, tokens, blocks)
        if length > shortest:
            allowed = reserved or not is_reserved_program(tokens, length)
            shortest = SHORTEST_RESERVED - 1
    return length


@compiled()
def _find_worlds(
    state: NDArray[np.uint64],
    sampler: Sampler,
    code: NDArray[np.uint64],
    conditionals: int,
    worlds: NDArray[np.uint64],
    cells: NDArray[np.uint8],
    marked: NDArray[np.uint8],
    counters: NDArray[np.uint64],
) -> bool:  # pragma: no cover - compiled
    """Fill worlds [E, DESCRIPTION], cells and change [E, 324] with good examples; False if there seem to be too few."""
    wanted = len(worlds)
    bare = (draw(state) >> _S48) < setting(sampler, SETTINGS_ROW, BARE)
    found, tried, seen = 0, 0, _ZERO
    standard = _LONGEST  # the longest good trace since the last example; the first good world of all only sets it
    complete = _all_outcomes(conditionals)
    # Outcomes that no example shows are kept rare: most tasks must have seen everything when half of them are found.
    strict = (draw(state) >> _S48) >= setting(sampler, SETTINGS_ROW, UNSEEN)
    while found < wanted and tried < (PATIENCE * (found + 1) if found > 0 else FIRST_PATIENCE):
        tried += 1
        begin_world(state, sampler, bare, worlds, found)
        outcome = run_world(sampler, code, counters, complete & ~seen, worlds, cells, marked, found)
        if outcome != GOOD:
            tried += TIRING if outcome == ENDLESS else 0
            continue
        length, short = worlds[found, LENGTH], worlds[found, LENGTH] < standard
        standard = length if standard == _LONGEST else max(standard, length)
        shows_new = found > 0 and (worlds[found, SEEN] | seen) != seen
        if conditionals > 0 and not shows_new and 2 * tried < PATIENCE * (found + 1):
            known = False
            for other in range(found):
                known |= worlds[other, TRACE] == worlds[found, TRACE]
            if known and (draw(state) >> _S48) < setting(sampler, SETTINGS_ROW, ALIKE):
                continue
            if short and (draw(state) >> _S48) < setting(sampler, SETTINGS_ROW, SHORT):
                continue
        seen |= worlds[found, SEEN]
        standard = length
        found += 1
        if strict and seen != complete and 2 * found >= wanted:
            tried = _HOPELESS
    return found == wanted and tried < _HOPELESS


@compiled()
def _keep(
    state: NDArray[np.uint64], sampler: Sampler, worlds: NDArray[np.uint64]
) -> bool:  # pragma: no cover - compiled
    """Whether to keep a finished task with conditions: the numbers of distinct traces are balanced here."""
    distinct = 0
    for number in range(len(worlds)):
        new = True
        for other in range(number):
            new &= worlds[other, TRACE] != worlds[number, TRACE]
        distinct += new
    kept: bool = (draw(state) >> _S48) < setting(sampler, KEEP_DISTINCT_ROW, min(distinct, EXAMPLES))
    return kept


@compiled()
def _shuffle(state: NDArray[np.uint64], order: NDArray[np.int64]) -> None:  # pragma: no cover - compiled
    """Put the numbers 0, 1, … into an even random order."""
    for number in range(len(order)):
        other = np.int64((draw(state) >> _S32) * np.uint64(number + 1) >> _S32)
        order[number] = order[other]
        order[other] = number


@compiled()
def _all_different(grids: NDArray[np.uint8], task: int) -> bool:  # pragma: no cover - compiled
    """Whether no two of a task's grids, of [N, E, 324], are equal."""
    different = True
    for one in range(grids.shape[1]):
        for other in range(one):
            cell = 0
            while cell < CELLS and grids[task, one, cell] == grids[task, other, cell]:
                cell += 1
            different &= cell < CELLS
    return different


@compiled()
def generate_range(
    first: int,
    last: int,
    start: int,
    seed: int,
    reserved: bool,
    sampler: Sampler,
    transition: NDArray[np.int32],
    symbols: int,
    grammar_start: int,
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.uint8],
    inputs: NDArray[np.uint8],
    outputs: NDArray[np.uint8],
    novel: NDArray[np.bool_],
) -> None:  # pragma: no cover - compiled
    """Make tasks start + first … start + last − 1 and write them to rows first … last − 1.

    Arrays as in `TaskBatch`, with the grids flat, [N, E, 324]; the tokens must come filled with `<pad>`.
    """
    examples = inputs.shape[1]
    state = np.empty(1, np.uint64)
    text = np.empty(SCRATCH_TOKENS, np.uint8)
    blocks = np.empty(4 * LEVELS, np.int64)
    code = np.empty(SCRATCH_TOKENS + 1, np.int64)
    instructions = code.view(np.uint64)
    origin = np.empty(SCRATCH_TOKENS + 1, np.int16)
    stack = np.empty(SCRATCH_TOKENS + 2, np.int32)
    opened = np.empty((SCRATCH_TOKENS + 2, 3), np.int32)
    counters = np.empty(SCRATCH_TOKENS + 1, np.uint64)
    order = np.empty(examples, np.int64)
    worlds = np.empty((examples, DESCRIPTION), np.uint64)
    cells = np.empty(examples * CELLS, np.uint8)
    marked = np.empty(examples * CELLS, np.uint8)
    # The two streams of a seed have nothing in common, so a test set may share its seed with the training stream.
    stream = mix(mix(np.uint64(seed)) + (_ONE if reserved else _ZERO))
    for task in range(first, last):
        state[0] = mix(stream + np.uint64(start + task) * _GAMMA)
        while True:
            length = _draw_allowed(state, sampler, reserved, text, blocks)
            compile_program(text[:length], transition, symbols, grammar_start, code, origin, stack, opened)
            conditionals = _conditionals(text, length)
            if not _find_worlds(state, sampler, instructions, conditionals, worlds, cells, marked, counters):
                continue
            if conditionals > 0 and not _keep(state, sampler, worlds):
                continue
            _shuffle(state, order)  # later worlds are chosen with an eye on the earlier ones
            for number in range(examples):
                place = order[number]
                complete_world(sampler, worlds, cells, marked, number, inputs, outputs, task, place)
            if _all_different(inputs, task):
                break
        tokens[task, :length] = text[:length]
        lengths[task] = length
        novel[task] = is_reserved_program(text, length)
