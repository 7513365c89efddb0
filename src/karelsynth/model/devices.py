"""Which devices there are."""

from __future__ import annotations

import torch

from karelsynth.errors import KarelsynthError


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
