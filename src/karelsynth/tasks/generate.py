"""Endless streams of tasks with the statistics of the original data.

    batch = generate(seed=1, start=0, count=10_000)       # the training stream
    batch = generate(seed=1, start=0, count=2_500, reserved=True)    # for testing: `batch.novel` marks new programs

Task n of a seed is the same for any number of threads, any batch size and any machine, so a stream can be resumed at
any task. A tenth of the programs of 12 tokens and more, chosen by hash, is reserved for testing. The training stream
never has one; the other stream has them at their natural rate. The two streams of a seed share no task. The package
`generator` describes how programs and worlds are drawn.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.errors import KarelsynthError, checked_int
from karelsynth.generator.sampler import MAX_TOKENS, Sampler, fitted_sampler
from karelsynth.karel.formats.codes import SIDE
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.karel.threads import parallel_for
from karelsynth.karel.tokens import PAD, token_bytes
from karelsynth.tasks.batch import EXAMPLES, TaskBatch
from karelsynth.tasks.task import MOST_EXAMPLES

FEWEST_EXAMPLES: Final = 2
TEST_SEED: Final = 3
"""The seed of the set `test`, and of sets that differ from it in one property."""
_MOST: Final = (1 << 63) - 1


def generate(
    seed: int,
    start: int,
    count: int,
    *,
    examples: int = EXAMPLES,
    reserved: bool = False,
    threads: int | None = None,
    sampler: Sampler | None = None,
) -> TaskBatch:
    """Tasks start … start + count − 1 of a seed.

    Args:
        seed: an integer from 0 to 2⁶³ − 1.
        start, count: which tasks.
        examples: the number of examples of a task, 2 to 20.
        reserved: whether programs that are reserved for testing may occur.
        threads: the number of threads; by default one for each core.
        sampler: a table to draw from instead of the one fitted to the original data.
    """
    seed, start, count, examples = checked_stream(seed, start, count, examples)
    if sampler is not None and sampler.shape != fitted_sampler().shape:
        raise KarelsynthError(f"a sampler is a table {list(fitted_sampler().shape)}, not {list(sampler.shape)}")
    tasks = blank_tasks(count, examples, MAX_TOKENS)

    from karelsynth.generator.task_kernel import generate_range

    table = (fitted_sampler() if sampler is None else sampler).ravel()
    parallel_for(
        generate_range, count, examples, threads,
        start, seed, reserved, table, compile_grammar(KAREL).parser, *flat_arrays(tasks),
    )  # fmt: skip
    return tasks


def blank_tasks(count: int, examples: int, width: int) -> TaskBatch:
    """Tasks for a kernel to fill: tokens are `<pad>`, all else is undefined."""
    worlds = (count, examples, SIDE, SIDE)
    return TaskBatch(
        np.full((count, width), PAD, np.uint8),
        np.empty(count, np.uint8),
        np.empty(worlds, np.uint8),
        np.empty(worlds, np.uint8),
        np.empty(count, np.bool_),
    )


def flat_arrays(tasks: TaskBatch) -> tuple[NDArray[Any], ...]:
    """Views of the tasks' arrays in their order, with flat worlds, [N, E, 324]."""
    flat = (*tasks.inputs.shape[:2], SIDE * SIDE)
    return tasks.tokens, tasks.lengths, tasks.inputs.reshape(flat), tasks.outputs.reshape(flat), tasks.novel


def checked_stream(seed: int, start: int, count: int, examples: int) -> tuple[int, int, int, int]:
    """The arguments of a stream as plain integers; raises KarelsynthError if one is out of range."""
    seed = checked_int("seed", seed, 0, _MOST)
    start = checked_int("start", start, 0)
    count = checked_int("count", count, 0)
    if start + count > _MOST:
        raise KarelsynthError(f"the sum of start and count must be below 2⁶³, not {start:,} + {count:,}")
    return seed, start, count, checked_int("the number of examples", examples, FEWEST_EXAMPLES, MOST_EXAMPLES)


def is_reserved(tokens: NDArray[Any]) -> NDArray[np.bool_]:
    """Which programs are reserved for testing: bool [N] for token ids [N, L] padded with `<pad>`."""
    from karelsynth.generator.program_kernel import reserved_rows

    reserved = np.empty(len(tokens), np.bool_)
    reserved_rows(token_bytes(tokens), reserved)
    return reserved
