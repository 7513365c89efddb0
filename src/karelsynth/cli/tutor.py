"""The commands for a class: grade, hint, probe, pose."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from karelsynth.cli.common import (
    OUT,
    check_outputs,
    console,
    counter,
    error_console,
    gallery_task_named,
    loading,
    print_err,
    print_out,
    read_program,
    write_text,
)
from karelsynth.errors import KarelsynthError, missing_extra
from karelsynth.files import STDIN, FileError, exists, is_folder, read_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karelsynth.karel.program import Program
    from karelsynth.tasks.task import Example, Task
    from karelsynth.tutor.challenges import Challenge, ChallengeSet
    from karelsynth.tutor.explain import RunReport
    from karelsynth.tutor.grade import Grade, Submission
    from karelsynth.tutor.hint import Hint
    from karelsynth.tutor.lesson import StudentGrades
    from karelsynth.tutor.probe import ProbeReport

_GRADING: Final = "grading; the first time on a machine, compiling takes up to a minute more"
_FEW: Final = 5
"""Up to so many programs, wrong runs are explained without being asked to."""

TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="A task file, FILE#3 for the third task of a file or folder, or a task of the gallery; - for standard "
        "input.",
    ),
]
HiddenOption = Annotated[
    str | None,
    typer.Option("--hidden", metavar="FILE", help="A task file with further examples that students do not see."),
]
ReferenceOption = Annotated[
    str | None,
    typer.Option(
        "--reference", metavar="PROGRAM", help="A right program; if not given, the one that `solve` finds in a second."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Another seed, other worlds.")]


def _read_lesson(name: str) -> ChallengeSet:
    """The tasks of a file, a folder or the gallery as challenges; PATH#3 is the third alone."""
    from karelsynth.tasks.task_files import read_tasks
    from karelsynth.tutor.challenges import Challenge, ChallengeSet, is_challenge_set, read_challenges

    task = gallery_task_named(name)
    if task is not None:
        return ChallengeSet((Challenge(task),))
    path, _, number = name.rpartition("#")
    if number.isdecimal() and is_challenge_set(path) and not exists(name):
        lesson = read_challenges(Path(path))
        chosen = lesson.challenges[int(number) - 1 : int(number)] if int(number) else ()
        if not chosen:
            raise KarelsynthError(f"{path}: there is no task {number}; it holds {len(lesson.challenges)}")
        return ChallengeSet(chosen, lesson.title)
    if name != STDIN and is_challenge_set(name):
        return read_challenges(Path(name))
    return ChallengeSet(tuple(map(Challenge, read_tasks(name))))


def _read_challenge(name: str) -> Challenge:
    """A task, with the hidden tests that its file may have."""
    challenges = _read_lesson(name).challenges
    if len(challenges) > 1:
        raise KarelsynthError(f"{name}: holds {len(challenges)} tasks; say which one, for example {name}#2")
    return challenges[0]


def _read_task(name: str) -> Task:
    return _read_challenge(name).task


def _reference(path: str | None, task: Task) -> Program:
    """The program of a file, or the solver's."""
    if path is not None:
        return read_program(path)[1]
    programs = _solve(task, 1.0)
    if not programs:
        raise KarelsynthError("no right program was found for this task in a second: give one with --reference")
    print_err("without --reference, the program that `solve` finds says what is right:", "yellow")
    print_err(programs[0].to("paper"))
    return programs[0]


def _solve(task: Task, seconds: float) -> Sequence[Program]:
    """Right programs for a task. Loads the model."""
    with loading():
        from karelsynth.solve.solver import Solver

        solver = Solver.load()
        solver.warm_up([task])
    solution = solver.solve(task, budget=seconds)
    return [answer.program for answer in solution.answers] if solution.solved else []


def _solve_if_possible(task: Task, seconds: float) -> Sequence[Program]:
    """Right programs for a task; none where PyTorch is not installed."""
    try:
        return _solve(task, seconds)
    except ImportError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        print_err(f"looking for a right program further away: {missing}", "yellow")
        return []


