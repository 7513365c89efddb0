"""Hints: the nearest right program, in the student's own text, in words."""

from __future__ import annotations

import math
import random
import re

import pytest

from karelsynth.karel.dialects import convert, read_source
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import TOKENS
from karelsynth.karel.world import World
from karelsynth.tasks.task import Task
from karelsynth.tutor.edits import EditedCode, edits, flat_tokens
from karelsynth.tutor.hint import HINT_SECONDS, Hint, find_hint
from karelsynth.tutor.nearest import NearestSearch, token_distances
from karelsynth.tutor.rewrite import rewritten
from karelsynth.tutor.wording import hint_steps
from tests.posed import CLEAN, PATIENT, TASK, by
from tests.strategies import random_program, with_helpers


def hint_for(text: str, task: Task = TASK) -> Hint:
    return find_hint(task, read_source(text), seconds=PATIENT)


def test_a_right_program_needs_no_hint() -> None:
    hint = hint_for(CLEAN)
    assert (hint.kind, hint.steps, hint.text, hint.report) == ("right", (), None, None)


def test_the_change_is_in_the_students_own_text() -> None:
    text = """\
# Ada's program
from stanfordkarel import *

def take_all():   # a helper
    if beepers_present():  # some here?
        pick_beeper()

def main():
    # go on
    while front_is_clear():
        move(); take_all()

if __name__ == "__main__":
    run_karel_program()
"""
    hint = hint_for(text)
    assert hint.kind == "repair"
    assert hint.edits == 1
    assert hint.text == text.replace("if beepers_present():  #", "while beepers_present():  #")
    (step,) = hint.steps
    assert step.line == 5
    assert step.where == "Look at line 5, `if beepers_present(): pick_beeper()`."
    assert step.kind == "This happens only once, but it has to happen again and again."
    assert step.change == "Make a loop of it: `while` instead of `if` in line 5."
    assert [line for line in hint.change if line[0] in "+-"] == [
        "-    if beepers_present():  # some here?",
        "+    while beepers_present():  # some here?",
    ]
    assert hint.example == 1
    assert hint.report is not None
    assert not hint.report.right


@pytest.mark.parametrize(
    ("old", "new", "line", "kind"),
    [
        ("while(frontIsClear)", "while(not frontIsClear)", 2, "The test of this loop is the wrong way round."),
        ("while(frontIsClear)", "while(leftIsClear)", 2, "This loop tests the wrong thing."),
        ("while(frontIsClear)", "if(frontIsClear)", 2, "This happens only once, but it has to happen again and again."),
        ("pickMarker()", "putMarker()", 5, "Putting and picking are mixed up here."),
        ("    move()\n", "    move()\n    turnLeft()\n", 4, "This is one statement too many."),
        (
            "    while(markersPresent):\n      ",
            "    ",
            4,
            "This has to happen again and again while there is a marker.",
        ),
        (
            "    while(markersPresent):\n      pickMarker()",
            "",
            3,
            "Here a loop is missing: something has to happen again and again while there is a marker.",
        ),
    ],
)
def test_common_mistakes_in_words(old: str, new: str, line: int, kind: str) -> None:
    hint = hint_for(CLEAN.replace(old, new))
    assert hint.kind == "repair"
    assert [(step.line, step.kind) for step in hint.steps] == [(line, kind)]
    assert hint.program == Program.parse(CLEAN)


def test_line_ends_and_words_stay_the_students() -> None:
    lines = (
        "def main():",
        "\twhile  not front_is_blocked():",
        "\t\tmove()",
        "\tif  not beepers_present():",
        "\t\tpick_beeper()",
    )
    task = by("def run():\n  while(frontIsClear): move()\n  pickMarker()", World.parse("> . 2\n. . ."))
    hint = hint_for("\r\n".join((*lines, "")), task)
    assert hint.text is not None
    assert hint.text.count("\n") == hint.text.count("\r\n") > 0
    assert "\r\n".join(lines[:3]) in hint.text
    assert "while" not in "".join(line for line in hint.change if line[0] in "+-")
    assert any("`if  not beepers_present(): pick_beeper()`" in step.where for step in hint.steps)


