"""From the host to the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray


def to_device(array: NDArray[Any], device: torch.device | str) -> Tensor:
    """An array as a tensor on a device, without waiting for what the device is doing."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if torch.device(device).type == "cuda":
        tensor = tensor.pin_memory()  # or the copy would wait for the GPU
    return tensor.to(device, non_blocking=True)
