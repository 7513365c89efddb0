"""What a decoder is: the interface between networks and everything that uses them.

A synthesizer's decoder maps a prefix and the codes of a task's examples to logits of the next token. Search, rollouts,
scoring and training use it through two classes only. `Decoder` is a module with parameters. `StepDecoder` holds its
weights in one precision and evaluates them.

To add a decoder, subclass both, implement the abstract methods, and register it. `examples/own_decoder.py` is a short
example, `transformer.py` a longer one:

    register_decoder("mine", MyDecoder)                 # in a module of yours, which a recipe names in `plugins`
    Synthesizer(ModelSettings(decoder="mine"))          # or `decoder = "mine"` in a recipe's [model]

`StepDecoder.step` is enough for everything. A subclass may override `teacher_forced` to score whole programs faster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import torch
from torch import Tensor, nn

from karelsynth.errors import KarelsynthError, listed, nearest
from karelsynth.karel.tokens import VOCABULARY_SIZE
from karelsynth.model.devices import cast, padded, widened

if TYPE_CHECKING:
    from karelsynth.model.encoder import ExecutionEncoder
    from karelsynth.model.prefix_trie import PrefixTrie
    from karelsynth.model.settings import ModelSettings


@dataclass(frozen=True)
class StepTasks:
    """B tasks with K examples, as a decoder reads them at every step."""

    inputs: Tensor
    """[B, K, …]: computed once from the examples' codes by `StepDecoder.tasks`."""
    present: Tensor | None
    """bool [B, K]: which examples exist; None for all."""

    def __len__(self) -> int:
        return len(self.inputs)

    def select(self, rows: Tensor) -> StepTasks:
        """The tasks `rows`, int64 [B']."""
        return StepTasks(self.inputs.index_select(0, rows), self.present_of(rows))

    def present_of(self, rows: Tensor) -> Tensor | None:
        """`present` of the tasks `rows`."""
        return None if self.present is None else self.present.index_select(0, rows)


class StepDecoder(ABC):
    """A decoder's weights in one precision. Everything is differentiable where gradients are enabled."""

    @abstractmethod
    def tasks(self, codes: Tensor, present: Tensor | None) -> StepTasks:
        """Prepare tasks from the codes of their examples [B, K, code_size]; `present` is bool [B, K] or None."""

    @abstractmethod
    def start(self, tasks: StepTasks) -> Any:
        """The state of B empty prefixes, one for each task."""

    @abstractmethod
    def step(
        self,
        tasks: StepTasks,
        state: Any,
        parents: Tensor,
        task: Tensor,
        tokens: Tensor,
        features: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """Extend N hypotheses by one token.

        Args:
            state: of the last step's hypotheses, or `start`.
            parents: int64 [N], the row of `state` that each hypothesis extends. Rows may repeat or be left out.
            task: int64 [N], the task of each hypothesis.
            tokens: int64 [N], the token that each hypothesis is extended by; `<s>` in the first step.
            features: uint8 [N, K, 114], the execution features of the extended prefixes, for models with `execution`.

        Returns logits of the next token, float32 [N, 52], without any syntax, and the state of the N hypotheses.
        """

    def teacher_forced(self, tasks: StepTasks, trie: PrefixTrie) -> Tensor:
        """Logits of the next token at every node of a prefix trie, float32 [P, 52], with gradient: steps by depth."""
        state, logits, first = self.start(tasks), [], 0
        for depth, size in enumerate(trie.sizes):
            own = slice(first, first + size)
            parents = trie.parents_at(depth) if depth else trie.tasks[own]
            features = None if trie.features is None else trie.features[own]
            scores, state = self.step(tasks, state, parents, trie.tasks[own], trie.tokens[own], features)
            logits.append(scores)
            first += size
        return torch.cat(logits)

    def in_eight_bits(self) -> Self:
        """The same with eight-bit weights where that is faster on a CPU; by default unchanged."""
        return self


class Decoder(nn.Module, ABC):
    """A decoder's parameters. A subclass is constructed from the model's settings alone."""

    @abstractmethod
    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()

    @abstractmethod
    def prepare(self, embedding: Tensor, execution: ExecutionEncoder | None, dtype: torch.dtype) -> StepDecoder:
        """The weights in some precision, with gradient if gradients are enabled.

        Args:
            embedding: [52, embedding_size], the tokens' embeddings, which belong to the synthesizer.
            execution: encodes execution features, for models with `execution`.
        """

    def compile_parts(self) -> None:
        """Compile what is faster compiled, for training with batches of one size; by default nothing."""


class StepModel(NamedTuple):
    """A synthesizer prepared for decoding: its decoder and, if it has one, its learned syntax.

    The learned syntax is a decoder without examples. Its exponentiated scores are subtracted from the logits.
    """

    decoder: StepDecoder
    syntax: StepDecoder | None
    no_examples: StepTasks | None
    """The one task that the learned syntax sees, without examples."""

    def start(self, tasks: StepTasks) -> tuple[Any, Any]:
        """The state of one empty prefix for each task."""
        syntax = None
        if self.syntax is not None and self.no_examples is not None:
            rows = torch.zeros(len(tasks), dtype=torch.int64, device=tasks.inputs.device)
            syntax = self.syntax.start(self.no_examples.select(rows))
        return self.decoder.start(tasks), syntax

    def step(
        self,
        tasks: StepTasks,
        state: tuple[Any, Any],
        parents: Tensor,
        task: Tensor,
        tokens: Tensor,
        features: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Any, Any]]:
        """Logits [N, 52] with the learned syntax but without a handwritten one, and the state: `StepDecoder.step`."""
        logits, own = self.decoder.step(tasks, state[0], parents, task, tokens, features)
        if self.syntax is None or self.no_examples is None:
            return logits, (own, None)
        scores, syntax = self.syntax.step(self.no_examples, state[1], parents, torch.zeros_like(task), tokens)
        return logits - scores.exp(), (own, syntax)

    def syntax_penalties(self, trie: PrefixTrie) -> Tensor | None:
        """What the learned syntax subtracts from the logits at every node, float32 [P, 52]; None without it."""
        if self.syntax is None or self.no_examples is None:
            return None
        return self.syntax.teacher_forced(self.no_examples, trie.without_examples()).exp()


