"""Streams of tasks for training loops of one's own: order, shares of workers, exact resumption."""

from __future__ import annotations

import pickle
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from karelsynth.errors import KarelsynthError
from karelsynth.karel.threads import core_quota
from karelsynth.tasks.generate import generate
from karelsynth.tasks.sets import write_set
from karelsynth.tasks.streams import Arrays, TaskIterator, TaskSource, TaskStream, task_source
from karelsynth.train.dataset import TaskDataset


def first(batches: Any, count: int) -> list[bytes]:
    """The content of the next batches."""
    return [content(batch) for batch in islice(iter(batches), count)]


def content(batch: Any) -> bytes:
    return b"".join(np.asarray(part).tobytes() for part in batch.values())


SOURCES = [task_source(seed=3), task_source(seed=3, purposeful=0.5), task_source(seed=3, tasks=7, simplify=True)]


@pytest.mark.parametrize("source", SOURCES, ids=["random", "purposeful", "finite"])
def test_batches_are_those_of_the_source_and_have_one_shape(source: TaskSource) -> None:
    batches: list[Arrays] = list(islice(iter(TaskIterator(source, 5)), 4))
    tasks = source.tasks(0, 20)
    for name in ("tokens", "lengths", "inputs", "outputs", "novel"):
        assert np.array_equal(np.concatenate([batch[name] for batch in batches]), getattr(tasks, name))
        assert len({batch[name].shape for batch in batches}) == 1
    assert batches[0]["inputs"].shape == (5, 6, 18, 18)


@given(workers=st.integers(1, 4), done=st.integers(0, 6), threads=st.integers(0, 2))
def test_workers_divide_the_batches_and_resume(workers: int, done: int, threads: int) -> None:
    whole = first(TaskIterator(SOURCES[2], 3), 24)
    for worker in range(workers):
        mine = TaskIterator(SOURCES[2], 3, batches=24, worker=worker, workers=workers, threads=threads)
        assert first(mine, done) == whole[worker::workers][:done]
        again = TaskIterator(SOURCES[2], 3, batches=24, worker=worker, workers=workers)
        again.load_state_dict(pickle.loads(pickle.dumps(mine.state_dict())))
        assert first(again, 99) == whole[worker::workers][done:]


@pytest.mark.parametrize("purposeful", [0.0, 0.5])
@pytest.mark.parametrize("simpler", [False, True])
def test_threads_do_not_change_the_tasks(simpler: bool, purposeful: float) -> None:
    stream = TaskStream(5, simpler, purposeful)
    assert stream.tasks(3, 40, threads=None).fingerprint == stream.tasks(3, 40, threads=2).fingerprint
    assert stream.tasks(3, 40, threads=None).fingerprint == stream.tasks(3, 40).fingerprint


def test_a_set_is_a_source(tmp_path: Path) -> None:
    write_set(tmp_path / "set", seed=5, count=6)
    batch = next(iter(TaskIterator(task_source(str(tmp_path / "set"), seed=1), 6)))
    assert sorted(map(bytes, batch["tokens"])) == sorted(map(bytes, generate(5, 0, 6).tokens))
    with pytest.raises(KarelsynthError, match=r"7 tasks are wanted, but .*set holds 6"):
        task_source(str(tmp_path / "set"), tasks=7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": 0}, "tasks is a whole number from 1 on, not 0"),
        ({"seed": -1, "source": "val", "tasks": 1}, "seed is a whole number from 0 to .*, not -1"),
        ({"purposeful": 1.5}, "purposeful is a share from 0 to 1, not 1.5"),
        ({"purposeful": float("nan")}, "purposeful is a share from 0 to 1, not nan"),
    ],
)
def test_numbers_out_of_bounds_are_reported_when_a_source_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(KarelsynthError, match=message):
        task_source(**options)


