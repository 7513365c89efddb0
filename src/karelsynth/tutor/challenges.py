"""Challenges: tasks that students solve themselves, alone or as a class set in a file.

    lesson = parse_challenges(Path("lesson.json").read_text())
    lesson.challenges[0].task, lesson.challenges[0].hidden  # what students see, and what only grades

A file is JSON: `{"karelsynth": "challenges", "title": …, "challenges": [{"name", "about", "examples", "hidden",
"starter", "hints"}]}`, with worlds as text drawings. The JSON lines that `karelsynth pose` writes are read, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from karelsynth.errors import KarelsynthError
from karelsynth.files import exists, is_file, is_folder, read_text
from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.parsing import ParseError, parse_json
from karelsynth.tasks.task import Example, Task

MOST_CHALLENGES: Final = 50
LONGEST_SET: Final = 200_000
"""Characters of a file."""
LONGEST_STARTER: Final = 20_000
MOST_HINTS: Final = 3
_KIND: Final = "challenges"
_FIELDS: Final = ("name", "about", "examples", "hidden", "starter", "hints")
_POSED: Final = ("reference", "concepts", "tokens", "level", "difficulty", "lesson")
"""What `pose` adds to a task. Students do not get it."""


class ChallengeError(KarelsynthError):
    """A file of challenges that cannot be read."""


@dataclass(frozen=True)
class Challenge:
    """A task for students."""

    task: Task
    """What they see."""
    hidden: tuple[Example, ...] = ()
    """Examples on which a program is judged without being shown."""
    starter: str = ""
    """The text that they begin with; it need not be a program."""
    hints: int = MOST_HINTS
    """The highest level of hints that they may ask for; 0 for none."""
    reference: Program | None = None
    """The program that `pose` made the task from. Students do not get it."""


@dataclass(frozen=True)
class ChallengeSet:
    """Challenges in order."""

    challenges: tuple[Challenge, ...]
    title: str = ""


def read_challenges(path: Path) -> ChallengeSet:
    """The challenges of a file, or of a folder that `karelsynth pose` has written."""
    if is_folder(path):
        lines = path / "tasks.jsonl"
        if not exists(lines):
            raise ChallengeError(f"{path}: this folder has no tasks.jsonl; name one that `karelsynth pose` has written")
        path = lines
    text = read_text(path)
    try:
        return parse_challenges(text)
    except KarelsynthError as error:
        raise ChallengeError(f"{path}: {error}") from None


def is_challenge_set(path: str | Path) -> bool:
    """Whether it is a file with a set of challenges, or a folder that `karelsynth pose` has written."""
    if is_folder(path):
        return exists(Path(path) / "tasks.jsonl")
    if Path(path).suffix.lower() != ".json" or not is_file(path):
        return False
    try:
        record = parse_json(read_text(path))
    except KarelsynthError:
        return False
    return isinstance(record, dict) and "challenges" in record


def parse_challenges(text: str) -> ChallengeSet:
    """The challenges of a file's text. Raises ChallengeError."""
    if len(text) > LONGEST_SET:
        raise ChallengeError(f"the set is too long: at most {LONGEST_SET:,} characters are allowed")
    records, title = _records(text.removeprefix("\ufeff"))
    if not 1 <= len(records) <= MOST_CHALLENGES:
        raise ChallengeError(f"a set has 1 to {MOST_CHALLENGES} challenges, not {len(records)}")
    return ChallengeSet(tuple(_challenge(record, number) for number, record in enumerate(records, 1)), title)


def _records(text: str) -> tuple[list[Any], str]:
    """The challenges as JSON values, and the set's title."""
    try:
        whole = parse_json(text)
    except ParseError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2 or not lines[0].startswith("{"):
            raise ChallengeError(f"this is not a set of challenges: {error}") from None
        posed = [_line(line, number) for number, line in enumerate(lines, 1)]
        return posed, _posed_title(posed[0])
    if isinstance(whole, dict) and "challenges" in whole:
        if whole.get("karelsynth") != _KIND:
            raise ChallengeError(f'this is not a set of challenges: expected "karelsynth": "{_KIND}" at its beginning')
        return _typed(whole["challenges"], list, "challenges"), _typed(whole.get("title", ""), str, "title")
    return [whole], _posed_title(whole)  # the single exercise of a `pose`


def _posed_title(record: Any) -> str:
    """The title of a lesson that `pose` has written beside each exercise."""
    return _typed(record.get("lesson", ""), str, "lesson") if isinstance(record, dict) else ""


def _line(line: str, number: int) -> Any:
    try:
        return parse_json(line)
    except ParseError as error:
        raise ChallengeError(f"line {number}: not valid JSON: {error.reason}") from None


def _challenge(record: Any, number: int) -> Challenge:
    where = f"challenge {number}"
    _typed(record, dict, where)
    for field in record:
        if field not in _FIELDS + _POSED:
            raise ChallengeError(f"{where}: there is no field {field!r}; there are {', '.join(_FIELDS)}")
    examples = _examples(record.get("examples", []), f"{where}, example")
    hidden = _examples(record.get("hidden", []), f"{where}, hidden example")
    name, about, starter = (
        _typed(record.get(field, ""), str, f"{where}: {field}") for field in ("name", "about", "starter")
    )
    if len(starter) > LONGEST_STARTER:
        raise ChallengeError(f"{where}: the starter is too long: at most {LONGEST_STARTER:,} characters are allowed")
    hints = _typed(record.get("hints", MOST_HINTS), int, f"{where}: hints")
    if isinstance(hints, bool) or not 0 <= hints <= MOST_HINTS:
        raise ChallengeError(f"{where}: hints is a level from 0 (none) to {MOST_HINTS}, not {hints}")
    try:
        task = Task(tuple(examples), name, about)
        Task((*examples, *hidden)[:20])  # the hidden ones must not contradict the others
    except KarelsynthError as error:
        raise ChallengeError(f"{where}: {error}") from None
    return Challenge(task, tuple(hidden), starter, hints, _reference(record.get("reference"), where))


def _reference(text: Any, where: str) -> Program | None:
    if text is None:
        return None
    _typed(text, str, f"{where}: reference")
    try:
        return Program.parse(text)
    except KarelsynthError as error:
        raise ChallengeError(f"{where}: reference: {error}") from None


def _examples(pairs: Any, where: str) -> Sequence[Example]:
    found = []
    for number, pair in enumerate(_typed(pairs, list, f"{where}s"), 1):
        _typed(pair, dict, f"{where} {number}")
        found.append(Example(*(_world(pair.get(side), f"{where} {number}, {side}") for side in ("input", "output"))))
    return found


def _world(drawn: Any, where: str) -> World:
    try:
        if isinstance(drawn, Mapping):  # as in the original data and in the lines of `pose`
            return World.from_json(drawn)
        return World.parse(_typed(drawn, str, where))
    except ChallengeError:
        raise
    except KarelsynthError as error:
        raise ChallengeError(f"{where}: {error}") from None


def _typed(value: Any, kind: type, where: str) -> Any:
    names = {list: "a list", dict: "an object", str: "a text", int: "a whole number"}
    if not isinstance(value, kind):
        raise ChallengeError(f"{where}: expected {names[kind]}")
    return value
