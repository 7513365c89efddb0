"""The encoder: one code for each pair of grids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from karelsynth.karel.formats.codes import CODE_PLANES, PLANES, SIDE
from karelsynth.model.recurrent import autocast_dtype

if TYPE_CHECKING:
    from karelsynth.model.settings import ModelSettings


class GridEncoder(nn.Module):
    """Input and output grid each through its own convolution, joined, residual blocks, one linear layer.

    Planes are last in memory throughout (`channels_last`), which is what fast convolutions want and what looking up
    a cell's planes gives. The linear layer therefore reads its 20,736 numbers cell by cell.
    """

    planes: Tensor

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.register_buffer("planes", torch.from_numpy(CODE_PLANES.copy()), persistent=False)
        self.input_grid = nn.Conv2d(PLANES, settings.channels, 3, padding=1)
        self.output_grid = nn.Conv2d(PLANES, settings.channels, 3, padding=1)
        joined = 2 * settings.channels
        self.blocks = nn.Sequential(*(ResidualBlock(joined) for _ in range(settings.blocks)))
        self.linear = nn.Linear(joined * SIDE * SIDE, settings.code_size)
        self.norm = nn.LayerNorm(settings.code_size) if settings.normalise_code else nn.Identity()
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Cell codes uint8 [N, 18, 18] of inputs and outputs to codes of pairs [N, code_size]."""
        cells = torch.stack([inputs, outputs], dim=-1).int()
        dtype = autocast_dtype(inputs.device, self.linear.weight.dtype)  # made so, planes need no conversion
        planes = functional.embedding(cells, self.planes.to(dtype))
        grids = functional.relu(self._both_grids(planes.flatten(-2).permute(0, 3, 1, 2)))
        code: Tensor = self.norm(self.linear(self.blocks(grids).permute(0, 2, 3, 1).flatten(1)))
        return code

    def _both_grids(self, planes: Tensor) -> Tensor:
        """The two convolutions [N, 32, 18, 18] → [N, 64, 18, 18] as one: half of its weights are zeros.

        That costs few operations, and saves joining the results.
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


class ResidualBlock(nn.Module):
    """Convolution, ReLU, convolution, ReLU, convolution, plus the block's input, ReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(3))

    def forward(self, grids: Tensor) -> Tensor:
        """[N, channels, 18, 18] to the same."""
        hidden = functional.relu(self.first(grids))
        hidden = functional.relu(self.second(hidden))
        return functional.relu(self.third(hidden) + grids)
