"""Rewards: what running candidates is worth. Each gives [B, S] for the outcomes of S candidates for B tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.search.candidates import Outcomes


def generalization(outcomes: Outcomes) -> NDArray[np.bool_]:
    """Right on all examples, given and held out: the paper's reward."""
    return outcomes.generalizes


def consistency(outcomes: Outcomes) -> NDArray[np.bool_]:
    """Right on the given examples."""
    return outcomes.consistent


def generalization_and_speed(outcomes: Outcomes) -> NDArray[np.float32]:
    """`generalization`, plus one over the number of ticks for programs that do: the paper's RL_beam_div_opt.

    Ticks are the mean over all examples. Wrong programs get nothing for being quick.
    """
    return np.where(outcomes.generalizes, 1 + 1 / np.maximum(outcomes.ticks, 1), 0).astype(np.float32)


REWARDS: Final[dict[str, Callable[[Outcomes], NDArray[Any]]]] = {
    reward.__name__: reward for reward in (generalization, consistency, generalization_and_speed)
}
"""By name, for recipes."""
