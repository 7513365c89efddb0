"""Hints: the right program nearest to a student's, or the next step towards one, in the student's own text.

    hint = find_hint(task, read_source(text))
    hint.steps[0].where, hint.steps[0].kind, hint.steps[0].change  # three levels
    hint.text  # the student's text with the change

A student whose program is at most three edits away from a right one gets these edits. One who is further off gets one
edit, the next step towards the nearest program that `solve` finds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.dialects.source import SourceProgram
from karelsynth.karel.formats.codes import worlds_to_codes
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import Program
from karelsynth.tasks.task import Example, Task
from karelsynth.tasks.variations import RandomVariations
from karelsynth.tutor.edits import MOST_FUNCTIONS, code_of
from karelsynth.tutor.explain import RunReport, explain_run
from karelsynth.tutor.limits import TUTOR_TICKS
from karelsynth.tutor.nearest import LONGEST, NearestPrograms, Repair, nearest_programs
from karelsynth.tutor.rewrite import EditedCode, changed_lines, rewritten
from karelsynth.tutor.wording import HintStep, hint_steps

SEARCH_SECONDS: Final = 1.0
"""The most time to search for a right program near the student's."""
SOLVE_SECONDS: Final = 0.4
"""The time to search for any right program, if none is near."""
WORLDS: Final = 64
"""Varied worlds on which the repairs are compared."""
PER_FAILURE: Final = 2.0
PER_TOKEN: Final = 0.02
PER_DISAGREEMENT: Final = 1.0
"""What a repair pays for failing on all varied worlds, for a token, and for behaving as no other repair does, in units
of the cost of an edit."""
_MOST_COMPARED: Final = 200
Solve = Callable[[Task, float], Sequence[Program]]
"""Finds right programs for a task within a number of seconds."""


@dataclass(frozen=True)
class Hint:
    """What helps next with a student's program."""

    kind: str
    """`right`: there is nothing to change. `repair`: the steps make the program right. `step`: one step towards a right
    program. `none`: no hint was found."""
    steps: tuple[HintStep, ...]
    text: str | None
    """The student's text with the change; None if there is none."""
    change: tuple[str, ...]
    """The change as lines that begin with `-`, `+` or a space."""
    program: Program | None
    """The changed program."""
    edits: int
    report: RunReport | None
    """What the student's program does on the first example on which it is wrong; None if it is right."""
    example: int | None
    """The number of that example, from 1."""
    seconds: float
    tried: int
    """How many programs were run."""

    def to_json(self, level: int = 3) -> dict[str, Any]:
        """As plain data, up to a level from 1 to 3."""
        names = ("where", "kind", "change")[:level]
        return {
            "kind": self.kind,
            "steps": [{"line": step.line, **{name: getattr(step, name) for name in names}} for step in self.steps],
            "text": self.text if level > 2 else None,
            "diff": list(self.change) if level > 2 else [],
            "edits": self.edits,
            "example": self.example,
            "report": None if self.report is None else self.report.to_json(),
            "seconds": self.seconds,
        }


def find_hint(
    task: Task,
    source: SourceProgram,
    *,
    hidden: Sequence[Example] = (),
    solve: Solve | None = None,
    seconds: float = SEARCH_SECONDS,
    max_ticks: int = TUTOR_TICKS,
    clock: Callable[[], float] = time.perf_counter,
) -> Hint:
    """A hint for a student's program.

    Args:
        hidden: further examples on which a repair must be right; reports never show them.
        solve: finds right programs for students who are far off; without it, the next step is the single edit that
            brings the program nearest to being right, if there is one.
        seconds: the most time to search for a right program near the student's.
        max_ticks: the most ticks of a run.
        clock: what the seconds are measured by.
    """
    start = clock()
    examples = (*task.examples, *hidden)
    inputs, outputs = (worlds_to_codes(side) for side in zip(*examples, strict=True))
    right = right_examples([source.program], inputs, outputs, max_ticks)[0]
    if right.all():
        return Hint("right", (), None, (), source.program, 0, None, None, clock() - start, 0)
    wrong = int(np.argmin(right))
    report = explain_run(source, task.examples[wrong], max_ticks=max_ticks) if wrong < len(task.examples) else None
    number = wrong + 1 if report is not None else None
    kind, chosen, tried = "none", None, 0
    if source.program.size <= LONGEST and len(source.functions) <= MOST_FUNCTIONS:
        code = code_of(source)
        found = nearest_programs(code.bodies, inputs, outputs, deadline=start + seconds, clock=clock)
        tried = found.tried
        if found.repairs:
            kind, chosen = "repair", likeliest(found.repairs, task)
        else:
            answers = [] if solve is None else list(solve(task, SOLVE_SECONDS))
            chosen = next_step(found, source.program, answers)
            kind = "none" if chosen is None else "step"
    if chosen is None:
        return Hint(kind, (), None, (), None, 0, report, number, clock() - start, tried)
    edited = EditedCode(code)
    steps = hint_steps(source, edited, chosen.path)
    program = Program.from_tokens(list(chosen.tokens))
    text = rewritten(source, edited.functions(), program)
    change = tuple(changed_lines(source.text, text))
    taken = clock() - start
    return Hint(kind, tuple(steps), text, change, program, chosen.edit_count, report, number, taken, tried)


