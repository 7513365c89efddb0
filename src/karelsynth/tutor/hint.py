"""Hints: the right program nearest to a student's, or the next step towards one, in the student's own text.

    hint = find_hint(task, read_source(text))
    hint.steps[0].where, hint.steps[0].kind, hint.steps[0].change  # three levels
    hint.text  # the student's text with the change

A student whose program is at most three edits away from a right one gets these edits. One who is further off gets one
edit, the next step towards the nearest program that `solve` finds.

All parts of a hint share one deadline. First, programs near the student's are tried. If none of them is right, `solve`
searches for right programs. The search then continues towards the nearest of these, unless the student is far off.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.dialects.source import SourceProgram
from karelsynth.karel.formats.codes import worlds_to_codes
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import Program
from karelsynth.tasks.task import Example, Task
from karelsynth.tasks.variations import RandomVariations, fingerprints
from karelsynth.tutor.edits import MOST_FUNCTIONS, EditedCode
from karelsynth.tutor.explain import TUTOR_TICKS, RunReport, explain_run
from karelsynth.tutor.nearest import LONGEST, NearestSearch, Repair, token_distances
from karelsynth.tutor.rewrite import changed_lines, rewritten
from karelsynth.tutor.wording import HintStep, hint_steps

if TYPE_CHECKING:
    from karelsynth.solve.solver import Solver

HINT_SECONDS: Final = 1.5
"""The time after which a hint ends with what it has. Hints should take less than two seconds."""
SEARCH_SHARE: Final = 0.9
"""The share of the time after which the search ends; the rest is for choosing among repairs."""
NEAR_SHARE: Final = 2 / 3
"""The largest share for the search near the student's program."""
SOLVE_SHARE: Final = 1 / 3
"""The largest share for `solve`."""
FIRST_PROGRAMS: Final = 10_000
"""Programs near the student's that are tried before `solve` is asked."""
FAR: Final = 13
"""A student is far off if every known right program is at least this many token edits away."""
MOST_TARGETS: Final = 3
"""How many of the nearest right programs the search is directed towards."""
WORLDS: Final = 64
"""Varied worlds on which the repairs are compared."""
PER_FAILURE: Final = 2.0
PER_TOKEN: Final = 0.02
PER_DISAGREEMENT: Final = 1.0
"""What a repair pays for failing on all varied worlds, for a token, and for behaving as no other repair does, in units
of the cost of an edit."""
PER_STEP_COST: Final = 0.1
"""The weight of an edit's cost when steps towards a right program are compared, in tokens of distance."""
_MOST_COMPARED: Final = 200
_COMPARED_AT_ONCE: Final = 25
Solve = Callable[[Task, float], Sequence[Program]]
"""Finds right programs for a task within a number of seconds."""


@dataclass(frozen=True)
class Hint:
    """What helps next with a student's program."""

    kind: str
    """`right`: there is nothing to change. `repair`: the steps make the program right. `step`: one step towards a right
    program. `begin`: the first statement of one, as nothing is written yet. `none`: no hint was found."""
    steps: tuple[HintStep, ...] = ()
    text: str | None = None
    """The student's text with the change; None if there is none."""
    change: tuple[str, ...] = ()
    """The change as lines that begin with `-`, `+` or a space."""
    program: Program | None = None
    """The changed program."""
    edits: int = 0
    report: RunReport | None = None
    """What the student's program does on the first example on which it is wrong; None if it is right."""
    example: int | None = None
    """The number of that example, from 1."""
    seconds: float = 0.0
    tried: int = 0
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
    seconds: float = HINT_SECONDS,
    max_ticks: int = TUTOR_TICKS,
    clock: Callable[[], float] = time.perf_counter,
) -> Hint:
    """A hint for a student's program.

    Args:
        hidden: further examples on which a repair must be right; reports never show them.
        solve: finds right programs where none is found soon; without it, the next step for students who are far off is
            the single edit that brings the program nearest to being right, if there is one.
        seconds: the deadline; the hint then ends with what it has.
        max_ticks: the most ticks of a run.
        clock: what the seconds are measured by.
    """
    start = clock()
    examples = (*task.examples, *hidden)
    inputs, outputs = (worlds_to_codes(side) for side in zip(*examples, strict=True))
    right = right_examples([source.program], inputs, outputs, max_ticks)[0]
    if right.all():
        return Hint("right", program=source.program, seconds=clock() - start)
    wrong = int(np.argmin(right))
    report = explain_run(source, task.examples[wrong], max_ticks=max_ticks) if wrong < len(task.examples) else None
    number = wrong + 1 if report is not None else None
    kind, chosen, tried = "none", None, 0
    if source.program.size <= LONGEST and len(source.functions) <= MOST_FUNCTIONS:
        code = EditedCode(source)
        with without_garbage_collection():  # the search is freed before it begins again
            begin = partial(NearestSearch, code.bodies, inputs, outputs, seconds=NEAR_SHARE * seconds, clock=clock)
            kind, chosen, tried = _best_change(begin, task, source.program, solve, seconds, start + seconds)
    if chosen is None:
        return Hint(kind, report=report, example=number, seconds=clock() - start, tried=tried)
    steps = hint_steps(source, code, chosen.path)
    program = Program.from_tokens(list(chosen.tokens))
    text = rewritten(source, code.functions(), program)
    if "\r\n" in source.text:
        text = text.replace("\n", "\r\n")
    change = tuple(changed_lines(source.text, text))
    taken = clock() - start
    return Hint(kind, tuple(steps), text, change, program, chosen.edit_count, report, number, taken, tried)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pause Python's garbage collection. With PyTorch loaded, one collection takes a fifth of a second."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def right_programs(solver: Solver) -> Solve:
    """What a loaded solver finds first: right programs, which need not be the likeliest ones."""

    def solve(task: Task, seconds: float) -> Sequence[Program]:
        state = solver.begin(task, budget=seconds)
        with solver.turns.turn() as turn:
            while not state.solved and not solver.done(state):
                solver.advance([state], turn, narrow=True)
        answers = state.answers
        if answers is None or not state.solved:
            return []
        return [answers.answer(row).program for row in range(len(answers))]

    return solve


