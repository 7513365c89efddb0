"""A run in a process of its own: what parent and child tell each other, and the parent's end of it.

The child (`child.py`) gets its order on standard input and tells of its work on standard output, both pickled. Its
input then stays open for as long as it is wanted. Once that closes, because the parent stops it or has itself ended
for any reason, the child ends; what it has saved stays. It has its own session, so a Ctrl-C reaches the parent alone.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import IO, Final, Literal

from karelsynth.files import cannot_write
from karelsynth.karel.threads import THREADS
from karelsynth.reproduce.rows import Job
from karelsynth.reproduce.running import Paths
from karelsynth.train.loop import TrainingProgress

LOG: Final = "stderr.log"
"""In a run's folder: what its process wrote to standard error the last time; of interest if it fails."""
_KILLED: Final = -9
"""The status of a process that was given no chance."""
_OTHERS_THREADS: Final = ("OMP_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS")
"""What holds other libraries to some of the cores; a person's own setting stands."""
_ALLOCATOR: Final = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""What decides how PyTorch takes a GPU's memory: the name of today, and an old one that it still heeds."""
_MOMENT: Final = 5.0
"""Seconds that a process has to end after its last, broken message."""


@dataclass(frozen=True)
class Order:
    """What a child is to do; see `Runner`."""

    job: Job
    result: bool
    """Whether to measure the model, too."""
    deadline: float
    """By `time.monotonic()`."""
    places: Paths
    device: str
    at_once: int
    commit: str | None


@dataclass(frozen=True)
class Said:
    """A line for the person."""

    line: str


@dataclass(frozen=True)
class Ended:
    """The last that is heard of a child."""

    how: Literal["done", "left", "diverged", "failed", "crowded"]
    """`crowded`: there was not enough memory; with fewer others, or none, there may be."""
    why: str = ""
    """The one clear message, unless it is done or left."""


Message = Said | TrainingProgress | Ended


@dataclass(frozen=True)
class Began:
    """A run is about to get its process."""


Event = Began | TrainingProgress | Ended
"""What there is to see of a run."""


class Child:
    """A process that follows an order.

    Args:
        cores: how many it may use.
        tell: told, from another thread, what the child tells; `Ended` comes last, when the process is no more.
    """

    def __init__(self, order: Order, *, cores: int, tell: Callable[[Message], None]) -> None:
        log = self._log = order.places.runs / order.job.name / LOG
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("wb") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "karelsynth.reproduce.child", order.job.name],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=_environment(cores),
                    start_new_session=True,
                )
        except OSError as error:
            raise cannot_write(log, error) from None
        self._input, self._output = _there(self._process.stdin), _there(self._process.stdout)
        data = pickle.dumps(order)
        with suppress(OSError):  # it has ended at once: the listener tells why
            self._input.write(b"%d\n" % len(data) + data)
            self._input.flush()
        self._listener = Thread(target=self._listen, args=(tell,), name=order.job.name, daemon=True)
        self._listener.start()

    def stop(self) -> None:
        """Ask it to end."""
        with suppress(OSError):
            self._input.close()

    def wait(self, seconds: float) -> None:
        """Until it has ended, or for so long."""
        self._listener.join(max(0.0, seconds))

    def kill(self) -> None:
        """End it, if it has not."""
        self._process.kill()
        self._listener.join()

    def _listen(self, tell: Callable[[Message], None]) -> None:
        ended: Ended | None = None
        try:
            while True:
                message: Message = pickle.load(self._output)
                if isinstance(message, Ended):
                    ended = message
                else:
                    tell(message)
        except EOFError:
            pass
        except Exception as error:  # a broken pickle may raise anything
            ended = self._broken(error)
        status = self._process.wait()
        self._output.close()
        self.stop()
        tell(ended or self._why(status))

    def _broken(self, error: Exception) -> Ended | None:
        """How a child has ended whose message cannot be read; None if it was killed in the middle of it."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_MOMENT)
            return None
        self._process.kill()  # nobody listens to it any longer
        return Ended("failed", f"its process sent an unreadable message ({error!r}); {self._log} may say why")

    def _why(self, status: int) -> Ended:
        """How a child has ended without a word."""
        if status == _KILLED:
            return Ended("crowded", "its process was killed, probably because memory ran out")
        way = f"by signal {-status}" if status < 0 else f"with status {status}"
        return Ended("failed", f"its process ended {way}; {self._log} may say why")


def _environment(cores: int) -> dict[str, str]:
    """The child finds the modules that the parent finds, and leaves cores and memory to the others.

    Without expandable segments, memory that was once taken for tensors of one size is of little use for those of
    another: with programs of all lengths a process would come to hold far more than it uses.
    """
    chosen = dict.fromkeys(_OTHERS_THREADS, str(cores))
    if not any(name in os.environ for name in _ALLOCATOR):
        chosen[_ALLOCATOR[0]] = "expandable_segments:True"
    return {**chosen, **os.environ, THREADS: str(cores), "PYTHONPATH": os.pathsep.join(sys.path)}


def _there(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "both were asked for"
    return pipe
