"""The command `grade`: programs of a class on one task, or on all tasks of a lesson."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from karelsynth.cli.common import OUT, check_outputs, console, error_console, marks, print_err, print_out, write_text
from karelsynth.cli.tutor import (
    HiddenOption,
    JsonOption,
    ReferenceOption,
    SeedOption,
    print_report,
    read_lesson,
    read_task,
    reference_program,
)
from karelsynth.errors import KarelsynthError
from karelsynth.files import STDIN, FileError, read_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karelsynth.tasks.task import Example
    from karelsynth.tutor.challenges import Challenge, ChallengeSet
    from karelsynth.tutor.grade import Grade, Submission
    from karelsynth.tutor.lesson import StudentGrades

_GRADING: Final = "grading; the first time on a machine, compiling takes up to a minute more"
_FEW: Final = 5
"""Wrong runs are explained by default if there are at most this many programs."""


def grade(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="A task file, a task of the gallery, or a lesson: a folder that `pose` has written, or a set that was "
            "saved on the page; LESSON#3 for its third task alone.",
        ),
    ],
    programs: Annotated[
        list[str],
        typer.Argument(
            metavar="PROGRAM...",
            help="Program files in any dialect, files of work that students saved on the page, or folders of both.",
        ),
    ],
    hidden: HiddenOption = None,
    fresh: Annotated[
        int, typer.Option(min=0, max=1000, help="Also grade on this many new worlds of the same kind.")
    ] = 0,
    reference: ReferenceOption = None,
    explain: Annotated[
        bool | None,
        typer.Option(
            "--explain/--no-explain",
            help="Explain the first wrong run of each program; by default if there are at most five.",
        ),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the table as CSV.")] = False,
    as_json: JsonOption = False,
    output: Annotated[
        Path | None,
        typer.Option(*OUT, metavar="FILE", help="The file for --csv or --json; standard output if not given."),
    ] = None,
    seed: SeedOption = 0,
) -> None:
    """Grade the programs of a class: right or wrong on every example, and what went wrong.

    For a lesson the table has a row for each student and a column for each task. Students' files are named by the
    task: ada/2.karel, or ada-2.karel. A file that is no program does not stop the others. The exit status is 0 only if
    every program is right everywhere, and in a lesson only if every student has solved every task.
    """
    from karelsynth.tutor.grade import grade as grade_all

    if as_csv and as_json:
        raise KarelsynthError("--csv and --json are two forms of the same: leave out one of them")
    if output is not None and not (as_csv or as_json):
        raise KarelsynthError("--out needs a form: add --csv or --json")
    if reference is not None and not fresh:
        raise KarelsynthError("--reference says what is right on fresh worlds: add --fresh N, or leave it out")
    check_outputs(output)
    lesson, place = read_lesson(task)
    if place is None:
        for option, value in (("--hidden", hidden), ("--reference", reference)):
            if value is not None:
                raise KarelsynthError(f"{option} belongs to one task, and {task} holds {len(lesson.challenges)}")
        students = _grade_lesson(lesson, programs, fresh, seed)
        if as_json:
            write_text(json.dumps(_lesson_json(lesson, students), indent=1), output)
        elif as_csv:
            write_text(_lesson_csv(lesson, students), output)
        else:
            _print_lesson(lesson, students, explain)
        raise typer.Exit(0 if all(each.solved == len(lesson.challenges) for each in students) else 1)
    challenge = lesson.challenges[place]
    posed = challenge.task
    submissions = _read_class(programs, lesson, place)
    more = [*challenge.hidden, *([] if hidden is None else read_task(hidden).examples)]
    more += _fresh(challenge, reference, fresh, seed)
    with error_console().status(_GRADING):
        grades = grade_all(posed, submissions, hidden=more)
    if as_json:
        report = {"task": posed.name, "examples": len(posed.examples), "hidden": len(more)}
        write_text(json.dumps({**report, "grades": [each.to_json() for each in grades]}, indent=1), output)
    elif as_csv:
        write_text(_csv(grades), output)
    else:
        _print_table(grades)
        if explain or (explain is None and len(grades) <= _FEW):
            for each in grades:
                _print_grade(each, each.name)
    raise typer.Exit(0 if all(each.passed for each in grades) else 1)


def _fresh(challenge: Challenge, reference: str | None, count: int, seed: int) -> list[Example]:
    """More worlds of a task's kind, with what is right there.

    That is what a reference program does: the given one, or that of `pose`, or the one that `solve` finds.
    """
    from karelsynth.tasks.variations import fresh_examples

    if not count:
        return []
    right = challenge.reference if reference is None else None
    made = fresh_examples(challenge.task, right or reference_program(reference, challenge.task), count=count, seed=seed)
    if len(made) < count:
        print_err(f"only {len(made)} fresh worlds of the task's kind were found", "yellow")
    return made


def _read_class(paths: Sequence[str], lesson: ChallengeSet, place: int) -> list[Submission]:
    """The programs of files and folders for one task. A file that cannot be read gives a submission with a problem.

    Files whose names say that they belong to another task of the lesson are left out.
    """
    from karelsynth.tutor.grade import Submission
    from karelsynth.tutor.lesson import WORK_ENDING, WorkFileError, class_files, parse_work, student_and_place

    files = class_files(paths, "programs")
    stems = Counter(file.stem for folder, file in files if folder is None)
    submissions, elsewhere = [], 0
    for folder, file in files:
        whole = file if folder is None and stems[file.stem] > 1 else file.relative_to(folder or file.parent)
        name = "standard input" if str(file) == STDIN else str(whole.with_suffix(""))
        is_work = file.suffix.lower() == WORK_ENDING
        if len(lesson.challenges) > 1 and not is_work:
            student, meant = student_and_place(folder, file, lesson)
            if meant not in (None, place):
                elsewhere += 1
                continue
            name = name if meant is None else student
        try:
            text = read_text(str(file))
            if is_work:
                submissions += [each.submission for each in parse_work(text, lesson, name) if each.challenge == place]
            else:
                submissions.append(Submission(name, text))
        except (FileError, WorkFileError) as error:
            submissions.append(Submission(name, "", error))
    if elsewhere:
        print_err(f"left out: {elsewhere} for other tasks of the lesson", "yellow")
    if not submissions:
        raise KarelsynthError(f"{', '.join(paths)}: there is no program for this task in it")
    return submissions


def _csv(grades: Sequence[Grade]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    first = grades[0]
    numbers = [f"example {number}" for number in range(1, len(first.right) + 1)]
    writer.writerow(["student", "passed", "right", "of", *numbers, "hidden right", "hidden", "problem"])
    for each in grades:
        right = [int(one) for one in each.right]
        counts = [sum(each.hidden_right), len(each.hidden_right), _no_formula(each.problem_line)]
        writer.writerow([_no_formula(each.name), int(each.passed), sum(right), len(right), *right, *counts])
    return file.getvalue()


def _no_formula(text: str) -> str:
    """A text, such as a name, that a spreadsheet shows as it is and does not run as a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _on_one_line(name: str) -> str:
    return " ".join(name.split())


