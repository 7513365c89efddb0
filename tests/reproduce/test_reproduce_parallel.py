"""Rows in processes of their own: the same results, whatever happens to one of them or to the parent.

A child process takes seconds to start, so most tests share one call.
"""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner

from karelsynth.cli.reproduce import reproduce
from karelsynth.errors import KarelsynthError, out_of_memory
from karelsynth.karel.threads import THREADS, core_count
from karelsynth.reproduce import parallel
from karelsynth.reproduce.parallel import GRACE, LOG, child_environment, run_in_parallel
from karelsynth.reproduce.results import read_results
from karelsynth.reproduce.rows import Job
from karelsynth.reproduce.running import HowEnded, Paths, Runner
from karelsynth.train.checkpoint import load_newest
from karelsynth.train.loop import train
from karelsynth.train.recipe import load_recipe
from tests.reproduce.small import change, jobs, write_recipes

CPU = torch.device("cpu")
MLE, RL_BEAM, LEARNED, HANDWRITTEN = jobs("small_mle", "small_rl_beam", "small_mle_learned", "small_mle_handwritten")
FULL_MLE, FULL_RL = jobs("mle", "rl_beam")


@dataclass(frozen=True)
class Call:
    """A call with rows of every fate: done, diverged (and a row that starts from it), killed, and failed."""

    paths: Paths
    ended: dict[Job, HowEnded]
    lines: list[str]
    start_was_there: bool
    """Whether the model that RL_BEAM starts from was there when RL_BEAM started."""
    most_at_once: int


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory, tasks: Path) -> Call:
    folder = tmp_path_factory.mktemp("call")
    paths = Paths(write_recipes(folder / "recipes"), folder / "runs", folder / "results", folder / "kept", tasks)
    change(paths, FULL_MLE, learning_rate=1e30)
    change(paths, LEARNED, steps=1_000_000)
    paths.runs.mkdir()
    (paths.runs / HANDWRITTEN.name).write_text("in the way")
    lines: list[str] = []
    there: list[bool] = []
    running: list[int] = []

    def log(line: str) -> None:
        lines.append(line)
        running.append(len(children_of(os.getpid())))
        if line == f"{RL_BEAM.name}: training":
            there.append((folder / "kept" / MLE.name / "trained.json").is_file())
        if line.startswith(f"{LEARNED.name}: step "):
            kill_writer(paths.runs / LEARNED.name)

    wanted = [MLE, RL_BEAM, FULL_MLE, FULL_RL, LEARNED, HANDWRITTEN]
    ended = run_in_parallel(paths, wanted, 2, device=CPU, commit="abc", log=log)
    return Call(paths, ended, lines, there == [True], max(running))


def children_of(process: int) -> list[int]:
    """The child processes that measure rows."""
    threads = Path(f"/proc/{process}/task").iterdir()
    children = [int(one) for thread in threads for one in (thread / "children").read_text().split()]
    return [one for one in children if "karelsynth.reproduce.parallel" in Path(f"/proc/{one}/cmdline").read_text()]


def kill_writer(folder: Path) -> None:
    """Kill the child process that has files of a folder open."""
    for child in children_of(os.getpid()):
        links = Path(f"/proc/{child}/fd").iterdir()
        if any(str(folder) in str(link.readlink()) for link in links if link.is_symlink()):
            os.kill(child, signal.SIGKILL)


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")


@linux
def test_rows_in_parallel_give_the_results_of_one_after_the_other(call: Call, measured: Paths) -> None:
    ours, theirs = read_results(call.paths.results), read_results(measured.results)
    assert set(ours) == {MLE, RL_BEAM}
    for job in ours:
        one, two = dict(ours[job].record), dict(theirs[job].record)
        for record in (one, two):
            record["report"].pop("seconds_per_task")
            record["report"]["provenance"].pop("model")
            record["recipe"].pop("start_from")
            record["training"].pop("seconds")
            record["report"]["provenance"].pop("device")  # a child has its share of the cores
        assert one["training"].pop("device").endswith(" (up to 2 runs at once)")
        assert two["training"].pop("device").endswith(platform.machine())
        assert one == two


