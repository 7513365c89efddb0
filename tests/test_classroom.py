"""The benchmark of classroom tasks: its file and its scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.classroom import TASKS, main, read_pairs, read_tasks, shares_right

from karelsynth import Program
from tests.posed import PATIENT


def test_references_are_right_on_all_worlds() -> None:
    tasks = read_tasks(TASKS)
    assert len(tasks) == len({task["name"] for task in tasks}) == 50
    for task in tasks:
        program = Program.parse(task["reference"], "paper")
        pairs = read_pairs(task["examples"] + task["fresh"])
        assert (len(pairs), program.size) == (29, task["tokens"])
        assert shares_right([program], pairs, max(200, task.get("needs_ticks", 0))) == [1.0]


def test_easy_tasks_are_general(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [task["name"] for task in read_tasks(TASKS) if task["level"] == "easy"][:2]
    report = tmp_path / "report.json"
    main(["--only", *names, "--budget", str(PATIENT), "--json", str(report)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["general", name] for name in names]
    assert "2 tasks   solved 100.0 %   GENERAL 100.0 %   fresh right 100.0 %" in lines[-1]
    rows = json.loads(report.read_text())["rows"]
    assert [(row["name"], row["share"], row["other"]) for row in rows] == [(name, 1.0, False) for name in names]


def test_an_unknown_task_is_an_error() -> None:
    with pytest.raises(SystemExit, match="no task is called nothing"):
        main(["--only", "nothing"])
