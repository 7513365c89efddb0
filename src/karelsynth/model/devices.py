"""Devices: which there are, copies from the host, the fastest precision of each, and threads on a CPU.

On some CPUs this is eight bits, for products with an LSTM's outputs: they take half the time of those in bfloat16. An
output is between −1 and 1, so one scale fits all: h is stored as 128 + 127 · h, rounded. A matrix has one scale per
column. Integer products and sums are exact; all error comes from the rounding before them. `Synthesizer.step_model`
quantises the weights, for decoding only.

    with shared_steps(threads):
        …                           # a step of the LSTM distributes its hypotheses over the threads

Every thread that searches has its own pool, so that concurrent searches do not wait for each other's steps. The tensor
library's own threads keep spinning for a while after each operation, on the cores that steps need. So within a search
it has only one.
"""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Barrier, RLock, Thread, local
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from karelsynth.errors import KarelsynthError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

log = logging.getLogger("karelsynth.model")

ZERO: Final = 128
"""The code of 0."""
ONE: Final = 127
"""The code of 1, minus that of 0."""
_FINE: Final = 8
_COARSE: Final = 16
_LARGE: Final = 64
"""`padded` makes numbers of rows multiples of `_FINE` up to this number, and of `_COARSE` above it."""
_mine = local()
"""Of the calling thread: `threads`, the number of threads of its steps now, and `pools`, by their size."""
_setting = RLock()
"""Held while PyTorch's number of threads is changed temporarily, so that no other thread reads that number."""


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


# Precision


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
    return torch.int8 if device.type == "cpu" and has_eight_bits() else floating_dtype(device)


# Eight bits


def narrowed(values: Tensor) -> Tensor:
    """Values between −1 and 1 in eight bits, uint8."""
    return (values.float() * ONE).round_().add_(ZERO).to(torch.uint8)


def widened(values: Tensor, dtype: torch.dtype) -> Tensor:
    """The values of uint8 codes."""
    return values.float().sub_(ZERO).div_(ONE).to(dtype)


class EightBits(NamedTuple):
    """A quantised matrix [n, m], to multiply such codes with."""

    packed: Tensor
    """In the tensor library's own layout."""
    scales: Tensor
    """float32 [m]: the value of 1 in each column."""
    zeros: Tensor
    """int64 [m]: zero points, all 0."""
    dtype: torch.dtype
    """Of products."""

    @staticmethod
    def of(matrix: Tensor) -> EightBits:
        """A matrix [n, m]; products have its precision."""
        values = matrix.float()
        scales = values.abs().amax(0).div_(127).clamp_(min=torch.finfo(torch.float32).tiny)
        whole = (values / scales).round_().to(torch.int8)
        packed = torch.ops.onednn.qlinear_prepack(whole.t().contiguous(), None)
        return EightBits(packed, scales, torch.zeros(len(scales), dtype=torch.int64), matrix.dtype)

    def product(self, rows: Tensor, bias: Tensor | None = None) -> Tensor:
        """[N, m]: the product with codes uint8 [N, n], plus a bias float32 [m]."""
        found: Tensor = torch.ops.onednn.qlinear_pointwise(
            rows, 1 / ONE, ZERO, self.packed, self.scales, self.zeros, bias, 1.0, 0, self.dtype, "none", [], ""
        )
        return found


@cache
def has_eight_bits() -> bool:
    """Whether the CPU multiplies in eight bits, and the tensor library lets it and gets it right."""
    try:
        if not torch.cpu._is_vnni_supported():
            return False
        rows = narrowed(torch.linspace(-1, 1, 3 * 64).view(3, 64))
        matrix = torch.linspace(-2, 2, 64 * 32).view(64, 32)
        found = EightBits.of(matrix).product(rows, torch.ones(32))
        return torch.allclose(found, widened(rows, torch.float32) @ matrix + 1, atol=0.2)
    except Exception as error:  # these operations are private: another version may have others
        log.warning("decoding cannot use eight bits on this CPU and is slower: %s: %s", type(error).__name__, error)
        return False


# Products on a CPU


def padded(rows: Tensor) -> Tensor:
    """The rows and up to 15 more of zeros; the rows alone if they are on a GPU, or if gradients are on.

    oneDNN multiplies bfloat16 and eight bits for PyTorch. It compiles a function for every shape that it meets, which
    takes as long as a small product and 0.3 MB of memory. It keeps the last 1,024. In a search nearly every step has
    another number of rows. Here it is rounded up, so that few shapes occur. The rows may also be indices of rows.
    """
    if not rows.is_cpu or torch.is_grad_enabled():
        return rows
    step = _FINE if len(rows) <= _LARGE else _COARSE
    missing = -len(rows) % step
    return torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])]) if missing else rows


def product(rows: Tensor, matrix: Tensor | EightBits, bias: Tensor | None = None) -> Tensor:
    """rows [..., n] · matrix [n, m] + bias [m]; the rows are codes if the matrix is quantised."""
    flat = rows.flatten(0, -2)
    given = padded(flat)
    if isinstance(matrix, EightBits):
        found = matrix.product(given, bias)
    else:
        found = given @ matrix if bias is None else torch.addmm(bias, given, matrix)
    return found[: len(flat)].view(*rows.shape[:-1], -1)


# Threads


def threads_of_steps() -> int:
    """How many threads run the calling thread's steps now."""
    return getattr(_mine, "threads", 1)


def single_threaded(threads: int) -> ThreadPoolExecutor:
    """The calling thread's pool, whose tensor operations start no threads of their own."""
    pools: dict[int, ThreadPoolExecutor] = _mine.__dict__.setdefault("pools", {})
    if threads not in pools:
        pools[threads] = new_single_threaded(threads, "karel-decoder")
    return pools[threads]


def new_single_threaded(threads: int, name: str) -> ThreadPoolExecutor:
    """A new pool, whose tensor operations start no threads of their own."""
    pool, ready = ThreadPoolExecutor(threads, thread_name_prefix=name), Barrier(threads)

    def prepare(_: int) -> None:
        torch.get_num_threads()  # a thread reads its number at first use: do that before it is set
        torch.set_num_threads(1)  # of this thread, but also of all later ones: reset below
        ready.wait()

    with _setting:
        before = torch.get_num_threads()
        list(pool.map(prepare, range(threads)))
        torch.set_num_threads(before)
    return pool


@contextmanager
def tensor_threads(threads: int) -> Iterator[None]:
    """Within it, each tensor operation is divided among `threads` threads, unless $OMP_NUM_THREADS is set."""
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    with _setting:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def shared_steps(threads: int) -> Iterator[None]:
    """Within it, this thread's steps on a CPU run on several threads, and its other operations on one."""
    if threads == 1:
        yield
        return
    with _setting:
        before = torch.get_num_threads()
        single_threaded(threads)
        torch.set_num_threads(1)
        # PyTorch gives the number that was set last to every later thread, and those are the application's own. So a
        # short-lived thread sets it back.
        restore = Thread(target=torch.set_num_threads, args=(before,))
        restore.start()
        restore.join()
    _mine.threads = threads
    try:
        yield
    finally:
        _mine.threads = 1
        torch.set_num_threads(before)


def _after_fork() -> None:
    """A forked child inherits pools without threads, ours and OpenMP's, and would wait for them forever."""
    global _setting
    _setting = RLock()
    _mine.__dict__.clear()
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
