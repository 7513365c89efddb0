"""A parallel loop over threads. The loop's body must release the GIL, as compiled functions do."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from karelsynth.errors import KarelsynthError, checked_int

THREADS: Final = "KARELSYNTH_THREADS"
"""The environment variable that limits the cores of this process, so that several processes can share a machine."""
Result = TypeVar("Result")
_SHARE: Final = 256
"""The least work for a thread, in runs of a program. They take 50 µs, as long as waking a thread."""
_CONTROL_GROUP: Final = Path("/sys/fs/cgroup")


def parallel_for(
    work: Callable[..., Result], count: int, per_item: int, threads: int | None, *arguments: Any
) -> list[Result]:
    """Call work(start, stop, *arguments) for pieces of range(count) on several threads, by default one for each core.

    `per_item` is the cost of an item, in runs of a program. Returns the results of the pieces in order. The calling
    thread works, too, so there is progress even if the others are busy.
    """
    threads = core_count() if threads is None else checked_int("threads", threads, 1)
    threads = min(threads, count * per_item // _SHARE)
    if threads <= 1:
        return [work(0, count, *arguments)]
    pieces = min(count, 4 * threads)  # more pieces than threads, since programs differ in length
    edges = [count * piece // pieces for piece in range(pieces + 1)]
    results: dict[int, Result] = {}
    left = iter(range(pieces))

    def work_on() -> None:
        for piece in left:
            results[piece] = work(edges[piece], edges[piece + 1], *arguments)

    # A task for the pool costs more time than most pieces. So each thread gets one task, which works on several pieces.
    others = [_pool().submit(work_on) for _ in range(threads - 1)]
    try:
        work_on()
    finally:
        for other in others:
            if not other.cancel():
                other.exception()  # no thread may still be writing when this returns
    for other in others:
        if not other.cancelled():
            other.result()
    return [results[piece] for piece in range(pieces)]


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, core_count() - 1), thread_name_prefix="karel-machine")


# A forked child inherits the pool but not its threads. (Windows does not fork.)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def core_count() -> int:
    """The number of cores that this process may use, at most $KARELSYNTH_THREADS if that is set.

    A container may see all cores of its machine and be allowed the time of a few: that limit counts, too.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = min(cores, core_quota(Path("/sys/fs/cgroup")) or cores)
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


@cache
def core_quota(folder: Path) -> int | None:
    """The cores whose time Linux grants this process's control group, rounded up; None if there is no limit."""
    with suppress(OSError, ValueError):  # version 2: "200000 100000", or "max 100000"
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else max(1, math.ceil(int(quota) / int(period)))
    with suppress(OSError, ValueError):  # version 1: -1 for no limit
        quota, period = ((folder / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return max(1, math.ceil(int(quota) / int(period))) if int(quota) > 0 else None
    return None
