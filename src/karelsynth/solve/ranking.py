"""Choose among consistent programs: which one comes first, how likely it is right, and which question would decide.

Which answer comes first depends on where the examples are from:

- Examples that look random (`look_random`): the network's first answer. If the network leaves a doubt, MCMC samples the
  posterior over programs, since the random generator is known. An answer that is right on clearly more of its further
  examples overrules the network's first.
- Other examples are taken for a person's: the likeliest answer after a penalty for length, and for parts that no
  example needs. A person chooses examples that show what matters. The network was trained on generated examples, which
  may leave parts of their program unused.

The first answer's probability is a logistic function of a few features (`Features`): what the network and MCMC think of
it, how much of it the examples show, and what it does on variations of the examples' worlds (`variations`). A program
that was meant does not fail there, and likely programs agree. `tools/fit_ranking.py` fits the weights on generated
tasks, random and purposeful ones, so one scale holds for both kinds.

`find_ambiguity` makes a question that a person can answer, if likely programs differ. It shows one of the person's own
worlds with one small change, says in words what was changed, and gives two or three outcomes to choose from. The chosen
one becomes the next example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from karelsynth.karel.formats.codes import FRAME, HERO, world_from_codes
from karelsynth.karel.interpreter import MAX_TICKS, Status
from karelsynth.karel.machine import run_batch
from karelsynth.karel.threads import parallel_for
from karelsynth.karel.tokens import ID
from karelsynth.posterior.mcmc import MarkovChain, PosteriorSamples
from karelsynth.solve.solution import Ambiguity, Outcome
from karelsynth.tasks.variations import KINDS, Variation, fingerprints, vary

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from karelsynth.solve.answers import CheckedPrograms

STEPS_PER_BLOCK: Final = 4_000
"""MCMC steps of each chain between two checks of the clock: some hundredths of a second."""
ESTIMATE_AFTER: Final = (1, 2, 4, 8)
"""The numbers of blocks after which probabilities are estimated; the last one is the most blocks."""
CONFIDENT: Final = 0.97
"""MCMC stops once the top-ranked answer has this probability."""
MARGIN: Final = 1 - CONFIDENT
"""An answer overrules the network's top-ranked one only if MCMC's probability is higher by more than this."""
CERTAIN: Final = 0.9
"""There is no MCMC if the network gives the first answer this share of all answers' probability, …"""
UNANIMOUS: Final = 0.999
"""… or if another answer, drawn by its probability, ends alike on this share of the variations. Such an answer was
overruled 7 times in 1,591 random tasks: 3 times for a better one, 3 times for a worse one (one-off)."""
_CHAIN_SEEDS: Final = (1, 2)
_WORK_PER_CHAIN: Final = 256
"""Enough work for a thread of its own (see `parallel_for`)."""
_CONDITIONALS: Final = [ID["IF"], ID["IFELSE"], ID["WHILE"]]
LOWEST_TOTAL: Final = -12.0
MOST_EXAMPLES: Final = 6
_ALMOST_ONE: Final = 0.99
NATS_PER_TOKEN: Final = 0.2
"""For a person's examples: each token makes an answer less likely by this many nats, …"""
REDUNDANT: Final = 1.0
"""… and a part that no example needs by this many. Both were chosen on people's tasks and on generated ones
(docs/log.md)."""
MOST_COMPARED: Final = 16
"""The most answers that one for a person's examples is chosen from, the likeliest by the search's order."""
MOST_OUTCOMES: Final = 3
FEWEST_CELLS: Final = 25.0
"""Worlds with fewer cells than this, by their geometric mean, look drawn by hand. That holds for 30 of the gallery's 34
tasks and for 4 % of random tasks of five examples (one-off)."""
LIKELY: Final = 0.05
"""An answer is likely if its odds of being right are at least this share of the first answer's odds."""
_FAILURE_WEIGHT: Final = 0.2
"""The weight of outcomes that are failures in a world's score; nobody chooses a crash."""
_KIND_PENALTY: Final = 0.03
"""How much a world's score falls from one kind of change to the next, in nats."""
_CELL_PENALTY: Final = 0.0005
"""How much a world's score falls with each cell, in nats: small worlds are read faster."""


