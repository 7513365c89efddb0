"""The loss of a batch, for every objective."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from karelsynth.model.devices import autocast_dtype
from karelsynth.model.synthesizer import Encoded, Synthesizer
from karelsynth.objectives import REWARDS, RL_OBJECTIVES, RLObjective, mle
from karelsynth.search import BackgroundChecks, Candidates, Outcomes, beam_search, rescore, sample_rollouts
from karelsynth.train.batches import TrainingBatch
from karelsynth.train.distributed import ProcessGroup
from karelsynth.train.recipe import ObjectiveRecipe


class Loss(nn.Module):
    """A model and its objective as one module, which DistributedDataParallel can wrap."""

    def __init__(self, model: Synthesizer, recipe: ObjectiveRecipe, group: ProcessGroup) -> None:
        super().__init__()
        self.model, self.recipe, self.group = model, recipe, group

    @property
    def uses_references(self) -> bool:
        """Whether a batch needs its reference programs packed for teacher forcing."""
        return self.recipe.name == "mle"

    def forward(self, batch: TrainingBatch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a batch, and metrics to log."""
        return self._mle(batch) if self.uses_references else self._rl(batch, generator)

    def _mle(self, batch: TrainingBatch) -> tuple[Tensor, dict[str, Tensor]]:
        assert batch.packed is not None
        forced = self.model(batch.inputs, batch.outputs, batch.packed, present=batch.present)
        logits, penalties, size = forced.logits, forced.penalties, self.group.size
        if size == 1:
            return mle(logits, batch.packed.targets, penalties, syntax_weight=self.recipe.syntax_weight)
        # DistributedDataParallel averages gradients over processes. The weights make this the mean over the tokens of
        # all processes, and the sum of their penalties.
        tokens = torch.tensor(float(len(logits)), device=logits.device)
        share = tokens * size / self.group.total(tokens)
        penalties = None if penalties is None else penalties * (size / share)
        loss, metrics = mle(logits, batch.packed.targets, penalties, syntax_weight=self.recipe.syntax_weight)
        return loss * share, metrics

    def _rl(self, batch: TrainingBatch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        recipe, model, objective = self.recipe, self.model, RL_OBJECTIVES[self.recipe.name]
        settings = {name: getattr(recipe, name) for name in objective.settings}
        encoded = model.encode(batch.inputs, batch.outputs, batch.present)
        found, outcomes = self._candidates(objective, batch, encoded.detach(), generator)
        values = REWARDS[recipe.reward](outcomes)
        wanted = objective.needs_gradient(values, found.lengths.numpy() > 0, settings)
        wanted = wanted | np.isnan(found.logprobs.numpy())  # added references: the search has not scored them
        rewards, rescored = (torch.from_numpy(part).to(model.device, non_blocking=True) for part in (values, wanted))
        known = found.logprobs.to(model.device, non_blocking=True)
        logprobs = torch.where(rescored, rescore(model, encoded, found, wanted=wanted), known)
        loss, metrics = objective.loss(logprobs, rewards, **settings, **recipe.options)
        if not loss.requires_grad:  # no candidate needs a gradient: the gradient is zero, not missing
            loss = loss + sum(parameter.sum() * 0 for parameter in model.parameters())
        return loss, metrics

    def _candidates(
        self, objective: RLObjective, batch: TrainingBatch, encoded: Encoded, generator: torch.Generator
    ) -> tuple[Candidates, Outcomes]:
        """Candidates for the tasks of a batch, sampled or searched, and their outcomes on all examples."""
        recipe, dtype = self.recipe, autocast_dtype(self.model.device, torch.float32)  # the training step's precision
        tokens, lengths = (torch.from_numpy(np.asarray(part)) for part in (batch.tasks.tokens, batch.tasks.lengths))
        adds = objective.candidates == "beam" and recipe.add_reference
        checks = BackgroundChecks(
            batch.examples, given=batch.inputs.shape[1], reference=(tokens, lengths), add_reference=adds
        )
        if objective.candidates == "rollouts":
            drawn = sample_rollouts(self.model, encoded, rollouts=recipe.rollouts, dtype=dtype, generator=generator)
            checks.submit(torch.arange(len(batch.tasks)), drawn)
        else:
            beam_search(self.model, encoded, beam=recipe.beam, dtype=dtype, finished=checks.submit)
        return checks.results()
