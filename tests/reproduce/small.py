"""The paper's rows in small: recipes that a CPU follows in a blink, and who runs them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import torch

from karelsynth.reproduce.rows import ROWS, Job
from karelsynth.reproduce.running import Paths, Runner
from karelsynth.train.recipe import RECIPES

ROOT = Path(__file__).parents[2]
TINY = """
[model]
syntax = "{syntax}"
channels = 2
blocks = 1
code_size = 12
embedding_size = 8
hidden_size = {hidden}
syntax_size = 8
[data]
tasks = 16
[objective]
name = "{objective}"
beam = 4
rollouts = 4
bag = 2
[optimizer]
learning_rate = 3e-3
[run]
steps = 4
batch_size = 4
log_every = 1
validate_every = 4
validation_tasks = 4
checkpoint_every = 4
"""


def write_recipes(folder: Path, **changes: str) -> Path:
    """A recipe for every row that a CPU follows in a blink."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ROWS:
        record = {
            "syntax": next((way for way in ("learned", "handwritten") if name.endswith(way)), "none"),
            "hidden": "16" if name.endswith("large") else "12",
            "objective": _objective(name),
        }
        text = TINY.format(**record)
        for old, new in changes.items():
            text = re.sub(rf"^{old} = .*$", f"{old} = {new}", text, flags=re.MULTILINE)
        (folder / f"{name}.toml").write_text(text)
    return folder


def _objective(name: str) -> str:
    """The row's own; a row that a test has made up has no recipe, and MLE will do."""
    path = RECIPES / f"{name}.toml"
    record = tomllib.loads(path.read_text()) if path.exists() else {}
    return str(record.get("objective", {}).get("name", "mle"))


def runner(paths: Paths, said: list[str] | None = None) -> Runner:
    return Runner(paths, device=torch.device("cpu"), commit="abc", log=(said if said is not None else []).append)


def change(paths: Paths, job: Job, **changes: object) -> None:
    """Change settings in the recipe of one row."""
    path = paths.recipes / f"{job.row.recipe}.toml"
    text = path.read_text()
    for name, value in changes.items():
        text = re.sub(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
    path.write_text(text)


def jobs(*names: str, seeds: tuple[int, ...] = (0,)) -> list[Job]:
    return [Job(ROWS[name], seed) for name in names for seed in seeds]
