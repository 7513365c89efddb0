"""The commands grade, hint, probe and pose, as a teacher calls them; and a small version of the benchmark."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest
from benchmarks import tutor as benchmark
from typer.testing import CliRunner

from karelsynth.cli import app
from karelsynth.errors import KarelsynthError
from karelsynth.karel.program import Program
from karelsynth.tasks.task import Task
from karelsynth.tasks.task_files import read_tasks, render_task
from tests.command_line import attempt as call
from tests.posed import CLEAN, TASK

WRONG = CLEAN.replace("while(markers", "if(markers") + "  # one\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clean.task").write_text(render_task(TASK))
    (tmp_path / "right.karel").write_text(CLEAN)
    students = tmp_path / "class"
    (students / "bob").mkdir(parents=True)
    (students / "ada.karel").write_text(CLEAN)
    (students / "bob" / "row.txt").write_text(WRONG)
    (students / "cy.py").write_text("def main():\n    mvoe()\n")
    (students / "dan.py").write_bytes(b"\xff\xfe\x00")
    (students / "notes.md").write_text("not a program")
    return tmp_path


def test_messages_for_teachers(folder: Path) -> None:
    (folder / "class" / "two\nlines.karel").write_text(CLEAN)
    assert "two lines" in call("grade", "clean.task", "class").stdout
    wrong = call("probe", "clean.task", "--reference", "class/bob/row.txt").exception
    assert "wrong on example 1. At row 2, column 5 there should be no marker, but there is 1." in str(wrong)
    assert "--concepts names at least one" in str(call("pose", "--concepts", " , ", "--out", "new").exception)
    assert not (folder / "new").exists()
    (folder / "one.task").write_text(render_task(Task(TASK.examples[2:3])))
    (folder / "hidden.task").write_text(render_task(Task(TASK.examples[3:])))
    (folder / "row.karel").write_text("def run():\n  move()\n  move()\n  move()")
    assert "but wrong on a hidden one" in call("hint", "one.task", "row.karel", "--hidden", "hidden.task").stdout


def test_grade_a_folder(folder: Path) -> None:
    result = call("grade", "clean.task", "class", "--explain")
    assert result.exit_code == 1
    for words in ("1 of 4 programs are right", "bob/row, example 1", "mvoe", "not UTF-8", "At row 2, column 5"):
        assert words in result.stdout
    assert call("grade", "clean.task", "right.karel", "--fresh", "5", "--reference", "right.karel").exit_code == 0


def test_grade_as_data(folder: Path) -> None:
    result = call("grade", "clean.task", "class", "--hidden", "clean.task", "--csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [(row["student"], row["passed"], row["hidden right"]) for row in rows] == [
        ("ada", "1", "4"), ("bob/row", "0", "2"), ("cy", "0", "0"), ("dan", "0", "0"),
    ]  # fmt: skip
    assert call("grade", "clean.task", "class", "--json", "--out", "grades.json").exit_code == 1
    report = json.loads((folder / "grades.json").read_text())
    assert [each["passed"] for each in report["grades"]] == [True, False, False, False]
    (folder / "empty").mkdir()
    assert "no programs in it" in str(call("grade", "clean.task", "empty").exception)


def test_a_file_s_name_is_no_formula_in_a_spreadsheet(folder: Path) -> None:
    (folder / "=1+1.karel").write_bytes(b"\xff")
    (row,) = csv.DictReader(io.StringIO(call("grade", "clean.task", "=1+1.karel", "--csv").stdout))
    assert row["student"] == "'=1+1"
    assert row["problem"].startswith("'=1+1.karel: not UTF-8")


def test_hint_has_levels(folder: Path) -> None:
    first = call("hint", "clean.task", "class/bob/row.txt").stdout
    assert "Look at line 4" in first
    assert "again and again" not in first
    assert "again and again" in call("hint", "clean.task", "class/bob/row.txt", "--level", "2").stdout
    result = call("hint", "clean.task", "class/bob/row.txt", "--level", "3", "--out", "fixed.txt")
    assert result.exit_code == 0
    assert "+    while(markersPresent):" in result.stdout
    assert (folder / "fixed.txt").read_text() == CLEAN + "  # one\n"
    assert "is right" in call("hint", "clean.task", "right.karel").stdout
    assert json.loads(call("hint", "clean.task", "class/bob/row.txt", "--json").stdout)["kind"] == "repair"


def test_a_hint_without_a_program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karelsynth.cli.tutor.load_solver", lambda *_: None)
    monkeypatch.setattr("karelsynth.tutor.hint.right_programs", lambda _: lambda *_: [Program.parse(CLEAN)])
    (folder / "new.karel").write_text("# me\n")
    result = call("hint", "clean.task", "new.karel", "--level", "3", "--out", "begun.karel")
    assert result.exit_code == 0
    assert "Begin with `while(frontIsClear): move()`." in result.stdout
    assert "hidden" not in result.stdout
    assert (folder / "begun.karel").read_text() == "# me\ndef run():\n  while(frontIsClear):\n    move()\n"
    result = CliRunner().invoke(app, ["hint", "clean.task", "-"], input="def run():\n")
    assert result.stdout.startswith("Nothing is written yet.")
    monkeypatch.setattr("karelsynth.tutor.hint.right_programs", lambda _: lambda *_: [])
    assert "Nothing is written yet, and no right program" in call("hint", "clean.task", "new.karel").stdout


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="pipes have no names")
def test_a_hint_for_a_program_from_a_pipe(folder: Path) -> None:
    out, into = os.pipe()
    os.write(into, CLEAN.encode())
    os.close(into)
    assert "is right" in call("hint", "clean.task", f"/dev/fd/{out}").stdout
    os.close(out)


def test_probe_and_pose(folder: Path) -> None:
    arguments = ("probe", "clean.task", "--reference", "right.karel", "--programs", "1")
    result = call(*arguments, "--add", "--out", "more.task")
    assert result.exit_code == 0
    assert read_tasks("more.task")[0].examples[: len(TASK.examples)] == TASK.examples
    result = call("pose", "--like", "clean.task", "--reference", "right.karel", "--count", "2", "--out", "sheets")
    assert result.exit_code == 0, result.output
    names = {path.name for path in (folder / "sheets").iterdir()}
    assert {"tasks.jsonl", "worksheet.html", "worksheet.pdf", "solutions.html", "solutions.pdf"} <= names
    for task, program in zip(
        sorted((folder / "sheets").glob("*.task")), sorted((folder / "sheets" / "solutions").iterdir()), strict=True
    ):
        assert call("grade", str(task), str(program)).exit_code == 0
    assert len(read_tasks(folder / "sheets" / "tasks.jsonl")) == 2
    assert isinstance(call("pose", "--like", "clean.task", "--out", "sheets").exception, KarelsynthError)
    for like, reference in (("none.task", "right.karel"), ("clean.task", "class/bob/row.txt")):
        assert call("pose", "--like", like, "--reference", reference, "--out", "new").exit_code == 1
    unused = call("pose", "--like", "clean.task", "--concepts", "while", "--out", "new")
    assert "leave out --concepts and --tokens with --like" in str(unused.exception)
    many = call("pose", "--count", "51", "--out", "new")
    assert "--count is at most 50" in str(many.exception)
    assert not (folder / "new").exists()
    wrong = call("grade", "clean.task", "class", "--fresh", "2", "--reference", "class/bob/row.txt").exception
    assert "the reference is wrong on example 1." in str(wrong)


def test_the_benchmark_in_small() -> None:
    """Single mistakes in a few exercises: nearly all are repaired with one edit, generally."""
    exercises = benchmark.read_exercises(["hurdles", "thin-out", "gallery/clean-the-row", "gallery/fence-the-room"])
    assert len(exercises) == 4
    mutants = [each for each in benchmark.make_mutants(exercises, 36, seed=5) if len(each.kinds) == 1]
    rows = [benchmark.measure(each) for each in mutants]
    figures = benchmark.summaries(rows)[0]
    assert figures["mutants"] == len(mutants) == 12
    assert figures["within"] >= 0.9
    assert figures["general"] >= 0.8
    assert Program.parse(rows[0]["program"]) == mutants[0].program
    assert list(mutants) == [each for each in benchmark.make_mutants(exercises, 36, seed=5) if len(each.kinds) == 1]
