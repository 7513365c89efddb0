"""The commands train and evaluate: errors before the work begins, and what is recorded."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from karelsynth.errors import KarelsynthError
from karelsynth.evaluate import as_bits
from karelsynth.files import FileError
from karelsynth.model.storage import read_recipe
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.tasks.generate import generate
from karelsynth.tasks.msr_tasks import write_tasks
from karelsynth.tasks.named import named_tasks
from karelsynth.train.loop import train
from karelsynth.train.recipe import RECIPES
from tests.command_line import call
from tests.models import tiny_model

RECIPE = """
[model]
channels = 2
blocks = 1
code_size = 12
embedding_size = 6
hidden_size = 10
[run]
steps = 2
batch_size = 4
log_every = 1
validate_every = 1
validation_tasks = 2
checkpoint_every = 1
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tiny_model().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    return tmp_path / "tiny.toml"


def test_a_place_that_cannot_be_written_is_an_error_before_the_work(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Synthesizer, "from_pretrained", None)
    for place, message in ((tmp_path, "it is a folder"), (tmp_path / "none" / "a.json", "there is no folder")):
        with pytest.raises(FileError, match=f"cannot be written: {message}"):
            call("evaluate", model, "val", "--limit", 2, "--json", place)


def test_a_file_without_a_good_task_says_why(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    write_tasks([generate(1, 0, 3)], path)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("\n".join(json.dumps({"examples": record["examples"]}) for record in records))
    why = "there is no good task in it; the first problem: line 1: the program is missing"
    for command in (("evaluate", model, path), ("stats", path), ("import-msr", path, "--out", tmp_path / "set")):
        with pytest.raises(KarelsynthError, match=why):
            call(*command)


def test_recipes_are_listed_and_shown(recipe: Path) -> None:
    """What is shown can be trained as a file of one's own."""
    listed = call("train", "--list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == sorted(path.stem for path in RECIPES.glob("*.toml"))
    assert all(len(line.split()) > 3 for line in listed)
    assert call("train", "quickstart", "--show").stdout == (RECIPES / "quickstart.toml").read_text()
    assert call("train", recipe, "--show").stdout.strip() == RECIPE.strip()


def test_in_python_recipe_folder_and_device_go_by_name(recipe: Path, tmp_path: Path) -> None:
    """As on the command line."""
    assert train(str(recipe), str(tmp_path / "run"), device="cpu") == tmp_path / "run" / "final"
    for name, device, message in (
        ("quickstrat", "cpu", "did you mean `quickstart`"),
        ("mle", "gpu", "no device `gpu`"),
    ):
        with pytest.raises(KarelsynthError, match=message):
            train(name, tmp_path / "none", device=device)
    assert not (tmp_path / "none").exists()


def test_the_best_model_says_how_it_was_made(recipe: Path, tmp_path: Path) -> None:
    said = call("train", recipe, "--out", tmp_path / ("long" * 30), "--device", "cpu").stdout
    assert said.count("\n") == 1  # however long the names are
    best, final = (tmp_path / ("long" * 30) / name for name in ("best", "final"))
    assert read_recipe(best) == read_recipe(final) is not None
    call("evaluate", best, "val", "--limit", 2, "--beam", 2, "--device", "cpu", "--json", tmp_path / "report.json")
    provenance = json.loads((tmp_path / "report.json").read_text())["provenance"]
    assert (provenance["model"], provenance["recipe"]) == (str(best), read_recipe(final))


def test_a_model_that_was_chosen_on_the_tasks_gets_a_warning(recipe: Path, tmp_path: Path) -> None:
    run, report = tmp_path / "run", tmp_path / "report.json"
    call("train", recipe, "--set", "data.validation=test", "--out", run, "--device", "cpu")
    file = tmp_path / "same.jsonl"
    write_tasks([named_tasks("test", 3)], file)
    for name, tasks, flattered in (
        ("best", "test", True),
        ("best", file, True),
        ("best", "val", False),
        ("final", "test", False),  # the last, whatever its scores are
    ):
        options = "--limit", 3, "--beam", 2, "--device", "cpu", "--json", report
        said = call("evaluate", run / name, tasks, *options)
        assert ("was chosen on these tasks" in said.stderr) == flattered
        assert "chosen on" not in said.stdout
        assert json.loads(report.read_text())["provenance"].get("chosen_on_these_tasks", False) == flattered


def test_two_reports_can_be_compared_task_by_task(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the docs say."""
    page = (Path(__file__).parents[1] / "docs" / "training.md").read_text()
    (snippet,) = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "paired_interval" in code]
    monkeypatch.chdir(tmp_path)
    scored = ("--beam", 2, "--device", "cpu", "--json")
    for name in ("one.json", "two.json"):
        call("evaluate", model, "val", "--limit", 10, *scored, name)
    report = json.loads(Path("two.json").read_text())
    Path("one.json").write_text(json.dumps({**report, "solved": {"1": as_bits(np.arange(10) < 5)}}))
    exec(snippet, {})
    assert "middle=50.0" in capsys.readouterr().out
    call("evaluate", model, "val", "--limit", 9, *scored, "one.json")
    with pytest.raises(AssertionError, match="different tasks"):
        exec(snippet, {})


def test_figures_are_not_wrapped(model: Path) -> None:
    said = call("evaluate", model, "val", "--limit", 2, "--beam", 2, "--device", "cpu").stdout
    assert "s a task" in next(line for line in said.splitlines() if line.startswith("unfiltered top-1"))


def test_the_shipped_model_goes_by_its_name(
    recipe: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And `./shipped` is a folder."""
    model.rename(tmp_path / "shipped")
    monkeypatch.chdir(tmp_path)
    small = ("val", "--limit", 1, "--beam", 1, "--device", "cpu", "--json", "report.json")
    for name, said in (("shipped", "execution_joint"), ("./shipped", None)):
        call("evaluate", name, *small)
        provenance = json.loads(Path("report.json").read_text())["provenance"]
        assert provenance["model"] == name
        assert (provenance["recipe"] or {}).get("name") == said
        with pytest.raises(KarelsynthError, match=f"the model in {name} differs from the recipe"):
            call("train", recipe, "--set", f"start_from={name}", "--out", "run", "--device", "cpu")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is promised that is not there")
def test_more_than_memory_holds_is_one_message(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KarelsynthError, match="not enough memory for this much at once: choose smaller numbers"):
        call("train", recipe, "--set", "model.hidden_size=2_000_000_000", "--device", "cpu")

    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr("karelsynth.train.loop.train", full)
    with pytest.raises(KarelsynthError, match="not enough memory"):
        call("train", recipe)


def test_other_errors_stay_what_they_are(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("karelsynth.train.loop.train", broken)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        call("train", recipe)
