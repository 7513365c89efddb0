"""Features of prefixes: against plain Python, on the host and on a GPU."""

from __future__ import annotations

import logging
import random
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from karelsynth.errors import KarelsynthError, WorldError
from karelsynth.karel import cuda as karel_cuda
from karelsynth.karel import interpreter
from karelsynth.karel.formats.codes import worlds_to_codes
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.interpreter import PAPER_TICKS, Status, Tick, run
from karelsynth.karel.machine import encode_programs
from karelsynth.karel.program import Program
from karelsynth.karel.structure_kernel import open_blocks
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.karel.tokens import ID, TOKENS
from karelsynth.karel.world import HEADINGS, STEP, World
from karelsynth.model import prefix_runner as runners
from karelsynth.model import prefix_runner_cuda
from karelsynth.model.prefix_features_kernel import CHANGING, FEATURES, VALUES
from karelsynth.model.prefix_runner import HostPrefixRunner, prefix_runner
from karelsynth.model.prefix_trie_kernel import ALL_TOKENS, UNFORCED, packed_layout
from karelsynth.search import beam_search
from karelsynth.tasks.streams import TaskStream
from karelsynth.train.batches import BatchLoader
from tests.models import execution_model, random_grids, random_programs
from tests.plain import BOUNDARY, OPENERS, finished
from tests.plain import open_blocks as plain_open_blocks
from tests.strategies import programs, random_program, random_world

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
    """What `prefix_features_kernel` says of a state, from worlds rather than arrays."""
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
    rays = []
    for step_up, step_over in sides:
        cells = [(row + step_up * far, col + step_over * far) for far in range(1, 16)]
        rays.append(cells[: [*(is_free(world, cell) for cell in cells), False].index(False)])

    def differs(cell: tuple[int, int]) -> bool:
        return is_free(world, cell) and is_free(target, cell) and markers(world, cell) != markers(target, cell)

    codes += [len(ray) for ray in rays]
    codes += [next((far for far, cell in enumerate(ray, 1) if markers(world, cell)), 0) for ray in rays]
    codes += [next((far for far, cell in enumerate(ray, 1) if differs(cell)), 0) for ray in rays]
    wrong = sorted(filter(differs, {*world.markers, *target.markers}))  # of equally near ones the first, row by row
    if not wrong:
        return [*codes, 15, 15]
    rows, cols = min(((r - row, c - col) for r, c in wrong), key=lambda way: abs(way[0]) + abs(way[1]))
    aside, ahead = rows * right_up + cols * right_over, rows * up + cols * over
    return [*codes, max(-7, min(7, aside)) + 7, max(-7, min(7, ahead)) + 7]


def closed(prefix: tuple[str, ...], most: int) -> tuple[str, ...] | None:
    """The prefix with up to `most` open blocks closed; None if nothing can be closed."""
    while prefix and not CHANGING[ID[prefix[-1]]]:
        prefix = prefix[:-1]
    if not prefix or prefix[-1] in OPENERS:
        return None
    end = list(prefix)
    for block in plain_open_blocks(prefix)[::-1][:most]:
        if block in ("I(", "ELSE"):
            break
        end.append(OPENERS[block])
    return tuple(end) if len(end) > len(prefix) else None


def plain_run(prefix: tuple[str, ...], world: World) -> tuple[World, int, int, int]:
    """Run a prefix by the interpreter for 200 ticks, through endless loops: world, status, ticks, and `waits`."""
    while prefix and prefix[-1] not in BOUNDARY and prefix[-1] != "m)":
        prefix = prefix[:-1]
    if not prefix:
        return world, Status.OK, 0, -1
    ticks: list[Tick] = []
    program, goes_on = (Program.parse(" ".join(prefix)), {}) if prefix[-1] == "m)" else finished(prefix)
    with mock.patch.object(interpreter, "FIRST_REMEMBERED", 10**9):
        result = run(program, world, max_ticks=PAPER_TICKS, observe=ticks.append)
    first = next((place for place, tick in enumerate(ticks) if tick.where in goes_on), len(ticks))
    reached = ticks[first - 1].world if first else world
    if first < len(ticks) or result.where in goes_on:
        at = ticks[first].where if first < len(ticks) else result.where
        assert at is not None
        return reached, Status.OK, first, goes_on[at]
    status = Status.OK if result.status is Status.PILE_TOO_HIGH else result.status
    return reached, status, result.ticks, -1


