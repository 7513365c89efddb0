"""Settings for every test."""

from __future__ import annotations

from hypothesis import settings

# No deadlines: the first example of a test may compile or load something. Derandomized, so that CI is repeatable.
settings.register_profile("karelsynth", deadline=None, derandomize=True)
settings.load_profile("karelsynth")
