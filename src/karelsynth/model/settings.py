"""The settings of a synthesizer. The defaults are those of the paper's appendix."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from karelsynth.errors import KarelsynthError, listed, names_hint
from karelsynth.generator.sampler import MAX_TOKENS
from karelsynth.karel.formats.codes import SIDE
from karelsynth.karel.machine import LONGEST_PROGRAM

if TYPE_CHECKING:
    from collections.abc import Mapping

SYNTAX_MODES: Final = ("none", "handwritten", "learned")
_SMALLEST: Final = {"max_length": 5, "head_size": 0}
"""Smallest values other than 1. The shortest program has five tokens."""
_LARGEST: Final = 2**31 - 1
"""Far beyond any memory. Torch reports the lack of memory for all sizes up to this."""
_RETIRED: Final = {"code_stride": 1}
"""Removed settings with the value that had no effect. Files that hold this value still load."""
_RENAMED: Final = {"choices": "skip_forced_tokens", "hero_frame": "egocentric"}
"""Old names of settings. Files that hold them still load."""


@dataclass(frozen=True)
class ModelSettings:
    """The sizes of the networks and the kinds of their parts. Checked when made."""

    syntax: str = "none"
    """`none`; `handwritten`: tokens that no valid program continues with get −∞; `learned`: a syntax LSTM."""
    decoder: str = "lstm"
    """The decoder's name: `lstm`, `transformer`, or one that was registered (`karelsynth.model.register_decoder`)."""
    skip_forced_tokens: bool = False
    """Whether the decoder skips tokens that the grammar forces, such as `c(` after WHILE: two fifths of all tokens. The
    handwritten syntax, which the model must have, inserts them."""
    channels: int = 32
    """Channels of each grid before the two are concatenated."""
    blocks: int = 2
    """Residual blocks."""
    code_size: int = 512
    """The code of an input-output pair."""
    patch: int = 1
    """The side of the squares of cells that the encoder's convolutions treat as one. 2 turns 18 × 18 cells into 9 × 9
    squares with four times the planes: a quarter of the convolutions' work."""
    normalise_code: bool = False
    """Whether the code is normalised (LayerNorm). The paper's is not, and needs a low learning rate."""
    egocentric: bool = False
    """Whether the encoder sees both grids from the view of the input's hero: see `encoder.EgocentricView`."""
    execution: bool = False
    """Whether the decoder sees the state each example is in after the prefix: see `karelsynth.model.prefix_runner`."""
    execution_size: int = 256
    """The width of the encoded execution features of each example."""
    embedding_size: int = 256
    """A token's embedding."""
    hidden_size: int = 256
    """The hidden size of the decoder's layers."""
    syntax_size: int = 256
    """The hidden size of the syntax LSTM's layers."""
    layers: int = 2
    """How many layers the decoder and the syntax LSTM have."""
    mixing: bool = False
    """Whether the decoder's layers above the first also see the maximum over the examples of the layer below."""
    head_size: int = 0
    """Above 0, there is a layer of this width between the maximum over the examples and the tokens' scores."""
    max_length: int = MAX_TOKENS
    """Tokens of the longest program that decoding writes and the handwritten syntax admits."""

    def __post_init__(self) -> None:
        if self.syntax not in SYNTAX_MODES:
            raise KarelsynthError(f"model setting `syntax` is {listed(SYNTAX_MODES)}, not {self.syntax!r}")
        if self.skip_forced_tokens and self.syntax != "handwritten":
            raise KarelsynthError(
                "model setting `skip_forced_tokens` needs the handwritten syntax: `syntax` must be `handwritten`, "
                f"not {self.syntax!r}"
            )
        if type(self.patch) is int and self.patch > 0 and SIDE % self.patch:
            raise KarelsynthError(f"model setting `patch` must divide {SIDE}, the grid's side; {self.patch} does not")
        for field in fields(self):
            if (wrong := _wrong(field.name, type(field.default), getattr(self, field.name))) is not None:
                raise KarelsynthError(f"model setting `{field.name}` is {wrong}")

    @staticmethod
    def from_dict(values: dict[str, Any]) -> ModelSettings:
        """Settings by name. Raises KarelsynthError for an unknown name and suggests the nearest known one."""
        values, known = current_settings(values), [field.name for field in fields(ModelSettings)]
        for name in values:
            if name not in known:
                raise KarelsynthError(f"there is no model setting `{name}`; {names_hint(name, known)}")
        return ModelSettings(**values)


def current_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of an older file under their current names, without removed ones that had no effect."""
    kept = {name: value for name, value in values.items() if name not in _RETIRED or value != _RETIRED[name]}
    return {_RENAMED.get(name, name): value for name, value in kept.items()}


def _wrong(name: str, kind: type, value: Any) -> str | None:
    """What a setting, whose default is of some kind, should be, if its value is wrong; None if it is right.

    Whole numbers are sizes and counts. Settings of other kinds than these four need checks of their own.
    """
    if kind is bool:
        return None if type(value) is bool else f"true or false, not {value!r}"
    if kind is str:
        return None if isinstance(value, str) else f"a string, not {value!r}"
    if kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if number and math.isfinite(value) else f"a finite number, not {value!r}"
    if kind is int:
        least, most = _SMALLEST.get(name, 1), LONGEST_PROGRAM if name == "max_length" else _LARGEST
        if type(value) is int and value > most:
            return f"at most {most:,}, not {value:,}"
        return None if type(value) is int and value >= least else f"a whole number from {least}, not {value!r}"
    return None