# Parts that decoders share


def pooled(hidden: Tensor, present: Tensor | None) -> Tensor:
    """The maximum over examples: [rows, hidden_size] of [rows, K, hidden_size]; `present` is bool [rows, K]."""
    if present is not None:
        hidden = hidden.masked_fill(~present[:, :, None], -torch.inf if hidden.is_floating_point() else 0)
    return hidden.amax(1)


def token_scores(inputs: int) -> nn.Linear:
    """A linear layer to scores of tokens whose bias starts at zero."""
    layer = nn.Linear(inputs, VOCABULARY_SIZE)
    nn.init.zeros_(layer.bias)
    return layer


def output_layers(settings: ModelSettings) -> Any:
    """The layers from `hidden_size` to scores of tokens: one linear layer, or two with `head_size`."""
    if not settings.head_size:
        return token_scores(settings.hidden_size)
    head = nn.Linear(settings.hidden_size, settings.head_size)
    return nn.Sequential(head, nn.ReLU(), token_scores(settings.head_size))


class Output(NamedTuple):
    """The output layers, from an LSTM's output to logits: linear layers with ReLU between them."""

    layers: tuple[tuple[Tensor, Tensor], ...]
    """Of each layer the matrix [inputs, outputs] and the bias [outputs]."""

    @staticmethod
    def of(module: nn.Module, dtype: torch.dtype) -> Output:
        """The linear layers of a module, in some precision."""
        linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
        return Output(tuple((cast(one.weight, dtype).t().contiguous(), cast(one.bias, dtype)) for one in linear))

    def scores(self, hidden: Tensor) -> Tensor:
        """float32 [rows, 52] of [rows, hidden_size]."""
        if hidden.dtype == torch.uint8:
            hidden = widened(hidden, self.layers[0][0].dtype)
        count, hidden = len(hidden), padded(hidden)
        for number, (matrix, bias) in enumerate(self.layers):
            hidden = torch.addmm(bias, hidden if number == 0 else hidden.relu_(), matrix)
        return hidden[:count].float()


# The registry


_DECODERS: Final[dict[str, type[Decoder]]] = {}


def register_decoder(name: str, decoder: type[Decoder]) -> None:
    """Make a decoder available as the model setting `decoder = name`, in the running process."""
    known = _DECODERS.setdefault(name, decoder)
    if known is not decoder:
        raise KarelsynthError(f"a decoder `{name}` is registered already ({known.__qualname__}): choose another name")


def decoder_class(name: str) -> type[Decoder]:
    """The decoder registered under a name; raises KarelsynthError if there is none."""
    if name not in _DECODERS:
        close = nearest(name, list(_DECODERS))
        hint = f"did you mean `{close}`?" if close else f"there are {listed(sorted(_DECODERS), 'and')}."
        raise KarelsynthError(
            f"there is no decoder `{name}`; {hint} One of your own is registered by importing its module first "
            "(`plugins` in a recipe)"
        )
    return _DECODERS[name]
