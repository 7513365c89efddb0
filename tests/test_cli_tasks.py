"""The commands about tasks: what they print, write and exit with."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from karelsynth.errors import KarelsynthError
from karelsynth.tasks.generate import generate
from karelsynth.tasks.msr_tasks import write_tasks
from karelsynth.tasks.sets import load_tasks, open_set
from tests.command_line import call

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "set"
    result = call("generate", "--count", 40, "--seed", 9, "--reserved", "--shard-size", 16, "--out", folder)
    assert result.exit_code == 0
    assert "40 tasks of 6 examples" in result.stdout
    assert "3 shards" in result.stdout
    return folder


def test_generate_passes_all_it_is_given(made: Path, tmp_path: Path) -> None:
    manifest = open_set(made).manifest
    assert (manifest.count, manifest.examples, manifest.shard_size) == (40, 6, 16)
    call("generate", "--count", 3, "--seed", 9, "--start", 5, "--examples", 2, "--threads", 1, "-o", tmp_path / "other")
    assert (open_set(tmp_path / "other")[:].inputs == generate(9, 5, 3, examples=2).inputs).all()


def test_generate_makes_named_sets(tmp_path: Path) -> None:
    assert call("generate", "val", "--out", tmp_path / "val").exit_code == 0
    assert open_set(tmp_path / "val").manifest.count == 2_500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say which tasks to make"),
        (("--count", 5), "say which tasks to make"),
        (("tset",), "no set called `tset`; did you mean `test`"),
        (("val", "--seed", 1), "drop NAME or --seed"),
        (("val", "--reserved"), "drop NAME or --reserved"),
        (("--count", 5, "--seed", 1, "--examples", 99), "examples is a whole number from 2 to 20, not 99"),
        (("--count", 5, "--seed", 1, "--start", 2**63 - 1), r"not 9,223,372,036,854,775,807 \+ 5"),
    ],
)
def test_generate_says_what_is_wrong(tmp_path: Path, arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(KarelsynthError, match=message):
        call("generate", *arguments, "--out", tmp_path / "set")
    assert not (tmp_path / "set").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal there")
def test_an_interrupt_stops_cleanly_and_says_how_to_resume(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    command = [sys.executable, "-m", "karelsynth", "generate", "--count", "1000000", "--seed", "1", "--shard-size", "8"]
    child = subprocess.Popen([*command, "--out", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not (folder / "shard-00002.safetensors").exists():
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    out, errors = child.communicate()
    assert child.returncode == 130
    assert out == b""
    assert b"Run the same command again to resume" in errors.replace(b"\n", b" ")
    assert b"Traceback" not in errors
    assert not list(folder.glob(".*"))
    assert len(json.loads((folder / "manifest.json").read_bytes())["shards"]) >= 2


def test_export_and_import(made: Path, tmp_path: Path) -> None:
    result = call("export-msr", made, "--out", tmp_path / "tasks.jsonl.gz")
    assert (result.exit_code, "40 tasks" in result.stderr, result.stdout) == (0, True, "")  # the file may be stdout
    result = call("import-msr", tmp_path / "tasks.jsonl.gz", "--out", tmp_path / "back")
    assert (result.exit_code, "40 tasks" in result.stdout) == (0, True)
    assert (open_set(tmp_path / "back")[:].outputs == open_set(made)[:].outputs).all()
    for source in (made, "deeper"):
        assert "7 tasks" in call("export-msr", source, "--limit", 7, "--out", tmp_path / "few.jsonl").stderr
        assert load_tasks(tmp_path / "few.jsonl").begins_like(load_tasks(source, limit=7))


def test_an_export_says_which_tasks_are_refused_elsewhere(tmp_path: Path) -> None:
    result = call("export-msr", "classroom", "--out", tmp_path / "tasks.jsonl")
    slow = int(re.findall(r"(\d+) of them need more ticks than the original allows \(200\)", result.stderr)[0])
    assert 0 < slow < 50
    refused = call("import-msr", tmp_path / "tasks.jsonl", "--skip-bad", "--out", tmp_path / "back")
    assert f"{50 - slow} tasks" in refused.stdout


def test_import_names_bad_records_by_line(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    write_tasks([generate(1, 0, 3)], path)
    path.write_text(path.read_text() + "{}\n" * 30)
    result = call("import-msr", path, "--out", tmp_path / "one")
    assert result.exit_code == 1
    assert "line 4: the program is missing" in result.stderr
    assert "… and 40 more problems" in result.stderr
    assert "30 bad records left out" in result.stderr
    assert "3 tasks" in result.stdout
    assert call("import-msr", path, "--skip-bad", "--out", tmp_path / "two").exit_code == 0
    with pytest.raises(KarelsynthError, match="there is no such file"):
        call("import-msr", tmp_path / "none", "--out", tmp_path / "three")
    with pytest.raises(KarelsynthError, match="a file, but a task set is a folder"):
        call("export-msr", path, "--out", tmp_path / "out.jsonl")
    with pytest.raises(KarelsynthError, match=r"tset: there is no such folder, and .* did you mean `test`"):
        call("export-msr", "tset", "--out", tmp_path / "out.jsonl")


def test_stats_of_a_set_a_file_and_fresh_tasks(made: Path, tmp_path: Path) -> None:
    plot, figures = tmp_path / "plot.svg", tmp_path / "figures.json"
    result = call("stats", made, "--plot", plot, "--json", figures)
    assert result.exit_code == 0
    assert "program length" in result.stdout
    assert "40 tasks: " in result.stdout
    assert "(with fewer than 10,000 tasks, figures may be off by sampling error alone)" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert plot.read_text().startswith("<svg")
    record = json.loads(figures.read_text())
    assert record["tasks"] == 40
    for figure in record["figures"]:
        assert figure["distance"] == pytest.approx(abs(figure["value"] - figure["original"]), abs=2e-6)
    assert f"{sum(f['within'] for f in record['figures'] if f['allowed'] is not None)} of " in result.stdout

    call("export-msr", made, "--out", tmp_path / "tasks.jsonl")
    assert call("stats", tmp_path / "tasks.jsonl").stdout == result.stdout
    assert "10 tasks: " in call("stats", made, "--limit", 10).stdout
    assert "20 tasks: " in call("stats", "--generate", 20, "--seed", 3, "--plot", tmp_path / "plot.png").stdout
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_stats_says_what_is_wrong(made: Path, tmp_path: Path) -> None:
    for arguments in ((), (made, "--generate", 5)):
        with pytest.raises(KarelsynthError, match="either TASKS or --generate"):
            call("stats", *arguments)
    with pytest.raises(KarelsynthError, match=r"must end in `\.svg` or `\.png`"):
        call("stats", made, "--plot", tmp_path / "plot.pdf")
