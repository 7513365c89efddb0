"""Reading the original data's task files: JSON lines, one task each, `.gz` too, in bounded memory.

A line is `{"program_tokens": […], "program_json": {…}, "examples": [{"inpgrid_json": {…}, "inpgrid_tensor": "…",
"outgrid_json": {…}, "outgrid_tensor": "…", "actions": […]}, …]}`. A program may be there as tokens, as a tree, or both;
a world as JSON, as a tensor, or both. If both are there, they must agree. Every error becomes a RecordProblem with the
number of its line, and reading continues.

There are a million lines, nearly all in one form. `usual_program` and `usual_world` read this form fast, by looking up
words in tables. They return None for any other form, which need not be wrong: the readers of `karel` then read it in
full, accept more and say what is wrong. Tests hold the two ways equal.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from karelsynth.errors import KarelsynthError, ProgramSyntaxError, TaskFileError, WorldError, listed, quoted
from karelsynth.files import name_of, opened
from karelsynth.karel.formats.codes import (
    BEYOND,
    CODE_PLANES,
    FRAME,
    FRAME_PLANE,
    HERO,
    PLANES,
    SIDE,
    WALL,
    WALL_PLANE,
    world_to_codes,
)
from karelsynth.karel.formats.msr import program_from_json, world_from_json, world_from_tensor_string
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import ACTIONS, COUNTS, END, ID, SENSORS
from karelsynth.karel.world import HEADINGS, LARGEST_SIDE, MOST_MARKERS, SMALLEST_SIDE
from karelsynth.parsing import ParseError, parse_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST_LINE: Final = 2**24
"""Bytes of the longest line. Lines of tasks that fit a set are at most a hundredth of it."""
GZIP_MAGIC: Final = b"\x1f\x8b"
WORDS: Final = [f"{index}:1.0" for index in range(PLANES * SIDE * SIDE)]
"""Of a tensor string, by index."""
ACTION_IDS: Final = {action: ID[action] for action in ACTIONS}
_INDEX: Final = {word: index for index, word in enumerate(WORDS)}
_PLANES: Final = np.ascontiguousarray(CODE_PLANES.T > 0)
"""bool [16, 80]: which planes a cell code sets."""
ReadingProgress = Callable[[int], None]
"""Called with the number of bytes read since the last call."""


class RecordProblem(NamedTuple):
    """An error in a task file."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


@dataclass(frozen=True)
class RecordExample:
    """One example of a record: `number` is its place in the record's list."""

    number: int
    input: NDArray[np.uint8]
    """[18, 18], cell codes."""
    output: NDArray[np.uint8]
    """[18, 18]."""
    actions: tuple[int, ...] | None
    """The trace as token ids, if the record has one."""


@dataclass(frozen=True)
class TaskRecord:
    """A line of the file: its readable parts and its problems."""

    line: int
    tokens: tuple[int, ...] = ()
    """The program as token ids; empty if it does not parse."""
    examples: tuple[RecordExample, ...] = ()
    """The readable examples."""
    example_count: int = 0
    """The number of all examples."""
    problems: tuple[RecordProblem, ...] = ()


