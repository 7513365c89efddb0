"""The LSTM of the decoder and of the learned syntax: its weights, and one step of decoding.

`StepWeights` holds the weights for steps and for teacher forcing (`lstm_training`). A token's term of the first layer's
gates is looked up in a table, since there are only 52 tokens. The term of the inputs that are constant over time is
computed once by `StepWeights.constant`. What remains for each step are the products with the states.

`lstm_step` does one step for hypotheses whose next token was just chosen. Everything but its products is one compiled
loop, on CPUs and GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from karelsynth.model import triton_launch
from karelsynth.model.decoder import pooled
from karelsynth.model.devices import EightBits, cast, narrowed, padded

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COMPILED_FOR: Final = (torch.float32, torch.bfloat16, torch.uint8)
"""Precisions of h that `cell_kernel` is compiled for."""

LSTMState = tuple[Tensor, ...]
"""h and c of the first layer, h and c of the second, …; each [rows, …, hidden_size]."""


class LayerWeights(NamedTuple):
    """One layer's gates = h · states + (h of the layer below) · below + (its maximum) · mixed + bias.

    The gates lie in the order i, f, o, g: input, forget and output gate, and the candidate.
    """

    states: Tensor | EightBits
    """[hidden_size, 4 · hidden_size]."""
    below: Tensor | EightBits | None = None
    """[hidden_size, 4 · hidden_size]: of the layer below; None in the first layer."""
    bias: Tensor | None = None
    """[4 · hidden_size]; None in the first layer, whose bias is part of the tokens' gates."""
    mixed: Tensor | EightBits | None = None
    """[hidden_size, 4 · hidden_size]: the share of the maximum over examples of the layer below, with `mixing`."""

    def in_eight_bits(self) -> LayerWeights:
        """The same for states h in eight bits."""
        matrices = {"states": self.states, "below": self.below, "mixed": self.mixed}
        small = {name: EightBits.of(matrix) for name, matrix in matrices.items() if isinstance(matrix, Tensor)}
        return self._replace(**small, bias=None if self.bias is None else self.bias.float())


class StepWeights(NamedTuple):
    """An LSTM's weights in one precision, for steps and for teacher forcing."""

    token_gates: Tensor
    """[52, 4 · hidden_size]: each token's term of the first layer's gates, with the bias."""
    constant_matrix: Tensor
    """[constant inputs, 4 · hidden_size]."""
    changing_matrix: Tensor
    """[changing inputs, 4 · hidden_size]: of inputs other than tokens that each step brings."""
    layers: tuple[LayerWeights, ...]
    initial: LSTMState
    """Each [hidden_size]; h may be in eight bits."""

    def constant(self, inputs: Tensor) -> Tensor:
        """The term of constant inputs [..., constant inputs] in the gates, [..., 4 · hidden_size]."""
        return inputs.to(self.constant_matrix.dtype) @ self.constant_matrix

    def in_eight_bits(self) -> StepWeights:
        """The same for states whose h is in eight bits; itself if the first h is not between −1 and 1."""
        if not all(bool((h.abs() <= 1).all()) for h in self.initial[::2]):
            return self
        initial = tuple(part if number % 2 else narrowed(part) for number, part in enumerate(self.initial))
        return self._replace(layers=tuple(layer.in_eight_bits() for layer in self.layers), initial=initial)


class PrefixLSTM(nn.Module):
    """An LSTM of several layers with a learned initial state."""

    def __init__(self, input_size: int, hidden_size: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, layers)
        self.initial = nn.Parameter(torch.empty(2, layers, hidden_size).uniform_(-0.1, 0.1))

    def step_weights(self, embedding: Tensor, dtype: torch.dtype, changing: int = 0) -> StepWeights:
        """The weights in some precision, given the tokens' embeddings [52, embedding_size].

        An input is the token, then what is constant over time, then `changing` numbers that each step brings.
        """
        layers = [_gates(self.lstm, layer) for layer in range(self.lstm.num_layers)]
        return _step_weights(layers, self.initial, embedding, dtype, changing)


