"""The original data's task files: read, checked by running, written."""

from __future__ import annotations

import copy
import gzip
import json
import random
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karelsynth.errors import KarelsynthError, TaskFileError
from karelsynth.generator.sampler import MAX_TOKENS
from karelsynth.karel.formats.msr import program_to_json, tensor_to_string, world_to_json
from karelsynth.karel.program import Action, Program
from karelsynth.karel.world import World
from karelsynth.tasks import msr_records
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.generate import generate, is_reserved
from karelsynth.tasks.msr_records import RecordProblem, TaskRecord, parse_record
from karelsynth.tasks.msr_tasks import read_batches, verify_file, write_tasks
from karelsynth.tasks.sets import export_msr, import_msr, load_tasks, open_set, write_set
from tests.strategies import random_program, random_world

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Json = dict[str, Any]


def record_of(program: Program, worlds: Sequence[World]) -> Json:
    """A record made by the interpreter, not by the code under test."""
    examples = []
    for number, before in enumerate(worlds):
        run = program.run(before)
        assert run.ok
        examples.append(
            {
                "example_index": number,
                "inpgrid_json": world_to_json(before),
                "inpgrid_tensor": tensor_to_string(before),
                "outgrid_json": world_to_json(run.world),
                "outgrid_tensor": tensor_to_string(run.world),
                "actions": [action.value for action in run.trace],
            }
        )
    return {
        "guid": "0123456789abcdef",
        "program_tokens": list(program.tokens),
        "program_json": program_to_json(program),
        "examples": examples,
    }


def random_record(rng: random.Random, examples: int = 3) -> Json:
    while True:
        program = random_program(rng, depth=2)
        worlds = [world for world in (random_world(rng) for _ in range(60)) if program.run(world).ok]
        if len(worlds) >= examples and program.size <= MAX_TOKENS:
            return record_of(program, worlds[:examples])


@pytest.fixture(scope="module")
def records() -> list[Json]:
    rng = random.Random(1)
    return [random_record(rng) for _ in range(12)]


def save(path: Path, records: Sequence[Json | str]) -> Path:
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def assert_equal(one: TaskBatch, other: TaskBatch) -> None:
    for field in fields(TaskBatch):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), strict=True)


# Reading and checking.


def test_a_right_file_verifies(tmp_path: Path, records: list[Json]) -> None:
    done: list[int] = []
    report = verify_file(save(tmp_path / "tasks.jsonl", records), progress=done.append)
    assert (report.tasks, report.examples, report.outputs_equal) == (12, 36, 36)
    assert (report.traces, report.traces_equal, report.problems) == (36, 36, ())
    assert report.all_equal
    assert sum(done) == 12


def test_records_become_arrays(tmp_path: Path, records: list[Json]) -> None:
    tasks = load_tasks(save(tmp_path / "tasks.jsonl", records))
    for row, record in enumerate(records):
        assert Program.from_tokens(tasks.tokens[row].tolist()).tokens == tuple(record["program_tokens"])
        assert tasks.lengths[row] == len(record["program_tokens"])
        for codes, example in zip(tasks.inputs[row], record["examples"], strict=True):
            assert world_to_json(World.from_codes(codes)) == example["inpgrid_json"]
        for codes, example in zip(tasks.outputs[row], record["examples"], strict=True):
            assert world_to_json(World.from_codes(codes)) == example["outgrid_json"]
    np.testing.assert_array_equal(tasks.novel, is_reserved(tasks.tokens))
    assert_equal(load_tasks(tmp_path / "tasks.jsonl", limit=5), tasks[:5])


@pytest.mark.parametrize("left_out", ["_json", "_tensor", "guid", "program_json", "program_tokens", "example_index"])
def test_redundant_fields_may_be_missing(tmp_path: Path, records: list[Json], left_out: str) -> None:
    def without(record: Json) -> Json:
        grids = left_out in ("_json", "_tensor")
        return {
            key: [without(item) for item in value] if key == "examples" else value
            for key, value in record.items()
            if not (key.startswith(("inpgrid", "outgrid")) and key.endswith(left_out) if grids else key == left_out)
        }

    path = save(tmp_path / "tasks.jsonl", [without(record) for record in records])
    assert verify_file(path).all_equal
    assert_equal(load_tasks(path), load_tasks(save(tmp_path / "all.jsonl", records)))


