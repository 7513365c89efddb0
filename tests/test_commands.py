"""How commands end: one message, a status, and nothing of Python's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from karelsynth.cli import app, tasks
from karelsynth.errors import KarelsynthError

PROGRAM = "def run():\n  move()\n"
COMMAND = f'"{sys.executable}" -m karelsynth'
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="a shell and signals of POSIX")


def shell(command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        ["bash", "-c", command], cwd=cwd, capture_output=True, text=True, timeout=120, env=os.environ | environment
    )
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr
    return ended


@POSIX
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("command", ["check a", "convert a --to tokens", "--version"])
def test_a_full_disk_under_standard_output(command: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(PROGRAM)
    ended = shell(f"{COMMAND} {command} > /dev/full", tmp_path)
    assert ended.returncode == 1
    assert "error: standard output: No space left on device" in " ".join(ended.stderr.split())


@POSIX
@pytest.mark.parametrize("command", ["check a", "convert a --to tokens", "solve --list"])
def test_a_reader_that_has_closed_the_pipe(command: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(PROGRAM)
    ended = shell(f"set -o pipefail; {COMMAND} {command} | true", tmp_path)
    assert ended.returncode in (0, 141)  # 0 if it was done before the reader went
    assert not ended.stderr


@POSIX
@pytest.mark.parametrize("command", ["check a", "convert a --to tokens", "draw w", "run a w --json"])
def test_no_standard_output_at_all(command: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(PROGRAM)
    (tmp_path / "w").write_text("> .\n. .\n")
    assert shell(f"{COMMAND} {command} >&-", tmp_path).returncode == 0


@POSIX
def test_ctrl_c_says_stopped() -> None:
    """Also while all is loaded."""
    process = subprocess.Popen(
        [sys.executable, "-m", "karelsynth", "check", "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    # What is more than a pipe holds has been taken once the command reads: all is loaded by then.
    process.stdin.write("x" * 200_000)
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.strip() == "stopped"


def test_ctrl_c_is_not_lost_where_c_calls_python(tmp_path: Path) -> None:
    """As Numba's loader does. Python printed a traceback, and the command went on to its end."""
    (tmp_path / "interrupted.py").write_text(
        "import ctypes, sys, time\nfrom karelsynth.__main__ import interrupt_again\n"
        "def call():\n    raise KeyboardInterrupt\n"
        "sys.unraisablehook = interrupt_again\n"
        "try:\n    ctypes.CFUNCTYPE(None)(call)()\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    print('caught')\n"
    )
    ended = shell(f"{sys.executable} interrupted.py", tmp_path)
    assert (ended.stdout, ended.stderr) == ("caught\n", "")


def test_what_the_system_refuses_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    for raised, message in (
        (OSError(5, "Input/output error", "there"), "there: Input/output error"),
        (MemoryError(), "not enough memory"),
    ):

        def refused(*_: Any, raised: BaseException = raised, **__: Any) -> None:
            raise raised

        monkeypatch.setattr("karelsynth.tasks.statistics.compute", refused)
        result = CliRunner().invoke(app, ["stats", "--generate", "5"])
        assert isinstance(result.exception, KarelsynthError)
        assert message in str(result.exception)


@POSIX
def test_terminals_that_show_few_signs(tmp_path: Path) -> None:
    ended = shell(f"{COMMAND} stats --generate 20", tmp_path, PYTHONIOENCODING="ascii")
    assert ended.returncode == 0
    assert "< >" in ended.stdout


@POSIX
def test_terminals_without_columns(tmp_path: Path) -> None:
    for columns in ("0", "00", ""):
        ended = shell(f"{COMMAND} check a", tmp_path, COLUMNS=columns, LINES=columns)
        assert "error: a: there is no such file" in ended.stderr
    assert "Usage" in shell(f"{COMMAND} check --help", tmp_path, COLUMNS="0").stdout


@POSIX
def test_numba_with_compiling_disabled(tmp_path: Path) -> None:
    assert shell(f"{COMMAND} stats --generate 20", tmp_path, NUMBA_DISABLE_JIT="1").returncode == 0
    assert shell(f"{COMMAND} stats --generate 20", tmp_path, NUMBA_NUM_THREADS="0").returncode == 0
    code = "from karelsynth.errors import *\ntry: import karelsynth.karel.machine_kernel\nexcept KarelsynthError as e:"
    ended = shell(f"{sys.executable} -c '{code} print(e)'", tmp_path, NUMBA_DISABLE_JIT="1")
    assert ended.stdout == "NUMBA_DISABLE_JIT is set, and karelsynth runs only compiled: unset it and start again\n"


