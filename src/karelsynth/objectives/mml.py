"""MML, maximum marginal likelihood: make it likely that the model writes any correct program.

    L_MML(θ) = Σ_i log Σ_λ p_θ(λ | {IO_i^k}) R_i(λ)               λ ∈ BS(p_θ, S) ∪ {λ_i}

MML is not in the paper; it lies between two of the paper's objectives. It is MLE with every correct program of the beam
as a reference, so no correct program is penalised for differing from the data's. It is also the logarithm of what RL
maximises, so a task whose correct programs are unlikely has more weight than a task that is nearly solved.
Probabilities are not renormalised within the beam, as RL_beam's are: correct programs gain mass from all others.
"""

from __future__ import annotations

import torch
from torch import Tensor

from karelsynth.objectives.rl_beam import beam_metrics


def mml(logprobs: Tensor, rewards: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of S candidates for each of B tasks; a task without a correct candidate has loss 0.

    Args:
        logprobs: [B, S], log p(candidate), with gradient; −∞ in empty slots.
        rewards: [B, S], 0 or above; arbitrary in empty slots.
    """
    values = rewards.to(logprobs.dtype)
    correct = (values > 0) & (logprobs > -torch.inf)
    some = correct.any(1)
    weighted = torch.where(correct, logprobs + torch.where(correct, values, 1.0).log(), -torch.inf)
    # A task without a correct candidate sums over zeros: the gradient of logsumexp over nothing but −∞ is NaN.
    marginal = torch.where(some[:, None], weighted, 0.0).logsumexp(1)
    with torch.no_grad():
        expected = weighted.exp().sum(1)
    return -torch.where(some, marginal, 0.0).mean(), beam_metrics(logprobs, values, expected)
