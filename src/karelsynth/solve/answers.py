"""Programs that a search has found for one task: checked, ranked, and compared where they differ.

1. `check_programs` runs candidates on the task's examples.
2. `SearchState.update_answers` keeps the consistent ones, in the network's order, or the best partial one.
3. `rerank` estimates each answer's probability of being correct on a further example.
4. `find_ambiguity` finds a world on which the answers differ.

Programs stay rows of token ids throughout. `CheckedPrograms.answer` makes a `Program` of a row that is returned.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from karelsynth.karel.formats.codes import HERO, SIDE, world_from_codes
from karelsynth.karel.interpreter import MAX_TICKS, Status
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.threads import parallel_for
from karelsynth.karel.tokens import ACTIONS
from karelsynth.karel.world import HEADINGS, MOST_MARKERS
from karelsynth.posterior.mcmc import MarkovChain, PosteriorSamples
from karelsynth.solve.solution import Ambiguity, Answer, Outcome
from karelsynth.tasks.generate import generate

if TYPE_CHECKING:
    from numpy.typing import NDArray

NATS_PER_TOKEN: Final = 0.1
"""The network's order penalises each token by this many nats of log-probability. Chosen on 400 random and 400
purposeful tasks: random tasks gain from more, purposeful ones from less (docs/log.md)."""
MOST_CONSIDERED: Final = 64
"""The most consistent programs that are kept for reranking."""
STEPS_PER_BLOCK: Final = 4_000
"""MCMC steps of each chain between two checks of the clock: some hundredths of a second."""
ESTIMATE_AFTER: Final = (1, 2, 4, 8)
"""The numbers of blocks after which probabilities are estimated; the last one is the most blocks."""
CONFIDENT: Final = 0.97
"""MCMC stops once the top-ranked answer has this probability."""
MARGIN: Final = 1 - CONFIDENT
"""An answer overrules the network's top-ranked one only if its probability is higher by more than this."""
CALIBRATION: Final = (1.80, 0.29, 0.30)
"""The logit of the top-ranked answer's probability: an intercept, a slope by the answers' total log-probability, which
counts from LOWEST_TOTAL on, and one by the number of examples, of which MOST_COUNTED count. By
`tools/fit_calibration.py`."""
LOWEST_TOTAL: Final = -8.0
MOST_COUNTED: Final = 5
PERTURBED: Final = 96
"""Candidate worlds for an ambiguity that are perturbed inputs of the task."""
SAMPLED: Final = 96
"""Candidate worlds for an ambiguity that the generator samples."""
_CHAIN_SEEDS: Final = (1, 2)
_WORK_PER_CHAIN: Final = 256
"""Enough work for a thread of its own (see `parallel_for`)."""
_WORLD_SEED: Final = 2018
_MOST_PILED: Final = 3
_CRASH_WEIGHT: Final = 0.2
"""The weight of answers that crash on a world in that world's score; answers that end well have weight 1."""


@dataclass(frozen=True)
class CheckedPrograms:
    """N programs for one task and their results on its K examples."""

    tokens: NDArray[np.uint8]
    """[N, L], padded with `<pad>`."""
    lengths: NDArray[np.int64]
    """[N]."""
    logprobs: NDArray[np.float32]
    """[N]: log p(program | examples) by the model."""
    correct: NDArray[np.bool_]
    """[N, K]."""

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, rows: NDArray[Any] | slice) -> CheckedPrograms:
        return CheckedPrograms(self.tokens[rows], self.lengths[rows], self.logprobs[rows], self.correct[rows])

    def joined(self, other: CheckedPrograms) -> CheckedPrograms:
        """These programs and others for the same task."""
        width = max(self.tokens.shape[1], other.tokens.shape[1])
        tokens = [np.pad(each.tokens, ((0, 0), (0, width - each.tokens.shape[1]))) for each in (self, other)]
        rest = (
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("lengths", "logprobs", "correct")
        )
        return CheckedPrograms(np.concatenate(tokens), *rest)

    def ranked(self) -> CheckedPrograms:
        """The programs sorted by correct examples, most first, and then by length-penalised log-probability."""
        return self[np.lexsort((NATS_PER_TOKEN * self.lengths - self.logprobs, -self.correct.sum(1)))]

    def distinct(self) -> CheckedPrograms:
        """The programs without repetitions, in any order."""
        return self[np.unique(self.tokens, axis=0, return_index=True)[1]]

    def answer(self, row: int, probability: float | None = None) -> Answer:
        """The program in a row as an `Answer`."""
        program = Program.from_tokens(self.tokens[row, : self.lengths[row]].tolist())
        return Answer(program, tuple(map(bool, self.correct[row])), float(self.logprobs[row]), probability)


