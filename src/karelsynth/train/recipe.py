"""Recipes: everything that decides what a training run does, in one readable TOML file.

    recipe = load_recipe("mle", ["optimizer.learning_rate=3e-4", "run.steps=100"])

A recipe is a frozen dataclass of sections. A file omits keys that keep their default. Unknown keys and wrong types are
errors that name the key and suggest the nearest one. `plugins` names modules that register objectives and rewards.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from karelsynth.errors import KarelsynthError, listed, nearest
from karelsynth.files import exists, is_file, read_text
from karelsynth.model.settings import ModelSettings, current_settings
from karelsynth.objectives import REWARDS, RL_OBJECTIVES
from karelsynth.parsing import ParseError, parse_toml, reading

T = TypeVar("T")
_DERIVED: Final[Mapping[str, bool]] = types.MappingProxyType({"derived": True})
"""Marks fields that follow from the others: no recipe has them as keys."""
_HIGHEST_RATE: Final = 1e30
"""Every run diverges far below this rate. Optimizers divide the rate by small numbers, which must fit into float32."""
_RENAMED: Final = {"data": {"fewer": "drop_examples"}}
"""By section, keys that earlier versions wrote into checkpoints, and their names today."""


_LARGEST: Final = 2**16
"""Bytes of the largest recipe."""
_MOST_SECTIONS: Final = 20
"""On the way to a key of `--set`."""
_LONGEST_SHOWN: Final = 100
"""Characters of a value in a message."""
RECIPES: Final = Path(__file__).parent.parent / "recipes"
"""The folder of the package's recipes, which can also be given by name."""


class RecipeError(KarelsynthError, ValueError):
    """A recipe that cannot be followed."""


@dataclass(frozen=True)
class DataRecipe:
    """Where the tasks come from."""

    source: str = "stream"
    """`stream` for the generator, or the path of a set folder or of a file in the original's format."""
    seed: int = 1
    """Which stream."""
    tasks: int | None = None
    """Use only this many tasks, the first, reshuffled every epoch; by default the stream is endless."""
    drop_examples: float = 0.0
    """The probability that a task is shown with fewer than its given examples, but at least one. 0 in the paper."""
    shuffle_examples: bool = True
    """Whether a task's examples are shuffled each time it is used. Without, the last is held out, and fewer given
    examples are the first of the source's order, which for purposeful tasks is a teacher's."""
    simplify: bool = False
    """Whether to remove from reference programs what none of their examples needs: see `tasks.simplify`."""
    purposeful: float = 0.0
    """The share of purposeful tasks in the stream: see `tasks.purposeful`. 0 in the paper."""
    validation: str = "val"
    """Tasks for model selection: a named set, or a path as for `source` (`./val` for a folder of that name)."""


@dataclass(frozen=True)
class ObjectiveRecipe:
    """What is optimised."""

    name: str = "mle"
    """`mle` or one of `objectives.RL_OBJECTIVES`. All but `mml` are the paper's."""
    syntax_weight: float = 1e-5
    """β of the syntax loss, for models with learned syntax. That loss is a sum over the batch: see `objectives.mle`."""
    reward: str = "generalization"
    """One of `objectives.REWARDS`."""
    rollouts: int = 100
    """Samples per task of `rl`."""
    baseline: bool = False
    """Whether `rl` subtracts the mean reward of the other samples; the paper does not."""
    beam: int = 64
    bag: int = 5
    """C of `rl_beam_div`: the number of programs in a bag."""
    add_reference: bool = True
    """Whether to add the reference program to the candidates where the beam missed it. The authors' recipe does, the
    paper's equations do not."""
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    """Keyword arguments for the loss of an objective that a plugin has registered."""


