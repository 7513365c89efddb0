"""Clients of the HTTP service, bodies to send and answers to judge, for its tests."""

from __future__ import annotations

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
