"""The queue in front of the solver: bounded, honest about waiting, and nobody searches in vain."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi import FastAPI

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


async def ask_and_leave(app: FastAPI, path: str, begun: threading.Semaphore) -> None:
    """Ask over ASGI, as a server would pass it on, and go away as soon as a search has begun."""
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
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        pass

    await app(scope, receive, send)


@pytest.mark.parametrize("path", ["/api/solve", "/api/solve/stream"])
def test_a_client_that_leaves_stops_its_search(path: str) -> None:
    solver = FakeSolver(seconds=60)
    app = create_app(solver, ServiceSettings(workers=1))
    with client_of(app):
        asyncio.run(asyncio.wait_for(ask_and_leave(app, path, solver.started), PATIENCE))
        assert solver.stopped.acquire(timeout=PATIENCE)


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
