"""Paths to run the paper's rows in, and some rows that have been run."""

from __future__ import annotations

from pathlib import Path

import pytest

from karelsynth.reproduce.running import Paths
from karelsynth.tasks.sets import write_set
from tests.reproduce.small import jobs, runner, write_recipes


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks") / "eight"
    write_set(folder, seed=3, count=8, reserved=True)
    return folder


@pytest.fixture(scope="session")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight tasks that are neither these nor of `val`."""
    folder = tmp_path_factory.mktemp("tasks") / "others"
    write_set(folder, seed=7, count=8, reserved=True)
    return folder


@pytest.fixture
def paths(tmp_path: Path, tasks: Path) -> Paths:
    return Paths(write_recipes(tmp_path / "recipes"), tmp_path / "runs", tmp_path / "results", data=tasks)


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory, tasks: Path) -> Paths:
    """Some rows of every table, measured once; tests only read them."""
    folder = tmp_path_factory.mktemp("measured")
    paths = Paths(write_recipes(folder / "recipes"), folder / "runs", folder / "results", folder / "kept", tasks)
    wanted = [*jobs("small_mle", seeds=(0, 1, 2)), *jobs("small_rl_beam"), *jobs("mle_learned", "rl_beam")]
    assert runner(paths).run(wanted) == dict.fromkeys(wanted, "done")
    return paths
