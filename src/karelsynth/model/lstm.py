"""The LSTM decoder, the paper's, and the learned syntax, an LSTM without examples.

`StepWeights` holds an LSTM's weights for steps and for teacher forcing (`lstm_training`). A token's term of the first
layer's gates is looked up in a table, since there are only 52 tokens. The term of the inputs that are constant over
time is computed once by `StepWeights.constant`. What remains for each step are the products with the states.

`lstm_step` does one step for hypotheses whose next token was just chosen. Everything but its products is one compiled
loop, on CPUs and GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from karelsynth.karel.tokens import VOCABULARY_SIZE
from karelsynth.model import triton_launch
from karelsynth.model.decoder import Decoder, Output, StepDecoder, StepTasks, output_layers, pooled, token_scores
from karelsynth.model.devices import EightBits, cast, narrowed, padded, product, single_threaded, threads_of_steps
from karelsynth.model.encoder import StepExecution, distinct
from karelsynth.model.lstm_training import Gates, Parts, lstm_cell, run_layers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.model.encoder import ExecutionEncoder
    from karelsynth.model.prefix_trie import PrefixTrie
    from karelsynth.model.settings import ModelSettings

_PIECE: Final = 320
"""States (hypotheses times examples) that a CPU core works on at a time."""
_SMALLEST_PIECE: Final = 32
"""Fewer states than these are not worth handing to another thread."""
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
        layers = [_matrices(self.lstm, layer) for layer in range(self.lstm.num_layers)]
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
        return _step_weights([_matrices(part.lstm, 0) for part in parts], initial, embedding, dtype, changing)


class _LayerMatrices(NamedTuple):
    """A layer's weights in float32, gates in the order i, f, o, g: the three with a sigmoid are adjacent."""

    inputs: Tensor
    """[4 · hidden_size, inputs]."""
    states: Tensor
    """[4 · hidden_size, hidden_size]."""
    bias: Tensor
    """[4 · hidden_size]."""


def _matrices(lstm: nn.LSTM, layer: int) -> _LayerMatrices:
    def ordered(name: str) -> Tensor:
        weight: Tensor = getattr(lstm, f"{name}_l{layer}")
        i, f, g, o = cast(weight, torch.float32).chunk(4)  # PyTorch's order
        return torch.cat([i, f, o, g])

    return _LayerMatrices(ordered("weight_ih"), ordered("weight_hh"), ordered("bias_ih") + ordered("bias_hh"))


def _step_weights(
    matrices: list[_LayerMatrices], initial: Tensor, embedding: Tensor, dtype: torch.dtype, changing: int
) -> StepWeights:
    """See `PrefixLSTM.step_weights`; `initial` is [2, layers, hidden_size]."""
    first, size = matrices[0].inputs, initial.shape[2]
    of_tokens, of_constant, of_changing = first.tensor_split([embedding.shape[1], first.shape[1] - changing], dim=1)
    layers = [LayerWeights(matrices[0].states.t().to(dtype).contiguous())]
    for layer in matrices[1:]:
        parts = (layer.states, *layer.inputs.tensor_split([size], dim=1))
        states, below, of_mixed = (part.t().to(dtype).contiguous() for part in parts)
        layers.append(LayerWeights(states, below, layer.bias.to(dtype), of_mixed if len(of_mixed) else None))
    h, c = cast(initial, dtype)
    return StepWeights(
        token_gates=(cast(embedding, torch.float32) @ of_tokens.t() + matrices[0].bias).to(dtype),
        constant_matrix=of_constant.t().to(dtype).contiguous(),
        changing_matrix=of_changing.t().to(dtype).contiguous(),
        layers=tuple(layers),
        initial=tuple(part for pair in zip(h, c, strict=True) for part in pair),
    )


