"""Solving with the shipped weights."""

from __future__ import annotations

import copy
import json
import math
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from karelsynth.errors import KarelsynthError, TaskFileError
from karelsynth.karel.compiled import cache_folder
from karelsynth.karel.machine import encode_programs
from karelsynth.karel.program import Program
from karelsynth.karel.reduce import reduced
from karelsynth.karel.world import Hero, World
from karelsynth.search.beam import encode_for_search
from karelsynth.solve import Answer, Progress, Solution, Solver
from karelsynth.solve.answers import CheckedPrograms, SearchState
from karelsynth.solve.ranking import (
    ESTIMATE_AFTER,
    MARGIN,
    STEPS_PER_BLOCK,
    Ranking,
    choose_for_people,
    look_random,
    rank,
)
from karelsynth.solve.solver import PLAUSIBLE, Round
from karelsynth.tasks.generate import generate
from karelsynth.tasks.task import MOST_EXAMPLES, Example, Task
from karelsynth.tasks.task_files import gallery_task
from karelsynth.web.queue import SearchEvent, SearchFailure, SolveQueue
from tests.models import tiny_model
from tests.posed import MOVED, PATIENT, ROW, assert_honest, by, impossible


@cache
def solver() -> Solver:
    return Solver.load()


@pytest.mark.parametrize("slug", ["walk-to-the-wall", "clean-the-row", "fill-the-row"])
def test_classics_are_solved(slug: str) -> None:
    task = gallery_task(slug)
    solution = solver().solve(task, budget=PATIENT)
    assert solution.solved
    assert_honest(solution, task)


def test_fresh_tasks_in_a_batch_and_one_by_one() -> None:
    batch = generate(7, 0, 24)
    tasks = [
        Task(tuple(Example(*map(World.from_codes, pair)) for pair in zip(inputs[:5], outputs[:5], strict=True)))
        for inputs, outputs in zip(batch.inputs, batch.outputs, strict=True)
    ]
    reported: dict[int, Solution] = {}
    quick = Solver(solver().model, rounds=[Round(16, 40)])
    solutions = quick.solve_many(tasks, budget=PATIENT, on_solution=reported.__setitem__)
    assert reported == dict(enumerate(solutions))
    for task, solution in zip(tasks, solutions, strict=True):
        assert_honest(solution, task)
    assert sum(map(bool, solutions)) >= 18, "the shipped model solves nine of ten such tasks"
    alone = quick.solve(tasks[3], budget=PATIENT)
    assert alone.solved == solutions[3].solved
    assert alone.program == solutions[3].program


def test_searches_that_share_rounds_find_what_each_finds_alone() -> None:
    """Where time is no limit: step by step in a batch, through the service's queue, and alone."""
    tasks = [gallery_task(slug) for slug in ("walk-to-the-wall", "clean-the-row", "fill-the-row", "newspaper")]
    tasks += [by("def run(): move(); putMarker()", ROW, MOVED)]
    two_rounds = Solver(solver().model, rounds=[Round(1, 40), Round(32, 60)])
    alone = [two_rounds.solve(task, budget=PATIENT) for task in tasks]
    assert len({solution.beam for solution in alone}) == 2  # some need the second round, some do not

    states = [two_rounds.begin(task, budget=PATIENT) for task in tasks]
    together: list[Solution | None] = [None] * len(tasks)
    with two_rounds.turns.turn(threads=1) as turn:
        for _ in two_rounds.rounds:
            going = [state for state in states if not two_rounds.done(state)]
            if going:
                two_rounds.advance(going, turn)
        assert all(map(two_rounds.done, states))
        together = [two_rounds.conclude(state, turn) for state in states]

    queued: dict[int, SearchEvent] = {}
    ended = threading.Semaphore(0)

    def on_event(number: int, event: SearchEvent) -> None:
        if isinstance(event, Solution | SearchFailure):
            queued[number] = event
            ended.release()

    queue = SolveQueue(two_rounds, workers=2, length=16, cores=2)
    try:
        for number, task in enumerate(tasks):
            queue.submit(task, PATIENT, partial(on_event, number), client=str(number % 2))
        for _ in tasks:
            assert ended.acquire(timeout=PATIENT)
    finally:
        queue.close()
    for number, solution in enumerate(alone):
        for other in (together[number], queued[number]):
            assert isinstance(other, Solution)
            assert other.beam == solution.beam
            assert [each.program for each in other.answers] == [each.program for each in solution.answers]
            assert [each.logprob for each in other.answers] == pytest.approx(
                [each.logprob for each in solution.answers], abs=1e-3
            )


