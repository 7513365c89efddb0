"""Task files of the original data: checking them by running, reading them as arrays, and writing them.

Every example read here has been run: its output must be that of the program, and its actions, if given, those of the
run. Records are processed a few hundred at a time, so that the batch machine is busy and memory is bounded.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from karelsynth.errors import TaskFileError
from karelsynth.files import atomic_writer, name_of
from karelsynth.generator.sampler import MAX_TOKENS
from karelsynth.karel.formats.codes import world_from_codes
from karelsynth.karel.formats.msr import program_to_json, tensor_to_string, world_to_json
from karelsynth.karel.interpreter import PAPER_TICKS, Status
from karelsynth.karel.machine import LONGEST_PROGRAM, BatchRun, run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import PAD, TOKENS
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.msr_records import (
    ReadingProgress,
    RecordExample,
    RecordProblem,
    TaskRecord,
    parse_record,
    read_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

_CHUNK: Final = 256
"""Records read before they are run."""


@dataclass(frozen=True)
class CheckedRecord:
    """A record whose examples have been run."""

    record: TaskRecord
    outputs_equal: int
    traces: int
    """Examples that have actions."""
    traces_equal: int
    problems: tuple[RecordProblem, ...]
    """Those of reading and those of running."""


@dataclass(frozen=True)
class VerifyReport:
    """The result of replaying a file."""

    tasks: int
    """Lines, whether readable or not."""
    examples: int
    """Examples listed in the tasks, whether readable or not."""
    outputs_equal: int
    """Examples whose output is what the program does, without crash or time-out."""
    traces: int
    """Examples that have actions."""
    traces_equal: int
    problems: tuple[RecordProblem, ...]

    @property
    def all_equal(self) -> bool:
        """Whether the file has no problem at all."""
        return not self.problems and self.outputs_equal == self.examples and self.traces_equal == self.traces


def verify_file(path: str | Path, progress: Callable[[int], None] | None = None) -> VerifyReport:
    """Replay every example of a file; `progress` is called with the number of tasks just done.

    Raises TaskFileError if the file has no task.
    """
    tasks = examples = outputs_equal = traces = traces_equal = 0
    problems: list[RecordProblem] = []
    for checked in check_file(path):
        tasks += 1
        examples += checked.record.example_count
        outputs_equal += checked.outputs_equal
        traces += checked.traces
        traces_equal += checked.traces_equal
        problems += checked.problems
        if progress is not None:
            progress(1)
    if not tasks:
        raise TaskFileError(f"{name_of(path)}: there is no task in it")
    return VerifyReport(tasks, examples, outputs_equal, traces, traces_equal, tuple(problems))


def read_batches(
    path: str | Path,
    *,
    on_problem: Callable[[RecordProblem], None] | None = None,
    progress: ReadingProgress | None = None,
) -> Iterator[TaskBatch]:
    """The tasks of a file as arrays, a few hundred at a time; raises TaskFileError if there is no good one.

    All must have as many examples as the first good task, since a set is one array. A task with a problem is left out
    and passed to `on_problem`; without it, the first problem is raised as a TaskFileError.
    """
    examples, first = 0, ""
    for chunk in _chunks(check_file(path, progress)):
        good = []
        for checked in chunk:
            problems = checked.problems or _unfit(checked.record, examples)
            if not problems:
                good.append(checked.record)
                examples = checked.record.example_count
            for problem in problems:
                if on_problem is None:
                    raise TaskFileError(f"{name_of(path)}, {problem}")
                first = first or f"; the first problem: {problem}"
                on_problem(problem)
        if good:
            yield _as_batch(good)
    if not examples:
        raise TaskFileError(f"{name_of(path)}: there is no good task in it{first}")


def _unfit(record: TaskRecord, examples: int) -> tuple[RecordProblem, ...]:
    """Why a correct record does not fit the others of a set."""
    if len(record.tokens) > MAX_TOKENS:
        reason = f"the program has {len(record.tokens)} tokens, and a task set holds up to {MAX_TOKENS}"
    elif examples and record.example_count != examples:
        reason = f"it has {record.example_count} examples, but the tasks before have {examples}"
    else:
        return ()
    return (RecordProblem(record.line, reason),)


def _as_batch(records: Sequence[TaskRecord]) -> TaskBatch:
    from karelsynth.tasks.generate import is_reserved

    tokens = _token_array(records, MAX_TOKENS)
    lengths = np.array([len(record.tokens) for record in records], np.uint8)
    return TaskBatch(
        tokens,
        lengths,
        np.stack([[example.input for example in record.examples] for record in records]),
        np.stack([[example.output for example in record.examples] for record in records]),
        is_reserved(tokens),
    )


def _token_array(records: Sequence[TaskRecord], width: int) -> NDArray[np.uint8]:
    """Token ids [N, width]."""
    tokens = np.full((len(records), width), PAD, np.uint8)
    for row, record in zip(tokens, records, strict=True):
        row[: len(record.tokens)] = record.tokens
    return tokens


# Checking.


def check_file(path: str | Path, progress: ReadingProgress | None = None) -> Iterator[CheckedRecord]:
    """The records of a file or of standard input (`-`), one for each line that is not blank, each with its runs."""
    for records in _chunks(parse_record(line, number) for number, line in read_lines(path, progress)):
        yield from check_records(records)


def _chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    chunk = []
    for item in items:
        chunk.append(item)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def check_records(records: Sequence[TaskRecord]) -> Iterator[CheckedRecord]:
    """Run all examples of some records."""
    runnable = [record for record in records if 0 < len(record.tokens) <= LONGEST_PROGRAM and record.examples]
    verdicts = iter(_run(runnable))
    runs = {id(record) for record in runnable}
    for record in records:
        problems = list(record.problems)
        if len(record.tokens) > LONGEST_PROGRAM:
            problems.append(RecordProblem(record.line, f"the program has more than {LONGEST_PROGRAM:,} tokens"))
        outputs_equal = traces = traces_equal = 0
        for example in record.examples:
            traces += example.actions is not None
            if id(record) in runs:
                output_equal, trace_equal, message = next(verdicts)
                outputs_equal += output_equal
                traces_equal += trace_equal
                if message:
                    problems.append(RecordProblem(record.line, f"examples[{example.number}]: {message}"))
        yield CheckedRecord(record, outputs_equal, traces, traces_equal, tuple(problems))


def _run(records: Sequence[TaskRecord]) -> Iterator[tuple[bool, bool, str]]:
    """For each example: whether output and trace are those of the run (False without a trace), and what is wrong."""
    examples = [example for record in records for example in record.examples]
    if not examples:
        return
    # One run per row: the number of examples may differ between records.
    tokens = _token_array(records, max(len(record.tokens) for record in records))
    programs = np.repeat(tokens, [len(record.examples) for record in records], axis=0)
    inputs = np.stack([example.input for example in examples])[:, None]
    outputs = np.stack([example.output for example in examples])[:, None]
    runs = run_batch(programs, inputs, expected=outputs, traces=True, max_ticks=PAPER_TICKS)
    worlds, traces, lengths = (
        _required(runs.worlds),
        _required(runs.traces)[:, 0],
        _required(runs.trace_lengths)[:, 0].tolist(),
    )
    for row, correct in enumerate(_required(runs.correct)[:, 0].tolist()):
        example = examples[row]
        trace_equal = example.actions is not None and bytes(example.actions) == traces[row, : lengths[row]].tobytes()
        if correct:
            wrong = example.actions is not None and not trace_equal
            trace = tuple(traces[row, : lengths[row]].tolist()) if wrong else ()
            yield True, trace_equal, _trace_difference(example, trace) if wrong else ""
            continue
        status = Status(int(runs.status[row, 0]))
        if status is not Status.OK:
            at = int(runs.where[row, 0])
            place = f" (token {at}, `{TOKENS[programs[row, at]]}`)" if at >= 0 else ""
            yield False, trace_equal, f"the program {status.reason}{place}"
        else:
            yield False, trace_equal, _difference(worlds[row, 0], example.output)


def _difference(got: NDArray[np.uint8], wanted: NDArray[np.uint8]) -> str:
    row, col = np.argwhere(got != wanted)[0]
    return f"the program ends in another world; the first difference is at row {row}, column {col}"


def _trace_difference(example: RecordExample, trace: tuple[int, ...]) -> str:
    actions = example.actions or ()
    at = next((at for at, (a, b) in enumerate(zip(actions, trace, strict=False)) if a != b), None)
    if at is None:
        return f"there are {len(actions)} actions, but the program does {len(trace)}"
    return f"actions[{at}] is `{TOKENS[actions[at]]}`, but the program does `{TOKENS[trace[at]]}` there"


def _required(array: NDArray[Any] | None) -> NDArray[Any]:
    assert array is not None
    return array


# Writing.


def write_tasks(
    batches: Iterable[TaskBatch],
    path: str | Path,
    progress: Callable[[int], None] | None = None,
    *,
    max_ticks: int = PAPER_TICKS,
) -> int:
    """Write tasks in the original format, compressed if the name ends in `.gz`; the same tasks give the same bytes.

    The file appears whole or not at all. `progress` is called with the number of tasks just done. `max_ticks` is the
    time that the reference programs may take. Returns how many tasks take more than the original's PAPER_TICKS.
    """
    done, slow = 0, 0
    with atomic_writer(Path(path)) as raw, _packed(raw) if Path(path).suffix == ".gz" else nullcontext(raw) as file:
        for batch in batches:
            for first in range(0, len(batch), _CHUNK):
                chunk = batch[first : first + _CHUNK]
                runs = _run_references(chunk, done, max_ticks)
                slow += int((runs.ticks > PAPER_TICKS).any(1).sum())
                for record in _records(chunk, runs):
                    file.write(json.dumps(record).encode() + b"\n")
                done += len(chunk)
                if progress is not None:
                    progress(len(chunk))
    return slow


def _packed(raw: BinaryIO) -> gzip.GzipFile:
    """A file that is compressed into another. Its header has neither a name nor a time: they differ between runs."""
    return gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6)


def _run_references(tasks: TaskBatch, first: int, max_ticks: int) -> BatchRun:
    """The runs of the reference programs; `first` is the first task's number in the file, for the error message."""
    runs = run_batch(tasks.tokens, tasks.inputs, expected=tasks.outputs, traces=True, max_ticks=max_ticks)
    wrong = np.argwhere(~_required(runs.correct))
    if len(wrong):
        task, example = wrong[0]
        raise TaskFileError(f"task {first + task}: example {example}: its output is not what the program does")
    return runs


