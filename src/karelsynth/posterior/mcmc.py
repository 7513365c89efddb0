"""Samples from the posterior distribution of programs given a task's examples.

    chain = MarkovChain(inputs, outputs, programs)     # programs [M, L] that are correct on all examples
    if chain.started:
        chain.run(10_000)
        found = chain.samples.probabilities(others)    # of being correct on a further example

The generator draws a program, then worlds for it. Both have known probabilities: the prior of a program
(`generator.program_kernel`) and the likelihood of a program given its worlds (`generator.task_kernel`). So the
posterior of a program given examples can be computed up to a constant. A Markov chain visits each program that fits in
proportion to it. For every program that it evaluates it also draws a further example, as the generator would add one
to those given.

The samples can be weighted in two ways. Posterior weights soon separate probable programs, but leave out all programs
that the chain has not met. Numbers of visits are exact in the long run, but converge slowly where probable programs
are far apart. `PosteriorSamples.probabilities` is the mean of both.

The samples depend on where the chain starts: it finds a program that no change of a few statements leads to only if it
is among those given. Tasks that the generator never makes, such as those in which no marker is touched, have no chain.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from karelsynth.generator.program_kernel import BLOCK_TOKENS, LONGEST_BLOCK, log_priors
from karelsynth.generator.sampler import GeneratorTables, fitted_tables
from karelsynth.karel.formats.codes import SIDE
from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.machine import run_batch
from karelsynth.karel.machine_kernel import CELLS
from karelsynth.posterior.mcmc_kernel import PARTICLES, ChainHistory, ChainState, ChainTask, run_chain
from karelsynth.tasks.batch import EXAMPLES
from karelsynth.tasks.task import MOST_EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_FIRST_PARTICLES: Final = 8
"""The factor by which the first estimate has more particles. With few of them the estimate may be zero for a
program for which the generator rarely finds worlds."""
_PIECE: Final = 4096
"""Steps for which the history has room at a time."""
_NEGLIGIBLE: Final = 1e-6
"""Samples whose weight is below this share of the largest weight are left out."""


@dataclass(frozen=True)
class PosteriorSamples:
    """N programs, each with a further example; a program may occur several times."""

    programs: NDArray[np.uint8]
    """[N, BLOCK_TOKENS], padded with `<pad>`."""
    lengths: NDArray[np.int64]
    """[N]."""
    log_posteriors: NDArray[np.float64]
    """[N]: the logarithm of prior times an unbiased estimate of the likelihood, up to a constant of the task."""
    visits: NDArray[np.int64]
    """[N]: the number of steps for which the chain stayed at the sample."""
    inputs: NDArray[np.uint8]
    """[N, 18, 18]: the further examples."""
    outputs: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def join(cls, parts: list[PosteriorSamples]) -> PosteriorSamples:
        """The samples of several chains."""
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))

    @property
    def weights(self) -> NDArray[np.float64]:
        """[N]: normalized posterior weights. A program that occurs several times has the mean of its estimates."""
        _, which, counts = np.unique(self.programs, axis=0, return_inverse=True, return_counts=True)
        logs = self.log_posteriors - np.log(counts[which.reshape(-1)])
        weights: NDArray[np.float64] = np.exp(logs - logs.max(initial=-np.inf))
        weights /= weights.sum()
        return weights

    def agreement(self, programs: NDArray[Any], threads: int | None = None) -> NDArray[np.bool_]:
        """Which programs [Q, L] are correct on which further example: bool [Q, N]."""
        if not len(self):
            return np.zeros((len(programs), 0), np.bool_)
        correct = run_batch(
            programs, self.inputs, expected=self.outputs, keep_worlds=False, max_ticks=PAPER_TICKS, threads=threads
        ).correct
        assert correct is not None
        return correct

    def probabilities(self, programs: NDArray[Any], threads: int | None = None) -> NDArray[np.float64]:
        """[Q]: the probability of programs [Q, L] of being correct on a further example."""
        weights = (self.weights + self.visits / max(1, self.visits.sum())) / 2
        rows = np.flatnonzero(weights > _NEGLIGIBLE * weights.max(initial=0.0))
        normalized = weights[rows] / weights[rows].sum()
        some = PosteriorSamples(*(getattr(self, each.name)[rows] for each in fields(self)))
        probabilities: NDArray[np.float64] = some.agreement(programs, threads) @ normalized
        return probabilities


class MarkovChain:
    """MCMC over the programs that fit a task's examples."""

    def __init__(
        self,
        inputs: NDArray[np.uint8],
        outputs: NDArray[np.uint8],
        programs: NDArray[Any],
        *,
        start: NDArray[Any] | None = None,
        seed: int = 0,
        particles: int = PARTICLES,
        tables: GeneratorTables | None = None,
    ) -> None:
        """Start a chain at the first of the programs that has a positive posterior.

        Args:
            inputs, outputs: the given examples, worlds [G, 18, 18].
            programs: [M, L], padded with `<pad>`: the chain may jump from one to another. Programs that do not parse or
                are wrong on some example are left out.
            start: [L], a program to start at instead. The chain does not jump to it unless it is one of `programs`.
            seed: of the chain's random numbers.
            particles: the number of particles for an estimate of the likelihood, an even number.
            tables: those of another generator.

        Raises KarelsynthError if `inputs` or `outputs` are not worlds.
        """
        if particles < 2 or particles % 2:
            raise ValueError(f"particles must be an even number, at least 2, not {particles}")
        self._tables = fitted_tables() if tables is None else tables
        self._particles = particles
        given = len(inputs)
        others, sizes = _distinct(_correct(programs, inputs, outputs), self._tables)
        self._task = ChainTask(
            np.ascontiguousarray(inputs, np.uint8).reshape(given, CELLS),
            np.ascontiguousarray(outputs, np.uint8).reshape(given, CELLS),
            max(EXAMPLES, given + 1),
            others,
            sizes,
        )
        self._state = ChainState(
            np.random.SeedSequence(seed).generate_state(1, np.uint64).astype(np.uint64),
            np.zeros(BLOCK_TOKENS, np.uint8),
            np.zeros(1, np.int64),
            np.zeros(2),
            np.zeros(2, np.int64),
        )
        self._history = _empty_history(1)
        starts = (others, sizes)
        if start is not None:
            starts = _distinct(_correct(start[None], inputs, outputs), self._tables)
        self.started = 0 < given < MOST_EXAMPLES and any(map(self._start, *starts))
        """Whether there is a program to start at."""

    def _start(self, tokens: NDArray[np.uint8], length: int) -> bool:
        self._state.tokens[:], self._state.length[:] = tokens, length
        particles = _FIRST_PARTICLES * self._particles
        return int(run_chain(self._tables, self._task, self._state, True, 0, particles, self._history)) >= 0

    def run(self, steps: int) -> None:
        """Make `steps` more steps."""
        while self.started and steps > 0:
            piece = min(steps, _PIECE)
            written, larger = self._written, _empty_history(self._written + piece)
            parts: Iterable[tuple[Any, Any]] = zip(larger, self._history, strict=True)
            for new, old in parts:
                new[:written] = old[:written]
            self._history = larger
            run_chain(self._tables, self._task, self._state, False, piece, self._particles, self._history)
            steps -= piece

    @property
    def samples(self) -> PosteriorSamples:
        """All samples so far."""
        count, history = self._written, self._history
        return PosteriorSamples(
            history.programs[:count],
            history.lengths[:count],
            history.log_terms[:count].sum(1),
            history.visits[:count],
            history.inputs[:count].reshape(-1, SIDE, SIDE),
            history.outputs[:count].reshape(-1, SIDE, SIDE),
        )

    @property
    def _written(self) -> int:
        return int(self._state.rows[0])


