"""Named sets: what their names promise, the same for ever, and wherever tasks are named."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karelsynth.errors import KarelsynthError
from karelsynth.generator.sampler import PARENTS, STATEMENTS, fitted_sampler
from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import Action, Block, If, IfElse, Program, Repeat, While, inner_blocks
from karelsynth.karel.tokens import ACTIONS
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.generate import TEST_SEED, generate, is_reserved
from karelsynth.tasks.named import (
    HELD_OUT,
    NAMED_SETS,
    Nesting,
    holds_nesting,
    named_set,
    named_tasks,
    sampler_without,
)
from karelsynth.tasks.sets import Scoring, load_tasks, open_set, scoring_of, write_named_set
from karelsynth.tasks.shifted import shifted_tasks
from karelsynth.tasks.statistics_kernel import count_programs
from tests.command_line import call
from tests.strategies import programs

SMALL = 20
KEYWORDS = {Repeat: "REPEAT", While: "WHILE", If: "IF", IfElse: "IFELSE"}


def pairs(block: Block, outer: str = "run") -> set[Nesting]:
    """The nestings of a program, by walking its tree."""
    found = set()
    for statement in block:
        if not isinstance(statement, Action):
            inner = KEYWORDS[type(statement)]
            found.add((outer, inner))
            for _, body in inner_blocks(statement):
                found |= pairs(body, inner)
    return found


@given(st.lists(programs(depth=3), min_size=1, max_size=2))
@settings(max_examples=40)
def test_nestings_are_those_of_the_tree(written: list[Program]) -> None:
    found = count_programs(encode_programs(written)).children
    for program, own in zip(written, found, strict=True):
        nested = {(PARENTS[outer], STATEMENTS[inner]) for outer, inner in np.argwhere(own) if inner >= len(ACTIONS)}
        assert nested == pairs(program.body)


def test_every_statement_is_held_out_once_outside_and_once_inside() -> None:
    for places in zip(*HELD_OUT, strict=True):
        assert sorted(places) == sorted(STATEMENTS[5:])
    assert not any(outer == inner for outer, inner in HELD_OUT)


def test_compositions_are_held_out() -> None:
    held = holds_nesting(named_tasks("compositions_train", 2_000).tokens, HELD_OUT)
    assert not held.any()
    assert holds_nesting(named_tasks("full", 2_000).tokens, HELD_OUT).mean() > 0.05
    assert holds_nesting(named_tasks("compositions", 50).tokens, HELD_OUT).all()
    # All other nestings are still trained on.
    seen = np.any(count_programs(named_tasks("compositions_train", 2_000).tokens).children, axis=0)
    others = {(outer, inner) for outer in PARENTS for inner in PARENTS[1:]} - set(HELD_OUT)
    assert all(seen[PARENTS.index(outer), STATEMENTS.index(inner)] for outer, inner in others)
    assert np.array_equal(sampler_without(()), fitted_sampler())


def depth(block: Block) -> int:
    return max(
        (1 + max(depth(body) for _, body in inner_blocks(one)) for one in block if not isinstance(one, Action)),
        default=0,
    )


def test_programs_are_deeper_and_longer() -> None:
    deeper = named_tasks("deeper", 15)
    assert all(depth(deeper.program(number).body) in (4, 5) for number in range(15))
    assert named_tasks("longer", 10).lengths.min() > named_tasks("full", 5_000).lengths.max()


def test_shifted_sets_are_those_of_the_curves() -> None:
    for name, point in (("large_worlds", ("size", "16")), ("many_walls", ("walls", "40"))):
        assert named_tasks(name, SMALL).digest == shifted_tasks(*point, SMALL).digest
    for given_examples in (1, 2, 3):
        made = named_set(f"examples_{given_examples}")
        assert (made.given, made.digest) == (given_examples, named_set("test").digest)
        assert made.tasks(0, SMALL).digest == named_tasks("test", SMALL).digest


def test_sets_are_what_they_were() -> None:
    """If this fails, the generator has changed: either it is a mistake, or KarelBench needs another version."""
    for name in (
        "val",
        "test",
        "small_worlds",
        "large_worlds",
        "many_walls",
        "many_markers",
        "compositions",
        "classroom",
    ):
        assert named_tasks(name).digest == named_set(name).digest, name


def test_a_sets_tasks_do_not_depend_on_how_many_are_asked_for() -> None:
    for name, made in NAMED_SETS.items():
        some, part = made.tasks(0, 7), made.tasks(3, 4, threads=1)
        for field in fields(TaskBatch):
            np.testing.assert_array_equal(getattr(some[3:], field.name), getattr(part, field.name), err_msg=name)
        assert (some.inputs.shape[1], some.tokens.shape[1]) == (made.examples, made.width)
        runs = run_batch(some.tokens, some.inputs, expected=some.outputs, max_ticks=made.max_ticks)
        assert runs.correct is not None
        assert runs.correct.all(), name


def test_sets_for_testing_share_no_task_with_training() -> None:
    trained = {made.seed for made in NAMED_SETS.values() if not made.reserved and made.count > 50}
    tested = {made.seed for made in NAMED_SETS.values() if made.reserved}
    assert not trained & tested
    assert TEST_SEED in tested
    for name in ("full", "compositions_train"):
        assert not is_reserved(named_tasks(name, 2_000).tokens).any()


def test_classroom_scores_references_right_within_its_ticks() -> None:
    made, tasks = named_set("classroom"), named_tasks("classroom")
    assert (len(tasks), tasks.inputs.shape[1], made.given) == (50, 29, 5)
    usual = run_batch(tasks.tokens, tasks.inputs, expected=tasks.outputs, max_ticks=PAPER_TICKS)
    assert usual.correct is not None
    assert (~usual.correct.all(1)).sum() == 4  # which need more than 200 ticks
    assert made.titles(50) == [line["name"] for line in made.lines()]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="read-only"):
        tasks.tokens[0, 0] = 1


@pytest.mark.parametrize("name", ["compositions", "examples_2", "classroom"])
def test_sets_are_written_and_scored_as_their_names_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import karelsynth.tasks.sets as module

    few = NAMED_SETS[name] if name == "classroom" else _few(name)
    monkeypatch.setattr(module, "NAMED_SETS", {**NAMED_SETS, name: few})
    monkeypatch.setattr(module, "named_set", lambda wanted: few)
    folder = tmp_path / "set"
    write_named_set(name, folder, shard_size=8)
    assert open_set(folder)[:].digest == load_tasks(folder).digest == few.tasks(0, few.count).digest
    assert scoring_of(folder) == scoring_of(name) == Scoring(few.given, few.max_ticks)
    (folder / "shard-00001.safetensors").unlink()
    assert len(write_named_set(name, folder, shard_size=8)) == few.count  # made again
    assert json.loads((folder / "manifest.json").read_text())["source"]["name"] == name


def _few(name: str) -> Any:
    return replace(NAMED_SETS[name], count=20)


def test_plain_sets_have_the_manifest_of_a_stream(tmp_path: Path) -> None:
    """As those that were written before sets had more than seeds."""
    write_named_set("val", tmp_path / "val")
    source = json.loads((tmp_path / "val" / "manifest.json").read_text())["source"]
    assert source == {"kind": "generated", "seed": 2, "start": 0, "reserved": True}
    assert scoring_of(tmp_path / "val") == Scoring()


def test_names_work_wherever_tasks_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_tasks("deeper", limit=3).digest == named_tasks("deeper", 3).digest
    call("export-msr", "classroom", "--out", tmp_path / "classroom.jsonl.gz")
    assert "3 tasks" in call("stats", "compositions", "--limit", 3).stdout
    listed = call("generate", "--list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == list(NAMED_SETS)
    with pytest.raises(KarelsynthError, match="`test_large` has 100,000 tasks: choose how many to solve, --limit"):
        call("solve", "test_large")
    # A file of that name comes first.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples_2").write_text("nonsense")
    assert scoring_of("examples_2") == Scoring()
    (tmp_path / "test").write_text("nonsense")
    with pytest.raises(KarelsynthError, match="there is no good task in it"):
        call("stats", "test")


def test_a_set_that_has_changed_gets_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import karelsynth.tasks.named as module

    monkeypatch.setattr(module, "NAMED_SETS", {**NAMED_SETS, "classroom": replace(NAMED_SETS["classroom"], digest="0")})
    said = call("prompt", "classroom", "--out", tmp_path / "prompts.jsonl").stderr
    assert "`classroom` has the digest" in said
    assert "figures do not compare" in said


def test_unknown_names() -> None:
    with pytest.raises(KarelsynthError, match="no set called `compositon`; did you mean `compositions`"):
        named_tasks("compositon")
    with pytest.raises(KarelsynthError, match=r"test-larg: there is no such file, and there is no set .* `test_large`"):
        load_tasks("test-larg")
    assert generate(TEST_SEED, 0, SMALL, reserved=True).digest == named_tasks("test", SMALL).digest
