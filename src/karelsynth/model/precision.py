"""Which numbers the network computes with."""

from __future__ import annotations

import torch

from karelsynth.model import eight_bits


def autocast_dtype(device: torch.device, otherwise: torch.dtype) -> torch.dtype:
    """The precision that autocast asks for on a device, if it is on."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else otherwise


def floating_dtype(device: torch.device) -> torch.dtype:
    """The fastest floating-point precision: bfloat16, except on CPUs that cannot multiply it."""
    # Not a public function: a version without it is taken for a CPU that cannot.
    fast = device.type == "cuda" or getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()
    return torch.bfloat16 if fast else torch.float32


def decoding_dtype(device: torch.device) -> torch.dtype:
    """The precision that decoding is fastest in.

    torch.int8, on CPUs that multiply it, is for `Synthesizer.step_model`: only products with states are in eight bits.
    """
    return torch.int8 if device.type == "cpu" and eight_bits.available() else floating_dtype(device)
