"""Work that is shared out over threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from karelsynth.karel.threads import parallel_for


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_every_item_is_done_once_and_in_order(threads: int | None) -> None:
    pieces = parallel_for(lambda start, stop: list(range(start, stop)), 1000, 1, threads)
    assert [item for piece in pieces for item in piece] == list(range(1000))


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
