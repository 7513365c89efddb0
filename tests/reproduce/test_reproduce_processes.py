"""Rows in processes of their own: the same results, whatever happens to one of them or to the parent.

Each child takes seconds to begin, so most tests share three of them.
"""

from __future__ import annotations

import os
import platform
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from karelsynth.reproduce import processes
from karelsynth.reproduce.processes import LOG, Began, Child, Ended, Event, Message, Order
from karelsynth.reproduce.results import read_results
from karelsynth.reproduce.rows import Job
from karelsynth.reproduce.running import Paths, Runner, RunSummary
from karelsynth.reproduce.side_by_side import _GRACE, SideBySide
from karelsynth.train.checkpoint import load_newest
from karelsynth.train.loop import TrainingProgress, train
from karelsynth.train.recipe import load_recipe
from tests.reproduce.changing import change
from tests.reproduce.small import jobs, write_recipes

CPU = torch.device("cpu")
MLE, RL_BEAM, LEARNED, HANDWRITTEN = jobs("small_mle", "small_rl_beam", "small_mle_learned", "small_mle_handwritten")


@dataclass(frozen=True)
class Sitting:
    """What three children have done; a fourth could not begin."""

    places: Paths
    outcome: RunSummary
    said: list[str]
    events: list[tuple[Job, Event]]
    start_was_there: bool
    """When the row that starts from another began."""


@pytest.fixture(scope="module")
def sitting(tmp_path_factory: pytest.TempPathFactory, tasks: Path) -> Sitting:
    folder = tmp_path_factory.mktemp("sitting")
    places = Paths(write_recipes(folder / "recipes"), folder / "runs", folder / "results", folder / "kept", tasks)
    change(places, LEARNED, learning_rate=1e30)
    places.runs.mkdir()
    (places.runs / HANDWRITTEN.name).write_text("in the way")
    said: list[str] = []
    events: list[tuple[Job, Event]] = []
    there: list[bool] = []

    def on_progress(job: Job, event: Event) -> None:
        events.append((job, event))
        if (job, event) == (RL_BEAM, Began()):
            there.append((folder / "kept" / MLE.name / "trained.json").is_file())

    several = SideBySide(places, 2, device=CPU, commit="abc", say=said.append, on_progress=on_progress)
    outcome = several.run([MLE, RL_BEAM, LEARNED, HANDWRITTEN])
    return Sitting(places, outcome, said, events, there == [True])


def test_rows_side_by_side_give_the_results_of_one_after_the_other(sitting: Sitting, measured: Paths) -> None:
    ours, theirs = read_results(sitting.places.results), read_results(measured.results)
    assert set(ours) == {MLE, RL_BEAM}
    for job in ours:
        one, two = dict(ours[job].record), dict(theirs[job].record)
        for told in (one, two):
            told["report"].pop("seconds_per_task")
            told["report"]["provenance"].pop("model")
            told["recipe"].pop("start_from")
            told["training"].pop("seconds")
            told["report"]["provenance"].pop("device")  # it has its share of the cores
        assert one["training"].pop("device").endswith(" (up to 2 runs at once)")
        assert two["training"].pop("device").endswith(platform.machine())
        assert one == two


def test_a_row_waits_for_the_one_it_starts_from(sitting: Sitting) -> None:
    assert sitting.start_was_there
    assert [event.step for job, event in sitting.events if job == RL_BEAM and isinstance(event, TrainingProgress)] == [
        1, 2, 3, 4,
    ]  # fmt: skip


def test_rows_that_go_wrong_are_named_and_do_not_stop_the_others(sitting: Sitting) -> None:
    assert sitting.outcome == RunSummary(done=(MLE, RL_BEAM), left=(), diverged=(LEARNED,), failed=(HANDWRITTEN,))
    (diverged,) = (line for line in sitting.said if "diverged" in line)
    assert diverged.startswith(f"{LEARNED.name}: the loss is nan")
    (failed,) = (line for line in sitting.said if line.startswith(HANDWRITTEN.name))
    assert failed.endswith("stderr.log: cannot be written: a file of that name is in the way")
    assert not any("Traceback" in line for line in sitting.said)


def test_what_is_measured_is_not_measured_again(sitting: Sitting) -> None:
    again = SideBySide(sitting.places, 2, device=CPU).run([MLE, RL_BEAM])
    assert again == RunSummary((), (), ())


