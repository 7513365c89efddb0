"""The commands for a class except `grade`: hint, probe, pose; and how all of them read tasks and show runs."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from karelsynth.cli.common import (
    OUT,
    check_outputs,
    counter,
    error_console,
    gallery_task_named,
    parse_program,
    print_err,
    print_out,
    print_worlds,
    read_program,
    write_text,
)
from karelsynth.cli.solve import load_solver
from karelsynth.errors import KarelsynthError, listed, missing_extra
from karelsynth.files import STDIN, exists, read_text

if TYPE_CHECKING:
    from karelsynth.karel.program import Program
    from karelsynth.tasks.task import Task
    from karelsynth.tutor.challenges import Challenge, ChallengeSet
    from karelsynth.tutor.explain import RunReport
    from karelsynth.tutor.hint import Hint
    from karelsynth.tutor.probe import ProbeReport

_WITHOUT_SOLVER: Final = 1.0
"""Seconds to look for a hint before the solver is loaded."""
_REFERENCE_SECONDS: Final = 2.0
"""Seconds of processor time in which the solver looks for a reference."""

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
    typer.Option("--reference", metavar="PROGRAM", help="A right program; if not given, `solve` looks for one."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Another seed gives other worlds.")]


def read_lesson(name: str) -> tuple[ChallengeSet, int | None]:
    """The tasks of a file, a folder or the gallery as challenges, and which one is meant; None for all.

    A single task is 0, the third of a lesson, LESSON#3, is 2.
    """
    from karelsynth.tasks.task_files import read_tasks
    from karelsynth.tutor.challenges import Challenge, ChallengeSet, is_challenge_set, read_challenges

    task = gallery_task_named(name)
    if task is not None:
        return ChallengeSet((Challenge(task),)), 0
    path, _, number = name.rpartition("#")
    if number.isdecimal() and is_challenge_set(path) and not exists(name):
        lesson = read_challenges(Path(path))
        if not 1 <= int(number) <= len(lesson.challenges):
            raise KarelsynthError(f"{path}: there is no task {number}; it holds {len(lesson.challenges)}")
        return lesson, int(number) - 1
    if name != STDIN and is_challenge_set(name):
        lesson = read_challenges(Path(name))
    else:
        lesson = ChallengeSet(tuple(map(Challenge, read_tasks(name))))
    return lesson, 0 if len(lesson.challenges) == 1 else None


def _read_challenge(name: str) -> Challenge:
    """A task, with the hidden tests that its file may have."""
    lesson, place = read_lesson(name)
    if place is None:
        raise KarelsynthError(f"{name}: holds {len(lesson.challenges)} tasks; say which one, for example {name}#2")
    return lesson.challenges[place]


def read_task(name: str) -> Task:
    """A single task; see `read_lesson`."""
    return _read_challenge(name).task


def reference_program(path: str | None, task: Task) -> Program:
    """The program of a file, or the solver's; right on the task's examples."""
    from karelsynth.tutor.probe import check_reference

    if path is not None:
        program = read_program(path)[1]
        check_reference(task, program)
        return program
    solver = load_solver(None, "cpu", [task])
    solver.turns.clock = time.process_time  # other programs on this machine do not change what is found
    solution = solver.solve(task, budget=_REFERENCE_SECONDS)
    if not solution.solved or solution.program is None:
        raise KarelsynthError("no right program was found for this task: give one with --reference")
    print_err("without --reference, the program that `solve` finds says what is right:", "yellow")
    print_err(solution.program.to("paper"))
    return solution.program


def print_report(report: RunReport, start: Any) -> None:
    print_worlds([("before", start), ("expected", report.expected), ("actual", report.actual)], report.cells)
    for sentence in report.sentences:
        print_out(sentence)


# Hint


def hint(
    task: TaskArgument,
    program: Annotated[str, typer.Argument(metavar="PROGRAM", help="The student's program; - for standard input.")],
    level: Annotated[
        int, typer.Option(min=1, max=3, help="1 says where to look, 2 also what kind of change, 3 also the change.")
    ] = 1,
    hidden: HiddenOption = None,
    output: Annotated[
        Path | None, typer.Option(*OUT, metavar="FILE", help="Save the changed program; only with --level 3.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Give a student a hint: the smallest change that makes the program right, or the next step towards that.

    The exit status is 0 if the program is right or a hint was found, 1 if there is none.
    """
    from karelsynth.karel.dialects import read_source
    from karelsynth.tutor.beginning import first_hint, opened
    from karelsynth.tutor.hint import find_hint, right_programs

    if output is not None and level < 3:
        raise KarelsynthError("--out saves the change itself: add --level 3")
    check_outputs(output)
    challenge = _read_challenge(task)
    posed = challenge.task
    more = (*challenge.hidden, *(() if hidden is None else read_task(hidden).examples))
    text = read_text(program)  # once: it may be a pipe
    if opened(text) is not None:
        found = first_hint(posed, text, hidden=more, solve=right_programs(load_solver(None, "cpu", [posed])))
        if found.kind == "none" and not as_json:
            print_out("Nothing is written yet, and no right program was found that could show how to begin.", "yellow")
            raise typer.Exit(1)
        _tell_hint(found, posed, level, output, as_json)
    parse_program(text, program)
    source = read_source(text)
    found = find_hint(posed, source, hidden=more, seconds=_WITHOUT_SOLVER)
    if found.kind in ("step", "none"):  # loading the solver takes longer than a search near the program
        try:
            found = find_hint(posed, source, hidden=more, solve=right_programs(load_solver(None, "cpu", [posed])))
        except ImportError as error:
            missing = missing_extra(error)
            if missing is None:
                raise
            print_err(f"looking for a right program further away: {missing}", "yellow")
    _tell_hint(found, posed, level, output, as_json)


