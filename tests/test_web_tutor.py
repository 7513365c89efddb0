"""The tutor over HTTP."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Any

import pytest
from fastapi.testclient import TestClient

from karelsynth.karel.world import World
from karelsynth.web import tutoring
from karelsynth.web.app import create_app
from tests.fake_solver import GUESSES, FakeSolver
from tests.posed import CLEAN, TASK, by
from tests.web_client import client_of, refusal

EXAMPLES = [{"input": pair.input.to_text(), "output": pair.output.to_text()} for pair in TASK.examples]
WRONG = CLEAN.replace("while(markers", "if(markers")


@pytest.fixture(scope="module")
def client() -> Any:
    with client_of(create_app(FakeSolver())) as open_client:
        yield open_client


def test_judge(client: TestClient) -> None:
    closed = {"input": "> # .\n# # .", "output": ". # >\n# # ."}
    other = {**EXAMPLES[0], "output": EXAMPLES[0]["input"]}
    body = {"examples": [*EXAMPLES[:2], closed, other]}
    answer = client.post("/api/judge", json=body).json()
    assert answer["verdicts"] == []
    assert [(each["example"], each["message"].partition(":")[0]) for each in answer["problems"]] == [
        (3, "No program can do this"),
        (4, "It contradicts example 1"),
    ]
    assert "from row 2, column 1 to row 2, column 3" in answer["problems"][0]["message"]
    answer = client.post("/api/judge", json={"examples": EXAMPLES, "program": WRONG}).json()
    assert answer["problems"] == []
    assert [each["right"] for each in answer["verdicts"]][:2] == [False, False]
    assert {each["status"] for each in answer["verdicts"]} == {"ok"}
    assert refusal(client.post("/api/judge", json={"examples": EXAMPLES, "program": "mvoe"}), 422)["line"] == 1


def test_steps_know_their_statement(client: TestClient) -> None:
    """A page steps over a loop by this."""
    program = "def run():\n  while(frontIsClear):\n    move()\n  turnLeft()"
    steps = client.post("/api/run", json={"program": program, "world": "> . .\n. . ."}).json()["steps"]
    assert [(step["token"], step["start"], step["end"]) for step in steps] == [
        *[("WHILE", 3, 10), ("move", 8, 9)] * 2,
        ("WHILE", 3, 10),
        ("turnLeft", 10, 11),
    ]


def test_grade(client: TestClient) -> None:
    programs = [{"name": name, "program": text} for name, text in (("a", CLEAN), ("b", WRONG), ("c", "def run:"))]
    answer = client.post("/api/grade", json={"examples": EXAMPLES, "programs": programs}).json()
    right, wrong, none = answer["grades"]
    assert right["passed"]
    assert [report["example"] for report in wrong["reports"]] == [1, 2]
    assert wrong["reports"][0]["cells"]
    assert none["problem"]["line"] == 1
    error = refusal(client.post("/api/grade", json={"examples": EXAMPLES, "programs": []}), 422)
    assert error["where"] == "programs"


def test_a_class_whose_wrong_runs_take_too_long_is_not_explained(client: TestClient) -> None:
    """Explaining these took 5 seconds of a processor; no run of a class comes near."""
    loops = "repeat(19):\n   repeat(19):\n    repeat(19):\n     turnLeft()\n     turnRight()\n"
    programs = [{"name": str(number), "program": f"def run():\n  {loops}# {number}"} for number in range(200)]
    error = refusal(client.post("/api/grade", json={"examples": EXAMPLES, "programs": programs}), 422)
    assert error["where"] == "programs"
    assert error["message"].startswith("their wrong runs take 6,000,000 steps, and 1,000,000 can be explained")
    few = client.post("/api/grade", json={"examples": EXAMPLES, "programs": programs[:5]}).json()["grades"]
    assert {report["status"] for each in few for report in each["reports"]} == {"out_of_ticks"}


def test_hint(client: TestClient) -> None:
    body = {"examples": EXAMPLES, "program": WRONG}
    first = client.post("/api/hint", json=body).json()
    assert (first["kind"], first["text"]) == ("repair", None)
    assert set(first["steps"][0]) == {"line", "where", "kind", "change"}
    assert first["steps"][0]["change"] is None
    last = client.post("/api/hint", json={**body, "level": 3}).json()
    assert last["text"] == CLEAN
    assert refusal(client.post("/api/hint", json={**body, "program": "mvoe"}), 422)["line"] == 1
    walk = by(str(GUESSES[1]), World.parse("> . . .\n. . . .")).examples[0]
    begin = {"examples": [{"input": walk.input.to_text(), "output": walk.output.to_text()}], "program": "", "level": 3}
    hint = client.post("/api/hint", json={**begin, "dialect": "stanford"}).json()
    assert (hint["kind"], hint["report"]) == ("begin", None)
    assert "def main():\n    while front_is_clear():\n        move()\n" in hint["text"]


def test_probe_and_pose(client: TestClient) -> None:
    body = {"examples": EXAMPLES[2:3], "reference": CLEAN, "budget": 0.1}
    report = client.post("/api/probe", json=body).json()
    assert not report["well_posed"]
    assert client.post("/api/probe", json={**body, "add": True}).json()["well_posed"]
    assert "wrong on example" in refusal(client.post("/api/probe", json={**body, "examples": EXAMPLES,
                                         "reference": "def run(): move()"}), 422)["message"]  # fmt: skip
    posed = client.post("/api/pose", json={"concepts": ["while"], "count": 1, "most_tokens": 16}).json()
    assert len(posed["exercises"]) <= 1
    assert refusal(client.post("/api/pose", json={"concepts": ["loop"]}), 422)["where"]


@pytest.mark.parametrize(
    ("path", "function", "body", "seconds"),
    [
        ("hint", "find_hint", {"program": "def run(): putMarker()"}, 1.5),
        ("probe", "probe_task", {"reference": CLEAN, "budget": 4}, 4),
        ("pose", "pose_all", {"concepts": ["if", "ifelse", "nested"], "most_tokens": 100, "count": 10, "budget": 4}, 4),
    ],
)
def test_requests_end_in_time(
    client: TestClient,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    function: str,
    body: dict[str, Any],
    seconds: float,
) -> None:
    """On a clock that goes on by a second whenever it is read, which leaves time for next to nothing."""
    readings = count()
    monkeypatch.setattr(tutoring, function, partial(getattr(tutoring, function), clock=lambda: float(next(readings))))
    examples = {} if path == "pose" else {"examples": EXAMPLES}
    assert client.post(f"/api/{path}", json={**examples, **body}).status_code == 200
    assert seconds < next(readings) < 4 * seconds + 8


@pytest.mark.parametrize("path", ["probe", "pose"])
def test_budgets_have_limits(client: TestClient, path: str) -> None:
    body = {"examples": EXAMPLES, "reference": CLEAN} if path == "probe" else {"concepts": ["while"]}
    for budget in (0, 11):
        assert refusal(client.post(f"/api/{path}", json={**body, "budget": budget}), 422)["where"] == "budget"