def read_lines(path: str | Path, progress: ReadingProgress | None = None) -> Iterator[tuple[int, bytes | None]]:
    """The non-blank lines of a file or a pipe, `.gz` too, with their numbers; None for a line that is too long.

    `-` is standard input. Raises TaskFileError if the file cannot be read at all, or not to its end.
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


def uncompressed(raw: io.BufferedReader) -> io.BufferedReader:
    """The content of a file or a pipe, known to be compressed by its first bytes."""
    start = raw.peek(len(GZIP_MAGIC))[: len(GZIP_MAGIC)]  # a pipe cannot be rewound, and may have sent one byte only
    compressed = bool(start) and GZIP_MAGIC.startswith(start)
    return io.BufferedReader(cast("Any", gzip.GzipFile(fileobj=raw))) if compressed else raw


def _lines(raw: io.BufferedReader) -> Iterator[bytes | None]:
    """The lines; None for one that is too long."""
    file = uncompressed(raw)
    while line := file.readline(LONGEST_LINE):
        if len(line) < LONGEST_LINE or line.endswith(b"\n"):
            yield line
        else:
            while line and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE)
            yield None


def parse_record(line: bytes | None, number: int) -> TaskRecord:
    """Read line `number` of a file, None if it is too long."""
    if line is None:
        return _bad(number, f"longer than {LONGEST_LINE:,} bytes: no task is")
    try:
        record = parse_json(line)
    except ParseError as error:
        column = "" if error.column is None else f" (column {error.column})"
        return _bad(number, f"not valid JSON: {error.reason}{column}")
    return (
        read_record(record, number) if isinstance(record, dict) else _bad(number, "no task: a JSON object is expected")
    )


def read_record(record: Mapping[str, Any], number: int, *, programs: bool = True) -> TaskRecord:
    """Read the JSON object of line `number`; without `programs`, its program is not read."""
    problems: list[RecordProblem] = []
    tokens: tuple[int, ...] = ()
    try:
        if programs:
            tokens = usual_program(record) or tuple(_program(record).token_ids)
    except KarelsynthError as error:
        problems.append(RecordProblem(number, str(error)))
    items = record.get("examples")
    if not isinstance(items, list) or not items:
        problems.append(RecordProblem(number, "`examples` must be a list of at least one example"))
        items = []
    examples = []
    for at, item in enumerate(items):
        try:
            examples.append(_example(item, at))
        except KarelsynthError as error:
            problems.append(RecordProblem(number, f"examples[{at}]: {error}"))
    return TaskRecord(number, tokens, tuple(examples), len(items), tuple(problems))


def _bad(line: int, message: str) -> TaskRecord:
    return TaskRecord(line, problems=(RecordProblem(line, message),))


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


def _example(item: Any, number: int) -> RecordExample:
    if not isinstance(item, dict):
        raise TaskFileError("a JSON object is expected")
    return RecordExample(number, _world(item, "inpgrid"), _world(item, "outgrid"), _actions(item))


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
    """Whether a tensor string is that of a world. This is much faster than parsing it."""
    if isinstance(text, str):
        found = np.array([_INDEX.get(word, -1) for word in text.split()])
        found.sort()
        if np.array_equal(found, np.flatnonzero(_PLANES[:, codes])):
            return True
    return bool(np.array_equal(world_to_codes(world_from_tensor_string(text)), codes))


# The usual form.

_WORLD_FIELDS: Final = 6
_LONGEST_USUAL: Final = 200
_DEEPEST_USUAL: Final = 16
"""Tokens and depth of usual programs; the readers of `karel` have limits of their own."""
_Item = tuple[int, int, int]
"""The meaning of a word of a world's JSON: the cell, of 18 · 18; its new code, or for a hero the addend; the index in
the tensor."""


def _item(row: int, col: int, code: int, plane: int) -> _Item:
    cell = (row + 1) * SIDE + col + 1
    return cell, code, plane * SIDE * SIDE + cell


_PLACES: Final = [(row, col) for row in range(LARGEST_SIDE) for col in range(LARGEST_SIDE)]
_WALLS: Final = {f"{row}:{col}": _item(row, col, WALL, WALL_PLANE) for row, col in _PLACES}
_MARKERS: Final = {
    f"{row}:{col}:{count}": _item(row, col, count, FRAME_PLANE + count)
    for row, col in _PLACES
    for count in range(1, MOST_MARKERS + 1)
}
_HEROES: Final = {
    f"{row}:{col}:{heading}": _item(row, col, HERO * (number + 1), number)
    for row, col in _PLACES
    for number, heading in enumerate(HEADINGS)
}


def _place(words: str, items: Mapping[str, _Item], codes: bytearray) -> list[int]:
    """Place objects on a world's cells; returns their indices in the tensor. KeyError if the form is not usual."""
    indices = []
    for word in words.split():
        cell, code, index = items[word]
        if codes[cell]:  # outside, or given twice
            raise KeyError(word)
        codes[cell] = code
        indices.append(index)
    return indices


@cache
def _empty_world(rows: int, cols: int) -> tuple[bytes, str, str]:
    """The codes of a world with nothing in it; its frame as in the original's tensors, and with sorted indices."""
    codes = np.full((SIDE, SIDE), BEYOND, np.uint8)
    codes[: rows + 2, : cols + 2] = FRAME
    codes[1 : rows + 1, 1 : cols + 1] = 0
    places = [(row, col) for row in (-1, rows) for col in range(-1, cols + 1)]
    places += [(row, col) for col in (-1, cols) for row in range(rows)]
    indices = [_item(row, col, FRAME, FRAME_PLANE)[2] for row, col in places]
    return codes.tobytes(), _words(indices), _words(sorted(indices))


