"""Requests and responses of the API as Pydantic models, from which FastAPI makes the OpenAPI description.

Worlds are text drawings, programs are texts in any dialect. The models check types and sizes; the parsers of worlds and
programs check the texts. Solutions have the JSON form of `Solution.to_json`, which the command line prints too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from karelsynth.karel.world import LARGEST_SIDE, SMALLEST_SIDE
from karelsynth.tasks.task import MOST_EXAMPLES
from karelsynth.tutor.challenges import LONGEST_SET

if TYPE_CHECKING:
    from karelsynth.errors import ProgramSyntaxError
    from karelsynth.solve.solution import Progress, Solution
    from karelsynth.tasks.task import Example, Task
    from karelsynth.tutor.blocks import BlockNode, BlockProgram
    from karelsynth.tutor.challenges import ChallengeSet

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
Dialect = Literal["paper", "stanford", "tokens"]
Side = Annotated[int, Field(ge=SMALLEST_SIDE, le=LARGEST_SIDE)]
Seed = Annotated[int, Field(ge=0, le=2**53 - 1, description="The same seed gives the same world.")]


class RequestModel(BaseModel):
    """A request. Unknown fields and values of other types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ResponseModel(BaseModel):
    """A response or a part of one. Unknown fields are errors, so that none is dropped by mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# Errors


class ProblemDetails(ResponseModel):
    """What is wrong, in one message for people, and where.

    It has the role of RFC 9457's problem details, with fields of its own.
    """

    message: str
    where: str | None = Field(default=None, description="The part of the request, such as `example 2, output`.")
    line: int | None = Field(default=None, description="The line, from 1, if the problem is in a text.")
    column: int | None = None


class ErrorBody(ResponseModel):
    """The body of every error response."""

    error: ProblemDetails


# Tasks


class ExampleMessage(RequestModel):
    """The world before the program runs, and after."""

    input: Drawing
    output: Annotated[Drawing, Field(examples=[_AFTER])]


Examples = Annotated[list[ExampleMessage], Field(min_length=1, max_length=MOST_EXAMPLES)]


class TaskRequest(RequestModel):
    """A task with its name and description."""

    name: Annotated[str, Field(max_length=200)] = ""
    about: Annotated[str, Field(max_length=4_000)] = ""
    examples: Examples


class TaskResponse(ResponseModel):
    """A task with its name and description."""

    name: str
    about: str
    examples: list[ExampleMessage]

    @classmethod
    def of(cls, task: Task, **fields: Any) -> Self:
        """The task in this form; `fields` are those of a subclass."""
        pairs = [_pair_message(pair) for pair in task.examples]
        return cls(name=task.name, about=task.about, examples=pairs, **fields)


def _pair_message(pair: Example) -> ExampleMessage:
    return ExampleMessage(input=pair.input.to_text(), output=pair.output.to_text())


class GalleryTaskResponse(TaskResponse):
    """A task of the gallery; `slug` is its name in URLs."""

    slug: str


class TaskTextRequest(RequestModel):
    """The text of a task file."""

    text: Annotated[str, Field(max_length=LONGEST_TASK)]


class TaskTextResponse(ResponseModel):
    """The text of a task file."""

    text: str


# Solving


class SolveRequest(RequestModel):
    """Examples of what the program should do."""

    examples: Examples
    budget: Annotated[float, Field(ge=0.1, le=10, description="Seconds that the search may take.")] = 1.0


class StopRequest(RequestModel):
    """The search to stop."""

    id: Annotated[str, Field(max_length=100, description="The id from the stream's first event.")]


class ProgramTexts(ResponseModel):
    """One program in every dialect."""

    paper: str
    stanford: str
    tokens: str


class AnswerResponse(ResponseModel):
    """A program that was found, and on which examples it is right."""

    programs: ProgramTexts
    right: list[bool] = Field(description="For each example, whether the program turns its input into its output.")
    logprob: float = Field(description="The model's log p(program | examples).")
    probability: float | None = Field(
        description="The probability of being right on a further example; null for a partial answer."
    )


class OutcomeResponse(ResponseModel):
    """The outcome of one group of answers on the ambiguity's world."""

    answers: list[int] = Field(description="Indices into the solution's answers, from 0.")
    status: str
    explanation: str
    world: str