@linux
def test_a_row_waits_for_the_one_it_starts_from(call: Call) -> None:
    assert call.start_was_there
    steps = [line for line in call.lines if line.startswith(f"{RL_BEAM.name}: step ")]
    assert len(steps) == 1  # a line now and then
    assert re.fullmatch(rf"{RL_BEAM.name}: step 1 of 4, [\d,]+ tasks/s, loss [-\d.]+, reward [-\d.]+", steps[0])
    assert call.most_at_once == 2


@linux
def test_rows_that_go_wrong_are_named_and_do_not_stop_the_others(call: Call) -> None:
    ended = {"done": (MLE, RL_BEAM), "diverged": (FULL_MLE, FULL_RL), "failed": (LEARNED, HANDWRITTEN)}
    assert call.ended == {job: how for how, group in ended.items() for job in group}
    (diverged,) = (line for line in call.lines if "diverged" in line)
    assert diverged.startswith(f"{FULL_MLE.name}: the loss is nan")
    assert f"{FULL_RL.name}: cannot begin without the model of {FULL_MLE.name}" in call.lines
    (failed,) = (line for line in call.lines if line.startswith(HANDWRITTEN.name))
    assert failed.endswith("stderr.log: cannot be written: a file of that name is in the way")
    assert (
        f"{LEARNED.name}: its process was killed, probably because memory ran out; "
        "run the command again with a smaller --at-once"
    ) in call.lines
    assert not any("Traceback" in line for line in call.lines)
    for job in (MLE, RL_BEAM):  # they ended by themselves: nothing interrupted them at their end
        assert "Traceback" not in (call.paths.runs / job.name / LOG).read_text()


@linux
def test_what_is_measured_is_not_measured_again(call: Call) -> None:
    assert run_in_parallel(call.paths, [MLE, RL_BEAM], 2, device=CPU) == {}