def _words(indices: list[int]) -> str:
    return " ".join([WORDS[index] for index in indices])


def usual_world(record: Any, tensor: Any) -> NDArray[np.uint8] | None:
    """Cell codes [18, 18] of a valid world with all fields; its tensor, if given, in the original's order or sorted."""
    try:
        rows, cols, crashed = record["rows"], record["cols"], record["crashed"]
        if len(record) != _WORLD_FIELDS or crashed is not False:
            return None
        if type(rows) is not int or type(cols) is not int:  # True and 2.0 are refused elsewhere
            return None
        if not (SMALLEST_SIDE <= rows <= LARGEST_SIDE and SMALLEST_SIDE <= cols <= LARGEST_SIDE):
            return None
        empty, frame, frame_sorted = _empty_world(rows, cols)
        codes = bytearray(empty)
        walls = _place(record["blocked"], _WALLS, codes)
        markers = _place(record["markers"], _MARKERS, codes)
        cell, heading, hero = _HEROES[record["hero"]]
    except (KeyError, TypeError, AttributeError):
        return None
    if codes[cell] >= WALL:
        return None
    codes[cell] += heading
    if tensor is not None and tensor != f"{_words([hero, *markers, *walls])} {frame}":
        walls.sort()
        markers.sort()
        if tensor != f"{_words([hero, *walls])} {frame_sorted} {_words(markers)}".rstrip():
            return None
    return np.frombuffer(codes, np.uint8).reshape(SIDE, SIDE)


def usual_program(record: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The token ids of a valid program given as tokens and, optionally, as the same tree."""
    try:
        names, tree = record["program_tokens"], record.get("program_json")
        if type(names) is not list or len(names) > _LONGEST_USUAL:
            return None
        ids = tuple([ID[name] for name in names])
        if tree is None:
            from karelsynth.karel.syntax import syntax_machine  # imports Numba, which other readers do without

            return ids if ids[-1] == END and syntax_machine(KAREL, _LONGEST_USUAL).admits(ids) else None
        printed = ["DEF", "run", "m("]
        if len(tree) != 1 or not _print_block(tree["run"], printed, 0):
            return None
        return ids if [*printed, "m)"] == names else None
    except (KeyError, TypeError, AttributeError, IndexError):
        return None


def _print_block(block: Any, names: list[str], depth: int) -> bool:
    """Append the tokens of a block of a program's tree; False if it is not valid or not usual."""
    if type(block) is not list or not block or depth > _DEEPEST_USUAL:
        return False
    for node in block:
        kind = node["type"]
        if kind in ACTION_IDS:
            names.append(kind)
            right = len(node) == 1
        elif kind == "repeat":
            times = node["times"]
            if type(times) is not int or not 0 <= times < len(COUNTS) or len(node) != 3:
                return False
            names += ("REPEAT", COUNTS[times], "r(")
            right = _print_block(node["body"], names, depth + 1)
            names.append("r)")
        elif kind == "ifElse":
            names.append("IFELSE")
            right = len(node) == 4 and _print_condition(node["condition"], names)
            names.append("i(")
            right = right and _print_block(node["ifBody"], names, depth + 1)
            names += ("i)", "ELSE", "e(")
            right = right and _print_block(node["elseBody"], names, depth + 1)
            names.append("e)")
        elif kind == "if" or kind == "while":
            letter = kind[0]
            names.append(kind.upper())
            right = len(node) == 3 and _print_condition(node["condition"], names)
            names.append(f"{letter}(")
            right = right and _print_block(node["body"], names, depth + 1)
            names.append(f"{letter})")
        else:
            right = False
        if not right:
            return False
    return True


def _print_condition(node: Any, names: list[str]) -> bool:
    """Append the tokens of a sensor or of its negation; False if it is neither."""
    kind = node["type"]
    if kind == "not":
        names += ("c(", "not")
        right = len(node) == 2 and node["condition"]["type"] != "not" and _print_condition(node["condition"], names)
        names.append("c)")
        return right
    names += ("c(", kind, "c)")
    return kind in SENSORS and len(node) == 1