@dataclass(frozen=True)
class OptimizerRecipe:
    """Adam or Muon, and the schedule."""

    name: Literal["adam", "muon"] = "adam"
    """`muon`: Muon for matrices, Adam for the rest: see `train.optimizers`."""
    learning_rate: float = 1e-4
    schedule: Literal["constant", "cosine", "trapezoid"] = "constant"
    """After the warm-up: see `train.optimizers.learning_rate`."""
    warmup: int = 0
    """The number of steps in which the learning rate rises linearly from 0."""
    final: float = 0.0
    """The learning rate after the last step, as a fraction of `learning_rate`, for cosine and trapezoid."""
    decay_steps: int = 0
    """The number of steps at the end of a run in which the learning rate falls; for trapezoid only."""
    clip: float | None = None
    """The norm to clip gradients to; None for no clipping."""
    beta1: float = 0.9
    beta2: float = 0.999
    momentum: float = 0.95
    """Of Muon only."""
    muon_scale: float = 1.0
    """Muon's learning rate, as a multiple of Adam's."""
    weight_decay: float = 0.0


@dataclass(frozen=True)
class RunRecipe:
    """The length of a run, its precision, and how often it logs, validates and saves."""

    steps: int = 1000
    batch_size: int = 128
    seed: int = 0
    """Decides initial weights, samples, and which example of a task is held out."""
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    log_every: int = 50
    validate_every: int = 1000
    validate_start: bool = False
    """Whether to validate the model of `start_from` before the first step. It then stays the best model if training
    does not improve it. The recipes of the paper's tables do not."""
    validation_tasks: int = 500
    validation_beam: int = 1
    select_by: Literal["generalization", "consistent"] = "generalization"
    """The validation score that decides which model is the best: right on all examples, or on those given. The authors
    select by the latter."""
    patience: int = 0
    """End the run after this many validations in a row without a new best score. 0: never before `steps`."""
    checkpoint_every: int = 1000


@dataclass(frozen=True)
class Recipe:
    """A training run."""

    name: str
    about: str = ""
    start_from: str | None = None
    """A folder with the initial weights, or `shipped` for the package's model. [model] may then be left out."""
    plugins: tuple[str, ...] = ()
    """Modules to import first, from the recipe's folder or the Python path: they register objectives and rewards."""
    model: ModelSettings = field(default_factory=ModelSettings)
    inherits_model: bool = field(default=False, metadata=_DERIVED)
    """Whether `model` is that of `start_from`: true for a recipe with `start_from` and without [model]."""
    data: DataRecipe = field(default_factory=DataRecipe)
    objective: ObjectiveRecipe = field(default_factory=ObjectiveRecipe)
    optimizer: OptimizerRecipe = field(default_factory=OptimizerRecipe)
    run: RunRecipe = field(default_factory=RunRecipe)

    def to_json(self) -> dict[str, Any]:
        """The whole recipe, defaults included; without `model` if that is still to be inherited."""
        found = dataclasses.asdict(self)
        if found.pop("inherits_model"):
            del found["model"]
        return found


def recipe_path(recipe: str | Path) -> Path:
    """The file of a recipe: a path, or the name of one of the package's. A file of that name takes precedence."""
    known = {path.stem: path for path in sorted(RECIPES.glob("*.toml"))}
    if not is_file(recipe) and str(recipe) in known:
        return known[str(recipe)]
    if not exists(recipe):
        close = nearest(Path(recipe).stem, known)
        hint = f"did you mean `{close}`?" if close else f"its recipes are {listed(known, 'and')}"
        if Path(recipe).name != str(recipe) or Path(recipe).suffix == ".toml":
            raise RecipeError(f"{recipe}: there is no such file; the package's recipes go by name: {hint}")
        raise RecipeError(f"{recipe}: there is no such file, and the package has no recipe of that name; {hint}")
    return Path(recipe)


