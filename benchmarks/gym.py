"""How fast the Gymnasium environments are: steps a second of one core with random actions, beside MiniGrid.

    python benchmarks/gym.py [--envs 4096] [--seconds 2]

MiniGrid (`pip install minigrid`) is a published environment of the same kind: one agent on a small grid. Its rows are
left out where it is not installed. The time is that of the process on its cores, so that other processes on the machine
do not count. Actions are random; programs are written with tokens that the mask allows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np

import karelsynth.gym
from karelsynth.karel.threads import core_count

ROUNDS = 64
"""Different rows of actions."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", type=int, default=4096, help="environments at once")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row")
    arguments = parser.parse_args()
    print(f"{core_count()} cores, {arguments.envs:,} environments at once; steps a second of one core\n")
    print("| environment | one | at once |\n|---|---:|---:|")
    for name in (*karelsynth.gym.TASKS, "Example"):
        row(f"karelsynth/{name}-v0", arguments.envs, arguments.seconds)
    row("karelsynth/Synthesis-v0", arguments.envs, arguments.seconds)
    if find_spec("minigrid"):
        import minigrid  # noqa: F401 - registers its environments

        row("MiniGrid-Empty-8x8-v0", 64, arguments.seconds, "sync")
        row("MiniGrid-DoorKey-8x8-v0", 64, arguments.seconds, "sync")


def row(name: str, count: int, seconds: float, mode: str = "vector_entry_point") -> None:
    """Measure an environment alone and many at once, and print the row."""
    single = gymnasium.make(name, disable_env_checker=True)
    rng = np.random.default_rng(0)
    single.reset(seed=1)
    masked = "Synthesis" in name
    alone = rate(lambda: one_step(single, rng, masked=masked), seconds)
    many = gymnasium.make_vec(name, num_envs=count, vectorization_mode=mode)
    _, info = many.reset(seed=1)
    actions = rng.integers(0, many.single_action_space.n, (ROUNDS, count))  # type: ignore[attr-defined]
    masks = [info.get("action_mask")]

    def all_steps() -> int:
        chosen = actions[rng.integers(ROUNDS)]
        if masked:  # a token that the mask allows: the first at or after a random place
            mask = np.asarray(masks[0])
            tokens = mask.shape[1]
            following = (chosen[:, None] + np.arange(tokens)) % tokens
            chosen = (chosen + np.take_along_axis(mask, following, 1).argmax(1)) % tokens
        masks[0] = many.step(chosen)[4].get("action_mask")
        return count

    together = rate(all_steps, seconds)
    fewer = f" ({count})" if mode == "sync" else ""
    print(f"| {name}{fewer} | {alone:,.0f} | {together:,.0f} |", flush=True)


def one_step(environment: Any, rng: np.random.Generator, *, masked: bool) -> int:
    """A random step of one environment, and a new episode where it ends."""
    if masked:
        action = int(rng.choice(np.flatnonzero(environment.unwrapped.action_masks())))
    else:
        action = int(rng.integers(environment.action_space.n))
    _, _, terminated, truncated, _ = environment.step(action)
    if terminated or truncated:
        environment.reset()
    return 1


def rate(work: Callable[[], int], seconds: float) -> float:
    """Steps a second of one core, of a function that makes some steps and returns their number."""
    for _ in range(3):
        work()
    done, started = 0, time.process_time()
    while time.process_time() - started < seconds:
        done += work()
    return done / (time.process_time() - started)


if __name__ == "__main__":
    main()
