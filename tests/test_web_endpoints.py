"""The HTTP service: what it answers and what it refuses."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karelsynth import Program, World
from karelsynth.karel.dialects import DIALECTS
from karelsynth.tasks.task import Example, Task
from karelsynth.web.app import ServiceSettings, create_app
from karelsynth.web.guard import LARGEST_BODY
from karelsynth.web.toolkit import random_world
from tests.fake_solver import FakeSolver
from tests.web_client import AFTER, ANOTHER, BEFORE, BODY, EXAMPLE, PATIENCE, client_of, refusal


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of(create_app(FakeSolver())) as client:
        yield client


# Solving


def test_solve_answers_with_programs_in_every_dialect(client: TestClient) -> None:
    body = client.post("/api/solve", json=BODY).json()
    assert body["solved"] is True
    named = {"solved", "support", "advice", "answers", "ambiguity", "seconds", "beam", "checked", "stopped"}
    assert set(body) == named
    assert body["stopped"] is False
    (answer,) = body["answers"]
    assert answer["right"] == [True]
    assert {Program.parse(text, dialect) for dialect, text in answer["programs"].items()} == {
        Program.parse("def run(): move()")
    }
    assert set(answer["programs"]) == set(DIALECTS)


def test_an_answer_is_what_the_command_prints_as_json(client: TestClient) -> None:
    near = {"input": ". .\n> .", "output": ". .\n. >"}  # one move, or all the way
    task = Task((Example(*(World.parse(near[side]) for side in ("input", "output"))),))
    body = client.post("/api/solve", json={"examples": [near]}).json()
    expected = FakeSolver().solve(task).to_json()
    assert expected["ambiguity"] is not None
    assert {**body, "seconds": 0} == {**expected, "seconds": 0}


def test_an_unsolved_task_has_its_best_partial_answer(client: TestClient) -> None:
    body = client.post("/api/solve", json={"examples": [EXAMPLE, {"input": AFTER, "output": AFTER}]}).json()
    assert body["solved"] is False
    assert body["answers"][0]["right"] == [True, False]


def test_ambiguity_is_told(client: TestClient) -> None:
    near = {"input": ". .\n> .", "output": ". .\n. >"}  # one move, or all the way
    body = client.post("/api/solve", json={"examples": [near]}).json()
    assert len(body["answers"]) == 2
    assert body["ambiguity"]["world"] == near["input"]
    assert [outcome["answers"] for outcome in body["ambiguity"]["outcomes"]] == [[0], [1]]
    assert {outcome["explanation"] for outcome in body["ambiguity"]["outcomes"]} == {"finished"}


def events_of(text: str) -> list[tuple[str, Any]]:
    found = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_the_stream_tells_of_progress_and_ends_with_the_same_solution(client: TestClient) -> None:
    response = client.post("/api/solve/stream", json=BODY)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = events_of(response.text)
    names = [name for name, _ in events]
    assert (names[0], set(events[0][1])) == ("accepted", {"id"})
    assert events[1] == ("queued", {"position": 0})
    assert names[-1] == "solution"
    assert set(names[2:-1]) == {"progress"}
    progress = events[2][1]
    assert set(progress) == {"seconds", "budget", "beam", "checked", "best"}
    assert progress["best"]["programs"]["paper"] == "def run():\n  move()"
    plain = client.post("/api/solve", json=BODY).json()
    assert {**events[-1][1], "seconds": 0} == {**plain, "seconds": 0}


class Failing(FakeSolver):
    def solve(self, *args: Any, **options: Any) -> Any:
        raise ZeroDivisionError("the secret of the house")


def test_an_unforeseen_error_is_told_without_a_traceback_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with client_of(create_app(Failing()), raise_server_exceptions=False) as client, caplog.at_level(logging.ERROR):
        response = client.post("/api/solve", json=BODY)
        assert "the server's log" in refusal(response, 500)["message"]
        assert "Content-Security-Policy" in response.headers
        streamed = client.post("/api/solve/stream", json=BODY).text
    assert events_of(streamed)[-1][0] == "error"
    assert "secret" not in response.text + streamed
    assert sum("secret" in str(record.exc_info) for record in caplog.records) == 2


# Running


STEPPED = {
    "paper": "# up\ndef run():\n  putMarker(); turnLeft\n  repeat(2):\n    if(not frontIsClear): turnRight()\n",
    "stanford": "def main():\n    drop()\n    turn_left()\n    for i in range(2):\n        look()\n\n"
    "def look():\n    if front_is_blocked():\n        turn_right()\n\ndef drop():\n    put_beeper()\n",
    "tokens": "DEF run m( putMarker turnLeft\nREPEAT R=2 r(\n  IF c( not c( frontIsClear c) c) i( turnRight i) r) m)",
}
SHOWN = {
    "paper": ["putMarker()", "turnLeft", "repeat(2)", "if(not frontIsClear)", "turnRight()",
              "repeat(2)", "if(not frontIsClear)"],
    "stanford": ["put_beeper()", "turn_left()", "for i in range(2)", "if front_is_blocked()", "turn_right()",
                 "for i in range(2)", "if front_is_blocked()"],
    "tokens": ["putMarker", "turnLeft", "REPEAT R=2", "IF c( not c( frontIsClear c) c)", "turnRight",
               "REPEAT R=2", "IF c( not c( frontIsClear c) c)"],
}  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_steps_point_into_the_text_that_was_sent(client: TestClient, dialect: str) -> None:
    text = STEPPED[dialect]
    body = client.post("/api/run", json={"program": text, "world": "> .\n. ."}).json()
    lines = text.splitlines()
    shown = [lines[at["line"] - 1][at["column"] - 1 :][: at["width"]] for at in body["steps"]]
    assert shown == SHOWN[dialect]
    assert [at["token"] for at in body["steps"]][:4] == ["putMarker", "turnLeft", "REPEAT", "IF"]
    assert [at["markers"] for at in body["steps"]] == [[1, 0, 1], *[None] * 6]
    assert [at["hero"] for at in body["steps"]][:2] == [[1, 0, "east"], [1, 0, "north"]]
    assert body["steps"][-1]["hero"] == [1, 0, "east"]
    assert (body["status"], body["explanation"]) == ("ok", "finished after 7 ticks")
    assert (body["line"], body["column"]) == (None, None)
    assert World.parse(body["world"]) == World.parse(">1 .\n. .")


def test_a_crash_says_where(client: TestClient) -> None:
    body = client.post("/api/run", json={"program": "def run():\n  move()\n\n  move()", "world": "> .\n. ."}).json()
    assert (body["status"], body["line"], body["column"], len(body["steps"])) == ("hit_wall", 4, 3, 1)
    assert World.parse(body["world"]) == World.parse(". >\n. .")


def test_an_endless_program_ends(client: TestClient) -> None:
    program = "def run():\n  while(leftIsClear):\n    turnLeft()"
    body = client.post("/api/run", json={"program": program, "world": ". . .\n. > .\n. . ."}).json()
    assert (body["status"], body["line"], len(body["steps"])) == ("runs_forever", 2, 40)
    assert body["explanation"] == "runs forever: the state repeats at row 2, column 2, facing east (tick 40)"


def test_a_long_program_ends_well(client: TestClient) -> None:
    """Beyond the paper's ticks, and through a pile of more than ten."""
    program = "def run():\n  repeat(15):\n    repeat(15):\n      putMarker()\n    repeat(15):\n      pickMarker()"
    body = client.post("/api/run", json={"program": program, "world": "> .\n. ."}).json()
    assert (body["status"], body["line"], len(body["steps"])) == ("ok", None, 15 * (1 + 4 * 15))
    assert max(step["markers"][2] for step in body["steps"] if step["markers"]) == 15
    assert World.parse(body["world"]) == World.parse("> .\n. .")


