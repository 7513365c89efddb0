"""How fast programs run: the interpreter, the PyPI package `karel`, and the batch interpreter.

    python benchmarks/machine.py [--tasks 20000] [--seed 0]
    python benchmarks/machine.py --device cuda [--tasks 100000]

All run the same programs on the same worlds: tasks of the generator, whose statistics are the original data's. The
slow ones run a part of them. `pip install --editable ".[bench]"` brings the package `karel`; without it, its row is
left out. Prints a Markdown table; the ratio is to the interpreter, in this run.

With `--device cuda`, the batch interpreter runs the same programs on all cores and on the GPU, also long-running ones:
loops around the generator's. Arrays are copied to the GPU and back, or lie there already; the ratio is to the cores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.formats.codes import world_from_codes
from karelsynth.karel.interpreter import run
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.threads import core_count
from karelsynth.karel.tokens import ID, PAD
from karelsynth.karel.world import World
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.generate import generate

SLOW_TASKS = 500
"""How many tasks the interpreter and the package `karel` run."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments = parser.parse_args()
    tasks = generate(arguments.seed, 0, arguments.tasks)
    if arguments.device == "cuda":
        beside_a_gpu(tasks)
        return
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


def beside_a_gpu(tasks: TaskBatch) -> None:
    """The batch interpreter on the host and on a GPU, ticks per second."""
    from karelsynth.karel.cuda import cuda
    from karelsynth.karel.machine_cuda import heroes_on_gpu, run_on_gpu

    name = cuda.get_current_device().name
    print(f"{core_count()} cores; {name.decode() if isinstance(name, bytes) else name}\n")
    print("| programs | ticks a run | where | runs/s | ticks/s | ratio |\n|---|---:|---|---:|---:|---:|")
    for kind, tokens in (("generated", tasks.tokens), ("long-running", long_running(tasks.tokens))):
        host = run_batch(tokens, tasks.inputs)
        by_gpu = run_batch(tokens, tasks.inputs, device="cuda")
        for field in ("status", "ticks", "where", "worlds"):
            assert np.array_equal(getattr(host, field), getattr(by_gpu, field)), field
        on_gpu = [cuda.to_device(part) for part in (tokens, tasks.inputs, np.arange(len(tokens)))]
        heroes = heroes_on_gpu(on_gpu[1])

        def stay(given: list[Any] = on_gpu, heroes: Any = heroes) -> None:
            run_on_gpu(given[0], given[1], which=given[2], heroes=heroes)
            cuda.synchronize()

        ways: dict[str, Callable[[], object]] = {
            "all cores": lambda tokens=tokens: run_batch(tokens, tasks.inputs),  # type: ignore[misc]
            "GPU, arrays on the host": lambda tokens=tokens: run_batch(tokens, tasks.inputs, device="cuda"),  # type: ignore[misc]
            "GPU, arrays on the GPU": stay,
        }
        stay()
        rates = {way: best_rate(work, host.ticks.size, 5) for way, work in ways.items()}
        ticks = float(host.ticks.mean())
        for way, rate in rates.items():
            ratio = rate / rates["all cores"]
            print(f"| {kind} | {ticks:.1f} | {way} | {rate:,.0f} | {rate * ticks / 1e6:,.0f} M | {ratio:.1f} |")


def long_running(tokens: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Each program as the body of loops of 19 × 19 iterations."""
    first, last = ([ID[word] for word in part.split()] for part in ("REPEAT R=19 r( REPEAT R=19 r(", "r) r)"))
    rows = []
    for row in tokens:
        length = int((row != PAD).sum())
        rows.append([*row[:3].tolist(), *first, *row[3 : length - 1].tolist(), *last, int(row[length - 1])])
    return encode_programs(rows)


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
