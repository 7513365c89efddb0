"""Budgets: what they change, and that their results are kept apart; claims on many tasks; Holm's correction."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karelsynth.errors import KarelsynthError
from karelsynth.reproduce import page, tables
from karelsynth.reproduce.claims import claims, difference, p_value
from karelsynth.reproduce.intervals import holm, student_probability, student_quantile
from karelsynth.reproduce.results import read_results, with_staleness
from karelsynth.reproduce.rows import LONG, ROWS, SHORT, Budget, budget_named
from karelsynth.reproduce.running import Paths
from karelsynth.tasks.named import named_tasks
from karelsynth.train.recipe import RECIPES
from tests.reproduce.small import jobs, runner


def test_the_long_budget_is_the_short_one_for_longer() -> None:
    short, long = (page.load_recipes(RECIPES, budget=budget) for budget in (SHORT, LONG))
    for name, row in ROWS.items():
        one, other = short[name], long[name]
        assert (one.model, one.start_from) == (other.model, other.start_from)
        seen = [recipe.run.steps * recipe.run.batch_size for recipe in (one, other)]
        assert seen[0] <= seen[1]
        assert (
            row.start is not None
            or row.tasks == "small"
            or seen[1] / (other.data.tasks or 1) == pytest.approx(22, abs=1)
        )
        assert row.start is None or row.tasks == "small" or seen[1] >= 1_000_000
        assert other.data.validation == "val_large"
        assert other.run.validation_tasks == 10_000
        weights = one.objective.syntax_weight * one.run.batch_size, other.objective.syntax_weight * other.run.batch_size
        assert one.model.syntax != "learned" or weights[0] == pytest.approx(weights[1])
    assert SHORT.results != LONG.results
    assert SHORT.runs != LONG.runs
    with pytest.raises(KarelsynthError, match="no budget called `longer`; did you mean `long`"):
        budget_named("longer")


def test_a_run_that_ended_early_is_finished(paths: Paths, measured: Paths, tmp_path: Path) -> None:
    """Its model is kept, rows start from it, and its result says at which step it ended."""
    changes = ("run.steps=40", "run.validate_every=1", "run.patience=1", "optimizer.learning_rate=1e-9")
    early = Budget("early", SHORT.seeds, by_kind={"full first": changes})
    paths = replace(paths, budget=early, keep=tmp_path / "kept")
    wanted = jobs("mle", "rl_beam")
    said: list[str] = []
    assert runner(paths, said).run(wanted) == dict.fromkeys(wanted, "done")
    mle, _ = (read_results(paths.results)[job].record for job in wanted)
    assert mle["training"]["steps"] == 2  # the weights stay, and so does the score
    assert mle["training"]["tasks"] == 2 * mle["recipe"]["run"]["batch_size"]
    assert json.loads((tmp_path / "kept" / "mle-seed0" / "trained.json").read_text())["training"] == mle["training"]
    for result in read_results(paths.results).values():  # one without patience counts as well
        assert result.is_current(page.load_recipes(paths.recipes, budget=early))
    assert runner(paths).run(wanted) == {}


def test_results_of_another_budget_are_not_current(paths: Paths, measured: Paths, tmp_path: Path) -> None:
    """A row of another budget is trained again, in folders of its own; its claims are decided on other tasks."""
    more = Budget("more", SHORT.seeds, by_kind={"small first": ("run.steps=5",)}, by_row={"mle": ("run.steps=9",)})
    wanted = jobs("small_mle", seeds=(0, 1))
    longer = replace(paths, budget=more, claim_tasks=6)
    assert runner(longer).run(wanted) == dict.fromkeys(wanted, "done")
    results, recipes = read_results(paths.results), page.load_recipes(paths.recipes, budget=more)
    for result in results.values():
        assert result.record["recipe"]["run"]["steps"] == 5
        assert result.is_current(recipes)
        assert not result.is_current(page.load_recipes(paths.recipes))
        assert result.last is not None
        assert result.last["tasks"] == result.report["tasks"] == 8
        scored = result.on_claim_tasks()
        assert scored is not None
        assert scored.report["tasks"] == 6
        assert result.record["claims"]["digest"] == named_tasks("test_large", 6).digest
        for rank, measure in ((1, "generalization"), (5, "generalization"), (50, "generalization"), (1, "exact")):
            solved = scored.solved(rank, measure)
            assert solved is not None
            assert len(solved) == 6
            assert 100 * solved.mean() == pytest.approx(scored.top(measure, rank), abs=0.01)
        assert scored.solved(5, "exact") is None
    assert tables.NOT_YET in claims(with_staleness(results, recipes))
    text = page.page(read_results(measured.results), page.load_recipes(measured.recipes), (results, recipes))
    assert "small_mle-seed1" in text


def test_p_values_agree_with_intervals(measured: Paths) -> None:
    results = read_results(measured.results)
    better, worse = (
        [result for job, result in results.items() if job.row.recipe == name] for name in ("mle_learned", "small_mle")
    )
    p = p_value(better, worse, 1, "exact", None)
    for factor, decided in ((1.01, True), (0.99, False)):
        _, low, high = difference(better, worse, 1, "exact", None, 1 - p * factor)
        assert (low > 0 or high < 0) == decided or p == 1


@given(st.integers(1, 40), st.floats(0.01, 0.999))
def test_students_quantile_inverts_its_probability(freedom: int, level: float) -> None:
    assert student_probability(student_quantile(freedom, level), freedom) == pytest.approx(level, abs=1e-9)


def test_students_quantiles_are_those_of_tables() -> None:
    known = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 9: 2.262, 30: 2.042}
    assert {freedom: round(student_quantile(freedom), 3) for freedom in known} == known
    assert student_quantile(4, 0.99) == pytest.approx(4.604, abs=1e-3)


def test_holms_correction() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []
