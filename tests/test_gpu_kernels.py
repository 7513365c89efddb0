"""The Triton kernels without a GPU, by Triton's interpreter: `pip install triton` runs these tests, which skip without.

It shows what a kernel computes, not how fast; on a GPU the tests marked `gpu` run the kernels themselves.
"""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from karelsynth.karel.syntax import SyntaxMachine
from karelsynth.karel.tokens import VOCABULARY_SIZE
from karelsynth.model import lstm, lstm_training, triton_launch
from karelsynth.model.lstm_training import Gates, run_layer
from karelsynth.model.prefix_trie import pack_trie
from karelsynth.search import beam, beam_search
from karelsynth.search.beam import CHECK_EVERY
from tests.models import execution_model, plain_recurrence, random_grids, random_programs, tiny_model

pytestmark = [
    pytest.mark.skipif(find_spec("triton") is None, reason="no Triton"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: see the tests marked `gpu`"),
]
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported, which the first use of a kernel does


def test_a_layer_over_a_trie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs and gradients, against PyTorch's own backward pass."""
    monkeypatch.setattr(lstm_training, "_by_kernels", lambda device: True)
    tokens, lengths = random_programs(7, 30, 40)
    trie = pack_trie(tokens, lengths, np.arange(30) % 4)
    torch.manual_seed(0)
    size, examples, nodes = 10, 3, sum(trie.sizes)
    shapes = ((nodes, examples, 4 * size), (nodes, 4 * size), (size, 4 * size), (size,), (size,))
    own, of_tokens, *rest = given = [torch.randn(shape, requires_grad=True) for shape in shapes]
    weights = torch.randn(nodes, examples, size)
    results = []
    for hidden in (
        plain_recurrence(trie, own + of_tokens[:, None], *rest),
        run_layer(trie, Gates(own.clone(), of_tokens), *rest),
    ):
        results.append([hidden, *torch.autograd.grad((hidden * weights).sum(), given, retain_graph=True)])
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match="once"):
        torch.autograd.grad((hidden * weights).sum(), given)


def test_syntax() -> None:
    machine, rng = SyntaxMachine(max_length=72), np.random.default_rng(1)
    tables = machine.tables.convert(torch.from_numpy)
    tokens, _ = random_programs(3, 40, 72)
    states = torch.from_numpy(machine.initial(40))
    for column in tokens.T:
        numbers = rng.integers(-VOCABULARY_SIZE, 2 * VOCABULARY_SIZE, 40)  # some are no token's
        mixed = np.where(rng.random(40) < 0.98, column, numbers).astype(np.int64)
        last = torch.from_numpy(mixed)
        assert torch.equal(triton_launch.syntax_mask(machine, tables, states), machine.mask(states, tables))
        after = machine.advance(states, last, tables)
        assert torch.equal(triton_launch.syntax_advance(machine, tables, states, last), after)
        states = after


@pytest.mark.parametrize("kind", ["none", "learned", "handwritten", "execution"])
def test_a_search(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam search as on a GPU, for all places and with the kernels, whose indices are what the search gives them."""
    model = execution_model(syntax="handwritten") if kind == "execution" else tiny_model(syntax=kind)
    encoded = model.encode(*random_grids(5, 4, 3)).detach()
    plain = beam_search(model, encoded, beam=3, dtype=torch.float32, max_length=40, threads=1)

    def by_kernel(*given: Any) -> None:
        of_states, states, of_inputs, inputs, of_tokens, tokens, c, *rest = given
        if inputs is not None and inputs.ndim == 2:  # as a CPU has them, for each example its own
            of_inputs, inputs = of_inputs[inputs], None
        triton_launch.cells(of_states, states, of_inputs, inputs, of_tokens, tokens, c.contiguous(), *rest)

    def for_all_places(search: Any, *given: Any) -> Any:
        return run(replace(search, dense=True, every=CHECK_EVERY), *given)

    run = beam.BeamSearch.run
    monkeypatch.setattr(beam.BeamSearch, "run", for_all_places)
    monkeypatch.setattr(lstm, "_cells", by_kernel)
    found = beam_search(model, encoded, beam=3, dtype=torch.float32, max_length=40, threads=1)
    torch.testing.assert_close(found.logprobs, plain.logprobs, rtol=1e-3, atol=1e-3)
    assert torch.equal(found.tokens, plain.tokens)
