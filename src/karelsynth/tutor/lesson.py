"""Grading a whole lesson: the programs of a class on a set of challenges.

    lesson = read_challenges(Path("lesson"))
    handed_in, unknown = read_class_work(["class"], lesson)
    for student in grade_lesson(lesson, handed_in):
        student.name, [grade and grade.passed for grade in student.grades]

A student hands in the file that the page saves (*Save my work*), or program files. A work file is JSON:
`{"karelsynth": "work", "student": …, "title": …, "programs": [{"number", "name", "program", "hints"}]}`. A program file
belongs to the challenge whose number or name it has: `ada/2.karel`, `ada/02-fill-the-row.py` or `ada-2.karel`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from karelsynth.errors import KarelsynthError
from karelsynth.files import FileError, exists, is_file, is_folder, read_text
from karelsynth.parsing import ParseError, parse_json
from karelsynth.tasks.task import Example
from karelsynth.tutor.challenges import MOST_CHALLENGES, MOST_HINTS, Challenge, ChallengeSet
from karelsynth.tutor.grade import LONGEST_SUBMISSION, Grade, Submission, grade

PROGRAM_ENDINGS: Final = (".py", ".karel", ".txt", ".tokens", ".kr")
"""Endings of the program files that are read from a class's folder."""
WORK_ENDING: Final = ".json"
_KIND: Final = "work"
_LARGEST_WORK: Final = 2 * MOST_CHALLENGES * LONGEST_SUBMISSION
"""Bytes of a work file."""
_LONGEST_NAME: Final = 200
_NUMBER: Final = re.compile(r"(?:[a-z]*[ _-]?)?0*([1-9][0-9]?)(?:[^0-9].*)?")
"""`2`, `02-fill-the-row`, `task2`, `exercise 2`."""


class WorkFileError(KarelsynthError):
    """A student's work file that cannot be read."""


@dataclass(frozen=True)
class HandedIn:
    """One program of a student for one challenge."""

    student: str
    challenge: int
    """Its place in the set, from 0."""
    submission: Submission
    hints: int | None = None
    """The highest level of hints that the student has seen; None if that is not known."""


@dataclass(frozen=True)
class StudentGrades:
    """A student's grades in a lesson."""

    name: str
    grades: tuple[Grade | None, ...]
    """For each challenge; None if nothing was handed in."""
    hints: tuple[int | None, ...]
    """For each challenge; see `HandedIn.hints`."""

    @property
    def solved(self) -> int:
        """How many challenges are solved."""
        return sum(each is not None and each.passed for each in self.grades)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        grades = [None if each is None else each.to_json() for each in self.grades]
        return {"student": self.name, "solved": self.solved, "grades": grades, "hints": list(self.hints)}


def read_class_work(paths: Sequence[str], lesson: ChallengeSet) -> tuple[list[HandedIn], list[str]]:
    """What a class has handed in, from files and folders; and for each file that is left out, why, in a message."""
    found: list[HandedIn] = []
    unknown = []
    for folder, file in class_files(paths):
        try:
            found += _read_file(folder, file, lesson)
        except KarelsynthError as error:
            unknown.append(str(error))
    return found, unknown


def class_files(paths: Sequence[str], what: str = "students' work") -> list[tuple[Path | None, Path]]:
    """The named files, and those in the named folders, each with that folder; None for a file that was named itself."""
    files: list[tuple[Path | None, Path]] = []
    for path in map(Path, paths):
        if not is_folder(path):
            files.append((None, path))
            continue
        endings = (*PROGRAM_ENDINGS, WORK_ENDING)
        named = sorted(file for file in path.rglob("*") if file.suffix.lower() in endings)
        inside = [file for file in named if is_file(file) or not exists(file)]  # a pipe would wait for its writer
        if not inside:
            raise KarelsynthError(f"{path}: no {what} in it; names of files end in {', '.join(endings)}")
        files += [(path, file) for file in inside]
    return files


def _read_file(folder: Path | None, file: Path, lesson: ChallengeSet) -> list[HandedIn]:
    if file.suffix.lower() == WORK_ENDING:
        try:
            return parse_work(read_text(file, _LARGEST_WORK), lesson, student=file.stem)
        except WorkFileError as error:
            raise WorkFileError(f"{file}: {error}") from None
    student, place = student_and_place(folder, file, lesson)
    if place is None:
        raise WorkFileError(
            f"{file}: for which challenge is it? Put it into a folder for the student and name it by the challenge's "
            f"number, as in ada/2{file.suffix}"
        )
    try:
        return [HandedIn(student, place, Submission(student, read_text(file)))]
    except FileError as error:
        return [HandedIn(student, place, Submission(student, "", error))]


