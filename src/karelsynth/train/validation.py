"""Validation during training: the share of tasks that the top-ranked program solves, and sample programs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from karelsynth.errors import KarelsynthError, ProgramSyntaxError
from karelsynth.evaluate import decode, evaluate
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import TOKENS
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.tasks.batch import COMPARED, TaskBatch
from karelsynth.tasks.named import NAMED_SETS, named_tasks
from karelsynth.tasks.sets import Scoring, load_tasks, scoring_of
from karelsynth.train.distributed import ProcessGroup
from karelsynth.train.recipe import Recipe, RecipeError, recipe_from

_SHOWN: Final = 2


@dataclass(frozen=True)
class Validation:
    """The scores of a validation."""

    metrics: dict[str, float]
    """In percent."""
    sample: str
    """Reference programs of some tasks, and the model's."""


def validation_tasks(recipe: Recipe) -> TaskBatch:
    """The first tasks of `data.validation`, all if there are fewer; raises RecipeError if they cannot be used.

    The name of a named set always means that set: a folder called `val` must not change what a recipe does.
    """
    source, limit = recipe.data.validation, recipe.run.validation_tasks
    if source in NAMED_SETS:
        return named_tasks(source, limit)
    try:
        return load_tasks(source, limit=limit, scored=True)
    except KarelsynthError as error:
        raise RecipeError(f"validation tasks: {error}") from None


def chosen_on(record: Any, tasks: TaskBatch) -> bool:
    """Whether the model was selected by its score on these tasks, by its recipe; False if that cannot be determined."""
    if not isinstance(record, dict):
        return False
    try:
        recipe = recipe_from({"name": "", **record})
        few = min(COMPARED, recipe.run.validation_tasks)
        return tasks.begins_like(validation_tasks(replace(recipe, run=replace(recipe.run, validation_tasks=few))))
    except KarelsynthError:  # of another version, or its tasks are no longer there
        return False


class Validator:
    """Scores models on a recipe's validation tasks."""

    def __init__(self, recipe: Recipe, group: ProcessGroup) -> None:
        self._beam, self._group = recipe.run.validation_beam, group
        self._tasks, source = validation_tasks(recipe), recipe.data.validation
        named = NAMED_SETS.get(source)
        self._scoring = scoring_of(source) if named is None else Scoring(named.given, named.max_ticks)

    @property
    def fingerprint(self) -> str:
        """Of the tasks."""
        return self._tasks.fingerprint

    def score(self, model: Synthesizer) -> Validation:
        """Decode and score; only in the main process."""
        if not self._group.is_main:
            return Validation({}, "")
        given, max_ticks = self._scoring
        report = evaluate(model, self._tasks, beam=self._beam, given=given, max_ticks=max_ticks).to_json()
        metrics = {name: report[name]["1"] for name in ("generalization", "exact", "consistent", "syntax")}
        return Validation(metrics, self._sample(model))

    def _sample(self, model: Synthesizer) -> str:
        tasks = self._tasks[:_SHOWN]
        written = decode(model, tasks, beam=self._beam, given=self._scoring.given)
        pairs = zip(tasks.tokens, written.tokens[:, 0].numpy(), strict=True)
        return "\n\n".join(f"reference: {_text(one.tolist())}\nwritten:   {_text(two.tolist())}" for one, two in pairs)


def _text(tokens: list[int]) -> str:
    try:
        return " ".join(Program.from_tokens(tokens).tokens)
    except ProgramSyntaxError:
        return " ".join(TOKENS[token] for token in tokens if token) + "   (does not parse)"
