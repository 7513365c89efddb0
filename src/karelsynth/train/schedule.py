"""The learning rate over a run."""

from __future__ import annotations

import math

from karelsynth.train.recipe import OptimizerRecipe


def learning_rate(recipe: OptimizerRecipe, step: int, steps: int) -> float:
    """The learning rate of a step, counted from 0: a linear rise, then level or half a cosine down to `final`."""
    if step < recipe.warmup:
        return recipe.learning_rate * (step + 1) / recipe.warmup
    if recipe.schedule == "constant":
        return recipe.learning_rate
    progress = (step - recipe.warmup) / max(1, steps - recipe.warmup)
    share = recipe.final + (1 - recipe.final) * (1 + math.cos(math.pi * progress)) / 2
    return recipe.learning_rate * share