def test_off_by_one_and_missing_last_action() -> None:
    rows = [World.parse("> . . . . .\n. . . . . ."), World.parse(". . . . . . .\n^ . . . . . .\n" + ". " * 7)]
    task = by("def run():\n  repeat(4):\n    putMarker()\n    move()", rows[0])
    hint = hint_for("def run():\n  repeat(3):\n    putMarker()\n    move()", task)
    assert [step.kind for step in hint.steps] == ["This loop stops one round early."]
    assert hint.steps[0].change == "Repeat 4 times instead of 3 in line 2."
    task = by("def run():\n  while(frontIsClear):\n    putMarker()\n    move()\n  putMarker()", *rows)
    hint = hint_for("def run():\n  while(frontIsClear):\n    putMarker()\n    move()", task)
    assert (
        hint.steps[0].kind == "When this loop ends, an action is still missing: it stops before the last place is done."
    )
    assert hint.text == "def run():\n  while(frontIsClear):\n    putMarker()\n    move()\n  putMarker()"


def test_a_loop_with_something_else_behind_it_does_not_stop_early() -> None:
    walk = "def run():\n  while(frontIsClear):\n    move()"
    task = by(f"{walk}\n  turnLeft()", *map(World.parse, ("> . . .\n. . . .", "> . .\n. . .\n. . .")))
    assert [step.kind for step in hint_for(walk, task).steps] == ["When this loop ends, a turn is still missing."]


def test_several_statements_are_put_inside_a_loop() -> None:
    task = by("def run():\n  while(frontIsClear):\n    putMarker()\n    move()", World.parse("> . . .\n. . . ."))
    (step,) = hint_for("def run():\n  putMarker()\n  move()", task).steps
    assert step.change == "Put 2 statements, from `putMarker()` in line 2 on, inside `while(frontIsClear)`."


def test_three_mistakes() -> None:
    wrong = CLEAN.replace("while(front", "if(not front").replace("pickMarker", "putMarker")
    hint = hint_for(wrong)
    assert hint.kind == "repair"
    assert hint.edits <= 3
    assert hint.program is not None
    for example in TASK.examples:
        assert hint.program.run(example.input).world == example.output


def test_a_first_right_turn_in_classroom_python_brings_its_function() -> None:
    task = by("def run():\n  turnRight()\n  move()", World.parse("> . .\n. . .\n. . ."))
    hint = hint_for("def main():\n    turn_left()\n    move()\n", task)
    assert hint.text is not None
    assert "def turn_right():" in hint.text
    assert hint.program == read_source(hint.text).program


def test_a_student_who_is_far_off_gets_one_step_towards_a_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Program.parse(CLEAN)
    source = read_source("def run():\n  putMarker()")
    monkeypatch.setattr("karelsynth.tutor.hint.FAR", 0)  # so that no way of three edits is sought
    monkeypatch.setattr("karelsynth.tutor.hint.FIRST_PROGRAMS", 1)
    hint = find_hint(TASK, source, solve=lambda task, seconds: [answer], seconds=PATIENT)
    assert hint.kind == "step"
    assert len(hint.steps) == 1
    assert hint.program is not None
    before, after = token_distances([bytes(source.program.token_ids), bytes(hint.program.token_ids)],
                                    bytes(answer.token_ids))  # fmt: skip
    assert after < before


def test_right_programs_of_the_solver_show_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three edits that the search alone does not find in so few programs."""
    monkeypatch.setattr("karelsynth.tutor.hint.FIRST_PROGRAMS", 1)
    source = read_source(CLEAN.replace("while(front", "if(not front").replace("pickMarker", "putMarker"))
    alone = NearestSearch(EditedCode(source).bodies, *TASK.codes(), seconds=PATIENT)
    alone.run(until=math.inf, programs=1)
    assert alone.repairs == ()
    hint = find_hint(TASK, source, solve=lambda task, seconds: [Program.parse(CLEAN)], seconds=PATIENT)
    assert (hint.kind, hint.edits) == ("repair", 3)
    alone.run(until=math.inf)
    assert hint.tried < alone.tried


class BusyClock:
    """The clock of a busy machine: a tenth of a second passes whenever somebody looks at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.1
        return self.now