# Programs, worlds, tasks


def test_check(client: TestClient) -> None:
    def check(text: str) -> Any:
        return client.post("/api/check", json={"program": text}).json()

    assert check("def main():\n    move()") == {"ok": True, "dialect": "stanford", "problem": None}
    wrong = check("def run():\n  turnLfet()")
    assert (wrong["ok"], wrong["dialect"]) == (False, "paper")
    place = [wrong["problem"][key] for key in ("line", "column", "width", "suggestion")]
    assert place == [2, 3, 8, "turnLeft"]
    assert "unknown word" in wrong["problem"]["message"]
    assert check(" \n")["dialect"] is None


def test_python_is_read_by_our_parser_and_never_run(client: TestClient) -> None:
    text = "import os\ndef main():\n    os.system('true')"
    problem = client.post("/api/check", json={"program": text}).json()["problem"]
    assert "nothing else can be imported" in problem["message"]
    refusal(client.post("/api/run", json={"program": text, "world": BEFORE}), 422)


@pytest.mark.parametrize("path", ["check", "convert", "run", "stanford"])
def test_helpers_cannot_make_a_short_text_a_long_wait(client: TestClient, path: str) -> None:
    """Each of the unused helpers is 900 calls of 150 statements; all of them take a minute to read."""
    text = "def h():\n" + " move()\n" * 150 + "def a():\n" + " h()\n" * 300
    text += "".join(f"def b{number}():\n a()\n a()\n a()\n" for number in range(100)) + "def main():\n a()\n"
    body = {"program": text, "world": BEFORE, "to": "paper"}
    asked = {"check": ("program",), "convert": ("program", "to")}.get(path, ("program", "world"))
    began = time.monotonic()
    response = client.post(f"/api/{path}", json={key: body[key] for key in asked})
    assert time.monotonic() - began < PATIENCE
    assert "too long" in response.text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_convert(client: TestClient, dialect: str) -> None:
    text = "def run(): turnRight()"
    converted = client.post("/api/convert", json={"program": text, "to": dialect}).json()["program"]
    assert converted == Program.parse(text).to(dialect)


