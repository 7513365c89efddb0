"""What goes over the wire, as pydantic models: the OpenAPI description is made from them.

Worlds are text drawings, programs are texts in any dialect. A solution has the form that `Solution.to_json` gives it on
the command line too; the models here check and describe it. What a request may hold is checked here as far as its
shape goes; that a drawing is a world and a text a program is for their own readers to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from karelsynth.karel.world import LARGEST_SIDE, SMALLEST_SIDE
from karelsynth.tasks.task import MOST_EXAMPLES

if TYPE_CHECKING:
    from karelsynth.solve.solution import Progress, Solution
    from karelsynth.tasks.task import Task

LONGEST_DRAWING: Final = 4_000
LONGEST_PROGRAM: Final = 20_000
LONGEST_TASK: Final = 40_000
_PROGRAM: Final = "def run():\n  while(frontIsClear):\n    move()\n  putMarker()"
_BEFORE: Final = ". . . .\n> . . ."
_AFTER: Final = ". . . .\n. . . >1"

Drawing = Annotated[
    str,
    Field(
        max_length=LONGEST_DRAWING,
        description="A world as a text drawing: rows of cells with spaces between, north at the top. `.` empty, `#` "
        "wall, `1` to `10` markers, `^ > v <` Karel, `>3` Karel on markers.",
        examples=[_BEFORE],
        json_schema_extra={"format": "karel-world"},
    ),
]
ProgramText = Annotated[
    str,
    Field(
        max_length=LONGEST_PROGRAM,
        description="A program in any dialect.",
        examples=[_PROGRAM],
        json_schema_extra={"format": "karel-program"},
    ),
]
Side = Annotated[int, Field(ge=SMALLEST_SIDE, le=LARGEST_SIDE)]
Name = Annotated[str, Field(max_length=200)]
About = Annotated[str, Field(max_length=4_000)]
DialectName = Literal["paper", "stanford", "tokens"]


class Asked(BaseModel):
    """A request: nothing but what is declared, of exactly the declared types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Told(BaseModel):
    """A part of an answer: all that is declared and nothing else, so that no field is lost silently."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# Problems


class Problem(Told):
    """What is wrong, in one message for people, and where."""

    message: str
    where: str | None = Field(default=None, description="The part of the request, such as `example 2, output`.")
    line: int | None = Field(default=None, description="The line, from 1, if the problem is in a text.")
    column: int | None = None


class ProblemBody(Told):
    """The body of every error response."""

    error: Problem


# Examples and tasks


class ExampleMessage(Asked):
    """A world before the program has run, and after."""

    input: Drawing
    output: Annotated[Drawing, Field(examples=[_AFTER])]


Examples = Annotated[list[ExampleMessage], Field(min_length=1, max_length=MOST_EXAMPLES)]


class TaskMessage(Asked):
    """A task with its name."""

    name: Name = ""
    about: About = ""
    examples: Examples


class TaskTold(Told):
    """A task that was read."""

    name: str
    about: str
    examples: list[ExampleMessage]

    @classmethod
    def of(cls, task: Task) -> TaskTold:
        return cls(name=task.name, about=task.about, examples=_examples(task))


class GalleryTaskTold(TaskTold):
    """A task of the gallery; `slug` is its name in addresses."""

    slug: str


class TaskText(Asked):
    """The text of a task file."""

    text: Annotated[str, Field(max_length=LONGEST_TASK)]


class TaskFile(Told):
    """The text of a task file."""

    text: str


def _examples(task: Task) -> list[ExampleMessage]:
    return [ExampleMessage(input=pair.input.to_text(), output=pair.output.to_text()) for pair in task.examples]


# Solving


class SolveRequest(Asked):
    """Examples of what the program should do."""

    examples: Examples
    budget: Annotated[float, Field(ge=0.1, le=10, description="Seconds that the search may take.")] = 1.0


class StopRequest(Asked):
    """Which search to end."""

    id: Annotated[str, Field(max_length=100, description="As the stream's first event tells it.")]


class Programs(Told):
    """One program in every dialect."""

    paper: str
    stanford: str
    tokens: str


class AnswerTold(Told):
    """A program that was found, and how it did when it was run."""

    programs: Programs
    right: list[bool] = Field(description="For each example, whether the program turns its input into its output.")
    logprob: float = Field(description="The model's log p(program | examples).")
    probability: float | None = Field(
        description="The probability of being correct on a further example, under the generator's distribution of "
        "tasks; null if the generator cannot produce such examples, or if the budget left no time for an estimate."
    )


class OutcomeTold(Told):
    """What some of the answers do on the world that tells them apart."""

    answers: list[int] = Field(description="Indices into the solution's answers, from 0.")
    status: str
    explanation: str
    world: str


class AmbiguityTold(Told):
    """The answers agree on the examples and differ here."""

    world: str
    outcomes: list[OutcomeTold]


class SolutionTold(Told):
    """The answer to a task: every consistent program that was found, or the best partial one."""

    solved: bool = Field(description="Whether the first answer is right on every example, checked by running it.")
    answers: list[AnswerTold]
    ambiguity: AmbiguityTold | None
    seconds: float
    beam: int = Field(description="The widest beam that was searched.")
    checked: int = Field(description="Complete programs that were run on the examples.")
    stopped: bool = Field(description="Whether the search was told to end before its time.")

    @classmethod
    def of(cls, found: Solution) -> SolutionTold:
        return cls.model_validate(found.to_json())


class ProgressTold(Told):
    """How far a search is."""

    seconds: float
    budget: float
    beam: int
    checked: int
    best: AnswerTold | None

    @classmethod
    def of(cls, progress: Progress) -> ProgressTold:
        return cls.model_validate(progress.to_json())


# Programs and worlds


class ProgramOnWorld(Asked):
    """A program and the world it is for."""

    program: ProgramText
    world: Drawing


class StanfordRequest(ProgramOnWorld):
    """And what the files will be called."""

    name: str = Field("karel_task", pattern=r"^[\w-]{1,200}$", description="Without `.py` and `.w`.")


class Step(Told):
    """Something that took a tick: an action, a test of a condition, a round of a repeat."""

    line: int = Field(description="The statement's line in the text that was sent, from 1; `column` and `width` too.")
    column: int
    width: int
    token: str = Field(description="The statement's token, such as `move` or `WHILE`.")
    hero: tuple[int, int, str] = Field(description="Row, column and heading afterwards; row 0 is the bottom row.")
    markers: tuple[int, int, int] | None = Field(description="Row, column and new count of the cell that changed.")


class Ran(Told):
    """What happened when a program was run."""

    status: str
    explanation: str
    world: str = Field(description="The world at the end, or just before the crash.")
    line: int | None = Field(description="The line of the statement that crashed or ran out of ticks.")
    column: int | None
    steps: list[Step]


class ProgramMessage(Asked):
    """The text of a program, possibly unfinished."""

    program: Annotated[str, Field(max_length=LONGEST_PROGRAM, examples=[_PROGRAM])]


class SyntaxProblem(Told):
    """The first mistake of a program."""

    message: str
    line: int
    column: int
    width: int
    suggestion: str | None = Field(description="What was probably meant.")


class Checked(Told):
    """Whether a program can be read."""

    ok: bool
    dialect: str | None = Field(description="The dialect that it seems to be in; null for an empty text.")
    problem: SyntaxProblem | None


class ConvertRequest(Asked):
    """A program and the dialect that is wanted."""

    program: ProgramText
    to: DialectName


class ProgramTold(Told):
    """A program's text."""

    program: str


class StanfordFiles(Told):
    """The two files that Stanford Karel needs."""

    py: str
    w: str


class RandomWorldRequest(Asked):
    """The size of a world that is wanted."""

    rows: Side = 8
    cols: Side = 8
    seed: Annotated[int, Field(ge=0, le=2**53 - 1, description="The same seed gives the same world.")] | None = None


class WorldTold(Told):
    """A world."""

    world: str


# The service itself


class Health(Told):
    """Whether the service is there, and how busy."""

    status: Literal["ok"] = "ok"
    solving: int
    waiting: int


class Version(Told):
    """What is running."""

    version: str
    model: str


FAILURES: Final[dict[int | str, dict[str, Any]]] = {
    413: {"model": ProblemBody, "description": "The body is too large."},
    415: {"model": ProblemBody, "description": "The body is not declared as JSON."},
    422: {"model": ProblemBody, "description": "Something in the body is wrong."},
}
"""What every operation with a body may answer besides its success."""
BUSY: Final[dict[int | str, dict[str, Any]]] = {
    503: {
        "model": ProblemBody,
        "description": "All workers are busy and the queue is full, or the server is stopping.",
        "headers": {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}},
    }
}
"""What solving may answer besides."""
