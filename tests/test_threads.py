"""Work that is shared out over threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from karelsynth.karel.threads import parallel_for


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_every_item_is_done_once_and_in_order(threads: int | None) -> None:
    pieces = parallel_for(lambda start, stop: list(range(start, stop)), 1000, 9, threads)
    assert [item for piece in pieces for item in piece] == list(range(1000))


@pytest.mark.parametrize("failing", [0, 500, 999])
def test_an_error_in_any_piece_is_raised_when_all_threads_have_stopped(failing: int) -> None:
    working = []

    def work(start: int, stop: int) -> None:
        working.append(start)
        try:
            if start <= failing < stop:
                raise ValueError(f"item {failing}")
        finally:
            working.remove(start)

    with pytest.raises(ValueError, match=f"item {failing}"):
        parallel_for(work, 1000, 100, 3)
    assert not working


def test_loops_inside_loops_end() -> None:
    """Even if all other threads wait for such a loop of their own."""

    def outer(start: int, stop: int) -> int:
        return sum(len(parallel_for(lambda first, last: last - first, 1000, 10, None)) > 0 for _ in range(start, stop))

    assert sum(parallel_for(outer, 64, 1000, None)) == 64


def test_it_works_where_processes_cannot_fork() -> None:
    code = "import os\nif hasattr(os, 'register_at_fork'): del os.register_at_fork\nimport karelsynth.karel.threads"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system that forks")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    parallel_for(lambda start, stop: stop - start, 1000, 1, None)
    child = os.fork()
    if child == 0:  # pragma: no cover
        done = sum(parallel_for(lambda start, stop: stop - start, 1000, 1, None))
        os._exit(0 if done == 1000 else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
