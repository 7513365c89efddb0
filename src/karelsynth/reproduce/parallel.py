"""Measuring several rows at a time, each in a process of its own.

    run_in_parallel(paths, jobs_of("objectives"), 4, device=device)

One small model leaves a GPU idle most of the time, so several share it well. A row starts when the model that it starts
from is there and fewer than `at_once` processes run. Training is resumable, so nothing here needs to be: a process that
is stopped or killed leaves its last checkpoint, and the next call resumes from it.

Parent and child hold the two ends of a pipe. The child sends lines to log, `TrainingProgress`, and `RunEnd` last. It
ends gently when the parent closes its end, or dies.
"""

from __future__ import annotations

import _thread
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Final

import torch

from karelsynth.errors import KarelsynthError
from karelsynth.files import cannot_write, locked_folder
from karelsynth.karel.threads import THREADS, core_count
from karelsynth.reproduce.results import read_results
from karelsynth.reproduce.rows import STARTS, Job
from karelsynth.reproduce.running import (
    HowEnded,
    OutOfMemory,
    Paths,
    Runner,
    RunSummary,
    deadline_after,
    missing_start_message,
    time_to_start,
)
from karelsynth.tasks.generate import generate
from karelsynth.train.loop import Diverged, TrainingProgress

LOG: Final = "stderr.log"
"""In a run's folder: the output of its process, for errors that need a traceback."""
GRACE: Final = 15.0
"""Seconds that processes have to save a checkpoint and end, before they are killed."""
_POLL: Final = 1.0
"""Seconds between checks for models on which waiting rows depend."""


@dataclass(frozen=True)
class RunEnd:
    """The end of a run."""

    how: HowEnded
    why: str = ""
    """The message for the user, if it diverged or failed."""


