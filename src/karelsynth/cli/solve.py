"""The commands around the solver: solve, for a task or many, and serve, for the playground."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from karelsynth.cli.common import (
    INTERRUPTED,
    OUT,
    CpuDevice,
    Model,
    RayAddress,
    choose_device,
    console,
    counter,
    error_console,
    gallery_task_named,
    leave,
    loading,
    marks,
    print_err,
    print_out,
    print_worlds,
    spread,
    write_text,
)
from karelsynth.cli.karel import Dialect, Speed
from karelsynth.errors import KarelsynthError
from karelsynth.files import STDIN, exists, locked_folder
from karelsynth.karel.interpreter import MOST_TICKS

if TYPE_CHECKING:
    from karelsynth.cluster import Mapper
    from karelsynth.karel.program import Program
    from karelsynth.solve.solution import Ambiguity, Solution
    from karelsynth.solve.solver import Solver
    from karelsynth.tasks.task import Task


_SUFFIXES: Final = {Dialect.paper: "karel", Dialect.stanford: "py", Dialect.tokens: "tokens"}
_LONGEST_NAME: Final = 40
"""Characters of a task's name that are used for its file's name."""
_FEW_EXAMPLES: Final = {1: "one example fits", 2: "two examples fit"}
_LONGER: Final = 5
"""An unsuccessful search is followed by the advice to search this many times longer."""
_MOST_WORKERS: Final = 4
"""The most workers by default: more threads of one process would wait for each other."""


def _list_gallery(wanted: bool) -> None:
    if wanted:
        from karelsynth.tasks.task_files import gallery

        width = max(len(entry.slug) for entry in gallery())
        write_text("\n".join(f"{entry.slug:{width}}  {entry.task.name}" for entry in gallery()), None)
        raise typer.Exit


def solve(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="One task: a file (text drawings or JSON), or the name or title of a task of the gallery. Many: a "
            "JSON-lines file, a folder, or the name of a set such as classroom. - for standard input. With AFTER: the "
            "world before.",
        ),
    ],
    after: Annotated[
        str | None,
        typer.Argument(metavar="AFTER", help="The world after, if TASK is the world before, as in two .w files."),
    ] = None,
    budget: Annotated[float, typer.Option(min=0.01, help="Seconds to search for each task.")] = 1.0,
    max_ticks: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MOST_TICKS,
            help="The most ticks that a right program takes; 10,000 if not given, or 200 for tasks in the original "
            "data's format.",
        ),
    ] = None,
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
    others: Annotated[
        int, typer.Option(min=0, help="For a single task: also show this many other programs that fit.")
    ] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Solve only the first N tasks.")] = None,
    animate: Annotated[bool, typer.Option("--animate", help="Play the program on every example.")] = False,
    speed: Speed = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines: one object per task.")] = False,
    model: Model = None,
    device: CpuDevice = "cpu",
    ray: RayAddress = None,
    list_gallery: Annotated[
        bool,
        typer.Option("--list", help="List the tasks of the gallery and exit.", callback=_list_gallery, is_eager=True),
    ] = False,
) -> None:
    """Find a program that does what the examples show.

    The exit status is 0 only if the program is right on all examples (of all tasks), which is checked by running it.
    """
    tasks = _read_tasks(task, after, limit)
    if max_ticks is not None:
        tasks = [replace(one, max_ticks=max_ticks) for one in tasks]
    if animate and (as_json or len(tasks) > 1):
        raise KarelsynthError("--animate works with a single task and without --json")
    if speed is not None and not animate:
        raise KarelsynthError("--speed applies only to animations: add --animate")
    if ray is not None and len(tasks) == 1:
        raise KarelsynthError("--ray divides many tasks among machines, and this is one: drop --ray")
    if others and (as_json or len(tasks) > 1):
        raise KarelsynthError("--others works with a single task and without --json, which already has them all")
    if to is not None and as_json and out is None:
        raise KarelsynthError("--json has every dialect: drop --to, or add --out to save programs in that dialect")
    if len(tasks) == 1 and not as_json:
        _check_possible(tasks[0])
    files = [None] * len(tasks) if out is None else _output_files(out, tasks, to or Dialect.paper)
    solver = load_solver(model, device, tasks, warm=ray is None)  # a cluster's nodes warm up

    def report(number: int, solution: Solution) -> None:
        saved = _save(solution, files[number], to or Dialect.paper)
        if as_json:
            write_text(json.dumps({"number": number + 1, "name": tasks[number].name, **solution.to_json()}), None)
        elif len(tasks) > 1:
            _print_summary(number + 1, tasks[number], solution, to if out is None else None, saved)
        else:
            _print_solution(tasks[number], solution, to or Dialect.paper, others, budget)
            if saved is not None:
                print_err(f"saved {saved}")

    if len(tasks) > 1:
        with spread(ray, device) as mapper:
            solved = _solve_all(solver, tasks, budget, report, mapper)
        if not as_json:
            console().print(f"{solved} of {len(tasks)} tasks solved")
        leave(0 if solved == len(tasks) else 1)
    solution = _solve_one(solver, tasks[0], budget)
    report(0, solution)
    if animate and solution.program is not None and any(solution.right):
        _play(tasks[0], solution.program, speed)
    leave(0 if solution.solved else 1)


def load_solver(model: str | None, device: str, tasks: list[Task] | None = None, *, warm: bool = True) -> Solver:
    """A solver. If `warm`, the code that these tasks need is compiled, by default all of it."""
    with loading():
        from karelsynth.solve.solver import Solver

        solver = Solver.load(model, device=choose_device(device))
        if warm:
            solver.warm_up(tasks)
    return solver


def _read_tasks(task: str, after: str | None, limit: int | None) -> list[Task]:
    from karelsynth.tasks.sets import is_named
    from karelsynth.tasks.task_files import read_pair, read_tasks

    if after is not None:
        return [replace(read_pair(task, after), name="" if task == STDIN else Path(task).stem)]
    if is_named(task):
        return _named_tasks(task, limit)
    named = gallery_task_named(task)
    return (read_tasks(task) if named is None else [named])[:limit]


def _named_tasks(name: str, limit: int | None) -> list[Task]:
    """The first tasks of a named set, with the examples that are given."""
    from karelsynth.tasks.named import named_set
    from karelsynth.tasks.task_files import MOST_TASKS

    made = named_set(name)
    count = min(made.count, limit or made.count)
    if count > MOST_TASKS:
        raise KarelsynthError(f"`{name}` has {made.count:,} tasks: choose how many to solve, --limit {MOST_TASKS}")
    examples = made.tasks(0, count).examples(made.given)
    return [replace(task, name=title) for task, title in zip(examples, made.titles(count), strict=True)]


def _check_possible(task: Task) -> None:
    """Say at once that no search can help."""
    from karelsynth.tutor.probe import impossible_examples

    for number, reason in impossible_examples(task):
        raise KarelsynthError(f"example {number} cannot be done by any program: {reason}")


def _solve_one(solver: Solver, task: Task, budget: float) -> Solution:
    """Solve a task and show the search's progress in a line."""
    with error_console().status("reading the examples") as line:

        def show(progress: Any) -> None:
            right = "" if progress.best is None else f", best so far right on {sum(progress.best.right)}"
            line.update(f"searching, {progress.beam} programs at a time{right}")

        return solver.solve(task, budget=budget, on_progress=show)


