"""Many tasks at once on a GPU: each round searches hundreds of them together, and cores rank answers meanwhile.

The rounds are the solver's own, with the same pruning and the same rules when a task is done. What differs:

- A round is one search for all tasks that need it; tasks enter it as others leave (`beam_search`).
- Candidates of all tasks are run by one call, and what is simplified or repaired is scored by one call.
- Repair runs in threads, one task each, and ranking in processes (`concluding`), while the search goes on.
- MCMC makes as many steps as `serve` does under load: with the usual number, ranking would take most of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from karelsynth.karel.interpreter import Status
from karelsynth.karel.machine import run_batch
from karelsynth.karel.threads import core_count
from karelsynth.karel.tokens import PAD
from karelsynth.search.beam import encode_for_search
from karelsynth.search.candidates import OpenHypotheses
from karelsynth.search.pruning import Pruning
from karelsynth.search.scoring import score_programs
from karelsynth.solve.answers import CheckedPrograms, SearchState, check_programs
from karelsynth.solve.concluding import conclude_elsewhere
from karelsynth.solve.turns import Turn

if TYPE_CHECKING:
    from karelsynth.model.synthesizer import Encoded
    from karelsynth.search.candidates import Candidates
    from karelsynth.solve.solution import Solution
    from karelsynth.solve.solver import Round, Solver, _Call

FEWEST_TOGETHER: Final = 16
"""Fewer tasks are searched as on a CPU, which gives each its whole budget."""
MOST_TOGETHER: Final = 2**18
"""Hypotheses of all tasks of one search: 2,048 tasks in the first round."""
_STEPS: Final = 500
"""MCMC steps of a block."""
_RANKING: Final = 0.1
"""Seconds for ranking the answers of a task."""

OnSolution = Callable[[int, "Solution"], None]
Found = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Programs [N, L] and their lengths [N]."""