class Features(NamedTuple):
    """What is known of an answer."""

    total: float
    """The logarithm of all answers' total probability by the network; at least LOWEST_TOTAL."""
    tokens: float
    unseen: float
    """Outcomes of conditions that no example shows."""
    ticks: float
    """Logarithm of 1 plus the mean number of ticks."""
    failing: float
    """Share of the variations on which the program crashes or runs forever."""
    dissent: float
    """Logarithm of the share of the variations, plus 0.02, on which another answer, drawn by its probability, has
    another outcome."""
    examples: float
    """At most MOST_EXAMPLES."""
    answers: float
    """Logarithm of the number of answers."""
    posterior: float
    """The logit of MCMC's probability, which counts up to 0.99; 0 without MCMC."""
    sampled: float
    """1 with MCMC, else 0."""


WEIGHTS: Final = Features(
    total=0.224,
    tokens=-0.028,
    unseen=-1.267,
    ticks=0.510,
    failing=-1.282,
    dissent=-0.100,
    examples=0.501,
    answers=-0.440,
    posterior=0.347,
    sampled=-0.911,
)
"""By `tools/fit_ranking.py`."""
CONSTANT: Final = 0.893


class VariedRuns(NamedTuple):
    """What N programs do on V variations of the examples' worlds."""

    variations: list[Variation]
    worlds: NDArray[np.uint8]
    """[V, 18, 18]: the changed worlds."""
    ends: NDArray[np.uint64]
    """[N, V]: fingerprints of the outcomes."""
    ok: NDArray[np.bool_]
    """[N, V]: whether the program neither crashes nor runs forever."""

    def of(self, rows: NDArray[np.int64]) -> VariedRuns:
        """The runs of some of the programs, in this order."""
        return self._replace(ends=self.ends[rows], ok=self.ok[rows])


def run_variations(programs: NDArray[np.uint8], inputs: NDArray[np.uint8], max_ticks: int = MAX_TICKS) -> VariedRuns:
    """Run programs [N, L] on the variations of inputs [K, 18, 18]."""
    variations, worlds = vary(inputs)
    runs = run_batch(programs, worlds[None], max_ticks=max_ticks)
    assert runs.worlds is not None
    return VariedRuns(variations, worlds, fingerprints(runs.worlds, runs.status), runs.ok)


class Ranking(NamedTuple):
    """The order of N answers."""

    order: NDArray[np.int64]
    """[N]: the answers, the preferred one first."""
    probabilities: NDArray[np.float64]
    """[N]: of being right on a further example, for each answer in its place before ranking."""
    features: Features
    """Those of the preferred answer."""
    varied: VariedRuns
    """The answers on the variations, in their order before ranking."""


def rank(
    answers: CheckedPrograms,
    inputs: NDArray[np.uint8],
    outputs: NDArray[np.uint8],
    *,
    stop: Callable[[], bool],
    max_ticks: int = MAX_TICKS,
    threads: int | None = None,
    steps: int = STEPS_PER_BLOCK,
) -> Ranking:
    """Rank consistent answers, which come in the search's order.

    The other answers' probabilities are the first's times a ratio of support: the samples of MCMC that agree with an
    answer, relative to those that agree with the first. Without MCMC, support is the agreement with other answers on
    the variations.

    Args:
        inputs, outputs: the examples, [K, 18, 18].
        stop: called between blocks of MCMC steps; True ends them.
        max_ticks: the most ticks of a run.
        steps: MCMC steps of each chain in a block.
    """
    varied = run_variations(answers.tokens, inputs, max_ticks)
    behaviour = _behaviour(answers, varied)
    posterior, first = None, 0
    if not look_random(inputs, outputs):
        first = choose_for_people(answers, inputs, outputs, max_ticks)
    elif behaviour.doubtful and not stop():
        chains = [MarkovChain(inputs, outputs, answers.tokens, seed=seed) for seed in _CHAIN_SEEDS]
        chains = [chain for chain in chains if chain.started]
        if chains:
            posterior = _estimate(chains, answers.tokens, stop, threads, steps)
    if posterior is not None and posterior.max() - posterior[0] > MARGIN:
        first = int(posterior.argmax())
    features = _features(answers, first, inputs, behaviour, posterior, max_ticks)
    support = behaviour.agreement if posterior is None else posterior
    relative = np.minimum(support / max(float(support[first]), 1e-9), 1.0)
    probabilities = relative / (1 + np.exp(-CONSTANT - np.dot(WEIGHTS, features)))
    order = np.argsort(-probabilities, kind="stable")
    return Ranking(np.concatenate([[first], order[order != first]]), probabilities, features, varied)


