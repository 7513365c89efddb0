"""The application: the API's routes, the page's files, and the middleware around both."""

from __future__ import annotations

import asyncio
import logging
import mimetypes
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from karelsynth._version import __version__
from karelsynth.errors import quoted
from karelsynth.tutor.challenges import ChallengeSet
from karelsynth.web import classroom, operations, solving, toolkit, tutoring
from karelsynth.web.errors import add_error_handlers, error_response
from karelsynth.web.operations import (
    FairTurns,
    LogFormat,
    RateLimited,
    RateLimits,
    ServiceMetrics,
    lane_of,
    scope_client,
)
from karelsynth.web.queue import ServerStopping, SolveQueue, TaskSolver

log = logging.getLogger("karelsynth.web")

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
LARGEST_BODY: Final = 256 * 1024
"""Bytes that a request's body may have."""
_STATIC: Final = Path(__file__).parent / "static"
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:\[\]]+))(?::[0-9]{1,5})?")
"""A Host header: an IPv6 address in brackets or a name, and perhaps a port."""
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
_DESCRIPTION: Final = (
    "Program synthesis for Karel the robot. Worlds are text drawings, programs are texts in any dialect."
)
_SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of the service."""

    workers: int = 1
    """Number of batches of searches that run at the same time."""
    queue: int = 128
    """Number of searches that may wait; further ones get status 503."""
    cores: int = 1
    """Cores that all workers share."""
    hosts: frozenset[str] | None = LOOPBACK
    """Host names that requests may use; None allows all."""
    model: str = "shipped"
    """The model's name, as `/api/version` reports it."""
    rate: float = 0.0
    """Requests a minute that a client may send with POST; 0 for any number."""
    log: LogFormat = "off"
    """How requests and searches are logged."""
    proxies: frozenset[str] = frozenset()
    """Addresses of reverse proxies, whose header X-Forwarded-For names the client."""
    challenges: ChallengeSet | None = None
    """What the page opens with: a class set whose hidden examples stay here."""


def create_app(solver: TaskSolver, settings: ServiceSettings | None = None) -> FastAPI:
    """The service for a solver. `app.state.queue` is the queue in front of the solver while the service runs."""
    settings = settings or ServiceSettings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.queue = SolveQueue(
            solver,
            workers=settings.workers,
            length=settings.queue,
            cores=settings.cores,
            observer=app.state.metrics,
        )
        yield
        await asyncio.to_thread(app.state.queue.close)

    app = FastAPI(
        title="karelsynth",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,  # FastAPI's pages load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.settings, app.state.metrics = settings, ServiceMetrics()
    add_error_handlers(app)
    app.include_router(solving.router)
    app.include_router(toolkit.router)
    app.include_router(tutoring.router)
    app.include_router(operations.router)
    app.include_router(classroom.router)
    _serve_files(app)
    app.add_middleware(
        GuardMiddleware, hosts=settings.hosts, limits=RateLimits(settings.rate), metrics=app.state.metrics
    )
    return app


def _serve_files(app: FastAPI) -> None:
    """Serve the page at `/` and its files below `/static`, each with an ETag."""
    for suffix, kind in _TYPES.items():  # some systems' tables are wrong, and `nosniff` forbids browsers to guess
        mimetypes.add_type(kind, suffix)
    static = StaticFiles(directory=_STATIC, check_dir=False)

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def index(request: Request) -> Response:
        return await static.get_response("index.html", request.scope)

    app.mount("/static", static)


class GuardMiddleware:
    """Checks every request before it is parsed, and adds headers to every response.

    - The Host header must be one of `hosts` (None allows all). A page of another site could otherwise let its own
      name resolve to 127.0.0.1 and use the service through the visitor's browser (DNS rebinding).
    - A body may have up to `LARGEST_BODY` bytes.
    - A client may send so many POST requests a minute.
    - Requests that take a thread wait for their client's turn.
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
