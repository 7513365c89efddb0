"""Tasks as people write them, and files of them in any form.

    name: Clean the row
    about: Karel walks to the wall and takes every marker on the way.

    input:                 example 2:
    . . . .                . . .     . . .
    > 1 . 2                > . 1 ->  . . >

    output:
    . . . .
    . . . >

A text task (two columns above only to save room) is a list of headings. `input:` and `output:` are followed by a
drawing as `World.parse` reads it; a pair of them is an example. `example:` is followed by both drawings side by side,
with `->` between them on at least one line. Numbers after headings, upper case and blank lines do not matter. `name:`
and `about:` are optional; their text may span several lines. There are no comments, for `#` is a wall: use `about:`.

`read_tasks` also reads JSON as `Task.to_json` writes it (one task or a list; worlds may be drawings), JSON lines of
that or in the original data's format, `.gz` too, and a folder of all these.

The gallery is a folder of text tasks made by hand, from easy to hard. A program of the language solves each of them.
Its files are numbered in their order: `07-fill-the-row.task` is the task `fill-the-row`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any, Final

from karelsynth.errors import KarelsynthError, TaskFileError, WorldError, listed, nearest, quoted
from karelsynth.files import STDIN, exists, is_file, is_folder, name_of, read_text
from karelsynth.karel.formats.codes import world_from_codes
from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.world import World
from karelsynth.parsing import ParseError, parse_json
from karelsynth.tasks.batch import GIVEN_EXAMPLES
from karelsynth.tasks.manifest import FILE_NAME as MANIFEST
from karelsynth.tasks.msr_records import GZIP_MAGIC, LONGEST_LINE, parse_record, read_lines, read_record
from karelsynth.tasks.task import MOST_EXAMPLES, Example, Task

_TEXT: Final = ".task"
ENDINGS: Final = (_TEXT, ".json", ".jsonl", ".jsonl.gz")
"""Endings of the files that are read from a folder."""
_PROBED: Final = 65_536
"""Bytes by which the form of a file is recognized."""
MOST_TASKS: Final = 10_000
"""In one file or folder; larger sets are arrays on disk, for training and evaluation."""
_LARGEST: Final = 2**27
"""The largest file that is read at once, in bytes: more than MOST_TASKS tasks need."""
_LARGEST_JSON: Final = 2**24
"""Characters of the largest JSON value. Parsed, it may take twenty times as much memory."""
_LONGEST: Final = 2**20
"""Characters of the longest text task."""
_HEADINGS: Final = ("name", "about", "input", "output", "example")
_SYNONYMS: Final = {"before": "input", "after": "output", "in": "input", "out": "output", "title": "name",
                    "description": "about", "pair": "example", "task": "name"}  # fmt: skip
_ARROWS: Final = ("->", "=>", "→")
_WIDTH: Final = 100
_NUMBERED: Final = re.compile(r"(?P<path>.+)#(?P<number>\d{1,5})", re.DOTALL)
_FORM: Final = "a task is `input:` and a drawing, then `output:` and a drawing, once for each example"


def read_tasks(path: str | Path) -> list[Task]:
    """The tasks of a file, of standard input (`-`), or of all task files of a folder in the order of their names.

    `PATH#3` is the third of them alone. A task that a folder holds twice counts once: `karelsynth pose` writes each
    into a file of its own and all into one. A task without a name gets that of its file. The message of a
    KarelsynthError begins with the path.
    """
    numbered = _NUMBERED.fullmatch(str(path))
    if numbered is not None and not exists(path):
        tasks = read_tasks(numbered["path"])
        number = int(numbered["number"])
        if not 1 <= number <= len(tasks):
            raise TaskFileError(f"{numbered['path']}: there is no task {number}; it holds {len(tasks)}")
        return [tasks[number - 1]]
    where = name_of(path)
    if path != STDIN and is_folder(path):
        tasks = _tasks_of_folder(Path(path))
    elif path != STDIN and _is_streamed(Path(path)):
        tasks = _tasks_from_lines(read_lines(path), where)
    else:
        tasks = tasks_from_text(read_text(path, _LARGEST), where)
    stem = "" if path == STDIN else Path(path).name.split(".")[0]
    if not tasks:
        raise TaskFileError(f"{where}: there is no task in it")
    return [
        task if task.name else replace(task, name=_numbered(stem, at, len(tasks))) for at, task in enumerate(tasks, 1)
    ]


def tasks_from_text(text: str, where: str) -> list[Task]:
    """The tasks of a file's text; error messages begin with `where`."""
    if text.lstrip()[:1] in ("{", "["):
        return _tasks_from_json(text, where)
    if len(text) > _LONGEST:
        raise TaskFileError(f"{where}: too large: a task in text form has at most {_LONGEST:,} characters")
    return [parse_task(text, where)]


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


