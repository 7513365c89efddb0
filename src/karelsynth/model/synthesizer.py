"""The synthesizer: examples in, probabilities of programs out.

    model = Synthesizer(ModelSettings())
    encoded = model.encode(inputs, outputs)                 # uint8 [B, K, 18, 18] cell codes, any K
    trie = model.pack(tokens, lengths, encoded=encoded)     # numpy [B, L], [B]
    model.score(encoded, trie).logits                       # [P, 52]: teacher forcing
    model.program_logprobs(encoded, trie)                   # [B]

`step_model` prepares it for decoding step by step, which `karelsynth.search` does. The setting `decoder` names its
decoder: see `karelsynth.model.decoder`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from karelsynth.karel.grammar import KAREL
from karelsynth.karel.syntax import SyntaxMachine, syntax_machine
from karelsynth.karel.tokens import VOCABULARY_SIZE
from karelsynth.model.decoder import StepModel, StepTasks, decoder_class, register_decoder
from karelsynth.model.devices import autocast_dtype, floating_dtype, usable_device
from karelsynth.model.encoder import ExecutionEncoder, GridEncoder
from karelsynth.model.lstm import LearnedSyntax, LSTMDecoder
from karelsynth.model.prefix_runner import PrefixRunner, prefix_runner
from karelsynth.model.prefix_trie import PrefixTrie, pack_programs, pack_trie
from karelsynth.model.storage import load_model, save_model
from karelsynth.model.transformer import TransformerDecoder
from karelsynth.ownership import keep_torch_code_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from karelsynth.model.settings import ModelSettings


register_decoder("lstm", LSTMDecoder)
register_decoder("transformer", TransformerDecoder)


class Encoded(NamedTuple):
    """The examples of B tasks."""

    codes: Tensor
    """[B, K, code_size]."""
    present: Tensor | None
    """bool [B, K]: which examples exist, where tasks have fewer than K; None for all."""
    worlds: tuple[Tensor, Tensor] | None = None
    """Inputs and outputs, uint8 [B, K, 18, 18], if the model has `execution`: to run programs on."""

    def detach(self) -> Encoded:
        """The same without gradient."""
        return self._replace(codes=self.codes.detach())

    def row(self, number: int) -> Encoded:
        """One of the tasks."""
        own = slice(number, number + 1)
        worlds = None if self.worlds is None else (self.worlds[0][own], self.worlds[1][own])
        return Encoded(self.codes[own], None if self.present is None else self.present[own], worlds)

    def prefix_runner(self) -> PrefixRunner | None:
        """Runs prefixes on the examples, if the model has `execution`."""
        return None if self.worlds is None else prefix_runner(*self.worlds)


class TeacherForced(NamedTuple):
    """The model's output at every node of a prefix trie."""

    logits: Tensor
    """float32 [P, 52], syntax included."""
    penalties: Tensor | None
    """float32 [P, 52]: what the learned syntax has subtracted from the logits; None without it."""