def test_solved_searches_end_a_round_before_others_are_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver().turns, "clock", time.process_time)  # other work on the cores takes nothing from it
    states = [solver().begin(task, budget=0.5) for task in (impossible(), by("def run(): move()", ROW, MOVED))]
    ended: list[SearchState] = []
    with solver().turns.turn() as turn:
        solver().advance(states, turn, on_end=ended.append)
    assert ended == [states[1], states[0]]
    assert [state.solved for state in ended] == [True, False]


def test_a_round_drops_prefixes_that_are_not_above_its_floor() -> None:
    task = gallery_task("walk-to-the-wall")
    best = Solver(solver().model, rounds=[Round(16, 40)]).solve(task, budget=PATIENT).answers[0].logprob
    for floor, solved in ((best - 1, True), (0.0, False)):
        found = Solver(solver().model, rounds=[Round(16, 40, floor=floor)]).solve(task, budget=PATIENT)
        assert found.solved is solved


def test_only_searches_that_are_equally_far_share_a_round() -> None:
    states = [solver().begin(gallery_task("walk-to-the-wall")) for _ in range(2)]
    states[1].rounds = 1
    with solver().turns.turn() as turn, pytest.raises(ValueError, match="equally many"):
        solver().advance(states, turn)


def test_budgets_count_the_time_that_a_search_got() -> None:
    """Eight threads share a solver: each search has its whole budget, though together they take longer."""
    rounds = Solver(solver().model, rounds=[Round(64, 60)] * 50)
    rounds.warm_up()
    task = impossible()
    before = rounds.solve(task, budget=0.3)
    began = time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: rounds.solve(task, budget=0.3), range(8)))
    took = time.perf_counter() - began
    assert took >= 8 * 0.3 / rounds.turns.at_once * 0.9
    for solution in (before, *found):
        assert 0.3 <= solution.seconds < 0.3 + PATIENT


DIFFERENT = ("move putMarker", "IF c( frontIsClear c) i( move i) putMarker", "REPEAT R=1 r( move r) putMarker")
EQUIVALENT = ("move putMarker", "move putMarker turnLeft turnRight", "move turnLeft turnRight putMarker")


def posed_answers(
    count: int, headings: Sequence[str] = ("east", "north"), texts: Sequence[str] = DIFFERENT
) -> tuple[CheckedPrograms, NDArray[np.uint8], NDArray[np.uint8]]:
    """Up to three equally likely answers, the network's top-ranked one first, and the examples of their task.

    MCMC is for large examples with different headings that change markers, and for answers that differ on further ones.
    """
    programs = [Program.parse(f"DEF run m( {text} m)") for text in texts[:count]]
    worlds = [World(2, 13, Hero(0, 0, heading)) for heading in headings]
    lengths = np.array([program.size for program in programs])
    zeros, correct = np.zeros(count, np.float32), np.ones((count, len(worlds)), np.bool_)
    answers = CheckedPrograms(encode_programs(programs), lengths, zeros, correct)
    return answers, *Task(tuple(Example(world, programs[0].run(world).world) for world in worlds)).codes()


def test_equivalent_answers_become_one_and_their_probabilities_add_up() -> None:
    texts = (
        "IFELSE c( markersPresent c) i( putMarker i) ELSE e( putMarker e) move",
        "turnLeft putMarker turnRight move",  # turns and markers keep their order
        "putMarker move turnLeft turnRight",
        "putMarker move",
    )
    programs = [Program.parse(f"DEF run m( {text} m)") for text in texts]
    lengths = np.array([program.size for program in programs])
    logprobs = np.log(np.array([0.1, 0.4, 0.2, 0.3], np.float32))
    answers = CheckedPrograms(encode_programs(programs), lengths, logprobs, np.ones((4, 2), np.bool_)).reduced()
    assert [answers.answer(row).program for row in range(len(answers))] == [programs[3], programs[1]]
    np.testing.assert_allclose(np.exp(answers.logprobs), [0.6, 0.4], rtol=1e-5)
    assert answers.lengths.tolist() == [programs[3].size, programs[1].size]
    assert answers.correct.all()


