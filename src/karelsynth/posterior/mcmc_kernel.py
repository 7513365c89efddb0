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

from karelsynth.generator.program_kernel import BLOCK_TOKENS, SURVEYED, log_prior
from karelsynth.generator.random_kernel import uniform
from karelsynth.generator.sampler import GeneratorTables
from karelsynth.generator.task_kernel import count_conditionals, log_likelihood
from karelsynth.generator.world_kernel import (
    DRAWN_WORLD,
    START,
    START_HEADING,
    GivenWorlds,
    complete_world,
    given_worlds,
    replay,
    run_world,
)
from karelsynth.karel.compiled import F64Array, I32Array, I64Array, U8Array, U64Array, compiled, copy_row
from karelsynth.karel.machine_kernel import CELLS, code_buffers, compile_program
from karelsynth.karel.structure_kernel import copy_statements, find_statements, new_statements
from karelsynth.posterior.proposal_kernel import propose

PARTICLES: Final = 8
"""For each estimate. With more of them the chain accepts more proposals, but less than their cost would justify."""
FURTHER: Final = 0.4
"""The probability that a proposal is changed once more, so that programs in between need not fit."""
JUMPS: Final = 0.1
"""The probability that a step proposes a jump to another of the given programs."""


class ChainTask(NamedTuple):
    """The task of a chain: G given examples of `wanted`, and M programs to jump between."""

    inputs: U8Array
    """[G, 324]."""
    outputs: U8Array
    wanted: int
    others: U8Array
    """[M, BLOCK_TOKENS], distinct, padded with `<pad>`."""
    other_sizes: I64Array


class ChainState(NamedTuple):
    """The state of a chain; `run_chain` changes every array."""

    random: U64Array
    """[1], the state of the random numbers."""
    tokens: U8Array
    """[BLOCK_TOKENS], the current program."""
    length: I64Array
    """[1], its length."""
    log_terms: F64Array
    """[2], its log prior and the estimate of its log-likelihood."""
    rows: I64Array
    """[2]: the number of rows of the history that are written, and the row of the current program."""


class ChainHistory(NamedTuple):
    """A row for each estimate; there must be room for one more at every step."""

    programs: U8Array
    """[N, BLOCK_TOKENS]."""
    lengths: I64Array
    log_terms: F64Array
    """[N, 2] as in `ChainState`."""
    visits: I64Array
    """[N]: the number of steps after which the chain was there."""
    inputs: U8Array
    """[N, 1, 324]: a further example for each, as the generator would draw it."""
    outputs: U8Array


@compiled()
def _jump(state: U64Array, tokens: U8Array, length: int, others: U8Array, sizes: I64Array, out: U8Array) -> int:
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
def _first_wrong(
    code: I64Array, counters: I32Array, given: GivenWorlds, outputs: U8Array, cells: U8Array, known: U8Array, first: int
) -> int:
    """Run a program on the examples, from `first` on and round; returns the first that it is wrong on, or -1.

    Fills the runs and tests of `given`. `cells` and `known` [324] are scratch space.
    """
    before, counts, runs, tests = given
    for number in range(len(before)):
        example = (first + number) % len(before)
        good = replay(
            code, counters, before[example], counts[example, START], counts[example, START_HEADING], cells, known,
            runs[example], tests[example],
        )  # fmt: skip
        if good:
            for cell in range(CELLS):
                good &= cells[cell] == outputs[example, cell]
        if not good:
            return int(example)
    return -1


