"""Rows side by side: which begins when, and what becomes of the others. The children here only pretend."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner

from karelsynth.cli import reproduce as command
from karelsynth.errors import KarelsynthError, out_of_memory
from karelsynth.karel.threads import THREADS, core_count
from karelsynth.reproduce import memory, side_by_side
from karelsynth.reproduce.memory import check_memory, size_of
from karelsynth.reproduce.processes import Ended, Message, Order, Said
from karelsynth.reproduce.rows import Job
from karelsynth.reproduce.running import Paths, RunSummary
from karelsynth.reproduce.side_by_side import SideBySide
from karelsynth.tasks.generate import generate
from karelsynth.train.loop import TrainingProgress
from tests.reproduce.changing import change
from tests.reproduce.small import jobs

CPU = torch.device("cpu")
MLE, RL_BEAM, RL_BEAM_DIV, LEARNED, HANDWRITTEN = jobs(
    "small_mle", "small_rl_beam", "small_rl_beam_div", "small_mle_learned", "small_mle_handwritten"
)


class Pretended:
    """A child that only notes what it is told to do; the test decides how it ends, each time if need be."""

    def __init__(self, endings: dict[Job, Ended | list[Ended]]) -> None:
        self._endings = endings
        self.orders: list[Order] = []
        self.cores: set[int] = set()
        self.most = 0
        self._open: list[tuple[Order, Callable[[Message], None]]] = []

    def __call__(self, order: Order, *, cores: int, tell: Callable[[Message], None]) -> Pretended:
        self.orders.append(order)
        self.cores.add(cores)
        self._open.append((order, tell))
        self.most = max(self.most, len(self._open))
        tell(Said("the test tasks have a fault"))
        return self

    def end_one(self) -> None:
        """The one that began first: its model is there, if all goes well."""
        order, tell = self._open.pop(0)
        ended = self._endings.get(order.job, Ended("done"))
        if isinstance(ended, list):
            ended = ended.pop(0)
        if ended.how == "done":
            final = order.places.runs / order.job.name / "final"
            final.mkdir(parents=True, exist_ok=True)
            (final / "recipe.json").write_text("{}")
            if order.places.keep is not None and order.job.start is None:
                (order.places.keep / order.job.name).mkdir(parents=True)
                (order.places.keep / order.job.name / "trained.json").write_text("{}")
        tell(TrainingProgress(4, 4, 1.0, {"loss": 1.0}))
        tell(ended)

    @property
    def names(self) -> list[str]:
        return [order.job.name for order in self.orders]

    def stop(self) -> None:
        pass

    def wait(self, seconds: float) -> None:
        pass

    def kill(self) -> None:
        pass


Pretend = Callable[..., Pretended]


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    def replaced(endings: dict[Job, Ended | list[Ended]] | None = None) -> Pretended:
        children = Pretended(endings or {})

        hear = SideBySide._hear

        def end_and_hear(several: SideBySide) -> None:
            if several._heard.empty():
                children.end_one()
            hear(several)

        monkeypatch.setattr(side_by_side, "Child", children)
        monkeypatch.setattr(SideBySide, "_hear", end_and_hear)
        return children

    return replaced


def test_most_work_first_and_no_more_at_once_than_wanted(places: Paths, pretend: Pretend) -> None:
    children = pretend()
    said: list[str] = []
    change(places, LEARNED, steps=9)
    change(places, HANDWRITTEN, steps=30)
    outcome = SideBySide(places, 2, device=CPU, say=said.append).run([LEARNED, MLE, RL_BEAM, HANDWRITTEN])
    # RL_beam asks about four programs a task: on MLE, which it starts from, (1 + 4) · 4 steps depend.
    assert children.names == [HANDWRITTEN.name, MLE.name, LEARNED.name, RL_BEAM.name]
    assert children.most == 2
    assert children.cores == {max(1, core_count() // 2)}
    assert outcome.done == (LEARNED, MLE, RL_BEAM, HANDWRITTEN)
    assert said == ["the test tasks have a fault"]  # once, though all children say it


@pytest.mark.parametrize("keeps", [False, True])
def test_a_model_that_is_needed_but_whose_row_is_not_is_made_once_and_not_measured(
    keeps: bool, places: Paths, pretend: Pretend, tmp_path: Path
) -> None:
    children = pretend()
    if keeps:  # trained, but not yet kept: two rows would do that at the same time
        places = replace(places, keep=tmp_path / "kept")
        final = places.runs / MLE.name / "final"
        final.mkdir(parents=True)
        (final / "recipe.json").write_text("{}")
    outcome = SideBySide(places, 4, device=CPU).run([RL_BEAM, RL_BEAM_DIV])
    assert [(order.job, order.result) for order in children.orders] == [
        (MLE, False),
        (RL_BEAM, True),
        (RL_BEAM_DIV, True),
    ]
    assert outcome == RunSummary((RL_BEAM, RL_BEAM_DIV), (), ())


@pytest.mark.parametrize("how", ["diverged", "failed"])
def test_without_a_start_a_row_goes_the_same_way(how: Any, places: Paths, pretend: Pretend) -> None:
    children = pretend({MLE: Ended(how, "for a reason")})
    said: list[str] = []
    outcome = SideBySide(places, 1, device=CPU, say=said.append).run([MLE, RL_BEAM, LEARNED])
    assert children.names == [MLE.name, LEARNED.name]
    assert getattr(outcome, how) == (MLE, RL_BEAM)
    assert outcome.done == (LEARNED,)
    assert said[1:] == [
        f"{MLE.name}: for a reason",
        f"{RL_BEAM.name}: cannot begin without the model of {MLE.name}",
    ]


def test_time_is_up_for_all(places: Paths, pretend: Pretend) -> None:
    children = pretend({MLE: Ended("left")})
    assert SideBySide(places, 2, device=CPU).run([MLE, LEARNED], minutes=0) == RunSummary((), (MLE, LEARNED), ())
    assert not children.orders
    outcome = SideBySide(places, 1, device=CPU).run([MLE, RL_BEAM, LEARNED], minutes=5)
    assert outcome == RunSummary((LEARNED,), (MLE, RL_BEAM), ())
    assert {order.deadline > time.monotonic() + 200 for order in children.orders} == {True}


def test_a_kept_model_is_all_that_a_fresh_machine_needs(places: Paths, pretend: Pretend, tmp_path: Path) -> None:
    places = replace(places, keep=tmp_path / "kept")
    (tmp_path / "kept" / MLE.name).mkdir(parents=True)
    (tmp_path / "kept" / MLE.name / "trained.json").write_text("{}")
    children = pretend()
    outcome = SideBySide(places, 2, device=CPU).run([RL_BEAM, RL_BEAM_DIV])
    assert children.names == [RL_BEAM.name, RL_BEAM_DIV.name]
    assert outcome == RunSummary((RL_BEAM, RL_BEAM_DIV), (), ())


# Memory


def test_a_row_without_room_goes_on_later_with_fewer_beside_it(places: Paths, pretend: Pretend) -> None:
    full = Ended("crowded", "there is not enough memory")
    children = pretend({MLE: [full, full, Ended("done")], LEARNED: [Ended("done")]})
    said: list[str] = []
    several = SideBySide(places, 3, device=CPU, say=said.append)
    outcome = several.run([MLE, RL_BEAM, LEARNED, HANDWRITTEN])
    assert outcome == RunSummary((MLE, RL_BEAM, LEARNED, HANDWRITTEN), (), ())
    assert [order.at_once for order in children.orders if order.job == MLE] == [3, 2, 1]
    assert [order.at_once for order in children.orders if order.job == RL_BEAM] == [1]
    assert said[1:] == [
        f"{MLE.name}: there is not enough memory; it will be resumed later, with at most {most} at once"
        for most in (2, 1)
    ]


def test_a_row_that_has_no_room_alone_has_failed(places: Paths, pretend: Pretend) -> None:
    children = pretend({MLE: Ended("crowded", "there is not enough memory")})
    said: list[str] = []
    outcome = SideBySide(places, 3, device=CPU, say=said.append).run([MLE, LEARNED, RL_BEAM])
    assert outcome == RunSummary((LEARNED,), (), (), failed=(MLE, RL_BEAM))
    assert children.names.count(MLE.name) == 3
    assert said[-2:] == [
        f"{MLE.name}: there is not enough memory, though nothing ran beside it",
        f"{RL_BEAM.name}: cannot begin without the model of {MLE.name}",
    ]


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
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_it_looks_like_when_memory_runs_out(error: Exception, full: bool) -> None:
    assert out_of_memory(error) == full


def test_sets_that_do_not_fit_are_refused_before_anything_begins(
    places: Paths, pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = pretend()
    set_size = 16 * size_of(generate(0, 0, 1))
    assert set_size == size_of(generate(0, 0, 16))
    monkeypatch.setattr(side_by_side, "free_memory", lambda: 3 * set_size - 1)
    with pytest.raises(KarelsynthError, match=r"3 runs at once need .* GB are free: choose --at-once 2$"):
        SideBySide(places, 3, device=CPU).run([MLE, LEARNED, HANDWRITTEN, RL_BEAM])
    assert not children.orders
    assert SideBySide(places, 2, device=CPU).run([MLE, LEARNED, HANDWRITTEN]).done
    check_memory([5, 3, 9], 3, None)  # where nobody knows
    with pytest.raises(KarelsynthError, match="not enough even for one"):
        check_memory([5, 3, 9], 2, 8)


def test_the_memory_that_is_free_is_what_system_and_container_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_SYSTEM", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CONTAINER", tmp_path)
    assert memory.free_memory() is None
    (tmp_path / "meminfo").write_text("MemTotal: 90 kB\nMemAvailable:   70 kB\n")
    assert memory.free_memory() == 70 * 1024
    (tmp_path / "memory.max").write_text("50000\n")
    (tmp_path / "memory.current").write_text("30000\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 7000\n")
    assert memory.free_memory() == 27000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_memory() == 70 * 1024


# The command

app = typer.Typer()
app.command()(command.reproduce)


def call(places: Paths, *arguments: object) -> Any:
    where = ("--results", places.results, "--runs", places.runs, "--recipes", places.recipes, "--device", "cpu")
    return CliRunner().invoke(app, [str(argument) for argument in (*arguments, *where)])


def test_the_command_tells_how_each_run_goes(places: Paths, pretend: Pretend) -> None:
    children = pretend({LEARNED: Ended("failed", "for a reason"), HANDWRITTEN: Ended("diverged", "too fast")})
    only = [part for job in (MLE, LEARNED, HANDWRITTEN) for part in ("--only", job.row.recipe)]
    result = call(places, "syntax", *only, "--seeds", "0", "--at-once", 3)
    assert len(children.orders) == 3
    assert f"{MLE.name}: step 4 of 4, 1 tasks/s, loss 1.0000" in result.output
    assert f"{LEARNED.name}: for a reason" in result.output
    summary = f"1 measured now, 0 before; diverged: {HANDWRITTEN.name}; failed: {LEARNED.name}; left: nothing"
    assert summary in result.output
    assert result.exit_code == 1


# The share of the cores


def test_the_environment_may_hold_a_process_to_some_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THREADS, raising=False)
    cores = core_count()
    for told, expected in {"": cores, "1": 1, str(cores): cores, "100000": cores}.items():
        monkeypatch.setenv(THREADS, told)
        assert core_count() == expected
    for told in ("0", "-2", "all"):
        monkeypatch.setenv(THREADS, told)
        with pytest.raises(KarelsynthError, match=f"KARELSYNTH_THREADS={told}: set it to a whole number from 1"):
            core_count()
