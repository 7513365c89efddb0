"""Tasks with shifted distributions of worlds or programs, to measure generalization out of distribution.

    shifted_tasks("size", "16", 500)              # every world has 16 rows and 16 columns
    shifted_tasks("length", "66-72", 500)         # programs longer than any that is trained on

A family changes one of the sampler's fitted weights step by step; the steps are its points. All other rules hold:
nothing crashes, every example changes something, programs are in normal form, and as in `test` programs reserved for
testing occur at their natural rate. The random numbers are those of `test`, too. So for small changes many programs are
the same, and a point differs from `test` less by chance than independent sets would. What the filters accept depends on
the change: in tiny worlds, for example, only programs that need little room survive. So a curve shows how a model does
on such tasks, not the effect of the change on one and the same task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from karelsynth.errors import KarelsynthError, listed, quoted
from karelsynth.generator.sampler import LONGEST_FITTED, MAX_TOKENS, ONE, SLOTS, Sampler, build, read_weights
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.generate import TEST_SEED, generate

Weights = dict[str, Any]
Band = tuple[int, int]
"""The least and the greatest value, both included."""


@dataclass(frozen=True)
class Shift:
    """A family of tasks: which weight changes, and its values."""

    what: str
    """The quantity on the axis of a plot."""
    points: Mapping[str, Band]
    """The values by name, in the order of the axis."""
    change: Callable[[Weights, Band], None]
    """Change the weights, in place, to those of a point."""


def shifted_tasks(family: str, point: str, count: int, *, threads: int | None = None) -> TaskBatch:
    """The first `count` tasks of a point; raises KarelsynthError if there is no such family or point."""
    sampler = shifted_sampler(family, point)
    return generate(TEST_SEED, 0, count, reserved=True, threads=threads, sampler=sampler)


@cache
def shifted_sampler(family: str, point: str) -> Sampler:
    """The sampler of a point; raises KarelsynthError if there is no such family or point."""
    if family not in SHIFTS:
        raise KarelsynthError(f"there is no family called {quoted(family)}; there are {listed(SHIFTS, 'and')}")
    if point not in SHIFTS[family].points:
        names = listed(SHIFTS[family].points, "and")
        raise KarelsynthError(f"the family `{family}` has no point {quoted(point)}; it has {names}")
    weights = read_weights()
    shift = SHIFTS[family]
    shift.change(weights, shift.points[point])
    return build(weights)


def _only(band: Band) -> list[int]:
    """The weights of a row that draws the numbers of a band uniformly."""
    return [int(band[0] <= number <= band[1]) for number in range(SLOTS)]


def _size(weights: Weights, sides: Band) -> None:
    weights["rows"] = weights["cols"] = _only((sides[0] - 2, sides[1] - 2))  # the rows count from two


def _walls(weights: Weights, percent: Band) -> None:
    """Every cell is a wall with this probability, in all worlds."""
    weights["settings"]["bare"] = 0
    weights["walls"] = _only((0, 0))
    weights["densities"][0][0] = percent[0] * ONE // 100


def _markers(weights: Weights, percent: Band) -> None:
    """Every cell has markers with this probability. Walls and the size of piles do not change."""
    weights["markers"] = [_only((0, 0)), _only((0, 0))]
    weights["densities"][1][0] = percent[0] * ONE // 100


def _length(weights: Weights, tokens: Band) -> None:
    """Lengths of the band keep the ratios of their weights. Lengths beyond the fitted ones get that of the longest."""
    fitted = weights["keep_length"] + [weights["keep_length"][-1]] * (MAX_TOKENS - LONGEST_FITTED)
    kept = [weight if tokens[0] <= number <= tokens[1] else 0 for number, weight in enumerate(fitted)]
    weights["keep_length"] = [weight * ONE // max(kept) for weight in kept]


def _controls(weights: Weights, number: Band) -> None:
    kept = [weight * take for weight, take in zip(weights["keep_controls"], _only(number), strict=True)]
    weights["keep_controls"] = [weight * ONE // max(kept) for weight in kept]


_LENGTHS: Final = ((6, 15), (16, 25), (26, 35), (36, 45), (46, 55), (56, LONGEST_FITTED), (66, MAX_TOKENS))


def _each(*values: int) -> dict[str, Band]:
    """Points that are one value each."""
    return {str(value): (value, value) for value in values}


SHIFTS: Final[Mapping[str, Shift]] = MappingProxyType(
    {
        "size": Shift("rows and columns", _each(3, 5, 8, 11, 14, 16), _size),
        "walls": Shift("% of cells that are walls", _each(0, 5, 10, 20, 40, 60, 80), _walls),
        "markers": Shift("% of cells with markers", _each(0, 5, 10, 25, 50, 75, 100), _markers),
        "length": Shift("tokens of the program", {f"{low}-{high}": (low, high) for low, high in _LENGTHS}, _length),
        "controls": Shift("control statements of the program", {**_each(*range(6)), "6+": (6, SLOTS - 1)}, _controls),
    }
)
"""Worlds of 16 rows and columns are the largest that grids hold, programs of 72 tokens the longest that fit a batch."""
