"""Intervals of means and differences over seeds, of paired differences over tasks, of ratios over programs.

They are 95 % intervals by default.

Few seeds make wide intervals: with three, the interval of the mean is 2.5 standard deviations to either side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import atan2, cos, pi, sin, sqrt
from statistics import NormalDist, mean, stdev, variance
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

LEVEL: Final = 0.95


class Interval(NamedTuple):
    """An estimate and its interval."""

    middle: float
    low: float
    high: float

    @classmethod
    def around(cls, middle: float, half: float) -> Interval:
        return cls(middle, middle - half, middle + half)


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Student's interval of the mean of two or more values."""
    half = student_quantile(len(values) - 1, level) * stdev(values) / sqrt(len(values))
    return Interval.around(mean(values), half)


def welch_interval(values: Sequence[float], others: Sequence[float], level: float = LEVEL) -> Interval:
    """Welch's interval of the difference between the means of two independent samples."""
    parts = [variance(sample) / len(sample) for sample in (values, others)]
    middle, whole = mean(values) - mean(others), sum(parts)
    if whole == 0:
        return Interval(middle, middle, middle)
    freedom = whole**2 / sum(part**2 / (len(sample) - 1) for part, sample in zip(parts, (values, others), strict=True))
    return Interval.around(middle, student_quantile(int(freedom), level) * sqrt(whole))


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

    def half(self, *counts: int, level: float = LEVEL) -> float:
        """Half the width of the interval of a difference between two means; `counts` are their numbers of seeds."""
        return student_quantile(self.freedom, level) * self.deviation * sqrt(sum(1 / count for count in counts))


def paired_interval(
    solved: NDArray[np.float64 | np.bool_], others: NDArray[np.float64 | np.bool_], level: float = LEVEL
) -> Interval:
    """The paired difference of two shares of the same tasks, in points.

    Args:
        solved: [tasks], how often the first row solved each task, from 0 to 1.
        others: [tasks], the same for the second row.

    Bonett and Price's interval: Wald's interval with two more tasks, one solved by each row alone. It keeps a positive
    width if both rows solve the same tasks.
    """
    differences = np.asarray(solved, np.float64) - np.asarray(others, np.float64)
    more = np.append(differences, (1.0, -1.0))
    middle, half = 100 * float(more.mean()), 100 * normal_quantile(level) * float(more.std()) / sqrt(len(more))
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


def normal_quantile(level: float) -> float:
    """z such that a standard normal number lies between −z and z with probability `level`; 1.96 at 95 %."""
    return 1.96 if level == LEVEL else NormalDist().inv_cdf((1 + level) / 2)


def student_quantile(freedom: int, level: float = LEVEL) -> float:
    """t such that a Student-distributed number lies between −t and t with probability `level`."""
    low, high = 0.0, 1.0
    while student_probability(high, freedom) < level:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if student_probability(middle, freedom) < level else (low, middle)
    return high


def student_probability(t: float, freedom: int) -> float:
    """The probability that a Student-distributed number with `freedom` degrees of freedom lies between −t and t.

    For whole degrees of freedom it is a finite sum in powers of the cosine of atan(t / √freedom).
    """
    freedom = max(freedom, 1)
    angle = atan2(t, sqrt(freedom))
    sine, cosine = sin(angle), cos(angle)
    odd = freedom % 2 == 1
    term, total = (cosine, cosine) if odd else (1.0, 1.0)
    for power in range(3 if odd else 2, freedom - 1, 2):
        term *= (power - 1) / power * cosine * cosine
        total += term
    if odd:
        return 2 / pi * (angle + (sine * total if freedom > 1 else 0.0))
    return sine * total


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: if all claims below α are accepted, any is false with probability at most α."""
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, number in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[number]))
        adjusted[number] = highest
    return adjusted
