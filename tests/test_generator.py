"""The generator: exact in its seed, right in every task, near the original's statistics."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest

from karelsynth.errors import KarelsynthError
from karelsynth.generator.sampler import LONGEST_FITTED, SLOTS, alias_row
from karelsynth.generator.world_kernel import LONGEST_TRACE, MOST_DRAWN_MARKERS
from karelsynth.karel.formats.codes import FRAME, HERO, WALL, world_from_codes
from karelsynth.karel.grammar import NORMAL_FORM
from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.machine import run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.syntax import syntax_machine
from karelsynth.karel.tokens import ID, PAD
from karelsynth.tasks.batch import EXAMPLES, TaskBatch, concatenate
from karelsynth.tasks.generate import generate, is_reserved
from karelsynth.tasks.statistics import compare, compute
from karelsynth.tasks.task import MOST_EXAMPLES

SEED = 20


@pytest.fixture(scope="module")
def batch() -> TaskBatch:
    return generate(SEED, 0, 4000)


@pytest.fixture(scope="module")
def natural() -> TaskBatch:
    return generate(SEED, 0, 20_000, reserved=True)


def assert_equal(one: TaskBatch, other: TaskBatch) -> None:
    for field in fields(TaskBatch):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)


def digest(batch: TaskBatch) -> str:
    return hashlib.sha256(b"".join(getattr(batch, field.name).tobytes() for field in fields(TaskBatch))).hexdigest()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("reserved", [False, True])
def test_a_task_depends_on_its_seed_and_number_only(threads: int, reserved: bool) -> None:
    whole = generate(SEED, 0, 1000, reserved=reserved)
    edges = [0, 1, 2, 9, 300, 301, 765, 1000]
    pieces = [
        generate(SEED, first, last - first, reserved=reserved, threads=threads) for first, last in pairwise(edges)
    ]
    assert_equal(whole, concatenate(pieces))


def test_seeds_and_streams_differ() -> None:
    some = generate(1, 0, 50)
    for other in (generate(2, 0, 50), generate(1, 0, 50, reserved=True), generate(1, 1, 50)):
        assert not (some.inputs == other.inputs).all(axis=(1, 2, 3)).any()


def test_far_along_the_stream() -> None:
    far = 2**62
    assert_equal(generate(3, far, 3)[1:], generate(3, far + 1, 2))


def test_golden() -> None:
    """If this fails, named data sets are no longer what they were: raise their version."""
    assert digest(generate(0, 0, 20)) == GOLDEN["training"]
    assert digest(generate(0, 0, 20, reserved=True)) == GOLDEN["testing"]
    assert digest(generate(2**63 - 1, 12_345, 5, examples=9)) == GOLDEN["nine examples"]


def test_shapes(batch: TaskBatch) -> None:
    assert batch.inputs.shape == batch.outputs.shape == (4000, EXAMPLES, 18, 18)
    np.testing.assert_array_equal((batch.tokens != PAD).sum(axis=1), batch.lengths)
    assert len(generate(SEED, 5, 0)) == 0


def test_programs_are_in_normal_form(batch: TaskBatch) -> None:
    machine = syntax_machine(NORMAL_FORM, LONGEST_FITTED)
    state = machine.initial(len(batch))
    for column in batch.tokens.T:
        state = machine.advance(state, column.astype(np.int64))
    assert machine.accepts(state).all()
    assert batch.lengths.min() == 6
    assert batch.lengths.max() <= LONGEST_FITTED


def test_examples_are_what_the_programs_do(batch: TaskBatch) -> None:
    """The lazily drawn worlds were run by another loop than the machine's: here is the proof that they agree."""
    runs = run_batch(batch.tokens, batch.inputs, expected=batch.outputs, traces=True)
    assert runs.correct is not None
    assert runs.correct.all()
    assert runs.traces is not None
    assert runs.trace_lengths is not None
    assert (runs.traces == ID["move"]).any(axis=2).all()
    assert np.isin(runs.traces, [ID["pickMarker"], ID["putMarker"]]).any(axis=2).all()
    assert runs.ticks.max() <= PAPER_TICKS
    assert runs.trace_lengths.max() <= LONGEST_TRACE


def test_the_interpreter_agrees(batch: TaskBatch) -> None:
    for task in range(20):
        program = Program.from_tokens(batch.tokens[task].tolist())
        for before, after in zip(batch.inputs[task], batch.outputs[task], strict=True):
            assert program.run(world_from_codes(before)).world == world_from_codes(after)


