"""Results of rows, and the pages that are rendered from them; those of the repository are up to date."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from karelsynth.evaluate import as_bits, interval, percent
from karelsynth.reproduce import page, tables
from karelsynth.reproduce.claims import CLAIMS, ONE_SEED, UNEQUAL, claims, difference, spread_of
from karelsynth.reproduce.intervals import PooledDeviation, mean_interval, paired_interval, welch_interval
from karelsynth.reproduce.results import Result, ResultError, read_json, read_results, with_staleness
from karelsynth.reproduce.rows import LONG, ROWS, SHORT, TABLES, Job
from karelsynth.reproduce.running import Paths
from karelsynth.train.recipe import RECIPES
from tests.drawn import chart_description
from tests.reproduce.small import ROOT, jobs

# Results that are broken


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:500], r"small_mle-seed0\.json: not valid JSON .*remove the file"),
        (lambda text: "[]", r"not a JSON object; remove the file"),
        (lambda text: "[" * 100_000, r"not valid JSON .*remove the file"),
        (lambda text: text.replace('"row": "small_mle"', '"row": "smal"'), r"not a result: its \"row\""),
        (lambda text: text.replace('"seed": 0', '"seed": 1', 1), r"call it small_mle-seed1\.json"),
        (lambda text: text.replace('"confidence_95"', '"x"'), r'has no "report\.confidence_95"'),
        (lambda text: text.replace('"aliasing"', '"x"'), r'has no "aliasing"'),
        (lambda text: text.replace('"logprob"', '"x"', 1), r'has no "logprob"'),
        (lambda text: text.replace('"rank"', '"x"', 1), r'has no "rank"'),
        (
            lambda text: re.sub(r'"rank": \w+', '"rank": "first"', text, count=1),
            r'"rank" has the wrong type \(expected: number or null\)',
        ),
        (lambda text: re.sub(r'"exact": \{', '"exact": {"x": 1}, "y": {', text), r'has no "report\.exact\.1"'),
        (
            lambda text: re.sub(r'"run": \{[^}]*\}', '"run": 3', text),
            r'"recipe\.run" has the wrong type \(expected: object\)',
        ),
        (
            lambda text: re.sub(r'"seconds": [\d.]+', '"seconds": "x"', text),
            r'"training\.seconds" has the wrong type \(expected: number\)',
        ),
        (lambda text: re.sub(r'"50": "\w+"', '"50": "xy"', text), r'"solved\.50" is not 2 hexadecimal digits'),
        (lambda text: re.sub(r'"5": "\w+"', '"5": 7', text), r'"solved\.5" has the wrong type \(expected: text\)'),
        (lambda text: re.sub(r'"tasks": 8,', '"tasks": 0,', text), r'"report\.tasks" is no number of tasks'),
        (lambda text: re.sub(r'"tasks": 8,', '"tasks": NaN,', text), r'"report\.tasks" is no number of tasks'),
        (lambda text: re.sub(r'"tasks": 8,', '"tasks": 1000000000000,', text), r'"solved\.1" is not 250000000000 '),
    ],
)
def test_a_broken_result_gets_one_clear_message(change: Any, message: str, measured: Paths, tmp_path: Path) -> None:
    text = (measured.results / "small_mle-seed0.json").read_text()
    (tmp_path / "small_mle-seed0.json").write_text(change(text))
    with pytest.raises(ResultError, match=message):
        read_results(tmp_path)


def test_results_on_different_tasks_do_not_mix(measured: Paths, tmp_path: Path) -> None:
    shutil.copytree(measured.results, tmp_path / "results")
    path = tmp_path / "results" / "small_mle-seed1.json"
    path.write_text(path.read_text().replace('"data": "eight"', '"data": "test.json"'))
    with pytest.raises(ResultError, match=r"results on different test tasks"):
        read_results(tmp_path / "results")


# Rendering


def test_tables_show_what_was_measured_beside_the_paper(measured: Paths) -> None:
    results, recipes = read_results(measured.results), page.load_recipes(measured.recipes)
    text = tables.objectives(with_staleness(results, recipes))
    lines = {line.split("**")[1]: [part.strip() for part in line.split("|")[2:-1]] for line in text.split("\n")[2:]}
    mine = [results[job].top("exact") for job in jobs("small_mle", seeds=(0, 1, 2))]
    assert lines["MLE"][1] == "71.91"
    assert lines["MLE"][0] == tables.NOT_YET
    half = 4.303 * np.std(mine, ddof=1) / 3**0.5
    assert lines["MLE"][6] == f"{np.mean(mine):.2f} [{max(np.mean(mine) - half, 0):.2f}–{np.mean(mine) + half:.2f}]"
    assert lines["RL_beam"][4].endswith("1 of 3 seeds")
    assert lines["RL_beam"][5] == "25.28"
    result = results[jobs("rl_beam")[0]]
    low, high = result.interval("generalization", 5)
    assert f"| {result.top('generalization', 5):.2f} ({low:.2f}–{high:.2f}) | 79.29 |" in tables.ranks(
        with_staleness(results, recipes)
    )
    assert tables.NOT_YET not in tables.validity(with_staleness(results, recipes))
    runs = tables.every_run(with_staleness(results, recipes))
    assert len(runs.split("\n")) == 2 + len(results)
    assert f"| rl_beam-seed0 | {result.top('generalization'):.2f} (" in runs


def result_of(seed: int, right: NDArray[np.bool_], *, bits: bool, row: str = "mle") -> Result:
    """A result of a row that is right on some tasks."""
    count = len(right)
    share = {"50": percent(int(right.sum()), count)}
    report = {
        "tasks": count,
        "generalization": share,
        "confidence_95": {"generalization": {"50": interval(int(right.sum()), count)}},
    }
    solved = {"solved": {"50": as_bits(right)}} if bits else {}
    return Result(Job(ROWS[row], seed), {"report": report, **solved})


def test_differences_between_rows() -> None:
    """Task by task where that is known, by independent shares where not; over seeds, where there are several."""
    rng = np.random.default_rng(1)
    one = rng.random(2500) < 0.7
    other = one & (rng.random(2500) < 0.98)
    middle, low, high = difference([result_of(0, one, bits=True)], [result_of(0, other, bits=True)], 50)
    assert middle == pytest.approx(100 * (one.mean() - other.mean()), abs=0.011)
    assert 0 < low < middle < high
    assert (low, high) == pytest.approx(paired_interval(one, other)[1:], abs=0.01)
    _, wide, _ = difference([result_of(0, one, bits=True)], [result_of(0, other, bits=False)], 50)
    assert wide < 0 < low
    # Newcombe's own example: 56 of 70 and 48 of 80 give 0.0524 to 0.3339.
    first, second = np.arange(70) < 56, np.arange(80) < 48
    newcombe = difference([result_of(0, first, bits=False)], [result_of(0, second, bits=False)], 50)
    assert newcombe == pytest.approx((20, 5.24, 33.39), abs=0.02)
    shares = [(0.70, 0.68), (0.72, 0.69), (0.71, 0.70)]

    def row(name: str, side: int) -> list[Result]:
        return [
            result_of(seed, np.arange(100) < 100 * pair[side], bits=True, row=name) for seed, pair in enumerate(shares)
        ]

    def solved(side: int, seeds: slice = slice(None)) -> NDArray[Any]:
        runs: NDArray[np.bool_] = np.stack([np.arange(100) < 100 * pair[side] for pair in shares[seeds]])
        return np.asarray(runs.mean(axis=0))

    def both(middle: float, over_seeds: float, one: NDArray[Any], other: NDArray[Any]) -> object:
        found = paired_interval(one, other)
        below, above = (np.hypot(over_seeds, end - found.middle) for end in (found.low, found.high))
        return pytest.approx((middle, middle - below, middle + above), abs=0.01)

    # One starts from the other, or both from a third: differences of 2, 3 and 1 points, so standard deviation 1.
    for better, worse in (("rl_beam", "mle"), ("mle", "rl_beam"), ("rl_beam_div", "rl_beam")):
        found = difference(row(better, 0), row(worse, 1), 50)
        assert found == both(2, 4.303 / 3**0.5, solved(0), solved(1))
    # Otherwise Welch's: both have standard deviation 1, so 4 degrees of freedom.
    found = difference(row("mle_learned", 0), row("mle", 1), 50)
    assert found == both(2, 2.776 * (2 / 3) ** 0.5, solved(0), solved(1))
    # One of the two has a single seed: the same seed of related rows, or else all seeds; others as far as is known.
    alone = slice(1, 2)
    for spread, half in ((None, 0), (PooledDeviation(1.0, 4), 2.776)):
        found = difference(row("rl_beam", 0), row("mle", 1)[alone], 50, spread=spread)
        assert found == both(3, half * 2**0.5, solved(0, alone), solved(1, alone))
        found = difference(row("mle_learned", 0), row("mle", 1)[alone], 50, spread=spread)
        assert found == both(2, half * (4 / 3) ** 0.5, solved(0), solved(1, alone))


def test_the_interval_over_the_same_tasks_does_not_vanish() -> None:
    """Where both rows solve the same tasks, or none; elsewhere it holds the truth at least as often as it says."""
    none, every = np.zeros(2500), np.ones(2500)
    for one in (none, every):
        middle, low, high = paired_interval(one, one)
        assert middle == 0
        assert high == -low == pytest.approx(196 * 2**0.5 / 2502)
    share = 2500 / 2502  # one of the two tasks more is on either side
    lowest = 100 * share - 196 * ((1 - share**2) / 2502) ** 0.5
    assert paired_interval(every, none) == pytest.approx((100, lowest, 100))
    # Of 2,500 tasks 100 are solved by one row only, and 50 by the other only: hardly wider than Wald's.
    numbers = np.arange(2500)
    first, second = numbers < 1100, (numbers >= 100) & (numbers < 1150)
    wald = 196 * np.std(first.astype(float) - second) / 50
    assert paired_interval(first, second) == pytest.approx((2, 2 - wald, 2 + wald), abs=0.01)
    rng, held = np.random.default_rng(0), list[bool]()
    for _ in range(2000):  # how often of three seeds each solves a task, few of them ever
        hard = rng.random(100) < 0.9
        one, two = (np.where(hard, 0, rng.binomial(3, chance, 100) / 3) for chance in (0.6, 0.4))
        _, low, high = paired_interval(one, two)
        held.append(low <= 2 <= high)
    assert 0.95 < np.mean(held) <= 1


def test_a_single_seed_gets_the_variance_of_rows_with_several(measured: Paths) -> None:
    """By rows that start from none, and by today's recipes; where there are none, the verdict says so."""
    results, recipes = read_results(measured.results), page.load_recipes(measured.recipes)
    one = results[Job(ROWS["small_mle"], 0)]

    def with_share(job: Job, share: float, recipe: str = "mle") -> Result:
        report = {**one.report, "generalization": {**one.report["generalization"], "1": share}}
        start = None if job.row.start is None else recipes["mle"].to_json()
        bits = {"1": as_bits(np.arange(8) < 8 * share / 100)}
        record = {**one.record, "report": report, "recipe": recipes[recipe].to_json(), "start": start, "solved": bits}
        return Result(job, record)

    def spread(*jobs: tuple[str, int, float]) -> PooledDeviation | None:
        rows = {Job(ROWS[name], seed): with_share(Job(ROWS[name], seed), share) for name, seed, share in jobs}
        return spread_of(with_staleness(rows, recipes), "full", 1, "generalization")

    assert spread(("mle", 0, 60.0), ("rl", 0, 50.0), ("rl", 1, 70.0)) is None
    assert spread(("mle", 0, 60.0), ("mle", 1, 62.0), ("small_mle", 0, 1.0), ("small_mle", 1, 9.0)) == (2**0.5, 1)
    assert spread(("mle_large", 0, 60.0), ("mle_large", 1, 62.0)) is None  # by another recipe than theirs
    better, worse = Job(ROWS["mle"], 0), Job(ROWS["rl"], 0)
    rows = {better: with_share(better, 100.0), worse: with_share(worse, 0.0, "rl")}
    assert f"| held{ONE_SEED} |" in claims(with_staleness(rows, recipes))


