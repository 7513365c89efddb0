"""Show how the preference for short answers without needless parts changes what `solve` answers to people.

    python tools/fit_preference.py [--tasks 600] [--file benchmarks/held_out.jsonl …] [--given 2 3 5] [--budget 6] \\
        [--processes N] [--model DIR] [--save FILE]
    python tools/fit_preference.py --load FILE

Each task is searched once. Then its answers are ranked with every pair of values: L nats a token
(`ranking.NATS_PER_TOKEN`), and R nats if the answer has a part that no given example needs (`ranking.REDUNDANT`). Tasks
are purposeful ones of the generator, and people's from files (docs/solve.md). A first answer is right if it is right
on all worlds that were not given. Tasks whose examples look random are left out: their answers are chosen otherwise.

The last row of a table takes the best of the compared answers (an oracle). Do not run this on a set of tasks that is
kept for a final measurement.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from karelsynth.karel.formats.codes import world_from_codes, worlds_to_codes
from karelsynth.karel.machine import run_batch
from karelsynth.solve.ranking import MOST_COMPARED, look_random
from karelsynth.tasks.purposeful.generator import generate_purposeful

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.classroom import SLACK, TICKS, read_pairs, read_tasks
from tools.fit_ranking import solver

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED, EXAMPLES, CHUNK = 881003, 20, 20
NATS_PER_TOKEN = (0.0, 0.1, 0.2, 0.3)
REDUNDANT = (0.0, 1.0, 2.0, 3.0, 4.0)


class Observed(NamedTuple):
    """The answers to one task, the likeliest by the search's order first."""

    source: str
    given: int
    logprobs: list[float]
    lengths: list[int]
    redundant: list[bool]
    """Whether an answer has a part that no given example needs."""
    right: list[bool]
    """Whether it is right on all worlds that were not given."""


class Posed(NamedTuple):
    """A task, cell codes of its examples: the given ones come first."""

    source: str
    inputs: NDArray[np.uint8]
    outputs: NDArray[np.uint8]
    fresh: int
    """The place of the first example on which answers are scored."""
    max_ticks: int


def generated(first: int, count: int) -> Iterator[Posed]:
    """Purposeful tasks, their examples in a teacher's order."""
    batch = generate_purposeful(SEED, first, count, examples=EXAMPLES, reserved=True, threads=1)
    for inputs, outputs in zip(batch.inputs, batch.outputs, strict=True):
        yield Posed("generated", inputs, outputs, 5, SLACK * TICKS)


def posed(path: Path) -> Iterator[Posed]:
    """People's tasks of a file."""
    for task in read_tasks(path):
        given, fresh = read_pairs(task["examples"]), read_pairs(task["fresh"])
        inputs, outputs = (worlds_to_codes(side) for side in zip(*given, *fresh, strict=True))
        yield Posed(path.stem, inputs, outputs, len(given), SLACK * max(TICKS, task.get("needs_ticks", 0)))


def observe(work: tuple[list[Posed], list[int], float, Path | None]) -> list[Observed]:
    """Search each task from each number of given examples."""
    import torch

    torch.set_num_threads(1)  # each process has one core
    tasks, numbers, budget, model = work
    return [found for task in tasks for given in numbers if (found := _observe(task, given, budget, model))]


def _observe(task: Posed, given: int, budget: float, model: Path | None) -> Observed | None:
    inputs, outputs = task.inputs[:given], task.outputs[:given]
    if look_random(inputs, outputs):
        return None
    pairs = [(world_from_codes(a), world_from_codes(b)) for a, b in zip(inputs, outputs, strict=True)]
    state = solver(model).search(pairs, budget=budget)
    if state.answers is None or not state.solved:
        return Observed(task.source, given, [], [], [], [])
    answers = state.answers.reduced()[:MOST_COMPARED]
    simpler = answers.simplified(inputs, outputs, max_ticks=state.max_ticks).lengths
    before, after = (np.ascontiguousarray(worlds[task.fresh :]) for worlds in (task.inputs, task.outputs))
    runs = run_batch(answers.tokens, before, expected=after, keep_worlds=False, threads=1, max_ticks=task.max_ticks)
    assert runs.correct is not None
    redundant, right = simpler < answers.lengths, runs.correct.all(1)
    rows: list[Any] = [row.tolist() for row in (answers.logprobs, answers.lengths, redundant, right)]
    return Observed(task.source, given, *rows)


def collect(arguments: argparse.Namespace) -> list[Observed]:
    """Search all tasks in several processes, one core each."""
    os.environ["KARELSYNTH_THREADS"] = "1"
    solver(arguments.model).warm_up()  # compiles once, before the processes start
    tasks = [task for path in arguments.file for task in posed(path)]
    for first in range(0, arguments.tasks, CHUNK):
        tasks += generated(first, min(CHUNK, arguments.tasks - first))
    work = [
        (tasks[at : at + CHUNK], arguments.given, arguments.budget, arguments.model)
        for at in range(0, len(tasks), CHUNK)
    ]
    found: list[Observed] = []
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        for done, part in enumerate(pool.imap(observe, work), 1):
            found += part
            print(f"\r{min(done * CHUNK, len(tasks)):,} of {len(tasks):,} tasks", end="", flush=True)
    print()
    return found


def share_right(tasks: list[Observed], per_token: float, redundant: float) -> float:
    """The percentage of tasks whose first answer is right."""
    right = 0
    for task in tasks:
        if task.right:
            scores = np.array(task.logprobs) - per_token * np.array(task.lengths) - redundant * np.array(task.redundant)
            right += task.right[int(np.argmax(scores))]
    return 100 * right / len(tasks)


def print_tables(found: list[Observed]) -> None:
    """For each source and number of given examples: the share of tasks that are right, for each pair of values."""
    groups: dict[tuple[str, int], list[Observed]] = {}
    for task in found:
        groups.setdefault((task.source, task.given), []).append(task)
    names = sorted(groups)
    print("| L | R |" + "".join(f" {source}, {given} ({len(groups[source, given])}) |" for source, given in names))
    print("|---:|---:|" + "---:|" * len(names))
    for per_token in NATS_PER_TOKEN:
        for redundant in REDUNDANT:
            shares = [share_right(groups[name], per_token, redundant) for name in names]
            print(f"| {per_token} | {redundant:g} |" + "".join(f" {share:.1f} |" for share in shares))
    best = [100 * float(np.mean([any(task.right) for task in groups[name]])) for name in names]
    print("| best | answer |" + "".join(f" {share:.1f} |" for share in best))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=600, help="generated tasks")
    parser.add_argument("--file", type=Path, action="append", default=[], help="people's tasks")
    parser.add_argument("--given", type=int, nargs="+", default=[2, 3, 5])
    parser.add_argument("--budget", type=float, default=6.0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--model", type=Path)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--load", type=Path)
    arguments = parser.parse_args()
    if arguments.load is not None:
        found = [Observed(*row) for row in json.loads(arguments.load.read_text(encoding="utf-8"))]
    else:
        found = collect(arguments)
    if arguments.save is not None:
        arguments.save.write_text(json.dumps(found), encoding="utf-8")
    print_tables(found)


if __name__ == "__main__":
    main()
