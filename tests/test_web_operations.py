"""What operators see: metrics, readiness, logs, limits by client."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
from anyio.to_thread import current_default_thread_limiter
from benchmarks.hostile import hostile_bodies

from karelsynth.web.app import ServiceSettings, create_app
from karelsynth.web.guard import LARGEST_BODY, FairTurns, RateLimited, RateLimits
from karelsynth.web.operations import LOGGERS, Histogram, access_log, start_logging
from tests.fake_solver import FakeSolver
from tests.web_client import BODY, TASK, client_of, refusal

SAMPLE = re.compile(r'([a-z_]+)(\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})? (-?[0-9.e+-]+)')


def samples(text: str) -> dict[str, float]:
    """The samples of Prometheus' text format; every line must be one, or a comment."""
    found = {}
    for line in text.splitlines():
        if not line.startswith(("# HELP ", "# TYPE ")):
            match = SAMPLE.fullmatch(line)
            assert match, line
            found[match[1] + (match[2] or "")] = float(match[3])
    return found


def test_metrics_count_requests_and_searches() -> None:
    with client_of(create_app(FakeSolver(), ServiceSettings(model="a name"))) as client:
        for _ in range(3):
            assert client.post("/api/solve", json=BODY).status_code == 200
        client.post("/api/solve", json={})
        client.post("/api/solve", content=b" " * (LARGEST_BODY + 1))
        client.get("/nothing/that/exists")
        client.request("BREW", "/api/solve")
        response = client.get("/metrics")
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        found = samples(response.text)
    assert found['karelsynth_requests_total{method="POST",path="/api/solve",status="200"}'] == 3
    assert found['karelsynth_requests_total{method="POST",path="/api/solve",status="422"}'] == 1
    assert found['karelsynth_requests_total{method="POST",path="/api/solve",status="413"}'] == 1
    assert found['karelsynth_requests_total{method="GET",path="other",status="404"}'] == 1
    assert found['karelsynth_searches_total{outcome="solved"}'] == 3
    assert found["karelsynth_search_seconds_count"] == found["karelsynth_batch_size_count"] == 3
    assert found['karelsynth_search_seconds_bucket{le="+Inf"}'] == 3
    assert found["karelsynth_searches_waiting"] == found["karelsynth_searches_running"] == 0
    assert found["process_resident_memory_bytes"] > 1e6
    assert "BREW" not in response.text  # nobody can add names of their own


def test_a_search_that_finds_the_queue_full_is_counted() -> None:
    app = create_app(FakeSolver(seconds=60), ServiceSettings(queue=0))
    with client_of(app) as client:
        app.state.queue.submit(TASK, 1.0, lambda event: None)
        for _ in range(2):
            assert client.post("/api/solve", json=BODY).status_code == 503
        assert samples(client.get("/metrics").text)['karelsynth_searches_total{outcome="refused"}'] == 2


def test_a_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.add(value)
    assert histogram.lines("x", 'a="b"') == [
        'x_bucket{a="b",le="1"} 2', 'x_bucket{a="b",le="2"} 3', 'x_bucket{a="b",le="+Inf"} 4',
        'x_sum{a="b"} 12.000000', 'x_count{a="b"} 4',
    ]  # fmt: skip


def test_readiness_is_whether_searches_are_accepted() -> None:
    app = create_app(FakeSolver(seconds=60), ServiceSettings(workers=1, queue=0))
    with client_of(app) as client:
        assert client.get("/api/ready").json() == {"status": "ready"}
        app.state.queue.submit(TASK, 1.0, lambda event: None)
        response = client.get("/api/ready")
        assert "busy" in refusal(response, 503)["message"]
        assert int(response.headers["Retry-After"]) >= 1
        assert client.get("/api/health").status_code == 200  # it lives
        app.state.queue.close()
        assert "stopping" in refusal(client.get("/api/ready"), 503)["message"]


