"""The gallery: every task is what its reference program does, well posed, and rendered as the docs show it.

The reference programs are tests/golden/gallery/SLUG.karel; tools/gallery_worlds.py draws worlds for each of them.
`python tools/render_gallery.py` renders the docs again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from tools.drawn_tasks import DrawnTask, mutants, rights
from tools.gallery_worlds import PROGRAMS, WORLDS, gallery_tasks
from tools.render_gallery import PAGE, PICTURES, judged, page, picture, read_results, solve

import karelsynth
from karelsynth.errors import KarelsynthError
from karelsynth.karel.machine import run_batch
from karelsynth.karel.program import If, IfElse, Program, While
from karelsynth.solve.solution import Answer, Solution
from karelsynth.tasks.task import Task
from karelsynth.tasks.task_files import GalleryTask, gallery, gallery_task, render_task

SLUGS = [entry.slug for entry in gallery()]
each_task = pytest.mark.parametrize("entry", gallery(), ids=SLUGS)


def reference(slug: str) -> Program:
    return Program.parse((PROGRAMS / f"{slug}.karel").read_text(encoding="utf-8"), "paper")


def test_the_gallery_is_complete() -> None:
    assert len(SLUGS) >= 24
    assert len(set(SLUGS)) == len({entry.task.name for entry in gallery()}) == len(SLUGS)
    assert sorted(path.stem for path in PROGRAMS.iterdir()) == sorted(SLUGS) == sorted(WORLDS)


@each_task
def test_reference_program_does_it_and_every_branch_is_seen(entry: GalleryTask) -> None:
    inputs, outputs = entry.task.codes()
    program = reference(entry.slug)
    runs = run_batch([program], inputs, expected=outputs[None], coverage=True)
    assert runs.correct is not None
    assert runs.coverage is not None
    assert runs.correct.all(), f"not so in examples {np.flatnonzero(~runs.correct[0]) + 1}"
    branches = sum(isinstance(statement, While | If | IfElse) for _, statement in program.walk())
    seen = np.bitwise_or.reduce(runs.coverage[0], axis=0)
    assert seen.tolist() == [3] * branches


@each_task
def test_task_is_well_posed(entry: GalleryTask) -> None:
    task = entry.task
    assert 3 <= len(task.examples) <= 6
    assert len({example.input for example in task.examples}) == len(task.examples)
    assert all(example.input != example.output for example in task.examples)
    assert task.name
    assert task.about.endswith(".")


def test_no_shorter_program_of_the_gallery_does_the_same() -> None:
    """Examples that fit the program of an easier task would leave open which one is meant."""
    programs = [reference(slug) for slug in SLUGS]
    for entry, own in zip(gallery(), programs, strict=True):
        inputs, outputs = entry.task.codes()
        right = run_batch(programs, inputs, expected=outputs[None]).correct
        assert right is not None
        fitting = [program for program, fits in zip(programs, right, strict=True) if fits.all()]
        assert min(program.size for program in fitting) == own.size, entry.slug


@each_task
def test_deleting_a_part_of_the_program_shows(entry: GalleryTask) -> None:
    """Every action of the reference program is needed by some example."""
    tokens = list(reference(entry.slug).tokens)
    inputs, outputs = entry.task.codes()
    for at, _ in enumerate(tokens):
        shorter = tokens[:at] + tokens[at + 1 :]
        try:
            program = Program.from_tokens(shorter)
        except KarelsynthError:
            continue
        right = run_batch([program], inputs, expected=outputs[None]).correct
        assert right is not None
        assert not right.all(), f"token {at}, `{tokens[at]}`, is not needed"


@pytest.mark.parametrize("drawn", gallery_tasks(), ids=SLUGS)
def test_examples_tell_every_mutant_apart(drawn: DrawnTask) -> None:
    """A program one change away that is wrong on a fresh world is wrong on some example."""
    fresh = drawn.pairs(Random(f"a test of {drawn.name}"), 60)
    assert len(fresh) == 60
    assert rights([drawn.reference], fresh).all()
    others = mutants(drawn.reference)
    wrong = ~rights(others, fresh).all(axis=1)
    assert wrong.sum() > len(others) / 2
    fooled = rights(others, list(gallery_task(drawn.name).examples)).all(axis=1)
    assert not [others[at].to("paper") for at in np.flatnonzero(wrong & fooled)]


def test_the_order_is_from_easy_to_hard() -> None:
    sizes = [reference(slug).size for slug in SLUGS]
    third = len(sizes) // 3
    easy, middle, hard = sizes[:third], sizes[third:-third], sizes[-third:]
    assert sum(easy) / len(easy) < sum(middle) / len(middle) < sum(hard) / len(hard)
    assert sum(size < 30 for size in sizes) >= 0.8 * len(sizes), "most programs are as short as those of the data"


def test_by_name() -> None:
    assert gallery_task("hurdles").name == "Hurdles"
    for entry in gallery():
        for name in (entry.slug, entry.slug.title(), entry.task.name, f" {entry.task.name.upper()}"):
            assert gallery_task(name) == entry.task
    with pytest.raises(KarelsynthError, match="did you mean `walk-to-the-wall`"):
        gallery_task("Wlak to the Wall")
    with pytest.raises(KarelsynthError, match="no task `hurdels` in the gallery; did you mean `hurdles`"):
        gallery_task("hurdels")
    with pytest.raises(KarelsynthError, match="it has first-marker, "):
        gallery_task("zzz")


def test_files_are_as_they_would_be_written() -> None:
    folder = Path(karelsynth.__file__).parent / "tasks" / "gallery_tasks"
    for entry, path in zip(gallery(), sorted(folder.glob("*.task")), strict=True):
        assert path.stem.partition("-")[2] == entry.slug
        assert path.read_text(encoding="utf-8") == render_task(entry.task)


def test_docs_are_rendered_from_the_files() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(read_results())
    assert sorted(path.stem for path in PICTURES.iterdir()) == sorted(SLUGS)
    for entry in gallery():
        drawn = picture(entry)
        assert (PICTURES / f"{entry.slug}.svg").read_text(encoding="utf-8") == drawn
        assert len(list(ElementTree.fromstring(drawn).iter())) > 20


class Halfway:
    """A solver that knows the programs of hurdles alone."""

    @classmethod
    def load(cls) -> Halfway:
        return cls()

    def warm_up(self) -> None:
        """There is nothing to compile."""

    def solve(self, task: Task, budget: float) -> Solution:
        knows = task == gallery_task("hurdles")
        answers = (Answer(reference("hurdles"), (knows,) * len(task.examples), -1.0),)
        return Solution(answers, knows, None, seconds=budget / 2, beam=1, checked=1)


def test_solving_for_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "karelsynth.solve.solver", SimpleNamespace(Solver=Halfway))
    rows = {row["slug"]: row for row in judged(solve(budget=0.5))}
    assert list(rows) == SLUGS
    assert rows["hurdles"] == {
        "slug": "hurdles", "solved": True, "budget": 0.5, "seconds": 0.25,
        "program": reference("hurdles").to("paper"), "right": 100, "fresh": 100,
    }  # fmt: skip
    assert rows["maze"] == {
        "slug": "maze", "solved": False, "budget": 0.5, "seconds": 0.25,
        "program": None, "right": 0, "fresh": 100,
    }  # fmt: skip
    assert f"solves **1 of {len(SLUGS)}** with a budget of 0.5 s each" in page(rows)
    assert "**1** of them are *general*" in page(rows)


def test_results_are_judged_on_the_worlds_of_today() -> None:
    rows = list(read_results().values())
    assert rows == judged(rows), "python tools/render_gallery.py judges them again"


def test_a_program_for_too_few_worlds_is_not_general() -> None:
    text = "def run():\n  move()\n  while(frontIsClear):\n    move()\n  putMarker()"
    (row,) = judged([{"slug": "flag-at-the-end", "solved": True, "seconds": 0.5, "program": text}])
    assert 0 < row["right"] < row["fresh"], "it crashes where Karel stands at the wall already"
    rendered = page({row["slug"]: row})
    assert f"Solved in 0.50 s. Not general: right on only {row['right']} of 100 fresh worlds." in rendered
    assert "**0** of them are *general*" in rendered


def test_the_page_has_the_results() -> None:
    program = "def run():\n  move()\n"
    rendered = page(
        {
            "hurdles": {"solved": True, "seconds": 0.25, "program": program, "right": 100, "fresh": 100},
            "maze": {"solved": False, "seconds": 1.0, "program": None, "right": 0, "fresh": 100},
        }
    )
    assert f"solves **1 of {len(SLUGS)}**" in rendered
    right = "General: right on 100 of 100 fresh worlds."
    assert f"Solved in 0.25 s. {right}\n\n```\ndef run():\n  move()\n```" in rendered
    assert rendered.count("Not solved in 1.00 s.") == 1
