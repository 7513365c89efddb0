"""Evaluation of a synthesizer: the paper's measures and later ones, in one report.

    report = evaluate(model, tasks, beam=64)
    report.to_json()["generalization"]["1"]

At rank k a task counts if any of the k top-ranked programs qualifies. *Exact*: it is the reference program.
*Consistent*: correct on the given examples. *Generalization*: correct on all examples, held-out ones too. *Syntax*: it
parses. Both protocols are reported: *unfiltered*, the paper's, takes the top-ranked program; *filtered*, that of later
work, takes the top-ranked program that is consistent. Figures are percent with Wilson's 95 % interval. Ranks beyond the
beam width equal the beam's last.
"""

from __future__ import annotations

import math
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from karelsynth._version import __version__
from karelsynth.errors import KarelsynthError
from karelsynth.karel.syntax import SyntaxMachine
from karelsynth.karel.threads import core_count
from karelsynth.model.decoder import StepModel
from karelsynth.model.devices import decoding_dtype
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.search import Candidates, beam_search, check
from karelsynth.search.beam import encode_for_search
from karelsynth.tasks.batch import GIVEN_EXAMPLES, TaskBatch

RANKS: Final = (1, 5, 50, 100)
MEASURES: Final = ("generalization", "exact", "consistent", "syntax")
SOLVED: Final = {"generalization": "solved", "exact": "written"}
"""By measure, the key of a report's bits per task."""
PAIRED: Final = (1, 5, 50)
"""Ranks with bits per task, for paired comparisons."""
_BATCH: Final = {"cuda": 512, "cpu": 64}