def _tasks_from_json(text: str, where: str) -> list[Task]:
    """A task, a list of tasks, or JSON lines under another name than `.jsonl`."""
    if len(text) > _LARGEST_JSON:
        if text.lstrip()[:1] == "[":
            raise TaskFileError(
                f"{where}: too large: a list of tasks has at most {_LARGEST_JSON:,} characters; write JSON lines "
                "instead, a task in each"
            )
        return _tasks_from_json_lines(text, where)
    try:
        data = parse_json(text)
    except ParseError as error:
        if error.reason == "Extra data":
            return _tasks_from_json_lines(text, where)
        raise TaskFileError(f"{where}: {error}") from None
    if isinstance(data, list):
        return _limited((_task_from_object(item, f"{where}: task {at}") for at, item in enumerate(data, 1)), where)
    return [_task_from_record(data, 1, where) if _is_record(data) else _task_from_object(data, where)]


def _task_from_object(data: Any, where: str) -> Task:
    try:
        return task_from_json(data)
    except TaskFileError as error:
        raise TaskFileError(f"{where}: {error}") from None


def _tasks_from_json_lines(text: str, where: str) -> list[Task]:
    """The tasks of JSON lines that have been read already; None for a line that is too long."""
    encoded = ((at, line.encode() if len(line) < LONGEST_LINE else None) for at, line in enumerate(text.split("\n"), 1))
    return _tasks_from_lines(((at, line) for at, line in encoded if line is None or line.strip()), where)


def _tasks_from_lines(lines: Iterable[tuple[int, bytes | None]], where: str) -> list[Task]:
    """The tasks of numbered JSON lines, each a record of the original data or a task of ours."""
    return _limited((_task_from_line(line, at, where) for at, line in lines), where)


def _task_from_line(line: bytes | None, at: int, where: str) -> Task:
    try:
        data = None if line is None else parse_json(line)
    except ParseError:  # parse_record reports it
        data = None
    if not isinstance(data, dict):
        raise TaskFileError(f"{where}: {parse_record(line, at).problems[0]}")
    return _task_from_record(data, at, where) if _is_record(data) else _task_from_object(data, f"{where}: line {at}")


def _is_record(data: dict[str, Any]) -> bool:
    """Whether a JSON object is in the original data's format rather than ours."""
    pairs = data.get("examples")
    first = pairs[0] if isinstance(pairs, list) and pairs else None
    return bool({"program_tokens", "program_json"} & data.keys()) or (
        isinstance(first, dict) and any(str(key).startswith(("inpgrid", "outgrid")) for key in first)
    )


def _task_from_record(data: dict[str, Any], line: int, where: str) -> Task:
    """A task of the given examples of a record; the others are held out to score answers."""
    record = read_record(data, line, programs=False)
    if record.problems:
        raise TaskFileError(f"{where}: {record.problems[0]}")
    pairs = [Example(world_from_codes(pair.input), world_from_codes(pair.output)) for pair in record.examples]
    try:
        return Task(tuple(pairs[:GIVEN_EXAMPLES]), name=f"line {line}", max_ticks=PAPER_TICKS)
    except TaskFileError as error:
        raise TaskFileError(f"{where}: line {line}: {error}") from None


def not_a_task_file(folder: str | Path) -> TaskFileError:
    """The error where a folder of `generate` is given instead of task files."""
    return TaskFileError(
        f"{folder}: this is a set made by `karelsynth generate`, not a task file. "
        f"`karelsynth export-msr {folder} --out tasks.jsonl` writes its tasks to a file"
    )


def _tasks_of_folder(folder: Path) -> list[Task]:
    if exists(folder / MANIFEST):
        raise not_a_task_file(folder)
    try:
        files = sorted(path for path in folder.iterdir() if path.name.lower().endswith(ENDINGS) and is_file(path))
    except OSError as error:
        raise TaskFileError(f"{folder}: cannot be read: {error.strerror}") from None
    if not files:
        raise TaskFileError(f"{folder}: no task files in it; their names end in {listed(ENDINGS)}")
    return _limited(dict.fromkeys(task for path in files for task in read_tasks(path)), str(folder))


