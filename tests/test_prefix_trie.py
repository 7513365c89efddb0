"""Programs' distinct beginnings, and the network run once for each: the same as for whole programs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from karelsynth.errors import KarelsynthError
from karelsynth.karel.syntax import SyntaxMachine
from karelsynth.karel.tokens import END, ID, START, VOCABULARY_SIZE
from karelsynth.model import Synthesizer, pack_programs, triton_launch
from karelsynth.model.lstm_training import Gates, run_layer
from karelsynth.model.prefix_trie import pack_trie
from karelsynth.model.prefix_trie_kernel import UNFORCED
from tests.models import plain_recurrence, random_grids, random_programs, tiny_model

TASKS, EXAMPLES = 3, 4
FAST = torch.bfloat16
MODELS: dict[str, dict[str, Any]] = {
    "none": {"syntax": "none"},
    "learned": {"syntax": "learned"},
    "handwritten": {"syntax": "handwritten"},
    "mixing": {"syntax": "none", "mixing": True, "head_size": 5},
    "execution": {"syntax": "handwritten", "execution": True, "execution_size": 9, "mixing": True},
    "skip_forced_tokens": {"syntax": "handwritten", "execution": True, "execution_size": 9, "skip_forced_tokens": True},
}


def model_of(name: str) -> Synthesizer:
    return tiny_model(**MODELS[name])


def programs_alike(seed: int, count: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Programs of which some are equal, many begin alike, and their tasks, in no order."""
    rng = np.random.default_rng(seed)
    tokens, lengths = random_programs(seed, max(2, count // 3), 40)
    chosen = rng.integers(0, len(tokens), count)
    return tokens[chosen], lengths[chosen], rng.integers(0, TASKS, count)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.booleans())
def test_nodes_are_the_distinct_beginnings(seed: int, count: int, skip_forced_tokens: bool) -> None:
    tokens, lengths, tasks = programs_alike(seed, count)
    tokens[np.arange(tokens.shape[1]) >= lengths[:, None]] = seed % 50  # what comes after the end does not matter
    trie = pack_trie(tokens, lengths, tasks, skip_forced_tokens=skip_forced_tokens)
    if skip_forced_tokens:
        short = [row[:length][UNFORCED[row[:length]]] for row, length in zip(tokens, lengths, strict=True)]
        lengths = np.array([len(row) for row in short])
        tokens = np.stack([np.resize(row, lengths.max()) for row in short])
    beginnings = {
        (int(task), *row[:at].tolist())
        for row, length, task in zip(tokens, lengths, tasks, strict=True)
        for at in range(length)
    }
    assert sum(trie.sizes) == len(trie.tokens) == len(beginnings)
    assert trie.shared is not None
    parents, first, after, nodes = trie.shared
    # Every node's way from its root, by its parents; and the children that it is said to have.
    ways: list[tuple[int, ...]] = []
    offset = 0
    for depth, size in enumerate(trie.sizes):
        above = ways[-trie.sizes[depth - 1] :] if depth else []
        for node in range(offset, offset + size):
            last, parent = int(trie.tokens[node]), int(parents[node])
            ways.append((*above[parent], last) if depth else (int(trie.tasks[node]),))
            assert last == START if depth == 0 else ways[-1][0] == int(trie.tasks[node])
            children = [
                child
                for child in range(trie.sizes[depth + 1] if depth + 1 < len(trie.sizes) else 0)
                if parents[offset + size + child] == node - offset
            ]
            assert children == list(range(int(first[node]), int(after[node])))
        offset += size
    assert set(ways) == beginnings
    for number, (row, length, task) in enumerate(zip(tokens, lengths, tasks, strict=True)):
        own = trie.programs == number
        pairs = zip(nodes[own].tolist(), trie.targets[own].tolist(), strict=True)
        assert [(ways[node], target) for node, target in pairs] == [
            ((int(task), *row[:at].tolist()), row[at]) for at in range(length)
        ]


def test_forced_tokens_are_checked_too() -> None:
    words = "DEF run m( WHILE frontIsClear w( move w) m)".split()
    tokens, lengths = np.array([[ID[word] for word in words]], np.uint8), np.array([len(words)])
    with pytest.raises(KarelsynthError, match=r"is not a program .*: token 5 is not allowed"):
        pack_trie(tokens, lengths, np.zeros(1, np.int64), machine=SyntaxMachine(max_length=40), skip_forced_tokens=True)
    for pack in (pack_programs, partial(pack_trie, tasks=np.zeros(1, np.int64))):
        with pytest.raises(ValueError, match="all tokens of these programs are forced"):
            pack(tokens[:, :3], np.array([3]), skip_forced_tokens=True)


def test_programs_have_tokens() -> None:
    tokens, lengths, tasks = programs_alike(1, 4)
    with pytest.raises(ValueError, match="1 to"):
        pack_trie(tokens, lengths * 0, tasks)
    with pytest.raises(ValueError, match="at least"):
        pack_trie(tokens[:0], lengths[:0], tasks[:0])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("some_missing", [False, True])
def test_sharing_changes_nothing(name: str, some_missing: bool) -> None:
    """Log-probabilities and gradients."""
    model = model_of(name)
    inputs, outputs = random_grids(5, TASKS, EXAMPLES)
    present = None
    if some_missing:
        present = torch.tensor([[True, False, True, True], [True] * 4, [False, True, False, False]])
    tokens, lengths, tasks = programs_alike(7, 25)
    results = []
    for way in ("sequences", "trie"):
        encoded = model.encode(inputs, outputs, present)
        if way == "trie":
            trie = model.pack(tokens, lengths, encoded=encoded, tasks=tasks, share_prefixes=True)
            logprobs = model.program_logprobs(encoded, trie)
        else:
            packed = model.pack(tokens, lengths, encoded=encoded, tasks=tasks)
            logprobs = model.program_logprobs(encoded, packed)
        weights = torch.linspace(-1, 1, len(tokens))
        gradients = torch.autograd.grad((logprobs * weights).sum(), list(model.parameters()), allow_unused=True)
        results.append((logprobs.detach(), gradients))
    (one, of_one), (other, of_other) = results
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    for (parameter, _), first, second in zip(model.named_parameters(), of_one, of_other, strict=True):
        assert (first is None) == (second is None), parameter
        if first is not None and second is not None:
            scale = first.abs().max().item()
            torch.testing.assert_close(first, second, rtol=1e-3, atol=1e-4 * max(1.0, scale), msg=parameter)


def test_it_is_near_in_bfloat16() -> None:
    """As in training on a GPU: log-probabilities and the gradients' directions."""
    model = model_of("execution")
    tokens, lengths, tasks = programs_alike(7, 25)
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            encoded = model.encode(*random_grids(5, TASKS, EXAMPLES))
            logprobs = model.program_logprobs(
                encoded, model.pack(tokens, lengths, encoded=encoded, tasks=tasks, share_prefixes=True)
            )
        gradients = torch.autograd.grad(logprobs.sum(), list(model.parameters()), allow_unused=True)
        results.append((logprobs.detach(), [one.flatten() for one in gradients if one is not None]))
    (full, of_full), (fast, of_fast) = results
    torch.testing.assert_close(fast, full, rtol=0.1, atol=0.3)
    for one, other in zip(of_full, of_fast, strict=True):
        assert one.norm() < 1e-3 or torch.nn.functional.cosine_similarity(one, other, dim=0) > 0.8


def test_a_model_with_execution_wants_the_examples() -> None:
    model = model_of("execution")
    encoded = model.encode(*random_grids(5, TASKS, EXAMPLES))._replace(worlds=None)
    tokens, lengths, tasks = programs_alike(7, 5)
    trie = model.pack(tokens, lengths, encoded=encoded, tasks=tasks, share_prefixes=True)
    with pytest.raises(ValueError, match="packed with their examples"):
        model.program_logprobs(encoded, trie)


def test_a_machine_besides_the_models_own() -> None:
    model, machine = tiny_model(syntax="none"), SyntaxMachine(max_length=40)
    encoded = model.encode(*random_grids(5, TASKS, EXAMPLES))
    tokens, lengths, tasks = programs_alike(9, 10)
    free, held = (
        model.program_logprobs(encoded, pack_trie(tokens, lengths, tasks, machine=held_to))
        for held_to in (None, machine)
    )
    assert (held > free).all()  # what it refuses gets no probability
    tokens[3, 2] = END
    with pytest.raises(
        KarelsynthError, match=r"`DEF run m\).* is not a program of at most 40 tokens: token 3 is not allowed"
    ):
        pack_trie(tokens, lengths, tasks, machine=machine)


def compare_layers(size: int, device: str, fast: torch.dtype, near: float) -> None:
    """A layer's outputs and gradients over a trie, by hand and by PyTorch."""
    tokens, lengths, tasks = programs_alike(7, 60)
    trie = pack_trie(tokens, lengths, tasks, device=device)
    torch.manual_seed(0)
    shapes = ((sum(trie.sizes), EXAMPLES, 4 * size), (size, 4 * size), (size,), (size,))
    scales = (1.0, size**-0.5, 1.0, 1.0)
    numbers = [(torch.randn(shape) * scale).to(device) for shape, scale in zip(shapes, scales, strict=True)]
    weights = torch.randn(shapes[0][0], EXAMPLES, size).to(device)
    results = []
    for by_hand, dtype in ((False, torch.float32), (True, torch.float32), (True, fast)):
        given = [number.to(dtype).requires_grad_() for number in numbers]
        own, *rest = given
        hidden = run_layer(trie, Gates(own.clone()), *rest) if by_hand else plain_recurrence(trie, own, *rest)
        results.append([hidden, *torch.autograd.grad((hidden.float() * weights).sum(), given)])
    for exact, full, rough in zip(*results, strict=True):
        scale = exact.abs().max().item()
        assert (full - exact).abs().max() < near * scale
        assert (rough - exact).abs().max() < 0.05 * scale


def test_a_layer_is_the_plain_one() -> None:
    compare_layers(10, "cpu", FAST, near=1e-5)


# On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("size", [10, 256, 360])
def test_a_layer_on_a_gpu_is_the_plain_one(size: int) -> None:
    """Outputs and gradients, against PyTorch's own backward pass; bfloat16 is near."""
    assert triton_launch.available(), "PyTorch for GPUs brings Triton: is it installed?"
    compare_layers(size, "cuda", FAST, near=3e-3)  # products in TF32 or not


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-3), (FAST, 0.15)])
@pytest.mark.parametrize("name", MODELS)
def test_the_step_on_a_gpu_is_the_hosts(name: str, dtype: torch.dtype, near: float) -> None:
    """For parents and tasks in any order, and for more and fewer hypotheses than before; with indices in strides."""
    model = model_of(name).eval()
    encoded = model.encode(*random_grids(5, TASKS, EXAMPLES)).detach()
    seen = {}
    for device in ("cpu", "cuda"):
        weights = model.to(device).step_model(torch.float32 if device == "cpu" else dtype)
        tasks = model.step_tasks(weights, encoded._replace(codes=encoded.codes.to(device)))
        state, old, logits = weights.start(tasks), TASKS, []
        generator = torch.Generator().manual_seed(1)
        for rows in (7, 12, 5):
            parents, task, token = (
                torch.randint(0, top, (rows, 1), generator=generator).expand(rows, 3).contiguous().to(device)[:, 0]
                for top in (old, TASKS, VOCABULARY_SIZE)
            )
            features = None
            if model.execution is not None:
                features = torch.randint(0, 16, (rows, EXAMPLES, 114), generator=generator).byte().to(device)
            scores, state = weights.step(tasks, state, parents, task, token, features)
            logits.append(scores.cpu())
            old = rows
        seen[device] = torch.cat(logits)
    scale = seen["cpu"].abs().max().item()
    assert (seen["cuda"] - seen["cpu"]).abs().max() < near * max(1.0, scale)


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["trie", "sequences"])
@pytest.mark.parametrize("name", MODELS)
def test_programs_on_a_gpu_are_the_hosts(name: str, way: str) -> None:
    tokens, lengths, tasks = programs_alike(7, 25)
    inputs, outputs = random_grids(5, TASKS, EXAMPLES)
    found = []
    for device in ("cpu", "cuda"):
        model = model_of(name).to(device)
        encoded = model.encode(inputs.to(device), outputs.to(device))
        if way == "trie":
            trie = model.pack(tokens, lengths, encoded=encoded, tasks=tasks, share_prefixes=True)
            logprobs = model.program_logprobs(encoded, trie)
        else:
            packed = model.pack(tokens, lengths, encoded=encoded, tasks=tasks)
            logprobs = model.program_logprobs(encoded, packed)
        gradients = torch.autograd.grad(logprobs.sum(), list(model.parameters()), allow_unused=True)
        found.append((logprobs.detach().cpu(), [one.cpu() for one in gradients if one is not None]))
    (here, of_here), (there, of_there) = found
    torch.testing.assert_close(there, here, rtol=0.02, atol=0.02)
    for one, other in zip(of_there, of_here, strict=True):  # convolutions and products in TF32
        assert (one - other).abs().max() < 0.03 * other.abs().max() + 0.01
