"""Many tasks at once, as on a GPU, against one batch after the other; and ranking in other processes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from karelsynth.solve import Solution, Solver, concluding
from karelsynth.solve.concluding import conclude_elsewhere
from karelsynth.solve.solver import Round, _Call
from karelsynth.solve.together import search_together
from karelsynth.solve.turns import Turn
from karelsynth.tasks.generate import generate
from tests.posed import PATIENT
from tests.test_solve import assert_honest, solver


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_many_tasks_together_get_the_answers_of_batches(device: str) -> None:
    """All are told of once. Without a window for other choices, the first round finds the same programs."""
    tasks = list(generate(11, 0, 20).examples(5))
    tasks[3] = replace(tasks[3], examples=tasks[3].examples[:2])
    own = Solver(solver().model if device == "cpu" else Solver.load(device=device).model, rounds=[Round(16, 40, 0.01)])
    states = [own.begin(task, budget=PATIENT, max_ticks=200) for task in tasks]
    told: dict[int, Solution] = {}
    found = search_together(own, states, _Call(states, PATIENT, None, None), told.__setitem__)
    assert [told[number] for number in range(20)] == found
    for task, solution in zip(tasks, found, strict=True):
        assert_honest(solution, task)
    plain = Solver(solver().model, rounds=own.rounds).solve_many(tasks, budget=PATIENT, max_ticks=200)
    agreed = [set(programs(one)) == set(programs(other)) for one, other in zip(plain, found, strict=True)]
    assert sum(agreed) >= (17 if device == "cpu" else 12)  # repair ends by the clock, and precisions differ


def programs(solution: Solution) -> list[str]:
    return [str(answer.program) for answer in solution.answers]


def test_another_process_concludes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = generate(12, 3, 1).examples(5)
    state = solver().search(task, budget=PATIENT)
    here = solver().conclude(state, Turn(None, 1, float))
    there = conclude_elsewhere(state, steps=4000, seconds=PATIENT).result()
    assert replace(there, seconds=0.0) == replace(here, seconds=0.0)

    def no_process() -> None:
        raise FileNotFoundError

    monkeypatch.setattr(concluding, "_start", no_process)
    monkeypatch.setattr(concluding, "_own", type("Own", (), {})())
    instead = conclude_elsewhere(state, steps=4000, seconds=PATIENT).result()
    assert replace(instead, seconds=0.0) == replace(here, seconds=0.0)