def test_records_without_actions_have_no_traces(tmp_path: Path, records: list[Json]) -> None:
    silent = copy.deepcopy(records)
    for example in silent[0]["examples"]:
        del example["actions"]
    report = verify_file(save(tmp_path / "tasks.jsonl", silent))
    assert report.all_equal
    assert (report.outputs_equal, report.traces, report.traces_equal) == (36, 33, 33)


def test_the_order_of_a_tensor_s_indices_is_free(tmp_path: Path, records: list[Json]) -> None:
    shuffled = copy.deepcopy(records)
    for record in shuffled:
        for example in record["examples"]:
            words = example["inpgrid_tensor"].split()
            random.Random(0).shuffle(words)
            example["inpgrid_tensor"] = " ".join(words).replace(":1.0", ":1")
    assert verify_file(save(tmp_path / "tasks.jsonl", shuffled)).all_equal


def _second(change: Callable[[Json], object]) -> Callable[[Json], object]:
    """A change to a record's second example."""
    return lambda record: change(record["examples"][1])


def _move_hero(record: Json) -> None:
    """Another output, in both forms."""
    world = World.from_json(record["outgrid_json"])
    other = world.with_hero(world.hero.row, world.hero.col, "north" if world.hero.heading != "north" else "south")
    record.update(outgrid_json=world_to_json(other), outgrid_tensor=tensor_to_string(other))


BAD: list[tuple[Callable[[Json], object], str, int]] = [
    # What is done to a record, what is said of it, and how many of its three outputs are still right.
    (lambda r: r.pop("examples"), "`examples` must be a list", 0),
    (lambda r: r.update(examples=[]), "`examples` must be a list", 0),
    (lambda r: r.update(examples={}), "`examples` must be a list", 0),
    (lambda r: (r.pop("program_tokens"), r.pop("program_json")), "the program is missing", 0),
    (lambda r: r.update(program_tokens="DEF run"), "`program_tokens` must be a list of strings", 0),
    (lambda r: r["program_tokens"].insert(3, "mvoe"), r"program_tokens\[3\]: unknown word `mvoe`.*mean `move`", 0),
    (lambda r: r["program_tokens"].insert(3, "move move"), r"program_tokens\[3\]: `move move` is not a token", 0),
    (lambda r: r["program_tokens"].pop(), "the program ends too early", 0),
    (lambda r: r["program_tokens"].insert(3, "move"), "are different programs", 0),
    (lambda r: r["program_json"]["run"].append({"type": "fly"}), r"program_json: run\[\d+\]: no type `fly`", 0),
    (lambda r: r["examples"].__setitem__(1, 7), r"examples\[1\]: a JSON object is expected", 2),
    (_second(lambda e: e["inpgrid_json"].pop("hero")), r"examples\[1\]: inpgrid_json: .*needs the field `hero`", 2),
    (_second(lambda e: e["outgrid_json"].update(rows=17)), r"examples\[1\]: outgrid_json: .*2 to 16 rows", 2),
    (_second(lambda e: e["inpgrid_json"].update(crashed=True)), "the run crashed", 2),
    (_second(lambda e: e.update(inpgrid_tensor="9999:1.0")), "index 9999 is too large", 2),
    (_second(lambda e: e.update(inpgrid_tensor=e["inpgrid_tensor"] + " 1620:1.0")), "given twice", 2),
    (_second(lambda e: e.update(inpgrid_tensor=7)), "is a string", 2),
    (
        _second(lambda e: e.update(inpgrid_tensor=tensor_to_string(random_world(random.Random(7))))),
        "inpgrid_json: not the world of `inpgrid_tensor`",
        2,
    ),
    (_second(lambda e: (e.pop("outgrid_json"), e.pop("outgrid_tensor"))), "the world is missing", 2),
    (_second(_move_hero), r"examples\[1\]: the program ends in another world; the first difference is at row", 2),
    (_second(lambda e: e.update(actions="move")), "`actions` must be a list", 2),
    (_second(lambda e: e.update(actions=["jump"])), r"actions\[0\]: `jump` is none of", 2),
    (
        _second(lambda e: e["actions"].append("move")),
        r"examples\[1\]: there are \d+ actions, but the program does \d+",
        3,
    ),
    (_second(lambda e: e["actions"].__setitem__(0, "move")), r"actions\[0\] is `move`, but the program does `put", 3),
]


