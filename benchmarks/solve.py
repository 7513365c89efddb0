"""How long `solve` takes for a task, and what more time brings.

    python benchmarks/solve.py [--tasks 1000] [--data FILE] [--budget 10] [--no-repair] [--model DIR] [--json FILE] \\
        [--plot FILE]
    python benchmarks/solve.py --steps [--tasks 2500] [--beam 16 64 256 1024] [--model DIR] [--device cuda]

The first form solves tasks one by one, as a person would have it, with some budget, and prints the median and 95th
percentile of seconds, all of them, unsolved tasks too. Then, for smaller budgets, how many tasks were solved by then
and are right on the held-out example too. By default the tasks are those of `test`; FILE is one in the original format.

The second form measures what each step of the search brings: the plain beam, programs ranked by how many examples they
are right on, prefixes dropped that must crash, prefixes merged that have the same futures.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from karelsynth.evaluate import environment, interval
from karelsynth.files import write_atomically
from karelsynth.karel.draw.scene import THEMES, Circle, Line, Scene, Shape, ShapeGroup, Text
from karelsynth.karel.draw.svg import scene_svg
from karelsynth.karel.formats.codes import world_from_codes
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.search.beam import beam_search, encode_for_search
from karelsynth.search.candidates import check
from karelsynth.search.pruning import Pruning
from karelsynth.solve.solver import Solver
from karelsynth.tasks.batch import GIVEN_EXAMPLES, TaskBatch
from karelsynth.tasks.sets import NAMED_SETS, load_tasks, named_tasks

BUDGETS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
STEPS: dict[str, dict[str, bool] | None] = {
    "plain beam": None,
    "prefers what is right": {"crashes": False, "merging": False},
    "and drops what must crash": {"merging": False},
    "and merges equal futures": {},
}


def read(data: str, count: int) -> TaskBatch:
    if data in NAMED_SETS:
        return named_tasks(data, count)
    return load_tasks(data, limit=count, on_problem=lambda problem: print(f"left out: {problem}"))


def one_by_one(solver: Solver, tasks: TaskBatch, budget: float) -> dict[str, NDArray[Any]]:
    """Seconds, whether it was solved, and whether the answer is right on all examples, of each task."""
    seconds, solved, right = [], [], []
    for number in range(len(tasks)):
        pairs = [
            (world_from_codes(before), world_from_codes(after))
            for before, after in zip(
                tasks.inputs[number, :GIVEN_EXAMPLES], tasks.outputs[number, :GIVEN_EXAMPLES], strict=True
            )
        ]
        start = time.perf_counter()
        solution = solver.solve(pairs, budget=budget)
        seconds.append(time.perf_counter() - start)
        solved.append(solution.solved)
        right.append(False)
        if solution.solved and solution.program is not None:
            runs = run_batch(
                encode_programs([solution.program]),
                tasks.inputs[number],
                expected=tasks.outputs[number],
                keep_worlds=False,
            )
            assert runs.correct is not None
            right[-1] = bool(runs.correct.all())
        if (number + 1) % 100 == 0:
            print(f"{number + 1} tasks, {np.mean(solved):.2%} solved, {np.mean(seconds):.3f} s each", flush=True)
    return {"seconds": np.array(seconds), "solved": np.array(solved), "right": np.array(right)}


def table(found: dict[str, NDArray[Any]], budget: float) -> list[dict[str, Any]]:
    rows = []
    count = len(found["seconds"])
    for limit in (*(limit for limit in BUDGETS if limit < budget), budget):
        # At the budget that was given, whatever came back counts: the deadline is looked at between two steps.
        in_time = found["seconds"] <= (limit if limit < budget else np.inf)
        solved, right = found["solved"] & in_time, found["right"] & in_time
        rows.append(
            {
                "budget": limit,
                "solved": round(100 * float(solved.mean()), 2),
                "filtered_generalization": round(100 * float(right.mean()), 2),
                "interval": interval(int(right.sum()), count),
            }
        )
    return rows


def plot(rows: list[dict[str, Any]], machine: str) -> Scene:
    """Shares against budgets, the latter on a logarithmic axis."""
    theme = THEMES["light"]
    left, right, top, bottom = 60.0, 500.0, 30.0, 300.0
    low = 5 * np.floor(min(row["filtered_generalization"] for row in rows) / 5)
    span = np.log(rows[-1]["budget"] / rows[0]["budget"])

    def place(budget: float, share: float) -> tuple[float, float]:
        across = np.log(budget / rows[0]["budget"]) / span
        return float(left + across * (right - left)), float(bottom - (share - low) / (100 - low) * (bottom - top))

    shapes: list[Shape] = []
    for share in np.arange(low, 100.1, 5):
        _, y = place(rows[0]["budget"], float(share))
        shapes.append(Line(left, y, right, y, 1, theme.grid))
        shapes.append(Text(left - 26, y, f"{share:.0f} %", 11, theme.muted, bold=False))
    shapes += [Text(place(row["budget"], 0)[0], bottom + 20, f"{row['budget']:g} s", 11, theme.muted) for row in rows]
    for name, colour, label in (
        ("solved", theme.hero, "right on the five given"),
        ("filtered_generalization", theme.marker, "right on the sixth too"),
    ):
        points = [place(row["budget"], row[name]) for row in rows]
        shapes += [Line(*a, *b, 2.5, colour) for a, b in pairwise(points)]
        shapes += [Circle(*point, 4, colour) for point in points]
        shapes.append(Text(right + 80, points[-1][1], label, 11, theme.ink, bold=False))
    shapes.append(Text((left + right) / 2, bottom + 46, f"time budget a task, {machine}", 12, theme.ink))
    told = "; ".join(f"{row['budget']:g} s: {row['solved']} and {row['filtered_generalization']} %" for row in rows)
    return Scene(
        660, 366, theme.canvas, (ShapeGroup("curve", tuple(shapes)),), "Share of tasks solved against time", told
    )


def steps(solver: Solver, tasks: TaskBatch, beams: list[int]) -> None:
    print("| beam | search | consistent | filtered | ms a task |\n|---:|---|---:|---:|---:|")
    given = [np.ascontiguousarray(worlds[:, :GIVEN_EXAMPLES]) for worlds in (tasks.inputs, tasks.outputs)]
    size = 512 if solver.model.device.type == "cuda" else 16
    for beam in beams:
        at_once = max(1, min(size, size * 64 // beam))
        for name, settings in STEPS.items():
            consistent, right = 0, 0
            start = time.perf_counter()
            for at in range(0, len(tasks), at_once):
                inputs, outputs = (worlds[at : at + at_once] for worlds in given)
                pruning = None if settings is None else Pruning(inputs, outputs, **settings)
                encoded = encode_for_search(solver.model, inputs, outputs)
                found = beam_search(solver.model, encoded, beam=beam, pruning=pruning, slack=0.0).cpu()
                outcome = check(found, tasks.inputs[at : at + at_once], tasks.outputs[at : at + at_once])
                first = outcome.consistent.argmax(1)
                consistent += int(outcome.consistent.any(1).sum())
                right += int((outcome.generalizes & outcome.consistent)[np.arange(len(first)), first].sum())
            spent = 1000 * (time.perf_counter() - start) / len(tasks)
            shares = f"{100 * consistent / len(tasks):.2f} | {100 * right / len(tasks):.2f}"
            print(f"| {beam} | {name} | {shares} | {spent:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--data", default="test")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--budget", type=float, default=10.0)
    parser.add_argument("--no-repair", action="store_true", help="beam search alone")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--beam", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    solver = Solver.load(arguments.model, device=arguments.device)
    if arguments.no_repair:
        solver.rounds = tuple(one._replace(repair=0.0) for one in solver.rounds)
    tasks = read(arguments.data, arguments.tasks)
    if arguments.steps:
        steps(solver, tasks, arguments.beam)
        return
    one_by_one(solver, tasks[:3], 1.0)  # compiled code is loaded, memory is warm
    found = one_by_one(solver, tasks, arguments.budget)
    rows = table(found, arguments.budget)
    median, p95, longest = (float(np.quantile(found["seconds"], share)) for share in (0.5, 0.95, 1.0))
    print(f"\n{len(tasks):,} tasks of {arguments.data}, one by one, {torch.get_num_threads()} threads")
    print(f"budget {arguments.budget:g} s: median {median:.3f} s, 95th percentile {p95:.3f}, longest {longest:.3f}\n")
    print("| within s | solved % | filtered top-1 % (95 %) |\n|---:|---:|---:|")
    for row in rows:
        low, high = row["interval"]
        print(f"| {row['budget']:g} | {row['solved']:.2f} | {row['filtered_generalization']:.2f} ({low} to {high}) |")
    if arguments.json:
        seconds = {"budget": arguments.budget, "median": median, "p95": p95, "longest": longest}
        told = {"tasks": len(tasks), "data": arguments.data, "seconds": seconds, "rows": rows}
        report = {**told, **environment(solver.model.device)}
        write_atomically(arguments.json, json.dumps(report, indent=1).encode())
    if arguments.plot:
        write_atomically(arguments.plot, scene_svg(plot(rows, environment(solver.model.device)["device"])).encode())


if __name__ == "__main__":
    main()
