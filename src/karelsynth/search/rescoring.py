"""Log-probabilities of candidates with gradient, by teacher forcing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.karel.syntax import SyntaxMachine
    from karelsynth.model.synthesizer import Encoded, Synthesizer
    from karelsynth.search.candidates import Candidates


def rescore(
    model: Synthesizer,
    encoded: Encoded,
    candidates: Candidates,
    *,
    machine: SyntaxMachine | None = None,
    chunk: int | None = None,
) -> Tensor:
    """log p(candidate | examples), float32 [B, S], differentiable; −∞ in empty slots.

    The tasks are encoded once, whatever S is. Give the candidates on the host (`Candidates.cpu`) if they have been
    copied already; they are needed there.

    Args:
        machine: the syntax that the search was held to, if it was not the model's own.
        chunk: how many programs to score at a time. Each chunk forgets what it computed and does it again in the
            backward pass, so that memory holds one chunk at a time; without, all at once.
    """
    lengths = candidates.lengths.cpu().numpy()
    count, slots = lengths.shape
    tokens = candidates.tokens.cpu().numpy().reshape(count * slots, -1)
    filled = np.flatnonzero(lengths)
    scores = torch.full((count * slots,), -torch.inf, device=encoded.codes.device)
    if not len(filled):
        return scores.view(count, slots)
    # Programs of about one length go together: chunks are then of few steps or of few programs.
    filled = filled[np.argsort(-lengths.ravel()[filled], kind="stable")]
    parts = [filled] if chunk is None else [filled[at : at + chunk] for at in range(0, len(filled), chunk)]
    values = []
    for part in parts:
        packed = model.pack(tokens[part], lengths.ravel()[part], machine, encoded=encoded, tasks=part // slots)
        tasks = _moved(part // slots, encoded.codes.device)
        if chunk is None or not torch.is_grad_enabled():
            values.append(model.program_logprobs(encoded, packed, tasks))
        else:
            values.append(
                checkpoint(
                    model.program_logprobs, encoded, packed, tasks, use_reentrant=False, preserve_rng_state=False
                )
            )
    return scores.index_copy(0, _moved(filled, encoded.codes.device), torch.cat(values)).view(count, slots)


def _moved(numbers: NDArray[np.integer], device: torch.device) -> Tensor:
    return torch.from_numpy(numbers.astype(np.int64)).to(device, non_blocking=True)