def test_a_model_that_is_needed_but_whose_row_is_not_is_made_and_not_measured(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[object, object]] = []

    def refuse(work: tuple[object, ...], cores: int) -> Any:
        _, job, _, result = work
        started.append((job, result))
        assert cores == max(1, core_count() // 3)  # three rows
        raise KeyboardInterrupt

    monkeypatch.setattr(parallel, "start_child", refuse)
    with pytest.raises(KeyboardInterrupt):
        run_in_parallel(paths, [RL_BEAM, *jobs("small_rl_beam_div")], 4, device=CPU)
    assert started == [(MLE, False)]


def test_when_time_is_up_nothing_starts(paths: Paths) -> None:
    assert run_in_parallel(paths, [MLE, LEARNED], 2, device=CPU, minutes=0) == {MLE: "left", LEARNED: "left"}


def test_results_on_other_tasks_are_refused(paths: Paths, measured: Paths) -> None:
    with pytest.raises(KarelsynthError, match="choose another folder"):
        run_in_parallel(replace(paths, data=None, results=measured.results), [FULL_MLE], 2, device=CPU)


def test_a_run_ends_at_the_deadline_with_a_checkpoint(paths: Paths) -> None:
    """What a child does with its deadline."""
    change(paths, MLE, steps=1_000_000)
    runner = Runner(paths, device=CPU, at_once=2)
    assert not runner.train_and_measure(MLE, time.monotonic() + 0.5, result=False)
    assert load_newest(paths.runs / MLE.name) is not None
    assert not list(paths.results.glob("*"))


@pytest.mark.parametrize("name", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_children_share_cores_and_gpu_memory_unless_the_user_has_set_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocator = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    for known in allocator:
        monkeypatch.delenv(known, raising=False)
    environment = child_environment(3)
    assert environment["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
    assert environment[THREADS] == "3"
    monkeypatch.setenv(name, "backend:native")
    environment = child_environment(3)
    assert {key: environment[key] for key in allocator if key in environment} == {name: "backend:native"}


@linux
@pytest.mark.parametrize(("ending", "seeds"), [(signal.SIGINT, (0, 1)), (signal.SIGKILL, (0,))])
def test_children_end_with_the_parent_and_can_be_resumed(
    ending: signal.Signals, seeds: tuple[int, ...], paths: Paths, tmp_path: Path
) -> None:
    # The run never logs: a child that sends nothing must notice by other means that its parent is gone.
    change(paths, MLE, steps=1_000_000, log_every=1_000_000)
    arguments = ["objectives", "--only", "small_mle", "--seeds", ",".join(map(str, seeds)), "--at-once", "2"]
    options = ["--data", paths.data, "--recipes", paths.recipes, "--results", "results", "--runs", "runs"]
    options += ["--device", "cpu"]
    with subprocess.Popen(
        [sys.executable, "-m", "karelsynth", "reproduce", *arguments, *map(str, options)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as parent:
        folders = [paths.runs / f"small_mle-seed{seed}" for seed in seeds]
        try:
            wait_until(lambda: parent.poll() is not None or all(any(one.glob("checkpoint-*")) for one in folders))
            children = children_of(parent.pid)
            assert len(children) == len(seeds)
        finally:
            parent.send_signal(ending)
            signalled = time.monotonic()
        output, _ = parent.communicate(timeout=60)
        ended = time.monotonic()
    try:
        wait_until(lambda: not any(map(is_alive, children)))
    finally:
        for child in filter(is_alive, children):
            os.kill(child, signal.SIGKILL)
    assert not any("Traceback" in text for text in (output, *((one / LOG).read_text() for one in folders)))
    if ending == signal.SIGINT:
        assert parent.returncode == 130
        assert ended - signalled < GRACE  # gently, not by force
        assert output.endswith("stopped; the same command resumes from the last checkpoint\n")
        assert "ended with status" not in output
    saved = load_newest(folders[0])
    assert saved is not None
    recipe = load_recipe(paths.recipes / "small_mle.toml", ["run.seed=0"])
    steps: list[int] = []
    train(recipe, folders[0], device=CPU, on_progress=lambda event: steps.append(event.step), stop_after=saved.step + 2)
    assert steps == [saved.step + 2]


def wait_until(true: Callable[[], bool], seconds: float = 180) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "this takes too long"
        time.sleep(0.05)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
            True,
        ),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."), True),
        (RuntimeError("Storage size calculation overflowed with sizes=[4000000000, 4000000000]"), True),
        (MemoryError(), True),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_errors_that_mean_that_memory_ran_out(error: Exception, full: bool) -> None:
    assert out_of_memory(error) == full


def test_the_command_says_how_rows_ended(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def pretend(
        paths: Paths,
        wanted: Sequence[Job],
        at_once: int,
        *,
        log: Callable[[str], None],
        **options: object,
    ) -> dict[Job, HowEnded]:
        assert at_once == 3
        log(f"{LEARNED.name}: for a reason")
        return {MLE: "done", HANDWRITTEN: "diverged", LEARNED: "failed"}

    monkeypatch.setattr(parallel, "run_in_parallel", pretend)
    app = typer.Typer()
    app.command()(reproduce)
    only = [part for job in (MLE, LEARNED, HANDWRITTEN) for part in ("--only", job.row.recipe)]
    folders = ("--results", paths.results, "--runs", paths.runs, "--recipes", paths.recipes, "--device", "cpu")
    arguments = ("syntax", *only, "--seeds", "0", "--at-once", "3", *folders)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert f"{LEARNED.name}: for a reason" in result.output
    summary = f"1 measured now, 0 before; diverged: {HANDWRITTEN.name}; failed: {LEARNED.name}; left: nothing"
    assert summary in result.output
    assert result.exit_code == 1


def test_the_environment_may_limit_a_process_to_some_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THREADS, raising=False)
    cores = core_count()
    for value, expected in {"": cores, "1": 1, str(cores): cores, "100000": cores}.items():
        monkeypatch.setenv(THREADS, value)
        assert core_count() == expected
    for value in ("0", "-2", "all"):
        monkeypatch.setenv(THREADS, value)
        with pytest.raises(KarelsynthError, match=f"KARELSYNTH_THREADS={value}: set it to a whole number from 1"):
            core_count()
