"""The statistics of tasks, compared with those of the original data.

    rows = compare(compute(batch))
    all(row.within for row in rows)
    save_plot(rows, len(batch), "statistics.svg")

Every figure is measured on the tasks themselves, never taken from the generator: programs are read from their tokens
and run again. Shares of pairs are of all pairs that begin with the same statement ("after move"). The original's
figures are in `original_statistics.json`, in the order in which they are shown: by group, how far from them generated
tasks may be (`allowed`), and which part of the original they describe (`of`), if not its 2,500 test tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.charts import BLUE, GREY, MUTED, RED, bars, colour_legend, panels, save_chart
from karelsynth.errors import KarelsynthError
from karelsynth.generator.sampler import BODIES, PARENTS, STATEMENTS
from karelsynth.karel.formats.codes import FRAME, HERO, WALL
from karelsynth.karel.grammar import CONDITIONS
from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.machine import run_batch
from karelsynth.karel.tokens import ACTIONS, ID
from karelsynth.karel.world import HEADINGS
from karelsynth.tasks.batch import EXAMPLES, GIVEN_EXAMPLES, TaskBatch

Group = Mapping[str, float]
_AT_ONCE: Final = 4096
"""Tasks whose traces are held in memory at once."""
_PANELS: Final = 5
"""Panels in a line of the chart."""
_ACTION_IDS: Final = [ID[action] for action in ACTIONS]


@dataclass(frozen=True)
class Statistics:
    """The statistics of some tasks: named groups of named figures, all plain numbers."""

    tasks: int
    groups: Mapping[str, Group]


@dataclass(frozen=True)
class FigureComparison:
    """One figure, compared with the original's."""

    group: str
    name: str
    value: float
    original: float
    allowed: float | None
    """How far apart the two may be; None if the figure is shown for information only."""

    @property
    def distance(self) -> float:
        return abs(self.value - self.original)

    @property
    def within(self) -> bool:
        """Whether the distance is allowed, up to the rounding of the original's figure."""
        return self.allowed is None or self.distance <= self.allowed + 5e-4


def compute(batch: TaskBatch) -> Statistics:
    """All statistics of some tasks, at least one."""
    if len(batch) == 0:
        raise KarelsynthError("there are no tasks to take statistics of")
    groups: dict[str, Group] = {}
    for part in (_programs(batch), _runs(batch), _worlds(batch)):
        groups.update(part)
    return Statistics(len(batch), {name: groups[name] for name in ORIGINAL})


def compare(statistics: Statistics, *, judge: bool = True) -> list[FigureComparison]:
    """Every figure, compared with the original's. Without `judge` there are no tolerances."""
    return [
        FigureComparison(group, name, statistics.groups[group][name], original, figures.allowed if judge else None)
        for group, figures in ORIGINAL.items()
        for name, original in figures.values.items()
    ]