def right_examples(
    programs: Sequence[Program], inputs: NDArray[np.uint8], outputs: NDArray[np.uint8], max_ticks: int
) -> NDArray[np.bool_]:
    """On which examples [K, 18, 18] programs are right, bool [N, K]."""
    tokens = encode_programs(programs)
    runs = run_batch(tokens, inputs, expected=outputs, keep_worlds=False, max_ticks=max_ticks)
    assert runs.correct is not None
    return runs.correct


def likeliest(repairs: Sequence[Repair], task: Task) -> Repair:
    """The repair that is likeliest to be right elsewhere: usual edits, few tokens, no failures on varied worlds, and
    the same behaviour there as other repairs."""
    repairs = sorted(repairs, key=lambda repair: repair.cost)[:_MOST_COMPARED]
    if len(repairs) == 1:
        return repairs[0]
    programs = [Program.from_tokens(list(repair.tokens)) for repair in repairs]
    runs = run_batch(encode_programs(programs), _varied_codes(task.examples))
    assert runs.worlds is not None
    costs = np.array([repair.cost for repair in repairs])
    possible = runs.ok.any(0)  # on other worlds, no repair says anything
    if possible.any():
        ok = runs.ok[:, possible]
        weights = np.exp(-costs)
        ends = runs.worlds[:, possible].reshape(len(repairs), ok.shape[1], -1)
        hashes = (ends.astype(np.uint64) * _mixing(ends.shape[2])).sum(2) * ok
        agreement = np.stack([(hashes == row).mean(1) @ weights / weights.sum() for row in hashes])
        costs = costs + PER_FAILURE * (1 - ok.mean(1)) + PER_DISAGREEMENT * (1 - agreement)
    costs = costs + PER_TOKEN * np.array([len(repair.tokens) for repair in repairs])
    return repairs[int(costs.argmin())]


def _mixing(size: int) -> NDArray[np.uint64]:
    return np.random.default_rng(1).integers(1, 2**63, size, np.uint64)


@lru_cache(maxsize=64)
def _varied_codes(examples: tuple[Example, ...]) -> NDArray[np.uint8]:
    """Varied inputs of a task, uint8 [WORLDS, 18, 18]."""
    return RandomVariations(worlds_to_codes([example.input for example in examples]), seed=1).worlds(WORLDS)


def next_step(found: NearestPrograms, program: Program, answers: Sequence[Program]) -> Repair | None:
    """The neighbour of a program that is nearest to one of the answers; without answers, the search's best."""
    if not answers or not found.neighbours:
        return found.best
    rows = [repair.tokens for repair in found.neighbours]
    best: tuple[float, Repair] | None = None
    for answer in answers:
        target = bytes(answer.token_ids)
        distances = token_distances([bytes(program.token_ids), *rows], target)
        gains = distances[1:] + 0.1 * np.array([repair.cost for repair in found.neighbours])
        row = int(gains.argmin())
        if distances[1 + row] < distances[0] and (best is None or gains[row] < best[0]):
            best = float(gains[row]), found.neighbours[row]
    return found.best if best is None else best[1]


def token_distances(rows: Sequence[bytes], target: bytes) -> NDArray[np.int64]:
    """The edit distances of N sequences of tokens from one, by dynamic programming over all at once, int64 [N]."""
    lengths = np.array([len(row) for row in rows])
    width = int(lengths.max())
    tokens = np.frombuffer(b"".join(row.ljust(width, b"\0") for row in rows), np.uint8).reshape(len(rows), width)
    goal = np.frombuffer(target, np.uint8)
    previous = np.tile(np.arange(len(goal) + 1), (len(rows), 1))  # distances of the empty prefix
    result = previous[:, -1].copy()
    for place in range(width):
        current = np.empty_like(previous)
        current[:, 0] = place + 1
        changed = previous[:, :-1] + (tokens[:, place, None] != goal)
        best = np.minimum(changed, previous[:, 1:] + 1)
        for column in range(len(goal)):
            current[:, column + 1] = np.minimum(best[:, column], current[:, column] + 1)
        previous = current
        ended = lengths == place + 1
        result[ended] = previous[ended, -1]
    return result
