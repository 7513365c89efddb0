"""What the learned syntax does: valid programs with and without it, and its mask beside the handwritten one.

*Validity* is the paper's table *Importance of Syntax*. The same weights write programs twice, with the syntax LSTM and
without it. The table counts the programs that parse among the k top-ranked ones of every task.

*Masks* are the paper's figure *Syntax Comparison*. Before every token of a program, the handwritten syntax gives each
token a mask of 0 or 1. The learned syntax subtracts exp(score) from the token's logit. This multiplies the token's odds
by exp(−exp(score)), a soft mask from 0 to 1. The two differ where a valid token is refused (red; the decoder cannot
repair this) or an invalid token is admitted (blue; the decoder can).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from karelsynth import charts
from karelsynth.errors import KarelsynthError
from karelsynth.evaluate import RANKS, Judged, evaluate, interval, percent
from karelsynth.karel.syntax import syntax_machine
from karelsynth.karel.tokens import TOKENS, VOCABULARY_SIZE
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.reproduce.intervals import ratio_interval
from karelsynth.tasks.batch import TaskBatch

if TYPE_CHECKING:
    from karelsynth.karel.program import Program

BEAM: Final = max(RANKS)
"""The beam width of the table of valid programs."""
_LEVELS: Final = 255
_PARTS: Final = ("handwritten", "learned", "refused", "passed")
_DARK, _WHITE, _RED, _BLUE = ((0.12, 0.16, 0.23), (1.0, 1.0, 1.0), (0.78, 0.12, 0.23), (0.15, 0.39, 0.92))


def validity(model: Synthesizer, tasks: TaskBatch) -> dict[str, Any]:
    """The share of valid programs by rank, with its interval: {"joint": …, "without": …}, in percent."""
    return {
        name: shares(evaluate(variant, tasks, beam=BEAM).judged)
        for name, variant in (("joint", model), ("without", without_syntax(model)))
    }


def without_syntax(model: Synthesizer) -> Synthesizer:
    """The same weights without the syntax LSTM."""
    if model.syntax is None:
        raise KarelsynthError("this model has no learned syntax to remove")
    bare = Synthesizer(replace(model.settings, syntax="none"))
    bare.load_state_dict({name: value for name, value in model.state_dict().items() if not name.startswith("syntax.")})
    return bare.to(model.device).eval()


def shares(judged: Judged) -> dict[str, Any]:
    """By rank {"share", "confidence_95", "programs"}: valid programs among all candidates.

    Candidates of one task are correlated. So the interval counts a task, not a program, as one observation, which is
    conservative.
    """
    tasks = len(judged.filled)
    found = {}
    for rank in RANKS:
        valid, written = (int(part[:, :rank].sum()) for part in (judged.syntax, judged.filled))
        share = valid / max(1, written)
        found[str(rank)] = {
            "share": percent(valid, max(1, written)),
            "confidence_95": interval(round(share * tasks), tasks),
            "programs": written,
        }
    return found


@dataclass(frozen=True)
class MaskTable:
    """Both masks at C places: the positions of one program, or all positions of many, averaged by the last token.

    All values are from 0 to 1.
    """

    places: tuple[str, ...]
    """C labels: the token that was read last."""
    handwritten: NDArray[np.float64]
    """[C, 52]: the share of positions where the token is valid."""
    learned: NDArray[np.float64]
    """[C, 52]: the mean of the learned mask."""
    refused: NDArray[np.float64]
    """[C, 52]: the mean of 1 − learned mask where the token is valid, 0 elsewhere."""
    passed: NDArray[np.float64]
    """[C, 52]: the mean of the learned mask where the token is invalid, 0 elsewhere."""

    def to_json(self) -> dict[str, Any]:
        """As JSON: a string for each place with two hexadecimal digits for each token."""
        rows = {name: [_hex(row) for row in getattr(self, name)] for name in _PARTS}
        return {"places": list(self.places), **rows}

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> MaskTable:
        """The table of `to_json`, in 256 levels."""
        try:
            places = tuple(map(str, record["places"]))
            parts = [np.array([list(bytes.fromhex(row)) for row in record[name]]) / _LEVELS for name in _PARTS]
        except (KeyError, TypeError, ValueError) as error:
            raise KarelsynthError(f"the masks cannot be read ({error}); measure them again") from None
        if any(part.shape != (len(places), VOCABULARY_SIZE) for part in parts):
            raise KarelsynthError(f"the masks do not have {len(places)} places × {VOCABULARY_SIZE} tokens")
        return MaskTable(places, *parts)


def masks_of_program(model: Synthesizer, program: Program) -> MaskTable:
    """Both masks before every token of a program."""
    ids = program.token_ids
    valid, passes, last = _masks(model, np.array([ids], np.uint8), np.array([len(ids)]))
    return MaskTable(tuple(TOKENS[number] for number in last), *_shares(valid, passes))


def masks_over(
    model: Synthesizer, tokens: NDArray[np.uint8], lengths: NDArray[np.integer], *, batch_size: int = 500
) -> dict[str, Any]:
    """Both masks over all positions of programs [N, L]: a table by the last token, and summary figures.

    Keys: "table"; "positions"; "valid_refused" and "invalid_passed", the means in percent; "reference_refused", the
    mean of 1 − learned mask at the programs' own next tokens; and "confidence_95" of the three.
    """
    sums = np.zeros((4, VOCABULARY_SIZE, VOCABULARY_SIZE))
    counts = np.zeros(VOCABULARY_SIZE)
    parts: dict[str, list[NDArray[np.float64]]] = {name: [] for name in ("valid", "refused", "passed", "reference")}
    for at in range(0, len(tokens), batch_size):
        part, sizes = tokens[at : at + batch_size], lengths[at : at + batch_size]
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
    packed = model.pack(tokens, lengths, syntax_machine())  # no length limit that matters here
    assert packed.admitted is not None
    with torch.no_grad():
        penalties = model.syntax_penalties(packed)
    assert penalties is not None
    passes = (-penalties).exp()
    order = torch.argsort(packed.programs, stable=True)  # from step order to program order
    valid, shares, last = (part[order].cpu().numpy() for part in (packed.admitted, passes, packed.tokens))
    return valid, shares.astype(np.float64), last


def _shares(valid: NDArray[np.bool_], passes: NDArray[np.float64]) -> Sequence[NDArray[np.float64]]:
    return valid.astype(np.float64), passes, valid * (1 - passes), ~valid * passes


def _targets(tokens: NDArray[np.uint8], lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """The tokens of all programs, concatenated."""
    flat: NDArray[np.int64] = tokens[np.arange(tokens.shape[1]) < lengths[:, None]].astype(np.int64)
    return flat


def _hex(row: NDArray[np.float64]) -> str:
    return bytes(np.rint(row * _LEVELS).astype(np.uint8)).hex()


def masks_chart(table: MaskTable, title: str) -> str:
    """SVG: both masks and their difference. Columns are places, rows are possible next tokens."""
    panels = {
        "handwritten": _blend(table.handwritten, _DARK, _WHITE),
        "learned": _blend(table.learned, _DARK, _WHITE),
        "difference": differences(table),
    }
    figure, axes = charts.panels(150 + 38 * len(table.places), 850, columns=3, title=title, sharey=True)
    for panel, (name, colours) in zip(axes, panels.items(), strict=True):
        charts.heatmap(panel, colours.swapaxes(0, 1), TOKENS, table.places)
        panel.set_title(name)
    legend = {"admitted": _WHITE, "refused": _DARK, "valid, yet refused": _RED, "invalid, yet admitted": _BLUE}
    charts.colour_legend(figure, legend)
    digest = hashlib.sha256(json.dumps(table.to_json()).encode()).hexdigest()[:16]
    description = (
        "Columns: the last token; rows: possible next tokens. "
        f"Places: {' '.join(table.places)}. Digest of the data: {digest}."
    )
    return charts.chart_svg(figure, title=title, description=description)


def differences(table: MaskTable) -> NDArray[np.float64]:
    """RGB [C, 52, 3]: red where valid tokens are refused, blue where invalid ones are admitted, white elsewhere."""
    red, blue = _blend(table.refused, _WHITE, _RED), _blend(table.passed, _WHITE, _BLUE)
    return np.where((table.refused >= table.passed)[:, :, None], red, blue)


def _blend(share: NDArray[np.float64], none: Sequence[float], whole: Sequence[float]) -> NDArray[np.float64]:
    """RGB [C, 52, 3]: from one colour to another by shares [C, 52]."""
    first, last = np.array(none), np.array(whole)
    blended: NDArray[np.float64] = first + share[:, :, None] * (last - first)
    return blended
