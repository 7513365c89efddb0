"""`SyntaxMachine.append_tokens` on a GPU: one thread for each prefix, one launch for all forced tokens.

As tensor operations that is a loop whose end the host has to wait for, at every step of a search.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from karelsynth.karel.cuda import cuda, launch_lock, on_stream
from karelsynth.karel.syntax import SyntaxMachine, append_to_row
from karelsynth.karel.syntax_compiler import SyntaxTables

_BLOCK: Final = 128


def append_tokens_on_gpu(
    machine: SyntaxMachine,
    tables: SyntaxTables,
    states: Tensor,
    tokens: Tensor,
    lengths: Tensor,
    chosen: Tensor,
    active: Tensor,
) -> None:
    """Append a token to each active prefix, and then the forced tokens: `states`, `tokens` and `lengths` change."""
    if not len(states):
        return
    arrays = (states, tokens, lengths, chosen.contiguous(), active.contiguous(), tables.transition, tables.forced)
    with launch_lock, torch.cuda.device(states.device):
        stream = on_stream(torch.cuda.current_stream(states.device).cuda_stream)
        launch = append_to_rows[-(-len(states) // _BLOCK), _BLOCK, stream]
        views = [cuda.as_cuda_array(array, sync=False) for array in arrays]
        launch(*views, machine.symbols, machine.symbol_bits, machine.word_bits)


@cuda.jit  # type: ignore[untyped-decorator]
def append_to_rows(
    states: Any,
    tokens: Any,
    lengths: Any,
    chosen: Any,
    active: Any,
    transition: Any,
    forced: Any,
    symbols: int,
    symbol_bits: int,
    word_bits: int,
) -> None:
    """See `append_tokens_on_gpu`."""
    row = cuda.grid(1)
    if row < states.shape[0] and active[row]:
        append_to_row(
            row, chosen[row], states, tokens, lengths, True, transition, forced, symbols, symbol_bits, word_bits
        )
