"""A run's folder: who may write there, what a full disk or a kill leaves, and how a run is taken up again."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import stat
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from karelsynth.errors import KarelsynthError
from karelsynth.files import FileError, locked_folder
from karelsynth.model.storage import read_recipe
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.train import checkpoint, loop
from karelsynth.train.checkpoint import Checkpoint, CheckpointError, load_newest
from karelsynth.train.loop import train
from karelsynth.train.metrics import METRICS, MetricsLog
from karelsynth.train.recipe import Recipe, RecipeError, load_recipe, recipe_from
from tests.training import assert_same, tiny, weights

CPU = torch.device("cpu")


def entries(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]


def refuse(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def set_seconds(folder: Path, seconds: float | None) -> None:
    """Rewrite the newest checkpoint's notes; None takes the seconds out."""
    newest = checkpoint.newest_folder(folder)
    assert newest is not None
    notes = json.loads((newest / "notes.json").read_text())
    del notes["seconds"]
    more = {} if seconds is None else {"seconds": seconds}
    (newest / "notes.json").write_text(json.dumps({**notes, **more}))
    (newest / "SHA256SUMS").unlink()


# Who may write


def test_a_folder_in_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    train(tiny(), tmp_path, device=CPU, stop_after=3)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with locked_folder(tmp_path), pytest.raises(FileError, match="another process is writing there"):
        train(tiny(), tmp_path, device=CPU, stop_after=6)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    train(tiny(), tmp_path, device=CPU, stop_after=4)  # it was let go


def test_a_folder_is_held_for_the_whole_run(tmp_path: Path) -> None:
    def intrude(progress: object) -> None:
        train(tiny(), tmp_path, device=CPU)

    with pytest.raises(FileError, match="another process is writing there"):
        train(tiny(), tmp_path, device=CPU, on_progress=intrude)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="file of that name is in the way"):
        train(tiny(), tmp_path / "file" / "run", device=CPU)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="only Linux has such a folder")
def test_a_folder_where_none_can_be_made_is_an_error() -> None:
    with pytest.raises(FileError, match="/proc/nope: cannot be written: No such file"):
        train(tiny(), Path("/proc/nope"), device=CPU)


def test_a_broken_pipe_in_a_callback_is_not_reported_as_a_disk_error(tmp_path: Path) -> None:
    def gone(progress: object) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        train(tiny(), tmp_path, device=CPU, on_progress=gone)


# Full disks and kills


def state(step: int, numbers: int = 3) -> Checkpoint:
    return Checkpoint(
        step,
        {"a": torch.full((numbers,), float(step))},
        {"a/exp_avg": torch.zeros(numbers)},
        {"recipe": {}, "best": None},
    )


def test_no_room_for_a_checkpoint(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, state(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, hard))
    try:
        with pytest.raises(FileError, match="cannot be written"):
            checkpoint.save(tmp_path, state(2, numbers=2**16))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-00000001"]
    kept = load_newest(tmp_path)
    assert kept is not None
    assert kept.model["a"].tolist() == [1.0] * 3


def test_a_checkpoint_removes_what_a_kill_left_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed)
        with pytest.raises(SystemExit):
            checkpoint.save(tmp_path, state(1))
    assert load_newest(tmp_path) is None
    assert list(tmp_path.iterdir())
    checkpoint.save(tmp_path, state(2))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-00000002"]


def test_a_run_on_a_full_disk_resumes_later_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tiny(), tmp_path / "whole", device=CPU)
    real, calls = os.fsync, 0

    def full(file: int) -> None:
        nonlocal calls
        calls += stat.S_ISREG(os.fstat(file).st_mode)
        if calls == 8:  # in the second checkpoint
            refuse()
        real(file)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(FileError, match="cannot be written: the disk is full"):
            train(tiny(), tmp_path / "run", device=CPU)
    assert [path.name for path in (tmp_path / "run").glob("*checkpoint*")] == ["checkpoint-00000003"]
    train(tiny(), tmp_path / "run", device=CPU)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "run"))


