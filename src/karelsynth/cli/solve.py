"""The command that the rest is for: solve."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from karelsynth.cli.karel import Dialect, Speed
from karelsynth.cli.progress import counter
from karelsynth.cli.show import OUT, chosen_device, console, error_console, loading, named_task, write_text
from karelsynth.errors import KarelsynthError
from karelsynth.files import STDIN, exists, locked_folder

if TYPE_CHECKING:
    from karelsynth.karel.program import Program
    from karelsynth.solve.solution import Ambiguity, Solution
    from karelsynth.solve.solver import Solver
    from karelsynth.tasks.task import Task


_ENDINGS: Final = {Dialect.paper: "karel", Dialect.stanford: "py", Dialect.tokens: "tokens"}
_LONGEST_NAME: Final = 40
"""Characters of a task's name that its file is called by."""
_FEW: Final = {1: "one example fits", 2: "two examples fit"}
_LONGER: Final = 5
"""How many times longer a search is proposed where one found nothing."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(solve)


def _list_gallery(wanted: bool) -> None:
    if wanted:
        from karelsynth.tasks.gallery import gallery

        width = max(len(entry.slug) for entry in gallery())
        write_text("\n".join(f"{entry.slug:{width}}  {entry.task.name}" for entry in gallery()), None)
        raise typer.Exit


def solve(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="A task file (text drawings or JSON), a JSON-lines file or folder of many tasks, the name or title "
            "of a task of the gallery, - for standard input, or, with AFTER, the world before.",
        ),
    ],
    after: Annotated[
        str | None,
        typer.Argument(metavar="AFTER", help="The world after, if TASK is the world before, as in two .w files."),
    ] = None,
    budget: Annotated[float, typer.Option(min=0.01, help="Seconds to search for each task.")] = 1.0,
    to: Annotated[
        Dialect | None,
        typer.Option(
            "--to",
            help="The dialect to write programs in; by default the paper's, on one line each for many tasks.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            *OUT,
            metavar="DIR",
            help="Folder to save programs in: one file per solved task, named after the task.",
        ),
    ] = None,
    others: Annotated[int, typer.Option(min=0, help="For a single task: how many more programs that fit to show.")] = 0,
    animate: Annotated[bool, typer.Option("--animate", help="Play the program on every example.")] = False,
    speed: Speed = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines: one object per task.")] = False,
    model: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="A folder with a trained model; `shipped`, the package's, if not given."),
    ] = None,
    device: Annotated[str, typer.Option(help="Where the model runs: cpu or cuda.")] = "cpu",
    list_gallery: Annotated[
        bool,
        typer.Option("--list", help="List the tasks of the gallery and exit.", callback=_list_gallery, is_eager=True),
    ] = False,
) -> None:
    """Find a program that does what the examples show.

    The exit status is 0 only if the program is right on all examples (of all tasks), which is checked by running it.
    """
    tasks = _read(task, after)
    if animate and (as_json or len(tasks) > 1):
        raise KarelsynthError("--animate works with a single task and without --json")
    if speed is not None and not animate:
        raise KarelsynthError("--speed applies only to animations: add --animate")
    if others and (as_json or len(tasks) > 1):
        raise KarelsynthError("--others works with a single task and without --json, which already has them all")
    if to is not None and as_json and out is None:
        raise KarelsynthError("--json has every dialect: drop --to, or add --out to save programs in that dialect")
    files = [None] * len(tasks) if out is None else _files(out, tasks, to or Dialect.paper)

    from karelsynth.solve.solver import Solver

    with loading():
        solver = Solver.load(model, device=chosen_device(device))
        solver.warm_up()

    def tell(number: int, solution: Solution) -> None:
        saved = _save(solution, files[number], to or Dialect.paper)
        if as_json:
            write_text(json.dumps({"number": number + 1, "name": tasks[number].name, **solution.to_json()}), None)
        elif len(tasks) > 1:
            _list(number + 1, tasks[number], solution, to if out is None else None, saved)
        else:
            _show(tasks[number], solution, to or Dialect.paper, others, budget)
            if saved is not None:
                error_console().print(f"saved {saved}", soft_wrap=True)

    if len(tasks) > 1:
        solved = _solve_all(solver, tasks, budget, tell)
        if not as_json:
            console().print(f"{solved} of {len(tasks)} tasks solved")
        raise typer.Exit(0 if solved == len(tasks) else 1)
    solution = _solve_one(solver, tasks[0], budget)
    tell(0, solution)
    if animate and solution.program is not None and any(solution.right):
        _play(tasks[0], solution.program, speed)
    raise typer.Exit(0 if solution.solved else 1)


def _read(task: str, after: str | None) -> list[Task]:
    from karelsynth.tasks.task_files import read_pair, read_tasks

    if after is not None:
        return [replace(read_pair(task, after), name="" if task == STDIN else Path(task).stem)]
    named = named_task(task)
    return read_tasks(task) if named is None else [named]


def _marks() -> tuple[str, str]:
    """Right and wrong, in what the terminal can show."""
    from karelsynth.karel.draw.terminal import speaks_unicode

    return ("✓", "✗") if speaks_unicode(console().encoding) else ("yes", "NO")


def _solve_one(solver: Solver, task: Task, budget: float) -> Solution:
    """With a line that tells how the search goes."""
    with error_console().status("reading the examples") as line:

        def tell(progress: Any) -> None:
            right = "" if progress.best is None else f", best so far right on {sum(progress.best.right)}"
            line.update(f"searching, {progress.beam} programs at a time{right}")

        return solver.solve(task, budget=budget, on_progress=tell)


def _solve_all(solver: Solver, tasks: list[Task], budget: float, tell: Callable[[int, Solution], None]) -> int:
    """Solve many tasks and tell of each as soon as it is done; how many were solved."""
    with counter("solving", unit="tasks", total=len(tasks)) as progress:

        def count(number: int, solution: Solution) -> None:
            progress(1)
            tell(number, solution)

        return sum(map(bool, solver.solve_many(tasks, budget=budget, on_solution=count)))


def _files(folder: Path, tasks: list[Task], dialect: Dialect) -> list[Path]:
    """Where each task's program will be saved; the folder is made. A name that is taken gets the task's number too."""
    with locked_folder(folder):  # said before the search rather than after it, if it cannot be
        pass
    names: dict[str, None] = {}
    for number, task in enumerate(tasks, 1):
        name = "_".join(re.findall(r"\w+", task.name.lower()))[:_LONGEST_NAME] or "task"
        while name in names:
            name += f"_{number}"
        names[name] = None
    return [folder / f"{name}.{_ENDINGS[dialect]}" for name in names]


def _save(solution: Solution, path: Path | None, dialect: Dialect) -> Path | None:
    """Write the program to a file, if one is wanted; no partial answer, which would pass for a right one there.

    An older file, which may be the user's own, is left where there is nothing to write, but not in silence.
    """
    if path is None:
        return None
    if solution.program is None or not solution.solved:
        if exists(path):
            left = f"{path}: left as it was before: it is no answer of this search, which has none for that task"
            error_console().print(left, style="yellow", soft_wrap=True)
        return None
    write_text(solution.program.to(dialect), path)
    return path


def _list(number: int, task: Task, solution: Solution, dialect: Dialect | None, saved: Path | None) -> None:
    """Show one of many tasks: a line, and below it the program where a dialect is wanted that takes several."""
    out = console()
    yes, no = _marks()
    style, mark = ("green", yes) if solution.solved else ("red", no)
    program = solution.program if any(solution.right) else None
    below = None if dialect is Dialect.tokens else dialect
    if program is None:
        said = "nothing found in time"
    elif saved is not None:
        said = str(saved)
    else:
        said = "" if below is not None else _one_line(program, dialect)
        if not solution.solved:
            said = f"only a partial answer, right on {sum(solution.right)} of {len(solution.right)}: {said}"
    out.print(mark, style=style, end=" ")
    out.print(f"{number}.", end=" ")
    out.print(f"{task.name}: {said}".rstrip(), soft_wrap=True)
    if program is not None and below is not None:
        _print_program(program, below)
        out.print()


def _one_line(program: Program, dialect: Dialect | None) -> str:
    if dialect is Dialect.tokens:
        return program.to(dialect)
    return _braced(program.to("paper").splitlines()[1:])


def _braced(lines: list[str]) -> str:
    """Indented lines as one: `while(frontIsClear) { move(); turnLeft() }; putMarker()`."""
    text, level = "", 1
    for line in lines:
        words = line.lstrip()
        depth, opens = (len(line) - len(words)) // 2, words.endswith(":")
        text += " }" * (level - depth)
        joint = "" if not text else " " if text.endswith("{") or words.startswith("else") else "; "
        text += joint + (f"{words[:-1]} {{" if opens else words)
        level = depth + opens
    return text + " }" * (level - 1)


def _print_program(program: Program, dialect: Dialect) -> None:
    """In colours and wrapped to the screen; where it goes into a file or a pipe, as it is."""
    from rich.syntax import Syntax

    if not console().is_terminal:
        console().print(program.to(dialect).rstrip(), soft_wrap=True)
        return
    lexer = "text" if dialect is Dialect.tokens else "python"
    console().print(Syntax(program.to(dialect).rstrip(), lexer, background_color="default", word_wrap=True))


def _show(task: Task, solution: Solution, dialect: Dialect, others: int, budget: float) -> None:
    from rich.text import Text

    out = console()
    if task.name:
        out.print(task.name, style="bold", soft_wrap=True)
    if solution.program is None or not any(solution.right):  # right nowhere is not even a partial answer
        larger = f"--budget {_LONGER * budget:g}"
        nothing = f"nothing found in {solution.seconds:.2f} s; try to search longer: {larger}"
        out.print(nothing, style="red", soft_wrap=True)
        return
    if not solution.solved:
        out.print(
            f"not solved in {solution.seconds:.2f} s. The best partial answer, which is NOT right on every example:",
            style="red",
            soft_wrap=True,
        )
    _print_program(solution.program, dialect)
    marks = Text()
    yes, no = _marks()
    for number, right in enumerate(solution.right, 1):
        marks.append(f"example {number} ")
        marks.append(f"{yes if right else no}  ", "green" if right else "red")
    out.print(marks, soft_wrap=True)
    if solution.solved:
        fitting = len(solution.answers)
        more = f"; {fitting} programs that fit were found" if fitting > 1 else ""
        said = f"right on every example, found in {solution.seconds:.2f} s{more}"
        out.print(said, style="green", soft_wrap=True)
        probability = solution.answers[0].probability
        if probability is not None:
            said = f"probability of being correct on a further example: {_percent(probability)}"
            out.print(said, style="dim", soft_wrap=True)
    for number, answer in enumerate(solution.answers[1 : others + 1], 2):
        likely = "" if answer.probability is None else f", probability {_percent(answer.probability)}"
        out.print(f"\nnumber {number}: {answer.program.size} tokens, log-likelihood {answer.logprob:.1f}{likely}")
        _print_program(answer.program, dialect)
    if solution.ambiguity is not None:
        _ask(solution.ambiguity, others)
    elif solution.solved and len(task.examples) in _FEW:
        few = f"{_FEW[len(task.examples)]} many programs; add examples to be surer of the answer"
        out.print(few, style="dim", soft_wrap=True)


def _percent(probability: float) -> str:
    """An estimated probability in words: never 0 % or 100 %."""
    percent = round(100 * probability)
    return "below 1 %" if percent < 1 else "over 99 %" if percent > 99 else f"about {percent} %"


def _ask(ambiguity: Ambiguity, others: int) -> None:
    """Show the world that tells the answers apart, and what they do there."""
    from karelsynth.karel.draw.terminal import side_by_side, speaks_unicode
    from karelsynth.karel.interpreter import Status

    out = console()
    out.print(
        "\nSeveral programs fit the examples but differ elsewhere. On the first world below they end as shown; "
        "add the outcome you mean as one more example to settle it.",
        soft_wrap=not out.is_terminal,  # a paragraph is best wrapped between words, where somebody reads it
    )
    worlds = [("a world", ambiguity.world)]
    for number, outcome in enumerate(ambiguity.outcomes):
        who = "this program" if number == 0 else "number " + ", ".join(str(place + 1) for place in outcome.answers)
        worlds.append((who if outcome.status is Status.OK else f"{who} (fails)", outcome.world))
    unicode = speaks_unicode(out.encoding)
    out.print(side_by_side(worlds, color=out.color_system is not None, width=out.width, unicode=unicode))
    needed = max(min(outcome.answers) for outcome in ambiguity.outcomes)
    if needed > others:
        out.print(f"`--others {needed}` shows a program for each of these outcomes", style="dim")


def _play(task: Task, program: Program, speed: float | None) -> None:
    from karelsynth.karel.draw.terminal import play

    for number, example in enumerate(task.examples, 1):
        console().print(f"example {number}")
        play(program, example.input, console=console(), speed=speed)