def test_spread_is_pooled_over_rows() -> None:
    pooled = PooledDeviation.pooled([[1.0, 3.0], [10.0, 11.0, 12.0], [7.0]])
    assert pooled == pytest.approx(((2 + 2) ** 0.5 / 3**0.5, 3))
    assert PooledDeviation.pooled([[7.0], []]) is None


def test_intervals_over_seeds() -> None:
    few, many = [20.0, 21.0, 25.0], [18.0, 22.0, 30.0, 26.0, 24.0]
    parts = np.var(few, ddof=1) / 3, np.var(many, ddof=1) / 5
    freedom = int(sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 4))
    assert freedom == 5
    half = 2.571 * sum(parts) ** 0.5
    assert welch_interval(few, many) == pytest.approx((-2, -2 - half, -2 + half), rel=1e-3)
    assert welch_interval([1.0, 1.0], [3.0, 3.0]) == (-2, -2, -2)
    assert mean_interval([1.0, 2.0, 3.0]) == pytest.approx((2, 2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5), rel=1e-3)


def test_every_claim_has_a_verdict(measured: Paths) -> None:
    results, recipes = read_results(measured.results), page.load_recipes(measured.recipes)
    text = claims(with_staleness(results, recipes))
    assert len(text.split("\n")) == 2 + len(CLAIMS)
    for line, claim in zip(text.split("\n")[2:], CLAIMS, strict=True):
        ours, verdict, corrected = (part.strip() for part in line.split("|")[-4:-1])
        there = all(tables.seeds_of(results, ROWS[name]) for name in (claim.better, claim.worse))
        assert (verdict in ("held", "undecided", "the opposite")) == there == (ours != tables.NOT_YET)
        assert bool(re.fullmatch(r"(held|undecided|the opposite) \(p = .*\)", corrected)) == there
        assert claim.paper is not None
        assert claim.paper > 0  # they are claims of the paper's


