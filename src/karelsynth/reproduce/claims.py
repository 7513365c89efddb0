"""The paper's claims, and our verdicts: differences between two rows, with a 95 % interval.

The interval covers other seeds and other test tasks.

- Seeds: if one row starts from the other, or both from a third, Student's interval of the mean difference seed by seed;
  otherwise Welch's interval. If one of the two rows has a single seed, we assume equal variance across rows and pool it
  from the rows with several seeds.
- Tasks: the paired difference, if results hold which tasks were solved; otherwise Newcombe's interval of two
  independent shares, which is wider.

Rows that were also scored on the many tasks of `test_large` are compared there. The last column has the verdict after
Holm's correction for all claims that can be decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot
from statistics import mean
from typing import Final, Literal

import numpy as np

from karelsynth.reproduce.intervals import (
    LEVEL,
    Interval,
    PooledDeviation,
    holm,
    mean_interval,
    normal_quantile,
    paired_interval,
    welch_interval,
)
from karelsynth.reproduce.results import Result, Results
from karelsynth.reproduce.rows import ROWS, SetName, TableRow
from karelsynth.reproduce.tables import NONE, NOT_YET, mark, markdown, seeds_of

Measure = Literal["generalization", "exact"]

UNEQUAL: Final = "no verdict: recipes differ"
"""The verdict about a row that was measured with another recipe than today's."""
ONE_SEED: Final = ", of one seed"
"""Marks a verdict whose interval does not cover other seeds: no row has several."""


@dataclass(frozen=True)
class Claim:
    """One row is better than another."""

    text: str
    better: str
    worse: str
    rank: int = 1
    measure: Measure = "generalization"

    @property
    def paper(self) -> float | None:
        """The paper's difference in points; None if the paper does not have both figures."""
        better, worse = (ROWS[name].paper_figure(self.measure, self.rank) for name in (self.better, self.worse))
        return None if better is None or worse is None else better - worse


CLAIMS: Final = (
    Claim("Beam search RL beats MLE", "rl_beam", "mle"),
    Claim("… on little data, too", "small_rl_beam", "small_mle"),
    Claim("… and beats RL by sampling", "rl_beam", "rl"),
    Claim("… on little data, too", "small_rl_beam", "small_rl"),
    Claim("RL by sampling falls behind MLE", "mle", "rl"),
    Claim("… and fails on little data", "small_mle", "small_rl"),
    Claim("Beam search RL writes the reference less often: exact match", "mle", "rl_beam", measure="exact"),
    Claim("… but more often on little data: exact match", "small_rl_beam", "small_mle", measure="exact"),
    Claim("Beam search RL loses the lower ranks: top 50", "mle", "rl_beam", 50),
    Claim("Diversity keeps them: top 50", "rl_beam_div", "rl_beam", 50),
    Claim("… and helps at top 5", "rl_beam_div", "rl_beam", 5),
    Claim("… and at top 1", "rl_beam_div", "rl_beam"),
    Claim("A reward for few ticks helps further", "rl_beam_div_opt", "rl_beam_div"),
    Claim("A learned syntax helps on little data", "small_mle_learned", "small_mle"),
    Claim("… more than a decoder with the same number of extra parameters", "small_mle_learned", "small_mle_large"),
    Claim("… and more than a handwritten one", "small_mle_learned", "small_mle_handwritten"),
    Claim("With much data no syntax beats a learned one", "mle", "mle_learned"),
    Claim("… a handwritten one beats none, barely", "mle_handwritten", "mle"),
    Claim("… and a larger decoder beats a handwritten one", "mle_large", "mle_handwritten"),
    Claim("… and a learned one", "mle_large", "mle_learned"),
)


def claims(results: Results) -> str:
    """The table of all claims."""
    heading = ["claim", "better", "worse", "paper, points", "ours, points", "verdict", "after Holm"]
    found = [_decide(claim, results) for claim in CLAIMS]
    return markdown(heading, [one.line(p) for one, p in zip(found, _adjusted(found), strict=True)])


def count_verdicts(results: Results) -> str:
    """How many claims are decided, in a sentence."""
    found = [_decide(claim, results) for claim in CLAIMS]
    single = [one for one in found if one.p is not None and one.p < 1 - LEVEL]
    held = sum(one.holds for one in single)
    survive = sum(p is not None and p < 1 - LEVEL for p in _adjusted(found))
    return (
        f"Of {len(CLAIMS)} claims, {held} held and {len(single) - held} came out the other way at {LEVEL:.0%} each; "
        f"the others are undecided or not yet measured. After Holm's correction for all of them {survive} remain."
    )


def _adjusted(found: Sequence[_Decided]) -> list[float | None]:
    """The claims' p-values after Holm's correction; None for those without one."""
    known = iter(holm([one.p for one in found if one.p is not None]))
    return [None if one.p is None else next(known) for one in found]


