"""Tasks for PyTorch training loops of one's own.

    dataset = TaskDataset(task_source("stream", seed=1), batch_size=128)
    loader = dataset.loader(workers=4)
    for batch in loader:                                    # a dict of tensors
        ...
    torch.save(loader.state_dict(), "tasks.pt")             # and later loader.load_state_dict(…): continues exactly

The batches come in the same order for every number of workers. `loader` is PyTorch's `DataLoader` that counts what it
has handed out; other loaders that keep the states of their workers' datasets, such as torchdata's
`StatefulDataLoader`, work, too, with `batch_size=None`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from karelsynth.errors import KarelsynthError, naming_extras
from karelsynth.tasks.streams import TaskIterator, TaskSource

with naming_extras():
    import torch
    from torch import Tensor
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

Batch = dict[str, Tensor]
"""Tensors with the names and shapes of `TaskBatch`."""


class TaskDataset(IterableDataset[Batch]):
    """Whole batches of a source; give it to a `DataLoader` with `batch_size=None`, or use `loader`.

    Args:
        source: see `karelsynth.tasks.streams.task_source`.
        batch_size: tasks per batch.
        batches: end after this many batches; by default never.
        worker, workers: this process's share, for training in several processes: its rank, and how many there are.
    """

    def __init__(
        self, source: TaskSource, batch_size: int, *, batches: int | None = None, worker: int = 0, workers: int = 1
    ) -> None:
        super().__init__()
        self._source, self._batch_size, self._batches, self._share = source, batch_size, batches, (worker, workers)
        self._iterator(worker, workers)  # checks the numbers
        self._skipped = 0
        """Batches of this process that come before the first of the next iteration."""
        self._loaded: Mapping[str, int] | None = None
        self._current: TaskIterator | None = None

    def __iter__(self) -> Iterator[Batch]:
        """In a worker of a loader, that worker's share."""
        info, (rank, ranks) = get_worker_info(), self._share
        number, count = (0, 1) if info is None else (info.id, info.num_workers)
        # A loader takes batches from its workers in turn, so after `_skipped` batches the next may not be worker 0's.
        self._current = self._iterator(rank + ranks * number, ranks * count)
        if self._loaded is not None:
            self._current.load_state_dict(self._loaded)
        elif self._skipped:
            first = rank + ranks * (self._skipped + number)
            self._current.begin_at(first)
        for arrays in self._current:
            yield {name: torch.from_numpy(array) for name, array in arrays.items()}

    def state_dict(self) -> dict[str, int]:
        """The state of this copy of the dataset: of a worker's, where a worker iterates."""
        current = self._current or self._iterator(*self._share)
        return current.state_dict()

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue where `state_dict` was called, in a worker with the same number."""
        self._loaded = dict(state)

    def skip(self, batches: int) -> None:
        """Let the next iteration begin after this many batches of this process."""
        self._skipped, self._loaded = batches, None

    def loader(self, *, workers: int = 0, **options: Any) -> TaskLoader:
        """A `DataLoader` over the batches, with a state; `options` are those of `DataLoader`."""
        return TaskLoader(self, workers=workers, **options)

    def _iterator(self, worker: int, workers: int) -> TaskIterator:
        return TaskIterator(self._source, self._batch_size, batches=self._batches, worker=worker, workers=workers)


class TaskLoader:
    """Batches of a dataset, made by worker processes, and the number of those that were handed out."""

    def __init__(self, dataset: TaskDataset, *, workers: int = 0, **options: Any) -> None:
        if workers > 0:
            options.setdefault("multiprocessing_context", "spawn")  # threads and compiled code do not survive a fork
        self._dataset = dataset
        self._loader: DataLoader[Batch] = DataLoader(dataset, batch_size=None, num_workers=workers, **options)
        self._handed_out = 0

    def __iter__(self) -> Iterator[Batch]:
        """The batches from the next one on."""
        self._dataset.skip(self._handed_out)
        for batch in self._loader:
            self._handed_out += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """How many batches were handed out. Those that workers have made ahead do not count."""
        return {"batches": self._handed_out}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue after the batches that were handed out, with any number of workers, at the next `iter`."""
        if not isinstance(state.get("batches"), int) or state["batches"] < 0:
            raise KarelsynthError(f"this is no state of a {type(self).__name__}: {state!r}")
        self._handed_out = state["batches"]
