"""The decoder: the next token's scores from the tokens before and the codes of all examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from karelsynth.karel.tokens import VOCABULARY_SIZE
from karelsynth.model import cell_gpu
from karelsynth.model.eight_bits import widened
from karelsynth.model.execution_encoder import StepExecution, distinct
from karelsynth.model.recurrent import (
    LSTMState,
    MixingLSTM,
    PrefixLSTM,
    StepWeights,
    cast,
    initial_state,
    lstm_step,
    lstm_step_compiled,
    pooled,
)
from karelsynth.model.step_threads import single_threaded, threads_of_steps

if TYPE_CHECKING:
    from karelsynth.model.settings import ModelSettings

_COMPILED_FOR: Final = (torch.float32, torch.bfloat16, torch.uint8)
"""Precisions of h that steps on a CPU have compiled cells for."""
_PIECE: Final = 320
"""States (hypotheses times examples) that a CPU's core works on at a time."""
_SMALLEST_PIECE: Final = 32
"""Fewer than these are not worth the way to another thread."""


class Output(NamedTuple):
    """From an LSTM's output to scores of tokens, for steps: linear layers with ReLU between them."""

    layers: tuple[tuple[Tensor, Tensor], ...]
    """Of each layer the matrix [inputs, outputs] and the bias [outputs]."""

    @staticmethod
    def of(module: nn.Module, dtype: torch.dtype) -> Output:
        """Those of a linear layer or of several, in some precision."""
        linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
        return Output(tuple((cast(one.weight, dtype).t().contiguous(), cast(one.bias, dtype)) for one in linear))

    def scores(self, hidden: Tensor) -> Tensor:
        """float32 [rows, 52] of [rows, hidden_size]."""
        if hidden.dtype == torch.uint8:
            hidden = widened(hidden, self.layers[0][0].dtype)
        for number, (matrix, bias) in enumerate(self.layers):
            hidden = torch.addmm(bias, hidden if number == 0 else hidden.relu_(), matrix)
        return hidden.float()