def _records(tasks: TaskBatch, runs: BatchRun) -> Iterator[dict[str, Any]]:
    """The JSON objects of some tasks."""
    traces, lengths = _required(runs.traces), _required(runs.trace_lengths)
    for row, (ids, inputs, outputs) in enumerate(zip(tasks.tokens, tasks.inputs, tasks.outputs, strict=True)):
        program = Program.from_tokens(ids.tolist())
        examples = []
        for number in range(len(inputs)):
            trace = traces[row, number, : lengths[row, number]]
            before, after = world_from_codes(inputs[number]), world_from_codes(outputs[number])
            examples.append(
                {
                    "actions": [TOKENS[action] for action in trace],
                    "example_index": number,
                    "inpgrid_json": world_to_json(before),
                    "inpgrid_tensor": tensor_to_string(before),
                    "outgrid_json": world_to_json(after),
                    "outgrid_tensor": tensor_to_string(after),
                }
            )
        yield {
            "examples": examples,
            "guid": _guid(ids[: program.size], inputs),
            "program_json": program_to_json(program),
            "program_tokens": list(program.tokens),
        }


def _guid(tokens: NDArray[np.uint8], inputs: NDArray[np.uint8]) -> str:
    """Sixteen hexadecimal digits as in the original, here a hash of the task."""
    return hashlib.sha256(tokens.tobytes() + inputs.tobytes()).hexdigest()[:16]
