"""Files of tasks, whatever their form.

A task as people type it (see `task_text`), JSON as `Task.to_json` writes it (alone or in a list; worlds may be drawings
too), JSON lines of that or in the original data's format, `.gz` too, and a folder of all these.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from karelsynth.errors import TaskFileError, WorldError, listed, nearest
from karelsynth.files import STDIN, exists, is_file, is_folder, read_text
from karelsynth.karel.formats.codes import world_from_codes
from karelsynth.karel.world import World, quoted
from karelsynth.tasks.batch import GIVEN_EXAMPLES
from karelsynth.tasks.manifest import FILE_NAME as MANIFEST
from karelsynth.tasks.msr_records import Record, parse_record, read_lines
from karelsynth.tasks.task import Example, Task
from karelsynth.tasks.task_text import parse_task, render_task

__all__ = ["parse_task", "read_pair", "read_tasks", "render_task", "task_from_json", "tasks_from_text"]

ENDINGS: Final = (".task", ".json", ".jsonl", ".jsonl.gz")
"""Of the files that are taken from a folder."""
_FIRST: Final = 65_536
"""Bytes that a file is recognised by."""
MOST_TASKS: Final = 10_000
"""In one file or folder; larger sets are arrays on disk, for training and evaluation."""
_LARGEST: Final = 2**27
"""Bytes of a file that is read at once: more than so many tasks take."""
_LONGEST: Final = 2**20
"""Characters of a task as people type it."""


def read_tasks(path: str | Path) -> list[Task]:
    """The tasks of a file, of standard input (`-`), or of all task files of a folder in the order of their names.

    A task without a name gets its file's. Raises KarelsynthError with the path in front.
    """
    where = "standard input" if path == STDIN else str(path)
    if path != STDIN and is_folder(path):
        tasks = _folder(Path(path))
    elif path != STDIN and _is_streamed(Path(path)):
        tasks = _of_lines(read_lines(path), where)
    else:
        tasks = tasks_from_text(read_text(path, _LARGEST), where)
    stem = "" if path == STDIN else Path(path).name.split(".")[0]
    if not tasks:
        raise TaskFileError(f"{where}: there is no task in it")
    return [
        task if task.name else replace(task, name=_numbered(stem, at, len(tasks))) for at, task in enumerate(tasks, 1)
    ]


def tasks_from_text(text: str, where: str) -> list[Task]:
    """The tasks of a file's text; `where` is put in front of what is wrong with it."""
    return _of_json(text, where) if text.lstrip()[:1] in ("{", "[") else [_of_text(text, where)]


def read_pair(before: str | Path, after: str | Path) -> Task:
    """A task of one example: two world files, as `World.load` reads them."""
    if before == after == STDIN:
        raise TaskFileError("only one of the two worlds can come from standard input")
    pair = Example(World.load(before), World.load(after))
    try:
        return Task((pair,))
    except TaskFileError as error:
        raise TaskFileError(f"{before} and {after}: {str(error).removeprefix('example 1: ')}") from None


def task_from_json(record: Any) -> Task:
    """Read what `Task.to_json` writes; a world may also be a drawing."""
    if not isinstance(record, dict):
        raise TaskFileError('a task is a JSON object, {"name": …, "about": …, "examples": […]}')
    pairs = record.get("examples")
    if not isinstance(pairs, list):
        close = nearest("examples", record) if "examples" not in record else None
        raise TaskFileError(
            'a task needs `examples`, a list of {"input": …, "output": …}'
            + (f"; it has {quoted(close)}" if close else "")
        )
    said = [record.get(key, "") for key in ("name", "about")]
    if not all(isinstance(text, str) for text in said):
        raise TaskFileError("`name` and `about` must be strings")
    return Task(tuple(_pair_from_json(pair, at) for at, pair in enumerate(pairs)), *said)


def _pair_from_json(pair: Any, at: int) -> Example:
    worlds = []
    for key in Example._fields:
        if not isinstance(pair, dict) or key not in pair:
            raise TaskFileError(f"examples[{at}]: an object with `input` and `output` is expected")
        try:
            worlds.append(World.parse(pair[key]) if isinstance(pair[key], str) else World.from_json(pair[key]))
        except WorldError as error:
            raise TaskFileError(f"examples[{at}].{key}: {error}") from None
    return Example(*worlds)


