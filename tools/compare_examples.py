"""How much the examples of generated tasks show, beside those of people's tasks.

    python tools/compare_examples.py [--tasks 4000] [--seed 771003] [FILE …]

For purposeful tasks, in their order and in a random one, and for the tasks of each FILE of `benchmarks/`:

- the share of tasks whose first examples show every outcome of every condition of the reference;
- the share of tasks whose reference has a part that none of the first examples needs, so that a shorter program is
  right on them.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

ROOT: Final = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tools.likelihood import read_people  # noqa: E402

from karelsynth.karel.machine import run_batch  # noqa: E402
from karelsynth.karel.tokens import ID  # noqa: E402
from karelsynth.tasks.batch import TaskBatch  # noqa: E402
from karelsynth.tasks.purposeful.generator import generate_purposeful  # noqa: E402
from karelsynth.tasks.simplify import simplify  # noqa: E402

GIVEN: Final = (1, 2, 3, 4, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=771003)
    parser.add_argument("files", nargs="*", type=Path)
    arguments = parser.parse_args()
    purposeful = generate_purposeful(arguments.seed, 0, arguments.tasks)
    sets = {"purposeful tasks": purposeful, "the same, examples in random order": shuffled(purposeful)}
    sets |= {str(path): read_people(path) for path in arguments.files}
    for title, share in ("all outcomes shown, %", all_shown), ("a part that is not needed, %", not_needed):
        print(f"| {title} | " + " | ".join(f"{given} given" for given in GIVEN) + f" |\n|---|{'---:|' * len(GIVEN)}")
        for name, tasks in sets.items():
            print(f"| {name} | " + " | ".join(f"{100 * share(tasks, given):.1f}" for given in GIVEN) + " |", flush=True)
        print()


def shuffled(tasks: TaskBatch) -> TaskBatch:
    """The same tasks with their examples in random order."""
    order = np.random.default_rng(0).random(tasks.inputs.shape[:2]).argsort(1)
    rows = np.arange(len(tasks))[:, None]
    return replace(tasks, inputs=tasks.inputs[rows, order], outputs=tasks.outputs[rows, order])


def first(tasks: TaskBatch, given: int) -> TaskBatch:
    """The same tasks with their first examples alone."""
    inputs, outputs = (np.ascontiguousarray(worlds[:, :given]) for worlds in (tasks.inputs, tasks.outputs))
    return replace(tasks, inputs=inputs, outputs=outputs)


def all_shown(tasks: TaskBatch, given: int) -> float:
    """The share of tasks whose first examples show each condition of the reference true and false."""
    inputs: NDArray[np.uint8] = first(tasks, given).inputs
    coverage = run_batch(tasks.tokens, inputs, keep_worlds=False, coverage=True).coverage
    assert coverage is not None
    conditions = np.isin(tasks.tokens, [ID["IF"], ID["IFELSE"], ID["WHILE"]]).sum(1)
    none = np.arange(coverage.shape[2]) >= conditions[:, None]
    return float(((np.bitwise_or.reduce(coverage, axis=1) == 3) | none).all(1).mean())


def not_needed(tasks: TaskBatch, given: int) -> float:
    """The share of tasks whose reference can be simplified so that it is still right on the first examples."""
    return float((simplify(first(tasks, given), reserved=True).lengths < tasks.lengths).mean())


if __name__ == "__main__":
    main()
