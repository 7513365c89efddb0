"""Reading the original data's task files: JSON lines, one task each, `.gz` too, in bounded memory.

A line is `{"program_tokens": […], "program_json": {…}, "examples": [{"inpgrid_json": {…}, "inpgrid_tensor": "…",
"outgrid_json": {…}, "outgrid_tensor": "…", "actions": […]}, …]}`. What is said twice, a program as tokens and as a
tree, a world as JSON and as a tensor, may be there once; where both are there, they must agree. Whatever is wrong
becomes a Problem with the number of its line, and reading goes on.

There are a million lines, nearly all in one form. What is in that form is read by looking its words up in tables (the
functions `msr_tables`); anything else by the readers of `karel`, which accept more and say what is wrong.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from karelsynth.errors import KarelsynthError, ProgramSyntaxError, TaskFileError, WorldError, listed
from karelsynth.files import name_of, opened
from karelsynth.karel.formats.codes import (
    CODE_PLANES,
    world_to_codes,
)
from karelsynth.karel.formats.msr import program_from_json, world_from_json, world_from_tensor_string
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import ACTIONS
from karelsynth.karel.world import quoted
from karelsynth.tasks.msr_tables import ACTION_IDS, WORDS, usual_program, usual_world

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST_LINE: Final = 2**24
"""In bytes; the longest of a task that fits a set is a hundredth of it."""
_GZIP_MAGIC: Final = b"\x1f\x8b"
_INDEX: Final = {word: index for index, word in enumerate(WORDS)}
_PLANES: Final = np.ascontiguousarray(CODE_PLANES.T > 0)
"""bool [16, 80]: which planes a cell code sets."""
ReadingProgress = Callable[[int], None]
"""Called with the number of bytes of the file just read; of a pipe, those of its lines."""


class Problem(NamedTuple):
    """Something wrong in a task file."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


@dataclass(frozen=True)
class Example:
    """One example of a record: `number` is its place in the record's list."""

    number: int
    input: NDArray[np.uint8]
    """[18, 18], cell codes."""
    output: NDArray[np.uint8]
    """[18, 18]."""
    actions: tuple[int, ...] | None
    """The trace as token ids, if the record has one."""


@dataclass(frozen=True)
class Record:
    """A line of the file: what could be read of it, and what could not."""

    line: int
    tokens: tuple[int, ...] = ()
    """The program as token ids; empty if there is none that parses."""
    examples: tuple[Example, ...] = ()
    """Those that could be read."""
    example_count: int = 0
    """All that are there."""
    problems: tuple[Problem, ...] = ()


def read_records(
    path: str | Path, progress: ReadingProgress | None = None, *, programs: bool = True
) -> Iterator[Record]:
    """The records of a file or of standard input (`-`), one for each line that is not blank.

    `programs`: whether they need a program.
    Raises TaskFileError if the file cannot be read at all, or not to its end.
    """
    for number, line in read_lines(path, progress):
        yield parse_record(line, number, programs=programs)


def read_lines(path: str | Path, progress: ReadingProgress | None = None) -> Iterator[tuple[int, bytes | None]]:
    """The lines of a file or a pipe, `.gz` too, that are not blank, and their numbers; None for one that is too long.

    `-` is standard input. Raises as `read_records` does.
    """
    name, number = name_of(path), 0
    try:
        with opened(path) as raw:
            seekable = raw.seekable()
            at = raw.tell() if seekable else 0
            for number, line in enumerate(_lines(raw), 1):
                if progress is not None:
                    now = raw.tell() if seekable else at + len(line or b"")
                    progress(now - at)
                    at = now
                if line is None or line.strip():
                    yield number, line
    except FileNotFoundError:
        raise TaskFileError(f"{name}: there is no such file") from None
    except IsADirectoryError:
        raise TaskFileError(f"{name}: a folder, not a file of tasks") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TaskFileError(
            f"{name}: after line {number}: the compressed file is cut off or damaged ({error}); get it again"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a path that holds a null character
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TaskFileError(f"{name}: cannot be read: {reason}") from None


def _lines(raw: io.BufferedReader) -> Iterator[bytes | None]:
    """The lines; None for one that is too long."""
    start = raw.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)]  # a pipe cannot go back; it may have a single byte yet
    compressed = bool(start) and _GZIP_MAGIC.startswith(start)
    file = io.BufferedReader(cast("Any", gzip.GzipFile(fileobj=raw))) if compressed else raw
    while line := file.readline(LONGEST_LINE):
        if len(line) < LONGEST_LINE or line.endswith(b"\n"):
            yield line
        else:
            while line and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE)
            yield None


