"""What the paper claims of its rows, and what became of it here: differences between two rows, with an interval.

One seed: where results say which tasks were solved, the 95 % interval of a paired difference: what counts are the tasks
that only one of the two rows solves. Otherwise Newcombe's interval for two independent shares, which is wider. Several
seeds: Student's interval of the mean of the differences seed by seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt
from statistics import mean, stdev
from typing import Final

from karelsynth.reproduce.results import Recipes, Result, Results
from karelsynth.reproduce.rows import ROWS
from karelsynth.reproduce.tables import NOT_YET, mark, markdown, seeds_of

_STUDENT: Final = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
"""The 97.5 % quantile of Student's distribution by degrees of freedom; beyond them the last will do."""


@dataclass(frozen=True)
class Claim:
    """One row is better than another."""

    text: str
    better: str
    worse: str
    rank: int = 1

    @property
    def paper(self) -> float:
        """The difference in the paper, in points."""
        return ROWS[self.better].generalization[self.rank] - ROWS[self.worse].generalization[self.rank]


CLAIMS: Final = (
    Claim("Beam search RL beats MLE", "rl_beam", "mle"),
    Claim("… and so on little data", "small_rl_beam", "small_mle"),
    Claim("RL by sampling does not: it falls behind MLE", "mle", "rl"),
    Claim("… and fails on little data", "small_mle", "small_rl"),
    Claim("Beam search RL loses the lower ranks: top 50", "mle", "rl_beam", 50),
    Claim("Diversity keeps them: top 50", "rl_beam_div", "rl_beam", 50),
    Claim("… and helps at top 5", "rl_beam_div", "rl_beam", 5),
    Claim("… and at top 1", "rl_beam_div", "rl_beam"),
    Claim("A reward for few ticks helps further", "rl_beam_div_opt", "rl_beam_div"),
    Claim("A learned syntax helps on little data", "small_mle_learned", "small_mle"),
    Claim("… more than as many parameters elsewhere", "small_mle_learned", "small_mle_large"),
    Claim("… and more than a handwritten one", "small_mle_learned", "small_mle_handwritten"),
    Claim("With much data a larger decoder beats a learned syntax", "mle_large", "mle_learned"),
)


def claims(results: Results, recipes: Recipes) -> str:
    """The table of all claims."""
    heading = ["claim", "better", "worse", "paper, points", "ours, points", "verdict"]
    return markdown(heading, [_line(claim, results, recipes) for claim in CLAIMS])


def difference(better: list[Result], worse: list[Result], rank: int) -> tuple[float, float, float]:
    """By how many points one row is better than the other, and a 95 % interval.

    Seeds that both rows have are compared one by one; if there is none, their first ones are.
    """
    others = {result.job.seed: result for result in worse}
    pairs = [(one, others[one.job.seed]) for one in better if one.job.seed in others] or [(better[0], worse[0])]
    differences = [one.top("generalization", rank) - other.top("generalization", rank) for one, other in pairs]
    middle = mean(differences)
    if len(pairs) > 1:
        freedom = len(pairs) - 1
        half = _STUDENT[min(freedom, max(_STUDENT))] * stdev(differences) / sqrt(len(pairs))
        return middle, middle - half, middle + half
    (one, other), measure = pairs[0], "generalization"
    solved, others_solved = one.solved(rank), other.solved(rank)
    if solved is not None and others_solved is not None and len(solved) == len(others_solved):
        count, only, lost = len(solved), int((solved & ~others_solved).sum()), int((others_solved & ~solved).sum())
        half = 196 * sqrt(only + lost - (only - lost) ** 2 / count) / count
        return middle, middle - half, middle + half
    (low, high), (other_low, other_high) = one.interval(measure, rank), other.interval(measure, rank)
    value, other_value = one.top(measure, rank), other.top(measure, rank)
    below, above = hypot(value - low, other_high - other_value), hypot(high - value, other_value - other_low)
    return middle, middle - below, middle + above


def _line(claim: Claim, results: Results, recipes: Recipes) -> list[str]:
    better, worse = ROWS[claim.better], ROWS[claim.worse]
    line = [claim.text, better.label, worse.label, f"{claim.paper:+.2f}"]
    found, others = seeds_of(results, better), seeds_of(results, worse)
    if not found or not others:
        return [*line, NOT_YET, ""]
    middle, low, high = difference(found, others, claim.rank)
    stale = max(mark(result, recipes) for result in (*found, *others))
    verdict = "held" if low > 0 else "the opposite" if high < 0 else "undecided"
    return [*line, f"{middle:+.2f} ({low:+.2f} to {high:+.2f}){stale}", verdict]
