"""Encoders: one code for each pair of grids, and for execution-guided decoding one for the states that a prefix led to.

A state is encoded from its features, one-hot, by two layers. `prefix_runner` computes the features;
`prefix_features_kernel` defines them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from karelsynth.karel.formats.codes import CODE_PLANES, HERO, PLANES, SIDE
from karelsynth.karel.world import HEADINGS
from karelsynth.model.devices import autocast_dtype, cast
from karelsynth.model.prefix_features_kernel import FEATURES, VALUES, group_states

if TYPE_CHECKING:
    from collections.abc import Callable

    from karelsynth.model.settings import ModelSettings


class GridEncoder(nn.Module):
    """Input and output grid each through its own convolution, joined, residual blocks, one linear layer.

    Planes are last in memory throughout (`channels_last`): fast convolutions need that, and looking up a cell's planes
    gives it. The linear layer therefore reads its 20,736 inputs (in the paper) position by position. A position is a
    cell, or with `patch` a square of cells, whose planes are concatenated.
    """

    planes: Tensor

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.register_buffer("planes", torch.from_numpy(CODE_PLANES.copy()), persistent=False)
        self.patch, planes, joined = settings.patch, PLANES * settings.patch**2, 2 * settings.channels
        self.input_grid = nn.Conv2d(planes, settings.channels, 3, padding=1)
        self.output_grid = nn.Conv2d(planes, settings.channels, 3, padding=1)
        self.blocks = nn.Sequential(*(ResidualBlock(joined) for _ in range(settings.blocks)))
        self.linear = nn.Linear(joined * (SIDE // settings.patch) ** 2, settings.code_size)
        self.norm = nn.LayerNorm(settings.code_size) if settings.normalise_code else nn.Identity()
        self.view = EgocentricView() if settings.egocentric else None
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Cell codes uint8 [N, 18, 18] of inputs and outputs to codes of pairs [N, code_size]."""
        cells = torch.stack([inputs, outputs], dim=-1).int()
        if self.view is not None:
            cells = self.view(cells)
        if self.patch > 1:
            places = SIDE // self.patch
            cells = cells.view(-1, places, self.patch, places, self.patch, 2).permute(0, 1, 3, 5, 2, 4).flatten(3)
        dtype = autocast_dtype(inputs.device, self.linear.weight.dtype)  # so that planes need no conversion
        planes = functional.embedding(cells, self.planes.to(dtype))
        grids = functional.relu(self._both_grids(planes.flatten(-2).permute(0, 3, 1, 2)))
        grids = self.blocks(grids)
        code: Tensor = self.norm(self.linear(grids.permute(0, 2, 3, 1).flatten(1)))
        return code

    def _both_grids(self, planes: Tensor) -> Tensor:
        """The two convolutions, of 32 planes to 64 in the paper, as one whose weights are half zeros.

        That costs few operations and saves concatenating the results.
        """
        first, second = self.input_grid.weight, self.output_grid.weight
        weight = torch.cat(
            [
                torch.cat([first, torch.zeros_like(first)], dim=1),
                torch.cat([torch.zeros_like(second), second], dim=1),
            ]
        )
        bias = torch.cat([_bias(self.input_grid), _bias(self.output_grid)])
        return functional.conv2d(planes, weight, bias, padding=1)


def _bias(convolution: nn.Conv2d) -> Tensor:
    assert convolution.bias is not None
    return convolution.bias


class EgocentricView(nn.Module):
    """Shifts and rotates pairs of grids so that the input's hero is in the same cell and faces north.

    Programs depend neither on position nor on north, so this only maps equivalent grids to the same one. Nothing is
    lost: cells that leave the 18 × 18 grid on one side return on the other, and the frame shows where the grid ends.
    """

    source: Tensor

    def __init__(self) -> None:
        super().__init__()
        # int64 [4 · 324, 324]: for each heading and cell of the hero, the cell that each cell is copied from.
        rows, cols = torch.arange(SIDE).view(-1, 1) - SIDE // 2, torch.arange(SIDE).view(1, -1) - SIDE // 2
        sources = []
        for up, over in ((rows, cols), (-cols, rows), (-rows, -cols), (cols, -rows)):  # north, east, south, west
            places = torch.arange(SIDE).view(-1, 1, 1)
            row = (places + up).remainder(SIDE)[:, None]  # [18, 1, 18, 18]
            col = (places + over).remainder(SIDE)[None]
            sources.append((row * SIDE + col).flatten(2).flatten(0, 1))
        self.register_buffer("source", torch.cat(sources), persistent=False)

    def forward(self, cells: Tensor) -> Tensor:
        """Cell codes int32 [N, 18, 18, 2] of inputs and outputs to the same."""
        flat = cells.flatten(1, 2)
        looking, place = (flat[:, :, 0] // HERO).max(1)  # 1 + the heading; the others are 0
        source = self.source.index_select(0, (looking - 1) * SIDE * SIDE + place)
        shifted = flat.gather(1, source[:, :, None].expand(-1, -1, 2))
        hero = shifted // HERO
        turned = (hero - looking[:, None, None]) % len(HEADINGS) + 1
        return (shifted % HERO + HERO * torch.where(hero > 0, turned, 0)).view_as(cells)


class ResidualBlock(nn.Module):
    """Convolution, ReLU, convolution, ReLU, convolution, plus the block's input, ReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(3))

    def forward(self, grids: Tensor) -> Tensor:
        """[N, channels, places, places] to the same."""
        hidden = functional.relu(self.first(grids))
        hidden = functional.relu(self.second(hidden))
        return functional.relu(self.third(hidden) + grids)


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