@pytest.mark.parametrize(("change", "message", "right"), BAD)
def test_problems_are_named_by_line_and_the_rest_is_checked(
    tmp_path: Path, records: list[Json], change: Callable[[Json], object], message: str, right: int
) -> None:
    program = Program.parse("DEF run m( putMarker turnLeft m)")
    rng = random.Random(3)
    bad = record_of(program, [random_world(rng, markers=0) for _ in range(3)])
    change(bad)
    path = save(tmp_path / "tasks.jsonl", [*records[:2], "", bad, *records[2:]])
    report = verify_file(path)
    assert {problem.line for problem in report.problems} == {4}
    (problem,) = report.problems
    with pytest.raises(KarelsynthError, match=message):
        raise KarelsynthError(problem.message)
    assert (report.tasks, report.outputs_equal) == (13, 36 + right)
    assert not report.all_equal

    reported: list[RecordProblem] = []
    assert_equal(load_tasks(path, on_problem=reported.append), load_tasks(save(tmp_path / "good.jsonl", records)))
    assert reported == [problem]
    with pytest.raises(TaskFileError, match=r"tasks\.jsonl, line 4: "):
        load_tasks(path)


def test_crashes_and_time_outs_are_problems(tmp_path: Path) -> None:
    world = random_world(random.Random(0), walls=0, markers=0)
    record = record_of(Program.parse("DEF run m( turnLeft m)"), [world])
    for source, reason in (
        ("DEF run m( pickMarker m)", r"picked where there is no marker \(token 3, `pickMarker`\)"),
        ("DEF run m( WHILE c( noMarkersPresent c) w( turnLeft w) m)", "runs forever"),
    ):
        tokens = Program.parse(source).tokens
        path = save(tmp_path / "tasks.jsonl", [{"program_tokens": tokens, "examples": record["examples"]}])
        report = verify_file(path)
        assert (report.outputs_equal, report.traces, report.traces_equal) == (0, 1, 0)
        with pytest.raises(TaskFileError, match=rf"line 1: examples\[0\]: the program {reason}"):
            load_tasks(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not valid JSON"),
        (b"[1]", "a JSON object is expected"),
        (b"\xff{}", "not UTF-8"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a": ' + b"1" * 10_000 + b"}", "a number in it is too long"),
        (b"x" * 60_000, "longer than 50,000 bytes"),
    ],
)
def test_junk_lines_are_problems(
    tmp_path: Path, records: list[Json], monkeypatch: pytest.MonkeyPatch, line: bytes, message: str
) -> None:
    if message.startswith("longer"):
        monkeypatch.setattr(msr_records, "LONGEST_LINE", 50_000)
    good = json.dumps(records[0]).encode()
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + good + b"\r\n" + line + b"\n\n" + good)  # no newline at the end
    report = verify_file(path)
    assert (report.tasks, report.outputs_equal) == (3, 6)
    assert [problem.line for problem in report.problems] == [2]
    assert message in report.problems[0].message


def test_compressed_files_are_known_by_their_content(tmp_path: Path, records: list[Json]) -> None:
    data = save(tmp_path / "tasks.jsonl", records).read_bytes()
    packed = tmp_path / "renamed.jsonl"
    packed.write_bytes(gzip.compress(data))
    assert verify_file(packed).outputs_equal == 36
    packed.write_bytes(gzip.compress(data)[:-20])
    with pytest.raises(TaskFileError, match=r"renamed\.jsonl: after line \d+: the compressed file is cut off"):
        verify_file(packed)


def test_files_that_cannot_be_read_are_errors(tmp_path: Path) -> None:
    with pytest.raises(TaskFileError, match="there is no such file"):
        load_tasks(tmp_path / "none.jsonl")
    with pytest.raises(TaskFileError, match="a folder, not a file of tasks"):
        verify_file(tmp_path)
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(TaskFileError, match="there is no good task in it"):
        load_tasks(tmp_path / "empty.jsonl")
    with pytest.raises(TaskFileError, match=r"empty\.jsonl: there is no task in it"):
        verify_file(tmp_path / "empty.jsonl")
    (tmp_path / "bad.jsonl").write_text("{\n[\n")
    with pytest.raises(TaskFileError, match=r"no good task in it; the first problem: line 1: not valid JSON"):
        load_tasks(tmp_path / "bad.jsonl", on_problem=lambda problem: None)


def test_what_does_not_fit_the_other_tasks_is_a_problem(tmp_path: Path) -> None:
    rng = random.Random(5)
    world = random_world(rng)
    long = record_of(Program((Action.TURN_LEFT,) * MAX_TOKENS), [world] * 3)
    path = save(
        tmp_path / "tasks.jsonl", [long, random_record(rng), random_record(rng, examples=2), random_record(rng)]
    )
    reported: list[RecordProblem] = []
    assert len(load_tasks(path, on_problem=reported.append)) == 2
    assert [problem.line for problem in reported] == [1, 3]
    assert f"{MAX_TOKENS + 4} tokens, and a task set holds up to {MAX_TOKENS}" in reported[0].message
    assert "it has 2 examples, but the tasks before have 3" in reported[1].message
    assert verify_file(path).all_equal  # as tasks they are right


