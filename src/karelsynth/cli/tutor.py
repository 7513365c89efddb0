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
from karelsynth.files import STDIN, FileError, is_folder, read_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karelsynth.karel.program import Program
    from karelsynth.tasks.task import Example, Task
    from karelsynth.tutor.explain import RunReport
    from karelsynth.tutor.grade import Grade, Submission
    from karelsynth.tutor.hint import Hint
    from karelsynth.tutor.probe import ProbeReport

_PROGRAM_ENDINGS: Final = (".py", ".karel", ".txt", ".tokens", ".kr")
"""Endings of the files that are read from a class's folder."""
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


def _read_task(name: str) -> Task:
    from karelsynth.tasks.task_files import read_tasks

    task = gallery_task_named(name)
    if task is not None:
        return task
    tasks = read_tasks(name)
    if len(tasks) > 1:
        raise KarelsynthError(f"{name}: holds {len(tasks)} tasks; say which one, for example {name}#2")
    return tasks[0]


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
    task: TaskArgument,
    programs: Annotated[
        list[str], typer.Argument(metavar="PROGRAM...", help="Program files in any dialect, or folders of them.")
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

    A file that is no program does not stop the others. The exit status is 0 only if every program is right everywhere.
    """
    from karelsynth.tasks.variations import fresh_examples
    from karelsynth.tutor.grade import grade as grade_all

    if as_csv and as_json:
        raise KarelsynthError("--csv and --json are two forms of the same: leave out one of them")
    if output is not None and not (as_csv or as_json):
        raise KarelsynthError("--out needs a form: add --csv or --json")
    if reference is not None and not fresh:
        raise KarelsynthError("--reference says what is right on fresh worlds: add --fresh N, or leave it out")
    check_outputs(output)
    posed = _read_task(task)
    submissions = _read_class(programs)
    more: list[Example] = [] if hidden is None else list(_read_task(hidden).examples)
    if fresh:
        made = fresh_examples(posed, _reference(reference, posed), count=fresh, seed=seed)
        if len(made) < fresh:
            print_err(f"only {len(made)} fresh worlds of the task's kind were found", "yellow")
        more += made
    with error_console().status("grading; the first time on a machine, compiling takes up to a minute more"):
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
                _print_grade(each)
    raise typer.Exit(0 if all(each.passed for each in grades) else 1)


def _read_class(paths: Sequence[str]) -> list[Submission]:
    """The programs of files and folders. A file that cannot be read becomes a submission with a problem."""
    from karelsynth.tutor.grade import Submission

    files: list[tuple[str, str]] = []
    for path in paths:
        if path != STDIN and is_folder(path):
            folder = Path(path)
            found = sorted(file for file in folder.rglob("*") if file.suffix.lower() in _PROGRAM_ENDINGS)
            if not found:
                raise KarelsynthError(f"{path}: no programs in it; their names end in {', '.join(_PROGRAM_ENDINGS)}")
            files += [(str(file.relative_to(folder).with_suffix("")), str(file)) for file in found]
        else:
            files.append(("standard input" if path == STDIN else Path(path).stem, path))
    submissions = []
    for name, path in files:
        try:
            submissions.append(Submission(name, read_text(path)))
        except FileError as error:
            submissions.append(Submission(name, "", error))
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
        name = f"'{each.name}" if each.name[:1] in "=+-@" else each.name  # spreadsheets run formulas
        writer.writerow([name, int(each.passed), sum(marks), len(marks), *marks, *hidden, problem])
    return file.getvalue()


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


def _print_grade(grade: Grade) -> None:
    """Explain the first wrong run of a program."""
    if grade.problem is not None:
        print_out(f"\n{grade.name}: this is no program", "bold")
        print_out(str(grade.problem))
        return
    wrong = grade.first_wrong
    if wrong is None:
        return
    hidden = wrong >= len(grade.right)
    which = f"hidden example {wrong - len(grade.right) + 1}" if hidden else f"example {wrong + 1}"
    print_out(f"\n{grade.name}, {which}", "bold")
    _print_report(grade.report(wrong), grade.examples[wrong].input)


def _print_report(report: RunReport, start: Any) -> None:
    from karelsynth.karel.draw.terminal import side_by_side

    out = console()
    worlds = [("before", start), ("expected", report.expected), ("actual", report.actual)]
    out.print(side_by_side(worlds, color=out.color_system is not None, width=out.width, marked=report.cells))
    for sentence in report.sentences:
        print_out(sentence)


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
    posed = _read_task(task)
    more = () if hidden is None else _read_task(hidden).examples
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
    from karelsynth.files import exists, locked_folder, make_folder, write_atomically
    from karelsynth.tasks.task_files import render_task
    from karelsynth.tutor.pose import Wish, variants
    from karelsynth.tutor.pose import pose as pose_all
    from karelsynth.tutor.worksheet import sheet_html, sheet_pdf

    if exists(out) and (not is_folder(out) or any(out.iterdir())):
        raise KarelsynthError(f"{out}: there is something already; choose a new folder")
    if reference is not None and like is None:
        raise KarelsynthError("--reference belongs to --like TASK: leave it out")
    make_folder(out)
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
    with locked_folder(out):
        (out / "solutions").mkdir(exist_ok=True)
        for name, content in files.items():
            write_atomically(out / name, content)
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
