"""What a search finds for a task: programs run on its examples, ranked, and what it has left open."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from karelsynth.karel.interpreter import Status
from karelsynth.karel.machine import encode_programs, run_batch
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import ACTIONS, PAD
from karelsynth.search.closing import close_programs
from karelsynth.solve.solution import Answer

if TYPE_CHECKING:
    from numpy.typing import NDArray

PER_TOKEN: Final = 0.5
"""How much likelier, in nats, an answer must be to be preferred to one that is a token shorter. Chosen on `val` and
5,000 fresh tasks, where it hardly matters."""
CONSIDERED: Final = 64
"""How many right programs are kept to choose from."""
REPAIRED: Final = 64
"""How many near misses a repair begins with."""


@dataclass
class Search:
    """How far the search for one task has come."""

    inputs: NDArray[np.uint8]
    """[K, 18, 18]."""
    outputs: NDArray[np.uint8]
    answers: list[Answer] = field(default_factory=list)
    """Right ones, the preferred first; or else the best partial one, alone."""
    seconds: float = 0.0
    beam: int = 0
    checked: int = 0
    stopped: bool = False
    """Whether it was told to end before its time."""

    @property
    def solved(self) -> bool:
        return bool(self.answers) and self.answers[0].solves


@dataclass(frozen=True)
class Found:
    """Programs for one task, run on its examples."""

    tokens: NDArray[np.uint8]
    """[N, L]."""
    lengths: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    right: NDArray[np.bool_]
    """[N, K]."""

    def __getitem__(self, rows: NDArray[Any]) -> Found:
        return Found(self.tokens[rows], self.lengths[rows], self.logprobs[rows], self.right[rows])

    def and_also(self, other: Found) -> Found:
        """These and others for the same task."""
        width = max(self.tokens.shape[1], other.tokens.shape[1])
        tokens = [np.pad(each.tokens, ((0, 0), (0, width - each.tokens.shape[1]))) for each in (self, other)]
        rest = (
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("lengths", "logprobs", "right")
        )
        return Found(np.concatenate(tokens), *rest)

    @property
    def ranks(self) -> NDArray[np.int64]:
        """Their numbers, those that are right on most examples first, and the preferred ones first among these."""
        return np.lexsort((PER_TOKEN * self.lengths - self.logprobs, -self.right.sum(1)))


class OpenEnds:
    """What a search has left open, the likeliest after every step, in case that it comes to be repaired."""

    def __init__(self) -> None:
        self._noted: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def note(self, number: torch.Tensor, tokens: torch.Tensor, scores: torch.Tensor) -> None:
        """See `beam_search`."""
        self._noted.append((number.cpu(), tokens[:, :REPAIRED].cpu().clone(), scores[:, :REPAIRED].cpu()))

    def closed(self, task: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.float32]]:
        """As programs: tokens, lengths, and how likely they were when they were open."""
        programs: dict[bytes, float] = {}
        for number, tokens, scores in self._noted:
            for row in (number == task).nonzero()[:, 0].tolist():
                there = scores[row] > -torch.inf
                closed, lengths = close_programs(tokens[row, there].numpy())
                for program, length, score in zip(closed, lengths, scores[row, there].tolist(), strict=True):
                    if length:
                        programs.setdefault(program[:length].tobytes(), score)
        lengths = np.array([len(program) for program in programs], np.int64)
        padded = np.full((len(programs), lengths.max(initial=1)), PAD, np.uint8)
        for row, program in enumerate(programs):
            padded[row, : len(program)] = np.frombuffer(program, np.uint8)
        return padded, lengths, np.array(list(programs.values()), np.float32)


def run_programs(
    search: Search, tokens: NDArray[np.uint8], lengths: NDArray[np.int64], logprobs: NDArray[np.float32]
) -> Found:
    """Run programs [N, L] on a task's examples. Those that do not parse, as only some models write, are left out."""
    runs = run_batch(tokens, search.inputs, expected=search.outputs, keep_worlds=False)
    assert runs.correct is not None
    parses = runs.status[:, 0] != Status.INVALID_PROGRAM
    return Found(tokens, lengths, logprobs, runs.correct)[parses & (lengths > 0)]


@cache
def simplest() -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.float32]]:
    """Programs of one action: tokens, lengths, and no opinion of how likely they are."""
    tokens = encode_programs([Program.parse(f"DEF run m( {action} m)") for action in ACTIONS])
    return tokens, np.full(len(tokens), tokens.shape[1]), np.zeros(len(tokens), np.float32)


def remember(search: Search, found: Found) -> None:
    """Of what was found for a task, remember what is right, or nearest to it."""
    if not len(found.lengths):
        return
    right, ranks = found.right.sum(1), found.ranks
    if right[ranks[0]] == len(search.inputs):
        ranks = ranks[right[ranks] == len(search.inputs)][:CONSIDERED]
    elif search.answers and sum(search.answers[0].right) >= right[ranks[0]]:
        return
    else:
        ranks = ranks[:1]
    search.answers = [
        Answer(
            Program.from_tokens(found.tokens[rank, : found.lengths[rank]].tolist()),
            tuple(map(bool, found.right[rank])),
            float(found.logprobs[rank]),
        )
        for rank in ranks
    ]
