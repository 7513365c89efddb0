"""Recipes: those of the repository, changes, mistakes, and the schedule."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import karelsynth
from karelsynth.train.optimizers import learning_rate
from karelsynth.train.recipe import RECIPES, RecipeError, load_recipe, recipe_from


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_in_the_repository_is_valid(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.about
    assert recipe_from(json.loads(json.dumps(recipe.to_json()))) == recipe


def test_recipes_agree_with_what_they_start_from() -> None:
    """About the network; and the package's recipe is the repository's."""
    recipes = {path.stem: load_recipe(path) for path in RECIPES.glob("*.toml")}
    starting = [recipe for recipe in recipes.values() if recipe.start_from]
    assert len(starting) > 5
    for recipe in starting:
        assert recipe.start_from is not None
        start = recipes[Path(recipe.start_from).parent.name].model
        if recipe.inherits_model:
            continue
        assert recipe.model == replace(start, max_length=recipe.model.max_length), recipe.name
    shipped = Path(karelsynth.__file__).parent / "pretrained" / "recipe.json"
    assert recipe_from(json.loads(shipped.read_text())) == recipes["execution_joint"]


def test_recipes_go_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any folder. A file of that name takes precedence, a folder does not."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small_mle").mkdir()
    assert load_recipe("small_mle") == load_recipe(RECIPES / "small_mle.toml")
    (tmp_path / "mle").write_text("about = 'mine'")
    assert load_recipe("mle").about == "mine"
    with pytest.raises(RecipeError, match=r"there is no such file, and .* that name; did you mean `mle`\?"):
        load_recipe("mel")
    for wrong in ("recipes/mle.toml", "mle.toml"):
        with pytest.raises(RecipeError, match=r"no such file; the package's recipes go by name: did you mean `mle`\?"):
            load_recipe(wrong)
    with pytest.raises(RecipeError, match="its recipes are `compositions`, "):
        load_recipe("qqqq")


def test_the_large_network_is_as_large_as_the_one_that_learns_the_syntax() -> None:
    for one, other in (("mle", "mle_large"), ("small_mle", "small_mle_large")):
        assert replace(load_recipe(one).model, hidden_size=360) == load_recipe(other).model


def test_a_saved_recipe_with_a_former_key_is_understood() -> None:
    recipe = load_recipe("execution_stream")
    saved = recipe.to_json()
    saved["data"]["fewer"] = saved["data"].pop("drop_examples")
    assert recipe_from(saved) == recipe


def test_changes_on_the_command_line() -> None:
    recipe = load_recipe("mle", ["run.steps=7_000", "model.syntax=learned", "data.tasks=none", "optimizer.clip=2"])
    assert recipe.data.validation == "val"
    assert load_recipe("mle", ["data.validation=my/tasks.json"]).data.validation == "my/tasks.json"
    assert (recipe.run.steps, recipe.model.syntax, recipe.data.tasks, recipe.optimizer.clip) == (
        7000,
        "learned",
        None,
        2.0,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[optimiser]", "the recipe has no `optimiser`; did you mean `optimizer`?"),
        ("[optimizer]\nlearning_rte = 1", "[optimizer] has no `learning_rte`; did you mean `learning_rate`?"),
        ("[run]\nsteps = 1.5", "`run.steps` is a whole number, not 1.5"),
        ("[run]\nsteps = true", "`run.steps` is a whole number, not true"),
        ("[optimizer]\nlearning_rate = inf", "`optimizer.learning_rate` must be above 0 and finite, not inf"),
        ("[optimizer]\nlearning_rate = 1e300", "`optimizer.muon_scale`) can be at most 1e+30, not 1e+300"),
        ("[optimizer]\nname = 'muon'\nlearning_rate = 1e20\nmuon_scale = 1e20", "can be at most 1e+30, not 1e+40"),
        ("[model]\nhidden_size = 100_000_000_000", "`hidden_size` is at most 2,147,483,647, not 100,000,000,000"),
        ("[run]\nsteps = 0", "`run.steps` must be above 0 and finite, not 0"),
        ("[data]\nvalidation = 5", "`data.validation` is a string, not 5"),
        ("[data]\ndrop_examples = 1.5", "`data.drop_examples` must be from 0 to 1, not 1.5"),
        ("[data]\nfewer = 0.1", "`data.fewer` is now called `data.drop_examples`"),
        ("data = 3", "[data] is a section, not 3"),
        ("plugins = 'mine'", '`plugins` is a list of strings, not "mine"'),
        ("plugins = ['no_such_module']", "`plugins`: cannot import `no_such_module` (ModuleNotFoundError"),
        ("[objective]\nreward = 'speed'", "not `speed`; `plugins` can add others"),
        ("[objective.options]\ntemperature = 2", "`objective.options`: `mle` has no option `temperature`; it has none"),
        ("[objective]\noptions = 2", "[objective.options] is a section, not 2"),
        ("[optimizer]\nschedule = 'trapezoid'", "`optimizer.decay_steps` and `optimizer.schedule` = `trapezoid`"),
        ("[optimizer]\ndecay_steps = 5", "`optimizer.decay_steps` and `optimizer.schedule` = `trapezoid`"),
        ("[run]\ncompile = 'yes'", '`run.compile` is true or false, not "yes"'),
        ("[objective]\nname = 'rl_baem'", "not `rl_baem`; did you mean `rl_beam`?"),
        ("[model]\nsyntax = 'hand'", "model setting `syntax`"),
        ("[model]\nhiden_size = 3", "[model] has no `hiden_size`; did you mean `hidden_size`?"),
        ("run = 3", "[run] is a section, not 3"),
        ("[optimizer]\nwarmup = 5000", "`optimizer.warmup` (5000) must be less than `run.steps`"),
        ("[optimizer]\nwarmup = -1", "`optimizer.warmup` must be 0 or above and finite, not -1"),
        ("[optimizer]\nweight_decay = -1", "`optimizer.weight_decay` must be 0 or above and finite, not -1.0"),
        ("[optimizer]\nfinal = -0.1", "`optimizer.final` must be from 0 to 1, not -0.1"),
        ("[optimizer]\nbeta1 = 2", "`optimizer.beta1` must be from 0 to below 1, not 2.0"),
        ("[optimizer]\nbeta2 = nan", "`optimizer.beta2` must be from 0 to below 1, not nan"),
        ("[optimizer]\nmomentum = 1", "`optimizer.momentum` must be from 0 to below 1, not 1.0"),
        ("[optimizer]\nmuon_scale = 0", "`optimizer.muon_scale` must be above 0 and finite, not 0.0"),
        (
            "[optimizer]\nmuon_scale = 2",
            "`optimizer.muon_scale` is only for Muon: set `optimizer.name` to `muon`, or remove",
        ),
        ("[optimizer]\nmomentum = 0.9", "`optimizer.momentum` is only for Muon: set `optimizer.name` to `muon`"),
        ("[optimizer]\nname = 'moun'", "`optimizer.name` is `adam` or `muon`, not `moun`; did you mean `muon`?"),
        ("[objective]\nsyntax_weight = -1", "`objective.syntax_weight` must be 0 or above and finite, not -1.0"),
        ("[run]\nseed = -1", "`run.seed` is a whole number from 0 to 2⁶³ − 1, not -1"),
        ("[data]\nseed = -1", "`data.seed` is a whole number from 0 to 2⁶³ − 1, not -1"),
        ("[objective]\nname = 'rl'\nbaseline = true\nrollouts = 1", "`objective.rollouts` must be 2 or more"),
        (
            "[run]\nvalidate_start = true",
            "`run.validate_start` validates the model of `start_from`: name one, or remove",
        ),
        ("[run\n", "line 1"),
    ],
)
def test_wrong_recipes_say_what_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=re.escape(message)):
        load_recipe(path)


def test_schedule() -> None:
    recipe = replace(load_recipe("execution_stream").optimizer, learning_rate=1.0, warmup=4, final=0.1)
    rates = [learning_rate(recipe, step, 100) for step in range(100)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert max(rates) == 1.0
    assert all(later <= earlier for earlier, later in pairwise(rates[4:]))
    assert rates[-1] == pytest.approx(0.1, abs=0.01)


def test_a_trapezoid_depends_on_the_length_of_the_run_only_at_its_end() -> None:
    recipe = replace(load_recipe("execution_joint").optimizer, learning_rate=1.0, warmup=4, final=0.1, decay_steps=30)
    rates, longer = ([learning_rate(recipe, step, steps) for step in range(steps)] for steps in (100, 130))
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert set(rates[4:71]) == {1.0}
    assert rates[:71] == longer[:71]
    assert rates[70:] == longer[100:]
    assert rates[85] == pytest.approx(0.55)
    assert rates[-1] == pytest.approx(0.1 + 0.9 / 30)
