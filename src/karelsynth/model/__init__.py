"""The networks: the paper's encoder, decoder and syntax models. They know nothing of task files or training."""

from __future__ import annotations

from karelsynth.errors import naming_extras

with naming_extras():
    from karelsynth.model.decoder import Decoder, StepDecoder, StepTasks, register_decoder
    from karelsynth.model.prefix_trie import PrefixTrie, pack_programs, pack_trie
    from karelsynth.model.settings import ModelSettings
    from karelsynth.model.synthesizer import Encoded, Synthesizer

__all__ = [
    "Decoder",
    "Encoded",
    "ModelSettings",
    "PrefixTrie",
    "StepDecoder",
    "StepTasks",
    "Synthesizer",
    "pack_programs",
    "pack_trie",
    "register_decoder",
]
