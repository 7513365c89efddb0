"""The batch machine on a GPU against the one on the host, field by field.

Without a GPU the kernels run on the host, one block of one thread after the other. That they compile and run on a GPU
is for the tests marked `gpu`.
"""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from karelsynth.errors import KarelsynthError, WorldError
from karelsynth.karel import machine_cuda
from karelsynth.karel.cuda import why_not
from karelsynth.karel.formats.codes import worlds_to_codes
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.interpreter import MAX_TICKS, PAPER_TICKS, Status
from karelsynth.karel.machine import BatchRun, encode_programs, run_batch
from karelsynth.karel.machine_kernel import CELLS, EDGE, code_buffers
from karelsynth.karel.program import Action, Program, Repeat, While
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.karel.tokens import PAD, VOCABULARY_SIZE
from karelsynth.karel.world import World
from tests.strategies import random_condition, random_program, random_world


def some_programs(seed: int, count: int) -> NDArray[np.uint8]:
    """Random programs, loops with high piles and loops that never end, prefixes, and rows that are no programs."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    made = []
    for number in range(count):
        program = random_program(rng, depth=rng.randint(0, 4))
        if number % 3 == 0:
            put, pick = (Repeat(rng.randint(5, 19), (action,)) for action in (Action.PUT_MARKER, Action.PICK_MARKER))
            body = tuple(rng.sample((put, pick, *program.body), 2 + len(program.body)))
            outer = While(random_condition(rng), body) if rng.random() < 0.5 else Repeat(rng.randint(5, 19), body)
            program = Program((put, Repeat(rng.randint(0, 7), (outer, pick)), rng.choice((pick, put))))
        if number % 20 == 0:  # more markers than a cell holds
            program = Program((Repeat(19, (Repeat(rng.randint(5, 6), (Action.PUT_MARKER,)),)), *program.body))
        made.append(program)
    tokens = encode_programs(made)
    lengths = (tokens != PAD).sum(1)
    for row in range(1, count, 4):  # a prefix
        tokens[row, numbers.integers(0, lengths[row]) :] = PAD
    for row in range(2, count, 8):  # a wrong token somewhere
        tokens[row, numbers.integers(0, lengths[row])] = numbers.integers(0, VOCABULARY_SIZE + 2)
    return tokens


def some_worlds(seed: int, rows: int, columns: int) -> NDArray[np.uint8]:
    rng = random.Random(seed)
    return np.stack([worlds_to_codes([random_world(rng) for _ in range(columns)]) for _ in range(rows)])


def assert_same(found: BatchRun, expected: BatchRun) -> None:
    for name in BatchRun.__dataclass_fields__:
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None), name
        if other is not None:
            assert one.dtype == other.dtype, name
            assert np.array_equal(one, other), name


class OneThread:
    """The part of Numba's CUDA module that the kernels use, for a block of one thread on the host."""

    def __init__(self, index: int, blocks: int) -> None:
        self.index, self.shared, self.atomic = index, self, self
        self.threadIdx, self.blockDim = SimpleNamespace(x=0), SimpleNamespace(x=1)
        self.blockIdx, self.gridDim = SimpleNamespace(x=index), SimpleNamespace(x=blocks)

    def grid(self, dimensions: int) -> int:
        return self.index if dimensions == 1 else -1

    def array(self, shape: Any, dtype: Any) -> NDArray[Any]:
        return np.full(shape, 7, dtype)  # a GPU's memory holds anything

    def min(self, array: NDArray[Any], at: int, value: int) -> None:
        array[at] = min(array[at], value)

    def syncthreads(self) -> None:
        """There is nobody to wait for."""


def test_the_kernels_of_gpus_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, worlds = some_programs(1, 150), some_worlds(2, 5, 3)
    count, per_program, max_ticks = len(tokens), 3, PAPER_TICKS
    runs, which = count * per_program, np.arange(count) % 5
    wanted = run_batch(tokens, worlds, which=which).worlds
    assert wanted is not None
    targets = worlds.copy()
    targets[which[::7]] = wanted[::7]  # some are right
    flat, words = worlds.reshape(-1, CELLS), worlds.reshape(-1, CELLS).view(np.uint32)
    grammar = compile_grammar(KAREL)
    heroes, first_bad = np.zeros(len(flat), np.int16), np.array([2**62])

    def launch(kernel: Any, blocks: int, *given: Any) -> None:
        for index in range(blocks):
            monkeypatch.setattr(machine_cuda, "cuda", OneThread(index, blocks))
            kernel.py_func(*given)

    launch(machine_cuda.find_heroes_on_gpu, len(flat) + 1, flat, EDGE, heroes, first_bad)
    assert first_bad[0] == 2**62
    for prefixes in (False, True):
        code, origin, stack, opened, counters = (
            np.repeat(part[None], count, axis=0) for part in code_buffers(tokens.shape[1])
        )
        wrong, open_end = np.zeros(count, np.int32), np.zeros(count, np.bool_)
        launch(
            machine_cuda.compile_programs, count + 1, tokens, grammar.tables.transition, grammar.parser.symbols,
            grammar.parser.start, prefixes, code, origin, stack, opened, wrong, open_end,
        )  # fmt: skip
        found = BatchRun(
            np.zeros((count, 3), np.uint8), np.zeros((count, 3), np.int16), np.zeros((count, 3), np.int16),
            np.zeros((count, 3, 18, 18), np.uint8), np.zeros((count, 3), np.bool_),
            np.zeros((count, 3, max_ticks), np.uint8), np.zeros((count, 3), np.int16),
            np.zeros((count, 3, 30), np.uint8), np.zeros((count, 3), np.int16) if prefixes else None,
        )  # fmt: skip
        assert found.worlds is not None
        assert found.traces is not None
        assert found.coverage is not None
        launch(
            machine_cuda.run_programs, 90, code, origin, wrong, open_end, which, words, heroes,
            targets.reshape(-1, CELLS).view(np.uint32), np.zeros((counters.shape[1], 90), np.int32), max_ticks,
            prefixes, True, True, True, True, 0, found.status, found.ticks, found.where,
            found.worlds.reshape(runs, CELLS).view(np.uint32), found.correct, found.traces.reshape(runs, max_ticks),
            found.trace_lengths, found.coverage.reshape(runs, 30), found.waits,
        )  # fmt: skip
        expected = run_batch(
            tokens, worlds, which=which, expected=targets, traces=True, coverage=True, prefixes=prefixes,
            max_ticks=max_ticks,
        )  # fmt: skip
        assert expected.coverage is not None
        assert not found.coverage[:, :, expected.coverage.shape[2] :].any()
        columns = found.coverage[:, :, : expected.coverage.shape[2]]
        assert_same(BatchRun(**{**found.__dict__, "coverage": columns}), expected)
        assert len(np.unique(expected.status)) >= 7
        assert expected.correct is not None
        assert expected.correct.any()
    flat = flat.copy()
    flat[[4, 7]] &= 15  # without their heroes
    launch(machine_cuda.find_heroes_on_gpu, len(flat), flat, EDGE, heroes, first_bad)
    assert first_bad[0] == 4