@dataclass(frozen=True)
class Judged:
    """Which candidates of N tasks qualify, in the order of their rank."""

    exact: NDArray[np.bool_]
    """[N, S]."""
    generalization: NDArray[np.bool_]
    consistent: NDArray[np.bool_]
    syntax: NDArray[np.bool_]
    filled: NDArray[np.bool_]
    """[N, S]: whether the slot holds a candidate."""

    def __getitem__(self, rows: NDArray[np.bool_]) -> Judged:
        return Judged(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Report:
    """The result of an evaluation."""

    judged: Judged
    novel: NDArray[np.bool_]
    """[N]: tasks whose program is in no training set."""
    beam: int
    seconds: float
    provenance: dict[str, Any]
    digest: str
    """`TaskBatch.digest` of the tasks. Reports with the same digest can be compared task by task."""

    def by_task(self) -> dict[str, Any]:
        """The digest and, by rank, which tasks count as generalized (`solved`) and exact (`written`); see `from_bits`.

        Not part of `to_json`, since its length grows with the number of tasks.
        """
        bits = {
            key: {str(rank): as_bits(np.any(getattr(self.judged, measure)[:, :rank], axis=1)) for rank in PAIRED}
            for measure, key in SOLVED.items()
        }
        return {"digest": self.digest, **bits}

    def to_json(self) -> dict[str, Any]:
        """Measures by rank in percent, the same for novel programs, time per task, and provenance."""
        return {
            **_measures(self.judged),
            "novel": _measures(self.judged[self.novel]),
            "beam": self.beam,
            "seconds_per_task": self.seconds / max(1, len(self.novel)),
            "provenance": self.provenance,
        }


def evaluate(
    model: Synthesizer,
    tasks: TaskBatch,
    *,
    beam: int = 64,
    given: int = GIVEN_EXAMPLES,
    machine: SyntaxMachine | None = None,
    batch_size: int | None = None,
    provenance: dict[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Decode every task by beam search and score the candidates.

    Args:
        given: how many examples the model sees; the others are held out.
        machine: a syntax constraint for models without one.
        progress: callback, called with the number of further tasks done.
    """
    examples = tasks.inputs.shape[1]
    if not given < examples:
        raise KarelsynthError(
            f"the tasks have {examples} examples: at most {examples - 1} can be given, so that one is held out; "
            "choose how many with `--given` (`given` in Python)"
        )
    if not len(tasks):
        raise KarelsynthError("there is no task to evaluate on")
    model.eval()
    weights = model.step_model(decoding_dtype(model.device))
    size = batch_size or _BATCH.get(model.device.type, 16)
    parts = []
    start = time.perf_counter()
    for at in range(0, len(tasks), size):
        part = tasks[at : at + size]
        found = decode(model, part, beam=beam, given=given, machine=machine, weights=weights)
        parts.append(_judge(part, found, given))
        if progress is not None:
            progress(len(part))
    seconds = time.perf_counter() - start
    judged = Judged(*(np.concatenate([getattr(part, name) for part in parts]) for name in Judged.__dataclass_fields__))
    # A decoder that executes its programs is not "unfiltered" in the paper's sense: the report says so.
    how = {
        "decoding": "execution-guided" if model.settings.execution else "unfiltered",
        "precision": str(decoding_dtype(model.device)).removeprefix("torch."),
    }
    sources = {**environment(model.device), **how, **(provenance or {})}
    return Report(judged, np.asarray(tasks.novel), beam, seconds, sources, tasks.digest)


def decode(
    model: Synthesizer,
    tasks: TaskBatch,
    *,
    beam: int,
    given: int = GIVEN_EXAMPLES,
    machine: SyntaxMachine | None = None,
    weights: StepModel | None = None,
) -> Candidates:
    """The likeliest programs for some tasks, on the host; `weights`: the model's `step_model`, where it is at hand."""
    encoded = encode_for_search(model, *(np.asarray(worlds[:, :given]) for worlds in (tasks.inputs, tasks.outputs)))
    return beam_search(model, encoded, beam=beam, machine=machine, weights=weights).cpu()


def _judge(tasks: TaskBatch, candidates: Candidates, given: int) -> Judged:
    outcomes = check(candidates, np.asarray(tasks.inputs), np.asarray(tasks.outputs), given=given)
    tokens, lengths = candidates.tokens.numpy(), candidates.lengths.numpy()
    width = min(tokens.shape[2], tasks.tokens.shape[1])
    same = (tokens[:, :, :width] == tasks.tokens[:, None, :width]).all(2)
    exact = same & (lengths == tasks.lengths[:, None])
    filled = lengths > 0
    return Judged(exact, outcomes.generalizes & filled, outcomes.consistent & filled, outcomes.syntax & filled, filled)


def _measures(judged: Judged) -> dict[str, Any]:
    count = len(judged.exact)
    found: dict[str, Any] = {"tasks": count}
    if not count:
        return found
    intervals: dict[str, Any] = {}
    for name in MEASURES:
        hits = getattr(judged, name)
        at_rank = {str(rank): int(hits[:, :rank].any(1).sum()) for rank in RANKS}
        found[name] = {rank: percent(number, count) for rank, number in at_rank.items()}
        intervals[name] = {rank: interval(number, count) for rank, number in at_rank.items()}
    first = judged.consistent.argmax(1)
    filtered = int((judged.consistent.any(1) & judged.generalization[np.arange(count), first]).sum())
    found["filtered_generalization"] = percent(filtered, count)
    intervals["filtered_generalization"] = interval(filtered, count)
    any_consistent = int(judged.consistent.any(1).sum())
    found["any_consistent"] = percent(any_consistent, count)
    intervals["any_consistent"] = interval(any_consistent, count)
    # The paper's table of syntax counts programs, not tasks.
    found["syntax_share"] = {
        str(rank): percent(int(judged.syntax[:, :rank].sum()), max(1, int(judged.filled[:, :rank].sum())))
        for rank in RANKS
    }
    found["confidence_95"] = intervals
    return found


def as_bits(values: NDArray[np.bool_]) -> str:
    """Truth values as hexadecimal digits."""
    return np.packbits(values).tobytes().hex()


def from_bits(digits: str, count: int) -> NDArray[np.bool_]:
    """The inverse of `as_bits`: `from_bits(report["solved"]["1"], report["tasks"])` of a report as JSON."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(digits), np.uint8), count=count).astype(bool)


def percent(number: int, count: int) -> float:
    """Rounded to two decimals, as in the paper."""
    return round(100 * number / count, 2)


def interval(number: int, count: int, z: float = 1.96) -> list[float]:
    """Wilson's 95 % confidence interval of a share, in percent."""
    share = number / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return [round(100 * max(0.0, middle - half), 2), round(100 * min(1.0, middle + half), 2)]


def environment(device: torch.device) -> dict[str, Any]:
    """Versions, commit and machine."""
    name = (
        torch.cuda.get_device_name(device) if device.type == "cuda" else f"{core_count()} cores, {platform.machine()}"
    )
    return {
        "karelsynth": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": name,
        "commit": _commit(),
    }


def _commit() -> str | None:
    """The commit of karelsynth's source tree, if this runs from one; not that of a project that installed it."""
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)
        return _git("describe", "--always", "--dirty", "--abbrev=12")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    folder = Path(__file__).parent
    ran = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    return ran.stdout.strip()