def test_stanford_files(client: TestClient) -> None:
    files = client.post("/api/stanford", json={"program": "def run(): putMarker()", "world": BEFORE}).json()
    assert Program.parse(files["py"], "stanford") == Program.parse("def run(): putMarker()")
    assert World.from_stanford(files["w"]) == World.parse(BEFORE)
    assert files["py"].endswith('    run_karel_program("karel_task.w")\n')
    body = {"program": "def run(): move()", "world": BEFORE, "name": "my_task"}
    assert 'run_karel_program("my_task.w")' in client.post("/api/stanford", json=body).json()["py"]
    assert client.post("/api/stanford", json={**body, "name": '"); import os'}).status_code == 422


def test_random_world(client: TestClient) -> None:
    def world(**body: int | None) -> str:
        return str(client.post("/api/random-world", json=body).json()["world"])

    drawn = World.parse(world(rows=3, cols=16, seed=5))
    assert (drawn.rows, drawn.cols) == (3, 16)
    assert world(rows=9, cols=9, seed=5) == world(rows=9, cols=9, seed=5)
    assert world(rows=9, cols=9, seed=5) != world(rows=9, cols=9, seed=6)
    assert len({world(rows=9, cols=9, seed=None) for _ in range(5)}) > 1


def test_random_worlds_are_of_many_kinds() -> None:
    drawn = [random_world(8, 8, seed) for seed in range(50)]
    assert any(world.walls for world in drawn)
    assert any(not world.walls for world in drawn)
    assert any(world.markers for world in drawn)


def test_task_files_there_and_back(client: TestClient) -> None:
    task = {"name": "One step", "about": "Karel goes one step.", "examples": [EXAMPLE, ANOTHER]}
    text = client.post("/api/task/render", json=task).json()["text"]
    assert client.post("/api/task/parse", json={"text": text}).json() == task
    refusal(client.post("/api/task/parse", json={"text": "nonsense"}), 422)