def test_a_bucket_holds_a_minute_and_fills_again() -> None:
    limits = RateLimits(per_minute=6)
    for _ in range(6):
        limits.check("ada", now=0.0)
    with pytest.raises(RateLimited, match="6 a minute are allowed; try again in 10 seconds") as caught:
        limits.check("ada", now=0.0)
    assert caught.value.retry_after == 10
    limits.check("bob", now=0.0)  # others are not concerned
    limits.check("ada", now=10.0)
    with pytest.raises(RateLimited):
        limits.check("ada", now=10.0)
    for _ in range(6):
        limits.check("ada", now=1e6)
    RateLimits(0).check("ada")
    for number in range(10_000):  # many clients take no more room than a few
        limits.check(f"client {number}", now=1e6 + number)
    assert len(limits._buckets) <= 4097


def test_a_client_that_asks_too_often_is_told_when_to_come_back() -> None:
    with client_of(create_app(FakeSolver(), ServiceSettings(rate=2))) as client:
        statuses = [client.post("/api/check", json={"program": "def run(): move()"}).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        response = client.post("/api/solve", json=BODY)
        assert "2 a minute" in refusal(response, 429)["message"]
        assert 1 <= int(response.headers["Retry-After"]) <= 30
        assert client.get("/api/health").status_code == 200  # reading is not limited
        assert samples(client.get("/metrics").text)["karelsynth_rate_limited_total"] == 2


@pytest.fixture
def _loggers() -> Iterator[None]:
    """The loggers as they were, afterwards."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger, list(logger.handlers)) for logger in loggers]
    yield
    for logger, handlers in before:
        logger.handlers[:] = handlers
        logger.propagate = True
        logger.setLevel(logging.NOTSET)


@pytest.mark.usefixtures("_loggers")
@pytest.mark.parametrize("kind", ["json", "text", "off"])
def test_the_log_has_a_line_for_each_request_and_search(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    start_logging(kind)  # type: ignore[arg-type]
    with client_of(create_app(FakeSolver())) as client:
        client.post("/api/solve", json=BODY)
    logging.getLogger("karelsynth.web").error("a\nmessage")
    logging.getLogger("uvicorn.error").warning("anybody can cause it by a malformed request")
    logging.getLogger("uvicorn.error").error("of a library")
    lines = capsys.readouterr().err.splitlines()
    if kind == "json":
        search, request, message, library = map(json.loads, lines)
        assert library["message"] == "of a library"
        assert (search["event"], search["outcome"], search["examples"]) == ("search", "solved", 1)
        assert (request["path"], request["status"], request["client"]) == ("/api/solve", 200, "testclient")
        assert (message["level"], message["message"]) == ("error", "a\nmessage")
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", line["time"]) for line in (search, request, message))
    elif kind == "text":
        assert " search client=testclient outcome=solved " in lines[0]
        assert " request client=testclient method=POST path=/api/solve status=200 seconds=" in lines[1]
    else:
        assert lines == ["a", "message", "of a library"]
    assert access_log.propagate is False


def test_the_files_for_administrators_run_commands_that_exist() -> None:
    from typer.main import get_command

    from karelsynth.cli import app

    known = {option for each in get_command(app).commands["serve"].params for option in each.opts}  # type: ignore[attr-defined]
    folder = Path(__file__).parent.parent / "deploy"
    unit = ConfigParser(interpolation=None, strict=False)
    unit.read(folder / "karelsynth.service")
    start = unit["Service"]["ExecStart"].split()
    assert start[:2] == ["/opt/karelsynth/bin/karelsynth", "serve"]
    command = next(line for line in (folder / "Containerfile").read_text().splitlines() if line.startswith("CMD"))
    for words in (start, json.loads(command.removeprefix("CMD "))):
        assert {word for word in words if word.startswith("--")} <= known


def test_requests_take_turns_by_client() -> None:
    """One client sends many; another one's only request is next. Who leaves while waiting gives its place up."""
    order: list[str] = []

    async def ask(turns: FairTurns, client: str) -> None:
        async with turns.turn(client):
            order.append(client)
            await asyncio.sleep(0)

    async def all_of_them() -> None:
        turns = FairTurns(1)
        asking = [asyncio.create_task(ask(turns, client)) for client in ("many", "many", "many", "left", "few")]
        await asyncio.sleep(0)
        asking[3].cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await asyncio.wait_for(ask(turns, "later"), 10)

    asyncio.run(all_of_them())
    assert order == ["many", "few", "many", "many", "later"]


def test_a_client_does_not_wait_for_one_that_has_several_turns() -> None:
    """One more runs beside those of a client that has two; not beside one each of two clients."""

    async def running(*clients: str) -> list[str]:
        turns, granted, over = FairTurns(2), list[str](), asyncio.Event()

        async def ask(client: str) -> None:
            async with turns.turn(client):
                granted.append(client)
                await over.wait()

        asking = [asyncio.create_task(ask(client)) for client in clients]
        await asyncio.sleep(0.05)
        over.set()
        now = list(granted)
        await asyncio.gather(*asking)
        return now

    assert asyncio.run(running("many", "many", "many", "few", "few", "other")) == ["many", "many", "few"]
    assert asyncio.run(running("one", "other", "third")) == ["one", "other"]


SPIN = "def run():\n  repeat(19):\n    repeat(19):\n      turnLeft()"
"""It takes a moment."""


class Asking:
    """Requests from any address to an application whose service has not been started."""

    def __init__(self) -> None:
        self.app = create_app(FakeSolver())
        self.answered: list[str] = []

    async def ask(self, client: str, path: str, body: Any = None, *, reads: bool = True) -> None:
        """One request. A client that does not read gets no further than the first bytes."""
        method = "GET" if body is None else "POST"
        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        scope = {
            "type": "http", "method": method, "path": path, "headers": headers, "query_string": b"", "root_path": "",
            "scheme": "http", "client": (client, 1), "server": ("127.0.0.1", 8000), "http_version": "1.1",
        }  # fmt: skip
        sent = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not sent:
                await asyncio.Event().wait()
            return sent.pop()

        async def send(message: Any) -> None:
            assert message.get("status", 200) == 200, message
            if not reads:
                await asyncio.Event().wait()

        await self.app(scope, receive, send)
        self.answered.append(client)


def test_one_client_with_many_quick_requests_delays_others_by_two_at_most() -> None:
    """All requests got a thread in the order of their arrival: whoever sent 60 was served 60 times first."""

    async def all_of_them() -> list[str]:
        asking = Asking()
        run = {"program": SPIN, "world": "> .\n. ."}
        many = [asking.ask("10.0.0.1", "/api/run", run) for _ in range(60)]
        await asyncio.wait_for(asyncio.gather(*many, asking.ask("10.0.0.2", "/api/check", {"program": SPIN})), 60)
        return asking.answered

    assert asyncio.run(all_of_them()).index("10.0.0.2") < 10


@pytest.mark.parametrize("path", ["/api/grade", "/api/run"])
def test_a_client_that_does_not_read_its_responses_keeps_no_turn(path: str) -> None:
    async def both() -> list[str]:
        asking = Asking()
        body = {
            "/api/grade": {**BODY, "programs": [{"name": "", "program": SPIN}]},
            "/api/run": {"program": SPIN, "world": "> .\n. ."},
        }[path]
        greedy = [asyncio.create_task(asking.ask("10.0.0.1", path, body, reads=False)) for _ in range(4)]
        await asyncio.sleep(0)
        await asyncio.wait_for(asking.ask("10.0.0.2", path, body), 30)
        for each in greedy:
            each.cancel()
        await asyncio.gather(*greedy, return_exceptions=True)
        return asking.answered

    assert asyncio.run(both()) == ["10.0.0.2"]


def test_the_attack_on_the_service_knows_every_path() -> None:
    assert set(hostile_bodies()) == set(create_app(FakeSolver()).openapi()["paths"])


def test_health_waits_for_no_thread() -> None:
    async def crowded() -> None:
        with client_of(create_app(FakeSolver())) as client:
            asking = Asking()
            asking.app.state.queue = client.app.state.queue  # type: ignore[attr-defined]
            limiter = current_default_thread_limiter()
            limiter.total_tokens = 1
            async with limiter:  # every thread is taken
                for path in ("/api/health", "/api/version", "/api/ready", "/metrics"):
                    await asyncio.wait_for(asking.ask("10.0.0.2", path), 30)

    asyncio.run(crowded())