class LSTMDecoder(Decoder):
    """An LSTM over [token; code of a pair], the same for every example; their maximum; one linear layer.

    With `execution` the encoded execution features are a third input. With `mixing` layers above the first see the
    maximum over examples. With `head_size` there is one more linear layer.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        inputs = settings.embedding_size + settings.code_size + settings.execution * settings.execution_size
        recurrent = MixingLSTM if settings.mixing else PrefixLSTM
        self.recurrent = recurrent(inputs, settings.hidden_size, settings.layers)
        self.output = output_layers(settings)
        self._parts = Parts()

    def prepare(self, embedding: Tensor, execution: ExecutionEncoder | None, dtype: torch.dtype) -> LSTMSteps:
        """See `Decoder.prepare`."""
        changing = 0 if execution is None else execution.second.out_features
        weights = self.recurrent.step_weights(embedding, dtype, changing)
        encoder = None if execution is None else execution.step_weights(weights.changing_matrix, dtype)
        return LSTMSteps(weights, Output.of(self.output, dtype), encoder, self._parts)

    def compile_parts(self) -> None:
        """See `Decoder.compile_parts`."""
        self._parts = Parts().compiled()


class LearnedSyntax(nn.Module):
    """The syntax LSTM. It shares the tokens' embeddings with the decoder and sees no examples."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.recurrent = PrefixLSTM(settings.embedding_size, settings.syntax_size, settings.layers)
        self.output = token_scores(settings.syntax_size)

    def prepare(self, embedding: Tensor, dtype: torch.dtype) -> tuple[LSTMSteps, StepTasks]:
        """The weights in some precision, and a task without examples."""
        steps = LSTMSteps(self.recurrent.step_weights(embedding, dtype), Output.of(self.output, dtype))
        return steps, steps.tasks(embedding.new_zeros(1, 1, 0), None)