def _limited(tasks: Iterable[Task], where: str) -> list[Task]:
    taken = list(islice(tasks, MOST_TASKS + 1))
    if len(taken) > MOST_TASKS:
        raise TaskFileError(f"{where}: more than {MOST_TASKS:,} tasks; take some out, or use `karelsynth evaluate`")
    return taken


def _is_streamed(path: Path) -> bool:
    """Whether a file is read line by line: a compressed file, or JSON lines."""
    if not is_file(path):  # for example a pipe, whose first bytes would be lost
        return False
    try:
        with path.open("rb") as file:
            start = file.read(_PROBED)
    except OSError:  # the reader reports it
        return False
    if start.startswith(GZIP_MAGIC):
        return True
    if not path.name.lower().endswith(".jsonl"):
        return False
    return b"inpgrid" in start or path.stat().st_size > _LARGEST_JSON  # or too large to be read at once


def _numbered(stem: str, at: int, count: int) -> str:
    return stem if count == 1 else f"{stem} {at}".strip()


# Text tasks.


@dataclass(frozen=True)
class _Section:
    """A heading and its lines; the first is the rest of the heading's own line."""

    heading: str
    number: str
    """As written after the heading, or empty."""
    line: int
    """Of the heading, from 1."""
    lines: list[str]

    def world(self, which: str, lines: Iterable[str]) -> World:
        """The world drawn in these lines. Empty lines before them give error messages the line numbers of the file."""
        try:
            return World.parse("\n" * (self.line - 1) + "\n".join(lines))
        except WorldError as error:
            raise TaskFileError(f"the {which} at line {self.line}: {error}") from None


def parse_task(text: str, where: str = "") -> Task:
    """Read a text task. The message of a TaskFileError begins with `where`, for example a file name."""
    try:
        return _task_from_sections(_sections(text))
    except TaskFileError as error:
        raise TaskFileError(f"{where}: {error}" if where else str(error)) from None


def render_task(task: Task) -> str:
    """The text that `parse_task` reads."""
    head = [f"{heading}: {said}" for heading, said in (("name", task.name), ("about", _wrapped(task.about))) if said]
    parts = ["\n".join(head)] if head else []
    for example in task.examples:
        parts += [f"input:\n{example.input.to_text()}", f"output:\n{example.output.to_text()}"]
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> str:
    """Wrapped at some 100 letters; one line if a wrapped line could be mistaken for a heading or a drawing."""
    lines = textwrap.wrap(text, _WIDTH - len("about: "), break_long_words=False, break_on_hyphens=False)
    return ("\n  " if all(map(_is_prose, lines[1:])) else " ").join(lines)


def _sections(text: str) -> list[_Section]:
    sections: list[_Section] = []
    ended = True  # whether no paragraph can continue in the next line
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        heading = _heading(line)
        drawn_below = bool(sections) and sections[-1].heading not in ("name", "about")
        if heading and heading[0] in _HEADINGS:
            word, mark, rest = heading
            sections.append(_Section(word, mark, number, [rest]))
            ended = False
        elif not line.strip():
            ended = True
            if sections:
                sections[-1].lines.append("")
        elif heading and (drawn_below or ended):
            raise TaskFileError(f"line {number}: {_unknown(heading[0])}")
        elif drawn_below or (not ended and _is_prose(line)):
            sections[-1].lines.append(line)
        else:
            raise TaskFileError(f"line {number}: {quoted(line.strip())} is not under any heading; {_FORM}")
    return sections


def _heading(line: str) -> tuple[str, str, str] | None:
    """Word in lower case, number and rest of a line that looks like a heading, known or unknown."""
    head, colon, rest = line.partition(":")
    words = head.split(maxsplit=2)
    match = re.fullmatch(r"([A-Za-z]+)#?([0-9]*)", "".join(words)) if colon and len(words) <= 2 else None
    return (match[1].lower(), match[2], rest) if match else None


def _is_prose(line: str) -> bool:
    """Whether a line can continue a paragraph: it is neither a heading nor part of a drawing."""
    heading = _heading(line)
    drawn = all(word in _ARROWS or re.fullmatch(r"[.#]|[\^>v<]?[0-9]*", word) for word in line.split())
    return not drawn and not (heading and heading[0] in _HEADINGS)