@pytest.mark.skipif(why_not() is None, reason="there is a GPU")
def test_without_a_gpu_it_says_so() -> None:
    with pytest.raises(KarelsynthError, match=r"cannot run on a GPU here.*Numba says: "):
        run_batch(some_programs(3, 2), some_worlds(3, 1, 1), device="cuda")


def test_other_devices_are_refused() -> None:
    with pytest.raises(ValueError, match="device is cpu or cuda, not `tpu`"):
        run_batch(some_programs(3, 2), some_worlds(3, 1, 1), device="tpu")


@pytest.mark.gpu
@pytest.mark.parametrize("max_ticks", [PAPER_TICKS, MAX_TICKS])
@pytest.mark.parametrize("prefixes", [False, True])
def test_a_gpu_finds_the_same(max_ticks: int, prefixes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything that can be asked for, in one piece and in many, and with nothing."""
    tokens, worlds = some_programs(4, 6000), some_worlds(5, 50, 6)
    which = np.random.default_rng(6).integers(0, 50, len(tokens))
    expected = run_batch(tokens, worlds, which=which, prefixes=prefixes, max_ticks=max_ticks).worlds
    assert expected is not None
    targets = worlds.copy()
    targets[which[::5]] = expected[::5]
    every: dict[str, Any] = {"which": which, "expected": targets, "coverage": True, "traces": max_ticks < MAX_TICKS}
    same: dict[str, Any] = {"prefixes": prefixes, "max_ticks": max_ticks}
    host = run_batch(tokens, worlds, **every, **same)
    assert_same(run_batch(tokens, worlds, **every, **same, device="cuda"), host)
    monkeypatch.setattr(machine_cuda, "_MOST_SCRATCH", 2**20)
    monkeypatch.setattr(machine_cuda, "_MOST_RESULTS", 2**20)
    assert_same(run_batch(tokens, worlds, **every, **same, device="cuda"), host)
    some: dict[str, Any] = {"which": which, "keep_worlds": False}
    assert_same(run_batch(tokens, worlds, **some, **same, device="cuda"), run_batch(tokens, worlds, **some, **same))
    if max_ticks == MAX_TICKS and not prefixes:
        counts = np.bincount(host.status.ravel(), minlength=len(Status))
        assert (counts > 0).all()


@pytest.mark.gpu
def test_arrays_on_a_gpu_stay_there() -> None:
    import torch

    tokens, worlds = some_programs(7, 3000), some_worlds(8, 3000, 5)
    host = run_batch(tokens, worlds, expected=worlds)
    given = [torch.from_numpy(part).cuda() for part in (tokens, worlds)]
    runs = machine_cuda.run_on_gpu(*given, expected=given[1])
    for name in ("status", "ticks", "where", "correct", "worlds"):
        found = torch.as_tensor(getattr(runs, name), device="cuda").cpu().numpy()
        assert np.array_equal(found.reshape(getattr(host, name).shape), getattr(host, name)), name


@pytest.mark.gpu
def test_a_gpu_refuses_what_the_host_refuses() -> None:
    good = worlds_to_codes([World.parse("> .\n. .")] * 3)[None]
    bad = good.copy()
    bad[0, 1] &= 15
    program = [Program.from_tokens("DEF run m( move m)".split())]
    with pytest.raises(WorldError, match=r"worlds\[0, 1\] is not a world"):
        run_batch(program, bad, device="cuda")
    assert run_batch([], good, device="cuda").status.shape == (0, 3)
    assert run_batch(program, good[:, :0], device="cuda").status.shape == (1, 0)
    deep = ["REPEAT", "R=1", "r("] * 190 + ["turnLeft"] * 1500 + ["r)"] * 190
    long = [Program.from_tokens(["DEF", "run", "m(", *deep, "m)"])]
    assert_same(run_batch(long, good, device="cuda"), run_batch(long, good))