def test_what_is_shown_of_one_seed_names_it(measured: Paths, tmp_path: Path) -> None:
    for path in measured.results.iterdir():
        shutil.copy(path, tmp_path)
    for name in ("mle_learned", "rl_beam"):
        text = (tmp_path / f"{name}-seed0.json").read_text()
        (tmp_path / f"{name}-seed0.json").unlink()
        (tmp_path / f"{name}-seed4.json").write_text(text.replace('"seed": 0', '"seed": 4'))
    results, recipes = read_results(tmp_path), page.load_recipes(measured.recipes)
    assert "(seed 4)" in tables.validity(with_staleness(results, recipes)).split("\n")[0]
    assert tables.NOT_YET not in tables.validity(with_staleness(results, recipes))
    assert "| **RL_beam** (seed 4) |" in tables.aliasing(with_staleness(results, recipes))
    assert "| **MLE** | not yet |" in tables.aliasing(with_staleness(results, recipes))
    assert "Of MLE_learned, seed 4:" in page.page(results, recipes)


def test_validations_are_shown_and_the_chosen_one_is_in_bold(measured: Paths) -> None:
    results = read_results(measured.results)
    job = Job(ROWS["rl_beam"], 0)

    def with_validations(*validations: tuple[int, float, float]) -> dict[Job, Result]:
        record = results[job].record
        training = {**record["training"], "validations": [list(one) for one in validations]}
        return {**results, job: Result(job, {**record, "training": training})}

    text = tables.along_training(with_validations((250, 70.0, 38.25), (500, 71.0, 4.0), (1000, 71.0, 3.0)))
    heading, _, line = text.split("\n")
    assert heading.endswith("| 250 | 500 | 1,000 |")
    assert line == "| rl_beam-seed0 | 38.2 / 70.0 | **4.0** / **71.0** | 3.0 / 71.0 |"  # of equal ones the first
    assert tables.along_training(with_validations()) == "No result here has kept its validations."
    assert tables.along_training({}) == "The table: not yet."


