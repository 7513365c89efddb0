"""Objectives: against enumeration of everything they are sums over, by finite differences, and on a small problem."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from karelsynth.karel.interpreter import Status
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import Action, Program
from karelsynth.karel.tokens import PAD, VOCABULARY_SIZE
from karelsynth.model import Synthesizer
from karelsynth.objectives import (
    REWARDS,
    RL_OBJECTIVES,
    RLObjective,
    consistency,
    generalization,
    generalization_and_speed,
    mle,
    mml,
    reinforce,
    rl_beam,
    rl_beam_div,
    signed_generalization,
    signed_generalization_and_speed,
)
from karelsynth.objectives.rl_beam import renormalised
from karelsynth.objectives.rl_beam_div import best_of_bag, best_of_bag_boolean
from karelsynth.search import Candidates, Outcomes, beam_search, check, rescore, sample_rollouts, with_reference
from karelsynth.train.recipe import ObjectiveRecipe, load_recipe
from tests.models import tiny_model
from tests.strategies import random_world

DOUBLE = torch.float64
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in RL_OBJECTIVES},
    "rl with baseline": ("rl", {"baseline": True}),
    "div_opt": ("rl_beam_div", {}),
}
"""Every RL objective, and settings other than a recipe's defaults."""


def case(named: str) -> tuple[RLObjective, dict[str, Any]]:
    """An objective and the settings that its loss takes."""
    name, changed = CASES[named]
    known = RL_OBJECTIVES[name]
    return known, {setting: getattr(ObjectiveRecipe(), setting) for setting in known.settings} | changed


def random_logprobs(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (-3 * torch.rand(*shape, generator=generator, dtype=DOUBLE) - 0.5).requires_grad_()


# The bag.


def by_listing_all_bags(q: list[float], rewards: list[float], bag: int) -> float:
    """Equation 10 as it stands: a sum over all S^C bags."""
    return sum(
        max(rewards[member] for member in members) * math.prod(q[member] for member in members)
        for members in itertools.product(range(len(q)), repeat=bag)
    )


@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.sampled_from([-1.0, 0.0, 0.25, 1.0, 1.5])), min_size=1, max_size=5),
    st.integers(1, 4),
)
def test_the_best_of_a_bag_is_what_listing_all_bags_gives(members: list[tuple[float, float]], bag: int) -> None:
    """Rewards are drawn from few values: ties are common."""
    weights, rewards = zip(*members, strict=True)
    q = torch.tensor([weights], dtype=DOUBLE) / sum(weights)
    expected = by_listing_all_bags(q[0].tolist(), list(rewards), bag)
    assert best_of_bag(q, torch.tensor([rewards]), bag).item() == pytest.approx(expected)
    zero_one = [float(reward > 0.5) for reward in rewards]
    expected = by_listing_all_bags(q[0].tolist(), zero_one, bag)
    boolean = torch.tensor([zero_one]).bool()
    assert best_of_bag_boolean(q, boolean, bag).item() == pytest.approx(expected)
    assert best_of_bag(q, boolean, bag).item() == pytest.approx(expected)


def test_a_bag_of_one_is_rl_beam() -> None:
    logprobs, rewards = random_logprobs(0, 4, 6), torch.rand(4, 6, dtype=DOUBLE)
    assert rl_beam_div(logprobs, rewards, bag=1)[0].item() == pytest.approx(rl_beam(logprobs, rewards)[0].item())


def test_all_programs_in_the_beam_give_the_expected_reward() -> None:
    """If the beam holds every program, renormalising changes nothing and equation 7 comes back."""
    logprobs = random_logprobs(1, 3, 5).log_softmax(1)
    rewards = torch.rand(3, 5, dtype=DOUBLE)
    assert rl_beam(logprobs, rewards)[0].item() == pytest.approx(-(logprobs.exp() * rewards).sum(1).mean().item())


# Empty slots.


@pytest.mark.parametrize("objective", [rl_beam, rl_beam_div, mml])
@pytest.mark.parametrize("boolean", [False, True])
def test_empty_slots_and_tasks_without_candidates_count_for_nothing(objective: Any, boolean: bool) -> None:
    values = random_logprobs(2, 3, 4)
    empty = torch.tensor([[False, False, False, False], [False, True, False, True], [True] * 4])
    logprobs = values.masked_fill(empty, -torch.inf)
    rewards = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 1, 0]])
    rewards = rewards.bool() if boolean else rewards.double()
    loss, metrics = objective(logprobs, rewards)
    (gradient,) = torch.autograd.grad(loss, values)
    assert not gradient.isnan().any()
    assert not gradient[empty].any()
    parts = [objective(values[:1], rewards[:1])[0], objective(values[1:2, ::2], rewards[1:2, ::2])[0]]
    assert loss.item() == pytest.approx(sum(part.item() for part in parts) / 3)
    assert all(math.isfinite(value) for value in metrics.values())


