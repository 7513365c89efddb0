"""The example for language models, against a stub of an endpoint on loopback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from examples.language_model import main
from typer.testing import CliRunner

from karelsynth.cli import app
from karelsynth.tasks.named import named_tasks
from karelsynth.tasks.prompts import answer_of, prompt_of

SCRIPT = Path(__file__).parent.parent / "examples" / "language_model.py"
COUNT = 6


class Endpoint(ThreadingHTTPServer):
    """Answers chat requests with the references of the tasks; the first requests fail in the ways given."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Chat)
        tasks = named_tasks("test", COUNT)
        self.answers = {
            prompt_of(tasks.task(n)): f"It walks.\n{answer_of([tasks.program(n)])}That is all." for n in range(COUNT)
        }
        self.faults: list[int | str] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.delay = 0.0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Chat(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        self.server.keys.append(self.headers.get("Authorization"))
        time.sleep(self.server.delay)
        fault = self.server.faults.pop() if self.server.faults else 200
        if fault == "close":
            return
        text = self.server.answers[request["messages"][0]["content"]]
        reply = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]})
        body = ("<html>" if fault == "html" else "model not found" if fault == 404 else reply).encode()
        self.send_response(fault if isinstance(fault, int) else 200)
        if fault == 429:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    done = CliRunner().invoke(app, ["prompt", "test", "--limit", str(COUNT), "--out", str(path)])
    assert done.exit_code == 0
    return path


def ask(endpoint: Endpoint, prompts: Path, answers: Path, *more: str) -> int:
    options = ["--endpoint", endpoint.address, "--model", "stub", "--pause", "0.01", *more]
    return main([str(prompts), str(answers), *options])


def score_of(answers: Path) -> str:
    result = CliRunner().invoke(app, ["score", str(answers), "test", "--limit", str(COUNT)])
    assert result.exit_code == 0
    return result.stdout


def test_answers_are_asked_for_and_scored(
    endpoint: Endpoint, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through faults that pass, with a key from the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "not a real one")
    endpoint.faults = [503, "close", "html", 429]
    answers = tmp_path / "answers.jsonl"
    assert ask(endpoint, prompts, answers, "--at-once", "3") == 0
    assert len(endpoint.requests) == COUNT + 4
    assert set(endpoint.keys) == {"Bearer not a real one"}
    assert endpoint.requests[0]["temperature"] == 0.0
    said = score_of(answers)
    assert "top-1 generalization 100.00 %" in said
    assert "s a task" in said


def test_an_interrupted_run_is_continued(endpoint: Endpoint, prompts: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    assert ask(endpoint, prompts, answers, "--samples", "2") == 0
    lines = answers.read_bytes().splitlines(keepends=True)
    assert [len(json.loads(line)["answer"]) for line in lines] == [2] * COUNT
    answers.write_bytes(b"".join(lines[:3]) + lines[3][:20])  # killed while it wrote
    endpoint.requests.clear()
    assert ask(endpoint, prompts, answers) == 0
    assert len(endpoint.requests) == COUNT - 3
    assert sorted(json.loads(line)["number"] for line in answers.read_text().splitlines()) == [1, 2, 3, 4, 5, 6]
    assert "top-1 generalization 100.00 %" in score_of(answers)
    endpoint.requests.clear()
    assert ask(endpoint, prompts, answers) == 0
    assert not endpoint.requests  # all is there


def test_faults_that_stay_are_told(
    endpoint: Endpoint, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = tmp_path / "answers.jsonl"
    endpoint.faults = [404] * 100
    assert ask(endpoint, prompts, answers, "--at-once", "1") == 1
    assert "404 Not Found: model not found" in capsys.readouterr().err
    endpoint.faults = [500] * 100
    assert ask(endpoint, prompts, answers, "--at-once", "1", "--tries", "2") == 1
    assert "2 tries failed; the last: 500 Internal Server Error" in capsys.readouterr().err
    assert answers.read_text() == ""
    endpoint.faults = []
    assert ask(endpoint, prompts, answers) == 0
    capsys.readouterr()
    other = ["--endpoint", endpoint.address, "--model", "another"]
    assert main([str(prompts), str(answers), *other]) == 1
    assert "by another model; choose a new file" in " ".join(capsys.readouterr().err.split())
    assert main([str(tmp_path / "none"), str(answers), *other]) == 1
    assert "No such file" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal there")
def test_ctrl_c_keeps_what_is_there(endpoint: Endpoint, prompts: Path, tmp_path: Path) -> None:
    endpoint.delay = 0.2
    answers = tmp_path / "answers.jsonl"
    options = ["--endpoint", endpoint.address, "--model", "stub", "--at-once", "1"]
    command = [sys.executable, str(SCRIPT), str(prompts), str(answers), *options]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    while not answers.exists() or not answers.read_text():
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "the same command resumes from" in said
    assert "Traceback" not in said
    assert 1 <= len(re.findall("\n", answers.read_text())) < COUNT
