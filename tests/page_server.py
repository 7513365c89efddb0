"""The real service around a solver that needs no model, for the page's tests and pictures.

`PoolSolver` knows a pool of programs and answers with those that do what the examples show. It takes its time if
asked to, so that progress can be seen and cancelled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import uvicorn

from karelsynth.karel.interpreter import Run, run
from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.solve.solution import Ambiguity, Answer, Outcome, Progress, Solution
from karelsynth.tasks.task import Task
from karelsynth.web.app import ServiceSettings, create_app
from karelsynth.web.queue import TaskSolver
from karelsynth.web.server import address_of, listen
from karelsynth.web.toolkit import random_world
from tests.fake_solver import OneRound

_ROUND: Final = 0.05
"""Seconds between two reports of progress."""


class PoolSolver(OneRound):
    """Finds the programs of a pool that fit."""

    def __init__(self, pool: Sequence[str]) -> None:
        self.pool = [Program.parse(text) for text in pool]
        self.seconds = 0.0
        """How long a search seems to take."""

    def solve(
        self,
        task: Task,
        /,
        *,
        budget: float,
        on_progress: Callable[[Progress], None] | None,
        should_stop: Callable[[], bool] | None,
    ) -> Solution:
        started = time.monotonic()
        answers = [Answer(program, _right(program, task), -1.0 - place) for place, program in enumerate(self.pool)]
        answers.sort(key=lambda answer: -sum(answer.right))
        stopped = False
        while (spent := time.monotonic() - started) < self.seconds:
            if stopped := bool(should_stop and should_stop()):
                break
            if on_progress:
                on_progress(Progress(spent, budget, beam=16, checked=int(1000 * spent), best=answers[0]))
            time.sleep(_ROUND)
        fitting = tuple(answer for answer in answers if answer.solves)
        fitting = tuple(replace(answer, probability=0.96 if len(fitting) == 1 else 0.7) for answer in fitting)
        return Solution(
            answers=fitting or tuple(answers[:1]),
            solved=bool(fitting),
            ambiguity=_ambiguity(fitting, task),
            seconds=time.monotonic() - started,
            beam=64,
            checked=len(self.pool),
            stopped=stopped,
        )


def _right(program: Program, task: Task) -> tuple[bool, ...]:
    runs = [(run(program, example.input), example.output) for example in task.examples]
    return tuple(after.ok and after.world == expected for after, expected in runs)


def _ambiguity(answers: tuple[Answer, ...], task: Task) -> Ambiguity | None:
    """The first of some worlds of the first example's size where the answers do different things."""
    size = task.examples[0].input
    for seed in range(20):
        world = random_world(size.rows, size.cols, seed)
        runs: dict[World, tuple[Run, list[int]]] = {}
        for place, answer in enumerate(answers):
            after = run(answer.program, world)
            runs.setdefault(after.world, (after, []))[1].append(place)
        if len(runs) > 1:
            outcomes = (Outcome(tuple(places), after.status, after.world) for after, places in runs.values())
            return Ambiguity(world, tuple(outcomes), 0, "Example 1 changed: another world.")
    return None


@contextmanager
def served(solver: TaskSolver, settings: ServiceSettings | None = None) -> Iterator[str]:
    """The service in a thread of this process; gives the page's address."""
    listener = listen("127.0.0.1", 0)
    app = create_app(solver, settings)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield address_of(listener)
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
