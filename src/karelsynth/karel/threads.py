"""A parallel loop over threads. The loop's body must release the GIL, as compiled functions do."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final, TypeVar

from karelsynth.errors import KarelsynthError, checked_int

THREADS: Final = "KARELSYNTH_THREADS"
"""The environment variable that limits the cores of a process, for several processes side by side."""
Result = TypeVar("Result")
_INLINE: Final = 256
"""Smaller loops run in the calling thread."""


def parallel_for(work: Callable[[int, int], Result], count: int, per_item: int, threads: int | None) -> list[Result]:
    """Call work(start, stop) for pieces of range(count) on several threads, by default one for each core.

    `per_item` is the cost of an item, in runs of a program. Returns the results of the pieces in order.
    """
    threads = core_count() if threads is None else checked_int("threads", threads, 1)
    if threads == 1 or count * per_item < _INLINE:
        return [work(0, count)]
    pieces = min(count, 4 * threads)  # more pieces than threads, since programs differ in length
    edges = [count * piece // pieces for piece in range(pieces + 1)]
    if threads >= core_count():
        return list(_pool().map(work, edges[:-1], edges[1:]))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, edges[:-1], edges[1:]))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(core_count(), thread_name_prefix="karel-machine")


# A forked child inherits the pool but not its threads. (Windows does not fork.)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def core_count() -> int:
    """The number of cores that this process may use, at most $KARELSYNTH_THREADS if that is set."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get(THREADS, "")
    if not limit:
        return cores
    try:
        share = int(limit)
    except ValueError:
        share = 0
    if share < 1:
        raise KarelsynthError(
            f"environment variable {THREADS}={limit}: set it to a whole number from 1 on, or unset it"
        )
    return min(share, cores)