def test_no_answer_has_parts_that_never_have_an_effect() -> None:
    solution = solver().solve(gallery_task("flag-at-the-end"), budget=PATIENT)
    assert solution.program == Program.parse("DEF run m( WHILE c( frontIsClear c) w( move w) putMarker m)")
    programs = [answer.program for answer in solution.answers]
    assert len(set(programs)) == len(programs) > 1
    assert programs == [reduced(program) for program in programs]


def ranked(answers: CheckedPrograms, inputs: NDArray[np.uint8], outputs: NDArray[np.uint8], **options: Any) -> Ranking:
    return rank(answers, inputs, outputs, **{"stop": lambda: False, **options})


@pytest.mark.parametrize(
    ("headings", "body", "cols", "random"),
    [
        (("east", "north"), "move putMarker", 13, True),
        (("east", "east"), "move putMarker", 13, False),
        (("east", "north"), "move turnLeft", 13, False),
        (("east", "north"), "IF c( rightIsClear c) i( putMarker i)", 13, False),  # only the second example changes
        (("east", "north"), "move putMarker", 12, False),
    ],
)
def test_large_examples_look_random_if_headings_differ_and_each_changes_markers(
    headings: tuple[str, ...], body: str, cols: int, random: bool
) -> None:
    worlds = [World(2, cols, Hero(0, 1, heading)) for heading in headings]
    program = Program.parse(f"DEF run m( {body} m)")
    inputs, outputs = Task(tuple(Example(world, program.run(world).world) for world in worlds)).codes()
    assert look_random(inputs, outputs) is random