def features_when_closed(prefix: tuple[str, ...] | None, world: World, target: World) -> list[int]:
    if prefix is None:
        return [15] * 4
    reached, status, _, waits = plain_run(prefix, world)
    codes = plain_features(reached, target, 0, 0, 0)
    return [7 if waits >= 0 else 1 + status, codes[86], codes[82], codes[83]]


def expected_features(prefix: tuple[str, ...], some_worlds: list[World], targets: list[World]) -> list[list[int]]:
    blocks = len(plain_open_blocks(prefix))
    found = []
    for world, target in zip(some_worlds, targets, strict=True):
        reached, status, ticks, waits = plain_run(prefix, world)
        found.append(
            plain_features(reached, target, status, 0 if waits < 0 else blocks - waits, ticks)
            + features_when_closed(closed(prefix, 1), world, target)
            + features_when_closed(closed(prefix, 99), world, target)
        )
    return found


def some_target(rng: random.Random, program: Program, world: World) -> World:
    """A program's final world, also of a crash, or any world of any size: all must be described."""
    return run(program, world).world if rng.random() < 0.8 else random_world(rng)


def pairs(rng: random.Random, program: Program, count: int) -> tuple[list[World], list[World]]:
    befores = [random_world(rng) for _ in range(count)]
    return befores, [some_target(rng, program, world) for world in befores]


@given(programs(), st.integers(0, 2**32 - 1), st.data())
def test_codes_of_prefixes_are_those_in_plain_python(program: Program, seed: int, data: st.DataObject) -> None:
    prefix = program.tokens[: data.draw(st.integers(0, len(program.tokens)))]
    befores, targets = pairs(random.Random(seed), program, 2)
    runner = HostPrefixRunner(worlds_to_codes(befores)[None], worlds_to_codes(targets)[None])
    tokens = np.array([ID[token] for token in prefix], np.uint8).reshape(1, -1)
    padded = np.pad(tokens, ((0, 0), (0, data.draw(st.integers(0, 3)))))
    found = runner.features(torch.from_numpy(padded), torch.tensor([len(prefix)]), torch.zeros(1, dtype=torch.int64))
    assert found.shape == (1, 2, FEATURES)
    assert found[0].tolist() == expected_features(prefix, befores, targets)
    assert found.max() < VALUES


@given(programs(), st.data())
def test_open_blocks(program: Program, data: st.DataObject) -> None:
    prefix = program.tokens[: data.draw(st.integers(0, len(program.tokens)))]
    tokens = np.array([ID[token] for token in prefix], np.uint8)
    closing, blocks = np.empty(len(tokens) + 1, np.uint8), plain_open_blocks(prefix)
    assert open_blocks(tokens, closing) == len(blocks)
    closers = {"I(": 0, "ELSE": ID["ELSE"], **{opener: ID[closer] for opener, closer in OPENERS.items()}}
    assert closing[: len(blocks)].tolist() == [closers[block] for block in blocks]