def _solve_all(
    solver: Solver,
    tasks: list[Task],
    budget: float,
    report: Callable[[int, Solution], None],
    mapper: Mapper | None,
) -> int:
    """Solve many tasks and report each when it is done, on a cluster in their order. Returns the number solved."""
    with counter("solving", unit="tasks", total=len(tasks)) as progress:

        def on_solution(number: int, solution: Solution) -> None:
            progress(1)
            report(number, solution)

        if mapper is None:
            return sum(map(bool, solver.solve_many(tasks, budget=budget, on_solution=on_solution)))
        solved = 0
        for number, solution in enumerate(solver.solve_elsewhere(mapper, tasks, budget=budget)):
            on_solution(number, solution)
            solved += bool(solution)
        return solved


# Files


def _output_files(folder: Path, tasks: list[Task], dialect: Dialect) -> list[Path]:
    """The file for each task's program; makes the folder. A name that is taken gets the task's number as a suffix."""
    with locked_folder(folder):  # a folder that cannot be written is an error before the search
        pass
    names: dict[str, None] = {}
    for number, task in enumerate(tasks, 1):
        name = "_".join(re.findall(r"\w+", task.name.lower()))[:_LONGEST_NAME] or "task"
        while name in names:
            name += f"_{number}"
        names[name] = None
    return [folder / f"{name}.{_SUFFIXES[dialect]}" for name in names]


