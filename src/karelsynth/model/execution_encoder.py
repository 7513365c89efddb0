"""The network's view of executed prefixes: features of each example's state, one-hot, through two layers.

`karelsynth.model.prefix_runner` computes the features; `prefix_features_kernel` defines them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from karelsynth.model.devices import cast
from karelsynth.model.prefix_features_kernel import FEATURES, VALUES, group_states

if TYPE_CHECKING:
    from collections.abc import Callable


class ExecutionEncoder(nn.Module):
    """Features [..., 114] to [..., execution_size]: a linear layer over one-hot rows, ReLU, a linear layer, ReLU."""

    values: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("values", torch.arange(VALUES, dtype=torch.uint8), persistent=False)
        self.first = nn.Linear(FEATURES * VALUES, size)
        # One input in 16 is set, so the fan-in is 114.
        nn.init.uniform_(self.first.weight, -(FEATURES**-0.5), FEATURES**-0.5)
        self.second = nn.Linear(size, size)

    def step_weights(self, gates: Tensor, dtype: torch.dtype) -> StepExecution:
        """The weights for single decoding steps; `gates` [execution_size, 4 · hidden_size] are the LSTM's rows."""
        on_cpu = gates.device.type == "cpu"
        table = cast(self.first.weight, torch.float32 if on_cpu else dtype).t().contiguous()
        return StepExecution(
            self.values,
            table,
            cast(self.first.bias, table.dtype),
            cast(self.second.weight, dtype).t().contiguous(),
            cast(self.second.bias, dtype),
            gates,
        )


def one_hot(features: Tensor, values: Tensor, dtype: torch.dtype) -> Tensor:
    """Features [..., 114] as one-hot rows [..., 114 · 16]."""
    return (features[..., None] == values).to(dtype).flatten(-2)


def distinct(task: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct states among those with tasks [N] and features [N, K, 114].

    Two states are equal if task, example and features are equal. Returns one representative of each of the M distinct
    states, n · K + k, int64 [M], and the index of each state among them, int64 [N, K].
    """
    index = np.empty(features.shape[:2], np.int64)
    representatives = np.empty(index.size, np.int64)
    count = group_states(task.contiguous().numpy(), features.contiguous().numpy(), representatives, index)
    return torch.from_numpy(representatives[:count]), torch.from_numpy(index)


class StepExecution(NamedTuple):
    """An ExecutionEncoder's weights for single decoding steps, up to the decoder's gates."""

    values: Tensor
    """uint8 [16]: 0, 1, …"""
    table: Tensor
    """[114 · 16, size]; float32 on a CPU, where rows are looked up and added."""
    table_bias: Tensor
    """[size]."""
    matrix: Tensor
    """[size, size]."""
    bias: Tensor
    """[size]."""
    gates: Tensor
    """[size, 4 · hidden_size]."""

    def added_to(self, gates: Tensor, features: Tensor) -> Tensor:
        """Add the contribution of features uint8 […, 114] to gates […, 4 · hidden_size], which it overwrites."""
        return gates.flatten(0, -2).addmm_(self._hidden(features, one_hot), self.gates).view_as(gates)

    def gates_of(self, features: Tensor, one_hot: Callable[[Tensor, Tensor, torch.dtype], Tensor]) -> Tensor:
        """The contribution of features uint8 […, 114], […, 4 · hidden_size]; `one_hot` may be compiled."""
        return (self._hidden(features, one_hot) @ self.gates).view(*features.shape[:-1], -1)

    def _hidden(self, features: Tensor, one_hot: Callable[[Tensor, Tensor, torch.dtype], Tensor]) -> Tensor:
        """[rows, size]. A GPU multiplies one-hot rows, because the gradient is then a product too."""
        codes = features.flatten(0, -2)
        if codes.is_cpu:
            rows = codes.int() + torch.arange(0, len(self.table), VALUES, dtype=torch.int32)
            hidden = functional.embedding_bag(rows, self.table, mode="sum").add_(self.table_bias).relu_()
        else:
            hidden = torch.addmm(self.table_bias, one_hot(codes, self.values, self.table.dtype), self.table).relu_()
        return torch.addmm(self.bias, hidden.to(self.matrix.dtype), self.matrix).relu_()
