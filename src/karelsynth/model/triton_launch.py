"""Launches the kernels of `triton_kernels`, where there is Triton: it comes with PyTorch for GPUs."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from karelsynth.karel.syntax_compiler import CONTROL_BITS, OPERATION_BITS, POP, STAY

if TYPE_CHECKING:
    from karelsynth.karel.syntax import SyntaxMachine
    from karelsynth.karel.syntax_compiler import SyntaxTables

log = logging.getLogger("karelsynth.model")

_ROWS_OF_MASKS: Final = 16
_ROWS: Final = 128
"""States that a program of the kernel takes on."""


@cache
def available() -> bool:
    """Whether Triton's kernels run here, which also needs a C compiler. If not, the log says why, once.

    Call it only where there is a GPU to use.
    """
    if find_spec("triton") is None:
        reason = "there is no Triton"
    else:
        try:
            one = torch.ones(1, 1, 4, device="cuda")
            zero, out = torch.zeros(1, dtype=torch.int64, device="cuda"), torch.empty(1, 1, 1, device="cuda")
            cells(one, zero, one, None, one, None, one[:, :, :1].contiguous(), zero, out, torch.empty_like(out))
            given = (torch.ones_like(out), torch.empty_like(out), torch.empty_like(out))
            steps, grad_c = TritonCells(one, None, None, *given, None), torch.empty_like(out)
            steps.forward(0, 1, None, None)
            steps.backward(torch.ones_like(out), None, grad_c, grad_c, 0, 1, None)
            return True
        except Exception as error:  # a half-installed compiler may raise anything
            reason = f"{type(error).__name__}: {error}"
    log.warning(
        "Triton's kernels cannot be used on this GPU, so LSTMs and syntax take many small steps, which is slower. It "
        "says: %s",
        " ".join(reason.split()),
    )
    return False


def cells(
    of_states: Tensor,
    states: Tensor,
    of_inputs: Tensor,
    inputs: Tensor | None,
    of_tokens: Tensor,
    tokens: Tensor | None,
    c: Tensor,
    parents: Tensor,
    new_h: Tensor,
    new_c: Tensor,
) -> None:
    """See `cell_kernel.cells`; tensors of floats are contiguous.

    Args:
        inputs: None if each hypothesis has its own.
        tokens: None if all have the first of them.
    """
    from karelsynth.model import triton_kernels as kernel

    _check(of_states, of_inputs, of_tokens, c, new_h, new_c)
    states, parents = states.contiguous(), parents.contiguous()
    inputs, tokens = (None if numbers is None else numbers.contiguous() for numbers in (inputs, tokens))
    rows, examples, size = new_h.shape[0] * new_h.shape[1], new_h.shape[1], new_h.shape[2]
    if rows:
        with on_device_of(new_h):
            kernel.cells[(rows,)](
                of_states, states, of_inputs, inputs, of_tokens, tokens, c, parents, new_h, new_c, examples,
                SIZE=size, OWN_INPUTS=inputs is None, ONE_TOKEN=tokens is None, **_shape(size),
            )  # fmt: skip


def children_sums(
    grad_gates: Tensor, grad_c: Tensor, first: Tensor, last: Tensor, sum_gates: Tensor, sum_c: Tensor
) -> None:
    """For each of N nodes the sums over its children, numbers first [N] to last [N] (exclusive), of two gradients.

    Args:
        grad_gates: [M, K, 4 · H] of the children.
        grad_c: [M, K, H].
        sum_gates: [N, K, 4 · H], to be filled.
        sum_c: [N, K, H], to be filled.
    """
    from karelsynth.model import triton_kernels as kernel

    _check(grad_gates, grad_c, first, last, sum_gates, sum_c)
    nodes, examples, size = sum_c.shape
    with on_device_of(sum_c):
        kernel.children_sums[(nodes * examples,)](
            grad_gates, grad_c, first, last, sum_gates, sum_c, examples, SIZE=size, **_shape(size)
        )


def step_sums(values: Tensor, steps: Tensor, sizes: Tensor, sums: Tensor) -> None:
    """For each of N programs, packed by step, the sum over its tokens.

    Args:
        values: [P, K, 4 · H].
        steps: int64 [N], how many tokens each has, the most first.
        sizes: int64 [T], how many programs have a token at each step.
        sums: [N, K, 4 · H], to be filled.
    """
    from karelsynth.model import triton_kernels as kernel

    _check(values, steps, sizes, sums)
    count, examples, size = *sums.shape[:2], sums.shape[2] // 4
    with on_device_of(sums):
        kernel.step_sums[(count * examples,)](values, steps, sizes, sums, examples, SIZE=size, **_shape(size))


class TritonCells:
    """The LSTM cells of a prefix trie, depth by depth, forward and backward; see `lstm_training.TensorCells`.

    There are many steps, and the host must not take longer for them than the GPU. So tensors are given once, as a
    whole, and steps by the numbers of their rows. Launch within `on_device_of`.
    """

    def __init__(
        self,
        gates: Tensor,
        of_programs: Tensor | None,
        of_tokens: Tensor | None,
        start: Tensor,
        c: Tensor,
        h: Tensor,
        parents: Tensor | None,
    ) -> None:
        from karelsynth.model import triton_kernels as kernel

        _check(gates, of_programs, of_tokens, start, c, h, parents)
        self._forward, self._backward = kernel.trie_cells, kernel.trie_cells_backward
        self._terms, self._parents = (gates, of_programs, of_tokens), parents
        self._start, self._c, self._h, self._examples = start, c, h, h.shape[1]
        self._constants = {"SIZE": h.shape[2], "SHARED": parents is not None, **_shape(h.shape[2])}
        self._with = {"WITH_PROGRAMS": of_programs is not None, "WITH_TOKENS": of_tokens is not None}

    def forward(self, first: int, rows: int, earlier: int | None, of_states: Tensor | None) -> None:
        """See `TensorCells`."""
        before = self._start if earlier is None else self._c
        self._forward[(rows,)](
            *self._terms, of_states, self._parents, before, self._c, self._h, first, earlier or 0, self._examples,
            **self._with, **self._constants,
        )  # fmt: skip

    def backward(
        self,
        grad_h: Tensor,
        more: Tensor | None,
        grad_c: Tensor,
        after: Tensor,
        first: int,
        rows: int,
        earlier: int | None,
    ) -> None:
        """See `TensorCells`."""
        before = self._start if earlier is None else self._c
        later = first + rows if self._parents is None else first
        count, second = (0, grad_h) if more is None else (len(more), more)
        self._backward[(rows,)](
            grad_h, second, self._terms[0], self._parents, self._c, before, after, grad_c, first, earlier or 0, later,
            count, self._examples, **self._constants,
        )  # fmt: skip


def syntax_mask(machine: SyntaxMachine, tables: SyntaxTables, states: Tensor) -> Tensor:
    """Tokens that the machine admits, bool [..., 52], at states int64 [..., width]."""
    from karelsynth.model import triton_kernels as kernel

    states, tokens = states.contiguous(), tables.price.shape[1]
    admitted = torch.empty(*states.shape[:-1], tokens, dtype=torch.bool, device=states.device)
    count = states.numel() // machine.width
    if count:
        with on_device_of(states):
            kernel.masks[(-(-count // _ROWS_OF_MASKS),)](
                states, tables.price, admitted, count, WIDTH=machine.width, SYMBOLS=machine.symbols, TOKENS=tokens,
                SYMBOL_BITS=machine.symbol_bits, ROWS=_ROWS_OF_MASKS, LANES=1 << (tokens - 1).bit_length(),
            )  # fmt: skip
    return admitted


def syntax_advance(machine: SyntaxMachine, tables: SyntaxTables, states: Tensor, tokens: Tensor) -> Tensor:
    """The states int64 [..., width] after one token int64 [...] each."""
    from karelsynth.model import triton_kernels as kernel

    states, tokens = states.contiguous(), tokens.contiguous()
    new, count = torch.empty_like(states), tokens.numel()
    if count:
        with on_device_of(states):
            kernel.advances[(-(-count // _ROWS),)](
                states, tokens, tables.transition, new, count, WIDTH=machine.width, SYMBOLS=machine.symbols,
                SYMBOL_BITS=machine.symbol_bits, WORD_BITS=machine.word_bits, CONTROL_BITS=CONTROL_BITS,
                OPERATION_BITS=OPERATION_BITS, POP=POP, STAY=STAY, TOKENS=tables.transition.shape[1], ROWS=_ROWS,
            )  # fmt: skip
    return new


def on_device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """A context in which Triton launches on the device of a tensor; it launches on the current one."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()  # on a host it is Triton's interpreter


def _check(*tensors: Tensor | None) -> None:
    """Kernels go by pointers, and would read something else."""
    assert all(tensor is None or tensor.is_contiguous() for tensor in tensors), "tensors must be contiguous"


def _shape(size: int) -> dict[str, Any]:
    """The launch options of a kernel whose programs each do a row of `size` numbers."""
    block = 1 << (size - 1).bit_length()
    return {"BLOCK": block, "num_warps": max(1, min(8, block // 128))}
