"""MML, maximum marginal likelihood: make it likely that some right program is written, whichever it is.

    L_MML(θ) = Σ_i log Σ_λ p_θ(λ | {IO_i^k}) R_i(λ)               λ ∈ BS(p_θ, S) ∪ {λ_i}

Not in the paper, but between two of its objectives. It is MLE whose reference is every right program that beam search
finds, so that none of them is punished for not being the one in the data; and it is the logarithm of what RL maximises,
so that a task whose right programs are unlikely counts more, not less, than one that is nearly solved. Its
probabilities are not made to add up to 1 within the beam, as RL_beam's are: right programs must take from all others.
"""

from __future__ import annotations

import torch
from torch import Tensor

from karelsynth.objectives.rl_beam import beam_metrics


def mml(logprobs: Tensor, rewards: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of S candidates for each of B tasks; tasks with nothing right among them have none.

    Args:
        logprobs: [B, S], log p(candidate), with gradient; −∞ in empty slots.
        rewards: [B, S], 0 or above; whatever in empty slots.
    """
    values = rewards.to(logprobs.dtype)
    right = (values > 0) & (logprobs > -torch.inf)
    some = right.any(1)
    weighed = torch.where(right, logprobs + torch.where(right, values, 1.0).log(), -torch.inf)
    # A task without a right candidate gets zeros to sum over: the gradient of logsumexp over nothing but −∞ is NaN.
    marginal = torch.where(some[:, None], weighed, 0.0).logsumexp(1)
    with torch.no_grad():
        expected = weighed.exp().sum(1)
    return -torch.where(some, marginal, 0.0).mean(), beam_metrics(logprobs, values, expected)
