"""The training losses, one file each, named as in the paper (Bunel et al. 2018); `mml` is not in it.

Each maps the model's outputs, and rewards, to a loss and a dictionary of metrics; they know nothing of models or of
how candidates were found. Losses are means over tasks, where the paper sums;
that of `mle` is one over tokens.
"""

from __future__ import annotations

from karelsynth.objectives.by_reward import BY_REWARD, ByReward
from karelsynth.objectives.mle import mle
from karelsynth.objectives.mml import mml
from karelsynth.objectives.reinforce import reinforce
from karelsynth.objectives.rewards import REWARDS, consistency, generalization, generalization_and_speed
from karelsynth.objectives.rl_beam import rl_beam
from karelsynth.objectives.rl_beam_div import rl_beam_div

__all__ = [
    "BY_REWARD",
    "REWARDS",
    "ByReward",
    "consistency",
    "generalization",
    "generalization_and_speed",
    "mle",
    "mml",
    "reinforce",
    "rl_beam",
    "rl_beam_div",
]
