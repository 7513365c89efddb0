"""The decoder that sees where programs have led: its codes against plain Python, and the network around them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from karelsynth.karel.formats.codes import worlds_to_codes
from karelsynth.karel.interpreter import Status, run
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import ID, TOKENS
from karelsynth.karel.world import HEADINGS, STEP, World
from karelsynth.model.execution import Shown
from karelsynth.model.execution_kernel import CHANGING, FEATURES, VALUES, open_blocks
from tests.strategies import programs, random_program, random_world, worlds
from tests.test_prefixes import open_blocks as plain_open_blocks

BUCKETS = (0, 1, 2, 3, 4, 5, 6, 8, 11, 16, 24, 40)


def bucket(number: int) -> int:
    return sum(number >= start for start in BUCKETS) - 1


def is_free(world: World, cell: tuple[int, int]) -> bool:
    return 0 <= cell[0] < world.rows and 0 <= cell[1] < world.cols and cell not in world.walls


def code_of_cell(now: int, target: int) -> int:
    """The table of cells, spelled out."""
    match now, target:
        case (0, 0):
            return 0
        case _ if now == target:
            return 2 if now == 1 else 3
        case (0, _):
            return {1: 4, 2: 5}.get(target, 6)
        case _ if now < target:
            return {1: 7, 2: 8}.get(target - now, 9)
        case (_, 0):
            return {1: 10, 2: 11}.get(now, 12)
    return 13 if now - target == 1 else 14


def plain_features(world: World, target: World, status: int, waiting: int, ticks: int) -> list[int]:
    """What `execution_kernel` says of a state, from worlds rather than arrays."""
    row, col, heading = world.hero
    sides = [STEP[HEADINGS[(HEADINGS.index(heading) + turn) % 4]] for turn in range(4)]
    (up, over), (right_up, right_over) = sides[:2]

    def markers(there: World, cell: tuple[int, int]) -> int:
        return there.markers.get(cell, 0)

    codes = []
    for ahead in range(4, -5, -1):
        for aside in range(-4, 5):
            cell = (row + ahead * up + aside * right_up, col + ahead * over + aside * right_over)
            codes.append(code_of_cell(markers(world, cell), markers(target, cell)) if is_free(world, cell) else 1)
    turns = (HEADINGS.index(target.hero.heading) - HEADINGS.index(heading)) % 4
    rows, cols = target.hero.row - row, target.hero.col - col
    aside, ahead = rows * right_up + cols * right_over, rows * up + cols * over
    codes += [turns, max(-7, min(7, aside)) + 7, max(-7, min(7, ahead)) + 7]
    codes += [markers(world, (row, col)), markers(target, (row, col))]
    common = [
        (markers(world, cell), markers(target, cell))
        for cell in {*world.markers, *target.markers}
        if is_free(world, cell) and is_free(target, cell)
    ]
    more, fewer = sum(now > then for now, then in common), sum(now < then for now, then in common)
    if more + fewer:
        codes.append(1 + bucket(more + fewer))
    else:
        codes.append(0 if world.hero == target.hero else 1)
    codes += [bucket(more), bucket(fewer), min(waiting, 15), status, min(ticks.bit_length(), 8)]
    for step_up, step_over in sides:
        free = 0
        while free < 15 and is_free(world, (row + step_up * (free + 1), col + step_over * (free + 1))):
            free += 1
        codes.append(free)
    return codes


def expected_features(prefix: tuple[str, ...], some_worlds: list[World], targets: list[World]) -> list[list[int]]:
    tokens = np.array([[ID[token] for token in prefix]], np.uint8).reshape(1, -1)
    runs = run_batch(tokens, worlds_to_codes(some_worlds)[None], prefixes=True)
    assert runs.worlds is not None
    assert runs.waits is not None
    blocks = len(plain_open_blocks(prefix))
    found = []
    for number, target in enumerate(targets):
        waits = int(runs.waits[0, number])
        found.append(
            plain_features(
                World.from_codes(runs.worlds[0, number]),
                target,
                int(runs.status[0, number]),
                0 if waits < 0 else blocks - waits,
                int(runs.ticks[0, number]),
            )
        )
    return found


def some_target(rng: random.Random, program: Program, world: World) -> World:
    """Where a program leads, where it crashes, or just any world of that size or another: all must be told."""
    return run(program, world).world if rng.random() < 0.8 else random_world(rng)


def pairs(rng: random.Random, program: Program, count: int) -> tuple[list[World], list[World]]:
    befores = [random_world(rng) for _ in range(count)]
    return befores, [some_target(rng, program, world) for world in befores]


@given(programs(), st.integers(0, 2**32 - 1), st.data())
def test_codes_of_prefixes_are_those_in_plain_python(program: Program, seed: int, data: st.DataObject) -> None:
    prefix = program.tokens[: data.draw(st.integers(0, len(program.tokens)))]
    befores, targets = pairs(random.Random(seed), program, 2)
    shown = Shown(worlds_to_codes(befores)[None], worlds_to_codes(targets)[None])
    tokens = np.array([ID[token] for token in prefix], np.uint8).reshape(1, -1)
    found = shown.features(tokens, np.zeros(1, np.int64))
    assert found.shape == (1, 2, FEATURES)
    assert found[0].tolist() == expected_features(prefix, befores, targets)
    assert found.max() < VALUES


@given(programs(), st.data())
def test_open_blocks(program: Program, data: st.DataObject) -> None:
    prefix = program.tokens[: data.draw(st.integers(0, len(program.tokens)))]
    tokens = np.array([ID[token] for token in prefix], np.uint8)
    assert open_blocks(tokens) == len(plain_open_blocks(prefix))


def test_along_a_program_is_prefix_by_prefix() -> None:
    """Programs of several lengths, shown some of the examples in any order; heads and conditions change nothing."""
    rng = random.Random(1)
    several = sorted((random_program(rng, depth=rng.randint(1, 3)) for _ in range(40)), key=lambda p: -p.size)
    examples = [pairs(rng, program, 3) for program in several]
    inputs, outputs = (np.stack([worlds_to_codes(pair[side]) for pair in examples]) for side in (0, 1))
    shown = Shown(inputs, outputs)
    tokens, lengths = encode_programs(several), np.array([program.size for program in several])
    chosen = np.array([rng.sample(range(3), 2) for _ in several])
    step_sizes = np.array([(lengths > step).sum() for step in range(lengths.max())])
    found = shown.features_along(tokens, lengths, step_sizes, np.arange(0, 120, 3)[:, None] + chosen)
    offsets = np.cumsum(step_sizes) - step_sizes
    waited, dead, changed = 0, 0, 0
    for number in range(len(several)):
        own = Shown(inputs[number : number + 1, chosen[number]], outputs[number : number + 1, chosen[number]])
        for at in range(lengths[number]):
            expected = own.features(tokens[number : number + 1, :at], np.zeros(1, np.int64))[0]
            assert np.array_equal(found[offsets[at] + number], expected), (several[number], at)
            waited += int((expected[:, 89] > 0).sum())
            dead += int((expected[:, 90] != Status.OK).sum())
            if at and not np.array_equal(expected, found[offsets[at - 1] + number]):
                assert CHANGING[tokens[number, at - 1]], TOKENS[tokens[number, at - 1]]
                changed += 1
    assert min(waited, dead, changed) > 100