def compile_chain(inputs: NDArray[np.uint8], outputs: NDArray[np.uint8], programs: NDArray[Any]) -> None:
    """Compile what a chain needs, or load it; with a task and programs that fit it.

    The batch interpreter comes last: another process may compile it meanwhile.
    """
    chain = MarkovChain(inputs, outputs, programs[:0])
    tokens, sizes = _distinct(programs, chain._tables)
    chain._start(tokens[0], int(sizes[0]))
    MarkovChain(inputs, outputs, programs).run(100)


def _empty_history(rows: int) -> ChainHistory:
    return ChainHistory(
        np.zeros((rows, BLOCK_TOKENS), np.uint8),
        np.zeros(rows, np.int64),
        np.zeros((rows, 2)),
        np.zeros(rows, np.int64),
        np.zeros((rows, 1, CELLS), np.uint8),
        np.zeros((rows, 1, CELLS), np.uint8),
    )


def _correct(programs: NDArray[Any], inputs: NDArray[np.uint8], outputs: NDArray[np.uint8]) -> NDArray[Any]:
    """The programs that are correct on all examples, within the generator's ticks."""
    if not len(programs) or not len(inputs):
        return programs[:0]
    correct = run_batch(programs, inputs, expected=outputs, keep_worlds=False, max_ticks=PAPER_TICKS).correct
    assert correct is not None
    return programs[correct.all(1)]


def _distinct(programs: NDArray[Any], tables: GeneratorTables) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The distinct programs with a positive prior: tokens [M, BLOCK_TOKENS] and lengths [M]."""
    lengths = (programs != 0).sum(1)
    kept = programs[lengths <= LONGEST_BLOCK, :LONGEST_BLOCK].astype(np.uint8)
    _, first = np.unique(kept, axis=0, return_index=True)
    kept = kept[np.sort(first)]
    tokens = np.zeros((len(kept), BLOCK_TOKENS), np.uint8)
    tokens[:, : kept.shape[1]] = kept
    sizes, priors = (tokens != 0).sum(1), np.empty(len(tokens))
    log_priors(tokens, sizes, tables.logs, tables.sampler, priors)
    possible = priors > -np.inf
    return np.ascontiguousarray(tokens[possible]), sizes[possible]
