"""Grading a whole lesson: students' files, and the work that they save on the page."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from karelsynth.tutor.challenges import is_challenge_set, parse_challenges
from karelsynth.tutor.lesson import WorkFileError, class_files, grade_lesson, parse_work, read_class_work
from tests.command_line import attempt as call

WALK = "def run():\n  while(frontIsClear):\n    move()"
STEP = "def run():\n  move()"
LONG = {"input": "> . .\n. . .", "output": ". . >\n. . ."}
SHORT = {"input": "> .\n. .", "output": ". >\n. ."}
LESSON = {
    "karelsynth": "challenges",
    "title": "Week 1",
    "challenges": [
        {"name": "1. Walk to the wall", "examples": [SHORT], "hidden": [LONG], "reference": WALK},
        {"name": "One step", "examples": [SHORT]},
    ],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lesson.json").write_text(json.dumps(LESSON))
    for name, text in {
        "ada/1.karel": WALK,
        "ada/one-step.py": STEP,
        "ben smith_walk-to-the-wall.txt": STEP,
        "ben smith-task2.karel": "def run(",
        "cleo.json": json.dumps(work("Cléo", (1, "1. Walk to the wall", STEP), (2, "One step", WALK))),
        "cleo (1).json": json.dumps(work("Cléo", (1, "1. Walk to the wall", WALK), (9, "Elsewhere", WALK))),
        "what.karel": WALK,
        "other.json": "{}",
    }.items():
        file = tmp_path / "class" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def work(student: str, *programs: tuple[int, str, str]) -> dict[str, Any]:
    handed_in = [{"number": number, "name": name, "program": text, "hints": 1} for number, name, text in programs]
    return {"karelsynth": "work", "student": student, "title": "Week 1", "programs": handed_in}


def test_a_lesson_is_graded_by_student_and_task(folder: Path) -> None:
    result = call("grade", "lesson.json", "class", "--csv")
    assert result.exit_code == 1
    rows = list(csv.reader(io.StringIO(result.stdout)))
    assert rows == [
        ["student", "solved", "of", "1. Walk to the wall", "2. One step"],
        ["ada", "2", "2", "1", "1"],
        ["ben smith", "0", "2", "0", "0"],
        ["Cléo", "2", "2", "1", "1"],  # the better of two programs counts
    ]
    assert "what.karel: for which challenge is it?" in result.stderr
    assert "other.json: this is no student's work" in result.stderr
    shown = call("grade", "lesson.json", "class").stdout
    for words in ("1 of 2", "no program", "solved by", "ben smith, 1. Walk to the wall, hidden example 1"):
        assert words in shown
    report = json.loads(call("grade", "lesson.json", "class", "--json").stdout)
    assert report["tasks"] == ["1. Walk to the wall", "2. One step"]
    assert [each["hints"] for each in report["students"]] == [[None, None], [None, None], [1, 1]]
    assert call("grade", "lesson.json", "class/ada/1.karel", "class/cleo.json", "--fresh", "3").exit_code == 1


def test_one_task_of_a_lesson_has_its_hidden_tests(folder: Path) -> None:
    result = call("grade", "lesson.json#1", "class/cleo.json", "class/ada/1.karel", "--csv", "--fresh", "2")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [(row["student"], row["passed"], row["hidden"]) for row in rows] == [("Cléo", "0", "3"), ("ada", "1", "3")]
    result = call("grade", "lesson.json#2", "class", "--csv")
    names = [row["student"] for row in csv.DictReader(io.StringIO(result.stdout))]
    assert names == ["ada", "ben smith", "Cléo", "other", "what"]  # nothing says that `what` is for another task
    assert "left out: 2 for other tasks" in result.stderr
    assert "is right" in call("hint", "lesson.json#2", "class/ada/one-step.py").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["lesson.json", "class", "--hidden", "lesson.json#1"],
            "--hidden belongs to one task, and lesson.json holds 2",
        ),
        (["lesson.json#3", "class"], "there is no task 3; it holds 2"),
        (["lesson.json", "empty"], "no students' work in it"),
        (["lesson.json", "class/what.karel"], "there is no program for this lesson"),
    ],
)
def test_files_that_cannot_be_graded_are_named(folder: Path, arguments: list[str], message: str) -> None:
    (folder / "empty").mkdir()
    assert message in str(call("grade", *arguments).exception)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "no student's work"),
        ("{", "no student's work"),
        ('{"karelsynth": "work", "student": 3, "programs": []}', "must be a text"),
        ('{"karelsynth": "work", "programs": [3]}', "program 1: expected"),
        (json.dumps(work("A", (1, "Elsewhere", WALK))), "none of its programs"),
    ],
)
def test_damaged_work_is_one_message(text: str, message: str) -> None:
    with pytest.raises(WorkFileError, match=message):
        parse_work(text, parse_challenges(json.dumps(LESSON)))


def test_files_that_are_named_one_by_one_keep_their_students(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "class" / "ben").mkdir()
    (folder / "class" / "ben" / "1.karel").write_text(STEP)
    alone = ["class/ada/1.karel", "class/ben/1.karel", "class/ada/one-step.py"]
    rows = list(csv.reader(io.StringIO(call("grade", "lesson.json", *alone, "--csv").stdout)))
    assert rows[1:] == [["ada", "2", "2", "1", "1"], ["ben", "0", "2", "0", ""]]
    (folder / "one.json").write_text(json.dumps({**LESSON, "challenges": LESSON["challenges"][:1]}))
    rows = list(csv.reader(io.StringIO(call("grade", "one.json", *alone, "--csv").stdout)))
    assert [row[0] for row in rows[1:]] == ["class/ada/1", "class/ben/1", "one-step"]
    monkeypatch.chdir(folder / "class" / "ada")
    assert "ada,1,2,1," in call("grade", "../../lesson.json", "1.karel", "--csv").stdout


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_pipes_and_folders_in_a_class_s_folder_are_left_out(folder: Path) -> None:
    files = class_files(["class"])
    os.mkfifo(folder / "class" / "ada" / "2.karel")  # to read it would take forever
    (folder / "class" / "ada" / "3.py").mkdir()
    assert class_files(["class"]) == files


def test_names_come_from_the_file_where_there_are_none(folder: Path) -> None:
    lesson = parse_challenges(json.dumps(LESSON))
    (folder / "class" / "eve.json").write_text(json.dumps(work("", (1, "1. Walk to the wall", WALK))))
    handed_in, unknown = read_class_work(["class/eve.json"], lesson)
    assert not unknown
    assert [each.name for each in grade_lesson(lesson, handed_in)] == ["eve"]
    assert is_challenge_set("lesson.json")
    assert not is_challenge_set("class/eve.json")
    assert not is_challenge_set("class")
