"""Sampling programs from the model, for REINFORCE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

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
    syntax_states = None if syntax is None else syntax.initial(len(task))
    tokens = torch.zeros(len(task), limit, dtype=torch.uint8, device=device)
    lengths = torch.zeros(len(task), dtype=torch.int64, device=device)
    logprobs = torch.zeros(len(task), device=device)
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
            # A program that has ended admits nothing more. What is drawn after it is not used, but must be drawable.
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
        if (at + 1) % CHECK_EVERY == 0 and not active.any():  # waits for the device
            break
    return Candidates(
        tokens.view(count, rollouts, limit), lengths.view(count, rollouts), logprobs.view(count, rollouts)
    )
