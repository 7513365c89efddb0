r"""Scoring anyone's programs: predictions in a file, and the comparison of two reports task by task.

    report = score("predictions.jsonl", "test")
    compare(report_of(report), read_report("other.json"))

A file of predictions has JSON lines, one for each task, best program first:

    {"number": 1, "programs": ["def run():\n  move()", "DEF run m( turnLeft m)"], "seconds": 0.8}
    {"number": 2, "program": "def main():\n    move()"}
    {"number": 3, "answer": "Karel has to … ```\ndef run():\n  putMarker()\n```"}
    ["def run(): move()"]

Programs are texts in any dialect, or lists of tokens; one that does not parse is wrong. `answer` is a language model's
reply, or a list of several, read by `programs_from_answer`. What `karelsynth solve --json` prints works, too. `number`
counts tasks from 1; without it, the n-th line belongs to the n-th task. `id`, as in the file of prompts, is compared
with that of the task. Tasks without a line have no program.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from karelsynth.callable_module import make_callable
from karelsynth.cluster import Mapper
from karelsynth.errors import KarelsynthError, TaskFileError, listed, quoted
from karelsynth.evaluate import FILTERED, PAIRED, Report, evaluate, from_bits
from karelsynth.files import name_of, read_text
from karelsynth.parsing import ParseError, parse_json
from karelsynth.reproduce.intervals import Interval, paired_interval
from karelsynth.tasks.batch import GIVEN_EXAMPLES, TaskBatch
from karelsynth.tasks.msr_records import read_lines
from karelsynth.tasks.prompts import programs_from_answer
from karelsynth.tasks.sets import load_tasks, scoring_of

if TYPE_CHECKING:
    from collections.abc import Callable

_KEYS: Final = ("programs", "program", "answer", "answers")
_FORM: Final = 'a prediction is {"programs": ["…"]}, with "number" if lines are not in the order of the tasks'
_LARGEST: Final = 2**26
"""Bytes of the largest report."""
MEASURES: Final = {"solved": "generalization", FILTERED: "filtered generalization", "written": "exact"}
"""By key of a report's bits, what they say."""


class Prediction(NamedTuple):
    """What was predicted for a task."""

    programs: tuple[str, ...]
    """Texts, best first."""
    seconds: float | None
    id: str | None
    """Of the task, if the file says."""
    line: int


@dataclass(frozen=True)
class Predictions:
    """The predictions of a file, by the number of their task, from 1."""

    by_task: Mapping[int, Prediction]
    name: str

    @property
    def digest(self) -> str:
        """16 hexadecimal digits of tasks' numbers and program texts, whatever their order and form in the file."""
        kept = [(number, self.by_task[number].programs) for number in sorted(self.by_task)]
        return sha256(json.dumps(kept).encode()).hexdigest()[:16]

    def check(self, tasks: TaskBatch, given: int, *, part: bool) -> None:
        """Raise TaskFileError if these cannot be predictions for the tasks.

        If the tasks are only `part` of a set, predictions for the others are fine.
        """
        examples = tasks.examples(given)
        for number, prediction in self.by_task.items():
            if number <= len(tasks):
                if prediction.id not in (None, examples.id(number - 1)):
                    raise TaskFileError(
                        f"{self.name}: line {prediction.line}: these are not the same tasks: task {number} has the id "
                        f"{examples.id(number - 1)}, and the prediction is for {quoted(str(prediction.id))}; score it "
                        "on the tasks that the prompts were made of, with as many given examples"
                    )
            elif not part:
                raise TaskFileError(
                    f"{self.name}: line {prediction.line}: a prediction for task {number}, but there are {len(tasks)}"
                )


def read_predictions(path: str | Path) -> Predictions:
    """Read a file of predictions, `.gz` too; `-` is standard input. Raises TaskFileError."""
    name, found, numbered = name_of(path), dict[int, Prediction](), set[bool]()
    for line, text in read_lines(path):
        try:
            number, prediction = _prediction(text, line)
        except TaskFileError as error:
            raise TaskFileError(f"{name}: line {line}: {error}") from None
        numbered.add(number is not None)
        if len(numbered) > 1:
            raise TaskFileError(
                f"{name}: line {line}: some lines have a `number` and some do not: all need one, or none"
            )
        number = len(found) + 1 if number is None else number
        if number in found:
            raise TaskFileError(
                f"{name}: line {line}: a second prediction for task {number}, after the one in line "
                f"{found[number].line}; put all programs for a task into one line"
            )
        found[number] = prediction
    if not found:
        raise TaskFileError(f"{name}: there is no prediction in it; {_FORM}")
    return Predictions(found, name)


