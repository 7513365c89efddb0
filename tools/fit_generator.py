"""Fit the generator's weights to the original's statistics; prints its progress and writes the weights.

    python tools/fit_generator.py [--rounds 40] [--tasks 200000] [--fresh]

Rejection bends every distribution, so the weights are fitted on what comes out: each round makes tasks with the
weights so far, measures them, and multiplies each weight by (wanted share / share seen) to a power that shrinks with
the rounds. Weights whose outcome is noisy (densities) or given by quantiles only (lengths) are explained where they
are updated. `--fresh` starts from plain guesses instead of the present weights.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import karelsynth.generator
from karelsynth.generator.sampler import (
    ALONE,
    BODIES,
    LONGEST_FITTED,
    ONE,
    PARENTS,
    SETTINGS,
    STATEMENTS,
    TRACE_EDGES,
    build,
    read_weights,
)  # fmt: skip
from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.machine import run_batch
from karelsynth.karel.tokens import ACTIONS
from karelsynth.karel.world import HEADINGS
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.generate import generate
from karelsynth.tasks.statistics import CLASSES, ORIGINAL, PAIR_COUNTS, Statistics, compare, compute
from karelsynth.tasks.statistics_kernel import count_programs

FILE: Final = Path(karelsynth.generator.__file__).parent / "sampler_weights.json"
SCALE: Final = 1_000_000
SHARPEST: Final = 0.45
"""No class of traces is kept less often than this, compared with those of 14 actions."""
Weights = dict[str, NDArray[np.float64]]

LOOSEN: Final = 0.93
"""The power by which the smallest probabilities grow each round: a small error for many fewer rejections."""

PULL: Final = 0.02
"""How strongly the make-up of blocks is pulled to the original's own in each round."""

WALL_LEVELS: Final = (0.02, 0.04, 0.06, 0.07, 0.08, 0.09, 0.10, 0.11, 0.12, 0.135, 0.15, 0.18, 0.22, 0.30, 0.42, 0.55)
MARKER_LEVELS: Final = (0.0, 0.02, 0.04, 0.06, 0.08, 0.09, 0.10, 0.11, 0.12, 0.14, 0.17, 0.21, 0.27, 0.38, 0.55, 0.75)


def original(group: str) -> NDArray[np.float64]:
    return np.array(list(ORIGINAL[group].values.values()))


def guess() -> Weights:
    """Where a fresh fit begins: the original's own shares."""
    actions = original("actions")
    children = np.array(
        [
            np.concatenate([row[0] * actions, row[1:]])
            for row in (original(f"children of {parent}") for parent in PARENTS)
        ]
    )
    follow = np.array(PAIR_COUNTS, float) + 0.5
    follow /= follow.sum(axis=1, keepdims=True) * children[0]  # relative to independence
    pairs = np.vstack([np.ones(len(STATEMENTS)), follow, np.ones(len(STATEMENTS))])
    bodies = [[*original("top-level statements").tolist(), 0.007, 0.004, 0.003]]
    for body in BODIES[1:]:
        shares = original(f"body length of {body}").tolist()
        rest = 1 - sum(shares)
        bodies.append(shares + [rest * part for part in (0.5, 0.25, 0.15, 0.1)] + [0] * 4)
    bare = np.where(np.array(MARKER_LEVELS) == 0, 4.0, np.exp(-np.array(MARKER_LEVELS) * 12))
    settings = {
        "bare": 0.33, "corner": 0.16, "on_edge": 0.8, "elsewhere": 1.0, "under_hero": 0.25, "pick": 0.6,
        "alike": 0.4, "short": 0.4, "seek": 0.4, "unseen": 0.5,
    }  # fmt: skip
    return {
        "children": children,
        "pairs": pairs,
        "deeper": np.array([1, 1, 0.8, 0.6, 0.5, 0]),
        "bodies": np.array(bodies),
        "conditions": original("conditions"),
        "counts": original("repeat count"),
        "rows": np.ones(15),
        "cols": np.ones(15),
        "headings": np.ones(4),
        "walls": np.exp(-((np.array(WALL_LEVELS) - 0.1) ** 2) / 0.005) + 0.01,
        "markers": np.array([bare, np.exp(-((np.array(MARKER_LEVELS) - 0.11) ** 2) / 0.005) + 0.01]),
        "piles": original("markers on a cell"),
        "densities": np.array([WALL_LEVELS, MARKER_LEVELS]),
        "keep_length": np.ones(LONGEST_FITTED + 1),
        "keep_controls": np.ones(16),
        "keep_holding": np.ones((2, len(STATEMENTS))),
        "keep_traces": np.ones(len(TRACE_EDGES) + 1),
        "keep_distinct": np.ones(7),
        "settings": np.array([settings[name] for name in SETTINGS]),
    }


