"""One process or several: `torchrun` starts them, and each takes its part of every batch.

More processes than GPUs share the GPUs. This is for steps of many small operations, such as RL's: with NVIDIA's MPS a
GPU serves several processes at a time.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from karelsynth.karel.threads import THREADS, core_count


@dataclass(frozen=True)
class ProcessGroup:
    """The processes of a run, from the view of one of them."""

    rank: int
    size: int
    device: torch.device

    @staticmethod
    def join(device: torch.device | None = None) -> ProcessGroup:
        """The group that `torchrun` made, or this process alone; on a GPU if there is one.

        Processes on one machine share its cores, unless the environment sets how many each may use.
        """
        size, rank = int(os.environ.get("WORLD_SIZE", "1")), _rank()
        local, here = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", str(size)))
        gpus = torch.cuda.device_count()
        if device is None:
            device = torch.device("cuda" if gpus else "cpu")
        if device.type == "cuda":
            device = device if device.index is not None else torch.device("cuda", local % max(1, gpus))
            torch.cuda.set_device(device)
        if size > 1:
            os.environ.setdefault(THREADS, str(max(1, core_count() // here)))
            dist.init_process_group(backend(device.type, here, gpus), rank=rank, world_size=size)
        return ProcessGroup(rank, size, device)

    def close(self) -> None:
        """Destroy the group."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()

    @property
    def is_main(self) -> bool:
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


def is_main_process() -> bool:
    """Whether this process is the main one of those that `torchrun` started."""
    return _rank() == 0


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


def backend(device: str, processes: int, gpus: int) -> str:
    """The backend that exchanges gradients: NCCL if each process has a GPU of its own, otherwise gloo."""
    return "nccl" if device == "cuda" and processes <= gpus else "gloo"
