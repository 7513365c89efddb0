"""How likely models make the reference programs of tasks that they have not seen.

    python tools/likelihood.py shipped runs/other/final [--tasks 600] [--seed 771001] [--given 5 3] \\
        [--file benchmarks/held_out.jsonl …] [--device cuda]

For each model and each kind of task: the mean and the median of the references' negative log-likelihood in nats, and
the share of references above 10 nats, which a search hardly finds. Values above 50 nats count as 50 in the mean. Random
tasks have simplified references, as in training. A file holds people's tasks with references (docs/solve.md).
Differences between models on the same tasks are far steadier than the values. They decide which weights are tried,
before any benchmark is run. Likelier references alone do not mean that more answers are right (docs/log.md).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from karelsynth.karel.machine import encode_programs
from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.generate import generate
from karelsynth.tasks.purposeful.generator import generate_purposeful
from karelsynth.tasks.simplify import simplify
from karelsynth.tasks.task import Example, Task

AT_ONCE = 50
MOST = 50.0
"""Nats that one task counts at most."""
HARD = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", help="folders, or `shipped`")
    parser.add_argument("--tasks", type=int, default=600, help="generated tasks of each kind")
    parser.add_argument("--seed", type=int, default=771001)
    parser.add_argument("--given", type=int, nargs="+", default=[5, 3], help="examples that are given, the first")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--file", type=Path, action="append", default=[], help="people's tasks with references")
    arguments = parser.parse_args()
    sets = {
        "random": simplify(generate(arguments.seed, 0, arguments.tasks, reserved=True)),
        "purposeful": generate_purposeful(arguments.seed, 0, arguments.tasks, reserved=True),
        **{path.stem: read_people(path) for path in arguments.file},
    }
    print("| model | tasks | given | mean | median | above 10 nats, % |\n|---|---|---:|---:|---:|---:|")
    for folder in arguments.models:
        model = Synthesizer.from_pretrained(folder, arguments.device)
        for name, tasks in sets.items():
            for given in arguments.given:
                cost = negative_log_likelihoods(model, tasks, given)
                print(
                    f"| {folder} | {name} | {given} | {np.minimum(cost, MOST).mean():.3f} | {np.median(cost):.3f} "
                    f"| {100 * (cost > HARD).mean():.1f} |",
                    flush=True,
                )


def negative_log_likelihoods(model: Synthesizer, tasks: TaskBatch, given: int) -> NDArray[np.float32]:
    """Of each task's reference, given its first examples, in nats."""
    costs = []
    for first in range(0, len(tasks), AT_ONCE):
        part = tasks[first : first + AT_ONCE]
        inputs, outputs = (
            torch.from_numpy(np.ascontiguousarray(worlds[:, :given])).to(model.device)
            for worlds in (part.inputs, part.outputs)
        )
        with torch.no_grad():
            encoded = model.encode(inputs, outputs)
            packed = model.pack(part.tokens, part.lengths, encoded=encoded)
            costs.append(-model.program_logprobs(encoded, packed).cpu().numpy())
    return np.concatenate(costs)


def read_people(path: Path) -> TaskBatch:
    """The tasks of a file of `benchmarks/`, with the reference of each, all with as many examples as the first."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    programs = encode_programs([Program.parse(row["reference"]) for row in rows])
    worlds = [
        Task(
            tuple(Example(World.parse(pair["input"]), World.parse(pair["output"])) for pair in row["examples"])
        ).codes()
        for row in rows
    ]
    inputs, outputs = (np.stack(side) for side in zip(*worlds, strict=True))
    lengths = (programs != 0).sum(1).astype(np.uint8)
    return TaskBatch(programs, lengths, inputs, outputs, np.ones(len(rows), np.bool_))


if __name__ == "__main__":
    main()