def test_a_child_that_is_killed_has_failed(places: Paths) -> None:
    heard: queue.SimpleQueue[Message] = queue.SimpleQueue()
    order = Order(MLE, True, time.monotonic() + 60, places, "cpu", 2, None)
    child = Child(order, cores=1, tell=heard.put)
    child.kill()
    message = heard.get(timeout=10)
    assert isinstance(message, Ended)
    assert message.how == "crowded"
    assert message.why == "its process was killed, probably because memory ran out"


@pytest.mark.parametrize(
    ("program", "how", "why"),
    [
        ("os.write(1, b'?\\n'); time.sleep(60)", "failed", "its process sent an unreadable message (Unpick"),
        # A class that is not there: neither EOFError nor UnpicklingError.
        ("os.write(1, b'cos\\nnothing\\n.'); time.sleep(60)", "failed", "its process sent an unreadable message"),
        ("os.write(1, pickle.dumps('x' * 99)[:50]); os.kill(os.getpid(), 9)", "crowded", "its process was killed"),
        ("sys.exit(3)", "failed", "its process ended with status 3"),
    ],
)
def test_a_child_that_talks_nonsense_is_ended_and_its_end_is_told(
    program: str, how: str, why: str, places: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = subprocess.Popen

    def instead(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        code = f"import os, pickle, sys, time; {program}"
        return begin([sys.executable, "-c", code], **options)

    monkeypatch.setattr("karelsynth.reproduce.processes.subprocess.Popen", instead)
    monkeypatch.setattr(processes, "_MOMENT", 0.5)
    heard: queue.SimpleQueue[Message] = queue.SimpleQueue()
    child = Child(Order(MLE, True, time.monotonic() + 60, places, "cpu", 2, None), cores=1, tell=heard.put)
    try:
        message = heard.get(timeout=30)
    finally:
        child.kill()
    assert isinstance(message, Ended)
    assert message.how == how
    assert message.why.startswith(why)


@pytest.mark.parametrize("name", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_children_share_a_gpu_unless_told_how_to_take_its_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for known in processes._ALLOCATOR:
        monkeypatch.delenv(known, raising=False)
    assert processes._environment(3)["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
    monkeypatch.setenv(name, "backend:native")
    chosen = {key: value for key, value in processes._environment(3).items() if key in processes._ALLOCATOR}
    assert chosen == {name: "backend:native"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the children in /proc")
@pytest.mark.parametrize(("ending", "seeds"), [(signal.SIGINT, (0, 1)), (signal.SIGKILL, (0,))])
def test_children_end_with_the_parent_and_can_go_on(
    ending: signal.Signals, seeds: tuple[int, ...], places: Paths, tmp_path: Path
) -> None:
    # It never logs: a child that tells nothing must learn by other means that nobody listens.
    change(places, MLE, steps=1_000_000, log_every=1_000_000)
    arguments = ["objectives", "--only", "small_mle", "--seeds", ",".join(map(str, seeds)), "--at-once", "2"]
    where = ["--data", places.data, "--results", "results", "--runs", "runs", "--device", "cpu"]
    with subprocess.Popen(
        [sys.executable, "-m", "karelsynth", "reproduce", *arguments, *map(str, where)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as parent:
        folders = [places.runs / f"small_mle-seed{seed}" for seed in seeds]
        try:
            wait_until(lambda: parent.poll() is not None or all(any(one.glob("checkpoint-*")) for one in folders))
            children = [int(one) for one in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]
            assert len(children) == len(seeds)
        finally:
            parent.send_signal(ending)
            told = time.monotonic()
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
        assert ended - told < _GRACE  # gently, not by force
        assert output.endswith("stopped; the same command resumes from the last checkpoint\n")
    saved = load_newest(folders[0])
    assert saved is not None
    recipe = load_recipe(places.recipes / "small_mle.toml", ["run.seed=0"])
    observed: list[int] = []
    train(
        recipe, folders[0], device=CPU, on_progress=lambda told: observed.append(told.step), stop_after=saved.step + 2
    )
    assert observed == [saved.step + 2]


def test_a_run_ends_at_the_deadline_with_a_checkpoint(places: Paths) -> None:
    """What a child does with the deadline that it is given."""
    change(places, MLE, steps=1_000_000)
    runner = Runner(places, device=CPU, at_once=2)
    assert not runner.train_and_measure(MLE, time.monotonic() + 0.5, result=False)
    assert load_newest(places.runs / MLE.name) is not None
    assert not list(places.results.glob("*"))


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
