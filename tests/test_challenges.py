"""Challenges and class sets: files, the service, and the command that serves one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from karelsynth.karel.dialects import read_source
from karelsynth.tutor.challenges import ChallengeError, parse_challenges, read_challenges
from karelsynth.web.app import ServiceSettings, create_app
from tests.fake_solver import FakeSolver
from tests.posed import CLEAN, TASK
from tests.web_client import client_of, refusal

PAIRS = [{"input": pair.input.to_text(), "output": pair.output.to_text()} for pair in TASK.examples]
WRONG = CLEAN.replace("while(markers", "if(markers")
LESSON: dict[str, Any] = {
    "karelsynth": "challenges",
    "title": "Week 2",
    "challenges": [
        {"name": "Go", "examples": [{"input": "> .\n. .", "output": ". >\n. ."}], "hints": 0},
        {"name": "Clean", "about": "Take all.", "examples": PAIRS[2:], "hidden": PAIRS[:2], "starter": "def run():"},
    ],
}


def test_a_set_is_read() -> None:
    lesson = parse_challenges(json.dumps(LESSON))
    assert lesson.title == "Week 2"
    first, second = lesson.challenges
    assert (first.task.name, first.hidden, first.starter, first.hints) == ("Go", (), "", 0)
    assert (second.hidden, second.starter, second.hints) == (TASK.examples[:2], "def run():", 3)


def test_the_lines_of_pose_are_a_set(tmp_path: Path) -> None:
    record = {**TASK.to_json(), "name": "1. Clean", "reference": CLEAN, "concepts": ["while"], "lesson": "Week 3"}
    lines = f"{json.dumps(record)}\n{json.dumps(record)}\n"
    (tmp_path / "tasks.jsonl").write_text(lines, encoding="utf-8")
    for path in (tmp_path, tmp_path / "tasks.jsonl"):
        lesson = read_challenges(path)
        assert [each.task.examples for each in lesson.challenges] == [TASK.examples, TASK.examples]
        assert lesson.title == "Week 3"
    assert len(parse_challenges(json.dumps(record)).challenges) == 1
    with pytest.raises(ChallengeError, match=r"has no tasks\.jsonl"):
        read_challenges(Path(__file__).parent)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "this is not a set of challenges: line 1, column 1: not valid JSON"),
        ('{"challenges": []}', "not a set of challenges"),
        (json.dumps({**LESSON, "challenges": []}), "1 to 50 challenges, not 0"),
        ('{"examples": [{"input": "> ."}]}', "challenge 1, example 1, input: "),
        ('{"examples": [{"input": "> .\\n. ."}]}', "challenge 1, example 1, output: expected a text"),
        ('{"exmaples": []}', "there is no field 'exmaples'"),
        ('{"examples": [], "hints": 7}', "a level from 0"),
        ('{"examples": []}', "challenge 1: a task needs at least one example"),
        ('{"name": "a"}\n{"name": ', "line 2: not valid JSON"),
        ("[" * 100_000, "not valid JSON: nested too deeply|not valid JSON"),
        ("[1]", "challenge 1: expected an object"),
    ],
)
def test_a_wrong_set_is_refused(text: str, message: str) -> None:
    with pytest.raises(ChallengeError, match=message):
        parse_challenges(text)


def test_hidden_examples_contradict_nothing() -> None:
    pair = {"input": "> .\n. .", "output": ". >\n. ."}
    wrong = {"examples": [pair], "hidden": [{**pair, "output": "> .\n. ."}]}
    with pytest.raises(ChallengeError, match="same input and different outputs"):
        parse_challenges(json.dumps(wrong))


@pytest.fixture(scope="module")
def client() -> Any:
    settings = ServiceSettings(challenges=parse_challenges(json.dumps(LESSON)))
    with client_of(create_app(FakeSolver(), settings)) as open_client:
        yield open_client


def test_a_served_set_keeps_its_hidden_examples(client: Any) -> None:
    served = client.get("/api/challenges").json()
    assert served["title"] == "Week 2"
    second = served["challenges"][1]
    assert (second["hidden"], second["hidden_count"], second["served"]) == ([], 2, 1)
    body = {"examples": second["examples"], "programs": [{"name": "", "program": WRONG}], "challenge": 1}
    (grade,) = client.post("/api/grade", json=body).json()["grades"]
    assert (grade["right"], grade["hidden_right"], grade["passed"]) == ([True, True], [False, False], False)
    hint = client.post("/api/hint", json={"examples": second["examples"], "program": WRONG, "challenge": 1}).json()
    assert (hint["kind"], hint["report"]) == ("repair", None)  # nothing of a hidden example is shown
    error = refusal(client.post("/api/grade", json={**body, "challenge": 2}), 422)
    assert error["where"] == "challenge"


def test_a_set_is_read_over_http(client: Any) -> None:
    read = client.post("/api/challenges/parse", json={"text": json.dumps(LESSON)}).json()
    assert read["challenges"][1]["hidden"] == PAIRS[:2]
    assert "not valid JSON" in refusal(client.post("/api/challenges/parse", json={"text": "?"}), 422)["message"]
    with client_of(create_app(FakeSolver())) as bare:
        assert bare.get("/api/challenges").json() == {"title": "", "challenges": []}


def test_blocks_over_http(client: Any) -> None:
    read = client.post("/api/blocks/read", json={"program": WRONG}).json()
    loop = read["functions"][0]["body"][0]
    assert (loop["keyword"], loop["detail"], read["complete"]) == ("WHILE", "frontIsClear", True)
    loop["blocks"][0][1]["keyword"] = "WHILE"
    body = {"program": WRONG, "functions": read["functions"]}
    written = client.post("/api/blocks/write", json=body).json()
    assert written["program"] == CLEAN
    assert read_source(written["program"]).body[0].keyword == "WHILE"
    broken = client.post("/api/blocks/read", json={"program": "def run():\n  mvoe()"}).json()
    assert (broken["functions"], broken["problem"]["line"], broken["problem"]["suggestion"]) == ([], 2, "move")
    deep: dict[str, Any] = {"keyword": "move"}
    for _ in range(150):
        deep = {"keyword": "IF", "detail": "frontIsClear", "blocks": [[deep]]}
    body = {"program": "", "functions": [{"name": "run", "body": [deep]}]}
    refusal(client.post("/api/blocks/write", json=body), 422)


def test_more_like_a_program(client: Any) -> None:
    posed = client.post("/api/pose", json={"like": CLEAN, "count": 1, "seed": 3}).json()["exercises"]
    assert all("while" in each["program"] for each in posed)
    assert "like" in refusal(client.post("/api/pose", json={}), 422)["message"]