class Synthesizer(nn.Module):
    """See the module's docstring."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = GridEncoder(settings)
        self.embedding = nn.Embedding(VOCABULARY_SIZE, settings.embedding_size)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.decoder = decoder_class(settings.decoder)(settings)
        self.syntax = LearnedSyntax(settings) if settings.syntax == "learned" else None
        self.execution = ExecutionEncoder(settings.execution_size) if settings.execution else None

    @property
    def machine(self) -> SyntaxMachine | None:
        """The handwritten syntax, if the model has it."""
        return self.machine_for()

    def machine_for(self, machine: SyntaxMachine | None = None, max_length: int | None = None) -> SyntaxMachine | None:
        """The handwritten syntax that defines p: the given one, or else the model's own, if it has one.

        Single source of the syntax constraint for search and scoring. `max_length` is that of the machine; a given
        machine must have been made for it.
        """
        if machine is None:
            own = self.settings.syntax == "handwritten"
            return syntax_machine(max_length=max_length or self.settings.max_length) if own else None
        if max_length is not None and machine.max_length != max_length:
            raise ValueError(
                f"max_length is {max_length}, but the syntax machine was made for {machine.max_length} tokens: "
                "make it for as many, or leave max_length out"
            )
        if self.settings.skip_forced_tokens and not machine.grammar.forced_tokens() <= KAREL.forced_tokens():
            raise ValueError(
                f"{machine.grammar.name} forces tokens that a model with `skip_forced_tokens` leaves to the network"
            )
        return machine

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.embedding.weight.device

    def compile_parts(self) -> None:
        """Compile what is faster compiled, for training with batches of one size."""
        keep_torch_code_private()
        self.encoder.compile(dynamic=False)
        self.decoder.compile_parts()

    def encode(self, inputs: Tensor, outputs: Tensor, present: Tensor | None = None) -> Encoded:
        """Encode cell codes uint8 [B, K, 18, 18]; `present`, bool [B, K], for tasks with fewer examples than K.

        A missing example must still hold a valid world: programs may be run on it.
        """
        count, examples = inputs.shape[:2]
        codes = self.encoder(inputs.flatten(0, 1), outputs.flatten(0, 1))
        worlds = None if self.execution is None else (inputs, outputs)
        return Encoded(codes.to(self.embedding.weight.dtype).view(count, examples, -1), present, worlds)

    def pack(
        self,
        tokens: NDArray[np.integer],
        lengths: NDArray[np.integer],
        machine: SyntaxMachine | None = None,
        *,
        encoded: Encoded | None = None,
        tasks: NDArray[np.integer] | None = None,
        share_prefixes: bool = False,
    ) -> PrefixTrie:
        """Lay out programs [N, L] for `score`.

        Args:
            machine: a handwritten syntax to apply instead of the model's own.
            encoded: the examples, on which models with `execution` run the programs.
            tasks: [N], each program's task, by default its own.
            share_prefixes: evaluate common prefixes of a task's programs once: faster where there are many.
        """
        runner = None if encoded is None else encoded.prefix_runner()
        own, skip = self.machine_for(machine), self.settings.skip_forced_tokens
        if share_prefixes:
            tasks = np.arange(len(tokens)) if tasks is None else tasks
            return pack_trie(
                tokens, lengths, tasks, machine=own, device=self.device, runner=runner, skip_forced_tokens=skip
            )
        return pack_programs(
            tokens, lengths, tasks, machine=own, device=self.device, runner=runner, skip_forced_tokens=skip
        )

    def forward(
        self,
        inputs: Tensor,
        outputs: Tensor,
        trie: PrefixTrie,
        present: Tensor | None = None,
    ) -> TeacherForced:
        """`encode` and `score` in one, so that wrappers such as DistributedDataParallel see all of it."""
        return self.score(self.encode(inputs, outputs, present), trie)

    def score(self, encoded: Encoded, trie: PrefixTrie) -> TeacherForced:
        """Teacher forcing: the model's output at every node."""
        if self.execution is not None and trie.features is None:
            raise ValueError("a model with `execution` needs programs that were packed with their examples")
        with self._precision() as dtype:
            model = self._step_model(dtype)
            tasks = model.decoder.tasks(encoded.codes, encoded.present)
            logits, penalties = model.decoder.teacher_forced(tasks, trie), model.syntax_penalties(trie)
        if penalties is not None:
            logits = logits - penalties
        if trie.admitted is not None:
            logits = logits.masked_fill(~trie.admitted, -torch.inf)
        return TeacherForced(logits, penalties)

    def program_logprobs(self, encoded: Encoded, trie: PrefixTrie) -> Tensor:
        """log p(program | examples), float32 [N]."""
        return trie.program_logprobs(self.score(encoded, trie).logits)

    def syntax_penalties(self, trie: PrefixTrie) -> Tensor | None:
        """What the learned syntax subtracts from the logits at every node, float32 [P, 52]; None without it."""
        with self._precision() as dtype:
            return self._step_model(dtype).syntax_penalties(trie)

    @contextmanager
    def _precision(self) -> Iterator[torch.dtype]:
        """Yields the precision of autocast, and turns autocast off: the network is cast as a whole."""
        dtype = autocast_dtype(self.device, self.embedding.weight.dtype)
        with torch.autocast(self.device.type, enabled=False):
            yield dtype

    @torch.no_grad()
    def step_model(self, dtype: torch.dtype) -> StepModel:
        """The decoder and the learned syntax in some precision, without gradient, for decoding.

        In torch.int8, for CPUs where `has_eight_bits`, products with the decoder's states are in eight bits and
        all else in the fastest of the other precisions.
        """
        if dtype != torch.int8:
            return self._step_model(dtype)
        plain = self._step_model(floating_dtype(self.device))
        return plain._replace(decoder=plain.decoder.in_eight_bits())

    def _step_model(self, dtype: torch.dtype) -> StepModel:
        embedding = self.embedding.weight
        syntax, no_examples = (None, None) if self.syntax is None else self.syntax.prepare(embedding, dtype)
        return StepModel(self.decoder.prepare(embedding, self.execution, dtype), syntax, no_examples)

    def step_tasks(self, model: StepModel, encoded: Encoded) -> StepTasks:
        """Encoded tasks, prepared for the steps of a `step_model`."""
        if self.execution is not None and encoded.worlds is None:
            raise ValueError("a model with `execution` needs the examples themselves: encode them with this model")
        return model.decoder.tasks(encoded.codes.detach(), encoded.present)

    def save_pretrained(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write `config.json` and `model.safetensors`, atomically, in another precision if given."""
        save_model(folder, self.settings, self.state_dict(), dtype)

    @classmethod
    def from_pretrained(cls, folder: str | Path, device: torch.device | str = "cpu") -> Synthesizer:
        """A model that `save_pretrained` wrote, in float32 and ready for inference.

        `folder` may also be `shipped`, the package's model, or an id of the Hugging Face hub, `owner/name` or
        `owner/name@revision` (the extra `hub`).
        Raises KarelsynthError if it cannot be loaded.
        """
        device = usable_device(device)
        settings, weights = load_model(folder)
        model = cls(settings)
        model.load_state_dict(weights.checked({name: value.shape for name, value in model.state_dict().items()}))
        return model.to(device).eval()