def stored() -> Weights:
    """The present weights, as the fit handles them."""
    weights = {name: value for name, value in read_weights().items() if name != "settings"}
    arrays = {name: np.array(value, float) / _scale(name) for name, value in weights.items()}
    return arrays | {"settings": np.array([read_weights()["settings"][name] for name in SETTINGS]) / ONE}


def _scale(name: str) -> int:
    return ONE if name.startswith("keep") or name in ("densities", "deeper", "settings") else SCALE


def rounded(weights: Weights) -> dict[str, Any]:
    """The integers of the file: probabilities out of 65,536, and weights that sum to a million in each row."""
    result: dict[str, Any] = {}
    for name, values in weights.items():
        if name.startswith("keep"):
            values = values / values.max()
        elif name in ("children", "bodies", "markers"):
            values = values / values.sum(axis=1, keepdims=True)
        elif name == "pairs":
            values = values / values.max()
        elif _scale(name) == SCALE:
            values = values / values.sum()
        result[name] = np.rint(np.clip(values, 0, None) * _scale(name)).astype(int).tolist()
    result["settings"] = dict(zip(SETTINGS, result["settings"], strict=True))
    return result


def towards(weight: NDArray[Any], wanted: NDArray[Any], seen: NDArray[Any], power: float) -> NDArray[np.float64]:
    """Multiplied by wanted / seen, both as shares of their sums, within reason."""
    wanted, seen = np.asarray(wanted, float), np.asarray(seen, float)
    ratio = (wanted / wanted.sum() + 1e-5) / (seen / seen.sum() + 1e-5)
    return np.asarray(weight * np.clip(ratio, 0.5, 2) ** power)


def odds(wanted: float, seen: float, power: float) -> float:
    """By how much to multiply the odds of something."""
    ratio = wanted * (1 - seen) / max(1e-9, seen * (1 - wanted))
    return float(np.clip(ratio, 0.5, 2) ** power)


def change_odds(probability: float, factor: float) -> float:
    probability = min(max(probability, 1e-4), 0.9999)
    return probability * factor / (1 - probability + probability * factor)


def classes_given_levels(levels: tuple[float, ...], edges: list[float]) -> NDArray[np.float64]:
    """[level, class]: how a density comes out as share of cells in grids of all sizes; class 0 is none at all."""
    rng = np.random.default_rng(0)
    cells = rng.integers(2, 17, 20_000) * rng.integers(2, 17, 20_000)
    table = []
    for level in levels:
        share = rng.binomial(cells, level) / cells
        table.append(np.bincount(np.where(share == 0, 0, 1 + np.searchsorted(edges, share, "right")), minlength=7))
    return np.array(table) / len(cells)


def share_classes(shares: NDArray[Any], edges: list[float]) -> NDArray[np.float64]:
    return np.bincount(np.where(shares == 0, 0, 1 + np.searchsorted(edges, shares, "right")), minlength=7) / len(shares)


