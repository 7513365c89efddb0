"""Train by a recipe for as many steps as fit into a given time.

    python tools/train_for.py execution_joint --out runs/execution_joint --seconds 1500 [--first 5000] [--set KEY=VALUE]

Two machines of one kind can differ by a third in speed, so the number of steps cannot be planned exactly. The recipe's
schedule must be `trapezoid`. The first steps run at a constant rate and are timed. The run is then extended to as many
steps as the remaining time allows. The result is that of a run which was begun with so many steps: the recipe that is
saved with the model has them. A last reserve of seconds is kept for validation and saving.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from dataclasses import replace
from pathlib import Path

from karelsynth.train.loop import TrainingProgress, train
from karelsynth.train.recipe import Recipe, load_recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--seconds", type=float, required=True, help="from now to the saved model")
    parser.add_argument("--first", type=int, default=5000, help="steps after which the length is chosen")
    parser.add_argument("--reserve", type=float, default=60.0, help="seconds for a second start, validation and saving")
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    began = time.monotonic()
    recipe = load_recipe(arguments.recipe, arguments.changes)
    decay = recipe.optimizer.decay_steps
    if recipe.optimizer.schedule != "trapezoid":
        parser.error(f"{arguments.recipe}: the schedule must be `trapezoid`, not `{recipe.optimizer.schedule}`")
    first = with_steps(recipe, arguments.first + decay)
    # A process of its own, so that the second part starts with nothing compiled or allocated.
    part = multiprocessing.get_context("spawn").Process(target=first_part, args=(first, arguments.out, arguments.first))
    part.start()
    part.join()
    if part.exitcode:
        raise SystemExit(part.exitcode)
    speed = steps_per_second(arguments.out / "metrics.jsonl")
    left = arguments.seconds - arguments.reserve - (time.monotonic() - began)
    steps = max(arguments.first + decay, arguments.first + int(left * speed))
    print(f"{speed:.2f} steps a second, {left:.0f} s left: {steps:,} steps", flush=True)
    final = train(with_steps(recipe, steps), arguments.out, on_progress=report, extend=True)
    print(f"{final}: {steps:,} steps in {time.monotonic() - began:.0f} s", flush=True)


def first_part(recipe: Recipe, folder: Path, steps: int) -> None:
    train(recipe, folder, on_progress=report, stop_after=steps)


def with_steps(recipe: Recipe, steps: int) -> Recipe:
    return replace(recipe, run=replace(recipe.run, steps=steps))


def steps_per_second(metrics: Path) -> float:
    """The speed in the second half of a log, without the time of compiling."""
    found = [json.loads(line) for line in metrics.read_text().splitlines()]
    timed = [(line["step"], line["seconds"]) for line in found if "tasks_per_second" in line]
    (step, seconds), (last, end) = timed[len(timed) // 2], timed[-1]
    return float((last - step) / (end - seconds))


def report(progress: TrainingProgress) -> None:
    if progress.step % 500 == 0:
        loss = progress.metrics["loss"]
        print(
            f"{progress.step:,} of {progress.steps:,}: {progress.tasks_per_second:,.0f} tasks/s, {loss:.4f}", flush=True
        )


if __name__ == "__main__":
    main()