def test_gallery(client: TestClient) -> None:
    shown = client.get("/api/gallery").json()
    assert shown
    assert len({entry["slug"] for entry in shown}) == len(shown)
    for entry in shown:
        assert set(entry) == {"slug", "name", "about", "examples"}
        Task(tuple(Example(*(World.parse(pair[side]) for side in ("input", "output"))) for pair in entry["examples"]))


def test_health_and_version(client: TestClient) -> None:
    assert client.get("/api/health").json() == {"status": "ok", "solving": 0, "waiting": 0}
    assert set(client.get("/api/version").json()) == {"version", "model"}


# Bad input


def with_block(block: dict[str, Any]) -> dict[str, Any]:
    return {"program": "", "functions": [{"name": "run", "body": [block]}]}


@pytest.mark.parametrize(
    ("path", "body", "where", "message"),
    [
        ("solve", {"examples": [EXAMPLE] * 21}, "examples", "21 where 20 are allowed"),
        ("solve", {"examples": []}, "examples", "is empty"),
        ("solve", {}, "examples", "`examples` is missing"),
        ("solve", [], None, "the body must be an object"),
        ("solve", {"examples": [EXAMPLE, {"input": "> >\n. .", "output": ""}]}, "example 2, input", "one Karel"),
        ("solve", {"examples": [{"input": BEFORE, "output": ""}]}, "example 1, output", "empty"),
        ("solve", {"examples": [{"input": BEFORE}]}, "example 1, output", "`output` is missing"),
        ("solve", {"examples": [EXAMPLE, {"input": BEFORE, "output": "# . .\n. > ."}]}, "example 2", "walls"),
        ("solve", {"examples": [{"input": BEFORE, "output": "> .\n. ."}]}, "example 1", "must be the same"),
        ("solve", {"examples": [{"input": 5, "output": AFTER}]}, "example 1, input", "must be a string"),
        ("solve", {"examples": ["> ."]}, "example 1", "must be an object"),
        ("solve", {"examples": {}}, "examples", "must be a list"),
        ("solve", {"examples": [{"input": " " * 5000, "output": AFTER}]}, "example 1, input", "4,000 characters"),
        ("solve", {**BODY, "budget": 0.05}, "budget", "at least 0.1"),
        ("solve", {**BODY, "budget": 11}, "budget", "at most 10"),
        ("solve", {**BODY, "budget": "1"}, "budget", "must be a number"),
        ("solve", {**BODY, "bugdet": 1}, "bugdet", "unknown field `bugdet`"),
        ("solve/stream", {**BODY, "budget": 11}, "budget", "at most 10"),
        ("solve/stream", {"examples": [{"input": "x", "output": "x"}]}, "example 1, input", "cells"),
        ("solve/stop", {}, "id", "`id` is missing"),
        ("solve/stop", {"id": 5}, "id", "must be a string"),
        ("solve/stop", {"id": None}, "id", "must be a string"),
        ("solve/stop", {"id": ["x"]}, "id", "must be a string"),
        ("solve/stop", {"id": "x" * 101}, "id", "100 characters"),
        ("solve/stop", {"id": "x", "all": True}, "all", "unknown field `all`"),
        ("solve/stop", ["x"], None, "the body must be an object"),
        ("run", {"program": "def run(): mvoe()", "world": BEFORE}, "program", "Did you mean `move`?"),
        ("run", {"program": "def run(): move()", "world": "nothing"}, "world", "cells"),
        ("run", {"program": "x" * 20_001, "world": BEFORE}, "program", "20,000 characters"),
        ("convert", {"program": "def run(): move()", "to": "french"}, "to", "'paper', 'stanford' or 'tokens'"),
        ("convert", {"program": "def run():", "to": "paper"}, "program", "empty body"),
        ("random-world", {"rows": 1, "cols": 8}, "rows", "at least 2"),
        ("random-world", {"rows": 2, "cols": 17}, "cols", "at most 16"),
        ("random-world", {"rows": 2, "cols": 2.5}, "cols", "whole number"),
        ("random-world", {"rows": True, "cols": 2}, "rows", "whole number"),
        ("blocks/write", {"program": "", "functions": [{"name": "run"}]}, "function 1, body", "`body` is missing"),
        ("blocks/write", with_block({"keyword": 5}), "function 1, body 1, keyword", "`keyword` must be a string"),
        ("blocks/write", with_block({"keyword": "IF", "detail": []}), "function 1, body 1, detail", "`detail` must be"),
        (
            "blocks/write",
            with_block({"keyword": "IF", "blocks": [[5]]}),
            "function 1, body 1, block 1, item 1",
            "object",
        ),
    ],
)
def test_bad_content(client: TestClient, path: str, body: Any, where: str | None, message: str) -> None:
    error = refusal(client.post(f"/api/{path}", json=body), 422)
    assert error["where"] == where
    assert message in error["message"]