def _save(solution: Solution, path: Path | None, dialect: Dialect) -> Path | None:
    """Write the program of a solved task to a file, if there is one; a partial answer would look like a right one.

    Without a right program an existing file, which may be the user's own, is kept, with a warning.
    """
    if path is None:
        return None
    if solution.program is None or not solution.solved:
        if exists(path):
            print_err(f"{path}: not changed: it is from before, and this search solved nothing", "yellow")
        return None
    write_text(solution.program.to(dialect), path)
    return path


# Output


def _print_summary(number: int, task: Task, solution: Solution, dialect: Dialect | None, saved: Path | None) -> None:
    """Print one of many tasks: a line, and below it the program if a dialect with several lines is chosen."""
    out = console()
    yes, no = marks()
    style, mark = ("green", yes) if solution.solved else ("red", no)
    program = solution.program if any(solution.right) else None
    below = None if dialect is Dialect.tokens else dialect
    if program is None:
        text = "nothing found in time"
    elif saved is not None:
        text = str(saved)
    else:
        text = "" if below is not None else program_on_one_line(program, dialect)
        if not solution.solved:
            text = f"only a partial answer, right on {sum(solution.right)} of {len(solution.right)}: {text}"
    out.print(mark, style=style, end=" ")
    out.print(f"{number}.", end=" ")
    print_out(f"{task.name}: {text}".rstrip())
    if program is not None and below is not None:
        _print_program(program, below)
        out.print()


def program_on_one_line(program: Program, dialect: Dialect | None = None) -> str:
    """Tokens, or the paper's dialect with braces: `while(frontIsClear) { move(); turnLeft() }; putMarker()`."""
    if dialect is Dialect.tokens:
        return program.to(dialect)
    text, level = "", 1
    for line in program.to("paper").splitlines()[1:]:
        words = line.lstrip()
        depth, opens = (len(line) - len(words)) // 2, words.endswith(":")
        text += " }" * (level - depth)
        joint = "" if not text else " " if text.endswith("{") or words.startswith("else") else "; "
        text += joint + (f"{words[:-1]} {{" if opens else words)
        level = depth + opens
    return text + " }" * (level - 1)


def _print_program(program: Program, dialect: Dialect) -> None:
    """In colours and wrapped on a terminal; as it is in a file or a pipe."""
    from rich.syntax import Syntax

    text = program.to(dialect).rstrip()
    if console().is_terminal:
        lexer = "text" if dialect is Dialect.tokens else "python"
        console().print(Syntax(text, lexer, background_color="default", word_wrap=True))
    else:
        print_out(text)


def _print_solution(task: Task, solution: Solution, dialect: Dialect, others: int, budget: float) -> None:
    """Print a single task's program, its verdicts, and what is not certain about it."""
    from rich.text import Text

    if task.name:
        print_out(task.name, "bold")
    if solution.program is None or not any(solution.right):  # right on no example: not even a partial answer
        longer = f"--budget {_LONGER * budget:g}"
        print_out(f"nothing found in {solution.seconds:.2f} s; try to search longer: {longer}", "red")
        return
    if not solution.solved:
        failed = f"not solved in {solution.seconds:.2f} s."
        print_out(f"{failed} The best partial answer, which is NOT right on every example:", "red")
    _print_program(solution.program, dialect)
    verdicts = Text()
    yes, no = marks()
    for number, right in enumerate(solution.right, 1):
        verdicts.append(f"example {number} ")
        verdicts.append(f"{yes if right else no}  ", "green" if right else "red")
    print_out(verdicts)
    if solution.solved:
        fitting = len(solution.answers)
        more = f"; {fitting} programs that fit were found" if fitting > 1 else ""
        print_out(f"right on every example, found in {solution.seconds:.2f} s{more}", "green")
        probability = solution.answers[0].probability
        if probability is not None:
            print_out(f"probability of being right on a further example: {_percent(probability)}", "dim")
        if solution.support == "weak":
            print_out(str(solution.advice), "yellow")
    for number, answer in enumerate(solution.answers[1 : others + 1], 2):
        probable = "" if answer.probability is None else f", probability {_percent(answer.probability)}"
        size = f"{answer.program.size} tokens"
        console().print(f"\nnumber {number}: {size}, log-probability {answer.logprob:.1f}{probable}")
        _print_program(answer.program, dialect)
    if solution.ambiguity is not None:
        _print_ambiguity(solution.ambiguity, others)
    elif solution.solved and len(task.examples) in _FEW_EXAMPLES:
        print_out(f"{_FEW_EXAMPLES[len(task.examples)]} many programs; add examples to be surer of the answer", "dim")


