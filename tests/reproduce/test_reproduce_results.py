"""Results of rows, and the pages that are rendered from them; those of the repository are up to date."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from karelsynth.reproduce import page, tables
from karelsynth.reproduce.results import ResultError, read_results
from karelsynth.reproduce.running import Places
from tests.reproduce.small import ROOT, jobs

# Results that are broken


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:500], r"small_mle-seed0\.json: not valid JSON .*remove the file"),
        (lambda text: "[]", r"is no JSON object; remove the file"),
        (lambda text: "[" * 100_000, r"not valid JSON .*remove the file"),
        (lambda text: text.replace('"row": "small_mle"', '"row": "smal"'), r"is no result: its \"row\""),
        (lambda text: text.replace('"seed": 0', '"seed": 1', 1), r"call it small_mle-seed1\.json"),
        (lambda text: text.replace('"confidence_95"', '"x"'), r'has no "report\.confidence_95"'),
        (lambda text: text.replace('"aliasing"', '"x"'), r'has no "aliasing"'),
        (lambda text: text.replace('"logprob"', '"x"', 1), r'has no "logprob"'),
        (lambda text: text.replace('"rank"', '"x"', 1), r'has no "rank"'),
        (lambda text: re.sub(r'"rank": \w+', '"rank": "first"', text, count=1), r'"rank" is no number or null'),
        (lambda text: re.sub(r'"exact": \{', '"exact": {"x": 1}, "y": {', text), r'has no "report\.exact\.1"'),
        (lambda text: re.sub(r'"run": \{[^}]*\}', '"run": 3', text), r'"recipe\.run" is no object'),
        (lambda text: re.sub(r'"seconds": [\d.]+', '"seconds": "x"', text), r'"training\.seconds" is no number'),
    ],
)
def test_a_broken_result_gets_one_clear_message(change: Any, message: str, measured: Places, tmp_path: Path) -> None:
    text = (measured.results / "small_mle-seed0.json").read_text()
    (tmp_path / "small_mle-seed0.json").write_text(change(text))
    with pytest.raises(ResultError, match=message):
        read_results(tmp_path)


def test_results_on_different_tasks_do_not_mix(measured: Places, tmp_path: Path) -> None:
    shutil.copytree(measured.results, tmp_path / "results")
    path = tmp_path / "results" / "small_mle-seed1.json"
    path.write_text(path.read_text().replace('"data": "eight"', '"data": "test.json"'))
    with pytest.raises(ResultError, match=r"results on different test tasks"):
        read_results(tmp_path / "results")


# Rendering


def test_tables_show_what_was_measured_beside_the_paper(measured: Places) -> None:
    results, recipes = read_results(measured.results), page.load_recipes(measured.recipes)
    text = tables.objectives(results, recipes)
    lines = {line.split("**")[1]: [part.strip() for part in line.split("|")[2:-1]] for line in text.split("\n")[2:]}
    mine = [results[job].top("exact") for job in jobs("small_mle", seeds=(0, 1, 2))]
    assert lines["MLE"][1] == "71.91"
    assert lines["MLE"][0] == tables.NOT_YET
    assert lines["MLE"][6] == f"{np.mean(mine):.2f} [{min(mine):.2f}–{max(mine):.2f}]"
    assert lines["RL_beam"][4].endswith("1 of 3 seeds")
    assert lines["RL_beam"][5] == "25.28"
    result = results[jobs("rl_beam")[0]]
    low, high = result.interval("generalization", 5)
    assert f"| {result.top('generalization', 5):.2f} ({low:.2f}–{high:.2f}) | 79.29 |" in tables.ranks(results, recipes)
    assert tables.NOT_YET not in tables.validity(results, recipes)
    runs = tables.every_run(results, recipes)
    assert len(runs.split("\n")) == 2 + len(results)
    assert f"| rl_beam-seed0 | {result.top('generalization'):.2f} (" in runs


def test_what_is_shown_of_one_seed_names_it(measured: Places, tmp_path: Path) -> None:
    for path in measured.results.iterdir():
        shutil.copy(path, tmp_path)
    for name in ("mle_learned", "rl_beam"):
        text = (tmp_path / f"{name}-seed0.json").read_text()
        (tmp_path / f"{name}-seed0.json").unlink()
        (tmp_path / f"{name}-seed4.json").write_text(text.replace('"seed": 0', '"seed": 4'))
    results, recipes = read_results(tmp_path), page.load_recipes(measured.recipes)
    assert "(seed 4)" in tables.validity(results, recipes).split("\n")[0]
    assert tables.NOT_YET not in tables.validity(results, recipes)
    assert "| **RL_beam** (seed 4) |" in tables.aliasing(results, recipes)
    assert "| **MLE** | not yet |" in tables.aliasing(results, recipes)
    assert "Of MLE_learned, seed 4:" in page.page(results, recipes)


def test_all_that_is_stale_is_marked(measured: Places) -> None:
    results, recipes = read_results(measured.results), page.load_recipes(measured.recipes)
    assert tables.STALE not in page.page(results, recipes)
    changed = {name: recipes[name] for name in ("mle", "mle_learned")}
    changed = {name: replace(one, data=replace(one.data, fewer=0.5)) for name, one in changed.items()}
    recipes = {**recipes, **changed}
    runs = tables.every_run(results, recipes)
    assert "| rl_beam-seed0† |" in runs  # for it started from `mle`
    assert "| small_rl_beam-seed0 |" in runs
    assert "| **RL_beam** (seed 0)† |" in tables.aliasing(results, recipes)
    text = page.page(results, recipes)
    assert "Of MLE_learned, seed 0†:" in text
    assert "†: by another recipe than today's." in text
    assert tables.STALE in tables.validity(results, recipes)


def test_pages_and_pictures_are_rendered_from_results_alone(measured: Places, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"# Above\n{page.BEGIN}\nold\n{page.END}\nbelow\n")
    written = page.render(measured.results, page.load_recipes(measured.recipes), tmp_path)
    assert sorted(path.name for path in written) == [
        "README.md", "aliasing.svg", "masks.svg", "masks_test.svg", "results.md",
    ]  # fmt: skip
    assert readme.read_text().startswith(f"# Above\n{page.BEGIN}\n\n| top 1, % |")
    assert readme.read_text().endswith(f"{page.END}\nbelow\n")
    assert "old" not in readme.read_text()
    text = (tmp_path / page.PAGE).read_text()
    assert "both are right" in text
    assert "masks_test.svg" in text
    before = {path: path.read_bytes() for path in written}
    page.render(measured.results, page.load_recipes(measured.recipes), tmp_path)
    assert before == {path: path.read_bytes() for path in written}


def test_rendering_without_results_says_not_yet(tmp_path: Path) -> None:
    files = page.rendered(tmp_path / "none", page.load_recipes(ROOT / "recipes"), tmp_path)
    assert set(files) == {page.PAGE, "docs/pictures/aliasing.svg"}
    assert files[page.PAGE].count(tables.NOT_YET) == 4 * 5 + 3 * 4 + 2 * 4 + 2 * 4 + 1 + 4 * 4
    assert "Nothing is measured yet" in files[page.PAGE]


def test_the_pages_of_the_repository_agree_with_its_results() -> None:
    """If this fails: `karelsynth reproduce --render`."""
    recipes = page.load_recipes(ROOT / "recipes")
    for name, text in page.rendered(ROOT / "results" / "reproduce", recipes, ROOT).items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, name