def search_together(
    solver: Solver, states: Sequence[SearchState], call: _Call, on_solution: OnSolution | None
) -> list[Solution]:
    """`Solver.solve_many` for many tasks on a GPU."""
    concluding: dict[int, Future[Solution]] = {}
    reported: set[int] = set()

    def report(*, wait: bool) -> None:
        """Tell of the solutions that are there, or wait for all."""
        for number, future in concluding.items():
            if on_solution is not None and number not in reported and (wait or future.done()):
                reported.add(number)
                on_solution(number, future.result())

    with solver.turns.turn() as turn, ThreadPoolExecutor(core_count(), thread_name_prefix="karel-rank") as pool:
        searching = list(range(len(states)))
        for round_ in solver.rounds:
            size, unfinished = max(1, MOST_TOGETHER // round_.beam), []
            for at in range(0, len(searching), size):
                batch = searching[at : at + size]
                call.report_progress(round_.beam)
                _run_round(solver, [states[number] for number in batch], round_, turn, partial(call.poll, round_.beam),
                           pool)  # fmt: skip
                for number in batch:
                    if solver.done(states[number]):
                        concluding[number] = conclude_elsewhere(states[number], steps=_STEPS, seconds=_RANKING)
                    else:
                        unfinished.append(number)
                report(wait=False)
            searching = unfinished
        report(wait=True)
    return [concluding[number].result() for number in range(len(states))]


def _run_round(
    solver: Solver,
    states: list[SearchState],
    round_: Round,
    turn: Turn,
    poll: Callable[[], None],
    pool: ThreadPoolExecutor,
) -> None:
    """One round for many tasks; see `Solver._run_round`."""
    start = turn.now()
    deadline = start + sum(max(0.0, state.budget - state.seconds) for state in states)
    inputs, outputs = stacked(states)
    encoded = encode_for_search(solver.model, inputs, outputs)
    open_hypotheses = OpenHypotheses() if round_.repair else None

    def end() -> bool:
        poll()
        return states[0].should_stop() or turn.now() >= deadline

    best_known = torch.tensor([state.best_logprob for state in states])
    pruning = Pruning(inputs, outputs, max_ticks=max(state.max_ticks for state in states))
    candidates = solver._beam_search(encoded, pruning, round_, best_known, end, open_hypotheses, turn.threads, math.inf)
    stopped = states[0].should_stop()
    found = _checked(states, inputs, outputs, candidates)
    for state, programs in zip(states, found, strict=True):
        state.update_answers(programs)
        state.beam, state.stopped = round_.beam, stopped
        state.checked += len(programs)
        state.rounds += 1
    spent = (turn.now() - start) / len(states)
    for state in states:
        state.seconds += spent
    start = turn.now()
    implausible = [
        row for row, state in enumerate(states) if -math.inf < state.best_logprob < solver.plausible and not stopped
    ]
    simpler = pool.map(lambda row: solver.simpler_answers(states[row], 1), implausible)
    _add_answers(solver, states, encoded, dict(zip(implausible, simpler, strict=True)))
    if open_hypotheses is not None and not stopped:
        recorded = open_hypotheses
        unsolved = [row for row, state in enumerate(states) if not state.solved and state.seconds < state.budget]

        def repaired(row: int) -> Found:
            state, own = states[row], Turn(None, 1, float)
            near_misses = found[row].joined(check_programs(state, *recorded.closed(row)))
            most = min(state.budget - state.seconds, round_.repair * state.budget)
            programs = solver.repaired(state, near_misses, own.now() + most, own, poll)
            state.seconds += own.now() - start
            return programs

        _add_answers(solver, states, encoded, dict(zip(unsolved, pool.map(repaired, unsolved), strict=True)))
        unsolved = [row for row in unsolved if states[row].solved]
        simpler = pool.map(lambda row: solver.simpler_answers(states[row], 1), unsolved)
        _add_answers(solver, states, encoded, dict(zip(unsolved, simpler, strict=True)))


def _checked(
    states: list[SearchState], inputs: NDArray[np.uint8], outputs: NDArray[np.uint8], candidates: Candidates
) -> list[CheckedPrograms]:
    """Run the candidates of all tasks at once: `check_programs` for each."""
    tokens, lengths, logprobs = (part.numpy() for part in (candidates.tokens, candidates.lengths, candidates.logprobs))
    tasks, slots = np.nonzero(lengths)
    programs = tokens[tasks, slots]
    correct, parses = np.zeros((len(tasks), inputs.shape[1]), np.bool_), np.zeros(len(tasks), np.bool_)
    limits = np.array([state.max_ticks for state in states])[tasks]
    for max_ticks in np.unique(limits).tolist():
        some = limits == max_ticks
        runs = run_batch(
            programs[some], inputs, which=tasks[some], expected=outputs, keep_worlds=False, max_ticks=max_ticks
        )
        assert runs.correct is not None
        correct[some], parses[some] = runs.correct, runs.status[:, 0] != Status.INVALID_PROGRAM
    found = []
    edges = np.searchsorted(tasks, np.arange(len(states) + 1))
    for row, state in enumerate(states):
        own = np.arange(edges[row], edges[row + 1])
        own = own[parses[own]]
        rows, examples = slots[own], len(state.inputs)
        found.append(CheckedPrograms(programs[own], lengths[row, rows], logprobs[row, rows], correct[own, :examples]))
    return found


def _add_answers(solver: Solver, states: list[SearchState], encoded: Encoded, found: dict[int, Found]) -> None:
    """Score programs by the network, for the tasks in these rows, all at once; run them, and keep those that fit."""
    found = {row: programs for row, programs in found.items() if len(programs[1])}
    if not found:
        return
    width = max(tokens.shape[1] for tokens, _ in found.values())
    tokens = np.concatenate(
        [np.pad(tokens, ((0, 0), (0, width - tokens.shape[1])), constant_values=PAD) for tokens, _ in found.values()]
    )
    lengths = np.concatenate([lengths for _, lengths in found.values()])
    tasks = np.repeat(np.array(list(found)), [len(lengths) for _, lengths in found.values()])
    logprobs = score_programs(solver.model, encoded, tokens, lengths, tasks, weights=solver.weights)
    for row in found:
        own = tasks == row
        states[row].update_answers(check_programs(states[row], tokens[own], lengths[own], logprobs[own]))


def stacked(states: Sequence[SearchState]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The examples of all tasks, uint8 [B, K, 18, 18] each.

    A task with fewer than K examples repeats its own. The network is invariant to that, since it pools by maximum.
    """
    most = max(len(state.inputs) for state in states)
    shape = (most, *states[0].inputs.shape[1:])
    inputs, outputs = (
        np.stack([np.resize(getattr(state, name), shape) for state in states]) for name in ("inputs", "outputs")
    )
    return inputs, outputs
