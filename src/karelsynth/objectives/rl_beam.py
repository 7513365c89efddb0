"""RL_beam: make programs with high reward likely, among those that beam search finds.

    L_R(θ) ≈ Σ_i Σ_λ q_θ(λ | {IO_i^k}) R_i(λ)
    q_θ(λ) = p_θ(λ) / Σ_{λ' ∈ BS(p_θ, S)} p_θ(λ')   if λ ∈ BS(p_θ, S), otherwise 0          (equation 9)

The sum has S terms, so the gradient is exact, not an estimate. Recipes add the reference program where the beam has
missed it (`objective.add_reference`), as the authors' recipes do.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rl_beam(logprobs: Tensor, rewards: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of S candidates for each of B tasks.

    Args:
        logprobs: [B, S], log p(candidate), with gradient; −∞ in empty slots.
        rewards: [B, S]; arbitrary in empty slots.
    """
    expected = (renormalised(logprobs) * rewards).sum(1)
    return -expected.mean(), beam_metrics(logprobs, rewards, expected)


def renormalised(logprobs: Tensor) -> Tensor:
    """q, [B, S]: the candidates' probabilities, normalised to sum to 1; 0 in empty slots and for tasks without any."""
    some = (logprobs > -torch.inf).any(1, keepdim=True)
    return torch.where(some, logprobs, 0.0).softmax(1) * some


def beam_metrics(logprobs: Tensor, rewards: Tensor, expected: Tensor) -> dict[str, Tensor]:
    """Metrics of S candidates [B, S]: the expected reward [B], and the rewards of the top-ranked and the best one."""
    with torch.no_grad():
        filled = logprobs > -torch.inf
        values = rewards.to(logprobs.dtype) * filled
        top = values.gather(1, logprobs.argmax(1, keepdim=True))
        return {
            "expected_reward": expected.mean(),
            "reward": top.mean(),
            "best_reward": values.amax(1).mean(),
            "beam_mass": logprobs.exp().sum(1).mean(),
        }