def update_programs(weights: Weights, batch: TaskBatch, power: float) -> None:
    """Everything that makes up programs."""
    counts = count_programs(batch.tokens)
    children = counts.children.sum(axis=0)
    first_control = len(ACTIONS)
    for row, parent in enumerate(PARENTS):
        seen = np.concatenate([[children[row, :first_control].sum()], children[row, first_control:]])
        factor = towards(np.ones(len(CLASSES)), original(f"children of {parent}"), seen, power)
        weights["children"][row, :first_control] *= factor[0]
        if parent != "run":
            weights["children"][row, :first_control] = towards(
                weights["children"][row, :first_control],
                original(f"actions in {parent}"),
                children[row, :first_control],
                power,
            )
        weights["children"][row, first_control:] *= factor[1:]
    pairs = np.array(PAIR_COUNTS, float)
    weights["pairs"][1:ALONE] = towards(weights["pairs"][1:ALONE], pairs, counts.pairs, power)
    weights["pairs"][ALONE] = towards(weights["pairs"][ALONE], original("alone in a body"), counts.alone, power)
    firsts = counts.statements.sum(axis=0) - counts.pairs.sum(axis=0)  # what follows no statement begins a block
    per_program = np.concatenate([5.1 * original("actions"), 1.46 * original("control") / original("control").sum()])
    weights["pairs"][0] = towards(
        weights["pairs"][0], np.maximum(per_program * 2500 - pairs.sum(axis=0), 1), firsts, power
    )
    for row, body in enumerate(BODIES):
        wanted = original("top-level statements" if row == 0 else f"body length of {body}")
        seen = counts.bodies[row, 1 : len(wanted) + 1] / counts.bodies[row].sum()
        factor = towards(
            np.ones(len(wanted) + 1), np.append(wanted, 1 - wanted.sum()), np.append(seen, 1 - seen.sum()), power
        )
        weights["bodies"][row, : len(wanted)] *= factor[:-1]
        weights["bodies"][row, len(wanted) :] *= factor[-1]
    # Longer blocks, kept less often, come to the same programs, only slower: stay near the original's own shares.
    start = guess()
    for name in ("bodies", "children"):
        weights[name] = weights[name] ** (1 - PULL) * start[name] ** PULL
    weights["conditions"] = towards(weights["conditions"], original("conditions"), counts.conditions, power)
    weights["counts"] = towards(weights["counts"], original("repeat count"), counts.repeats[2:11], power)
    depth, wanted = np.bincount(counts.depth, minlength=6)[:6] / len(batch), original("control depth")
    for level in range(5):
        go_on = [shares[level + 1 :].sum() / shares[level:].sum() for shares in (wanted, depth)]
        weights["deeper"][level] *= odds(go_on[0], go_on[1], power * 0.7)
    weights["deeper"] /= weights["deeper"].max()
    controls = np.bincount(counts.statements[:, first_control:].sum(axis=1), minlength=16)[:16] / len(batch)
    wanted = original("control statements")
    wanted, seen = np.append(wanted[:6], 1 - wanted[:6].sum()), np.append(controls[:6], controls[6:].sum())
    factor = towards(np.ones(7), wanted, seen, power)
    weights["keep_controls"] *= np.append(factor, np.full(9, factor[-1]))
    holding = ORIGINAL["programs that hold"].values
    for kind, name in enumerate(STATEMENTS):
        if name in holding:
            factor_in = odds(holding[name], float((counts.statements[:, kind] > 0).mean()), power * 0.4)
            weights["keep_holding"][:, kind] **= LOOSEN
            weights["keep_holding"][1, kind] *= factor_in
            weights["keep_holding"][:, kind] /= weights["keep_holding"][:, kind].max()
    # Lengths: classes between the original's quantiles, from which the shares at ties are not known exactly;
    # the factor is drawn smoothly through the middles of the classes.
    edges = np.array([8, 11, 17, 25, 34, 40, 53])
    wanted = np.array([0.143, 0.140, 0.242, 0.235, 0.145, 0.046, 0.040, 0.009])
    seen = np.bincount(np.searchsorted(edges, batch.lengths, "right"), minlength=8)
    factor = towards(np.ones(8), wanted, seen, power * 0.5)
    middles = [6.5, 9, 13.5, 20.5, 29, 36.5, 46, 58]
    weights["keep_length"] *= np.interp(np.arange(LONGEST_FITTED + 1), middles, factor)


