"""An LSTM's layer over packed programs against PyTorch's own, and its kernels against its formulas."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from karelsynth.model import lstm_training as module
from karelsynth.model import triton_launch
from karelsynth.model.lstm import PrefixLSTM
from karelsynth.model.lstm_training import Gates, Parts, run_layer, step_sums
from karelsynth.model.prefix_trie import PrefixTrie

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
INPUTS, SIZE = 6, 5


def step_sizes_of(lengths: list[int]) -> Tensor:
    """int64 [T] for programs of so many tokens."""
    return torch.tensor([sum(length > step for length in lengths) for step in range(max(lengths))])


def sequences(step_sizes: Tensor, gates: Gates, *layer: Tensor) -> Tensor:
    """A layer's outputs over a trie without sharing, of which it reads only the sizes."""
    nothing = torch.empty(0, dtype=torch.int64)
    trie = PrefixTrie(int(step_sizes[0]), tuple(step_sizes.tolist()), nothing, nothing, nothing, nothing, None)
    return run_layer(trie, gates, *layer)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.integers(1, 3), st.integers(0, 10**6))
def test_a_layer_is_pytorchs(lengths: list[int], examples: int, seed: int) -> None:
    """Outputs, and gradients of all that they depend on."""
    torch.manual_seed(seed)
    layer, sizes = PrefixLSTM(INPUTS, SIZE, 1), step_sizes_of(lengths)
    inputs = torch.randn(int(sizes.sum()), examples, INPUTS, requires_grad=True)
    weights = torch.randn(int(sizes.sum()), examples, SIZE)
    first = layer.initial[:, :, None].expand(-1, -1, len(lengths) * examples, -1).contiguous()
    theirs = layer.lstm(PackedSequence(inputs.flatten(0, 1), sizes * examples), tuple(first))[0].data.view_as(weights)
    steps = layer.step_weights(torch.zeros(1, 0), torch.float32)  # inputs are all constant, as far as it knows
    own = steps.constant(inputs) + steps.token_gates
    assert isinstance(steps.layers[0].states, Tensor)
    ours = sequences(sizes, Gates(own), steps.layers[0].states, *steps.initial)
    given = [inputs, *layer.parameters()]
    for one, other in zip(*(gradients(hidden, weights, given) for hidden in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def gradients(hidden: Tensor, weights: Tensor, given: list[Tensor]) -> list[Tensor]:
    """Outputs, and the gradients of their weighted sum."""
    return [hidden, *torch.autograd.grad((hidden * weights).sum(), given)]


PARTS = [(True, True, True), (True, True, False), (False, True, True), (False, True, False), (False, False, True)]
"""Whether there are own gates, those of tokens and those of programs."""
LENGTHS = [9, 4, 4, 3, 1, 1]


def parts_of(which: tuple[bool, bool, bool], size: int = SIZE) -> tuple[list[Any], Tensor]:
    """Gates, matrix, h and c, all with gradient, and weights for the outputs."""
    sizes, rng = step_sizes_of(LENGTHS), np.random.default_rng(1)
    examples, count = 3 if which[0] or which[2] else 1, int(sizes.sum())
    shapes = [(count, examples, 4 * size), (count, 4 * size), (len(LENGTHS), examples, 4 * size)]
    wanted = [shape if there else None for shape, there in zip(shapes, which, strict=True)]
    scales = (1.0, 1.0, 1.0, size**-0.5, 1.0, 1.0)
    made = [
        None if shape is None else torch.from_numpy(scale * rng.normal(size=shape)).float().requires_grad_()
        for shape, scale in zip((*wanted, (size, 4 * size), (size,), (size,)), scales, strict=True)
    ]
    return made, torch.from_numpy(rng.normal(size=(count, examples, size))).float()


def outcome(made: list[Any], weights: Tensor) -> list[Tensor]:
    own, *rest = made
    gates = Gates(None if own is None else own.clone(), *rest[:2])
    hidden = sequences(step_sizes_of(LENGTHS), gates, *rest[2:])
    return gradients(hidden, weights, [part for part in made if part is not None])


@pytest.mark.parametrize("which", PARTS)
def test_gates_are_the_sum_of_their_parts(which: tuple[bool, bool, bool]) -> None:
    made, weights = parts_of(which)
    own, of_tokens, of_programs, *rest = made
    sizes = step_sizes_of(LENGTHS)
    programs = torch.cat([torch.arange(size) for size in sizes.tolist()])
    whole: Any = 0 if own is None else own.clone()  # it is overwritten
    whole = whole if of_tokens is None else whole + of_tokens[:, None]
    whole = whole if of_programs is None else whole + of_programs[programs]
    expected = gradients(sequences(sizes, Gates(whole), *rest), weights, [part for part in made if part is not None])
    torch.testing.assert_close(outcome(made, weights), expected)


def near(found: list[Tensor], expected: list[Tensor], share: float) -> None:
    """Each within some share of the largest number of its kind."""
    for one, other in zip(found, expected, strict=True):
        difference = (one.detach().float().cpu() - other.detach().float()).abs().max()
        assert float(difference) < share * float(other.detach().abs().max())


def as_dtype(made: list[Any], dtype: torch.dtype, device: str = "cpu") -> list[Any]:
    return [None if part is None else part.detach().to(device, dtype).requires_grad_() for part in made]


@pytest.mark.skipif(find_spec("triton") is None or torch.cuda.is_available(), reason="no Triton, or a GPU for it")
@pytest.mark.parametrize(("dtype", "share"), [(torch.float32, 1e-4), (torch.bfloat16, 0.03)])
@pytest.mark.parametrize("which", PARTS)
def test_kernels_by_the_interpreter(
    which: tuple[bool, bool, bool], dtype: torch.dtype, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, weights = parts_of(which)
    expected = outcome(made, weights)
    monkeypatch.setattr(module, "_by_kernels", lambda device: True)
    near(outcome(as_dtype(made, dtype), weights), expected, share)


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "share"), [(torch.float32, 5e-3), (torch.bfloat16, 0.05)])  # products in TF32
@pytest.mark.parametrize("size", [10, 360, 512])
@pytest.mark.parametrize("which", PARTS)
def test_kernels_on_a_gpu(which: tuple[bool, bool, bool], size: int, dtype: torch.dtype, share: float) -> None:
    assert triton_launch.available(), "PyTorch for GPUs brings Triton: is it installed?"
    made, weights = parts_of(which, size)
    near(outcome(as_dtype(made, dtype, "cuda"), weights.cuda()), outcome(made, weights), share)


def test_in_bfloat16() -> None:
    """The same but for rounding, which does not add up in sums."""
    made, weights = parts_of((True, True, True))
    expected = outcome(made, weights)
    found = outcome(as_dtype(made, torch.bfloat16), weights)
    assert found[0].dtype == torch.bfloat16
    near(found, expected, 0.03)
    many = torch.ones(300, 1, 4, dtype=torch.bfloat16)
    assert step_sums(many, (1,) * 300).flatten().tolist() == [300.0] * 4


def test_backward_runs_once() -> None:
    made, weights = parts_of((False, True, False))
    hidden = sequences(step_sizes_of(LENGTHS), Gates(None, made[1]), *made[3:])
    total = (hidden * weights).sum()
    torch.autograd.grad(total, made[1], retain_graph=True)
    with pytest.raises(RuntimeError, match="once"):
        torch.autograd.grad(total, made[1])


def test_terms_of_other_programs_are_refused() -> None:
    made, _ = parts_of((True, True, True))
    own, of_tokens, of_programs, *rest = made
    sizes = step_sizes_of(LENGTHS)
    for gates in (
        Gates(own[1:], of_tokens, of_programs),
        Gates(own, of_tokens[1:], of_programs),
        Gates(own, of_tokens, of_programs[:, 1:]),
    ):
        with torch.no_grad(), pytest.raises(ValueError, match="a term of the gates"):
            sequences(sizes, gates, *rest)


def test_compiled_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced as for training, but not turned into machine code."""
    compiled = torch.compile
    monkeypatch.setattr(torch, "compile", lambda *given, **how: compiled(*given, **how | {"backend": "aot_eager"}))
    plain, parts = Parts(), Parts().compiled()
    values = torch.arange(16, dtype=torch.uint8)
    for count in (3, 5):
        codes, hidden = torch.randint(0, 16, (count, 114), dtype=torch.uint8), torch.randn(count, 3, 4)
        present = torch.rand(count, 3) < 0.7
        assert torch.equal(parts.one_hot(codes, values, torch.float32), plain.one_hot(codes, values, torch.float32))
        for there in (None, present):
            assert torch.equal(parts.pooled(hidden, there), plain.pooled(hidden, there))
