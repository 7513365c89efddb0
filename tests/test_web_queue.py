"""The queue in front of the solver: bounded, honest about waiting, and nobody searches in vain."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi import FastAPI

from karelsynth.solve.solution import Progress, Solution
from karelsynth.solve.turns import Turn
from karelsynth.tasks.task import Task
from karelsynth.web.app import ServiceSettings, create_app
from karelsynth.web.queue import QueueFull, QueuePosition, SearchEvent, SearchFailure, ServerStopping, SolveQueue
from tests.fake_solver import FakeSolver
from tests.web_client import BODY, PATIENCE, TASK, client_of, refusal


@contextmanager
def queue_of(solver: FakeSolver, workers: int = 1, length: int = 2) -> Iterator[SolveQueue]:
    queue = SolveQueue(solver, workers=workers, length=length)
    try:
        yield queue
    finally:
        queue.close()


def test_the_line_is_bounded_and_moves_up() -> None:
    solver = FakeSolver(seconds=60)
    told: dict[int, list[SearchEvent]] = {number: [] for number in range(3)}
    with queue_of(solver) as queue:
        tickets = [queue.submit(TASK, 1.0, told[0].append)]
        assert solver.started.acquire(timeout=PATIENCE)
        tickets += [queue.submit(TASK, 1.0, told[number].append) for number in (1, 2)]
        assert (queue.solving, queue.waiting) == (1, 2)
        with pytest.raises(QueueFull, match="try again in 3 seconds") as caught:
            queue.submit(TASK, 1.0, print)
        assert caught.value.retry_after == 3  # one second each until measured
        assert (told[1], told[2]) == ([QueuePosition(1)], [QueuePosition(2)])

        queue.cancel(tickets[1])  # out of the middle of the line
        assert told[2] == [QueuePosition(2), QueuePosition(1)]
        queue.cancel(tickets[0])  # out of a search
        assert solver.stopped.acquire(timeout=PATIENCE)
        assert solver.started.acquire(timeout=PATIENCE)
        assert told[2][:3] == [QueuePosition(2), QueuePosition(1), QueuePosition(0)]
        assert (queue.solving, queue.waiting) == (1, 0)
        queue.cancel(tickets[0])  # twice is fine


def test_closing_stops_searches_and_sends_everybody_away() -> None:
    solver = FakeSolver(seconds=60)
    told: list[SearchEvent] = []
    with queue_of(solver) as queue:
        for _ in range(2):
            queue.submit(TASK, 1.0, lambda event: told.append(event) if isinstance(event, SearchFailure) else None)
        assert solver.started.acquire(timeout=PATIENCE)
        queue.close()
        assert [type(event.error) for event in told if isinstance(event, SearchFailure)] == [
            ServerStopping,
            ServerStopping,
        ]
        with pytest.raises(ServerStopping):
            queue.submit(TASK, 1.0, print)


def test_waiting_time_follows_what_was_measured() -> None:
    finished = threading.Semaphore(0)
    with queue_of(FakeSolver(seconds=0.0), length=1000) as queue:
        before = queue.mean_share
        for _ in range(60):
            queue.submit(TASK, 1.0, lambda event: None if isinstance(event, QueuePosition) else finished.release())
        for _ in range(60):
            assert finished.acquire(timeout=PATIENCE)
        assert queue.mean_share < 0.1 * before


def test_a_full_line_is_an_honest_503() -> None:
    solver = FakeSolver(seconds=60)
    app = create_app(solver, ServiceSettings(workers=1, queue=0))
    with client_of(app) as client:
        app.state.queue.submit(TASK, 1.0, lambda event: None)
        for path in ("/api/solve", "/api/solve/stream"):
            response = client.post(path, json=BODY)
            assert "try again" in refusal(response, 503)["message"]
            assert int(response.headers["Retry-After"]) >= 1
        assert client.get("/api/health").json() == {"status": "ok", "solving": 1, "waiting": 0}
        app.state.queue.close()
        assert "stopping" in refusal(client.post("/api/solve", json=BODY), 503)["message"]


def test_a_full_queue_makes_room_for_clients_with_less() -> None:
    solver = FakeSolver(seconds=60)
    told: dict[int, list[SearchEvent]] = {number: [] for number in range(4)}
    with queue_of(solver, length=3) as queue:
        for number in range(4):
            queue.submit(TASK, 10.0, told[number].append, "greedy")
        assert solver.started.acquire(timeout=PATIENCE)
        with pytest.raises(QueueFull) as caught:
            queue.submit(TASK, 10.0, print, "greedy")
        assert caught.value.retry_after == 40  # what is there takes that long
        mine: list[SearchEvent] = []
        queue.submit(TASK, 1.0, mine.append, "modest")
        assert queue.waiting == 3
        assert isinstance(told[3][-1], SearchFailure)  # the newest of the one who has most
        assert isinstance(told[3][-1].error, QueueFull)
        assert not any(isinstance(event, SearchFailure) for number in range(3) for event in told[number])
        assert mine == [QueuePosition(1)]  # before the others of the greedy one
        assert told[1][-1] == QueuePosition(2)
        queue.submit(TASK, 1.0, print, "another")
        with pytest.raises(QueueFull):  # all have about as many now
            queue.submit(TASK, 1.0, print, "modest")


def test_clients_are_served_in_turn() -> None:
    """A client with thirty searches does not delay one that comes later with two."""
    order: list[str] = []
    ended = threading.Semaphore(0)

    def on_end(client: str) -> Callable[[SearchEvent], None]:
        def on_event(event: SearchEvent) -> None:
            if isinstance(event, Solution):
                order.append(client)
                ended.release()

        return on_event

    with queue_of(FakeSolver(seconds=0.03), length=100) as queue:
        for _ in range(30):
            queue.submit(TASK, 1.0, on_end("greedy"), "greedy")
        time.sleep(0.1)
        for client in ("first", "second") * 2:
            queue.submit(TASK, 1.0, on_end(client), client)
        for _ in range(34):
            assert ended.acquire(timeout=PATIENCE)
    places = {client: [at for at, each in enumerate(order) if each == client] for client in ("first", "second")}
    begin = min(min(each) for each in places.values())
    assert max(max(each) for each in places.values()) <= begin + 8


class RoundsSolver(FakeSolver):
    """Each search has three rounds; the later ones take long and poll. It records who shared a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[tuple[int, int]] = []
        self.budgets: list[list[float]] = []
        self.narrow: list[bool] = []
        self.broken: Task | None = None

    def together(self, rounds: int, /) -> int:
        return 16 if rounds == 0 else 1

    def advance(
        self,
        states: Sequence[Any],
        turn: Turn,
        poll: Callable[[], None],
        /,
        *,
        narrow: bool,
        on_end: Callable[[Any], None],
    ) -> None:
        self.narrow.append(narrow)
        if any(state.task is self.broken for state in states):
            raise ZeroDivisionError
        self.batches.append((states[0].rounds, len(states)))
        self.budgets.append([state.budget for state in states])
        start = turn.now()
        while turn.now() - start < (0.05 if states[0].rounds == 0 else min(1.0, states[0].budget)):
            time.sleep(0.005)
            turn.poll()
            poll()
            if all(state.should_stop() for state in states):
                break
        for state in states:
            state.rounds += 1
            state.solution = Solution((), False, None, turn.now() - start, 8, 0)
            on_end(state)

    def done(self, state: Any, /) -> bool:
        return bool(state.rounds == 3 or state.budget < 5 or state.should_stop())