def update_tasks(weights: Weights, batch: TaskBatch, statistics: Statistics, power: float) -> None:
    """What a task's runs are like."""
    groups = statistics.groups
    settings = dict(zip(SETTINGS, weights["settings"], strict=True))
    distinct, wanted = np.array(list(groups["distinct traces"].values())), original("distinct traces")
    numbers = np.arange(1, 7)
    settings["alike"] = change_odds(
        settings["alike"], math.exp(4 * power * float(numbers @ wanted - numbers @ distinct))
    )
    weights["keep_distinct"] **= LOOSEN
    weights["keep_distinct"][1:] = towards(weights["keep_distinct"][1:], wanted, distinct, power * 0.7)
    unseen = groups["branches"]["outcome unseen"]
    factor = odds(ORIGINAL["branches"].values["outcome unseen"], unseen, power)
    settings["seek"] = change_odds(settings["seek"], 1 / factor)
    settings["unseen"] = change_odds(settings["unseen"], factor)
    executed = groups["executed actions"]["pickMarker"]
    settings["pick"] = change_odds(
        settings["pick"], odds(ORIGINAL["executed actions"].values["pickMarker"], executed, 2 * power)
    )
    # What is executed most stands in loops.
    done = np.array([groups["executed actions"][action] for action in ACTIONS])
    for parent in ("REPEAT", "WHILE"):
        row = weights["children"][PARENTS.index(parent)]
        row[: len(ACTIONS)] = towards(row[: len(ACTIONS)], original("executed actions"), done, power)
    # Trace lengths: the shares beyond the quantiles and a slope among the short ones by keeping programs; the
    # mean also by choosing worlds.
    some = batch[:20_000]
    runs = run_batch(some.tokens, some.inputs, traces=True, keep_worlds=False, max_ticks=PAPER_TICKS)
    lengths = runs.trace_lengths
    assert lengths is not None
    middles = np.array([2.5, *TRACE_EDGES])
    weights["keep_traces"] *= np.where(middles >= 14, odds(0.105, float((lengths >= 17).mean()), 0.5 * power), 1)
    weights["keep_traces"] *= np.where(middles >= 30, odds(0.0105, float((lengths >= 43).mean()), 0.5 * power), 1)
    mean = groups["trace length, mean"]["mean"]
    weights["keep_traces"] *= np.exp(power * (7.9 - mean) * 0.6 * np.log(np.minimum(middles, 14)))
    long = weights["keep_traces"][1 + TRACE_EDGES.index(14)]
    weights["keep_traces"] = np.clip(weights["keep_traces"] / long, SHARPEST, 1.5)
    settings["short"] = min(0.95, change_odds(settings["short"], math.exp(power * (7.9 - mean))))
    weights["settings"] = np.array([settings[name] for name in SETTINGS])