def test_taking_a_run_up_again_never_loses_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / METRICS
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n')
    before = path.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(FileError, match="the disk is full"), MetricsLog(tmp_path, 2):
            pass
    assert path.read_bytes() == before
    with MetricsLog(tmp_path, 2) as log:
        log.write(3, {"loss": 0.5})
    assert entries(tmp_path) == [{"step": 1}, {"step": 2}, {"step": 3, "loss": 0.5}]


@pytest.mark.parametrize("torn", [b'{"step": 2, "lo', b"\xe2\x80", b"\0\0\0"])
def test_a_torn_last_line_of_the_log_is_dropped(torn: bytes, tmp_path: Path) -> None:
    (tmp_path / METRICS).write_bytes(b'{"step": 1}\n' + torn)
    with MetricsLog(tmp_path, 2) as log:
        log.write(2, {})
    assert entries(tmp_path) == [{"step": 1}, {"step": 2}]


@pytest.mark.parametrize(
    "damaged", [b'{"step": 2, "lo', b"\xe2\x80", b"\0\0\0\0", b"[1]", b"3", b'{"step": "2"}', b"{}"]
)
def test_a_damaged_line_of_the_log_is_named(damaged: bytes, tmp_path: Path) -> None:
    content = b'{"step": 1}\n' + damaged + b'\n{"step": 3}\n'
    (tmp_path / METRICS).write_bytes(content)
    with pytest.raises(KarelsynthError, match=rf"{METRICS}, line 2: not an entry"), MetricsLog(tmp_path, 2):
        pass
    assert (tmp_path / METRICS).read_bytes() == content


# Time


def test_a_run_out_of_time_stops_after_its_step_and_resumes_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny(log_every=100, validate_every=100, checkpoint_every=100)
    train(recipe, tmp_path / "whole", device=CPU)
    looks = iter(range(1000))
    with monkeypatch.context() as patched:
        clock = SimpleNamespace(monotonic=lambda: next(looks), perf_counter=time.perf_counter)
        patched.setattr(loop, "time", clock)
        final = train(recipe, tmp_path / "run", device=CPU, deadline=7)
    assert not final.exists()
    saved = load_newest(tmp_path / "run")
    assert saved is not None
    assert 0 < saved.step < 12
    assert [entry["step"] for entry in entries(tmp_path / "run")] == [saved.step]
    train(recipe, tmp_path / "run", device=CPU)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "run"))


def test_a_run_without_any_time_reads_no_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "open_source", lambda recipe: pytest.fail("there is no time for that"))
    final = train(tiny(), tmp_path, device=CPU, deadline=0.0)
    assert not final.exists()
    assert not list(tmp_path.iterdir())


def test_seconds_are_counted_over_all_sessions(tmp_path: Path) -> None:
    start = time.monotonic()
    train(tiny(), tmp_path, device=CPU, stop_after=7)
    first = entries(tmp_path)
    set_seconds(tmp_path, 1000.0)
    train(tiny(), tmp_path, device=CPU)
    took = time.monotonic() - start
    record = [entry["seconds"] for entry in entries(tmp_path)]  # of every entry, those of validation too
    assert any("validation_exact" in entry for entry in entries(tmp_path))
    assert all(earlier <= later for earlier, later in pairwise(record))
    assert 0 < record[len(first) - 1] < took
    assert all(1000 < seconds < 1000 + took for seconds in record[len(first) :])
    saved = load_newest(tmp_path)
    assert saved is not None
    assert record[-1] <= saved.notes["seconds"] < 1000 + took


def test_a_run_that_an_older_version_began_has_no_seconds(tmp_path: Path) -> None:
    train(tiny(), tmp_path, device=CPU, stop_after=3)
    set_seconds(tmp_path, None)
    train(tiny(), tmp_path, device=CPU)
    assert "seconds" not in entries(tmp_path)[-1]


# The recipe of a run that is taken up again


def test_a_run_does_not_need_again_what_it_started_from(tmp_path: Path) -> None:
    Synthesizer(tiny().model).save_pretrained(tmp_path / "start")
    recipe = replace(tiny(), start_from=str(tmp_path / "start"))
    train(recipe, tmp_path / "whole", device=CPU)
    train(recipe, tmp_path / "run", device=CPU, stop_after=3)
    shutil.rmtree(tmp_path / "start")
    elsewhere = replace(recipe, name="other", about="The same.", start_from=str(tmp_path / "elsewhere"))
    train(elsewhere, tmp_path / "run", device=CPU)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "run"))


