"""The optimizers of a recipe, driven as one, and the learning-rate schedule.

Adam updates each weight by itself. Muon, for matrices, takes a step whose singular values are all equal, so directions
with small gradients count as much as those with large ones. PyTorch's Muon takes matrices only, embeddings and output
layers among them. With `optimizer.name = "muon"`, all other weights (biases, convolutions, initial states) stay with
Adam. Muon's steps have the root mean square of Adam's, times `optimizer.muon_scale`. Both have the same schedule and
`weight_decay`: each step shrinks every weight by the fraction learning rate × decay, and matrices by `muon_scale` times
that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from karelsynth.train.recipe import OptimizerRecipe


class Optimizers:
    """The optimizers of a model. Each weight belongs to one of `parts`."""

    def __init__(self, model: nn.Module, recipe: OptimizerRecipe) -> None:
        self._names: dict[Tensor, str] = {value: name for name, value in model.named_parameters()}
        rate, decay = recipe.learning_rate, recipe.weight_decay
        matrices = [value for value in self._names if recipe.name == "muon" and value.ndim == 2]
        others = [value for value in self._names if recipe.name != "muon" or value.ndim != 2]
        self.parts: list[torch.optim.Optimizer] = []
        self._scales: list[float] = []
        if others:
            betas, fused = (recipe.beta1, recipe.beta2), others[0].device.type == "cuda"
            self.parts.append(torch.optim.AdamW(others, lr=rate, betas=betas, weight_decay=decay, fused=fused))
            self._scales.append(1.0)
        if matrices:
            momentum, scaled = recipe.momentum, "match_rms_adamw"
            self.parts.append(
                torch.optim.Muon(matrices, lr=rate, momentum=momentum, weight_decay=decay, adjust_lr_fn=scaled)
            )
            self._scales.append(recipe.muon_scale)

    def step(self, learning_rate: float) -> None:
        """Update all weights by their gradients."""
        for part, scale in zip(self.parts, self._scales, strict=True):
            for group in part.param_groups:
                group["lr"] = learning_rate * scale
            part.step()

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """The optimizers' state, as `name/slot` for each parameter's name and each of its slots."""
        return {
            f"{self._names[parameter]}/{slot}": torch.as_tensor(value)
            for part in self.parts
            for parameter, slots in part.state.items()
            for slot, value in slots.items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state of `tensors`; those of other parameters are ignored."""
        owners = {
            self._names[parameter]: (part, parameter)
            for part in self.parts
            for group in part.param_groups
            for parameter in group["params"]
        }
        for key, value in tensors.items():
            name, _, slot = key.rpartition("/")
            if name not in owners:
                continue
            part, parameter = owners[name]
            if slot != "step":  # in the parameter's memory layout, which fused optimizers require
                value = torch.empty_like(parameter, dtype=value.dtype).copy_(value)
            elif any(group.get("fused") or group.get("capturable") for group in part.param_groups):
                value = value.to(parameter.device)
            part.state[parameter][slot] = value


def learning_rate(recipe: OptimizerRecipe, step: int, steps: int) -> float:
    """The learning rate of a step, from 0: a linear warm-up, then one of the schedules, down to `final`.

    `cosine` is half a cosine. `trapezoid` is constant up to the last `decay_steps` steps and falls linearly there, so
    that it depends on the length of the run only at its end.
    """
    if step < recipe.warmup:
        return recipe.learning_rate * (step + 1) / recipe.warmup
    if recipe.schedule == "constant":
        return recipe.learning_rate
    if recipe.schedule == "trapezoid":
        left = min(1.0, (steps - step) / max(1, recipe.decay_steps))
        return recipe.learning_rate * (recipe.final + (1 - recipe.final) * left)
    progress = (step - recipe.warmup) / max(1, steps - recipe.warmup)
    share = recipe.final + (1 - recipe.final) * (1 + math.cos(math.pi * progress)) / 2
    return recipe.learning_rate * share
