"""Programs that a search has found for one task, checked on its examples.

`check_programs` runs candidates; `SearchState.update_answers` keeps the consistent ones, or the best partial one.
Programs stay rows of token ids throughout. `CheckedPrograms.answer` makes a `Program` of a row that is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from karelsynth.karel.interpreter import MAX_TICKS, Status
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.reduce import reduced
from karelsynth.karel.tokens import ACTIONS
from karelsynth.solve.solution import Answer
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.simplify import simplify

if TYPE_CHECKING:
    from numpy.typing import NDArray

NATS_PER_TOKEN: Final = 0.1
"""During the search, each token costs an answer this many nats of log-probability. Chosen on 400 random and 400
purposeful tasks: random tasks gain from more, purposeful ones from less (docs/log.md)."""
MOST_CONSIDERED: Final = 64
"""The most consistent programs that are kept for ranking."""


@dataclass(frozen=True)
class CheckedPrograms:
    """N programs for one task and their results on its K examples."""

    tokens: NDArray[np.uint8]
    """[N, L], padded with `<pad>`."""
    lengths: NDArray[np.int64]
    """[N]."""
    logprobs: NDArray[np.float32]
    """[N]: log p(program | examples) by the model."""
    correct: NDArray[np.bool_]
    """[N, K]."""

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, rows: NDArray[Any] | slice) -> CheckedPrograms:
        return CheckedPrograms(self.tokens[rows], self.lengths[rows], self.logprobs[rows], self.correct[rows])

    def joined(self, other: CheckedPrograms) -> CheckedPrograms:
        """These programs and others for the same task."""
        width = max(self.tokens.shape[1], other.tokens.shape[1])
        tokens = [np.pad(each.tokens, ((0, 0), (0, width - each.tokens.shape[1]))) for each in (self, other)]
        rest = (
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("lengths", "logprobs", "correct")
        )
        return CheckedPrograms(np.concatenate(tokens), *rest)

    def ranked(self) -> CheckedPrograms:
        """The programs sorted by correct examples, most first, and then by length-penalised log-probability."""
        return self[np.lexsort((NATS_PER_TOKEN * self.lengths - self.logprobs, -self.correct.sum(1)))]

    def distinct(self) -> CheckedPrograms:
        """The programs without repetitions, in any order."""
        return self[np.unique(self.tokens, axis=0, return_index=True)[1]]

    def simplified(
        self, inputs: NDArray[np.uint8], outputs: NDArray[np.uint8], *, max_ticks: int = MAX_TICKS, threads: int = 1
    ) -> TaskBatch:
        """The programs without parts that none of the examples needs, [K, 18, 18] each."""
        lengths = self.lengths.astype(np.uint8)
        before, after = (np.repeat(worlds[None], len(self), axis=0) for worlds in (inputs, outputs))
        tasks = TaskBatch(self.tokens, lengths, before, after, novel=np.zeros(len(self), np.bool_))
        return simplify(tasks, threads, max_ticks=max_ticks, reserved=True)

    def reduced(self) -> CheckedPrograms:
        """The programs without what never has an effect (`karel.reduce`), ranked.

        Those that become equal are one, with the sum of their probabilities. They are correct on the same examples.
        """
        rows: dict[tuple[int, ...], list[int]] = {}
        for row in range(len(self)):
            program = Program.from_tokens(self.tokens[row, : self.lengths[row]].tolist())
            rows.setdefault(tuple(reduced(program).token_ids), []).append(row)
        tokens = np.zeros((len(rows), self.tokens.shape[1]), np.uint8)
        for to, program_ids in enumerate(rows):
            tokens[to, : len(program_ids)] = program_ids
        lengths = np.array([len(program_ids) for program_ids in rows], np.int64)
        logprobs = np.array([np.logaddexp.reduce(self.logprobs[same]) for same in rows.values()], np.float32)
        correct = self.correct[[same[0] for same in rows.values()]]
        return CheckedPrograms(tokens, lengths, logprobs, correct).ranked()

    def answer(self, row: int, probability: float | None = None) -> Answer:
        """The program in a row as an `Answer`."""
        program = Program.from_tokens(self.tokens[row, : self.lengths[row]].tolist())
        return Answer(program, tuple(map(bool, self.correct[row])), float(self.logprobs[row]), probability)


@dataclass
class SearchState:
    """The search for one task so far."""

    inputs: NDArray[np.uint8]
    """[K, 18, 18]."""
    outputs: NDArray[np.uint8]
    answers: CheckedPrograms | None = None
    """Consistent programs, ranked; or else the best partial one alone; or None."""
    seconds: float = 0.0
    beam: int = 0
    checked: int = 0
    """How many programs have been run."""
    stopped: bool = False
    """Whether the caller requested a stop before the search was over."""
    max_ticks: int = MAX_TICKS
    """The most ticks of a correct program."""
    budget: float = math.inf
    """Seconds."""
    rounds: int = 0
    """The number of rounds that have been run."""
    should_stop: Callable[[], bool] = bool
    """Returns True once the caller wants no more."""

    @property
    def solved(self) -> bool:
        """Whether the top-ranked answer is consistent."""
        return self.answers is not None and bool(self.answers.correct[0].all())

    @property
    def best_logprob(self) -> float:
        """The log-probability of the top-ranked answer; −∞ if the task is not solved."""
        return float(self.answers.logprobs[0]) if self.answers is not None and self.solved else -math.inf

    def update_answers(self, found: CheckedPrograms) -> None:
        """Keep the consistent programs of `found` and of before; without any, the best partial one."""
        if not len(found):
            return
        if self.answers is not None and self.solved:
            found = found.joined(self.answers).distinct()
        ranked = found.ranked()
        counts = ranked.correct.sum(1)
        if counts[0] == len(self.inputs):
            self.answers = ranked[counts == len(self.inputs)][:MOST_CONSIDERED]
        elif self.answers is None or self.answers.correct[0].sum() < counts[0]:
            self.answers = ranked[:1]


def check_programs(
    state: SearchState, tokens: NDArray[np.uint8], lengths: NDArray[np.int64], logprobs: NDArray[np.float32]
) -> CheckedPrograms:
    """Run programs [N, L] on a task's examples. Drops those that do not parse, and empty rows."""
    runs = run_batch(tokens, state.inputs, expected=state.outputs, keep_worlds=False, max_ticks=state.max_ticks)
    assert runs.correct is not None
    parses = runs.status[:, 0] != Status.INVALID_PROGRAM
    return CheckedPrograms(tokens, lengths, logprobs, runs.correct)[parses & (lengths > 0)]


@cache
def single_actions() -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.float32]]:
    """The programs of one action: tokens, lengths, and log-probabilities of 0."""
    tokens = encode_programs([Program.parse(f"DEF run m( {action} m)") for action in ACTIONS])
    return tokens, np.full(len(tokens), tokens.shape[1]), np.zeros(len(tokens), np.float32)
