"""Models that see where programs lead: the network, its search, its training."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from karelsynth.evaluate import evaluate
from karelsynth.karel.formats.codes import worlds_to_codes
from karelsynth.karel.tokens import START
from karelsynth.karel.world import World
from karelsynth.model import Encoded, Synthesizer
from karelsynth.model.encoder import EgocentricView, distinct
from karelsynth.model.prefix_features_kernel import FEATURES, VALUES
from karelsynth.search import beam_search, check, rescore, sample_rollouts
from karelsynth.search.pruning import Pruning
from karelsynth.tasks.generate import generate
from karelsynth.tasks.streams import TaskStream
from karelsynth.train.batches import BatchLoader
from karelsynth.train.loop import train
from karelsynth.train.recipe import load_recipe, recipe_from
from tests.models import execution_model, random_grids, random_programs
from tests.strategies import worlds


def stepwise(model: Synthesizer, encoded: Encoded, tokens: NDArray[np.uint8]) -> Tensor:
    """Logits float32 [N, L, 52] for programs of N tasks, one token at a time; without syntax."""
    weights, runner = model.step_model(torch.float32), encoded.prefix_runner()
    assert runner is not None
    tasks, rows = model.step_tasks(weights, encoded), torch.arange(len(tokens))
    state, last, logits = weights.start(tasks), torch.full_like(rows, START), []
    for at in range(tokens.shape[1]):
        features = runner.features(torch.from_numpy(tokens), torch.full_like(rows, at), rows)
        scores, state = weights.step(tasks, state, rows, rows, last, features)
        logits.append(scores)
        last = torch.from_numpy(tokens[:, at].astype(np.int64))
    return torch.stack(logits, dim=1)


MIXING = {"mixing": True, "head_size": 11}


@pytest.mark.parametrize("settings", [{}, MIXING, MIXING | {"layers": 3}])
@pytest.mark.parametrize("compiled", [True, False])
def test_steps_equal_teacher_forcing(compiled: bool, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:
        monkeypatch.setattr("karelsynth.model.lstm._COMPILED_FOR", ())
    model = execution_model(**settings)
    tokens, lengths = random_programs(4, 6, 40)
    present = torch.tensor([[True, k % 2 == 0, k > 2] for k in range(6)])
    with torch.no_grad():
        encoded = model.encode(*random_grids(3, 6, 3), present)
        packed = model.pack(tokens, lengths, encoded=encoded)
        forced = model.score(encoded, packed).logits
        by_step = stepwise(model, encoded, tokens)
    offsets = np.cumsum(packed.sizes) - np.array(packed.sizes)
    order = np.argsort(-lengths, kind="stable")
    for place, number in enumerate(order):
        rows = [int(offsets[at]) + place for at in range(lengths[number])]
        torch.testing.assert_close(forced[rows], by_step[number, : lengths[number]], atol=1e-4, rtol=1e-4)


def test_distinct_states_are_distinguished() -> None:
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, VALUES, (50, 3, FEATURES)).astype(np.uint8)
    kinds[1:] = np.where(rng.random(kinds[1:].shape) < 0.003, kinds[1:], kinds[:1])  # most differ in a code or two
    which, tasks = rng.integers(0, 50, 400), rng.integers(0, 3, 400)
    features = kinds[which]
    some, kind = distinct(torch.from_numpy(tasks), torch.from_numpy(features))
    keys = [
        (task, example, codes.tobytes())
        for task, states in zip(tasks.tolist(), features, strict=True)
        for example, codes in enumerate(states)
    ]
    assert 100 < len(some) == len(set(keys)) < len(keys) / 5
    assert [keys[number] for number in some[kind.flatten()].tolist()] == keys


def test_the_decoder_looks_at_where_programs_lead() -> None:
    model = execution_model()
    encoded = model.encode(*random_grids(5, 4, 3))
    packed = model.pack(*random_programs(6, 4, 40), encoded=encoded)
    assert packed.features is not None
    other = replace(packed, features=packed.features.flip(1).roll(1, 0))
    assert not torch.allclose(model.score(encoded, packed).logits, model.score(encoded, other).logits, atol=1e-3)
    with pytest.raises(ValueError, match="packed with their examples"):
        model.score(encoded, replace(packed, features=None))
    with pytest.raises(ValueError, match="needs the examples themselves"):
        beam_search(model, Encoded(encoded.codes, None))


@pytest.mark.parametrize("settings", [{}, MIXING])
def test_bfloat16_is_near_and_every_parameter_gets_a_gradient(settings: dict[str, Any]) -> None:
    model = execution_model(patch=2, egocentric=True, normalise_code=True, scale=1, **settings)
    grids = random_grids(7, 4, 3)
    packed = model.pack(*random_programs(8, 4, 40), encoded=model.encode(*grids))
    exact = model.program_logprobs(model.encode(*grids), packed)
    named = dict(model.named_parameters())
    expected = torch.autograd.grad(exact.sum(), list(named.values()))
    with torch.autocast("cpu", torch.bfloat16):
        near = model.program_logprobs(model.encode(*grids), packed)
    torch.testing.assert_close(near, exact, rtol=0.05, atol=0.05)
    for name, one, other in zip(named, torch.autograd.grad(near.sum(), list(named.values())), expected, strict=True):
        assert torch.cosine_similarity(one.flatten(), other.flatten(), dim=0) > 0.9, name


@pytest.mark.parametrize(
    "settings",
    [
        {"syntax": "none", "max_length": 12, **MIXING},
        {"syntax": "handwritten", "max_length": 12},
        {"syntax": "handwritten", "max_length": 24, "skip_forced_tokens": True, **MIXING},
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_search_finds_what_teacher_forcing_scores(
    settings: dict[str, Any], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beams and samples, with tokens that no program has too; on threads of their own, and pieces of a step."""
    monkeypatch.setattr("karelsynth.model.lstm._SMALLEST_PIECE", 1)
    model = execution_model(**settings)
    encoded = model.encode(*random_grids(9, 9, 2)).detach()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        beams = beam_search(model, encoded, beam=10, dtype=torch.float32)
        alone = beam_search(model, Encoded(*(encoded.codes[3:4], None), worlds=worlds_of(encoded, 3)), beam=10)
    finally:
        torch.set_num_threads(before)
    drawn = sample_rollouts(model, encoded, rollouts=10, dtype=torch.float32)
    for candidates in (beams, drawn):
        torch.testing.assert_close(rescore(model, encoded, candidates), candidates.logprobs, atol=1e-3, rtol=1e-3)
    assert alone.tokens[0, 0].tolist() == beams.tokens[3, 0].tolist()


