"""Tasks as arrays, the form in which they are generated, stored and trained on; and what programs do on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.formats.codes import world_from_codes
from karelsynth.karel.interpreter import PAPER_TICKS, Status
from karelsynth.karel.machine import run_batch
from karelsynth.karel.program import Program
from karelsynth.tasks.task import Example, Task

GIVEN_EXAMPLES: Final = 5
"""The number of given examples of a task; the rest are held out."""
EXAMPLES: Final = GIVEN_EXAMPLES + 1
COMPARED: Final = 64
"""The number of tasks by which `begins_like` compares two sets."""
_SAMPLED: Final = 10_000


@dataclass(frozen=True)
class TaskBatch:
    """N tasks of E examples each: the first five are given, the rest are held out."""

    tokens: NDArray[np.uint8]
    """[N, L]: the reference programs as token ids, padded with `<pad>`."""
    lengths: NDArray[np.uint8]
    """[N]: the number of tokens of each program."""
    inputs: NDArray[np.uint8]
    """[N, E, 18, 18]: the worlds before, as cell codes."""
    outputs: NDArray[np.uint8]
    """[N, E, 18, 18]: the worlds after."""
    novel: NDArray[np.bool_]
    """[N]: whether the program is reserved for testing; no training set has such programs."""

    def __repr__(self) -> str:
        """In a line, rather than all the arrays."""
        return f"<TaskBatch: {len(self):,} tasks of {self.inputs.shape[1]} examples>"

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, rows: slice | NDArray[np.integer] | NDArray[np.bool_]) -> TaskBatch:
        """Some of the tasks; see `program` and `task` for one."""
        if not isinstance(rows, slice | np.ndarray | list):
            raise TypeError(f"rows are a slice or an array, not {rows!r}; `task({rows!r})` is a single task")
        return TaskBatch(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that depend on programs, worlds and their order, but not on the kind of file."""
        found = sha256(repr(self.inputs.shape).encode())
        written = np.arange(self.tokens.shape[1]) < self.lengths[:, None]
        for part in (self.lengths, self.tokens[written], self.inputs, self.outputs):
            found.update(np.ascontiguousarray(part, np.uint8).reshape(-1).data)
        return found.hexdigest()[:16]

    @property
    def fingerprint(self) -> str:
        """The number of tasks and the digest of up to 10,000 of them, evenly spaced. It is fast for large sets, too."""
        step = max(1, -(-len(self) // _SAMPLED))
        return f"{len(self)}-{self[::step].digest}"

    def begins_like(self, other: TaskBatch) -> bool:
        """Whether the first tasks of both are equal. This holds if one batch is the beginning of the other."""
        count = min(len(self), len(other), COMPARED)
        return count > 0 and self[:count].digest == other[:count].digest

    def program(self, number: int) -> Program:
        """The reference program of one task."""
        return Program.from_tokens(self.tokens[number, : self.lengths[number]].tolist())

    def task(self, number: int, given: int = GIVEN_EXAMPLES) -> Task:
        """One task with its given examples, as `solve` takes it."""
        return self.examples(given)[number]

    def examples(self, given: int = GIVEN_EXAMPLES) -> GivenExamples:
        """What a synthesizer may see of these tasks: the first `given` examples of each."""
        return GivenExamples(self.inputs[:, :given], self.outputs[:, :given])


@dataclass(frozen=True, eq=False)
class GivenExamples(Sequence[Task]):
    """The given examples of N tasks: as arrays, or one `Task` at a time, which is made when it is asked for."""

    inputs: NDArray[np.uint8]
    """[N, K, 18, 18]: the worlds before, as cell codes."""
    outputs: NDArray[np.uint8]
    """[N, K, 18, 18]: the worlds after."""

    def __repr__(self) -> str:
        return f"<GivenExamples: {len(self):,} tasks of {self.inputs.shape[1]} examples>"

    def __len__(self) -> int:
        return len(self.inputs)

    @overload
    def __getitem__(self, at: int) -> Task: ...
    @overload
    def __getitem__(self, at: slice) -> GivenExamples: ...
    def __getitem__(self, at: int | slice) -> Task | GivenExamples:
        """One task, or some of them."""
        if isinstance(at, slice):
            return GivenExamples(self.inputs[at], self.outputs[at])
        before, after = ([world_from_codes(codes) for codes in part[at]] for part in (self.inputs, self.outputs))
        return Task(tuple(Example(*pair) for pair in zip(before, after, strict=True)))

    def id(self, number: int) -> str:
        """16 hexadecimal digits of the examples of one task. With it, answers cannot be scored on other tasks."""
        found = sha256(self.inputs[number].tobytes())
        found.update(self.outputs[number].tobytes())
        return found.hexdigest()[:16]


def concatenate(batches: Sequence[TaskBatch]) -> TaskBatch:
    """All tasks of several batches with equal widths; a single batch as it is, without a copy."""
    if len(batches) == 1:
        return batches[0]
    return TaskBatch(*(np.concatenate([getattr(b, field.name) for b in batches]) for field in fields(TaskBatch)))


def interleave(zeros: TaskBatch, ones: TaskBatch, which: NDArray[np.bool_]) -> TaskBatch:
    """The tasks of two batches in the order of `which` [N]: where it is False the next of `zeros`, else of `ones`.

    The token array is as wide as the wider one.
    """
    merged = []
    for field in fields(TaskBatch):
        one, other = getattr(zeros, field.name), getattr(ones, field.name)
        both = np.zeros((len(which), *map(max, one.shape[1:], other.shape[1:])), one.dtype)
        for part, chosen in ((one, ~which), (other, which)):
            if part.ndim > 1:
                both[chosen, : part.shape[1]] = part
            else:
                both[chosen] = part
        merged.append(both)
    return TaskBatch(*merged)


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of running S candidates for each of B tasks on E examples.

    For an empty slot all is False, and its status is that of an invalid program.
    """

    syntax: NDArray[np.bool_]
    """[B, S]: it parses."""
    consistent: NDArray[np.bool_]
    """[B, S]: it is correct on the given examples."""
    generalizes: NDArray[np.bool_]
    """[B, S]: it is correct on all examples."""
    ticks: NDArray[np.float32]
    """[B, S]: the mean number of ticks over all examples."""
    correct: NDArray[np.bool_]
    """[B, S, E]: it is correct on the example; held-out ones come last."""
    status: NDArray[np.uint8]
    """[B, S, E]: how the run ended, by number of `Status`: done, a crash, out of ticks, an endless loop, …"""
    lengths: NDArray[np.int64]
    """[B, S]: the number of tokens; 0 in an empty slot."""
    example_ticks: NDArray[np.int16] | None = None
    """[B, S, E]: the number of ticks on each example."""
    reference_ticks: NDArray[np.int16] | None = None
    """[B, E]: the number of ticks of the reference programs, if they were run."""


def run_candidates(
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    inputs: NDArray[np.uint8],
    outputs: NDArray[np.uint8],
    *,
    given: int = GIVEN_EXAMPLES,
    reference: NDArray[np.uint8] | None = None,
    max_ticks: int = PAPER_TICKS,
) -> Outcomes:
    """Run every candidate on its task's examples.

    Args:
        tokens: [B, S, L], padded with `<pad>`.
        lengths: [B, S], 0 in an empty slot.
        inputs, outputs: cell codes [B, E, 18, 18], of which the first `given` are given.
        reference: programs [B, L], padded, that are run for their ticks.
    """
    count, slots, width = tokens.shape
    which = np.repeat(np.arange(count), slots)
    programs = tokens.reshape(count * slots, width)
    runs = run_batch(programs, inputs, which=which, expected=outputs, keep_worlds=False, max_ticks=max_ticks)
    assert runs.correct is not None
    correct: NDArray[np.bool_] = runs.correct.reshape(count, slots, -1)
    parses = (runs.status != Status.INVALID_PROGRAM).all(1)
    return Outcomes(
        parses.reshape(count, slots),
        np.all(correct[:, :, :given], axis=2),
        np.all(correct, axis=2),
        runs.ticks.astype(np.float32).mean(1).reshape(count, slots),
        correct,
        runs.status.reshape(count, slots, -1),
        lengths,
        runs.ticks.reshape(count, slots, -1),
        None if reference is None else run_batch(reference, inputs, keep_worlds=False, max_ticks=max_ticks).ticks,
    )