class AmbiguityResponse(ResponseModel):
    """A world on which answers that agree on all examples have different outcomes."""

    world: str
    outcomes: list[OutcomeResponse] = Field(description="Two or three.")
    example: int = Field(description="The example whose input was changed to get this world, from 0.")
    change: str = Field(description="What was changed, in words.")


class SolutionResponse(ResponseModel):
    """A task's solution: all consistent programs that were found, or the best partial one."""

    solved: bool = Field(description="Whether the first answer is right on every example, checked by running it.")
    support: str | None = Field(
        description="How strongly the examples support the first answer: strong, fair or weak; null if unsolved."
    )
    advice: str | None = Field(description="What the support means and what would help, in words.")
    answers: list[AnswerResponse]
    ambiguity: AmbiguityResponse | None
    seconds: float
    beam: int = Field(description="The widest beam that was searched.")
    checked: int = Field(description="Complete programs that were run on the examples.")
    stopped: bool = Field(description="Whether the search was stopped before it had used its budget.")

    @classmethod
    def of(cls, solution: Solution) -> Self:
        return cls.model_validate(solution.to_json())


class AcceptedEvent(ResponseModel):
    """The stream's first event: the id with which the search can be stopped."""

    id: str


class QueuedEvent(ResponseModel):
    """The position in the queue: 1 is the next; 0 is a search that runs."""

    position: int


class ProgressEvent(ResponseModel):
    """The state of a running search."""

    seconds: float
    budget: float
    beam: int
    checked: int
    best: AnswerResponse | None

    @classmethod
    def of(cls, progress: Progress) -> Self:
        return cls.model_validate(progress.to_json())


class ErrorEvent(ResponseModel):
    """The stream's last event if the search has failed."""

    message: str


# Programs and worlds


class RunRequest(RequestModel):
    """A program, and the world to run it on."""

    program: ProgramText
    world: Drawing


class StanfordRequest(RunRequest):
    """A program, a world, and the name of the files."""

    name: str = Field("karel_task", pattern=r"^[\w-]{1,200}$", description="Without `.py` and `.w`.")


class RunStep(ResponseModel):
    """One tick of a run: an action, a test of a condition, or a round of a repeat."""

    line: int = Field(description="The statement's line in the text that was sent, from 1; `column` and `width` too.")
    column: int
    width: int
    token: str = Field(description="The statement's token, such as `move` or `WHILE`.")
    start: int = Field(
        description="The index of the statement's first token, from 0; helper functions count in place of their calls."
    )
    end: int = Field(description="The index after the statement's last token, its blocks included.")
    hero: tuple[int, int, str] = Field(
        description="Karel's row, column and heading after the step; row 0 is the bottom row."
    )
    markers: tuple[int, int, int] | None = Field(
        description="Row, column and new count of the cell that changed, up to 101."
    )


class RunCall(ResponseModel):
    """A call of a helper function, as it is in the text, and the steps that belong to it."""

    name: str
    line: int
    column: int
    width: int
    start: int = Field(description="Steps whose `start` is from here on, and before `end`, run inside of this call.")
    end: int


class RunResponse(ResponseModel):
    """The outcome of a run, with all its steps."""

    status: str = Field(
        description="`ok`, `hit_wall`, `no_marker_to_pick`, `too_many_markers`, `out_of_ticks`, `runs_forever` (the "
        "state repeats) or `pile_too_high` (more than 10 markers on a cell at the end)."
    )
    explanation: str
    world: str = Field(
        description="The world at the end, or just before the crash; a pile of more than 10 markers counts as 10."
    )
    line: int | None = Field(description="The line of the statement that crashed, ran out of ticks or repeats forever.")
    column: int | None
    steps: list[RunStep]
    calls: list[RunCall] = Field(description="The calls of helper functions, outer ones before those inside.")


