"""Small models and random input for them, shared by the tests."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from karelsynth.karel.machine import encode_programs
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import PAD
from karelsynth.model import ModelSettings, Synthesizer
from karelsynth.model.lstm import LSTMDecoder
from karelsynth.model.prefix_trie import PrefixTrie
from tests.strategies import random_program, random_world

torch.set_num_threads(1)  # models this small only lose time by sharing out their work

TINY = ModelSettings(channels=2, blocks=1, code_size=12, embedding_size=6, hidden_size=10, syntax_size=7, max_length=40)


def tiny_model(seed: int = 0, scale: float = 3, **settings: Any) -> Synthesizer:
    """A random model. Weights that are larger than at the start of training give distributions that are not flat."""
    torch.manual_seed(seed)
    model = Synthesizer(replace(TINY, **settings))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


def lstm_of(model: Synthesizer) -> LSTMDecoder:
    """A model's decoder, which is an LSTM."""
    assert isinstance(model.decoder, LSTMDecoder)
    return model.decoder


def execution_model(seed: int = 0, scale: float = 3, **settings: Any) -> Synthesizer:
    """A random model that sees where programs lead."""
    return tiny_model(seed, scale, **({"execution": True, "execution_size": 9} | settings))


def random_grids(seed: int, *shape: int) -> tuple[Tensor, Tensor]:
    """Cell codes of random worlds, twice uint8 [*shape, 18, 18]."""
    rng = random.Random(seed)
    codes = np.stack([random_world(rng).to_codes() for _ in range(2 * int(np.prod(shape)))])
    inputs, outputs = torch.from_numpy(codes.reshape(2, *shape, 18, 18))
    return inputs, outputs


def random_programs(seed: int, count: int, longest: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Token ids [count, L] of random programs with at most `longest` tokens, and their lengths."""
    rng = random.Random(seed)
    programs: list[Program] = []
    while len(programs) < count:
        program = random_program(rng, depth=rng.randint(0, 2))
        if len(program.token_ids) <= longest:
            programs.append(program)
    tokens = encode_programs(programs)
    return tokens, (tokens != PAD).sum(1)


def plain_recurrence(trie: PrefixTrie, gates: Tensor, matrix: Tensor, h: Tensor, c: Tensor) -> Tensor:
    """What `lstm_training.run_layer` computes over a trie with sharing, differentiated by PyTorch."""
    assert trie.shared is not None
    size, examples = len(h), gates.shape[1]
    above: Tensor = h.expand(1, examples, size)
    cell: Tensor = c.expand(1, examples, size).float()
    outputs, sizes = [], list(trie.sizes)
    for own, parents in zip(gates.split(sizes), trie.shared.parents.split(sizes), strict=True):  # type: ignore[no-untyped-call]
        whole = (own + (above @ matrix).index_select(0, parents)).float()
        i, f, o = whole[..., : 3 * size].sigmoid().chunk(3, dim=-1)
        cell = f * cell.index_select(0, parents) + i * whole[..., 3 * size :].tanh()
        above = (o * cell.tanh()).to(gates.dtype)
        outputs.append(above)
    return torch.cat(outputs)
