"""The rows of the paper's tables: recipes, the figures of Bunel et al. 2018, and budgets.

Figures are percent of tasks, unfiltered, top 1 unless a rank is given.

A budget says how long rows are trained. A row's recipe is its `short` budget, with which all rows were first measured.
`long` is nearer to the paper's: it changes some settings of every recipe, by kind of row. Results of different budgets
are kept apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from karelsynth.errors import KarelsynthError, names_hint

SetName = Literal["full", "small"]
SEEDS: Final[dict[SetName, tuple[int, ...]]] = {"full": (0,), "small": (0, 1, 2)}
"""The default seeds of a row, by its training set."""


@dataclass(frozen=True)
class TableRow:
    """A row of a table, for one of the two training sets."""

    recipe: str
    """The recipe's name, without `.toml`."""
    label: str
    """The paper's name."""
    tasks: SetName
    start: str | None = None
    """The row whose best model this one starts from."""
    generalization: dict[int, float] = field(default_factory=dict, hash=False)
    """The paper's figure, by rank."""
    exact: float | None = None
    """The paper's figure."""
    draws_masks: bool = False
    """Whether the figure of masks shows this row's model."""

    @property
    def in_paper(self) -> bool:
        """Whether the paper has figures of this row."""
        return bool(self.generalization) or self.exact is not None

    def paper_figure(self, measure: str, rank: int) -> float | None:
        """The paper's figure of a measure, `generalization` or `exact`; None if it has none."""
        return self.generalization.get(rank) if measure == "generalization" else self.exact


def _full() -> tuple[TableRow, ...]:
    return (
        TableRow("mle", "MLE", "full", None, {1: 71.91, 5: 79.56, 50: 86.37}, 39.94),
        TableRow("mle_learned", "MLE_learned", "full", None, {1: 69.37}, draws_masks=True),
        TableRow("mle_handwritten", "MLE_handwritten", "full", None, {1: 72.07}),
        TableRow("mle_large", "MLE_large", "full", None, {1: 73.67}),
        TableRow("rl", "RL", "full", "mle", {1: 68.39}, 34.74),
        TableRow("rl_beam", "RL_beam", "full", "mle", {1: 75.72, 5: 79.29, 50: 83.49}, 8.21),
        TableRow("rl_beam_div", "RL_beam_div", "full", "mle", {1: 76.20, 5: 82.09, 50: 85.86}, 31.25),
        TableRow("rl_beam_div_opt", "RL_beam_div_opt", "full", "mle", {1: 77.12, 5: 82.17, 50: 85.38}, 32.17),
    )


def _small() -> tuple[TableRow, ...]:
    return (
        TableRow("small_mle", "MLE", "small", None, {1: 12.58}, 8.93),
        TableRow("small_mle_learned", "MLE_learned", "small", None, {1: 17.02}),
        TableRow("small_mle_handwritten", "MLE_handwritten", "small", None, {1: 9.81}),
        TableRow("small_mle_large", "MLE_large", "small", None, {1: 13.14}),
        TableRow("small_rl", "RL", "small", "small_mle", {1: 0.0}, 0.0),
        TableRow("small_rl_beam", "RL_beam", "small", "small_mle", {1: 25.28}, 17.63),
        TableRow("small_rl_beam_div", "RL_beam_div", "small", "small_mle", {1: 23.72}, 16.31),
        TableRow("small_rl_beam_div_opt", "RL_beam_div_opt", "small", "small_mle", {1: 24.24}, 16.63),
    )


def _controls() -> tuple[TableRow, ...]:
    """Rows that are not in the paper: what RL's gain comes from, and the settings of the authors' code."""
    return (
        TableRow("mle_continued", "MLE, continued on RL's tasks", "full", "mle"),
        TableRow("rl_beam_no_reference", "RL_beam without the reference", "full", "mle"),
        TableRow("rl_beam_div_no_reference", "RL_beam_div without the reference", "full", "mle"),
        TableRow("rl_beam_div_opt_no_reference", "RL_beam_div_opt without the reference", "full", "mle"),
        TableRow("rl_signed", "RL, rewards ±1", "full", "mle"),
        TableRow("rl_beam_div_opt_signed", "RL_beam_div_opt, the authors' rewards", "full", "mle"),
        TableRow("rl_handwritten", "RL, handwritten syntax", "full", "mle_handwritten"),
        TableRow("rl_beam_handwritten", "RL_beam, handwritten syntax", "full", "mle_handwritten"),
        TableRow("rl_beam_div_opt_handwritten", "RL_beam_div_opt, handwritten syntax", "full", "mle_handwritten"),
        TableRow("rl_authors", "RL, the authors' settings", "full", "mle_handwritten"),
        TableRow("rl_beam_div_opt_authors", "RL_beam_div_opt, the authors' settings", "full", "mle_handwritten"),
        TableRow("small_rl_signed", "RL, rewards ±1", "small", "small_mle"),
    )


