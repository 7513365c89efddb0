"""Objectives and rewards that are defined outside the package."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from karelsynth.cli import app
from karelsynth.objectives import REWARDS, RL_OBJECTIVES, RLObjective, register_objective, register_reward
from karelsynth.train.recipe import RecipeError, load_recipe

EXAMPLE = Path(__file__).parent.parent / "examples" / "own_objective.toml"
TINY = {
    "model": "channels=2 blocks=1 code_size=12 embedding_size=6 hidden_size=10",
    "data": "tasks=16",
    "objective": "beam=4 rollouts=5",
    "run": "steps=2 batch_size=4 log_every=1 validate_every=2 validation_tasks=2 checkpoint_every=1",
}
CHANGES = [f"{section}.{change}" for section, changes in TINY.items() for change in changes.split()]
MODULE = """
import numpy as np
from karelsynth.objectives import RLObjective, register_objective, register_reward

def weighted(logprobs, rewards, *, baseline, scale):
    return -scale * (rewards * logprobs).mean(), {"reward": rewards.mean(), "scale": logprobs.new_tensor(scale)}

register_objective("weighted", RLObjective(weighted, "rollouts", settings=("baseline",)))
register_reward("constant", lambda outcomes: np.full(outcomes.generalizes.shape, 0.25, np.float32))
"""
RECIPE = """
plugins = ["weighted_objective"]
[objective]
name = "weighted"
reward = "constant"
[objective.options]
scale = 3.0
"""


def test_a_recipe_trains_with_an_objective_and_a_reward_from_a_module_beside_it(tmp_path: Path) -> None:
    (tmp_path / "weighted_objective.py").write_text(MODULE)
    (tmp_path / "mine.toml").write_text(RECIPE)
    changes = [argument for change in CHANGES for argument in ("--set", change)]
    command = ["train", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "run"), "--device", "cpu", *changes]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    entries = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    logged = [entry for entry in entries if "loss" in entry]
    assert [(entry["reward"], entry["scale"]) for entry in logged] == [(0.25, 3.0)] * 2
    kept = json.loads((tmp_path / "run" / "final" / "recipe.json").read_text())
    assert kept["plugins"] == ["weighted_objective"]
    assert kept["objective"]["options"] == {"scale": 3.0}


def test_the_example_of_the_repository() -> None:
    recipe = load_recipe(EXAMPLE, CHANGES)
    objective = RL_OBJECTIVES[recipe.objective.name]
    assert objective.options == ("temperature",)
    logprobs = torch.tensor([[-1.0, -2.0]])
    rewards = torch.tensor([[1.0, 0.0]])
    loss, _ = objective.loss(logprobs, rewards, **recipe.objective.options)
    assert float(loss) == pytest.approx(-1 / (1 + np.exp(-0.5)))
    with pytest.raises(RecipeError, match=re.escape("has no option `heat`; it has `temperature`")):
        load_recipe(EXAMPLE, ["objective.options.heat=1"])


def test_a_name_is_registered_once() -> None:
    known, reward = RL_OBJECTIVES["mml"], REWARDS["consistency"]
    register_objective("mml", known)  # a module may be imported twice
    register_reward("consistency", reward)
    with pytest.raises(ValueError, match="already an objective called 'mml'"):
        register_objective("mml", RLObjective(known.loss, "rollouts"))
    with pytest.raises(ValueError, match="already an objective called 'mle'"):
        register_objective("mle", known)
    with pytest.raises(ValueError, match="already a reward called 'consistency'"):
        register_reward("consistency", REWARDS["generalization"])
