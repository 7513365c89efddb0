"""Programs that fit a task's examples, drawn as likely as they are.

    chain = Chain(inputs, outputs, programs)     # programs [M, L] that are right on all examples
    if chain.started:
        samples = chain.walk(10_000)

The generator draws a program and then worlds for it; both by known chances (`program_kernel`, `task_kernel`). So what
the given examples tell about the program that they come from can be computed: a program is the likelier the likelier
it is drawn by itself, and the likelier that, once it is, these worlds are drawn for it. A chain walks through all
programs that fit, and stays with each as often as it is likely. Beside every program it notes a further example, as
the generator would add one to those given.

A chain has no memory: what it notes first depends on where it starts, and programs that no change of a few statements
leads to are found only if they are among those that are given. Tasks that the generator never makes, such as those in
which no marker is touched, have no chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from karelsynth.karel.formats.codes import SIDE
from karelsynth.karel.machine import run_batch
from karelsynth.karel.machine_kernel import CELLS
from karelsynth.posterior.chain_kernel import PARTICLES, Notes, Place, Problem, Tables, walk
from karelsynth.posterior.program_kernel import LONGEST, program_chances
from karelsynth.posterior.tables import fitted_tables
from karelsynth.tasks.batch import EXAMPLES
from karelsynth.tasks.generator import MOST_EXAMPLES
from karelsynth.tasks.world_kernel import DESCRIPTION

if TYPE_CHECKING:
    from numpy.typing import NDArray

EVERY: Final = 100
"""Steps between two notes."""
_AT_FIRST: Final = 8
"""How many times as many particles there are for the first estimate: by few, that of a program for which the generator
finds worlds with difficulty may be nothing."""
LONGEST_PROGRAM: Final = LONGEST - 16
"""Tokens of the longest program that a chain can come to."""


@dataclass(frozen=True)
class Samples:
    """What chains have noted: programs, and for each a further example."""

    programs: NDArray[np.uint8]
    """[N, LONGEST], filled up with `<pad>`."""
    lengths: NDArray[np.int64]
    inputs: NDArray[np.uint8]
    """[N, 18, 18]."""
    outputs: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, rows: slice) -> Samples:
        return Samples(self.programs[rows], self.lengths[rows], self.inputs[rows], self.outputs[rows])

    @classmethod
    def join(cls, parts: list[Samples]) -> Samples:
        """All of several."""
        names = ("programs", "lengths", "inputs", "outputs")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def agreement(self, programs: NDArray[Any]) -> NDArray[np.bool_]:
        """Which programs [Q, L] are right on which further example: bool [Q, N]."""
        if not len(self):
            return np.zeros((len(programs), 0), np.bool_)
        correct = run_batch(programs, self.inputs, expected=self.outputs, keep_worlds=False).correct
        assert correct is not None
        return correct


class Chain:
    """A walk through the programs that fit."""

    def __init__(
        self,
        inputs: NDArray[np.uint8],
        outputs: NDArray[np.uint8],
        programs: NDArray[Any],
        *,
        seed: int = 0,
        particles: int = PARTICLES,
        tables: Tables | None = None,
    ) -> None:
        """A chain that begins with the first of some programs that can be begun with.

        Args:
            inputs, outputs: the given examples, worlds [G, 18, 18].
            programs: [M, L], filled up with `<pad>`: the chain may jump from one to another. What is not right on all
                examples, or does not parse, is left out.
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
            np.zeros(2 * LONGEST + 2, np.uint64),
            np.zeros((1, DESCRIPTION + 1), np.uint64),
        )
        self.started = 0 < given < MOST_EXAMPLES and any(self._begin(row) for row in range(len(sizes)))
        """Whether there is a program to begin with."""

    def _begin(self, row: int) -> bool:
        self._place.tokens[:], self._place.length[:] = self._problem.others[row], self._problem.other_sizes[row]
        particles = _AT_FIRST * self._particles
        return int(walk(self._tables, self._problem, self._place, True, 0, 1, particles, _notes(0))) >= 0

    def walk(self, steps: int, every: int = EVERY) -> Samples:
        """Go on for so many steps, and tell what was noted on the way."""
        notes = _notes(steps // every if self.started else 0)
        if self.started:
            walk(self._tables, self._problem, self._place, False, steps, every, self._particles, notes)
        grids = (grid.reshape(-1, SIDE, SIDE) for grid in (notes.inputs, notes.outputs))
        return Samples(notes.programs, notes.lengths, *grids)


def _notes(count: int) -> Notes:
    return Notes(
        np.zeros((count, LONGEST), np.uint8),
        np.zeros(count, np.int64),
        np.zeros((count, 1, CELLS), np.uint8),
        np.zeros((count, 1, CELLS), np.uint8),
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
