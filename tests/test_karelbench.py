"""KarelBench's page, and the synthesizer of the example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from examples.enumerator import BUDGET, STATEMENTS, enumerate_programs
from tools.karelbench import PAGE, RESULTS, SETS, SYSTEMS, main, rendered

from karelsynth.evaluate import evaluate
from karelsynth.tasks.named import KARELBENCH, NAMED_SETS, named_tasks


def test_the_page_has_all_sets_and_the_scores_of_the_file() -> None:
    """If this fails: `python tools/karelbench.py --render`."""
    text = PAGE.read_text(encoding="utf-8")
    assert rendered(text) == text
    for name, made in NAMED_SETS.items():
        assert f"| `{name}` | {made.count:,} |" in text
        assert made.digest in text
    assert f"This is version {KARELBENCH}." in text


def test_scores_are_of_todays_sets() -> None:
    record = json.loads(RESULTS.read_text())
    assert record["karelbench"] == KARELBENCH
    assert record["systems"].keys() <= SYSTEMS.keys()
    for found in record["systems"].values():
        assert found.keys() <= set(SETS)
        for name, scores in found.items():
            if name not in ("longer", "deeper", "test_large"):  # which take long to draw
                assert scores["digest"] == named_tasks(name, scores["tasks"]).digest, name


def test_scores_are_kept_and_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tools.karelbench.RESULTS", tmp_path / "results.json")
    options = ["enumerator", "--tasks", "3", "--only", "examples_2", "classroom"]
    main(options)
    first = (tmp_path / "results.json").read_text()
    assert capsys.readouterr().out.count("3 tasks, top 1") == 2
    main(options)
    assert capsys.readouterr().out == ""
    assert (tmp_path / "results.json").read_text() == first
    main(["enumerator", "--tasks", "4", "--only", "classroom", "--seconds", "-1"])
    assert capsys.readouterr().out == "classroom: not begun\n"
    with pytest.raises(SystemExit):
        main([])


def test_the_enumerator_finds_short_programs() -> None:
    report = evaluate(enumerate_programs, "test", limit=20)
    figures = report.to_json()
    assert figures["consistent"] == dict.fromkeys(figures["consistent"], figures["any_consistent"])
    assert figures["generalization"]["1"] >= 25
    assert figures["syntax_share"]["1"] == 100.0
    assert (len(STATEMENTS), BUDGET) == (5 + 30 * 8 * 3, 100)