def _unknown(word: str) -> str:
    meant = _SYNONYMS.get(word) or nearest(word, _HEADINGS)
    hint = f"did you mean `{meant}:`?" if meant else f"the headings are {listed(_HEADINGS, 'and')}"
    return f"unknown heading {quoted(word + ':')}; {hint}"


def _task_from_sections(sections: list[_Section]) -> Task:
    count = sum(section.heading in ("output", "example") for section in sections)
    if count > MOST_EXAMPLES:  # before any is parsed: a file may have thousands
        raise TaskFileError(f"a task has at most {MOST_EXAMPLES} examples, not {count}: leave some out")
    said: dict[str, _Section] = {}
    examples: list[Example] = []
    before: _Section | None = None
    for section in sections:
        at = f"line {section.line}"
        if before and section.heading in ("input", "example"):
            raise TaskFileError(
                f"{at}: another `{section.heading}:`, but the input at line {before.line} has no output yet; "
                "above this line, write `output:` and the world after the run"
            )
        match section.heading:
            case "input":
                before = section
            case "output":
                if before is None:
                    raise TaskFileError(f"{at}: `output:` without an `input:` of its own before it; {_FORM}")
                examples.append(_pair(before, section))
                before = None
            case "example":
                left, right = _sides(section)
                examples.append(Example(section.world("input", left), section.world("output", right)))
            case _ as heading:
                if heading in said:
                    raise TaskFileError(
                        f"{at}: a second `{heading}:`, after the one in line {said[heading].line}; "
                        "a task has only one, and a file holds one task"
                    )
                said[heading] = section
    if before:
        raise TaskFileError(
            f"the input at line {before.line} has no output: below it, write `output:` and the world after the run"
        )
    if not examples:
        raise TaskFileError(f"there is no example in it: {_FORM}")
    name, about = (" ".join(said[heading].lines) if heading in said else "" for heading in ("name", "about"))
    return Task(tuple(examples), name, about)


def _pair(before: _Section, after: _Section) -> Example:
    if before.number and after.number and int(before.number[:9]) != int(after.number[:9]):
        raise TaskFileError(
            f"line {after.line}: this is output {after.number[:9]}, but the input before it, at line {before.line}, "
            f"is {before.number[:9]}; put each output right after its input"
        )
    return Example(before.world("input", before.lines), after.world("output", after.lines))


def _sides(section: _Section) -> tuple[list[str], list[str]]:
    """The lines of the left drawing and of the right one."""
    lines = [line.split() for line in section.lines]
    if not any(word in _ARROWS for words in lines for word in words):
        raise TaskFileError(
            f"line {section.line}: no `->` in this example; draw the worlds before and after side by side with `->` "
            "between them, or write them under `input:` and `output:`"
        )
    sides: tuple[list[str], list[str]] = ([], [])
    for number, words in enumerate(lines, section.line):
        arrow = next((at for at, word in enumerate(words) if word in _ARROWS), None)
        left = words[: len(words) // 2 if arrow is None else arrow]
        right = words[len(left) + (arrow is not None) :]
        if len(left) != len(right):
            raise TaskFileError(
                f"line {number} has {len(left) + len(right)} cells, which do not make two worlds side by side: "
                "as many are needed on the left of `->` as on the right, with spaces between them"
            )
        for side, cells in zip(sides, (left, right), strict=True):
            side.append(" ".join(cells))
    return sides


@dataclass(frozen=True)
class GalleryTask:
    """A task of the gallery and its short name in commands, URLs and file names."""

    slug: str
    task: Task


@cache
def gallery() -> tuple[GalleryTask, ...]:
    """All tasks, the easy ones first."""
    folder = files("karelsynth.tasks") / "gallery_tasks"
    found = sorted((file.name, file) for file in folder.iterdir() if file.name.endswith(_TEXT))
    return tuple(
        GalleryTask(name.removesuffix(_TEXT).partition("-")[2], parse_task(file.read_text(encoding="utf-8"), name))
        for name, file in found
    )


def gallery_task(name: str) -> Task:
    """The task with this short name or title, ignoring case; raises KarelsynthError for an unknown one."""
    entries = {known.casefold(): entry for entry in gallery() for known in (entry.slug, entry.task.name)}
    wanted = name.strip().casefold()
    if wanted in entries:
        return entries[wanted].task
    close = nearest(wanted, entries)
    hint = f"did you mean `{entries[close].slug}`?" if close else f"it has {', '.join(e.slug for e in gallery())}"
    raise KarelsynthError(f"there is no task {quoted(name)} in the gallery; {hint}")