# The small set first: it is quick. Rows that others start from come before these.
ROWS: Final[dict[str, TableRow]] = {row.recipe: row for row in (*_small(), *_full(), *_controls())}
STARTS: Final = frozenset(row.start for row in ROWS.values() if row.start)
"""Rows whose models others start from."""
VALIDITY: Final = {1: (100.0, 0.0), 5: (100.0, 0.0), 50: (100.0, 0.0), 100: (99.79, 0.04)}
"""The paper's share of valid programs by rank: with the learned syntax, and without it."""
OBJECTIVES: Final = ("mle", "rl", "rl_beam", "rl_beam_div", "rl_beam_div_opt")
RANKED: Final = ("mle", "rl_beam", "rl_beam_div", "rl_beam_div_opt")
SYNTAXES: Final = ("mle", "mle_learned", "mle_handwritten", "mle_large")


def _both(recipes: Sequence[str]) -> tuple[str, ...]:
    """Rows with their counterparts on the small set, if they have one."""
    return (*(twin for name in recipes if (twin := f"small_{name}") in ROWS), *recipes)


TABLES: Final[dict[str, tuple[str, ...]]] = {
    "objectives": _both(OBJECTIVES),
    "ranks": RANKED,
    "syntax": _both(SYNTAXES),
    "validity": ("mle_learned",),
    "masks": ("mle_learned",),
    "aliasing": RANKED,
    "controls": tuple(row.recipe for row in _controls()),
    "all": tuple(ROWS),
}
"""The rows that each table or figure needs."""


@dataclass(frozen=True)
class Job:
    """A row and a seed: one model to train and measure."""

    row: TableRow
    seed: int

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.row.recipe}-seed{self.seed}"

    @property
    def start(self) -> Job | None:
        """The job whose model this one starts from, with the same seed."""
        return None if self.row.start is None else Job(ROWS[self.row.start], self.seed)


def jobs_of(
    table: str,
    *,
    only: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    by_set: Mapping[SetName, Sequence[int]] = SEEDS,
) -> list[Job]:
    """The jobs of a table, starts before their dependents; `only` some rows, or with other seeds than the set's."""
    rows = TABLES[_known(table, TABLES, "table")]
    for name in only:
        _known(name, rows, f"row of `{table}`")
    chosen = [row for row in ROWS.values() if row.recipe in rows and (not only or row.recipe in only)]
    return [Job(row, seed) for row in chosen for seed in (by_set[row.tasks] if seeds is None else seeds)]


def _known(name: str, names: Sequence[str] | dict[str, tuple[str, ...]], what: str) -> str:
    if name not in names:
        raise KarelsynthError(f"there is no {what} called `{name}`; {names_hint(name, names)}")
    return name


@dataclass(frozen=True)
class Budget:
    """How long rows are trained, how many seeds they have, and on how many tasks claims are decided."""

    name: str
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
SHORT: Final = Budget("short", SEEDS)
"""The recipes as they are: on the full set 15 passes of MLE, 256,000 tasks of RL."""
LONG: Final = Budget(
    "long",
    {"full": (0, 1, 2, 3, 4), "small": (0, 1, 2, 3, 4, 5, 6, 7)},
    claim_tasks=100_000,
    by_kind={
        "full first": (
            # More passes overfit, and so does a learning rate that falls to zero (docs/results.md).
            *(*_CHOICE, "run.steps=12000", "run.batch_size=2048", "run.validate_every=3000", "optimizer.final=0.5"),
        ),
        "full later": (
            *(*_CHOICE, "run.steps=4000", "run.batch_size=256", "run.validate_every=1000", "run.checkpoint_every=1000"),
            *("optimizer.schedule=cosine",),
        ),
        "small first": (*_CHOICE, "run.validate_every=390"),
        "small later": (*_CHOICE, "run.steps=1200", "run.validate_every=150", "optimizer.schedule=cosine"),
    },
    # Its second loss is a sum over the batch, which is twice as large.
    by_row={"mle_learned": ("objective.syntax_weight=6.25e-7",)},
)
"""On the full set 22 passes of MLE, a million tasks of RL with decay.

Models are chosen on 10,000 tasks, and claims are decided on 100,000.
"""
BUDGETS: Final = {budget.name: budget for budget in (SHORT, LONG)}


def budget_named(name: str) -> Budget:
    """The budget of this name; raises KarelsynthError for an unknown name."""
    return BUDGETS[_known(name, tuple(BUDGETS), "budget")]