def test_a_file_is_read_piece_by_piece(tmp_path: Path, records: list[Json]) -> None:
    path = save(tmp_path / "tasks.jsonl", records * 50)
    read: list[int] = []
    batches = read_batches(path, progress=read.append)
    first = next(batches)
    assert sum(read) < path.stat().st_size / 2
    assert len(first) + sum(len(batch) for batch in batches) == len(records) * 50
    assert sum(read) == path.stat().st_size


# What is in the usual form is read by tables, the rest by the readers of `karel`.

JUNK: list[Any] = [
    None, True, False, 0, 1, 2, 2.0, 3, 16, 17, -1, 10**400, "", " ", "0:0", "0:0:1", "1:1:east", "0:1 0:1", "00:1",
    "0:1:0", "0:0:11", "15:15", "move", "R=3", "m)", "not", "<pad>", "repeat", "\u2003", [], ["move"], {},
    {"type": "move"}, {"type": "not", "condition": {"type": "not", "condition": {"type": "frontIsClear"}}},
]  # fmt: skip


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a JSON value, with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in items for place in ((value, key), *_places(inner))]


def _spoil(rng: random.Random, record: Json) -> None:
    """Change something somewhere: often that makes a record wrong, sometimes only unusual."""
    container, key = rng.choice(_places(record))
    old, kind = container[key], rng.randrange(5)
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, dict):
        container[rng.choice(("other", "type", "crashed"))] = rng.choice(JUNK)
    elif kind == 2 and isinstance(container, list):
        container.insert(key, rng.choice(JUNK))
    elif kind <= 3 and isinstance(old, str) and old.split():
        words = old.split()
        rng.shuffle(words)
        container[key] = rng.choice((" ", "  ", "")).join([*words, *rng.choices(words, k=rng.randrange(2))])
    else:
        container[key] = rng.choice(JUNK)


def plain(record: TaskRecord) -> Any:
    examples = [(e.number, e.input.tolist(), e.output.tolist(), e.actions) for e in record.examples]
    return record.line, record.tokens, examples, record.example_count, record.problems


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 2**32), changes=st.integers(0, 3))
def test_the_tables_say_what_the_readers_say(
    monkeypatch: pytest.MonkeyPatch, records: list[Json], seed: int, changes: int
) -> None:
    rng = random.Random(seed)
    record = copy.deepcopy(rng.choice(records))
    for _ in range(changes):
        _spoil(rng, record)
    line = json.dumps(record).encode()
    quick = parse_record(line, 7)
    with monkeypatch.context() as patch:
        patch.setattr(msr_records, "usual_world", lambda record, tensor: None)
        patch.setattr(msr_records, "usual_program", lambda record: None)
        assert plain(quick) == plain(parse_record(line, 7))


@pytest.mark.parametrize("order", ["original", "sorted", "none"])
def test_usual_records_need_the_tables_only(monkeypatch: pytest.MonkeyPatch, records: list[Json], order: str) -> None:
    """Else reading would be right but six times as slow."""
    monkeypatch.setattr(msr_records, "_program", None)
    monkeypatch.setattr(msr_records, "world_from_json", None)
    for usual in copy.deepcopy(records):
        if "not c( not" in " ".join(usual["program_tokens"]):
            continue
        for example in usual["examples"]:
            for grid in ("inpgrid_tensor", "outgrid_tensor"):
                words = sorted(example[grid].split(), key=lambda word: int(word.split(":")[0]))
                example[grid] = {"original": example[grid], "sorted": " ".join(words), "none": None}[order]
        if order == "sorted":
            del usual["program_json"]
        read = parse_record(json.dumps(usual).encode(), 1)
        assert (read.problems, len(read.examples)) == ((), 3)


# Writing.


