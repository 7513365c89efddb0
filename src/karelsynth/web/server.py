"""Running the service: addresses, signals, shutdown."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, Final

import uvicorn
from fastapi import FastAPI

from karelsynth.errors import KarelsynthError
from karelsynth.web.connections import BACKLOG, Connection, Connections, connection_limit, quiet_accept_errors
from karelsynth.web.operations import start_logging

log = logging.getLogger("karelsynth.web")
_GRACE: Final = 3
"""Seconds that running requests have to end after a signal."""
_LAST: Final = 0.5
"""Seconds for the responses to requests that have not ended by then."""


class AddressError(KarelsynthError):
    """An address that cannot be listened on."""


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can reach the socket. The address decides, not the host's name."""
    return _address(listener.getsockname()[0]).is_loopback


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 means any free port. Raises AddressError."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=512)
    except (OSError, UnicodeError) as error:
        raise AddressError(_reason(host, port, error)) from None


def _reason(host: str, port: int, error: Exception) -> str:
    if isinstance(error, socket.gaierror | UnicodeError):
        return f"there is no host {host}: use an address of this machine, such as 127.0.0.1"
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            return f"port {port} is in use: stop the program that uses it, or choose another with --port (0: any)"
        case errno.EACCES:
            return f"port {port} needs administrator rights: choose one above 1023 with --port"
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine: use 127.0.0.1, or 0.0.0.0 for all of its addresses"
        case _:
            return f"cannot listen on {host}, port {port}: {error}"


def proxy_addresses(given: Iterable[str]) -> frozenset[str]:
    """The addresses of reverse proxies. Raises AddressError for names and ranges: clients are compared with addresses.

    uvicorn would take `*` for everybody: then each client could say who it is.
    """
    try:
        return frozenset(str(ipaddress.ip_address(each)) for each in given)
    except ValueError as error:
        raise AddressError(f"--proxy: {error}: name one address, such as 127.0.0.1") from None


def address_of(listener: socket.socket) -> str:
    """The URL for a browser on this machine."""
    host, port = listener.getsockname()[:2]
    if _address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return _url(host, port)


def network_address_of(listener: socket.socket) -> str | None:
    """The URL for a browser on another machine; None if no other machine can reach the socket."""
    host, port = listener.getsockname()[:2]
    if _address(host).is_unspecified:
        host = _outward(listener.family)
    if host is None or _address(host).is_loopback:
        return None
    return _url(host, port)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """A socket's address; an IPv4 address that is mapped to IPv6 becomes IPv4."""
    address = ipaddress.ip_address(host)
    return getattr(address, "ipv4_mapped", None) or address


def _outward(family: socket.AddressFamily) -> str | None:
    """This machine's own address for outgoing connections. Connecting a datagram socket sends nothing."""
    elsewhere = "2001:db8::1" if family == socket.AF_INET6 else "192.0.2.1"  # reserved for documentation
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(app: FastAPI, listener: socket.socket, on_ready: Callable[[], None]) -> None:
    """Serve until Ctrl-C (then raises KeyboardInterrupt) or SIGTERM (then exits with status 0).

    Threads may still be working when it ends: nothing waits for them.
    """
    settings = getattr(app.state, "settings", None)
    start_logging("off" if settings is None else settings.log)
    proxies = sorted(settings.proxies) if settings is not None else []
    connections = Connections(connection_limit(), proxies)
    app.state.connections = connections
    protocol: Any = partial(Connection, all_connections=connections)
    config = uvicorn.Config(
        app,
        http=protocol,
        backlog=BACKLOG,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        log_config=None,  # `start_logging` has done it
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        ws="none",
    )
    # uvicorn raises the signal again after its shutdown
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(_Server(config, connections, on_ready).serve(sockets=[listener]))
    finally:  # not `asyncio.run`, which waits for requests whose threads have not ended
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        # The loop must run once more in any case: AnyIO's threads end by a callback of the server's task.
        tasks.add(loop.create_task(asyncio.sleep(0)))
        loop.run_until_complete(asyncio.wait(tasks, timeout=_LAST))
        loop.close()
        asyncio.set_event_loop(None)
        signal.signal(signal.SIGTERM, previous)


def tell_systemd(message: str) -> None:
    """Send a message of sd_notify(3), if systemd has started this process as `Type=notify`."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address.startswith(("/", "@")):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(message.encode(), address.replace("@", "\0", 1))


class _Server(uvicorn.Server):
    """Calls `on_ready` once it accepts requests, closes late connections, and stops all searches on a signal.

    systemd learns when it is ready, that it is alive, and when it stops.
    """

    def __init__(self, config: uvicorn.Config, connections: Connections, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._connections, self._on_ready = connections, on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        quiet_accept_errors(asyncio.get_running_loop(), log.error)
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._on_ready()
            tell_systemd("READY=1")

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # every second
            self._connections.close_late_ones()
            tell_systemd("WATCHDOG=1")
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:  # a second signal changes nothing: the shutdown takes seconds at most
            return
        super().handle_exit(sig, frame)
        tell_systemd("STOPPING=1")
        queue = getattr(self.config.app.state, "queue", None)  # type: ignore[union-attr]
        if queue is not None:  # the signal may come before the application has started
            asyncio.get_running_loop().call_soon_threadsafe(queue.close, 0.0)
