"""Shifted tasks: what is asked for is what comes, the same every time, and right like all others."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest

from karelsynth.errors import KarelsynthError
from karelsynth.generator.sampler import LONGEST_FITTED, MAX_TOKENS, build, fitted_sampler, read_weights
from karelsynth.karel.formats.codes import FRAME, HERO, WALL
from karelsynth.karel.grammar import NORMAL_FORM
from karelsynth.karel.machine import run_batch
from karelsynth.karel.syntax import syntax_machine
from karelsynth.karel.tokens import ID
from karelsynth.tasks.batch import EXAMPLES, TaskBatch
from karelsynth.tasks.generate import generate, is_reserved
from karelsynth.tasks.named import named_tasks
from karelsynth.tasks.shifted import SHIFTS, shifted_tasks

COUNT = 100
POINTS = [(family, point) for family, shift in SHIFTS.items() for point in shift.points]


def shares(tasks: TaskBatch) -> tuple[float, float]:
    """Of all cells the share of walls, and of the others the share with markers."""
    content = tasks.inputs % HERO
    free, walls = content < WALL, content == WALL
    return float(walls.sum() / (free | walls).sum()), float((content[free] > 0).mean())


@pytest.mark.parametrize(("family", "point"), POINTS, ids=lambda value: str(value))
def test_tasks_obey_all_rules_and_are_always_the_same(family: str, point: str) -> None:
    tasks = shifted_tasks(family, point, COUNT)
    again = shifted_tasks(family, point, COUNT + 5, threads=1)[:COUNT]
    for field in fields(TaskBatch):
        np.testing.assert_array_equal(getattr(tasks, field.name), getattr(again, field.name))
    runs = run_batch(tasks.tokens, tasks.inputs, expected=tasks.outputs)
    assert runs.correct is not None
    assert runs.correct.all()
    assert (tasks.inputs != tasks.outputs).any(axis=(2, 3)).all()
    flat = tasks.inputs.reshape(COUNT, EXAMPLES, -1)
    for one in range(EXAMPLES):
        for other in range(one):
            assert (flat[:, one] != flat[:, other]).any(axis=1).all()
    machine = syntax_machine(NORMAL_FORM, MAX_TOKENS)
    state = machine.initial(COUNT)
    for column in tasks.tokens.T:
        state = machine.advance(state, column.astype(np.int64))
    assert machine.accepts(state).all()
    np.testing.assert_array_equal(tasks.novel, is_reserved(tasks.tokens))


@pytest.mark.parametrize("point", SHIFTS["size"].points)
def test_worlds_have_the_size(point: str) -> None:
    inside = shifted_tasks("size", point, COUNT).inputs % HERO < FRAME
    assert (inside.any(axis=3).sum(axis=2) == int(point)).all()
    assert (inside.any(axis=2).sum(axis=2) == int(point)).all()


@pytest.mark.parametrize("point", SHIFTS["walls"].points)
def test_worlds_have_the_walls(point: str) -> None:
    """A few less: where programs walk there are none."""
    wanted = int(point) / 100
    walls, _ = shares(shifted_tasks("walls", point, 2 * COUNT))
    assert 0.9 * wanted - 0.005 <= walls <= wanted + 0.005


@pytest.mark.parametrize("point", SHIFTS["markers"].points)
def test_worlds_have_the_markers(point: str) -> None:
    wanted = int(point) / 100
    tasks = shifted_tasks("markers", point, 2 * COUNT)
    walls, markers = shares(tasks)
    assert abs(markers - wanted) <= 0.02
    assert 0.05 < walls < 0.10  # as in the data
    if point == "0":
        assert markers == 0


@pytest.mark.parametrize(("point", "band"), SHIFTS["length"].points.items())
def test_programs_have_the_length(point: str, band: tuple[int, int]) -> None:
    lengths = shifted_tasks("length", point, COUNT).lengths
    assert band[0] <= lengths.min()
    assert lengths.max() <= band[1]
    assert len(np.unique(lengths)) > (band[1] - band[0]) / 2  # a band, not a spot


def test_lengths_go_beyond_training_and_leave_no_gap() -> None:
    bands = list(SHIFTS["length"].points.values())
    assert bands[0][0] == 6
    assert all(low == before + 1 for (_, before), (low, _) in pairwise(bands))
    assert bands[-1] == (LONGEST_FITTED + 1, MAX_TOKENS)


@pytest.mark.parametrize(("point", "band"), SHIFTS["controls"].points.items())
def test_programs_have_the_control_statements(point: str, band: tuple[int, int]) -> None:
    tokens = shifted_tasks("controls", point, COUNT).tokens
    number = np.isin(tokens, [ID[name] for name in ("REPEAT", "WHILE", "IF", "IFELSE")]).sum(axis=1)
    assert band[0] <= number.min()
    assert number.max() <= band[1]


def test_the_fitted_weights_are_left_alone() -> None:
    """A point changes its own copy: what comes after it is drawn as ever."""
    before = generate(0, 0, 20, sampler=build(read_weights()))
    for family, point in POINTS:
        shifted_tasks(family, point, 1)
    assert np.array_equal(before.inputs, generate(0, 0, 20).inputs)
    assert np.array_equal(build(read_weights()), fitted_sampler())


def test_points_are_drawn_with_the_random_numbers_of_the_test_set() -> None:
    """So the data's own distribution, which they are shown beside, differs by the change and less by luck."""
    own = named_tasks("test", COUNT).tokens
    for family, point, least in (("size", "8", 0.4), ("walls", "10", 0.4), ("markers", "10", 0.6)):
        assert (shifted_tasks(family, point, COUNT).tokens == own).all(axis=1).mean() > least


def test_a_table_may_allow_longer_programs_but_no_more_than_there_is_room_for() -> None:
    weights = read_weights()
    assert len(weights["keep_length"]) == LONGEST_FITTED + 1
    weights["keep_length"] = weights["keep_length"] + [1] * (MAX_TOKENS - LONGEST_FITTED + 1)
    with pytest.raises(ValueError, match=f"no room for programs of {MAX_TOKENS + 1} tokens"):
        build(weights)


def test_unknown_names() -> None:
    with pytest.raises(KarelsynthError, match="no family called `sise`; there are `size`"):
        shifted_tasks("sise", "3", 1)
    with pytest.raises(KarelsynthError, match=r"`size` has no point `17`; it has `3`, .* and `16`"):
        shifted_tasks("size", "17", 1)
