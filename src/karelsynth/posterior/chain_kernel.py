"""A Markov chain through the programs that fit a task's examples, each as often as it is likely (Numba).

Metropolis–Hastings: a change of the program is proposed and taken by a chance that keeps the balance. It is judged in
two stages, so that most proposals cost little: by the program's own chance, then, if it is right on the given examples,
by that of the worlds. The latter is an unbiased estimate, and the estimate of the program where the chain stands is
kept: then the balance is exact, however rough the estimates are (a pseudo-marginal chain). Every estimate but those of
nothing, which are rare, is written down, also of programs that the chain does not come to.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled
from karelsynth.karel.machine_kernel import CELLS, IF, IFELSE, WHILE, compile_program
from karelsynth.posterior.moves_kernel import propose
from karelsynth.posterior.program_kernel import LONGEST, NOTED, program_chance
from karelsynth.posterior.task_kernel import even, worlds_chance
from karelsynth.posterior.world_kernel import COUNTED, HEADING, MOST_LOOKS, RUN, START, count_world, replay
from karelsynth.tasks.edit_kernel import structure
from karelsynth.tasks.kernel_layout import Sampler
from karelsynth.tasks.world_kernel import DESCRIPTION, complete_world, run_world

PARTICLES: Final = 8
"""For each estimate. More make the chain move more readily, but not in proportion to their price."""
FURTHER: Final = 0.4
"""How often a proposal is changed once more, so that what lies between need not fit."""
JUMPS: Final = 0.1
"""How often a jump is proposed."""


class Tables(NamedTuple):
    """What is the same for all tasks."""

    sampler: Sampler
    logs: NDArray[np.float64]
    """`tables.log_chances` of it."""
    transition: NDArray[np.int32]
    symbols: int
    start: int


class Problem(NamedTuple):
    """A task: G given examples of `wanted`, and programs to jump between."""

    inputs: NDArray[np.uint8]
    """[G, 324]."""
    outputs: NDArray[np.uint8]
    wanted: int
    others: NDArray[np.uint8]
    """[M, LONGEST], all different, filled up with `<pad>`."""
    other_sizes: NDArray[np.int64]


class Place(NamedTuple):
    """Where a chain stands; every array is changed as it goes on."""

    state: NDArray[np.uint64]
    """[1], the source of random bits."""
    tokens: NDArray[np.uint8]
    """[LONGEST], the program, …"""
    length: NDArray[np.int64]
    """… [1] its length, and …"""
    chances: NDArray[np.float64]
    """… [2] the logarithms of its chance and of its worlds' (an estimate)."""
    rows: NDArray[np.int64]
    """[2]: how many rows of its record are written, and which of them this is."""


class Record(NamedTuple):
    """The programs that fit, a row for each estimate; N must suffice for one more at every step."""

    programs: NDArray[np.uint8]
    """[N, LONGEST]."""
    lengths: NDArray[np.int64]
    chances: NDArray[np.float64]
    """[N, 2] as in `Place`."""
    stays: NDArray[np.int64]
    """After how many steps the chain stood there."""
    inputs: NDArray[np.uint8]
    """[N, 1, 324], for each a further example, as the generator would draw it."""
    outputs: NDArray[np.uint8]


