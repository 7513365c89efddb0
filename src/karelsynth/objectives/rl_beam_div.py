"""RL_beam_div: make it likely that the best of a bag of C programs has a high reward.

    θ* = argmax Σ_i Σ_{λ_1 … λ_C ∈ BS(p_θ, S)^C} [max_j R_i(λ_j)] Π_r q_θ(λ_r | {IO_i^k})       (equation 10)

q is that of RL_beam. The C programs are drawn independently. With rewards 0 and 1 the bag has reward 0 only if every
program in it has:

    Σ_i 1 − (Σ_λ [R_i(λ) = 0] q_θ(λ))^C                                                  (equation 11)

In general, sort the rewards, R_1 ≤ R_2 ≤ …, and let q_{≤j} be the probability of the first j. Then the best of the bag
is number j with probability q_{≤j}^C − q_{≤j−1}^C. Ties need no special case: their terms
have the same sum in any order.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from karelsynth.objectives.rl_beam import beam_metrics, renormalised

BAG: Final = 5
"""C in the paper."""


def rl_beam_div(logprobs: Tensor, rewards: Tensor, *, bag: int = BAG) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of S candidates for each of B tasks.

    Args:
        logprobs: [B, S], log p(candidate), with gradient; −∞ in empty slots.
        rewards: [B, S], bool for rewards of 0 and 1, or any numbers; arbitrary in empty slots.
        bag: C.
    """
    some = (logprobs > -torch.inf).any(1)
    best = best_of_bag_boolean if rewards.dtype == torch.bool else best_of_bag
    expected = best(renormalised(logprobs), rewards, bag) * some
    return -expected.mean(), beam_metrics(logprobs, rewards, expected)


def best_of_bag_boolean(q: Tensor, rewards: Tensor, bag: int) -> Tensor:
    """The expected reward [B] of the best of `bag` draws from q [B, S], for rewards bool [B, S]."""
    incorrect = (q * ~rewards).sum(1)
    return 1 - incorrect**bag


def best_of_bag(q: Tensor, rewards: Tensor, bag: int) -> Tensor:
    """The expected reward [B] of the best of `bag` draws from q [B, S], for rewards of any values [B, S]."""
    ordered, order = rewards.to(q.dtype).sort(1)
    reached = q.gather(1, order).cumsum(1) ** bag
    before = torch.nn.functional.pad(reached[:, :-1], (1, 0))
    return (ordered * (reached - before)).sum(1)
