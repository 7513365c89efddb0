"""A short run of `tools/fuzz.py`: malformed input of every kind, and not one foreign exception.

The same inputs every time. Longer runs are by hand: `python tools/fuzz.py --seconds 3600 --seed N`.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from tools.fuzz import Target, attack, mutations, targets, workspace

INPUTS = 300
"""For each target: ten seconds in all."""


@pytest.fixture(scope="module")
def known() -> Iterator[dict[str, Target]]:
    yield targets(workspace())
    shutil.rmtree(workspace())
    workspace.cache_clear()


def test_no_input_breaks_a_parser(known: dict[str, Target], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = {
        name: attack(name, target, seed=0, inputs=INPUTS, seconds=None, save=tmp_path) for name, target in known.items()
    }
    assert not [name for name, outcome in outcomes.items() if outcome.failures], capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    assert sum(outcome.inputs for outcome in outcomes.values()) == INPUTS * len(known)
    assert sum(outcome.refused for outcome in outcomes.values()) > INPUTS * len(known) / 3


def test_valid_input_is_accepted(known: dict[str, Target]) -> None:
    """Or the attack would stop at the door."""
    for name, target in known.items():
        for seed in target.seeds:
            if name not in ("task_file", "setting"):  # of which some seeds are of another kind, on purpose
                target.run(seed)


def test_the_same_seed_gives_the_same_inputs(known: dict[str, Target]) -> None:
    for target in known.values():
        one, two, other = (list(islice(mutations(target.seeds, random.Random(seed)), 20)) for seed in (1, 1, 2))
        assert one == two != other


def test_a_bug_is_found_and_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = Target(lambda data: data.index(b"x"), (b"xyz" * 20,))
    outcome = attack("broken", broken, seed=0, inputs=200, seconds=None, save=tmp_path)
    assert outcome.failures
    assert "broken: ValueError" in capsys.readouterr().out
    assert all(b"x" not in path.read_bytes() for path in tmp_path.iterdir())
