"""A solver without a search, for tests of its callers.

`python -m tests.fake_solver SECONDS serve …` is `karelsynth serve …` with a solver that takes SECONDS for each task.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from types import ModuleType, SimpleNamespace
from typing import Any

from karelsynth.karel.interpreter import Status
from karelsynth.karel.program import Program
from karelsynth.solve.solution import Ambiguity, Answer, Outcome, Progress, Solution
from karelsynth.solve.turns import Turn, Turns
from karelsynth.tasks.task import Task

GUESSES = tuple(
    Program.parse(text)
    for text in ("def run(): move()", "def run():\n  while(frontIsClear): move()", "def run(): turnLeft()")
)


class OneRound:
    """The steps of a search for solvers that only have `solve`: one round, for each task alone."""

    solve: Callable[..., Solution]

    @cached_property
    def turns(self) -> Turns:
        return Turns(1)

    def begin(self, task: Task, /, *, budget: float, should_stop: Callable[[], bool]) -> Any:
        latest = Progress(0.0, budget, beam=8, checked=0, best=None)
        return SimpleNamespace(
            task=task, budget=budget, should_stop=should_stop, rounds=0, seconds=0.0, solution=None, latest=latest
        )

    def together(self, rounds: int, /) -> int:
        return 1

    def advance(
        self,
        states: Sequence[Any],
        turn: Turn,
        poll: Callable[[], None],
        /,
        *,
        narrow: bool,
        on_end: Callable[[Any], None],
    ) -> None:
        for state in states:

            def on_progress(progress: Progress, state: Any = state) -> None:
                state.latest = progress
                poll()

            state.solution = self.solve(
                state.task, budget=state.budget, on_progress=on_progress, should_stop=state.should_stop
            )
            state.rounds += 1
            state.seconds = state.solution.seconds
            on_end(state)

    def done(self, state: Any, /) -> bool:
        return True

    def progress(self, state: Any, seconds: float, /) -> Progress:
        latest: Progress = state.latest
        return latest

    def conclude(self, state: Any, turn: Turn, /, *, quick: bool) -> Solution:
        solution: Solution = state.solution
        return solution


class FakeSolver(OneRound):
    """Waits, reports progress, and answers with those of its three fixed programs that are correct."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.started = threading.Semaphore(0)
        """Released once for each search that begins."""
        self.stopped = threading.Semaphore(0)
        """Released once for each search that ends because `should_stop` said so."""

    def progress(self, state: Any, seconds: float, /) -> Progress:
        return Progress(seconds, state.budget, 8, 3, _answer(GUESSES[0], state.task))

    def warm_up(self, tasks: Sequence[Any] | None = None) -> None:
        """There is nothing to compile."""

    def solve(
        self,
        task: Task,
        budget: float = 1.0,
        on_progress: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Solution:
        begin = time.monotonic()
        stopped = False
        self.started.release()
        answers = [_answer(program, task) for program in GUESSES]
        while (spent := time.monotonic() - begin) < self.seconds:
            if should_stop and should_stop():
                stopped = True
                self.stopped.release()
                break
            if on_progress:
                on_progress(Progress(spent, budget, 8, 3, answers[0]))
            time.sleep(0.01)
        if on_progress:
            on_progress(Progress(spent, budget, 8, 3, answers[0]))
        right = tuple(answer for answer in answers if answer.solves)
        chosen = right or (max(answers, key=lambda answer: sum(answer.right)),)
        ambiguity = _ambiguity(right, task) if len(right) > 1 else None
        return Solution(chosen, bool(right), ambiguity, spent, 8, 3, stopped)


def _answer(program: Program, task: Task) -> Answer:
    runs = [(program.run(example.input), example.output) for example in task.examples]
    return Answer(program, tuple(run.ok and run.world == output for run, output in runs), -1.5)


def _ambiguity(answers: tuple[Answer, ...], task: Task) -> Ambiguity:
    """An ambiguity of the right form; its world does not distinguish the answers."""
    world = task.examples[0].input
    outcomes = tuple(Outcome((at,), Status.OK, world) for at in range(len(answers)))
    return Ambiguity(world, outcomes, 0, "Example 1 changed: nothing.")


def main() -> None:
    """The command line, with this solver in the place of the real one."""
    from karelsynth.__main__ import main as command_line

    seconds, *sys.argv[1:] = sys.argv[1:]

    module: Any = ModuleType("karelsynth.solve.solver")
    module.Solver = SimpleNamespace(load=lambda folder, device: FakeSolver(float(seconds)))
    sys.modules[module.__name__] = module
    command_line()


if __name__ == "__main__":
    main()
