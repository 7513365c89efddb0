"""Clients of the HTTP service, bodies to send and answers to judge, for its tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient

from karelsynth import World
from karelsynth.tasks.task import Example, Task

BEFORE, AFTER = ". . .\n> . .", ". . .\n. > ."
EXAMPLE = {"input": BEFORE, "output": AFTER}
ANOTHER = {"input": "^ .\n. .", "output": "> .\n. ."}
BODY = {"examples": [EXAMPLE]}
TASK = Task((Example(World.parse(BEFORE), World.parse(AFTER)),))
PATIENCE = 10.0
"""Seconds after which something that should have happened at once will not."""


def client_of(app: FastAPI, **options: Any) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1:8000", **options)


def refusal(response: Any, status: int) -> dict[str, Any]:
    """The one form of all errors, and what it says."""
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert set(error) == {"message", "where", "line", "column"}
    assert error["message"]
    assert "Traceback" not in response.text
    return error


@contextmanager
def server(seconds: float, *options: str, limit: int = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A real server in a process of its own, and its address. `limit`: the most file descriptors."""
    command = [
        sys.executable,
        "-m",
        "tests.fake_solver",
        str(seconds),
        "serve",
        "--port",
        "0",
        "--workers",
        "1",
        *options,
    ]
    if limit:
        command = ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("karelsynth is ready at http://127.0.0.1:")
        yield process, ready.split()[4]
    finally:
        process.kill()
        process.communicate()
