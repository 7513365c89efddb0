"""The queue in front of the solver: a bounded number of searches runs, a bounded number waits.

It consists of threads only and knows nothing of HTTP. `SolveQueue.submit` takes a callback, which any thread may call:
with a `QueuePosition` whenever the position in the queue changes, with `Progress` during the search, and once at the
end with a `Solution` or a `SearchFailure`. A search that is cancelled while it waits gets no further call. A search can
be stopped by its id; its `Solution` then holds what was found so far.
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
_DECAY: Final = 0.9
"""Weight of earlier searches in the moving average of a search's duration."""


class TaskSolver(Protocol):
    """The part of `karelsynth.solve.solver.Solver` that the service uses."""

    def solve(
        self,
        task: Task,
        /,
        *,
        budget: float,
        on_progress: Callable[[Progress], None] | None,
        should_stop: Callable[[], bool] | None,
    ) -> Solution: ...


class QueuePosition(NamedTuple):
    """The position in the queue: 1 is the next; 0 is a search that runs or is about to."""

    position: int


class SearchFailure(NamedTuple):
    """The search ended with this error."""

    error: Exception


SearchEvent = QueuePosition | Progress | Solution | SearchFailure


class QueueFull(KarelsynthError):
    """All workers are busy and the queue is full."""

    def __init__(self, retry_after: int) -> None:
        self.retry_after = retry_after
        seconds = f"{retry_after} second{'s' * (retry_after != 1)}"
        super().__init__(f"the server is busy: try again in {seconds}")


class ServerStopping(KarelsynthError):
    """The server is stopping and accepts no searches."""

    def __init__(self) -> None:
        super().__init__("the server is stopping: start it again, or wait until somebody does")


class UnknownSearch(KarelsynthError):
    """No search with this id waits or runs."""

    def __init__(self) -> None:
        super().__init__("no such search is going on: if it has ended, or is about to, its stream has the answer")


@dataclass(eq=False)
class Ticket:
    """A submitted search. Who knows its `id` can stop it, so the id is as hard to guess as a key."""

    task: Task
    budget: float
    on_event: Callable[[SearchEvent], None]
    stop_requested: threading.Event = field(default_factory=threading.Event)
    reported_position: int | None = None
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))


class SolveQueue:
    """See the module's docstring. One lock guards the whole state; searches run without holding it."""

    def __init__(self, solver: TaskSolver, *, workers: int, length: int) -> None:
        self._solver, self._workers, self._length = solver, workers, length
        self._waiting: deque[Ticket] = deque()
        self._solving: list[Ticket] = []
        self._changed = threading.Condition()
        self._closed = False
        self.mean_seconds = 1.0
        """Moving average of how long a search takes; the first value is an assumption."""
        self._threads = [
            threading.Thread(target=self._work, name=f"solver-{number}", daemon=True) for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def solving(self) -> int:
        """Number of searches that run."""
        return len(self._solving)

    @property
    def waiting(self) -> int:
        """Number of searches that wait."""
        return len(self._waiting)

    def submit(self, task: Task, budget: float, on_event: Callable[[SearchEvent], None]) -> Ticket:
        """Add a search to the queue. Raises QueueFull or ServerStopping."""
        with self._changed:
            if self._closed:
                raise ServerStopping
            if len(self._solving) + len(self._waiting) >= self._workers + self._length:
                raise QueueFull(self._retry_after())
            ticket = Ticket(task, budget, on_event)
            self._waiting.append(ticket)
            self._report_positions()
            self._changed.notify()
        return ticket

    def cancel(self, ticket: Ticket) -> bool:
        """Remove a waiting search from the queue, or request a running one to stop. A second call has no effect.

        Returns whether the search was still waiting.
        """
        ticket.stop_requested.set()
        with self._changed:
            if ticket not in self._waiting:
                return False
            self._waiting.remove(ticket)
            self._report_positions()
            return True

    def stop(self, key: str) -> None:
        """Stop the search with this id; its callback gets a `Solution` with what was found. Raises UnknownSearch.

        An id is valid while its search waits or runs and until it is stopped or cancelled.
        """
        with self._changed:
            for ticket in (*self._waiting, *self._solving):
                if not ticket.stop_requested.is_set() and secrets.compare_digest(ticket.id.encode(), key.encode()):
                    break
            else:
                raise UnknownSearch
            if self.cancel(ticket):  # it has not begun, so no worker will report a solution
                ticket.on_event(Solution((), False, None, seconds=0.0, beam=0, checked=0, stopped=True))

    def close(self, patience: float = 2.0) -> None:
        """Stop all searches, reject those that wait, and wait up to `patience` seconds for the threads to end."""
        with self._changed:
            self._closed = True
            waiting, solving = list(self._waiting), list(self._solving)
            self._waiting.clear()
            self._changed.notify_all()
        for ticket in solving:
            ticket.stop_requested.set()
        for ticket in waiting:
            ticket.on_event(SearchFailure(ServerStopping()))
        until = time.monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _retry_after(self) -> int:
        """Estimated seconds until all searches that wait now have begun."""
        seconds = self.mean_seconds * max(1, len(self._waiting)) / self._workers
        return max(1, min(_LONGEST_RETRY, math.ceil(seconds)))

    def _report_positions(self) -> None:
        """Call back every waiting search whose position has changed."""
        idle = self._workers - len(self._solving)
        for place, ticket in enumerate(self._waiting, 1):
            self._report_position(ticket, max(0, place - idle))

    def _report_position(self, ticket: Ticket, position: int) -> None:
        if position != ticket.reported_position:
            ticket.reported_position = position
            ticket.on_event(QueuePosition(position))

    def _work(self) -> None:
        """A worker: take the first waiting search, run it, report its end; until the queue is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                ticket = self._waiting.popleft()
                self._solving.append(ticket)
                self._report_position(ticket, 0)
                self._report_positions()
            event, seconds = self._search(ticket)
            with self._changed:
                self._solving.remove(ticket)
                if not ticket.stop_requested.is_set():  # the duration of a stopped search is not typical
                    self.mean_seconds = _DECAY * self.mean_seconds + (1 - _DECAY) * seconds
                self._report_positions()
            ticket.on_event(event)

    def _search(self, ticket: Ticket) -> tuple[SearchEvent, float]:
        """The search's last event and its duration in seconds."""
        start = time.monotonic()
        event: SearchEvent
        try:
            event = self._solver.solve(
                ticket.task,
                budget=ticket.budget,
                on_progress=ticket.on_event,
                should_stop=ticket.stop_requested.is_set,
            )
        except Exception as error:  # any error is reported to the client; the worker goes on
            event = SearchFailure(error)
        if self._closed:
            event = SearchFailure(ServerStopping())  # a partial solution would look like a complete one
        return event, time.monotonic() - start
