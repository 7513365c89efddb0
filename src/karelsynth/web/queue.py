"""The queue in front of the solver: searches of many clients, fair to each, several at a time through the network.

It consists of threads only and knows nothing of HTTP. `SolveQueue.submit` takes a callback, which any thread may call:
with a `QueuePosition` whenever the position in the queue changes, with `Progress` during the search, and once at the
end with a `Solution` or a `SearchFailure`. A search that is cancelled while it waits gets no further call. A search can
be stopped by its id; its `Solution` then holds what was found so far.

**Batches.** A search has rounds (`solve.solver`). Searches that wait make their first round together, which costs less
than one by one. A search that is done gets its answers at once, while others of its batch are repaired. Those that are
not done join the queue again for their next round. The first round of new searches comes between the slices of long
ones (`solve.turns`), so nobody waits for another's ten seconds.

**Fairness.** Each client is charged the seconds that its searches have run. The next search is one of the client that
has been charged least. A new or returning client starts at the lowest charge of the clients in the queue: time away
earns no credit. If the queue is full, a client with fewer searches in it takes the place of the newest search of the
client with most.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from karelsynth.errors import KarelsynthError
from karelsynth.solve.solution import Progress, Solution

if TYPE_CHECKING:
    from karelsynth.solve.turns import Turn, Turns
    from karelsynth.tasks.task import Task

_LONGEST_RETRY: Final = 300
_DECAY: Final = 0.9
"""Weight of earlier searches in the moving average of a search's duration."""
_REPORT_SECONDS: Final = 0.25
"""The time between two progress reports."""
_MOST_CLIENTS: Final = 4096
"""The most clients whose charges are kept."""

_LONGEST_BATCH: Final = 16.0
"""The most seconds of all budgets in a batch of more than one search. A batch is not interrupted for another one, and
repair, up to 60 % of a search's budget, runs search by search within it."""


class TaskSolver(Protocol):
    """The part of `karelsynth.solve.solver.Solver` that the service uses. A state is a `SearchState`."""

    @property
    def turns(self) -> Turns: ...
    def begin(self, examples: Task, /, *, budget: float, should_stop: Callable[[], bool]) -> Any: ...
    def together(self, rounds: int, /) -> int: ...
    def advance(
        self,
        states: Sequence[Any],
        turn: Turn,
        poll: Callable[[], None],
        /,
        *,
        narrow: bool,
        on_end: Callable[[Any], None],
    ) -> None: ...
    def done(self, state: Any, /) -> bool: ...
    def progress(self, state: Any, seconds: float, /) -> Progress: ...
    def conclude(self, state: Any, turn: Turn, /, *, quick: bool) -> Solution: ...


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
    """A submitted search. Whoever knows its `id` can stop it, so the id is as hard to guess as a key."""

    task: Task
    budget: float
    on_event: Callable[[SearchEvent], None]
    client: str = ""
    number: int = 0
    """Tickets are numbered in the order of their arrival."""
    stop_requested: threading.Event = field(default_factory=threading.Event)
    reported_position: int | None = None
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    state: Any = None
    """The solver's state of the search, once it has begun."""
    submitted: float = field(default_factory=time.monotonic)
    began: float | None = None
    watched: bool = True
    """Whether the callback gets positions and progress, or only the end."""

    @property
    def rounds(self) -> int:
        """The number of rounds that have been run."""
        return 0 if self.state is None else int(self.state.rounds)

    @property
    def kind(self) -> tuple[int, int, int, int]:
        """Searches of the same kind can make a round together.

        They have equally many examples, because all cost as much as the one that has most. Their budgets differ by less
        than a factor of two, because a short search waits for a long one.
        """
        return self.rounds, len(self.task.examples), self.task.max_ticks, math.frexp(self.budget)[1]


class QueueObserver(Protocol):
    """Receives every search that ends and every batch that begins, for statistics."""

    def search_ended(self, outcome: str, ticket: Ticket) -> None: ...
    def batch_began(self, size: int) -> None: ...


