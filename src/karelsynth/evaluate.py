"""Evaluation of a synthesizer: the paper's measures and later ones, in one report.

    report = evaluate(model, tasks, beam=64)      # a Synthesizer
    report = evaluate(my_function, "test")        # or any function from examples to programs
    report = evaluate([["def run(): move()"], …], tasks)    # or programs themselves, a list for each task
    print(report)                                 # both protocols in one line
    report.to_json()["generalization"]["1"]

At rank k a task counts if any of the k top-ranked programs qualifies. *Exact*: it is the reference program.
*Consistent*: correct on the given examples. *Generalization*: correct on all examples, held-out ones too. *Syntax*: it
parses. Both protocols are reported: *unfiltered*, the paper's, takes the top-ranked program; *filtered*, that of later
work, takes the top-ranked program that is consistent. Figures are percent with Wilson's 95 % interval. Ranks beyond the
beam width equal the beam's last.

Torch is imported only for models that need it.
"""

from __future__ import annotations

import math
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from karelsynth._version import __version__
from karelsynth.callable_module import make_callable
from karelsynth.cluster import Mapper
from karelsynth.errors import KarelsynthError, checked_int, quoted
from karelsynth.karel.machine import LONGEST_PROGRAM, encode_programs
from karelsynth.karel.program import Program
from karelsynth.karel.threads import core_count
from karelsynth.karel.tokens import NO_TOKEN, PAD
from karelsynth.tasks.batch import GIVEN_EXAMPLES, GivenExamples, TaskBatch, run_candidates
from karelsynth.tasks.sets import Scoring, load_tasks, scoring_of

if TYPE_CHECKING:
    import torch

    from karelsynth.karel.syntax import SyntaxMachine
    from karelsynth.model.decoder import StepModel
    from karelsynth.model.synthesizer import Synthesizer
    from karelsynth.search.candidates import Candidates

RANKS: Final = (1, 5, 50, 100)
MEASURES: Final = ("generalization", "exact", "consistent", "syntax")
SOLVED: Final = {"generalization": "solved", "exact": "written"}
"""By measure, the key of a report's bits per task."""
PAIRED: Final = (1, 5, 50)
"""Ranks with bits per task, for paired comparisons."""
FILTERED: Final = "filtered"
"""The key of a report's bits per task by the filtered protocol, at rank 1."""
_BATCH: Final = {"cuda": 512, "cpu": 64}
_BATCH_WITH_EXECUTION: Final = {"cuda": 4096}
"""The same for models that run prefixes. On a GPU, a task takes the place of one that has ended (`beam_search`)."""
SUBMITTED: Final = "submitted"
"""How programs from outside were decoded: in the order of their submission."""

