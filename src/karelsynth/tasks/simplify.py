"""Simpler reference programs: what a task asks for, without what none of its examples needs.

    simpler = simplify(batch)             # the same tasks; programs as right on all examples, and never longer

Programs drawn by chance are full of what does nothing: branches that end alike, loops that run once, steps there and
back. No learner can know these from the examples. What `simplify` leaves is a program from which nothing can be taken
away by the changes of `simplify_kernel` without its being wrong on some example. On other worlds it may do something
else than the one it comes from.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karelsynth.karel.grammar import KAREL
from karelsynth.karel.machine import heroes_of
from karelsynth.karel.machine_kernel import CELLS
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.karel.threads import share_out

if TYPE_CHECKING:
    from karelsynth.tasks.batch import TaskBatch


def simplify(tasks: TaskBatch, threads: int | None = None) -> TaskBatch:
    """The same tasks with simpler programs, none of which is reserved for testing unless it was before.

    `novel` still tells of the programs that were there first. A program that is wrong on some example becomes
    another one only if that is right on all.
    """
    from karelsynth.tasks.simplify_kernel import simplify_range

    tokens, lengths = np.array(tasks.tokens, np.uint8, order="C"), tasks.lengths.astype(np.int64)
    heroes = heroes_of("inputs", tasks.inputs, threads)
    inputs, outputs = (np.ascontiguousarray(part).reshape(-1, CELLS) for part in (tasks.inputs, tasks.outputs))
    grammar = compile_grammar(KAREL)

    def work(first: int, last: int) -> None:
        simplify_range(
            first, last, tokens, lengths, inputs, heroes, outputs, grammar.tables.transition, grammar.symbols,
            grammar.start,
        )  # fmt: skip

    share_out(work, len(tokens), tasks.inputs.shape[1], threads)
    return replace(tasks, tokens=tokens, lengths=lengths.astype(tasks.lengths.dtype))
