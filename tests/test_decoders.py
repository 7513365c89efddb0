"""Decoders behind one seam: the LSTM, the transformer, and one that a user registers."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from karelsynth.errors import KarelsynthError
from karelsynth.model import Synthesizer, register_decoder
from karelsynth.model.decoder import decoder_class
from karelsynth.model.transformer import TransformerDecoder
from karelsynth.search import beam_search, check, rescore, sample_rollouts
from karelsynth.search.scoring import score_programs
from karelsynth.train.loop import train
from karelsynth.train.recipe import load_recipe, recipe_from
from tests.models import TINY, random_grids, random_programs, tiny_model

FULL = torch.float32


EXAMPLE = load_recipe(Path(__file__).parent.parent / "examples" / "own_decoder.toml")
"""Its plugin registers the decoder `gru`, which has steps alone."""

EXECUTION = {"execution": True, "execution_size": 9}
MODELS: dict[str, dict[str, Any]] = {
    "lstm": {"decoder": "lstm"},
    "gru": {"decoder": "gru"},
    "gru, learned": {"decoder": "gru", "syntax": "learned"},
    "transformer": {"decoder": "transformer"},
    "transformer, learned": {"decoder": "transformer", "syntax": "learned", "head_size": 7},
    "transformer, mixing": {"decoder": "transformer", "mixing": True, "layers": 3, "syntax": "handwritten"},
    "transformer, heads": {"decoder": "transformer", "hidden_size": 128},
    "transformer, execution": {"decoder": "transformer", **EXECUTION, "mixing": True},
    "transformer, skipping": {
        "decoder": "transformer", **EXECUTION, "syntax": "handwritten", "skip_forced_tokens": True
    },
}  # fmt: skip
SHORT = {"max_length": 6, "syntax": "handwritten"}
"""A language of 30 programs."""


def programs_of_tasks(seed: int) -> tuple[Any, Any, Any]:
    """Programs of which some are equal and many share prefixes, and their tasks, in no order."""
    tokens, lengths = random_programs(seed, 8, 40)
    chosen = np.random.default_rng(seed).integers(0, 8, 20)
    return tokens[chosen], lengths[chosen], np.random.default_rng(seed + 1).integers(0, 3, 20)


@pytest.mark.parametrize("some_missing", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_steps_are_teacher_forcing_with_and_without_sharing(name: str, some_missing: bool) -> None:
    """Log-probabilities and, between the two layouts, gradients."""
    model = tiny_model(scale=2, **MODELS[name])
    present = torch.tensor([[True, False, True, True], [True] * 4, [False, True, False, False]])
    tokens, lengths, tasks = programs_of_tasks(3)
    results, gradients = [], []
    for share_prefixes in (False, True):
        encoded = model.encode(*random_grids(1, 3, 4), present if some_missing else None)
        trie = model.pack(tokens, lengths, encoded=encoded, tasks=tasks, share_prefixes=share_prefixes)
        results.append(model.program_logprobs(encoded, trie))
        total = (results[-1] * torch.linspace(-1, 1, len(tokens))).sum()
        gradients.append(torch.autograd.grad(total, list(model.parameters()), allow_unused=True))
    by_step = score_programs(model, encoded, tokens, lengths, tasks, dtype=FULL)
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(torch.from_numpy(by_step), results[0], rtol=1e-3, atol=1e-3)
    assert len(np.unique(by_step.round(3))) > 5
    for (parameter, _), one, other in zip(model.named_parameters(), *gradients, strict=True):
        assert one is not None, parameter
        assert other is not None, parameter
        assert one.abs().max() > 0, parameter
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * float(one.abs().max()), msg=parameter)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["gru", "transformer", "transformer, execution", "transformer, skipping"])
def test_a_wide_beam_finds_every_program_in_order(name: str, threads: int) -> None:
    model = tiny_model(**MODELS[name] | SHORT)
    encoded = model.encode(*random_grids(2, 9, 3)).detach()
    found = beam_search(model, encoded, beam=40, dtype=FULL, threads=threads).cpu()
    assert (found.lengths > 0).sum(1).tolist() == [30] * 9
    torch.testing.assert_close(found.logprobs[:, :30].exp().sum(1), torch.ones(9))
    for task in range(9):
        rows, lengths = found.tokens[task, :30].numpy(), found.lengths[task, :30].numpy()
        trie = model.pack(rows, lengths, encoded=encoded, tasks=np.full(30, task))
        expected = model.program_logprobs(encoded, trie).detach()
        torch.testing.assert_close(found.logprobs[task, :30], expected, rtol=1e-4, atol=1e-4)
        assert (expected.diff() < 1e-4).all()


@pytest.mark.parametrize("name", ["gru", "transformer", "transformer, execution"])
def test_rollouts_are_rescored(name: str) -> None:
    model = tiny_model(**MODELS[name] | {"max_length": 16, "syntax": "handwritten"})
    encoded = model.encode(*random_grids(4, 3, 2))
    generator = torch.Generator().manual_seed(1)
    found = sample_rollouts(model, encoded.detach(), rollouts=12, dtype=FULL, generator=generator)
    torch.testing.assert_close(rescore(model, encoded, found).detach(), found.logprobs, rtol=1e-3, atol=1e-3)
    inputs, outputs = (part.numpy() for part in random_grids(4, 3, 2))
    assert check(found, inputs, outputs, given=2).syntax.all()


@pytest.mark.parametrize("name", ["transformer", "transformer, mixing"])
def test_bfloat16_is_near(name: str) -> None:
    model = tiny_model(scale=1.5, **MODELS[name])
    tokens, lengths, tasks = programs_of_tasks(5)
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            encoded = model.encode(*random_grids(5, 3, 4))
            trie = model.pack(tokens, lengths, encoded=encoded, tasks=tasks, share_prefixes=True)
            found.append(model.program_logprobs(encoded, trie))
    torch.testing.assert_close(*found, rtol=0.03, atol=0.5)


@pytest.mark.parametrize("name", ["gru", "transformer, execution"])
def test_saving_and_loading(name: str, tmp_path: Path) -> None:
    model = tiny_model(**MODELS[name])
    model.save_pretrained(tmp_path)
    loaded = Synthesizer.from_pretrained(tmp_path)
    assert loaded.settings == model.settings
    for key, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], value)
    (tmp_path / "SHA256SUMS").unlink()
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace(f'"{model.settings.decoder}"', '"tranformer"'))
    with pytest.raises(KarelsynthError, match="there is no decoder `tranformer`; did you mean `transformer`"):
        Synthesizer.from_pretrained(tmp_path)


def test_names_are_unique() -> None:
    register_decoder("gru", decoder_class("gru"))  # once more is no error
    with pytest.raises(KarelsynthError, match="`gru` is registered already"):
        register_decoder("gru", TransformerDecoder)
    with pytest.raises(KarelsynthError, match="there is no decoder `q`"):
        Synthesizer(replace(TINY, decoder="q"))


# Training


def recipe_for(settings: dict[str, Any], objective: str, steps: int) -> Any:
    wider = {"hidden_size": 32, "execution_size": 16, "normalise_code": True, "max_length": 72}
    return recipe_from(
        {
            "name": "tiny",
            "model": asdict(replace(TINY, **settings | wider)),
            "data": {"seed": 5, "tasks": 16},
            "objective": {"name": objective, "beam": 4, "rollouts": 4},
            "optimizer": {"learning_rate": 3e-3},
            "run": {
                "steps": steps, "batch_size": 16, "log_every": 1, "validation_tasks": 4, "checkpoint_every": 2,
                "validate_every": 1000,
            },
        }
    )  # fmt: skip


@pytest.mark.parametrize("name", ["gru", "transformer", "transformer, skipping"])
def test_mle_learns(name: str, tmp_path: Path) -> None:
    losses: list[float] = []
    recipe = recipe_for(MODELS[name], "mle", 60)
    train(recipe, tmp_path, on_progress=lambda progress: losses.append(progress.metrics["loss"]))
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("objective", ["mle", "rl", "rl_beam"])
def test_a_run_that_is_resumed_ends_the_same(objective: str, tmp_path: Path) -> None:
    recipe = recipe_for(MODELS["transformer"] | {"syntax": "handwritten"}, objective, 4)
    whole = train(recipe, tmp_path / "whole")
    train(recipe, tmp_path / "parts", stop_after=2)
    parts = train(recipe, tmp_path / "parts")
    one, two = (load_file(folder / "model.safetensors") for folder in (whole, parts))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_the_recipes() -> None:
    assert isinstance(Synthesizer(EXAMPLE.model).decoder, decoder_class("gru"))
    recipe = load_recipe("transformer_stream")
    assert isinstance(Synthesizer(recipe.model).decoder, TransformerDecoder)


# On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("share_prefixes", [False, True])
@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("transformer")])
def test_programs_on_a_gpu_are_the_hosts(name: str, share_prefixes: bool) -> None:
    tokens, lengths, tasks = programs_of_tasks(3)
    found = []
    for device in ("cpu", "cuda"):
        model = tiny_model(scale=2, **MODELS[name]).to(device)
        encoded = model.encode(*(part.to(device) for part in random_grids(1, 3, 4)))
        trie = model.pack(tokens, lengths, encoded=encoded, tasks=tasks, share_prefixes=share_prefixes)
        logprobs = model.program_logprobs(encoded, trie)
        gradients = torch.autograd.grad(logprobs.sum(), list(model.parameters()))
        found.append((logprobs.detach().cpu(), [one.cpu() for one in gradients]))
    (here, of_here), (there, of_there) = found
    torch.testing.assert_close(there, here, rtol=0.02, atol=0.05)
    for one, other in zip(of_there, of_here, strict=True):  # convolutions and products in TF32
        assert (one - other).abs().max() < 0.05 * other.abs().max() + 0.01


@pytest.mark.gpu
@pytest.mark.parametrize("objective", ["mle", "rl", "rl_beam"])
def test_the_transformer_trains_on_a_gpu(objective: str, tmp_path: Path) -> None:
    """In bfloat16, with the encoder compiled."""
    recipe = recipe_for(MODELS["transformer, skipping"], objective, 3)
    fast = replace(recipe, run=replace(recipe.run, precision="bfloat16", compile=True))
    assert Synthesizer.from_pretrained(train(fast, tmp_path, device=torch.device("cuda"))).settings == recipe.model
