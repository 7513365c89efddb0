"""RL: make programs with high reward likely, by sampling (REINFORCE).

    L_R(θ) ≈ Σ_i Σ_{r=1}^S 1/S R_i(λ_r),                λ_r ~ p_θ(· | {IO_i^k})
    ∇L_R(θ) ≈ Σ_i Σ_{r=1}^S 1/S R_i(λ_r) ∇ log p_θ(λ_r | {IO_i^k})                  (equation 8)

The gradient of the returned loss is the second expression, up to the sign. The loss's value has no meaning; read
`reward` instead.
"""

from __future__ import annotations

from torch import Tensor


def reinforce(logprobs: Tensor, rewards: Tensor, *, baseline: bool = False) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of S rollouts for each of B tasks.

    Args:
        logprobs: [B, S], log p(rollout), with gradient.
        rewards: [B, S].
        baseline: subtract from each reward the mean reward of the task's other rollouts. This reduces the variance of
            the gradient and keeps its expectation. The paper has no baseline.
    """
    rewards = rewards.to(logprobs.dtype)
    advantages = rewards
    if baseline:
        if rewards.shape[1] < 2:
            raise ValueError("the baseline is the mean reward of the other rollouts: there must be at least two")
        advantages = rewards - (rewards.sum(1, keepdim=True) - rewards) / (rewards.shape[1] - 1)
    loss = -(advantages * logprobs).mean(1).mean()
    return loss, {"reward": rewards.mean(), "best_reward": rewards.amax(1).mean()}
