"""Simpler programs are as right, no longer, never reserved, and cannot lose a statement more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from karelsynth.errors import KarelsynthError
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import ID, TOKENS
from karelsynth.tasks.batch import TaskBatch, concatenate
from karelsynth.tasks.generate import generate, is_reserved
from karelsynth.tasks.simplify import simplify
from tests.plain import without


def program(tasks: TaskBatch, number: int) -> Program:
    return Program.parse(" ".join(TOKENS[token] for token in tasks.tokens[number, : tasks.lengths[number]]))


def task_of(code: str, worlds: NDArray[np.uint8]) -> TaskBatch:
    """A task of a program and those of the worlds [N, 18, 18] that it runs well on."""
    tokens = encode_programs([Program.parse(code)])
    runs = run_batch(tokens, worlds[None])
    assert runs.worlds is not None
    good = runs.ok[0]
    assert good.sum() > 5
    lengths = np.array([(tokens[0] != 0).sum()], np.uint8)
    return TaskBatch(tokens, lengths, worlds[None, good], runs.worlds[:1, good], np.zeros(1, bool))


@pytest.fixture(scope="module")
def many() -> NDArray[np.uint8]:
    return generate(11, 0, 40).inputs.reshape(-1, 18, 18)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**40), reserved=st.booleans(), examples=st.integers(2, 8))
def test_simpler_programs_are_as_right_and_no_longer(seed: int, reserved: bool, examples: int) -> None:
    tasks = generate(seed, 0, 40, reserved=reserved, examples=examples)
    simpler = simplify(tasks)
    correct = run_batch(simpler.tokens, tasks.inputs, expected=tasks.outputs).correct
    assert correct is not None
    assert correct.all()
    assert (simpler.lengths <= tasks.lengths).all()
    assert (simpler.lengths == (simpler.tokens != 0).sum(1)).all()
    changed = (simpler.tokens != tasks.tokens).any(1)
    assert not is_reserved(simpler.tokens)[changed].any()
    np.testing.assert_array_equal(simplify(simpler, threads=1).tokens, simpler.tokens)
    for part in ("inputs", "outputs", "novel"):
        assert getattr(simpler, part) is getattr(tasks, part)


@pytest.mark.parametrize("reserved", [False, True])
def test_nothing_more_can_be_left_out(reserved: bool) -> None:
    tasks = generate(5, 0, 300)
    simpler = simplify(tasks, reserved=reserved)
    assert (simpler.lengths < tasks.lengths).mean() > 0.15
    left = 0
    for number in range(len(tasks)):
        fewer = [Program(body) for body in without(program(simpler, number).body)]
        if not fewer:
            continue
        tokens = encode_programs(fewer)
        rows = np.full(len(fewer), number)
        correct = run_batch(tokens, tasks.inputs, which=rows, expected=tasks.outputs, keep_worlds=False).correct
        assert correct is not None
        right = correct.all(1)
        assert not right.any() if reserved else is_reserved(tokens[right]).all()  # those alone may not be taken
        left += len(fewer)
    assert left > 1000


@pytest.mark.parametrize(
    ("code", "simple"),
    [
        ("turnLeft turnLeft turnLeft move", "turnRight move"),
        ("REPEAT R=7 r( turnLeft r) move", "turnRight move"),
        ("turnLeft putMarker move", "putMarker turnLeft move"),
        ("turnRight turnRight putMarker", "putMarker turnLeft turnLeft"),
        ("turnLeft putMarker turnRight move", "putMarker move"),
        ("IF c( frontIsClear c) i( IF c( frontIsClear c) i( move i) i)", "IF c( frontIsClear c) i( move i)"),
        (
            "IFELSE c( not c( frontIsClear c) c) i( turnLeft i) ELSE e( move e)",
            "IFELSE c( frontIsClear c) i( move i) ELSE e( turnLeft e)",
        ),
        (
            "IFELSE c( frontIsClear c) i( move putMarker i) ELSE e( turnLeft turnRight e)",
            "IF c( frontIsClear c) i( move putMarker i)",
        ),
        ("IFELSE c( markersPresent c) i( move i) ELSE e( move e)", "move"),
        ("REPEAT R=3 r( WHILE c( frontIsClear c) w( move w) r)", "WHILE c( frontIsClear c) w( move w)"),
    ],
)
def test_what_does_nothing_goes(code: str, simple: str, many: NDArray[np.uint8]) -> None:
    tasks = task_of(f"DEF run m( {code} m)", many)
    assert program(simplify(tasks), 0) == Program.parse(f"DEF run m( {simple} m)")


def test_a_loop_of_always_as_many_rounds_is_counted() -> None:
    batch = generate(3, 0, 4000)
    tokens = encode_programs([Program.parse("DEF run m( WHILE c( frontIsClear c) w( move w) putMarker m)")])
    runs = run_batch(tokens, batch.inputs.reshape(1, -1, 18, 18))
    assert runs.worlds is not None
    ticks = runs.ticks[0]
    same = np.flatnonzero(runs.ok[0] & (ticks == 3 + 3 + 2))[
        :6
    ]  # three rounds: a test each, a move each; the last test
    tasks = TaskBatch(
        tokens,
        np.array([(tokens[0] != 0).sum()], np.uint8),
        batch.inputs.reshape(-1, 18, 18)[None, same],
        runs.worlds[:1, same],
        np.zeros(1, bool),
    )
    assert len(same) == 6
    assert program(simplify(tasks), 0) == Program.parse("DEF run m( REPEAT R=3 r( move r) putMarker m)")


def test_a_wrong_program_stays_unless_a_simpler_one_is_right() -> None:
    tasks = generate(8, 0, 50)
    outputs = tasks.outputs.copy()
    outputs[:, 0] = tasks.inputs[:, 0]  # what none of them does: all tasks change every grid
    wrong = TaskBatch(tasks.tokens, tasks.lengths, tasks.inputs, outputs, tasks.novel)
    simpler = simplify(wrong)
    correct = run_batch(simpler.tokens, wrong.inputs, expected=wrong.outputs).correct
    assert correct is not None
    right: NDArray[np.bool_] = np.all(correct, axis=1)
    assert right[simpler.lengths < tasks.lengths].all()


def test_a_wrong_program_may_be_put_in_order(many: NDArray[np.uint8]) -> None:
    tasks = task_of("DEF run m( turnLeft putMarker m)", many)
    wrong = replace(tasks, outputs=tasks.inputs)
    assert program(simplify(wrong), 0) == Program.parse("DEF run m( putMarker turnLeft m)")


def test_neither_threads_nor_neighbours_make_a_difference() -> None:
    tasks = generate(21, 0, 700)
    whole = simplify(tasks, threads=4)
    for other in (
        simplify(tasks, threads=1),
        concatenate([simplify(tasks[slice(at, at + 50)]) for at in range(0, 700, 50)]),
    ):
        np.testing.assert_array_equal(whole.tokens, other.tokens)
        np.testing.assert_array_equal(whole.lengths, other.lengths)


@pytest.mark.parametrize(
    "code",
    ["DEF run m( move w) putMarker move m)", "DEF run m( move ELSE e( move e) m)", "DEF run m( move", "m)", "move"],
)
def test_what_is_no_program_is_refused(code: str) -> None:
    tasks = generate(8, 0, 700)
    tokens, lengths = tasks.tokens.copy(), tasks.lengths.copy()
    words = code.split()
    tokens[407], lengths[407] = 0, len(words)
    tokens[407, : len(words)] = [ID[word] for word in words]
    with pytest.raises(KarelsynthError, match=rf"tokens\[407\] with lengths\[407\] = {len(words)} is no program"):
        simplify(replace(tasks, tokens=tokens, lengths=lengths))


def test_arrays_that_do_not_fit_are_refused() -> None:
    tasks = generate(8, 0, 3)
    lengths = tasks.lengths.copy()
    lengths[1] = 200
    with pytest.raises(KarelsynthError, match=r"lengths\[1\] = 200 is no program"):
        simplify(replace(tasks, lengths=lengths))
    with pytest.raises(KarelsynthError, match="do not make a batch"):
        simplify(replace(tasks, outputs=tasks.outputs[:, :1]))
    with pytest.raises(KarelsynthError, match="do not make a batch"):
        simplify(replace(tasks, tokens=tasks.tokens[:2]))
    assert len(simplify(tasks[slice(0, 0)])) == 0


def test_worlds_that_are_none_are_refused() -> None:
    tasks = generate(8, 0, 3)
    inputs = tasks.inputs.copy()
    inputs[1, 2] = 0
    with pytest.raises(KarelsynthError, match="inputs"):
        simplify(TaskBatch(tasks.tokens, tasks.lengths, inputs, tasks.outputs, tasks.novel))