# Grade


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
        int, typer.Option(min=0, max=1000, help="How many more worlds of the same kind to make and grade on.")
    ] = 0,
    reference: ReferenceOption = None,
    explain: Annotated[
        bool | None,
        typer.Option("--explain/--no-explain", help="Explain the first wrong run of each program; by default of few."),
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
    lesson = _read_lesson(task)
    if len(lesson.challenges) > 1:
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
    posed = lesson.challenges[0].task
    submissions = _read_class(programs, lesson)
    more = [*lesson.challenges[0].hidden, *([] if hidden is None else _read_task(hidden).examples)]
    more += _fresh(lesson.challenges[0], reference, fresh, seed)
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
    """Further worlds of a task's kind. What is right there, the given program says, or that of `pose`, or `solve`'s."""
    from karelsynth.tasks.variations import fresh_examples

    if not count:
        return []
    right = challenge.reference if reference is None else None
    made = fresh_examples(challenge.task, right or _reference(reference, challenge.task), count=count, seed=seed)
    if len(made) < count:
        print_err(f"only {len(made)} fresh worlds of the task's kind were found", "yellow")
    return made


def _read_class(paths: Sequence[str], lesson: ChallengeSet) -> list[Submission]:
    """The programs of files and folders for one task. A file that cannot be read gives a submission with a problem."""
    from karelsynth.tutor.grade import Submission
    from karelsynth.tutor.lesson import PROGRAM_ENDINGS, WORK_ENDING, WorkFileError, parse_work

    files: list[tuple[str, str]] = []
    for path in paths:
        if path != STDIN and is_folder(path):
            folder, endings = Path(path), (*PROGRAM_ENDINGS, WORK_ENDING)
            found = sorted(file for file in folder.rglob("*") if file.suffix.lower() in endings)
            if not found:
                raise KarelsynthError(f"{path}: no programs in it; their names end in {', '.join(endings)}")
            files += [(str(file.relative_to(folder).with_suffix("")), str(file)) for file in found]
        else:
            files.append(("standard input" if path == STDIN else Path(path).stem, path))
    submissions = []
    for name, path in files:
        try:
            text = read_text(path)
            if path.lower().endswith(WORK_ENDING):
                submissions += [each.submission for each in parse_work(text, lesson, name)]
            else:
                submissions.append(Submission(name, text))
        except (FileError, WorkFileError) as error:
            submissions.append(Submission(name, "", error))
    if not submissions:
        raise KarelsynthError(f"{', '.join(paths)}: there is no program in it")
    return submissions


def _csv(grades: Sequence[Grade]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    first = grades[0]
    numbers = [f"example {number}" for number in range(1, len(first.right) + 1)]
    writer.writerow(["student", "passed", "right", "of", *numbers, "hidden right", "hidden", "problem"])
    for each in grades:
        problem = "" if each.problem is None else str(each.problem).partition("\n")[0]
        marks = [int(right) for right in each.right]
        hidden = [sum(each.hidden_right), len(each.hidden_right)]
        writer.writerow([_no_formula(each.name), int(each.passed), sum(marks), len(marks), *marks, *hidden, problem])
    return file.getvalue()


def _no_formula(name: str) -> str:
    """A name as a spreadsheet shows it, and does not run it."""
    return f"'{name}" if name[:1] in "=+-@" else name


def _print_table(grades: Sequence[Grade]) -> None:
    from rich.table import Table

    from karelsynth.karel.draw.terminal import supports_unicode

    yes, no = ("✓", "✗") if supports_unicode(console().encoding) else ("yes", "NO")
    hidden = len(grades[0].hidden_right)
    table = Table(box=None, pad_edge=False)
    table.add_column("student")
    for number in range(1, len(grades[0].right) + 1):
        table.add_column(str(number), justify="center")
    if hidden:
        table.add_column("hidden", justify="right")
    table.add_column("")
    for each in grades:
        marks = [yes if right else no for right in each.right] if each.problem is None else ["-"] * len(each.right)
        more = [f"{sum(each.hidden_right)} of {hidden}"] if hidden else []
        said = "right" if each.passed else "wrong"
        if each.problem is not None:
            said = "no program: " + str(each.problem).partition("\n")[0]
        table.add_row(each.name, *marks, *more, said, style=None if each.passed else "red")
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
    _print_report(grade.report(wrong), grade.examples[wrong].input)


def _print_report(report: RunReport, start: Any) -> None:
    from karelsynth.karel.draw.terminal import side_by_side

    out = console()
    worlds = [("before", start), ("expected", report.expected), ("actual", report.actual)]
    out.print(side_by_side(worlds, color=out.color_system is not None, width=out.width, marked=report.cells))
    for sentence in report.sentences:
        print_out(sentence)


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
        marks = ["" if grade is None else int(grade.passed) for grade in each.grades]
        writer.writerow([_no_formula(each.name), each.solved, len(marks), *marks])
    return file.getvalue()


def _print_lesson(lesson: ChallengeSet, students: Sequence[StudentGrades], explain: bool | None) -> None:
    from rich.table import Table

    from karelsynth.karel.draw.terminal import supports_unicode

    yes, nothing = ("✓", "–") if supports_unicode(console().encoding) else ("yes", "-")
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
        every = each.solved == len(each.grades)
        table.add_row(each.name, *cells, f"{each.solved} of {len(each.grades)}", style=None if every else "red")
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


# Hint


def hint(
    task: TaskArgument,
    program: Annotated[str, typer.Argument(metavar="PROGRAM", help="The student's program; - for standard input.")],
    level: Annotated[
        int, typer.Option(min=1, max=3, help="1: where to look. 2: also what kind of change. 3: also the change.")
    ] = 1,
    hidden: HiddenOption = None,
    output: Annotated[
        Path | None, typer.Option(*OUT, metavar="FILE", help="Save the changed program; only with --level 3.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Help a student on: the smallest change that makes the program right, or the next step towards it.

    The exit status is 0 if the program is right or a hint was found, 1 if there is none.
    """
    from karelsynth.karel.dialects import read_source
    from karelsynth.tutor.hint import find_hint

    if output is not None and level < 3:
        raise KarelsynthError("--out saves the change itself: add --level 3")
    check_outputs(output)
    challenge = _read_challenge(task)
    posed = challenge.task
    more = (*challenge.hidden, *(() if hidden is None else _read_task(hidden).examples))
    text, _ = read_program(program)
    source = read_source(text)
    found = find_hint(posed, source, hidden=more, solve=_solve_if_possible)
    if as_json:
        write_text(json.dumps(found.to_json(level), indent=1), None)
    else:
        _print_hint(found, posed, level)
    if output is not None and found.text is not None:
        write_text(found.text, output)
        print_err(f"saved {output}")
    raise typer.Exit(1 if found.kind == "none" else 0)


def _print_hint(hint: Hint, task: Task, level: int) -> None:
    if hint.kind == "right":
        print_out("The program is right on every example.", "green")
        return
    if hint.report is not None and hint.example is not None:
        print_out(f"example {hint.example}", "bold")
        _print_report(hint.report, task.examples[hint.example - 1].input)
        print_out("")
    if hint.kind == "none":
        print_out("No right program is near. Start again with the first example, one step at a time.", "yellow")
        return
    if hint.kind == "step":
        print_out("There is still some way to go. The next step:", "bold")
    elif len(hint.steps) > 1:
        print_out(f"{len(hint.steps)} places need a change.", "bold")
    for step in hint.steps:
        print_out(step.where)
        if level > 1:
            print_out(f"  {step.kind}")
        if level > 2:
            print_out(f"  {step.change}")
    if level > 2:
        print_out("")
        for line in hint.change:
            style = {"+": "green", "-": "red", "@": "dim"}.get(line[:1])
            print_out(line, style)
    else:
        print_out(f"`--level {level + 1}` says more.", "dim")


# Probe


def probe(
    task: TaskArgument,
    reference: ReferenceOption = None,
    add: Annotated[
        bool, typer.Option("--add", help="Add worlds that unmask wrong programs until none is left; needs --out.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(*OUT, metavar="FILE", help="The task file to write with the added examples.")
    ] = None,
    budget: Annotated[float, typer.Option(min=0.1, help="Seconds to search wrong programs for.")] = 5.0,
    as_json: JsonOption = False,
    seed: SeedOption = 0,
) -> None:
    """Check whether a task is well posed: whether wrong programs pass all its examples.

    The exit status is 0 if no wrong program was found that passes (after --add), 1 otherwise.
    """
    from karelsynth.tasks.task_files import render_task
    from karelsynth.tutor.probe import impossible_examples
    from karelsynth.tutor.probe import probe as probe_task

    if add != (output is not None):
        raise KarelsynthError("--add and --out FILE go together: the task with the added examples is written to FILE")
    check_outputs(output)
    posed = _read_task(task)
    impossible = impossible_examples(posed)
    if impossible:
        for number, reason in impossible:
            print_err(f"error: example {number} cannot be done by any program: {reason}", "red")
        raise typer.Exit(1)
    right = _reference(reference, posed)
    with error_console().status("looking for wrong programs that pass"):
        report = probe_task(posed, right, add=add, seconds=budget, seed=seed)
    if output is not None:
        write_text(render_task(report.task), output)
    if as_json:
        write_text(json.dumps(report.to_json(), indent=1), None)
    else:
        _print_probe(report)
    if output is not None:
        print_err(f"saved {output}, with {len(report.added)} more examples")
    raise typer.Exit(0 if report.well_posed else 1)


def _print_probe(report: ProbeReport) -> None:
    from karelsynth.karel.draw.terminal import side_by_side

    out = console()
    for number, impostor in enumerate(report.impostors, 1):
        print_out(f"\n{number}. passes every example, but is wrong on {impostor.share:.0%} of further worlds:", "bold")
        print_out(impostor.program.to("paper"))
        worlds = [("a world", impostor.world), ("expected", impostor.expected), ("this program", impostor.actual)]
        out.print(side_by_side(worlds, color=out.color_system is not None, width=out.width))
        print_out(f"It {impostor.explanation}.")
    if report.added:
        print_out(f"{len(report.added)} examples added")
    tried = f"{report.tried:,} programs tried in {report.seconds:.1f} s"
    if report.well_posed:
        print_out(f"well posed as far as the search goes: no wrong program passes ({tried})", "green")
    else:
        more = report.passing - len(report.impostors)
        shown = f", {more} of them not shown" if more else ""
        print_out(f"\n{report.passing} kinds of wrong programs pass{shown} ({tried})", "red")
        if not report.added:
            print_out("`--add --out FILE` adds worlds that unmask them", "dim")


# Pose


def pose(
    out: Annotated[
        Path, typer.Option(*OUT, metavar="DIR", help="The folder for task files, solutions and sheets; it must be new.")
    ],
    concepts: Annotated[
        str,
        typer.Option(
            help="What programs are made of, all of it and nothing else: sequence, repeat, while, if, ifelse, nested."
        ),
    ] = "while",
    tokens: Annotated[str, typer.Option(metavar="LEAST-MOST", help="How long programs are, in tokens.")] = "6-40",
    count: Annotated[int, typer.Option(min=1, max=200, help="How many exercises.")] = 10,
    seed: SeedOption = 0,
    like: Annotated[
        str | None, typer.Option(metavar="TASK", help="Make variants of this task instead: other worlds, or mirrored.")
    ] = None,
    reference: ReferenceOption = None,
    title: Annotated[str, typer.Option(help="The title of the sheets.")] = "Karel exercises",
) -> None:
    """Pose exercises for a class: task files, solutions, and a worksheet and a solution sheet to print.

    Writes a task file for each exercise, their solutions, all of them as JSON lines, and the sheets as .html and .pdf.
    The exit status is 1 if fewer exercises than wished were found.
    """
    from karelsynth.files import make_new_folder, write_folder
    from karelsynth.tasks.task_files import render_task
    from karelsynth.tutor.pose import Wish, variants
    from karelsynth.tutor.pose import pose as pose_all
    from karelsynth.tutor.worksheet import sheet_html, sheet_pdf

    if reference is not None and like is None:
        raise KarelsynthError("--reference belongs to --like TASK: leave it out")
    make_new_folder(out)
    if like is not None:
        task = _read_task(like)
        exercises = variants(task, _reference(reference, task), count=count, seed=seed)
    else:
        wish = Wish(frozenset(word.strip() for word in concepts.split(",") if word.strip()), _range(tokens))
        with counter("posing", unit="exercises", total=count) as progress:
            exercises = pose_all(wish, count=count, seed=seed, progress=progress)
    if not exercises:
        raise KarelsynthError("no exercise of this kind was found: choose other concepts or more tokens")
    files: dict[str, bytes] = {}
    for number, each in enumerate(exercises, 1):
        words = re.findall(r"[a-z]+", each.task.name.lower())
        name = f"{number:02d}-{'-'.join(words) or 'task'}"
        files[f"{name}.task"] = render_task(each.task).encode()
        files[f"solutions/{name}.karel"] = f"{each.program.to('paper')}\n".encode()
    files["tasks.jsonl"] = "".join(json.dumps(each.to_json()) + "\n" for each in exercises).encode()
    for kind, solutions in (("worksheet", False), ("solutions", True)):
        files[f"{kind}.html"] = sheet_html(exercises, title, solutions=solutions).encode()
        files[f"{kind}.pdf"] = sheet_pdf(exercises, title, solutions=solutions)
    write_folder(out, files)
    for each in exercises:
        print_out(f"{each.task.name}: {each.level}, {each.program.size} tokens, {len(each.task.examples)} examples")
    print_err(f"saved {len(exercises)} exercises in {out}")
    if len(exercises) < count:
        print_err(f"only {len(exercises)} of {count} exercises of this kind were found", "yellow")
        raise typer.Exit(1)


def _range(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", text.strip())
    if found is None:
        raise KarelsynthError(f"--tokens is a range such as 10-20, not {text!r}")
    return int(found[1]), int(found[2] or found[1])
