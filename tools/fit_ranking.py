"""Fit the probability of `solve`'s preferred answer on generated tasks, and show how well it holds on others.

    python tools/fit_ranking.py [--tasks 4000] [--budget 1] [--processes N] [--model DIR] [--save FILE] [--plot FILE] \\
        [--write]
    python tools/fit_ranking.py --load FILE [--plot FILE] [--write]

Half of the tasks are random, half purposeful. Each is solved from two to five examples; 15 further examples say how
often the preferred answer is right. Logistic regression on three quarters of the tasks gives `CONSTANT` and `WEIGHTS`
of `karelsynth.solve.ranking`. The table compares predicted with observed frequencies on the last quarter. `--save`
keeps the observations, so that `--load` can fit again without searching. `--write` puts the weights into
`karelsynth/solve/ranking.py`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from karelsynth.solve import Solver

KINDS = ("random", "purposeful")
GIVEN = (5, 5, 3, 4, 5, 2, 5, 3)
"""The number of given examples of task n is GIVEN[n % 8]."""
MOST_GIVEN, EXAMPLES = 5, 20
SEED, CHUNK = 90210, 25
BINS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


class Observations(NamedTuple):
    """The preferred answers of N solved tasks."""

    features: NDArray[np.float64]
    """[N, F], the fields of `ranking.Features`."""
    right: NDArray[np.float64]
    """[N]: the share of further examples on which the answer is right, …"""
    network: NDArray[np.float64]
    """[N]: … and that of the network's first answer."""
    task: NDArray[np.int64]
    """[N]: the task's number; random tasks have even ones."""

    @property
    def held_out(self) -> NDArray[np.bool_]:
        """[N]: the tasks that the weights are not fitted on."""
        return np.equal(self.task // 2 // len(GIVEN) % 4, 3)


@cache
def solver(model: Path | None) -> Solver:
    """This process's solver."""
    from karelsynth.solve import Solver

    return Solver.load(model)


def observe(chunk: tuple[int, int, float, Path | None]) -> list[tuple[object, ...]]:
    """A row of `Observations` for each solved one of CHUNK tasks of a kind, from task number `start` on."""
    kind, start, budget, model = chunk
    import torch

    from karelsynth.karel.formats.codes import world_from_codes
    from karelsynth.karel.machine import run_batch
    from karelsynth.tasks.generate import generate
    from karelsynth.tasks.purposeful.generator import generate_purposeful

    torch.set_num_threads(1)
    batch = (generate, generate_purposeful)[kind](SEED, start, CHUNK, examples=EXAMPLES, reserved=True, threads=1)
    rows: list[tuple[object, ...]] = []
    for number, (inputs, outputs) in enumerate(zip(batch.inputs, batch.outputs, strict=True), start):
        given = GIVEN[number % len(GIVEN)]
        pairs = [
            (world_from_codes(before), world_from_codes(after))
            for before, after in zip(inputs[:given], outputs[:given], strict=True)
        ]
        state = solver(model).search(pairs, budget=budget)
        if state.answers is not None and state.solved:
            network = state.answers.tokens[0]
            order, _, features, _ = solver(model).rank(state)
            before, after = (np.ascontiguousarray(worlds[MOST_GIVEN:]) for worlds in (inputs, outputs))
            programs = np.stack([state.answers.tokens[order[0]], network])
            runs = run_batch(programs, before, expected=after, keep_worlds=False, threads=1)
            assert runs.correct is not None
            rows.append((features, *runs.correct.mean(1), 2 * number + kind))
    return rows


def collect(tasks: int, budget: float, processes: int, model: Path | None) -> Observations:
    """Solve the tasks in several processes, one core each."""
    os.environ["KARELSYNTH_THREADS"] = "1"
    solver(model).warm_up()  # compiles once, before the processes start
    chunks = [(kind, start, budget, model) for start in range(0, tasks // 2, CHUNK) for kind in range(len(KINDS))]
    rows = []
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for done, part in enumerate(pool.imap(observe, chunks), 1):
            rows += part
            print(f"\r{done * CHUNK:,} of {len(chunks) * CHUNK:,} tasks", end="", flush=True)
    print()
    return Observations(*(np.array(column) for column in zip(*rows, strict=True)))


def fit(features: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logistic regression by Newton's method with a small penalty: the constant, then weights of features [N, F]."""
    scale = features.std(0) + 1e-9
    scaled = np.c_[np.ones(len(features)), features / scale]
    weights = np.zeros(scaled.shape[1])
    penalty = np.diag(np.r_[0.0, np.full(len(scale), 1e-3 * len(features))])
    for _ in range(50):
        predicted = 1 / (1 + np.exp(-scaled @ weights))
        hessian = (scaled * (predicted * (1 - predicted))[:, None]).T @ scaled + penalty
        weights = weights + np.linalg.solve(hessian, scaled.T @ (right - predicted) - penalty @ weights)
    fitted: NDArray[np.float64] = np.r_[weights[0], weights[1:] / scale]
    return fitted


def calibration(predicted: NDArray[np.float64], observed: NDArray[np.float64]) -> list[tuple[float, ...]]:
    """For each of BINS with tasks: its edges, the number of tasks, mean predicted and observed percent."""
    rows: list[tuple[float, ...]] = []
    for low, high in pairwise(BINS):
        inside = (predicted >= low) & (predicted < high)
        if inside.any():
            means = (100 * float(part[inside].mean()) for part in (predicted, observed))
            rows.append((low, high, int(inside.sum()), *means))
    return rows


def plot(tables: dict[str, list[tuple[float, ...]]], path: Path) -> None:
    """Save a chart of observed against predicted percent."""
    from karelsynth.charts import AMBER, BLUE, GREY, legend, line, panels, save_chart

    figure, (axes,) = panels(520, 420)
    line(axes, [40, 100], [40, 100], colour=GREY, label="perfect")
    for (kind, rows), colour in zip(tables.items(), (BLUE, AMBER), strict=True):
        line(axes, [row[3] for row in rows], [row[4] for row in rows], colour=colour, label=f"{kind} tasks")
    axes.set_xlabel("predicted probability of being right, %")
    axes.set_ylabel("right on further examples, %")
    legend(axes, loc="lower right")
    described = (
        f"{kind}: " + ", ".join(f"{row[3]:.0f} predicted, {row[4]:.0f} observed" for row in rows)
        for kind, rows in tables.items()
    )
    save_chart(figure, path, title="Calibration of the preferred answer", description="; ".join(described))


def with_weights(source: str, constant: float, weights: Sequence[float]) -> str:
    """The source of `ranking` with other values of CONSTANT and WEIGHTS."""
    from karelsynth.solve.ranking import Features

    lines = "".join(f"    {name}={weight:.3f},\n" for name, weight in zip(Features._fields, weights, strict=True))
    source, first = re.subn(r"(?s)(?<=^WEIGHTS: Final = Features\(\n).*?(?=^\)$)", lines, source, flags=re.MULTILINE)
    source, second = re.subn(r"(?<=^CONSTANT: Final = )\S+", f"{constant:.3f}", source, flags=re.MULTILINE)
    if (first, second) != (1, 1):
        raise SystemExit("ranking.py has not exactly one CONSTANT and one WEIGHTS")
    return source


def main() -> None:
    from karelsynth.solve import ranking
    from karelsynth.solve.ranking import Features

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=4000)
    parser.add_argument("--budget", type=float, default=1.0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--model", type=Path)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--load", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.load is None:
        found = collect(arguments.tasks, arguments.budget, arguments.processes, arguments.model)
    else:
        with np.load(arguments.load) as arrays:
            found = Observations(*(arrays[name] for name in Observations._fields))
    if arguments.save is not None:
        np.savez_compressed(arguments.save, **found._asdict())
    test = found.held_out
    constant, *weights = fit(found.features[~test], found.right[~test])
    print(f"CONSTANT: {constant:.3f}\nWEIGHTS:")
    for name, weight in zip(Features._fields, weights, strict=True):
        print(f"    {name}={weight:.3f},")
    if arguments.write:
        source = Path(str(ranking.__file__))
        source.write_text(with_weights(source.read_text(encoding="utf-8"), constant, weights), encoding="utf-8")
    predicted = 1 / (1 + np.exp(-constant - found.features @ weights))
    tables = {}
    print("| tasks | predicted | searches | mean predicted % | observed % |\n|---|---|---:|---:|---:|")
    for number, kind in enumerate(KINDS):
        own = test & (found.task % 2 == number)
        tables[kind] = calibration(predicted[own], found.right[own])
        for low, high, count, *means in tables[kind]:
            print(f"| {kind} | {low:.2f} to {high:.2f} | {count} | {means[0]:.1f} | {means[1]:.1f} |")
    print("| tasks | solved | preferred answer right % | network's first right % |\n|---|---:|---:|---:|")
    for number, kind in enumerate(KINDS):
        own = found.task % 2 == number
        print(f"| {kind} | {own.sum()} | {100 * found.right[own].mean():.2f} | {100 * found.network[own].mean():.2f} |")
    if arguments.plot is not None:
        plot(tables, arguments.plot)


if __name__ == "__main__":
    main()
