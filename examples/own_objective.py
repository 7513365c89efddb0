"""An objective and a reward of one's own. `own_objective.toml` names them and trains with them:

karelsynth train examples/own_objective.toml
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karelsynth.objectives import RLObjective, register_objective, register_reward, rl_beam

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from karelsynth.search import Outcomes


def tempered_rl_beam(
    logprobs: Tensor, rewards: Tensor, *, temperature: float = 1.0
) -> tuple[Tensor, dict[str, Tensor]]:
    """RL_beam under the beam's distribution at a temperature: a scalar loss and metrics, from two tensors [B, S]."""
    return rl_beam(logprobs / temperature, rewards)


def partial_credit(outcomes: Outcomes) -> NDArray[np.float32]:
    """1 for a program that is correct on all examples, 0.1 for one that is correct on the given ones; [B, S]."""
    return np.where(outcomes.generalizes, 1.0, np.where(outcomes.consistent, 0.1, 0.0)).astype(np.float32)


register_objective("tempered_rl_beam", RLObjective(tempered_rl_beam, candidates="beam", gradients="unequal"))
register_reward("partial_credit", partial_credit)