def _percent(probability: float) -> str:
    """An estimated probability in words: never 0 % or 100 %."""
    percent = round(100 * probability)
    return "below 1 %" if percent < 1 else "over 99 %" if percent > 99 else f"about {percent} %"


def _print_ambiguity(ambiguity: Ambiguity, others: int) -> None:
    """Show the world on which the answers differ, and their outcomes there."""
    from karelsynth.karel.interpreter import Status

    out = console()
    out.print(
        f"\nWhich do you mean? {ambiguity.change} Likely programs then end as shown; "
        "add the outcome you mean as one more example.",
        soft_wrap=not out.is_terminal,
    )
    worlds = [("before", ambiguity.world)]
    for number, outcome in enumerate(ambiguity.outcomes):
        who = "this program" if number == 0 else "number " + ", ".join(str(place + 1) for place in outcome.answers)
        worlds.append((who if outcome.status is Status.OK else f"{who} (fails)", outcome.world))
    print_worlds(worlds)
    needed = max(min(outcome.answers) for outcome in ambiguity.outcomes)
    if needed > others:
        out.print(f"`--others {needed}` shows a program for each of these outcomes", style="dim")


def _play(task: Task, program: Program, speed: float | None) -> None:
    from karelsynth.karel.draw.terminal import play

    for number, example in enumerate(task.examples, 1):
        console().print(f"example {number}")
        play(program, example.input, console=console(), speed=speed, max_ticks=task.max_ticks)


# The playground


def serve(
    model: Model = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; by default only this machine can reach it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free one.")] = 8000,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="How many batches of searches run at once; by default one per core, up to 4."),
    ] = None,
    queue: Annotated[int, typer.Option(min=0, max=10_000, help="How many searches may wait; more are refused.")] = 128,
    rate: Annotated[
        float, typer.Option(min=0, help="How many POST requests a client may send in a minute; 0 for any number.")
    ] = 0,
    proxy: Annotated[
        list[str] | None,
        typer.Option(help="The address of a reverse proxy whose X-Forwarded-For names the client; may be repeated."),
    ] = None,
    log: Annotated[
        Literal["off", "text", "json"],
        typer.Option(help="Log requests and searches to the standard error stream, as text or as JSON."),
    ] = "off",
    lesson: Annotated[
        Path | None,
        typer.Option(
            "--set",
            metavar="FILE",
            help="Challenges to open the page with: a file saved on the page, or a folder made by `pose`.",
        ),
    ] = None,
    device: CpuDevice = "cpu",
) -> None:
    """Serve the playground: the page and its HTTP API. Ctrl-C stops it."""
    from karelsynth.karel.threads import core_count
    from karelsynth.web.server import address_of, is_loopback, listen, network_address_of, proxy_addresses
    from karelsynth.web.server import serve as run_server

    with listen(host, port) as listener:  # before the model is loaded: the port may be in use
        from karelsynth.model.storage import SHIPPED
        from karelsynth.tutor.challenges import read_challenges
        from karelsynth.web.app import LOOPBACK, ServiceSettings, create_app

        at_once = workers or min(core_count(), _MOST_WORKERS)
        settings = ServiceSettings(
            workers=at_once,
            queue=queue,
            cores=core_count(),
            rate=rate,
            log=log,
            proxies=proxy_addresses(proxy or ()),
            hosts=LOOPBACK | {host.lower(), listener.getsockname()[0]} if is_loopback(listener) else None,
            model=Path(model or SHIPPED).name,
            challenges=None if lesson is None else read_challenges(lesson),
        )
        if at_once > 1:
            _limit_threads(1)  # a batch distributes its steps over threads itself
        solver = load_solver(model, device)
        address, network_address = address_of(listener), network_address_of(listener)

        def on_ready() -> None:
            print_out(f"karelsynth is ready at {address} (Ctrl-C stops it)")
            if network_address is not None and network_address != address:
                print_out(f"from other machines: {network_address}")
            if not is_loopback(listener):
                print_out(
                    "everyone who can reach this machine can use it: there are no accounts and no encryption", "yellow"
                )
            if open_page:
                import webbrowser

                webbrowser.open(address)

        try:
            run_server(create_app(solver, settings), listener, on_ready)
        except KeyboardInterrupt:
            print_err("stopped")
            leave(INTERRUPTED)
        except SystemExit as ended:  # SIGTERM, mostly
            leave(ended.code if isinstance(ended.code, int) else 0)


def _limit_threads(number: int) -> None:
    """Set the threads of each search: with more threads than cores, searches slow each other down."""
    import torch

    torch.set_num_threads(max(1, min(number, torch.get_num_threads())))
