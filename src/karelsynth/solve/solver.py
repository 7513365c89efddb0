"""Search for a program until one is consistent with every example, or time is up.

    from karelsynth.solve import solve

    solution = solve([(before, after), (before, after)])
    if solution:
        print(solution.program)

A search has rounds, each with a wider beam. A round runs a beam search, which executes every prefix on the examples
(`search.pruning`). If that finds no consistent program, `search.repair` edits the near misses. A plausible answer ends
the search. With an implausible one, later rounds look for a likelier one until the budget is spent. Of several
consistent programs the one comes first that is likeliest to be right on a further example (`ranking`). Every returned
program has been run on the examples.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np
import torch

from karelsynth.karel.compiled import mark_complete
from karelsynth.karel.machine import encode_programs
from karelsynth.karel.program import Program
from karelsynth.karel.threads import core_count
from karelsynth.karel.world import Hero, World
from karelsynth.model.devices import decoding_dtype
from karelsynth.model.storage import SHIPPED, model_folder
from karelsynth.model.synthesizer import Encoded, Synthesizer
from karelsynth.search.beam import TASKS_PER_THREAD, beam_search, encode_for_search
from karelsynth.search.candidates import OpenHypotheses
from karelsynth.search.pruning import Pruning
from karelsynth.search.repair import repair
from karelsynth.search.scoring import score_programs
from karelsynth.solve.answers import CheckedPrograms, SearchState, check_programs, single_actions
from karelsynth.solve.compiling import SEARCH, load_part, start_compiling
from karelsynth.solve.concluding import conclude, conclude_elsewhere, rank_answers
from karelsynth.solve.ranking import Ranking, find_ambiguity, look_random, run_variations
from karelsynth.solve.solution import Progress, Solution
from karelsynth.solve.turns import Turn, Turns
from karelsynth.tasks.task import Example, Task, as_task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.cluster import Mapper
    from karelsynth.search.candidates import Candidates

DEFAULT_BUDGET: Final = 1.0
"""Seconds."""


class Round(NamedTuple):
    """The settings of one round."""

    beam: int
    max_length: int
    """Tokens of the longest program."""
    repair: float = 0.0
    """The most time for repair after the beam search, as a share of the budget."""
    window: float = math.inf
    """Prefixes are dropped that are less likely than the likeliest one by more than this many nats."""
    floor: float = -math.inf
    """Prefixes are dropped unless their log-probability is higher than this."""


ROUNDS: Final = (Round(128, 112, 0.6, 6.0, -12.0), Round(512, 112, 1), Round(2048, 112, 1), Round(4096, 112, 1))
"""The window keeps the first beam narrow where the network is certain. The floor ends it where the network is at a
loss: repair finds such a program sooner."""
PLAUSIBLE: Final = -5.0
"""The log-probability at which an answer ends the search. With a less likely one, wider beams look for a likelier one
until the budget is spent."""
SLACK: Final = 5.0
"""Once an answer is found, hypotheses are kept only if they are less likely than it by at most this many nats of
log-probability. Others may turn out more probable when they are ranked."""
_REPORT_SECONDS: Final = 0.25
"""The time between two progress reports."""
LONGEST_REPAIRED: Final = 60
"""Tokens of the longest program that repair makes."""
MOST_REPAIRED: Final = 64
"""The most near misses that repair starts from."""
MOST_SIMPLIFIED: Final = 8
"""The most answers that are simplified."""
_MOST_HYPOTHESES: Final = 4096
"""Hypotheses of all tasks that are searched at the same time: beam width times tasks."""
_MOST_IN_LARGE_ROUNDS: Final = 2**17
"""The same on a GPU, for at least _FEWEST_IN_LARGE_ROUNDS tasks: 1,024 tasks in the first round. Answers of one such
batch are ranked while the next one is searched."""
_FEWEST_IN_LARGE_ROUNDS: Final = 16
_PIECE: Final = 32
"""Tasks that a process on another machine gets at a time: as many as the first round searches together."""
_CORES_PER_SEARCH: Final = 2
"""The number of cores for each search that runs at the same time; further threads wait."""
_TOGETHER: Final = 16
"""Searches that make their first round together on a CPU, when many wait. More would gain little and wait longer."""
NARROW: Final = 4.0
"""The slack and the window of a round that should take less time, in nats."""
_loading = threading.Lock()

TaskLike = Task | Sequence[Example | tuple[World, World]]
OnProgress = Callable[[Progress], None]
Map = Callable[..., Iterable[Any]]
"""A function like `map`."""
_Programs = tuple["NDArray[np.uint8]", "NDArray[np.int64]"]
"""Programs [N, L] and their lengths [N]."""


class Solver:
    """A model and the settings of the search. It keeps no state between tasks, so threads may share it."""

    def __init__(self, model: Synthesizer, *, rounds: Sequence[Round] = ROUNDS, slack: float = SLACK) -> None:
        self.model = model
        self.rounds = tuple(rounds)
        self.plausible = PLAUSIBLE
        self.slack = slack
        self._folder: Path | None = None
        self._weights = model.step_model(decoding_dtype(model.device))
        self._threads = min(torch.get_num_threads(), core_count())
        self.turns = Turns(max(1, core_count() // _CORES_PER_SEARCH), self._threads)
        """Threads that share the solver take turns."""
        self._warm = self._chains_warm = False
        self._warming = threading.Lock()

    @classmethod
    def load(cls, folder: str | Path | None = None, *, device: torch.device | str = "cpu") -> Self:
        """A solver with the weights in a folder, by default those that come with the package (`shipped`)."""
        return cls._of_folder(SHIPPED if folder is None else folder, device)

    @classmethod
    def _of_folder(
        cls, folder: str | Path, device: torch.device | str, rounds: Sequence[Round] = ROUNDS, slack: float = SLACK
    ) -> Self:
        folder = model_folder(folder)
        solver = cls(Synthesizer.from_pretrained(folder, device), rounds=rounds, slack=slack)
        solver._folder = folder.absolute()  # another process may have another working directory
        return solver

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and other processes load the model from its folder: packed weights only work on this CPU.

        A model without a folder is pickled. The package's own may lie elsewhere on another machine.
        """
        if self._folder is None:
            return partial(type(self), rounds=self.rounds, slack=self.slack), (self.model,)
        own = SHIPPED if self._folder == model_folder(SHIPPED).absolute() else self._folder
        return self._of_folder, (own, str(self.model.device), self.rounds, self.slack)

    def warm_up(self, tasks: Sequence[TaskLike] | None = None) -> None:
        """Load compiled code, or compile it, which takes a third of a minute the first time on a machine.

        With `tasks`, only what their searches need. A search calls this itself, before its clock starts.
        """
        self._warm_up(None if tasks is None else [self.begin(task) for task in tasks])

    def _warm_up(self, states: Sequence[SearchState] | None) -> None:
        chains = states is None or any(look_random(state.inputs, state.outputs) for state in states)
        with self._warming:
            if self._warm and (self._chains_warm or not chains):
                return
            start_compiling()
            if not self._warm:
                before = World(2, 2, Hero(0, 0, "east"))
                inputs, outputs = Task((Example(before, before.with_hero(0, 1, "east")),)).codes()
                bodies = ("move", "move turnLeft")
                tokens = encode_programs([Program.parse(f"DEF run m( {body} m)") for body in bodies])
                find_ambiguity(tokens, np.full(2, 0.5), run_variations(tokens, inputs))
                for count in (1, 2 * self._threads * TASKS_PER_THREAD):
                    tried = [SearchState(inputs, outputs) for _ in range(count)]
                    with self.turns.turn() as turn:
                        self._run_round(tried, Round(2, 8), turn, lambda: None, lambda state: None)
                encoded = encode_for_search(self.model, *_stacked(tried[:1]))
                self._add_answers(tried, {0: (tokens[:1], np.full(1, 5))}, encoded, self._threads)
                mark_complete(SEARCH)
                load_part("simplify")
                load_part("repair")
                self._warm = True
            if chains and not self._chains_warm:  # only tasks that look random need them
                load_part("chain")
                self._chains_warm = True

    def solve(
        self,
        examples: TaskLike,
        *,
        budget: float = DEFAULT_BUDGET,
        max_ticks: int | None = None,
        on_progress: OnProgress | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Solution:
        """Find a program for one task.

        Args:
            examples: a Task, or pairs of worlds, before and after.
            budget: seconds to search for. They count while the search runs, not while it waits for other threads'
                searches (`turns`).
            max_ticks: the most ticks that a correct program takes on an example; by default the task's own.
            on_progress: called when a round begins and a few times a second during it.
            should_stop: called often; when it returns True, the search ends with what it has found.
        """
        return self.solve_many(
            [examples], budget=budget, max_ticks=max_ticks, on_progress=on_progress, should_stop=should_stop
        )[0]

    def solve_many(
        self,
        tasks: Sequence[TaskLike],
        *,
        budget: float = DEFAULT_BUDGET,
        max_ticks: int | None = None,
        on_progress: OnProgress | None = None,
        on_solution: Callable[[int, Solution], None] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> list[Solution]:
        """Find programs for many tasks, in batches, which is faster than one by one.

        Args:
            budget: seconds for each task; the time of a batch is divided equally among its tasks.
            max_ticks: the most ticks that a correct program takes on an example; by default each task's own.
            on_solution: called with a task's index and its solution as soon as it is final.
            should_stop: when it returns True, the tasks that are not finished get what has been found for them so far.
        """
        states = [self.begin(task, budget=budget, max_ticks=max_ticks) for task in tasks]
        self._warm_up(states)
        call = _Call(states, budget, on_progress, should_stop)
        solutions: dict[int, Solution] = {}

        def report(number: int, solution: Solution) -> None:
            solutions[number] = solution
            if on_solution is not None:
                on_solution(number, solution)

        if self.in_large_rounds(len(tasks)):
            self._search_in_large_rounds(call, report)
        else:
            self._search(call, lambda number, turn: report(number, self.conclude(states[number], turn)))
        return [solutions[number] for number in range(len(tasks))]

    def solve_elsewhere(
        self,
        mapper: Mapper,
        tasks: Sequence[TaskLike],
        *,
        budget: float = DEFAULT_BUDGET,
        max_ticks: int | None = None,
    ) -> Iterator[Solution]:
        """The solutions of many tasks, in their order, found on other machines: `karelsynth.cluster.Cluster.map`.

        The same tasks always go to a process together. As on one machine, a search that its budget ends may find
        another program the next time.
        """
        pieces = (tasks[at : at + _PIECE] for at in range(0, len(tasks), _PIECE))
        for solutions in mapper(partial(self.solve_many, budget=budget, max_ticks=max_ticks), pieces):
            yield from solutions

    def search(self, examples: TaskLike, *, budget: float = DEFAULT_BUDGET) -> SearchState:
        """Find programs for one task without ranking them."""
        state = self.begin(examples, budget=budget)
        self._warm_up([state])
        self._search(_Call([state], budget, None, None), lambda number, turn: None)
        return state

    # A search round by round, for callers that choose which searches run together

    def begin(
        self,
        examples: TaskLike,
        *,
        budget: float = DEFAULT_BUDGET,
        max_ticks: int | None = None,
        should_stop: Callable[[], bool] = bool,
    ) -> SearchState:
        """A search that has not run yet: `advance` it until it is `done`, then `conclude` it."""
        if not budget >= 0:  # refuses NaN, too
            raise ValueError(f"budget is a number of seconds from 0 on, not {budget}")
        task = as_task(examples)
        max_ticks = task.max_ticks if max_ticks is None else max_ticks
        task = replace(task, max_ticks=max_ticks)
        return SearchState(*task.codes(), max_ticks=max_ticks, budget=budget, should_stop=should_stop)

    def advance(
        self,
        states: Sequence[SearchState],
        turn: Turn,
        poll: Callable[[], None] = lambda: None,
        *,
        narrow: bool = False,
        each: Map = map,
        on_end: Callable[[SearchState], None] = lambda state: None,
    ) -> None:
        """Run the next round for searches that have run equally many, all together.

        `poll` is called often, by any thread. `on_end` is called for each search when its part of the round is over;
        those that need no repair come first. The time is divided equally among the searches. With `narrow`, only
        hypotheses within `NARROW` nats are kept, which takes less time and finds fewer alternatives. `each` is `map`,
        or that of a pool of threads, for what is done task by task.
        """
        round_ = self.rounds[states[0].rounds]
        if any(state.rounds != states[0].rounds for state in states):
            raise ValueError("searches run a round together only if all have run equally many")

        def end(state: SearchState) -> None:
            state.rounds += 1
            if not self.done(state) and state.should_stop():
                state.stopped = True
            on_end(state)

        if not all(state.should_stop() for state in states):
            self._run_round(list(states), round_, turn, poll, end, NARROW if narrow else math.inf, each)
        else:
            for state in states:
                end(state)

    def done(self, state: SearchState) -> bool:
        """Whether a search needs no further round: its answer is plausible, its budget spent, or it was stopped."""
        over = state.rounds >= len(self.rounds) or state.best_logprob >= self.plausible
        return over or state.seconds >= state.budget or state.stopped

    def progress(self, state: SearchState, seconds: float) -> Progress:
        """The progress of a search that has run for `seconds`."""
        beam = self.rounds[min(state.rounds, len(self.rounds) - 1)].beam
        best = None if state.answers is None else state.answers.answer(0)
        return Progress(seconds, state.budget, beam, state.checked, best)

    def together(self, rounds: int) -> int:
        """How many searches should run their next round together, after `rounds` rounds.

        On a CPU a wide beam keeps the cores busy by itself.
        """
        if self.model.device.type == "cpu":
            return _TOGETHER if rounds == 0 else 1
        return max(1, _MOST_HYPOTHESES // self.rounds[rounds].beam)

    def in_large_rounds(self, tasks: int) -> bool:
        """Whether `solve_many` searches for hundreds of tasks together while all cores repair and rank: on a GPU."""
        return self.model.device.type == "cuda" and tasks >= _FEWEST_IN_LARGE_ROUNDS

    def conclude(self, state: SearchState, turn: Turn, *, quick: bool = False) -> Solution:
        """The solution of a search: `solve.concluding.conclude`."""
        return conclude(state, turn, quick=quick)

    def rank(self, state: SearchState) -> Ranking:
        """Reduce the answers of a solved task, and rank them within what its budget leaves."""
        with self.turns.turn() as turn:
            return rank_answers(state, turn)

    def _search(
        self,
        call: _Call,
        finish: Callable[[int, Turn], None],
        *,
        most: int = _MOST_HYPOTHESES,
        each: Map = map,
        threads: int | None = None,
    ) -> None:
        """Run rounds until every task has a plausible answer or its budget is spent.

        Args:
            finish: called with the number of each task that is done.
            most: hypotheses of all tasks that are searched at the same time.
            each: as in `advance`.
            threads: of each search.
        """
        states = call.states
        searching = list(range(len(states)))
        for round_ in self.rounds:
            size = max(1, most // round_.beam)
            unfinished = []
            for at in range(0, len(searching), size):
                batch = searching[at : at + size]
                with self.turns.turn(threads=threads) as turn:
                    call.report_progress(round_.beam)
                    poll = partial(call.poll, round_.beam)
                    self.advance([states[number] for number in batch], turn, poll, each=each)
                    for number in batch:
                        if self.done(states[number]):
                            finish(number, turn)
                        else:
                            unfinished.append(number)
            searching = unfinished

    def _search_in_large_rounds(self, call: _Call, report: Callable[[int, Solution], None]) -> None:
        """`_search` with hundreds of tasks in a round.

        Programs are repaired by a thread for each core. Answers are ranked by other processes while the search goes on.
        """
        concluding: deque[tuple[int, Future[Solution]]] = deque()

        def finish(number: int, turn: Turn) -> None:
            concluding.append((number, conclude_elsewhere(call.states[number])))
            while concluding and concluding[0][1].done():
                report_next()

        def report_next() -> None:
            number, solution = concluding.popleft()
            report(number, solution.result())

        with ThreadPoolExecutor(core_count(), thread_name_prefix="karel-repair") as pool:
            self._search(call, finish, most=_MOST_IN_LARGE_ROUNDS, each=pool.map, threads=1)
        while concluding:
            report_next()

    def _run_round(
        self,
        states: list[SearchState],
        round_: Round,
        turn: Turn,
        poll: Callable[[], None],
        on_end: Callable[[SearchState], None],
        window: float = math.inf,
        each: Map = map,
    ) -> None:
        """Run one round for a batch of tasks: beam search for all, then repair task by task.

        `on_end` is called for each task when its part is over. The solved ones come first: none waits for repairs.
        """
        start = turn.now()
        deadline = start + sum(max(0.0, state.budget - state.seconds) for state in states)
        inputs, outputs = _stacked(states)
        encoded = encode_for_search(self.model, inputs, outputs)
        open_hypotheses = OpenHypotheses() if round_.repair else None
        stopped = False

        def end() -> bool:
            nonlocal stopped
            poll()
            turn.poll()
            stopped = stopped or all(state.should_stop() for state in states)
            return stopped or turn.now() >= deadline

        best_known = torch.tensor([state.best_logprob for state in states])
        pruning = Pruning(inputs, outputs, max_ticks=max(state.max_ticks for state in states))
        candidates = self._beam_search(encoded, pruning, round_, best_known, end, open_hypotheses, turn.threads, window)
        columns = [getattr(candidates, name).numpy() for name in ("tokens", "lengths", "logprobs")]
        found = list(each(check_programs, states, *columns))
        spent = (turn.now() - start) / len(states)
        for state, programs, lengths in zip(states, found, columns[1], strict=True):
            state.update_answers(programs)
            state.beam = round_.beam
            state.checked += int((lengths > 0).sum())
            state.stopped = stopped  # a stop during a later repair only counts for the task that is repaired
            state.seconds += spent
        left = [row for row, state in enumerate(states) if state.seconds < state.budget]
        implausible = [row for row in left if -math.inf < states[row].best_logprob < self.plausible]
        self.simplify_answers(states, implausible, encoded, turn, each)
        unsolved = [] if open_hypotheses is None else [row for row in left if not states[row].solved]
        for row, state in enumerate(states):
            if row not in unsolved:
                on_end(state)

        def repaired(row: int) -> _Programs:
            assert open_hypotheses is not None
            state, start = states[row], turn.now()
            near_misses = found[row].joined(check_programs(state, *open_hypotheses.closed(row)))
            most = min(state.budget - state.seconds, round_.repair * state.budget)
            return self._repaired(state, near_misses, start + most, turn, poll)

        # Without threads one after the other, so that each ends with its own repair.
        for rows in [[row] for row in unsolved] if each is map else [unsolved]:
            self._find_answers(states, rows, repaired, encoded, turn, each)
            self.simplify_answers(states, [row for row in rows if states[row].solved], encoded, turn, each)
            for row in rows:
                on_end(states[row])

    def _beam_search(
        self,
        encoded: Encoded,
        pruning: Pruning,
        round_: Round,
        best_known: torch.Tensor,
        stop: Callable[[], bool],
        open_hypotheses: OpenHypotheses | None,
        threads: int,
        window: float,
    ) -> Candidates:
        return beam_search(
            self.model,
            encoded,
            beam=round_.beam,
            max_length=min(round_.max_length, self.model.settings.max_length),
            weights=self._weights,
            pruning=pruning,
            slack=min(self.slack, window),
            window=min(round_.window, window),
            floor=round_.floor,
            best_known=best_known,
            stop=stop,
            threads=threads,
            left_open=None if open_hypotheses is None else open_hypotheses.record,
        ).cpu()

    def _repaired(
        self,
        state: SearchState,
        near_misses: CheckedPrograms,
        deadline: float,
        turn: Turn,
        poll: Callable[[], None],
    ) -> _Programs:
        """Repair the near misses of a round; without any, start from the programs of one action."""

        def stop() -> bool:
            poll()
            turn.poll()
            state.stopped = state.should_stop()
            return state.stopped or turn.now() >= deadline

        if not len(near_misses):
            near_misses = check_programs(state, *single_actions())
        best = near_misses.ranked()[:MOST_REPAIRED]
        before = state.checked

        def count(tried: int) -> None:
            state.checked = before + tried  # progress reports read it

        repaired = repair(
            best.tokens,
            best.lengths,
            best.logprobs,
            state.inputs,
            state.outputs,
            longest=min(LONGEST_REPAIRED, self.model.settings.max_length),
            stop=stop,
            max_ticks=state.max_ticks,
            on_tried=count,
        )
        count(repaired.tried)
        return repaired.tokens, repaired.lengths

    def simplify_answers(
        self, states: Sequence[SearchState], rows: Sequence[int], encoded: Encoded, turn: Turn, each: Map = map
    ) -> None:
        """Add versions of the first answers without what no example needs. Few people mean long programs."""

        def simpler(row: int) -> _Programs:
            state, answers = states[row], states[row].answers
            assert answers is not None
            best = answers[:MOST_SIMPLIFIED]
            tasks = best.simplified(state.inputs, state.outputs, max_ticks=state.max_ticks, threads=turn.threads)
            lengths = tasks.lengths.astype(np.int64)
            shorter = lengths < best.lengths
            return tasks.tokens[shorter], lengths[shorter]

        self._find_answers(states, rows, simpler, encoded, turn, each)

    def _find_answers(
        self,
        states: Sequence[SearchState],
        rows: Sequence[int],
        find: Callable[[int], _Programs],
        encoded: Encoded,
        turn: Turn,
        each: Map,
    ) -> None:
        """Add what `find` finds for the tasks in these rows; each search is charged the time."""

        def timed(row: int) -> _Programs:
            start = turn.now()
            programs = find(row)
            states[row].seconds += turn.now() - start
            return programs

        found = {row: programs for row, programs in zip(rows, each(timed, rows), strict=True) if len(programs[1])}
        if found:
            start = turn.now()
            self._add_answers(states, found, encoded, turn.threads)
            spent = (turn.now() - start) / len(found)
            for row in found:
                states[row].seconds += spent

    def _add_answers(
        self, states: Sequence[SearchState], found: dict[int, _Programs], encoded: Encoded, threads: int
    ) -> None:
        """Score programs by the network, for the tasks in these rows; run them, and keep them if they fit."""
        longest = max(tokens.shape[1] for tokens, _ in found.values())
        tokens = np.concatenate(
            [np.pad(tokens, ((0, 0), (0, longest - tokens.shape[1]))) for tokens, _ in found.values()]
        )
        lengths = np.concatenate([lengths for _, lengths in found.values()])
        tasks = np.repeat(list(found), [len(lengths) for _, lengths in found.values()])
        logprobs = score_programs(self.model, encoded, tokens, lengths, tasks, weights=self._weights, threads=threads)
        for row in found:
            own = tasks == row
            states[row].update_answers(check_programs(states[row], tokens[own], lengths[own], logprobs[own]))


def _stacked(states: Sequence[SearchState]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The examples of all tasks, uint8 [B, K, 18, 18] each.

    A task with fewer than K examples repeats its own. The network is invariant to that, since it pools by maximum.
    """
    most = max(len(state.inputs) for state in states)
    shape = (most, *states[0].inputs.shape[1:])
    inputs, outputs = (
        np.stack([np.resize(getattr(state, name), shape) for state in states]) for name in ("inputs", "outputs")
    )
    return inputs, outputs


@dataclass
class _Call:
    """One call of `solve_many`: progress reports and stop requests."""

    states: list[SearchState]
    budget: float
    on_progress: OnProgress | None
    should_stop: Callable[[], bool] | None
    stopped: bool = False
    started: float = field(default_factory=time.perf_counter)
    reported: float = field(default_factory=time.perf_counter)
    """The time of the last report."""
    thread: int = field(default_factory=threading.get_ident)
    """The caller's thread. Searches poll from threads of their own; reports are only made from this one."""

    def __post_init__(self) -> None:
        for state in self.states:
            state.should_stop = self.stop_requested

    def stop_requested(self) -> bool:
        """Whether `should_stop` has returned True, now or before, in any thread."""
        if self.should_stop is not None and self.should_stop():
            self.stopped = True
        return self.stopped

    def poll(self, beam: int) -> None:
        """Report progress if a report is due."""
        if threading.get_ident() == self.thread and time.perf_counter() - self.reported >= _REPORT_SECONDS:
            self.report_progress(beam)

    def report_progress(self, beam: int) -> None:
        """Call `on_progress`. Only a single task reports its best answer."""
        self.reported = time.perf_counter()
        if self.on_progress is not None:
            best = self.states[0].answers if len(self.states) == 1 else None
            self.on_progress(
                Progress(
                    seconds=self.reported - self.started,
                    budget=self.budget * len(self.states),
                    beam=beam,
                    checked=sum(state.checked for state in self.states),
                    best=None if best is None else best.answer(0),
                )
            )


def solve(examples: TaskLike, *, budget: float = DEFAULT_BUDGET, max_ticks: int | None = None) -> Solution:
    """Find a program that does what the examples show, with the model that comes with the package.

    `examples` are pairs of worlds, before and after; `budget` is in seconds. A correct program takes at most
    `max_ticks` on an example, by default 10,000. See `Solver` for more.
    """
    return _shipped().solve(examples, budget=budget, max_ticks=max_ticks)


def _shipped() -> Solver:
    with _loading:  # once, even if several threads call
        return _loaded()


@cache
def _loaded() -> Solver:
    return Solver.load()