AnyProgram = Program | str | Sequence[int]
"""A program: as such, as text in any dialect, or as token ids. One that does not parse is wrong."""
ProgramSource = Callable[[GivenExamples], Sequence[Sequence[AnyProgram]]]
"""From the given examples of N tasks to N lists of programs, best first."""


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
        return Judged(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def filtered(self) -> NDArray[np.bool_]:
        """[N]: whether the top-ranked consistent program generalizes."""
        first = self.consistent.argmax(1)
        found: NDArray[np.bool_] = self.consistent.any(1) & self.generalization[np.arange(len(first)), first]
        return found

    @staticmethod
    def joined(parts: Sequence[Judged]) -> Judged:
        """The tasks of all parts; where a part has fewer slots, the others are empty."""
        slots = max(part.filled.shape[1] for part in parts)

        def padded(values: NDArray[np.bool_]) -> NDArray[np.bool_]:
            return np.pad(values, ((0, 0), (0, slots - values.shape[1])))

        return Judged(
            *(np.concatenate([padded(getattr(part, field.name)) for part in parts]) for field in fields(Judged))
        )


@dataclass(frozen=True)
class Report:
    """The result of an evaluation."""

    judged: Judged
    novel: NDArray[np.bool_]
    """[N]: tasks whose program is in no training set."""
    beam: int
    """The most programs of a task."""
    seconds: float | None
    """The time that the synthesizer took for all tasks; None if it is not known."""
    provenance: dict[str, Any]
    digest: str
    """`TaskBatch.digest` of the tasks. Reports with the same digest can be compared task by task."""

    def __str__(self) -> str:
        """Both protocols in one line."""
        found = self.to_json()
        low, high = found["confidence_95"]["generalization"]["1"]
        low_filtered, high_filtered = found["confidence_95"]["filtered_generalization"]
        seconds = found["seconds_per_task"]
        return (
            f"{self.provenance['decoding']} top-1 generalization {found['generalization']['1']:.2f} % "
            f"(95 %: {low:.2f} to {high:.2f}), "
            f"filtered {found['filtered_generalization']:.2f} % ({low_filtered:.2f} to {high_filtered:.2f}), "
            f"some consistent program for {found['any_consistent']:.2f} %"
            + ("" if seconds is None else f", {seconds:.4f} s a task")
        )

    def by_task(self) -> dict[str, Any]:
        """The digest and, by rank, which tasks count as generalized (`solved`) and exact (`written`); see `from_bits`.

        `filtered` has the tasks that count by the filtered protocol.
        Not part of `to_json`, since its length grows with the number of tasks.
        """
        bits = {
            key: {str(rank): as_bits(np.any(getattr(self.judged, measure)[:, :rank], axis=1)) for rank in PAIRED}
            for measure, key in SOLVED.items()
        }
        return {"digest": self.digest, **bits, FILTERED: {"1": as_bits(self.judged.filtered)}}

    def to_json(self) -> dict[str, Any]:
        """Measures by rank in percent, the same for novel programs, time per task, and provenance."""
        return {
            **_measures(self.judged),
            "novel": _measures(self.judged[self.novel]),
            "beam": self.beam,
            "seconds_per_task": None if self.seconds is None else self.seconds / max(1, len(self.novel)),
            "provenance": self.provenance,
        }


def evaluate(
    synthesizer: Synthesizer | str | Path | ProgramSource | Sequence[Sequence[AnyProgram]],
    tasks: TaskBatch | str | Path,
    *,
    beam: int = 64,
    given: int | None = None,
    max_ticks: int | None = None,
    limit: int | None = None,
    machine: SyntaxMachine | None = None,
    batch_size: int | None = None,
    provenance: dict[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
    mapper: Mapper = map,
) -> Report:
    """Find programs for every task and score them.

    Args:
        synthesizer: a model, or what `Synthesizer.from_pretrained` loads, which is searched with a beam. Or any
            function from the given examples of some tasks (`GivenExamples`: a sequence of `Task`s, or arrays) to a list
            of programs for each of them, best first. A program is a `Program`, a text in any dialect, or token ids.
            What does not parse is wrong. Or such a list for each task.
        tasks: a batch, or what `load_tasks` reads: the name of a set, a folder, a file.
        beam: of a model's search.
        given: how many examples are shown; the others are held out. By default what a named set says, or five.
        max_ticks: how long a program may run. By default what a named set says, or 200.
        limit: use only the first tasks.
        machine: a syntax constraint for models without one.
        batch_size: how many tasks the synthesizer gets at once.
        progress: callback, called with the number of further tasks done.
        mapper: runs batches, in order: `karelsynth.cluster.Cluster.map` on many machines.
    """
    if isinstance(tasks, str | Path):
        scoring = scoring_of(tasks)
        provenance = {"data": str(tasks), **(provenance or {})}
        tasks = load_tasks(tasks, limit=limit)
    else:
        scoring, tasks = Scoring(), tasks[:limit]
    beam = checked_int("the beam", beam, 1)
    given = scoring.given if given is None else checked_int("the number of given examples", given, 1)
    max_ticks = scoring.max_ticks if max_ticks is None else max_ticks
    check_given(tasks, given)
    if not len(tasks):
        raise KarelsynthError("there is no task to evaluate on")
    if isinstance(synthesizer, str | Path):
        from karelsynth.model.synthesizer import Synthesizer

        provenance = {"model": str(synthesizer), **(provenance or {})}
        synthesizer = Synthesizer.from_pretrained(synthesizer)
    answers: Any = None
    if _is_model(synthesizer):
        search: _ModelSearch | _SynthesizerFunction = _ModelSearch(synthesizer, beam, given, machine)
    elif callable(synthesizer):
        search = _SynthesizerFunction(synthesizer, given)
    elif not isinstance(synthesizer, Sequence):
        raise KarelsynthError(
            "what is evaluated is a model, a function, or a list of programs for each task, not a "
            f"{type(synthesizer).__name__}"
        )
    else:
        search, answers = _SynthesizerFunction(None, given), synthesizer
        if len(answers) != len(tasks):
            raise KarelsynthError(f"there are {len(answers):,} lists of programs for {len(tasks):,} tasks")
    size = checked_int("the batch size", batch_size or search.batch_size, 1)
    batches = (
        (tasks[at : at + size], None if answers is None else answers[at : at + size])
        for at in range(0, len(tasks), size)
    )
    parts, seconds = [], 0.0
    for part, spent in mapper(partial(_judge_batch, search, given, max_ticks), batches):
        parts.append(part)
        seconds += spent
        if progress is not None:
            progress(len(part.filled))
    judged = Judged.joined(parts)
    sources = {**environment(search.device), **search.provenance, **(provenance or {})}
    most = beam if isinstance(search, _ModelSearch) else judged.filled.shape[1]
    return Report(judged, np.asarray(tasks.novel), most, seconds, sources, tasks.digest)


def check_given(tasks: TaskBatch, given: int) -> None:
    """Raise KarelsynthError if no example would be held out."""
    examples = tasks.inputs.shape[1]
    if not given < examples:
        raise KarelsynthError(
            f"the tasks have {examples} examples: at most {examples - 1} can be given, so that one is held out; "
            "choose how many with `--given` (`given` in Python)"
        )


def _judge_batch(
    search: _ModelSearch | _SynthesizerFunction,
    given: int,
    max_ticks: int,
    batch: tuple[TaskBatch, Sequence[Any] | None],
) -> tuple[Judged, float]:
    """Judge the programs that are found for some tasks, or that come with them; and the seconds that finding took."""
    tasks, answers = batch
    start = time.perf_counter()
    tokens, lengths = search(tasks) if answers is None else encode_answers(answers, len(tasks))
    spent = time.perf_counter() - start
    return _judge(tasks, tokens, lengths, given, max_ticks), spent


def _is_model(synthesizer: Synthesizer | ProgramSource | Sequence[Any]) -> TypeGuard[Synthesizer]:
    if "torch" not in sys.modules:  # so there is no model
        return False
    from karelsynth.model.synthesizer import Synthesizer

    return isinstance(synthesizer, Synthesizer)


class _ModelSearch:
    """Beam search with a model."""

    def __init__(self, model: Synthesizer, beam: int, given: int, machine: SyntaxMachine | None) -> None:
        from karelsynth.model.devices import decoding_dtype

        model.eval()
        self.device: torch.device | None = model.device
        sizes = _BATCH | _BATCH_WITH_EXECUTION if model.settings.execution else _BATCH
        self.batch_size = sizes.get(model.device.type, 16)
        # A decoder that executes its programs is not "unfiltered" in the paper's sense: the report says so.
        self.provenance = {
            "decoding": "execution-guided" if model.settings.execution else "unfiltered",
            "precision": str(decoding_dtype(model.device)).removeprefix("torch."),
        }
        self._model, self._beam, self._given, self._machine = model, beam, given, machine
        self._weights = model.step_model(decoding_dtype(model.device))

    def __reduce__(self) -> tuple[Any, ...]:  # another CPU packs the weights itself
        return _ModelSearch, (self._model, self._beam, self._given, self._machine)

    def __call__(self, tasks: TaskBatch) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        found = decode(
            self._model, tasks, beam=self._beam, given=self._given, machine=self._machine, weights=self._weights
        )
        return found.tokens.numpy(), found.lengths.numpy()


class _SynthesizerFunction:
    """A synthesizer that is an ordinary function; None if the programs are given with the tasks."""

    batch_size = 64
    device: torch.device | None = None

    def __init__(self, source: ProgramSource | None, given: int) -> None:
        self._source, self._given = source, given
        self.provenance = {"decoding": SUBMITTED}
        if source is not None:
            self.provenance["synthesizer"] = getattr(source, "__qualname__", type(source).__name__)

    def __call__(self, tasks: TaskBatch) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        assert self._source is not None
        return encode_answers(self._source(tasks.examples(self._given)), len(tasks))


def encode_answers(answers: Sequence[Sequence[AnyProgram]], count: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Programs for `count` tasks as arrays: tokens [N, S, L], padded with `<pad>`, and lengths [N, S].

    A text that does not parse, and a program that is longer than the machine runs, becomes one invalid token.
    """
    if isinstance(answers, str) or not isinstance(answers, Sequence | np.ndarray) or len(answers) != count:
        found = f"{len(answers)} lists" if isinstance(answers, list | tuple) else f"a {type(answers).__name__}"
        raise KarelsynthError(
            f"a synthesizer gives a list of programs for each task: {count} lists were expected, and it gave {found}"
        )
    known: dict[Program | str, list[int]] = {}
    rows = [[_ids(answer, known) for answer in _list_of(ranked)] for ranked in answers]
    slots = max(1, *(len(ranked) for ranked in rows)) if rows else 1
    width = max((1, *(len(ids) for ranked in rows for ids in ranked)))
    tokens = np.full((count, slots, width), PAD, np.uint8)
    lengths = np.zeros((count, slots), np.int64)
    for row, ranked in enumerate(rows):
        for slot, ids in enumerate(ranked):
            tokens[row, slot, : len(ids)], lengths[row, slot] = ids, len(ids)
    return tokens, lengths


def _list_of(ranked: Any) -> Iterable[AnyProgram]:
    if isinstance(ranked, str | Program) or not isinstance(ranked, Iterable):
        raise KarelsynthError(
            "a synthesizer gives a list of programs for each task, best first, also if it is a list of one; "
            f"it gave {quoted(repr(ranked)[:60])}"
        )
    return ranked


def _ids(answer: Any, known: dict[Program | str, list[int]]) -> list[int]:
    """The token ids of a program; an invalid token for None. Texts are parsed once."""
    if not isinstance(answer, Program | str):
        try:
            (ids,) = encode_programs([answer])
        except ValueError:
            raise KarelsynthError(
                f"a program is a Program, a text or a list of token ids, not {quoted(repr(answer)[:60])}"
            ) from None
        size = int(np.flatnonzero(ids != PAD).max(initial=-1)) + 1
        return ids[:size].tolist() if 0 < size <= LONGEST_PROGRAM else [NO_TOKEN]
    if answer not in known:
        try:
            ids = (Program.parse(answer) if isinstance(answer, str) else answer).token_ids
        except KarelsynthError:
            ids = []
        known[answer] = ids if 0 < len(ids) <= LONGEST_PROGRAM else [NO_TOKEN]
    return known[answer]


def decode(
    model: Synthesizer,
    tasks: TaskBatch,
    *,
    beam: int,
    given: int = GIVEN_EXAMPLES,
    machine: SyntaxMachine | None = None,
    weights: StepModel | None = None,
) -> Candidates:
    """The likeliest programs for some tasks, on the CPU. `weights`: the model's `step_model`, if the caller has it."""
    from karelsynth.search.beam import beam_search, encode_for_search

    encoded = encode_for_search(model, *(np.asarray(worlds[:, :given]) for worlds in (tasks.inputs, tasks.outputs)))
    return beam_search(model, encoded, beam=beam, machine=machine, weights=weights).cpu()


def _judge(
    tasks: TaskBatch, tokens: NDArray[np.uint8], lengths: NDArray[np.int64], given: int, max_ticks: int
) -> Judged:
    """Judge candidates, tokens [N, S, L] and lengths [N, S]."""
    outcomes = run_candidates(
        tokens, lengths, np.asarray(tasks.inputs), np.asarray(tasks.outputs), given=given, max_ticks=max_ticks
    )
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
    for name, counted in (("filtered_generalization", judged.filtered), ("any_consistent", judged.consistent.any(1))):
        number = int(counted.sum())
        found[name], intervals[name] = percent(number, count), interval(number, count)
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


def interval(number: int, count: int) -> list[float]:
    """Wilson's 95 % confidence interval of a share, in percent."""
    z, share = 1.96, number / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return [round(100 * max(0.0, middle - half), 2), round(100 * min(1.0, middle + half), 2)]


def environment(device: torch.device | None = None) -> dict[str, Any]:
    """Versions, commit and machine; with a device, also of torch."""
    name = f"{core_count()} cores, {platform.machine()}"
    versions = {"karelsynth": __version__, "python": platform.python_version()}
    if device is not None:
        import torch

        versions["torch"] = torch.__version__
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else name
    return {**versions, "device": name, "commit": _commit()}


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


make_callable(__name__)