@dataclass(frozen=True)
class LSTMSteps(StepDecoder):
    """An LSTM's weights in one precision. A task's `inputs` are its examples' terms of the first layer's gates."""

    weights: StepWeights
    output: Output
    execution: StepExecution | None = None
    parts: Parts = field(default_factory=Parts)

    def tasks(self, codes: Tensor, present: Tensor | None) -> StepTasks:
        """See `StepDecoder.tasks`."""
        return StepTasks(self.weights.constant(codes), present)

    def start(self, tasks: StepTasks) -> LSTMState:
        """The learned initial state, tensors [B, K, hidden_size]."""
        return tuple(part.expand(*tasks.inputs.shape[:2], -1) for part in self.weights.initial)

    def in_eight_bits(self) -> LSTMSteps:
        """The same with states and their products in eight bits, if the initial state allows it."""
        return replace(self, weights=self.weights.in_eight_bits())

    def teacher_forced(self, tasks: StepTasks, trie: PrefixTrie) -> Tensor:
        """See `StepDecoder.teacher_forced`."""
        present, table = tasks.present_of(trie.tasks), self.weights.token_gates
        # Products with one-hot rows: their gradients are products too, while those of look-ups are slow.
        of_tokens = functional.one_hot(trie.tokens, VOCABULARY_SIZE).to(table.dtype) @ table
        if trie.shared is None:
            gates, pool = self._packed_gates(tasks, trie, of_tokens), self.parts.pooled
        else:
            gates, pool = self._shared_gates(tasks, trie, of_tokens), pooled
        hidden = run_layers(self.weights, gates, trie, present, pool)
        return self.output.scores(pool(hidden, present))

    def _packed_gates(self, tasks: StepTasks, trie: PrefixTrie, of_tokens: Tensor) -> Gates:
        own = of_programs = None
        if self.execution is not None and trie.features is not None:
            own = self.execution.gates_of(trie.features, self.parts.one_hot)
        if len(self.weights.constant_matrix):
            # First to programs, then to tokens: gradients add up in two short steps, not one long queue.
            of_programs = tasks.inputs.index_select(0, trie.tasks[: trie.sizes[0]])
        return Gates(own, of_tokens, of_programs)

    def _shared_gates(self, tasks: StepTasks, trie: PrefixTrie, of_tokens: Tensor) -> Gates:
        own = None
        if len(self.weights.constant_matrix):
            count, dtype = len(tasks), tasks.inputs.dtype
            of_tasks = (trie.tasks[:, None] == torch.arange(count, device=trie.tasks.device)).to(dtype)
            own = (of_tasks @ tasks.inputs.flatten(1)).view(-1, *tasks.inputs.shape[1:])
            if self.execution is not None and trie.features is not None:
                own = self.execution.added_to(own, trie.features)
        return Gates(own, of_tokens)

    def step(
        self,
        tasks: StepTasks,
        state: LSTMState,
        parents: Tensor,
        task: Tensor,
        tokens: Tensor,
        features: Tensor | None = None,
    ) -> tuple[Tensor, LSTMState]:
        """See `StepDecoder.step`. Without gradient: training has `teacher_forced`."""
        new = tuple(part.new_empty(len(task), *part.shape[1:]) for part in state)
        whole = _Piece(parents, task, tokens, features, new)
        if task.is_cpu:
            return self._step_in_pieces(tasks, state, whole), new
        return self._step_piece(tasks, state, whole), new

    def _step_in_pieces(self, tasks: StepTasks, state: LSTMState, whole: _Piece) -> Tensor:
        """`_step_piece` on a CPU: every thread takes pieces of the hypotheses through all layers.

        A piece is so small that the values between two layers stay in a core's cache. The threads are our own: those of
        the tensor library split every single operation and wait for the slowest thread each time.
        """
        count, threads = len(whole.task), threads_of_steps()
        work = count * tasks.inputs.shape[1]
        number = max(1, min(count, work // _SMALLEST_PIECE, max(threads, round(work / _PIECE))))

        pieces, step_piece = whole.split(number), partial(self._step_piece, tasks, state)
        if number == 1 or threads == 1:
            return torch.cat([step_piece(piece) for piece in pieces])
        return torch.cat(list(single_threaded(threads).map(step_piece, pieces)))

    @torch.no_grad()
    def _step_piece(self, tasks: StepTasks, state: LSTMState, piece: _Piece) -> Tensor:
        """The logits [n, 52] of n hypotheses. Their new state is written to `piece.new`."""
        task, features = piece.task, piece.features
        gates: Tensor = tasks.inputs
        rows: Tensor | None = task
        if self.execution is not None and features is not None:
            if gates.is_cpu:
                # Many hypotheses lead an example to the same state: its term of the gates is computed once.
                some, rows = distinct(task, features)
                some = padded(some)
                examples = features.shape[1]
                own = task.index_select(0, some // examples) * examples + some % examples
                codes = features.flatten(0, 1).index_select(0, some)
                gates = self.execution.added_to(gates.flatten(0, 1).index_select(0, own), codes)
            else:
                gates, rows = self.execution.added_to(gates.index_select(0, task), features), None
        present = tasks.present_of(task)
        lstm_step(self.weights, gates, rows, piece.tokens, state, piece.parents, piece.new, present)
        return self.output.scores(pooled(piece.new[-2], present))


class _Piece(NamedTuple):
    """Some of the hypotheses of a step, and room for their new state; see `StepDecoder.step`."""

    parents: Tensor
    task: Tensor
    tokens: Tensor
    features: Tensor | None
    new: LSTMState

    def split(self, count: int) -> list[_Piece]:
        """The same in `count` pieces of about equal size. Their `new` are views."""
        split = [tensor.tensor_split(count) for tensor in (self.parents, self.task, self.tokens, *self.new)]
        features = [None] * count if self.features is None else self.features.tensor_split(count)
        return [
            _Piece(parents, task, tokens, seen, tuple(new))
            for seen, parents, task, tokens, *new in zip(features, *split, strict=True)
        ]


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


def _array(tensor: Tensor) -> NDArray[Any]:
    """A tensor's memory in NumPy, which knows no bfloat16; a copy if it is not contiguous."""
    bits = tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor
    array: NDArray[Any] = bits.contiguous().numpy()
    return array
