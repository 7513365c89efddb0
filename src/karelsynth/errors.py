"""The errors that karelsynth raises for bad input.

They all derive from `KarelsynthError`. The message says what is wrong, where, and what to do. The command line prints
that message and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import index
from typing import Any, Final

from karelsynth.terminal_text import display_width, printable

_LONGEST_SHOWN: Final = 100
"""The most letters of a source line in a message. Of longer lines, only the neighbourhood is shown."""


class KarelsynthError(Exception):
    """Bad input."""


class WorldError(KarelsynthError, ValueError):
    """An impossible world: two heroes, a hero in a wall, too many rows, junk in a drawing."""


class TaskFileError(KarelsynthError, ValueError):
    """A task file that cannot be read."""


class NumberError(KarelsynthError, ValueError):
    """A number that is out of bounds or no whole number."""


EXTRA_OF_LIBRARY: Final = {
    "torch": "solve",
    "safetensors": "solve",
    "fastapi": "serve",
    "pydantic": "serve",
    "starlette": "serve",
    "uvicorn": "serve",
    "gymnasium": "gym",
    "matplotlib": "train",
    "ray": "ray",
}
"""By library, the extra of the package that installs it."""


class MissingExtra(KarelsynthError, ImportError):
    """A library that is installed only with an extra of the package."""


def missing_extra(error: ImportError) -> MissingExtra | None:
    """The error that says which extra to install, if the library that could not be imported belongs to one."""
    library = (error.name or "").partition(".")[0]
    if library not in EXTRA_OF_LIBRARY:
        return None
    extra = EXTRA_OF_LIBRARY[library]
    also = "" if extra == "ray" else " (karelsynth[all] has everything)"
    return MissingExtra(
        f"this needs {library}, which is not installed: pip install 'karelsynth[{extra}]'{also}", name=library
    )


def need(library: str) -> None:
    """Raise MissingExtra if a library is not installed, before anything is begun that needs it. Does not import it."""
    from importlib.util import find_spec

    if find_spec(library) is None:
        error = ModuleNotFoundError(f"No module named {library!r}", name=library)
        raise missing_extra(error) or error


@contextmanager
def naming_extras() -> Iterator[None]:
    """Imports whose failure says which extra of the package is missing."""
    try:
        yield
    except ImportError as error:
        raise missing_extra(error) or error from None


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
        """For process pools: exceptions are pickled by their positional arguments, and keyword arguments get lost."""
        parts = {name: getattr(self, name) for name in ("line", "column", "source_line", "suggestion", "width")}
        return partial(type(self), self.reason, **parts), ()

    def _message(self) -> str:
        line, at = self.source_line, self.column - 1
        start, end = 0, len(line)
        if end > _LONGEST_SHOWN:
            start = max(0, at - _LONGEST_SHOWN // 2)
            end = min(end, start + _LONGEST_SHOWN)
        # The caret counts display columns of the printed line, in which tabs are single spaces.
        before, marked = printable(line[start:at]), printable(line[at : min(at + self.width, end)])
        indent = display_width(before) + max(0, at - len(line))  # the column may be just past the line's end
        prefix, suffix = ("…" if start else ""), ("…" if end < len(line) else "")
        hint = f"\nDid you mean `{printable(self.suggestion)}`?" if self.suggestion else ""
        return (
            f"line {self.line}, column {self.column}: {printable(self.reason)}\n"
            f"    {prefix}{printable(line[start:end])}{suffix}\n"
            f"    {' ' * (len(prefix) + indent)}{'^' * max(1, display_width(marked))}{hint}"
        )


def out_of_memory(error: Exception) -> bool:
    """Whether NumPy, PyTorch or a CUDA library ran out of memory, or could not be loaded for lack of it."""
    text = str(error).lower()
    known = (
        *("out of memory", "alloc_failed", "allocate memory", "not enough memory", "storage size calculation"),
        "failed to map segment",  # says the loader of shared libraries
    )
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | ImportError) and any(words in text for words in known)
    )


def nearest(word: str, vocabulary: Iterable[str]) -> str | None:
    """The word of the vocabulary closest to `word`, or None if none is close.

    It ignores case and tolerates swapped letters: `turnLfet` finds `turnLeft`, `MOVE` finds `move`.
    """
    import difflib  # only after a mistake

    by_folded = {known.casefold(): known for known in vocabulary}
    folded = word.casefold()
    if folded in by_folded:
        return by_folded[folded]
    close = difflib.get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str], *, aside: bool = False) -> str:
    """`; did you mean `…`?` for the end of a message about an unknown word, or nothing if no known word is close.

    With `aside`, it is in brackets, for the middle of a message.
    """
    close = nearest(word, known)
    if close is None:
        return ""
    return f" (did you mean `{close}`?)" if aside else f"; did you mean `{close}`?"


def names_hint(word: str, known: Collection[str]) -> str:
    """For a message about an unknown name: `did you mean …?`, or all names there are."""
    close = nearest(word, known)
    return f"did you mean `{close}`?" if close else f"there are {listed(known, 'and')}"


def listed(words: Iterable[str], last: str = "or") -> str:
    """`a`, `b` or `c`."""
    marked = [f"`{word}`" for word in words]
    if len(marked) <= 1:
        return "".join(marked)
    return f"{', '.join(marked[:-1])} {last} {marked[-1]}"


def quoted(text: str) -> str:
    """A user's text for a message: in quotes, without control characters, shortened if long."""
    shown = "".join(letter if letter.isprintable() else "�" for letter in text[:40])
    return f"`{shown}`" if len(text) <= 40 else f"`{shown}…`"


def checked_int(name: str, value: Any, least: int, most: int | None = None) -> int:
    """The value as an int, also from NumPy's integers. Raises NumberError if it is no integer or out of bounds."""
    try:
        number = index(value)
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        bounds = f"from {least:,} on" if most is None else f"from {least:,} to {most:,}"
        raise NumberError(f"{name} is a whole number {bounds}, not {printable(repr(value))}")
    return number
