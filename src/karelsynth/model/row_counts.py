"""Few different numbers of rows, for products on a CPU.

oneDNN, which multiplies bfloat16 and eight bits for PyTorch, compiles a function for every shape that it meets. That
takes as long as a small product and 0.3 MB of memory, and it keeps the last 1,024. In a search nearly every step has
another number of rows. `padded` rounds that number up, so that few shapes occur.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

_FINE: Final = 8
_COARSE: Final = 16
_LARGE: Final = 64
"""Up to so many rows, numbers of rows are multiples of `_FINE`, and above of `_COARSE`."""


def padded(rows: Tensor) -> Tensor:
    """The rows and up to 15 more of zeros; the rows alone if they are on a GPU, or if gradients are on.

    The rows may also be indices of rows.
    """
    if not rows.is_cpu or torch.is_grad_enabled():
        return rows
    step = _FINE if len(rows) <= _LARGE else _COARSE
    missing = -len(rows) % step
    return torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])]) if missing else rows