def worlds_of(encoded: Encoded, task: int) -> tuple[Tensor, Tensor]:
    assert encoded.worlds is not None
    inputs, outputs = encoded.worlds
    return inputs[task : task + 1], outputs[task : task + 1]


@pytest.mark.parametrize("skip_forced_tokens", [False, True])
def test_pruning_works_with_execution(skip_forced_tokens: bool) -> None:
    """With a beam that holds everything, pruned search ranks what fits, by the same log-probabilities."""
    model = execution_model(syntax="handwritten", max_length=7, skip_forced_tokens=skip_forced_tokens)
    tasks = generate(3, 0, 200)
    tasks = tasks[tasks.lengths <= 7][:4]
    assert len(tasks) == 4
    given_inputs, given_outputs = (np.ascontiguousarray(part[:, :2]) for part in (tasks.inputs, tasks.outputs))
    encoded = model.encode(torch.from_numpy(given_inputs), torch.from_numpy(given_outputs)).detach()
    found = beam_search(
        model, encoded, beam=300, dtype=torch.float32, pruning=Pruning(given_inputs, given_outputs, merging=False)
    )
    plain = beam_search(model, encoded, beam=300, dtype=torch.float32)
    consistent = check(plain, given_inputs, given_outputs, given=2).consistent
    for task in range(4):
        rights = np.flatnonzero(consistent[task])
        assert len(rights)
        expected = plain.tokens[task, rights]
        assert torch.equal(found.tokens[task, : len(rights)], expected)
        torch.testing.assert_close(found.logprobs[task, : len(rights)], plain.logprobs[task, rights])


