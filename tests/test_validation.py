"""Which tasks, and from among which models, the best one is chosen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from karelsynth.errors import KarelsynthError
from karelsynth.evaluate import Report, evaluate
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.generate import generate
from karelsynth.tasks.named import named_tasks
from karelsynth.tasks.sets import export_msr, write_set
from karelsynth.train import loop, validation
from karelsynth.train.checkpoint import CheckpointError
from karelsynth.train.distributed import ProcessGroup
from karelsynth.train.loop import train
from karelsynth.train.metrics import METRICS
from karelsynth.train.recipe import Recipe, RecipeError
from karelsynth.train.validation import Validation, Validator, validation_tasks
from tests.models import tiny_model
from tests.training import assert_same, tiny, weights

CPU = torch.device("cpu")
SEED = 77


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of twelve tasks, and the same as a file in the original's format beside it."""
    folder = tmp_path_factory.mktemp("own") / "twelve"
    export_msr(write_set(folder, seed=SEED, count=12), folder.with_suffix(".json"))
    return folder


def on(source: object, recipe: Recipe | None = None) -> Recipe:
    recipe = recipe or tiny()
    return replace(recipe, data=replace(recipe.data, validation=str(source)))


def assert_tasks(found: TaskBatch, wanted: TaskBatch) -> None:
    assert np.array_equal(found.tokens, wanted.tokens)
    assert np.array_equal(found.inputs, wanted.inputs)


def test_by_default_validation_uses_our_val_even_beside_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_set("val", seed=SEED, count=8)
    assert tiny().data.validation == "val"
    assert_tasks(validation_tasks(tiny()), named_tasks("val", 8))
    assert_tasks(validation_tasks(on("small")), named_tasks("small", 8))
    assert_tasks(validation_tasks(on("./val")), generate(SEED, 0, 8))


@pytest.mark.parametrize(("count", "found"), [(8, 8), (500, 12)])
def test_sets_and_files_are_read_up_to_the_limit(count: int, found: int, own: Path) -> None:
    for path in (own, own.with_suffix(".json")):
        assert_tasks(validation_tasks(on(path, tiny(validation_tasks=count))), generate(SEED, 0, found))


def test_scores_and_samples_are_of_the_given_tasks(own: Path, tmp_path: Path) -> None:
    recipe = on(own, tiny(steps=6))
    train(recipe, tmp_path, device=CPU)
    entry = json.loads((tmp_path / METRICS).read_text().splitlines()[-1])
    tasks = generate(SEED, 0, 8)
    report = evaluate(Synthesizer.from_pretrained(tmp_path / "final"), tasks, beam=1).to_json()
    for measure in ("generalization", "consistent", "syntax"):
        assert entry[f"validation_{measure}"] == report[measure]["1"]
    assert f"reference: {' '.join(tasks.program(0).tokens)}\n" in entry["sample"]
    assert json.loads((tmp_path / "final" / "recipe.json").read_text())["data"]["validation"] == str(own)