def _of_text(text: str, where: str) -> Task:
    if len(text) > _LONGEST:
        raise TaskFileError(f"{where}: too large: a task in text form has at most {_LONGEST:,} characters")
    return parse_task(text, where)


def _of_json(text: str, where: str) -> list[Task]:
    """A task, a list of tasks, or JSON lines under another name than `.jsonl`."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            lines = enumerate(text.split("\n"), 1)
            return _of_lines(((at, line.encode()) for at, line in lines if line.strip()), where)
        raise TaskFileError(
            f"{where}: line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}"
        ) from None
    except (ValueError, RecursionError):  # a number of thousands of digits; thousands of brackets
        raise TaskFileError(f"{where}: not a task: the JSON has too long a number or is nested too deep") from None
    if _is_record(data):
        return _of_lines([(1, text.encode())], where)
    if isinstance(data, dict):
        return [_of_object(data, where)]
    return _limited((_of_object(item, f"{where}: task {at}") for at, item in enumerate(data, 1)), where)


def _of_object(data: Any, where: str) -> Task:
    try:
        return task_from_json(data)
    except TaskFileError as error:
        raise TaskFileError(f"{where}: {error}") from None


def _of_lines(lines: Iterable[tuple[int, bytes | None]], where: str) -> list[Task]:
    """Of JSON lines and their numbers, each a record of the original data or a task of ours."""
    return _limited((_of_line(line, at, where) for at, line in lines), where)


def _of_line(line: bytes | None, at: int, where: str) -> Task:
    try:
        data = None if line is None else json.loads(line)
    except (ValueError, RecursionError):  # told in full below
        data = None
    if isinstance(data, dict) and not _is_record(data):
        return _of_object(data, f"{where}: line {at}")
    return _of_record(parse_record(line, at, programs=False), where)


def _is_record(data: Any) -> bool:
    """Whether JSON is in the original data's format rather than ours."""
    if not isinstance(data, dict):
        return False
    pairs = data.get("examples")
    first = pairs[0] if isinstance(pairs, list) and pairs else None
    return bool({"program_tokens", "program_json"} & data.keys()) or (
        isinstance(first, dict) and any(str(key).startswith(("inpgrid", "outgrid")) for key in first)
    )


def _of_record(record: Record, where: str) -> Task:
    """The given examples of a record of the original data; the last one is held out to score answers."""
    if record.problems:
        raise TaskFileError(f"{where}: {record.problems[0]}")
    pairs = [Example(world_from_codes(pair.input), world_from_codes(pair.output)) for pair in record.examples]
    try:
        return Task(tuple(pairs[:GIVEN_EXAMPLES]), name=f"line {record.line}")
    except TaskFileError as error:
        raise TaskFileError(f"{where}: line {record.line}: {error}") from None


def _folder(folder: Path) -> list[Task]:
    if exists(folder / MANIFEST):
        raise TaskFileError(f"{folder}: this is a set made by `karelsynth generate`, not a folder of task files")
    try:
        files = sorted(path for path in folder.iterdir() if path.name.lower().endswith(ENDINGS) and is_file(path))
    except OSError as error:
        raise TaskFileError(f"{folder}: cannot be read: {error.strerror}") from None
    if not files:
        raise TaskFileError(f"{folder}: no task files in it; their names end in {listed(ENDINGS)}")
    return _limited((task for path in files for task in read_tasks(path)), str(folder))


def _limited(tasks: Iterable[Task], where: str) -> list[Task]:
    taken: list[Task] = []
    for task in tasks:
        if len(taken) == MOST_TASKS:
            raise TaskFileError(f"{where}: more than {MOST_TASKS:,} tasks; take some out, or use `karelsynth evaluate`")
        taken.append(task)
    return taken


def _is_streamed(path: Path) -> bool:
    """Whether a file is read line by line: one that is compressed, by its content, or the original's JSON lines."""
    if not is_file(path):  # a pipe, say, whose first bytes would be lost
        return False
    try:
        with path.open("rb") as file:
            start = file.read(_FIRST)
    except OSError:  # reading it says what is wrong
        return False
    if start[:2] == b"\x1f\x8b":
        return True
    return path.name.lower().endswith(".jsonl") and b"inpgrid" in start


def _numbered(stem: str, at: int, count: int) -> str:
    return stem if count == 1 else f"{stem} {at}".strip()