@compiled()
def _other(
    state: NDArray[np.uint64],
    tokens: NDArray[np.uint8],
    length: int,
    others: NDArray[np.uint8],
    sizes: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> int:  # pragma: no cover - compiled
    """If the program is one of the others, write another of these to `out`; returns its length, or 0."""
    for own in range(len(others)):
        same = sizes[own] == length
        place = 0
        while same and place < length:
            same = others[own, place] == tokens[place]
            place += 1
        if same:
            chosen = int(even(state) * (len(others) - 1))
            chosen += chosen >= own
            out[:] = others[chosen]
            return int(sizes[chosen])
    return 0


@compiled()
def walk(
    tables: Tables, problem: Problem, place: Place, first: bool, steps: int, particles: int, record: Record
) -> int:  # pragma: no cover - compiled
    """Make so many steps, and write down what fits on the way.

    With `first`, the program at `place` is looked at before; returns -1 if it does not fit the examples or if the
    generator would never make this task of it, otherwise how many proposals were taken.
    """
    sampler, logs = tables.sampler, tables.logs
    state, here, length = place.state, place.tokens, place.length[0]
    examples = len(problem.inputs)
    there, between = np.zeros(LONGEST, np.uint8), np.zeros(LONGEST, np.uint8)
    parts, new_parts = np.zeros((3, LONGEST + 1), np.int64), np.zeros((3, LONGEST + 1), np.int64)
    between_parts = np.zeros((3, LONGEST + 1), np.int64)
    statements, gaps = np.empty((LONGEST, NOTED), np.int64), np.empty((2 * LONGEST, NOTED), np.int64)
    code, origin = np.empty(2 * LONGEST + 2, np.int64), np.empty(2 * LONGEST + 2, np.int16)
    instructions = code.view(np.uint64)
    stack, opened = np.empty(LONGEST + 2, np.int32), np.empty((LONGEST + 2, 3), np.int32)
    counters, bits = np.empty(LONGEST + 1, np.int64), np.empty(LONGEST + 1, np.uint64)
    before, counts = np.empty((examples, CELLS), np.uint8), np.zeros((examples, COUNTED), np.int64)
    runs, looks = np.zeros((examples, RUN), np.uint64), np.zeros((examples, MOST_LOOKS), np.int64)
    cells, known, marked = np.empty(CELLS, np.uint8), np.empty(CELLS, np.uint8), np.empty(CELLS, np.uint8)
    further = np.empty((1, DESCRIPTION + 1), np.uint64)
    for example in range(examples):
        count_world(problem.inputs[example], counts[example], before[example])
    structure(here, length, parts[0], parts[1], parts[2])
    telling, taken = 0, 0
    for step in range(-1 if first else 0, steps):
        size, ratio = length, 0.0
        if step < 0:  # the first program itself
            there[:], new_parts[:] = here, parts
        elif len(problem.others) > 1 and even(state) < JUMPS:
            size = _other(state, here, length, problem.others, problem.other_sizes, there)
            structure(there, size, new_parts[0], new_parts[1], new_parts[2])
        else:
            size, ratio = propose(state, sampler, logs, here, length, parts, statements, gaps, there, new_parts)
            while size > 0 and even(state) < FURTHER:
                between[:], between_parts[:], sum_of = there, new_parts, ratio
                size, ratio = propose(
                    state, sampler, logs, between, size, between_parts, statements, gaps, there, new_parts
                )
                ratio += sum_of
        accepted, chance = False, -np.inf
        if size > 0:
            chance = program_chance(there, size, new_parts[0], new_parts[1], new_parts[2], logs, sampler)
            accepted = chance > -np.inf and (step < 0 or np.log(even(state)) < chance - place.chances[0] + ratio)
        if accepted:
            compile_program(there[:size], tables.transition, tables.symbols, tables.start, code, origin, stack, opened)
            for number in range(examples):
                example = (telling + number) % examples
                good = replay(
                    code, counters, before[example], counts[example, START], counts[example, HEADING], cells, known,
                    runs[example], looks[example],
                )  # fmt: skip
                if good:
                    for cell in range(CELLS):
                        good &= cells[cell] == problem.outputs[example, cell]
                if not good:  # the next one will mostly fail there too
                    accepted, telling = False, example
                    break
        if accepted:
            conditionals = 0
            for at in range(size):
                conditionals += there[at] == IF or there[at] == IFELSE or there[at] == WHILE
            likelihood = worlds_chance(
                state, sampler, logs, instructions, conditionals, counts, runs, looks, problem.wanted, particles,
                further[0],
            )  # fmt: skip
            row = place.rows[0]
            if likelihood > -np.inf:
                record.programs[row, :size], record.lengths[row] = there[:size], size
                record.chances[row, 0], record.chances[row, 1], record.stays[row] = chance, likelihood, 0
                run_world(sampler, instructions, bits, further[0, DESCRIPTION], further, cells, marked, 0)
                complete_world(sampler, further, cells, marked, 0, record.inputs, record.outputs, row, 0)
                place.rows[0] += 1
            accepted = likelihood > -np.inf and (step < 0 or np.log(even(state)) < likelihood - place.chances[1])
            if accepted:
                taken += 1
                here[:], parts[:], length = there, new_parts, size
                place.length[0], place.chances[0], place.chances[1], place.rows[1] = size, chance, likelihood, row
        if step < 0 and not accepted:
            return -1
        if step >= 0:
            record.stays[place.rows[1]] += 1
    return taken
