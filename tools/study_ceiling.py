"""An oracle bound: how well can any program chosen by five examples do on the sixth, under the generator's prior?

    python tools/study_ceiling.py [MODEL] [--tasks 200] [--steps 400000] [--seed 99 | --data FILE] [--beam 64] \\
        [--device cuda] [--json FILE]

For each task it runs three Markov chains over the programs that are consistent with the five given examples
(`karelsynth.posterior`):

- From the reference. The reference is a draw from the posterior, and the chain uses nothing else that the examples do
  not give. So its estimate for any fixed program is unbiased: how often the network's top-ranked program is correct on
  further examples.
- With the reference among the programs to jump to. This is an oracle: it knows the reference, weighs it by the
  posterior, and chooses a program as no solver can. How often that is correct bounds a perfect choice from above.
- From the answers of a search alone, which is what a solver knows.

It prints how often the best of all visited programs, and the best of the answers, are correct on further examples of
the chain, chosen on one half of these and scored on the other half, and on the sixth example, which no chain has seen.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.machine import run_batch
from karelsynth.karel.threads import core_count
from karelsynth.posterior import MarkovChain
from karelsynth.search.beam import beam_search, encode_for_search
from karelsynth.search.pruning import Pruning
from karelsynth.solve.answers import NATS_PER_TOKEN
from karelsynth.solve.solver import Solver
from karelsynth.tasks.batch import GIVEN_EXAMPLES, TaskBatch
from karelsynth.tasks.generate import generate
from karelsynth.tasks.named import NAMED_SETS, named_tasks
from karelsynth.tasks.sets import load_tasks
from karelsynth.tasks.simplify import simplify

BATCH, LONGEST, SLACK, MOST_VISITED, PARTICLES = 16, 48, 8.0, 200, 16


@dataclass(frozen=True)
class ChainResult:
    """The estimates of one chain for one task."""

    top_ranked: float
    """The share of further examples that the network's top-ranked program is correct on; 0 without a program."""
    best: float
    """The same for the best visited program, chosen on one half of the examples and scored on the other."""
    right: bool
    """Whether that program is correct on the sixth example."""
    answer: float
    """The same for the best of the network's answers; 0 without an answer."""
    answer_right: bool
    """Whether that answer is correct on the sixth example."""


@dataclass(frozen=True)
class TaskResult:
    """The estimates for one task; None for a chain that cannot start."""

    top_ranked_right: bool
    """Whether the network's top-ranked program is correct on the sixth example."""
    from_reference: ChainResult | None
    to_reference: ChainResult | None
    answers: ChainResult | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--steps", type=int, default=400_000, help="of each chain")
    parser.add_argument("--seed", type=int, default=99, help="of fresh tasks")
    parser.add_argument("--data", help="a set's name, or a file in the original format, instead of fresh tasks")
    parser.add_argument("--beam", type=int, default=64)
    parser.add_argument("--device", default="cpu", help="for the network")
    parser.add_argument("--json", type=Path, help="write the estimates for each task to this file")
    arguments = parser.parse_args()
    solver = Solver.load(arguments.model, device=arguments.device)
    solver.warm_up()
    if arguments.data is None:
        tasks = generate(arguments.seed, 0, arguments.tasks, reserved=True)
    elif arguments.data in NAMED_SETS:
        tasks = named_tasks(arguments.data, arguments.tasks)
    else:
        tasks = load_tasks(arguments.data, limit=arguments.tasks, on_problem=lambda line: print(f"left out: {line}"))
    simple = simplify(tasks)
    found: list[NDArray[np.uint8]] = []
    for at in range(0, len(tasks), BATCH):
        found += answers(solver, tasks[at : at + BATCH], arguments.beam)
    torch.set_num_threads(1)
    rows: list[TaskResult] = []

    def study(number: int) -> TaskResult:
        own, steps = found[number], arguments.steps
        references = np.stack([tasks.tokens[number], simple.tokens[number]])
        return TaskResult(
            bool(len(own)) and bool(right(own[:1], tasks.inputs[number, -1:], tasks.outputs[number, -1:])[0, 0]),
            run_chain(tasks, number, own, own, steps, tasks.tokens[number]),
            run_chain(tasks, number, np.concatenate([references, own]), own, steps),
            run_chain(tasks, number, own, own, steps),
        )

    with ThreadPoolExecutor(core_count()) as pool:
        for row in pool.map(study, range(len(tasks))):
            rows.append(row)
            print(f"\r{len(rows):,} of {len(tasks):,} tasks", end="", flush=True)
    print()
    print_results(rows)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows]))