def run_in_parallel(
    paths: Paths,
    jobs: Sequence[Job],
    at_once: int,
    *,
    device: torch.device,
    minutes: float | None = None,
    commit: str | None = None,
    log: Callable[[str], None] = lambda line: None,
    on_progress: Callable[[Job, TrainingProgress | None], None] = lambda job, progress: None,
) -> RunSummary:
    """Measure the jobs that have no result yet, up to `at_once` at a time; `Runner.run` has the other arguments.

    A row that diverges or fails ends the rows that start from it, and no others. `on_progress` gets None when a run
    ends.
    """
    runner, deadline = Runner(paths, device=device, log=log), deadline_after(minutes)
    children: dict[Connection, tuple[Job, SpawnProcess]] = {}
    ended: dict[Job, RunEnd] = {}
    logged: set[str] = set()

    def end(job: Job, result: RunEnd) -> None:
        ended[job] = result
        on_progress(job, None)
        if result.why:
            log(f"{job.name}: {result.why}")

    def start_all() -> None:
        """Start every row that can start. End those whose start has failed."""
        for job in list(waiting):
            start = runner.missing_start(job)
            if start is not None and start in ended and ended[start].why:
                waiting.remove(job)
                end(job, RunEnd(ended[start].how, missing_start_message(start)))
            elif start is None and len(children) < at_once and time_to_start(deadline):
                waiting.remove(job)
                options = (job, job in missing, deadline, paths, str(device), at_once, commit)
                connection, process = start_child(options, cores=max(1, core_count() // at_once))
                children[connection] = job, process

    def receive(connection: Connection) -> None:
        job, process = children[connection]
        try:
            message = connection.recv()
        except (EOFError, OSError):
            del children[connection]
            process.join()
            if job not in ended:
                end(job, _unexpected_end(process.exitcode, paths.runs / job.name / LOG))
            return
        if isinstance(message, RunEnd):
            end(job, message)
        elif isinstance(message, TrainingProgress):
            on_progress(job, message)
        elif message not in logged:  # every process reads the test tasks and reports the same problems
            logged.add(message)
            log(message)

    with locked_folder(paths.results):
        missing = runner.missing(jobs, read_results(paths.results))
        needed = [start for job in missing if (start := runner.missing_start(job)) is not None]
        # Models on which other rows depend first, then the longest runs.
        waiting = sorted(
            dict.fromkeys([*missing, *needed]),
            key=lambda job: (job.row.recipe not in STARTS, -runner.recipe(job).run.steps),
        )
        at_once = max(1, min(at_once, len(waiting)))  # fewer rows have a larger share of cores and GPU memory
        if waiting:
            generate(0, 0, 1)  # compiles the generator once, not in every process
        try:
            start_all()
            while children:
                for connection in wait(list(children), _POLL):
                    receive(connection)  # type: ignore[arg-type]
                start_all()
        finally:
            _stop([process for _, process in children.values()], list(children))
    return RunSummary.of(missing, {job: result.how for job, result in ended.items()})


def _unexpected_end(status: int | None, log: Path) -> RunEnd:
    if status == -signal.SIGKILL:
        why = "its process was killed, probably because memory ran out; run the command again with a smaller --at-once"
    else:
        why = f"its process ended with status {status}; {log} may say why"
    return RunEnd("failed", why)


def start_child(options: tuple[object, ...], *, cores: int) -> tuple[Connection, SpawnProcess]:
    """Start a child process with the arguments of `_child`; returns our end of the pipe and the process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, *options))
    with child_environment(cores):
        process.start()
    theirs.close()
    return ours, process


@contextmanager
def child_environment(cores: int) -> Iterator[None]:
    """Environment variables for child processes: their share of the cores, and of a GPU's memory.

    Ctrl-C in a terminal reaches all processes. Children ignore it; the parent stops them.
    """
    before, handler = dict(os.environ), signal.getsignal(signal.SIGINT)
    os.environ[THREADS] = str(cores)
    for name in ("OMP_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"):
        os.environ.setdefault(name, str(cores))
    # Without expandable segments, programs of all lengths fragment memory: a process then holds more than it uses.
    if "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:
        os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    main = threading.current_thread() is threading.main_thread()
    if main:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGINT, handler)
        os.environ.clear()
        os.environ.update(before)


def _stop(processes: Sequence[SpawnProcess], connections: Sequence[Connection]) -> None:
    """End processes: gently, and by force after `GRACE` seconds or a second Ctrl-C."""
    try:
        for connection in connections:
            connection.close()
        until = time.monotonic() + GRACE
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
    finally:
        for process in processes:
            process.kill()
            process.join()


def _child(
    connection: Connection,
    job: Job,
    measure: bool,
    deadline: float,
    paths: Paths,
    device: str,
    at_once: int,
    commit: str | None,
) -> None:
    """The child process: train a row, and measure it if its result is wanted."""
    os.setpgrp()  # from here on, Ctrl-C in a terminal does not reach this process
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def send(message: object) -> None:
        with suppress(OSError):  # the parent has closed its end: this process is about to be interrupted
            connection.send(message)

    def interrupt_on_close() -> None:
        with suppress(EOFError, OSError):
            connection.recv()  # nothing is ever sent
        _thread.interrupt_main()

    threading.Thread(target=interrupt_on_close, daemon=True).start()
    output = paths.runs / job.name / LOG
    try:
        _redirect_output(output)
        if device.startswith("cuda"):
            torch.cuda.set_per_process_memory_fraction(1 / at_once, torch.device(device).index)
        runner = Runner(paths, device=torch.device(device), at_once=at_once, commit=commit, log=send, on_progress=send)
        send(RunEnd("done" if runner.train_and_measure(job, deadline, result=measure) else "left"))
    except KeyboardInterrupt:
        sys.exit(130)
    except OutOfMemory as error:
        traceback.print_exc()
        send(RunEnd("failed", f"{error}; run the command again with a smaller --at-once"))
    except KarelsynthError as error:
        send(RunEnd("diverged" if isinstance(error, Diverged) else "failed", str(error)))
    except Exception as error:
        traceback.print_exc()
        first = str(error).partition("\n")[0]
        send(RunEnd("failed", f"{type(error).__name__}: {first} (all of it is in {output})"))


def _redirect_output(path: Path) -> None:
    """Write this process's output to a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
    except OSError as error:
        raise cannot_write(path, error) from None
