"""The synthesizer: examples in, probabilities of programs out.

    model = Synthesizer(ModelSettings())
    encoded = model.encode(inputs, outputs)                 # uint8 [B, K, 18, 18] cell codes, any K
    packed = model.pack(tokens, lengths, encoded=encoded)   # numpy [B, L], [B]
    model.score(encoded, packed).logits                     # [P, 52]: teacher forcing
    model.program_logprobs(encoded, packed)                 # [B]

Decoding goes step by step: see `step_model`, and `karelsynth.search` for who uses it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from karelsynth.karel.grammar import KAREL
from karelsynth.karel.syntax import SyntaxMachine, syntax_machine
from karelsynth.karel.tokens import VOCABULARY_SIZE
from karelsynth.model.decoder import Decoder, Output, StepModel, StepTasks
from karelsynth.model.devices import usable_device
from karelsynth.model.encoder import GridEncoder
from karelsynth.model.execution_encoder import ExecutionEncoder
from karelsynth.model.packing import PackedPrograms, pack_programs
from karelsynth.model.precision import autocast_dtype, floating_dtype
from karelsynth.model.prefix_runner import PrefixRunner, prefix_runner
from karelsynth.model.prefix_trie import PrefixTrie, decode_trie, pack_trie
from karelsynth.model.sequences import Parts, decode_packed, syntax_penalties
from karelsynth.model.storage import load_model, save_model
from karelsynth.model.syntax import LearnedSyntax

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from karelsynth.model.settings import ModelSettings


class Encoded(NamedTuple):
    """The examples of B tasks."""

    codes: Tensor
    """[B, K, code_size]."""
    present: Tensor | None
    """bool [B, K]: which examples there are, where tasks have fewer than K; None if all."""
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
    """What the model says at every packed token of some programs."""

    logits: Tensor
    """float32 [P, 52], syntax included."""
    penalties: Tensor | None
    """float32 [P, 52]: exp(score) by the learned syntax, already taken off the logits; None in the other modes."""

    def logprobs(self, targets: Tensor) -> Tensor:
        """Log-probabilities of the tokens [P] themselves, [P]."""
        return -functional.cross_entropy(self.logits, targets, reduction="none")


class Synthesizer(nn.Module):
    """See the module's docstring."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = GridEncoder(settings)
        self.embedding = nn.Embedding(VOCABULARY_SIZE, settings.embedding_size)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.decoder = Decoder(settings)
        self.syntax = LearnedSyntax(settings) if settings.syntax == "learned" else None
        self.execution = ExecutionEncoder(settings.execution_size) if settings.execution else None
        self._parts = Parts()

    @property
    def machine(self) -> SyntaxMachine | None:
        """The handwritten syntax, if the model has it."""
        return self.machine_for()

    def machine_for(self, machine: SyntaxMachine | None = None, max_length: int | None = None) -> SyntaxMachine | None:
        """The handwritten syntax that p is under: the one that is given, or else the model's own, if it has one.

        All that decodes and scores asks here, so that it speaks of the same p. With a `max_length` the model's own is
        for programs of so many tokens; a machine that is given must be made for it.
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
        """Where the model is."""
        return self.embedding.weight.device

    def compile_parts(self) -> None:
        """Compile, for training in batches of one size, what that makes faster."""
        self.encoder.compile(dynamic=False)
        self._parts = Parts().compiled()

    def encode(self, inputs: Tensor, outputs: Tensor, present: Tensor | None = None) -> Encoded:
        """Encode cell codes uint8 [B, K, 18, 18]; `present`, bool [B, K], for tasks with fewer examples than K.

        An example that is not there must be a world all the same: programs may be run on it.
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
    ) -> PackedPrograms:
        """Pack programs [N, L] for `score`.

        Args:
            machine: a handwritten syntax to apply; it replaces the model's own handwritten one, if there is one.
            encoded: the examples, which models with `execution` run the programs on.
            tasks: [N], each program's task, by default its own.
        """
        runner = None if encoded is None else encoded.prefix_runner()
        which = None
        if runner is not None:
            count, examples = runner.shape
            which = np.arange(count * examples).reshape(count, examples)
            which = which if tasks is None else which[tasks]
        return pack_programs(
            tokens, lengths, machine=self.machine_for(machine), device=self.device, runner=runner, which=which,
            skip_forced_tokens=self.settings.skip_forced_tokens,
        )  # fmt: skip

    def forward(
        self,
        inputs: Tensor,
        outputs: Tensor,
        packed: PackedPrograms,
        present: Tensor | None = None,
    ) -> TeacherForced:
        """`encode` and `score` in one, so that wrappers such as DistributedDataParallel see all of it."""
        return self.score(self.encode(inputs, outputs, present), packed)

    def score(self, encoded: Encoded, packed: PackedPrograms, tasks: Tensor | None = None) -> TeacherForced:
        """Teacher forcing of N packed programs; `tasks`, int64 [N], is each program's task, by default its own."""
        if self.execution is not None and packed.features is None:
            raise ValueError("a model with `execution` needs programs that were packed with their examples")
        # First to programs, then to tokens: gradients add up in two short steps, not one long queue.
        own, order = packed.programs, packed.programs[: int(packed.step_sizes[0])]
        if tasks is not None:
            own, order = tasks.index_select(0, own), tasks.index_select(0, order)
        present = None if encoded.present is None else encoded.present.index_select(0, own)
        with self._precision() as dtype:
            weights = self._step_model(dtype)
            of_programs = weights.decoder.constant(encoded.codes.index_select(0, order))
            logits, penalties = decode_packed(weights, of_programs, present, packed, self._parts)
        if penalties is not None:
            logits = logits - penalties
        if packed.admitted is not None:
            logits = logits.masked_fill(~packed.admitted, -torch.inf)
        return TeacherForced(logits, penalties)

    def program_logprobs(self, encoded: Encoded, packed: PackedPrograms, tasks: Tensor | None = None) -> Tensor:
        """log p(program | examples), float32 [N]."""
        return packed.sum_by_program(self.score(encoded, packed, tasks).logprobs(packed.targets))

    def pack_trie(
        self,
        tokens: NDArray[np.uint8],
        lengths: NDArray[np.integer],
        tasks: NDArray[np.integer],
        *,
        encoded: Encoded,
        machine: SyntaxMachine | None = None,
    ) -> PrefixTrie:
        """Pack programs [N, L] for encoded tasks [N], many for each, for `trie_logprobs`; `machine` as in `pack`."""
        return pack_trie(
            tokens, lengths, tasks, machine=self.machine_for(machine), device=self.device,
            runner=encoded.prefix_runner(), skip_forced_tokens=self.settings.skip_forced_tokens,
        )  # fmt: skip

    def trie_logprobs(self, encoded: Encoded, trie: PrefixTrie) -> Tensor:
        """log p(program | examples), float32 [N]: the same as `program_logprobs`, faster where programs begin alike."""
        if self.execution is not None and trie.features is None:
            raise ValueError("a model with `execution` needs programs that were packed with their examples")
        with self._precision() as dtype:
            weights = self._step_model(dtype)
            tasks = StepTasks(weights.decoder.constant(encoded.codes), encoded.present)
            return trie.program_logprobs(decode_trie(weights, tasks, trie))

    def syntax_penalties(self, packed: PackedPrograms) -> Tensor | None:
        """exp(score) by the learned syntax, float32 [P, 52]; None without it."""
        with self._precision() as dtype:
            return syntax_penalties(self._step_model(dtype), packed)

    @contextmanager
    def _precision(self) -> Iterator[torch.dtype]:
        """The precision that autocast asks for; within it autocast is off, for it would choose others."""
        dtype = autocast_dtype(self.device, self.embedding.weight.dtype)
        with torch.autocast(self.device.type, enabled=False):
            yield dtype

    @torch.no_grad()
    def step_model(self, dtype: torch.dtype) -> StepModel:
        """The decoder as `decode_step` wants it, without gradient.

        In torch.int8, for CPUs where `eight_bits.available`, products with the decoder's states are in eight bits and
        all else in the fastest of the other precisions.
        """
        if dtype != torch.int8:
            return self._step_model(dtype)
        plain = self._step_model(floating_dtype(self.device))
        return plain._replace(decoder=plain.decoder.in_eight_bits())

    def _step_model(self, dtype: torch.dtype) -> StepModel:
        embedding = self.embedding.weight
        changing = 0 if self.execution is None else self.settings.execution_size
        decoder = self.decoder.recurrent.step_weights(embedding, dtype, changing)
        return StepModel(
            decoder,
            Output.of(self.decoder.output, dtype),
            None if self.syntax is None else self.syntax.recurrent.step_weights(embedding, dtype),
            None if self.syntax is None else Output.of(self.syntax.output, dtype),
            None if self.execution is None else self.execution.step_weights(decoder.changing_matrix, dtype),
        )

    def step_tasks(self, model: StepModel, encoded: Encoded) -> StepTasks:
        """Encoded tasks as `decode_step` wants them."""
        if self.execution is not None and encoded.worlds is None:
            raise ValueError("a model with `execution` needs the examples themselves: encode them with this model")
        return StepTasks(model.decoder.constant(encoded.codes.detach()), encoded.present)

    def save_pretrained(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write `config.json` and `model.safetensors`, in another precision if asked. No file is ever half written."""
        save_model(folder, self.settings, self.state_dict(), dtype)

    @classmethod
    def from_pretrained(cls, folder: str | Path, device: torch.device | str = "cpu") -> Synthesizer:
        """A model that `save_pretrained` wrote, or the package's (`shipped`), in float32 and ready for inference.

        Raises KarelsynthError if it cannot be.
        """
        device = usable_device(device)
        settings, weights = load_model(folder)
        model = cls(settings)
        model.load_state_dict(weights.checked({name: value.shape for name, value in model.state_dict().items()}))
        return model.to(device).eval()
