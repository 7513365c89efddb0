"""A transformer decoder in one file, which shows what another network needs.

Every example has its own sequence: at each position the token, the example's code and, with `execution`, the encoded
execution features are projected to `hidden_size` and added up with a sinusoidal position. `layers` pre-norm blocks of
causal self-attention over the prefix and a feed-forward network follow. With `mixing`, a block above the first also
adds the maximum over the examples of the block below. As in the LSTM decoder, the output layers see the maximum over
the examples. Attention heads are 64 wide.

A step appends one key and one value per layer to the cache of each hypothesis, and `parents` reorders the caches.
Teacher forcing evaluates everything but attention once at every node of the prefix trie, also where programs share
prefixes; attention runs over whole programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from karelsynth.karel.tokens import VOCABULARY_SIZE
from karelsynth.model.decoder import Decoder, Output, StepDecoder, StepTasks, output_layers, pooled
from karelsynth.model.devices import cast, to_device
from karelsynth.model.encoder import one_hot

if TYPE_CHECKING:
    from karelsynth.model.encoder import ExecutionEncoder, StepExecution
    from karelsynth.model.prefix_trie import PrefixTrie
    from karelsynth.model.settings import ModelSettings

_HEAD: Final = 64
"""The width of an attention head."""
_LONGEST_WAVE: Final = 1000.0
"""Of the sinusoidal positions, in tokens over 2π."""

Cache = tuple[Tensor, ...]
"""Of each layer the keys and values of the prefix, [rows, K, T, 2 · hidden_size]."""
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""A layer's number, queries, keys and values [rows, K, hidden_size] to what attention returns, of the same shape."""


class TransformerBlock(nn.Module):
    """Self-attention and a feed-forward network, each after a LayerNorm and with a residual connection."""

    def __init__(self, size: int, *, mixing: bool) -> None:
        super().__init__()
        self.attention_norm, self.network_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.projections, self.merged = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mixed = nn.Linear(size, size) if mixing else None
        self.widened, self.narrowed = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)


class TransformerDecoder(Decoder):
    """See the module's docstring."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        size = settings.hidden_size
        self.token, self.code = nn.Linear(settings.embedding_size, size), nn.Linear(settings.code_size, size)
        self.features = nn.Linear(settings.execution_size, size, bias=False) if settings.execution else None
        self.blocks = nn.ModuleList(
            TransformerBlock(size, mixing=settings.mixing and number > 0) for number in range(settings.layers)
        )
        self.norm = nn.LayerNorm(size)
        self.output = output_layers(settings)

    def prepare(self, embedding: Tensor, execution: ExecutionEncoder | None, dtype: torch.dtype) -> TransformerSteps:
        """See `Decoder.prepare`."""
        encoder = None
        if execution is not None and self.features is not None:
            encoder = execution.step_weights(cast(self.features.weight, dtype).t().contiguous(), dtype)
        return TransformerSteps(
            functional.linear(cast(embedding, torch.float32), *_affine(self.token, torch.float32)).to(dtype),
            _affine(self.code, dtype),
            tuple(BlockWeights.of(block, dtype) for block in self.blocks if isinstance(block, TransformerBlock)),
            _affine(self.norm, dtype),
            Output.of(self.output, dtype),
            encoder,
        )


Affine = tuple[Tensor, Tensor]
"""The weight and the bias of a linear layer or a LayerNorm."""


def _affine(layer: nn.Linear | nn.LayerNorm, dtype: torch.dtype) -> Affine:
    return cast(layer.weight, dtype), cast(layer.bias, dtype)


class BlockWeights(NamedTuple):
    """A block's weights in one precision."""

    attention_norm: Affine
    projections: Affine
    merged: Affine
    mixed: Affine | None
    network_norm: Affine
    widened: Affine
    narrowed: Affine

    @staticmethod
    def of(block: TransformerBlock, dtype: torch.dtype) -> BlockWeights:
        """Those of a block."""
        return BlockWeights(
            _affine(block.attention_norm, dtype),
            _affine(block.projections, dtype),
            _affine(block.merged, dtype),
            None if block.mixed is None else _affine(block.mixed, dtype),
            _affine(block.network_norm, dtype),
            _affine(block.widened, dtype),
            _affine(block.narrowed, dtype),
        )

    def run(self, number: int, hidden: Tensor, present: Tensor | None, attend: Attend) -> Tensor:
        """Layer `number`: [rows, K, hidden_size] to the same."""
        if self.mixed is not None:
            hidden = hidden + functional.linear(pooled(hidden, present), *self.mixed)[:, None]
        projected = functional.linear(_norm(hidden, self.attention_norm), *self.projections)
        hidden = hidden + functional.linear(attend(number, *projected.chunk(3, dim=-1)), *self.merged)
        inner = functional.gelu(functional.linear(_norm(hidden, self.network_norm), *self.widened))
        return hidden + functional.linear(inner, *self.narrowed)


