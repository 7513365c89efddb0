"""Probing tasks for wrong programs that pass, and posing exercises without them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from karelsynth.errors import KarelsynthError
from karelsynth.karel.machine import run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.tasks.task import Example, Task
from karelsynth.tutor.pose import (
    PosedExercise,
    Wish,
    concepts_of,
    difficulty_of,
    mirrored_block,
    mirrored_world,
    pose,
    variants,
)
from karelsynth.tutor.probe import as_source, differing, impossible_examples, probe, unmasking_world
from karelsynth.tutor.worksheet import sheet_html, sheet_pdf
from tests.posed import CLEAN, MOVED, TASK, by

WALK = Program.parse("def run():\n  while(frontIsClear):\n    move()")


def test_wrong_programs_that_pass_are_found_and_unmasked() -> None:
    task = by(str(WALK), World.parse("> . .\n. . ."))  # so does `move(); move()`
    report = probe(task, WALK, programs=1)
    assert not report.well_posed
    for impostor in report.impostors:
        assert all(impostor.program.run(before).world == after for before, after in task.examples)
        outcome = impostor.program.run(impostor.world, max_ticks=10_000)
        assert WALK.run(impostor.world).world == impostor.expected
        assert outcome.world == impostor.actual
        assert not outcome.ok or outcome.world != impostor.expected
        told = "Karel ends at row " if outcome.ok else f"It {outcome.explain()}."
        assert impostor.explanation.startswith(told)
        assert impostor.world.rows * impostor.world.cols <= 6
    assert Program.parse("DEF run m( move move m)") in [each.program for each in report.impostors]
    assert "def main():" in report.to_json("stanford")["impostors"][0]["program"]


def test_added_worlds_leave_none() -> None:
    task = by(str(WALK), World.parse("> . .\n. . ."))
    report = probe(task, WALK, add=True, programs=1)
    assert report.well_posed
    assert report.task.examples == (*task.examples, *report.added)
    assert 1 <= len(report.added) <= 8
    assert all(WALK.run(before).world == after for before, after in report.task.examples)


def test_a_task_with_added_worlds_is_clear_when_it_is_probed_again() -> None:
    task, clean = Task(TASK.examples[:1]), Program.parse(CLEAN)
    once = probe(task, clean, add=True, programs=20_000, thorough=False)
    assert not probe(once.task, clean, programs=20_000).well_posed
    report = probe(task, clean, add=True, programs=20_000)
    assert report.tried > 40_000
    assert len(report.task.examples) <= 20
    assert probe(report.task, clean, programs=20_000).well_posed


def slow_clock() -> Callable[[], float]:
    """A clock of a machine so busy that a minute passes between any two looks at it."""
    return itertools.count(step=60.0).__next__


def test_a_busy_machine_finds_the_same() -> None:
    task = by(str(WALK), World.parse("> . .\n. . ."))
    quiet, busy = (replace(probe(task, WALK, programs=20_000, clock=clock), seconds=0.0)
                   for clock in (float, slow_clock()))  # fmt: skip
    assert quiet == busy
    assert quiet.tried > 20_000 > probe(task, WALK, programs=20_000, seconds=30, clock=slow_clock()).tried
    wish = Wish(frozenset({"while"}), (8, 16))
    assert pose(wish, count=2, seed=7, clock=float) == pose(wish, count=2, seed=7, clock=slow_clock())


def test_outputs_that_cannot_be_reached() -> None:
    closed = World.parse(". # .\n> # 1")
    elsewhere = closed.with_hero(0, 2, "east")
    fewer = World(2, 3, closed.hero, closed.walls, {})
    assert [number for number, _ in impossible_examples(Task((Example(closed, elsewhere),)))] == [1]
    ((_, reason),) = impossible_examples(Task((Example(closed, fewer),)))
    assert reason == "the markers at row 1, column 3 change, but walls keep Karel from getting there"
    assert impossible_examples(TASK) == []
    with pytest.raises(KarelsynthError, match="example 1 cannot be done by any program"):
        probe(Task((Example(closed, elsewhere),)), WALK)


def test_a_wrong_reference_is_refused() -> None:
    with pytest.raises(KarelsynthError, match="the reference is wrong on example 1"):
        probe(TASK, WALK)


def test_a_mutant_that_slips_through_is_unmasked() -> None:
    mutant = Program.parse(CLEAN.replace("while(markers", "if(markers"))
    task = Task(TASK.examples[2:4])
    assert all(mutant.run(before).world == after for before, after in task.examples)
    world = unmasking_world(task, Program.parse(CLEAN), mutant)
    assert world is not None
    assert mutant.run(world).world != Program.parse(CLEAN).run(world).world


def test_deprecated_names_still_work() -> None:
    mutant = Program.parse(CLEAN.replace("while(markers", "if(markers"))
    worlds = [example.input for example in TASK.examples]
    ends = [mutant.run(before).world != after for before, after in TASK.examples]
    assert differing(Program.parse(CLEAN), mutant, worlds).tolist() == ends
    assert any(ends)
    assert not all(ends)
    assert as_source(mutant).program == mutant


def test_posed_exercises_keep_the_wish() -> None:
    wish = Wish(frozenset({"while"}), (8, 16))
    exercises = pose(wish, count=3, seed=7)
    assert len(exercises) == 3
    assert [each.difficulty for each in exercises] == sorted(each.difficulty for each in exercises)
    for number, each in enumerate(exercises, 1):
        assert each.task.name.startswith(f"{number}. ")
        assert concepts_of(each.program) <= {"while", "nested"}
        assert 8 <= each.program.size <= 16
        inputs, outputs = each.task.codes()
        runs = run_batch([each.program], inputs, expected=outputs)
        assert runs.correct is not None
        assert runs.correct.all()
    page = sheet_html(exercises, "A <lesson>", solutions=True)
    assert page.count("<section>") == page.count("<pre>") == 3
    assert "A &lt;lesson&gt;" in page
    assert "<pre>" not in sheet_html(exercises, "A lesson", solutions=False)
    assert " id=" not in page  # drawings of one page that share ids would show each other's worlds
    assert page.count("<svg") == 2 * sum(len(each.task.examples) for each in exercises)
    assert sheet_pdf(exercises, "A lesson", solutions=True).startswith(b"%PDF")


def test_letters_that_no_font_has_lose_their_accents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karelsynth.karel.draw.raster._SYSTEM_FONTS", ())
    exercise = PosedExercise(Task((Example(MOVED, MOVED),)), Program.parse(CLEAN), 1.0)
    titles = ("Übung – 7b", "Ubung - 7b", "Ubung + 7b")
    drawn = [sheet_pdf([exercise], title, solutions=False).partition(b"\xff\xd8")[2] for title in titles]
    pictures = [pdf.partition(b"endstream")[0] for pdf in drawn]
    assert pictures[0] == pictures[1] != pictures[2]
    assert "Übung – 7b" in sheet_html([exercise], titles[0], solutions=False)


def test_worksheets_have_room_for_every_size() -> None:
    wide, tall, large = (
        World.parse("\n".join([". " * cols] * (rows - 1) + ["> " + ". " * (cols - 1)]))
        for rows, cols in ((2, 16), (16, 2), (16, 16))
    )
    for world, examples, pages in ((wide, 4, 1), (tall, 4, 1), (large, 1, 1), (large, 8, 4)):
        exercise = PosedExercise(Task((Example(world, world),) * examples), Program.parse(CLEAN), 1.0)
        for solutions in (False, True):
            assert sheet_pdf([exercise], "A", solutions=solutions).count(b"/Type /Page\n") == pages


@pytest.mark.parametrize(
    ("concepts", "shortest"),
    [
        ("sequence", "move"),
        ("while,ifelse", "WHILE c( frontIsClear c) w( IFELSE c( leftIsClear c) i( move i) ELSE e( move e) w)"),
        ("repeat,nested", "REPEAT R=2 r( REPEAT R=2 r( move r) r)"),
        ("if,while,nested", "IF c( frontIsClear c) i( WHILE c( frontIsClear c) w( move w) i)"),
    ],
)
def test_ranges_that_admit_no_program_are_refused(concepts: str, shortest: str) -> None:
    wished, size = frozenset(concepts.split(",")), Program.parse(f"DEF run m( {shortest} m)").size
    assert Wish(wished, (5, size)).fits(Program.parse(f"DEF run m( {shortest} m)"))
    if size > 5:
        with pytest.raises(KarelsynthError, match=f"at least {size} tokens, so 5-{size - 1} admits none"):
            Wish(wished, (5, size - 1))


def test_nested_alone_is_refused() -> None:
    with pytest.raises(KarelsynthError, match="name them, too"):
        Wish(frozenset({"nested"}))


def test_variants_of_a_task() -> None:
    reference = Program.parse(CLEAN)
    one, mirrored = variants(TASK, reference, count=2, seed=1)
    assert one.program == reference
    assert mirrored.program == Program(mirrored_block(reference.body))
    picks_first = "def run():\n  while(frontIsClear):\n    while(markersPresent):\n      pickMarker()\n    move()"
    for wrong in (CLEAN.replace("while(markers", "if(markers"), picks_first):
        assert any(Program.parse(wrong).run(before).world != after for before, after in one.task.examples)
    for each in (one, mirrored):
        assert all(each.program.run(before).world == after for before, after in each.task.examples)
        assert not set(each.task.examples) & set(TASK.examples)


def test_mirrors() -> None:
    turn = Program.parse("def run():\n  ifelse(not leftIsClear):\n    turnRight()\n  else:\n    turnLeft()\n    move()")
    twice = mirrored_block(mirrored_block(turn.body))
    assert twice == turn.body
    world = World.parse("^ 2 #\n. . .")
    assert mirrored_world(mirrored_world(world)) == world
    mirrored = Program(mirrored_block(turn.body))
    assert mirrored.run(mirrored_world(world)).world == mirrored_world(turn.run(world).world)


def test_concepts_and_difficulty() -> None:
    assert concepts_of(Program.parse("def run(): move()")) == {"sequence"}
    assert concepts_of(Program.parse(CLEAN)) == {"while", "nested"}
    assert difficulty_of(WALK) < difficulty_of(Program.parse(CLEAN))
    with pytest.raises(KarelsynthError, match=r"no concept `whille`; .*did you mean `while`"):
        Wish(frozenset({"whille"}))
    with pytest.raises(KarelsynthError, match="a range of tokens"):
        Wish(frozenset({"while"}), (20, 10))
