"""Pruning by execution: the search drops prefixes that cannot lead to an answer, or that a likelier one replaces.

The examples are known while a program is written. So each prefix can be run on their inputs as far as it is determined
(`run_batch` with `prefixes`). Two rules follow:

- A prefix that has crashed, run out of ticks or into an endless loop on an example does so however it is continued. It
  is dropped.
- Two prefixes without an open loop that have brought every example to the same state are equivalent: a continuation
  that makes one of them correct makes the other one correct. Only the likeliest is kept, unless it is longer, so that
  some continuations may be too long for it. Within an open loop this does not hold: the body will run again, from other
  states, where the two may differ. Nor is a prefix compared while a pile has more than ten markers, because worlds
  do not show its exact number.

The run also gives the number of examples that each prefix has brought to their outputs. Finished programs are ranked by
that first, and a search can stop at the first answer that no open hypothesis can beat.

The second rule holds for the whole language. A stricter grammar (`NORMAL_FORM`) forbids some continuations of some
actions, so equivalent prefixes may have different continuations there: search with `merging=False`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled, read_only
from karelsynth.karel.formats.codes import SIDE
from karelsynth.karel.interpreter import MAX_TICKS, Status
from karelsynth.karel.machine import run_batch
from karelsynth.karel.structure_kernel import open_branches
from karelsynth.karel.threads import parallel_for
from karelsynth.karel.tokens import PAD

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


class Verdict(NamedTuple):
    """The result of running N prefixes."""

    alive: NDArray[np.bool_]
    """[N]: to be kept."""
    right: NDArray[np.int64]
    """[N]: the number of examples that are correct if the program ends here."""


@dataclass(frozen=True)
class Pruning:
    """The examples of B tasks, K each, as cell codes, and which rules to apply."""

    inputs: NDArray[np.uint8]
    """[B, K, 18, 18]. A task with fewer examples than K repeats some."""
    outputs: NDArray[np.uint8]
    crashes: bool = True
    """Drop prefixes that must crash, run out of ticks or run forever."""
    merging: bool = True
    """Drop all but the likeliest of equivalent prefixes."""
    max_ticks: int = MAX_TICKS
    """The most ticks of a run."""

    @property
    def examples(self) -> int:
        """K."""
        return int(self.inputs.shape[1])

    def select(self, rows: NDArray[np.integer]) -> Pruning:
        """The same rules for the tasks `rows`."""
        return replace(self, inputs=self.inputs[rows], outputs=self.outputs[rows])

    def judge(self, tokens: NDArray[np.uint8], tasks: NDArray[np.int64]) -> Verdict:
        """Run prefixes [N, L] of tasks [N]; tasks must ascend, and each task's prefixes must be the likeliest first."""
        runs = run_batch(
            tokens, self.inputs, which=tasks, expected=self.outputs, keep_worlds=self.merging, prefixes=True,
            max_ticks=self.max_ticks,
        )  # fmt: skip
        assert runs.correct is not None
        assert runs.waits is not None
        right = (runs.correct & (runs.waits < 0)).sum(1)
        high = runs.status == Status.PILE_TOO_HIGH  # so far: a continuation may pick the markers up
        sound: NDArray[np.bool_] = np.asarray((runs.ok | high).all(1))
        exact = ~high.any(1)
        kept = sound & exact
        if runs.worlds is not None:
            worlds = runs.worlds.reshape(*runs.waits.shape, SIDE * SIDE).view(np.uint32)
            offsets = np.searchsorted(tasks, np.arange(len(self.inputs) + 1))

            def work(first: int, last: int) -> None:
                _merge_range(first, last, offsets, tokens, worlds, runs.waits, runs.ticks, kept)

            parallel_for(work, len(self.inputs), -(-len(tokens) // len(self.inputs)), None)
        kept |= sound & ~exact
        if not self.crashes:
            kept |= ~sound
        return Verdict(kept, right)


@compiled()
def _hash(row: int, branches: int, worlds: NDArray[np.uint32], waits: NDArray[np.int16]) -> np.int64:
    """A hash of a prefix's open branches and of the states of all examples."""
    code = np.uint64(branches)
    for example in range(worlds.shape[1]):
        code = (code ^ np.uint64(waits[row, example] + 1)) * _MIX
        for word in range(worlds.shape[2]):
            code = (code ^ np.uint64(worlds[row, example, word])) * _MIX
            code ^= code >> np.uint64(29)
    return np.int64(code >> np.uint64(1))


@compiled()
def _replaces(
    other: int, row: int, worlds: NDArray[np.uint32], waits: NDArray[np.int16], ticks: NDArray[np.int16]
) -> bool:
    """Whether prefix `other` has brought all examples to the same states as prefix `row`, with no more ticks."""
    for example in range(worlds.shape[1]):
        if waits[other, example] != waits[row, example] or ticks[other, example] > ticks[row, example]:
            return False
        for word in range(worlds.shape[2]):
            if worlds[other, example, word] != worlds[row, example, word]:
                return False
    return True


@compiled(
    types.void(
        types.int64, types.int64, read_only(types.int64, 1), read_only(types.uint8, 2), read_only(types.uint32, 3),
        read_only(types.int16, 2), read_only(types.int16, 2), types.boolean[::1],
    )
)  # fmt: skip
def _merge_range(
    first: int,
    last: int,
    offsets: NDArray[np.int64],
    tokens: NDArray[np.uint8],
    worlds: NDArray[np.uint32],
    waits: NDArray[np.int16],
    ticks: NDArray[np.int16],
    alive: NDArray[np.bool_],
) -> None:
    """Keep only the likeliest alive of equivalent prefixes, for tasks first … last − 1.

    Args:
        offsets: [T + 1], task t has rows offsets[t] … offsets[t + 1] − 1, the likeliest first.
        tokens: [N, L], prefixes, padded.
        worlds: [N, K, 81], the examples' states, four cells to a word.
        waits, ticks: [N, K], see `BatchRun`.
        alive: [N], read and written.

    Two prefixes are equivalent if they have the same branches open and no loop, and every example is in the same state
    and waits for the same block. Every continuation then has the same effect on both, with two exceptions: the prefix
    that has used more ticks may run out of them first, and the longer one may run out of tokens. So a prefix is dropped
    only if the other one has used no more of either.
    """
    closing = np.empty(tokens.shape[1] + 1, np.uint8)
    for task in range(first, last):
        begin, end = offsets[task], offsets[task + 1]
        size = 4
        while size < 2 * (end - begin):
            size *= 2
        table = np.full(size, -1, np.int64)
        branches, lengths = np.empty(end - begin, np.int64), np.empty(end - begin, np.int64)
        for row in range(begin, end):
            if not alive[row]:
                continue
            length = tokens.shape[1]
            while length > 0 and tokens[row, length - 1] == PAD:
                length -= 1
            own = open_branches(tokens[row, :length], closing)
            branches[row - begin], lengths[row - begin] = own, length
            if own < 0:
                continue
            slot = _hash(row, own, worlds, waits) & (size - 1)
            while table[slot] >= 0:
                other = table[slot]
                if (
                    branches[other - begin] == own
                    and lengths[other - begin] <= length
                    and _replaces(other, row, worlds, waits, ticks)
                ):
                    alive[row] = False
                    break
                slot = (slot + 1) & (size - 1)
            if alive[row]:
                table[slot] = row
