"""Measuring several rows at a time, each in a process of its own.

    run_in_parallel(paths, jobs_of("objectives"), 4, device=device)

One small model leaves a GPU idle most of the time, so several share it well. A row starts when the model that it starts
from is there and fewer than `at_once` processes run. Training is resumable: a process that is stopped or killed leaves
its last checkpoint, and the next call resumes from it.

A child process reads what to do from its standard input and writes lines to log to its standard output. Its exit status
says how the row ended. It ends gently when its standard input closes: when the parent closes it, or dies.
"""

from __future__ import annotations

import _thread
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

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
    ProgressLines,
    Runner,
    deadline_after,
    missing_start_message,
    time_to_start,
)
from karelsynth.tasks.generate import generate
from karelsynth.train.loop import Diverged

LOG: Final = "stderr.log"
"""In a run's folder: what else its process prints, such as tracebacks."""
GRACE: Final = 15.0
"""Seconds that processes have to save a checkpoint and end, before they are killed."""
_POLL: Final = 1.0
"""Seconds between checks for models that waiting rows start from."""
_STATUS: Final[dict[HowEnded, int]] = {"done": 0, "left": 10, "diverged": 11, "failed": 12}
"""The exit status of a child process."""
Child = subprocess.Popen[bytes]


def run_in_parallel(
    paths: Paths,
    jobs: Sequence[Job],
    at_once: int,
    *,
    device: torch.device,
    minutes: float | None = None,
    commit: str | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> dict[Job, HowEnded]:
    """Measure the jobs that have no result yet, up to `at_once` at a time; `Runner.run` has the other arguments.

    A row that diverges or fails ends the rows that start from it, and no others. `log` is called by several threads.
    """
    logged = set[str]()

    def log_once(line: str) -> None:  # every process reads the test tasks and reports the same problems
        if line not in logged:
            logged.add(line)
            log(line)

    runner, deadline = Runner(paths, device=device, log=log_once), deadline_after(minutes)
    children: list[Child] = []
    running: dict[Future[HowEnded], Job] = {}
    ended: dict[Job, HowEnded] = {}
    with locked_folder(paths.results), ThreadPoolExecutor(at_once) as followers:
        missing = runner.missing(jobs, read_results(paths.results))
        # Models that other rows start from come first, then the longest runs.
        waiting = sorted(
            runner.with_starts(missing), key=lambda job: (job.row.recipe not in STARTS, -runner.recipe(job).run.steps)
        )
        at_once = max(1, min(at_once, len(waiting)))  # fewer rows have a larger share of cores and GPU memory
        options = {"paths": paths, "device": device, "at_once": at_once, "commit": commit}
        if waiting:
            generate(0, 0, 1)  # compiles the generator once, not in every process
        try:
            while True:
                for job in list(waiting):
                    start = runner.missing_start(job)
                    if start in ended and ended[start] in ("diverged", "failed"):
                        waiting.remove(job)
                        ended[job] = ended[start]
                        log(f"{job.name}: {missing_start_message(start)}")
                    elif start is None and len(running) < at_once and time_to_start(deadline):
                        waiting.remove(job)
                        work = (options, job, deadline, job in missing)
                        children.append(start_child(work, max(1, core_count() // at_once)))
                        running[followers.submit(_follow, children[-1], job, paths.runs, log_once)] = job
                if not running:
                    break
                for future in wait(running, _POLL, FIRST_COMPLETED).done:
                    ended[running.pop(future)] = future.result()
        finally:
            _stop(children)
    return {job: ended.get(job, "left") for job in missing}


def start_child(work: tuple[Any, ...], cores: int) -> Child:
    """Start a process with some work and its share of the cores. Ctrl-C in a terminal does not reach it."""
    command = [sys.executable, "-P", "-m", "karelsynth.reproduce.parallel"]
    environment = child_environment(cores)
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
    )
    assert child.stdin is not None
    with suppress(BrokenPipeError):  # it has ended already
        child.stdin.write(pickle.dumps(work))
        child.stdin.flush()
    return child


def child_environment(cores: int) -> dict[str, str]:
    """Our environment variables, with a child's share of the cores, and modules from where we have them."""
    share = dict.fromkeys(("OMP_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"), str(cores))
    # Without expandable segments, programs of all lengths fragment memory: a process then holds more than it uses.
    if "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:
        share["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    return {**share, **os.environ, THREADS: str(cores), "PYTHONPATH": os.pathsep.join(sys.path)}


def _follow(child: Child, job: Job, runs: Path, log: Callable[[str], None]) -> HowEnded:
    """Log what a child process says until it ends; returns how its row ended."""
    assert child.stdin is not None
    assert child.stdout is not None
    with child:  # closes the pipes at the end
        for line in child.stdout:
            log(line.decode().rstrip("\n"))
        status = child.wait()  # with its input open: it would be interrupted otherwise
        if child.stdin.closed:  # `_stop` has closed it
            return "left"
    for how, known in _STATUS.items():
        if status == known:
            return how
    if status == -signal.SIGKILL:
        why = "was killed, probably because memory ran out; run the command again with a smaller --at-once"
    else:
        why = f"ended with status {status}; {runs / job.name / LOG} may say why"
    log(f"{job.name}: its process {why}")
    return "failed"


def _stop(children: Sequence[Child]) -> None:
    """End processes: gently, and by force after `GRACE` seconds or a second Ctrl-C."""
    try:
        until = time.monotonic() + GRACE
        for child in children:
            assert child.stdin is not None
            child.stdin.close()
        for child in children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, until - time.monotonic()))
    finally:
        for child in children:
            child.kill()


def _work() -> HowEnded:
    """The child process: train a row, and measure it if its result is wanted."""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    options, job, deadline, result = pickle.load(sys.stdin.buffer)
    output: Path = options["paths"].runs / job.name / LOG

    def log(line: str) -> None:
        with suppress(OSError):  # the parent has died: this process is about to be interrupted
            lines.write(f"{line}\n")

    def interrupt_at_end_of_input() -> None:
        os.read(0, 1)  # nothing more is ever sent
        _thread.interrupt_main()

    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    threading.Thread(target=interrupt_at_end_of_input, daemon=True).start()
    try:
        _redirect_output(output)
        if options["device"].type == "cuda":
            torch.cuda.set_per_process_memory_fraction(1 / options["at_once"], options["device"].index)
        runner = Runner(**options, log=log, on_progress=ProgressLines(f"{job.name}:", log))
        return "done" if runner.train_and_measure(job, deadline, result=result) else "left"
    except KarelsynthError as error:
        if isinstance(error, OutOfMemory):
            traceback.print_exc()
        log(f"{job.name}: {error}")
        return "diverged" if isinstance(error, Diverged) else "failed"
    except Exception as error:
        traceback.print_exc()
        first = str(error).partition("\n")[0]
        log(f"{job.name}: {type(error).__name__}: {first} (all of it is in {output})")
        return "failed"


def _redirect_output(path: Path) -> None:
    """Write this process's output to a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
    except OSError as error:
        raise cannot_write(path, error) from None


if __name__ == "__main__":
    try:
        sys.exit(_STATUS[_work()])
    except KeyboardInterrupt:
        sys.exit(130)
