"""The world as a value, and as arrays: cell codes and tensors."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karelsynth.errors import WorldError
from karelsynth.karel.formats.codes import (
    BEYOND,
    CODES,
    FRAME,
    HERO,
    PLANES,
    SIDE,
    WALL,
    codes_to_tensor,
    tensor_to_codes,
    world_from_codes,
    worlds_to_codes,
)
from karelsynth.karel.world import HEADINGS, Hero, World
from tests.strategies import worlds

SMALL = World(2, 3, Hero(0, 0, "east"), frozenset({(1, 2)}), {(0, 1): 2})


# The value.


def test_it_hashes_and_compares_by_value() -> None:
    same = World(2, 3, Hero(0, 0, "east"), frozenset({(1, 2)}), {(0, 1): 2, (1, 0): 0})
    assert same == SMALL
    assert hash(same) == hash(SMALL)
    assert len({SMALL, same, SMALL.with_hero(0, 0, "west")}) == 2
    assert SMALL.with_hero(0, 0, "west").with_hero(0, 0, "east") == SMALL
    assert World(2, 3, SMALL.hero, SMALL.walls) != SMALL


@given(worlds())
def test_copies_pickles_and_the_repr_are_equal(world: World) -> None:
    assert copy.copy(world) == copy.deepcopy(world) == pickle.loads(pickle.dumps(world)) == world
    assert eval(repr(world)) == world
    assert hash(pickle.loads(pickle.dumps(world))) == hash(world)


def test_the_order_of_markers_does_not_matter() -> None:
    one = World(2, 2, Hero(0, 0, "north"), markers={(0, 0): 1, (1, 1): 2})
    other = World(2, 2, Hero(0, 0, "north"), markers={(1, 1): 2, (0, 0): 1})
    assert one == other
    assert hash(one) == hash(other)


def test_it_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SMALL.rows = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        SMALL.markers[0, 0] = 1  # type: ignore[index]
    markers = {(0, 0): 1}
    world = World(2, 2, Hero(0, 0, "north"), markers=markers)
    markers[0, 0] = 7
    assert world.markers == {(0, 0): 1}


def test_numbers_of_numpy_become_plain() -> None:
    at: Any = np.int64(1)
    size: Any = np.uint8(2)
    world = World(size, 2, Hero(at, at, "west"), frozenset({(0, at)}), {(at, at): at + 2})
    assert world == World(2, 2, Hero(1, 1, "west"), frozenset({(0, 1)}), {(1, 1): 3})
    assert {type(value) for value in (world.rows, world.hero.row, *world.markers.values())} == {int}


def test_clear_cells() -> None:
    clear = [(row, col) for row in range(-1, 3) for col in range(-1, 4) if SMALL.is_clear((row, col))]
    assert clear == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 1}, "2 to 16 rows, not 1"),
        ({"rows": 17}, "2 to 16 rows, not 17"),
        ({"cols": 0}, "2 to 16 columns, not 0"),
        ({"rows": 2.5}, "the number of rows is a whole number, not `2.5`"),
        ({"cols": "3"}, "the number of columns is a whole number, not `'3'`"),
        ({"hero": (2, 0, "east")}, "the hero is outside the grid at row 2, column 0: rows go from 0 to 1"),
        ({"hero": (0, -1, "east")}, "the hero is outside the grid at row 0, column -1"),
        ({"hero": (0, 0, "East")}, "heading is `north`, `east`, `south` or `west`, not `East`; did you mean `east`?"),
        ({"hero": (0, 0, 3)}, "not `3`"),
        ({"hero": (0, "east")}, "the hero stands on a cell (row, column), not `[0]`"),
        ({"hero": (1, 2, "east")}, "the hero stands in a wall at row 1, column 2"),
        ({"walls": {(2, 2)}}, "a wall is outside the grid at row 2, column 2"),
        ({"walls": {(0, 1)}}, "markers in a wall at row 0, column 1"),
        ({"walls": {1}}, "a wall stands on a cell (row, column), not `1`"),
        ({"markers": {(0, 3): 1}}, "a marker is outside the grid at row 0, column 3"),
        ({"markers": {(0, 1): 11}}, "0 to 10 markers, not 11 (at row 0, column 1)"),
        ({"markers": {(0, 1): -1}}, "0 to 10 markers, not -1"),
        ({"markers": {(0, 1): 1.5}}, "a number of markers is a whole number, not `1.5`"),
    ],
)
def test_impossible_worlds_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(WorldError) as caught:
        dataclasses.replace(SMALL, **change)
    assert message in str(caught.value)


# Cell codes and tensors.


def test_codes_by_hand() -> None:
    codes = SMALL.to_codes()
    expected = np.full((SIDE, SIDE), BEYOND)
    expected[:4, :5] = [
        [FRAME, FRAME, FRAME, FRAME, FRAME],
        [FRAME, HERO * (1 + HEADINGS.index("east")), 2, 0, FRAME],
        [FRAME, 0, 0, WALL, FRAME],
        [FRAME, FRAME, FRAME, FRAME, FRAME],
    ]
    assert codes.dtype == np.uint8
    assert (codes == expected).all()


def test_tensor_by_hand() -> None:
    tensor = SMALL.to_tensor()
    assert tensor.dtype == np.float32
    frame = {(5, row, col) for row in range(4) for col in range(5)} - {
        (5, row, col) for row in (1, 2) for col in (1, 2, 3)
    }
    on = {(1, 1, 1), (5 + 2, 1, 2), (4, 2, 3)} | frame
    assert {tuple(int(at) for at in place) for place in np.argwhere(tensor)} == on
    assert tensor.sum() == len(on)


@given(worlds())
def test_codes_and_tensors_round_trip(world: World) -> None:
    assert World.from_codes(world.to_codes()) == world
    assert World.from_tensor(world.to_tensor()) == world
    assert World.from_tensor(world.to_tensor().astype(bool)) == world


@given(st.lists(worlds(), max_size=4))
def test_batches_are_worlds_one_by_one(batch: list[World]) -> None:
    codes = worlds_to_codes(batch)
    tensors = codes_to_tensor(codes)
    assert codes.shape == (len(batch), SIDE, SIDE)
    assert tensors.shape == (len(batch), PLANES, SIDE, SIDE)
    assert tensors.flags.c_contiguous
    assert [World.from_codes(each) for each in codes] == batch
    assert all((tensor == world.to_tensor()).all() for tensor, world in zip(tensors, batch, strict=True))
    assert (tensor_to_codes(tensors) == codes).all()


@settings(max_examples=300)
@given(worlds(), st.integers(0, SIDE - 1), st.integers(0, SIDE - 1), st.integers(0, 255))
def test_a_changed_code_is_another_world_or_refused(world: World, row: int, col: int, code: int) -> None:
    codes = world.to_codes()
    codes[row, col] = code
    try:
        changed = world_from_codes(codes)
    except WorldError:
        return
    assert (changed.to_codes() == codes).all()


@settings(max_examples=300)
@given(worlds(), st.integers(0, PLANES * SIDE * SIDE - 1))
def test_a_changed_bit_is_another_world_or_refused(world: World, index: int) -> None:
    tensor = world.to_tensor()
    tensor.reshape(-1)[index] = 1 - tensor.reshape(-1)[index]
    try:
        changed = World.from_tensor(tensor)
    except WorldError:
        return
    assert (changed.to_tensor() == tensor).all()


def _codes(*changes: tuple[int, int, int]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    codes = SMALL.to_codes()
    for row, col, code in changes:
        codes[row, col] = code
    return codes


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((3, 3), np.uint8), "integers of shape (18, 18), not uint8 of shape (3, 3)"),
        (np.zeros((SIDE, SIDE)), "not float64"),
        (np.full((SIDE, SIDE), "x"), "not <U1"),
        (np.zeros((SIDE, SIDE), np.uint8), "one hero, but these cell codes hold 0"),
        (_codes((1, 1, 0)), "these cell codes hold 0"),
        (_codes((2, 1, HERO)), "these cell codes hold 2"),
        (_codes((1, 1, 5 * HERO)), "80 is no cell code (row 0, column 0)"),
        (_codes((0, 0, 0)), "cell code 0 at row -1, column -1 fits no 2 × 3 world"),
        (_codes((9, 9, 3)), "a marker is outside the grid at row 8, column 8"),
        (_codes((1, 1, HERO + WALL)), "the hero stands in a wall at row 0, column 0"),
        (_codes((2, 2, BEYOND)), "cell code 13 at row 1, column 1"),
    ],
)
def test_impossible_codes_are_refused(codes: Any, message: str) -> None:
    with pytest.raises(WorldError) as caught:
        world_from_codes(codes)
    assert message in str(caught.value)


def _tensor(*changes: tuple[int, int, int, float]) -> np.ndarray[Any, np.dtype[np.float32]]:
    tensor = SMALL.to_tensor()
    for plane, row, col, value in changes:
        tensor[plane, row, col] = value
    return tensor


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (np.zeros((PLANES, 3, 3)), "shape (16, 18, 18), not float64 in shape (16, 3, 3)"),
        (np.full((PLANES, SIDE, SIDE), "x"), "not <U1"),
        (_tensor((6, 1, 1, 0.5)), "other than 0 and 1, first in plane 6 at row 0, column 0"),
        (_tensor((6, 1, 1, float("nan"))), "other than 0 and 1"),
        (_tensor((6, 1, 1, float("inf"))), "other than 0 and 1"),
        (_tensor((6, 1, 1, -1)), "other than 0 and 1"),
        (_tensor((0, 1, 1, 1)), "two things on one cell"),
        (_tensor((9, 1, 2, 1)), "two things on one cell"),
        (_tensor((9, 9, 9, 1)), "something beyond the frame, first in plane 9 at row 8, column 8"),
        (_tensor((4, 1, 1, 1)), "the hero stands in a wall"),
        (_tensor((2, 2, 1, 1)), "these cell codes hold 2"),
        (_tensor((5, 0, 0, 0)), "at row -1, column -1"),
        (np.stack([SMALL.to_tensor(), _tensor((9, 1, 2, 1))]), "tensor [1] has two things on one cell"),
    ],
)
def test_impossible_tensors_are_refused(tensor: Any, message: str) -> None:
    with pytest.raises(WorldError) as caught:
        World.from_tensor(tensor)
    assert message in str(caught.value)


def test_there_is_no_tensor_of_a_number_that_is_no_code() -> None:
    with pytest.raises(WorldError, match="80 is no cell code"):
        codes_to_tensor(np.full((2, SIDE, SIDE), CODES, np.uint8))
