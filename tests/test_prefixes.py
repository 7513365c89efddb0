"""Beginnings of programs on the batch machine, against the interpreter on what they may become.

The state that a prefix leads to is what every run of a whole program passes through: the world just before the first
thing that happens behind the prefix. The tests write a harmless action at every place where a run could go on, run
the whole with the interpreter, and look.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karelsynth.karel.formats.codes import worlds_to_codes
from karelsynth.karel.interpreter import Status, Tick, run
from karelsynth.karel.machine import BatchRun, run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import ID, TOKENS
from karelsynth.karel.world import MOST_MARKERS, World
from tests.plain import BOUNDARY, finished
from tests.strategies import programs, random_program, random_world, worlds


def assert_as_the_interpreter_says(
    runs: BatchRun, row: int, number: int, prefix: tuple[str, ...], world: World
) -> None:
    program, goes_on = finished(prefix)
    ticks: list[Tick] = []
    plain = run(program, world, observe=ticks.append)
    first = next((place for place, tick in enumerate(ticks) if tick.where in goes_on), len(ticks))
    assert runs.worlds is not None
    assert runs.waits is not None
    context = (" ".join(prefix), world)
    before = ticks[first - 1].world if first else world
    assert np.array_equal(runs.worlds[row, number], before.to_codes()), context
    if first < len(ticks):
        high = max((ticks[first - 1].piles if first else world.markers).values(), default=0) > MOST_MARKERS
        assert runs.status[row, number] == (Status.PILE_TOO_HIGH if high else Status.OK), context
        assert runs.ticks[row, number] == first, context
        assert runs.waits[row, number] == goes_on[ticks[first].where], context
    elif plain.where is not None and plain.where in goes_on:  # no tick left for what comes next
        assert runs.status[row, number] in (Status.OK, Status.PILE_TOO_HIGH), context
    else:
        assert runs.status[row, number] == plain.status != Status.OK, context
        assert runs.where[row, number] == plain.where, context
        assert runs.waits[row, number] == -1, context


def run_prefix(prefix: tuple[str, ...], some_worlds: list[World]) -> BatchRun:
    tokens = np.array([[ID[token] for token in prefix]], np.uint8)
    return run_batch(tokens, worlds_to_codes(some_worlds)[None], prefixes=True)


def boundaries(program: Program) -> list[int]:
    """Lengths of prefixes that do not end within a condition or a head."""
    return [at + 1 for at, token in enumerate(program.tokens[:-1]) if token in BOUNDARY]


@pytest.mark.parametrize("seed", range(3))
def test_prefixes_lead_where_whole_programs_pass(seed: int) -> None:
    rng = random.Random(seed)
    waited, crashed = 0, 0
    for _ in range(400):
        program = random_program(rng, depth=rng.randint(1, 4))
        prefix = program.tokens[: rng.choice(boundaries(program))]
        some_worlds = [random_world(rng) for _ in range(3)]
        runs = run_prefix(prefix, some_worlds)
        for number, world in enumerate(some_worlds):
            assert_as_the_interpreter_says(runs, 0, number, prefix, world)
        assert runs.waits is not None
        waited += int((runs.waits >= 0).sum())
        crashed += int((runs.status != Status.OK).sum())
    assert waited > 50
    assert crashed > 50


@given(programs(), worlds(), st.data())
def test_prefixes_where_hypothesis_looks(program: Program, world: World, data: st.DataObject) -> None:
    prefix = program.tokens[: data.draw(st.sampled_from(boundaries(program)))]
    assert_as_the_interpreter_says(run_prefix(prefix, [world]), 0, 0, prefix, world)


@given(programs(), worlds(), st.data())
def test_an_unfinished_head_changes_nothing(program: Program, world: World, data: st.DataObject) -> None:
    length = data.draw(st.integers(3, len(program.tokens) - 1))
    shorter = max(boundary for boundary in boundaries(program) if boundary <= length)
    whole, cut = run_prefix(program.tokens[:length], [world]), run_prefix(program.tokens[:shorter], [world])
    for field in ("status", "ticks", "worlds", "waits", "where"):
        assert np.array_equal(getattr(whole, field), getattr(cut, field)), field


@given(programs(), worlds())
def test_whole_programs_run_as_ever(program: Program, world: World) -> None:
    plain = run_batch([program], [world])
    as_prefix = run_batch([program], [world], prefixes=True)
    for field in ("status", "ticks", "worlds", "where"):
        assert np.array_equal(getattr(plain, field), getattr(as_prefix, field)), field
    assert plain.waits is None
    assert as_prefix.waits is not None
    assert (as_prefix.waits == -1).all()


def test_what_is_no_prefix_is_invalid() -> None:
    wrong = np.array([[ID[token] for token in ("DEF", "run", "m(", "move", "i)")]], np.uint8)
    runs = run_batch(wrong, [World.parse("> .\n. .")], prefixes=True)
    assert runs.status[0, 0] == Status.INVALID_PROGRAM
    assert runs.where[0, 0] == 4
    without = run_batch(wrong[:, :4], [World.parse("> .\n. .")])
    assert without.status[0, 0] == Status.INVALID_PROGRAM
    assert without.where[0, 0] == 4


def test_an_endless_loop_is_found() -> None:
    """A loop that never ends kills its prefix when it closes, not before."""
    prefix = tuple("DEF run m( WHILE c( frontIsClear c) w( turnLeft turnLeft turnLeft turnLeft".split())
    assert all(token in TOKENS for token in prefix)
    world = World.parse("> .\n. .")
    assert run_prefix(prefix, [world]).status[0, 0] == Status.OK
    closed = run_prefix((*prefix, "w)"), [world])
    assert closed.status[0, 0] == Status.RUNS_FOREVER
