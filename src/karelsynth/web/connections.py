"""Connections: how many there may be, and how long each may take.

An attacker can open connections and send nothing, half a head or half a body. Each takes a file descriptor. So the
number of connections is bounded, in all and by address, below the process's limit of descriptors. At the bound a new
connection takes the place of the oldest one that has no complete request, from the address that has most. If all have
one, it takes the place of the newest connection of the address that has most, unless its own has about as many; then
the new one is closed. So nobody keeps others out by requests that take long, or by not reading the responses.

A head and a body must arrive within `HEAD_SECONDS` and `BODY_SECONDS`, and the client must read its response.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Literal

from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from karelsynth.web.errors import error_response

MOST_CONNECTIONS: Final = 512
RESERVED: Final = 256
"""File descriptors that connections leave to others: files, threads' pipes, and connections not yet counted."""
BACKLOG: Final = 128
"""Connections that are accepted before the event loop does anything else. Must be below RESERVED."""
HEAD_SECONDS: Final = 10.0
BODY_SECONDS: Final = 20.0
UNREAD_SECONDS: Final = 30.0
"""Seconds for which a client may leave its response unread."""

Phase = Literal["head", "body", "response", "unread"]
"""What a connection waits for: the head of a request, its body, the response, the client who should read it."""
_SECONDS: Final[dict[Phase, float]] = {"head": HEAD_SECONDS, "body": BODY_SECONDS, "unread": UNREAD_SECONDS}


def client_name(host: str) -> str:
    """The name under which a client is counted: its address; for IPv6 its network, all of which one user may have."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        return str(mapped)
    if address.version == 6 and not address.is_loopback:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def scope_client(scope: Scope) -> str:
    """The name under which the client of a request is counted."""
    client = scope.get("client")
    return client_name(client[0]) if client else ""


class Connections:
    """The open connections of a server."""

    def __init__(self, most: int = MOST_CONNECTIONS, proxies: Iterable[str] = ()) -> None:
        self.most = most
        self.most_by_address = max(1, most // 2)
        self.proxies = frozenset(proxies)
        """Addresses of reverse proxies, which have connections of many clients."""
        self.closed: Counter[str] = Counter()
        """How many connections were closed, by reason."""
        self._open: dict[Connection, str] = {}
        self._by_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Connection) -> bool:
        """Count a connection; closes another one if there are too many. Returns whether it may stay."""
        host = connection.client[0] if connection.client else ""
        name = client_name(host)
        crowded = host not in self.proxies and self._by_address[name] >= self.most_by_address
        if crowded or len(self) >= self.most:
            victim = self._unfinished(name) if crowded else self._unfinished() or self._newest_of_most(name)
            if victim is None:
                self.closed["refused"] += 1
                return False
            self.closed["displaced"] += 1
            self.remove(victim)
            victim.transport.abort()
        self._open[connection] = name
        self._by_address[name] += 1
        return True

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has been closed."""
        name = self._open.pop(connection, None)
        if name is not None:
            self._by_address[name] -= 1
            if not self._by_address[name]:
                del self._by_address[name]

    def _unfinished(self, name: str | None = None) -> Connection | None:
        """The oldest connection without a complete request, of this client or of the one that has most connections."""
        unfinished = [
            each for each, owner in self._open.items() if name in (None, owner) and each.phase in ("head", "body")
        ]
        return min(unfinished, key=lambda each: (-self._by_address[self._open[each]], each.since), default=None)

    def _newest_of_most(self, newcomer: str) -> Connection | None:
        """The newest connection of the client that has most, if the newcomer has fewer even when it replaces it.

        Proxies are left out: theirs belong to many clients.
        """
        proxies = {client_name(host) for host in self.proxies}
        others = [(count, name) for name, count in self._by_address.items() if name not in proxies]
        most, greedy = max(others, default=(0, ""))
        if most <= self._by_address[newcomer] + 1:
            return None
        return next(each for each in reversed(self._open) if self._open[each] == greedy)

    def close_late_ones(self, now: float | None = None) -> None:
        """Close the connections that have taken too long. The server calls this every second."""
        now = time.monotonic() if now is None else now
        for connection in list(self._open):
            phase = connection.phase
            if now - connection.since > _SECONDS.get(phase, float("inf")):
                self.closed[f"late {phase}"] += 1
                connection.close_late(phase)


class Connection(H11Protocol):
    """One connection, which knows what it waits for and since when."""

    def __init__(self, *arguments: Any, all_connections: Connections, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._all = all_connections
        self._phase: Phase = "head"
        self._since = time.monotonic()

    @property
    def phase(self) -> Phase:
        """What the connection waits for now."""
        self._note_phase()
        return self._phase

    @property
    def since(self) -> float:
        """When the present phase began, by the monotonic clock."""
        self._note_phase()
        return self._since

    def _note_phase(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            phase: Phase = "head"
        elif self.cycle.more_body and not self.cycle.response_started:
            phase = "body"
        else:
            phase = "unread" if self.flow.write_paused else "response"
        if phase != self._phase:
            self._phase, self._since = phase, time.monotonic()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._all.add(self):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note_phase()

    def on_response_complete(self) -> None:
        self._phase, self._since = "head", time.monotonic()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._note_phase()

    def close_late(self, phase: Phase) -> None:
        """Close the connection, with a status if the client waits for one."""
        if phase == "unread" or self.transport.is_closing():
            self.transport.abort()
            return
        if self.cycle is not None:
            self.cycle.scope.setdefault("state", {})["status"] = 408  # for the metrics: nothing else sends one
        message = f"the {phase} of the request took longer than {_SECONDS[phase]:g} s: send it at once"
        body = error_response(408, message).body
        head = f"Connection: close\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        self.transport.write(f"HTTP/1.1 408 Request Timeout\r\n{head}\r\n\r\n".encode() + body)
        self.transport.close()

    def shutdown(self) -> None:
        """The server stops: a request that is not complete will get no response."""
        if self.phase == "body":
            self.transport.abort()
        else:
            super().shutdown()


def quiet_accept_errors(loop: asyncio.AbstractEventLoop, report: Callable[[str], None]) -> None:
    """Report it once a minute if connections cannot be accepted. The event loop itself pauses after each failure."""
    reported = -60.0

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal reported
        if not str(context.get("message", "")).startswith("socket.accept()"):
            loop.default_exception_handler(context)
        elif time.monotonic() - reported >= 60:
            reported = time.monotonic()
            report(f"cannot accept connections: {context.get('exception')}")

    loop.set_exception_handler(handle)


def connection_limit(most: int = MOST_CONNECTIONS) -> int:
    """The most connections that this process can have. Raises the process's own limit of descriptors if it may."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = most + RESERVED
        if soft != resource.RLIM_INFINITY and soft < wanted:
            soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            most = max(16, soft - RESERVED)
    return most
