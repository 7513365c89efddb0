"""Fit the calibration of `solve`'s probabilities on purposeful tasks, and show how well it holds on others.

    python tools/fit_calibration.py [--tasks 300] [--seed 2000] [--budget 1]

Tasks are solved from three and from five examples; 15 further examples of each say how often the top-ranked answer is
correct. A logistic regression on every second search gives `CALIBRATION` of `karelsynth.solve.answers`; the table
compares predicted and observed frequencies on the others. Tasks whose examples start with different headings are left
out: their probabilities come from MCMC.
"""

from __future__ import annotations

import argparse
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from karelsynth import run_batch
from karelsynth.karel.formats.codes import world_from_codes
from karelsynth.karel.machine import encode_programs
from karelsynth.solve import Solver
from karelsynth.solve.answers import LOWEST_TOTAL, MOST_COUNTED, share_heading
from karelsynth.tasks.purposeful.generator import generate_purposeful

GIVEN = (3, 5)
FURTHER = 15
BINS = (0.0, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


def observations(tasks: int, seed: int, budget: float) -> NDArray[np.float64]:
    """For each solved task: total log-probability, number of examples, share of further examples that are correct."""
    batch = generate_purposeful(seed, 0, tasks, examples=max(GIVEN) + FURTHER, reserved=True)
    solver = Solver.load()
    rows = []
    for inputs, outputs in zip(batch.inputs, batch.outputs, strict=True):
        for given in GIVEN:
            if not share_heading(inputs[:given]):
                continue
            pairs = [
                (world_from_codes(before), world_from_codes(after))
                for before, after in zip(inputs[:given], outputs[:given], strict=True)
            ]
            solution = solver.solve(pairs, budget=budget)
            if solution.solved:
                program = encode_programs([solution.answers[0].program])
                runs = run_batch(
                    program, inputs[None, max(GIVEN) :], expected=outputs[None, max(GIVEN) :], keep_worlds=False
                )
                assert runs.correct is not None
                total = np.logaddexp.reduce([answer.logprob for answer in solution.answers])
                rows.append((max(total, LOWEST_TOTAL), min(given, MOST_COUNTED), runs.correct.mean()))
    return np.array(rows)


def fit(features: NDArray[np.float64], observed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logistic regression by Newton's method: weights of features [N, F], the first of which is 1."""
    weights = np.zeros(features.shape[1])
    for _ in range(50):
        predicted = 1 / (1 + np.exp(-features @ weights))
        hessian = (features * (predicted * (1 - predicted))[:, None]).T @ features
        weights = weights + np.linalg.solve(hessian + 1e-6 * np.eye(len(weights)), features.T @ (observed - predicted))
    return weights


def main() -> None:
    """Print the weights and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--seed", type=int, default=2000)
    parser.add_argument("--budget", type=float, default=1.0)
    arguments = parser.parse_args()
    rows = observations(arguments.tasks, arguments.seed, arguments.budget)
    features = np.c_[np.ones(len(rows)), rows[:, :2]]
    weights = fit(features[::2], rows[::2, 2])
    print(f"CALIBRATION: {', '.join(f'{weight:.2f}' for weight in weights)} (fitted on {len(rows[::2])} searches)")
    predicted, observed = 1 / (1 + np.exp(-features[1::2] @ weights)), rows[1::2, 2]
    print("| predicted | searches | mean predicted % | observed % |\n|---|---:|---:|---:|")
    for low, high in pairwise(BINS):
        inside = (predicted >= low) & (predicted < high)
        if inside.any():
            means = f"{100 * predicted[inside].mean():.1f} | {100 * observed[inside].mean():.1f}"
            print(f"| {low:.2f} to {high:.2f} | {inside.sum()} | {means} |")


if __name__ == "__main__":
    main()
