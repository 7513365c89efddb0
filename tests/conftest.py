"""Settings for every test."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

# The tests run side by side: threads that wait by spinning would only be in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell's background jobs ignore Ctrl-C, and what they start would, too: tests that send it would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadlines: the first example of a test may compile or load something. Derandomized, so that CI is repeatable.
settings.register_profile("karelsynth", deadline=None, derandomize=True)
settings.load_profile("karelsynth")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave tests that need a GPU out where there is none."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked:
        import torch

        if not torch.cuda.is_available():
            for item in marked:
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))
