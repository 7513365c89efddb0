"""Limits on what students' programs may do."""

from __future__ import annotations

from typing import Final

from karelsynth.karel.interpreter import MAX_TICKS

TUTOR_TICKS: Final = MAX_TICKS
"""The most ticks of a student's run. People's worlds need more than the data's 200."""
MOST_SUBMISSIONS: Final = 10_000
"""The most programs that are graded at once."""
LONGEST_SUBMISSION: Final = 100_000
"""The most characters of a student's program."""