def test_all_that_is_stale_is_marked(measured: Paths) -> None:
    results, recipes = read_results(measured.results), page.load_recipes(measured.recipes)
    assert tables.STALE not in page.page(results, recipes)
    changed = {name: recipes[name] for name in ("mle", "mle_learned")}
    changed = {name: replace(one, data=replace(one.data, drop_examples=0.5)) for name, one in changed.items()}
    recipes = {**recipes, **changed}
    runs = tables.every_run(with_staleness(results, recipes))
    assert "| rl_beam-seed0† |" in runs  # for it started from `mle`
    assert "| small_rl_beam-seed0 |" in runs
    assert "| **RL_beam** (seed 0)† |" in tables.aliasing(with_staleness(results, recipes))
    text = page.page(results, recipes)
    assert "Of MLE_learned, seed 0†:" in text
    assert "†: by another recipe than today's." in text
    assert tables.STALE in tables.validity(with_staleness(results, recipes))
    learned = next(result for result in results.values() if result.job.row.recipe == "mle_learned")
    both = {**results, Job(ROWS["mle_large"], 0): replace(learned, job=Job(ROWS["mle_large"], 0))}
    lines = [line for line in claims(with_staleness(both, recipes)).split("\n") if tables.STALE in line]
    assert lines
    assert all(line.endswith(f"| {UNEQUAL} | – |") for line in lines)


