"""Settings for every test."""

from __future__ import annotations

import os

from hypothesis import settings

# The tests run side by side: threads that wait by spinning would only be in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No deadlines: the first example of a test may compile or load something. Derandomized, so that CI is repeatable.
settings.register_profile("karelsynth", deadline=None, derandomize=True)
settings.load_profile("karelsynth")
