"""Products on a CPU have few different numbers of rows, and what is added changes nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from karelsynth.model.devices import EightBits, has_eight_bits, narrowed, padded, product


@given(st.integers(0, 600))
def test_rows_stay_and_zeros_follow(count: int) -> None:
    rows = torch.arange(1, 3 * count + 1).view(count, 3)
    with torch.no_grad():
        more = padded(rows)
    assert torch.equal(more[:count], rows)
    assert not more[count:].any()
    assert len(more) - count < 16


def test_few_numbers_of_rows_occur() -> None:
    with torch.no_grad():
        assert len({len(padded(torch.zeros(count))) for count in range(1, 513)}) == 36


def test_with_gradients_nothing_is_added() -> None:
    rows = torch.zeros(5, 3)
    assert padded(rows) is rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_a_product_does_not_depend_on_what_is_added(dtype: torch.dtype) -> None:
    if dtype == torch.int8 and not has_eight_bits():
        pytest.skip("no products in eight bits here")
    whole = torch.linspace(-1, 1, 40 * 64).view(40, 64)
    matrix = torch.linspace(-2, 2, 64 * 32).view(64, 32)
    rows, factor = (
        (narrowed(whole), EightBits.of(matrix)) if dtype == torch.int8 else (whole.to(dtype), matrix.to(dtype))
    )
    with torch.no_grad():
        exact = product(rows, factor)
        for count in (1, 2, 7, 8, 9, 33):
            assert torch.allclose(product(rows[:count], factor), exact[:count], rtol=1e-2, atol=1e-3)
        assert product(rows[:30].view(5, 6, 64), factor).shape == (5, 6, 32)