def _best_change(
    begin: Callable[[], NearestSearch],
    task: Task,
    program: Program,
    solve: Solve | None,
    seconds: float,
    deadline: float,
) -> tuple[str, Repair | None, int]:
    """The kind of the hint, the program that it leads to, and how many were run."""
    end = deadline - (1 - SEARCH_SHARE) * seconds
    with closing(begin()) as search:
        search.run(end, math.inf if solve is None else FIRST_PROGRAMS)
        targets: list[bytes] = []
        left = end - search.clock()
        if solve is not None and not search.repairs and left > 0:
            answers = [bytes(answer.token_ids) for answer in solve(task, min(left, SOLVE_SHARE * seconds))]
            distances = token_distances(answers, bytes(program.token_ids)) if answers else np.empty(0)
            targets = [answers[row] for row in distances.argsort(kind="stable")[:MOST_TARGETS].tolist()]
            near = not targets or distances.min() < FAR
            if targets and near:
                search.run_towards(targets, end)
            if near and not search.repairs:
                search.run(end)
        if search.repairs:
            return "repair", likeliest(search.repairs, task, lambda: search.clock() >= deadline), search.tried
        step = next_step(search, program, targets[:1])
        return "none" if step is None else "step", step, search.tried


def next_step(search: NearestSearch, program: Program, targets: Sequence[bytes]) -> Repair | None:
    """The program one edit away that is nearest to a target; without a target, the one nearest to being right."""
    for target in targets:
        before, *after = token_distances([bytes(program.token_ids), *(each.tokens for each in search.first)], target)
        costs = np.array(after) + PER_STEP_COST * np.array([each.cost for each in search.first])
        row = int(costs.argmin())
        if after[row] < before:
            return search.first[row]
    return search.best


def right_examples(
    programs: Sequence[Program], inputs: NDArray[np.uint8], outputs: NDArray[np.uint8], max_ticks: int
) -> NDArray[np.bool_]:
    """On which examples [K, 18, 18] programs are right, bool [N, K]."""
    tokens = encode_programs(programs)
    runs = run_batch(tokens, inputs, expected=outputs, keep_worlds=False, max_ticks=max_ticks)
    assert runs.correct is not None
    return runs.correct


def likeliest(repairs: Sequence[Repair], task: Task, late: Callable[[], bool] = bool) -> Repair:
    """The repair that is likeliest to be right elsewhere, too: one with usual edits and few tokens that fails on few
    varied worlds and behaves there as other repairs do. The most usual ones are compared first; once it is late, no
    more are compared."""
    repairs = sorted(repairs, key=lambda repair: repair.cost)[:_MOST_COMPARED]
    if len(repairs) == 1 or late():
        return repairs[0]
    worlds, compared = _varied_codes(task.examples), list[tuple[NDArray[np.bool_], NDArray[np.uint64]]]()
    for at in range(0, len(repairs), _COMPARED_AT_ONCE):
        programs = [Program.from_tokens(list(each.tokens)) for each in repairs[at : at + _COMPARED_AT_ONCE]]
        compared.append(_ends(programs, worlds))
        if late():
            break
    every, hashes = (np.concatenate(part) for part in zip(*compared, strict=True))
    repairs = repairs[: len(every)]
    costs = np.array([repair.cost for repair in repairs])
    possible = every.any(0)  # on other worlds, no repair says anything
    if possible.any():
        ok, hashes = every[:, possible], hashes[:, possible]
        weights = np.exp(-costs)
        agreement = np.stack([(hashes == row).mean(1) @ weights / weights.sum() for row in hashes])
        costs = costs + PER_FAILURE * (1 - ok.mean(1)) + PER_DISAGREEMENT * (1 - agreement)
    costs = costs + PER_TOKEN * np.array([len(repair.tokens) for repair in repairs])
    return repairs[int(costs.argmin())]


def _ends(programs: Sequence[Program], worlds: NDArray[np.uint8]) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
    """Whether runs on worlds [W, 18, 18] end well, and a hash of their final worlds, 0 if not: [N, W] each."""
    runs = run_batch(encode_programs(programs), worlds)
    assert runs.worlds is not None
    return runs.ok, fingerprints(runs.worlds, runs.status) * runs.ok


@lru_cache(maxsize=64)
def _varied_codes(examples: tuple[Example, ...]) -> NDArray[np.uint8]:
    """Varied inputs of a task, uint8 [WORLDS, 18, 18]."""
    return RandomVariations(worlds_to_codes([example.input for example in examples]), seed=1).worlds(WORLDS)
