"""The codes of `execution_kernel`, found on a GPU: a thread for each prefix and example.

Every thread calls the same functions as the host does; Numba compiles them for the GPU too (`numba-cuda`, which comes
with `pip install --editable ".[cuda]"`). A thread's scratch space is its own. `available` says whether that works here;
if not, the log says why, and the host finds the codes for the GPU, which then waits for them.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import Tensor

from karelsynth.errors import KarelsynthError
from karelsynth.karel.formats.codes import HERO
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.machine_kernel import CELLS
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.model.execution_kernel import FEATURES
from karelsynth.model.transfer import moved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.model.packing_kernel import Layout

LONGEST: Final = 80
"""Tokens of the longest prefix that a thread of the kernel has room for."""
_THREADS: Final = 64
"""In a block."""
_one_at_a_time = threading.Lock()
"""Batches are made by several threads; to ask what is available and to launch is theirs one at a time."""
log = logging.getLogger("karelsynth.model")


def available() -> bool:
    """Whether Numba can use the GPU here. If not, the log says why, once: so ask only where there is a GPU to use."""
    with _one_at_a_time:
        return _available()


@cache
def _available() -> bool:
    try:
        from karelsynth.model.execution_gpu_kernel import cuda

        if cuda.is_available():
            return True
        reason = cuda.cuda_error() or "it lacks a part of CUDA"
    except Exception as error:  # whatever a half-installed driver or package comes up with
        reason = f"{type(error).__name__}: {error}"
    log.warning(
        "Numba cannot use the GPU, so programs are run on the host, for which the GPU has to wait; "
        "`pip install --editable .[cuda]`, in a clone, brings what it needs. It says: %s",
        " ".join(str(reason).split()),
    )
    return False


@cache
def _transition(device: torch.device) -> Tensor:
    return torch.from_numpy(compile_grammar(KAREL).tables.transition.copy()).to(device)


@dataclass(frozen=True)
class ShownOnGPU:
    """`Shown` for examples on a GPU: the same, in tensors there. That they are worlds is for the caller to know."""

    inputs: Tensor
    """uint8 [B, K, 18, 18]."""
    outputs: Tensor

    def features(self, tokens: Tensor, lengths: Tensor, tasks: Tensor) -> Tensor:
        """The codes of prefixes uint8 [N, L], so long int64 [N], of tasks int64 [N]: uint8 [N, K, 114]."""
        examples = self.inputs.shape[1]
        rows, number = (torch.arange(size, device=tokens.device) for size in (len(tokens), examples))
        return self._run(tokens, rows, lengths.contiguous(), tasks[:, None] * examples + number)

    def features_along(
        self,
        tokens: NDArray[np.uint8],
        lengths: NDArray[np.int64],
        layout: Layout,
        which: NDArray[np.integer],
        threads: int | None = None,
    ) -> Tensor:
        """The codes before every packed token of N programs, uint8 [P, K', 114]: see `Shown.features_along`."""
        device = self.inputs.device
        rows, places = moved(layout.columns[3:], device).long()
        chosen = moved(which.astype(np.int64, copy=False), device).index_select(0, rows)
        prefixes = moved(tokens[:, : int(lengths.max()) - 1], device)  # no prefix has the last token
        return self._run(prefixes, rows, places, chosen)

    def _run(self, tokens: Tensor, rows: Tensor, lengths: Tensor, which: Tensor) -> Tensor:
        """The codes of tokens[rows, :lengths] on the examples which [M, K] of all B · K, uint8 [M, K, 114]."""
        if tokens.shape[1] > LONGEST:
            raise KarelsynthError(
                f"prefixes of more than {LONGEST} tokens cannot be run on a GPU: give the model a "
                f"`max_length` of at most {LONGEST}, or run it on the CPU"
            )
        from karelsynth.model.execution_gpu_kernel import cuda, features_of_prefixes

        device, grammar = self.inputs.device, compile_grammar(KAREL)
        inputs, outputs = (part.reshape(-1, CELLS).contiguous() for part in (self.inputs, self.outputs))
        heroes = (inputs >= HERO).to(torch.uint8).argmax(1).to(torch.int16)
        out = torch.empty(which.numel(), FEATURES, dtype=torch.uint8, device=device)
        if len(out):
            tokens = tokens.contiguous() if tokens.shape[1] else tokens.new_zeros(len(tokens), 1)
            arrays = (tokens, rows, lengths, which.contiguous(), inputs, heroes, outputs, _transition(device))
            with _one_at_a_time, torch.cuda.device(device):
                number = torch.cuda.current_stream(device).cuda_stream
                stream = cuda.external_stream(number) if number else 0
                blocks = -(-len(out) // _THREADS)
                views = [cuda.as_cuda_array(array, sync=False) for array in (*arrays, out)]
                features_of_prefixes[blocks, _THREADS, stream](*views[:-1], grammar.symbols, grammar.start, views[-1])
        return out.view(*which.shape, FEATURES)
