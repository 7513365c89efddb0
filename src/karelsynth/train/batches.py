"""Batches for training, made in the background.

A source has the tasks of every step, so a resumed run needs only the step's number. Threads make the next batches while
the current one is used: the generator and the copies release the GIL.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from karelsynth.errors import NumberError
from karelsynth.karel.threads import core_count
from karelsynth.model.devices import to_device
from karelsynth.model.prefix_runner import prefix_runner
from karelsynth.model.prefix_trie import PrefixTrie, pack_programs
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.streams import TaskSource, task_source
from karelsynth.train.recipe import DataRecipe, Recipe, RecipeError

_AHEAD = 2
"""Batches ahead of use, for each thread."""


def open_source(recipe: DataRecipe) -> TaskSource:
    """The source that a recipe names."""
    try:
        return task_source(
            recipe.source,
            seed=recipe.seed,
            tasks=recipe.tasks,
            simplify=recipe.simplify,
            purposeful=recipe.purposeful,
        )
    except NumberError as error:
        raise RecipeError(f"`data.tasks`: {error}") from None


def check_lengths(source: TaskSource, recipe: Recipe) -> None:
    """Raise RecipeError if programs may be longer than decoding can write."""
    if source.longest > recipe.model.max_length:
        raise RecipeError(
            f"`model.max_length` is {recipe.model.max_length}, but programs of {recipe.data.source} have up to "
            f"{source.longest} tokens, which decoding could never write; set it to {source.longest} or more, or train "
            "on shorter programs"
        )


@dataclass(frozen=True)
class TrainingBatch:
    """A batch of tasks, on the host and on the device that trains."""

    tasks: TaskBatch
    """On the host, with examples in the source's order."""
    order: NDArray[np.int64]
    """[B, E]: the order of the examples; the last one is held out."""
    inputs: Tensor
    """uint8 [B, E − 1, 18, 18], on the device: the given examples."""
    outputs: Tensor
    """uint8 [B, E − 1, 18, 18]."""
    present: Tensor | None
    """bool [B, E − 1], on the device: the given examples that the model sees; None for all."""
    packed: PrefixTrie | None
    """The reference programs for teacher forcing, if the objective needs them."""

    def examples(self, tasks: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Inputs and outputs of some tasks [n] on the host, [n, E, 18, 18], the held-out example last."""
        rows, order = tasks[:, None], self.order[tasks]
        return self.tasks.inputs[rows, order], self.tasks.outputs[rows, order]


class BatchLoader:
    """The batches of a run, in order, made ahead of their use.

    Every time a task is used, its examples are shuffled, unless `shuffle_examples` is off, and the last one is held
    out. With probability `drop_examples`, some of those before it are hidden, too. With several processes, each takes
    an equal part of every batch.
    """

    def __init__(
        self,
        source: TaskSource,
        model: Synthesizer,
        *,
        batch_size: int,
        seed: int,
        pack: bool,
        drop_examples: float = 0.0,
        shuffle_examples: bool = True,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        if batch_size % ranks:
            raise RecipeError(
                f"`run.batch_size` ({batch_size}) must be a multiple of the number of processes ({ranks})"
            )
        self._source, self._batch_size, self._seed = source, batch_size, seed
        self._device, self._machine, self._pack = model.device, model.machine, pack
        self._settings, self._drop_examples, self._shuffles = model.settings, drop_examples, shuffle_examples
        self._part = batch_size // ranks
        self._offset = rank * self._part

    def batches(self, first: int, last: int) -> Iterator[TrainingBatch]:
        """The batches of steps first … last − 1."""
        workers = max(1, core_count() - 1)
        pool = ThreadPoolExecutor(workers, thread_name_prefix="batches")
        waiting: deque[Future[TrainingBatch]] = deque()
        step = first
        try:
            while step < last or waiting:
                while step < last and len(waiting) < _AHEAD * workers:
                    waiting.append(pool.submit(self._make, step))
                    step += 1
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _make(self, step: int) -> TrainingBatch:
        start = step * self._batch_size
        mine = slice(self._offset, self._offset + self._part)
        tasks = self._source.tasks(start + self._offset, self._part)
        examples = tasks.inputs.shape[1]
        rng = np.random.default_rng((self._seed, step))
        keys = rng.random((self._batch_size, examples))[mine]
        order = keys.argsort(axis=1) if self._shuffles else np.broadcast_to(np.arange(examples), keys.shape)
        present = None
        if self._drop_examples:
            drops, share = rng.random((2, self._batch_size))[:, mine]
            kept = np.where(drops < self._drop_examples, 1 + np.floor(share * (examples - 2)), examples - 1)
            present = to_device(np.arange(examples - 1) < kept[:, None], self._device)
        given = np.arange(0, self._part * examples, examples)[:, None] + order[:, :-1]
        worlds = [to_device(part, self._device) for part in (tasks.inputs, tasks.outputs)]
        packed = None
        if self._pack:
            packed = pack_programs(
                tasks.tokens,
                tasks.lengths,
                machine=self._machine,
                device=self._device,
                runner=prefix_runner(*worlds) if self._settings.execution else None,
                which=given,
                threads=1,
                skip_forced_tokens=self._settings.skip_forced_tokens,
            )
        # The device picks the given examples: there it costs nothing, on the host it would block all threads.
        picked = to_device(given.ravel(), self._device)
        inputs, outputs = (
            part.flatten(0, 1).index_select(0, picked).view(self._part, examples - 1, *part.shape[2:])
            for part in worlds
        )
        return TrainingBatch(tasks, order, inputs, outputs, present, packed)
