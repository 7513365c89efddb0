"""95 % intervals: of means and differences over seeds, of paired differences over tasks, and of ratios over programs.

Few seeds make wide intervals: with three, the interval of the mean is 2.5 standard deviations to either side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import mean, stdev, variance
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_STUDENT: Final = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
"""The 97.5 % quantile of Student's distribution by degrees of freedom. Larger degrees use the last."""


class Interval(NamedTuple):
    """An estimate and its interval."""

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
    """Welch's interval of the difference between the means of two independent samples."""
    parts = [variance(sample) / len(sample) for sample in (values, others)]
    middle, whole = mean(values) - mean(others), sum(parts)
    if whole == 0:
        return Interval(middle, middle, middle)
    freedom = whole**2 / sum(part**2 / (len(sample) - 1) for part, sample in zip(parts, (values, others), strict=True))
    return Interval.around(middle, _quantile(int(freedom)) * sqrt(whole))


class PooledDeviation(NamedTuple):
    """A standard deviation over seeds, and its degrees of freedom."""

    deviation: float
    freedom: int

    @classmethod
    def pooled(cls, samples: Iterable[Sequence[float]]) -> PooledDeviation | None:
        """Pooled over samples, assuming equal variance; None if no sample has two values."""
        known = [sample for sample in samples if len(sample) > 1]
        freedom = sum(len(sample) - 1 for sample in known)
        if freedom == 0:
            return None
        return cls(sqrt(sum((len(sample) - 1) * variance(sample) for sample in known) / freedom), freedom)

    def half(self, *counts: int) -> float:
        """Half the interval of a difference between means of so many seeds each."""
        return _quantile(self.freedom) * self.deviation * sqrt(sum(1 / count for count in counts))


def paired_interval(solved: NDArray[np.float64 | np.bool_], others: NDArray[np.float64 | np.bool_]) -> Interval:
    """The paired difference of two shares of the same tasks, in points.

    Args:
        solved: [tasks], how often the first row solved each task, from 0 to 1.
        others: [tasks], the same for the second row.

    Bonett and Price's interval: Wald's interval with two more tasks, one solved by each row alone. It keeps a positive
    width if both rows solve the same tasks.
    """
    differences = np.asarray(solved, np.float64) - np.asarray(others, np.float64)
    more = np.append(differences, (1.0, -1.0))
    middle, half = 100 * float(more.mean()), 196 * float(more.std()) / sqrt(len(more))
    return Interval(100 * float(differences.mean()), max(-100.0, middle - half), min(100.0, middle + half))


def ratio_interval(parts: NDArray[np.float64], wholes: NDArray[np.float64]) -> Interval:
    """The ratio Σ parts / Σ wholes over independent programs, in percent.

    Positions of one program are correlated, so the interval counts programs, not positions. One program gives 0 to 100.
    """
    whole, count = max(1.0, float(wholes.sum())), len(parts)
    share = float(parts.sum()) / whole
    if count < 2:
        return Interval(100 * share, 0.0, 100.0)
    half = 1.96 * sqrt(count / (count - 1) * float(((parts - share * wholes) ** 2).sum())) / whole
    return Interval(100 * share, 100 * max(0.0, share - half), 100 * min(1.0, share + half))


def _quantile(freedom: int) -> float:
    return _STUDENT[min(max(freedom, 1), max(_STUDENT))]
