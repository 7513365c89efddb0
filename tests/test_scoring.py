"""Scores of given programs, step by step, against teacher forcing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from karelsynth.search.scoring import score_programs
from tests.models import random_grids, random_programs, tiny_model

KINDS: list[dict[str, Any]] = [
    {},
    {"syntax": "handwritten", "max_length": 60},
    {"syntax": "learned"},
    {
        "execution": True,
        "execution_size": 9,
        "mixing": True,
        "head_size": 11,
        "syntax": "handwritten",
        "max_length": 60,
    },
    {
        "execution": True,
        "execution_size": 9,
        "mixing": True,
        "syntax": "handwritten",
        "max_length": 60,
        "choices": True,
    },
]


@pytest.mark.parametrize("settings", KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_scores_equal_teacher_forcing(settings: dict[str, Any], threads: int) -> None:
    """Of programs for several tasks, in no order; some begin alike, some are the same."""
    model = tiny_model(0, 3, **settings)
    tokens, lengths = random_programs(1, 12, 40)
    tasks = np.array([0, 1, 2, 0, 1, 2, 0, 0, 0, 1, 1, 2])
    again = np.array([5, 0, 3, 3, 7, 9, 11])  # once more for the same task, and for others
    tokens, lengths = np.concatenate([tokens, tokens[again]]), np.concatenate([lengths, lengths[again]])
    tasks = np.concatenate([tasks, tasks[again[:4]], [2, 2, 2]])
    with torch.no_grad():
        encoded = model.encode(*random_grids(2, 3, 4), torch.tensor([[True] * 4, [True, False] * 2, [True] * 4]))
        packed = model.pack(tokens, lengths, encoded=encoded, tasks=tasks)
        forced = model.program_logprobs(encoded, packed, torch.from_numpy(tasks)).numpy()
    found = score_programs(model, encoded, tokens, lengths, tasks, dtype=torch.float32, threads=threads)
    np.testing.assert_allclose(found, forced, atol=1e-3, rtol=1e-3)
    assert len(np.unique(forced.round(4))) > 10  # so it would show if programs were mixed up


def test_no_program_has_no_score() -> None:
    model = tiny_model(0)
    with torch.no_grad():
        encoded = model.encode(*random_grids(2, 1, 2))
    nothing = np.zeros((0, 9), np.uint8)
    assert score_programs(model, encoded, nothing, np.zeros(0, np.int64), np.zeros(0, np.int64)).shape == (0,)
