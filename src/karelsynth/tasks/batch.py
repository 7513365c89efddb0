"""Tasks as arrays: what the generator makes, the files hold and training reads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.formats.codes import world_from_codes
from karelsynth.karel.program import Program
from karelsynth.tasks.task import Example, Task

MAX_TOKENS: Final = 72
"""The width of the token array: the original's longest program has 65 tokens."""
GIVEN_EXAMPLES: Final = 5
"""How many examples a task shows; the rest are held out."""
EXAMPLES: Final = GIVEN_EXAMPLES + 1


@dataclass(frozen=True)
class TaskBatch:
    """N tasks of E examples each: the first five are given, the rest held out."""

    tokens: NDArray[np.uint8]
    """[N, L]: the reference programs as token ids, padded with `<pad>`."""
    lengths: NDArray[np.uint8]
    """[N]: the number of tokens of each program."""
    inputs: NDArray[np.uint8]
    """[N, E, 18, 18]: the worlds before, as cell codes."""
    outputs: NDArray[np.uint8]
    """[N, E, 18, 18]: the worlds after."""
    novel: NDArray[np.bool_]
    """[N]: whether the program is one of those reserved for testing, which no training set holds."""

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, rows: slice | NDArray[np.integer] | NDArray[np.bool_]) -> TaskBatch:
        """Some of the tasks; see `program` and `task` for one."""
        if not isinstance(rows, slice | np.ndarray | list):
            raise TypeError(f"rows are a slice or an array, not {rows!r}; `task({rows!r})` is a single task")
        return TaskBatch(*(getattr(self, field.name)[rows] for field in fields(self)))

    def digest(self) -> str:
        """16 hexadecimal digits that tell these tasks from others: of their programs and worlds, in this order."""
        digest = hashlib.sha256()
        for array in (self.tokens, self.inputs, self.outputs):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]

    def program(self, number: int) -> Program:
        """The reference program of one task."""
        return Program.from_tokens(self.tokens[number, : self.lengths[number]].tolist())

    def task(self, number: int) -> Task:
        """One task with the examples that are given, as `solve` takes it."""
        inputs, outputs = (
            [world_from_codes(codes) for codes in part[number, :GIVEN_EXAMPLES]] for part in (self.inputs, self.outputs)
        )
        return Task(tuple(Example(*pair) for pair in zip(inputs, outputs, strict=True)))


def concatenate(batches: Sequence[TaskBatch]) -> TaskBatch:
    """All tasks of several batches with equal widths."""
    return TaskBatch(*(np.concatenate([getattr(b, field.name) for b in batches]) for field in fields(TaskBatch)))