def test_a_program_error_has_its_place(client: TestClient) -> None:
    error = refusal(client.post("/api/convert", json={"program": "def run():\n  mvoe()", "to": "paper"}), 422)
    assert (error["line"], error["column"]) == (2, 3)


@pytest.mark.parametrize(
    ("content", "line", "column"),
    [
        (b'{"examples":\n [}', 2, 3),
        (b"", None, None),
        (b'"\x80"', None, None),
        (b"[" * 100_000, None, None),
        (b'{"budget": NaN}', None, None),
        (b'{"\\ud800": 1, "examples": []}', None, None),
        (b'{"examples": [{"input": "\\ud800", "output": ""}]}', None, None),
        (b'{"examples": [{"input": "\\u0000", "output": ""}]}', None, None),
    ],
)
def test_bad_json(client: TestClient, content: bytes, line: int | None, column: int | None) -> None:
    headers = {"Content-Type": "application/json"}
    error = refusal(client.post("/api/solve", content=content, headers=headers), 422)
    assert (error["line"], error["column"]) == (line, column)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "text/json"])
def test_a_body_must_be_declared_as_json(client: TestClient, kind: str) -> None:
    response = client.post("/api/solve", content=json.dumps(BODY), headers={"Content-Type": kind})
    assert "application/json" in refusal(response, 415)["message"]


def test_a_large_body_is_refused_before_it_is_parsed(client: TestClient) -> None:
    body = json.dumps({**BODY, "padding": "x" * LARGEST_BODY}).encode()
    headers = {"Content-Type": "application/json"}
    assert "256 KiB" in refusal(client.post("/api/solve", content=body, headers=headers), 413)["message"]
    pieces = (body[start : start + 10_000] for start in range(0, len(body), 10_000))  # its size is not declared
    refusal(client.post("/api/solve", content=pieces, headers=headers), 413)


def test_no_such_page_or_method(client: TestClient) -> None:
    assert "/openapi.json" in refusal(client.get("/api/nothing"), 404)["message"]
    for gone in ("/docs", "/redoc", "/static/../app.py", "/static/%2e%2e/app.py"):
        refusal(client.get(gone), 404)
    response = client.get("/api/solve")
    assert "use POST" in refusal(response, 405)["message"]
    assert response.headers["Allow"] == "POST"


# Around everything


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/"), ("GET", "/api/health"), ("GET", "/nothing"), ("PUT", "/api/solve"), ("POST", "/api/solve"),
     ("POST", "/api/solve/stream"), ("POST", "/api/solve/stop"), ("GET", "/openapi.json")],
)  # fmt: skip
def test_every_response_is_guarded(client: TestClient, method: str, path: str) -> None:
    body = BODY if method == "POST" else None
    headers = client.request(method, path, json=body).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == ("no-store" if path.startswith("/api/") else "no-cache")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "localhost:9", "LOCALHOST", "[::1]:8000"])
