"""The result of `solve`, and its form as JSON: `karelsynth solve --json` prints it, the HTTP service sends it.

In JSON, worlds are text drawings, which every reader of tasks accepts, and a program comes in every dialect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from karelsynth.karel.dialects import DIALECTS

if TYPE_CHECKING:
    from karelsynth.karel.interpreter import Status
    from karelsynth.karel.program import Program
    from karelsynth.karel.world import World

Support = Literal["strong", "fair", "weak"]
LOWEST_PROBABILITY: Final[dict[Support, float]] = {"strong": 0.9, "fair": 0.6, "weak": 0.0}
"""The lowest probability of an answer for each degree to which the examples support it."""
ADVICE: Final[dict[Support, str]] = {
    "strong": "The examples support this program well.",
    "fair": "This program fits, but others do, too: one more example would make it surer.",
    "weak": "This program fits, but it is probably not what you mean: show one more example.",
}


@dataclass(frozen=True)
class Answer:
    """A program, and its results on the examples."""

    program: Program
    right: tuple[bool, ...]
    """For each example, whether the program turns its input into its output."""
    logprob: float
    """log p(program | examples) by the model, among programs of the length that the search allowed. Programs that were
    found and differ from this one only by what never has an effect count too (`karel.reduce`)."""
    probability: float | None = None
    """The probability of being right on a further example of the same kind; see `ranking`. None for an unsolved
    task."""

    @property
    def chance(self) -> float | None:
        """Deprecated: use `probability`; removed in 0.2."""
        return self.probability

    @property
    def solves(self) -> bool:
        """Whether it is right on every example."""
        return all(self.right)

    def to_json(self) -> dict[str, Any]:
        """As plain data, the program in every dialect."""
        return {
            "programs": {dialect: self.program.to(dialect) for dialect in DIALECTS},
            "right": list(self.right),
            "logprob": self.logprob,
            "probability": self.probability,
        }


@dataclass(frozen=True)
class Outcome:
    """One outcome on the distinguishing world, and the consistent programs that have it."""

    answers: tuple[int, ...]
    """Their indices in `Solution.answers`."""
    status: Status
    world: World
    """The final world; if `status` is not OK, the world at that point."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "answers": list(self.answers),
            "status": self.status.name.lower(),
            "explanation": self.status.reason,
            "world": self.world.to_text(),
        }


@dataclass(frozen=True)
class Ambiguity:
    """A world on which likely programs differ, and their outcomes there; see `ranking.find_ambiguity`."""

    world: World
    """The input of an example with one change."""
    outcomes: tuple[Outcome, ...]
    """Two or three; the first is that of the top-ranked program."""
    example: int
    """The example whose input was changed, from 0."""
    change: str
    """What was changed, in words."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "world": self.world.to_text(),
            "outcomes": [outcome.to_json() for outcome in self.outcomes],
            "example": self.example,
            "change": self.change,
        }


@dataclass(frozen=True)
class Solution:
    """The answer to a task; `bool(solution)` says whether it is solved."""

    answers: tuple[Answer, ...]
    """The consistent programs that were found, the top-ranked first. For an unsolved task the best partial answer
    alone, or nothing if no program was found in time."""
    solved: bool
    """Whether the first answer is right on every example, checked by running it."""
    ambiguity: Ambiguity | None
    """A world on which likely answers differ; None if they agree on all worlds that were tried."""
    seconds: float
    """How long the search took."""
    beam: int
    """The widest beam that was searched."""
    checked: int
    """Programs that were finished and run, over all rounds."""
    stopped: bool = False
    """Whether `should_stop` ended the search early: more time might have found more answers, or better ones."""

    def __bool__(self) -> bool:
        return self.solved

    @property
    def program(self) -> Program | None:
        """The top-ranked program: correct on every example if `solved`, else the best partial answer."""
        return self.answers[0].program if self.answers else None

    @property
    def right(self) -> tuple[bool, ...]:
        """For each example, whether `program` turns its input into its output."""
        return self.answers[0].right if self.answers else ()

    @property
    def support(self) -> Support | None:
        """How strongly the examples support `program`; None if the task is unsolved."""
        probability = self.answers[0].probability if self.solved else None
        if probability is None:
            return None
        return next(support for support, lowest in LOWEST_PROBABILITY.items() if probability >= lowest)

    @property
    def advice(self) -> str | None:
        """What `support` means, and what would help; None if the task is unsolved."""
        return None if self.support is None else ADVICE[self.support]

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "solved": self.solved,
            "support": self.support,
            "advice": self.advice,
            "answers": [answer.to_json() for answer in self.answers],
            "ambiguity": None if self.ambiguity is None else self.ambiguity.to_json(),
            "seconds": self.seconds,
            "beam": self.beam,
            "checked": self.checked,
            "stopped": self.stopped,
        }


@dataclass(frozen=True)
class Progress:
    """The progress of a search; `on_progress` receives it a few times a second."""

    seconds: float
    budget: float
    beam: int
    """The beam width of the current round."""
    checked: int
    """Programs that were finished and run so far."""
    best: Answer | None
    """The best answer so far, right or not."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "seconds": self.seconds,
            "budget": self.budget,
            "beam": self.beam,
            "checked": self.checked,
            "best": None if self.best is None else self.best.to_json(),
        }
