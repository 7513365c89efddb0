"""Training: recipes, batches, checkpoints and the one loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karelsynth.callable_module import make_callable
from karelsynth.errors import naming_extras

if TYPE_CHECKING:
    from karelsynth.train.loop import train

__all__ = ["train"]


if not TYPE_CHECKING:  # it would hide missing names from type checkers

    def __getattr__(name: str) -> object:
        """`train` is loaded on first use, and torch with it."""
        if name not in __all__:
            raise AttributeError(f"module 'karelsynth.train' has no attribute {name!r}")
        with naming_extras():
            from karelsynth.train.loop import train

        return train


make_callable(__name__)
