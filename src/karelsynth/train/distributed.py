"""One process or several: `torchrun` starts them, and each takes its part of every batch."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Group:
    """The processes of a run, as one of them sees it."""

    rank: int
    size: int
    device: torch.device

    @staticmethod
    def join(device: torch.device | None = None) -> Group:
        """The group that `torchrun` made, or this process alone; on a GPU if there is one."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        rank, local = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_RANK", "0"))
        if device is None:
            device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
        if device.type == "cuda":
            torch.cuda.set_device(device.index or 0)
        if size > 1:
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo", rank=rank, world_size=size)
        return Group(rank, size, device)

    def leave(self) -> None:
        """Take the group apart."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()

    @property
    def leads(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def total(self, value: Tensor) -> Tensor:
        """The sum of a number over all processes."""
        if self.size > 1:
            value = value.clone()
            dist.all_reduce(value)
        return value

    def precision(self, name: str) -> AbstractContextManager[object]:
        """The precision that networks run in; weights stay float32."""
        return torch.autocast(self.device.type, torch.bfloat16) if name == "bfloat16" else nullcontext()
