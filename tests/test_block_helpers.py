"""Helpers made with blocks: defined, renamed and deleted in a text whose other lines stay."""

from __future__ import annotations

import random

import pytest
from fastapi.testclient import TestClient

from karelsynth.errors import KarelsynthError
from karelsynth.karel.dialects import convert, read_source
from karelsynth.tutor.blocks import HOLE, read_blocks
from karelsynth.tutor.helpers import define_helper, delete_helper, rename_helper
from karelsynth.web.app import ServiceSettings, create_app
from tests.fake_solver import FakeSolver
from tests.strategies import random_program, with_helpers
from tests.written import ADA


def test_a_new_helper_stands_above_the_main_function() -> None:
    text = "# mine\ndef run():\n   move()  # go"
    new = define_helper(text, "turnAround")
    assert new == f"def turnAround():\n   {HOLE}\n\n{text}"
    blocks = read_blocks(new)
    assert next((function.name, function.body) for function in blocks.functions) == ("turnAround", ())
    assert not blocks.complete
    assert define_helper("", "a") == f"def a():\n  {HOLE}\n\ndef run():\n  {HOLE}"
    python = define_helper(ADA, "turn_around")
    assert python == ADA.replace("def main", f"def turn_around():\n    {HOLE}\n\n\ndef main")
    empty = define_helper("", "turn_around", "stanford")
    assert [function.name for function in read_blocks(empty).functions] == ["turn_around", "main"]


def test_a_helper_is_renamed_at_its_definition_and_at_all_calls() -> None:
    text = "def a():  # a is good\n  move()\ndef run():\n  a(); a()\n  while(frontIsClear): a\n  # a"
    new = "def bb():  # a is good\n  move()\ndef run():\n  bb(); bb()\n  while(frontIsClear): bb\n  # a"
    assert rename_helper(text, "a", "bb") == new
    assert rename_helper(new, "bb", "a") == text
    assert rename_helper(ADA, "take_all", "clean") == ADA.replace("take_all", "clean")
    assert rename_helper(text, "a", "a") == text
    assert rename_helper("def d():\n  move()\ndef run():\n  d()", "d", "e").startswith("def e():")  # not that of `def`


def test_a_helper_that_nothing_calls_is_deleted_with_its_comments() -> None:
    text = "# top\n\n# turns\ndef a():  # a\n  move()\n  # the end of a\n\n# main\ndef run():\n  move()"
    assert delete_helper(text, "a") == "# top\n\n# main\ndef run():\n  move()"
    assert delete_helper("def run():\n  move()\n\ndef a():\n  move()\n", "a") == "def run():\n  move()\n"
    for text in ("def run():\n  move()  # x", ADA):
        assert delete_helper(define_helper(text, "new_one"), "new_one") == text


def test_a_helper_that_is_called_is_not_deleted() -> None:
    text = "def a():\n  move()\ndef b():\n  a()\ndef run():\n  a(); a()\n  move()"
    with pytest.raises(KarelsynthError, match="`a` is still called in lines 4, 6: remove these calls first"):
        delete_helper(text, "a")
    with pytest.raises(KarelsynthError, match="`take_all` is still called in line 17: remove that call first"):
        delete_helper(ADA, "take_all")
    assert "def b" not in delete_helper(text, "b")  # it calls, but nothing calls it


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "needs a name"),
        ("  ", "needs a name"),
        ("turn around", "no name"),
        ("2x", "no name"),
        ("a-b", "no name"),
        ("x" * 41, "too long"),
        ("move", "already means something"),
        ("turn_left", "already means something"),
        ("frontIsClear", "already means something"),
        ("front_is_blocked", "already means something"),
        ("repeat", "already means something"),
        ("while", "already means something"),
        ("run", "already means something"),
        ("main", "already means something"),
        ("nothing_here_yet", "already means something"),
        ("taken", "there is already a function `taken`"),
    ],
)
def test_names_that_are_refused(name: str, why: str) -> None:
    text = "def taken():\n  move()\ndef a():\n  move()\ndef run():\n  a()"
    with pytest.raises(KarelsynthError, match=why):
        define_helper(text, name)
    with pytest.raises(KarelsynthError, match=why):
        rename_helper(text, "a", name)


def test_what_is_no_helper_is_left_alone() -> None:
    text = "def run():\n  move()"
    with pytest.raises(KarelsynthError, match="the program begins with `run`"):
        rename_helper(text, "run", "go")
    with pytest.raises(KarelsynthError, match="the program begins with `run`"):
        delete_helper(text, "run")
    with pytest.raises(KarelsynthError, match="no helper function `b`"):
        delete_helper(text, "b")
    with pytest.raises(KarelsynthError, match="on one line has no helper functions"):
        define_helper("DEF run m( move m)", "b")


@pytest.mark.parametrize("seed", range(20))
def test_texts_mean_the_same_afterwards(seed: int) -> None:
    rng = random.Random(seed)
    text = convert(with_helpers(random_program(rng), rng)[0], rng.choice(["paper", "stanford"])).text
    program = read_source(text).program
    for name in read_source(text).helpers:
        renamed = rename_helper(text, name, "another")
        assert read_source(renamed).program == program
        assert rename_helper(renamed, "another", name) == text
    assert delete_helper(define_helper(text, "another"), "another") == text


def test_the_service_changes_helpers() -> None:
    client = TestClient(create_app(FakeSolver(), ServiceSettings(hosts=None)))
    made = client.post("/api/blocks/helper", json={"program": "", "change": "define", "name": "a"}).json()
    assert [function["name"] for function in made["functions"]] == ["a", "run"]
    body = {"program": made["program"], "change": "rename", "name": "a", "new_name": "b"}
    renamed = client.post("/api/blocks/helper", json=body).json()["program"]
    assert renamed == made["program"].replace("def a", "def b")
    deleted = client.post("/api/blocks/helper", json={"program": renamed, "change": "delete", "name": "b"}).json()
    assert deleted["program"] == f"def run():\n  {HOLE}"
    refused = client.post("/api/blocks/helper", json={"program": "", "change": "define", "name": "move"})
    assert refused.status_code == 422
    assert "`move` already means something to Karel" in refused.text
