"""Sampling programs from the model, for REINFORCE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from karelsynth.karel.syntax_compiler import NONE
from karelsynth.karel.tokens import END, START
from karelsynth.model.decoder import StepModel, StepTasks
from karelsynth.model.devices import floating_dtype
from karelsynth.model.syntax import HandwrittenSyntax, handwritten_syntax, put_tokens
from karelsynth.search.beam import CHECK_EVERY
from karelsynth.search.candidates import Candidates

if TYPE_CHECKING:
    from karelsynth.karel.syntax import SyntaxMachine
    from karelsynth.model.prefix_runner import PrefixRunner
    from karelsynth.model.synthesizer import Encoded, Synthesizer

_COMPACT_AT: Final = 7 / 8
"""Finished rollouts are removed from the batch once the share of open ones is at most this."""


@torch.no_grad()
def sample_rollouts(
    model: Synthesizer,
    encoded: Encoded,
    *,
    rollouts: int = 100,
    machine: SyntaxMachine | None = None,
    dtype: torch.dtype | None = None,
    generator: torch.Generator | None = None,
) -> Candidates:
    """`rollouts` programs for each task, drawn independently from the model, in no order.

    A rollout that has not ended at the model's `max_length` is cut there and is no valid program. With the handwritten
    syntax every rollout ends in time. Log-probabilities are without gradient; `rescore` gives those with gradient. The
    precision is a floating one, not eight bits, to be near the trained network. `machine` is as in `beam_search`,
    including its `max_length`.
    """
    device, skip_forced_tokens = encoded.codes.device, model.settings.skip_forced_tokens
    machine = model.machine_for(machine)
    syntax = handwritten_syntax(machine, device) if machine else None
    limit = machine.max_length if machine else model.settings.max_length
    with torch.autocast(device.type, enabled=False):  # the precision is chosen here
        weights = model.step_model(dtype or floating_dtype(device))
        tasks = model.step_tasks(weights, encoded)
        return _draw(weights, tasks, encoded.prefix_runner(), syntax, rollouts, limit, skip_forced_tokens, generator)


def _draw(
    weights: StepModel,
    tasks: StepTasks,
    runner: PrefixRunner | None,
    syntax: HandwrittenSyntax | None,
    rollouts: int,
    limit: int,
    skip_forced_tokens: bool,
    generator: torch.Generator | None,
) -> Candidates:
    count, device = len(tasks), tasks.inputs.device
    task = torch.arange(count, device=device).repeat_interleave(rollouts, output_size=count * rollouts)
    drawn = Candidates(
        torch.zeros(len(task), limit, dtype=torch.uint8, device=device),
        torch.zeros(len(task), dtype=torch.int64, device=device),
        torch.zeros(len(task), device=device),
    )
    tokens, lengths, logprobs = (torch.zeros_like(part) for part in (drawn.tokens, drawn.lengths, drawn.logprobs))
    place, syntax_states = torch.arange(len(task), device=device), None if syntax is None else syntax.initial(len(task))
    last, active = torch.full_like(task, START), torch.ones_like(task, dtype=torch.bool)
    state, parents = weights.start(tasks), task

    if skip_forced_tokens and syntax is not None and syntax_states is not None:
        syntax_states, lengths = syntax.write(
            syntax_states, tokens, lengths, torch.full_like(task, NONE), active, forced_tokens=True
        )
    for at in range(limit):
        features = None if runner is None else runner.features(tokens, lengths, task)
        logits, state = weights.step(tasks, state, parents, task, last, features)
        parents = torch.arange(len(task), device=device)
        if syntax is not None and syntax_states is not None:
            # A finished program admits no token. What is drawn for it is not used, but the draw must not fail.
            logits = logits.masked_fill(~syntax.mask(syntax_states) & active[:, None], -torch.inf)
        distribution = logits.log_softmax(1)
        last = torch.multinomial(distribution.exp(), 1, generator=generator)[:, 0]
        logprobs += distribution.gather(1, last[:, None])[:, 0].masked_fill(~active, 0)
        if syntax is None or syntax_states is None:
            put_tokens(tokens, lengths, last, active)
            lengths += active
        else:
            syntax_states, lengths = syntax.write(
                syntax_states, tokens, lengths, last, active, forced_tokens=skip_forced_tokens
            )
        active = active & (last != END)
        if (at + 1) % CHECK_EVERY == 0 and at + 1 < limit:
            parents = active.nonzero()[:, 0]  # waits for the device
            if len(parents) > _COMPACT_AT * len(task):
                parents = torch.arange(len(task), device=device)
                continue
            _record(drawn, place, tokens, lengths, logprobs)  # finished ones are removed
            if not len(parents):
                place = parents
                break
            place, task, tokens, lengths, logprobs, last, active = (
                part.index_select(0, parents) for part in (place, task, tokens, lengths, logprobs, last, active)
            )
            syntax_states = None if syntax_states is None else syntax_states.index_select(0, parents)
    if len(place):
        _record(drawn, place, tokens, lengths, logprobs)
    return Candidates(
        drawn.tokens.view(count, rollouts, limit), drawn.lengths.view(count, rollouts), drawn.logprobs.view(count, -1)
    )


def _record(drawn: Candidates, place: Tensor, tokens: Tensor, lengths: Tensor, logprobs: Tensor) -> None:
    """Update the rollouts at some places."""
    drawn.tokens.index_copy_(0, place, tokens)
    drawn.lengths.index_copy_(0, place, lengths)
    drawn.logprobs.index_copy_(0, place, logprobs)