def _prediction(text: bytes | None, line: int) -> tuple[int | None, Prediction]:
    """The number of the task, if it is given, and what was predicted."""
    try:
        record = parse_json(text or b"")
    except ParseError as error:
        raise TaskFileError(f"not valid JSON ({error.reason}); {_FORM}") from None
    if not isinstance(record, dict):
        return None, Prediction(tuple(_texts(record)), None, None, line)
    present = [key for key in _KEYS if key in record]
    if len(present) != 1:
        raise TaskFileError(f"it needs one of {listed(_KEYS)}, and has {listed(present, 'and') or 'none'}; {_FORM}")
    number, seconds, own = (record.get(key) for key in ("number", "seconds", "id"))
    if number is not None and (type(number) is not int or number < 1):
        raise TaskFileError(f"`number` is that of a task, counted from 1, not {quoted(json.dumps(number))}")
    if seconds is not None and (type(seconds) not in (int, float) or not 0 <= seconds < math.inf):
        raise TaskFileError(f"`seconds` is a time, not {quoted(json.dumps(seconds))}")
    programs = tuple(_READERS[present[0]](record[present[0]]))
    return number, Prediction(programs, seconds, None if own is None else str(own), line)


def _texts(value: Any) -> Iterator[str]:
    """Programs as a list of texts or of lists of tokens; one text is a list of one, and null an empty one."""
    if value is None:
        return
    for item in [value] if isinstance(value, str) else _list(value):
        if isinstance(item, list) and all(isinstance(token, str) for token in item):
            yield " ".join(item)
        elif isinstance(item, str):
            yield item
        else:
            raise TaskFileError(f"a program is a text or a list of tokens, not {quoted(json.dumps(item)[:60])}")


def _replies(value: Any) -> Iterator[str]:
    """The programs in a language model's answer, or in several."""
    for text in [] if value is None else [value] if isinstance(value, str) else _list(value):
        if not isinstance(text, str):
            raise TaskFileError(f"`answer` is a text or a list of texts, not {quoted(json.dumps(text)[:60])}")
        yield from programs_from_answer(text)


def _solutions(value: Any) -> Iterator[str]:
    """The answers of `karelsynth solve --json`."""
    for answer in _list(value):
        programs = answer.get("programs") if isinstance(answer, dict) else None
        if not isinstance(programs, dict) or not isinstance(programs.get("tokens"), str):
            raise TaskFileError("`answers` are those of `karelsynth solve --json`; your own go under `programs`")
        yield programs["tokens"]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TaskFileError(f"a list is expected, not {quoted(json.dumps(value)[:60])}; {_FORM}")
    return value


_READERS: Final = {"programs": _texts, "program": _texts, "answer": _replies, "answers": _solutions}