@dataclass(frozen=True)
class TransformerSteps(StepDecoder):
    """A transformer's weights in one precision. A task's `inputs` are its examples' projected codes, in float32."""

    token_table: Tensor
    """[52, hidden_size]: the projected tokens."""
    code: Affine
    blocks: tuple[BlockWeights, ...]
    norm: Affine
    output: Output
    execution: StepExecution | None

    def tasks(self, codes: Tensor, present: Tensor | None) -> StepTasks:
        """See `StepDecoder.tasks`."""
        return StepTasks(functional.linear(codes.to(self.token_table.dtype), *self.code).float(), present)

    def start(self, tasks: StepTasks) -> Cache:
        """Empty caches."""
        count, examples, size = tasks.inputs.shape
        return (self.token_table.new_empty(count, examples, 0, 2 * size),) * len(self.blocks)

    def step(
        self,
        tasks: StepTasks,
        state: Cache,
        parents: Tensor,
        task: Tensor,
        tokens: Tensor,
        features: Tensor | None = None,
    ) -> tuple[Tensor, Cache]:
        """See `StepDecoder.step`. All hypotheses have taken equally many steps."""
        caches: list[Tensor] = []

        def attend(number: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            before = state[number].index_select(0, parents)
            caches.append(torch.cat([before, torch.cat([keys, values], dim=-1)[:, :, None]], dim=2))
            found = _attention(queries[:, :, None], *caches[-1].chunk(2, dim=-1), causal=False)
            return found[:, :, 0]

        depth = tokens.new_full((1,), state[0].shape[2])
        return self._logits(tasks, task, tokens, depth, features, attend), tuple(caches)

    def teacher_forced(self, tasks: StepTasks, trie: PrefixTrie) -> Tensor:
        """See `StepDecoder.teacher_forced`."""
        device, steps, nodes = trie.tokens.device, len(trie.sizes), len(trie.tokens)
        depths = to_device(np.repeat(np.arange(steps), trie.sizes), device)
        # A grid of programs by steps. Padding comes last, where causal attention never looks.
        at = torch.arange(nodes, device=device) if trie.shared is None else trie.shared.nodes
        places = trie.programs * steps + depths.index_select(0, at)
        """[M]: where in the grid each target's prefix is."""
        owner = torch.full_like(trie.tokens, nodes).scatter_reduce(0, at, trie.programs, "amin")
        """[P]: the first of the programs with a prefix. Its attention is the prefix'."""

        def attend(number: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            joined = torch.cat([queries, keys, values], dim=-1)
            if trie.shared is not None:  # the gradients of a shared prefix add up in float32
                joined = joined.float().index_select(0, at).to(joined.dtype)
            blank = joined.new_zeros(trie.count * steps, *joined.shape[1:])
            grid = blank.index_copy(0, places, joined).view(trie.count, steps, *joined.shape[1:]).transpose(1, 2)
            found = _attention(*grid.chunk(3, dim=-1), causal=True)
            return found.transpose(1, 2).flatten(0, 1).index_select(0, owner * steps + depths)

        return self._logits(tasks, trie.tasks, trie.tokens, depths, trie.features, attend)

    def _logits(
        self,
        tasks: StepTasks,
        task: Tensor,
        tokens: Tensor,
        depths: Tensor,
        features: Tensor | None,
        attend: Attend,
    ) -> Tensor:
        """float32 [rows, 52], for prefixes of tasks [rows] whose last tokens [rows] are at depths [rows] or [1]."""
        # A product with one-hot rows: its gradient is a product too, while that of a look-up is slow.
        token = functional.one_hot(tokens, VOCABULARY_SIZE).to(self.token_table.dtype) @ self.token_table
        hidden = tasks.inputs.index_select(0, task) + (token + _positions(depths, token))[:, None]
        hidden = hidden.to(token.dtype)
        if self.execution is not None and features is not None:
            hidden = hidden + self.execution.gates_of(features, one_hot)
        present = tasks.present_of(task)
        for number, block in enumerate(self.blocks):
            hidden = block.run(number, hidden, present, attend)
        return self.output.scores(pooled(_norm(hidden, self.norm), present))


def _norm(hidden: Tensor, weights: Affine) -> Tensor:
    return functional.layer_norm(hidden, hidden.shape[-1:], *weights)


def _positions(depths: Tensor, like: Tensor) -> Tensor:
    """Sinusoidal positions [rows, hidden_size] of depths [rows]."""
    count = -(-like.shape[1] // 2)
    rates = torch.exp(torch.arange(count, device=like.device) * (-math.log(_LONGEST_WAVE) / count))
    angles = depths[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, : like.shape[1]].to(like.dtype)


def _attention(queries: Tensor, keys: Tensor, values: Tensor, *, causal: bool) -> Tensor:
    """Attention within every row and example; examples are treated like heads.

    Queries are [rows, K, T, hidden_size], keys and values the same with as many or more positions than T.
    """
    size = queries.shape[-1]
    heads = size // _HEAD if size % _HEAD == 0 else 1

    def split(part: Tensor) -> Tensor:
        """[rows, K · heads, T, width]."""
        rows, examples, steps, _ = part.shape
        return part.reshape(rows, examples, steps, heads, -1).transpose(2, 3).flatten(1, 2)

    found = functional.scaled_dot_product_attention(split(queries), split(keys), split(values), is_causal=causal)
    rows, examples, steps, _ = queries.shape
    joined: Tensor = found.view(rows, examples, heads, steps, -1).transpose(2, 3).reshape(rows, examples, steps, size)
    return joined
