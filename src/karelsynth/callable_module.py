"""Modules that can be called.

`karelsynth.evaluate`, `karelsynth.solve` and `karelsynth.train` are modules, and the functions of the same names are
what most people want of them. `from karelsynth import solve` gives the module, and `solve(task)` calls its function;
`karelsynth.solve.Solver` still works.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspect import Signature


class CallableModule(ModuleType):
    """A module that can be called: the call goes to its function with the last part of the module's name."""

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        return self._function(*arguments, **more)

    @property
    def __signature__(self) -> Signature:
        """For `inspect.signature`, and so for notebooks that show what can be passed."""
        from inspect import signature

        return signature(self._function)

    @property
    def _function(self) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])


def make_callable(name: str) -> None:
    """Make the module of this name callable; a module calls it with its `__name__`."""
    sys.modules[name].__class__ = CallableModule