@compiled()
def run_chain(
    tables: GeneratorTables,
    task: ChainTask,
    current: ChainState,
    first: bool,
    steps: int,
    particles: int,
    history: ChainHistory,
) -> int:
    """Make `steps` steps; returns the number of accepted proposals.

    With `first`, the current program is evaluated before, as step -1. Returns -1 if its posterior is zero: it does not
    fit the examples, or the generator would never make this task of it.
    """
    sampler, logs = tables.sampler, tables.logs
    state, tokens, length = current.random, current.tokens, current.length[0]
    proposed, middle = np.zeros(BLOCK_TOKENS, np.uint8), np.zeros(BLOCK_TOKENS, np.uint8)
    statements, proposed_statements = new_statements(BLOCK_TOKENS + 1), new_statements(BLOCK_TOKENS + 1)
    middle_statements = new_statements(BLOCK_TOKENS + 1)
    places, gaps = np.empty((BLOCK_TOKENS, SURVEYED), np.int64), np.empty((2 * BLOCK_TOKENS, SURVEYED), np.int64)
    code, origin, stack, opened, counters = code_buffers(BLOCK_TOKENS)
    instructions, bits = code.view(np.uint64), np.empty(BLOCK_TOKENS + 1, np.uint64)
    cells, known, marked = np.empty(CELLS, np.uint8), np.empty(CELLS, np.uint8), np.empty(CELLS, np.uint8)
    further = np.empty((1, DRAWN_WORLD + 1), np.uint64)
    given = given_worlds(task.inputs)
    find_statements(tokens, length, statements)
    failing, accepted_count = 0, 0
    for step in range(-1 if first else 0, steps):
        # Propose a program.
        size, ratio = length, 0.0
        if step < 0:  # the first program itself
            copy_row(tokens, proposed)
            copy_statements(statements, proposed_statements)
        elif len(task.others) > 1 and uniform(state) < JUMPS:
            size = _jump(state, tokens, length, task.others, task.other_sizes, proposed)
            find_statements(proposed, size, proposed_statements)
        else:
            size, ratio = propose(
                state, sampler, logs, tokens, length, statements, places, gaps, proposed, proposed_statements
            )
            while size > 0 and uniform(state) < FURTHER:
                ratio_before = ratio
                copy_row(proposed, middle)
                copy_statements(proposed_statements, middle_statements)
                size, ratio = propose(
                    state, sampler, logs, middle, size, middle_statements, places, gaps, proposed, proposed_statements
                )
                ratio += ratio_before
        # Accept it by its prior, if it is right on the examples, and by its likelihood.
        accepted, prior = False, -np.inf
        if size > 0:
            prior = log_prior(proposed, size, proposed_statements, logs, sampler)
            accepted = prior > -np.inf and (step < 0 or np.log(uniform(state)) < prior - current.log_terms[0] + ratio)
        if accepted:
            compile_program(proposed[:size], tables.parser, code, origin, stack, opened)
            wrong = _first_wrong(code, counters, given, task.outputs, cells, known, failing)
            if wrong >= 0:  # the next proposal mostly fails on the same example
                accepted, failing = False, wrong
        if accepted:
            likelihood = log_likelihood(
                state, sampler, logs, instructions, count_conditionals(proposed, size), given, task.wanted, particles,
                further[0],
            )  # fmt: skip
            row = current.rows[0]
            if likelihood > -np.inf:
                copy_row(proposed[:size], history.programs[row])
                history.lengths[row], history.visits[row] = size, 0
                history.log_terms[row, 0], history.log_terms[row, 1] = prior, likelihood
                run_world(sampler, instructions, bits, further[0, DRAWN_WORLD], further, cells, marked, 0)
                complete_world(sampler, further, cells, marked, 0, history.inputs, history.outputs, row, 0)
                current.rows[0] += 1
            accepted = likelihood > -np.inf and (step < 0 or np.log(uniform(state)) < likelihood - current.log_terms[1])
            if accepted:
                accepted_count += 1
                length = size
                copy_row(proposed, tokens)
                copy_statements(proposed_statements, statements)
                current.length[0], current.rows[1] = size, row
                current.log_terms[0], current.log_terms[1] = prior, likelihood
        if step < 0 and not accepted:
            return -1
        if step >= 0:
            history.visits[current.rows[1]] += 1
    return accepted_count