def look_random(inputs: NDArray[np.uint8], outputs: NDArray[np.uint8]) -> bool:
    """Whether examples [K, 18, 18] may come from the random generator.

    It draws Karel's heading for each example, which people seldom do. Its programs change the markers of nearly every
    example, which people's programs often do not. And its worlds are larger than those that people draw (FEWEST_CELLS).
    Only the hero's cell has a code ≥ HERO.
    """
    headings_differ = len(np.unique(inputs.max((1, 2)) // HERO)) > 1
    markers_change = (inputs % HERO != outputs % HERO).any((1, 2)).all()
    cells = ((inputs % HERO) < FRAME).sum((1, 2))
    return headings_differ and bool(markers_change) and float(np.exp(np.log(cells).mean())) >= FEWEST_CELLS


def choose_for_people(
    answers: CheckedPrograms, inputs: NDArray[np.uint8], outputs: NDArray[np.uint8], max_ticks: int = MAX_TICKS
) -> int:
    """The answer that a person probably means who has chosen these examples, [K, 18, 18]."""
    first = answers[:MOST_COMPARED]
    redundant = first.simplified(inputs, outputs, max_ticks=max_ticks).lengths < first.lengths
    return int(np.argmax(first.logprobs - NATS_PER_TOKEN * first.lengths - REDUNDANT * redundant))


class _Behaviour(NamedTuple):
    """What N answers do on variations of the examples' worlds."""

    total: float
    """The logarithm of all answers' total probability by the network."""
    share: float
    """The first answer's share of it."""
    agreement: NDArray[np.float64]
    """[N]: the share of the variations on which an answer, drawn by its probability, ends like this one."""
    finished: NDArray[np.float64]
    """[N]: the share of the variations on which the answer neither crashes nor runs forever."""

    @property
    def doubtful(self) -> bool:
        """Whether MCMC might find another answer better than the first."""
        return self.share < CERTAIN and self.agreement[0] < UNANIMOUS


def _behaviour(answers: CheckedPrograms, varied: VariedRuns) -> _Behaviour:
    scores = answers.logprobs.astype(np.float64)
    total = float(np.logaddexp.reduce(scores))
    weights = np.exp(scores - total)
    agreement = np.array([(varied.ends == end).mean(1) @ weights for end in varied.ends])
    return _Behaviour(total, float(weights[0]), agreement, varied.ok.mean(1))


def _features(
    answers: CheckedPrograms,
    first: int,
    inputs: NDArray[np.uint8],
    behaviour: _Behaviour,
    posterior: NDArray[np.float64] | None,
    max_ticks: int,
) -> Features:
    """The features of answer number `first`."""
    tokens = answers.tokens[first : first + 1]
    seen = run_batch(tokens, inputs, keep_worlds=False, coverage=True, max_ticks=max_ticks)
    assert seen.coverage is not None
    outcomes = np.bitwise_or.reduce(seen.coverage[0], axis=0)[: int(np.isin(tokens, _CONDITIONALS).sum())]
    known = 0.5 if posterior is None else float(np.clip(posterior[first], 1 - _ALMOST_ONE, _ALMOST_ONE))
    return Features(
        total=max(behaviour.total, LOWEST_TOTAL),
        tokens=float(answers.lengths[first]),
        unseen=float((2 - (outcomes & 1) - (outcomes >> 1)).sum()),
        ticks=float(np.log1p(seen.ticks.mean())),
        failing=float(1 - behaviour.finished[first]),
        dissent=float(np.log(1.02 - behaviour.agreement[first])),
        examples=float(min(len(inputs), MOST_EXAMPLES)),
        answers=float(np.log(len(answers))),
        posterior=float(np.log(known / (1 - known))),
        sampled=float(posterior is not None),
    )


def _estimate(
    chains: list[MarkovChain],
    programs: NDArray[np.uint8],
    stop: Callable[[], bool],
    threads: int | None,
    steps: int = STEPS_PER_BLOCK,
) -> NDArray[np.float64] | None:
    """Run chains until the first program's probability reaches CONFIDENT; the probabilities of all, or None."""

    def walk(first: int, last: int) -> None:
        for chain in chains[first:last]:
            chain.run(steps)

    def estimate() -> NDArray[np.float64]:
        return PosteriorSamples.join([chain.samples for chain in chains]).probabilities(programs, threads)

    probabilities, blocks, estimated_at = None, 0, 0
    while blocks < ESTIMATE_AFTER[-1] and not stop():
        parallel_for(walk, len(chains), _WORK_PER_CHAIN, threads)
        blocks += 1
        if blocks in ESTIMATE_AFTER:
            probabilities, estimated_at = estimate(), blocks
            if probabilities[0] >= CONFIDENT:
                break
    if estimated_at < blocks:  # stopped between two estimates
        probabilities = estimate()
    return probabilities


def find_ambiguity(
    programs: NDArray[np.uint8],
    probabilities: NDArray[np.float64],
    varied: VariedRuns,
    max_ticks: int = MAX_TICKS,
) -> Ambiguity | None:
    """The variation of an input that best distinguishes the likely programs; None if they agree on all of them.

    Its score is the entropy of the outcomes, each with the odds of its likeliest program. Failures weigh little. Worlds
    on which the first program fails, or with more than MOST_OUTCOMES outcomes of likely programs, are left out.

    Args:
        programs: consistent ones, [N, L], padded; the top-ranked one first.
        probabilities: [N], of being right on a further example.
        varied: `run_variations` of these programs.
        max_ticks: the most ticks of a run.
    """
    odds = probabilities / np.maximum(1 - probabilities, 1e-9)
    likely = odds >= LIKELY * odds[0]
    likely[0] = True
    if likely.sum() < 2:
        return None
    variations, worlds, ends, ok = varied
    sizes = ((worlds % HERO) < FRAME).sum((1, 2))
    best, best_score = -1, 0.0
    for number in np.flatnonzero(ok[0] & (ends[likely] != ends[0]).any(0)).tolist():
        score = _question_score(ends[likely, number], ok[likely, number], odds[likely])
        score -= _KIND_PENALTY * KINDS.index(variations[number].kind) + _CELL_PENALTY * sizes[number]
        if score > best_score or (best < 0 and score > -np.inf):
            best, best_score = number, score
    if best < 0:
        return None
    outcomes = []
    for end in dict.fromkeys(ends[likely, best].tolist()):
        members = np.flatnonzero(ends[:, best] == end)
        run = run_batch(programs[members[:1]], worlds[best : best + 1], max_ticks=max_ticks)
        assert run.worlds is not None
        world = world_from_codes(run.worlds[0, 0])
        outcomes.append(Outcome(tuple(map(int, members)), Status(int(run.status[0, 0])), world))
    variation = variations[best]
    return Ambiguity(world_from_codes(worlds[best]), tuple(outcomes), variation.example, str(variation))


def _question_score(ends: NDArray[np.uint64], ok: NDArray[np.bool_], odds: NDArray[np.float64]) -> float:
    """The entropy of the outcomes `ends` [N] in nats, times the share of those that are no failure."""
    different, first = np.unique(ends, return_index=True)
    if len(different) > MOST_OUTCOMES:
        return -np.inf
    weights = np.array([odds[ends == end].max() for end in different])
    weights /= weights.sum()
    usable = np.where(ok[first], 1.0, _FAILURE_WEIGHT)
    return float(-(weights * np.log(weights)).sum() * (weights * usable).sum())