class MixingLSTM(nn.Module):
    """A `PrefixLSTM` whose layers above the first also see the maximum over the examples of the layer below.

    So the output for one example can depend on the others: for instance whether a condition separates the examples that
    need a branch from those that do not.
    """

    def __init__(self, input_size: int, hidden_size: int, layers: int) -> None:
        super().__init__()
        sizes = [input_size] + [2 * hidden_size] * (layers - 1)
        self.layers = nn.ModuleList(PrefixLSTM(size, hidden_size, 1) for size in sizes)

    def step_weights(self, embedding: Tensor, dtype: torch.dtype, changing: int = 0) -> StepWeights:
        """See `PrefixLSTM.step_weights`."""
        parts = [layer for layer in self.layers if isinstance(layer, PrefixLSTM)]
        initial = torch.cat([part.initial for part in parts], dim=1)
        return _step_weights([_gates(part.lstm, 0) for part in parts], initial, embedding, dtype, changing)


class _Gates(NamedTuple):
    """A layer's weights in float32, gates in the order i, f, o, g: the three with a sigmoid are adjacent."""

    inputs: Tensor
    """[4 · hidden_size, inputs]."""
    states: Tensor
    """[4 · hidden_size, hidden_size]."""
    bias: Tensor
    """[4 · hidden_size]."""


def _gates(lstm: nn.LSTM, layer: int) -> _Gates:
    def ordered(name: str) -> Tensor:
        weight: Tensor = getattr(lstm, f"{name}_l{layer}")
        i, f, g, o = cast(weight, torch.float32).chunk(4)  # PyTorch's order
        return torch.cat([i, f, o, g])

    return _Gates(ordered("weight_ih"), ordered("weight_hh"), ordered("bias_ih") + ordered("bias_hh"))


def _step_weights(
    gates: list[_Gates], initial: Tensor, embedding: Tensor, dtype: torch.dtype, changing: int
) -> StepWeights:
    """See `PrefixLSTM.step_weights`; `initial` is [2, layers, hidden_size]."""
    first, size = gates[0].inputs, initial.shape[2]
    of_tokens, of_constant, of_changing = first.tensor_split([embedding.shape[1], first.shape[1] - changing], dim=1)
    layers = [LayerWeights(gates[0].states.t().to(dtype).contiguous())]
    for layer in gates[1:]:
        matrices = (layer.states, *layer.inputs.tensor_split([size], dim=1))
        states, below, of_mixed = (part.t().to(dtype).contiguous() for part in matrices)
        layers.append(LayerWeights(states, below, layer.bias.to(dtype), of_mixed if len(of_mixed) else None))
    h, c = cast(initial, dtype)
    return StepWeights(
        token_gates=(cast(embedding, torch.float32) @ of_tokens.t() + gates[0].bias).to(dtype),
        constant_matrix=of_constant.t().to(dtype).contiguous(),
        changing_matrix=of_changing.t().to(dtype).contiguous(),
        layers=tuple(layers),
        initial=tuple(part for pair in zip(h, c, strict=True) for part in pair),
    )


def product(rows: Tensor, matrix: Tensor | EightBits, bias: Tensor | None = None) -> Tensor:
    """rows [..., n] · matrix [n, m] + bias [m]."""
    flat = rows.flatten(0, -2)
    given = padded(flat)
    if isinstance(matrix, EightBits):
        found = matrix.product(given, bias)
    else:
        found = given @ matrix if bias is None else torch.addmm(bias, given, matrix)
    return found[: len(flat)].view(*rows.shape[:-1], -1)


