"""Sampling programs from the model, for REINFORCE."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

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
    device = encoded.codes.device
    machine = model.machine_for(machine)
    with torch.autocast(device.type, enabled=False):  # the precision is chosen here
        weights = model.step_model(dtype or floating_dtype(device))
        search = _Sampling(
            weights,
            model.step_tasks(weights, encoded),
            encoded.prefix_runner(),
            handwritten_syntax(machine, device) if machine else None,
            machine.max_length if machine else model.settings.max_length,
            model.settings.skip_forced_tokens,
            generator,
        )
        return search.draw(rollouts)


@dataclass
class _Rollouts:
    """N rollouts in the batch, as rows of arrays. Finished ones leave it from time to time."""

    place: Tensor
    """int64 [N]: the row of the result that each belongs to."""
    task: Tensor
    """int64 [N]."""
    tokens: Tensor
    """uint8 [N, L], padded."""
    lengths: Tensor
    """int64 [N]."""
    logprobs: Tensor
    """float32 [N]."""
    last: Tensor
    """int64 [N]: the last token, which the decoder has not read yet."""
    active: Tensor
    """bool [N]: not finished."""
    syntax: Tensor | None
    """int64 [N, width]: states of the handwritten syntax."""

    def keep(self, rows: Tensor) -> None:
        """Keep the rollouts `rows`, int64 [N']."""
        for field in fields(self):
            values = getattr(self, field.name)
            if values is not None:
                setattr(self, field.name, values.index_select(0, rows))

    def record(self, drawn: Candidates) -> None:
        """Write the rollouts to their rows of the result."""
        drawn.tokens.index_copy_(0, self.place, self.tokens)
        drawn.lengths.index_copy_(0, self.place, self.lengths)
        drawn.logprobs.index_copy_(0, self.place, self.logprobs)


@dataclass(frozen=True)
class _Sampling:
    """The constants of a sampling."""

    weights: StepModel
    tasks: StepTasks
    runner: PrefixRunner | None
    syntax: HandwrittenSyntax | None
    limit: int
    skip_forced_tokens: bool
    generator: torch.Generator | None

    def draw(self, rollouts: int) -> Candidates:
        """`rollouts` programs for each task."""
        count, device = len(self.tasks), self.tasks.inputs.device
        size = count * rollouts
        drawn = Candidates(
            torch.zeros(size, self.limit, dtype=torch.uint8, device=device),
            torch.zeros(size, dtype=torch.int64, device=device),
            torch.zeros(size, device=device),
        )
        task = torch.arange(count, device=device).repeat_interleave(rollouts, output_size=size)
        batch = _Rollouts(
            place=torch.arange(size, device=device),
            task=task,
            tokens=torch.zeros_like(drawn.tokens),
            lengths=torch.zeros_like(drawn.lengths),
            logprobs=torch.zeros_like(drawn.logprobs),
            last=torch.full_like(task, START),
            active=torch.ones_like(task, dtype=torch.bool),
            syntax=None if self.syntax is None else self.syntax.initial(size),
        )
        if self.skip_forced_tokens:
            self._write(batch, torch.full_like(task, NONE))
        state, parents = self.weights.start(self.tasks), task
        for at in range(self.limit):
            state = self._step(batch, state, parents)
            parents = torch.arange(len(batch.place), device=device)
            if (at + 1) % CHECK_EVERY == 0 and at + 1 < self.limit:
                open_rows = batch.active.nonzero()[:, 0]  # waits for the device
                if len(open_rows) <= _COMPACT_AT * len(parents):
                    batch.record(drawn)
                    batch.keep(open_rows)
                    parents = open_rows
                    if not len(parents):
                        break
        batch.record(drawn)
        return Candidates(*(part.view(count, rollouts, *part.shape[1:]) for part in vars(drawn).values()))

    def _step(self, batch: _Rollouts, state: Any, parents: Tensor) -> Any:
        """Draw a token for each active rollout; returns the decoder's new state. `parents` are rows of the old one."""
        features = None if self.runner is None else self.runner.features(batch.tokens, batch.lengths, batch.task)
        logits, state = self.weights.step(self.tasks, state, parents, batch.task, batch.last, features)
        if self.syntax is not None and batch.syntax is not None:
            # A finished program admits no token. What is drawn for it is not used, but the draw must not fail.
            logits = logits.masked_fill(~self.syntax.mask(batch.syntax) & batch.active[:, None], -torch.inf)
        distribution = logits.log_softmax(1)
        batch.last = torch.multinomial(distribution.exp(), 1, generator=self.generator)[:, 0]
        batch.logprobs += distribution.gather(1, batch.last[:, None])[:, 0].masked_fill(~batch.active, 0)
        self._write(batch, batch.last)
        batch.active = batch.active & (batch.last != END)
        return state

    def _write(self, batch: _Rollouts, token: Tensor) -> None:
        """Append a token int64 [N] to every active rollout, and with `skip_forced_tokens` the tokens that it forces."""
        if self.syntax is None or batch.syntax is None:
            put_tokens(batch.tokens, batch.lengths, token, batch.active)
            batch.lengths += batch.active
        else:
            batch.syntax, batch.lengths = self.syntax.write(
                batch.syntax, batch.tokens, batch.lengths, token, batch.active, forced_tokens=self.skip_forced_tokens
            )
