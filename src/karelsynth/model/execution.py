"""What execution shows the decoder: before every token, where the program so far has led each example.

    shown = show(inputs, outputs)                      # uint8 [B, K, 18, 18] cell codes
    shown.features(prefixes, lengths, tasks)           # uint8 [N, K, 114], for decoding
    shown.features_along(…)                            # uint8 [P, K, 114], before every token that is packed

Prefixes are run as far as they are determined (`run_batch` with `prefixes`), always from their beginning: that takes a
few hundredths of the network's time. What the codes mean is told in `execution_kernel`; examples on a GPU are run
there (`execution_gpu`). `ExecutionEncoder` is the network's part: one-hot rows, two layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from karelsynth.karel.grammar import KAREL
from karelsynth.karel.machine import heroes_of, no_world
from karelsynth.karel.machine_kernel import CELLS
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.karel.threads import parallel_for
from karelsynth.model.distinct_kernel import find_kinds
from karelsynth.model.execution_gpu import ShownOnGPU, available
from karelsynth.model.execution_kernel import FEATURES, VALUES, features_along_range, features_range
from karelsynth.model.recurrent import taken

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from karelsynth.model.packing_kernel import Layout


@dataclass(frozen=True)
class Shown:
    """The examples of B tasks, K each, as cell codes on the host."""

    inputs: NDArray[np.uint8]
    """[B, K, 18, 18]."""
    outputs: NDArray[np.uint8]

    def select(self, rows: Tensor) -> Shown:
        """Those of some of the tasks."""
        return Shown(self.inputs[rows.numpy()], self.outputs[rows.numpy()])

    @cached_property
    def _heroes(self) -> NDArray[np.int16]:
        """[B, K]: where they stand in the inputs. Once, though decoding asks at every step."""
        heroes_of("outputs", self.outputs)  # kernels go by them unchecked
        return heroes_of("inputs", self.inputs)

    def features(self, tokens: Tensor, lengths: Tensor, tasks: Tensor) -> Tensor:
        """The codes of prefixes uint8 [N, L], so long int64 [N], of tasks int64 [N]: uint8 [N, K, 114]."""
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
        grammar, flat = compile_grammar(KAREL), out.reshape(-1, FEATURES)

        def work(first: int, last: int) -> None:
            features_range(
                first, last, tokens, lengths, tasks, befores, heroes, targets, grammar.tables.transition,
                grammar.symbols, grammar.start, flat,
            )  # fmt: skip

        parallel_for(work, count, examples, None)
        return out

    def features_along(
        self,
        tokens: NDArray[np.uint8],
        lengths: NDArray[np.int64],
        layout: Layout,
        which: NDArray[np.integer],
        threads: int | None = None,
    ) -> Tensor:
        """The codes before every packed token of N programs, uint8 [P, K', 114].

        Args:
            tokens: [N, L], in the order of the layout.
            lengths: [N].
            layout: where they go.
            which: [N, K'], the examples that each program is shown, as numbers among all B · K.
            threads: how many threads; by default one for each core.
        """
        out = np.empty((layout.columns.shape[1], which.shape[1], FEATURES), np.uint8)
        befores, targets = (np.ascontiguousarray(part).reshape(-1, CELLS) for part in (self.inputs, self.outputs))
        grammar, flat, rows = compile_grammar(KAREL), out.reshape(-1, FEATURES), np.ascontiguousarray(which, np.int64)

        def work(first: int, last: int) -> int:
            found: int = features_along_range(
                first, last, tokens, lengths, layout.rows, rows, befores, targets, grammar.tables.transition,
                grammar.symbols, grammar.start, flat,
            )  # fmt: skip
            return found

        for bad in parallel_for(work, len(tokens), which.shape[1] * int(lengths.max(initial=1)), threads):
            if bad >= 0:
                raise no_world("inputs", self.inputs, bad)
        return torch.from_numpy(out)


def show(inputs: Tensor, outputs: Tensor) -> Shown | ShownOnGPU:
    """Examples uint8 [B, K, 18, 18], to be run where they are if that is possible, or else on the host."""
    if inputs.is_cuda and available():
        return ShownOnGPU(inputs, outputs)
    return Shown(inputs.cpu().numpy(), outputs.cpu().numpy())


class ExecutionEncoder(nn.Module):
    """Codes [..., 114] to [..., execution_size]: a linear layer over one-hot rows, ReLU, a linear layer, ReLU."""

    values: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("values", torch.arange(VALUES, dtype=torch.uint8), persistent=False)
        self.first = nn.Linear(FEATURES * VALUES, size)
        # Of each 16 inputs one is set: as if there were 114.
        nn.init.uniform_(self.first.weight, -(FEATURES**-0.5), FEATURES**-0.5)
        self.second = nn.Linear(size, size)

    def step_weights(self, gates: Tensor, dtype: torch.dtype) -> StepExecution:
        """The weights as steps want them; `gates` [execution_size, 4 · hidden_size] is the LSTM's share."""
        on_cpu = gates.device.type == "cpu"
        table = taken(self.first.weight, torch.float32 if on_cpu else dtype).t().contiguous()
        return StepExecution(
            self.values,
            table,
            taken(self.first.bias, table.dtype),
            taken(self.second.weight, dtype).t().contiguous(),
            taken(self.second.bias, dtype),
            gates,
        )


def one_hot(features: Tensor, values: Tensor, dtype: torch.dtype) -> Tensor:
    """[..., 114 · 16] of codes [..., 114]."""
    return (features[..., None] == values).to(dtype).flatten(-2)


def distinct(task: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    """Of states with tasks [N] and codes [N, K, 114] one of each kind, int64 [M], and the kind of each, [N, K].

    Two are of one kind if task, example and codes are the same; those that are told are n · K + k.
    """
    kinds = np.empty(features.shape[:2], np.int64)
    some = np.empty(kinds.size, np.int64)
    count = find_kinds(task.contiguous().numpy(), features.contiguous().numpy(), some, kinds)
    return torch.from_numpy(some[:count]), torch.from_numpy(kinds)


class StepExecution(NamedTuple):
    """What an ExecutionEncoder adds to the decoder's gates, for steps."""

    values: Tensor
    """uint8 [16]: 0, 1, …"""
    table: Tensor
    """[114 · 16, size]; on a CPU in float32, since there rows are looked up and added."""
    table_bias: Tensor
    """[size]."""
    matrix: Tensor
    """[size, size]."""
    bias: Tensor
    """[size]."""
    gates: Tensor
    """[size, 4 · hidden_size]."""

    def added_to(self, gates: Tensor, features: Tensor) -> Tensor:
        """Gates […, 4 · hidden_size], which are overwritten, plus what codes uint8 […, 114] bring."""
        return gates.flatten(0, -2).addmm_(self._hidden(features, one_hot), self.gates).view_as(gates)

    def gates_of(self, features: Tensor, one_hot: Callable[[Tensor, Tensor, torch.dtype], Tensor]) -> Tensor:
        """What codes uint8 […, 114] bring, […, 4 · hidden_size]; `one_hot` may be compiled."""
        return (self._hidden(features, one_hot) @ self.gates).view(*features.shape[:-1], -1)

    def _hidden(self, features: Tensor, one_hot: Callable[[Tensor, Tensor, torch.dtype], Tensor]) -> Tensor:
        """[rows, size]. On a GPU by a product with one-hot rows, since its gradient is a product too."""
        codes = features.flatten(0, -2)
        if codes.is_cpu:
            rows = codes.int() + torch.arange(0, len(self.table), VALUES, dtype=torch.int32)
            hidden = functional.embedding_bag(rows, self.table, mode="sum").add_(self.table_bias).relu_()
        else:
            hidden = torch.addmm(self.table_bias, one_hot(codes, self.values, self.table.dtype), self.table).relu_()
        return torch.addmm(self.bias, hidden.to(self.matrix.dtype), self.matrix).relu_()