@POSIX
def test_places_that_cannot_be_written_are_noticed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the work, whatever the command; root may write anywhere, so the answer is made up."""
    (tmp_path / "p").write_text(PROGRAM)
    (tmp_path / "sealed").mkdir()

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the work has begun")

    for work in (
        "karelsynth.tasks.statistics.compute",
        "karelsynth.solve.solver.Solver.load",
        "karelsynth.tutor.grade.grade",
        "karelsynth.tutor.hint.find_hint",
        "karelsynth.tutor.pose.pose",  # before `probe`, which it imports and would otherwise keep as `never`
        "karelsynth.tutor.probe.probe",
    ):
        monkeypatch.setattr(work, never)
    monkeypatch.setattr(os, "access", lambda _, mode, **__: not mode & os.W_OK)
    task, program, missing = "newspaper", str(tmp_path / "p"), str(tmp_path / "missing" / "file")
    sealed = str(tmp_path / "sealed")
    for command in (
        ["stats", "--generate", "5", "--json", missing],
        ["stats", "--generate", "5", "--plot", f"{missing}.svg"],
        ["curves", "--json", missing],
        ["grade", task, program, "--csv", "--out", missing],
        ["hint", task, program, "--level", "3", "--out", missing],
        ["probe", task, "--add", "--out", missing],
        ["solve", task, "--out", sealed],
        ["pose", "--out", sealed],
        ["generate", "--seed", "1", "--count", "5", "--out", sealed],
        ["train", "mle", "--out", sealed],
        ["reproduce", "objectives", "--results", sealed],
    ):
        result = CliRunner().invoke(app, command)
        assert isinstance(result.exception, KarelsynthError), (command, result.exception)
        assert "cannot be written: " in str(result.exception), command


@POSIX
def test_names_that_are_too_long(tmp_path: Path) -> None:
    name = "x" * 300
    for command in (f"stats {name}", f"import-msr {name} --out o", f"solve {name}.task", f"evaluate {name} val"):
        ended = shell(f"{COMMAND} {command}", tmp_path)
        assert ended.returncode == 1
        assert "error:" in ended.stderr


@POSIX
def test_tasks_go_through_pipes(tmp_path: Path) -> None:
    """What is said of them stays out of it."""
    assert shell(f"{COMMAND} generate --count 20 --seed 1 --out s", tmp_path).returncode == 0
    assert shell(f"{COMMAND} export-msr s --out /dev/stdout > t.jsonl", tmp_path).stderr.endswith("20 tasks\n")
    assert [line[0] for line in (tmp_path / "t.jsonl").read_text().splitlines()] == ["{"] * 20
    for command in (
        "gzip -c t.jsonl | {} verify -",
        "{} verify <(cat t.jsonl)",
        "cat t.jsonl | {} verify /dev/stdin",
        "cat t.jsonl | {} import-msr - --out back",
        "{} stats - < t.jsonl",
    ):
        ended = shell(command.format(COMMAND), tmp_path)
        assert ended.returncode == 0, ended.stderr
        assert "20 tasks" in ended.stdout


def test_text_is_shown_as_it_is(tmp_path: Path) -> None:
    """Nothing in brackets or between colons means anything."""
    (tmp_path / "a:x:[b]").write_text(PROGRAM)
    result = CliRunner().invoke(app, ["check", str(tmp_path / "a:x:[b]")])
    assert "a:x:[b]: ok" in result.stdout.replace("\n", "")


def test_options_that_would_be_ignored_are_errors(tmp_path: Path) -> None:
    (tmp_path / "w").write_text("> .\n")
    (tmp_path / "p").write_text(PROGRAM)
    world, program = str(tmp_path / "w"), str(tmp_path / "p")
    for given, message in (
        (["stats", "--generate", "5", "--limit", "3"], "--limit applies only to TASKS"),
        (["stats", world, "--seed", "3"], "--seed applies only to --generate"),
        (["draw", world, "--labels"], "--labels applies only to pictures"),
        (["draw", world, "--theme", "dark", "--out", str(tmp_path / "x.w")], "--theme applies only to pictures"),
        (["draw", world, "--cell", "9"], "--cell applies only to pictures"),
        (["run", program, world, "--theme", "dark"], "--theme applies only to pictures"),
    ):
        result = CliRunner().invoke(app, given)
        assert isinstance(result.exception, KarelsynthError), given
        assert message in str(result.exception)
    assert not (tmp_path / "x.w").exists()
    assert tasks.STATS_LIMIT == 100_000  # as the help says


def test_manifests_that_were_altered(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["generate", "--count", "3", "--seed", "1", "--out", str(tmp_path)]).exit_code == 0
    path = tmp_path / "manifest.json"
    whole = json.loads(path.read_text())
    altered: list[dict[str, Any]] = [{"source": {"kind": []}}, {"count": 0, "shards": []}]
    for changes in altered:
        path.write_text(json.dumps(whole | changes))
        result = CliRunner().invoke(app, ["stats", str(tmp_path)])
        assert isinstance(result.exception, KarelsynthError)
        assert "the manifest was altered" in str(result.exception)
