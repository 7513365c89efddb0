"""What the paper claims of its rows, and what became of it here: differences between two rows, with an interval.

Several seeds: where one row starts from the other, or both from a third, the differences seed by seed and Student's
interval of their mean; otherwise Welch's, for a seed says nothing then. If one of the two has a single seed: where
results say which tasks were solved, the 95 % interval of a paired difference, otherwise Newcombe's for two independent
shares, which is wider; and what other seeds might have brought is added, as far as the set's other rows tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot
from statistics import mean
from typing import Final, Literal

from karelsynth.reproduce.intervals import Interval, Spread, of_mean, of_means, of_same_tasks
from karelsynth.reproduce.results import Recipes, Result, Results
from karelsynth.reproduce.rows import ROWS, Row, SetName
from karelsynth.reproduce.tables import NOT_YET, mark, markdown, seeds_of

Measure = Literal["generalization", "exact"]

UNEQUAL: Final = "no verdict: recipes differ"
"""Of claims about a row that was measured with another recipe than today's."""


@dataclass(frozen=True)
class Claim:
    """One row is better than another."""

    text: str
    better: str
    worse: str
    rank: int = 1
    measure: Measure = "generalization"

    @property
    def paper(self) -> float:
        """The difference in the paper, in points."""
        better, worse = (self._figure(ROWS[name]) for name in (self.better, self.worse))
        return better - worse

    def _figure(self, row: Row) -> float:
        figure = row.exact if self.measure == "exact" else row.generalization[self.rank]
        assert figure is not None
        return figure


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
    Claim("… more than as many parameters in a larger decoder", "small_mle_learned", "small_mle_large"),
    Claim("… and more than a handwritten one", "small_mle_learned", "small_mle_handwritten"),
    Claim("With much data no syntax beats a learned one", "mle", "mle_learned"),
    Claim("… a handwritten one beats none, barely", "mle_handwritten", "mle"),
    Claim("… and a larger decoder beats a handwritten one", "mle_large", "mle_handwritten"),
    Claim("… and a learned one", "mle_large", "mle_learned"),
)


def claims(results: Results, recipes: Recipes) -> str:
    """The table of all claims."""
    heading = ["claim", "better", "worse", "paper, points", "ours, points", "verdict"]
    return markdown(heading, [_line(claim, results, recipes) for claim in CLAIMS])


def difference(
    better: list[Result],
    worse: list[Result],
    rank: int,
    measure: Measure = "generalization",
    spread: Spread | None = None,
) -> Interval:
    """By how many points one row is better than the other, and a 95 % interval.

    If one of the rows has one seed, tasks are compared of the first seed that both have, or else of their first ones,
    and `spread`, if known, tells how much more or less it might have been with other seeds.
    """
    others = {result.job.seed: result for result in worse}
    pairs = [(one, others[one.job.seed]) for one in better if one.job.seed in others]
    values, other_values = ([result.top(measure, rank) for result in row] for row in (better, worse))
    related = bool(pairs) and _related(better[0].job.row, worse[0].job.row)
    if len(pairs) > 1 and related:
        return of_mean([one.top(measure, rank) - other.top(measure, rank) for one, other in pairs])
    if min(len(values), len(other_values)) > 1:
        return of_means(values, other_values)
    one, other = pairs[0] if pairs else (better[0], worse[0])
    over_tasks = _over_tasks(one, other, rank, measure)
    if spread is None:
        return over_tasks
    if related:
        middle, over_seeds = over_tasks.middle, spread.half(1, 1)
    else:
        middle, over_seeds = mean(values) - mean(other_values), spread.half(len(values), len(other_values))
    return Interval(
        middle,
        middle - hypot(over_tasks.middle - over_tasks.low, over_seeds),
        middle + hypot(over_tasks.high - over_tasks.middle, over_seeds),
    )


def _over_tasks(one: Result, other: Result, rank: int, measure: Measure) -> Interval:
    """The difference of two models, and what other tasks might have made of it."""
    solved, others_solved = one.solved(rank, measure), other.solved(rank, measure)
    if solved is not None and others_solved is not None and len(solved) == len(others_solved):
        return of_same_tasks(solved, others_solved)
    (low, high), (other_low, other_high) = one.interval(measure, rank), other.interval(measure, rank)
    value, other_value = one.top(measure, rank), other.top(measure, rank)
    middle = value - other_value
    return Interval(
        middle,
        middle - hypot(value - low, other_high - other_value),
        middle + hypot(high - value, other_value - other_low),
    )


def spread_of(results: Results, tasks: SetName, rank: int, measure: Measure) -> Spread | None:
    """How much the rows of a set differ from seed to seed, all rows taken to be alike in that."""
    rows = (seeds_of(results, row) for row in ROWS.values() if row.tasks == tasks)
    return Spread.pooled([[result.top(measure, rank) for result in row] for row in rows])


def _related(row: Row, other: Row) -> bool:
    """Whether a seed of one and the same seed of the other have a model in common."""
    return row.recipe == other.start or (row.start is not None and row.start in (other.recipe, other.start))


def _line(claim: Claim, results: Results, recipes: Recipes) -> list[str]:
    better, worse = ROWS[claim.better], ROWS[claim.worse]
    line = [claim.text, better.label, worse.label, f"{claim.paper:+.2f}"]
    found, others = seeds_of(results, better), seeds_of(results, worse)
    if not found or not others:
        return [*line, NOT_YET, ""]
    spread = spread_of(results, better.tasks, claim.rank, claim.measure)
    middle, low, high = difference(found, others, claim.rank, claim.measure, spread)
    stale = max(mark(result, recipes) for result in (*found, *others))
    verdict = "held" if low > 0 else "the opposite" if high < 0 else "undecided"
    if stale:  # the two may have been trained for different times
        verdict = UNEQUAL
    return [*line, f"{middle:+.2f} ({low:+.2f} to {high:+.2f}){stale}", verdict]
