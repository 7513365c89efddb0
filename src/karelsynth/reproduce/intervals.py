"""95 % intervals: of means and differences over seeds, of a difference between two rows that solve the same tasks, and
of a share that is made up of many programs' parts.

Few seeds make wide intervals: with three, the mean's is 2.5 standard deviations to either side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import mean, stdev, variance
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_STUDENT: Final = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
"""The 97.5 % quantile of Student's distribution by degrees of freedom; beyond them the last will do."""


class Interval(NamedTuple):
    """A value and what it may as well have been."""

    middle: float
    low: float
    high: float

    @classmethod
    def around(cls, middle: float, half: float) -> Interval:
        return cls(middle, middle - half, middle + half)


def mean_interval(values: Sequence[float]) -> Interval:
    """Student's interval of the mean of two or more values."""
    return Interval.around(mean(values), _quantile(len(values) - 1) * stdev(values) / sqrt(len(values)))


def welch_interval(values: Sequence[float], others: Sequence[float]) -> Interval:
    """Welch's interval of the difference between the means of two samples that have nothing to do with each other."""
    parts = [variance(sample) / len(sample) for sample in (values, others)]
    middle, whole = mean(values) - mean(others), sum(parts)
    if whole == 0:
        return Interval(middle, middle, middle)
    freedom = whole**2 / sum(part**2 / (len(sample) - 1) for part, sample in zip(parts, (values, others), strict=True))
    return Interval.around(middle, _quantile(int(freedom)) * sqrt(whole))


class PooledDeviation(NamedTuple):
    """How much the same row differs from seed to seed, and by how many degrees of freedom that is known."""

    deviation: float
    freedom: int

    @classmethod
    def pooled(cls, samples: Iterable[Sequence[float]]) -> PooledDeviation | None:
        """Of samples that are taken to spread alike; None if none has two values."""
        known = [sample for sample in samples if len(sample) > 1]
        freedom = sum(len(sample) - 1 for sample in known)
        if freedom == 0:
            return None
        return cls(sqrt(sum((len(sample) - 1) * variance(sample) for sample in known) / freedom), freedom)

    def half(self, *counts: int) -> float:
        """To either side of a difference between the means of so many seeds each."""
        return _quantile(self.freedom) * self.deviation * sqrt(sum(1 / count for count in counts))


def paired_interval(solved: NDArray[np.float64 | np.bool_], others: NDArray[np.float64 | np.bool_]) -> Interval:
    """The difference of two shares of the same tasks, in points, task by task: of each, how often it was solved.

    The interval is Bonett and Price's: Wald's as if there were two tasks more, of which each row alone solves one. So
    it does not shrink to nothing where both solve the same tasks, or none.
    """
    differences = np.asarray(solved, np.float64) - np.asarray(others, np.float64)
    more = np.append(differences, (1.0, -1.0))
    middle, half = 100 * float(more.mean()), 196 * float(more.std()) / sqrt(len(more))
    return Interval(100 * float(differences.mean()), max(-100.0, middle - half), min(100.0, middle + half))


def ratio_interval(parts: NDArray[np.float64], wholes: NDArray[np.float64]) -> Interval:
    """What the parts of independent programs are of all their wholes, in percent.

    A program's positions are much alike, so that it is programs that count, not positions: one of them says nothing of
    others.
    """
    whole, count = max(1.0, float(wholes.sum())), len(parts)
    share = float(parts.sum()) / whole
    if count < 2:
        return Interval(100 * share, 0.0, 100.0)
    half = 1.96 * sqrt(count / (count - 1) * float(((parts - share * wholes) ** 2).sum())) / whole
    return Interval(100 * share, 100 * max(0.0, share - half), 100 * min(1.0, share + half))


def _quantile(freedom: int) -> float:
    return _STUDENT[min(max(freedom, 1), max(_STUDENT))]
