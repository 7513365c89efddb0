"""Devices: which there are, what precision is fastest on them, and copies from the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from karelsynth.errors import KarelsynthError
from karelsynth.model import eight_bits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray


def usable_device(name: str | torch.device) -> torch.device:
    """The device of that name; raises KarelsynthError if this machine, or its PyTorch, does not have it."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
        if device.type == "meta":
            raise RuntimeError("it holds nothing")
    except (RuntimeError, AssertionError, NotImplementedError, ImportError, TypeError):
        known = "cpu or cuda" if torch.cuda.is_available() else "cpu"
        raise KarelsynthError(f"there is no device `{name}` here; this machine has {known}") from None
    return device


def to_device(array: NDArray[Any], device: torch.device | str) -> Tensor:
    """An array as a tensor on a device. Does not synchronise with the device."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if torch.device(device).type == "cuda":
        tensor = tensor.pin_memory()  # or the copy would wait for the GPU
    return tensor.to(device, non_blocking=True)


def to_host(tensors: Iterable[Tensor]) -> tuple[list[Tensor], Callable[[], object]]:
    """Tensors on the host, and a function that waits until they are there. Does not synchronise with the device."""
    copies, waits = list[Tensor](), False
    for tensor in tensors:
        if tensor.is_cuda:
            room = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            tensor, waits = room.copy_(tensor, non_blocking=True), True
        copies.append(tensor)
    if not waits:
        return copies, lambda: None
    arrived: Any = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    arrived.record()
    return copies, arrived.synchronize


def cast(parameter: Tensor, dtype: torch.dtype) -> Tensor:
    """A parameter in some precision, detached where gradients are off."""
    return (parameter if torch.is_grad_enabled() else parameter.detach()).to(dtype)


def autocast_dtype(device: torch.device, otherwise: torch.dtype) -> torch.dtype:
    """The precision of autocast on a device if it is on, and else `otherwise`."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else otherwise


def floating_dtype(device: torch.device) -> torch.dtype:
    """The fastest floating-point precision: bfloat16, except on CPUs that cannot multiply it."""
    # A private function of torch: where it is missing, we assume that the CPU cannot.
    fast = device.type == "cuda" or getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()
    return torch.bfloat16 if fast else torch.float32


def decoding_dtype(device: torch.device) -> torch.dtype:
    """The fastest precision for decoding.

    torch.int8, on CPUs that multiply it, is for `Synthesizer.step_model`: only products with states are in eight bits.
    """
    return torch.int8 if device.type == "cpu" and eight_bits.available() else floating_dtype(device)
