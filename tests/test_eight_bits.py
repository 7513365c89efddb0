"""Products of states in eight bits: whole numbers to the last bit, and steps that come near those in float32."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from karelsynth.model.cell_kernel import cells
from karelsynth.model.devices import EightBits, decoding_dtype, has_eight_bits, narrowed, widened
from karelsynth.model.lstm import LSTMSteps, PrefixLSTM
from karelsynth.search import beam_search
from tests.models import lstm_of, random_grids, tiny_model

needs_them = pytest.mark.skipif(not has_eight_bits(), reason="this CPU or tensor library has no such products")


def test_values_are_rounded_to_the_nearest() -> None:
    values = torch.linspace(-1, 1, 10_001)
    small = narrowed(values)
    assert small.dtype == torch.uint8
    assert (int(small[0]), int(small[5_000]), int(small[-1])) == (1, 128, 255)
    assert (widened(small, torch.float32) - values).abs().max() <= 0.5 / 127 + 1e-6


@needs_them
@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 70), st.integers(1, 70)),
    scale=st.sampled_from([1e-3, 1.0, 100.0]),
    with_bias=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    seed=st.integers(0, 99),
)
@hypothesis_settings(deadline=None, max_examples=60)
def test_a_product_is_that_of_the_whole_numbers(
    sizes: tuple[int, int, int], scale: float, with_bias: bool, dtype: torch.dtype, seed: int
) -> None:
    count, inputs, outputs = sizes
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 256, (count, inputs)).astype(np.uint8)
    matrix = (rng.standard_normal((inputs, outputs)) * scale).astype(np.float32)
    matrix = torch.from_numpy(matrix).to(dtype).float().numpy()
    matrix[:, 0] = 0  # a column that is nothing has no scale of its own
    bias = (rng.standard_normal(outputs) * scale).astype(np.float32) if with_bias else None
    found = EightBits.of(torch.from_numpy(matrix).to(dtype)).product(
        torch.from_numpy(rows), None if bias is None else torch.from_numpy(bias)
    )
    steps = np.maximum(np.abs(matrix).max(0), 1e-30).astype(np.float64) / 127
    exact = (rows.astype(np.int64) - 128) @ np.rint(matrix / steps).astype(np.int64) * (steps / 127)
    exact = exact if bias is None else exact + bias
    assert found.dtype == dtype
    tolerance = 1e-4 if dtype == torch.float32 else 1e-2
    largest = np.abs(exact).max(initial=0) + scale * 1e-3
    np.testing.assert_allclose(found.double().numpy(), exact, rtol=tolerance, atol=tolerance * largest)


def test_a_cell_writes_the_nearest_eight_bits() -> None:
    rng = np.random.default_rng(0)
    count, examples, size = 9, 3, 16
    gates = (rng.standard_normal((count, examples, 4 * size)) * 6).astype(np.float32)
    none, rows = np.zeros((1, 4 * size), np.float32), np.arange(count)
    c = (rng.standard_normal((count, examples, size)) * 4).astype(np.float32)
    wide, small = (np.empty((count, examples, size), kind) for kind in (np.float32, np.uint8))
    first, second = np.empty_like(c), np.empty_like(c)
    nothing, first_of_all = np.zeros((1, 4 * size), np.float32), np.zeros((count, examples), np.int64)
    cells(gates, rows, nothing, first_of_all, none, np.zeros_like(rows), c, rows, wide, first)
    cells(gates, rows, nothing, first_of_all, none, np.zeros_like(rows), c, rows, small, second)
    assert np.array_equal(first, second)
    assert np.abs(wide).max() > 0.99
    assert np.abs(widened(torch.from_numpy(small), torch.float32).numpy() - wide).max() <= 0.5 / 127 + 1e-5


@needs_them
@pytest.mark.parametrize("mixing", [False, True])
@pytest.mark.parametrize("syntax", ["none", "learned"])
def test_steps_come_near_those_in_float32(mixing: bool, syntax: str) -> None:
    model = tiny_model(3, syntax=syntax, mixing=mixing, head_size=24 if mixing else 0, hidden_size=48)
    present = torch.tensor([[True, True, True], [True, False, True], [False, True, False]])
    encoded = model.encode(*random_grids(1, 3, 3), present).detach()
    scores = {}
    for dtype in (torch.float32, torch.int8):
        weights = model.step_model(dtype)
        tasks = model.step_tasks(weights, encoded)
        state, rows = weights.start(tasks), torch.arange(3)
        assert (state[0][0].dtype == torch.uint8) == (dtype == torch.int8)
        generator = torch.Generator().manual_seed(0)
        for _ in range(6):
            tokens = torch.randint(0, 52, (3,), generator=generator)
            logits, state = weights.step(tasks, state, rows, rows, tokens)
        scores[dtype] = logits
    assert (scores[torch.int8] - scores[torch.float32]).abs().max() < 0.03
    assert scores[torch.float32].std() > 0.1


@needs_them
@pytest.mark.parametrize("value", [1.5, -1.01, float("nan")])
def test_a_first_state_that_does_not_fit_stays_as_it_is(value: float) -> None:
    model = tiny_model()
    with torch.no_grad():
        recurrent = lstm_of(model).recurrent
        assert isinstance(recurrent, PrefixLSTM)
        recurrent.initial[0, 0, 0] = value
    weights = model.step_model(torch.int8)
    assert isinstance(weights.decoder, LSTMSteps)
    assert not any(isinstance(layer.states, EightBits) for layer in weights.decoder.weights.layers)
    encoded = model.encode(*random_grids(5, 2, 3)).detach()
    assert beam_search(model, encoded, beam=2, weights=weights).lengths.shape == (2, 2)


def test_machines_without_them_decode_in_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karelsynth.model.devices.has_eight_bits", lambda: False)
    assert decoding_dtype(torch.device("cpu")) in (torch.float32, torch.bfloat16)
    assert decoding_dtype(torch.device("cuda")) == torch.bfloat16


def test_a_library_without_them_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*given: object) -> None:
        raise AttributeError

    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: True)
    monkeypatch.setattr(EightBits, "of", gone)
    assert not has_eight_bits.__wrapped__()
