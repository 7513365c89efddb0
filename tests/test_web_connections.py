"""Connections that waste the server's time: idle, half a head, half a body, unread responses."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest

from karelsynth.web.connections import Connection, Connections, client_name, connection_limit
from karelsynth.web.guard import host_name
from tests.web_client import PATIENCE, server


class FakeConnection:
    """A connection without a socket."""

    def __init__(self, host: str, phase: str = "head", since: float = 0.0) -> None:
        self.client, self.phase, self.since = (host, 1), phase, since
        self.aborted, self.late = False, ""
        self.transport = SimpleNamespace(abort=lambda: setattr(self, "aborted", True))

    def close_late(self, phase: str) -> None:
        self.late = phase


def added(connections: Connections, *each: Any) -> list[bool]:
    return [connections.add(connection) for connection in each]


def test_at_the_bound_the_greediest_client_loses_its_oldest_idle_connection() -> None:
    connections = Connections(most=6)
    greedy = [FakeConnection("10.0.0.1", since=number) for number in range(3)]
    others = [FakeConnection("10.0.0.2", since=-1), FakeConnection("10.0.0.3", since=-2), FakeConnection("10.0.0.4")]
    assert all(added(connections, *greedy, *others))
    assert added(connections, FakeConnection("10.0.0.5")) == [True]
    assert [each.aborted for each in (*greedy, *others)] == [True, False, False, False, False, False]
    assert len(connections) == 6


def test_long_requests_and_unread_responses_keep_nobody_out() -> None:
    """Three addresses hold all connections; the newest of them makes room for a client that has none."""
    connections = Connections(most=6)
    greedy = [FakeConnection(f"10.0.0.{at % 3}", ("response", "unread")[at % 2], since=at) for at in range(6)]
    assert all(added(connections, *greedy))
    assert added(connections, FakeConnection("10.0.0.9", "response")) == [True]
    assert [each.aborted for each in greedy] == [False] * 5 + [True]
    assert added(connections, FakeConnection("10.0.0.9"), FakeConnection("10.0.0.0")) == [False, False]
    assert len(connections) == 6


def test_clients_behind_a_proxy_lose_no_connection_to_others() -> None:
    connections = Connections(most=4, proxies=["10.0.0.1"])
    assert all(added(connections, *(FakeConnection("10.0.0.1", "response") for _ in range(4))))
    assert added(connections, FakeConnection("10.0.0.9")) == [False]


def test_a_request_that_was_read_is_not_closed_for_a_client_with_as_many() -> None:
    connections = Connections(most=4)
    busy = [FakeConnection(f"10.0.0.{number}", phase) for number, phase in enumerate(["response", "unread"] * 2)]
    assert all(added(connections, *busy))
    assert added(connections, FakeConnection("10.0.0.9")) == [False]
    assert not any(each.aborted for each in busy)
    connections.remove(busy[0])  # type: ignore[arg-type]
    assert added(connections, FakeConnection("10.0.0.9")) == [True]


def test_one_address_has_half_of_the_connections_unless_it_is_a_proxy() -> None:
    for proxies, most in (((), 4), (("10.0.0.1",), 8)):
        connections = Connections(most=8, proxies=proxies)
        added(connections, *(FakeConnection("10.0.0.1") for _ in range(20)))
        assert len(connections) == most


def test_late_connections_are_closed() -> None:
    connections = Connections()
    each = [FakeConnection(f"10.0.0.{at}", phase) for at, phase in enumerate(("head", "body", "response", "unread"))]
    added(connections, *each)
    for now, late in ((9.0, []), (11.0, ["head"]), (21.0, ["head", "body"]), (1e6, ["head", "body", "unread"])):
        connections.close_late_ones(now)
        assert [one.late for one in each if one.late] == late


def test_a_late_request_gets_an_error_of_the_same_form_as_others() -> None:
    written: list[bytes] = []
    late = Connection.__new__(Connection)
    transport = SimpleNamespace(is_closing=lambda: False, write=written.append, close=lambda: None)
    late.transport = transport  # type: ignore[assignment]
    late.cycle = SimpleNamespace(scope={})  # type: ignore[assignment]
    late.close_late("body")
    assert late.cycle.scope["state"]["status"] == 408
    head, _, body = written[0].partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert head.endswith(f"Content-Length: {len(body)}".encode())
    assert "took longer than 20 s" in json.loads(body)["error"]["message"]


def test_clients_are_counted_by_address() -> None:
    assert client_name("192.0.2.1") == client_name("::ffff:192.0.2.1") == "192.0.2.1"
    assert client_name("2001:db8::1") == client_name("2001:db8::abcd:2") != client_name("2001:db8:0:1::1")
    assert client_name("fe80::1%eth0") == "fe80::/64"
    assert client_name("::1") == "::1"
    assert client_name("testclient") == "testclient"
    assert 16 <= connection_limit() <= 512


@pytest.mark.parametrize(
    ("host", "name"),
    [
        *[("localhost", "localhost"), ("LOCALHOST:80", "localhost"), ("[::1]", "::1"), ("[::1]:8000", "::1")],
        *[("[::1]evil.com", ""), ("[::1]:80.evil.com", ""), ("localhost:80@evil.com", ""), ("::1", ""), ("", "")],
        *[("localhost:", ""), ("[localhost]", ""), ("a b", ""), ("127.0.0.1", "127.0.0.1")],
    ],
)
def test_host_headers(host: str, name: str) -> None:
    assert host_name(host) == name


@contextmanager
def connected(address: str, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    host, port = address.removeprefix("http://").rstrip("/").split(":")
    with ExitStack() as opened:
        sockets = []
        for _ in range(count):
            sockets.append(opened.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE)))
            sockets[-1].sendall(sent)
        yield sockets


HALF_HEAD = b"GET / HTTP/1.1\r\nHost: local"
HALF_BODY = (
    b"POST /api/solve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
)


@pytest.mark.skipif(os.name == "nt", reason="limits and signals")
def test_idle_connections_do_not_keep_others_out() -> None:
    """300 of each kind, with 400 descriptors in all; then a signal ends the server without a word."""
    with server(0, limit=400) as (process, address), ExitStack() as opened:
        for sent in (b"", HALF_HEAD, HALF_BODY):
            opened.enter_context(connected(address, 300, sent))
            began = time.monotonic()
            with urlopen(f"{address}api/health", timeout=PATIENCE) as response:
                assert response.status == 200
            assert time.monotonic() - began < PATIENCE / 2
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE)
        assert said == ""
        assert process.returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_body_that_is_not_complete_does_not_delay_the_end() -> None:
    with server(0) as (process, address), connected(address, 2, HALF_BODY):
        time.sleep(0.3)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE)
        assert time.monotonic() - began < 2.5
        assert said == ""
        assert process.returncode == 0
