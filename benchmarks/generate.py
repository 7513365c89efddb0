"""How fast tasks are made: both generators on one core and on all, and the PyPI package `karel`'s beside them.

    python benchmarks/generate.py [--tasks 100000] [--seed 0]

The package has no generator of tasks, only of random programs and worlds; a task is made of them as in the original
data: random programs that hold a move and a marker action, each on random worlds until it has six examples without a
crash that change something. Its programs and worlds do not have the original's statistics.
`pip install --editable ".[bench]"` brings the package; without it, its row is left out. Prints a Markdown table; ratios
are of this run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from karelsynth.karel.threads import core_count
from karelsynth.tasks.batch import EXAMPLES, TaskBatch
from karelsynth.tasks.generate import generate
from karelsynth.tasks.purposeful.generator import generate_purposeful

STREAMS: Final[dict[str, Callable[..., TaskBatch]]] = {
    "karelsynth": generate,
    "karelsynth, purposeful tasks": generate_purposeful,
}
PACKAGE_SECONDS = 10.0
MOST_WORLDS = 100
GIVE_UP = 20
"""Worlds after which a program without a good one is dropped."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    cores = core_count()
    for stream in STREAMS.values():
        stream(arguments.seed, 0, 512)  # compiled, or loaded from disk
    rates = {}
    package = package_rate(arguments.seed)
    if package is not None:
        rates["PyPI package `karel`, 1 core"] = package
    for name, stream in STREAMS.items():
        rates[f"{name}, 1 core"] = own_rate(stream, arguments.seed, max(1, arguments.tasks // cores), 1)
        if cores > 1:
            rates[f"{name}, {cores} cores"] = own_rate(stream, arguments.seed, arguments.tasks, cores)
    base = next(iter(rates.values()))
    print("| generator | tasks/s | ratio |\n|---|---:|---:|")
    for name, rate in rates.items():
        print(f"| {name} | {rate:,.{0 if rate >= 100 else 2}f} | {rate / base:,.1f} |")


def own_rate(stream: Callable[..., TaskBatch], seed: int, count: int, threads: int) -> float:
    """Tasks a second, the best of three."""
    rates = []
    for repetition in range(3):
        began = time.perf_counter()
        stream(seed, repetition * count, count, threads=threads)
        rates.append(count / (time.perf_counter() - began))
    return max(rates)


def package_rate(seed: int) -> float | None:
    """Tasks a second of the PyPI package; None if it cannot be used."""
    try:
        from karel import KarelForSynthesisParser
    except Exception as error:  # it may be missing, or not fit this Python
        print(f"(the PyPI package `karel` cannot be used here: {error})\n")
        return None
    parser = KarelForSynthesisParser(rng=np.random.RandomState(seed))
    made, began = 0, time.perf_counter()
    while time.perf_counter() - began < PACKAGE_SECONDS:
        made += package_task(parser)
    return made / (time.perf_counter() - began)


def package_task(parser: Any) -> bool:
    """Draw one program with the package; whether it got its examples."""
    code = parser.random_code(stmt_max_depth=4)
    if "move" not in code or not ("pickMarker" in code or "putMarker" in code):
        return False
    good = 0
    for tried in range(MOST_WORLDS):
        if tried == GIVE_UP and good == 0:
            return False
        parser.new_game(world_size=(8, 8))
        before = parser.get_state()
        try:
            parser.run(code)
            good += bool((before != parser.get_state()).any())
        except Exception:  # the package raises plain exceptions for crashes and time-outs
            continue
        if good == EXAMPLES:
            return True
    return False


if __name__ == "__main__":
    main()
