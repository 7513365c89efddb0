"""Many tasks in large rounds, as on a GPU, against small ones; and ranking in other processes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from karelsynth.solve import Solution, Solver, concluding
from karelsynth.solve.concluding import conclude, conclude_elsewhere
from karelsynth.solve.solver import Round
from karelsynth.solve.turns import Turn
from karelsynth.tasks.generate import generate
from tests.posed import PATIENT, assert_honest


@cache
def solver() -> Solver:
    return Solver.load()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_large_rounds_find_the_answers_of_small_ones(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every task is told of once. Only repair ends by the clock, and only precisions differ."""
    tasks = list(generate(11, 0, 20).examples(5))
    tasks[3] = replace(tasks[3], examples=tasks[3].examples[:2])
    rounds = [Round(16, 40, 0.01)]
    own = Solver(solver().model if device == "cpu" else Solver.load(device=device).model, rounds=rounds)
    told: dict[int, Solution] = {}

    def report(number: int, solution: Solution) -> None:
        assert number not in told
        told[number] = solution

    monkeypatch.setattr(own, "in_large_rounds", lambda tasks: True)
    found = own.solve_many(tasks, budget=PATIENT, max_ticks=200, on_solution=report)
    assert [told[number] for number in range(20)] == found
    for task, solution in zip(tasks, found, strict=True):
        assert_honest(solution, task)
    plain = Solver(solver().model, rounds=rounds).solve_many(tasks, budget=PATIENT, max_ticks=200)
    agreed = [programs(one) == programs(other) for one, other in zip(plain, found, strict=True)]
    assert sum(agreed) >= (18 if device == "cpu" else 12)


def programs(solution: Solution) -> list[str]:
    return [str(answer.program) for answer in solution.answers]


def test_another_process_concludes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = generate(12, 3, 1).examples(5)
    state = solver().search(task, budget=PATIENT)
    here = conclude(state, Turn(None, 1, float, float))
    there = conclude_elsewhere(state).result()
    assert replace(there, seconds=0.0) == replace(here, seconds=0.0)

    def no_process() -> None:
        raise FileNotFoundError

    monkeypatch.setattr(concluding, "_start", no_process)
    monkeypatch.setattr(concluding, "_own", type("Own", (), {})())
    instead = conclude_elsewhere(state).result()
    assert replace(instead, seconds=0.0) == replace(here, seconds=0.0)
