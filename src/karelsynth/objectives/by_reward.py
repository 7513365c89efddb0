"""What there is to know of each objective that learns by reward: its loss, where its candidates come from, and which of
them it learns from. The training step asks here, so an objective is added here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from karelsynth.objectives.mml import mml
from karelsynth.objectives.reinforce import reinforce
from karelsynth.objectives.rl_beam import rl_beam
from karelsynth.objectives.rl_beam_div import rl_beam_div

Learns = Literal["all", "earning", "differing"]
"""Which candidates have a gradient: all of them; those whose reward is not 0; or those of tasks whose candidates do not
all earn the same. Others are not scored, which saves most of a step. `all` is always right."""


@dataclass(frozen=True)
class ByReward:
    """An objective."""

    loss: Callable[..., tuple[Tensor, dict[str, Tensor]]]
    """From log-probabilities [B, S], with gradient, and rewards [B, S] to the loss and figures to log. Of a beam, empty
    slots have −∞ and whatever reward."""
    candidates: Literal["rollouts", "beam"]
    """Whether programs are sampled, or found by beam search (with the reference, if `add_reference`)."""
    learns: Learns | Callable[..., Learns] = "all"
    """The same, or a function that tells it from `settings`."""
    settings: tuple[str, ...] = ()
    """Settings of the recipe's `[objective]` that are passed to the loss by name."""

    def learns_from(
        self, rewards: NDArray[Any], filled: NDArray[np.bool_], settings: Mapping[str, Any]
    ) -> NDArray[np.bool_]:
        """Which candidates must be scored, bool [B, S]; `filled` are those that there are."""
        learns = self.learns(**settings) if callable(self.learns) else self.learns
        if learns == "all":
            return filled
        if learns == "earning":
            earning: NDArray[np.bool_] = filled & (rewards != 0)
            return earning
        lowest = np.where(filled, rewards, np.inf).min(1, initial=np.inf)
        highest = np.where(filled, rewards, -np.inf).max(1, initial=-np.inf)
        differing: NDArray[np.bool_] = filled & (lowest < highest)[:, None]
        return differing


def _of_rollouts(*, baseline: bool) -> Learns:
    return "differing" if baseline else "earning"


BY_REWARD: Final[dict[str, ByReward]] = {
    "rl": ByReward(reinforce, "rollouts", _of_rollouts, ("baseline",)),
    "rl_beam": ByReward(rl_beam, "beam", "differing"),
    "rl_beam_div": ByReward(rl_beam_div, "beam", "differing", ("bag",)),
    "mml": ByReward(mml, "beam", "earning"),
}
"""By the name in recipes. Beside them there is `mle`, which learns from references."""