@given(worlds(), worlds(), st.integers(0, 3))
def test_the_egocentric_view_loses_only_place_and_heading(before: World, after: World, turns: int) -> None:
    """Turning both grids changes nothing; and it can be undone, so no more is lost."""
    frame = EgocentricView()
    cells = torch.from_numpy(worlds_to_codes([before, after]).astype(np.int32)).permute(1, 2, 0)[None]
    framed = frame(cells)
    assert framed.shape == cells.shape
    assert int(framed[0, 9, 9, 0]) // 16 == 1
    assert sorted((framed % 16).flatten(0, 2).tolist()) == sorted((cells % 16).flatten(0, 2).tolist())
    turned = torch.rot90(cells, -turns, (2, 1))  # rows go up, so this is to the right
    hero = turned // 16
    turned = turned % 16 + 16 * torch.where(hero > 0, (hero - 1 + turns) % 4 + 1, 0)
    assert torch.equal(frame(turned), framed)
    # Back again: the grids as they were, but for where the hero stood and looked.
    looking, place = int((cells[..., 0] // 16).max()) - 1, int((cells[0, ..., 0] // 16).flatten().argmax())
    back = torch.rot90(framed, looking, (1, 2))  # the cell in the middle goes to (9, 8), (8, 8) or (8, 9)
    middle = divmod(int((back[0, ..., 0] // 16).flatten().argmax()), 18)
    back = back.roll((place // 18 - middle[0], place % 18 - middle[1]), (1, 2))
    hero = back // 16
    back = back % 16 + 16 * torch.where(hero > 0, (hero - 1 + looking) % 4 + 1, 0)
    assert torch.equal(back, cells)


# Training


@pytest.mark.parametrize("settings", [{}, {"syntax": "handwritten", "skip_forced_tokens": True}])
def test_batches_show_the_given_examples(settings: dict[str, Any]) -> None:
    model = execution_model(max_length=72, **settings)
    loader = BatchLoader(TaskStream(4), model, batch_size=6, seed=1, pack=True)
    (batch,) = loader.batches(0, 1)
    expected = model.pack(batch.tasks.tokens, batch.tasks.lengths, encoded=model.encode(batch.inputs, batch.outputs))
    assert batch.packed is not None
    assert batch.packed.features is not None
    assert expected.features is not None
    assert torch.equal(batch.packed.features, expected.features)


@pytest.mark.parametrize("objective", ["mle", "rl", "rl_beam", "rl_beam_div", "mml"])
def test_it_trains_with_every_objective(objective: str, tmp_path: Path) -> None:
    wider = {"hidden_size": 32, "execution_size": 32, "normalise_code": True}
    recipe = recipe_from(
        {
            "name": "tiny",
            "model": asdict(execution_model(syntax="handwritten", max_length=72, **wider).settings),
            "data": {"seed": 5, "tasks": 16},
            "objective": {"name": objective, "beam": 4, "rollouts": 4, "bag": 2},
            "optimizer": {"learning_rate": 1e-2},
            "run": {"steps": 120 if objective == "mle" else 2, "batch_size": 16, "log_every": 1, "validation_tasks": 4},
        }
    )
    losses: list[float] = []
    final = train(recipe, tmp_path, on_progress=lambda progress: losses.append(progress.metrics["loss"]))
    if objective == "mle":
        assert losses[-1] < 0.7 * losses[0]
    model = Synthesizer.from_pretrained(final)
    assert model.settings.execution
    assert evaluate(model, generate(1, 0, 2), beam=2).to_json()["provenance"]["decoding"] == "execution-guided"


def test_the_recipe_fits_the_limit_of_size() -> None:
    recipe = load_recipe("execution_stream")
    assert recipe.model.execution
    assert 2 * sum(parameter.numel() for parameter in Synthesizer(recipe.model).parameters()) <= 25 * 2**20


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # looked at by what traces
@pytest.mark.parametrize("settings", [{}, MIXING, {"syntax": "learned"}])
def test_compiled_parts_change_nothing(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced as for training, but not turned into machine code; batches differ in size and in what is present."""
    compiled = torch.compile
    monkeypatch.setattr(torch, "compile", lambda *given, **how: compiled(*given, **how | {"backend": "aot_eager"}))
    plain, traced = execution_model(**settings), execution_model(**settings)
    traced.compile_parts()
    for seed, count in ((1, 4), (2, 7), (3, 7)):
        tokens, lengths = random_programs(seed, count, 40)
        grids = random_grids(seed, count, 3)
        present = torch.ones(count, 3, dtype=torch.bool)
        present[0, 1] = False
        losses = []
        for model in (plain, traced):
            model.zero_grad()
            encoded = model.encode(*grids, present)
            losses.append(model.program_logprobs(encoded, model.pack(tokens, lengths, encoded=encoded)).sum())
            losses[-1].backward()  # type: ignore[no-untyped-call]
        torch.testing.assert_close(*losses)
        for one, other in zip(plain.parameters(), traced.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad, atol=1e-4, rtol=1e-4)