def difference(
    better: list[Result],
    worse: list[Result],
    rank: int,
    measure: Measure = "generalization",
    spread: PooledDeviation | None = None,
    level: float = LEVEL,
) -> Interval:
    """The difference of two rows in points, and its interval, 95 % by default.

    `spread` is the standard deviation over seeds for a row with a single seed. Without it, the interval of such a row
    covers tasks only.
    """
    seeds = {result.job.seed for result in better} & {result.job.seed for result in worse}
    if seeds and _related(better[0].job.row, worse[0].job.row):
        better, worse = ([result for result in row if result.job.seed in seeds] for row in (better, worse))
        shares, others = ([result.top(measure, rank) for result in row] for row in (better, worse))
        steps = [one - other for one, other in zip(shares, others, strict=True)]
        over_seeds = mean_interval(steps, level) if len(steps) > 1 else None
    else:
        shares, others = ([result.top(measure, rank) for result in row] for row in (better, worse))
        over_seeds = welch_interval(shares, others, level) if min(len(shares), len(others)) > 1 else None
    if over_seeds is None:
        half = 0.0 if spread is None else spread.half(len(shares), len(others), level=level)
        over_seeds = Interval.around(mean(shares) - mean(others), half)
    over_tasks = _over_tasks(better, worse, rank, measure, level)
    return Interval(
        over_seeds.middle,
        over_seeds.middle - hypot(over_seeds.middle - over_seeds.low, over_tasks.middle - over_tasks.low),
        over_seeds.middle + hypot(over_seeds.high - over_seeds.middle, over_tasks.high - over_tasks.middle),
    )


def _over_tasks(better: list[Result], worse: list[Result], rank: int, measure: Measure, level: float) -> Interval:
    """The difference of two rows, and its interval over tasks."""
    kept = [[result.solved(rank, measure) for result in row] for row in (better, worse)]
    known = [[bits for bits in row if bits is not None] for row in kept]
    if list(map(len, known)) == list(map(len, kept)) and len({len(bits) for row in known for bits in row}) == 1:
        one, two = (np.mean(row, axis=0) for row in known)
        return paired_interval(one, two, level)
    (value, low, high), (other, other_low, other_high) = (_share(row, rank, measure) for row in (better, worse))
    below, above = hypot(value - low, other_high - other), hypot(high - value, other - other_low)
    scale = normal_quantile(level) / normal_quantile(LEVEL)
    return Interval(value - other, value - other - scale * below, value - other + scale * above)


def p_value(
    better: list[Result], worse: list[Result], rank: int, measure: Measure, spread: PooledDeviation | None
) -> float:
    """The largest error probability at which the interval of `difference` still contains zero."""

    def decides(error: float) -> bool:
        _, low, high = difference(better, worse, rank, measure, spread, 1 - error)
        return low > 0 or high < 0

    low, high = -12.0, 0.0  # powers of ten
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if decides(10**middle) else (middle, high)
    return float(10**high)


def _share(row: list[Result], rank: int, measure: Measure) -> Interval:
    """The mean share over a row's seeds, and its interval over tasks, which all seeds share."""
    ends = [result.interval(measure, rank) for result in row]
    return Interval(
        mean(result.top(measure, rank) for result in row), mean(low for low, _ in ends), mean(high for _, high in ends)
    )


def spread_of(results: Results, tasks: SetName, rank: int, measure: Measure) -> PooledDeviation | None:
    """The standard deviation over seeds, pooled over the rows of a set: we assume equal variance across rows.

    Rows that start from others are not independent of these and do not count. Neither do stale results, nor rows that
    are not in the paper: they must not change the verdicts on the paper's claims.
    """
    rows = [row for row in ROWS.values() if row.tasks == tasks and row.start is None and row.in_paper]
    fresh = [[result for result in seeds_of(results, row) if not result.stale] for row in rows]
    return PooledDeviation.pooled([[result.top(measure, rank) for result in row] for row in fresh])


def _related(row: TableRow, other: TableRow) -> bool:
    """Whether equal seeds of two rows share a model."""
    return row.recipe == other.start or (row.start is not None and row.start in (other.recipe, other.start))


@dataclass(frozen=True)
class _Decided:
    """A claim and what our results say about it."""

    cells: list[str]
    """All but the last cell of its line."""
    p: float | None = None
    """The p-value of the difference, if there is a verdict."""
    holds: bool = False
    """Whether the difference has the claimed sign."""

    def line(self, adjusted: float | None) -> list[str]:
        """Its line of the table, given the p-value that is adjusted for all claims."""
        if adjusted is None:
            return [*self.cells, NONE]
        verdict = "undecided" if adjusted >= 1 - LEVEL else "held" if self.holds else "the opposite"
        return [*self.cells, f"{verdict} (p = {adjusted:.2g})"]


def _decide(claim: Claim, results: Results) -> _Decided:
    better, worse = ROWS[claim.better], ROWS[claim.worse]
    line = [claim.text, better.label, worse.label, NONE if claim.paper is None else f"{claim.paper:+.2f}"]
    found, others = seeds_of(results, better), seeds_of(results, worse)
    if not found or not others:
        return _Decided([*line, NOT_YET, ""])
    stale = max(mark(result) for result in (*found, *others))
    if all("claims" in result.record for result in (*found, *others)):
        results = {job: scored for job, result in results.items() if (scored := result.on_claim_tasks()) is not None}
        found, others = seeds_of(results, better), seeds_of(results, worse)
    spread = spread_of(results, better.tasks, claim.rank, claim.measure)
    middle, low, high = difference(found, others, claim.rank, claim.measure, spread)
    verdict = "held" if low > 0 else "the opposite" if high < 0 else "undecided"
    if spread is None and min(len(found), len(others)) == 1 and verdict != "undecided":
        verdict += ONE_SEED
    shown = [*line, f"{middle:+.2f} ({low:+.2f} to {high:+.2f}){stale}"]
    if stale:  # the two may have been trained for different times
        return _Decided([*shown, UNEQUAL])
    return _Decided([*shown, verdict], p_value(found, others, claim.rank, claim.measure, spread), middle > 0)
