"""The commands about programs and worlds: run, check, convert, draw, verify."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from karelsynth.cli.common import (
    OUT,
    console,
    counter,
    print_err,
    print_out,
    print_worlds,
    read_program,
    read_world,
    read_world_or_task,
    refuse_task_text,
    write_text,
)
from karelsynth.errors import KarelsynthError
from karelsynth.files import STDIN, name_of
from karelsynth.karel.interpreter import MAX_TICKS, MOST_TICKS

if TYPE_CHECKING:
    from karelsynth.karel.dialects import SourceSpan
    from karelsynth.karel.interpreter import Run


class Dialect(StrEnum):
    """The dialects that programs can be written in."""

    tokens = "tokens"
    paper = "paper"
    stanford = "stanford"


class ColorTheme(StrEnum):
    """The colours of pictures."""

    light = "light"
    dark = "dark"
    paper = "paper"


ProgramFile = Annotated[
    str, typer.Argument(metavar="PROGRAM", help="A program file in any dialect; - for standard input.")
]
WorldFile = Annotated[
    str,
    typer.Argument(
        metavar="WORLD",
        help="A world file: a text drawing, the data's JSON or Stanford's .w; - for standard input.",
    ),
]
FromDialect = Annotated[Dialect | None, typer.Option("--from", help="The dialect of PROGRAM; detected if not given.")]
Speed = Annotated[
    float | None, typer.Option(min=0.1, max=50, help="Ticks per second when animated; by default long runs go faster.")
]
ThemeOption = Annotated[ColorTheme | None, typer.Option(help="Colours of pictures; light if not given.")]
_WORLD_FILES: Final = (".w", ".json", ".txt")
"""Suffixes of files that worlds are written to as data."""


def run(
    program: ProgramFile,
    world: WorldFile,
    dialect: FromDialect = None,
    animate: Annotated[bool, typer.Option("--animate", help="Play the run in the terminal.")] = False,
    speed: Speed = None,
    output: Annotated[
        Path | None,
        typer.Option(*OUT, metavar="FILE", help="Save the run as .gif or animated .svg, or its last frame as .png."),
    ] = None,
    max_ticks: Annotated[
        int, typer.Option(min=0, max=MOST_TICKS, help="The most ticks the run may take; 200 in the paper.")
    ] = MAX_TICKS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
    theme: ThemeOption = None,
) -> None:
    """Run a program on a world and show what happens.

    An endless loop is recognised: the state of the run repeats. The exit status is 0 if the program finishes, 1 if it
    crashes, runs out of ticks, runs forever, or ends with more than 10 markers on a cell.
    """
    from karelsynth.karel.dialects import read_source
    from karelsynth.karel.dialects.indented import lines_of
    from karelsynth.karel.draw import save_run_picture
    from karelsynth.karel.draw.terminal import play

    if animate and as_json:
        raise KarelsynthError("--animate and --json both print to the terminal: leave out one of them")
    animated = animate or (output is not None and output.suffix.lower() in (".gif", ".svg"))
    if speed is not None and not animated:
        raise KarelsynthError("--speed applies only to animations: add --animate, or --out with a .gif or .svg file")
    if theme is not None and output is None:
        raise KarelsynthError("--theme applies only to pictures: add --out, or drop --theme")
    if program == STDIN and world == STDIN:
        raise KarelsynthError("only one of PROGRAM and WORLD can come from standard input")
    text, code = read_program(program, dialect and dialect.value)
    start = read_world(world)
    outcome = code.run(start, max_ticks=max_ticks)
    span = None
    if outcome.where is not None:
        span = read_source(text, dialect and dialect.value).spans.get(outcome.where)
    if output is not None:
        save_run_picture(code, start, output, theme=theme or ColorTheme.light, speed=speed, max_ticks=max_ticks)
    if as_json:
        write_text(json.dumps(_outcome_json(outcome, span), indent=2), None)
    else:
        if animate:
            play(code, start, console=console(), speed=speed, max_ticks=max_ticks)
        else:
            print_worlds([("before", start), ("after", outcome.world)])
        print_out(outcome.explain(), "green" if outcome.ok else "red")
        if span is not None:
            print_out(f"in line {span.line}:  {lines_of(text)[span.line - 1].strip()}")
        if output is not None:
            print_err(f"saved {output}")
    raise typer.Exit(0 if outcome.ok else 1)


def _outcome_json(outcome: Run, span: SourceSpan | None) -> dict[str, Any]:
    return {
        "status": outcome.status.name.lower(),
        "explanation": outcome.explain(),
        "ticks": outcome.ticks,
        "where": outcome.where,
        "line": None if span is None else span.line,
        "column": None if span is None else span.column,
        "actions": [action.value for action in outcome.trace],
        "world": outcome.world.to_json(),
        "drawing": outcome.world.to_text().splitlines(),
    }


def check(
    programs: Annotated[
        list[str], typer.Argument(metavar="PROGRAM...", help="Program files in any dialect; - for standard input.")
    ],
    dialect: FromDialect = None,
) -> None:
    """Check the syntax of programs: report what is wrong and where, with a suggestion."""
    from karelsynth.karel.dialects import recognise
    from karelsynth.karel.grammar import NORMAL_FORM

    wrong = 0
    for path in programs:
        try:
            text, program = read_program(path, dialect and dialect.value)
        except KarelsynthError as error:
            print_err(f"error: {error}", "red")
            wrong += 1
            continue
        kind = dialect.value if dialect else recognise(text)
        written = "written" if NORMAL_FORM.admits(program.tokens) else "not written"
        form = f"{written} as in the paper's data"
        print_out(f"{path}: ok ({kind}, {program.size} tokens, {form})")
    raise typer.Exit(1 if wrong else 0)


def convert(
    program: ProgramFile,
    to: Annotated[Dialect, typer.Option("--to", help="The dialect to write.")],
    dialect: FromDialect = None,
    output: Annotated[
        Path | None, typer.Option(*OUT, metavar="FILE", help="The file to write; standard output if not given.")
    ] = None,
) -> None:
    """Write a program in another dialect, with its helper functions and comments.

    Converting back gives the same program. It says what cannot be kept: tokens have neither helpers nor comments.
    """
    from karelsynth.karel.dialects import convert as convert_text

    text, _ = read_program(program, dialect and dialect.value)
    converted = convert_text(text, to.value, dialect and dialect.value)
    write_text(converted.text, output)
    for note in converted.notes:
        print_err(note, "yellow")


def draw(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="WORLD",
            help="A world file, as for run; or a task (a file, or a name in the gallery), for all its examples.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            *OUT,
            metavar="FILE",
            help="A picture (.svg, .png) or, for a world, another format (.w, .json, .txt); the terminal if not given.",
        ),
    ] = None,
    cell: Annotated[
        int | None, typer.Option(help="The side of a cell in pixels; if not given, 40 for a world and 22 for a task.")
    ] = None,
    labels: Annotated[bool, typer.Option("--labels", help="Number rows and columns.")] = False,
    title: Annotated[str | None, typer.Option(help="A line above the picture; by default a task's name.")] = None,
    theme: ThemeOption = None,
) -> None:
    """Draw a world or a task's examples in the terminal or as a picture; or write a world in another format."""
    from karelsynth.karel.draw import save_examples_picture, save_world_picture
    from karelsynth.karel.draw.terminal import world_text
    from karelsynth.karel.world import World

    options: dict[str, Any] = {"cell": cell, "labels": labels or None, "title": title, "theme": theme}
    given = {name: value for name, value in options.items() if value is not None}
    if given and (output is None or output.suffix.lower() in _WORLD_FILES):
        first = next(iter(given))
        raise KarelsynthError(f"--{first} applies only to pictures: add --out with a .svg or .png file, or drop it")
    found = read_world_or_task(subject)
    if isinstance(found, World):
        if output is None:
            console().print(world_text(found, color=console().color_system is not None))
        elif output.suffix.lower() in _WORLD_FILES:
            found.save(output)
        else:
            save_world_picture(found, output, **given)
    elif output is None:
        for number, (before, after) in enumerate(found.examples, 1):
            print_worlds([(f"{number}, before", before), ("after", after)])
    else:
        texts = {"title": found.name, "name": found.name, "about": found.about}
        save_examples_picture(found.examples, output, **{**texts, **given})


def verify(
    tasks: Annotated[
        str,
        typer.Argument(
            metavar="TASKS", help="A file in the original data's JSON-lines format, .gz too; - for standard input."
        ),
    ],
    show: Annotated[int, typer.Option(min=0, help="How many problems to list.")] = 20,
) -> None:
    """Replay every example of a task file and compare outputs and action traces.

    The exit status is 0 only if all are equal.
    """
    from karelsynth.tasks.msr_tasks import verify_file

    refuse_task_text(tasks)
    with counter("replaying", unit="tasks") as progress:
        report = verify_file(tasks, progress=progress)
    for problem in report.problems[:show]:
        print_err(f"{name_of(tasks)}, {problem}", "red")
    if len(report.problems) > show:
        print_err(f"… and {len(report.problems) - show} more problems", "red")
    print_out(
        f"{report.tasks} {'task' if report.tasks == 1 else 'tasks'}, {report.examples} examples: "
        f"{report.outputs_equal} of {report.examples} outputs equal, "
        f"{report.traces_equal} of {report.traces} traces equal"
    )
    raise typer.Exit(0 if report.all_equal else 1)