def test_pages_and_pictures_are_rendered_from_results_alone(measured: Paths, tmp_path: Path) -> None:
    written = page.render(measured.results, page.load_recipes(measured.recipes), tmp_path)
    assert sorted(path.name for path in written) == ["aliasing.svg", "masks.svg", "masks_test.svg", "results.md"]
    text = (tmp_path / page.PAGE).read_text()
    assert "both are right" in text
    assert "masks_test.svg" in text
    before = {path: path.read_bytes() for path in written}
    page.render(measured.results, page.load_recipes(measured.recipes), tmp_path)
    assert before == {path: path.read_bytes() for path in written}


def test_rendering_without_results_says_not_yet(tmp_path: Path) -> None:
    files = page.rendered(tmp_path / "none", page.load_recipes(RECIPES))
    assert set(files) == {page.PAGE, "docs/pictures/aliasing.svg"}
    short = 4 * 5 + 3 * 5 + 3 * 4 + 2 * 4 + 2 * 4 + 1 + 4 * 4 + 1 + len(CLAIMS)
    both = 2 * 2 * len(TABLES["controls"]) + 2 * len(ROWS)
    assert files[page.PAGE].count(tables.NOT_YET) == short + both + 3
    assert "Nothing is measured yet" in files[page.PAGE]


def test_the_pages_of_the_repository_agree_with_its_results() -> None:
    """If this fails: `karelsynth reproduce --render`."""
    recipes = page.load_recipes(RECIPES)
    longer = ROOT / LONG.results, page.load_recipes(RECIPES, budget=LONG)
    for name, text in page.rendered(ROOT / SHORT.results, recipes, longer).items():
        found = (ROOT / name).read_text(encoding="utf-8")
        if name in page.CHARTS:  # other versions of matplotlib draw otherwise
            found, text = chart_description(found), chart_description(text)
        assert found == text, name


def test_the_page_quotes_the_runs_with_decay() -> None:
    """That table is written by hand; each of its rows agrees with the report in `results/rl_decay`."""
    text = (ROOT / page.PAGE).read_text(encoding="utf-8")
    _, _, section = text.partition("### RL with decay")
    reports = {ROWS[path.stem].label: read_json(path, "") for path in (ROOT / "results/rl_decay").glob("*.json")}
    reports["MLE continued"] = reports.pop(ROWS["mle_continued"].label)["report"]
    reports["MLE"] = read_json(ROOT / LONG.results / "mle-seed0.json", "")["report"]
    assert len(reports) == 5
    for label, report in reports.items():
        (line,) = [line for line in section.splitlines() if line.startswith(f"| **{label}** | ")][:1]
        top_1, _, exact, _, top_5, _, top_50, _, filtered, _ = line.strip("| ").split(" | ")[1:]
        generalization = [report["generalization"][rank] for rank in ("1", "5", "50")]
        found = [*generalization, report["exact"]["1"], report["filtered_generalization"]]
        assert [float(figure) for figure in (top_1, top_5, top_50, exact, filtered)] == found, label