def student_and_place(folder: Path | None, file: Path, lesson: ChallengeSet) -> tuple[str, int | None]:
    """Whose program a file of a class holds, and for which challenge; None if its name does not say.

    `folder` is the folder that it was found in; None for a file that was named itself, as in ada/2.karel.
    """
    *folders, stem = file.relative_to(folder or file.parent).with_suffix("").parts
    if folders:
        return "/".join(folders), _place_of(stem, lesson)
    student, place = _split(stem, lesson)
    if folder is None and (place is None or stem[0].isdigit()):
        return file.absolute().parent.name or student, _place_of(stem, lesson)
    return student, place


def _split(stem: str, lesson: ChallengeSet) -> tuple[str, int | None]:
    """The student and the challenge of a name such as `ada-2` or `ada_fill-the-row`."""
    for dash in re.finditer(r"[-_ ]", stem):
        place = _place_of(stem[dash.end() :], lesson)
        if dash.start() and place is not None:
            return stem[: dash.start()], place
    return stem, None


def _place_of(word: str, lesson: ChallengeSet) -> int | None:
    """The challenge that a file's name means, by its name or its number."""
    slugs = [_slug(each.task.name) for each in lesson.challenges]
    if slugs.count(_slug(word)) == 1 and _slug(word):
        return slugs.index(_slug(word))
    numbered = _NUMBER.fullmatch(word.lower())
    if numbered is None or int(numbered[1]) > len(slugs):
        return None
    return int(numbered[1]) - 1


def _slug(name: str) -> str:
    """A name as files have it, without its number."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return re.sub(r"^\d+-", "", plain)


def parse_work(text: str, lesson: ChallengeSet, student: str = "") -> list[HandedIn]:
    """The programs of a work file's text that belong to the lesson.

    `student` is the name to take if the file has none.
    """
    try:
        record = parse_json(text.removeprefix("\ufeff"))
    except ParseError as error:
        raise WorkFileError(f"this is no student's work: {error}") from None
    if not isinstance(record, dict) or record.get("karelsynth") != _KIND:
        raise WorkFileError(f'this is no student\'s work: expected "karelsynth": "{_KIND}" at its beginning')
    name = record.get("student") or student
    programs = record.get("programs")
    if not isinstance(name, str) or not isinstance(programs, list):
        raise WorkFileError("`student` must be a text, and `programs` a list")
    name = " ".join(name.split())[:_LONGEST_NAME]
    read = [_handed_in(each, at, name, lesson) for at, each in enumerate(programs[:MOST_CHALLENGES], 1)]
    if programs and not any(read):
        raise WorkFileError("none of its programs is for a challenge of this lesson")
    return [each for each in read if each is not None]


def _handed_in(record: Any, at: int, student: str, lesson: ChallengeSet) -> HandedIn | None:
    """One program; None if its challenge is in another lesson."""
    number, name, program, hints = (
        (record.get(field) for field in ("number", "name", "program", "hints"))
        if isinstance(record, dict)
        else (None,) * 4
    )
    if not (isinstance(name, str) and isinstance(program, str) and isinstance(number, int)):
        raise WorkFileError(f"program {at}: expected `number`, `name` and `program`")
    names = [each.task.name for each in lesson.challenges]
    places = [place for place, one in enumerate(names) if one == name]
    if not places:
        return None
    place = number - 1 if number - 1 in places else places[0]
    seen = hints if isinstance(hints, int) and 0 <= hints <= MOST_HINTS else None
    return HandedIn(student, place, Submission(student, program), seen)


def grade_lesson(
    lesson: ChallengeSet, handed_in: Sequence[HandedIn], fresh: Sequence[Sequence[Example]] = ()
) -> list[StudentGrades]:
    """Grade a class on every challenge, its hidden tests and `fresh` worlds for each; students by name.

    If a student has handed in two programs for a challenge, the better one counts.
    """
    best: dict[tuple[str, int], tuple[Grade, int | None]] = {}
    for place, challenge in enumerate(lesson.challenges):
        mine = [each for each in handed_in if each.challenge == place]
        more = (*challenge.hidden, *(fresh[place] if fresh else ()))
        results = grade(challenge.task, [each.submission for each in mine], hidden=more)
        for each, result in zip(mine, results, strict=True):
            known = best.get((each.student, place))
            if known is None or _merit(result) > _merit(known[0]):
                best[each.student, place] = (result, each.hints)
    nothing: tuple[None, None] = (None, None)
    students = []
    for name in sorted({each.student for each in handed_in}, key=str.casefold):
        row = [best.get((name, place), nothing) for place in range(len(lesson.challenges))]
        students.append(StudentGrades(name, tuple(each for each, _ in row), tuple(seen for _, seen in row)))
    return students


def _merit(result: Grade) -> tuple[bool, int, bool]:
    return result.passed, sum(result.right) + sum(result.hidden_right), result.problem is None


def label_of(challenge: Challenge, number: int) -> str:
    """A challenge's name with its number."""
    name = re.sub(r"^\d+\. ", "", challenge.task.name)
    return f"{number}. {name}" if name else str(number)
