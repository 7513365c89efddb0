"""How fast programs run: the interpreter, the PyPI package `karel`, and the batch interpreter.

    python benchmarks/machine.py [--tasks 20000] [--seed 0]

All run the same programs on the same worlds: tasks of the generator, whose statistics are the original data's. The
slow ones run a part of them. `pip install --editable ".[bench]"` brings the package `karel`; without it, its row is
left out. Prints a Markdown table; the ratio is to the interpreter, in this run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.formats.codes import world_from_codes
from karelsynth.karel.interpreter import run
from karelsynth.karel.machine import run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.threads import core_count
from karelsynth.karel.world import World
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.generate import generate

SLOW_TASKS = 500
"""How many tasks the interpreter and the package `karel` run."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tasks = generate(arguments.seed, 0, arguments.tasks)
    some = tasks[:SLOW_TASKS]
    programs = [Program.from_tokens(row.tolist()) for row in some.tokens]
    worlds = [[world_from_codes(codes) for codes in row] for row in some.inputs]
    cores = core_count()
    checked = run_batch(tasks.tokens, tasks.inputs, expected=tasks.outputs)
    assert checked.correct is not None
    assert checked.correct.all()

    rows = {"interpreter (1 core)": interpreter(programs, worlds)}
    other = package_karel(programs, worlds)
    if other is not None:
        rows["PyPI package `karel` (1 core)"] = other
    rows["batch interpreter, 1 core"] = machine(tasks, threads=1)
    if cores > 1:
        rows[f"batch interpreter, {cores} cores"] = machine(tasks, threads=cores)
        compared = machine(tasks, threads=cores, compare=True)
        rows[f"batch interpreter, {cores} cores, outputs compared but not returned"] = compared
    base = rows["interpreter (1 core)"]
    print(f"{checked.ticks.size:,} runs, {checked.ticks.mean():.1f} ticks each on average\n")
    print("| what | runs/s | ratio |\n|---|---:|---:|")
    for name, rate in rows.items():
        print(f"| {name} | {rate:,.0f} | {rate / base:,.1f} |")


def best_rate(work: Callable[[], object], runs: int, repeats: int) -> float:
    """Runs per second of the best of some repeats."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return runs / min(seconds)


def interpreter(programs: list[Program], worlds: list[list[World]]) -> float:
    def work() -> None:
        for program, row in zip(programs, worlds, strict=True):
            for world in row:
                run(program, world)

    return best_rate(work, sum(map(len, worlds)), 3)


def machine(tasks: TaskBatch, *, threads: int, compare: bool = False) -> float:
    def work() -> None:
        expected = tasks.outputs if compare else None
        run_batch(tasks.tokens, tasks.inputs, threads=threads, expected=expected, keep_worlds=not compare)

    return best_rate(work, tasks.inputs.shape[0] * tasks.inputs.shape[1], 10)


def package_karel(programs: list[Program], worlds: list[list[World]]) -> float | None:
    """Runs per second of the package `karel`, or None if it cannot be used."""
    try:
        from karel import KarelForSynthesisParser
    except Exception as error:  # it may be missing, or not fit this Python
        print(f"(the PyPI package `karel` cannot be used here: {error})\n")
        return None
    parser = KarelForSynthesisParser(max_func_call=10_000)
    texts = [" ".join(program.tokens) for program in programs]
    states = [[_state(world) for world in row] for row in worlds]

    def work() -> None:
        for text, row in zip(texts, states, strict=True):
            for state in row:
                parser.new_game(state=state)
                parser.run(text)

    return best_rate(work, sum(map(len, worlds)), 2)


def _state(world: World) -> NDArray[np.int8]:
    """A world as the package `karel` takes it, [rows + 2, cols + 2, 16]: north at the top, walls all around."""
    state = np.zeros((world.rows + 2, world.cols + 2, 16), np.int8)
    state[[0, -1], :, 4] = 1
    state[:, [0, -1], 4] = 1
    for row, col in world.walls:
        state[world.rows - row, col + 1, 4] = 1
    for (row, col), count in world.markers.items():
        state[world.rows - row, col + 1, 5 + count] = 1
    row, col, heading = world.hero
    state[world.rows - row, col + 1, ("north", "south", "west", "east").index(heading)] = 1
    return state


if __name__ == "__main__":
    main()