def test_the_loader_has_one_order_for_any_number_of_workers_and_resumes_exactly() -> None:
    dataset = TaskDataset(SOURCES[2], 3, batches=9)
    whole = first(dataset, 99)
    assert whole == first(TaskIterator(SOURCES[2], 3), 9)
    loader = dataset.loader()
    assert first(loader, 4) == whole[:4]
    state = loader.state_dict()
    several = TaskDataset(SOURCES[2], 3, batches=9).loader(workers=2)
    several.load_state_dict(state)
    assert first(several, 99) == whole[4:]
    assert several.state_dict() == {"batches": 9}


def test_processes_divide_the_batches_among_them() -> None:
    whole = first(TaskDataset(SOURCES[2], 3, batches=9), 99)
    for rank in range(2):
        loader = TaskDataset(SOURCES[2], 3, batches=9, worker=rank, workers=2).loader()
        assert first(loader, 2) == whole[rank::2][:2]
        assert first(loader, 99) == whole[rank::2][2:]  # an iteration continues where the last one ended


def test_loaders_that_keep_the_states_of_workers_resume_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchdata's StatefulDataLoader: `state_dict` and `load_state_dict` are called in the worker."""

    class Info:
        id, num_workers = 1, 3

    monkeypatch.setattr("karelsynth.train.dataset.get_worker_info", Info)
    worker = TaskDataset(SOURCES[2], 3, batches=12)
    made = first(worker, 2)
    later = TaskDataset(SOURCES[2], 3, batches=12)
    later.load_state_dict(worker.state_dict())
    made += first(later, 99)
    assert made == first(TaskIterator(SOURCES[2], 3), 12)[1::3]
    monkeypatch.setattr(Info, "num_workers", 2)
    with pytest.raises(KarelsynthError, match="worker 1 of 3, not to worker 1 of 2: use as many workers as before"):
        next(iter(later))


def test_wrong_states_say_so() -> None:
    with pytest.raises(KarelsynthError, match="this is no state of a TaskIterator"):
        TaskIterator(SOURCES[0], 3).load_state_dict({"batches": 3})
    with pytest.raises(KarelsynthError, match="this is no state of a TaskLoader"):
        TaskDataset(SOURCES[0], 3).loader().load_state_dict({"next": 3})
    with pytest.raises(KarelsynthError, match="batch_size is a whole number from 1 on, not 0"):
        TaskDataset(SOURCES[0], 0)


def test_tensors_share_the_arrays_memory() -> None:
    batch = next(iter(TaskDataset(SOURCES[0], 2)))
    assert batch["tokens"].dtype == torch.uint8


@pytest.mark.parametrize(
    ("name", "text", "cores"),
    [("cpu.max", "150000 100000", 2), ("cpu.max", "max 100000", None), ("cpu.max", "junk", None), ("other", "", None)],
)
def test_the_time_that_a_container_is_granted(name: str, text: str, cores: int | None, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert core_quota(tmp_path) == cores


def test_the_time_that_an_older_container_is_granted(tmp_path: Path) -> None:
    for number, (quota, cores) in enumerate((("50000", 1), ("-1", None))):
        folder = tmp_path / str(number) / "cpu"
        folder.mkdir(parents=True)
        (folder / "cpu.cfs_quota_us").write_text(quota)
        (folder / "cpu.cfs_period_us").write_text("100000")
        assert core_quota(folder.parent) == cores


def test_an_iterator_continues_from_its_state() -> None:
    whole = first(TaskIterator(SOURCES[2], 3), 6)
    for threads in (0, 2):
        batches = TaskIterator(SOURCES[2], 3, batches=6, threads=threads)
        assert content(next(batches)) == whole[0]
        assert first(batches, 2) == whole[1:3]
        copy = pickle.loads(pickle.dumps(batches))  # as a worker process gets it
        assert first(copy, 99) == first(batches, 99) == whole[3:]
        assert next(batches, None) is None
        batches.begin_at(4)
        assert content(next(batches)) == whole[4]