def _print_table(grades: Sequence[Grade]) -> None:
    from rich.table import Table

    yes, no = marks()
    hidden = len(grades[0].hidden_right)
    table = Table(box=None, pad_edge=False)
    table.add_column("student")
    for number in range(1, len(grades[0].right) + 1):
        table.add_column(str(number), justify="center")
    if hidden:
        table.add_column("hidden", justify="right")
    table.add_column("")
    for each in grades:
        cells = [yes if right else no for right in each.right] if each.problem is None else ["-"] * len(each.right)
        more = [f"{sum(each.hidden_right)} of {hidden}"] if hidden else []
        said = "right" if each.passed else "wrong"
        if each.problem is not None:
            said = f"no program: {each.problem_line}"
        table.add_row(_on_one_line(each.name), *cells, *more, said, style=None if each.passed else "red")
    console().print(table)
    passed = sum(each.passed for each in grades)
    print_out(f"{passed} of {len(grades)} programs are right")


def _print_grade(grade: Grade, name: str) -> None:
    """Explain the first wrong run of a program."""
    if grade.problem is not None:
        print_out(f"\n{name}: this is no program", "bold")
        print_out(str(grade.problem))
        return
    wrong = grade.first_wrong
    if wrong is None:
        return
    hidden = wrong >= len(grade.right)
    which = f"hidden example {wrong - len(grade.right) + 1}" if hidden else f"example {wrong + 1}"
    print_out(f"\n{name}, {which}", "bold")
    print_report(grade.report(wrong), grade.examples[wrong].input)


