"""`karelsynth reproduce`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from karelsynth.cli import reproduce as command
from karelsynth.errors import KarelsynthError
from karelsynth.reproduce import page
from karelsynth.reproduce.running import Paths
from tests import command_line
from tests.reproduce.small import write_recipes

app = typer.Typer()
app.command()(command.reproduce)


def call(*arguments: object) -> Any:
    return command_line.call(*arguments, app=app)


def test_the_command_measures_and_shows_a_table(
    paths: Paths, others: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    where = ("--data", paths.data, "--recipes", paths.recipes, "--results", "mine", "--device", "cpu")
    result = call("objectives", "--only", "small_rl_beam", "--seeds", "5", *where)
    assert result.exit_code == 0, result.output
    assert "1 measured now, 0 before; left: nothing" in result.output
    assert "| **RL_beam** | not yet | 75.72 |" in result.output
    assert "step 1 of 4" in result.output
    assert (tmp_path / "runs" / "reproduce" / "small_mle-seed5" / "final").is_dir()  # trained, for it was missing
    chosen = (*where[:4], "--val", others, "--results", "other", "--runs", "runs2", "--device", "cpu")
    shown = call("syntax", "--only", "small_mle", "--seeds", "5", *chosen)
    assert shown.exit_code == 0, shown.output
    assert "†" not in shown.output
    record = json.loads((tmp_path / "other" / "small_mle-seed5.json").read_text())
    assert record["recipe"]["data"]["validation"] == str(others)
    again = call("objectives", "--only", "small_rl_beam", "--seeds", "5", "--minutes", "0", *where)
    assert "all 1 were measured before; give another folder with --results" in " ".join(again.output.split())
    with pytest.raises(
        KarelsynthError, match=r"--render must run in the repository's root \(there is no docs/results\.md"
    ):
        call("--render", "--results", "mine")
    assert not (tmp_path / "docs").exists()
    (tmp_path / page.PAGE).parent.mkdir()
    (tmp_path / page.PAGE).write_text("old")
    rendered = call("--render", "--recipes", paths.recipes, "--results", "mine")
    assert "docs/results.md" in rendered.output
    assert "RL_beam" in (tmp_path / page.PAGE).read_text()


def test_a_folder_with_one_recipe_is_enough_for_its_row(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in paths.recipes.glob("*.toml"):
        if path.stem != "small_mle":
            path.unlink()
    where = ("--data", paths.data, "--recipes", paths.recipes, "--results", "mine", "--device", "cpu")
    shown = call("syntax", "--only", "small_mle", "--seeds", "0", *where)
    assert "1 measured now" in shown.output
    assert "| **MLE** | not yet | 71.91 |" in shown.output
    with pytest.raises(KarelsynthError, match=r"small_mle_learned.toml: there is no such file"):
        call("syntax", "--only", "small_mle_learned", "--seeds", "0", *where)


def test_the_command_fails_where_a_row_diverged_but_not_where_time_was_up(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_recipes(paths.recipes, learning_rate="1e30")
    row = ("objectives", "--only", "small_mle", "--seeds", "0")
    where = (*row, "--data", paths.data, "--recipes", paths.recipes, "--results", "mine")
    late = call(*where, "--minutes", "0", "--device", "cpu")
    assert late.exit_code == 0
    assert "left: small_mle-seed0; run the same command again to continue" in late.output
    diverged = call(*where, "--device", "cpu")
    assert diverged.exit_code == 1
    assert "0 measured now, 0 before; diverged: small_mle-seed0; left: nothing" in diverged.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), r"say which table: `objectives`, .* or `all`; or --render"),
        (("objectives", "--data", "x"), r"give another folder with --results"),
        (("objectives", "--val", "x"), r"with --data, --train or --val, give another folder with --results"),
        (("objectives", "--seeds", "0,x"), r"--seeds 0,x: write whole numbers"),
        (("objectives", "--seeds", "1,1"), r"--seeds 1,1: write whole numbers"),
        (("objectives", "--recipes", "none"), r"none: there is no such folder of recipes"),
        (("tabel",), r"there is no table called `tabel`"),
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KarelsynthError, match=message):
        call(*arguments)