def test_searches_that_wait_share_a_batch_between_the_slices_of_a_long_one() -> None:
    solver = RoundsSolver()
    told: list[SearchEvent] = []
    ended = threading.Semaphore(0)

    def on_event(event: SearchEvent) -> None:
        if isinstance(event, Solution):
            ended.release()

    with queue_of(solver, length=100) as queue:
        queue.submit(TASK, 10.0, told.append, "long")
        until = time.monotonic() + PATIENCE
        while not any(rounds for rounds, _ in solver.batches):  # it has gone on to its second round
            assert time.monotonic() < until
            time.sleep(0.01)
        for number in range(12):
            queue.submit(TASK, 1.0, on_event, f"client {number % 6}")
        for _ in range(12):
            assert ended.acquire(timeout=PATIENCE)
        assert not any(isinstance(event, Solution) for event in told)  # it still runs
        assert max(size for rounds, size in solver.batches if rounds == 0) > 1
        assert all(size == 1 for rounds, size in solver.batches if rounds)
        assert not any(solver.narrow)  # never was another whole batch waiting


class CountedSolver(FakeSolver):
    """A search whose parts take a second each, and are counted as soon as they are over."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        self.turns.clock = lambda: self.time

    def advance(
        self,
        states: Sequence[Any],
        turn: Turn,
        poll: Callable[[], None],
        /,
        *,
        narrow: bool,
        on_end: Callable[[Any], None],
    ) -> None:
        for _ in range(3):
            self.time += 1.0
            states[0].seconds += 1.0
            poll()
        states[0].rounds += 1
        states[0].solution = Solution((), False, None, self.time, 8, 0)
        on_end(states[0])

    def done(self, state: Any, /) -> bool:
        return bool(state.rounds == 2)


def test_no_second_of_a_search_is_reported_twice() -> None:
    told: list[SearchEvent] = []
    ended = threading.Event()

    def on_event(event: SearchEvent) -> None:
        told.append(event)
        if isinstance(event, Solution):
            ended.set()

    with queue_of(CountedSolver()) as queue:
        queue.submit(TASK, 10.0, on_event)
        assert ended.wait(PATIENCE)
    assert [event.seconds for event in told if isinstance(event, Progress)] == [0, 1, 2, 3, 3, 4, 5, 6]


def test_long_searches_share_no_batch_that_others_would_wait_for() -> None:
    """One client has twelve searches of ten seconds; another one waits for one of them at most, not for all."""
    solver = RoundsSolver()
    solver.broken = Task(TASK.examples, "broken")  # its failure says when it was its turn
    ended = threading.Semaphore(0)
    with queue_of(solver, length=100) as queue:
        for _ in range(12):
            queue.submit(TASK, 10.0, lambda event: None, "greedy")
        queue.submit(
            solver.broken, 1.0, lambda event: ended.release() if isinstance(event, SearchFailure) else None, "honest"
        )
        assert ended.acquire(timeout=PATIENCE)
        firsts = [size for rounds, size in solver.batches if rounds == 0]
    assert set(firsts) == {1}
    assert len(firsts) <= 3


def test_a_short_search_shares_no_batch_with_a_long_one() -> None:
    solver = RoundsSolver()
    ended = threading.Semaphore(0)
    with queue_of(solver, length=100) as queue:
        for budget in (4.0, 4.0, 1.0, 1.5, 4.0):
            queue.submit(TASK, budget, lambda event: ended.release() if isinstance(event, Solution) else None)
        for _ in range(5):
            assert ended.acquire(timeout=PATIENCE)
    assert all(max(budgets) < 2 * min(budgets) for budgets in solver.budgets)


class SlowlyRepairing(RoundsSolver):
    """In a batch, the first search goes on until it is stopped; the others have ended by then."""

    def advance(self, states: Sequence[Any], turn: Turn, poll: Callable[[], None], /, **more: Any) -> None:
        *others, first = reversed(states)
        if others:
            super().advance(others, turn, poll, **more)
        self.started.release()
        while not first.should_stop():
            time.sleep(0.005)
            poll()
        super().advance([first], turn, poll, **more)


def test_answers_do_not_wait_for_others_of_their_batch() -> None:
    solver = SlowlyRepairing()
    ended = threading.Semaphore(0)
    events: list[SearchEvent] = []
    with queue_of(solver, workers=1, length=100) as queue:
        first = queue.submit(TASK, 1.0, lambda event: None)  # keeps the others waiting, so that they share a batch
        assert solver.started.acquire(timeout=PATIENCE)
        slow = queue.submit(TASK, 1.0, lambda event: None)
        for _ in range(3):
            queue.submit(TASK, 1.0, lambda event: ended.release() if isinstance(event, Solution) else None)
        queue.submit(TASK, 1.0, events.append)
        queue.cancel(first)
        for _ in range(3):
            assert ended.acquire(timeout=PATIENCE)
        assert solver.started.acquire(timeout=PATIENCE)  # its batch still runs
        assert queue.solving == 1
        count = len(events)
        assert isinstance(events[-1], Solution)
        time.sleep(0.6)
        assert len(events) == count  # no progress of a search that has ended
        queue.cancel(slow)


def test_a_client_does_not_wait_for_one_that_has_several_searches() -> None:
    """All that run are of one client: another one's search begins at once, that client's own next one does not."""
    solver = FakeSolver(seconds=60)
    with queue_of(solver, workers=2, length=100) as queue:
        solver.turns.at_once = 9  # its searches know no slices
        for _ in range(4):
            queue.submit(TASK, 10.0, lambda event: None, "greedy")
        for _ in range(2):
            assert solver.started.acquire(timeout=PATIENCE)
        assert (queue.solving, queue.waiting) == (2, 2)
        queue.submit(TASK, 10.0, lambda event: None, "modest")
        assert solver.started.acquire(timeout=PATIENCE)
        assert (queue.solving, queue.waiting) == (3, 2)
        queue.submit(TASK, 10.0, lambda event: None, "another")
        time.sleep(0.1)
        assert (queue.solving, queue.waiting) == (3, 3)  # one of those that run has only one


def test_rounds_are_narrow_while_another_batch_waits() -> None:
    solver = RoundsSolver()
    ended = threading.Semaphore(0)
    with queue_of(solver, length=100) as queue:
        for _ in range(50):
            queue.submit(TASK, 1.0, lambda event: ended.release() if isinstance(event, Solution) else None)
        for _ in range(50):
            assert ended.acquire(timeout=PATIENCE)
    assert any(solver.narrow)
    assert not solver.narrow[-1]


def test_a_search_that_fails_does_not_take_its_batch_along() -> None:
    solver = RoundsSolver()
    solver.broken = Task(TASK.examples, "broken")
    ends: dict[str, list[SearchEvent]] = {}
    ended = threading.Semaphore(0)

    def on_end(name: str) -> Callable[[SearchEvent], None]:
        def on_event(event: SearchEvent) -> None:
            if isinstance(event, Solution | SearchFailure):
                ends.setdefault(name, []).append(event)
                ended.release()

        return on_event

    with queue_of(solver, length=100) as queue:
        for task in (TASK, solver.broken, TASK, TASK):
            queue.submit(task, 1.0, on_end(task.name))
        for _ in range(4):
            assert ended.acquire(timeout=PATIENCE)
    assert [type(event) for event in ends[""]] == [Solution] * 3
    failure = ends["broken"][0]
    assert isinstance(failure, SearchFailure)
    assert isinstance(failure.error, ZeroDivisionError)


async def ask_and_leave(app: FastAPI, path: str, begun: threading.Semaphore, slow: float = 0.0) -> None:
    """Ask over ASGI, as a server would pass it on, and go away as soon as a search has begun.

    If the client is slow, it takes so many seconds for each message, and leaves during the third.
    """
    body = json.dumps(BODY).encode()
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "POST",
        "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers,
    }  # fmt: skip
    messages = [{"type": "http.request", "body": body[:10], "more_body": True},
                {"type": "http.request", "body": body[10:], "more_body": False}]  # fmt: skip

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        assert await asyncio.to_thread(begun.acquire, timeout=PATIENCE)
        begun.release()
        await asyncio.sleep(2.5 * slow)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        await asyncio.sleep(slow)

    await app(scope, receive, send)


@pytest.mark.parametrize("path", ["/api/solve", "/api/solve/stream"])
def test_a_client_that_leaves_stops_its_search(path: str) -> None:
    solver = FakeSolver(seconds=60)
    app = create_app(solver, ServiceSettings(workers=1))
    with client_of(app):
        asyncio.run(asyncio.wait_for(ask_and_leave(app, path, solver.started), PATIENCE))
        assert solver.stopped.acquire(timeout=PATIENCE)


def test_a_client_that_leaves_while_an_event_is_sent_causes_no_error() -> None:
    solver = FakeSolver(seconds=60)
    app = create_app(solver, ServiceSettings(workers=1))
    with client_of(app):
        asyncio.run(asyncio.wait_for(ask_and_leave(app, "/api/solve/stream", solver.started, 0.5), PATIENCE))
        assert solver.stopped.acquire(timeout=PATIENCE)


def test_a_stream_without_events_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karelsynth.web.solving._KEEP_ALIVE", 0.05)
    with client_of(create_app(FakeSolver(seconds=0.5), ServiceSettings(workers=1))) as client:
        text = client.post("/api/solve/stream", json=BODY).text
    assert ": still here\n\n" in text
    assert text.count("event: solution") == 1


@pytest.mark.parametrize("path", ["/api/solve", "/api/solve/stream"])
def test_a_client_that_leaves_the_line_frees_its_place(path: str) -> None:
    solver = FakeSolver(seconds=60)
    app = create_app(solver, ServiceSettings(workers=1, queue=1))
    with client_of(app):
        app.state.queue.submit(TASK, 1.0, lambda event: None)
        asyncio.run(asyncio.wait_for(ask_and_leave(app, path, solver.started), PATIENCE))
        assert (app.state.queue.solving, app.state.queue.waiting) == (1, 0)


def test_many_clients_at_once_get_answers_or_503() -> None:
    rng = random.Random(0)
    with client_of(create_app(FakeSolver(seconds=0.02), ServiceSettings(workers=2, queue=4))) as client:
        statuses: list[int] = []

        def ask() -> None:
            time.sleep(rng.random() * 0.1)
            statuses.append(client.post("/api/solve", json=BODY).status_code)

        threads = [threading.Thread(target=ask) for _ in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(statuses) == 24
        assert set(statuses) <= {200, 503}
        assert statuses.count(200) >= 6
