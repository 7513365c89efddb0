"""Task sets on disk: written, killed, damaged, read."""

from __future__ import annotations

import errno
import json
import os
import pickle
import random
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karelsynth.errors import KarelsynthError, TaskFileError
from karelsynth.files import locked_folder
from karelsynth.tasks import sets
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.generate import generate, is_reserved
from karelsynth.tasks.manifest import read_manifest
from karelsynth.tasks.named import NAMED_SETS, named_tasks
from karelsynth.tasks.sets import TaskSet, load_tasks, open_set, write_named_set, write_set

SMALL: dict[str, Any] = {"seed": 5, "start": 3, "count": 70, "examples": 3, "reserved": True, "shard_size": 16}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_equal(one: TaskBatch, other: TaskBatch) -> None:
    for field in fields(TaskBatch):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), strict=True)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set that no test changes."""
    folder = tmp_path_factory.mktemp("sets") / "pristine"
    write_set(folder, **SMALL)
    return folder


@pytest.fixture
def copied(pristine: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for name, data in contents(pristine).items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def expected() -> TaskBatch:
    return generate(5, 3, 70, examples=3, reserved=True)


# Reading.


def test_a_set_holds_the_generator_s_tasks(pristine: Path, expected: TaskBatch) -> None:
    tasks = open_set(pristine, verify=True)
    assert len(tasks) == 70
    assert_equal(tasks[:], expected)
    assert_equal(load_tasks(pristine, limit=20), expected[:20])
    for size in (1, 7, 16, 100):
        batches = list(tasks.batches(size))
        assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
        assert_equal(TaskBatch(*map(np.concatenate, zip(*map(_arrays, batches), strict=True))), expected)


@pytest.mark.parametrize("limit", [-5, 2.5, "3"])
def test_a_limit_is_a_whole_number(pristine: Path, limit: Any) -> None:
    with pytest.raises(KarelsynthError, match="limit is a whole number from 0 on, not"):
        load_tasks(pristine, limit=limit)
    with pytest.raises(KarelsynthError, match="limit is a whole number from 0 on, not"):
        named_tasks("val", limit)


def _arrays(batch: TaskBatch) -> list[Any]:
    return [getattr(batch, field.name) for field in fields(batch)]


@given(first=st.integers(-80, 80), last=st.none() | st.integers(-80, 80), step=st.sampled_from([None, 1, 2, -1, -3]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_slices_are_python_s(
    pristine: Path, expected: TaskBatch, first: int, last: int | None, step: int | None
) -> None:
    assert_equal(open_set(pristine)[first:last:step], expected[first:last:step])


def test_any_rows_in_any_order(pristine: Path, expected: TaskBatch) -> None:
    tasks = open_set(pristine)
    rows = np.array([69, 0, 16, 15, 16, -1, 33])
    assert_equal(tasks[rows], expected[rows])
    assert len(tasks[np.array([], np.int64)]) == 0
    with pytest.raises(IndexError, match="rows go from 0 to 69"):
        tasks[np.array([70])]
    with pytest.raises(TypeError, match="rows are integers"):
        tasks[np.array([True, False])]


def test_rows_may_be_of_a_type_that_cannot_hold_the_number_of_tasks(tmp_path: Path) -> None:
    tasks = write_set(tmp_path / "set", seed=5, count=130)
    assert_equal(tasks[np.array([100, -1], np.int8)], tasks[np.array([100, 129])])


def test_a_slice_of_one_shard_is_a_map_of_the_file_that_cannot_change_it(copied: Path) -> None:
    before = contents(copied)
    tasks = open_set(copied)
    batch = tasks[16:32]
    assert all(np.shares_memory(a, b) for a, b in zip(_arrays(batch), _arrays(tasks[20:24]), strict=True))
    batch.tokens[:] = 0  # writable, so that torch takes it as it is
    assert contents(copied) == before


def test_the_manifest_has_the_recipe(pristine: Path, expected: TaskBatch) -> None:
    manifest = json.loads((pristine / "manifest.json").read_bytes())
    assert manifest["source"] == {"kind": "generated", "seed": 5, "start": 3, "reserved": True}
    assert manifest["complete"] is True
    assert (manifest["count"], manifest["examples"], manifest["shard_size"]) == (70, 3, 16)
    assert [shard["count"] for shard in manifest["shards"]] == [16, 16, 16, 16, 6]
    assert sum(shard["novel"] for shard in manifest["shards"]) == expected.novel.sum()
    for shard in manifest["shards"]:
        assert (pristine / shard["file"]).stat().st_size == shard["bytes"]
    assert manifest["statistics"]["tasks"] == 70
    assert manifest["statistics"]["groups"]["program length"]["50 %"] == np.median(expected.lengths)


def test_any_safetensors_reader_reads_shards(pristine: Path, expected: TaskBatch) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    tensors = safetensors.load_file(pristine / "shard-00001.safetensors")
    assert_equal(TaskBatch(**tensors), expected[16:32])


def test_a_set_goes_to_other_processes_by_its_path(pristine: Path, expected: TaskBatch) -> None:
    copy: TaskSet = pickle.loads(pickle.dumps(open_set(pristine)))
    assert_equal(copy[:], expected)


# Writing.


def test_the_bytes_follow_from_the_recipe(pristine: Path, tmp_path: Path) -> None:
    done: list[int] = []
    write_set(tmp_path / "other", **SMALL, threads=1, progress=done.append)
    assert sum(done) == 70
    assert contents(tmp_path / "other") == contents(pristine)
    write_set(tmp_path / "other", **SMALL)  # complete already
    assert contents(tmp_path / "other") == contents(pristine)


_CHILD = """
import sys
from karelsynth.tasks.generate import generate
from karelsynth.tasks.sets import write_set
generate(5, 0, 2, examples=3)
print("ready", flush=True)
write_set(sys.argv[1], seed=5, start=3, count=400, examples=3, reserved=True, shard_size=4)
"""


def test_killed_at_random_moments_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    recipe: dict[str, Any] = {**SMALL, "count": 400, "shard_size": 4}
    begun = time.monotonic()
    write_set(tmp_path / "whole", **recipe)
    duration = time.monotonic() - begun
    rng = random.Random(0)
    folder = tmp_path / "killed"
    complete = 0
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", _CHILD, str(folder)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(rng.random() * duration / 3)
        child.kill()
        child.wait()
        child.stdout.close()
        listed = len(json.loads((folder / "manifest.json").read_bytes())["shards"]) if folder.exists() else 0
        assert listed >= complete  # nothing complete is lost
        complete = listed
    write_set(folder, **recipe)
    assert contents(folder) == contents(tmp_path / "whole")


def test_a_full_disk_is_an_error_and_the_set_is_finished_later(
    pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "set"
    real, calls = os.fsync, 0

    def full(file: int) -> None:
        nonlocal calls
        calls += 1
        if calls % 5 == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file)

    monkeypatch.setattr(os, "fsync", full)
    failures = 0
    while not (folder / "manifest.json").exists() or not read_manifest(folder).complete:
        try:
            write_set(folder, **SMALL)
        except KarelsynthError as error:
            assert "cannot be written: the disk is full" in str(error)  # noqa: PT017
            assert not list(folder.glob(".*"))  # no half file left to fill it
            failures += 1
    assert failures >= 3
    assert contents(folder) == contents(pristine)


def test_numbers_may_be_numpy_s(pristine: Path, tmp_path: Path) -> None:
    numbers = {name: np.int64(value) for name, value in SMALL.items() if not isinstance(value, bool)}
    write_set(tmp_path / "set", **{**SMALL, **numbers})
    assert contents(tmp_path / "set") == contents(pristine)


def test_another_recipe_is_refused_with_the_differences(copied: Path) -> None:
    before = contents(copied)
    with pytest.raises(KarelsynthError) as caught:
        write_set(copied, **{**SMALL, "seed": 6, "reserved": False})
    assert "seed is 5 there and 6 now" in str(caught.value)
    assert "reserved is on there and off now" in str(caught.value)
    assert "count" not in str(caught.value)
    assert contents(copied) == before


def test_another_version_s_set_is_not_continued(copied: Path) -> None:
    _edit_manifest(copied, karelsynth="0.0.1")
    with pytest.raises(KarelsynthError, match=r"karelsynth version is 0\.0\.1 there and"):
        write_set(copied, **SMALL)


def test_a_set_is_not_continued_with_a_generator_that_has_changed(
    copied: Path, pristine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copied / "shard-00003.safetensors").unlink()

    def changed(seed: int, *arguments: int, **options: Any) -> TaskBatch:
        return generate(seed + 1, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(sets, "generate", changed)
        with pytest.raises(KarelsynthError, match="the generator has changed since"):
            write_set(copied, **SMALL)
    write_set(copied, **SMALL)
    assert contents(copied) == contents(pristine)


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(KarelsynthError, match=r"not empty \(it holds `thesis\.txt`\)"):
        write_set(tmp_path, **SMALL)
    with pytest.raises(KarelsynthError, match="a file of that name is in the way"):
        write_set(tmp_path / "thesis.txt", **SMALL)


def test_a_folder_without_permission_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(KarelsynthError, match="no permission to write there"):
        write_set(tmp_path / "set", **SMALL)


def test_nothing_is_written_for_bad_arguments(tmp_path: Path) -> None:
    for wrong in ({"count": 0}, {"count": 10**14}, {"shard_size": 0}, {"examples": 1}, {"seed": -1}, {"start": -80}):
        with pytest.raises(KarelsynthError):
            write_set(tmp_path / "set", **{**SMALL, **wrong})
    assert not (tmp_path / "set").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no such locks there")
def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    with locked_folder(tmp_path), pytest.raises(KarelsynthError, match="another process is writing there"):
        write_set(tmp_path, **SMALL)


# Damage.


def _edit_manifest(folder: Path, **changes: Any) -> None:
    record = json.loads((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").write_text(json.dumps({**record, **changes}))


def _read_all(folder: Path) -> None:
    for _ in open_set(folder).batches(16):
        pass


@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_byte_is_found_wherever_it_is(copied: Path, place: float, change: int) -> None:
    path = copied / "shard-00002.safetensors"
    good = path.read_bytes()
    bad = bytearray(good)
    bad[int(place * len(bad))] ^= change
    path.write_bytes(bad)
    try:
        with pytest.raises(
            TaskFileError, match=r"shard-00002\.safetensors: (has the wrong header|does not match its checksum)"
        ):
            _read_all(copied)
        with pytest.raises(TaskFileError, match=r"shard-00002"):
            open_set(copied, verify=True)
    finally:
        path.write_bytes(good)


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_a_cut_off_shard_is_found_on_opening(copied: Path, kept: int) -> None:
    path = copied / "shard-00001.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(TaskFileError, match=r"shard-00001\.safetensors: has .* bytes instead of .*; run the `karel"):
        open_set(copied)


def test_missing_swapped_and_foreign_shards_are_found_on_opening(copied: Path, tmp_path: Path) -> None:
    first, second = copied / "shard-00000.safetensors", copied / "shard-00001.safetensors"
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    with pytest.raises(TaskFileError, match=r"shard-00000\.safetensors: has the wrong header"):
        open_set(copied)
    write_set(tmp_path / "foreign", **{**SMALL, "seed": 6})
    first.write_bytes((tmp_path / "foreign" / first.name).read_bytes())
    with pytest.raises(TaskFileError, match=r"shard-00000\.safetensors: has the wrong header"):
        open_set(copied)
    first.write_bytes(data)
    second.unlink()
    with pytest.raises(TaskFileError, match=r"shard-00001\.safetensors: is missing"):
        open_set(copied)


def test_the_same_command_repairs_a_damaged_set(copied: Path, pristine: Path) -> None:
    (copied / "shard-00000.safetensors").unlink()
    data = bytearray((copied / "shard-00003.safetensors").read_bytes())
    data[-40] ^= 1
    (copied / "shard-00003.safetensors").write_bytes(data)
    write_set(copied, **SMALL)
    assert contents(copied) == contents(pristine)


def test_a_shard_that_differs_when_made_again_is_an_error(copied: Path) -> None:
    record = json.loads((copied / "manifest.json").read_bytes())
    record["shards"][1]["sha256"] = "0" * 64
    _edit_manifest(copied, shards=record["shards"])
    with pytest.raises(
        TaskFileError, match=r"shard-00001\.safetensors: was damaged, and regenerating it gave other tasks"
    ):
        write_set(copied, **SMALL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "no manifest of a task set"),
        ({"format_version": 2}, "format version 2, but this karelsynth reads version 1"),
        ({"complete": False}, "not complete: `karelsynth generate` was interrupted"),
        ({"complete": "yes"}, "`complete` is missing or of another type"),
        ({"count": 90}, "90 tasks make 6 shards, and it lists 5"),
        ({"count": 69}, "count or size of shard-00004.safetensors do not fit"),
        ({"count": True}, "`count` is no whole number"),
        ({"examples": 0}, "`examples` is no whole number from 1"),
        ({"shards": [1]}, "an entry of `shards` is no object"),
        ({"source": {"kind": "stolen"}}, "`source.kind` is neither"),
        ({"source": {"kind": "generated", "seed": 6, "start": 3, "reserved": True}}, "shard-00000.* wrong header"),
    ],
)
def test_an_altered_manifest_is_found(copied: Path, changes: dict[str, Any], message: str) -> None:
    _edit_manifest(copied, **changes)
    with pytest.raises(TaskFileError, match=message):
        open_set(copied)


def test_a_folder_that_is_no_set_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TaskFileError, match=r"no task set: there is no manifest\.json in it"):
        open_set(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(TaskFileError, match="a file, but a task set is a folder"):
        open_set(tmp_path / "file")
    for junk in (b"", b"{", b"[]", b"\xff", b"[" * 100_000):
        (tmp_path / "manifest.json").write_bytes(junk)
        with pytest.raises(TaskFileError, match=r"manifest\.json: no"):
            open_set(tmp_path)


# Named sets.


def test_named_sets_are_what_their_names_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full, small = NAMED_SETS["full"], NAMED_SETS["small"]
    assert (full.count, small.count) == (1_116_854, 10_000)
    assert (full.seed, full.reserved) == (small.seed, small.reserved)  # so small is the beginning of full
    assert len({full.seed, NAMED_SETS["val"].seed, NAMED_SETS["test"].seed}) == 3
    assert not is_reserved(generate(full.seed, 0, 2_000).tokens).any()
    tasks = write_named_set("val", tmp_path / "val")[:]
    assert len(tasks) == 2_500
    np.testing.assert_array_equal(tasks.novel, is_reserved(tasks.tokens))
    assert 50 < tasks.novel.sum() < 400
    with pytest.raises(KarelsynthError, match="no set called `vall`; did you mean `val`"):
        write_named_set("vall", tmp_path / "x")
