"""Ending a search early: by whom, when, and with what answer."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from karelsynth.solve.solution import Progress, Solution
from karelsynth.web.app import create_app
from karelsynth.web.queue import QueuePosition, SearchEvent, SearchFailure, SolveQueue, UnknownSearch
from tests.fake_solver import FakeSolver
from tests.page_server import served
from tests.web_client import BODY, EXAMPLE, PATIENCE, TASK, client_of, refusal

NEAR = {"input": ". .\n> .", "output": ". .\n. >"}
"""One move, or all the way."""
JSON = {"Content-Type": "application/json"}


class Stream:
    """A search over a real connection, whose events are read one by one."""

    def __init__(self, address: str, *examples: Any) -> None:
        self.connection = connect(address)
        self.connection.request("POST", "/api/solve/stream", json.dumps({"examples": examples}), JSON)
        self.response = self.connection.getresponse()
        assert self.response.status == 200

    def next(self) -> tuple[str, Any]:
        name, data, _ = (self.response.readline().decode().rstrip("\n") for _ in range(3))
        return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))

    def until(self, wanted: str) -> Any:
        """The data of the next event of that name."""
        while True:
            name, data = self.next()
            if name == wanted:
                return data
            assert name not in ("solution", "error")


def connect(address: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE)


@contextmanager
def asking(address: str, *examples: Any) -> Iterator[Stream]:
    stream = Stream(address, *examples)
    try:
        yield stream
    finally:
        stream.response.close()
        stream.connection.close()


def stop(address: str, key: str) -> tuple[int, str]:
    connection = connect(address)
    try:
        connection.request("POST", "/api/solve/stop", json.dumps({"id": key}), JSON)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.fixture
def solver() -> FakeSolver:
    """It searches for a minute unless it is told to stop."""
    return FakeSolver(seconds=60)


@pytest.fixture
def address(solver: FakeSolver) -> Iterator[str]:
    with served(solver) as address:
        yield address


def test_a_stopped_search_ends_with_all_that_it_has_found(address: str) -> None:
    began = time.monotonic()
    with asking(address, NEAR) as stream:
        key = stream.until("accepted")["id"]
        stream.until("progress")
        assert stop(address, key) == (204, "")
        while (event := stream.next())[0] == "progress":
            pass
        name, solution = event
        assert stream.response.read() == b""
    assert time.monotonic() - began < PATIENCE
    assert name == "solution"
    assert solution["stopped"] is True
    assert solution["solved"] is True
    assert [answer["right"] for answer in solution["answers"]] == [[True], [True]]  # progress tells of one only
    assert len(solution["ambiguity"]["outcomes"]) == 2
    assert solution["seconds"] < PATIENCE


def test_a_search_is_stopped_by_its_own_id_only(address: str, solver: FakeSolver) -> None:
    with asking(address, EXAMPLE) as first, asking(address, EXAMPLE) as second:
        keys = [stream.until("accepted")["id"] for stream in (first, second)]
        assert len(set(keys)) == 2
        assert min(map(len, keys)) >= 22  # 128 bits
        for wrong in ("", "0", keys[0][:-1], keys[0] + "A", keys[0].swapcase(), "é", "\0", "x" * 100):
            assert stop(address, wrong)[0] == 404
        assert not solver.stopped.acquire(blocking=False)
        first.until("progress")
        assert stop(address, keys[0])[0] == 204
        assert first.until("solution")["stopped"] is True
        assert second.until("progress")["best"] is not None  # its turn has come
        assert stop(address, keys[0])[0] == 404  # the id went with its search
        assert stop(address, keys[1])[0] == 204
        assert second.until("solution")["stopped"] is True


def test_a_search_that_waits_is_stopped_with_nothing_found(address: str, solver: FakeSolver) -> None:
    with asking(address, EXAMPLE) as first:
        first.until("progress")
        with asking(address, EXAMPLE) as second:
            key = second.until("accepted")["id"]
            assert second.until("queued") == {"position": 1}
            assert stop(address, key)[0] == 204
            solution = second.until("solution")
            assert stop(address, key)[0] == 404
        first.until("progress")  # undisturbed
    assert solution == {
        "solved": False, "support": None, "advice": None, "answers": [], "ambiguity": None, "seconds": 0, "beam": 0,
        "checked": 0, "stopped": True,
    }  # fmt: skip


def test_an_id_goes_with_the_client(address: str, solver: FakeSolver) -> None:
    with asking(address, EXAMPLE) as stream:
        key = stream.until("accepted")["id"]
        stream.until("progress")
    assert solver.stopped.acquire(timeout=PATIENCE)
    status, body = stop(address, key)
    assert status == 404
    assert json.loads(body)["error"]["where"] == "id"


def test_an_unknown_id_is_told_in_the_usual_form() -> None:
    with client_of(create_app(FakeSolver())) as client:
        text = client.post("/api/solve/stream", json=BODY).text
        ended = json.loads(text.split("\n")[1].removeprefix("data: "))["id"]
        for key in (ended, "never"):
            error = refusal(client.post("/api/solve/stop", json={"id": key}), 404)
            assert error["where"] == "id"
            assert "no such search is going on" in error["message"]
        refusal(client.post("/api/solve/stop", content=b'{"id": "\\ud800"}', headers=JSON), 422)
        asked = json.dumps({"id": ended})
        refusal(client.post("/api/solve/stop", content=asked, headers={"Content-Type": "text/plain"}), 415)
        refusal(client.post("/api/solve/stop", json={"id": ended}, headers={"Host": "evil.example"}), 400)
        assert "use POST" in refusal(client.get("/api/solve/stop"), 405)["message"]


def test_a_search_that_ends_by_itself_is_not_marked() -> None:
    with client_of(create_app(FakeSolver(seconds=0.05))) as client:
        assert client.post("/api/solve", json=BODY).json()["stopped"] is False


def test_the_queue_keeps_no_ids() -> None:
    """Whatever becomes of searches, none stays; and how long one took that was cut short says nothing of others."""
    solver = FakeSolver(seconds=60)
    told: list[SearchEvent] = []
    queue = SolveQueue(solver, workers=1, length=2)
    try:
        before = queue.mean_share
        searching = queue.submit(TASK, 1.0, told.append)
        assert solver.started.acquire(timeout=PATIENCE)
        waiting, left = (queue.submit(TASK, 1.0, told.append) for _ in range(2))
        queue.cancel(left)
        for ticket in (waiting, searching):
            queue.stop(ticket.id)
        for ticket in (left, waiting, searching):
            with pytest.raises(UnknownSearch):
                queue.stop(ticket.id)
        until = time.monotonic() + PATIENCE
        while queue.solving:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert queue.waiting == 0
        assert queue.mean_share == before
    finally:
        queue.close()
    ends = [event for event in told if not isinstance(event, QueuePosition | Progress)]
    assert not any(isinstance(event, SearchFailure) for event in ends)
    assert [event.answers != () for event in ends if isinstance(event, Solution)] == [False, True]
