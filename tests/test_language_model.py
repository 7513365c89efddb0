"""Answers of language models, from a stub of an endpoint on loopback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from karelsynth.cli import app
from karelsynth.errors import KarelsynthError
from karelsynth.files import FileError, appending
from karelsynth.language_model import (
    AnswersError,
    Collected,
    Endpoint,
    EndpointError,
    Reply,
    collect_answers,
    parse_reply,
    retry_after,
)
from karelsynth.tasks.named import named_tasks
from karelsynth.tasks.prompts import answer_of, prompt_lines, prompt_of

COUNT = 6
KEY = "not-a-real-one"


class Stub(ThreadingHTTPServer):
    """Answers chat requests with the references of the tasks; the first requests fail in the ways given."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Chat)
        tasks = named_tasks("test", COUNT)
        self.answers = {
            prompt_of(tasks.task(n)): f"It walks.\n{answer_of([tasks.program(n)])}That is all." for n in range(COUNT)
        }
        self.faults: Sequence[int | str] = ()
        self.finish = "stop"
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: list[str | None] = []
        self.delay = 0.0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Chat(BaseHTTPRequestHandler):
    server: Stub

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        self.server.paths.append(self.path)
        self.server.keys.append(self.headers.get("Authorization"))
        time.sleep(self.server.delay)
        *self.server.faults, fault = self.server.faults or [200]
        if fault == "close":
            return
        message = {"role": "assistant", "content": self.server.answers[request["messages"][0]["content"]]}
        reply = json.dumps({"choices": [{"message": message, "finish_reason": self.server.finish}]})
        body = {"html": "<html>", 404: "no such model", 401: f"wrong key {KEY}"}.get(fault, reply).encode()
        self.send_response(fault if isinstance(fault, int) else 200)
        if fault == 429:
            self.send_header("Retry-After", "0")
        if fault == 302:
            self.send_header("Location", f"{self.server.address}/elsewhere")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    return tmp_path / "answers.jsonl"


def ask(stub: Stub, answers: Path, *options: str) -> Result:
    limit = () if "--limit" in options else ("--limit", str(COUNT))
    command = ["ask", "test", *limit, "--endpoint", stub.address, "--model", "stub", "--out", str(answers), *options]
    return CliRunner().invoke(app, command)


def message_of(result: Result) -> str:
    """Of a command that failed: what the program's main prints, in one line."""
    assert isinstance(result.exception, KarelsynthError), result.output
    return " ".join(str(result.exception).split())


def collect(stub: Stub, answers: Path, **settings: Any) -> Collected:
    """Without waiting long between two tries."""
    prompts = [json.loads(line) for line in prompt_lines(named_tasks("test", COUNT))]
    return collect_answers(Endpoint(stub.address, "stub", pause=0.01, **settings), prompts, answers, at_once=1)