class CheckRequest(RequestModel):
    """The text of a program, possibly unfinished."""

    program: Annotated[str, Field(max_length=LONGEST_PROGRAM, examples=[_PROGRAM])]


class SyntaxProblem(ResponseModel):
    """The first syntax error of a program."""

    message: str
    line: int
    column: int
    width: int
    suggestion: str | None = Field(description="A known word similar to the unknown one.")

    @classmethod
    def of(cls, error: ProgramSyntaxError) -> Self:
        return cls(
            message=error.reason,
            line=error.line,
            column=error.column,
            width=error.width,
            suggestion=error.suggestion,
        )


class CheckResponse(ResponseModel):
    """Whether a program's syntax is right."""

    ok: bool
    dialect: str | None = Field(description="The dialect that was detected; null for an empty text.")
    problem: SyntaxProblem | None


class ConvertRequest(RequestModel):
    """A program, and the dialect to write it in."""

    program: ProgramText
    to: Literal["paper", "stanford", "tokens"]


class ConvertResponse(ResponseModel):
    """A program's text in another dialect."""

    program: str
    notes: list[str] = Field(description="What could not be kept, one sentence each; empty if nothing is lost.")


class StanfordFiles(ResponseModel):
    """The contents of the two files that Stanford Karel needs."""

    py: str
    w: str


class RandomWorldRequest(RequestModel):
    """The size of a random world."""

    rows: Side = 8
    cols: Side = 8
    seed: Seed | None = None


class WorldResponse(ResponseModel):
    """A world."""

    world: str


# The tutor


ServedChallenge = Annotated[
    int | None,
    Field(ge=0, le=1000, description="A challenge of the served set, from 0: its hidden examples count, too."),
]


class JudgeRequest(RequestModel):
    """Examples, and a program to try on them if there is one."""

    examples: Examples
    program: ProgramText | None = None


class ExampleProblem(ResponseModel):
    """Why no program can do an example, or not together with an earlier one."""

    example: int = Field(description="The example's number, from 1.")
    message: str


class VerdictResponse(ResponseModel):
    """Whether a program does an example."""

    right: bool
    status: str = Field(description="As in a run's response.")
    explanation: str
    ticks: int


class JudgeResponse(ResponseModel):
    """What is wrong with examples, and whether a program does each of them."""

    problems: list[ExampleProblem]
    verdicts: list[VerdictResponse] = Field(description="One for each example; empty without a program.")


class SubmissionMessage(RequestModel):
    """A student's program."""

    name: Annotated[str, Field(max_length=200, description="The student's name.")]
    program: ProgramText


class GradeRequest(RequestModel):
    """A task's examples and the programs of a class."""

    examples: Examples
    hidden: Annotated[list[ExampleMessage], Field(max_length=MOST_EXAMPLES)] = []
    programs: Annotated[list[SubmissionMessage], Field(min_length=1, max_length=200)]
    challenge: ServedChallenge = None


class HintRequest(RequestModel):
    """A task's examples and a student's program."""

    examples: Examples
    hidden: Annotated[
        list[ExampleMessage], Field(max_length=MOST_EXAMPLES, description="A repair is right on these, too.")
    ] = []
    program: ProgramText
    dialect: Annotated[Dialect, Field(description="That of a program of which nothing is written yet.")] = "paper"
    level: Annotated[int, Field(ge=1, le=3, description="1: where. 2: what kind of change. 3: the change.")] = 1
    challenge: ServedChallenge = None


class ProbeRequest(RequestModel):
    """A task's examples and a right program."""

    examples: Examples
    reference: ProgramText
    add: Annotated[bool, Field(description="Whether to add worlds that unmask wrong programs.")] = False
    budget: Annotated[float, Field(ge=0.1, le=10, description="Seconds that the search may take.")] = 2.0


