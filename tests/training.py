"""Small training runs, shared by the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from karelsynth.train.recipe import Recipe, recipe_from

TINY = {
    "channels": 4,
    "blocks": 1,
    "code_size": 24,
    "embedding_size": 16,
    "hidden_size": 24,
    "syntax_size": 16,
    "max_length": 24,
}


def tiny(name: str = "mle", syntax: str = "learned", **run: Any) -> Recipe:
    """A recipe that a CPU follows in seconds."""
    short = {"steps": 12, "batch_size": 8, "log_every": 4, "validate_every": 6, "validation_tasks": 8}
    return recipe_from(
        {
            "name": "tiny",
            "model": TINY | {"syntax": syntax, "max_length": 72},
            "data": {"seed": 5, "tasks": 40},
            "objective": {"name": name, "beam": 4, "rollouts": 6, "bag": 3},
            "optimizer": {"learning_rate": 3e-3, "warmup": 2, "schedule": "cosine", "clip": 1.0},
            "run": short | {"checkpoint_every": 3} | run,
        }
    )


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "final" / "model.safetensors")


def assert_same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> None:
    assert one.keys() == two.keys()
    for name in one:
        assert torch.equal(one[name], two[name]), name
