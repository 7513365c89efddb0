"""Rewards of candidate programs. Each reward maps the outcomes of S candidates for B tasks to [B, S].

register_reward("my_reward", my_reward)  # recipes name it: objective.reward = "my_reward"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.tasks.batch import Outcomes


def generalization(outcomes: Outcomes) -> NDArray[np.bool_]:
    """Whether a candidate is correct on all examples, given and held out: the paper's reward."""
    return outcomes.generalizes


def consistency(outcomes: Outcomes) -> NDArray[np.bool_]:
    """Whether a candidate is correct on the given examples."""
    return outcomes.consistent


def generalization_and_speed(outcomes: Outcomes) -> NDArray[np.float32]:
    """`generalization` plus one over the number of ticks: the reward of the paper's RL_beam_div_opt.

    Ticks are the mean over all examples. Incorrect programs get no reward for speed.
    """
    return np.where(outcomes.generalizes, 1 + 1 / np.maximum(outcomes.ticks, 1), 0).astype(np.float32)


def signed_generalization(outcomes: Outcomes) -> NDArray[np.float32]:
    """1 for a candidate that is correct on all examples and −1 for any other: the reward in the authors' code.

    For the beam objectives it only scales the gradient. REINFORCE without a baseline also learns from wrong samples.
    """
    return np.where(outcomes.generalizes, 1, -1).astype(np.float32)


def signed_generalization_and_speed(outcomes: Outcomes) -> NDArray[np.float32]:
    """The performance reward in the authors' code: −1 if incorrect, else the reference's time over the candidate's.

    The mean over all examples of ticks(reference) / (1 + ticks(candidate)). The authors count actions, we count ticks.
    """
    if outcomes.reference_ticks is None or outcomes.example_ticks is None:
        raise ValueError("this reward needs the ticks of the reference programs: `check(…, reference=…)`")
    ratios = outcomes.reference_ticks[:, None] / (1 + outcomes.example_ticks.astype(np.float32))
    return np.where(outcomes.generalizes, ratios.mean(2), -1).astype(np.float32)


Reward = Callable[["Outcomes"], "NDArray[Any]"]
REWARDS: Final[dict[str, Reward]] = {
    reward.__name__: reward
    for reward in (
        generalization,
        consistency,
        generalization_and_speed,
        signed_generalization,
        signed_generalization_and_speed,
    )
}
"""By name."""


def register_reward(name: str, reward: Reward) -> None:
    """Make a reward available to recipes as `objective.reward = NAME`."""
    if REWARDS.get(name, reward) != reward:
        raise ValueError(f"there is already a reward called {name!r}; choose another name")
    REWARDS[name] = reward