class PoseRequest(RequestModel):
    """What exercises should be like."""

    concepts: Annotated[
        list[Literal["sequence", "repeat", "while", "if", "ifelse", "nested"]], Field(max_length=6)
    ] = []
    like: Annotated[
        ProgramText | None,
        Field(description="A program: exercises with its concepts and about its length. It replaces the other fields."),
    ] = None
    least_tokens: Annotated[int, Field(ge=5, le=100)] = 6
    most_tokens: Annotated[int, Field(ge=5, le=100)] = 40
    count: Annotated[int, Field(ge=1, le=10)] = 3
    seed: Seed = 0
    budget: Annotated[float, Field(ge=0.1, le=10, description="Seconds that the search may take.")] = 5.0


class ExerciseResponse(TaskResponse):
    """An exercise with its stated program."""

    program: str
    level: str


class PoseResponse(ResponseModel):
    """Exercises from easy to hard."""

    exercises: list[ExerciseResponse]


class StepResponse(ResponseModel):
    """The step at which a run went wrong."""

    number: int = Field(description="Counted in actions, from 1.")
    line: int
    column: int
    code: str


class ReportResponse(ResponseModel):
    """What a program did on an example."""

    example: int | None = Field(default=None, description="The example's number, from 1.")
    right: bool
    status: str
    expected: str
    actual: str
    cells: list[tuple[int, int]] = Field(description="Row and column of the cells that differ.")
    step: StepResponse | None
    explanation: str


class SubmissionProblem(ResponseModel):
    """Why a text is no program."""

    message: str
    line: int | None
    column: int | None


class GradeResponse(ResponseModel):
    """How a student's program does."""

    name: str
    passed: bool
    right: list[bool]
    hidden_right: list[bool]
    problem: SubmissionProblem | None
    reports: list[ReportResponse] = Field(description="The first three wrong runs on the task's own examples.")


class GradesResponse(ResponseModel):
    """The grades of a class, in the order of the programs."""

    grades: list[GradeResponse]


class HintStepResponse(ResponseModel):
    """One change, up to the requested level."""

    line: int
    where: str
    kind: str | None = None
    change: str | None = None


class HintResponse(ResponseModel):
    """What helps next."""

    kind: Literal["right", "repair", "step", "begin", "none"]
    steps: list[HintStepResponse]
    text: str | None = Field(description="The student's text with the change, at level 3.")
    diff: list[str]
    edits: int
    example: int | None
    report: ReportResponse | None
    seconds: float


class ImpostorResponse(ResponseModel):
    """A wrong program that passes all examples, and a small world that unmasks it."""

    program: str
    world: str
    expected: str
    actual: str
    explanation: str
    share: float = Field(description="The share of further worlds on which it is wrong.")


class ProbeResponse(ResponseModel):
    """Whether a task is well posed."""

    well_posed: bool
    reference: str
    passing: int
    impostors: list[ImpostorResponse]
    added: list[ExampleMessage]
    tried: int
    seconds: float


# Blocks


class BlockMessage(RequestModel):
    """A statement as a block."""

    keyword: Annotated[
        str, Field(max_length=20, description="An action's token, WHILE, IF, IFELSE, REPEAT, or `call`.")
    ]
    detail: Annotated[str, Field(max_length=200)] | int | None = Field(
        default=None, description="A condition such as `not frontIsClear`, a count, or a function's name."
    )
    blocks: Annotated[list[list[BlockMessage]], Field(max_length=2)] = []
    number: int | None = Field(default=None, description="Which statement of the text this is; null for a new one.")
    line: int | None = Field(default=None, description="The statement's line in the text, from 1; `column` too.")
    column: int | None = None

    @classmethod
    def of(cls, node: BlockNode) -> BlockMessage:
        inner = [[BlockMessage.of(each) for each in block] for block in node.blocks]
        place = {"line": node.line, "column": node.column}
        return cls(keyword=node.keyword, detail=node.detail, blocks=inner, number=node.number, **place)


