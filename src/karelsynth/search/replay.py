"""Steps of beam search replayed as CUDA graphs: one launch for several steps instead of dozens for each.

A step of a search is about sixty operations. Launching them takes the host longer than it takes the GPU to do them once
most tasks are done. A CUDA graph is a recording of these operations with fixed shapes and addresses. So hypotheses are
kept in static buffers (`_buffers`), for one of the task counts in `COUNTS`; missing tasks have no open hypotheses. The
recorded operations are those of `BeamSearch`, with the same results.

Without a GPU the same steps run in the same arrays, one operation after the other, for tests.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from karelsynth.model.decoder import StepTasks

if TYPE_CHECKING:
    from karelsynth.search.beam import Beams, BeamSearch

log = logging.getLogger("karelsynth.search")

COUNTS: Final = (16, 32, 64, 128, 192, 256, 384, 512, 768, 1024)
"""Numbers of tasks that steps are recorded for."""
_ROWS: Final = 1024 * 64
"""Most hypotheses, of all tasks together, that steps are recorded for: recordings keep their memory."""
_KEPT: Final = 4
"""Searches of different shapes whose recordings are kept."""
_BY_TASK: Final = ("number", "scores", "tokens", "lengths", "row", "last", "pool_scores", "pool_tokens", "pool_lengths")
_OPEN: Final = ("scores", "tokens", "lengths", "last")
"""Arrays with a place for each open hypothesis, which may be narrower than the beam."""

_recordings: OrderedDict[Any, ReplayedSteps] = OrderedDict()
_lock = threading.Lock()
_disabled: list[str] = []
"""Why steps are not recorded in this process, if they are not."""


def can_replay(tasks: int, beam: int) -> bool:
    """Whether steps of this many tasks are recorded."""
    return not _disabled and COUNTS[0] < tasks <= COUNTS[-1] and recorded_count(tasks) * beam <= _ROWS


def recorded_count(tasks: int) -> int:
    """The smallest recorded number of tasks that is not below this one."""
    return next(count for count in COUNTS if count >= tasks)


@contextmanager
def without_replay() -> Iterator[None]:
    """Within it, no steps are replayed: for benchmarks of the gain."""
    _disabled.append("not wanted")
    try:
        yield
    finally:
        _disabled.remove("not wanted")


@contextmanager
def replayed_steps(search: BeamSearch, tasks: StepTasks, limit: int) -> Iterator[ReplayedSteps | None]:
    """The recordings for a search of such tasks; None while another thread uses them, or if they cannot be made."""
    count, inputs = recorded_count(len(tasks)), tasks.inputs
    shapes = tuple((value.shape, value.dtype) for value in tensors_of(search.weights))
    syntax = None if search.syntax is None else search.syntax.machine
    key = (inputs.device, inputs.dtype, inputs.shape[1:], tasks.present is None, count, search.beam, search.every,
           limit, search.window, id(syntax), shapes)  # fmt: skip
    with _lock:
        found = _recordings.get(key)
        if found is None:
            found = ReplayedSteps(search, count)
            _recordings[key] = found
            while len(_recordings) > _KEPT:
                _recordings.popitem(last=False)
        _recordings.move_to_end(key)
        free = found.in_use.acquire(blocking=False)
    if not free:
        yield None
        return
    try:
        found.set_weights(search)
        yield found
    finally:
        found.in_use.release()


class ReplayedSteps:
    """The recordings of `search.every` steps for one shape of a search, by number of tasks."""

    def __init__(self, search: BeamSearch, count: int) -> None:
        self.in_use = threading.Lock()
        self._search = replace(search, weights=_copied(search.weights))
        self._weights = tensors_of(self._search.weights)
        self._count = count
        self._buffers: Beams | None = None
        self._graphs: dict[int, Any] = {}
        self._pool: Any = None
        self._loaded = -1
        """The number of tasks in the buffers; −1 if their hypotheses are elsewhere."""

    def set_weights(self, search: BeamSearch) -> None:
        """Use the weights of a search with the same shapes."""
        torch._foreach_copy_(self._weights, tensors_of(search.weights))
        self._loaded = -1

    def should_leave(self, tasks: int, active: int) -> bool:
        """Whether to remove tasks that are done now: only if a smaller recording then suffices."""
        return active == 0 or recorded_count(active) < recorded_count(tasks)

    def advance(self, beams: Beams) -> bool:
        """Take `search.every` steps. False, without any step, if they cannot be recorded."""
        count = len(beams.number)
        recorded = recorded_count(count)
        if self._loaded != count or self._buffers is None or beams.scores.data_ptr() != self._buffers.scores.data_ptr():
            if not self._load(beams, recorded):
                return False
            self._loaded = count
        if beams.scores.is_cuda:
            self._graphs[recorded].replay()
        else:
            self._steps(recorded)
        assert self._buffers is not None
        own = self._views(count)
        for name in (*_BY_TASK, "syntax"):
            setattr(beams, name, getattr(own, name))
        beams.tasks, beams.state = own.tasks, self._buffers.state
        return True

    def _load(self, beams: Beams, recorded: int) -> bool:
        """Copy hypotheses into the buffers, and record the steps for `recorded` tasks if that was not done yet."""
        count, width, beam = *beams.scores.shape, self._search.beam
        if self._buffers is None:
            self._buffers = _buffers_like(beams, self._count, beam)
        buffers = self._buffers
        # A row of the state for each hypothesis, in their order. First: this may read the buffers themselves.
        rows = torch.nn.functional.pad(beams.row, (0, beam - width)).flatten()
        states = [value.index_select(0, rows) for value in tensors_of(beams.state)]
        if beams.scores.is_cuda and recorded not in self._graphs and not self._record(recorded):
            beams.state = rebuilt(beams.state, iter(states))
            beams.row = torch.arange(count * beam, device=rows.device).view(count, beam)[:, :width]
            return False
        for target, value in zip(tensors_of(buffers.state), states, strict=True):
            target[: count * beam].copy_(value)
        buffers.scores[:recorded].fill_(-torch.inf)
        buffers.row[:recorded].copy_(torch.arange(recorded * beam, device=rows.device).view(recorded, beam))
        for name in _OPEN:
            getattr(buffers, name)[:count, :width].copy_(getattr(beams, name))
        if buffers.syntax is not None and beams.syntax is not None:
            buffers.syntax[:count, :width].copy_(beams.syntax)
        for name in ("number", "pool_scores", "pool_tokens", "pool_lengths"):
            getattr(buffers, name)[:count].copy_(getattr(beams, name))
        for target, value in zip(tensors_of(buffers.tasks), tensors_of(beams.tasks), strict=True):
            target[:count].copy_(value)
        return True

    def _record(self, recorded: int) -> bool:
        """Record the steps for `recorded` tasks; False if that fails, which is logged once."""
        try:
            stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._steps(recorded)  # compiles kernels, which a recording cannot do
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            # Other threads prepare batches meanwhile, and their calls must not end the recording.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                self._steps(recorded)
            self._pool = self._pool or graph.pool()
            self._graphs[recorded] = graph
            return True
        except RuntimeError as error:
            _disabled.append(" ".join(str(error).split()))
            log.warning("steps of beam search cannot be recorded as CUDA graphs and are slower: %s", _disabled[-1])
            return False

    def _steps(self, count: int) -> None:
        """`search.every` steps for the first tasks of the buffers, in place."""
        buffers, beams, beam = self._buffers, self._views(count), self._search.beam
        assert buffers is not None
        beams.state = rebuilt(buffers.state, (value[: count * beam] for value in tensors_of(buffers.state)))
        for _ in range(self._search.every):
            self._search.expand(beams)
        for name in _BY_TASK:
            getattr(buffers, name)[:count].copy_(getattr(beams, name))
        if buffers.syntax is not None and beams.syntax is not None:
            buffers.syntax[:count].copy_(beams.syntax)
        for target, value in zip(tensors_of(buffers.state), tensors_of(beams.state), strict=True):
            target[: count * beam].copy_(value)

    def _views(self, count: int) -> Beams:
        """The first tasks of the buffers."""
        buffers = self._buffers
        assert buffers is not None
        present = None if buffers.tasks.present is None else buffers.tasks.present[:count]
        return replace(
            buffers,
            tasks=StepTasks(buffers.tasks.inputs[:count], present),
            syntax=None if buffers.syntax is None else buffers.syntax[:count],
            **{name: getattr(buffers, name)[:count] for name in _BY_TASK},
        )


def _buffers_like(beams: Beams, count: int, beam: int) -> Beams:
    """Empty buffers for the hypotheses of `count` tasks."""

    def empty(value: Tensor, *shape: int) -> Tensor:
        return torch.zeros(*shape, dtype=value.dtype, device=value.device)

    def by_task(value: Tensor) -> Tensor:
        return empty(value, count, *value.shape[1:])

    def by_place(value: Tensor) -> Tensor:
        return empty(value, count, beam, *value.shape[2:])

    present = None if beams.tasks.present is None else by_task(beams.tasks.present)
    state = [empty(value, count * beam, *value.shape[1:]) for value in tensors_of(beams.state)]
    return replace(
        beams,
        tasks=StepTasks(by_task(beams.tasks.inputs), present),
        syntax=None if beams.syntax is None else by_place(beams.syntax),
        state=rebuilt(beams.state, iter(state)),
        number=by_task(beams.number),
        **{name: by_place(getattr(beams, name)) for name in _BY_TASK if name != "number"},
    )


def tensors_of(value: Any) -> list[Tensor]:
    """All tensors in nested tuples and dataclasses, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, tuple):
        return [tensor for part in value for tensor in tensors_of(part)]
    if is_dataclass(value) and not isinstance(value, type):
        return [tensor for field in fields(value) for tensor in tensors_of(getattr(value, field.name))]
    return []


def _copied(value: Any) -> Any:
    """Nested tuples and dataclasses with copies of all tensors."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, tuple):
        parts = [_copied(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _copied(getattr(value, field.name)) for field in fields(value)})
    return value


def rebuilt(value: Any, tensors: Iterator[Tensor]) -> Any:
    """Nested tuples with other tensors."""
    if isinstance(value, Tensor):
        return next(tensors)
    return tuple(rebuilt(part, tensors) for part in value) if isinstance(value, tuple) else value
