"""Purposeful tasks: what holds for every one of them."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from karelsynth import Program
from karelsynth.cli import app
from karelsynth.errors import KarelsynthError
from karelsynth.karel.formats.codes import HERO, WALL, world_from_codes
from karelsynth.karel.grammar import NORMAL_FORM
from karelsynth.karel.interpreter import PAPER_TICKS, run
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.syntax import SyntaxMachine
from karelsynth.karel.tokens import ID
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.generate import generate, is_reserved
from karelsynth.tasks.purposeful.generator import PURPOSEFUL_TOKENS, generate_purposeful, plans_of
from karelsynth.tasks.purposeful.generator_kernel import teaching_order
from karelsynth.tasks.purposeful.plans import ADDED, plan_names
from karelsynth.tasks.purposeful.program_kernel import RAW, append_way_back, choose_statement
from karelsynth.tasks.sets import holds_purposeful_tasks, write_set
from karelsynth.tasks.statistics import compare, compute
from karelsynth.tasks.streams import TaskStream
from tests.plain import without


@pytest.fixture(scope="module")
def tasks() -> TaskBatch:
    return generate_purposeful(3, 0, 4_000)


def arrays(batch: TaskBatch) -> list[np.ndarray]:
    return [batch.tokens, batch.lengths, batch.inputs, batch.outputs, batch.novel]


def test_a_task_depends_on_seed_and_number_alone(tasks: TaskBatch) -> None:
    parts = [generate_purposeful(3, 0, 40, threads=1), generate_purposeful(3, 40, 60, threads=2)]
    for whole, *pieces in zip(arrays(tasks), *map(arrays, parts), strict=True):
        assert np.array_equal(whole[:100], np.concatenate(pieces))


def test_the_stream_is_pinned() -> None:
    """A change of plans or kernels changes the stream, and with it what recipes train on: do it on purpose."""
    assert generate_purposeful(0, 0, 50).digest == "4d5cd5e7d8a1d773"


def test_each_part_of_a_program_is_needed_by_some_example(tasks: TaskBatch) -> None:
    checked = 0
    for number in range(150):
        fewer = [Program(body) for body in without(tasks.program(number).body)]
        if fewer:
            worlds = (part[number : number + 1] for part in (tasks.inputs, tasks.outputs))
            correct = run_batch(
                encode_programs(fewer),
                next(worlds),
                expected=next(worlds),
                which=np.zeros(len(fewer), np.int64),
                max_ticks=PAPER_TICKS,  # a program that is right only after more is no simpler one
            ).correct
            assert correct is not None
            assert not correct.all(1).any()
            checked += len(fewer)
    assert checked > 1000


def test_examples_come_as_a_teacher_would_show_them(tasks: TaskBatch) -> None:
    """Each example shows the most outcomes of conditions that none before it shows."""
    covered = run_batch(tasks.tokens[:400], tasks.inputs[:400], keep_worlds=False, coverage=True).coverage
    assert covered is not None
    bits = np.unpackbits(covered[..., None], axis=-1).reshape(*covered.shape[:2], -1).astype(bool)  # [N, E, outcomes]
    ties = 0
    for shown in bits:
        known = np.zeros(shown.shape[1], bool)
        for place in range(len(shown)):
            new = (shown & ~known).sum(1)
            assert new[place] == new[place:].max()
            ties += (new[place + 1 :] == new[place]).any()
            known |= shown[place]
    assert ties > 400  # so the order among equals matters: see the next test


def test_examples_that_show_as_much_come_in_random_order() -> None:
    state, order, rng = np.zeros(1, np.uint64), np.empty(4, np.int64), np.random.default_rng(0)
    shown = np.array([[1, 0, 0], [0, 3, 0], [0, 2, 0], [0, 0, 1]], np.uint8)
    orders = set()
    for _ in range(200):
        state[0] = rng.integers(2**63)
        teaching_order(state, shown, np.empty(3, np.uint8), order)
        assert sorted(order) == [0, 1, 2, 3]
        assert order[0] == 1
        assert order[3] == 2
        orders.add(tuple(order))
    assert len(orders) == 2


def test_seeds_and_streams_differ(tasks: TaskBatch) -> None:
    for other in (generate_purposeful(4, 0, 50), generate_purposeful(3, 0, 50, reserved=True)):
        assert not np.array_equal(other.inputs, tasks.inputs[:50])


def test_references_are_right_by_the_specification(tasks: TaskBatch) -> None:
    for number in range(150):
        program = tasks.program(number)
        for before, after in zip(tasks.inputs[number], tasks.outputs[number], strict=True):
            result = run(program, world_from_codes(before))
            assert result.ok
            assert result.world == world_from_codes(after)


def test_references_are_right_on_all_examples(tasks: TaskBatch) -> None:
    runs = run_batch(tasks.tokens, tasks.inputs, expected=tasks.outputs)
    assert runs.correct is not None
    assert runs.correct.all()


def test_programs_are_in_the_normal_form_but_need_no_markers(tasks: TaskBatch) -> None:
    """A walk to the wall needs no marker. What the normal form requires is appended for the check."""
    machine = SyntaxMachine(NORMAL_FORM, PURPOSEFUL_TOKENS + 12)
    plain = [ID[name] for name in ("WHILE", "c(", "frontIsClear", "c)", "w(", "putMarker", "move", "w)")]
    for row, length in zip(tasks.tokens, tasks.lengths, strict=True):
        assert machine.admits([*row[: length - 1].tolist(), *plain, ID["m)"]])


def test_lengths_and_padding(tasks: TaskBatch) -> None:
    assert tasks.tokens.shape[1] == PURPOSEFUL_TOKENS >= 110
    assert tasks.lengths.min() <= 8
    assert tasks.lengths.max() >= 90
    assert ((tasks.lengths >= 15) & (tasks.lengths <= 60)).mean() > 0.7
    written = np.arange(PURPOSEFUL_TOKENS) < tasks.lengths[:, None]
    assert ((tasks.tokens > 0) == written).all()


def test_examples_differ_and_hold_at_most_nine_markers(tasks: TaskBatch) -> None:
    for worlds in tasks.inputs.reshape(len(tasks), 6, -1):
        assert len(np.unique(worlds, axis=0)) == 6
    for worlds in (tasks.inputs, tasks.outputs):
        content = worlds % HERO
        assert content[content < WALL].max() == 9
    changed = (tasks.inputs != tasks.outputs).any(axis=(2, 3))
    assert (changed.sum(axis=1) >= 5).all()


def test_conditions_are_mostly_seen_true_and_false(tasks: TaskBatch) -> None:
    runs = run_batch(tasks.tokens, tasks.inputs, coverage=True, keep_worlds=False)
    assert runs.coverage is not None
    seen = np.bitwise_or.reduce(runs.coverage, axis=1)
    conditions = np.isin(tasks.tokens, [ID["IF"], ID["IFELSE"], ID["WHILE"]]).sum(axis=1)
    exists = np.arange(seen.shape[1]) < conditions[:, None]
    assert ((seen == 3) | ~exists).all(axis=1).mean() > 0.93


def test_no_program_is_reserved_unless_wanted(tasks: TaskBatch) -> None:
    assert not is_reserved(tasks.tokens).any()
    assert not tasks.novel.any()
    others = generate_purposeful(3, 0, 1_000, reserved=True)
    assert np.array_equal(others.novel, is_reserved(others.tokens))
    assert 0.04 < others.novel.mean() < 0.16


def test_a_statement_is_chosen_whole() -> None:
    """Of a program without its frame: any of its statements, and nothing else."""
    branch = "IFELSE c( markersPresent c) i( move i) ELSE e( REPEAT R=2 r( turnLeft r) e)"
    loop = "WHILE c( not c( frontIsClear c) c) w( putMarker w)"
    text = f"{branch} {loop}"
    tokens = np.array([ID[name] for name in text.split()], np.uint8)
    found = set()
    for seed in range(300):
        begin, end = choose_statement(np.array([seed], np.uint64), tokens, len(tokens))
        found.add(" ".join(text.split()[begin:end]))
    assert found == {branch, loop, "REPEAT R=2 r( turnLeft r)", "move", "turnLeft", "putMarker"}


def test_the_way_back_is_the_mirror_image_of_the_way_out() -> None:
    out = "WHILE c( leftIsClear c) w( turnLeft move turnRight w) pickMarker".split()
    back = "WHILE c( rightIsClear c) w( turnRight move turnLeft w) pickMarker".split()
    raw = np.zeros(RAW, np.uint8)
    written = ["putMarker", *out, "turnLeft", "turnLeft"]
    raw[: len(written)] = [ID[name] for name in written]
    size = append_way_back(raw, 1, 1 + len(out), len(written))
    assert raw[:size].tolist() == [ID[name] for name in (*written, *back)]
    assert append_way_back(raw, 0, 200, 200) == 0  # too long


def test_every_plan_occurs() -> None:
    assert set(plans_of(3, 0, 4_000)) == set(plan_names())


def test_every_rule_of_the_grammar_is_used() -> None:
    text = (files("karelsynth.tasks.purposeful") / "plans.txt").read_text(encoding="utf-8")
    rules = re.findall(r"^([a-z-]+) :?= ", text, re.MULTILINE)
    assert len(rules) == len(set(rules)) > 50
    assert all(len(re.findall(rf"(?<![\w-]){rule}(?![\w-])", text)) > 1 for rule in set(rules) - set(ADDED))


def test_the_number_of_examples_can_be_chosen() -> None:
    assert generate_purposeful(1, 0, 3, examples=2).inputs.shape[:2] == (3, 2)
    assert len(generate_purposeful(1, 0, 0)) == 0
    with pytest.raises(KarelsynthError, match="number of examples"):
        generate_purposeful(1, 0, 3, examples=1)
    with pytest.raises(KarelsynthError, match="below 2⁶³"):
        generate_purposeful(1, (1 << 63) - 1, 3)


def test_a_stream_mixes_purposeful_tasks_evenly() -> None:
    stream = TaskStream(5, purposeful=0.25)
    tasks = stream.tasks(0, 40)
    assert stream.longest == tasks.tokens.shape[1] == PURPOSEFUL_TOKENS
    parts = [stream.tasks(0, 7), stream.tasks(7, 33)]
    for whole, *pieces in zip(arrays(tasks), *map(arrays, parts), strict=True):
        assert np.array_equal(whole, np.concatenate(pieces))
    purposeful = np.diff(np.arange(41) * 2**18 // 2**20) > 0
    assert np.array_equal(tasks.inputs[purposeful], generate_purposeful(5, 0, 10).inputs)
    assert np.array_equal(tasks.inputs[~purposeful], generate(5, 0, 30).inputs)
    assert np.array_equal(tasks.lengths[~purposeful], generate(5, 0, 30).lengths)


def test_a_stream_without_a_share_is_the_first_generators() -> None:
    assert TaskStream(5).tasks(3, 4).digest == generate(5, 3, 4).digest
    assert TaskStream(5, purposeful=1.0).tasks(3, 4).digest == generate_purposeful(5, 3, 4).digest


def test_the_classroom_benchmark_is_not_drawn() -> None:
    """Neither its references nor their mirror images, many of which would be common otherwise."""
    lines = (files("karelsynth.tasks") / "classroom.jsonl").read_text(encoding="utf-8").splitlines()
    references = {Program.parse(json.loads(line)["reference"]).tokens for line in lines}
    assert len(references) == 50
    mirrored = {"turnLeft": "turnRight", "turnRight": "turnLeft"}
    mirrored |= {"leftIsClear": "rightIsClear", "rightIsClear": "leftIsClear"}
    images = {tuple(mirrored.get(token, token) for token in reference) for reference in references}
    drawn = generate_purposeful(5, 0, 20_000)
    programs = {drawn.program(number).tokens for number in range(len(drawn))}
    assert not programs & references
    assert not programs & images


def test_a_set_of_purposeful_tasks(tmp_path: Path) -> None:
    written = write_set(tmp_path / "set", seed=3, start=2, count=12, purposeful=True, shard_size=5)
    assert written[:].digest == generate_purposeful(3, 2, 12).digest
    assert holds_purposeful_tasks(tmp_path / "set")
    before = {path.name: path.read_bytes() for path in written.folder.iterdir()}
    (written.folder / "shard-00001.safetensors").unlink()
    write_set(tmp_path / "set", seed=3, start=2, count=12, purposeful=True, shard_size=5)
    assert {path.name: path.read_bytes() for path in written.folder.iterdir()} == before
    with pytest.raises(KarelsynthError, match="holds another set: purposeful is on there and not given now"):
        write_set(tmp_path / "set", seed=3, start=2, count=12, shard_size=5)
    write_set(tmp_path / "random", seed=3, count=2)
    assert not holds_purposeful_tasks(tmp_path / "random")


def test_statistics_stand_beside_the_original_s_without_a_verdict(tasks: TaskBatch) -> None:
    statistics = compute(tasks[:500])
    assert not all(row.within for row in compare(statistics))
    assert all(row.within for row in compare(statistics, judge=False))


def test_the_commands_know_purposeful_tasks(tmp_path: Path) -> None:
    runner, folder = CliRunner(), str(tmp_path / "set")
    made = runner.invoke(app, ["generate", "--purposeful", "--count", "20", "--seed", "3", "--out", folder])
    assert made.exit_code == 0, made.output
    for arguments in ([folder], ["--generate", "20", "--seed", "3", "--purposeful"]):
        shown = runner.invoke(app, ["stats", *arguments])
        assert shown.exit_code == 0, shown.output
        assert "20 purposeful tasks, beside the original's random ones" in shown.output
