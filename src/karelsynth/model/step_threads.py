"""Threads for the steps of a search on a CPU.

    with shared_steps(threads):
        …                           # a step of the LSTM distributes its hypotheses over the threads

Every thread that searches has its own pool, so that concurrent searches do not wait for each other's steps. The tensor
library's own threads keep spinning for a while after each operation, on the cores that steps need. So within a search
it has only one.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, RLock, Thread, local
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

_mine = local()
"""Of the calling thread: `threads`, the number of threads of its steps now, and `pools`, by their size."""
_setting = RLock()
"""Held while PyTorch's number of threads is changed temporarily, so that no other thread reads that number."""


def threads_of_steps() -> int:
    """How many threads run the calling thread's steps now."""
    return getattr(_mine, "threads", 1)


def single_threaded(threads: int) -> ThreadPoolExecutor:
    """The calling thread's pool, whose tensor operations start no threads of their own."""
    pools: dict[int, ThreadPoolExecutor] = _mine.__dict__.setdefault("pools", {})
    if threads not in pools:
        pools[threads] = new_single_threaded(threads, "karel-decoder")
    return pools[threads]


def new_single_threaded(threads: int, name: str) -> ThreadPoolExecutor:
    """A new pool, whose tensor operations start no threads of their own."""
    pool, ready = ThreadPoolExecutor(threads, thread_name_prefix=name), Barrier(threads)

    def prepare(_: int) -> None:
        torch.get_num_threads()  # a thread reads its number at first use: do that before it is set
        torch.set_num_threads(1)  # of this thread, but also of all later ones: reset below
        ready.wait()

    with _setting:
        before = torch.get_num_threads()
        list(pool.map(prepare, range(threads)))
        torch.set_num_threads(before)
    return pool


@contextmanager
def tensor_threads(threads: int) -> Iterator[None]:
    """Within it, each tensor operation is divided among so many threads. $OMP_NUM_THREADS, if set, decides instead."""
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    with _setting:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def shared_steps(threads: int) -> Iterator[None]:
    """Within it, this thread's steps on a CPU run on several threads, and its other operations on one."""
    if threads == 1:
        yield
        return
    with _setting:
        before = torch.get_num_threads()
        single_threaded(threads)
        torch.set_num_threads(1)
        # PyTorch gives the number that was set last to every later thread, and those are the application's own. So a
        # short-lived thread sets it back.
        restore = Thread(target=torch.set_num_threads, args=(before,))
        restore.start()
        restore.join()
    _mine.threads = threads
    try:
        yield
    finally:
        _mine.threads = 1
        torch.set_num_threads(before)


def _after_fork() -> None:
    """A forked child inherits pools without threads, ours and OpenMP's, and would wait for them forever."""
    global _setting
    _setting = RLock()
    _mine.__dict__.clear()
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
