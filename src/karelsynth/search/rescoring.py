"""Log-probabilities of candidates with gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from karelsynth.model.devices import to_device

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.karel.syntax import SyntaxMachine
    from karelsynth.model.synthesizer import Encoded, Synthesizer
    from karelsynth.search.candidates import Candidates

_AT_ONCE: Final = 3 * 2**18
"""Tokens whose intermediate results are held for the backward pass. With the paper's network, five examples and
bfloat16 that takes about 70 KB for each distinct prefix, so at most 55 GB if no two programs share one, and less
than half of it with beams: all of training with 128 tasks and beams of 64 took 4.9 GB at most. The largest batches that
we train with, 512 tasks, stay below it.
"""


def rescore(
    model: Synthesizer,
    encoded: Encoded,
    candidates: Candidates,
    *,
    machine: SyntaxMachine | None = None,
    wanted: NDArray[np.bool_] | None = None,
    at_once: int = _AT_ONCE,
) -> Tensor:
    """log p(candidate | examples), float32 [B, S], differentiable; −∞ in empty slots and where it is not wanted.

    A task's candidates share the computation of common prefixes (`model.prefix_trie`).
    Give the candidates on the host (`Candidates.cpu`) if they have been copied already; they are needed there.

    Args:
        machine: the syntax that the candidates were searched or drawn under, if not the model's own: another one is
            another p. That of a search with its own `max_length` is `model.machine_for(max_length=…)`.
        wanted: [B, S]; by default all.
        at_once: how many tokens to score at a time, about, in whole tasks. If there are more, they are scored in parts;
            each part is recomputed in the backward pass (checkpointing), so that memory holds one at a time.
    """
    lengths = candidates.lengths.cpu().numpy()
    if wanted is not None:
        lengths = np.where(wanted, lengths, 0)
    count, slots = lengths.shape
    tokens = candidates.tokens.cpu().numpy().reshape(count * slots, -1)
    filled = np.flatnonzero(lengths)
    scores = torch.full((count * slots,), -torch.inf, device=encoded.codes.device)
    if not len(filled):
        return scores.view(count, slots)
    after = np.cumsum(lengths.sum(1, dtype=np.int64))[filled // slots]  # with the tasks before
    parts = np.split(filled, np.flatnonzero(np.diff((after - 1) // at_once)) + 1)
    values = []
    for part in parts:
        trie = model.pack(
            tokens[part], lengths.ravel()[part], machine, encoded=encoded, tasks=part // slots, share_prefixes=True
        )
        if len(parts) == 1 or not torch.is_grad_enabled():
            values.append(model.program_logprobs(encoded, trie))
        else:
            score = model.program_logprobs
            values.append(checkpoint(score, encoded, trie, use_reentrant=False, preserve_rng_state=False))
    return scores.index_copy(0, to_device(filled, encoded.codes.device), torch.cat(values)).view(count, slots)
