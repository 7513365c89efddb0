"""Searches take turns, so that each gets the time of its budget.

    turns = Turns(at_once=1)
    with turns.turn() as turn:          # waits for its turn
        deadline = turn.now() + 1.0
        while turn.now() < deadline:
            …
            turn.poll()                 # lets another search run, if one waits

Threads that search at the same time would slow each other down, and each would find less in its budget. So only a few
run at once. The others wait, and their clocks stand still: a budget counts the time that a search really got.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

SLICE: Final = 0.25
"""Seconds that a search runs before another one may take its turn."""


class Turn:
    """What a search may use: its clock, and a number of threads."""

    def __init__(
        self, turns: Turns | None, threads: int, priority: Callable[[], float], clock: Callable[[], float]
    ) -> None:
        self.threads = threads
        self.priority = priority
        self._clock = clock
        self._turns = turns
        self._thread = threading.get_ident()
        self._granted = threading.Event()
        self.began = clock()
        """When the present slice began."""
        self._waited = 0.0

    def now(self) -> float:
        """A clock in seconds that stands still while the search waits."""
        return self._clock() - self._waited

    def poll(self) -> None:
        """Wait if the slice is over and another search should run first.

        Only the search's own thread waits: the threads that it has started may call this, too.
        """
        if self._turns is None or threading.get_ident() != self._thread:
            return
        if self._clock() - self.began >= SLICE and self._turns.hand_over(self):
            self.wait()

    def grant(self) -> None:
        """Let the search run."""
        self._granted.set()

    def wait(self) -> None:
        """Wait until the turn is granted."""
        start = self._clock()
        self._granted.wait()
        self._granted.clear()
        self.began = self._clock()
        self._waited += self.began - start


class Turns:
    """Lets `at_once` searches run at the same time. Of those that wait, the one with the lowest priority is next.

    Among equals it is the one that has waited longest. A thread that has a turn already, and searches again in a
    callback, need not wait for another one.
    """

    def __init__(self, at_once: int, threads: int = 1) -> None:
        self.at_once = at_once
        self.threads = threads
        """Threads of each search, unless its caller sets another number."""
        self.clock: Callable[[], float] = time.perf_counter
        """By what budgets are measured. With `time.process_time`, other processes take nothing from a budget."""
        self._lock = threading.Lock()
        self._running = 0
        self._waiting: list[Turn] = []
        self._mine = threading.local()

    @contextmanager
    def turn(self, priority: Callable[[], float] = float, threads: int | None = None) -> Iterator[Turn]:
        """Wait for a turn. `priority` is called whenever somebody waits; it must not block."""
        threads = threads or self.threads
        if getattr(self._mine, "has_turn", False):
            yield Turn(None, threads, priority, self.clock)
            return
        turn = Turn(self, threads, priority, self.clock)
        with self._lock:
            free = self._running < self.at_once
            if free:
                self._running += 1
            else:
                self._waiting.append(turn)
        if not free:
            turn.wait()
        self._mine.has_turn = True
        try:
            yield turn
        finally:
            self._mine.has_turn = False
            with self._lock:
                self._running -= 1
                self._grant_next()

    def hand_over(self, turn: Turn) -> bool:
        """Let another search run in the place of this one, if one waits that should; returns whether it does."""
        with self._lock:
            if not self._waiting or min(each.priority() for each in self._waiting) > turn.priority():
                return False
            self._running -= 1
            self._grant_next()
            self._waiting.append(turn)
            return True

    def _grant_next(self) -> None:
        if self._waiting and self._running < self.at_once:
            chosen = min(self._waiting, key=lambda each: each.priority())  # the first of equals
            self._waiting.remove(chosen)
            self._running += 1
            chosen.grant()