def lstm_step(
    weights: StepWeights,
    constant: Tensor,
    rows: Tensor | None,
    tokens: Tensor | None,
    state: LSTMState,
    parents: Tensor,
    new: LSTMState,
    present: Tensor | None = None,
) -> None:
    """One step of all layers for N hypotheses, without gradient; on a CPU on the calling thread.

    Args:
        constant: [B, K, 4 · hidden_size], the constant inputs' term of the first layer's gates, by task; or [M, …], or
            [N, K, …].
        rows: int64 [N], the task of each hypothesis; [N, K] into M; or None if each hypothesis has its own.
        tokens: int64 [N]; None if all have token 0.
        state: tensors [old rows, K, hidden_size]; h may be in eight bits on a CPU.
        parents: int64 [N], the old row that each hypothesis extends. Equal ones should be adjacent.
        new: contiguous tensors [N, K, hidden_size] to be filled with the new state.
        present: bool [N, K], which examples exist; None for all.
    """
    states, used = parents, None
    if constant.is_cpu:
        # Several hypotheses may extend one: its products with the states, most of the work, are done once.
        used, states = torch.unique_consecutive(parents, return_inverse=True)
    elif len(state[0]) > len(parents):  # on a GPU they are done for all old rows, if these are not more
        used, states = parents, torch.arange(len(parents), device=parents.device)
    of_tokens: Tensor = weights.token_gates
    for number, layer in enumerate(weights.layers):
        (h, c), after = state[2 * number : 2 * number + 2], new[2 * number : 2 * number + 2]
        if layer.below is not None and layer.bias is not None:
            below, rows = new[2 * number - 2], None
            constant = product(below, layer.below)
            of_tokens, tokens = layer.bias[None].to(constant.dtype), None
            if layer.mixed is not None:
                of_tokens = product(pooled(below, present), layer.mixed, layer.bias)
                tokens = torch.arange(len(parents), device=parents.device)
        of_states = product(h if used is None else h.index_select(0, used), layer.states)
        _cells(of_states, states, constant, rows, of_tokens, tokens, c, parents, *after)


def _cells(
    of_states: Tensor,
    states: Tensor,
    of_inputs: Tensor,
    inputs: Tensor | None,
    of_tokens: Tensor,
    tokens: Tensor | None,
    c: Tensor,
    parents: Tensor,
    new_h: Tensor,
    new_c: Tensor,
) -> None:
    """See `cell_kernel.cells`: by Triton on a GPU, by Numba on a CPU, and otherwise as tensor operations."""
    if new_h.is_cuda and triton_launch.available():
        c = c.contiguous()
        triton_launch.cells(of_states, states, of_inputs, inputs, of_tokens, tokens, c, parents, new_h, new_c)
        return
    if inputs is None or inputs.ndim == 1:
        first = torch.arange(len(parents), device=parents.device) if inputs is None else inputs
        inputs = first[:, None] * new_h.shape[1] + torch.arange(new_h.shape[1], device=parents.device)
    of_inputs = of_inputs.flatten(0, -2)
    tokens = torch.zeros_like(parents) if tokens is None else tokens
    if new_h.is_cpu and new_h.dtype in _COMPILED_FOR:
        from karelsynth.model.cell_kernel import cells

        given = (of_states, states, of_inputs, inputs, of_tokens, tokens, c, parents, new_h, new_c)
        cells(*(_array(tensor) for tensor in given))
        return
    gates = of_states[states].float() + of_inputs[inputs] + of_tokens[tokens][:, None]
    after, hidden = lstm_cell(gates, c[parents].float())
    new_c.copy_(after)
    new_h.copy_(hidden)


def lstm_cell(gates: Tensor, before: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """c, written to `out` if given, and h from gates float32 [..., 4 · H] and the c before, float32 [..., H].

    The activated gates replace `gates`.
    """
    size = before.shape[-1]
    i, f, o = gates[..., : 3 * size].sigmoid_().chunk(3, dim=-1)
    g = gates[..., 3 * size :].tanh_()
    c = torch.addcmul(i * g, f, before, out=out)
    return c, o * c.tanh()


def _array(tensor: Tensor) -> NDArray[Any]:
    """A tensor's memory in NumPy, which knows no bfloat16; a copy if it is not contiguous."""
    bits = tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor
    array: NDArray[Any] = bits.contiguous().numpy()
    return array


def initial_state(weights: StepWeights, *shape: int) -> LSTMState:
    """The learned initial state for every row, each [*shape, hidden_size]."""
    return tuple(part.expand(*shape, -1) for part in weights.initial)
