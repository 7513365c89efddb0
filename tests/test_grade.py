"""Grading: right or wrong on every example, and what went wrong, in the student's own lines."""

from __future__ import annotations

import pytest

from karelsynth.errors import KarelsynthError, ProgramSyntaxError
from karelsynth.karel.dialects import read_source
from karelsynth.karel.interpreter import Status
from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.tasks.task import Example, Task
from karelsynth.tasks.variations import fresh_examples
from karelsynth.tutor.explain import explain_run
from karelsynth.tutor.grade import Grade, Submission, grade
from tests.posed import CLEAN, TASK, by

STANFORD = "def take():\n    pick_beeper()  # one\n\ndef main():\n    while front_is_clear(): move(); take()\n"


def graded(*texts: str, task: Task = TASK) -> list[Grade]:
    return grade(task, [Submission(f"student {number}", text) for number, text in enumerate(texts, 1)])


def test_a_class_with_every_kind_of_program() -> None:
    right, syntax, wrong, same, long = graded(CLEAN, "def run():\n  mvoe()", STANFORD, CLEAN, "#" * 200_000)
    assert right.passed
    assert right.right == same.right == (True,) * 4
    assert isinstance(syntax.problem, ProgramSyntaxError)
    assert (syntax.passed, syntax.right, syntax.first_wrong) == (False, (False,) * 4, None)
    assert (wrong.passed, wrong.first_wrong) == (False, 0)
    assert "too long" in str(long.problem)
    with pytest.raises(KarelsynthError, match="no program"):
        syntax.report(0)


def test_a_problem_on_one_line_names_the_word_that_was_meant() -> None:
    grades = grade(TASK, [Submission("a", "def run():\n  mvoe()"), Submission("b", ""), Submission("c", CLEAN)])
    assert [each.problem_line for each in grades] == [
        "line 2, column 3: unknown word `mvoe`; did you mean `move`?",
        "line 1, column 1: the program is empty; expected `def run():`",
        "",
    ]


def test_a_crash_names_the_students_line() -> None:
    (each,) = graded(STANFORD)
    report = each.report(0)
    assert report.status is Status.NO_MARKER_TO_PICK
    assert report.step is not None
    assert (report.step.number, report.step.line, report.step.code) == (2, 2, "pick_beeper()")
    assert report.sentences == ("Step 2, line 2: `pick_beeper()` picks at row 2, column 2, where there is no marker.",)


def test_an_endless_loop_is_named() -> None:
    (each,) = graded("def run():\n  while(noMarkersPresent):\n    turnLeft()")
    assert each.report(0).sentences[0].startswith("An endless loop")


def test_the_step_that_went_wrong() -> None:
    task = by("def run():\n  repeat(2):\n    putMarker()\n    move()", World.parse("> . . .\n. . . ."))
    source = read_source("def run():\n  repeat(3):\n    putMarker()\n    move()")
    report = explain_run(source, task.examples[0])
    assert report.step is not None
    assert (report.step.number, report.step.line) == (5, 3)
    assert report.cells == ((1, 2), (1, 3))
    assert report.sentences == (
        "Step 5, line 3: `putMarker()` puts a marker at row 2, column 3, which should have no marker in the end.",
        "Karel ends at row 2, column 4 instead of row 2, column 3.",
        "At row 2, column 3 there should be no marker, but there is 1.",
    )
    unfinished = explain_run(read_source("def run():\n  move()\n  move()"), task.examples[0])
    assert unfinished.step is None


def test_hidden_and_fresh_examples() -> None:
    walk = "def run():\n  while(frontIsClear):\n    move()"
    short = Task(TASK.examples[2:3])
    fresh = fresh_examples(TASK, Program.parse(CLEAN), count=10, seed=3)
    assert fresh == fresh_examples(TASK, Program.parse(CLEAN), count=10, seed=3)
    assert len(fresh) == len(set(fresh)) == 10
    for before, after in fresh:
        assert Program.parse(CLEAN).run(before).world == after
    assert not {example.input for example in fresh} & {example.input for example in TASK.examples}
    (each,) = grade(short, [Submission("eve", walk)], hidden=[*TASK.examples, *fresh])
    assert each.right == (True,)
    assert not each.passed
    assert each.first_wrong == 1
    plain = each.to_json()
    assert (plain["right"], plain["passed"], plain["reports"]) == ([True], False, [])


def test_equal_reports_for_equal_worlds() -> None:
    """A right run has no differences, whatever way it took."""
    report = explain_run(read_source(CLEAN), Example(*TASK.examples[0]))
    assert (report.right, report.cells, report.step) == (True, (), None)
    assert report.to_json()["explanation"] == "right"