def test_a_record_is_written_letter_by_letter_as_in_the_original(tmp_path: Path) -> None:
    world = World.parse("# .\n1 >")
    record = record_of(Program.parse("DEF run m( turnLeft move m)"), [world])
    tasks = load_tasks(save(tmp_path / "tasks.jsonl", [record]))
    write_tasks([tasks], tmp_path / "out.jsonl")
    (line,) = (tmp_path / "out.jsonl").read_text().splitlines()
    guid = json.loads(line)["guid"]
    assert len(guid) == 16
    frame = "1620 1621 1622 1623 1674 1675 1676 1677 1638 1656 1641 1659"
    assert line == (
        '{"examples": [{"actions": ["turnLeft", "move"], "example_index": 0, "inpgrid_json": {"blocked": "1:0", '
        '"cols": 2, "crashed": false, "hero": "0:1:east", "markers": "0:0:1", "rows": 2}, "inpgrid_tensor": "'
        + " ".join(f"{index}:1.0" for index in f"344 1963 1333 {frame}".split())
        + '", "outgrid_json": {"blocked": "1:0", "cols": 2, "crashed": false, "hero": "1:1:north", '
        '"markers": "0:0:1", "rows": 2}, "outgrid_tensor": "'
        + " ".join(f"{index}:1.0" for index in f"38 1963 1333 {frame}".split())
        + f'"}}], "guid": "{guid}", "program_json": {{"run": [{{"type": "turnLeft"}}, {{"type": "move"}}]}}, '
        '"program_tokens": ["DEF", "run", "m(", "turnLeft", "move", "m)"]}'
    )


def test_records_go_through_a_set_and_come_back(tmp_path: Path, records: list[Json]) -> None:
    tasks = import_msr(save(tmp_path / "tasks.jsonl", records), tmp_path / "set", shard_size=5)
    export_msr(tasks, tmp_path / "back.jsonl")
    back = [json.loads(line) for line in (tmp_path / "back.jsonl").read_text().splitlines()]
    assert [{**record, "guid": ""} for record in back] == [{**record, "guid": ""} for record in records]
    assert len({record["guid"] for record in back}) == len(records)


@pytest.mark.parametrize("name", ["tasks.jsonl", "tasks.jsonl.gz"])
def test_a_set_goes_through_a_file_and_comes_back(tmp_path: Path, name: str) -> None:
    before = write_set(tmp_path / "before", seed=2, count=150, reserved=True, shard_size=64)
    export_msr(before, tmp_path / name)
    assert (tmp_path / name).read_bytes()[:2] == (b"\x1f\x8b" if name.endswith("gz") else b'{"')
    assert verify_file(tmp_path / name).all_equal
    after = import_msr(tmp_path / name, tmp_path / "after", shard_size=64)
    assert_equal(after[:], before[:])
    assert [shard.count for shard in after.manifest.shards] == [64, 64, 22]
    data = (tmp_path / name).read_bytes()
    export_msr(open_set(tmp_path / "after"), tmp_path / name)
    assert (tmp_path / name).read_bytes() == data


def test_tasks_that_are_wrong_are_not_written(tmp_path: Path) -> None:
    tasks = generate(1, 0, 10)
    tasks.outputs[7, 2] = tasks.inputs[7, 2]
    with pytest.raises(TaskFileError, match="task 7: example 2: its output is not what the program does"):
        write_tasks([tasks], tmp_path / "tasks.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_import_starts_again_and_a_complete_one_is_kept(tmp_path: Path, records: list[Json]) -> None:
    path, folder = save(tmp_path / "tasks.jsonl", [*records, "{"]), tmp_path / "set"
    with pytest.raises(TaskFileError, match="line 13"):
        import_msr(path, folder, shard_size=1)  # stops at the bad line
    assert not folder.exists()

    def stop(_: RecordProblem) -> None:
        raise KeyboardInterrupt

    save(path, [*records * 30, "{"])  # the bad line is in the second piece
    with pytest.raises(KeyboardInterrupt):
        import_msr(path, folder, shard_size=100, on_problem=stop)
    with pytest.raises(TaskFileError, match="not complete: `karelsynth import-msr` was interrupted"):
        open_set(folder)
    assert len(import_msr(save(path, records), folder, shard_size=10)) == 12
    assert sorted(p.name for p in folder.iterdir()) == [
        "manifest.json",
        "shard-00000.safetensors",
        "shard-00001.safetensors",
    ]
    for other in (records[:11], [*records[1:], records[0]], records * 2):
        with pytest.raises(KarelsynthError, match="holds another task set already"):
            import_msr(save(path, other), folder, shard_size=10)
    before = {found.name: found.read_bytes() for found in folder.iterdir()}
    (folder / "shard-00001.safetensors").write_bytes(b"damaged")
    assert len(import_msr(save(path, records), folder, shard_size=10)) == 12  # the same again is no error
    assert {found.name: found.read_bytes() for found in folder.iterdir()} == before