def test_q_adds_up_to_one() -> None:
    torch.testing.assert_close(renormalised(random_logprobs(3, 4, 7)).sum(1), torch.ones(4, dtype=DOUBLE))


# Gradients.


def test_gradients_by_finite_differences() -> None:
    logprobs = random_logprobs(4, 3, 5)
    zero_one = torch.tensor([[True, False, True, False, False], [False] * 5, [True] * 5])
    graded = torch.tensor([[0, 1.2, 1.2, 0, 1.05], [0, 0, 0, 0, 0], [1, 1.5, -1, 1.5, 0]], dtype=DOUBLE)
    for rewards in (zero_one, graded):
        assert torch.autograd.gradcheck(lambda values, r=rewards: rl_beam(values, r)[0], (logprobs,))
        assert torch.autograd.gradcheck(lambda values, r=rewards: rl_beam_div(values, r, bag=5)[0], (logprobs,))
        assert torch.autograd.gradcheck(lambda values, r=rewards: mml(values, r)[0], (logprobs,))
        for baseline in (False, True):
            assert torch.autograd.gradcheck(
                lambda values, r=rewards, b=baseline: reinforce(values, r, baseline=b)[0], (logprobs,)
            )
    logits = random_logprobs(5, 6, VOCABULARY_SIZE)
    scores = random_logprobs(6, 6, VOCABULARY_SIZE)
    targets = torch.arange(6)
    assert torch.autograd.gradcheck(
        lambda values, more: mle(values - more.exp(), targets, more.exp(), syntax_weight=0.3)[0], (logits, scores)
    )


@pytest.mark.parametrize("baseline", [False, True])
def test_reinforce_is_unbiased(baseline: bool) -> None:
    """Averaged over all ways to draw the rollouts, its gradient is that of the expected reward."""
    scores = torch.tensor([0.3, -0.5, 1.1, 0.0], dtype=DOUBLE, requires_grad=True)
    rewards = torch.tensor([1.0, 0.0, 0.5, 1.0], dtype=DOUBLE)
    logprobs = scores.log_softmax(0)
    (exact,) = torch.autograd.grad((logprobs.exp() * rewards).sum(), scores, retain_graph=True)
    mean = torch.zeros(4, dtype=DOUBLE)
    for drawn in itertools.product(range(4), repeat=3):
        loss, _ = reinforce(logprobs[list(drawn)][None], rewards[list(drawn)][None], baseline=baseline)
        (gradient,) = torch.autograd.grad(loss, scores, retain_graph=True)
        mean -= gradient * logprobs[list(drawn)].sum().exp().detach()
    torch.testing.assert_close(mean, exact)


def test_a_baseline_needs_company() -> None:
    with pytest.raises(ValueError, match="there must be at least two"):
        reinforce(torch.zeros(2, 1), torch.zeros(2, 1), baseline=True)


def test_mml_is_the_logarithm_of_what_right_programs_have() -> None:
    logprobs = torch.tensor([[0.5, 0.25, 0.125], [0.1, 0.2, 0.3]], dtype=DOUBLE).log()
    loss, metrics = mml(logprobs, torch.tensor([[True, False, True], [False, True, False]]))
    assert loss.item() == pytest.approx(-(math.log(0.625) + math.log(0.2)) / 2)
    assert metrics["expected_reward"].item() == pytest.approx((0.625 + 0.2) / 2)
    graded, _ = mml(logprobs, torch.tensor([[1.2, 0, 0.4], [0, 1, 0]], dtype=DOUBLE))
    assert graded.item() == pytest.approx(-(math.log(1.2 * 0.5 + 0.4 * 0.125) + math.log(0.2)) / 2)


def test_mml_of_the_reference_alone_is_mle() -> None:
    """Where only the reference is right, its gradient is that of MLE, however unlikely it is."""
    logprobs = torch.tensor([[-40.0, -1.0, -0.6]], dtype=DOUBLE, requires_grad=True)
    (gradient,) = torch.autograd.grad(mml(logprobs, torch.tensor([[True, False, False]]))[0], logprobs)
    assert gradient.tolist() == [[-1, 0, 0]]


# MLE and rewards.


def test_mle_is_cross_entropy_and_the_syntax_loss() -> None:
    logits = random_logprobs(7, 5, VOCABULARY_SIZE).detach()
    penalties = random_logprobs(8, 5, VOCABULARY_SIZE).detach().exp()
    targets = torch.tensor([3, 1, 4, 1, 5])
    plain, metrics = mle(logits, targets)
    expected = -sum(logits.log_softmax(1)[row, token] for row, token in enumerate(targets.tolist())) / 5
    assert plain.item() == pytest.approx(float(expected))
    assert set(metrics) == {"cross_entropy", "token_accuracy"}
    both, metrics = mle(logits, targets, penalties)
    of_syntax = sum(float(penalties[row, token]) for row, token in enumerate(targets.tolist()))
    assert both.item() == pytest.approx(float(expected) + 1e-5 * of_syntax)
    assert metrics["syntax_loss"].item() == pytest.approx(of_syntax)


