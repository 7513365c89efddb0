"""Running the service: one process, one port, a clean end."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final

import uvicorn
from fastapi import FastAPI

from karelsynth.errors import KarelsynthError

_GRACE: Final = 3
"""Seconds that requests may take to end once the server has been told to."""


class AddressError(KarelsynthError):
    """An address that cannot be listened at."""


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can reach it: by the address that the host's name stood for, whatever the name."""
    return _address(listener.getsockname()[0]).is_loopback


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; port 0 is any that is free. Raises AddressError."""
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
            return f"port {port} is in use: stop what uses it, or choose another with --port (0 for any that is free)"
        case errno.EACCES:
            return f"port {port} needs administrator rights: choose one above 1023 with --port"
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine: use 127.0.0.1, or 0.0.0.0 for all of its addresses"
        case _:
            return f"cannot listen on {host}, port {port}: {error}"


def address_of(listener: socket.socket) -> str:
    """What to type into a browser on this machine."""
    host, port = listener.getsockname()[:2]
    if _address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return _url(host, port)


def network_address_of(listener: socket.socket) -> str | None:
    """What to type into a browser on another machine; None if none can reach it, or this one is in no network."""
    host, port = listener.getsockname()[:2]
    if _address(host).is_unspecified:
        host = _outward(listener.family)
    if host is None or _address(host).is_loopback:
        return None
    return _url(host, port)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Of what a socket says; an IPv4 address may be told as one of IPv6."""
    address = ipaddress.ip_address(host)
    return getattr(address, "ipv4_mapped", None) or address


def _outward(family: socket.AddressFamily) -> str | None:
    """The address that this machine would speak to others from. To connect a datagram socket sends nothing."""
    elsewhere = "2001:db8::1" if family == socket.AF_INET6 else "192.0.2.1"  # kept for documentation: nobody's
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect((elsewhere, 9))
            return str(asking.getsockname()[0])
    except OSError:
        return None


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(app: FastAPI, listener: socket.socket, on_ready: Callable[[], None]) -> None:
    """Serve until Ctrl-C (raises KeyboardInterrupt in the end) or a SIGTERM (exits with status 0)."""
    logging.getLogger("karelsynth.web").addHandler(logging.StreamHandler())
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        ws="none",
    )
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn repeats the signal when all is closed
    try:
        _Server(config, on_ready).run(sockets=[listener])
    finally:
        signal.signal(signal.SIGTERM, previous)


class _Server(uvicorn.Server):
    """Says when it is ready, and stops the searches when it is told to end instead of waiting for them."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:  # pressed twice: it is ending, and takes seconds at most
            return
        super().handle_exit(sig, frame)
        queue = getattr(self.config.app.state, "queue", None)  # type: ignore[union-attr]
        if queue is not None:  # the signal may come before there is one
            asyncio.get_running_loop().call_soon_threadsafe(queue.close, 0.0)