@dataclass
class SearchState:
    """The search for one task so far."""

    inputs: NDArray[np.uint8]
    """[K, 18, 18]."""
    outputs: NDArray[np.uint8]
    answers: CheckedPrograms | None = None
    """Consistent programs, ranked; or else the best partial one alone; or None."""
    seconds: float = 0.0
    beam: int = 0
    checked: int = 0
    """How many programs have been run."""
    stopped: bool = False
    """Whether the caller requested a stop before the search was over."""
    max_ticks: int = MAX_TICKS
    """The most ticks of a correct program."""

    @property
    def solved(self) -> bool:
        """Whether the top-ranked answer is consistent."""
        return self.answers is not None and bool(self.answers.correct[0].all())

    @property
    def best_logprob(self) -> float:
        """The log-probability of the top-ranked answer; −∞ if the task is not solved."""
        return float(self.answers.logprobs[0]) if self.answers is not None and self.solved else -math.inf

    def update_answers(self, found: CheckedPrograms) -> None:
        """Keep the consistent programs of `found` and of before; without any, the best partial one."""
        if not len(found):
            return
        if self.answers is not None and self.solved:
            found = found.joined(self.answers).distinct()
        ranked = found.ranked()
        counts = ranked.correct.sum(1)
        if counts[0] == len(self.inputs):
            self.answers = ranked[counts == len(self.inputs)][:MOST_CONSIDERED]
        elif self.answers is None or self.answers.correct[0].sum() < counts[0]:
            self.answers = ranked[:1]


def check_programs(
    state: SearchState, tokens: NDArray[np.uint8], lengths: NDArray[np.int64], logprobs: NDArray[np.float32]
) -> CheckedPrograms:
    """Run programs [N, L] on a task's examples. Drops those that do not parse, and empty rows."""
    runs = run_batch(tokens, state.inputs, expected=state.outputs, keep_worlds=False, max_ticks=state.max_ticks)
    assert runs.correct is not None
    parses = runs.status[:, 0] != Status.INVALID_PROGRAM
    return CheckedPrograms(tokens, lengths, logprobs, runs.correct)[parses & (lengths > 0)]


@cache
def single_actions() -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.float32]]:
    """The programs of one action: tokens, lengths, and log-probabilities of 0."""
    tokens = encode_programs([Program.parse(f"DEF run m( {action} m)") for action in ACTIONS])
    return tokens, np.full(len(tokens), tokens.shape[1]), np.zeros(len(tokens), np.float32)


