"""Simpler reference programs: what a task asks for, without what none of its examples needs.

    simpler = simplify(batch)             # the same tasks; programs as right on all examples, and never longer

Random programs are full of parts that do nothing: branches that end alike, loops that run once, steps there and
back. No learner can infer these from the examples. What `simplify` leaves is a program from which nothing can be taken
away by the changes of `simplify_kernel` without its being wrong on some example, or one that is reserved for testing.
On other worlds it may do something else than the one it comes from, and it need not be in the data's normal form.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karelsynth.errors import KarelsynthError
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.machine import heroes_of
from karelsynth.karel.machine_kernel import CELLS
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.karel.threads import parallel_for

if TYPE_CHECKING:
    from karelsynth.tasks.batch import TaskBatch


def simplify(tasks: TaskBatch, threads: int | None = None) -> TaskBatch:
    """The same tasks with simpler programs, none of which is reserved for testing unless it was before.

    `novel` still tells of the programs that were there first. A program that is wrong on some example becomes a shorter
    one only if that is right on all. Raises KarelsynthError for what is no program or no world.
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
    parser = compile_grammar(KAREL).parser

    def work(first: int, last: int) -> int:
        bad: int = simplify_range(
            first, last, tokens, lengths, inputs, heroes, outputs, parser,
        )  # fmt: skip
        return bad

    bad = min(
        (number for number in parallel_for(work, len(tokens), tasks.inputs.shape[1], threads) if number >= 0),
        default=None,
    )
    if bad is not None:
        raise KarelsynthError(
            f"tokens[{bad}] with lengths[{bad}] = {tasks.lengths[bad]} is no program (Program.from_tokens says more)"
        )
    return replace(tasks, tokens=tokens, lengths=lengths.astype(tasks.lengths.dtype))
