"""Tasks as arrays: what the generator makes, the files hold and training reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

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
        """Some of the tasks."""
        return TaskBatch(*(getattr(self, field.name)[rows] for field in fields(self)))


def concatenate(batches: Sequence[TaskBatch]) -> TaskBatch:
    """All tasks of several batches with equal widths."""
    return TaskBatch(*(np.concatenate([getattr(b, field.name) for b in batches]) for field in fields(TaskBatch)))