def rerank(
    answers: CheckedPrograms,
    inputs: NDArray[np.uint8],
    outputs: NDArray[np.uint8],
    *,
    deadline: float,
    stop: Callable[[], bool],
    max_ticks: int = MAX_TICKS,
    threads: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """The order of consistent answers by their probability of being correct on a further example.

    The random generator draws the heading of each example by itself; people hardly ever do. So examples with different
    headings are taken for random ones, and MCMC under the random generator estimates the probabilities. The network's
    top-ranked answer then stays first unless another one's probability is higher by more than MARGIN. For examples that
    share a heading, or that the generator cannot produce, the network's log-probabilities decide (`network_ranking`).
    There are no probabilities if no time is left for a first estimate.

    Args:
        inputs, outputs: the examples, [K, 18, 18].
        deadline: on the clock of `time.perf_counter`.
        stop: called between blocks of MCMC steps; True ends them.
        max_ticks: the most ticks of a run.

    Returns the order, int64 [N], and the probability of each of `answers`, float64 [N], or None.
    """

    def late() -> bool:
        return stop() or time.perf_counter() >= deadline

    network_order = np.arange(len(answers))
    if late():
        return network_order, None
    chains: list[MarkovChain] = []
    if not share_heading(inputs):
        chains = [MarkovChain(inputs, outputs, answers.tokens, seed=seed) for seed in _CHAIN_SEEDS]
        chains = [chain for chain in chains if chain.started]
    if not chains:
        return network_ranking(answers, inputs, max_ticks)
    probabilities = _estimate(chains, answers.tokens, late, threads)
    if probabilities is None:
        return network_order, None
    order = np.argsort(-probabilities, kind="stable")
    if probabilities[order[0]] - probabilities[0] <= MARGIN:
        order = np.concatenate([[0], order[order != 0]])
    return order, probabilities


def share_heading(inputs: NDArray[np.uint8]) -> bool:
    """Whether Karel starts with the same heading in all inputs [K, 18, 18]. Only the hero's cell has a code ≥ HERO."""
    return len(np.unique(inputs.max((1, 2)) // HERO)) == 1


def network_ranking(
    answers: CheckedPrograms, inputs: NDArray[np.uint8], max_ticks: int = MAX_TICKS
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The order of consistent answers, int64 [N], and their probabilities, float64 [N], by the network.

    The answers' total probability says how plausible the network finds such examples. CALIBRATION turns it into the
    frequency with which the top-ranked answer is correct. Another answer's probability is lower, as far as fewer of the
    answers, weighted by their probability, agree with it on perturbed inputs. The shortest answer that does the same as
    the top-ranked one on all perturbed inputs comes first.
    """
    total = np.logaddexp.reduce(answers.logprobs.astype(np.float64))
    intercept, per_nat, per_example = CALIBRATION
    logit = intercept + per_nat * max(total, LOWEST_TOTAL) + per_example * min(len(inputs), MOST_COUNTED)
    runs = run_batch(answers.tokens, perturbed_worlds(inputs)[None], max_ticks=max_ticks)
    assert runs.worlds is not None
    outcomes = np.array([_groups(runs.worlds[:, world], runs.status[:, world]) for world in range(PERTURBED)])
    agreement = np.mean([group[:, None] == group for group in outcomes], axis=0)
    expected = agreement @ np.exp(answers.logprobs - total)
    probabilities: NDArray[np.float64] = np.minimum(expected / expected[0], 1.0) / (1 + np.exp(-logit))
    same = (outcomes == outcomes[:, :1]).all(0)
    first = int(np.argmin(np.where(same, answers.lengths, answers.lengths.max() + 1)))
    order = np.argsort(-probabilities, kind="stable")
    return np.concatenate([[first], order[order != first]]), probabilities


def _estimate(
    chains: list[MarkovChain], programs: NDArray[np.uint8], late: Callable[[], bool], threads: int | None
) -> NDArray[np.float64] | None:
    """Run chains until the first program's probability reaches CONFIDENT; the probabilities of all, or None.

    A single program has no competitor, so the first estimate is enough for it.
    """

    def walk(first: int, last: int) -> None:
        for chain in chains[first:last]:
            chain.run(STEPS_PER_BLOCK)

    def estimate() -> NDArray[np.float64]:
        return PosteriorSamples.join([chain.samples for chain in chains]).probabilities(programs, threads)

    probabilities, blocks, estimated_at = None, 0, 0
    while blocks < ESTIMATE_AFTER[-1] and not late():
        parallel_for(walk, len(chains), _WORK_PER_CHAIN, threads)
        blocks += 1
        if blocks in ESTIMATE_AFTER:
            probabilities, estimated_at = estimate(), blocks
            if len(programs) == 1 or probabilities[0] >= CONFIDENT:
                break
    if estimated_at < blocks:  # stopped between two estimates
        probabilities = estimate()
    return probabilities


def find_ambiguity(
    programs: NDArray[np.uint8], logprobs: NDArray[np.floating], inputs: NDArray[np.uint8], max_ticks: int = MAX_TICKS
) -> Ambiguity | None:
    """The world that best distinguishes consistent programs [N, L]; None if they agree on all candidate worlds.

    Candidates are the task's own inputs, perturbed, which a person recognises; and only if none of these distinguishes
    the programs, worlds from the generator. The best one splits the programs most evenly, weighted by their
    probability, among outcomes that a person can choose from. A crash is a poor outcome to choose and has a small
    weight.

    Args:
        programs: the top-ranked one first, padded.
        logprobs: [N].
        inputs: the examples' inputs as cell codes, [K, 18, 18].
        max_ticks: the most ticks of a run.
    """
    worlds = np.concatenate([perturbed_worlds(inputs), _sampled_worlds()])
    runs = run_batch(programs, worlds[None], max_ticks=max_ticks)
    assert runs.worlds is not None
    ok = runs.ok
    weights = np.exp(logprobs.astype(np.float64) - logprobs.max())
    weights /= weights.sum()
    best, best_score = -1, -1.0
    for number in np.flatnonzero(ok[0]):  # the top-ranked program must end well there
        if best >= 0 and number >= PERTURBED:
            break
        groups = _groups(runs.worlds[:, number], runs.status[:, number])
        if groups.any():  # at least two different outcomes
            score = _distinguishing_score(groups, ok[:, number], weights)
            if score > best_score + 1e-9:
                best, best_score = int(number), score
    if best < 0:
        return None
    groups = _groups(runs.worlds[:, best], runs.status[:, best])
    outcomes = []
    for group in range(int(groups.max()) + 1):
        members = np.flatnonzero(groups == group)
        status, world = Status(int(runs.status[members[0], best])), world_from_codes(runs.worlds[members[0], best])
        outcomes.append(Outcome(tuple(map(int, members)), status, world))
    return Ambiguity(world_from_codes(worlds[best]), tuple(outcomes))


def _groups(ends: NDArray[np.uint8], statuses: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Group programs by outcome: group numbers [N], in the order of first occurrence."""
    numbers: dict[tuple[bytes, int], int] = {}
    every = zip(ends, statuses.tolist(), strict=True)
    return np.array([numbers.setdefault((end.tobytes(), status), len(numbers)) for end, status in every])


def _distinguishing_score(groups: NDArray[np.int64], ok: NDArray[np.bool_], weights: NDArray[np.float64]) -> float:
    """The entropy of the outcomes in nats, failures counting as one outcome, times the weight of usable outcomes."""
    groups = np.where(ok, groups, -1)
    shares = [weights[groups == group].sum() for group in np.unique(groups)]
    entropy = -sum(share * np.log(share) for share in shares if share > 0)
    return float(entropy * (weights[ok].sum() + _CRASH_WEIGHT * weights[~ok].sum()))


def perturbed_worlds(inputs: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Perturbed copies of inputs [K, 18, 18], [PERTURBED, 18, 18]; deterministic.

    Each has the hero elsewhere, or up to three cells with markers added or removed, or both. Walls stay.
    """
    rng = random.Random(_WORLD_SEED)
    worlds = np.resize(inputs, (PERTURBED, SIDE * SIDE))
    for cells in worlds:
        free = np.flatnonzero((cells <= MOST_MARKERS) | (cells >= HERO)).tolist()
        place = int(np.argmax(cells >= HERO))
        heading, cells[place] = divmod(int(cells[place]), HERO)
        kind = rng.randrange(3)
        if kind != 0:
            place, heading = rng.choice(free), rng.randint(1, len(HEADINGS))
        if kind != 1:
            for cell in rng.sample(free, min(len(free), rng.randint(1, 3))):
                cells[cell] = 0 if cells[cell] else rng.randint(1, _MOST_PILED)
        cells[place] += heading * HERO
    return worlds.reshape(PERTURBED, SIDE, SIDE)


@cache
def _sampled_worlds() -> NDArray[np.uint8]:
    """Worlds that the generator samples, [SAMPLED, 18, 18]."""
    worlds: NDArray[np.uint8] = np.ascontiguousarray(generate(_WORLD_SEED, 0, SAMPLED).inputs[:, 0])
    return worlds