@pytest.mark.parametrize("packed", [ALL_TOKENS, UNFORCED], ids=["all tokens", "skip_forced_tokens"])
def test_along_a_program_is_prefix_by_prefix(packed: NDArray[np.bool_]) -> None:
    """Programs of several lengths, on some of the examples in any order; heads and conditions change nothing."""
    rng = random.Random(1)
    several = [random_program(rng, depth=rng.randint(1, 3)) for _ in range(40)]
    examples = [pairs(rng, program, 3) for program in several]
    inputs, outputs = (np.stack([worlds_to_codes(pair[side]) for pair in examples]) for side in (0, 1))
    runner = HostPrefixRunner(inputs, outputs)
    tokens, lengths = encode_programs(several), np.array([program.size for program in several])
    chosen = np.array([rng.sample(range(3), 2) for _ in several])
    layout = packed_layout(tokens, lengths, packed)
    order = layout.order
    which = np.arange(0, 120, 3)[:, None] + chosen
    found = runner.features_along(tokens[order], lengths[order], layout, which[order]).numpy()
    waited, dead, changed = 0, 0, 0
    for place, number in enumerate(order):
        own = HostPrefixRunner(
            inputs[number : number + 1, chosen[number]], outputs[number : number + 1, chosen[number]]
        )
        before = None
        for at in range(lengths[number]):
            prefix, length = torch.from_numpy(tokens[number : number + 1]), torch.tensor([at])
            expected = own.features(prefix, length, torch.zeros(1, dtype=torch.int64))[0].numpy()
            row = layout.rows[place, at]
            assert (row >= 0) == packed[tokens[number, at]]
            if row >= 0:
                assert np.array_equal(found[row], expected), (several[number], at)
            waited += int((expected[:, 89] > 0).sum())
            dead += int((expected[:, 90] != Status.OK).sum())
            if before is not None and not np.array_equal(expected, before):
                assert CHANGING[tokens[number, at - 1]], TOKENS[tokens[number, at - 1]]
                changed += 1
            before = expected
    assert min(waited, dead, changed) > 100


