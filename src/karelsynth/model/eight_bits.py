"""Products with an LSTM's outputs in eight bits, for CPUs, where they take half the time of those in bfloat16.

An LSTM's output lies between −1 and 1, so one scale fits all: h is stored as 128 + 127 · h, rounded. A matrix has one
scale per column. Integer products and sums are exact; all error comes from the rounding before them. `available` says
whether the CPU and the tensor library support this. `Synthesizer.step_model` quantises the weights, for decoding only.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Final, NamedTuple

import torch
from torch import Tensor

log = logging.getLogger("karelsynth.model")

ZERO: Final = 128
"""The code of 0."""
ONE: Final = 127
"""The code of 1, minus that of 0."""


def narrowed(values: Tensor) -> Tensor:
    """Values between −1 and 1 in eight bits, uint8."""
    return (values.float() * ONE).round_().add_(ZERO).to(torch.uint8)


def widened(values: Tensor, dtype: torch.dtype) -> Tensor:
    """The values of uint8 codes."""
    return values.float().sub_(ZERO).div_(ONE).to(dtype)


class EightBits(NamedTuple):
    """A quantised matrix [n, m], to multiply such codes with."""

    packed: Tensor
    """In the tensor library's own layout."""
    scales: Tensor
    """float32 [m]: the value of 1 in each column."""
    zeros: Tensor
    """int64 [m]: zero points, all 0."""
    dtype: torch.dtype
    """Of products."""

    @staticmethod
    def of(matrix: Tensor) -> EightBits:
        """A matrix [n, m]; products have its precision."""
        values = matrix.float()
        scales = values.abs().amax(0).div_(127).clamp_(min=torch.finfo(torch.float32).tiny)
        whole = (values / scales).round_().to(torch.int8)
        packed = torch.ops.onednn.qlinear_prepack(whole.t().contiguous(), None)
        return EightBits(packed, scales, torch.zeros(len(scales), dtype=torch.int64), matrix.dtype)

    def product(self, rows: Tensor, bias: Tensor | None = None) -> Tensor:
        """[N, m]: the product with codes uint8 [N, n], plus a bias float32 [m]."""
        found: Tensor = torch.ops.onednn.qlinear_pointwise(
            rows, 1 / ONE, ZERO, self.packed, self.scales, self.zeros, bias, 1.0, 0, self.dtype, "none", [], ""
        )
        return found


@cache
def available() -> bool:
    """Whether the CPU multiplies in eight bits, and the tensor library lets it and gets it right."""
    try:
        if not torch.cpu._is_vnni_supported():
            return False
        rows = narrowed(torch.linspace(-1, 1, 3 * 64).view(3, 64))
        matrix = torch.linspace(-2, 2, 64 * 32).view(64, 32)
        found = EightBits.of(matrix).product(rows, torch.ones(32))
        return torch.allclose(found, widened(rows, torch.float32) @ matrix + 1, atol=0.2)
    except Exception as error:  # these operations are private: another version may have others
        log.warning("decoding cannot use eight bits on this CPU and is slower: %s: %s", type(error).__name__, error)
        return False