def test_the_best_model_is_the_best_on_the_given_tasks(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a run got ever better on our tasks and ever worse on the others; nothing else about it may change."""
    scored = {"ours": 0.0, "own": 100.0}

    def score(model: Synthesizer, tasks: TaskBatch, *, beam: int, **more: Any) -> Any:
        which = "own" if np.array_equal(tasks.tokens, generate(SEED, 0, len(tasks)).tokens) else "ours"
        scored[which] += {"ours": 1, "own": -1}[which]
        record = {key: {"1": scored[which]} for key in ("generalization", "exact", "consistent", "syntax")}
        return SimpleNamespace(to_json=lambda: record)

    monkeypatch.setattr(validation, "evaluate", score)
    recipe = tiny(steps=4, validate_every=2, checkpoint_every=2)
    train(recipe, tmp_path / "ours", device=CPU)
    train(on(own, recipe), tmp_path / "own", device=CPU)
    assert scored == {"ours": 2, "own": 98}
    assert_same(weights(tmp_path / "ours"), weights(tmp_path / "own"))
    ours, other = (load_file(tmp_path / name / "best" / "model.safetensors") for name in ("ours", "own"))
    assert_same(ours, weights(tmp_path / "ours"))  # the last
    train(recipe, tmp_path / "half", device=CPU, stop_after=2)
    assert_same(other, load_file(tmp_path / "half" / "best" / "model.safetensors"))  # the first
    assert any(not torch.equal(ours[key], other[key]) for key in ours)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "nothing: there is no such file, and there is no set called `nothing`; there are `full`"),
        ("vall", "vall: there is no such file, and there is no set called `vall`; did you mean `val`\\?$"),
        ("broken.json", "broken.json, line 2: "),
        ("empty.json", "empty.json: there is no good task in it"),
        ("few", "few: its tasks have 5 examples each; to score models on them there must be 6 or more, 5 to show"),
        ("few.json", "few.json: its tasks have 5 examples each"),
        (".", "manifest.json"),
    ],
)
def test_unusable_tasks_are_refused_before_anything_else(
    name: str, message: str, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    export_msr(write_set("few", seed=SEED, count=8, examples=5), "few.json")
    first = own.with_suffix(".json").read_text().splitlines()[0]
    Path("broken.json").write_text(f'{first}\n{{"program_tokens": []}}\n')
    Path("empty.json").touch()
    monkeypatch.setattr(loop, "open_source", lambda recipe: pytest.fail("training tasks were made first"))
    with pytest.raises(RecipeError, match=f"^validation tasks: .*{message}"):
        train(on(name), tmp_path / "run", device=CPU)
    assert not (tmp_path / "run" / METRICS).exists()


def test_a_run_resumes_with_the_same_tasks_only(own: Path, tmp_path: Path) -> None:
    for before, after in (("val", str(own)), (str(own), "val")):
        folder = tmp_path / Path(before).name
        train(on(before), folder, device=CPU, stop_after=3)
        with pytest.raises(CheckpointError, match=r"another recipe \(different: data\.validation\)"):
            train(on(after), folder, device=CPU)
        train(on(before), folder, device=CPU, stop_after=4)


@pytest.mark.parametrize("setting", ["source", "validation"])
def test_a_run_does_not_resume_with_a_file_that_has_changed(setting: str, tmp_path: Path) -> None:
    file, folder = tmp_path / "tasks.json", tmp_path / "run"
    recipe = tiny()
    changes: dict[str, Any] = {"tasks": None, setting: str(file)}
    recipe = replace(recipe, data=replace(recipe.data, **changes))
    before, after = generate(SEED, 0, 12), generate(SEED + 1, 0, 12)
    export_msr(before, file)
    train(recipe, folder, device=CPU, stop_after=3)
    export_msr(after, file)
    with pytest.raises(CheckpointError, match=rf"tasks\.json \(`data\.{setting}`\) holds other tasks than when"):
        train(recipe, folder, device=CPU)
    export_msr(before, file)
    train(recipe, folder, device=CPU, stop_after=4)
    export_msr(after, file)
    notes = max(folder.glob("checkpoint-*")) / "notes.json"
    record = json.loads(notes.read_text())
    assert list(record.pop("tasks")) == [f"data.{setting}"]
    notes.write_text(json.dumps(record))  # as an older version wrote it
    notes.with_name("SHA256SUMS").unlink()
    train(recipe, folder, device=CPU, stop_after=5)


def test_a_fingerprint_depends_on_the_tasks_and_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = generate(SEED, 0, 12)
    wider = replace(tasks, tokens=np.pad(tasks.tokens, ((0, 0), (0, 8))))
    assert wider.digest == tasks.digest  # padding is no part of them
    assert tasks.digest != tasks[::-1].digest != tasks[:-1].digest
    assert tasks.fingerprint == f"12-{tasks.digest}"
    monkeypatch.setattr("karelsynth.tasks.batch._SAMPLED", 5)
    assert tasks.fingerprint == f"12-{tasks[::3].digest}"
    assert tasks.begins_like(tasks[:3])
    assert tasks[:3].begins_like(tasks)
    assert not tasks[1:].begins_like(tasks)
    assert not tasks[:0].begins_like(tasks)


def test_a_run_from_before_there_was_a_choice_was_on_val(own: Path, tmp_path: Path) -> None:
    train(tiny(), tmp_path, device=CPU, stop_after=3)
    (newest,) = tmp_path.glob("checkpoint-*")
    notes = json.loads((newest / "notes.json").read_text())
    del notes["recipe"]["data"]["validation"]
    (newest / "notes.json").write_text(json.dumps(notes))
    (newest / "SHA256SUMS").unlink()
    with pytest.raises(KarelsynthError, match=r"data\.validation"):
        train(on(own), tmp_path, device=CPU)
    train(tiny(), tmp_path, device=CPU)
    assert (tmp_path / "final").is_dir()


# Ending early


def scoring(monkeypatch: pytest.MonkeyPatch, *scores: float) -> None:
    """Validations find these scores, one after another."""
    left = iter(scores)
    names = ("generalization", "exact", "consistent", "syntax")
    monkeypatch.setattr(Validator, "score", lambda *_: Validation(dict.fromkeys(names, next(left)), ""))


def test_a_run_ends_when_validation_no_longer_improves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two validations in a row without a new best score; a stopped run ends at the same step with the same weights."""
    recipe = tiny(steps=12, validate_every=2, checkpoint_every=100, log_every=100, patience=2)
    scores = 10.0, 9.0, 11.0, 11.0, 10.5
    scoring(monkeypatch, *scores)
    whole = train(recipe, tmp_path / "whole", device=CPU)
    assert validated(tmp_path / "whole") == [2, 4, 6, 8, 10]
    entries = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    counts = [entry["validations_since_best"] for entry in entries if "validations_since_best" in entry]
    assert counts == [0, 1, 0, 1, 2]
    scoring(monkeypatch, *scores)
    for stop in (3, 8, 9, None):
        train(recipe, tmp_path / "stopped", device=CPU, stop_after=stop)
    assert validated(tmp_path / "stopped") == validated(tmp_path / "whole")
    assert_same(weights(tmp_path / "stopped"), weights(tmp_path / "whole"))
    assert train(recipe, tmp_path / "whole", device=CPU) == whole  # it is finished: no score is left to ask for
    scoring(monkeypatch, 12.0, 1.0, 2.0)
    longer = replace(recipe, run=replace(recipe.run, steps=20))
    train(longer, tmp_path / "whole", device=CPU, extend=True)
    assert validated(tmp_path / "whole") == [2, 4, 6, 8, 10, 12, 14, 16]


# The model that a run starts from


@pytest.fixture
def falling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every validation finds less than the one before it."""
    scoring(monkeypatch, *map(float, range(100, 0, -1)))


@pytest.mark.parametrize("wanted", [True, False])
def test_the_start_can_stay_the_best_where_that_is_wanted(wanted: bool, tmp_path: Path, falling: None) -> None:
    train(tiny(steps=1), tmp_path / "start", device=CPU)
    recipe = tiny("rl_beam", steps=4, validate_every=2, validate_start=wanted, log_every=100)
    recipe = replace(recipe, start_from=str(tmp_path / "start" / "final"))
    train(recipe, tmp_path / "run", device=CPU, stop_after=3)
    train(recipe, tmp_path / "run", device=CPU)
    train(replace(recipe, run=replace(recipe.run, validate_start=False)), tmp_path / "plain", device=CPU)
    assert_same(weights(tmp_path / "run"), weights(tmp_path / "plain"))  # it is looked at, no more
    best, plain = (load_file(tmp_path / name / "best" / "model.safetensors") for name in ("run", "plain"))
    assert_same(best, weights(tmp_path / "start") if wanted else plain)
    assert validated(tmp_path / "run") == ([0, 2, 4] if wanted else [2, 4])


def test_a_run_killed_before_its_first_checkpoint_has_one_entry_of_its_start(tmp_path: Path, falling: None) -> None:
    train(tiny(steps=1), tmp_path / "start", device=CPU)
    recipe = replace(tiny(steps=2, validate_start=True, log_every=1), start_from=str(tmp_path / "start" / "final"))

    def kill(progress: object) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        train(recipe, tmp_path / "run", device=CPU, on_progress=kill)
    assert validated(tmp_path / "run") == [0]
    train(recipe, tmp_path / "run", device=CPU)
    assert validated(tmp_path / "run") == [0, 2]


def validated(folder: Path) -> list[int]:
    entries = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    return [entry["step"] for entry in entries if "validation_exact" in entry]


def test_a_named_set_is_scored_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a folder of that name exists."""
    monkeypatch.chdir(tmp_path)
    write_set("examples_2", seed=SEED, count=8)
    asked: list[tuple[int, int]] = []

    def spy(model: Synthesizer, tasks: TaskBatch, *, given: int, max_ticks: int, **more: Any) -> Report:
        asked.append((given, max_ticks))
        return evaluate(model, tasks, given=given, max_ticks=max_ticks, **more)

    monkeypatch.setattr("karelsynth.train.validation.evaluate", spy)
    for source in ("examples_2", "./examples_2", "classroom"):
        Validator(on(source), ProcessGroup(0, 1, CPU)).score(tiny_model())
    assert asked == [(2, 200), (5, 200), (5, 5 * 376)]