class SolveQueue:
    """See the module's docstring. One lock guards the whole state; searches run without holding it.

    Each of `workers` runs a batch at a time. There are three times as many threads, which take turns: for first rounds,
    for later ones, and for first rounds of clients that would wait for those of a client with several searches.
    """

    def __init__(
        self, solver: TaskSolver, *, workers: int, length: int, cores: int = 1, observer: QueueObserver | None = None
    ) -> None:
        self._solver, self._workers, self._length = solver, workers, length
        self._cores, self._observer = cores, observer
        self._waiting: list[Ticket] = []
        self._between: list[Ticket] = []
        """Searches that have begun and wait for their next round."""
        self._solving: list[Ticket] = []
        """Searches that have begun and are not done."""
        self._running: dict[bool, list[list[Ticket]]] = {True: [], False: []}
        """Batches that run now: of first rounds, and of later ones."""
        self._charged: dict[str, float] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._numbers = count()
        self.mean_share = 1.0
        """Moving average of the share of its budget that a search takes; the first value is an assumption."""
        solver.turns.at_once = workers
        self._threads = [
            threading.Thread(target=self._work, args=(first,), name=f"solver-{number}-{first}", daemon=True)
            for number in range(workers)
            for first in (True, True, False)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def solving(self) -> int:
        """Number of searches that have begun and not ended."""
        return len(self._solving)

    @property
    def waiting(self) -> int:
        """Number of searches that have not begun."""
        return len(self._waiting)

    def check_ready(self) -> None:
        """Raises QueueFull or ServerStopping if a search would not be accepted, or would never run."""
        with self._changed:
            if self._closed or not all(thread.is_alive() for thread in self._threads):
                raise ServerStopping
            if self._full():
                raise QueueFull(self._retry_after())

    def submit(
        self,
        task: Task,
        budget: float,
        on_event: Callable[[SearchEvent], None],
        client: str = "",
        *,
        watched: bool = True,
    ) -> Ticket:
        """Add a client's search to the queue. Raises QueueFull or ServerStopping.

        A search that is not `watched` is only called back at its end.
        """
        displaced = None
        with self._changed:
            ticket = Ticket(task, budget, on_event, client, next(self._numbers), watched=watched)
            if self._closed:
                self._note("refused", ticket)
                raise ServerStopping
            if self._full():
                displaced = self._displaceable(client)
                if displaced is None:
                    self._note("refused", ticket)
                    raise QueueFull(self._retry_after())
                self._waiting.remove(displaced)
            self._welcome(client)
            self._waiting.append(ticket)
            self._report_positions()
            self._changed.notify_all()
        if displaced is not None:
            self._end(displaced, SearchFailure(QueueFull(self._retry_after())))
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
        self._note("cancelled", ticket)
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
            between, self._between = self._between, []
            self._waiting.clear()
            for ticket in between:
                self._solving.remove(ticket)
            self._changed.notify_all()
        for ticket in solving:
            ticket.stop_requested.set()
        for ticket in (*waiting, *between):
            self._end(ticket, SearchFailure(ServerStopping()))
        until = time.monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _full(self) -> bool:
        return len(self._solving) + len(self._waiting) >= self._workers + self._length

    # Who is next

    def _welcome(self, client: str) -> None:
        """Set the charge of a client that has no search in the queue."""
        present = {ticket.client for ticket in (*self._waiting, *self._solving)}
        if client in present:
            return
        lowest = min((self._charged[each] for each in present), default=0.0)
        self._charged[client] = max(lowest, self._charged.get(client, 0.0))
        if len(self._charged) > _MOST_CLIENTS:
            for each in set(self._charged) - present - {client}:
                del self._charged[each]

    def _displaceable(self, client: str) -> Ticket | None:
        """The search that leaves a full queue for another client: the newest of the one who has most, if any."""
        present = Counter(ticket.client for ticket in (*self._waiting, *self._solving))
        waiting = {ticket.client for ticket in self._waiting}
        greedy = max(waiting, key=lambda each: present[each], default=None)
        if greedy is None or present[greedy] <= present[client] + 1:
            return None
        return [ticket for ticket in self._waiting if ticket.client == greedy][-1]

    def _fair_order(self, tickets: Iterable[Ticket]) -> list[Ticket]:
        """These in the order in which they are to run: clients in turn, the one that was charged least first.

        A search that runs is charged in advance for what it will probably take.
        """
        tickets = sorted(tickets, key=lambda each: each.number)
        charges = {ticket.client: self._charged.get(ticket.client, 0.0) for ticket in tickets}
        for ticket in self._solving:
            if ticket.client in charges and ticket not in tickets:
                charges[ticket.client] += self._expected(ticket)
        places: list[tuple[float, int, Ticket]] = []
        for ticket in tickets:
            places.append((charges[ticket.client], ticket.number, ticket))
            charges[ticket.client] += self._expected(ticket)  # the client's next one comes after it
        return [ticket for _, _, ticket in sorted(places, key=lambda place: place[:2])]

    def _expected(self, ticket: Ticket) -> float:
        """Seconds that a search will probably run from now on."""
        spent = 0.0 if ticket.state is None else ticket.state.seconds
        return max(0.0, self.mean_share * ticket.budget - spent)

    def _next_batch(self, first: bool) -> list[Ticket]:
        """The searches that should make their next round together; with `first`, their first one."""
        tickets = self._waiting if first else self._between
        if len(self._running[first]) >= self._workers:
            tickets = self._kept_out() if first else []
        order = self._fair_order(tickets)
        same = [ticket for ticket in order if ticket.kind == order[0].kind]
        if not same:
            return []
        size = self._solver.together(same[0].rounds)
        if first:
            idle = max(1, self._workers - len(self._running[True]))
            size = min(size, -(-len(same) // idle))
        budgets = list(accumulate(ticket.budget for ticket in same[:size]))
        return same[: max(1, bisect_right(budgets, _LONGEST_BATCH))]

    def _kept_out(self) -> list[Ticket]:
        """Waiting searches that may begin beside full workers: those of clients without a running one, if every search
        that makes its first round now belongs to a client with several."""
        running = Counter(ticket.client for ticket in self._solving)
        if any(running[ticket.client] < 2 for batch in self._running[True] for ticket in batch):
            return []
        return [ticket for ticket in self._waiting if not running[ticket.client]]

    def _retry_after(self) -> int:
        """Estimated seconds until the searches that are in the queue now have ended."""
        left = sum(map(self._expected, (*self._waiting, *self._solving)))
        return max(1, min(_LONGEST_RETRY, math.ceil(left / self._workers)))

    def _report_positions(self) -> None:
        """Call back every waiting search whose position has changed."""
        if not any(ticket.watched for ticket in self._waiting):
            return
        idle = max(0, self._workers - len(self._running[True])) * self._solver.together(0)
        for place, ticket in enumerate(self._fair_order(self._waiting), 1):
            self._report_position(ticket, max(0, place - idle))

    def _report_position(self, ticket: Ticket, position: int) -> None:
        if ticket.watched and position != ticket.reported_position:
            ticket.reported_position = position
            ticket.on_event(QueuePosition(position))

    # Searching

    def _work(self, first: bool) -> None:
        """A thread: run batches of first rounds, or of later ones, until the queue is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._next_batch(first))
                if self._closed:
                    return
                batch = self._next_batch(first)
                self._running[first].append(batch)
                for ticket in batch:
                    (self._waiting if first else self._between).remove(ticket)
                    if first:
                        self._solving.append(ticket)
                        ticket.began = time.monotonic()
                        self._report_position(ticket, 0)
                self._report_positions()
                batches = sum(map(len, self._running.values()))
            try:
                if self._observer is not None:
                    self._observer.batch_began(len(batch))
                self._run(batch, max(1, self._cores // min(batches, self._workers)))
            finally:
                with self._changed:
                    self._running[first].remove(batch)
                    self._report_positions()
                    self._changed.notify_all()

    def _run(self, batch: list[Ticket], threads: int) -> None:
        """Run one round of a batch; report the solutions of searches that are done, put the others back."""
        batch = [ticket for ticket in batch if ticket.state is not None or self._begin(ticket)]
        for ticket in self._run_round(batch, threads) if batch else ():  # the round failed: find out for whom
            self._run_round([ticket], threads)

    def _run_round(self, batch: list[Ticket], threads: int) -> list[Ticket]:
        """Returns the searches that must run the round again, one by one, to find the one that fails."""
        left = {id(ticket.state): ticket for ticket in batch}

        def priority() -> float:
            return sum(self._charged.get(ticket.client, 0.0) for ticket in batch) / len(batch)

        with self._solver.turns.turn(priority, threads) as turn:
            meter = _Meter(self._solver, self._charged, batch, turn)

            def end(state: Any) -> None:
                ticket = left.pop(id(state))
                meter.drop(ticket)
                self._settle(ticket, turn)
                meter.charge(ticket)

            try:
                states = [ticket.state for ticket in batch]
                crowded = states[0].rounds == 0 and self.waiting >= self._solver.together(0)
                self._solver.advance(states, turn, meter.poll, narrow=crowded, on_end=end)
            except Exception as error:
                if len(left) > 1:
                    return list(left.values())
                for ticket in left.values():  # the client gets the error; the worker continues
                    self._finish(ticket, SearchFailure(error))
        return []

    def _begin(self, ticket: Ticket) -> bool:
        """Make the state of a search; returns whether that succeeded."""
        try:
            ticket.state = self._solver.begin(
                ticket.task, budget=ticket.budget, should_stop=ticket.stop_requested.is_set
            )
        except Exception as error:
            self._finish(ticket, SearchFailure(error))
            return False
        return True

    def _settle(self, ticket: Ticket, turn: Turn) -> None:
        """After a round: conclude the search, or let it wait for its next round."""
        if not self._solver.done(ticket.state):
            with self._changed:
                if not self._closed:
                    self._between.append(ticket)
                    self._changed.notify_all()
                    return
        event: SearchEvent
        try:
            busy = len(self._waiting) + len(self._solving) > 1
            event = self._solver.conclude(ticket.state, turn, quick=busy)
        except Exception as error:
            event = SearchFailure(error)
        self._finish(ticket, event)

    def _finish(self, ticket: Ticket, event: SearchEvent) -> None:
        """Report the end of a search that has begun."""
        with self._changed:
            self._solving.remove(ticket)
            if isinstance(event, Solution) and not ticket.stop_requested.is_set():  # else its duration is not typical
                share = min(1.0, event.seconds / ticket.budget)
                self.mean_share = _DECAY * self.mean_share + (1 - _DECAY) * share
            closed = self._closed
        if closed:
            event = SearchFailure(ServerStopping())  # a partial solution would look like a complete one
        self._end(ticket, event)

    def _end(self, ticket: Ticket, event: SearchEvent) -> None:
        match event:
            case Solution():
                self._note("stopped" if event.stopped else "solved" if event.solved else "unsolved", ticket)
            case SearchFailure():
                known = isinstance(event.error, QueueFull | ServerStopping)
                self._note("refused" if known else "failed", ticket)
        ticket.on_event(event)

    def _note(self, outcome: str, ticket: Ticket) -> None:
        if self._observer is not None:
            self._observer.search_ended(outcome, ticket)


class _Meter:
    """Charges the clients of a batch for the time that it runs, and reports progress."""

    def __init__(self, solver: TaskSolver, charged: dict[str, float], batch: list[Ticket], turn: Turn) -> None:
        self._solver, self._charged, self._batch, self._turn = solver, charged, list(batch), turn
        self._size = len(batch)
        self._at = self._began = turn.now()
        self._before = {ticket.id: ticket.state.seconds for ticket in batch}
        self._thread = threading.get_ident()
        self._report()

    def poll(self) -> None:
        """Called often, by any thread."""
        if threading.get_ident() == self._thread:
            self.charge()
            if self._at - self._reported >= _REPORT_SECONDS:
                self._report()

    def drop(self, ticket: Ticket) -> None:
        """A search has left the batch: it is charged its share up to now, and no progress is reported any more."""
        self.charge()
        self._batch.remove(ticket)

    def charge(self, *tickets: Ticket) -> None:
        """Divide the time since the last call among the clients of these, by default of all."""
        now = self._turn.now()
        for ticket in tickets or self._batch:
            share = (now - self._at) / len(tickets or self._batch)
            self._charged[ticket.client] = self._charged.get(ticket.client, 0.0) + share
        self._at = now

    def _report(self) -> None:
        """A search's own `seconds` cannot be used: they may include parts of this round already."""
        self._reported = self._at
        share = (self._at - self._began) / self._size
        for ticket in self._batch:
            if ticket.watched:
                ticket.on_event(self._solver.progress(ticket.state, self._before[ticket.id] + share))
