"""Every error that karelsynth raises for bad input.

They all derive from `KarelsynthError`, whose message is meant for a person: it says what is wrong, where,
and what to do. The command line prints that message and nothing else.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import partial


class KarelsynthError(Exception):
    """Bad input, explained for the person who gave it."""


class WorldError(KarelsynthError, ValueError):
    """A world that cannot be: two heroes, a hero in a wall, too many rows, junk in a drawing."""


class TaskFileError(KarelsynthError, ValueError):
    """A task file that cannot be read."""


class ProgramSyntaxError(KarelsynthError, ValueError):
    """A program that does not parse.

    `line` and `column` count from 1. The message shows the line with a caret under the column.
    """

    def __init__(
        self,
        reason: str,
        *,
        line: int,
        column: int,
        source_line: str,
        suggestion: str | None = None,
        width: int = 1,
    ) -> None:
        self.reason = reason
        self.line = line
        self.column = column
        self.source_line = source_line
        self.suggestion = suggestion
        self.width = max(1, width)
        super().__init__(self._message())

    def __reduce__(self) -> tuple[object, ...]:
        """Exceptions are pickled by their positional arguments, of which there is one: process pools need this."""
        parts = {name: getattr(self, name) for name in ("line", "column", "source_line", "suggestion", "width")}
        return partial(type(self), self.reason, **parts), ()

    def _message(self) -> str:
        # Tabs would put the caret elsewhere than the reader sees it, so the line is shown without them.
        shown = self.source_line.replace("\t", " ")
        start, end = 0, len(shown)
        if len(shown) > 100:  # a whole program on one line: show the neighbourhood only
            start = max(0, self.column - 1 - 50)
            end = start + 100
        caret = " " * (self.column - 1 - start) + "^" * min(self.width, max(1, end - self.column + 1))
        prefix, suffix = ("…" if start else ""), ("…" if end < len(shown) else "")
        hint = f"\nDid you mean `{self.suggestion}`?" if self.suggestion else ""
        return (
            f"line {self.line}, column {self.column}: {self.reason}\n"
            f"    {prefix}{shown[start:end]}{suffix}\n"
            f"    {' ' * len(prefix)}{caret}{hint}"
        )


def out_of_memory(error: Exception) -> bool:
    """Whether this is how NumPy, PyTorch or CUDA's libraries say that there is no memory left; no torch needed."""
    text = str(error).lower()
    known = ("out of memory", "alloc_failed", "allocate memory", "not enough memory", "storage size calculation")
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(words in text for words in known))


def nearest(word: str, vocabulary: Iterable[str]) -> str | None:
    """The word of the vocabulary most like `word`, or None if nothing is close.

    Case is forgiven, and so are swapped letters: `turnLfet` finds `turnLeft`, `MOVE` finds `move`.
    """
    by_folded = {known.casefold(): known for known in vocabulary}
    folded = word.casefold()
    if folded in by_folded:
        return by_folded[folded]
    close = difflib.get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def listed(words: Iterable[str], last: str = "or") -> str:
    """`a`, `b` or `c`."""
    quoted = [f"`{word}`" for word in words]
    if len(quoted) <= 1:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"