# Grade a lesson


def _grade_lesson(lesson: ChallengeSet, paths: Sequence[str], fresh: int, seed: int) -> list[StudentGrades]:
    from karelsynth.tutor.lesson import grade_lesson, read_class_work

    handed_in, unknown = read_class_work(paths, lesson)
    for message in unknown:
        print_err(f"not graded: {message}", "yellow")
    if not handed_in:
        raise KarelsynthError(f"{', '.join(paths)}: there is no program for this lesson")
    more = [_fresh(challenge, None, fresh, seed) for challenge in lesson.challenges]
    with error_console().status(_GRADING):
        return grade_lesson(lesson, handed_in, more)


def _labels(lesson: ChallengeSet) -> list[str]:
    from karelsynth.tutor.lesson import label_of

    return [label_of(challenge, number) for number, challenge in enumerate(lesson.challenges, 1)]


def _lesson_json(lesson: ChallengeSet, students: Sequence[StudentGrades]) -> dict[str, Any]:
    return {"lesson": lesson.title, "tasks": _labels(lesson), "students": [each.to_json() for each in students]}


def _lesson_csv(lesson: ChallengeSet, students: Sequence[StudentGrades]) -> str:
    """A row for each student: how many tasks are solved, and for each 1, 0, or nothing if nothing was handed in."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["student", "solved", "of", *map(_no_formula, _labels(lesson))])
    for each in students:
        passed = ["" if grade is None else int(grade.passed) for grade in each.grades]
        writer.writerow([_no_formula(each.name), each.solved, len(passed), *passed])
    return file.getvalue()


def _print_lesson(lesson: ChallengeSet, students: Sequence[StudentGrades], explain: bool | None) -> None:
    from rich.table import Table

    yes, _ = marks()
    nothing = "–" if yes == "✓" else "-"
    table = Table(box=None, pad_edge=False, show_footer=True)
    table.add_column("student", "solved by")
    for place, label in enumerate(_labels(lesson)):
        passed = sum(each.grades[place] is not None and each.grades[place].passed for each in students)  # type: ignore[union-attr]
        table.add_column(label, f"{passed} of {len(students)}", justify="center")
    table.add_column("solved", "", justify="right")
    for each in students:
        cells = []
        for grade in each.grades:
            if grade is None or grade.passed:
                cells.append(nothing if grade is None else yes)
            elif grade.problem is not None:
                cells.append("no program")
            else:
                results = (*grade.right, *grade.hidden_right)
                cells.append(f"{sum(results)} of {len(results)}")
        cells.append(f"{each.solved} of {len(each.grades)}")
        table.add_row(_on_one_line(each.name), *cells, style=None if each.solved == len(each.grades) else "red")
    console().print(table)
    wrong = [
        (grade, f"{each.name}, {label}")
        for each in students
        for grade, label in zip(each.grades, _labels(lesson), strict=True)
        if grade is not None and not grade.passed
    ]
    if explain or (explain is None and len(wrong) <= _FEW):
        for grade, name in wrong:
            _print_grade(grade, name)
