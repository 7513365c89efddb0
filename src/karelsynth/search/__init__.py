"""Finding programs: beam search and sampling with a synthesizer, running what was found, and repairing it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from karelsynth.errors import naming_extras

if TYPE_CHECKING:
    from karelsynth.search.beam import beam_search
    from karelsynth.search.candidates import BackgroundChecks, Candidates, check, with_reference
    from karelsynth.search.rollouts import sample_rollouts
    from karelsynth.search.scoring import rescore
    from karelsynth.tasks.batch import Outcomes

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
_MODULES: Final = {
    "Outcomes": "karelsynth.tasks.batch",
    "beam_search": "karelsynth.search.beam",
    "rescore": "karelsynth.search.scoring",
    "sample_rollouts": "karelsynth.search.rollouts",
}


if not TYPE_CHECKING:  # it would hide missing names from type checkers

    def __getattr__(name: str) -> object:
        """Names are loaded on first use, because they import torch. `search.repair` does not."""
        if name not in __all__:
            raise AttributeError(f"module 'karelsynth.search' has no attribute {name!r}")
        with naming_extras():
            return getattr(import_module(_MODULES.get(name, "karelsynth.search.candidates")), name)


def __dir__() -> list[str]:
    return __all__
