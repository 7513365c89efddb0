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
from karelsynth.errors import KarelsynthError
from karelsynth.karel.threads import THREADS, core_count
from karelsynth.reproduce import side_by_side
from karelsynth.reproduce.processes import Ended, Message, Order, Said
from karelsynth.reproduce.rows import Job
from karelsynth.reproduce.running import Outcome, Places
from karelsynth.reproduce.side_by_side import SideBySide
from karelsynth.train.loop import Progress
from tests.reproduce.changing import change
from tests.reproduce.small import jobs

CPU = torch.device("cpu")
MLE, RL_BEAM, RL_BEAM_DIV, LEARNED, HANDWRITTEN = jobs(
    "small_mle", "small_rl_beam", "small_rl_beam_div", "small_mle_learned", "small_mle_handwritten"
)


class Pretended:
    """A child that only notes what it is told to do; the test decides how it ends."""

    def __init__(self, endings: dict[Job, Ended]) -> None:
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
        if ended.how == "done":
            final = order.places.runs / order.job.name / "final"
            final.mkdir(parents=True, exist_ok=True)
            (final / "recipe.json").write_text("{}")
            if order.places.keep is not None and order.job.start is None:
                (order.places.keep / order.job.name).mkdir(parents=True)
                (order.places.keep / order.job.name / "trained.json").write_text("{}")
        tell(Progress(4, 4, 1.0, {"loss": 1.0}))
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
    def replaced(endings: dict[Job, Ended] | None = None) -> Pretended:
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


def test_most_work_first_and_no_more_at_once_than_wanted(places: Places, pretend: Pretend) -> None:
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
    keeps: bool, places: Places, pretend: Pretend, tmp_path: Path
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
    assert outcome == Outcome((RL_BEAM, RL_BEAM_DIV), (), ())


@pytest.mark.parametrize("how", ["diverged", "failed"])
def test_without_a_start_a_row_goes_the_same_way(how: Any, places: Places, pretend: Pretend) -> None:
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


def test_time_is_up_for_all(places: Places, pretend: Pretend) -> None:
    children = pretend({MLE: Ended("left")})
    assert SideBySide(places, 2, device=CPU).run([MLE, LEARNED], minutes=0) == Outcome((), (MLE, LEARNED), ())
    assert not children.orders
    outcome = SideBySide(places, 1, device=CPU).run([MLE, RL_BEAM, LEARNED], minutes=5)
    assert outcome == Outcome((LEARNED,), (MLE, RL_BEAM), ())
    assert {order.deadline > time.monotonic() + 200 for order in children.orders} == {True}


# The command

app = typer.Typer()
command.register(app)


def call(places: Places, *arguments: object) -> Any:
    where = ("--results", places.results, "--runs", places.runs, "--recipes", places.recipes, "--device", "cpu")
    return CliRunner().invoke(app, [str(argument) for argument in (*arguments, *where)])


def test_the_command_tells_how_each_run_goes(places: Places, pretend: Pretend) -> None:
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
        with pytest.raises(KarelsynthError, match=f"KARELSYNTH_THREADS={told}: write a whole number from 1"):
            core_count()
