"""Finding programs with a synthesizer: beam search, sampling, and trying out what was found."""

from __future__ import annotations

from karelsynth.search.beam import beam_search
from karelsynth.search.candidates import BackgroundChecks, Candidates, check, with_reference
from karelsynth.search.rollouts import sample_rollouts
from karelsynth.search.scoring import rescore
from karelsynth.tasks.outcomes import Outcomes

__all__ = [
    "BackgroundChecks",
    "Candidates",
    "Outcomes",
    "beam_search",
    "check",
    "rescore",
    "sample_rollouts",
    "with_reference",
]
