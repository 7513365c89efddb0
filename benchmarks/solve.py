"""Speed of `solve`, and its scores by time budget.

    python benchmarks/solve.py [--tasks 1000] [--data FILE] [--budget 10] [--max-ticks 200] [--no-repair] \\
        [--model DIR] [--json FILE] [--plot FILE]
    python benchmarks/solve.py --many [--tasks 2500] [--budgets 0.01 0.05 0.25] [--device cuda] [--alone 50]
    python benchmarks/solve.py --steps [--tasks 2500] [--beam 16 64 256 1024] [--model DIR] [--device cuda]

The first form solves tasks one by one with a budget. It prints mean, median and 95th percentile of seconds, unsolved
tasks included. For smaller budgets it prints the share of tasks that were solved in that time, and of those that are
correct on the held-out example, too. The default tasks are those of `test`; FILE is one in the original format.
Programs may take the paper's 200 ticks, or `--max-ticks`.

The second form solves all tasks by one call, for several budgets a task, and some of them one by one. It prints tasks
per second, the share of tasks with an answer, and of those whose answer is right on the held-out example, too.

The third form is an ablation of the search: the plain beam; programs ranked by the number of correct examples;
prefixes dropped that must crash; equivalent prefixes merged.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from karelsynth.charts import AMBER, BLUE, legend, line, panels, percent_axis, save_chart
from karelsynth.evaluate import environment, interval
from karelsynth.files import write_atomically
from karelsynth.karel.formats.codes import world_from_codes
from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.search.beam import beam_search, encode_for_search
from karelsynth.search.candidates import check
from karelsynth.search.pruning import Pruning
from karelsynth.solve.solver import Solver
from karelsynth.tasks.batch import GIVEN_EXAMPLES, TaskBatch
from karelsynth.tasks.sets import load_tasks

BUDGETS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
STEPS: dict[str, dict[str, bool] | None] = {
    "plain beam": None,
    "ranks by examples": {"crashes": False, "merging": False},
    "and drops what must fail": {"merging": False},
    "and merges equivalent prefixes": {},
}


def read(data: str, count: int) -> TaskBatch:
    return load_tasks(data, limit=count, on_problem=lambda problem: print(f"left out: {problem}"))


def one_by_one(solver: Solver, tasks: TaskBatch, budget: float, max_ticks: int) -> dict[str, NDArray[Any]]:
    """For each task: seconds, whether it was solved, and whether the answer is correct on all examples."""
    seconds, solved, right = [], [], []
    for number in range(len(tasks)):
        pairs = [
            (world_from_codes(before), world_from_codes(after))
            for before, after in zip(
                tasks.inputs[number, :GIVEN_EXAMPLES], tasks.outputs[number, :GIVEN_EXAMPLES], strict=True
            )
        ]
        start = time.perf_counter()
        solution = solver.solve(pairs, budget=budget, max_ticks=max_ticks)
        seconds.append(time.perf_counter() - start)
        solved.append(solution.solved)
        right.append(False)
        if solution.solved and solution.program is not None:
            runs = run_batch(
                encode_programs([solution.program]),
                tasks.inputs[number],
                expected=tasks.outputs[number],
                keep_worlds=False,
                max_ticks=max_ticks,
            )
            assert runs.correct is not None
            right[-1] = bool(runs.correct.all())
        if (number + 1) % 100 == 0:
            print(f"{number + 1} tasks, {np.mean(solved):.2%} solved, {np.mean(seconds):.3f} s each", flush=True)
    return {"seconds": np.array(seconds), "solved": np.array(solved), "right": np.array(right)}


def many(solver: Solver, tasks: TaskBatch, budgets: list[float], alone: int, max_ticks: int) -> None:
    """Solve all tasks by one call, for each budget, and then some one by one."""
    print("| how | budget, s | tasks | tasks/s | answered % | right % |\n|---|---:|---:|---:|---:|---:|")
    given = tasks.examples(GIVEN_EXAMPLES)
    posed = [given[number] for number in range(len(tasks))]
    solver.solve_many(posed[:64], budget=min(budgets), max_ticks=max_ticks)  # compiles, warms memory up
    for budget in budgets:
        start = time.perf_counter()
        solutions = solver.solve_many(posed, budget=budget, max_ticks=max_ticks)
        rate = len(tasks) / (time.perf_counter() - start)
        right = np.zeros(len(tasks), np.bool_)
        there = [number for number, solution in enumerate(solutions) if solution.solved]
        programs = encode_programs([solutions[number].program for number in there])  # type: ignore[misc]
        runs = run_batch(
            programs, tasks.inputs[there], expected=tasks.outputs[there], keep_worlds=False, max_ticks=max_ticks
        )
        assert runs.correct is not None
        right[there] = runs.correct.all(1)
        shares = f"{100 * len(there) / len(tasks):.2f} | {100 * right.mean():.2f}"
        print(f"| all by one call | {budget:g} | {len(tasks):,} | {rate:,.1f} | {shares} |", flush=True)
    if alone:
        found = one_by_one(solver, tasks[:alone], 1.0, max_ticks)
        shares = f"{100 * found['solved'].mean():.2f} | {100 * found['right'].mean():.2f}"
        print(f"| one by one | 1 | {alone:,} | {1 / found['seconds'].mean():,.1f} | {shares} |", flush=True)


def table(found: dict[str, NDArray[Any]], budget: float) -> list[dict[str, Any]]:
    rows = []
    count = len(found["seconds"])
    for limit in (*(limit for limit in BUDGETS if limit < budget), budget):
        # At the full budget every solution counts: the solver checks its deadline between two steps only.
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


def plot(rows: list[dict[str, Any]], machine: str, path: Path) -> None:
    """Save a chart of both shares against the budget, on a logarithmic axis."""
    figure, (axes,) = panels(660, 366)
    budgets = [row["budget"] for row in rows]
    for name, colour, label in (
        ("solved", BLUE, "consistent with the five given examples"),
        ("filtered_generalization", AMBER, "correct on the sixth example, too"),
    ):
        line(axes, budgets, [row[name] for row in rows], colour=colour, label=label)
    axes.set_xscale("log")
    axes.set_xticks(budgets, [f"{budget:g} s" for budget in budgets])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(f"time budget per task, {machine}")
    percent_axis(axes, 5 * (min(row["filtered_generalization"] for row in rows) // 5))
    legend(axes, loc="lower right")
    shares = (f"{row['budget']:g} s: {row['solved']} and {row['filtered_generalization']} %" for row in rows)
    save_chart(figure, path, title="Share of tasks solved against time", description="; ".join(shares))


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
                pruning = None if settings is None else Pruning(inputs, outputs, max_ticks=PAPER_TICKS, **settings)
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
    parser.add_argument("--max-ticks", type=int, default=PAPER_TICKS)
    parser.add_argument("--no-repair", action="store_true", help="beam search alone")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--budgets", type=float, nargs="+", default=[0.01, 0.05, 0.25])
    parser.add_argument("--alone", type=int, default=50)
    parser.add_argument("--beam", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    solver = Solver.load(arguments.model, device=arguments.device)
    if arguments.no_repair:
        solver.rounds = tuple(one._replace(repair=0.0) for one in solver.rounds)
    tasks = read(arguments.data, arguments.tasks)
    if arguments.many:
        many(solver, tasks, arguments.budgets, arguments.alone, arguments.max_ticks)
        return
    if arguments.steps:
        steps(solver, tasks, arguments.beam)
        return
    one_by_one(solver, tasks[:3], 1.0, arguments.max_ticks)  # loads compiled code, warms memory up
    found = one_by_one(solver, tasks, arguments.budget, arguments.max_ticks)
    rows = table(found, arguments.budget)
    median, p95, longest = (float(np.quantile(found["seconds"], share)) for share in (0.5, 0.95, 1.0))
    print(f"\n{len(tasks):,} tasks of {arguments.data}, one by one, {torch.get_num_threads()} threads")
    mean = float(np.mean(found["seconds"]))
    print(
        f"budget {arguments.budget:g} s: mean {mean:.3f} s, median {median:.3f}, 95th percentile {p95:.3f}, "
        f"longest {longest:.3f}\n"
    )
    print("| within s | solved % | filtered top-1 % (95 %) |\n|---:|---:|---:|")
    for row in rows:
        low, high = row["interval"]
        print(f"| {row['budget']:g} | {row['solved']:.2f} | {row['filtered_generalization']:.2f} ({low} to {high}) |")
    if arguments.json:
        seconds = {"budget": arguments.budget, "mean": mean, "median": median, "p95": p95, "longest": longest}
        what = {"tasks": len(tasks), "data": arguments.data, "seconds": seconds, "rows": rows}
        report = {**what, **environment(solver.model.device)}
        write_atomically(arguments.json, json.dumps(report, indent=1).encode())
    if arguments.plot:
        plot(rows, environment(solver.model.device)["device"], arguments.plot)


if __name__ == "__main__":
    main()