@pytest.mark.parametrize(
    ("probabilities", "order"),
    [
        ([0.80, 0.82, 0.90], [2, 1, 0]),
        ([0.80, 0.80 + 0.9 * MARGIN, 0.70], [0, 1, 2]),
        ([0.60, 0.50, 0.60 + 0.9 * MARGIN], [0, 2, 1]),
        ([0.99, 0.10, 0.20], [0, 2, 1]),
    ],
)
def test_only_a_clearly_more_probable_answer_overrules_the_top_ranked_one(
    probabilities: list[float], order: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("karelsynth.posterior.mcmc.PosteriorSamples.probabilities", lambda *_: np.array(probabilities))
    found = ranked(*posed_answers(len(probabilities)))
    assert found.order.tolist() == order
    sorted_by_rank = found.probabilities[found.order]
    assert sorted_by_rank.tolist() == sorted(sorted_by_rank, reverse=True)
    assert 0 < sorted_by_rank[-1] <= sorted_by_rank[0] < 1
    assert found.features.sampled


@pytest.mark.parametrize(
    ("probabilities", "stop_after", "rounds"),
    [
        ([0.99, 0.1], 99, 1),
        ([0.8, 0.9], 99, ESTIMATE_AFTER[-1]),
        ([0.3], 99, 0),
        ([0.8, 0.9], 3, 3),
        ([0.8, 0.9], 0, 0),
    ],
)
def test_chains_walk_until_the_top_ranked_answer_is_confident(
    probabilities: list[float], stop_after: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[int] = []
    estimated_at: list[int] = []
    monkeypatch.setattr("karelsynth.posterior.mcmc.MarkovChain.run", lambda _, steps: walked.append(steps))

    def estimate(_: object, programs: object, threads: int | None = None) -> object:
        estimated_at.append(len(walked))
        return np.array(probabilities)

    monkeypatch.setattr("karelsynth.posterior.mcmc.PosteriorSamples.probabilities", estimate)
    found = ranked(*posed_answers(len(probabilities)), stop=lambda: len(walked) >= 2 * stop_after)
    assert walked == 2 * rounds * [STEPS_PER_BLOCK]
    assert bool(found.features.sampled) == (rounds > 0)
    if rounds:
        assert found.order[0] == int(np.argmax(probabilities))
        assert estimated_at[-1] == 2 * rounds, "the last steps count, too"
    else:
        assert found.order[0] == 0


@pytest.mark.parametrize(
    ("texts", "logprobs", "sampled"),
    [
        (DIFFERENT, (0.0, 0.0, 0.0), True),
        (DIFFERENT, (0.0, -4.0, -4.0), False),  # the network is certain
        (EQUIVALENT, (0.0, 0.0, 0.0), False),  # there is nothing to choose
    ],
)
def test_mcmc_runs_only_where_the_network_leaves_a_doubt(
    texts: Sequence[str], logprobs: tuple[float, ...], sampled: bool
) -> None:
    answers, inputs, outputs = posed_answers(3, texts=texts)
    found = ranked(replace(answers, logprobs=np.array(logprobs, np.float32)), inputs, outputs, steps=10)
    assert bool(found.features.sampled) is sampled


@pytest.mark.parametrize(
    ("texts", "logprobs", "first"),
    [
        (("IF c( frontIsClear c) i( move i)", "move"), (-0.5, -2.5), 1),  # no example needs the guard, …
        (("IF c( frontIsClear c) i( move i)", "move"), (-0.5, -6.0), 0),  # … but the network is sure of it
        (("move turnLeft turnLeft turnLeft", "move turnRight"), (-0.5, -0.8), 1),  # equivalent, and longer
        (("move turnRight", "move turnLeft turnLeft turnLeft"), (-0.8, -0.5), 0),
    ],
)
def test_a_person_needs_every_part_of_a_program(
    texts: tuple[str, ...], logprobs: tuple[float, ...], first: int
) -> None:
    answers, inputs, outputs = posed_answers(2, ["east", "east"], texts)
    assert choose_for_people(replace(answers, logprobs=np.array(logprobs, np.float32)), inputs, outputs) == first
    assert ranked(replace(answers, logprobs=np.array(logprobs, np.float32)), inputs, outputs).order[0] == first


def test_a_part_that_an_example_needs_costs_only_its_length() -> None:
    """The third world has a wall ahead."""
    answers, inputs, outputs = posed_answers(2, ["east", "east", "west"], ("IF c( frontIsClear c) i( move i)", "move"))
    right = answers[np.array([0])].joined(answers[np.array([0])])
    assert choose_for_people(replace(right, logprobs=np.array([-0.5, -1.0], np.float32)), inputs, outputs) == 0
    assert (right.simplified(inputs, outputs).lengths == right.lengths).all()


def test_examples_with_one_heading_are_ranked_by_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equivalent answers have the same probability, and the network's order holds."""
    monkeypatch.setattr("karelsynth.posterior.mcmc.MarkovChain.run", None)
    order, probabilities, features, _ = ranked(*posed_answers(3, ["east", "east"], EQUIVALENT))
    assert order.tolist() == [0, 1, 2]
    assert np.allclose(probabilities, probabilities[0])
    assert 0 < probabilities[0] < 1
    assert not features.sampled


def test_probabilities_grow_with_the_networks_own_and_with_examples() -> None:
    answers, inputs, outputs = posed_answers(1, ["east", "east"])

    def probability(logprob: float, examples: int) -> float:
        rated = replace(answers, logprobs=np.full(1, logprob, np.float32))
        worlds = (np.repeat(part[:1], examples, axis=0) for part in (inputs, outputs))
        return float(ranked(rated, *worlds).probabilities[0])

    assert probability(-0.1, 2) > probability(-2.0, 2) > probability(-7.0, 2)
    assert probability(-2.0, 5) > probability(-2.0, 3) > probability(-2.0, 1)


def test_an_answer_that_differs_from_likelier_ones_is_less_probable() -> None:
    programs = [Program.parse(f"DEF run m( {text} m)") for text in ("move putMarker", "putMarker move", "move")]
    lengths, correct = np.array([program.size for program in programs]), np.ones((3, 1), np.bool_)
    logprobs = np.array([-0.2, -6.0, -7.0], np.float32)
    answers = CheckedPrograms(encode_programs(programs), lengths, logprobs, correct)
    order, probabilities, *_ = ranked(answers, *Task((Example(ROW, MOVED),)).codes())
    assert order[0] == 0
    assert probabilities[order].tolist() == sorted(set(probabilities.tolist()), reverse=True)


def test_support_has_words() -> None:
    answer = Answer(Program.parse("def run(): move()"), (True,), -1.0, 0.95)
    for probability, support, words in ((0.95, "strong", "support"), (0.7, "fair", "surer"), (0.3, "weak", "not what")):
        solution = Solution((replace(answer, probability=probability),), True, None, 0.1, 8, 3)
        assert solution.support == support
        assert words in str(solution.advice)
        assert solution.to_json()["support"] == support
    unsolved = Solution((replace(answer, right=(False,), probability=None),), False, None, 0.1, 8, 3)
    assert unsolved.support is None
    assert unsolved.advice is None


def test_long_answers_are_simplified() -> None:
    """A beam of one finds a detour; the search adds the program without it."""
    state = SearchState(*by("def run(): move(); putMarker()", ROW).codes())
    detour = encode_programs(
        [Program.parse("def run(): turnLeft(); turnRight(); move(); turnLeft(); turnRight(); putMarker()")]
    )
    state.update_answers(
        CheckedPrograms(detour, np.array([detour.shape[1]]), np.full(1, -30, np.float32), np.ones((1, 1), np.bool_))
    )
    with solver().turns.turn() as turn:
        encoded = encode_for_search(solver().model, state.inputs[None], state.outputs[None])
        solver().simplify_answers([state], [0], encoded, turn)
    assert state.answers is not None
    assert Program.parse("def run(): move(); putMarker()").token_ids in [
        row[:length].tolist() for row, length in zip(state.answers.tokens, state.answers.lengths, strict=True)
    ]


def test_later_rounds_add_to_the_answers() -> None:
    """A likelier program replaces the top-ranked one; what was found twice is kept once."""
    answers, inputs, outputs = posed_answers(3)
    state = SearchState(inputs, outputs)
    assert state.best_logprob == -math.inf
    state.update_answers(replace(answers, logprobs=np.array([-9, -8, -7], np.float32))[1:])
    assert state.best_logprob == -7
    state.update_answers(replace(answers, logprobs=np.array([-1, -8, -7], np.float32))[:2])
    assert state.answers is not None
    assert state.answers.logprobs.tolist() == [-1, -7, -8]
    assert state.best_logprob == -1


def test_an_implausible_answer_does_not_end_the_search() -> None:
    """To a network that has learned nothing, no program of four actions is plausible."""
    model = tiny_model(syntax="handwritten", max_length=12).eval()
    task = by("def run(): move(); putMarker(); move(); turnLeft()", ROW)
    searched = Solver(model, rounds=[Round(256, 12), Round(512, 12)]).solve(task, budget=PATIENT)
    assert searched.solved
    assert searched.answers[0].logprob < PLAUSIBLE
    assert searched.beam == 512
    plausible = solver().solve(gallery_task("clean-the-row"), budget=PATIENT)
    assert plausible.answers[0].logprob >= PLAUSIBLE
    assert plausible.beam == solver().rounds[0].beam


def test_what_a_narrow_beam_misses_is_repaired() -> None:
    batch = generate(7, 0, 60)
    tasks = [
        Task(tuple(Example(*map(World.from_codes, pair)) for pair in zip(inputs[:5], outputs[:5], strict=True)))
        for inputs, outputs in zip(batch.inputs, batch.outputs, strict=True)
    ]
    narrow = Solver(solver().model, rounds=[Round(1, 40)]).solve_many(tasks, budget=PATIENT)
    missed = [number for number, solution in enumerate(narrow) if not solution]
    assert missed, "a beam of one solves all: find harder tasks"
    repaired = {
        number: Solver(solver().model, rounds=[Round(1, 40, 1)]).solve(tasks[number], budget=2.0)
        for number in missed[:4]
    }
    assert any(repaired.values())
    for number, solution in repaired.items():
        assert_honest(solution, tasks[number])
        assert solution.checked > narrow[number].checked
        if solution:
            assert solution.answers[0].logprob < 0
    polls = iter(range(10))  # a search that is stopped during repair ends with what it has
    stopped = Solver(solver().model, rounds=[Round(8, 40, 1)]).solve(
        impossible(), budget=PATIENT, should_stop=lambda: next(polls, None) is None
    )
    assert not stopped.solved


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_any_number_of_examples(count: int) -> None:
    batch = generate(11, 40, 3, examples=max(count, 2))
    for inputs, outputs in zip(batch.inputs[:, :count], batch.outputs[:, :count], strict=True):
        task = Task(tuple(Example(*map(World.from_codes, pair)) for pair in zip(inputs, outputs, strict=True)))
        solution = Solver(solver().model, rounds=[Round(16, 40)]).solve(task, budget=PATIENT)
        assert len(solution.right) == count
        assert_honest(solution, task)


def test_tasks_with_unequal_numbers_of_examples_share_a_batch() -> None:
    tasks = [by("def run(): move()", ROW), by("def run(): turnLeft()", ROW, MOVED)]
    for task, solution in zip(tasks, solver().solve_many(tasks, budget=PATIENT), strict=True):
        assert_honest(solution, task)
        assert len(solution.right) == len(task.examples)


def test_an_impossible_task_is_not_called_solved() -> None:
    task = impossible()
    solution = Solver(solver().model, rounds=[Round(16, 20), Round(32, 20)]).solve(task, budget=PATIENT)
    assert not solution.solved
    assert not solution
    assert_honest(solution, task)
    assert sum(solution.right) == 1, "the best partial answer"
    assert len(solution.answers) == 1
    assert solution.ambiguity is None


def test_a_budget_of_nothing_still_answers() -> None:
    solution = solver().solve(gallery_task("clean-the-row"), budget=0.0)
    assert not solution.solved
    assert solution.answers == ()
    assert solution.program is None
    assert json.loads(json.dumps(solution.to_json()))["answers"] == []


def test_progress_is_reported_during_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karelsynth.solve.solver._REPORT_SECONDS", 0.0)
    reported: list[Progress] = []
    one = Solver(solver().model, rounds=[Round(16, 20, repair=0.5)])
    one.turns.clock = time.process_time  # other work on the cores takes nothing from the budget
    one.solve(impossible(), budget=0.6, on_progress=reported.append)
    assert len(reported) > 10
    assert reported[-1].best is not None  # of the beam, during repair
    seconds = [progress.seconds for progress in reported]
    assert seconds == sorted(seconds)
    assert seconds[0] < 0.1 < seconds[-1]
    assert len({progress.checked for progress in reported}) > 2  # repair counts what it tries, too


def test_progress_and_stopping() -> None:
    reported: list[Progress] = []
    task = impossible()
    solution = Solver(solver().model, rounds=[Round(8, 20), Round(16, 20), Round(32, 20)]).solve(
        task, budget=PATIENT, on_progress=reported.append
    )
    assert list(dict.fromkeys(progress.beam for progress in reported)) == [8, 16, 32]
    assert reported[0].best is None
    assert reported[-1].best is not None
    assert solution.beam == 32
    assert not solution.stopped
    stopped = solver().solve(task, budget=PATIENT, should_stop=lambda: True)
    assert stopped.checked == 0
    assert stopped.stopped


def test_a_stopped_search_answers_with_all_that_it_has_found() -> None:
    """The sooner the less, but nothing that was found is lost, and all of it has been run."""
    task = gallery_task("clean-the-row")
    patient = Solver(solver().model, rounds=[Round(64, 40)], slack=math.inf)  # it looks for others to the end

    def after(steps: int) -> Solution:
        polls = iter(range(steps))
        return patient.solve(task, budget=PATIENT, should_stop=lambda: next(polls, None) is None)

    found = [after(steps) for steps in (1, 2, 3, 5, 8, 12, 16, 20, 24, 29)]
    for solution in found:
        assert_honest(solution, task)
    stopped = [solution for solution in found if solution.stopped]
    assert not stopped[0].answers
    assert stopped[-1].solved
    assert len(stopped[-1].answers) > 1
    whole = patient.solve(task, budget=PATIENT)
    assert not whole.stopped
    assert whole.solved


def test_only_what_was_cut_short_counts_as_stopped() -> None:
    """The first task is solved by the whole of its beam; the stop comes while the second is repaired."""
    both = Solver(solver().model, rounds=[Round(8, 40, 1)])
    polls = iter(range(120))  # more than the beam has steps, in two threads
    easy, hard = both.solve_many(
        [gallery_task("walk-to-the-wall"), impossible()], budget=PATIENT, should_stop=lambda: next(polls, None) is None
    )
    assert easy.solved
    assert not easy.stopped
    assert not hard.solved
    assert hard.stopped


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([], "at least one example"),
        ([(ROW, MOVED)] * (MOST_EXAMPLES + 1), f"at most {MOST_EXAMPLES}"),
        ([(ROW, World.parse("> .\n. ."))], "example 1: the input has 2 rows and 4 columns, the output 2 and 2"),
        ([(ROW, MOVED), (ROW, World.parse("> . . #\n. . . ."))], "example 2: there is a wall at row 2, column 4 in"),
        ([(ROW, MOVED), (ROW, ROW)], "examples 1 and 2 have the same input and different outputs"),
        ([ROW, MOVED], "a pair of worlds"),
        ([(ROW,)], "a pair of worlds"),
        ([(ROW, 2)], "a pair of worlds"),
    ],
)
def test_bad_tasks_are_refused(examples: list[tuple[World, World]], message: str) -> None:
    with pytest.raises(TaskFileError, match=message):
        solver().solve(examples)


