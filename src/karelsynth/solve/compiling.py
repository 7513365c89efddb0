"""Compiling what the solver needs: in parts, and the first time on a machine in two processes.

    start_compiling()              # a helper process compiles what is not in the cache yet
    load_part("chain")             # waits for the helper, then loads the part; without a helper, compiles it here

Numba compiles one function at a time in a process, and a solver has some 200 of them. So the Markov chains, half of the
work, are compiled in a helper process, `python -m karelsynth.solve.compiling chain`, while this one imports the tensor
library, loads the model and compiles the rest. A file in the cache folder notes which parts are complete. The helper
continues if this process ends first: the next start then finds its work.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, Final

import numpy as np
from numba.core import event

from karelsynth.karel.compiled import is_complete, is_shared, mark_complete
from karelsynth.karel.machine import encode_programs
from karelsynth.karel.program import Program
from karelsynth.karel.threads import core_count
from karelsynth.karel.world import Hero, World
from karelsynth.tasks.task import Example, Task

SEARCH: Final = "search"
"""The part that `Solver.warm_up` compiles itself: it needs a network."""
_FUNCTION: Final = "."
"""The helper's line for a compiled function; other lines are names of parts."""
_BEFORE: Final = World(2, 2, Hero(0, 0, "east"))


def _simplify() -> None:
    from karelsynth.tasks.batch import TaskBatch
    from karelsynth.tasks.simplify import simplify

    tokens, inputs, outputs = _marked_task()
    simplify(TaskBatch(tokens, np.array([6], np.uint8), inputs[None], outputs[None], np.zeros(1, np.bool_)))


def _repair() -> None:
    from karelsynth.search.candidates import close_programs
    from karelsynth.search.repair import repair

    tokens, inputs, outputs = _marked_task()
    lengths, logprobs, polls = np.full(1, 6), np.zeros(1, np.float32), iter(range(1))
    repair(tokens, lengths, logprobs, outputs, inputs, longest=8, stop=lambda: next(polls, None) is None)
    close_programs(tokens[:, :4])


def _chain() -> None:
    from karelsynth.posterior.mcmc import compile_chain

    tokens, inputs, outputs = _marked_task()
    compile_chain(inputs, outputs, tokens)


PARTS: Final[dict[str, Callable[[], None]]] = {"simplify": _simplify, "repair": _repair, "chain": _chain}
"""Parts that need no network. Only tasks that look random need `chain`."""
_HELPED: Final = ("chain",)
"""The parts that the helper compiles: about half of the work."""


def _marked_task() -> tuple[Any, Any, Any]:
    """A program that moves and puts a marker, [1, L], and its example, [1, 18, 18] each."""
    program = Program.parse("DEF run m( move putMarker m)")
    task = Task((Example(_BEFORE, program.run(_BEFORE).world),))
    return encode_programs([program]), *task.codes()


class _Counter(event.Listener):
    """Counts compiled functions, of this process and of the helper."""

    def __init__(self, on_function: Callable[[], None] = lambda: None) -> None:
        self.count = 0
        self._on_function = on_function

    def on_start(self, event: Any) -> None:
        """Numba begins to compile a function."""

    def on_end(self, event: Any) -> None:
        """Numba has compiled a function."""
        self.count += 1
        self._on_function()


def _listen(counter: _Counter) -> None:
    register: Any = event.register  # untyped
    register("numba:compile", counter)


class _Helper:
    """A process that compiles parts."""

    def __init__(self, parts: list[str], counter: _Counter) -> None:
        self._counter = counter
        self._ready = {part: threading.Event() for part in parts}
        command = [sys.executable, "-P", "-m", "karelsynth.solve.compiling", *parts]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            if line.strip() == _FUNCTION:
                self._counter.count += 1
            elif line.strip() in self._ready:
                self._ready[line.strip()].set()
        for ready in self._ready.values():  # the helper has ended, perhaps too early: then parts are compiled here
            ready.set()
        self._process.wait()

    def wait_for(self, part: str) -> None:
        """Wait until a part is in the cache, or the helper has ended."""
        if part in self._ready:
            self._ready[part].wait()


_lock = threading.Lock()
_counter: _Counter | None = None
_helper: _Helper | None = None


def start_compiling() -> bool:
    """Start the helper if some part is not in the cache, unless it was started; returns whether something is missing.

    There is none with a single core, or if the cache cannot be shared.
    """
    global _counter, _helper
    missing = [part for part in (SEARCH, *PARTS) if not is_complete(part)]
    helped = [part for part in _HELPED if part in missing]
    with _lock:
        if _counter is None:
            _counter = _Counter()
            _listen(_counter)
            if helped and sys.executable and core_count() > 1 and is_shared():
                with suppress(OSError):  # no more processes: compile here
                    _helper = _Helper(helped, _counter)
    return bool(missing)


def compiled_functions() -> int:
    """How many functions this process and its helper have compiled so far."""
    return 0 if _counter is None else _counter.count


def load_part(part: str) -> None:
    """Load a part's compiled code, once the helper has compiled it; or compile it here."""
    if _helper is not None:
        _helper.wait_for(part)
    PARTS[part]()
    mark_complete(part)


def _help(parts: list[str]) -> None:
    """The helper: compile parts and report each on standard output, if it is still read."""

    def report(what: str) -> None:
        with suppress(OSError):
            sys.stdout.write(f"{what}\n")
            sys.stdout.flush()

    _listen(_Counter(lambda: report(_FUNCTION)))
    for part in parts:
        PARTS[part]()
        mark_complete(part)
        report(part)
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it at exit


if __name__ == "__main__":
    _help(sys.argv[1:])