def test_worlds(batch: TaskBatch) -> None:
    for worlds in (batch.inputs, batch.outputs):
        content = worlds % HERO
        assert content[content < WALL].max() <= MOST_DRAWN_MARKERS
        assert ((worlds // HERO > 0).sum(axis=(2, 3)) == 1).all()
    assert (batch.inputs != batch.outputs).any(axis=(2, 3)).all()
    rows = (batch.inputs[:, :, 1:, 1] % HERO < FRAME).sum(axis=2)
    assert set(np.unique(rows)) == set(range(2, 17))
    flat = batch.inputs.reshape(len(batch), EXAMPLES, -1)
    for one in range(EXAMPLES):
        for other in range(one):
            assert (flat[:, one] != flat[:, other]).any(axis=1).all()


@pytest.mark.parametrize("examples", [2, 5, MOST_EXAMPLES])
def test_number_of_examples(examples: int) -> None:
    batch = generate(SEED, 0, 200, examples=examples)
    assert batch.inputs.shape[1] == examples
    runs = run_batch(batch.tokens, batch.inputs, expected=batch.outputs)
    assert runs.correct is not None
    assert runs.correct.all()


def test_reserved_programs_never_train(batch: TaskBatch) -> None:
    assert not batch.novel.any()
    assert not is_reserved(batch.tokens).any()


def test_reserved_programs_have_their_natural_rate_elsewhere(natural: TaskBatch) -> None:
    np.testing.assert_array_equal(natural.novel, is_reserved(natural.tokens))
    long = natural.lengths >= 12
    assert not natural.novel[~long].any()
    distinct = np.unique(natural.tokens[long], axis=0)
    assert abs(is_reserved(distinct).mean() - 0.1) < 0.01


def test_reserving_does_not_favour_short_programs(natural: TaskBatch) -> None:
    training = generate(SEED, 0, len(natural))
    for length in (8, 12, 16, 24, 33):
        assert abs((training.lengths <= length).mean() - (natural.lengths <= length).mean()) < 0.02


def test_is_reserved_ignores_padding(natural: TaskBatch) -> None:
    wider = np.pad(natural.tokens[:100], ((0, 0), (0, 8)))
    np.testing.assert_array_equal(is_reserved(wider), natural.novel[:100])


def test_statistics_are_near_the_original(natural: TaskBatch) -> None:
    """Wider than what 100,000 tasks are held to: 20,000 scatter more."""
    rows = [row for row in compare(compute(natural)) if row.allowed is not None]
    far = [
        f"{row.group} {row.name}: {row.value:.3f} for {row.original:.3f}"
        for row in rows
        if row.distance > 1.5 * (row.allowed or 0)
    ]
    assert not far


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1, "start": 0, "count": 1}, "seed"),
        ({"seed": 2**63, "start": 0, "count": 1}, "seed"),
        ({"seed": 0, "start": -1, "count": 1}, "start is a whole number from 0 on, not -1"),
        ({"seed": 0, "start": 0, "count": -1}, "count is a whole number from 0 on, not -1"),
        ({"seed": 1.5, "start": 0, "count": 1}, "seed is a whole number from 0 to .*, not 1.5"),
        ({"seed": 1, "start": 1.9, "count": 2}, "start is a whole number from 0 on, not 1.9"),
        ({"seed": 1, "start": 0, "count": "2"}, "count is a whole number from 0 on, not '2'"),
        ({"seed": 1, "start": 2**62, "count": 2**62}, "the sum of start and count must be below 2⁶³"),
        ({"seed": 1, "start": 0, "count": 1, "threads": 0}, "threads is a whole number from 1 on, not 0"),
        ({"seed": 0, "start": 0, "count": 1, "examples": 1}, "examples"),
        ({"seed": 0, "start": 0, "count": 1, "examples": 21}, "examples"),
    ],
)
def test_bad_arguments(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(KarelsynthError, match=message):
        generate(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", [[1], [3, 1], [0, 5, 0, 7], list(range(16)), [10**12, 1], [1] * 16])
def test_alias_rows_are_exact(weights: list[int]) -> None:
    """Summing what each slot gives to each number restores the weights, to the last of 2³² parts."""
    given = [0] * SLOTS
    for slot, entry in enumerate(alias_row(weights)):
        own, alias = divmod(entry, SLOTS)
        given[slot] += own
        given[alias] += (1 << 32) - own
    for number, weight in enumerate(weights):
        assert abs(given[number] / (SLOTS << 32) - weight / sum(weights)) < 1e-8
    assert not any(given[len(weights) :])


def test_impossible_weights() -> None:
    for weights in ([], [0, 0], [1, -1], [1] * 17):
        with pytest.raises(ValueError, match="row"):
            alias_row(weights)


GOLDEN = {
    "training": "7c6e98cd3bbe935d3d7665b2afcaf3a1339968c694f5233023f92c3814bba70c",
    "testing": "f6250916841972f269fe3a8d16c2442ab5e1f952bc2b82f44cf02e2487f79660",
    "nine examples": "ec3dfe8560c4f2da2a76ddb624a719c13fef8872b29fbb62a18c9abf3f13fd25",
}


def test_one_task_of_a_batch_is_a_task() -> None:
    tasks = generate(3, 0, 4)
    for number in range(4):
        task, program = tasks.task(number), tasks.program(number)
        assert len(task.examples) == 5
        assert all(program.run(before).world == after for before, after in task.examples)
    with pytest.raises(TypeError, match=r"`task\(2\)` is a single task"):
        tasks[2]  # type: ignore[index]


def test_a_sampler_of_another_shape_is_refused() -> None:
    with pytest.raises(KarelsynthError, match="a sampler is a table"):
        generate(1, 0, 1, sampler=np.zeros((3, 16), np.uint8))
