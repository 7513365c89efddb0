"""What karelsynth can do so far, in a minute: `make demo`."""

from __future__ import annotations

import time

from rich.console import Console
from rich.rule import Rule
from rich.syntax import Syntax

from karelsynth import Program, ProgramSyntaxError, World, run_batch
from karelsynth.karel.draw.terminal import side_by_side
from karelsynth.tasks.generator import generate

console = Console(highlight=False, width=100)

ROOM = World.parse("""
    .  .  .  .  .
    .  #  #  #  .
    .  .  2  .  .
    >  1  .  3  .
""")

TIDY = Program.parse("""
def run():
  while(frontIsClear):
    move()
    while(markersPresent):
      pickMarker()
  turnLeft()
""")


def main() -> None:
    console.print(Rule("A world that people can type, a program, and what it does"))
    console.print(Syntax(TIDY.to("paper"), "python", background_color="default"))
    outcome = TIDY.run(ROOM)
    console.print(side_by_side([("before", ROOM), ("after", outcome.world)], color=True, width=100))
    console.print(outcome.explain(), style="green")

    console.print(Rule("The same program as the data's tokens, and for the classroom"))
    console.print(TIDY.to("tokens"))
    console.print(Syntax(TIDY.to("stanford"), "python", background_color="default"))

    console.print(Rule("A slip of the pen"))
    try:
        Program.parse("def run():\n  move()\n  turnLfet()")
    except ProgramSyntaxError as error:
        console.print(str(error), style="red", markup=False)

    console.print(Rule("Tasks without end, with the statistics of the original data, and the machine that checks them"))
    generate(0, 0, 100)  # compiles, or loads what was compiled before
    start = time.perf_counter()
    tasks = generate(0, 0, 20_000)
    made = time.perf_counter()
    runs = run_batch(tasks.tokens, tasks.inputs, expected=tasks.outputs, keep_worlds=False)
    checked = time.perf_counter()
    assert runs.correct is not None
    console.print(
        f"made {len(tasks):,} tasks in {made - start:.2f} s; "
        f"ran {runs.status.size:,} examples in {checked - made:.3f} s, {runs.correct.mean():.0%} right"
    )
    number = 11
    task = tasks[number : number + 1]
    console.print(f"\ntask {number}:")
    console.print(Syntax(str(Program.from_tokens(task.tokens[0].tolist())), "python", background_color="default"))
    pairs = [
        (name, World.from_codes(codes[0, example]))
        for example in range(2)
        for name, codes in ((f"input {example + 1}", task.inputs), (f"output {example + 1}", task.outputs))
    ]
    console.print(side_by_side(pairs, color=True, width=100))


if __name__ == "__main__":
    main()
