"""MCMC over the programs that fit a task's examples (Numba): Metropolis–Hastings with an estimated likelihood.

A step proposes a changed program and accepts or rejects it in two stages, so that most proposals cost little: first by
the prior, then, if the program is correct on the given examples, by the likelihood. The likelihood is an unbiased
estimate, and the estimate of the current program is kept. So the chain has the exact posterior as its stationary
distribution, however rough the estimates are (pseudo-marginal MCMC). The history gets a row for every estimate that is
not zero, also for programs that the chain rejects.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karelsynth.generator.program_kernel import BLOCK_TOKENS, SURVEYED, log_prior
from karelsynth.generator.random_kernel import uniform
from karelsynth.generator.sampler import GeneratorTables
from karelsynth.generator.task_kernel import count_conditionals, log_likelihood
from karelsynth.generator.world_kernel import (
    COUNTED,
    DRAWN_WORLD,
    MOST_TESTS,
    REPLAYED_RUN,
    START,
    START_HEADING,
    complete_world,
    count_world,
    replay,
    run_world,
)
from karelsynth.karel.compiled import compiled
from karelsynth.karel.copy_kernel import copy_row, copy_rows
from karelsynth.karel.machine_kernel import CELLS, code_buffers, compile_program
from karelsynth.karel.structure_kernel import structure
from karelsynth.posterior.proposal_kernel import propose

PARTICLES: Final = 8
"""For each estimate. With more of them the chain accepts more proposals, but less than their cost would justify."""
FURTHER: Final = 0.4
"""The probability that a proposal is changed once more, so that programs in between need not fit."""
JUMPS: Final = 0.1
"""The probability that a step proposes a jump to another of the given programs."""


class ChainTask(NamedTuple):
    """The task of a chain: G given examples of `wanted`, and M programs to jump between."""

    inputs: NDArray[np.uint8]
    """[G, 324]."""
    outputs: NDArray[np.uint8]
    wanted: int
    others: NDArray[np.uint8]
    """[M, BLOCK_TOKENS], distinct, padded with `<pad>`."""
    other_sizes: NDArray[np.int64]


class ChainState(NamedTuple):
    """The state of a chain; `run_chain` changes every array."""

    random: NDArray[np.uint64]
    """[1], the state of the random numbers."""
    tokens: NDArray[np.uint8]
    """[BLOCK_TOKENS], the current program."""
    length: NDArray[np.int64]
    """[1], its length."""
    log_terms: NDArray[np.float64]
    """[2], its log prior and the estimate of its log-likelihood."""
    rows: NDArray[np.int64]
    """[2]: the number of rows of the history that are written, and the row of the current program."""


class ChainHistory(NamedTuple):
    """A row for each estimate; there must be room for one more at every step."""

    programs: NDArray[np.uint8]
    """[N, BLOCK_TOKENS]."""
    lengths: NDArray[np.int64]
    log_terms: NDArray[np.float64]
    """[N, 2] as in `ChainState`."""
    visits: NDArray[np.int64]
    """[N]: the number of steps after which the chain was there."""
    inputs: NDArray[np.uint8]
    """[N, 1, 324]: a further example for each, as the generator would draw it."""
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
    """If the program is one of the M others, write another of them to `out`; returns its length, or 0."""
    for own in range(len(others)):
        same = sizes[own] == length
        place = 0
        while same and place < length:
            same = others[own, place] == tokens[place]
            place += 1
        if same:
            chosen = int(uniform(state) * (len(others) - 1))
            chosen += chosen >= own
            copy_row(others[chosen], out)
            return int(sizes[chosen])
    return 0


@compiled()
def run_chain(
    tables: GeneratorTables,
    task: ChainTask,
    current: ChainState,
    first: bool,
    steps: int,
    particles: int,
    history: ChainHistory,
) -> int:  # pragma: no cover - compiled
    """Make so many steps; returns the number of accepted proposals.

    With `first`, the current program is evaluated before. Returns -1 if its posterior is zero: it does not fit the
    examples, or the generator would never make this task of it.
    """
    sampler, logs = tables.sampler, tables.logs
    state, here, length = current.random, current.tokens, current.length[0]
    examples = len(task.inputs)
    there, between = np.zeros(BLOCK_TOKENS, np.uint8), np.zeros(BLOCK_TOKENS, np.uint8)
    parts, new_parts = np.zeros((3, BLOCK_TOKENS + 1), np.int64), np.zeros((3, BLOCK_TOKENS + 1), np.int64)
    between_parts = np.zeros((3, BLOCK_TOKENS + 1), np.int64)
    statements, gaps = np.empty((BLOCK_TOKENS, SURVEYED), np.int64), np.empty((2 * BLOCK_TOKENS, SURVEYED), np.int64)
    code, origin, stack, opened, counters = code_buffers(BLOCK_TOKENS)
    instructions, bits = code.view(np.uint64), np.empty(BLOCK_TOKENS + 1, np.uint64)
    before, counts = np.empty((examples, CELLS), np.uint8), np.zeros((examples, COUNTED), np.int64)
    runs, tests = np.zeros((examples, REPLAYED_RUN), np.uint64), np.zeros((examples, MOST_TESTS), np.int64)
    cells, known, marked = np.empty(CELLS, np.uint8), np.empty(CELLS, np.uint8), np.empty(CELLS, np.uint8)
    further = np.empty((1, DRAWN_WORLD + 1), np.uint64)
    for example in range(examples):
        count_world(task.inputs[example], counts[example], before[example])
    structure(here, length, parts[0], parts[1], parts[2])
    failing, taken = 0, 0
    for step in range(-1 if first else 0, steps):
        size, ratio = length, 0.0
        if step < 0:  # the first program itself
            copy_row(here, there)
            copy_rows(parts, new_parts)
        elif len(task.others) > 1 and uniform(state) < JUMPS:
            size = _other(state, here, length, task.others, task.other_sizes, there)
            structure(there, size, new_parts[0], new_parts[1], new_parts[2])
        else:
            size, ratio = propose(state, sampler, logs, here, length, parts, statements, gaps, there, new_parts)
            while size > 0 and uniform(state) < FURTHER:
                copy_row(there, between)
                copy_rows(new_parts, between_parts)
                sum_of = ratio
                size, ratio = propose(
                    state, sampler, logs, between, size, between_parts, statements, gaps, there, new_parts
                )
                ratio += sum_of
        accepted, prior = False, -np.inf
        if size > 0:
            prior = log_prior(there, size, new_parts[0], new_parts[1], new_parts[2], logs, sampler)
            accepted = prior > -np.inf and (step < 0 or np.log(uniform(state)) < prior - current.log_terms[0] + ratio)
        if accepted:
            compile_program(there[:size], tables.parser, code, origin, stack, opened)
            for number in range(examples):
                example = (failing + number) % examples
                good = replay(
                    code, counters, before[example], counts[example, START], counts[example, START_HEADING],
                    cells, known, runs[example], tests[example],
                )  # fmt: skip
                if good:
                    for cell in range(CELLS):
                        good &= cells[cell] == task.outputs[example, cell]
                if not good:  # the next proposal mostly fails on the same example
                    accepted, failing = False, example
                    break
        if accepted:
            likelihood = log_likelihood(
                state, sampler, logs, instructions, count_conditionals(there, size), counts, runs, tests, task.wanted,
                particles, further[0],
            )  # fmt: skip
            row = current.rows[0]
            if likelihood > -np.inf:
                copy_row(there[:size], history.programs[row])
                history.lengths[row] = size
                history.log_terms[row, 0], history.log_terms[row, 1], history.visits[row] = (
                    prior,
                    likelihood,
                    0,
                )
                run_world(sampler, instructions, bits, further[0, DRAWN_WORLD], further, cells, marked, 0)
                complete_world(sampler, further, cells, marked, 0, history.inputs, history.outputs, row, 0)
                current.rows[0] += 1
            accepted = likelihood > -np.inf and (step < 0 or np.log(uniform(state)) < likelihood - current.log_terms[1])
            if accepted:
                taken += 1
                copy_row(there, here)
                copy_rows(new_parts, parts)
                length = size
                current.length[0], current.log_terms[0], current.log_terms[1], current.rows[1] = (
                    size,
                    prior,
                    likelihood,
                    row,
                )
        if step < 0 and not accepted:
            return -1
        if step >= 0:
            history.visits[current.rows[1]] += 1
    return taken
