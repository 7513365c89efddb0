"""What running the beginnings of programs tells a search: pruning by execution.

The examples are known while a program is being written, so each prefix can be run on their inputs as far as it is
determined (`run_batch` with `prefixes`). Two things follow:

- A prefix that has crashed or run out of ticks on an example will do so whatever comes after it: it is no part of an
  answer.
- Two prefixes that have no loop open and have brought every example to the same state have the same futures: any text
  that makes one of them right makes the other right. Only the likeliest goes on, unless it is longer, so that some of
  those texts may be too long for it. Inside an open loop that is not so: the body will run again, from other states,
  where the two may differ.

And it is known of every prefix how many examples it has brought to their outputs, so programs that end are ranked by
that first, and a search can stop at the first answer that nothing open can beat.

The second rule holds for the whole language. A stricter grammar (`NORMAL_FORM`) forbids some texts after some actions,
so there prefixes with the same effect may have different futures: search with `merging=False`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from karelsynth.karel.formats.codes import SIDE
from karelsynth.karel.machine import run_batch
from karelsynth.karel.threads import parallel_for

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Verdict(NamedTuple):
    """What is known of N prefixes."""

    alive: NDArray[np.bool_]
    """[N]: worth going on with."""
    right: NDArray[np.int64]
    """[N]: how many examples have reached their output and would stay there if the program ended."""


@dataclass(frozen=True)
class Pruning:
    """The examples of B tasks, K each, as cell codes, and what to make of them."""

    inputs: NDArray[np.uint8]
    """[B, K, 18, 18]. A task with fewer examples than K repeats some."""
    outputs: NDArray[np.uint8]
    crashes: bool = True
    """Drop prefixes that must fail."""
    merging: bool = True
    """Drop all but the likeliest of prefixes with the same futures."""

    @property
    def examples(self) -> int:
        """K."""
        return int(self.inputs.shape[1])

    def select(self, rows: NDArray[np.integer]) -> Pruning:
        """For some of the tasks."""
        return replace(self, inputs=self.inputs[rows], outputs=self.outputs[rows])

    def judge(self, tokens: NDArray[np.uint8], tasks: NDArray[np.int64]) -> Verdict:
        """Judge prefixes [N, L] of the tasks [N], which are ascending, and within a task the likeliest first."""
        from karelsynth.search.pruning_kernel import merge_range

        runs = run_batch(
            tokens, self.inputs, which=tasks, expected=self.outputs, keep_worlds=self.merging, prefixes=True
        )
        assert runs.correct is not None
        assert runs.waits is not None
        right = (runs.correct & (runs.waits < 0)).sum(1)
        sound: NDArray[np.bool_] = np.asarray(runs.ok.all(1))
        kept = sound.copy()
        if runs.worlds is not None:
            worlds = runs.worlds.reshape(*runs.waits.shape, SIDE * SIDE).view(np.uint32)
            offsets = np.searchsorted(tasks, np.arange(len(self.inputs) + 1))

            def work(first: int, last: int) -> None:
                merge_range(first, last, offsets, tokens, worlds, runs.waits, runs.ticks, kept)

            parallel_for(work, len(self.inputs), -(-len(tokens) // len(self.inputs)), None)
        if not self.crashes:
            kept |= ~sound
        return Verdict(kept, right)
