"""Scores of given programs: step by step against teacher forcing, and under a syntax that is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from karelsynth.errors import KarelsynthError
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.syntax import SyntaxMachine
from karelsynth.karel.tokens import ID
from karelsynth.search import Candidates, beam_search, rescore, sample_rollouts
from karelsynth.search.scoring import score_programs
from tests.models import random_grids, random_programs, tiny_model
from tests.plain import narrowed

WAYS: list[dict[str, Any]] = [{}, {"syntax": "handwritten"}, {"syntax": "handwritten", "skip_forced_tokens": True}]
"""No syntax of its own, one, and one that writes forced tokens."""

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
        "skip_forced_tokens": True,
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
        forced = model.program_logprobs(encoded, packed).numpy()
    found = score_programs(model, encoded, tokens, lengths, tasks, dtype=torch.float32, threads=threads)
    np.testing.assert_allclose(found, forced, atol=1e-3, rtol=1e-3)
    assert len(np.unique(forced.round(4))) > 10  # so it would show if programs were mixed up


def test_no_program_has_no_score() -> None:
    model = tiny_model(0)
    with torch.no_grad():
        encoded = model.encode(*random_grids(2, 1, 2))
    nothing = np.zeros((0, 9), np.uint8)
    assert score_programs(model, encoded, nothing, np.zeros(0, np.int64), np.zeros(0, np.int64)).shape == (0,)


@pytest.mark.parametrize("settings", WAYS)
def test_all_speak_of_the_same_p_under_a_machine(settings: dict[str, Any]) -> None:
    """A syntax that is given changes p; search, rollouts and both ways of scoring must agree on it."""
    model = tiny_model(**settings)
    machine = SyntaxMachine(narrowed(KAREL, "move turnLeft", "frontIsClear", "R=3"), 14)
    encoded = model.encode(*random_grids(5, 3, 3)).detach()
    for found in (
        beam_search(model, encoded, beam=10, machine=machine, dtype=torch.float32),
        sample_rollouts(model, encoded, rollouts=10, machine=machine, dtype=torch.float32),
    ):
        assert found.tokens.shape[2] == machine.max_length
        assert all(machine.admits(row) for row in found.tokens.flatten(0, 1).tolist())
        expected = found.logprobs
        torch.testing.assert_close(rescore(model, encoded, found, machine=machine), expected, atol=1e-4, rtol=1e-4)
        assert (rescore(model, encoded, found) - expected).abs().max() > 0.1  # without it, it is another p
        programs = found.tokens.flatten(0, 1).numpy(), found.lengths.flatten().numpy(), np.arange(30) // 10
        scored = score_programs(model, encoded, *programs, machine=machine, dtype=torch.float32)
        np.testing.assert_allclose(scored, expected.flatten().numpy(), atol=1e-4, rtol=1e-4)


def test_what_a_machine_refuses_has_no_probability() -> None:
    model, machine = tiny_model(), SyntaxMachine(narrowed(KAREL, "move", "frontIsClear", "R=3"), 14)
    with torch.no_grad():
        encoded = model.encode(*random_grids(5, 1, 2))
    tokens = np.array([[ID[word] for word in f"DEF run m( {first} move m)".split()] for first in ("move", "turnLeft")])
    programs = tokens.astype(np.uint8), np.full(2, 6), np.zeros(2, np.int64)
    scores = score_programs(model, encoded, *programs, machine=machine, dtype=torch.float32)
    assert scores[0] > scores[1] == -np.inf
    candidates = Candidates(torch.from_numpy(programs[0])[None], torch.full((1, 2), 6), torch.zeros(1, 2))
    with pytest.raises(KarelsynthError, match="token 4 is not allowed there"):
        rescore(model, encoded, candidates, machine=machine)


def test_max_length_must_be_that_of_a_machine_that_is_given() -> None:
    model = tiny_model(syntax="handwritten", max_length=12)
    encoded = model.encode(*random_grids(6, 1, 1))
    with pytest.raises(ValueError, match="max_length is 9, but the syntax machine was made for 12 tokens: make it"):
        beam_search(model, encoded, max_length=9, machine=SyntaxMachine(max_length=12))


@pytest.mark.parametrize("settings", WAYS)
def test_max_length_holds_for_the_models_own_syntax(settings: dict[str, Any]) -> None:
    model = tiny_model(max_length=12, **settings)
    encoded = model.encode(*random_grids(6, 2, 2)).detach()
    for longest in (9, 20):
        found = beam_search(model, encoded, beam=20, max_length=longest, dtype=torch.float32)
        assert found.tokens.shape[2] == longest
        machine = model.machine_for(max_length=longest)
        assert (machine is None) == (not settings)
        scored = rescore(model, encoded, found, machine=machine)
        torch.testing.assert_close(scored, found.logprobs, atol=1e-4, rtol=1e-4)
        if machine is not None:
            assert machine is model.machine_for(max_length=longest)  # made once
            assert found.lengths.min() > 0
