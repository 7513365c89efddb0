"""The LSTM decoder, the paper's, and the learned syntax, an LSTM without examples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from karelsynth.karel.tokens import VOCABULARY_SIZE
from karelsynth.model.decoder import Decoder, Output, StepDecoder, StepTasks, output_layers, pooled, token_scores
from karelsynth.model.devices import padded, single_threaded, threads_of_steps
from karelsynth.model.encoder import StepExecution, distinct
from karelsynth.model.lstm_step import LSTMState, MixingLSTM, PrefixLSTM, StepWeights, initial_state, lstm_step
from karelsynth.model.lstm_training import Gates, Parts, run_layers

if TYPE_CHECKING:
    from karelsynth.model.encoder import ExecutionEncoder
    from karelsynth.model.prefix_trie import PrefixTrie
    from karelsynth.model.settings import ModelSettings

_PIECE: Final = 320
"""States (hypotheses times examples) that a CPU core works on at a time."""
_SMALLEST_PIECE: Final = 32
"""Fewer states than these are not worth handing to another thread."""


_PLAIN: Final = Parts()


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
    parts: Parts = _PLAIN

    def tasks(self, codes: Tensor, present: Tensor | None) -> StepTasks:
        """See `StepDecoder.tasks`."""
        return StepTasks(self.weights.constant(codes), present)

    def start(self, tasks: StepTasks) -> LSTMState:
        """The learned initial state, tensors [B, K, hidden_size]."""
        return initial_state(self.weights, *tasks.inputs.shape[:2])

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
        if state[0].is_cpu:
            return self._step_in_pieces(tasks, state, parents, task, tokens, features)
        new = tuple(part.new_empty(len(task), *part.shape[1:]) for part in state)
        return self._step_piece(tasks, state, parents, task, tokens, features, new), new

    def _step_in_pieces(
        self,
        tasks: StepTasks,
        state: LSTMState,
        parents: Tensor,
        task: Tensor,
        tokens: Tensor,
        features: Tensor | None,
    ) -> tuple[Tensor, LSTMState]:
        """`step` on a CPU: every thread takes pieces of the hypotheses through all layers.

        A piece is so small that the values between two layers stay in a core's cache. The threads are our own: those of
        the tensor library split every single operation and wait for the slowest thread each time.
        """
        count, threads = len(task), threads_of_steps()
        work = count * tasks.inputs.shape[1]
        pieces = max(1, min(count, work // _SMALLEST_PIECE, max(threads, round(work / _PIECE))))
        new = tuple(part.new_empty(count, *part.shape[1:]) for part in state)
        split = [tensor.tensor_split(pieces) for tensor in (parents, task, tokens, *new)]
        seen = [None] * pieces if features is None else features.tensor_split(pieces)
        each = [(tasks, state, *own[:4], own[4:]) for own in zip(*split[:3], seen, *split[3:], strict=True)]
        if pieces == 1 or threads == 1:
            scores = [self._step_piece(*piece) for piece in each]
        else:
            scores = list(single_threaded(threads).map(self._step_piece, *zip(*each, strict=True)))
        return torch.cat(scores), new

    @torch.no_grad()
    def _step_piece(
        self,
        tasks: StepTasks,
        state: LSTMState,
        parents: Tensor,
        task: Tensor,
        tokens: Tensor,
        features: Tensor | None,
        new: LSTMState,
    ) -> Tensor:
        """The scores of `step`; the state is written to `new`."""
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
        lstm_step(self.weights, gates, rows, tokens, state, parents, new, present)
        return self.output.scores(pooled(new[-2], present))
