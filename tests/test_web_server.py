"""The server itself: addresses, signals, and a clean end."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from fastapi import FastAPI
from typer.testing import CliRunner

from karelsynth.errors import KarelsynthError
from karelsynth.web.app import create_app
from karelsynth.web.server import (
    AddressError,
    address_of,
    is_loopback,
    listen,
    network_address_of,
    proxy_addresses,
    serve,
)
from tests.fake_solver import FakeSolver
from tests.web_client import BODY, PATIENCE, server


def test_addresses() -> None:
    for host, loopback in (("127.0.0.1", True), ("127.0.1.1", True), ("LOCALHOST", True), ("0.0.0.0", False)):
        with listen(host, 0) as listener:
            assert is_loopback(listener) is loopback
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert address_of(taken) == f"http://127.0.0.1:{port}/"
        with pytest.raises(AddressError, match=f"port {port} is in use: .* --port"):
            listen("127.0.0.1", port)
    with pytest.raises(AddressError, match="not an address of this machine"):
        listen("192.0.2.1", 0)


def test_the_address_for_others() -> None:
    with listen("127.0.0.1", 0) as local:
        assert network_address_of(local) is None
    with listen("0.0.0.0", 0) as everywhere:
        port = everywhere.getsockname()[1]
        assert address_of(everywhere) == f"http://127.0.0.1:{port}/"
        address = network_address_of(everywhere)
        if address is None:
            pytest.skip("this machine is in no network")
        assert address.endswith(f":{port}/")
        with socket.create_connection((urlsplit(address).hostname, port), timeout=PATIENCE):
            everywhere.accept()[0].close()


def test_serving_to_others_says_so() -> None:
    with server(0, "--host", "0.0.0.0") as (process, address):
        assert process.stdout is not None
        said = process.stdout.readline()
        if said.startswith("from other machines: http://"):
            assert urlsplit(said.split()[-1]).port == urlsplit(address).port
            said = process.stdout.readline()
        assert said.startswith("everyone who can reach this machine can use it")


def test_a_port_in_use_is_one_message() -> None:
    from karelsynth.cli import app

    with listen("127.0.0.1", 0) as taken:
        result = CliRunner().invoke(app, ["serve", "--port", str(taken.getsockname()[1])])
    assert isinstance(result.exception, KarelsynthError)
    assert "is in use" in str(result.exception)


def post(address: str) -> socket.socket:
    """Ask for a streamed solution and leave the answer unread."""
    host, port = address.removeprefix("http://").rstrip("/").split(":")
    body = json.dumps(BODY)
    connection = socket.create_connection((host, int(port)), timeout=PATIENCE)
    head = f"POST /api/solve/stream HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    return connection


def solving(address: str) -> int:
    with urlopen(Request(f"{address}api/health"), timeout=PATIENCE) as response:
        return int(json.load(response)["solving"])


def wait_until_solving(address: str, number: int) -> None:
    until = time.monotonic() + PATIENCE
    while solving(address) != number:
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize(
    ("sent", "times", "status"), [(signal.SIGINT, 1, 130), (signal.SIGINT, 2, 130), (signal.SIGTERM, 1, 0)]
)
def test_a_real_server_notices_leaving_clients_and_ends_cleanly(sent: signal.Signals, times: int, status: int) -> None:
    with server(seconds=60) as (process, address):
        with post(address):
            wait_until_solving(address, 1)
        wait_until_solving(address, 0)
        with post(address) as connection:
            wait_until_solving(address, 1)
            for _ in range(times):
                process.send_signal(sent)
                time.sleep(0.05)
            received = b""
            while piece := connection.recv(65536):
                received += piece
        assert b"event: error" in received
        assert b"the server is stopping" in received
        _, said = process.communicate(timeout=PATIENCE)
        assert "Traceback" not in said
        assert process.returncode == status


@pytest.mark.parametrize("given", ["*", "proxy.example", "10.0.0.0/8", "", "127.0.0.1:80"])
def test_a_proxy_is_one_address(given: str) -> None:
    assert proxy_addresses(["127.0.0.1", "::1"]) == {"127.0.0.1", "::1"}
    with pytest.raises(AddressError, match="name one address"):
        proxy_addresses([given])


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="systemd")
@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_systemd_is_told(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Type=notify` in deploy/karelsynth.service: ready, alive every second, stopping."""
    if kind == "abstract" and not sys.platform.startswith("linux"):
        pytest.skip("sockets without a file")
    address = str(tmp_path / "notify") if kind == "path" else f"@karelsynth-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address.replace("@", "\0", 1))
        listener.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        with server(seconds=0) as (process, _):
            assert [listener.recv(100) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
            process.terminate()
            while (said := listener.recv(100)) != b"STOPPING=1":
                assert said == b"WATCHDOG=1"


def test_a_signal_that_comes_before_the_server_is_up_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("karelsynth.web"), "handlers", [])
    ready: list[bool] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        signal.raise_signal(signal.SIGTERM)
        yield

    with listen("127.0.0.1", 0) as listener, pytest.raises(SystemExit) as ended:
        serve(FastAPI(lifespan=lifespan), listener, lambda: ready.append(True))
    assert ended.value.code == 0
    assert not ready


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_server_that_ends_does_not_wait_for_threads() -> None:
    """Python itself would, and would also free all memory piece by piece, which takes long on a busy machine."""
    code = (
        "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); "
        "from tests.fake_solver import main; main()"
    )
    for sent, status in ((signal.SIGINT, 130), (signal.SIGTERM, 0)):
        command = [sys.executable, "-c", code, "0", "serve", "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline().startswith("karelsynth is ready")
                process.send_signal(sent)
                assert process.wait(2 * PATIENCE) == status
            finally:
                process.kill()


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_requests_that_take_long_get_a_response_when_the_server_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is at work in a thread, which goes on; the others wait for their turn."""
    began, may_end = threading.Event(), threading.Event()

    def pose(*_: object, **__: object) -> list[object]:
        began.set()
        may_end.wait(6 * PATIENCE)
        return []

    monkeypatch.setattr("karelsynth.web.tutoring.pose_all", pose)
    monkeypatch.setattr("karelsynth.web.server._GRACE", 0.2)
    monkeypatch.setattr(logging.getLogger("karelsynth.web"), "handlers", [])
    statuses: list[int] = []
    before = set(threading.enumerate())

    def ask(address: str) -> None:
        head = {"Content-Type": "application/json"}
        try:
            with urlopen(Request(f"{address}api/pose", b'{"concepts": ["while"]}', head), timeout=PATIENCE) as response:
                statuses.append(response.status)
        except HTTPError as error:
            statuses.append(error.code)

    def stop() -> None:
        assert began.wait(PATIENCE)
        time.sleep(0.2)  # the others arrive
        os.kill(os.getpid(), signal.SIGTERM)

    with listen("127.0.0.1", 0) as listener:
        asking = [threading.Thread(target=ask, args=(address_of(listener),)) for _ in range(4)]
        threads = [*asking, threading.Thread(target=stop)]

        def start() -> None:
            for thread in threads:
                thread.start()

        try:
            with pytest.raises(SystemExit):
                serve(create_app(FakeSolver()), listener, start)
            for thread in threads:
                thread.join(PATIENCE)
        finally:
            may_end.set()
    assert statuses == [503] * 4
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
        assert not thread.is_alive() or thread.daemon  # or this process would never end