def test_answers_of_a_model_are_collected_and_scored(
    stub: Stub, answers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key from the environment, and a report that says what was asked of whom."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    report = answers.with_name("report.json")
    result = ask(stub, answers, "--at-once", "3", "--json", str(report), "--set", "top_p=0.9")
    assert result.exit_code == 0, result.output
    assert "top-1 generalization 100.00 %" in result.stdout
    assert "s a task" in result.stdout
    assert f"{answers.name}: 6 answers" in result.stderr.replace("\n", "")
    assert set(stub.keys) == {f"Bearer {KEY}"}
    assert set(stub.paths) == {"/v1/chat/completions"}
    sent = {"model": "stub", "temperature": 0.0, "max_tokens": 4096, "top_p": 0.9}
    assert [{**request, "messages": None} for request in stub.requests] == [{**sent, "messages": None}] * COUNT
    sources = json.loads(report.read_text())["provenance"]
    assert (sources["model"], sources["data"], sources["missing"]) == ("stub", "test", 0)
    assert sources["settings"] == {**sent, "samples": 1, "programs": 1}
    assert KEY not in answers.read_text() + report.read_text() + result.output
    again = CliRunner().invoke(app, ["score", str(answers), "test", "--limit", str(COUNT)])
    assert "top-1 generalization 100.00 %" in again.stdout


def test_faults_that_pass_are_tried_again(stub: Stub, answers: Path) -> None:
    stub.faults = [503, "close", "html", 429]
    assert collect(stub, answers) == (COUNT, 0, 0)
    assert len(stub.requests) == COUNT + 4
    assert len(answers.read_text().splitlines()) == COUNT


def test_an_unfinished_file_is_continued(stub: Stub, answers: Path) -> None:
    assert ask(stub, answers, "--samples", "2", "--temperature", "0.5").exit_code == 0
    lines = answers.read_bytes().splitlines(keepends=True)
    assert [len(json.loads(line)["answer"]) for line in lines] == [2] * COUNT
    answers.write_bytes(b"".join(lines[:3]) + lines[3][:20])  # killed while it wrote
    stub.requests.clear()
    result = ask(stub, answers, "--samples", "2", "--temperature", "0.5")
    assert "top-1 generalization 100.00 %" in result.stdout
    assert len(stub.requests) == 2 * (COUNT - 3)
    assert sorted(json.loads(line)["number"] for line in answers.read_text().splitlines()) == [1, 2, 3, 4, 5, 6]
    stub.requests.clear()
    whole = answers.read_bytes()
    assert ask(stub, answers, "--samples", "2", "--temperature", "0.5").exit_code == 0
    assert ask(stub, answers, "--samples", "2", "--temperature", "0.5", "--limit", "4").exit_code == 0
    assert not stub.requests  # all is there, and more
    assert answers.read_bytes() == whole


@pytest.mark.parametrize(
    "options",
    [
        ["--model", "another"],
        ["--temperature", "1"],
        ["--max-tokens", "10"],
        ["--set", "seed=1"],
        ["--samples", "2", "--temperature", "0"],
        ["--to", "stanford"],
        ["--programs", "3"],
        ["--given", "3"],
    ],
    ids=lambda options: options[0],
)
def test_answers_to_other_requests_are_kept_apart(stub: Stub, answers: Path, options: list[str]) -> None:
    assert ask(stub, answers).exit_code == 0
    before = answers.read_bytes()
    assert "choose a new file" in message_of(ask(stub, answers, *options))
    assert len(stub.requests) == COUNT
    assert answers.read_bytes() == before


def test_nothing_is_asked_that_could_not_be_scored(stub: Stub, answers: Path) -> None:
    assert "at most 5 can be given" in message_of(ask(stub, answers, "--given", "6"))
    assert not stub.requests


@pytest.mark.parametrize(
    "content",
    ['{"number": 1, "programs": ["def run(): move()"]}', "my thesis", "[]\n", '{"prompt": []}\n', "\n", "\x00\xff"],
)
def test_a_file_of_something_else_is_not_touched(stub: Stub, answers: Path, content: str) -> None:
    answers.write_text(content)
    assert "line 1 is not an answer that this command wrote" in message_of(ask(stub, answers))
    assert answers.read_text() == content
    assert not stub.requests


def test_faults_that_stay_are_one_message(stub: Stub, answers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for status, words in (
        (404, "404 Not Found: no such model; check the model's name, and that the address ends in /v1"),
        (401, "401 Unauthorized: wrong key …; the key is read from the environment variable OPENAI_API_KEY"),
        (302, "redirects are not followed"),
        (400, "--set changes fields of the request"),
    ):
        stub.faults = [status] * 100
        said = message_of(ask(stub, answers, "--at-once", "1"))
        assert words in said
        assert "0 of 6 answers are in" in said
    stub.faults = [500] * 100
    said = message_of(ask(stub, answers, "--at-once", "1", "--tries", "1"))
    assert "1 try failed; the last: 500 Internal Server Error" in said
    assert set(stub.paths) == {"/v1/chat/completions"}
    assert answers.read_text() == ""
    stub.faults = [500] * 2 + [200] * 2
    with pytest.raises(EndpointError, match=r"2 tries failed; the last: 500 .*\n2 of 6 answers are in .*resumes"):
        collect(stub, answers, tries=2)
    assert collect(stub, answers) == (COUNT, 0, 0)


def test_prompts_that_are_refused_can_be_skipped(stub: Stub, answers: Path) -> None:
    """They have no answer, count as such, and are sent again by the same command."""
    stub.faults = [200, 400, 200, 413]
    result = ask(stub, answers, "--at-once", "1", "--skip-refused")
    assert "2 prompts were refused" in result.stderr
    assert "no prediction for 2 of 6 tasks" in result.stderr.replace("\n", " ")
    assert "top-1 generalization 66.67 %" in result.stdout
    assert "top-1 generalization 100.00 %" in ask(stub, answers, "--skip-refused").stdout
    assert len(stub.requests) == COUNT + 2
    stub.faults, none = [422] * 100, answers.with_name("none.jsonl")
    assert "422 Unprocessable Entity" in message_of(ask(stub, none, "--skip-refused"))  # all of them


def test_a_further_try_says_why(stub: Stub, answers: Path) -> None:
    stub.faults = [429, 429, "close"]
    said = ask(stub, answers, "--at-once", "1").stderr.replace("\n", " ")
    assert said.count("/v1/chat/completions: 429 Too Many Requests") == 1
    assert said.count("trying again") == 2


def test_an_endpoint_that_does_not_answer_is_an_error(answers: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Chat) as closed:
        address = f"http://127.0.0.1:{closed.server_address[1]}/v1"
    command = ["ask", "test", "--limit", "1", "--model", "m", "--out", str(answers), "--endpoint", address]
    result = CliRunner().invoke(app, [*command, "--tries", "1"])
    assert "Connection refused" in message_of(result)


def test_replies_that_were_cut_off_are_counted(stub: Stub, answers: Path) -> None:
    stub.finish = "length"
    for _ in range(2):  # asked for, and read from the file
        assert "6 were cut off: --max-tokens was too small" in ask(stub, answers).stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--endpoint", "localhost:8000"], "not the address of an endpoint; write http://HOST:PORT/v1"),
        (["--endpoint", "http://[::1/v1"], "not the address of an endpoint"),
        (["--endpoint", "http://host:many/v1"], "not the address of an endpoint"),
        (["--endpoint", "http://me:secret@host/v1"], "the address holds a password"),
        (["--set", "top_p"], "write NAME=VALUE"),
        (["--set", "n=4"], "the field `n` of a request cannot be set: ask for several samples instead"),
        (["--set", "stream=true"], "the field `stream` of a request cannot be set"),
        (["--out", "/dev/stdout"], "it is not a regular file"),
        (["--compare", "no-such-report.json"], "no-such-report.json"),
    ],
)
def test_wrong_options(stub: Stub, answers: Path, options: list[str], words: str) -> None:
    said = message_of(ask(stub, answers, *options))
    assert words in said
    assert "secret" not in said
    assert not stub.requests