@pytest.mark.parametrize("answers", [[], [Program.parse("def run(): move()")]])
def test_a_hint_ends_in_time(answers: list[Program]) -> None:
    """Its parts share one deadline, and the solver gets no more than what is left."""
    clock, given = BusyClock(), []

    def solve(task: Task, seconds: float) -> list[Program]:
        given.append((clock.now, seconds))
        clock.now += seconds
        return answers

    text = "def run():\n" + "  turnLeft()\n  move()\n" * 40  # has more neighbours than are run in time
    hint = find_hint(TASK, read_source(text), solve=solve, clock=clock)
    assert hint.seconds < 2
    assert len(given) == 1
    assert all(began + seconds <= 0.1 + HINT_SECONDS for began, seconds in given)


def test_long_runs_are_run_few_at_a_time() -> None:
    tried = []
    for times in (1, 19):
        text = "def run():\n" + "".join(f"{'  ' * depth}repeat({times}):\n" for depth in (1, 2, 3, 4))
        code = EditedCode(read_source(text + "          turnLeft()\n          turnRight()"))
        search = NearestSearch(code.bodies, *TASK.codes(), seconds=PATIENT)
        search.run(until=math.inf, programs=1)  # until the clock is read first
        tried.append(search.tried)
    assert tried[0] > 3 * tried[1]


def test_hidden_examples_count_but_are_not_shown() -> None:
    short = Task(TASK.examples[2:3])
    text = "def run():\n  while(frontIsClear):\n    move()"
    assert find_hint(short, read_source(text)).kind == "right"
    hint = find_hint(short, read_source(text), hidden=TASK.examples, seconds=PATIENT)
    assert hint.kind == "repair"
    assert hint.report is None


def test_levels_of_the_json_form() -> None:
    hint = hint_for(CLEAN.replace("pickMarker", "putMarker"))
    assert set(hint.to_json(1)["steps"][0]) == {"line", "where"}
    assert hint.to_json(2)["text"] is None
    assert hint.to_json(3)["text"] == CLEAN


@pytest.mark.parametrize("seed", range(12))
def test_every_edit_can_be_written_and_said(seed: int) -> None:
    """Random programs with helpers and comments: the changed text means the changed program, comments stay, and lines
    before the change do not move."""
    rng = random.Random(seed)
    text, _ = with_helpers(random_program(rng, depth=2), rng)
    if seed % 3:
        text = convert(text, ("", "stanford", "tokens")[seed % 3]).text
    source = read_source(text)
    code = EditedCode(source)
    assert flat_tokens(code.bodies) == bytes(source.program.token_ids)
    every = list(edits(code.bodies))
    fallbacks = 0
    for edit in rng.sample(every, min(60, len(every))):
        edited = EditedCode(source)
        (step,) = hint_steps(source, edited, (edit,))
        assert 1 <= step.line <= len(source.lines)
        assert step.where.startswith("Look at")
        assert step.kind.endswith(".")
        assert step.change.endswith(".")
        if source.dialect == "tokens":
            said = f"{step.where} {step.change}"
            assert "line" not in said
            assert all(set(code.split()) <= {*TOKENS, "…"} for code in re.findall("`(.*?)`", said))
        program = Program.from_tokens(list(flat_tokens(edited.bodies)))
        new = rewritten(source, edited.functions(), program)
        assert read_source(new).program == program
        if edit.kind not in ("delete", "unwrap", "drop else", "count", "swap"):
            kept = set(re.findall(r"# above \d+", text)) <= set(re.findall(r"# above \d+", new))
            fallbacks += not kept
    assert fallbacks == 0


def test_distances_are_levenshteins() -> None:
    rows = [b"abc", b"", b"xbcd", b"abcd", b"dcba"]
    assert token_distances(rows, b"abcd").tolist() == [1, 4, 1, 0, 4]


def test_a_head_in_tokens_is_quoted_whole() -> None:
    source = read_source("DEF run m( WHILE c( not c( frontIsClear c) c) w( move turnLeft w) m)")
    code = EditedCode(source)
    turned = next(edit for edit in edits(code.bodies) if edit.kind == "condition")
    (step,) = hint_steps(source, code, (turned,))
    assert step.where == "Look at `WHILE c( not c( frontIsClear c) c)`."
