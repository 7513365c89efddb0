"""Budgets: how long the rows are trained. Results of different budgets are kept apart.

A row's recipe is its `short` budget, with which all rows were first measured. `long` is nearer to the paper's. It
changes some settings of every recipe, by kind of row, and keeps the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from karelsynth.errors import KarelsynthError, listed, nearest
from karelsynth.reproduce.rows import SEEDS, SetName, TableRow


@dataclass(frozen=True)
class Budget:
    """How long rows are trained, how many seeds they have, and on how many tasks claims are decided."""

    name: str
    about: str
    seeds: Mapping[SetName, tuple[int, ...]] = field(hash=False)
    """The default seeds of a row, by its training set."""
    claim_tasks: int | None = None
    """How many tasks of `test_large` every model is also scored on, to decide claims; None to decide them on `test`."""
    by_kind: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Changes to recipes, as `section.key=value`, by `kind_of`."""
    by_row: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Further changes to single rows."""

    def changes(self, row: TableRow) -> tuple[str, ...]:
        """The changes to a row's recipe."""
        return (*self.by_kind.get(kind_of(row), ()), *self.by_row.get(row.recipe, ()))

    @property
    def results(self) -> Path:
        """Where results of this budget are, by default."""
        return Path("results") / self._folder

    @property
    def runs(self) -> Path:
        """Where models of this budget are trained, by default."""
        return Path("runs") / self._folder

    @property
    def _folder(self) -> str:
        return "reproduce" if self.name == "short" else f"reproduce-{self.name}"


def kind_of(row: TableRow) -> str:
    """`full first`, `full later`, `small first` or `small later`: by its set; later ones start from another row."""
    return f"{row.tasks} {'first' if row.start is None else 'later'}"


_CHOICE: Final = ("data.validation=val_large", "run.validation_tasks=10000")
SHORT: Final = Budget("short", "the recipes as they are: 15 passes of MLE, 256,000 tasks of RL (full set)", SEEDS)
LONG: Final = Budget(
    "long",
    "at most 44 passes of MLE, a million tasks of RL with decay (full set); chosen on 10,000 tasks, decided on 100,000",
    {"full": (0, 1, 2, 3, 4), "small": (0, 1, 2, 3, 4, 5, 6, 7)},
    claim_tasks=100_000,
    by_kind={
        "full first": (
            *(*_CHOICE, "run.steps=24000", "run.batch_size=2048", "run.validate_every=4000", "run.patience=1"),
        ),
        "full later": (
            *(*_CHOICE, "run.steps=4000", "run.batch_size=256", "run.validate_every=500", "run.checkpoint_every=500"),
            *("optimizer.schedule=cosine",),
        ),
        "small first": (*_CHOICE, "run.validate_every=390"),
        "small later": (*_CHOICE, "run.steps=1200", "run.validate_every=150", "optimizer.schedule=cosine"),
    },
    # Its second loss is a sum over the batch, which is twice as large.
    by_row={"mle_learned": ("objective.syntax_weight=6.25e-7",)},
)
BUDGETS: Final = {budget.name: budget for budget in (SHORT, LONG)}


def budget_named(name: str) -> Budget:
    """The budget of this name; raises KarelsynthError for an unknown name."""
    if name not in BUDGETS:
        close = nearest(name, BUDGETS)
        hint = f"did you mean `{close}`?" if close else f"there are {listed(BUDGETS, 'and')}"
        raise KarelsynthError(f"there is no budget called `{name}`; {hint}")
    return BUDGETS[name]