def test_rewards() -> None:
    outcomes = Outcomes(
        syntax=np.array([[True, True, True, False]]),
        consistent=np.array([[True, True, False, False]]),
        generalizes=np.array([[True, False, False, False]]),
        ticks=np.array([[20.0, 3.0, 2.0, 0.0]], np.float32),
        correct=np.arange(6) < np.array([[[6], [5], [0], [0]]]),
        status=np.array([[[Status.OK]] * 2 + [[Status.HIT_WALL], [Status.INVALID_PROGRAM]]], np.uint8).repeat(6, 2),
        lengths=np.array([[12, 9, 6, 0]]),
        example_ticks=np.array([[[19] * 5 + [24], [3] * 6, [2] * 6, [0] * 6]], np.int16),
        reference_ticks=np.array([[10] * 6], np.int16),
    )
    assert generalization(outcomes).tolist() == [[True, False, False, False]]
    assert consistency(outcomes).tolist() == [[True, True, False, False]]
    np.testing.assert_allclose(generalization_and_speed(outcomes), [[1.05, 0, 0, 0]], rtol=1e-6)
    assert signed_generalization(outcomes).tolist() == [[1, -1, -1, -1]]
    speed = (5 * 10 / 20 + 10 / 25) / 6
    np.testing.assert_allclose(signed_generalization_and_speed(outcomes), [[speed, -1, -1, -1]], rtol=1e-6)
    with pytest.raises(ValueError, match="ticks of the reference"):
        signed_generalization_and_speed(replace(outcomes, reference_ticks=None))


# A small problem: eight tasks, programs of one or two actions, a language of 30 programs.


@dataclass(frozen=True)
class Problem:
    tokens: NDArray[np.uint8]
    lengths: NDArray[np.int64]
    inputs: NDArray[np.uint8]
    outputs: NDArray[np.uint8]

    @property
    def grids(self) -> tuple[Tensor, Tensor]:
        """Of the five given examples."""
        return torch.from_numpy(self.inputs[:, :5]), torch.from_numpy(self.outputs[:, :5])


@pytest.fixture(scope="module")
def problem() -> Problem:
    rng = random.Random(0)
    tasks: list[tuple[Program, NDArray[np.uint8]]] = []
    while len(tasks) < 8:
        program = Program(tuple(rng.choice(list(Action)) for _ in range(rng.choice((1, 2)))))
        worlds = np.stack([random_world(rng, walls=0.0, markers=0.7).to_codes() for _ in range(40)])
        good = np.flatnonzero(run_batch([program], worlds).ok[0])
        if len(good) >= 6:
            tasks.append((program, worlds[good[:6]]))
    tokens = encode_programs([program for program, _ in tasks])
    inputs = np.stack([worlds for _, worlds in tasks])
    outputs = run_batch(tokens, inputs).worlds
    assert outputs is not None
    return Problem(tokens, (tokens != PAD).sum(1), inputs, outputs)


def learner(syntax: str = "handwritten", *, rate: float = 1e-2) -> tuple[Synthesizer, torch.optim.Optimizer]:
    model = tiny_model(
        scale=1, syntax=syntax, max_length=6, channels=4, code_size=24, embedding_size=12, hidden_size=24
    )
    return model, torch.optim.Adam(model.parameters(), lr=rate)


