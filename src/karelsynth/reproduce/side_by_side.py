"""Measuring several rows at a time, each in a process of its own.

    SideBySide(places, 4, device=device).run(jobs_of("objectives"))

A small model keeps a GPU busy for a fraction of the time: the rest goes into launching kernels, from one thread of
Python, which other processes can do meanwhile. A row begins when the model that it starts from is there and there is
room; of those that can, first the one on which most work depends. A row that finds no memory left goes on later, with
fewer beside it.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import torch

from karelsynth.errors import KarelsynthError
from karelsynth.files import locked_folder
from karelsynth.karel.threads import core_count
from karelsynth.objectives import RL_OBJECTIVES
from karelsynth.reproduce.memory import check_memory, free_memory, size_of
from karelsynth.reproduce.processes import Began, Child, Ended, Event, Message, Order, Said
from karelsynth.reproduce.results import read_results
from karelsynth.reproduce.rows import Job
from karelsynth.reproduce.running import Paths, Runner, RunSummary, deadline_after, may_begin, without
from karelsynth.tasks.generate import generate
from karelsynth.train.loop import TrainingProgress
from karelsynth.train.recipe import Recipe

_GRACE: Final = 15.0
"""Seconds that children have to end once told to: in the middle of an import or a batch they do not hear it."""
_LOOK_EVERY: Final = 1.0
"""Seconds between two looks at whether something more can begin: a model is there before its own row is measured."""


class SideBySide:
    """See the module's docstring.

    Args:
        at_once: how many runs there may be at a time.
        device: where to train.
        commit: of the source tree, where git cannot tell.
        say: told what is going on, a line at a time.
        on_progress: told how each run goes.
    """

    def __init__(
        self,
        places: Paths,
        at_once: int,
        *,
        device: torch.device,
        commit: str | None = None,
        say: Callable[[str], None] = lambda line: None,
        on_progress: Callable[[Job, Event], None] = lambda job, event: None,
    ) -> None:
        self._places, self._at_once, self._device, self._commit = places, at_once, str(device), commit
        self._room = at_once
        """How many there may be at a time by now: fewer, once memory has run out."""
        self._say, self._on_progress = say, on_progress
        self._runner = Runner(places, device=device, say=say)  # trains nothing, but knows what is missing
        self._waiting: list[Job] = []
        self._running: dict[Job, Child] = {}
        self._among: dict[Job, int] = {}
        """How many there could be at a time when a job was last begun."""
        self._ended: dict[Job, Ended] = {}
        self._heard: queue.SimpleQueue[tuple[Job, Message]] = queue.SimpleQueue()
        self._said: set[str] = set()

    def run(self, jobs: Sequence[Job], *, minutes: float | None = None) -> RunSummary:
        """Measure the jobs that have no result yet; after so many minutes, save what is under way and stop.

        A job that diverges or fails takes those that start from it with it, and no others.
        """
        deadline = deadline_after(minutes)
        with locked_folder(self._places.results):
            missing = self._runner.missing(jobs, read_results(self._places.results))
            self._waiting, self._ended = self._in_order(missing), {}
            self._room = min(self._at_once, len(self._waiting))
            if self._waiting:
                self._check_room()
            try:
                self._begin(missing, deadline)
                while self._running:
                    self._hear()
                    self._begin(missing, deadline)
            finally:
                _stop(self._running.values())
                self._running = {}

        def those(how: str) -> tuple[Job, ...]:
            return tuple(job for job in missing if self._ended.get(job, Ended("left")).how == how)

        return RunSummary(those("done"), those("left"), those("diverged"), those("failed"))

    def _in_order(self, missing: Sequence[Job]) -> list[Job]:
        """The jobs and those whose models they lack; first those on which most work depends."""
        starts = [self._runner.missing_start(job) for job in missing]
        every = dict.fromkeys([*missing, *(start for start in starts if start is not None)])
        work = {job: _work(self._runner.recipe(job)) for job in every}
        after = {job: max((work[other] for other in every if other.start == job), default=0) for job in every}
        return sorted(every, key=lambda job: -(work[job] + after[job]))

    def _check_room(self) -> None:
        """See `check_memory`."""
        # Also, this compiles the generator: here, so that not all children do it at the same time.
        size = size_of(generate(0, 0, 1))
        sets = [size * (self._runner.recipe(job).data.tasks or 0) for job in self._waiting]
        check_memory(sets, self._room, free_memory())

    def _begin(self, missing: Sequence[Job], deadline: float) -> None:
        """Begin what can begin, and give up what never will."""
        for job in list(self._waiting):
            start = self._runner.missing_start(job)
            lost = None if start is None else self._ended.get(start)
            if start is not None and lost is not None and lost.why:
                self._waiting.remove(job)
                self._end(job, Ended(lost.how, without(start)))
            elif start is None and len(self._running) < self._room and may_begin(deadline):
                self._waiting.remove(job)
                self._among[job] = self._room
                # A model that others start from is made in any case, but measured only where its row is wanted.
                order = Order(job, job in missing, deadline, self._places, self._device, self._room, self._commit)
                self._on_progress(job, Began())
                try:
                    cores = max(1, core_count() // self._room)
                    self._running[job] = Child(order, cores=cores, tell=partial(self._tell, job))
                except KarelsynthError as error:
                    self._end(job, Ended("failed", str(error)))

    def _tell(self, job: Job, message: Message) -> None:
        """Called by the children's listeners, each in a thread of its own."""
        self._heard.put((job, message))

    def _hear(self) -> None:
        """What one of the children tells, if any does in a moment."""
        try:
            job, message = self._heard.get(timeout=_LOOK_EVERY)
        except queue.Empty:
            return
        match message:
            case Ended():
                self._end(job, message)
            case TrainingProgress():
                self._on_progress(job, message)
            case Said(line) if line not in self._said:  # all children read the test tasks and find the same faults
                self._said.add(line)
                self._say(line)

    def _end(self, job: Job, how: Ended) -> None:
        self._running.pop(job, None)
        if how.how == "crowded":
            if self._among[job] > 1:
                self._room = min(self._room, self._among[job] - 1)
                self._waiting.insert(0, job)
                self._on_progress(job, how)
                self._say(f"{job.name}: {how.why}; it will be resumed later, with at most {self._room} at once")
                return
            how = Ended("failed", f"{how.why}, though nothing ran beside it")
        self._ended[job] = how
        self._on_progress(job, how)
        if how.why:
            self._say(f"{job.name}: {how.why}")


def _work(recipe: Recipe) -> int:
    """About how long a run takes, in programs that the network is asked about."""
    objective = recipe.objective
    known = RL_OBJECTIVES.get(objective.name)
    programs = 1 if known is None else objective.rollouts if known.candidates == "rollouts" else objective.beam
    return recipe.run.steps * recipe.run.batch_size * programs


def _stop(children: Iterable[Child]) -> None:
    """End children that still run: gently, and by force if that takes too long or a second Ctrl-C comes."""
    children = list(children)
    try:
        for child in children:
            child.stop()
        until = time.monotonic() + _GRACE
        for child in children:
            child.wait(until - time.monotonic())
    finally:
        for child in children:
            child.kill()