def save_plot(rows: Sequence[FigureComparison], tasks: int, path: str | Path) -> None:
    """Save a chart of the comparisons as `.svg` or `.png`: a panel of bars for each group.

    Figures without a tolerance in the original, or that are not finite, are left out.
    """
    shown = [row for row in rows if ORIGINAL[row.group].allowed is not None and isfinite(row.value)]
    groups = [(name, list(figures)) for name, figures in groupby(shown, key=lambda row: row.group)]
    outside = [f"{row.group}, {row.name}: {row.value:.3g} for {row.original:.3g}" for row in shown if not row.within]
    title = f"{tasks:,} tasks compared with the original data"
    if any(row.allowed is not None for row in shown):
        title += f": {len(shown) - len(outside)} of {len(shown)} figures within the tolerance"
    lines = -(-len(groups) // _PANELS)
    figure, axes = panels(1400, 100 + 150 * lines, rows=lines, columns=_PANELS, title=title)
    for axis, (name, figures) in zip(axes, groups, strict=False):
        colours = [BLUE if row.within else RED for row in figures]
        values = {
            "original": ([row.original for row in figures], GREY),
            "tasks": ([row.value for row in figures], colours),
        }
        bars(axis, [row.name for row in figures], values)
        axis.set_title(name, fontsize=10)
        axis.tick_params(labelsize=7, labelcolor=MUTED)
        axis.tick_params(axis="x", rotation=30 if len("".join(row.name for row in figures)) > 40 else 0)
    for axis in axes[len(groups) :]:
        axis.set_axis_off()
    colour_legend(figure, {"original": GREY, "these tasks": BLUE, "outside the tolerance": RED})
    description = f"Outside the tolerance: {'; '.join(outside)}." if outside else "All are within the tolerance."
    save_chart(figure, path, title=title, description=description)


def _named(names: Sequence[Any], counts: NDArray[Any]) -> Group:
    """Counts as shares of their sum."""
    total = max(float(counts.sum()), 1.0)
    return {str(name): float(count) / total for name, count in zip(names, counts, strict=True)}


def _counted(values: NDArray[Any], first: int, last: int) -> Group:
    """Shares of the values first … last among all values."""
    counts = np.bincount(values.ravel(), minlength=last + 1)
    return {str(value): float(counts[value]) / values.size for value in range(first, last + 1)}


def _quantiles(values: NDArray[Any], *percents: int) -> Group:
    if values.size == 0:
        return {f"{percent} %": 0.0 for percent in percents}
    return {f"{percent} %": float(np.percentile(values, percent)) for percent in percents}


def _ends(values: NDArray[Any], least: str, most: str) -> Group:
    return {least: float(values.min()), most: float(values.max())} if values.size else {least: 0.0, most: 0.0}


def _programs(batch: TaskBatch) -> dict[str, Group]:
    from karelsynth.tasks.statistics_kernel import count_programs

    counts = count_programs(np.ascontiguousarray(batch.tokens))
    statements = counts.statements
    held, total = (statements > 0).mean(axis=0), statements.sum(axis=0)
    lengths = batch.lengths.astype(np.int64)
    controls = statements[:, len(ACTIONS) :].sum(axis=1)
    holding = dict(zip(STATEMENTS, held.tolist(), strict=True))
    holding["not"] = float((batch.tokens == ID["not"]).any(axis=1).mean())
    groups: dict[str, Group] = {
        "program length": _quantiles(lengths, 10, 25, 50, 75, 90, 95),
        "program length beyond": {
            "mean": float(lengths.mean()),
            "sd": float(lengths.std()),
            "99%": float(np.percentile(lengths, 99)),
            **_ends(lengths, "shortest", "longest"),
        },
        "control depth": _counted(counts.depth, 0, 5),
        "control statements": _counted(controls, 0, 7),
        "top-level statements": _counted(counts.children[:, PARENTS.index("run")].sum(axis=1, dtype=np.int64), 1, 8),
        "actions": _named(ACTIONS, total[: len(ACTIONS)]),
        "control": _named(CLASSES[1:], total[len(ACTIONS) :]),
        "a program": {
            "actions": float(total[: len(ACTIONS)].sum() / len(batch)),
            "control": float(controls.mean()),
        },
        "programs that hold": holding,
        "conditions": _named(CONDITIONS, counts.conditions),
        "repeat count": _named(range(len(counts.repeats)), counts.repeats),
        "alone in a body": _named(STATEMENTS, counts.alone),
        "IFELSE": {"equal branches": float(counts.equal_branches / max(1, total[STATEMENTS.index("IFELSE")]))},
    }
    for body, row in zip(BODIES, counts.bodies, strict=True):
        groups[f"body length of {body}"] = _named(range(len(row)), row)
    for parent, row in zip(PARENTS, counts.children.sum(axis=0), strict=True):
        classes = np.concatenate([[row[: len(ACTIONS)].sum()], row[len(ACTIONS) :]])
        groups[f"children of {parent}"] = _named(CLASSES, classes)
        groups[f"actions in {parent}"] = _named(ACTIONS, row[: len(ACTIONS)])
    for first, row in zip(STATEMENTS, counts.pairs, strict=True):
        groups[f"after {first}"] = _named(STATEMENTS, row)
    return groups


def _replays(batch: TaskBatch) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """In chunks: trace lengths [N, E], counts of executed actions [5], distinct traces [N], outcome unseen [N]."""
    examples = min(EXAMPLES, batch.inputs.shape[1])
    for start in range(0, len(batch), _AT_ONCE):
        part = batch[start : start + _AT_ONCE]
        runs = run_batch(
            part.tokens, part.inputs[:, :examples], traces=True, coverage=True, keep_worlds=False, max_ticks=PAPER_TICKS
        )
        assert runs.traces is not None
        assert runs.trace_lengths is not None
        assert runs.coverage is not None
        executed = np.bincount(runs.traces.ravel(), minlength=len(ID))[_ACTION_IDS]
        longest = int(runs.trace_lengths.max(initial=1))
        traces = np.ascontiguousarray(runs.traces[:, :, :longest]).view(f"V{longest}")[..., 0]
        equal = traces[:, :, None] == traces[:, None, :]
        new = ~np.tril(equal, -1).any(axis=2)
        seen = np.bitwise_or.reduce(runs.coverage[:, :GIVEN_EXAMPLES], axis=1)
        conditionals = np.isin(part.tokens, [ID["IF"], ID["IFELSE"], ID["WHILE"]]).sum(axis=1)
        exists = np.arange(seen.shape[1]) < conditionals[:, None]
        yield runs.trace_lengths, executed, new.sum(axis=1), ((seen != 3) & exists).any(axis=1)


def _runs(batch: TaskBatch) -> dict[str, Group]:
    pieces = list(zip(*_replays(batch), strict=True))
    lengths, distinct, unseen = (np.concatenate(pieces[at]).astype(np.int64) for at in (0, 2, 3))
    return {
        "trace length": _quantiles(lengths, 50, 90, 99),
        "trace length, mean": {"mean": float(lengths.mean())},
        "trace length, ends": _ends(lengths, "shortest", "longest"),
        "distinct traces": _counted(distinct, 1, EXAMPLES),
        "executed actions": _named(ACTIONS, np.sum(pieces[1], axis=0)),
        "branches": {"outcome unseen": float(unseen.mean())},
    }


def _world_columns(batch: TaskBatch) -> tuple[NDArray[Any], ...]:
    """Of every input: size, hero, shares of walls and of marked cells; then the markers of all marked cells."""
    worlds = batch.inputs.reshape(-1, *batch.inputs.shape[2:])
    content, hero = worlds % HERO, worlds // HERO
    rows = (content[:, 1:, 1] < FRAME).sum(axis=1)
    cols = (content[:, 1, 1:] < FRAME).sum(axis=1)
    at = hero.reshape(len(hero), -1).argmax(axis=1)
    row, col = at // hero.shape[2] - 1, at % hero.shape[2] - 1
    each = np.arange(len(worlds))
    under = content.reshape(len(worlds), -1)[each, at]
    heading = hero.reshape(len(worlds), -1)[each, at] - 1
    walls = (content == WALL).sum(axis=(1, 2)) / (rows * cols)
    marked = (content > 0) & (content < WALL)
    markers = marked.sum(axis=(1, 2)) / (rows * cols)
    return rows, cols, row, col, under, heading, walls, markers, content[marked]


def _worlds(batch: TaskBatch) -> dict[str, Group]:
    pieces = [_world_columns(batch[at : at + _AT_ONCE]) for at in range(0, len(batch), _AT_ONCE)]
    rows, cols, row, col, under, heading, walls, markers, piles = map(np.concatenate, zip(*pieces, strict=True))
    ends = np.isin(row, 0).astype(int) + (row == rows - 1) + (col == 0) + (col == cols - 1)
    some_walls, some_markers = walls[walls > 0], markers[markers > 0]
    return {
        "grid size, mean": {"rows": float(rows.mean()), "columns": float(cols.mean())},
        "rows": _counted(rows, 2, 16),
        "columns": _counted(cols, 2, 16),
        "heading": _named(HEADINGS, np.bincount(heading, minlength=4)),
        "hero": {
            "bottom left": float(((row == 0) & (col == 0)).mean()),
            "edge, no corner": float((ends == 1).mean()),
            "on a marker": float((under > 0).mean()),
        },
        "worlds": {"without walls": float((walls == 0).mean()), "without markers": float((markers == 0).mean())},
        "share of walls": _quantiles(some_walls, 10, 25, 50, 75, 90),
        "share of walls, ends": _ends(some_walls, "least", "most"),
        "share of markers": _quantiles(some_markers, 10, 25, 50, 75, 90),
        "share of markers, ends": _ends(some_markers, "least", "most"),
        "markers on a cell": _counted(piles, 1, 9) if piles.size else dict.fromkeys(map(str, range(1, 10)), 0.0),
    }


# The original data.


@dataclass(frozen=True)
class Figures:
    """A group of figures, and by how much generated tasks may differ; None if it is shown for information only."""

    values: Mapping[str, float]
    allowed: float | None


def _figures(allowed: float | None, figures: Group | None = None, counts: Group | None = None, **_: str) -> Figures:
    """A group of the file: figures, or counts that become shares of their sum."""
    if counts is not None:
        figures = {name: count / sum(counts.values()) for name, count in counts.items()}
    return Figures(figures or {}, allowed)


_FILE: Final = json.loads((files("karelsynth.tasks") / "original_statistics.json").read_text(encoding="utf-8"))
ORIGINAL: Final[Mapping[str, Figures]] = {name: _figures(**group) for name, group in _FILE.items()}
PAIR_COUNTS: Final = tuple(tuple(_FILE[f"after {first}"]["counts"].values()) for first in STATEMENTS)
"""How often a statement (row) is followed by another (column) in the same block; order of STATEMENTS."""
CLASSES: Final = ("action", "REPEAT", "WHILE", "IF", "IFELSE")
