"""Log-probabilities of given programs without gradient, step by step like a search.

On a CPU that is the fastest way: it uses the search's own step, with its prepared weights and compiled cells, and
programs with a common prefix, as those for one task often have, share its computation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from karelsynth.karel.tokens import START
from karelsynth.model.devices import decoding_dtype
from karelsynth.model.prefix_trie_kernel import packed_places
from karelsynth.model.step_threads import shared_steps
from karelsynth.model.syntax import handwritten_syntax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.karel.syntax import SyntaxMachine
    from karelsynth.model.decoder import StepModel
    from karelsynth.model.synthesizer import Encoded, Synthesizer


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
        weights: the model's `step_model`, where it is at hand.
        threads: how many share a step on a CPU.
    """
    device = encoded.codes.device
    machine = model.machine_for(machine)
    syntax = handwritten_syntax(machine, device) if machine else None
    totals = np.zeros(len(tokens), np.float32)
    place = np.array(tasks, np.int64)
    """[N]: where a program's beginning stands among the distinct ones."""
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
            ways = np.stack([place[open_now], last], axis=1)
            distinct, first, which = np.unique(ways, axis=0, return_index=True, return_inverse=True)
            parents, chosen = (torch.from_numpy(column.copy()).to(device) for column in distinct.T)
            rows = open_now[first]
            task = torch.from_numpy(np.asarray(tasks)[rows].astype(np.int64)).to(device)
            features = None
            if runner is not None:
                beginnings, ends = (torch.from_numpy(part).to(device) for part in (tokens[rows, : at.max()], at[first]))
                features = runner.features(beginnings, ends, task)
            logits, state = weights.step(every, state, parents, task, chosen, features)
            if syntax is not None and syntax_state is not None:
                syntax_state = syntax_state.index_select(0, parents)
                syntax_state = syntax.advance(syntax_state, chosen) if number else syntax_state
                syntax_state = (
                    syntax.after_forced_tokens(syntax_state) if model.settings.skip_forced_tokens else syntax_state
                )
                admitted = syntax.mask(syntax_state)
                admitted |= ~admitted.any(1, keepdim=True)  # after a refused token: the score is −∞, and is to stay so
                logits = logits.masked_fill(~admitted, -torch.inf)
            table = logits.float().log_softmax(1).cpu().numpy()
            place[open_now] = which.ravel()
            totals[open_now] += table[place[open_now], tokens[open_now, at]]
    return totals
