"""Log-probabilities of candidates with gradient, by teacher forcing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from karelsynth.model.transfer import moved

if TYPE_CHECKING:
    from karelsynth.karel.syntax import SyntaxMachine
    from karelsynth.model.synthesizer import Encoded, Synthesizer
    from karelsynth.search.candidates import Candidates

_AT_ONCE: Final = 3 * 2**18
"""Tokens whose intermediate results are held for the backward pass: 51 KB each (measured on a CPU) with the paper's
network, five examples and bfloat16, so at most 40 GB. The largest batches that we train with, 512 tasks with beams of
64, stay below it; 100 rollouts for each of 128 tasks could otherwise come to 47 GB.
"""


def rescore(
    model: Synthesizer,
    encoded: Encoded,
    candidates: Candidates,
    *,
    machine: SyntaxMachine | None = None,
    at_once: int = _AT_ONCE,
) -> Tensor:
    """log p(candidate | examples), float32 [B, S], differentiable; −∞ in empty slots.

    The tasks are encoded once, whatever S is. Give the candidates on the host (`Candidates.cpu`) if they have been
    copied already; they are needed there.

    Args:
        machine: the syntax that the search was held to, if it was not the model's own.
        at_once: how many tokens to score at a time, about. If there are more, they are scored in parts; each part
            forgets what it computed and does it again in the backward pass, so that memory holds one at a time.
    """
    lengths = candidates.lengths.cpu().numpy()
    count, slots = lengths.shape
    tokens = candidates.tokens.cpu().numpy().reshape(count * slots, -1)
    filled = np.flatnonzero(lengths)
    scores = torch.full((count * slots,), -torch.inf, device=encoded.codes.device)
    if not len(filled):
        return scores.view(count, slots)
    # Programs of about one length go together: parts are then of few steps or of few programs.
    filled = filled[np.argsort(-lengths.ravel()[filled], kind="stable")]
    before = np.cumsum(lengths.ravel()[filled], dtype=np.int64) - lengths.ravel()[filled]
    parts = np.split(filled, np.flatnonzero(np.diff(before // at_once)) + 1)
    values = []
    for part in parts:
        packed = model.pack(tokens[part], lengths.ravel()[part], machine, encoded=encoded, tasks=part // slots)
        tasks = moved(part // slots, encoded.codes.device)
        if len(parts) == 1 or not torch.is_grad_enabled():
            values.append(model.program_logprobs(encoded, packed, tasks))
        else:
            values.append(
                checkpoint(
                    model.program_logprobs, encoded, packed, tasks, use_reentrant=False, preserve_rng_state=False
                )
            )
    return scores.index_copy(0, moved(filled, encoded.codes.device), torch.cat(values)).view(count, slots)
