"""Simpler reference programs: without the parts that no example of the task needs.

    simpler = simplify(batch)             # the same tasks; programs correct on all examples, and never longer

Random programs have many parts without effect: equal branches, loops that run once, steps that cancel. No learner can
infer these from the examples. A simplified program is a local optimum: every shorter program that a change of
`simplify_kernel` leads to is wrong on some example, or reserved for testing. On other worlds it may differ from the
original program, and it need not be in the normal form of the data.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karelsynth.errors import KarelsynthError
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.machine import heroes_of
from karelsynth.karel.machine_kernel import CELLS
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.karel.threads import parallel_for

if TYPE_CHECKING:
    from karelsynth.tasks.batch import TaskBatch


def simplify(
    tasks: TaskBatch, threads: int | None = None, *, max_ticks: int = PAPER_TICKS, reserved: bool = False
) -> TaskBatch:
    """The same tasks with simpler programs. No program becomes one that is reserved for testing, unless `reserved`.

    `novel` still describes the original programs. A program that is wrong on some example is replaced only by one that
    is correct on all, within `max_ticks`. Raises KarelsynthError for rows that are no program or no world.
    """
    from karelsynth.tasks.simplify_kernel import simplify_range

    tokens, lengths = np.array(tasks.tokens, np.uint8, order="C"), tasks.lengths.astype(np.int64)
    if tasks.inputs.shape != tasks.outputs.shape or not len(tokens) == len(lengths) == len(tasks.inputs):
        raise KarelsynthError(
            f"{len(tokens)} programs, {len(lengths)} lengths, inputs {list(tasks.inputs.shape)} and outputs "
            f"{list(tasks.outputs.shape)} do not make a batch of tasks"
        )
    heroes = heroes_of("inputs", tasks.inputs, threads)
    inputs, outputs = (np.ascontiguousarray(part).reshape(-1, CELLS) for part in (tasks.inputs, tasks.outputs))
    found: list[int] = parallel_for(
        simplify_range, len(tokens), tasks.inputs.shape[1], threads,
        tokens, lengths, inputs, heroes, outputs, compile_grammar(KAREL).parser, max_ticks, reserved,
    )  # fmt: skip
    bad = min((number for number in found if number >= 0), default=None)
    if bad is not None:
        raise KarelsynthError(
            f"tokens[{bad}] with lengths[{bad}] = {tasks.lengths[bad]} is no program (Program.from_tokens says more)"
        )
    return replace(tasks, tokens=tokens, lengths=lengths.astype(tasks.lengths.dtype))
