"""An objective and a reward of one's own; `own_objective.toml` trains with them.

    karelsynth train examples/own_objective.toml

The objective is RL_beam with a tempered distribution. The reward also counts the examples that a program gets right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from karelsynth.objectives import RLObjective, register_objective, register_reward, rl_beam

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.search import Outcomes


def tempered_rl_beam(
    logprobs: Tensor, rewards: Tensor, *, temperature: float = 1.0
) -> tuple[Tensor, dict[str, Tensor]]:
    """The expected reward [B, S] → scalar, under the beam's distribution at a temperature."""
    return rl_beam(logprobs / temperature, rewards)


def valid_or_correct(outcomes: Outcomes) -> NDArray[Any]:
    """1 for a correct program, 0.1 for one that is correct on the given examples only, otherwise 0; [B, S]."""
    return np.where(outcomes.generalizes, 1.0, np.where(outcomes.consistent, 0.1, 0.0)).astype(np.float32)


register_objective("tempered_rl_beam", RLObjective(tempered_rl_beam, "beam", "unequal"))
register_reward("partial_credit", valid_or_correct)
