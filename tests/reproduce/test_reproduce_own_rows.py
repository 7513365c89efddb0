"""Rows, tables and claims of one's own, beside the paper's."""

from __future__ import annotations

from pathlib import Path

import pytest

from karelsynth.reproduce import claims as claims_module
from karelsynth.reproduce import page, tables
from karelsynth.reproduce.claims import CLAIMS, Claim, claims, spread_of
from karelsynth.reproduce.results import Recipes, Results, read_results, with_staleness
from karelsynth.reproduce.rows import OBJECTIVES, ROWS, TABLES, TableRow, jobs_of
from karelsynth.reproduce.running import Paths
from tests.reproduce.small import write_recipes

_OWN = (
    TableRow("toy_mle", "toy MLE", "small"),
    TableRow("toy_rl", "toy RL", "small", "toy_mle"),
    TableRow("lone", "Lone", "full"),
)


@pytest.fixture
def own(measured: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Results, Recipes]:
    """Three rows without figures of the paper's, two of them in a table; two claims. What was measured, with theirs."""
    for row in _OWN:
        monkeypatch.setitem(ROWS, row.recipe, row)
    monkeypatch.setitem(TABLES, "toys", ("toy_mle", "toy_rl"))
    monkeypatch.setitem(TABLES, "all", tuple(ROWS))
    own_claims = Claim("Toys beat MLE", "toy_mle", "small_mle"), Claim("RL beats toys", "toy_rl", "toy_mle", 5, "exact")
    monkeypatch.setattr(claims_module, "CLAIMS", (*CLAIMS, *own_claims))
    monkeypatch.setattr(tables, "OBJECTIVES", (*OBJECTIVES, "lone"))
    monkeypatch.setattr(tables, "RANKED", ("mle", "lone"))
    results = tmp_path / "results"
    results.mkdir()
    for path in measured.results.iterdir():
        text = path.read_text()
        (results / path.name).write_text(text)
        if path.name.startswith("small_mle-"):
            name = path.name.replace("small_mle", "toy_mle")
            (results / name).write_text(text.replace('"row": "small_mle"', '"row": "toy_mle"'))
    return read_results(results), page.load_recipes(write_recipes(tmp_path / "recipes"))


def test_a_table_of_a_user_shows_its_rows(own: tuple[Results, Recipes]) -> None:
    heading, _, *lines = page.table_text("toys", *own).split("\n")
    assert heading == "| top 1, % | generalization | paper | exact | paper |"
    assert [line.split(" | ")[0] for line in lines] == ["| **toy MLE** (small set)", "| **toy RL** (small set)"]
    assert lines[0].count("[") == 2  # three seeds each
    assert lines[0].count("| – |") == 2
    assert lines[1].count(tables.NOT_YET) == 2
    assert [job.row.recipe for job in jobs_of("toys", seeds=[0])] == ["toy_mle", "toy_rl"]
    everything = page.table_text("all", *own)
    assert page.table_text("toys", *own) in everything
    assert "| **Lone** (full set) | not yet | – | not yet | – |" in everything  # which is in no table


def test_what_the_paper_lacks_is_a_dash(own: tuple[Results, Recipes]) -> None:
    assert "| **Lone** | not yet | – | not yet | – | – | – | – | – |" in tables.objectives(
        with_staleness(*own)
    )  # no twin, either
    assert "| **Lone** | not yet | – | not yet | – | not yet | – |" in tables.ranks(with_staleness(*own))
    toys, rl = claims(with_staleness(*own)).split("\n")[-2:]
    assert toys.startswith("| Toys beat MLE | toy MLE | MLE | – | +0.00 (")
    assert toys.endswith("| undecided | undecided (p = 1) |")
    assert rl == "| RL beats toys | toy RL | toy MLE | – | not yet |  | – |"
    text = page.page(*own)
    assert "| toy_mle-seed0 |" in text  # every run
    assert claims(with_staleness(*own)) in text


def test_rows_of_a_user_do_not_change_the_papers_claims(own: tuple[Results, Recipes]) -> None:
    results, recipes = own
    papers = {job: result for job, result in results.items() if job.row.recipe != "toy_mle"}
    spread = spread_of(with_staleness(results, recipes), "small", 1, "generalization")
    assert spread is not None
    assert spread.freedom == 2  # of small_mle's three seeds
    assert spread == spread_of(with_staleness(papers, recipes), "small", 1, "generalization")


def test_a_table_names_only_rows_that_there_are() -> None:
    assert all(name in ROWS for rows in TABLES.values() for name in rows)
