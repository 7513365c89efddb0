"""The RL objectives: losses over the rewards of candidate programs, by the names that recipes give them.

    register_objective("my_objective", RLObjective(my_loss, "beam"))

An `RLObjective` says what the training step needs to know: the loss, where its candidates come from, and which of them
need a gradient. CONTRIBUTING.md shows how to add one without editing this package.
"""

from __future__ import annotations

import inspect
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

Gradients = Literal["all", "nonzero", "unequal"]
"""Which candidates need a gradient.

- `all`: every candidate. This is always correct.
- `nonzero`: candidates whose reward is not 0.
- `unequal`: candidates of tasks whose rewards are not all equal.

The network scores only these candidates again, which saves most of a step.
"""


@dataclass(frozen=True)
class RLObjective:
    """A loss over candidate programs and their rewards."""

    loss: Callable[..., tuple[Tensor, dict[str, Tensor]]]
    """Maps log-probabilities [B, S], with gradient, and rewards [B, S] to a loss and metrics, `reward` among them.
    Empty slots of a beam have log-probability −∞ and an arbitrary reward. Keyword-only parameters are settings."""
    candidates: Literal["rollouts", "beam"]
    """Whether candidates are sampled or found by beam search (with the reference, if `objective.add_reference`)."""
    gradients: Gradients | Callable[..., Gradients] = "all"
    """Which candidates need a gradient, or a function of `settings` that returns this."""
    settings: tuple[str, ...] = ()
    """Keys of the recipe's `[objective]` that the loss takes as keyword arguments."""

    @property
    def options(self) -> tuple[str, ...]:
        """The loss's other keyword-only parameters, which a recipe sets in `[objective.options]`."""
        parameters = inspect.signature(self.loss).parameters.values()
        keywords = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
        return tuple(name for name in keywords if name not in self.settings)

    def needs_gradient(
        self, rewards: NDArray[Any], filled: NDArray[np.bool_], settings: Mapping[str, Any]
    ) -> NDArray[np.bool_]:
        """Which candidates need a gradient, bool [B, S].

        Args:
            rewards: [B, S].
            filled: bool [B, S], the slots that hold a candidate.
            settings: the values of `self.settings`.
        """
        gradients = self.gradients(**settings) if callable(self.gradients) else self.gradients
        if gradients == "all":
            return filled
        if gradients == "nonzero":
            nonzero: NDArray[np.bool_] = filled & (rewards != 0)
            return nonzero
        lowest = np.where(filled, rewards, np.inf).min(1, initial=np.inf)
        highest = np.where(filled, rewards, -np.inf).max(1, initial=-np.inf)
        unequal: NDArray[np.bool_] = filled & (lowest < highest)[:, None]
        return unequal


def _rollout_gradients(*, baseline: bool) -> Gradients:
    return "unequal" if baseline else "nonzero"


RL_OBJECTIVES: Final[dict[str, RLObjective]] = {
    "rl": RLObjective(reinforce, "rollouts", _rollout_gradients, ("baseline",)),
    "rl_beam": RLObjective(rl_beam, "beam", "unequal"),
    "rl_beam_div": RLObjective(rl_beam_div, "beam", "unequal", ("bag",)),
    "mml": RLObjective(mml, "beam", "nonzero"),
}
"""By name. `mle`, which learns from reference programs, is not an RL objective."""


def register_objective(name: str, objective: RLObjective) -> None:
    """Make an objective available to recipes as `objective.name = NAME`."""
    if name == "mle" or RL_OBJECTIVES.get(name, objective) != objective:
        raise ValueError(f"there is already an objective called {name!r}; choose another name")
    RL_OBJECTIVES[name] = objective