def load_recipe(recipe: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe, a file or one of the package's by its name.

    `changes` are `section.key=value`, the value written as in TOML (quotes may be left out).
    """
    path = recipe_path(recipe)
    try:
        table = parse_toml(read_text(path, _LARGEST))
    except ParseError as error:
        raise RecipeError(f"{path}: {error}") from None
    table.setdefault("name", path.stem)
    try:
        for change in changes:
            _apply(table, change)
        for section, renamed in _RENAMED.items():
            for key in table[section] if isinstance(table.get(section), dict) else ():
                if key in renamed:
                    raise RecipeError(f"`{section}.{key}` is now called `{section}.{renamed[key]}`")
        built = recipe_from(table)
        _import_plugins(built.plugins, path.parent)
        with reading(RecipeError, "the recipe"):
            return _check(built)
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from None


def recipe_from(table: Mapping[str, Any]) -> Recipe:
    """A recipe from nested tables, as `to_json` returns them; also those of earlier versions."""
    table = dict(table)
    for section, renamed in _RENAMED.items():
        if isinstance(table.get(section), Mapping):
            table[section] = {renamed.get(key, key): value for key, value in table[section].items()}
    if isinstance(table.get("model"), Mapping):
        table["model"] = current_settings(table["model"])
    with reading(RecipeError, "the recipe"):
        recipe = _build(Recipe, table, "")
    return dataclasses.replace(recipe, inherits_model=recipe.start_from is not None and "model" not in table)


def _import_plugins(names: Sequence[str], folder: Path) -> None:
    """Import modules from a folder or the Python path. Raises RecipeError if that fails."""
    sys.path.insert(0, str(folder.resolve()))
    try:
        for name in names:
            try:
                importlib.import_module(name)
            except Exception as error:
                raise RecipeError(f"`plugins`: cannot import `{name}` ({type(error).__name__}: {error})") from error
    finally:
        sys.path.remove(str(folder.resolve()))


def _check_objective(recipe: ObjectiveRecipe) -> None:
    for key, value, known in (("name", recipe.name, ("mle", *RL_OBJECTIVES)), ("reward", recipe.reward, REWARDS)):
        if value not in known:
            raise RecipeError(_not_one_of(f"objective.{key}", value, tuple(known)) + "; `plugins` can add others")
    objective = RL_OBJECTIVES.get(recipe.name)
    options = () if objective is None else objective.options
    for option in recipe.options:
        if option not in options:
            takes = f"it has {listed(options, 'and')}" if options else "it has none"
            raise RecipeError(f"`objective.options`: `{recipe.name}` has no option `{option}`; {takes}")
    if recipe.name == "rl" and recipe.baseline and recipe.rollouts < 2:
        raise RecipeError(
            "`objective.baseline` is the mean of the other rollouts: `objective.rollouts` must be 2 or more"
        )


_BOUNDS: Final[tuple[tuple[str, Callable[[float], bool], tuple[str, ...]], ...]] = (
    (
        "must be above 0 and finite",
        lambda value: 0 < value < math.inf,
        (
            *("run.steps", "run.batch_size", "run.log_every", "run.validate_every", "run.validation_tasks"),
            *("run.validation_beam", "run.checkpoint_every", "optimizer.learning_rate", "optimizer.muon_scale"),
            *("optimizer.clip", "objective.beam", "objective.rollouts", "objective.bag", "data.tasks"),
        ),
    ),
    (
        "must be 0 or above and finite",
        lambda value: 0 <= value < math.inf,
        (
            *("run.patience", "optimizer.warmup", "optimizer.decay_steps", "optimizer.weight_decay"),
            "objective.syntax_weight",
        ),
    ),
    (
        "must be from 0 to 1",
        lambda value: 0 <= value <= 1,
        ("data.drop_examples", "data.purposeful", "optimizer.final"),
    ),
    (
        "must be from 0 to below 1",
        lambda value: 0 <= value < 1,
        ("optimizer.beta1", "optimizer.beta2", "optimizer.momentum"),
    ),
    ("is a whole number from 0 to 2⁶³ − 1", lambda value: 0 <= value < 2**63, ("run.seed", "data.seed")),
)
"""Bounds of numbers: in words, as a test, and the keys that they hold for. None is always allowed."""


def _check(recipe: Recipe) -> Recipe:
    _check_objective(recipe.objective)
    for words, allowed, keys in _BOUNDS:
        for key in keys:
            value = attrgetter(key)(recipe)
            if value is not None and not allowed(value):
                raise RecipeError(f"`{key}` {words}, not {value}")
    rate = recipe.optimizer.learning_rate * max(1.0, recipe.optimizer.muon_scale)
    if rate > _HIGHEST_RATE:
        raise RecipeError(
            f"`optimizer.learning_rate` (for Muon times `optimizer.muon_scale`) can be at most {_HIGHEST_RATE:g}, "
            f"not {rate:g}"
        )
    if recipe.run.validate_start and recipe.start_from is None:
        raise RecipeError("`run.validate_start` validates the model of `start_from`: name one, or remove the key")
    if recipe.data.purposeful and recipe.data.source != "stream":
        raise RecipeError("`data.purposeful` needs `data.source` = `stream`: change the source, or leave it out")
    plain = OptimizerRecipe()
    if recipe.optimizer.name != "muon":
        for name in ("momentum", "muon_scale"):
            if getattr(recipe.optimizer, name) != getattr(plain, name):
                raise RecipeError(
                    f"`optimizer.{name}` is only for Muon: set `optimizer.name` to `muon`, or remove the key"
                )
    if recipe.optimizer.warmup >= recipe.run.steps:
        raise RecipeError(f"`optimizer.warmup` ({recipe.optimizer.warmup}) must be less than `run.steps`")
    if (recipe.optimizer.schedule == "trapezoid") != (recipe.optimizer.decay_steps > 0):
        raise RecipeError(
            "`optimizer.decay_steps` and `optimizer.schedule` = `trapezoid` belong together: set both, or neither"
        )
    return recipe


def _apply(table: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals:
        raise RecipeError(f"`--set {_shortened(change)}`: write section.key=value")
    try:
        value = parse_toml(f"value = {text.strip()}")["value"]
    except ParseError:
        value = text.strip()  # a string without quotes
    *sections, last = key.strip().split(".")
    if len(sections) > _MOST_SECTIONS:
        raise RecipeError(f"`--set {_shortened(change)}`: no key has that many parts")
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise RecipeError(f"`--set {_shortened(change)}`: there is no section `{section}`")
    table[last] = value


def _build(kind: type[T], table: Any, place: str) -> T:
    """A dataclass from a table, checked."""
    if not isinstance(table, Mapping):
        raise RecipeError(f"[{place}] is a section, not {_shown(table)}")
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    names = [each.name for each in fields if not each.metadata.get("derived")]
    for key in table:
        if key not in names:
            where = f"[{place}]" if place else "the recipe"
            close = nearest(_shortened(str(key)), names)
            hint = f"; did you mean `{close}`?" if close else f"; it has {listed(names, 'and')}"
            raise RecipeError(f"{where} has no `{_shortened(str(key))}`{hint}")
    values = {
        name: _value(hints[name], table[name], f"{place}.{name}" if place else name) for name in names if name in table
    }
    for each in fields:
        if each.name not in values and each.default is each.default_factory is dataclasses.MISSING:
            raise RecipeError(f"{f'[{place}]' if place else 'the recipe'} lacks `{each.name}`")
    try:
        return kind(**values)
    except KarelsynthError as error:
        raise RecipeError(f"[{place}]: {error}") from None


def _value(hint: Any, value: Any, place: str) -> Any:
    """A value of a type, checked; whole numbers pass as floats."""
    origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint):
        return _build(hint, value, place)  # type: ignore[arg-type]
    if origin is Literal:
        if value in typing.get_args(hint):
            return value
        raise RecipeError(_not_one_of(place, value, typing.get_args(hint)))
    if origin is tuple:
        if not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value):
            raise RecipeError(f"`{place}` is a list of strings, not {_shown(value)}")
        return tuple(value)
    if origin is dict:
        if not isinstance(value, Mapping):
            raise RecipeError(f"[{place}] is a section, not {_shown(value)}")
        return dict(value)
    if origin in (typing.Union, types.UnionType):
        kinds = typing.get_args(hint)
        if value is None or (value == "none" and type(None) in kinds):
            return None
        (hint,) = (kind for kind in kinds if kind is not type(None))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}[hint]
        raise RecipeError(f"`{place}` is {wanted}, not {_shown(value)}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise RecipeError(f"`{place}` is a whole number from 0 to 2⁶³ − 1, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    """A value for a message."""
    return _shortened(json.dumps(value, default=str))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _not_one_of(place: str, value: Any, choices: Sequence[str]) -> str:
    close = nearest(_shortened(str(value)), map(str, choices))
    return f"`{place}` is {listed(choices)}, not `{_shortened(str(value))}`" + f"; did you mean `{close}`?" * bool(
        close
    )