class Decoder(nn.Module):
    """An LSTM over [token; code of a pair], the same for every example; their maximum; one linear layer.

    With `execution` the LSTM's input goes on with what that shows of the example; with `mixing` examples see each other
    on the way; with `head_size` there is one more layer.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        inputs = settings.embedding_size + settings.code_size + settings.execution * settings.execution_size
        recurrent = MixingLSTM if settings.mixing else PrefixLSTM
        self.recurrent = recurrent(inputs, settings.hidden_size, settings.layers)
        self.output: Any = token_scores(settings.head_size or settings.hidden_size)
        if settings.head_size:
            self.output = nn.Sequential(nn.Linear(settings.hidden_size, settings.head_size), nn.ReLU(), self.output)


def token_scores(inputs: int) -> nn.Linear:
    """A linear layer to scores of tokens whose bias starts at zero."""
    layer = nn.Linear(inputs, VOCABULARY_SIZE)
    nn.init.zeros_(layer.bias)
    return layer


class StepModel(NamedTuple):
    """All that the decoder and what belongs to it need of a synthesizer, in the precision they run in."""

    decoder: StepWeights
    output: Output
    syntax: StepWeights | None
    """Of the learned syntax."""
    syntax_output: Output | None
    execution: StepExecution | None


class StepTasks(NamedTuple):
    """What B tasks with K examples bring to every step."""

    gates: Tensor
    """[B, K, 4 · hidden_size]: what the examples' codes add to the first layer's gates."""
    present: Tensor | None
    """bool [B, K]."""

    def select(self, rows: Tensor) -> StepTasks:
        """Some of the tasks."""
        present = None if self.present is None else self.present.index_select(0, rows)
        return StepTasks(self.gates.index_select(0, rows), present)


def start_state(model: StepModel, tasks: StepTasks) -> LSTMState:
    """The state before the first token of one hypothesis for each task: the decoder's [B, K, …], the syntax' [B, …]."""
    count, examples, _ = tasks.gates.shape
    state = initial_state(model.decoder, count, examples)
    return state if model.syntax is None else state + initial_state(model.syntax, count)


def decode_step(
    model: StepModel,
    tasks: StepTasks,
    state: LSTMState,
    parents: Tensor,
    task: Tensor,
    tokens: Tensor,
    features: Tensor | None = None,
) -> tuple[Tensor, LSTMState]:
    """One token for N hypotheses: what `Synthesizer.score` computes for whole programs.

    Args:
        state: of the hypotheses before they were chosen among and reordered.
        parents: int64 [N], which of those each hypothesis goes on from.
        task: int64 [N], the task of each hypothesis.
        tokens: int64 [N], the token that each has just got.
        features: uint8 [N, K, 114], where that has led the examples, for models with `execution`.

    Returns scores of the next tokens float32 [N, 52], without handwritten syntax, and the state.
    """
    if state[0].is_cpu and state[0].dtype in _COMPILED_FOR:
        return _decode_in_pieces(model, tasks, state, parents, task, tokens, features)
    if state[0].is_cuda and cell_gpu.available():
        new = tuple(part.new_empty(len(task), *part.shape[1:]) for part in state)
        return _decode_piece(model, tasks, state, parents, task, tokens, features, new), new
    own, rest = state[: 2 * len(model.decoder.layers)], state[2 * len(model.decoder.layers) :]
    gates = tasks.gates.index_select(0, task).add_(model.decoder.token_gates.index_select(0, tokens)[:, None])
    if model.execution is not None and features is not None:
        gates = model.execution.added_to(gates, features)
    present = None if tasks.present is None else tasks.present.index_select(0, task)
    hidden, new = lstm_step(model.decoder, gates, own, parents, present)
    scores = model.output.scores(pooled(hidden, present))
    if model.syntax is not None and model.syntax_output is not None:
        gates = model.syntax.token_gates.index_select(0, tokens)
        hidden, newer = lstm_step(model.syntax, gates, rest, parents)
        scores, new = scores - model.syntax_output.scores(hidden).exp(), new + newer
    return scores, new


def _decode_in_pieces(
    model: StepModel,
    tasks: StepTasks,
    state: LSTMState,
    parents: Tensor,
    task: Tensor,
    tokens: Tensor,
    features: Tensor | None,
) -> tuple[Tensor, LSTMState]:
    """`decode_step` on a CPU: every thread takes pieces of the hypotheses through all layers.

    A piece is small enough that what is between two layers stays in a core's cache. Threads of our own, since those
    of the tensor library share out each operation by itself and wait for the slowest every time.
    """
    count, threads = len(task), threads_of_steps()
    work = count * tasks.gates.shape[1]
    pieces = max(1, min(count, work // _SMALLEST_PIECE, max(threads, round(work / _PIECE))))
    new = tuple(part.new_empty(count, *part.shape[1:]) for part in state)
    split = [tensor.tensor_split(pieces) for tensor in (parents, task, tokens, *new)]
    seen = [None] * pieces if features is None else features.tensor_split(pieces)
    each = [(model, tasks, state, *own[:4], own[4:]) for own in zip(*split[:3], seen, *split[3:], strict=True)]
    if pieces == 1 or threads == 1:
        scores = [_decode_piece(*piece) for piece in each]
    else:
        scores = list(single_threaded(threads).map(_decode_piece, *zip(*each, strict=True)))
    return torch.cat(scores), new


@torch.no_grad()
def _decode_piece(
    model: StepModel,
    tasks: StepTasks,
    state: LSTMState,
    parents: Tensor,
    task: Tensor,
    tokens: Tensor,
    features: Tensor | None,
    new: LSTMState,
) -> Tensor:
    """The scores of `decode_step`; the state is written to `new`."""
    depth = 2 * len(model.decoder.layers)
    gates: Tensor = tasks.gates
    rows: Tensor | None = task
    if model.execution is not None and features is not None:
        if gates.is_cpu:
            # Many hypotheses have led an example to the same state: what that adds is found once for all of them.
            some, rows = distinct(task, features)
            examples = features.shape[1]
            own = task.index_select(0, some // examples) * examples + some % examples
            codes = features.flatten(0, 1).index_select(0, some)
            gates = model.execution.added_to(gates.flatten(0, 1).index_select(0, own), codes)
        else:
            gates, rows = model.execution.added_to(gates.index_select(0, task), features), None
    present = None if tasks.present is None else tasks.present.index_select(0, task)
    lstm_step_compiled(model.decoder, gates, rows, tokens, state[:depth], parents, new[:depth], present)
    scores = model.output.scores(pooled(new[depth - 2], present))
    if model.syntax is not None and model.syntax_output is not None:
        nothing = model.syntax.token_gates.new_zeros(1, 1, model.syntax.token_gates.shape[1])
        before, after = (tuple(part[:, None] for part in parts[depth:]) for parts in (state, new))
        lstm_step_compiled(model.syntax, nothing, torch.zeros_like(task), tokens, before, parents, after)
        scores = scores - model.syntax_output.scores(new[-2]).exp()
    return scores
