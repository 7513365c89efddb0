"""Solving tasks: from examples to a program that has been checked on them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from karelsynth.callable_module import make_callable
from karelsynth.errors import naming_extras

if TYPE_CHECKING:
    from karelsynth.solve.solution import Ambiguity, Answer, Outcome, Progress, Solution
    from karelsynth.solve.solver import Solver, solve

__all__ = ["Ambiguity", "Answer", "Outcome", "Progress", "Solution", "Solver", "solve"]


if not TYPE_CHECKING:  # it would hide missing names from type checkers

    def __getattr__(name: str) -> object:
        """Names are loaded on first use: only `Solver` and `solve` import torch."""
        if name not in __all__:
            raise AttributeError(f"module 'karelsynth.solve' has no attribute {name!r}")
        module = "solver" if name in ("Solver", "solve") else "solution"
        with naming_extras():
            return getattr(import_module(f"karelsynth.solve.{module}"), name)


def __dir__() -> list[str]:
    return __all__


make_callable(__name__)
