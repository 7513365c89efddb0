"""The networks: the paper's encoder, decoder and syntax models. They know nothing of task files or training."""

from __future__ import annotations

from karelsynth.model.packing import PackedPrograms, pack_programs
from karelsynth.model.settings import ModelSettings
from karelsynth.model.synthesizer import Encoded, Synthesizer

__all__ = ["Encoded", "ModelSettings", "PackedPrograms", "Synthesizer", "pack_programs"]
