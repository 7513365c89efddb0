"""The evaluator: how tasks are counted, by both protocols."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from karelsynth.errors import KarelsynthError
from karelsynth.evaluate import MEASURES, PAIRED, RANKS, SOLVED, Judged, Report, evaluate, from_bits, interval, percent
from karelsynth.karel.tokens import ID
from karelsynth.karel.world import World
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.generate import generate
from tests.models import tiny_model


def report_of(tasks: TaskBatch, monkeypatch: pytest.MonkeyPatch, answers: list[list[list[int]]]) -> dict[str, Any]:
    from karelsynth import evaluate as module
    from karelsynth.search import Candidates

    slots, width = len(answers[0]), tasks.tokens.shape[1]
    tokens = torch.zeros(len(tasks), slots, width, dtype=torch.uint8)
    for row, candidates in enumerate(answers):
        for slot, program in enumerate(candidates):
            tokens[row, slot, : len(program)] = torch.tensor(program, dtype=torch.uint8)
    lengths = (tokens > 0).sum(2)
    logprobs = torch.where(lengths > 0, 0.0, -torch.inf)
    whole = Candidates(tokens, lengths, logprobs)
    monkeypatch.setattr(module, "decode", lambda *_, **__: whole)
    return evaluate(tiny_model(), tasks, beam=slots, batch_size=len(tasks)).to_json()


def test_the_evaluator_counts_as_the_paper_does(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = generate(3, 0, 4, reserved=True)
    right = [row[:length].tolist() for row, length in zip(tasks.tokens, tasks.lengths, strict=True)]
    wrong = [3, 4, 20, 16, 21]  # DEF run m( turnLeft m)
    broken = [3, 4, 20, 16]
    answers = [
        [right[0], wrong, broken],  # right at once
        [wrong, right[1], broken],  # right at rank 2, and right when filtered
        [broken, wrong, wrong],  # never
        [wrong, wrong, []],  # never, and one slot empty
    ]
    report = report_of(tasks, monkeypatch, answers)
    assert report["tasks"] == 4
    assert report["consistent"]["1"] == 25.0
    assert report["generalization"] == {"1": 25.0, "5": 50.0, "50": 50.0, "100": 50.0}
    assert report["exact"]["1"] == 25.0
    assert report["syntax"] == {"1": 75.0, "5": 100.0, "50": 100.0, "100": 100.0}
    assert report["syntax_share"]["1"] == 75.0
    assert report["syntax_share"]["5"] == round(100 * 8 / 11, 2)
    assert report["filtered_generalization"] == 50.0
    assert report["any_consistent"] == 50.0
    assert report["novel"]["tasks"] == int(tasks.novel.sum())
    assert report["provenance"]["torch"] == torch.__version__
    assert set(MEASURES) | {"novel", "seconds_per_task", "confidence_95"} <= report.keys()
    assert all(str(rank) in report["consistent"] for rank in RANKS)


def test_filtered_is_the_first_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right or wrong on the sixth example, whatever comes later."""
    fits, right, wrong = ([ID[word] for word in text.split()] for text in (
        "DEF run m( move m)", "DEF run m( WHILE c( frontIsClear c) w( move w) m)", "DEF run m( turnLeft m)",
    ))  # fmt: skip
    floor = "\n# # #\n"
    given = [(World.parse("> . #" + floor), World.parse(". > #" + floor))] * 5
    whole = [*given, (World.parse("> . ." + floor), World.parse(". . >" + floor))]  # where `fits` stops too soon
    worlds = [np.stack([world.to_codes() for world in side])[None].repeat(3, 0) for side in zip(*whole, strict=True)]
    made = generate(3, 0, 3)
    tasks = replace(made, inputs=worlds[0], outputs=worlds[1])
    answers = [[wrong, fits, right], [wrong, right, fits], [wrong, wrong, wrong]]
    report = report_of(tasks, monkeypatch, answers)
    assert report["filtered_generalization"] == round(100 / 3, 2)
    assert report["any_consistent"] == round(200 / 3, 2)
    assert report["consistent"] == {"1": 0.0, "5": 66.67, "50": 66.67, "100": 66.67}
    assert report["generalization"] == {"1": 0.0, "5": 66.67, "50": 66.67, "100": 66.67}


def test_a_report_says_which_tasks_were_solved() -> None:
    """By rank, and as many as its shares say."""
    exact, solved = np.random.default_rng(0).random((2, 19, 60)) < 0.05
    nothing = np.zeros_like(solved)
    judged = Judged(exact, solved, solved, ~nothing, ~nothing)
    report = Report(judged, nothing[:, 0], 60, 1.0, {}, "0123456789abcdef")
    bits, shares = report.by_task(), report.to_json()
    assert not bits.keys() & shares.keys()  # results of `reproduce` hold both, each once
    assert bits["digest"] == report.digest
    for measure, key in SOLVED.items():
        for rank in PAIRED:
            found = from_bits(bits[key][str(rank)], 19)
            assert found.tolist() == getattr(judged, measure)[:, :rank].any(1).tolist()
            assert percent(int(found.sum()), 19) == shares[measure][str(rank)]
    assert 0 < shares["generalization"]["1"] < shares["generalization"]["50"]


def test_nothing_to_evaluate_on() -> None:
    with pytest.raises(KarelsynthError, match="no task"):
        evaluate(tiny_model(), generate(3, 0, 0))


def test_intervals() -> None:
    low, high = interval(719, 1000)
    assert low < 71.9 < high
    assert (high - low) == pytest.approx(5.6, abs=0.2)
    assert interval(0, 50) == pytest.approx((0, 7.13), abs=0.01)  # Wilson's: not of width 0
    assert interval(50, 50) == pytest.approx((92.86, 100), abs=0.01)


def test_evaluating_a_real_model_end_to_end() -> None:
    model = tiny_model(syntax="handwritten")
    tasks = generate(3, 0, 6, reserved=True)
    report = evaluate(model, tasks, beam=3, batch_size=4)
    assert report.to_json()["syntax"]["1"] == 100.0
    assert report.to_json()["beam"] == 3
    assert report.by_task()["digest"] == tasks.digest != tasks[::-1].digest
