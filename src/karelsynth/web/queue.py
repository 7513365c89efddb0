"""The queue in front of the solver: a few searches at once, a bounded number waiting, no more.

Only threads here, nothing of the web. Whoever enters passes a callback, which is called from any thread with `Waiting`
each time the place in the queue changes, with `Progress` during the search, and at the end, unless it has left before,
with a `Solution` or a `Failure`. Whoever knows a search's id may end it early; its `Solution` is what it has by then.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from karelsynth.errors import KarelsynthError
from karelsynth.solve.solution import Progress, Solution

if TYPE_CHECKING:
    from karelsynth.tasks.task import Task

_LONGEST_RETRY: Final = 60
_MEMORY: Final = 0.9
"""How much of the usual time of a search stays when another one has been timed."""


class Solving(Protocol):
    """What the service needs of a solver; `karelsynth.solve.solver.Solver` is one."""

    def solve(
        self,
        task: Task,
        /,
        *,
        budget: float,
        on_progress: Callable[[Progress], None] | None,
        should_stop: Callable[[], bool] | None,
    ) -> Solution: ...


class Waiting(NamedTuple):
    """The place in the line: 1 is the next, 0 is having left the line for the solver."""

    position: int


class Failure(NamedTuple):
    """The search ended without a solution because of this."""

    error: Exception


Event = Waiting | Progress | Solution | Failure


class QueueFull(KarelsynthError):
    """All searches are busy and the line is full."""

    def __init__(self, retry_after: int) -> None:
        self.retry_after = retry_after
        seconds = f"{retry_after} second{'s' * (retry_after != 1)}"
        super().__init__(f"the server is busy: try again in {seconds}")


class Closed(KarelsynthError):
    """The server is about to stop."""

    def __init__(self) -> None:
        super().__init__("the server is stopping: start it again, or wait until somebody does")


class NoSuchSearch(KarelsynthError):
    """Nobody waits or searches by this id, at least not any more."""

    def __init__(self) -> None:
        super().__init__("no such search is going on: if it has ended, or is about to, its stream has the answer")


@dataclass(eq=False)
class Ticket:
    """A place in the line, then a search. `told` is the last position that was told.

    Whoever knows the `id` may end the search, so it is as hard to guess as a key.
    """

    task: Task
    budget: float
    tell: Callable[[Event], None]
    stopped: threading.Event = field(default_factory=threading.Event)
    told: int | None = None
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))


class SolveQueue:
    """See the module's docstring. All its state is guarded by one lock; searches run outside of it."""

    def __init__(self, solver: Solving, *, workers: int, length: int) -> None:
        self._solver, self._workers, self._length = solver, workers, length
        self._waiting: deque[Ticket] = deque()
        self._solving: list[Ticket] = []
        self._changed = threading.Condition()
        self._closed = False
        self._usual = 1.0  # seconds a search takes, as measured
        self._threads = [
            threading.Thread(target=self._work, name=f"solver-{number}", daemon=True) for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def solving(self) -> int:
        """How many searches are going on."""
        return len(self._solving)

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        return len(self._waiting)

    def enter(self, task: Task, budget: float, tell: Callable[[Event], None]) -> Ticket:
        """Join the line. Raises QueueFull or Closed."""
        with self._changed:
            if self._closed:
                raise Closed
            if len(self._solving) + len(self._waiting) >= self._workers + self._length:
                raise QueueFull(self._retry_after())
            ticket = Ticket(task, budget, tell)
            self._waiting.append(ticket)
            self._tell_positions()
            self._changed.notify()
        return ticket

    def leave(self, ticket: Ticket) -> bool:
        """Give up: a place in the line is free at once, a search stops at the next occasion. Leaving twice is fine.

        Returns whether it was still in the line.
        """
        ticket.stopped.set()
        with self._changed:
            if ticket not in self._waiting:
                return False
            self._waiting.remove(ticket)
            self._tell_positions()
            return True

    def stop(self, key: str) -> None:
        """End the search with this id: whoever entered is told what it has found. Raises NoSuchSearch.

        Ids are looked up among those who are here, so none outlives its search; one that was stopped or left is gone.
        """
        with self._changed:
            for ticket in (*self._waiting, *self._solving):
                if not ticket.stopped.is_set() and secrets.compare_digest(ticket.id.encode(), key.encode()):
                    break
            else:
                raise NoSuchSearch
            if self.leave(ticket):  # no search will tell
                ticket.tell(Solution((), False, None, seconds=0.0, beam=0, checked=0, stopped=True))

    def close(self, patience: float = 2.0) -> None:
        """Stop all searches, send everybody away, and wait up to `patience` seconds for the threads to end."""
        with self._changed:
            self._closed = True
            left, solving = list(self._waiting), list(self._solving)
            self._waiting.clear()
            self._changed.notify_all()
        for ticket in solving:
            ticket.stopped.set()
        for ticket in left:
            ticket.tell(Failure(Closed()))
        until = time.monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _retry_after(self) -> int:
        """Seconds until those who wait now will have been served, by the usual time of a search."""
        seconds = self._usual * max(1, len(self._waiting)) / self._workers
        return max(1, min(_LONGEST_RETRY, math.ceil(seconds)))

    def _tell_positions(self) -> None:
        idle = self._workers - len(self._solving)
        for place, ticket in enumerate(self._waiting, 1):
            position = max(0, place - idle)
            if position != ticket.told:
                ticket.told = position
                ticket.tell(Waiting(position))

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                ticket = self._waiting.popleft()
                self._solving.append(ticket)
                if ticket.told != 0:
                    ticket.tell(Waiting(0))
                self._tell_positions()
            event, seconds = self._search(ticket)
            with self._changed:
                self._solving.remove(ticket)
                if not ticket.stopped.is_set():  # a search that was cut short says nothing about the others
                    self._usual = _MEMORY * self._usual + (1 - _MEMORY) * seconds
                self._tell_positions()
            ticket.tell(event)

    def _search(self, ticket: Ticket) -> tuple[Event, float]:
        start = time.monotonic()
        event: Event
        try:
            event = self._solver.solve(
                ticket.task, budget=ticket.budget, on_progress=ticket.tell, should_stop=ticket.stopped.is_set
            )
        except Exception as error:  # whatever it is, the thread lives on, and whoever asked hears of it
            event = Failure(error)
        if self._closed:
            event = Failure(Closed())  # what was found so far would look like all there is
        return event, time.monotonic() - start
