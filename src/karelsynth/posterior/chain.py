"""Programs that fit a task's examples, and how likely they are.

    chain = Chain(inputs, outputs, programs)     # programs [M, L] that are right on all examples
    if chain.started:
        chain.walk(10_000)
        shares = chain.samples.chances(others)   # how likely others are to be right on a further example

The generator draws a program and then worlds for it; both by known chances (`program_kernel`, `task_kernel`). So what
the given examples tell about the program that they come from can be computed: a program is the likelier the likelier
it is drawn by itself, and the likelier that, once it is, these worlds are drawn for it. A chain walks through the
programs that fit, and stays with each as often as it is likely. Of every program that it looks at it notes how likely
that is, and a further example, as the generator would add one to those given.

There are two ways to weigh what was noted: by how likely each program is, which soon tells likely ones apart but leaves
out all that was not met, and by how long the chain stayed, which is exact in the long run but needs long where the way
from one likely program to another is. `Samples.chances` is the mean of both.

What a chain meets depends on where it starts: programs that no change of a few statements leads to are found only if
they are among those that are given. Tasks that the generator never makes, such as those in which no marker is touched,
have no chain.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from karelsynth.karel.formats.codes import SIDE
from karelsynth.karel.machine import run_batch
from karelsynth.karel.machine_kernel import CELLS
from karelsynth.posterior.chain_kernel import PARTICLES, Place, Problem, Record, Tables, walk
from karelsynth.posterior.program_kernel import LONGEST, program_chances
from karelsynth.posterior.tables import fitted_tables
from karelsynth.tasks.batch import EXAMPLES
from karelsynth.tasks.generator import MOST_EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_AT_FIRST: Final = 8
"""How many times as many particles there are for the first estimate: by few, that of a program for which the generator
finds worlds with difficulty may be nothing."""
LONGEST_PROGRAM: Final = LONGEST - 16
"""Tokens of the longest program that a chain can come to."""
_PIECE: Final = 4096
"""Steps for which there is room at a time."""
_NEGLIGIBLE: Final = 1e-6
"""What weighs so little beside the heaviest need not be looked at."""


@dataclass(frozen=True)
class Samples:
    """What chains have noted: N times a program and a further example; the same program may come several times."""

    programs: NDArray[np.uint8]
    """[N, LONGEST], filled up with `<pad>`."""
    lengths: NDArray[np.int64]
    log_chances: NDArray[np.float64]
    """How likely it is that the generator draws the program and the given worlds for it: an unbiased estimate's
    logarithm, up to a constant of the task."""
    stays: NDArray[np.int64]
    """For how many steps the chain stayed there."""
    inputs: NDArray[np.uint8]
    """[N, 18, 18]."""
    outputs: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def join(cls, parts: list[Samples]) -> Samples:
        """All of several."""
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))

    @property
    def weights(self) -> NDArray[np.float64]:
        """How likely each is, 1 in all; a program that comes several times has the mean of its estimates (those
        of nothing, which are not noted, aside)."""
        _, which, counts = np.unique(self.programs, axis=0, return_inverse=True, return_counts=True)
        logs = self.log_chances - np.log(counts[which.reshape(-1)])
        weights: NDArray[np.float64] = np.exp(logs - logs.max(initial=-np.inf))
        weights /= weights.sum()
        return weights

    def agreement(self, programs: NDArray[Any], threads: int | None = None) -> NDArray[np.bool_]:
        """Which programs [Q, L] are right on which further example: bool [Q, N]."""
        if not len(self):
            return np.zeros((len(programs), 0), np.bool_)
        correct = run_batch(programs, self.inputs, expected=self.outputs, keep_worlds=False, threads=threads).correct
        assert correct is not None
        return correct

    def chances(self, programs: NDArray[Any], threads: int | None = None) -> NDArray[np.float64]:
        """How likely programs [Q, L] are to be right on a further example."""
        weights = (self.weights + self.stays / max(1, self.stays.sum())) / 2
        rows = np.flatnonzero(weights > _NEGLIGIBLE * weights.max(initial=0.0))
        of_all = weights[rows] / weights[rows].sum()
        shares: NDArray[np.float64] = self._rows(rows).agreement(programs, threads) @ of_all
        return shares

    def _rows(self, rows: NDArray[np.int64]) -> Samples:
        return Samples(*(getattr(self, each.name)[rows] for each in fields(self)))


class Chain:
    """A walk through the programs that fit."""

    def __init__(
        self,
        inputs: NDArray[np.uint8],
        outputs: NDArray[np.uint8],
        programs: NDArray[Any],
        *,
        start: NDArray[Any] | None = None,
        seed: int = 0,
        particles: int = PARTICLES,
        tables: Tables | None = None,
    ) -> None:
        """A chain that begins with the first of some programs that can be begun with.

        Args:
            inputs, outputs: the given examples, worlds [G, 18, 18].
            programs: [M, L], filled up with `<pad>`: the chain may jump from one to another. What is not right on all
                examples, or does not parse, is left out.
            start: [L], a program to begin with instead; unless it is one of the others, it is not jumped to.
            seed: chains of different seeds go different ways.
            particles: how many there are for an estimate (`task_kernel`), an even number.
            tables: of another generator than the usual one.

        Raises KarelsynthError for what are no worlds.
        """
        if particles < 2 or particles % 2:
            raise ValueError(f"particles is an even number from 2 on, not {particles}")
        self._tables = fitted_tables() if tables is None else tables
        self._particles = particles
        given = len(inputs)
        others, sizes = _distinct(_right(programs, inputs, outputs), self._tables)
        self._problem = Problem(
            np.ascontiguousarray(inputs, np.uint8).reshape(given, CELLS),
            np.ascontiguousarray(outputs, np.uint8).reshape(given, CELLS),
            max(EXAMPLES, given + 1),
            others,
            sizes,
        )
        self._place = Place(
            np.random.SeedSequence(seed).generate_state(1, np.uint64).astype(np.uint64),  # unlike seeds, far apart
            np.zeros(LONGEST, np.uint8),
            np.zeros(1, np.int64),
            np.zeros(2),
            np.zeros(2, np.int64),
        )
        self._record = _room(1)
        starts = (others, sizes)
        if start is not None:
            starts = _distinct(_right(start[None], inputs, outputs), self._tables)
        self.started = 0 < given < MOST_EXAMPLES and any(map(self._begin, *starts))
        """Whether there is a program to begin with."""

    def _begin(self, tokens: NDArray[np.uint8], length: int) -> bool:
        self._place.tokens[:], self._place.length[:] = tokens, length
        particles = _AT_FIRST * self._particles
        return int(walk(self._tables, self._problem, self._place, True, 0, particles, self._record)) >= 0

    def walk(self, steps: int) -> None:
        """Go on for so many steps."""
        while self.started and steps > 0:
            piece = min(steps, _PIECE)
            written, larger = self._written, _room(self._written + piece)
            parts: Iterable[tuple[Any, Any]] = zip(larger, self._record, strict=True)
            for new, old in parts:
                new[:written] = old[:written]
            self._record = larger
            walk(self._tables, self._problem, self._place, False, piece, self._particles, self._record)
            steps -= piece

    @property
    def samples(self) -> Samples:
        """What was noted since the beginning."""
        count, record = self._written, self._record
        return Samples(
            record.programs[:count],
            record.lengths[:count],
            record.chances[:count].sum(1),
            record.stays[:count],
            record.inputs[:count].reshape(-1, SIDE, SIDE),
            record.outputs[:count].reshape(-1, SIDE, SIDE),
        )

    @property
    def _written(self) -> int:
        return int(self._place.rows[0])


def _room(rows: int) -> Record:
    return Record(
        np.zeros((rows, LONGEST), np.uint8),
        np.zeros(rows, np.int64),
        np.zeros((rows, 2)),
        np.zeros(rows, np.int64),
        np.zeros((rows, 1, CELLS), np.uint8),
        np.zeros((rows, 1, CELLS), np.uint8),
    )


def _right(programs: NDArray[Any], inputs: NDArray[np.uint8], outputs: NDArray[np.uint8]) -> NDArray[Any]:
    """Those that are right on all examples."""
    if not len(programs) or not len(inputs):
        return programs[:0]
    correct = run_batch(programs, inputs, expected=outputs, keep_worlds=False).correct
    assert correct is not None
    return programs[correct.all(1)]


def _distinct(programs: NDArray[Any], tables: Tables) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Those that the generator may draw, once each: tokens [M, LONGEST] and lengths [M]."""
    lengths = (programs != 0).sum(1)
    kept = programs[lengths <= LONGEST_PROGRAM, :LONGEST_PROGRAM].astype(np.uint8)
    _, first = np.unique(kept, axis=0, return_index=True)
    kept = kept[np.sort(first)]
    tokens = np.zeros((len(kept), LONGEST), np.uint8)
    tokens[:, : kept.shape[1]] = kept
    sizes, chances = (tokens != 0).sum(1), np.empty(len(tokens))
    program_chances(tokens, sizes, tables.logs, tables.sampler, chances)
    possible = chances > -np.inf
    return np.ascontiguousarray(tokens[possible]), sizes[possible]
