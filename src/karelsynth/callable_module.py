"""Modules that can be called.

`karelsynth.evaluate`, `karelsynth.solve` and `karelsynth.train` are modules, and the functions of the same names are
what most people want of them. `from karelsynth import solve` gives the module, and `solve(task)` calls its function;
`karelsynth.solve.Solver` still works.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module whose call is that of its function with the module's last name."""

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*arguments, **more)


def make_callable(name: str) -> None:
    """Make the module of this name callable; a module calls it with its `__name__`."""
    sys.modules[name].__class__ = CallableModule