def parse_record(line: bytes | None, number: int, *, programs: bool = True) -> Record:
    """Read line `number` of a file, None if it is too long; without `programs`, its program is not read."""
    if line is None:
        return _bad(number, f"longer than {LONGEST_LINE:,} bytes: no task is")
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return _bad(number, f"not UTF-8 (byte {error.start + 1} of the line is not valid)")
    except json.JSONDecodeError as error:
        return _bad(number, f"not valid JSON: {error.msg} (column {error.pos + 1})")
    except (ValueError, RecursionError):  # a number of thousands of digits; thousands of brackets
        return _bad(number, "no task: a number is too long or it is nested too deep")
    if not isinstance(record, dict):
        return _bad(number, "no task: a JSON object is expected")

    problems: list[Problem] = []
    tokens: tuple[int, ...] = ()
    try:
        if programs:
            tokens = usual_program(record) or tuple(_program(record).token_ids)
    except KarelsynthError as error:
        problems.append(Problem(number, str(error)))
    items = record.get("examples")
    if not isinstance(items, list) or not items:
        problems.append(Problem(number, "`examples` must be a list of at least one example"))
        items = []
    examples = []
    for at, item in enumerate(items):
        try:
            examples.append(_example(item, at))
        except KarelsynthError as error:
            problems.append(Problem(number, f"examples[{at}]: {error}"))
    return Record(number, tokens, tuple(examples), len(items), tuple(problems))


def _bad(line: int, message: str) -> Record:
    return Record(line, problems=(Problem(line, message),))


def _program(record: Mapping[str, Any]) -> Program:
    tokens, tree = record.get("program_tokens"), record.get("program_json")
    if tokens is None and tree is None:
        raise TaskFileError(f"the program is missing: neither {listed(('program_tokens', 'program_json'), 'nor')}")
    if tokens is None:
        return _program_of_tree(tree)
    program = _program_of_tokens(tokens)
    if tree is not None and _program_of_tree(tree) != program:
        raise TaskFileError("`program_tokens` and `program_json` are different programs")
    return program


def _program_of_tokens(tokens: Any) -> Program:
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise TaskFileError("`program_tokens` must be a list of strings")
    unfit = next((at for at, token in enumerate(tokens) if len(token.split()) != 1), None)
    if unfit is not None:
        raise TaskFileError(f"program_tokens[{unfit}]: {quoted(tokens[unfit])} is not a token")
    try:
        return Program.from_tokens(tokens)
    except ProgramSyntaxError as error:
        at = len(error.source_line[: error.column - 1].split())
        hint = f" (did you mean `{error.suggestion}`?)" if error.suggestion else ""
        raise TaskFileError(f"program_tokens[{at}]: {error.reason}{hint}") from None


def _program_of_tree(tree: Any) -> Program:
    try:
        return program_from_json(tree)
    except KarelsynthError as error:
        raise TaskFileError(f"program_json: {error}") from None


def _example(item: Any, number: int) -> Example:
    if not isinstance(item, dict):
        raise TaskFileError("a JSON object is expected")
    return Example(number, _world(item, "inpgrid"), _world(item, "outgrid"), _actions(item))


def _actions(item: Mapping[str, Any]) -> tuple[int, ...] | None:
    actions = item.get("actions")
    if actions is None:
        return None
    if not isinstance(actions, list):
        raise TaskFileError("`actions` must be a list")
    try:
        return tuple([ACTION_IDS[action] for action in actions])
    except (KeyError, TypeError):  # TypeError: not even a string
        at = next(at for at, action in enumerate(actions) if action not in ACTIONS)
        raise TaskFileError(f"actions[{at}]: {quoted(str(actions[at]))} is none of {listed(ACTIONS)}") from None


def _world(item: Mapping[str, Any], grid: str) -> NDArray[np.uint8]:
    """Cell codes [18, 18] of an example's `inpgrid` or `outgrid`."""
    record, tensor = item.get(f"{grid}_json"), item.get(f"{grid}_tensor")
    usual = usual_world(record, tensor)
    if usual is not None:
        return usual
    try:
        if record is not None:
            codes = world_to_codes(world_from_json(record))
            if tensor is not None and not _is_tensor_of(tensor, codes):
                raise WorldError(f"not the world of `{grid}_tensor`")
            return codes
        if tensor is not None:
            return world_to_codes(world_from_tensor_string(tensor))
    except WorldError as error:
        raise WorldError(f"{grid}_{'tensor' if record is None else 'json'}: {error}") from None
    raise WorldError(f"the world is missing: neither {listed((f'{grid}_json', f'{grid}_tensor'), 'nor')}")


def _is_tensor_of(text: Any, codes: NDArray[np.uint8]) -> bool:
    """Whether a tensor string is that of a world. Reading it in full would be most of the work of reading a file."""
    if isinstance(text, str):
        found = np.array([_INDEX.get(word, -1) for word in text.split()])
        found.sort()
        if np.array_equal(found, np.flatnonzero(_PLANES[:, codes])):
            return True
    return bool(np.array_equal(world_to_codes(world_from_tensor_string(text)), codes))
