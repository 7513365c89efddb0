"""Streams of tasks for a training loop of one's own, as NumPy arrays.

    source = task_source("stream", seed=1, purposeful=0.5)       # endless; or a set, or a file in the original's format
    for batch in TaskIterator(source, batch_size=128):           # a dict of arrays; JAX takes them as they are
        ...

Batch n of a source is always the same. So an iterator resumes exactly from one number (`state_dict`), and several
workers divide the batches among them without talking to each other: worker w of W makes the batches w, w + W, ….
`karelsynth.train.dataset` has the same for PyTorch's `DataLoader`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from karelsynth.errors import KarelsynthError, NumberError, checked_int
from karelsynth.generator.sampler import LONGEST_FITTED
from karelsynth.tasks.batch import TaskBatch, interleave
from karelsynth.tasks.generate import generate
from karelsynth.tasks.purposeful.generator import PURPOSEFUL_TOKENS, generate_purposeful
from karelsynth.tasks.simplify import simplify as simplified

STREAM: Final = "stream"
"""The name of the endless stream, in place of a path of tasks."""
_SHARE_UNIT: Final = 1 << 20
"""Shares are multiples of its inverse."""
Arrays = dict[str, NDArray[Any]]
"""The fields of a `TaskBatch` by name."""


class TaskSource(Protocol):
    """Tasks by their number in the run."""

    @property
    def fingerprint(self) -> str | None:
        """A digest of the tasks; None if the recipe determines them."""

    @property
    def longest(self) -> int:
        """The most tokens that a program can have."""

    def tasks(self, start: int, count: int) -> TaskBatch:
        """Tasks number start … start + count − 1 of the run."""


@dataclass(frozen=True)
class TaskStream:
    """The endless stream of both generators: random tasks, and purposeful ones among them.

    The purposeful tasks are spread evenly: of the first n tasks, a share of n is purposeful, rounded down. So each
    generator makes a contiguous range of its own tasks for any range of the stream.
    """

    seed: int
    simplify: bool = False
    """Whether the random programs are simplified. Purposeful ones have no part that their examples do not need."""
    purposeful: float = 0.0
    """The share of purposeful tasks."""

    @property
    def fingerprint(self) -> None:
        """None: the seed determines the tasks."""
        return

    @property
    def longest(self) -> int:
        return max(LONGEST_FITTED, PURPOSEFUL_TOKENS) if self.purposeful else LONGEST_FITTED

    def tasks(self, start: int, count: int, threads: int | None = 1) -> TaskBatch:
        """See `TaskSource`. One thread by default, since a run makes several batches at a time; None for all cores."""
        if not self.purposeful:
            return self._random(start, count, threads)
        before = self._purposeful_before(np.arange(start, start + count + 1))
        first, number = int(before[0]), int(before[-1] - before[0])
        random = self._random(start - first, count - number, threads)
        purposeful = generate_purposeful(self.seed, first, number, threads=threads)
        return interleave(random, purposeful, np.diff(before) > 0)

    def _random(self, start: int, count: int, threads: int | None) -> TaskBatch:
        tasks = generate(self.seed, start, count, threads=threads)
        return simplified(tasks, threads=threads) if self.simplify else tasks

    def _purposeful_before(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many purposeful tasks there are before each task; exact for numbers below 2⁴²."""
        share = round(self.purposeful * _SHARE_UNIT)
        whole, rest = np.divmod(numbers, _SHARE_UNIT)
        before: NDArray[np.int64] = whole * share + rest * share // _SHARE_UNIT
        return before


