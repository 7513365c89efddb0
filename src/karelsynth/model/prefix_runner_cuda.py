"""The prefix runner for examples on a GPU: one thread per prefix and example.

Every thread calls the same compiled functions as the host; Numba compiles them for the GPU as well (`numba-cuda`, from
`pip install --editable ".[cuda]"`). A thread's scratch memory is its own. Only `prefix_runner` imports this module,
and only where there is a GPU: importing it loads Numba's CUDA module.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import Tensor

from karelsynth.errors import KarelsynthError
from karelsynth.karel.cuda import cuda, launch_lock, on_stream
from karelsynth.karel.formats.codes import HERO
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.machine_kernel import CELLS, code_buffers
from karelsynth.karel.syntax_compiler import ParserTables, compile_grammar
from karelsynth.model.devices import to_device
from karelsynth.model.prefix_features_kernel import FEATURES, run_and_describe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.model.prefix_trie_kernel import PackedLayout

LONGEST: Final = 128
"""Tokens of the longest prefix that fits into a thread's scratch memory."""
_THREADS_PER_BLOCK: Final = 64
_TEXT, _CLOSING = 2 * LONGEST, LONGEST + 1
_CODE, _, _STACK, _, _ = (len(buffer) for buffer in code_buffers.py_func(_TEXT))
_COUNTERS: Final = _TEXT + 1  # prefixes are run without a remembered state


@cache
def _transition(device: torch.device) -> Tensor:
    return torch.from_numpy(compile_grammar(KAREL).tables.transition.copy()).to(device)


@dataclass(frozen=True)
class CudaPrefixRunner:
    """Runs prefixes on a GPU. It does not check that the examples are worlds."""

    inputs: Tensor
    """uint8 [B, K, 18, 18]."""
    outputs: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """B and K."""
        return self.inputs.shape[0], self.inputs.shape[1]

    def select(self, rows: Tensor) -> CudaPrefixRunner:
        """A runner for the tasks `rows`, int64 [B']."""
        return CudaPrefixRunner(self.inputs.index_select(0, rows), self.outputs.index_select(0, rows))

    def features(self, tokens: Tensor, lengths: Tensor, tasks: Tensor) -> Tensor:
        """See `PrefixRunner.features`."""
        examples = self.inputs.shape[1]
        rows, number = (torch.arange(size, device=tokens.device) for size in (len(tokens), examples))
        return self._run(tokens, rows, lengths.contiguous(), tasks[:, None] * examples + number)

    def features_along(
        self,
        tokens: NDArray[np.uint8],
        lengths: NDArray[np.int64],
        layout: PackedLayout,
        which: NDArray[np.integer],
        threads: int | None = None,
    ) -> Tensor:
        """See `PrefixRunner.features_along`."""
        device = self.inputs.device
        rows, places = to_device(layout.columns[3:], device).long()
        chosen = to_device(which.astype(np.int64, copy=False), device).index_select(0, rows)
        prefixes = to_device(tokens[:, : int(lengths.max()) - 1], device)  # no prefix has the last token
        return self._run(prefixes, rows, places, chosen)

    def _run(self, tokens: Tensor, rows: Tensor, lengths: Tensor, which: Tensor) -> Tensor:
        """The features of tokens[rows, :lengths] on examples `which` [M, K] of all B · K, uint8 [M, K, 114]."""
        if tokens.shape[1] > LONGEST:
            raise KarelsynthError(
                f"prefixes of more than {LONGEST} tokens cannot be run on a GPU: give the model a "
                f"`max_length` of at most {LONGEST}, or run it on the CPU"
            )
        device, grammar = self.inputs.device, compile_grammar(KAREL)
        inputs, outputs = (part.reshape(-1, CELLS).contiguous() for part in (self.inputs, self.outputs))
        heroes = (inputs >= HERO).to(torch.uint8).argmax(1).to(torch.int16)
        out = torch.empty(which.numel(), FEATURES, dtype=torch.uint8, device=device)
        if len(out):
            tokens = tokens.contiguous() if tokens.shape[1] else tokens.new_zeros(len(tokens), 1)
            arrays = (tokens, rows, lengths, which.contiguous(), inputs, heroes, outputs, _transition(device))
            with launch_lock, torch.cuda.device(device):
                stream = on_stream(torch.cuda.current_stream(device).cuda_stream)
                blocks = -(-len(out) // _THREADS_PER_BLOCK)
                views = [cuda.as_cuda_array(array, sync=False) for array in (*arrays, out)]
                launch = features_of_prefixes[blocks, _THREADS_PER_BLOCK, stream]
                launch(*views[:-1], grammar.parser.symbols, grammar.parser.start, views[-1])
        return out.view(*which.shape, FEATURES)


@cuda.jit  # type: ignore[untyped-decorator]
def features_of_prefixes(
    tokens: Any,
    rows: Any,
    lengths: Any,
    which: Any,
    inputs: Any,
    heroes: Any,
    targets: Any,
    transition: Any,
    symbols: int,
    start: int,
    out: Any,
) -> None:
    """Write the features of prefixes on examples to out [M · K, 114], one thread per row.

    Args:
        tokens: uint8 [N, L].
        rows, lengths: int64 [M]: each prefix is tokens[row, :length].
        which: int64 [M, K], the examples that each prefix runs on.
        inputs, targets: uint8 [E, 324].
        heroes: int16 [E], the heroes' cells in the inputs.
        transition, symbols, start: of the compiled grammar.
    """
    index = cuda.grid(1)
    examples = which.shape[1]
    if index < out.shape[0]:
        number = index // examples
        example = which[number, index - number * examples]
        run_and_describe(
            tokens[rows[number], : lengths[number]],
            inputs[example : example + 1],
            heroes[example : example + 1],
            targets[example : example + 1],
            ParserTables(transition, symbols, start),
            cuda.local.array(_TEXT, np.uint8),
            cuda.local.array(_CLOSING, np.uint8),
            cuda.local.array(_CODE, np.int64),
            cuda.local.array(_CODE, np.int16),
            cuda.local.array(_STACK, np.int32),
            cuda.local.array((_STACK, 3), np.int32),
            cuda.local.array(_COUNTERS, np.int32),
            cuda.local.array((1, CELLS), np.uint8),
            out,
            index,
        )