class BlockFunctionMessage(RequestModel):
    """A function as blocks."""

    name: Annotated[str, Field(max_length=200)]
    body: list[BlockMessage]


class ReadBlocksRequest(RequestModel):
    """A program's text, possibly empty or with empty blocks; `dialect` is that of an empty text."""

    program: Annotated[str, Field(max_length=LONGEST_PROGRAM)]
    dialect: Dialect = "paper"


class WriteBlocksRequest(ReadBlocksRequest):
    """A program's text, and what its functions have become."""

    functions: Annotated[list[BlockFunctionMessage], Field(max_length=200)]


class ChangeHelperRequest(ReadBlocksRequest):
    """A program's text, and what to do with one of its helper functions."""

    change: Literal["define", "rename", "delete"]
    name: Annotated[str, Field(max_length=200, description="The helper's name; that of the new one for `define`.")]
    new_name: Annotated[str, Field(max_length=200, description="For `rename`.")] = ""


class BlocksResponse(ResponseModel):
    """The blocks of a text."""

    program: str
    dialect: str
    main: str
    complete: bool = Field(description="Whether no block is empty: the text is a program.")
    functions: list[BlockFunctionMessage]
    problem: SyntaxProblem | None = Field(default=None, description="Why the text has no blocks.")

    @classmethod
    def of(cls, blocks: BlockProgram) -> Self:
        functions = [
            BlockFunctionMessage(name=each.name, body=[BlockMessage.of(node) for node in each.body])
            for each in blocks.functions
        ]
        return cls(
            program=blocks.text,
            dialect=blocks.dialect,
            main=blocks.main,
            complete=blocks.complete,
            functions=functions,
        )


# Challenges


class ChallengeTextRequest(RequestModel):
    """The text of a file with challenges, or of the JSON lines that `karelsynth pose` writes."""

    text: Annotated[str, Field(max_length=LONGEST_SET)]


class ChallengeResponse(TaskResponse):
    """A task for students."""

    hidden: list[ExampleMessage] = Field(description="Empty for a served set: the server keeps them.")
    hidden_count: int
    starter: str
    hints: int = Field(description="The highest level of hints, from 0 (none) to 3.")
    served: int | None = Field(description="Its place in the served set, from 0, for requests of grades and hints.")


class ChallengeSetResponse(ResponseModel):
    """Challenges in order; none if no set is served."""

    title: str
    challenges: list[ChallengeResponse]

    @classmethod
    def of(cls, lesson: ChallengeSet, *, served: bool = False) -> Self:
        challenges = [
            ChallengeResponse.of(
                each.task,
                hidden=[] if served else [_pair_message(pair) for pair in each.hidden],
                hidden_count=len(each.hidden),
                starter=each.starter,
                hints=each.hints,
                served=place if served else None,
            )
            for place, each in enumerate(lesson.challenges)
        ]
        return cls(title=lesson.title, challenges=challenges)


# The service


class HealthResponse(ResponseModel):
    """The service's state: how many searches run, and how many requests wait."""

    status: Literal["ok"] = "ok"
    solving: int
    waiting: int


class VersionResponse(ResponseModel):
    """The package's version and the model's name."""

    version: str
    model: str


BODY_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    413: {"model": ErrorBody, "description": "The body is too large."},
    415: {"model": ErrorBody, "description": "The body is not declared as JSON."},
    422: {"model": ErrorBody, "description": "Something in the body is wrong."},
}
"""Error responses of every operation that takes a body, for the OpenAPI description."""
BUSY_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    503: {
        "model": ErrorBody,
        "description": "All workers are busy and the queue is full, or the server is stopping.",
        "headers": {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}},
    }
}
"""Further error responses of the operations that solve."""
