"""The one layer around everything: what is refused before it is read, and what every response carries.

- While the server listens on loopback only, a request must name it by a loopback name. Otherwise a web page could
  give its own name the address 127.0.0.1 and talk to the service in the visitor's name (DNS rebinding).
- A body is read up to a limit, before anything parses it.
- Every response, errors too, has a strict Content-Security-Policy and its companions.
- An error that nobody foresaw goes to the log; the client gets a sentence.
"""

from __future__ import annotations

import logging
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from karelsynth.karel.world import quoted
from karelsynth.web.messages import Problem
from karelsynth.web.problems import answer

log = logging.getLogger("karelsynth.web")

LARGEST_BODY: Final = 256 * 1024
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_API: Final = "/api/"


class Guard:
    """See the module's docstring. `hosts` are the names that requests may use for the server; None allows all."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                # Files are asked for again each time, and answered by 304 if they have not changed.
                headers.setdefault("Cache-Control", "no-store" if scope["path"].startswith(_API) else "no-cache")
            await send(message)

        try:
            await self._handle(scope, receive, send_guarded)
        except Exception:
            log.exception("while answering %s %s", scope["method"], scope["path"])
            if started:  # too late for another answer; the server cuts the connection
                raise
            problem = Problem(message="internal error: your request is not to blame; see the server's log")
            await answer(500, problem)(scope, receive, send_guarded)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refusal = self._wrong_host(headers.get("host", ""))
        if refusal is None:
            body = await _read(headers, receive)
            if body is not None:
                await self.app(scope, _replayed(body, receive), send)
                return
            size = f"{LARGEST_BODY // 1024} KiB"
            refusal = 413, f"the body is too large: at most {size} are allowed"
        status, message = refusal
        await answer(status, Problem(message=message))(scope, receive, send)

    def _wrong_host(self, host: str) -> tuple[int, str] | None:
        if self.hosts is None or _name(host) in self.hosts:
            return None
        return 400, f"this server is not called {quoted(host)}: use the address that it printed when it started"


def _name(host: str) -> str:
    """The name in a Host header, without the port; an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


async def _read(headers: Headers, receive: Receive) -> bytes | None:
    """The body, or None if it is too large; one that says so itself is not read at all."""
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > LARGEST_BODY:
        return None
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > LARGEST_BODY:
            return None
        if not message.get("more_body", False):  # also when the client has gone
            return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once, then what the server has."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