def test_own_names_are_served(client: TestClient, host: str) -> None:
    assert client.get("/api/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "", "[::2]"])
def test_foreign_names_are_refused(client: TestClient, host: str) -> None:
    assert "this server is not called" in refusal(client.get("/api/health", headers={"Host": host}), 400)["message"]


def test_a_public_server_has_any_name() -> None:
    with client_of(create_app(FakeSolver(), ServiceSettings(hosts=None))) as client:
        assert client.get("/api/health", headers={"Host": "karel.example"}).status_code == 200


def test_the_page_and_its_files(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "<html" in page.text
    again = client.get("/", headers={"If-None-Match": page.headers["ETag"]})
    assert (again.status_code, again.text) == (304, "")
    assert client.head("/").status_code == 200
    script = client.get("/static/api.js")
    assert script.headers["Content-Type"].startswith("text/javascript")
    assert client.get("/static/api.js", headers={"If-None-Match": script.headers["ETag"]}).status_code == 304


# The OpenAPI description


UNLIKELY = ("/api/task/parse", "/api/challenges/parse", "/api/blocks/write", "/api/blocks/helper", "/api/solve/stop")
"""Operations that want what does not come about by chance: a task, challenges, blocks or helpers of a text, an id."""
OPERATIONS = """GET /metrics, GET /api/ready, GET /api/health, GET /api/version, GET /api/gallery, POST /api/solve,
    POST /api/solve/stream, POST /api/solve/stop, POST /api/run, POST /api/check, POST /api/convert,
    POST /api/stanford, POST /api/random-world, POST /api/task/parse, POST /api/task/render, POST /api/grade,
    POST /api/hint, POST /api/probe, POST /api/pose, POST /api/judge, POST /api/blocks/read,
    POST /api/blocks/write, POST /api/blocks/helper, GET /api/challenges, POST /api/challenges/parse"""


@pytest.fixture(scope="module")
def description() -> Any:
    """The service's description of itself; it says what drawings and programs are only in words, so that is added."""
    text = st.text(max_size=20)
    drawings = st.sampled_from([EXAMPLE["input"], EXAMPLE["output"]])
    schemathesis.openapi.format("karel-world", drawings | text)
    schemathesis.openapi.format("karel-program", st.sampled_from([*STEPPED.values()]) | text)
    return schemathesis.openapi.from_asgi("/openapi.json", create_app(FakeSolver(), ServiceSettings(hosts=None)))


def test_everything_is_described(description: Any) -> None:
    described = {f"{at.ok().method.upper()} {at.ok().path}" for at in description.get_all_operations()}
    assert described == {operation.strip() for operation in OPERATIONS.split(",")}


@pytest.mark.parametrize("mode", schemathesis.GenerationMode)
@pytest.mark.parametrize("operation", [operation.strip() for operation in OPERATIONS.split(",")])
def test_the_service_is_as_it_describes_itself(
    description: Any, operation: str, mode: schemathesis.GenerationMode
) -> None:
    """Never a 5xx, every answer as its schema says, and what the schema forbids refused.

    What it allows may be refused too: a text may be no program.
    """
    method, path = operation.split()
    if method == "GET" and mode is schemathesis.GenerationMode.NEGATIVE:
        return  # nothing to be wrong in
    if path in ("/api/probe", "/api/pose") and mode is schemathesis.GenerationMode.POSITIVE:
        return  # each takes its budget of seconds; tests/test_web_tutor.py calls them
    cases = description[path][method].as_strategy(generation_mode=mode)
    names = ("positive_data_acceptance", "negative_data_rejection")  # stricter and laxer than we are
    others: Any = [schemathesis.checks.CHECKS.get_one(name) for name in names]
    statuses = set()

    @given(case=cases)
    @settings(max_examples=15, suppress_health_check=list(HealthCheck), database=None)
    def check(case: schemathesis.Case[Any]) -> None:
        response = case.call()
        statuses.add(response.status_code)
        case.validate_response(response, excluded_checks=others)

    check()
    if mode is schemathesis.GenerationMode.NEGATIVE:
        assert statuses <= {413, 415, 422}
    elif path not in UNLIKELY:
        assert 200 in statuses