def _tell_hint(found: Hint, posed: Task, level: int, output: Path | None, as_json: bool) -> NoReturn:
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
        print_report(hint.report, task.examples[hint.example - 1].input)
        print_out("")
    elif hint.kind != "begin":
        print_out("The program is right on every example of the task, but wrong on a hidden one.")
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
        bool, typer.Option("--add", help="Add examples on which wrong programs fail, until none passes; needs --out.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(*OUT, metavar="FILE", help="The task file to write with the added examples.")
    ] = None,
    programs: Annotated[
        int,
        typer.Option(
            min=1, max=2_000_000, help="About how many programs to try; with more, more wrong ones are found."
        ),
    ] = 100_000,
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
    posed = read_task(task)
    impossible = impossible_examples(posed)
    if impossible:
        for number, reason in impossible:
            print_err(f"error: example {number} cannot be done by any program: {reason}", "red")
        raise typer.Exit(1)
    right = reference_program(reference, posed)
    with error_console().status("looking for wrong programs that pass"):
        report = probe_task(posed, right, add=add, programs=programs, seed=seed)
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
    for number, impostor in enumerate(report.impostors, 1):
        print_out(f"\n{number}. passes every example, but is wrong on {impostor.share:.0%} of further worlds:", "bold")
        print_out(impostor.program.to("paper"))
        print_worlds([("a world", impostor.world), ("expected", impostor.expected), ("this program", impostor.actual)])
        print_out(impostor.explanation)
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
        str | None,
        typer.Option(
            help="Concepts that every program uses, and no others: sequence, repeat, while, if, ifelse, nested.",
            show_default="while",
        ),
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="LEAST-MOST", help="How long programs are, in tokens.", show_default="6-40")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many exercises, at most 50.")] = 10,
    seed: SeedOption = 0,
    like: Annotated[
        str | None, typer.Option(metavar="TASK", help="Make variants of this task instead: other worlds, or mirrored.")
    ] = None,
    reference: ReferenceOption = None,
    title: Annotated[str, typer.Option(help="The title of the sheets and of the set.")] = "Karel exercises",
) -> None:
    """Pose exercises for a class: task files, solutions, and a worksheet and a solution sheet to print.

    Writes a task file for each exercise, their solutions, all of them as JSON lines, and the sheets as .html and .pdf.
    The exit status is 1 if fewer exercises were found than asked for.
    """
    from karelsynth.files import make_new_folder, write_folder
    from karelsynth.tasks.task_files import render_task
    from karelsynth.tutor.challenges import MOST_CHALLENGES
    from karelsynth.tutor.pose import CONCEPTS, Wish, variants
    from karelsynth.tutor.pose import pose as pose_all
    from karelsynth.tutor.worksheet import sheet_html, sheet_pdf

    if reference is not None and like is None:
        raise KarelsynthError("--reference belongs to --like TASK: leave it out")
    if count > MOST_CHALLENGES:
        raise KarelsynthError(f"--count is at most {MOST_CHALLENGES}, as many as `grade` and `serve` take, not {count}")
    if like is not None and (concepts is not None or tokens is not None):
        raise KarelsynthError(
            "leave out --concepts and --tokens with --like: a variant has the task's own program, or its mirror image"
        )
    chosen = frozenset(word.strip() for word in (concepts or "while").split(",") if word.strip())
    if not chosen:
        raise KarelsynthError(f"--concepts names at least one: {listed(CONCEPTS)}")
    wish = Wish(chosen, _range(tokens or "6-40"))
    task = None if like is None else read_task(like)
    given = None if task is None or reference is None else reference_program(reference, task)
    make_new_folder(out)  # before the solver is loaded
    right = None if task is None else given or reference_program(None, task)
    with counter("posing", unit="exercises", total=count) as progress:
        if task is None or right is None:
            exercises = pose_all(wish, count=count, seed=seed, progress=progress)
        else:
            exercises = variants(task, right, count=count, seed=seed, progress=progress)
    if not exercises:
        raise KarelsynthError("no exercise of this kind was found: choose other concepts or more tokens")
    files: dict[str, bytes] = {}
    for number, each in enumerate(exercises, 1):
        words = re.findall(r"[a-z]+", each.task.name.lower())
        name = f"{number:02d}-{'-'.join(words) or 'task'}"
        files[f"{name}.task"] = render_task(each.task).encode()
        files[f"solutions/{name}.karel"] = f"{each.program.to('paper')}\n".encode()
    files["tasks.jsonl"] = "".join(
        json.dumps({**each.to_json(), "lesson": title}) + "\n" for each in exercises
    ).encode()
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
