"""Grading: every program of a class on every example of a task.

    grades = grade(task, [Submission("ada", text), …], hidden=[Example(before, after), …])
    grades[0].right  # on the task's examples
    grades[0].report(0)  # what happened on the first, in words

A program with a syntax error gets a grade with the error. Equal programs are run once. All runs are one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from karelsynth.errors import KarelsynthError, ProgramSyntaxError
from karelsynth.karel.dialects import read_source
from karelsynth.karel.dialects.source import SourceProgram
from karelsynth.karel.formats.codes import worlds_to_codes
from karelsynth.karel.machine import LONGEST_PROGRAM, encode_programs, run_batch
from karelsynth.karel.program import Program
from karelsynth.tasks.task import Example, Task
from karelsynth.tutor.explain import TUTOR_TICKS, RunReport, explain_run

MOST_SUBMISSIONS: Final = 10_000
"""The most programs that are graded at once."""
LONGEST_SUBMISSION: Final = 100_000
"""The most characters of a student's program."""
MOST_REPORTS: Final = 3
"""The most wrong runs of a program that are explained at once."""
_PROGRAMS_AT_ONCE: Final = 2_000
"""The most programs of one batch, which bounds its memory."""


@dataclass(frozen=True)
class Submission:
    """A student's program."""

    name: str
    """The student's name, or the file's."""
    text: str
    problem: KarelsynthError | None = None
    """Why there is no text: a file that cannot be read."""


@dataclass(frozen=True)
class Grade:
    """How a student's program does on a task."""

    name: str
    source: SourceProgram | None
    """None if the text is no program."""
    problem: KarelsynthError | None
    """Why the text is no program."""
    examples: tuple[Example, ...]
    """The task's examples, then the hidden ones."""
    right: tuple[bool, ...]
    """For each of the task's examples."""
    hidden_right: tuple[bool, ...]
    """For each hidden example."""
    ticks: tuple[int, ...]
    """The ticks of the run on each example, hidden ones too; 0 if the text is no program."""
    max_ticks: int = TUTOR_TICKS

    @property
    def passed(self) -> bool:
        """Whether it is right on every example, hidden ones too."""
        return self.problem is None and all(self.right) and all(self.hidden_right)

    @property
    def problem_line(self) -> str:
        """The problem on one line, with the word that was probably meant; empty if there is none."""
        if isinstance(self.problem, ProgramSyntaxError) and self.problem.suggestion:
            what, meant = self.problem.reason.partition(";")[0], self.problem.suggestion
            return f"line {self.problem.line}, column {self.problem.column}: {what}; did you mean `{meant}`?"
        return "" if self.problem is None else str(self.problem).partition("\n")[0]

    @property
    def first_wrong(self) -> int | None:
        """The number of the first wrong example from 0, the hidden ones after the task's; None if there is none."""
        if self.problem is not None:
            return None
        return next((at for at, right in enumerate((*self.right, *self.hidden_right)) if not right), None)

    @property
    def explained(self) -> tuple[int, ...]:
        """The runs that `to_json` explains: the first MOST_REPORTS wrong ones on the task's examples, from 0."""
        if self.problem is not None:
            return ()
        return tuple(at for at, right in enumerate(self.right) if not right)[:MOST_REPORTS]

    def report(self, example: int) -> RunReport:
        """What the program does on an example, counted from 0, the hidden ones after the task's."""
        if self.source is None:
            raise KarelsynthError(f"{self.name}: this is no program: {self.problem}")
        return explain_run(self.source, self.examples[example], max_ticks=self.max_ticks)

    def to_json(self, *, reports: bool = True) -> dict[str, Any]:
        """As plain data. With `reports`, the runs of `explained` are explained."""
        problem: dict[str, Any] | None = None
        if self.problem is not None:
            problem = {"message": str(self.problem), "line": None, "column": None}
            if isinstance(self.problem, ProgramSyntaxError):
                hint = f". Did you mean `{self.problem.suggestion}`?" if self.problem.suggestion else ""
                problem = {
                    "message": self.problem.reason + hint,
                    "line": self.problem.line,
                    "column": self.problem.column,
                }
        return {
            "name": self.name,
            "passed": self.passed,
            "right": list(self.right),
            "hidden_right": list(self.hidden_right),
            "problem": problem,
            "reports": [{"example": at + 1, **self.report(at).to_json()} for at in (self.explained if reports else ())],
        }


def grade(
    task: Task,
    submissions: Sequence[Submission],
    *,
    hidden: Sequence[Example] = (),
    max_ticks: int = TUTOR_TICKS,
) -> list[Grade]:
    """Grade programs on the task's examples and on hidden ones, in the order given."""
    if len(submissions) > MOST_SUBMISSIONS:
        raise KarelsynthError(f"at most {MOST_SUBMISSIONS:,} programs are graded at once, not {len(submissions):,}")
    examples = (*task.examples, *hidden)
    read: dict[str, SourceProgram | KarelsynthError] = {}
    for submission in submissions:
        if submission.problem is None and submission.text not in read:
            read[submission.text] = read_submission(submission.text)
    programs = list(dict.fromkeys(found.program for found in read.values() if isinstance(found, SourceProgram)))
    ran = dict(zip(programs, _run(programs, examples, max_ticks), strict=True))
    grades = []
    for submission in submissions:
        found = submission.problem or read[submission.text]
        source, problem = (found, None) if isinstance(found, SourceProgram) else (None, found)
        none = (False,) * len(examples), (0,) * len(examples)
        right, ticks = none if source is None else ran[source.program]
        given, more = right[: len(task.examples)], right[len(task.examples) :]
        grades.append(Grade(submission.name, source, problem, examples, given, more, ticks, max_ticks))
    return grades


def read_submission(text: str) -> SourceProgram | KarelsynthError:
    """A student's program, or why the text is none."""
    if len(text) > LONGEST_SUBMISSION:
        return KarelsynthError(
            f"the text is too long: {len(text):,} characters where {LONGEST_SUBMISSION:,} are allowed"
        )
    try:
        source = read_source(text)
    except KarelsynthError as error:
        return error
    if source.program.size > LONGEST_PROGRAM:
        return KarelsynthError(f"the program is too long: over {LONGEST_PROGRAM:,} tokens")
    return source


def _run(
    programs: Sequence[Program], examples: Sequence[Example], max_ticks: int
) -> list[tuple[tuple[bool, ...], tuple[int, ...]]]:
    """For each program, on which examples it is right, and the ticks of its runs."""
    inputs, outputs = (worlds_to_codes(side) for side in zip(*examples, strict=True))
    found = []
    for first in range(0, len(programs), _PROGRAMS_AT_ONCE):
        batch = encode_programs(programs[first : first + _PROGRAMS_AT_ONCE])
        runs = run_batch(batch, inputs, expected=outputs, keep_worlds=False, max_ticks=max_ticks)
        assert runs.correct is not None
        rows = zip(runs.correct.tolist(), runs.ticks.tolist(), strict=True)
        found += [(tuple(right), tuple(ticks)) for right, ticks in rows]
    return found
