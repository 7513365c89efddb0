"""Launching the kernels of `syntax_gpu_kernel`, where there is Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from karelsynth.karel.syntax_compiler import CONTROL_BITS, OPERATION_BITS, POP, STAY
from karelsynth.model.cell_gpu import on_device_of

if TYPE_CHECKING:
    from karelsynth.karel.syntax import SyntaxMachine
    from karelsynth.karel.syntax_compiler import SyntaxTables

_ROWS_OF_MASKS: Final = 16
_ROWS: Final = 128
"""States that a program of the kernel takes on."""


def mask(machine: SyntaxMachine, tables: SyntaxTables, states: Tensor) -> Tensor:
    """Tokens that are admitted, bool [..., 52], at states int64 [..., width]."""
    from karelsynth.model import syntax_gpu_kernel as kernel

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


def advance(machine: SyntaxMachine, tables: SyntaxTables, states: Tensor, tokens: Tensor) -> Tensor:
    """The states int64 [..., width] after one token int64 [...] each."""
    from karelsynth.model import syntax_gpu_kernel as kernel

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
