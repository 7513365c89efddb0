"""Threads for the steps of a search on a CPU.

    with shared_steps(threads):
        …                           # `decode_step` shares its hypotheses out

Every thread that searches has a pool of its own, so that searches side by side do not wait for each other's steps.
Threads that the tensor library would start go on spinning for a while, on the cores that steps need: so within a search
it has one.
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
"""Of the calling thread: `threads`, over how many its steps are shared out now, and `pools`, by their size."""
_setting = RLock()
"""Held while PyTorch's number of threads is another for a moment: who reads it then would keep the wrong one."""


def threads_of_steps() -> int:
    """Over how many threads the calling thread's steps are shared out now."""
    return getattr(_mine, "threads", 1)


def single_threaded(threads: int) -> ThreadPoolExecutor:
    """The calling thread's pool, in which tensor operations do not start threads of their own."""
    pools: dict[int, ThreadPoolExecutor] = _mine.__dict__.setdefault("pools", {})
    if threads not in pools:
        with _setting:
            pools[threads] = _new_pool(threads)
    return pools[threads]


def _new_pool(threads: int) -> ThreadPoolExecutor:
    before = torch.get_num_threads()
    pool, ready = ThreadPoolExecutor(threads, thread_name_prefix="karel-decoder"), Barrier(threads)

    def prepare(_: int) -> None:
        torch.get_num_threads()  # what a thread begins with is looked up at first use: not after it was set
        torch.set_num_threads(1)  # of this thread, but also of all that begin later: hence below
        ready.wait()

    list(pool.map(prepare, range(threads)))
    torch.set_num_threads(before)
    return pool


@contextmanager
def shared_steps(threads: int) -> Iterator[None]:
    """Within it, this thread's steps on a CPU are shared out over threads, and its other operations are not."""
    if threads == 1:
        yield
        return
    with _setting:
        before = torch.get_num_threads()
        single_threaded(threads)
        torch.set_num_threads(1)
        # PyTorch gives the number that was set last to every thread that begins later, and those are the application's
        # own: so a thread that ends at once sets it back.
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
