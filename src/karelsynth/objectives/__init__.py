"""The training losses, one file each, named as in the paper (Bunel et al. 2018). `mml` is not in the paper.

Each loss maps the model's outputs, and rewards, to a loss and a dictionary of metrics. Losses do not know models or how
candidates were found. A loss is a mean over tasks, where the paper has a sum; the loss of `mle` is a mean over tokens.
Equations are cited by their numbers in the paper.
"""

from __future__ import annotations

from karelsynth.errors import naming_extras

with naming_extras():
    from karelsynth.objectives.mle import mle
    from karelsynth.objectives.mml import mml
    from karelsynth.objectives.reinforce import reinforce
    from karelsynth.objectives.rewards import (
        REWARDS,
        consistency,
        generalization,
        generalization_and_speed,
        register_reward,
        signed_generalization,
        signed_generalization_and_speed,
    )
    from karelsynth.objectives.rl import RL_OBJECTIVES, RLObjective, register_objective
    from karelsynth.objectives.rl_beam import rl_beam
    from karelsynth.objectives.rl_beam_div import rl_beam_div

__all__ = [
    "REWARDS",
    "RL_OBJECTIVES",
    "RLObjective",
    "consistency",
    "generalization",
    "generalization_and_speed",
    "mle",
    "mml",
    "register_objective",
    "register_reward",
    "reinforce",
    "rl_beam",
    "rl_beam_div",
    "signed_generalization",
    "signed_generalization_and_speed",
]