def test_a_run_from_nothing_is_another_than_one_from_a_model(tmp_path: Path) -> None:
    train(tiny(), tmp_path, device=CPU, stop_after=3)
    with pytest.raises(CheckpointError, match=r"another recipe \(different: start_from\)"):
        train(replace(tiny(), start_from="somewhere"), tmp_path, device=CPU)


# Extending, inheriting, threads


def test_a_finished_run_can_be_extended(tmp_path: Path) -> None:
    """With a constant learning rate, to the same weights as a run that had as many steps from the start."""

    def constant(steps: int) -> Recipe:
        return replace(tiny(steps=steps), optimizer=replace(tiny().optimizer, schedule="constant"))

    train(constant(3), tmp_path / "run", device=CPU)
    message = r"another recipe \(different: run\.steps\); .*; `--extend` continues it to step 5"
    with pytest.raises(CheckpointError, match=message):
        train(constant(5), tmp_path / "run", device=CPU)
    extended = train(constant(5), tmp_path / "run", device=CPU, extend=True)
    whole = train(constant(5), tmp_path / "whole", device=CPU)
    assert (extended / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    for other in (constant(4), replace(constant(9), data=replace(tiny().data, seed=8))):
        with pytest.raises(CheckpointError, match="another recipe") as raised:
            train(other, tmp_path / "run", device=CPU, extend=True)
        assert "--extend" not in str(raised.value)


def test_a_trapezoid_that_is_extended_before_its_decay_is_one_run(tmp_path: Path) -> None:
    def trapezoid(steps: int) -> Recipe:
        return replace(
            tiny(steps=steps), optimizer=replace(tiny().optimizer, schedule="trapezoid", warmup=1, decay_steps=2)
        )

    train(trapezoid(4), tmp_path / "run", device=CPU, stop_after=2)
    extended = train(trapezoid(6), tmp_path / "run", device=CPU, extend=True)
    whole = train(trapezoid(6), tmp_path / "whole", device=CPU)
    assert (extended / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_a_recipe_without_a_model_has_that_of_its_start(tmp_path: Path) -> None:
    start = train(tiny(), tmp_path / "start", device=CPU)
    path = tmp_path / "rl.toml"
    path.write_text(
        f"start_from = '{start}'\n[objective]\nname = 'rl_beam'\nbeam = 4\n[run]\nsteps = 2\nbatch_size = 4\n"
        "validation_tasks = 4\ncheckpoint_every = 1\n"
    )
    recipe = load_recipe(path)
    assert recipe.inherits_model
    assert "model" not in recipe.to_json()
    assert recipe_from(recipe.to_json()) == recipe
    train(recipe, tmp_path / "run", device=CPU, stop_after=1)
    shutil.rmtree(start)  # the checkpoint has all that resuming needs
    final = train(recipe, tmp_path / "run", device=CPU)
    assert Synthesizer.from_pretrained(final).settings == tiny().model
    assert recipe_from(read_recipe(final)).model == tiny().model
    with pytest.raises(KarelsynthError, match="which the recipe starts from, is not there"):
        train(recipe, tmp_path / "other", device=CPU)
    with pytest.raises(RecipeError, match="the recipe has no `inherits_model`"):
        load_recipe(path, ["inherits_model=true"])


def test_steps_of_small_networks_use_one_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(loop, "core_count", lambda: 2)
    before, seen = torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        for limit in (loop._SMALL_NETWORK, 0):
            monkeypatch.setattr(loop, "_SMALL_NETWORK", limit)
            train(
                tiny(steps=1, log_every=1),
                tmp_path / str(limit),
                device=CPU,
                on_progress=lambda progress: seen.append(torch.get_num_threads()),
            )
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        monkeypatch.setattr(loop, "_SMALL_NETWORK", 1_000_000)
        train(
            tiny(steps=1, log_every=1),
            tmp_path / "chosen",
            device=CPU,
            on_progress=lambda progress: seen.append(torch.get_num_threads()),
        )
        assert seen == [1, 2, 2]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