def update_worlds(weights: Weights, batch: TaskBatch, statistics: Statistics, power: float) -> None:
    """What worlds are like."""
    groups = statistics.groups
    settings = dict(zip(SETTINGS, weights["settings"], strict=True))
    # "Roughly uniform" with means of 8.8 and 8.7: a slight slope.
    for name, group, mean in (("rows", "rows", 8.8), ("cols", "columns", 8.7)):
        sides = np.arange(2, 17)
        wanted = 1 + (mean - 9) / 18.67 * (sides - 9)
        weights[name] = towards(weights[name], wanted, np.array(list(groups[group].values())), power)
    weights["headings"] = towards(
        weights["headings"], original("heading"), np.array([groups["heading"][name] for name in HEADINGS]), power
    )
    weights["piles"] = towards(
        weights["piles"], original("markers on a cell"), np.array(list(groups["markers on a cell"].values())), power
    )
    hero, places = groups["hero"], ORIGINAL["hero"].values
    settings["corner"] = change_odds(settings["corner"], odds(places["bottom left"], hero["bottom left"], power))
    settings["under_hero"] = change_odds(
        settings["under_hero"], odds(places["on a marker"], hero["on a marker"], power)
    )
    edge = settings["on_edge"] / settings["elsewhere"]
    edge *= odds(places["edge, no corner"], hero["edge, no corner"], power)
    settings["on_edge"], settings["elsewhere"] = min(1.0, edge), min(1.0, 1 / edge)
    bare = ORIGINAL["worlds"].values["without walls"], groups["worlds"]["without walls"]
    settings["bare"] = change_odds(settings["bare"], odds(*bare, power))
    # Densities: a level's weight moves by the ratios of the shares it may come out as (an EM step).
    content = batch.inputs.reshape(-1, 18, 18) % 16
    cells = (content < 12).sum(axis=(1, 2))
    for name, none, seen in (
        ("walls", 0.0, (content == 11).sum(axis=(1, 2)) / cells),
        ("markers", 0.106, ((content > 0) & (content < 11)).sum(axis=(1, 2)) / cells),
    ):
        edges = list(ORIGINAL[f"share of {name}"].values.values())
        target = np.array([none, *((1 - none) * np.array([0.1, 0.15, 0.25, 0.25, 0.15, 0.1]))])
        shares = share_classes(seen, edges)
        if name == "walls":
            shares[0] = 0  # mostly tasks that are to have none
            shares /= shares.sum()
        ratio = (target + 1e-4) / (shares + 1e-4)
        if name == "walls":
            ratio[0] = 1
        table = classes_given_levels(WALL_LEVELS if name == "walls" else MARKER_LEVELS, edges)
        weights[name] = weights[name] * np.clip(table @ ratio, 0.5, 2) ** power
    weights["settings"] = np.array([settings[name] for name in SETTINGS])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--tasks", type=int, default=200_000, help="tasks made in each round")
    parser.add_argument("--fresh", action="store_true", help="start from guesses, not from the present weights")
    arguments = parser.parse_args()
    weights = guess() if arguments.fresh else stored()
    for number in range(arguments.rounds):
        began = perf_counter()
        batch = generate(number, 0, arguments.tasks, reserved=True, sampler=build(rounded(weights)))
        made = perf_counter()
        statistics = compute(batch)
        rows = [row for row in compare(statistics) if row.allowed is not None]
        worst = max(rows, key=lambda row: row.distance / (row.allowed or 1))
        print(
            f"round {number + 1}/{arguments.rounds}: {sum(not row.within for row in rows)} of {len(rows)} figures are "
            f"off; worst {worst.group} {worst.name}: {worst.value:.3f} for {worst.original:.3f}; mean trace "
            f"{statistics.groups['trace length, mean']['mean']:.2f}; {arguments.tasks / (made - began):,.0f} tasks/s, "
            f"{perf_counter() - began:.0f} s",
            flush=True,
        )
        power = 0.4 if number < arguments.rounds // 2 else 0.25
        update_programs(weights, batch, power)
        update_tasks(weights, batch, statistics, power)
        update_worlds(weights, batch, statistics, power)
        FILE.write_text(dumps(rounded(weights)), encoding="utf-8")


def dumps(weights: dict[str, Any]) -> str:
    """JSON with one row of numbers a line."""
    text = json.dumps(weights, indent=1)
    lines: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if lines and (stripped.rstrip(",").lstrip("-").isdigit() or stripped in ("]", "],")) and "{" not in lines[-1]:
            lines[-1] += ("" if stripped.startswith("]") or lines[-1].endswith("[") else " ") + stripped
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