def test_missing_weights_are_reported(tmp_path: Path) -> None:
    with pytest.raises(KarelsynthError, match=r"config\.json"):
        Solver.load(tmp_path)


def test_threads_may_share_a_solver() -> None:
    tasks = [gallery_task("first-marker"), gallery_task("walk-to-the-wall")] * 2
    with ThreadPoolExecutor(4) as pool:
        solutions = list(pool.map(lambda task: solver().solve(task, budget=PATIENT), tasks))
    assert all(solutions)
    assert [solution.program for solution in solutions[:2]] == [solution.program for solution in solutions[2:]]


COMPILING = """
from numba.core.event import install_timer
from karelsynth.solve import solve
from karelsynth.tasks.task_files import gallery_task
compiling = []
with install_timer("numba:compile", compiling.append):
    solution = solve(gallery_task("first-marker"), budget=20)
print(solution.solved, solution.seconds < sum(compiling))
"""


def test_compiling_is_not_searching(tmp_path: Path) -> None:
    """Where much has to be compiled, the first search still has its whole budget."""
    solver().warm_up()
    folder = tmp_path / "karelsynth" / cache_folder().name
    shutil.copytree(cache_folder(), folder)
    for path in (*folder.glob("search-*"), *folder.glob("repair-*"), *folder.glob("*/repair.*.nbi")):
        path.unlink()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    out = subprocess.run([sys.executable, "-c", COMPILING], capture_output=True, text=True, env=environment, check=True)
    assert out.stdout.split() == ["True", "True"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system that forks")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_forked_child_can_solve() -> None:
    """It has inherited a model and no threads: neither ours nor PyTorch's."""
    task = gallery_task("turn-around")
    parent = Solver(solver().model, rounds=[Round(8, 20)])
    expected = parent.solve(task, budget=PATIENT).program
    child = os.fork()
    if child == 0:  # pragma: no cover
        os._exit(0 if parent.solve(task, budget=PATIENT).program == expected else 1)
    until = time.monotonic() + 60
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < until:
        time.sleep(0.05)
    if done[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert done == (child, 0)


def answer_of(child: Solver, task: Task) -> str:
    return str(child.solve(task, budget=PATIENT).program)


def test_a_solver_can_be_copied_and_sent_to_a_process_that_is_no_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, rounds = gallery_task("walk-to-the-wall"), (Round(8, 20),)
    tiny_model().save_pretrained(tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)
    loaded = Solver.load("tiny")
    loaded.rounds, loaded.slack = rounds, 3.0
    assert len(pickle.dumps(loaded)) < 2000
    made = Solver(loaded.model, rounds=rounds, slack=3.0)
    monkeypatch.chdir("/")
    for one in (loaded, made):
        for copied in (copy.deepcopy(one), pickle.loads(pickle.dumps(one)), pickle.loads(pickle.dumps(copy.copy(one)))):
            assert (copied.rounds, copied.slack) == (rounds, 3.0)
            for name, weights in one.model.state_dict().items():
                assert torch.equal(weights, copied.model.state_dict()[name])
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(answer_of, solver(), task).result(timeout=300) == answer_of(solver(), task)


@pytest.mark.parametrize("budget", [-1.0, float("nan")])
def test_a_budget_that_is_no_time_is_refused(budget: float) -> None:
    with pytest.raises(ValueError, match="seconds from 0 on"):
        solver().solve(gallery_task("turn-around"), budget=budget)
