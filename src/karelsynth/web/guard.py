"""What every request passes before FastAPI parses it: checks, a client's rate and its turn.

A request is checked by `GuardMiddleware`. Then FastAPI makes a Pydantic model of its body and calls the route. Searches
wait in the queue (`queue.SolveQueue`). Every other request that takes time waits here for a turn: requests in one of
three lanes, each with a `FairTurns`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from karelsynth.errors import KarelsynthError, quoted
from karelsynth.web.connections import scope_client
from karelsynth.web.errors import error_response
from karelsynth.web.operations import ServiceMetrics
from karelsynth.web.queue import ServerStopping

log = logging.getLogger("karelsynth.web")

LARGEST_BODY: Final = 256 * 1024
"""Bytes that a request's body may have."""
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:\[\]]+))(?::[0-9]{1,5})?")
"""A Host header: an IPv6 address in brackets or a name, and perhaps a port."""
_MOST_BUCKETS: Final = 4096
"""The most clients whose rates are remembered."""
_AT_ONCE: Final = 2
"""How many requests of a lane run at the same time. Python runs one thread at a time, so more would gain little."""
_NO_LANE: Final = frozenset({"health", "version", "ready", "solve", "solve/stream", "solve/stop"})
"""Paths below /api/ that wait for nobody: they take no time, or wait in the queue of searches."""
_LANES: Final = {"probe": "searching", "pose": "searching", "grade": "tutoring", "hint": "tutoring"}
"""Paths below /api/ that take up to 10 and up to about 3 seconds. The others take a fraction of a second."""
_SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class GuardMiddleware:
    """Checks every request before it is parsed, and adds headers to every response.

    - The Host header must be one of `hosts` (None allows all). A page of another site could otherwise let its own
      name resolve to 127.0.0.1 and use the service through the visitor's browser (DNS rebinding).
    - A body may have up to `LARGEST_BODY` bytes.
    - A client may send only so many POST requests a minute (`RateLimits`).
    - A request that takes a thread waits for its client's turn (`FairTurns`).
    - Every response gets security headers, error responses too.
    - An unexpected error is logged; the client gets status 500 without details.
    - Every request is counted, and logged if the log is on.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None, limits: RateLimits, metrics: ServiceMetrics) -> None:
        self.app, self.hosts, self._limits, self._metrics = app, hosts, limits, metrics
        self._turns: defaultdict[str, FairTurns] = defaultdict(FairTurns)
        """For each lane."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, began = False, 0, time.monotonic()

        async def send_with_headers(message: Message) -> None:
            nonlocal started, status
            if message["type"] == "http.response.start":
                started, status = True, message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(_SECURITY_HEADERS)
                # Browsers revalidate files each time; an unchanged file costs a 304 response.
                headers["Cache-Control"] = "no-store" if scope["path"].startswith("/api/") else "no-cache"
            await send(message)

        try:
            await self._handle(scope, receive, send_with_headers)
        except _ClientLeft:
            return
        except asyncio.CancelledError:  # the server stops and has waited long enough
            if started:
                raise
            await error_response(503, str(ServerStopping()))(scope, receive, send_with_headers)
        except Exception:
            log.exception("while answering %s %s", scope["method"], scope["path"])
            if started:  # the status has been sent; the server closes the connection
                raise
            response = error_response(500, "internal error: your request is not to blame; see the server's log")
            await response(scope, receive, send_with_headers)
        finally:
            self._metrics.request_ended(scope, status, time.monotonic() - began)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.hosts is not None and host_name(host) not in self.hosts:
            message = f"this server is not called {quoted(host)}: use the address that it printed when it started"
            await error_response(400, message)(scope, receive, send)
            return
        if scope["method"] == "POST":
            try:
                self._limits.check(scope_client(scope))
            except RateLimited as error:
                self._metrics.request_limited()
                response = error_response(429, str(error), headers={"Retry-After": str(error.retry_after)})
                await response(scope, receive, send)
                return
        body = await _read_body(headers, receive)
        if body is None:
            message = f"the body is too large: at most {LARGEST_BODY // 1024} KiB are allowed"
            await error_response(413, message)(scope, receive, send)
            return
        lane = lane_of(scope["path"])
        if lane is None:
            await self.app(scope, _replay(body, receive), send)
        else:
            await self._handle_in_turn(self._turns[lane], scope, body, receive, send)

    async def _handle_in_turn(self, turns: FairTurns, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Answer a request whose work is done in a thread, once it is the client's turn and if it still waits then.

        A thread cannot be stopped. When the server stops, it is left behind, and the client gets a response. The turn
        ends before the response is sent: a client that does not read it keeps nobody waiting.
        """
        has_turn = False
        response: list[Message] = []

        async def keep(message: Message) -> None:
            response.append(message)

        async def work() -> None:
            nonlocal has_turn
            async with turns.turn(scope_client(scope)):
                has_turn = True
                await self.app(scope, _replay(body, receive), keep)
            for message in response:
                await send(message)

        working, left = asyncio.create_task(work()), asyncio.create_task(_client_left(receive))
        try:
            await asyncio.wait({working, left}, return_when=asyncio.FIRST_COMPLETED)
            if not has_turn:
                raise _ClientLeft
            await asyncio.shield(working)
        finally:
            left.cancel()
            working.cancel()


def host_name(host: str) -> str:
    """The name in a Host header, without the port; an IPv6 address without its brackets. Malformed ones give ""."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""


class _ClientLeft(Exception):
    """The client has disconnected before its request was complete, or the server has closed the connection."""


async def _client_left(receive: Receive) -> None:
    """Returns when the client has disconnected; its body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read_body(headers: Headers, receive: Receive) -> bytes | None:
    """The body, or None if it is too large. A body whose declared length is too large is not read."""
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > LARGEST_BODY:
        return None
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientLeft
        body += message.get("body", b"")
        if len(body) > LARGEST_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body first, then the server's further messages."""
    replayed = False

    async def receive_replayed() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_replayed


class RateLimited(KarelsynthError):
    """A client sends more requests than it may."""

    def __init__(self, rate: float, retry_after: int) -> None:
        self.retry_after = retry_after
        seconds = f"{retry_after} second{'s' * (retry_after != 1)}"
        super().__init__(f"too many requests: {rate:g} a minute are allowed; try again in {seconds}")


class RateLimits:
    """A token bucket for each client. A full bucket is a minute's requests."""

    def __init__(self, per_minute: float) -> None:
        self._rate = per_minute
        self._buckets: dict[str, tuple[float, float]] = {}
        """For each client: its tokens, and when they were counted."""

    def check(self, client: str, now: float | None = None) -> None:
        """Take a token. Raises RateLimited if there is none. At rate 0 there is no limit."""
        if not self._rate:
            return
        now = time.monotonic() if now is None else now
        tokens = self._tokens(client, now)
        if tokens < 1:
            raise RateLimited(self._rate, max(1, math.ceil((1 - tokens) * 60 / self._rate)))
        self._buckets[client] = tokens - 1, now
        if len(self._buckets) > _MOST_BUCKETS:
            full = [each for each in self._buckets if self._tokens(each, now) >= self._rate]
            for each in full or list(self._buckets)[: _MOST_BUCKETS // 2]:
                del self._buckets[each]

    def _tokens(self, client: str, now: float) -> float:
        tokens, counted = self._buckets.get(client, (self._rate, now))
        return min(self._rate, tokens + (now - counted) * self._rate / 60)


def lane_of(path: str) -> str | None:
    """The lane in which a request waits for its turn; None for one that waits for nobody.

    Requests that take seconds have lanes of their own, so that the others need not wait for them.
    """
    name = path.removeprefix("/api/")
    if name == path or name in _NO_LANE:
        return None
    return _LANES.get(name, "quick")


class FairTurns:
    """Lets a few requests run at a time. The others wait, without a thread, for their turn.

    The next is one of the client that has fewest running, among these the one whose last turn is longest ago. So
    whoever sends many is not served more often than others. A client that has none running does not wait for one that
    has several: one more runs then.
    """

    def __init__(self, at_once: int = _AT_ONCE) -> None:
        self._at_once = at_once
        self._running: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._turns = count(1)
        self._last: dict[str, int] = {}
        """The number of the last turn of each client that waits or runs."""

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Wait for a turn of this client."""
        waiting = client, asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._grant()
        try:
            await waiting[1]
            yield
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            else:
                self._running[client] -= 1
            self._grant()

    def _grant(self) -> None:
        while self._waiting:
            chosen = min(self._waiting, key=lambda each: (self._running[each[0]], self._last.get(each[0], 0)))
            client, granted = chosen
            if self._running.total() >= self._at_once + self._kept_out(client):
                break
            self._waiting.remove(chosen)
            self._running[client] += 1
            self._last[client] = next(self._turns)
            if not granted.done():  # its request may have been cancelled in this very moment
                granted.set_result(None)
        present = {client for client, _ in self._waiting} | {client for client, some in self._running.items() if some}
        self._running = Counter({client: some for client, some in self._running.items() if some})
        self._last = {client: last for client, last in self._last.items() if client in present}

    def _kept_out(self, client: str) -> bool:
        """Whether a client has none running, and another one several."""
        return not self._running[client] and max(self._running.values(), default=0) > 1
