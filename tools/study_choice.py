"""Why tasks fail: no consistent program found, the wrong one of several chosen, or none of them generalizes.

    python tools/study_choice.py [MODEL] [--tasks 1600] [--beam 256]

For fresh tasks (a seed that nothing is trained or tested on) it collects all programs that are consistent with the five
given examples, by beam search with pruning. It prints how often there is one, how often one of them is correct on the
sixth example, and how often each rule of choice picks such a one. The last rule, a vote by the programs' results on the
held-out input, is an oracle: it shows how much any vote could gain. For each kind of failure it then compares the
reference program, and prints everything by number of control statements.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.machine import run_batch
from karelsynth.karel.syntax import syntax_machine
from karelsynth.karel.tokens import ID
from karelsynth.search.beam import beam_search, encode_for_search
from karelsynth.search.pruning import Pruning
from karelsynth.solve.solver import Solver
from karelsynth.tasks.batch import GIVEN_EXAMPLES, TaskBatch
from karelsynth.tasks.generate import generate

SEED, BATCH, LONGEST, SLACK = 77, 16, 44, 10.0
CONTROLS = [ID[name] for name in ("REPEAT", "WHILE", "IF", "IFELSE")]


@dataclass(frozen=True)
class ConsistentPrograms:
    """The programs that are consistent with a task's given examples."""

    lengths: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    right: NDArray[np.bool_]
    """Correct on the held-out example, too."""
    ends: list[bytes]
    """The world that each makes of the held-out input; empty if it crashes."""


Rule = Callable[[ConsistentPrograms], int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--tasks", type=int, default=1600)
    parser.add_argument("--beam", type=int, default=256)
    arguments = parser.parse_args()
    solver = Solver.load(arguments.model)
    solver.warm_up()
    tasks = generate(SEED, 0, arguments.tasks, reserved=True)
    found: list[ConsistentPrograms] = []
    references: list[float] = []
    for at in range(0, len(tasks), BATCH):
        part = tasks[at : at + BATCH]
        found += consistent_programs(solver, part, arguments.beam)
        references += of_references(solver, part)
        print(f"\r{at + len(part):,} of {len(tasks):,} tasks", end="", flush=True)
    print()
    print_tables(found, np.array(references), tasks)


def consistent_programs(solver: Solver, tasks: TaskBatch, beam: int) -> list[ConsistentPrograms]:
    """The consistent programs of each task."""
    inputs, outputs = (np.ascontiguousarray(part[:, :GIVEN_EXAMPLES]) for part in (tasks.inputs, tasks.outputs))
    candidates = beam_search(
        solver.model,
        encode_for_search(solver.model, inputs, outputs),
        beam=beam,
        max_length=LONGEST,
        machine=syntax_machine(max_length=LONGEST),
        pruning=Pruning(inputs, outputs, max_ticks=PAPER_TICKS),
        slack=SLACK,
    ).cpu()
    found = []
    for row in range(len(tasks)):
        filled = candidates.lengths[row].numpy() > 0
        tokens = candidates.tokens[row].numpy()[filled]
        examples = np.asarray(tasks.inputs[row]), np.asarray(tasks.outputs[row])
        runs = run_batch(tokens, examples[0], expected=examples[1], max_ticks=PAPER_TICKS)
        assert runs.correct is not None
        assert runs.worlds is not None
        fits = runs.correct[:, :GIVEN_EXAMPLES].all(1)
        ends = [
            world.tobytes() if ok else b""
            for world, ok in zip(runs.worlds[fits, GIVEN_EXAMPLES], runs.ok[fits, GIVEN_EXAMPLES], strict=True)
        ]
        own = (candidates.lengths[row].numpy()[filled][fits], candidates.logprobs[row].numpy()[filled][fits])
        found.append(ConsistentPrograms(*own, runs.correct[fits, GIVEN_EXAMPLES], ends))
    return found


def of_references(solver: Solver, tasks: TaskBatch) -> list[float]:
    """The reference programs' log-probabilities."""
    inputs, outputs = (np.ascontiguousarray(part[:, :GIVEN_EXAMPLES]) for part in (tasks.inputs, tasks.outputs))
    with torch.no_grad():
        encoded = solver.model.encode(torch.from_numpy(inputs), torch.from_numpy(outputs))
        packed = solver.model.pack(tasks.tokens, tasks.lengths, encoded=encoded)
        logprobs: list[float] = solver.model.program_logprobs(encoded, packed).tolist()
    return logprobs


def likeliest(found: ConsistentPrograms) -> int:
    return int(found.logprobs.argmax())


def shorter(per_token: float) -> Rule:
    return lambda found: int((found.logprobs - per_token * found.lengths).argmax())


def voted(found: ConsistentPrograms) -> int:
    weights = np.exp(found.logprobs - found.logprobs.max())
    sums: dict[bytes, float] = defaultdict(float)
    for end, weight in zip(found.ends, weights, strict=True):
        sums[end] += float(weight) if end else 0.0
    return found.ends.index(max(sums, key=lambda end: sums[end]))


def print_tables(found: list[ConsistentPrograms], references: NDArray[np.float64], tasks: TaskBatch) -> None:
    """Print the tables."""
    some = np.array([len(one.lengths) > 0 for one in found])
    reachable = np.array([bool(one.right.any()) for one in found])

    def picked(rule: Rule) -> NDArray[np.bool_]:
        return np.array([len(one.lengths) > 0 and bool(one.right[rule(one)]) for one in found])

    rules: dict[str, Rule] = {
        "the likeliest": likeliest,
        "1 nat a token": shorter(1),
        "2 nats a token": shorter(2),
        "the shortest": shorter(1000),
        "oracle: a vote with the held-out input": voted,
    }
    print("\n| | % of tasks |\n|---|---|")
    print(f"| some program is consistent | {100 * some.mean():.2f} |")
    print(f"| some of them is correct on all six | {100 * reachable.mean():.2f} |")
    for name, rule in rules.items():
        print(f"| correct on all six: {name} | {100 * picked(rule).mean():.2f} |")
    fine = picked(likeliest)
    best = np.array([one.logprobs.max() if len(one.logprobs) else np.nan for one in found])
    controls = np.isin(tasks.tokens, CONTROLS).sum(1)
    kinds = {
        "no consistent program": ~some,
        "all consistent programs fail on the sixth": some & ~reachable,
        "another consistent program is correct": reachable & ~fine,
        "solved": fine,
    }
    print("\n| | tasks | tokens | controls | logprob of the reference, median | less the likeliest's |")
    print("|---|---|---|---|---|---|")
    for name, chosen in kinds.items():
        if chosen.any():
            apart = references[chosen] - best[chosen]
            figures = (tasks.lengths[chosen].mean(), controls[chosen].mean(), np.median(references[chosen]))
            median = "" if np.isnan(apart).all() else f"{np.nanmedian(apart):.1f}"
            print(f"| {name} | {chosen.sum()} | {' | '.join(f'{figure:.1f}' for figure in figures)} | {median} |")
    print("\n| controls | tasks | some program is consistent | solved |\n|---|---|---|---|")
    for number in range(7):
        chosen = controls == number if number < 6 else controls >= number
        if chosen.any():
            print(f"| {number} | {chosen.sum()} | {100 * some[chosen].mean():.1f} | {100 * fine[chosen].mean():.1f} |")


if __name__ == "__main__":
    main()
