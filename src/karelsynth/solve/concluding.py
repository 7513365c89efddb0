"""The last part of a search: its answers ranked, and a question if they differ. It needs no network.

Much of it is Python, which a process runs on one core at a time. Where many searches end together, other processes do
it, `python -m karelsynth.solve.concluding`:

    future = conclude_elsewhere(state)
    future.result()                     # the same Solution as `conclude` makes

Such a process reads pickled searches from its parent, writes pickled solutions, and ends with its parent.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from karelsynth.karel.threads import THREADS, core_count
from karelsynth.solve.answers import SearchState
from karelsynth.solve.ranking import STEPS_PER_BLOCK, Ranking, find_ambiguity, rank
from karelsynth.solve.solution import Solution
from karelsynth.solve.turns import Turn

MOST_ANSWERS: Final = 20
"""The most answers in a `Solution`."""
_QUICK_STEPS: Final = 500
"""MCMC steps of a block while other searches wait. One-off, 400 random tasks: 91.75 % right, 92.25 with all blocks of
4,000, 91.5 without MCMC."""


def conclude(state: SearchState, turn: Turn, *, quick: bool = False) -> Solution:
    """The solution of a search: its answers ranked, and a question if they differ.

    With `quick`, MCMC makes fewer steps, and choosing takes no longer than finding has.
    """
    start = turn.now()
    answers, ambiguity = [], None
    if state.answers is not None and not state.solved:
        answers = [state.answers.answer(0)]
    elif state.answers is not None:
        order, probabilities, _, varied = rank_answers(state, turn, quick=quick)
        found, order = state.answers, order[:MOST_ANSWERS]
        answers = [found.answer(row, float(probabilities[row])) for row in order.tolist()]
        ambiguity = find_ambiguity(found.tokens[order], probabilities[order], varied.of(order), state.max_ticks)
    seconds = state.seconds + turn.now() - start
    return Solution(tuple(answers), state.solved, ambiguity, seconds, state.beam, state.checked, state.stopped)


def rank_answers(state: SearchState, turn: Turn, *, quick: bool = False) -> Ranking:
    """Reduce the answers of a solved task, which changes `state`, and rank them within what its budget leaves.

    `quick` is that of `conclude`.
    """
    assert state.answers is not None
    state.answers = state.answers.reduced()
    left = state.budget - state.seconds
    deadline = turn.now() + (min(left, state.seconds) if quick else left)

    def stop() -> bool:
        turn.poll()
        return state.should_stop() or turn.now() >= deadline

    return rank(
        state.answers,
        state.inputs,
        state.outputs,
        stop=stop,
        max_ticks=state.max_ticks,
        threads=turn.threads,
        steps=_QUICK_STEPS if quick else STEPS_PER_BLOCK,
    )


def conclude_elsewhere(state: SearchState) -> Future[Solution]:
    """`conclude` in another process, on one core. A later request to stop does not reach it."""
    return _pool().submit(_ask, replace(state, should_stop=partial(bool, state.should_stop())))


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads that each talk to a process of their own. One core is left to the search."""
    return ThreadPoolExecutor(max(1, core_count() - 1), thread_name_prefix="karel-conclude")


_own = threading.local()


def _ask(state: SearchState) -> Solution:
    """The answer of this thread's process; if that has died, this thread answers itself."""
    try:
        if getattr(_own, "process", None) is None:
            _own.process = _start()
        pickle.dump(state, _own.process.stdin)
        _own.process.stdin.flush()
        solution: Solution = pickle.load(_own.process.stdout)
        return solution
    except (OSError, EOFError, pickle.UnpicklingError):
        _own.process = None
        return _conclude_alone(state)


def _conclude_alone(state: SearchState) -> Solution:
    return conclude(state, Turn(None, 1, float, time.perf_counter))


def _start() -> subprocess.Popen[bytes]:
    """A process that concludes searches. Ctrl-C does not reach it; it ends when its standard input does."""
    package = Path(__file__).parents[2]
    path = os.pathsep.join(part for part in (str(package), os.environ.get("PYTHONPATH", "")) if part)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "karelsynth.solve.concluding"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, THREADS: "1", "PYTHONPATH": path},
        start_new_session=True,
    )


def _serve(source: Any, target: Any) -> None:
    """Conclude pickled searches, until there are no more."""
    with suppress(EOFError, BrokenPipeError):
        while True:
            pickle.dump(_conclude_alone(pickle.load(source)), target)
            target.flush()


if __name__ == "__main__":
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever prints must not be among the solutions
    _serve(sys.stdin.buffer, answers.buffer)
