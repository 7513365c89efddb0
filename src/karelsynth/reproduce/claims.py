"""What the paper claims of its rows, and what became of it here: differences between two rows, with an interval.

One seed: where results say which tasks were solved, the 95 % interval of a paired difference; otherwise Newcombe's for
two independent shares, which is wider. Several seeds: where one row starts from the other, or both from a third, the
differences seed by seed and Student's interval of their mean; otherwise Welch's, for a seed says nothing then.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot
from typing import Final, Literal

from karelsynth.reproduce.intervals import Interval, of_mean, of_means, of_same_tasks
from karelsynth.reproduce.results import Recipes, Result, Results
from karelsynth.reproduce.rows import ROWS, Row
from karelsynth.reproduce.tables import NOT_YET, mark, markdown, seeds_of

UNEQUAL: Final = "no verdict: recipes differ"
"""Of claims about a row that was measured with another recipe than today's."""


@dataclass(frozen=True)
class Claim:
    """One row is better than another."""

    text: str
    better: str
    worse: str
    rank: int = 1
    measure: Literal["generalization", "exact"] = "generalization"

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
    better: list[Result], worse: list[Result], rank: int, measure: Literal["generalization", "exact"] = "generalization"
) -> Interval:
    """By how many points one row is better than the other, and a 95 % interval.

    If one of the rows has one seed, the first seeds that both have are compared, or else their first ones.
    """
    others = {result.job.seed: result for result in worse}
    pairs = [(one, others[one.job.seed]) for one in better if one.job.seed in others] or [(better[0], worse[0])]
    values, other_values = ([result.top(measure, rank) for result in row] for row in (better, worse))
    if len(pairs) > 1 and _related(better[0].job.row, worse[0].job.row):
        return of_mean([one.top(measure, rank) - other.top(measure, rank) for one, other in pairs])
    if min(len(values), len(other_values)) > 1:
        return of_means(values, other_values)
    one, other = pairs[0]
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


def _related(row: Row, other: Row) -> bool:
    """Whether a seed of one and the same seed of the other have a model in common."""
    return row.recipe == other.start or (row.start is not None and row.start in (other.recipe, other.start))


def _line(claim: Claim, results: Results, recipes: Recipes) -> list[str]:
    better, worse = ROWS[claim.better], ROWS[claim.worse]
    line = [claim.text, better.label, worse.label, f"{claim.paper:+.2f}"]
    found, others = seeds_of(results, better), seeds_of(results, worse)
    if not found or not others:
        return [*line, NOT_YET, ""]
    middle, low, high = difference(found, others, claim.rank, claim.measure)
    stale = max(mark(result, recipes) for result in (*found, *others))
    verdict = "held" if low > 0 else "the opposite" if high < 0 else "undecided"
    if stale:  # the two may have been trained for different times
        verdict = UNEQUAL
    return [*line, f"{middle:+.2f} ({low:+.2f} to {high:+.2f}){stale}", verdict]
