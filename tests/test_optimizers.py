"""Adam and Muon, driven as one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from karelsynth.train.checkpoint import CheckpointError, load_newest
from karelsynth.train.loop import train
from karelsynth.train.optimizers import Optimizers
from karelsynth.train.recipe import OptimizerRecipe
from tests.training import assert_same, tiny, weights


def test_muon_has_the_matrices_and_adam_the_rest() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Linear(4, 5))
    held = [
        {id(value) for group in part.param_groups for value in group["params"]}
        for part in Optimizers(model, OptimizerRecipe(name="muon")).parts
    ]
    assert held == [{id(model[0].weight), id(model[0].bias), id(model[1].bias)}, {id(model[1].weight)}]
    (adam,) = Optimizers(model, OptimizerRecipe()).parts
    assert len(adam.param_groups[0]["params"]) == 4


def test_directions_of_small_gradients_count_as_much() -> None:
    """Of a gradient whose singular values span a factor of 100 Muon makes a step with all of them about alike."""
    torch.manual_seed(0)
    left, right = (torch.linalg.qr(torch.randn(16, 16))[0] for _ in range(2))
    gradient = left @ torch.diag(torch.logspace(0, -2, 16)) @ right
    spread = {}
    for name in ("adam", "muon"):
        layer = nn.Linear(16, 16, bias=False)
        layer.weight.grad = gradient.clone()
        before = layer.weight.detach().clone()
        optimizers = Optimizers(layer, OptimizerRecipe(name=name, learning_rate=1.0))
        optimizers.step(0.1)
        values = torch.linalg.svdvals(layer.weight.detach() - before)
        spread[name] = float(values[0] / values[-1])
    assert spread["muon"] < 3 < spread["adam"]


def test_what_the_recipe_says_reaches_muon() -> None:
    """No decay unless it is asked for, steps about as large as Adam's, and as much memory as is said."""
    torch.manual_seed(0)
    layer = nn.Linear(64, 32, bias=False)
    before = layer.weight.detach().clone()
    layer.weight.grad = torch.zeros_like(layer.weight)
    Optimizers(layer, OptimizerRecipe(name="muon")).step(0.1)
    torch.testing.assert_close(layer.weight.detach(), before)
    Optimizers(layer, OptimizerRecipe(name="muon", weight_decay=0.5, muon_scale=2.0)).step(0.1)
    torch.testing.assert_close(layer.weight.detach(), before * (1 - 0.1 * 2 * 0.5))
    layer.weight.grad = gradient = torch.randn_like(layer.weight)
    before = layer.weight.detach().clone()
    optimizers = Optimizers(layer, OptimizerRecipe(name="muon", momentum=0.75))
    optimizers.step(0.1)
    step = layer.weight.detach() - before
    assert float(step.square().mean().sqrt()) == pytest.approx(0.2 * 0.1, rel=0.2)
    torch.testing.assert_close(optimizers.tensors()["weight/momentum_buffer"], 0.25 * gradient)


def test_steps_of_muon_may_be_larger() -> None:
    moved = []
    for scale in (1.0, 3.0):
        torch.manual_seed(0)
        model = nn.Linear(6, 5)
        before = [value.detach().clone() for value in model.parameters()]
        for value in model.parameters():
            value.grad = torch.randn_like(value)
        Optimizers(model, OptimizerRecipe(name="muon", muon_scale=scale)).step(0.01)
        moved.append([value.detach() - old for value, old in zip(model.parameters(), before, strict=True)])
    torch.testing.assert_close(moved[1][0], 3 * moved[0][0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(moved[1][1], moved[0][1])


def test_each_step_has_its_learning_rate() -> None:
    model = nn.Linear(4, 3)
    for value in model.parameters():
        value.grad = torch.ones_like(value)
    optimizers = Optimizers(model, OptimizerRecipe(name="muon", learning_rate=1.0))
    before = [value.detach().clone() for value in model.parameters()]
    optimizers.step(0.0)
    assert all(torch.equal(value, old) for value, old in zip(model.parameters(), before, strict=True))
    optimizers.step(0.5)
    assert not any(torch.equal(value, old) for value, old in zip(model.parameters(), before, strict=True))


def test_a_stopped_run_of_muon_ends_with_the_same_weights(tmp_path: Path) -> None:
    plain = tiny(steps=6, validate_every=6, checkpoint_every=2)
    recipe = replace(plain, optimizer=replace(plain.optimizer, name="muon"))
    device = torch.device("cpu")
    train(recipe, tmp_path / "whole", device=device)
    for stop in (1, 4):
        train(recipe, tmp_path / "stopped", device=device, stop_after=stop)
    saved = load_newest(tmp_path / "stopped")
    assert saved is not None
    assert {key.rsplit("/", 1)[1] for key in saved.optimizer} == {"momentum_buffer", "step", "exp_avg", "exp_avg_sq"}
    with pytest.raises(CheckpointError, match=r"different: optimizer.name"):
        train(plain, tmp_path / "stopped", device=device)
    train(recipe, tmp_path / "stopped", device=device)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "stopped"))