def score(
    predictions: str | Path | Predictions,
    tasks: TaskBatch | str | Path,
    *,
    given: int | None = None,
    max_ticks: int | None = None,
    limit: int | None = None,
    provenance: dict[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
    mapper: Mapper = map,
) -> Report:
    """Score predictions on tasks: the report of `evaluate`.

    Args:
        predictions: a file, or `read_predictions` of one.
        tasks: a batch, or what `load_tasks` reads: the name of a set, a folder, a file.
        given, max_ticks: as for `evaluate`.
        limit: score only the first tasks.
        progress, mapper: as for `evaluate`.
    """
    if not isinstance(predictions, str | Path | Predictions):
        raise KarelsynthError(
            f"`score` reads a file of predictions, and this is a {type(predictions).__name__}: `evaluate` scores lists "
            "of programs and functions"
        )
    found = predictions if isinstance(predictions, Predictions) else read_predictions(predictions)
    data = None if isinstance(tasks, TaskBatch) else str(tasks)
    if not isinstance(tasks, TaskBatch):
        scoring = scoring_of(tasks)
        given = scoring.given if given is None else given
        max_ticks = scoring.max_ticks if max_ticks is None else max_ticks
        tasks = load_tasks(tasks, limit=limit)
    tasks, given = tasks[:limit], GIVEN_EXAMPLES if given is None else given
    found.check(tasks, given, part=limit is not None)
    used = [found.by_task.get(number + 1) for number in range(len(tasks))]
    answers = [() if prediction is None else prediction.programs for prediction in used]
    sources = {
        **({} if data is None else {"data": data}),
        "synthesizer": found.name,
        "predictions": found.digest,
        "missing": used.count(None),
        **(provenance or {}),
    }
    report = evaluate(
        answers, tasks, given=given, max_ticks=max_ticks, provenance=sources, progress=progress, mapper=mapper
    )
    times = [prediction.seconds for prediction in used if prediction is not None and prediction.seconds is not None]
    mean = sum(times) / len(times) if times else None  # over the tasks that have one
    return replace(report, seconds=None if mean is None else mean * len(tasks))


@dataclass(frozen=True)
class Compared:
    """Two reports on the same tasks, by one measure."""

    measure: str
    rank: int
    ours: float
    """Percent of tasks that count in the first report."""
    theirs: float
    only_ours: int
    """Tasks that count in the first report alone."""
    only_theirs: int
    difference: Interval
    """In points, with its paired 95 % interval over tasks."""
    p: float
    """McNemar's exact two-sided test: the probability of so uneven a split of the tasks that only one report counts."""


def report_of(report: Report) -> dict[str, Any]:
    """What `--json` writes: the figures and the bits for each task."""
    return {**report.to_json(), **report.by_task()}


def read_report(path: str | Path) -> dict[str, Any]:
    """A report that `evaluate --json`, `score --json` or `reproduce` wrote; raises KarelsynthError."""
    try:
        record = parse_json(read_text(path, _LARGEST))
    except ParseError as error:
        raise KarelsynthError(f"{name_of(path)}: {error}; it should be a report") from None
    if isinstance(record, dict) and isinstance(record.get("report"), dict):
        record = {**record["report"], **record}
    if (
        not isinstance(record, dict)
        or type(record.get("tasks")) is not int
        or not isinstance(record.get("digest"), str)
    ):
        raise KarelsynthError(
            f"{name_of(path)}: not a report with the results of each task; `karelsynth score … --json` and "
            "`karelsynth evaluate … --json` write them"
        )
    return {**record, "path": name_of(path)}


def check_same_tasks(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Raise KarelsynthError if two reports are about different tasks; `tasks` and `digest` of the first are enough."""
    if (ours["digest"], ours["tasks"]) != (theirs["digest"], theirs["tasks"]):
        other = theirs.get("path", "the other report")
        raise KarelsynthError(
            f"{other}: a report on other tasks: {theirs['tasks']:,} with digest {theirs['digest']}, and this one is on "
            f"{ours['tasks']:,} with digest {ours['digest']}"
        )


def compare(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[Compared]:
    """Compare two reports, as `report_of` and `read_report` give them, task by task.

    Raises KarelsynthError if they are about different tasks.
    """
    check_same_tasks(ours, theirs)
    rows = []
    for key, measure in MEASURES.items():
        for rank in PAIRED:
            bits: list[Any] = [_bits(report.get(key)).get(str(rank)) for report in (ours, theirs)]
            if None not in bits:  # an older report may lack some
                rows.append(_compared(measure, rank, bits, ours["tasks"], theirs.get("path", "the other report")))
    return rows


def _bits(value: Any) -> Mapping[str, Any]:
    """A report's bits by rank; an altered report may have anything in their place."""
    return value if isinstance(value, Mapping) else {}


def _compared(measure: str, rank: int, bits: Sequence[str], count: int, other: str) -> Compared:
    try:
        one, two = (from_bits(digits, count) for digits in bits)
    except (ValueError, TypeError):
        raise KarelsynthError(f"{other}: the results of its tasks were altered; write the report again") from None
    only_one, only_two = int((one & ~two).sum()), int((two & ~one).sum())
    difference = paired_interval(one, two)
    p = mcnemar(only_one, only_two)
    return Compared(measure, rank, 100 * one.mean(), 100 * two.mean(), only_one, only_two, difference, p)


def mcnemar(one: int, other: int) -> float:
    """The exact two-sided p-value of a split of `one + other` tasks, where each side is as likely."""
    count, fewer = one + other, min(one, other)
    logs = [math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) for k in range(fewer + 1)]
    return min(1.0, 2 * math.fsum(math.exp(log - count * math.log(2)) for log in logs))


make_callable(__name__)
