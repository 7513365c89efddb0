"""The learned syntax beside the handwritten one, token by token: the paper's figure of masks.

Along a program, the handwritten syntax says of every token whether it may come next: 0 or 1. The learned one takes
exp(score) off the token's logit, which multiplies its odds by exp(−exp(score)): a number from 0 to 1 that says how far
it lets the token pass. The two differ where a valid token is refused (red, which the decoder cannot make good) or an
invalid one passes (blue, which it can).

A `MaskTable` holds that for the positions of one program, or for all positions of many, averaged by the token that
was read last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.errors import KarelsynthError
from karelsynth.karel.syntax import syntax_machine
from karelsynth.karel.tokens import TOKENS, VOCABULARY_SIZE
from karelsynth.reproduce.intervals import ratio_interval

if TYPE_CHECKING:
    from karelsynth.karel.program import Program
    from karelsynth.model.synthesizer import Synthesizer

_LEVELS: Final = 255
_CHUNK: Final = 500
"""Programs at a time: a batch of masks is float32 [P, 52]."""
_PARTS: Final = ("handwritten", "learned", "refused", "passed")


@dataclass(frozen=True)
class MaskTable:
    """Two masks side by side at C places; all shares are from 0 to 1."""

    places: tuple[str, ...]
    """C labels: the token that was read last."""
    handwritten: NDArray[np.float64]
    """[C, 52]: the share of positions where the token is valid."""
    learned: NDArray[np.float64]
    """[C, 52]: how far the learned syntax lets it pass, on average."""
    refused: NDArray[np.float64]
    """[C, 52]: how much of it is refused although valid, on average."""
    passed: NDArray[np.float64]
    """[C, 52]: how much of it passes although invalid."""

    def to_json(self) -> dict[str, Any]:
        """As text: a line for each place, two hexadecimal digits for each token."""
        rows = {name: [_hex(row) for row in getattr(self, name)] for name in _PARTS}
        return {"places": list(self.places), **rows}

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> MaskTable:
        """What `to_json` gave, in 256 levels."""
        try:
            places = tuple(map(str, record["places"]))
            parts = [np.array([list(bytes.fromhex(row)) for row in record[name]]) / _LEVELS for name in _PARTS]
        except (KeyError, TypeError, ValueError) as error:
            raise KarelsynthError(f"the masks cannot be read ({error}); measure them again") from None
        if any(part.shape != (len(places), VOCABULARY_SIZE) for part in parts):
            raise KarelsynthError(f"the masks do not have {len(places)} places × {VOCABULARY_SIZE} tokens")
        return MaskTable(places, *parts)


def masks_along(model: Synthesizer, program: Program) -> MaskTable:
    """Both masks before every token of a program."""
    ids = program.token_ids
    valid, passes, last = _masks(model, np.array([ids], np.uint8), np.array([len(ids)]))
    return MaskTable(tuple(TOKENS[number] for number in last), *_shares(valid, passes))


def masks_over(model: Synthesizer, tokens: NDArray[np.uint8], lengths: NDArray[np.integer]) -> dict[str, Any]:
    """Both masks over all positions of programs [N, L]: a table by the token read last, and what it comes to.

    As plain data: "table"; "positions"; "valid_refused" and "invalid_passed", the mean amounts in percent;
    "reference_refused", the same of the tokens that the programs really go on with; and "confidence_95" of the three.
    """
    sums = np.zeros((4, VOCABULARY_SIZE, VOCABULARY_SIZE))
    counts = np.zeros(VOCABULARY_SIZE)
    parts: dict[str, list[NDArray[np.float64]]] = {name: [] for name in ("valid", "refused", "passed", "reference")}
    for at in range(0, len(tokens), _CHUNK):
        part, sizes = tokens[at : at + _CHUNK], lengths[at : at + _CHUNK]
        valid, passes, last = _masks(model, part, sizes)
        shares = _shares(valid, passes)
        for total, share in zip(sums, shares, strict=True):
            np.add.at(total, last, share)
        counts += np.bincount(last, minlength=VOCABULARY_SIZE)
        begins = np.cumsum(sizes, dtype=np.int64) - sizes.astype(np.int64)
        kept = passes[np.arange(len(last)), _targets(part, sizes)]
        per_position = (shares[0].sum(1), shares[2].sum(1), shares[3].sum(1), 1 - kept)
        for found, values in zip(parts.values(), per_position, strict=True):
            found.append(np.add.reduceat(values, begins))
    seen = np.flatnonzero(counts)
    table = MaskTable(tuple(TOKENS[number] for number in seen), *(sums[:, seen] / counts[seen][:, None]))
    of = {name: np.concatenate(found) for name, found in parts.items()}
    steps = lengths.astype(np.float64)
    figures = {
        "valid_refused": ratio_interval(of["refused"], of["valid"]),
        "invalid_passed": ratio_interval(of["passed"], steps * VOCABULARY_SIZE - of["valid"]),
        "reference_refused": ratio_interval(of["reference"], steps),
    }
    return {
        "table": table.to_json(),
        "positions": int(counts.sum()),
        **{name: round(found.middle, 4) for name, found in figures.items()},
        "confidence_95": {name: [round(found.low, 4), round(found.high, 4)] for name, found in figures.items()},
    }


def _masks(
    model: Synthesizer, tokens: NDArray[np.uint8], lengths: NDArray[np.integer]
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.int64]]:
    """At all P positions of some programs, program by program: valid [P, 52], passes [P, 52], the last token [P]."""
    import torch

    if model.syntax is None:
        raise KarelsynthError("this model has no learned syntax: there is no mask to compare")
    packed = model.pack(tokens, lengths, syntax_machine())  # so long that no program here comes near its limit
    assert packed.admitted is not None
    with torch.no_grad():
        penalties = model.syntax_penalties(packed)
    assert penalties is not None
    passes = (-penalties).exp()
    order = torch.argsort(packed.programs, stable=True)  # packed by step; wanted by program, each in its order
    valid, shares, last = (part[order].cpu().numpy() for part in (packed.admitted, passes, packed.tokens))
    return valid, shares.astype(np.float64), last


def _shares(valid: NDArray[np.bool_], passes: NDArray[np.float64]) -> Sequence[NDArray[np.float64]]:
    return valid.astype(np.float64), passes, valid * (1 - passes), ~valid * passes


def _targets(tokens: NDArray[np.uint8], lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """The tokens of all programs, one after the other."""
    flat: NDArray[np.int64] = tokens[np.arange(tokens.shape[1]) < lengths[:, None]].astype(np.int64)
    return flat


def _hex(row: NDArray[np.float64]) -> str:
    return bytes(np.rint(row * _LEVELS).astype(np.uint8)).hex()
