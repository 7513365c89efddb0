"""MLE: make the reference programs likely.

    θ* = argmax Σ_i log p_θ(λ_i | {IO_i^k})                       (equation 6)
    L_syntax = − Σ_i Σ_t g_φ(s_t^i | s_1^i … s_{t−1}^i)           (equation 14)

With learned syntax, the syntax LSTM adds g_φ = −exp(score) to a token's logit. The second loss, times β, keeps it from
masking valid programs. The first loss is a mean over tokens and the second a sum, as in the authors' recipe. So β must
shrink as batches grow; otherwise the mask learns to admit everything (docs/log.md).
"""

from __future__ import annotations

from typing import Final

from torch import Tensor
from torch.nn import functional

SYNTAX_WEIGHT: Final = 1e-5
"""β, for batches of 128 programs."""


def mle(
    logits: Tensor, targets: Tensor, penalties: Tensor | None = None, *, syntax_weight: float = SYNTAX_WEIGHT
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of P reference tokens.

    Args:
        logits: [P, 52], the final logits.
        targets: int64 [P], the reference tokens.
        penalties: [P, 52], exp(score) of the learned syntax, if the model has one.
        syntax_weight: β.
    """
    loss = functional.cross_entropy(logits, targets)
    metrics = {
        "cross_entropy": loss.detach(),
        "token_accuracy": (logits.detach().argmax(1) == targets).float().mean(),
    }
    if penalties is not None:
        syntax_loss = penalties.gather(1, targets[:, None]).sum()
        metrics["syntax_loss"] = syntax_loss.detach()
        loss = loss + syntax_weight * syntax_loss
    return loss, metrics
