"""The endless stream of purposeful tasks.

    batch = generate_purposeful(seed=1, start=0, count=10_000)

Task n of a seed is the same for any number of threads, any batch size and any machine. Programs that `tasks.generate`
reserves for testing are reserved here, too. Programs of the classroom benchmark never occur.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.grammar import KAREL
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.karel.threads import parallel_for
from karelsynth.tasks.batch import EXAMPLES, TaskBatch
from karelsynth.tasks.generate import blank_tasks, checked_stream, flat_arrays
from karelsynth.tasks.purposeful.plans import plan_names, plan_tables

PURPOSEFUL_TOKENS: Final = 112
"""The width of the token array, and the length of the longest program."""


def generate_purposeful(
    seed: int,
    start: int,
    count: int,
    *,
    examples: int = EXAMPLES,
    reserved: bool = False,
    threads: int | None = None,
) -> TaskBatch:
    """Tasks start … start + count − 1 of a seed; the arguments are those of `tasks.generate.generate`."""
    return _generate(seed, start, count, examples, reserved, threads)[0]


def plans_of(seed: int, start: int, count: int) -> list[str]:
    """The names of the plans behind the same tasks of `generate_purposeful`."""
    names = plan_names()
    return [names[number] for number in _generate(seed, start, count, EXAMPLES, False, None)[1]]


def _generate(
    seed: int, start: int, count: int, examples: int, reserved: bool, threads: int | None
) -> tuple[TaskBatch, NDArray[np.uint8]]:
    seed, start, count, examples = checked_stream(seed, start, count, examples)
    tasks, plans = blank_tasks(count, examples, PURPOSEFUL_TOKENS), np.empty(count, np.uint8)

    from karelsynth.tasks.purposeful.generator_kernel import generate_range

    parallel_for(
        generate_range, count, examples, threads,
        start, seed, reserved, plan_tables(), rejected_programs(), compile_grammar(KAREL).parser,
        *flat_arrays(tasks), plans,
    )  # fmt: skip
    return tasks, plans


@cache
def rejected_programs() -> NDArray[np.uint64]:
    """Hashes of the programs that never occur: the classroom benchmark's references and their mirror images.

    `tools/reject_classroom.py` writes the file.
    """
    lines = (files("karelsynth.tasks.purposeful") / "rejected.txt").read_text().split()
    return np.array([int(line, 16) for line in lines], np.uint64)
