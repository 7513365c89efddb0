"""What karelsynth does, in a minute: `make demo`. It solves tasks from the gallery with the weights it comes with."""

from __future__ import annotations

import time

from rich.console import Console
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

from karelsynth import generate, run_batch
from karelsynth.karel.draw.terminal import side_by_side
from karelsynth.solve import Solution, Solver
from karelsynth.tasks.task import Task
from karelsynth.tasks.task_files import gallery_task

console = Console(highlight=False, width=100)
TASKS = ("clean-the-row", "fill-the-row", "newspaper", "climb-the-stairs")
SHOWN = 2
"""Examples of each task that are drawn."""


def show(task: Task, solution: Solution) -> None:
    console.print(Rule(task.name, style="bold"))
    console.print(task.about, style="dim")
    for number, example in enumerate(task.examples[:SHOWN], 1):
        pair = [(f"example {number}: before", example.input), ("after", example.output)]
        console.print(side_by_side(pair, color=True, width=100))
    more = len(task.examples) - SHOWN
    console.print(f"and {more} more\n" if more > 0 else "", style="dim")
    if solution.program is None:
        console.print(f"nothing found in {solution.seconds:.2f} s", style="red")
        return
    console.print(Syntax(solution.program.to("paper"), "python", background_color="default"))
    marks = Text("checked on every example: ")
    for right in solution.right:
        marks.append("✓ " if right else "✗ ", "green" if right else "red")
    console.print(marks)
    verdict = "solved" if solution.solved else "NOT solved: this is only the best partial answer"
    console.print(f"{verdict}, in {solution.seconds:.2f} s", style="green" if solution.solved else "red")
    if solution.ambiguity is not None:
        console.print(
            "other programs fit too, and differ on other worlds; one more example would settle it", style="dim"
        )


def main() -> None:
    with console.status("loading the model, and compiling what is not yet compiled (the first time takes a minute)"):
        solver = Solver.load()
        solver.warm_up()
    for slug in TASKS:
        task = gallery_task(slug)
        show(task, solver.solve(task, budget=2.0))

    console.print(Rule("Tasks without end, and the machine that checks them", style="bold"))
    generate(0, 0, 100)
    start = time.perf_counter()
    tasks = generate(0, 0, 20_000)
    made = time.perf_counter()
    runs = run_batch(tasks.tokens, tasks.inputs, expected=tasks.outputs, keep_worlds=False)
    checked = time.perf_counter()
    assert runs.correct is not None
    console.print(
        f"made {len(tasks):,} tasks in {made - start:.2f} s; "
        f"ran them on {runs.correct.size:,} worlds in {checked - made:.2f} s: {runs.correct.mean():.0%} as wanted"
    )
    console.print(
        "\nNext: `karelsynth solve climb-the-stairs --animate`, `karelsynth serve` for the playground, "
        "`karelsynth --help` for the rest."
    )


if __name__ == "__main__":
    main()