class ShuffledTasks:
    """A finite set of tasks, reshuffled every epoch by the seed."""

    def __init__(self, tasks: TaskBatch, seed: int) -> None:
        self._tasks, self._seed = tasks, seed
        self.longest = int(tasks.lengths.max(initial=0))
        self._known: tuple[int, NDArray[np.int64]] = (-1, np.empty(0, np.int64))

    @property
    def fingerprint(self) -> str:
        """Of the tasks."""
        return self._tasks.fingerprint

    def tasks(self, start: int, count: int) -> TaskBatch:
        size = len(self._tasks)
        numbers = np.arange(start, start + count)
        chosen = np.empty(count, np.int64)
        for epoch in range(start // size, (start + count - 1) // size + 1):
            here = numbers // size == epoch
            chosen[here] = self._order(epoch)[numbers[here] % size]
        return self._tasks[chosen]

    def _order(self, epoch: int) -> NDArray[np.int64]:
        known, order = self._known
        if known != epoch:
            order = np.random.default_rng((self._seed, epoch)).permutation(len(self._tasks))
            self._known = (epoch, order)
        return order


def task_source(
    source: str = STREAM,
    *,
    seed: int = 1,
    tasks: int | None = None,
    simplify: bool = False,
    purposeful: float = 0.0,
) -> TaskSource:
    """A source of tasks.

    Args:
        source: `stream` for the generators, or the path of a set's folder or of a file in the original's format.
        seed: which stream; of finite sources, how they are shuffled.
        tasks: use only this many tasks, the first, reshuffled every epoch. By default the stream is endless, and a set
            is used whole.
        simplify: whether to remove from reference programs what none of their examples needs.
        purposeful: the share of purposeful tasks in the stream.
    """
    seed = checked_int("seed", seed, 0, 2**63 - 1)
    tasks = None if tasks is None else checked_int("tasks", tasks, 1)
    if not 0 <= purposeful <= 1:
        raise NumberError(f"purposeful is a share from 0 to 1, not {purposeful}")
    if source == STREAM:
        if tasks is None:
            return TaskStream(seed, simplify, purposeful)
        found = TaskStream(seed, purposeful=purposeful).tasks(0, tasks, threads=None)
    else:
        from karelsynth.tasks.sets import load_tasks

        found = load_tasks(source, limit=tasks)
        if tasks is not None and tasks > len(found):
            raise NumberError(f"{tasks:,} tasks are wanted, but {source} holds {len(found):,}")
    return ShuffledTasks(simplified(found) if simplify else found, seed)


class TaskIterator(Iterator[Arrays]):
    """Batches of a source, as dicts of arrays with the names and shapes of `TaskBatch`: tokens [B, L], inputs
    [B, E, 18, 18], and so on. L is the same for all batches of a source.

    Args:
        source: see `task_source`.
        batch_size: B.
        batches: end after this many batches of all workers together; by default never.
        worker, workers: this iterator's share of the batches.
        threads: how many threads make batches ahead of their use; with 0 they are made when asked for.
    """

    def __init__(
        self,
        source: TaskSource,
        batch_size: int,
        *,
        batches: int | None = None,
        worker: int = 0,
        workers: int = 1,
        threads: int = 0,
    ) -> None:
        self._source, self._batch_size = source, checked_int("batch_size", batch_size, 1)
        self._batches = None if batches is None else checked_int("batches", batches, 0)
        self._workers = checked_int("workers", workers, 1)
        self._worker = checked_int("worker", worker, 0, workers - 1)
        self._threads = checked_int("threads", threads, 0)
        self._next = self._worker
        self._pool: ThreadPoolExecutor | None = None
        self._ahead: deque[Future[Arrays]] = deque()
        """The batches from the next one on, as far as threads make them already."""

    def __next__(self) -> Arrays:
        """The next batch."""
        if not self._exists(self._next):
            raise StopIteration
        made = self._made_ahead() if self._threads else self._make(self._next)
        self._next += self._workers
        return made

    def _made_ahead(self) -> Arrays:
        if self._pool is None:  # its threads end with it
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="tasks")
        while len(self._ahead) < 2 * self._threads:
            number = self._next + len(self._ahead) * self._workers
            if not self._exists(number):
                break
            self._ahead.append(self._pool.submit(self._make, number))
        return self._ahead.popleft().result()

    def __getstate__(self) -> dict[str, Any]:
        """Without the threads, for worker processes; the copy continues with the same batch."""
        return {**self.__dict__, "_pool": None, "_ahead": deque()}

    def state_dict(self) -> dict[str, int]:
        """The state after the batches that were handed out, also if further ones are already made."""
        return {"next": self._next, "worker": self._worker, "workers": self._workers}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue after the batches that were handed out when the state was taken."""
        try:
            following, shape = checked_int("next", state["next"], 0), (state["worker"], state["workers"])
        except (KeyError, TypeError):
            raise KarelsynthError(f"this is no state of a {type(self).__name__}: {state!r}") from None
        if shape != (self._worker, self._workers):
            raise KarelsynthError(
                f"this state belongs to worker {shape[0]} of {shape[1]}, not to worker {self._worker} of "
                f"{self._workers}: use as many workers as before"
            )
        self.begin_at(following)

    def begin_at(self, number: int) -> None:
        """Go on with batch `number`, and with every `workers`-th after it."""
        self._next = checked_int("number", number, 0)
        for made in self._ahead:
            made.cancel()
        self._ahead.clear()

    def _exists(self, number: int) -> bool:
        return self._batches is None or number < self._batches

    def _make(self, number: int) -> Arrays:
        tasks = self._source.tasks(number * self._batch_size, self._batch_size)
        return {field.name: getattr(tasks, field.name) for field in fields(tasks)}