def any_prefixes(seed: int, tasks: int, count: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Tokens [N, L] of programs and of nonsense, lengths of prefixes of them, and a task for each."""
    rng = random.Random(seed)
    tokens = random_programs(seed, count, 40)[0]
    for row in rng.sample(range(count), count // 4):
        tokens[row, rng.randrange(tokens.shape[1])] = rng.randrange(52)
    lengths = np.array([rng.randint(0, tokens.shape[1]) for _ in range(count)])
    return tokens, lengths, np.array([rng.randrange(tasks) for _ in range(count)])


class FakeCuda:
    """The part of Numba's CUDA module that the kernel uses, for one thread on the host."""

    def __init__(self, index: int) -> None:
        self.index, self.local = index, self

    def grid(self, dimensions: int) -> int:
        return self.index if dimensions == 1 else -1

    def array(self, shape: Any, dtype: Any) -> NDArray[Any]:
        return np.full(shape, 7, dtype)  # a GPU's local memory holds anything


def test_the_kernel_of_gpus_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thread by thread on the host; that it compiles and runs there is for the GPU's tests."""
    inputs, outputs = (grids.numpy() for grids in random_grids(20, 4, 3))
    tokens, lengths, tasks = any_prefixes(21, 4, 60)
    runner, grammar = HostPrefixRunner(inputs, outputs), compile_grammar(KAREL)
    befores, targets = inputs.reshape(-1, 324), outputs.reshape(-1, 324)
    heroes = (befores >= 16).argmax(1).astype(np.int16)
    which, rows = tasks[:, None] * 3 + np.array([2, 0, 1]), np.arange(60)[::-1].copy()
    found = np.full((60 * 3, FEATURES), 99, np.uint8)
    for index in (*range(60 * 3), 60 * 3, 191):  # some threads of the last block have nothing to do
        monkeypatch.setattr(prefix_runner_cuda, "cuda", FakeCuda(index))
        prefix_runner_cuda.features_of_prefixes.py_func(
            tokens, rows, lengths, which, befores, heroes, targets, grammar.tables.transition, grammar.parser.symbols,
            grammar.parser.start, found,
        )  # fmt: skip
    for number, row in enumerate(rows):
        prefix, length = torch.from_numpy(tokens[row : row + 1]), torch.from_numpy(lengths[number : number + 1])
        expected = runner.features(prefix, length, torch.tensor([tasks[number]]))[0, [2, 0, 1]]
        assert np.array_equal(found[3 * number : 3 * number + 3], expected), number


def test_what_is_no_world_is_refused() -> None:
    inputs, outputs = (grids.numpy() for grids in random_grids(22, 4, 3))
    inputs[2, 1] &= 15  # without its hero
    runner, tokens = HostPrefixRunner(inputs, outputs), torch.zeros(1, 0, dtype=torch.uint8)
    zero = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(WorldError, match=r"inputs\[2, 1\] is not a world"):
        runner.features(tokens, zero, zero)
    programs = np.full((1, 1), ID["DEF"], np.uint8)
    one = np.ones(1, np.int64)
    with pytest.raises(WorldError, match=r"inputs\[2, 1\] is not a world"):
        runner.features_along(programs, one, packed_layout(programs, one), np.array([[6, 7]]))
    some = runner.select(torch.tensor([3, 0]))  # the others can be run on
    assert some.features(tokens, zero, zero).shape == (1, 3, FEATURES)


def test_what_is_too_long_for_a_gpu_is_refused() -> None:
    runner = prefix_runner_cuda.CudaPrefixRunner(*random_grids(23, 1, 1))
    tokens = torch.zeros(1, prefix_runner_cuda.LONGEST + 1, dtype=torch.uint8)
    zero = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(
        KarelsynthError, match=f"more than {prefix_runner_cuda.LONGEST} tokens cannot be run on a GPU: give"
    ):
        runner.features(tokens, zero, zero)


@pytest.mark.parametrize(
    ("finds", "reason"),
    [
        (SimpleNamespace(is_available=lambda: False, cuda_error=lambda: "no\n  driver\n"), "Numba says: no driver"),
        (SimpleNamespace(is_available=lambda: False, cuda_error=lambda: None), "Numba says: it lacks a part of CUDA"),
        (SimpleNamespace(), "Numba says: AttributeError: "),
    ],
)
def test_the_reason_for_not_using_a_gpu_is_logged_once(
    finds: Any, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(karel_cuda, "cuda", finds)
    monkeypatch.setattr(runners, "probe_cuda", cache(runners.probe_cuda.__wrapped__))
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(4) as pool:
        assert not any(pool.map(lambda _: runners.cuda_available(), range(8)))
    (message,) = caplog.messages
    assert reason in message
    assert "\n" not in message


@pytest.mark.gpu
@pytest.mark.parametrize("skip_forced_tokens", [False, True])
def test_a_gpu_finds_the_same(skip_forced_tokens: bool) -> None:
    """Prefixes one by one, along programs, in the batches that are trained on, and in beams."""
    assert runners.cuda_available(), "Numba cannot use this GPU: is numba-cuda installed?"
    inputs, outputs = random_grids(20, 40, 5)
    host, device = prefix_runner(inputs, outputs), prefix_runner(inputs.cuda(), outputs.cuda())
    assert isinstance(device, prefix_runner_cuda.CudaPrefixRunner)
    tokens, _, tasks = any_prefixes(21, 40, 3000)
    for length in range(0, tokens.shape[1] + 1, 3):
        given = (torch.from_numpy(tokens), torch.full((len(tokens),), length), torch.from_numpy(tasks))
        assert torch.equal(device.features(*(part.cuda() for part in given)).cpu(), host.features(*given)), length
    model = execution_model(syntax="handwritten", max_length=72, skip_forced_tokens=skip_forced_tokens)
    on_gpu = execution_model(syntax="handwritten", max_length=72, skip_forced_tokens=skip_forced_tokens).cuda()
    batches, others = (
        list(BatchLoader(TaskStream(4), one, batch_size=64, seed=1, pack=True).batches(0, 32))
        for one in (model, on_gpu)
    )
    for batch, other in zip(batches, others, strict=True):  # several threads make them at the same time
        assert batch.packed is not None
        assert other.packed is not None
        assert batch.packed.features is not None
        assert other.packed.features is not None
        assert torch.equal(other.packed.features.cpu(), batch.packed.features)
    found, by_gpu = (
        beam_search(one, one.encode(part[0].inputs, part[0].outputs).detach(), beam=8, dtype=torch.float32).cpu()
        for one, part in ((model, batches), (on_gpu, others))
    )
    torch.testing.assert_close(found.logprobs[:, 0], by_gpu.logprobs[:, 0], atol=1e-3, rtol=1e-3)
    assert (found.tokens[:, 0] == by_gpu.tokens[:, 0]).all(1).float().mean() > 0.95  # but for what is about equal
