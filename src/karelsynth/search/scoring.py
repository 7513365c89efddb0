"""Log-probabilities of given programs: with gradient (`rescore`), and without, step by step (`score_programs`).

On a CPU steps are the fastest way. They are the search's own, with its prepared weights and compiled cells, and
programs of a task share the computation of common prefixes in both functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from karelsynth.karel.tokens import START
from karelsynth.model.devices import decoding_dtype, shared_steps, to_device
from karelsynth.model.prefix_trie_kernel import packed_places
from karelsynth.model.syntax import handwritten_syntax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.karel.syntax import SyntaxMachine
    from karelsynth.model.decoder import StepModel
    from karelsynth.model.synthesizer import Encoded, Synthesizer
    from karelsynth.search.candidates import Candidates


_AT_ONCE: Final = 3 * 2**18
"""Tokens whose intermediate results are held for the backward pass. With the paper's network, five examples and
bfloat16, a distinct prefix takes about 70 KB. That is at most 55 GB if no two programs share a prefix, and less than
half of it with beams: training with 128 tasks and beams of 64 took 4.9 GB in all. The largest batches that we train
with, 512 tasks, stay below it.
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

    A task's candidates share the computation of common prefixes (`model.prefix_trie`). The candidates are needed on the
    host: pass those of `Candidates.cpu` if they have been copied already.

    Args:
        machine: the syntax of the search or the rollouts, if it was not the model's own: it changes p. For a search
            with its own `max_length` it is `model.machine_for(max_length=…)`.
        wanted: [B, S]; by default all.
        at_once: about how many tokens to score at a time, in whole tasks. If there are more, they are scored in parts,
            and each part is recomputed in the backward pass (checkpointing), so that memory holds one at a time.
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


@torch.no_grad()
def score_programs(
    model: Synthesizer,
    encoded: Encoded,
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.integer],
    tasks: NDArray[np.integer],
    *,
    machine: SyntaxMachine | None = None,
    dtype: torch.dtype | None = None,
    weights: StepModel | None = None,
    threads: int = 1,
) -> NDArray[np.float32]:
    """log p(program | examples), [N], of programs [N, L] for encoded tasks [N]; −∞ if the syntax refuses one.

    Args:
        machine: a syntax to score them under, instead of the model's own: see `beam_search`.
        dtype: of the network's states and products, by default `decoding_dtype`.
        weights: the model's `step_model`, if it exists already.
        threads: how many threads run a step on a CPU.
    """
    device = encoded.codes.device
    machine = model.machine_for(machine)
    syntax = handwritten_syntax(machine, device) if machine else None
    totals = np.zeros(len(tokens), np.float32)
    place = np.array(tasks, np.int64)
    """[N]: the index of a program's prefix among the distinct ones."""
    packed, ahead = packed_places(tokens, lengths, skip_forced_tokens=model.settings.skip_forced_tokens)
    counts = packed.sum(1)
    with torch.autocast(device.type, enabled=False), shared_steps(threads if device.type == "cpu" else 1):
        weights, runner = weights or model.step_model(dtype or decoding_dtype(device)), encoded.prefix_runner()
        every = model.step_tasks(weights, encoded)
        state = weights.start(every)
        syntax_state = None if syntax is None else syntax.initial(len(every))
        for number in range(int(counts.max(initial=0))):
            open_now = np.flatnonzero(counts > number)
            at = ahead[open_now, number]
            last = tokens[open_now, ahead[open_now, number - 1]] if number else np.full(len(open_now), START)
            extensions = np.stack([place[open_now], last], axis=1)
            distinct, first, which = np.unique(extensions, axis=0, return_index=True, return_inverse=True)
            parents, chosen = (torch.from_numpy(column.copy()).to(device) for column in distinct.T)
            rows = open_now[first]
            task = torch.from_numpy(np.asarray(tasks)[rows].astype(np.int64)).to(device)
            features = None
            if runner is not None:
                prefixes, ends = (torch.from_numpy(part).to(device) for part in (tokens[rows, : at.max()], at[first]))
                features = runner.features(prefixes, ends, task)
            logits, state = weights.step(every, state, parents, task, chosen, features)
            if syntax is not None and syntax_state is not None:
                syntax_state = syntax_state.index_select(0, parents)
                syntax_state = syntax.advance(syntax_state, chosen) if number else syntax_state
                syntax_state = (
                    syntax.after_forced_tokens(syntax_state) if model.settings.skip_forced_tokens else syntax_state
                )
                admitted = syntax.mask(syntax_state)
                admitted |= ~admitted.any(1, keepdim=True)  # after an inadmissible token the score stays −∞
                logits = logits.masked_fill(~admitted, -torch.inf)
            table = logits.float().log_softmax(1).cpu().numpy()
            place[open_now] = which.ravel()
            totals[open_now] += table[place[open_now], tokens[open_now, at]]
    return totals