def answers(solver: Solver, tasks: TaskBatch, beam: int) -> list[NDArray[np.uint8]]:
    """The programs that are consistent with each task's given examples [·, 72], the network's top-ranked first."""
    inputs, outputs = (np.ascontiguousarray(part[:, :GIVEN_EXAMPLES]) for part in (tasks.inputs, tasks.outputs))
    encoded = encode_for_search(solver.model, inputs, outputs)
    pruning = Pruning(inputs, outputs, max_ticks=PAPER_TICKS)
    candidates = beam_search(solver.model, encoded, beam=beam, max_length=LONGEST, pruning=pruning, slack=SLACK).cpu()
    found = []
    for row in range(len(tasks)):
        there = candidates.lengths[row].numpy() > 0
        tokens, lengths, logprobs = (
            getattr(candidates, name)[row].numpy()[there] for name in ("tokens", "lengths", "logprobs")
        )
        order = np.argsort(NATS_PER_TOKEN * lengths - logprobs)
        order = order[right(tokens[order], inputs[row], outputs[row]).all(1)] if len(order) else order
        programs = np.zeros((len(order), tasks.tokens.shape[1]), np.uint8)
        programs[:, :LONGEST] = tokens[order, :LONGEST]
        found.append(programs)
    return found


def right(programs: NDArray[np.uint8], inputs: NDArray[np.uint8], outputs: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether each program is correct on each example, [N, K]."""
    runs = run_batch(programs, inputs, expected=outputs, keep_worlds=False, max_ticks=PAPER_TICKS, threads=1)
    correct = runs.correct
    assert correct is not None
    return correct


def run_chain(
    tasks: TaskBatch,
    number: int,
    others: NDArray[np.uint8],
    own: NDArray[np.uint8],
    steps: int,
    start: NDArray[np.uint8] | None = None,
) -> ChainResult | None:
    """Run one chain; None if it cannot start."""
    if not len(others) and start is None:
        return None
    inputs, outputs = tasks.inputs[number], tasks.outputs[number]
    given = inputs[:GIVEN_EXAMPLES], outputs[:GIVEN_EXAMPLES]
    chain = MarkovChain(*given, others, start=start, seed=number, particles=PARTICLES)
    if not chain.started:
        return None
    chain.run(steps)
    samples, visited = chain.samples, chain.samples.visits > 0
    distinct, which = np.unique(samples.programs[visited], axis=0, return_inverse=True)
    visits = samples.visits[visited]
    distinct = distinct[np.argsort(-np.bincount(which.reshape(-1), visits))][:MOST_VISITED]
    programs = np.zeros((len(own) + len(distinct), distinct.shape[1]), np.uint8)
    programs[: len(own), : own.shape[1]], programs[len(own) :] = own, distinct
    agree = right(programs, samples.inputs[visited], samples.outputs[visited])
    halves = [np.where(np.arange(len(visits)) % 2 == half, visits, 0) for half in range(2)]
    if not all(half.sum() for half in halves):
        halves = [visits, visits]
    last = right(programs, inputs[GIVEN_EXAMPLES:], outputs[GIVEN_EXAMPLES:])[:, 0]

    def shares(agree: NDArray[np.bool_], visits: NDArray[np.int64]) -> NDArray[np.float64]:
        of_all: NDArray[np.float64] = agree @ visits / max(1, visits.sum())
        return of_all

    def best(agree: NDArray[np.bool_]) -> float:
        one, other = (shares(agree, half) for half in halves)
        return float((one[other.argmax()] + other[one.argmax()]) / 2)

    top_ranked, answer, answer_right = 0.0, 0.0, False
    if len(own):
        of_own = agree[: len(own)]
        top_ranked, answer = float(shares(agree[:1], visits)[0]), best(of_own)
        answer_right = bool(last[shares(of_own, visits).argmax()])
    return ChainResult(top_ranked, best(agree), bool(last[shares(agree, visits).argmax()]), answer, answer_right)


def print_results(rows: list[TaskResult]) -> None:
    def share(values: list[float]) -> str:
        return f"{100 * np.mean(values):.2f} ± {196 * np.std(values) / np.sqrt(len(values)):.2f}"

    def values(place: str, value: str) -> list[float]:
        # Without a chain, only the result on the sixth example is known.
        chains = [(row.top_ranked_right, getattr(row, place)) for row in rows]
        return [float(first if walk is None else getattr(walk, value)) for first, walk in chains]

    def count(place: str) -> str:
        return f"{sum(getattr(row, place) is not None for row in rows):,} of {len(rows):,} tasks"

    sixth = [float(row.top_ranked_right) for row in rows]
    print(f"the network's top-ranked program is correct on the sixth example: {share(sixth)} %")
    further = share(values("from_reference", "top_ranked"))
    print(f"and on further ones by chains from the reference ({count('from_reference')}): {further} %")
    for name, place in (("that may jump to the reference", "to_reference"), ("from the answers", "answers")):
        print(f"chains {name} ({count(place)}):")
        for what, value in (
            ("the top-ranked program is correct on further examples", "top_ranked"),
            ("the best of the network's answers", "answer"),
            ("that answer, on the sixth example", "answer_right"),
            ("the best visited program", "best"),
            ("that program, on the sixth example", "right"),
        ):
            print(f"  {what}: {share(values(place, value))} %")


if __name__ == "__main__":
    main()