def test_a_key_that_is_no_header(stub: Stub, answers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "two\nlines")
    said = message_of(ask(stub, answers))
    assert "has characters that no header may have" in said
    assert "lines" not in said


def test_fields_are_left_out_by_null(stub: Stub, answers: Path) -> None:
    settings = ["--set", "max_tokens=null", "--set", "max_completion_tokens=50", "--set", "effort=low"]
    assert ask(stub, answers, *settings).exit_code == 0
    sent = stub.requests[0]
    assert "max_tokens" not in sent
    assert (sent["max_completion_tokens"], sent["effort"]) == (50, "low")


def test_a_report_on_other_tasks_is_refused_before_any_request(stub: Stub, answers: Path) -> None:
    report = answers.with_name("report.json")
    assert ask(stub, answers, "--json", str(report)).exit_code == 0
    assert "McNemar" in ask(stub, answers, "--compare", str(report)).stdout
    stub.requests.clear()
    said = message_of(ask(stub, answers, "--limit", "5", "--compare", str(report)))
    assert "a report on other tasks: 6 with digest" in said
    assert not stub.requests


def test_replies() -> None:
    def reply(content: Any, **more: Any) -> bytes:
        return json.dumps({"choices": [{"message": {"content": content}, **more}]}).encode()

    assert parse_reply(reply("text", finish_reason="length")) == Reply("text", "length")
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}, 3]
    assert parse_reply(reply(parts)).text == "ab"
    assert parse_reply(reply(None)) == Reply("", None)  # nothing but thoughts, which are elsewhere
    for content in (b"", b"\xff", b"{}", b"[]", b'{"choices": []}', b'{"choices": [3]}', reply(3), b"[" * 10**5):
        with pytest.raises(EndpointError, match="the reply"):
            parse_reply(content)


def test_pauses_that_an_endpoint_names() -> None:
    assert retry_after("7") == 7.0
    assert retry_after("999999999") == 3600.0
    assert retry_after(formatdate(time.time() + 10**6, usegmt=True)) == 3600.0
    assert retry_after(formatdate(0, usegmt=True)) == 0.0
    for other in (None, "", "soon", "-1", "9" * 40):
        assert retry_after(other) is None


def test_two_commands_do_not_share_a_file(stub: Stub, answers: Path) -> None:
    with appending(answers), pytest.raises(FileError, match="another process is writing there"):
        collect(stub, answers)
    with appending(answers.with_name("others.jsonl")):  # of the same folder
        assert collect(stub, answers) == (COUNT, 0, 0)
    with pytest.raises(AnswersError):
        collect(stub, answers, max_tokens=5)


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal there")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_command_resumes(stub: Stub, answers: Path, number: int) -> None:
    stub.delay = 0.2
    options = ["--endpoint", stub.address, "--model", "stub", "--at-once", "1", "--limit", str(COUNT)]
    command = [sys.executable, "-m", "karelsynth", "ask", "test", "--out", str(answers), *options]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    while not answers.exists() or not answers.read_text():
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    child.send_signal(number)
    _, said = child.communicate(timeout=30)
    if number == signal.SIGINT:
        assert child.returncode == 130
        assert "the same command resumes from" in said
    assert "Traceback" not in said
    before = answers.read_text()
    assert 1 <= len(re.findall("\n", before)) < COUNT
    stub.delay = 0.0
    assert "top-1 generalization 100.00 %" in ask(stub, answers).stdout
    assert answers.read_text().startswith(before[: before.rindex("\n")])
