"""Runs prefixes of programs on the examples of tasks and describes where each example is led, for the decoder.

    runner = prefix_runner(inputs, outputs)            # uint8 [B, K, 18, 18] cell codes
    runner.features(prefixes, lengths, tasks)          # uint8 [N, K, 114], for decoding
    runner.features_along(…)                           # uint8 [P, K, 114], before every packed token

A prefix is run as far as it is determined (`run_batch` with `prefixes`), always from its first token. That takes a few
percent of the network's time. `prefix_features_kernel` defines the features. Examples on a GPU are run there
(`prefix_runner_cuda`) if Numba can use it.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from karelsynth.karel.grammar import KAREL
from karelsynth.karel.machine import heroes_of, no_world
from karelsynth.karel.machine_kernel import CELLS
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.karel.threads import parallel_for
from karelsynth.model.prefix_features_kernel import FEATURES, features_along_range, features_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.model.prefix_trie_kernel import PackedLayout

log = logging.getLogger("karelsynth.model")
_probe_lock = threading.Lock()


class PrefixRunner(Protocol):
    """The examples of B tasks, K each, on the host or on a GPU."""

    @property
    def shape(self) -> tuple[int, int]:
        """B and K."""

    def select(self, rows: Tensor) -> Self:
        """A runner for the tasks `rows`, int64 [B']."""

    def features(self, tokens: Tensor, lengths: Tensor, tasks: Tensor) -> Tensor:
        """The features of prefixes uint8 [N, L] with lengths int64 [N] of tasks int64 [N]: uint8 [N, K, 114]."""

    def features_along(
        self,
        tokens: NDArray[np.uint8],
        lengths: NDArray[np.int64],
        layout: PackedLayout,
        which: NDArray[np.integer],
        threads: int | None = None,
    ) -> Tensor:
        """The features before every packed token of N programs, uint8 [P, K', 114].

        Args:
            tokens: [N, L], in the order of the layout.
            lengths: [N].
            layout: where each token is packed.
            which: [N, K'], the examples that each program runs on, as indices into all B · K.
            threads: how many threads run them on the host; by default one per core.
        """


@dataclass(frozen=True)
class HostPrefixRunner:
    """Runs prefixes on the host."""

    inputs: NDArray[np.uint8]
    """[B, K, 18, 18]."""
    outputs: NDArray[np.uint8]

    @property
    def shape(self) -> tuple[int, int]:
        """B and K."""
        return self.inputs.shape[0], self.inputs.shape[1]

    def select(self, rows: Tensor) -> HostPrefixRunner:
        """A runner for the tasks `rows`, int64 [B']."""
        return HostPrefixRunner(self.inputs[rows.numpy()], self.outputs[rows.numpy()])

    @cached_property
    def _heroes(self) -> NDArray[np.int16]:
        """[B, K]: the heroes' cells in the inputs. Cached, because decoding needs them at every step."""
        heroes_of("outputs", self.outputs)  # the kernels do not check them
        return heroes_of("inputs", self.inputs)

    def features(self, tokens: Tensor, lengths: Tensor, tasks: Tensor) -> Tensor:
        """See `PrefixRunner.features`."""
        found = self._features(*(np.ascontiguousarray(part.cpu()) for part in (tokens, lengths, tasks)))
        return torch.from_numpy(found).to(tokens.device, non_blocking=True)

    def _features(
        self, tokens: NDArray[np.uint8], lengths: NDArray[np.int64], tasks: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        count, examples = len(tokens), self.inputs.shape[1]
        heroes = self._heroes
        out = np.empty((count, examples, FEATURES), np.uint8)
        befores, targets = (
            np.ascontiguousarray(part).reshape(-1, examples, CELLS) for part in (self.inputs, self.outputs)
        )
        parallel_for(
            features_range, count, examples, None,
            tokens, lengths, tasks, befores, heroes, targets, compile_grammar(KAREL).parser, out.reshape(-1, FEATURES),
        )  # fmt: skip
        return out

    def features_along(
        self,
        tokens: NDArray[np.uint8],
        lengths: NDArray[np.int64],
        layout: PackedLayout,
        which: NDArray[np.integer],
        threads: int | None = None,
    ) -> Tensor:
        """See `PrefixRunner.features_along`."""
        out = np.empty((layout.columns.shape[1], which.shape[1], FEATURES), np.uint8)
        befores, targets = (np.ascontiguousarray(part).reshape(-1, CELLS) for part in (self.inputs, self.outputs))
        rows = np.ascontiguousarray(which, np.int64)
        for bad in parallel_for(
            features_along_range, len(tokens), which.shape[1] * int(lengths.max(initial=1)), threads,
            tokens, lengths, layout.rows, rows, befores, targets, compile_grammar(KAREL).parser,
            out.reshape(-1, FEATURES),
        ):  # fmt: skip
            if bad >= 0:
                raise no_world("inputs", self.inputs, bad)
        return torch.from_numpy(out)


def prefix_runner(inputs: Tensor, outputs: Tensor) -> PrefixRunner:
    """A runner for examples uint8 [B, K, 18, 18]: on the GPU if they are there and Numba can use it, else on the host.

    The caller must know that examples on a GPU are worlds; on the host they are checked.
    """
    if inputs.is_cuda and cuda_available():
        from karelsynth.model.prefix_runner_cuda import CudaPrefixRunner

        return CudaPrefixRunner(inputs, outputs)
    return HostPrefixRunner(inputs.cpu().numpy(), outputs.cpu().numpy())


def cuda_available() -> bool:
    """Whether Numba can use the GPU. If not, the log says why, once; call it only on machines with a GPU."""
    with _probe_lock:  # several threads make batches
        return probe_cuda()


@cache
def probe_cuda() -> bool:
    """`cuda_available` for one thread at a time."""
    try:
        from karelsynth.karel.cuda import why_not

        reason = why_not()
        if reason is None:
            return True
    except Exception as error:  # half-installed packages raise anything
        reason = f"{type(error).__name__}: {error}"
    log.warning(
        "Numba cannot use the GPU, so programs run on the host and the GPU waits for them; "
        "`pip install --editable .[cuda]`, in a clone, installs what is missing. Numba says: %s",
        " ".join(reason.split()),
    )
    return False
