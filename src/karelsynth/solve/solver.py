"""Search for a program until one is right on every example, or time is up.

    from karelsynth.solve import solve

    solution = solve([(before, after), (before, after)])
    if solution:
        print(solution.program)

The network proposes, the examples dispose: a beam search runs every prefix of a program on the examples (see
`search.pruning`), and if it finds no answer, near misses are repaired (`search.repair`); the beam is narrow first and
wider in each round. The first round that finds an answer ends the search. Of several programs that are right on all
examples the network's favourite comes first, unless another is clearly likelier to be right on what it has not seen
(`choice`). Whatever is returned as right has been run.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import torch

from karelsynth.karel.machine import encode_programs
from karelsynth.karel.program import Program
from karelsynth.karel.threads import core_count
from karelsynth.karel.world import Hero, World
from karelsynth.model.precision import decoding_dtype
from karelsynth.model.pretrained import SHIPPED, model_folder
from karelsynth.model.synthesizer import Encoded, Synthesizer
from karelsynth.posterior.mcmc import MarkovChain
from karelsynth.search.beam import TASKS_PER_THREAD, beam_search, encode_for_search
from karelsynth.search.closing import close_programs
from karelsynth.search.pruning import Pruning
from karelsynth.search.repair import repair
from karelsynth.search.scoring import score_programs
from karelsynth.solve.ambiguity import find_ambiguity
from karelsynth.solve.choice import prefer
from karelsynth.solve.found import REPAIRED, Found, OpenEnds, Search, remember, run_programs, simplest
from karelsynth.solve.solution import Answer, Progress, Solution
from karelsynth.tasks.task import Example, Task, as_task

DEFAULT_BUDGET: Final = 1.0
"""Seconds."""


class Round(NamedTuple):
    """One search."""

    beam: int
    longest: int
    """Tokens of a program."""
    repair: float = 0.0
    """How long near misses are repaired for afterwards, as a share of the budget."""
    window: float = math.inf
    """How much less likely than the likeliest, in nats, a prefix may be to be kept."""


ROUNDS: Final = (Round(128, 48, 0.6, 7.0), Round(512, 36, 1), Round(2048, 48, 1), Round(4096, 72, 1))
"""Thanks to its window, the first is only as wide as the network is unsure. Then width pays more than length: few
programs that are asked for have more than 36 tokens, and unsolved tasks go through all rounds."""
SLACK: Final = 7.0
"""How much less likely than the best answer, in nats, another may be to be worth waiting for: it may turn out to be the
one to prefer, and chains jump from one to another."""
_TELL_EVERY: Final = 0.25
"""Seconds between two reports of progress."""
LONGEST_REPAIRED: Final = 60
"""Tokens that a program may have then."""
MOST_ANSWERS: Final = 20
"""How many are told."""
_PLACES: Final = 4096
"""Hypotheses that are searched at a time, over all tasks of a batch."""
_loading = threading.Lock()

Examples = Task | Sequence[Example | tuple[World, World]]
OnProgress = Callable[[Progress], None]


class Solver:
    """A model and how to search with it. It keeps no state between tasks, so threads may share it."""

    def __init__(self, model: Synthesizer, *, rounds: Sequence[Round] = ROUNDS, slack: float = SLACK) -> None:
        self.model = model
        self.rounds = tuple(rounds)
        self.slack = slack
        self._folder: Path | None = None
        self._weights = model.step_model(decoding_dtype(model.device))
        self._threads = min(torch.get_num_threads(), core_count())
        self._warm = False
        self._warming = threading.Lock()

    @classmethod
    def load(cls, folder: str | Path | None = None, *, device: torch.device | str = "cpu") -> Self:
        """With the weights in a folder, or those that come with the package (`shipped`)."""
        return cls._of_folder(model_folder(SHIPPED if folder is None else folder), device)

    @classmethod
    def _of_folder(
        cls, folder: Path, device: torch.device | str, rounds: Sequence[Round] = ROUNDS, slack: float = SLACK
    ) -> Self:
        solver = cls(Synthesizer.from_pretrained(folder, device), rounds=rounds, slack=slack)
        solver._folder = folder.absolute()  # another process may be elsewhere
        return solver

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and other processes load the model themselves: its weights lie ready for this CPU, where only it can
        read them. A model that came from no folder is sent along."""
        if self._folder is None:
            return partial(type(self), rounds=self.rounds, slack=self.slack), (self.model,)
        return self._of_folder, (self._folder, str(self.model.device), self.rounds, self.slack)

    def warm_up(self) -> None:
        """Load compiled code, or compile it, which takes a minute or more the first time on a machine.

        The first search does this by itself, before its clock starts.
        """
        with self._warming:
            if self._warm:
                return
            before = World(2, 2, Hero(0, 0, "east"))
            inputs, outputs = Task((Example(before, before.with_hero(0, 1, "east")),)).codes()
            programs = ("DEF run m( move m)", "DEF run m( move turnLeft m)")
            find_ambiguity([Answer(Program.parse(text), (True,), 0.0) for text in programs], inputs)
            marking = Program.parse("DEF run m( move putMarker m)")
            marked = Task((Example(before, marking.run(before).world),)).codes()
            MarkovChain(*marked, encode_programs([marking])).run(100)
            turns, near = iter(range(1)), encode_programs([Program.parse(programs[0])])
            lengths, logprobs = np.full(1, near.shape[1]), np.zeros(1, np.float32)
            repair(near, lengths, logprobs, outputs, inputs, longest=8, stop=lambda: next(turns, None) is None)
            close_programs(near[:, :-1])
            for count in (1, 2 * self._threads * TASKS_PER_THREAD):
                searches = [Search(inputs, outputs) for _ in range(count)]
                self._search(searches, Round(2, 8), budget=math.inf, stop=lambda: False)
            self._warm = True

    def solve(
        self,
        examples: Examples,
        *,
        budget: float = DEFAULT_BUDGET,
        on_progress: OnProgress | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Solution:
        """Find a program for one task.

        Args:
            examples: a Task, or pairs of worlds, before and after.
            budget: seconds to search for.
            on_progress: called when a round begins, and a few times a second while it goes on.
            should_stop: called often; when it returns True, the search ends with what it has.
        """
        return self.solve_many([examples], budget=budget, on_progress=on_progress, should_stop=should_stop)[0]

    def solve_many(
        self,
        tasks: Sequence[Examples],
        *,
        budget: float = DEFAULT_BUDGET,
        on_progress: OnProgress | None = None,
        on_solution: Callable[[int, Solution], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> list[Solution]:
        """Find programs for many tasks, searching for several at once, which is faster than one by one.

        Args:
            budget: seconds for each task; time that a batch takes is shared by its tasks.
            on_solution: called with a task's number and its solution as soon as that is known.
            should_stop: when it returns True, the tasks without a solution get what was found for them so far.
        """
        if not budget >= 0:  # nor is it none
            raise ValueError(f"budget is a number of seconds from 0 on, not {budget}")
        codes = [as_task(task).codes() for task in tasks]
        self.warm_up()
        searches = [Search(*pair) for pair in codes]
        stopped = False
        started = told = time.perf_counter()
        caller = threading.get_ident()  # some searches ask from threads of their own: nobody expects to be told there
        solutions: list[Solution | None] = [None] * len(tasks)

        def stop() -> bool:
            nonlocal stopped
            if should_stop is not None and should_stop():  # asked by several threads: none may take it back
                stopped = True
            return stopped

        def settle(number: int) -> None:
            solutions[number] = solution = self._solution(searches[number], budget, stop)
            if on_solution is not None:
                on_solution(number, solution)

        def tell(beam: int) -> None:
            nonlocal told
            told = time.perf_counter()
            if on_progress is not None:
                on_progress(self._progress(searches, told - started, budget, beam))

        for round_ in self.rounds:

            def ask(beam: int = round_.beam) -> bool:
                if threading.get_ident() == caller and time.perf_counter() - told >= _TELL_EVERY:
                    tell(beam)
                return stop()

            waiting = [number for number, solution in enumerate(solutions) if solution is None]
            size = max(1, _PLACES // round_.beam)
            for at in range(0, len(waiting), size):
                if stop():
                    break
                part = waiting[at : at + size]
                tell(round_.beam)
                self._search([searches[number] for number in part], round_, budget, ask)
                for number in part:
                    search = searches[number]
                    if search.solved or search.seconds >= budget:
                        settle(number)
        for number, solution in enumerate(solutions):
            if solution is None:
                searches[number].stopped = stopped
                settle(number)
        return [solution for solution in solutions if solution is not None]

    def _search(self, searches: list[Search], round_: Round, budget: float, stop: Callable[[], bool]) -> None:
        """Go through one round for some tasks."""
        start = time.perf_counter()
        deadline = start + sum(max(0.0, budget - search.seconds) for search in searches)
        most = max(len(search.inputs) for search in searches)
        # A task with fewer examples repeats its own: to the network, which takes their maximum, that is no difference.
        inputs, outputs = (
            np.stack([np.resize(getattr(search, name), (most, *search.inputs.shape[1:])) for search in searches])
            for name in ("inputs", "outputs")
        )
        longest = min(round_.longest, self.model.settings.max_length)
        encoded = encode_for_search(self.model, inputs, outputs)
        ends, told_to = OpenEnds(), False

        def end() -> bool:
            nonlocal told_to
            told_to = stop() or told_to
            return told_to or time.perf_counter() >= deadline

        candidates = beam_search(
            self.model,
            encoded,
            beam=round_.beam,
            max_length=longest,
            weights=self._weights,
            pruning=Pruning(inputs, outputs),
            slack=self.slack,
            window=round_.window,
            stop=end,
            threads=self._threads,
            left_open=ends.note if round_.repair else None,
        ).cpu()
        found = []
        for row, search in enumerate(searches):
            own = (getattr(candidates, name)[row].numpy() for name in ("tokens", "lengths", "logprobs"))
            found.append(run_programs(search, *own))
            remember(search, found[-1])
            search.beam = round_.beam
            search.checked += int((candidates.lengths[row] > 0).sum())
            search.stopped = (
                told_to  # the beam of all was cut short; a repair that is later ends one task's search only
            )
        spent = (time.perf_counter() - start) / len(searches)
        for row, (search, programs) in enumerate(zip(searches, found, strict=True)):
            search.seconds += spent
            if round_.repair and not search.solved and search.seconds < budget and not stop():
                start = time.perf_counter()
                deadline = start + min(budget - search.seconds, round_.repair * budget)
                near = programs.and_also(run_programs(search, *ends.closed(row)))
                self._repair(search, near, encoded.row(row), deadline, stop)
                search.seconds += time.perf_counter() - start

    def _repair(self, search: Search, near: Found, encoded: Encoded, deadline: float, stop: Callable[[], bool]) -> None:
        """Repair what a round has found for a task, or if it was nothing, the simplest programs there are."""
        if not len(near.lengths):
            near = run_programs(search, *simplest())
        best = near[near.ranks[:REPAIRED]]
        repaired = repair(
            best.tokens,
            best.lengths,
            best.logprobs,
            search.inputs,
            search.outputs,
            longest=min(LONGEST_REPAIRED, self.model.settings.max_length),
            stop=lambda: time.perf_counter() >= deadline or stop(),
        )
        search.checked += repaired.tried
        tasks = np.zeros(len(repaired.lengths), np.int64)
        if not len(tasks):
            return
        logprobs = score_programs(
            self.model, encoded, repaired.tokens, repaired.lengths, tasks, weights=self._weights, threads=self._threads
        )
        remember(search, run_programs(search, repaired.tokens, repaired.lengths, logprobs))

    def _solution(self, search: Search, budget: float, stop: Callable[[], bool]) -> Solution:
        ambiguity = None
        start = time.perf_counter()
        if search.solved:
            prefer(search, deadline=start + budget - search.seconds, stop=stop, threads=self._threads)
        answers = tuple(search.answers[:MOST_ANSWERS])
        if search.solved and len(answers) > 1:
            ambiguity = find_ambiguity(answers, search.inputs)
        seconds = search.seconds + time.perf_counter() - start
        return Solution(answers, search.solved, ambiguity, seconds, search.beam, search.checked, search.stopped)

    @staticmethod
    def _progress(searches: list[Search], seconds: float, budget: float, beam: int) -> Progress:
        best = [search.answers[0] for search in searches if search.answers]
        return Progress(
            seconds=seconds,
            budget=budget * len(searches),
            beam=beam,
            checked=sum(search.checked for search in searches),
            best=best[0] if len(searches) == 1 and best else None,
        )


def solve(examples: Examples, *, budget: float = DEFAULT_BUDGET) -> Solution:
    """Find a program that does what the examples show, with the model that comes with the package.

    `examples` are pairs of worlds, before and after; `budget` is in seconds. See `Solver` for more.
    """
    return _shipped().solve(examples, budget=budget)


def _shipped() -> Solver:
    with _loading:  # once, though several threads ask
        return _loaded()


@cache
def _loaded() -> Solver:
    return Solver.load()
