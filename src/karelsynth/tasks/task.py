"""A task as a value: examples of what a program should do.

`TaskBatch` holds thousands of tasks as arrays for training; a `Task` is one that a person made, with a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karelsynth.errors import TaskFileError, checked_int
from karelsynth.karel.formats.codes import worlds_to_codes
from karelsynth.karel.interpreter import MAX_TICKS, MOST_TICKS
from karelsynth.karel.world import World

MOST_EXAMPLES: Final = 20
"""Of a task. More hardly help the network and slow down every step of the search."""


class Example(NamedTuple):
    """A world before the program has run, and after."""

    input: World
    output: World


@dataclass(frozen=True)
class Task:
    """One or more examples with a name. The constructor rejects examples that no program can solve."""

    examples: tuple[Example, ...]
    name: str = ""
    """A short title, or empty."""
    about: str = ""
    """A description for people. No code uses it."""
    max_ticks: int = MAX_TICKS
    """The most ticks that a correct program takes. Tasks in the original's format have PAPER_TICKS."""

    def __post_init__(self) -> None:
        checked_int("max_ticks", self.max_ticks, 0, MOST_TICKS)
        object.__setattr__(self, "examples", tuple(_pair(pair) for pair in self.examples))
        for field in ("name", "about"):  # they are printed to terminals: remove control characters
            words = "".join(letter if letter.isprintable() else " " for letter in getattr(self, field)).split()
            object.__setattr__(self, field, " ".join(words))
        if not self.examples:
            raise TaskFileError("a task needs at least one example: a world before and the same world after")
        if len(self.examples) > MOST_EXAMPLES:
            raise TaskFileError(f"a task has at most {MOST_EXAMPLES} examples, not {len(self.examples)}: drop some")
        for number, example in enumerate(self.examples, 1):
            problem = _impossible(*example)
            if problem:
                raise TaskFileError(f"example {number}: {problem}")
        outputs: dict[World, tuple[int, World]] = {}
        for number, (before, after) in enumerate(self.examples, 1):
            first, output = outputs.setdefault(before, (number, after))
            if output != after:
                raise TaskFileError(
                    f"examples {first} and {number} have the same input and different outputs: no program does both"
                )

    def codes(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Inputs and outputs as cell codes, uint8 [K, 18, 18] each."""
        inputs, outputs = zip(*self.examples, strict=True)
        return worlds_to_codes(inputs), worlds_to_codes(outputs)

    def to_json(self) -> dict[str, Any]:
        """`{"name", "about", "examples": [{"input", "output"}]}` with worlds as in the original data's JSON."""
        pairs = [{"input": example.input.to_json(), "output": example.output.to_json()} for example in self.examples]
        return {"name": self.name, "about": self.about, "examples": pairs}


def as_task(examples: Task | Sequence[Example | tuple[World, World]]) -> Task:
    """A task of pairs of worlds."""
    return examples if isinstance(examples, Task) else Task(tuple(examples))  # type: ignore[arg-type]


def _pair(pair: Any) -> Example:
    """The example of a pair of worlds; raises TaskFileError for anything else."""
    worlds = () if isinstance(pair, World) or not isinstance(pair, Iterable) else tuple(pair)
    if len(worlds) != 2 or not all(isinstance(world, World) for world in worlds):
        raise TaskFileError("an example is a pair of worlds, before and after: solve([(before, after), …])")
    return Example(*worlds)


def _impossible(before: World, after: World) -> str | None:
    """Why no program leads from one world to the other, or None if no reason is obvious."""
    if (before.rows, before.cols) != (after.rows, after.cols):
        return (
            f"the input has {before.rows} rows and {before.cols} columns, the output {after.rows} and {after.cols}: "
            "they must be the same"
        )
    differing = sorted(before.walls ^ after.walls)
    if differing:
        row, col = differing[0]
        which = "input" if differing[0] in before.walls else "output"
        return (
            f"there is a wall at row {row + 1}, column {col + 1} in the {which} only: "
            "programs cannot build or break walls, so they must be the same in both"
        )
    return None
