"""The last part of a search: its answers ranked, and a question if they differ. It needs no network.

Much of it is Python, of which a process runs one thread at a time. So where many searches end at the same time,
processes of their own do it:

    future = conclude_elsewhere(state, steps=500, seconds=0.1)
    future.result()                     # a Solution

Such a process reads pickled searches from its parent, writes pickled solutions, and ends with its parent.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from karelsynth.karel.threads import THREADS, core_count
from karelsynth.solve.answers import SearchState
from karelsynth.solve.question import find_ambiguity
from karelsynth.solve.ranking import Ranking, rank
from karelsynth.solve.solution import Solution

MOST_ANSWERS: Final = 20
"""The most answers in a `Solution`."""


def solution_of(
    state: SearchState, ranking: Callable[[], Ranking], now: Callable[[], float] = time.perf_counter
) -> Solution:
    """The solution of a search; `ranking` ranks the answers of a solved task, and `now` is a clock."""
    start = now()
    found, answers, ambiguity = state.answers, [], None
    if found is not None and not state.solved:
        answers = [found.answer(0)]
    elif found is not None:
        order, probabilities, _ = ranking()
        order = order[:MOST_ANSWERS]
        answers = [found.answer(row, float(probabilities[row])) for row in order.tolist()]
        ambiguity = find_ambiguity(found.tokens[order], probabilities[order], state.inputs, state.max_ticks)
    seconds = state.seconds + now() - start
    return Solution(tuple(answers), state.solved, ambiguity, seconds, state.beam, state.checked, state.stopped)


def conclude_elsewhere(state: SearchState, *, steps: int, seconds: float) -> Future[Solution]:
    """The solution of a search, found by another process; MCMC ends after so many seconds.

    `steps` are those of a block of MCMC.
    """
    return _pool().submit(_ask, replace(state, should_stop=bool), steps, seconds)


def _conclude(state: SearchState, steps: int, seconds: float) -> Solution:
    deadline = time.perf_counter() + seconds

    def ranking() -> Ranking:
        assert state.answers is not None
        return rank(
            state.answers, state.inputs, state.outputs, stop=lambda: time.perf_counter() >= deadline,
            max_ticks=state.max_ticks, threads=1, steps=steps,
        )  # fmt: skip

    return solution_of(state, ranking)


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads that each talk to a process of their own."""
    return ThreadPoolExecutor(core_count(), thread_name_prefix="karel-conclude")


_own = threading.local()


def _ask(*question: Any) -> Solution:
    """What this thread's process answers; if it has died, this thread answers itself."""
    try:
        if getattr(_own, "process", None) is None:
            _own.process = _start()
        pickle.dump(question, _own.process.stdin)
        _own.process.stdin.flush()
        answer: Solution = pickle.load(_own.process.stdout)
        return answer
    except (OSError, EOFError, pickle.UnpicklingError):
        _own.process = None
        return _conclude(*question)


def _start() -> subprocess.Popen[bytes]:
    package = Path(__file__).parents[2]
    path = os.pathsep.join(part for part in (str(package), os.environ.get("PYTHONPATH", "")) if part)
    command = [sys.executable, "-c", "from karelsynth.solve.concluding import serve_parent; serve_parent()"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, THREADS: "1", "PYTHONPATH": path}
    )


def serve_parent() -> None:
    """Answer questions from standard input on standard output, until there are no more."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    for question in iter(partial(_read, source), None):
        pickle.dump(_conclude(*question), target)
        target.flush()


def _read(source: Any) -> Any:
    try:
        return pickle.load(source)
    except EOFError:
        return None