def improve(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def expected_reward(model: Synthesizer, problem: Problem) -> float:
    """The exact expected generalization of one draw: all 30 programs of the language are run."""
    with torch.no_grad():
        everything = beam_search(model, model.encode(*problem.grids), beam=30, dtype=torch.float32)
    outcomes = check(everything, problem.inputs, problem.outputs)
    return float((everything.logprobs.exp().numpy() * outcomes.generalizes).sum(1).mean())


@pytest.mark.parametrize("syntax", ["none", "handwritten", "learned"])
def test_mle_learns(problem: Problem, syntax: str) -> None:
    model, optimizer = learner(syntax)
    packed = model.pack(problem.tokens, problem.lengths)
    losses, accuracies = [], []
    for _ in range(60):
        forced = model(*problem.grids, packed)
        loss, metrics = mle(forced.logits, packed.targets, forced.penalties)
        improve(optimizer, loss)
        losses.append(loss.item())
        accuracies.append(metrics["token_accuracy"].item())
    assert losses[-1] < 0.3 * losses[0]
    assert accuracies[-1] > accuracies[0] + 0.1


@pytest.mark.parametrize("objective", CASES)
def test_rewards_rise(problem: Problem, objective: str) -> None:
    # With steps as long as the others', MML stops at what it can do without looking at the grids. Samples are noisier
    # than beams.
    rate, steps = {"mml": (3e-3, 80), "rl": (1e-2, 60)}.get(objective, (1e-2, 30))
    model, optimizer = learner(rate=rate)
    before = expected_reward(model, problem)
    reward = generalization_and_speed if objective == "div_opt" else generalization
    generator = torch.Generator().manual_seed(0)
    known, settings = case(objective)
    seen = []
    for _ in range(steps):
        encoded = model.encode(*problem.grids)
        if known.candidates == "rollouts":
            candidates = sample_rollouts(model, encoded, rollouts=30, dtype=torch.float32, generator=generator)
        else:
            candidates = beam_search(model, encoded, beam=12, dtype=torch.float32)
        rewards = torch.from_numpy(reward(check(candidates, problem.inputs, problem.outputs)))
        loss, metrics = known.loss(rescore(model, encoded, candidates), rewards, **settings)
        seen.append(-metrics.get("expected_reward", metrics["reward"]).item())
        improve(optimizer, loss)
    assert np.mean(seen[-5:]) < np.mean(seen[:5])
    assert expected_reward(model, problem) > before + 0.2


def test_a_reference_that_the_beam_missed_teaches(problem: Problem) -> None:
    """With a beam of one nothing can be learned: q is 1. With the reference beside it, that one becomes likelier."""
    model, optimizer = learner()
    tokens, lengths = torch.from_numpy(problem.tokens), torch.from_numpy(problem.lengths)
    encoded = model.encode(*problem.grids)
    alone = beam_search(model, encoded, beam=1, dtype=torch.float32)
    both = with_reference(alone, tokens, lengths)
    missed = both.lengths[:, 1] > 0
    assert missed.any()

    def loss_of(candidates: Candidates) -> tuple[Tensor, Tensor]:
        logprobs = rescore(model, model.encode(*problem.grids), candidates)
        rewards = torch.from_numpy(generalization(check(candidates, problem.inputs, problem.outputs)))
        return rl_beam(logprobs, rewards)[0], logprobs.detach()

    gradients = torch.autograd.grad(loss_of(alone)[0], list(model.parameters()))
    assert not any(gradient.any() for gradient in gradients)
    loss, before = loss_of(both)
    for _ in range(10):
        improve(optimizer, loss)
        loss, after = loss_of(both)
    lead_before, lead_after = ((values[:, 1] - values[:, 0])[missed].mean() for values in (before, after))
    assert lead_after > lead_before + 0.5


@pytest.mark.parametrize("objective", CASES)
def test_candidates_that_are_not_scored_have_no_gradient(objective: str) -> None:
    rng = np.random.default_rng(3)
    known, settings = case(objective)
    filled = np.ones((40, 6), bool) if known.candidates == "rollouts" else rng.random((40, 6)) < 0.7
    right = (rng.random((40, 6)) < rng.choice([0, 0.3, 1], (40, 1))) & filled
    rewards: NDArray[Any] = np.where(right, 1 + rng.random((40, 6)), 0) if objective == "div_opt" else right
    values = np.where(filled, rng.normal(-9, 4, (40, 6)), -np.inf)
    logprobs = torch.from_numpy(values).requires_grad_()
    loss, _ = known.loss(logprobs, torch.from_numpy(rewards), **settings)
    (gradient,) = torch.autograd.grad(loss, logprobs)
    telling = known.needs_gradient(rewards, filled, settings)
    assert 0 < telling.sum() < filled.sum()
    assert gradient.numpy()[~telling] == pytest.approx(0, abs=1e-12)
    assert (np.abs(gradient.numpy()[telling]) > 1e-9).mean() > 0.7


def test_recipes_know_every_objective_and_reward() -> None:
    assert ObjectiveRecipe().name == "mle"
    for name in RL_OBJECTIVES:
        assert load_recipe("rl", [f"objective.name={name}"]).objective.name == name
    for reward in REWARDS:
        assert load_recipe("rl", [f"objective.reward={reward}"]).objective.reward == reward


def test_an_objective_may_learn_from_candidates_that_earn_nothing() -> None:
    """As one with a constant baseline does: it must not be taken for one that they do not matter to."""
    known = RLObjective(lambda logprobs, rewards: (-((rewards - 0.5) * logprobs).mean(), {}), "rollouts")
    rewards, filled = np.zeros((2, 3)), np.ones((2, 3), bool)
    assert known.needs_gradient(rewards, filled, {}).all()
    assert not replace(known, gradients="nonzero").needs_gradient(rewards, filled, {}).any()
