"""Routes of the tutor: judging examples, grading a class, hints, probing a task, posing exercises.

The route functions are synchronous, so FastAPI runs them in threads, a few at a time (`guard.FairTurns`). A hint
for a student who is far off needs a search, which waits in the same queue as all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from karelsynth.karel.dialects import read_source, recognise
from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.solve.solution import Solution
from karelsynth.tasks.task import MOST_EXAMPLES, Example, Task
from karelsynth.tutor.beginning import first_hint, opened
from karelsynth.tutor.grade import Submission
from karelsynth.tutor.grade import grade as grade_all
from karelsynth.tutor.hint import find_hint
from karelsynth.tutor.pose import Wish, concepts_of
from karelsynth.tutor.pose import pose as pose_all
from karelsynth.tutor.probe import impossible_examples
from karelsynth.tutor.probe import probe as probe_task
from karelsynth.web.connections import scope_client
from karelsynth.web.errors import BODY_ERRORS, RequestError
from karelsynth.web.messages import (
    Dialect,
    ExampleMessage,
    Examples,
    ProgramText,
    RequestModel,
    ResponseModel,
    Seed,
    TaskResponse,
    read_examples,
    read_pairs,
)
from karelsynth.web.queue import QueueFull, SearchEvent, ServerStopping, SolveQueue

router = APIRouter()
_MOST_EXPLAINED: Final = 1_000_000
"""The most ticks of all runs that are explained for a request: about a second. Each of 600 runs may have 1,666."""
_STOPPING: Final = 0.2
"""Seconds to wait for a search that was asked to stop."""


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


@router.post("/api/judge", responses=BODY_ERRORS)
def judge(body: JudgeRequest) -> JudgeResponse:
    """Say which examples no program can do, and whether a program does each example."""
    pairs = read_pairs(body.examples)
    verdicts = []
    if body.program is not None:
        program = Program.parse(body.program)
        for pair in pairs:
            outcome = program.run(pair.input)
            verdicts.append(
                VerdictResponse(
                    right=outcome.ok and outcome.world == pair.output,
                    status=outcome.status.name.lower(),
                    explanation=outcome.explain(),
                    ticks=outcome.ticks,
                )
            )
    return JudgeResponse(problems=_problems(pairs), verdicts=verdicts)


def _problems(pairs: list[Example]) -> list[ExampleProblem]:
    """What is wrong with examples: each by itself, then beside the earlier ones."""
    problems = []
    first: dict[World, int] = {}
    for number, pair in enumerate(pairs, 1):
        earlier = first.setdefault(pair.input, number)
        for _, reason in impossible_examples(Task((pair,))):
            problems.append(ExampleProblem(example=number, message=f"No program can do this: {reason}."))
        if pairs[earlier - 1].output != pair.output:
            message = f"It contradicts example {earlier}: the same Before, but another After."
            problems.append(ExampleProblem(example=number, message=message))
    return problems


ServedChallenge = Annotated[
    int | None,
    Field(ge=0, le=1000, description="A challenge of the served set, from 0: its hidden examples count, too."),
]


class SubmissionMessage(RequestModel):
    """A student's program."""

    name: Annotated[str, Field(max_length=200, description="The student's name.")]
    program: ProgramText


class GradeRequest(RequestModel):
    """A task's examples and the programs of a class."""

    examples: Examples
    hidden: list[ExampleMessage] = Field(default=[], max_length=MOST_EXAMPLES)
    programs: Annotated[list[SubmissionMessage], Field(min_length=1, max_length=200)]
    challenge: ServedChallenge = None


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


@router.post("/api/grade", responses=BODY_ERRORS)
def grade(body: GradeRequest, request: Request) -> GradesResponse:
    """Grade programs on a task's examples. A syntax error is part of the response; the status is 200.

    Explaining costs most, so it is refused where the runs take too long.
    """
    task = read_examples(body.examples)
    hidden = _hidden(body, request)
    submissions = [Submission(each.name, each.program) for each in body.programs]
    grades = grade_all(task, submissions, hidden=hidden)
    ticks = sum(each.ticks[at] for each in grades for at in each.explained)
    if ticks > _MOST_EXPLAINED:
        message = f"their wrong runs take {ticks:,} steps, and {_MOST_EXPLAINED:,} can be explained: send fewer at once"
        raise RequestError("programs", message)
    return GradesResponse(grades=[GradeResponse.model_validate(each.to_json()) for each in grades])


class HintRequest(RequestModel):
    """A task's examples and a student's program."""

    examples: Examples
    hidden: list[ExampleMessage] = Field(
        default=[], max_length=MOST_EXAMPLES, description="A repair is right on these, too."
    )
    program: ProgramText
    dialect: Annotated[Dialect, Field(description="That of a program of which nothing is written yet.")] = "paper"
    level: Annotated[int, Field(ge=1, le=3, description="1: where. 2: what kind of change. 3: the change.")] = 1
    challenge: ServedChallenge = None


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


@router.post("/api/hint", responses=BODY_ERRORS)
def hint(body: HintRequest, request: Request) -> HintResponse:
    """A hint for a student: the smallest change that makes a program right, or the next step, up to a level."""
    task = read_examples(body.examples)
    hidden = _hidden(body, request)
    queue: SolveQueue = request.app.state.queue
    client = scope_client(request.scope)

    def solve(posed: Task, seconds: float) -> Sequence[Program]:
        return _solve(queue, client, posed, seconds)

    if opened(body.program, body.dialect) is not None:
        found = first_hint(task, body.program, dialect=body.dialect, hidden=hidden, solve=solve)
    else:
        found = find_hint(task, read_source(body.program), hidden=hidden, solve=solve)
    return HintResponse.model_validate(found.to_json(body.level))


class ProbeRequest(RequestModel):
    """A task's examples and a right program."""

    examples: Examples
    reference: ProgramText
    add: Annotated[bool, Field(description="Whether to add worlds that unmask wrong programs.")] = False
    budget: Annotated[float, Field(ge=0.1, le=10, description="Seconds that the search may take.")] = 2.0


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


@router.post("/api/probe", responses=BODY_ERRORS)
def probe(body: ProbeRequest) -> ProbeResponse:
    """Search wrong programs that pass all examples of a task."""
    task = read_examples(body.examples)
    for number, reason in impossible_examples(task):
        raise RequestError(f"example {number}", f"this cannot be done by any program: {reason}")
    reference = Program.parse(body.reference)
    report = probe_task(task, reference, add=body.add, seconds=body.budget)
    return ProbeResponse.model_validate(report.to_json(recognise(body.reference)))


class PoseRequest(RequestModel):
    """What exercises should be like."""

    concepts: list[Literal["sequence", "repeat", "while", "if", "ifelse", "nested"]] = Field(default=[], max_length=6)
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


@router.post("/api/pose", responses=BODY_ERRORS)
def pose(body: PoseRequest) -> PoseResponse:
    """Pose exercises with the concepts of a lesson, from easy to hard; fewer than requested if time runs out."""
    wish = Wish(frozenset(body.concepts), (body.least_tokens, body.most_tokens))
    if body.like is not None:
        wish = _wish_like(Program.parse(body.like))
    elif not body.concepts:
        raise RequestError("concepts", "name a concept, or a program with `like`")
    exercises = pose_all(wish, count=body.count, seed=body.seed, seconds=body.budget)
    return PoseResponse(
        exercises=[
            ExerciseResponse.of(each.task, program=each.program.to("paper"), level=each.level) for each in exercises
        ]
    )


def _hidden(body: GradeRequest | HintRequest, request: Request) -> tuple[Example, ...]:
    """The hidden examples of a request, with those that the server keeps for a challenge."""
    hidden = read_examples(body.hidden).examples if body.hidden else ()
    if body.challenge is None:
        return hidden
    lesson = request.app.state.settings.challenges
    if lesson is None or body.challenge >= len(lesson.challenges):
        raise RequestError("challenge", "this server has no such challenge: load the page again")
    return (*hidden, *lesson.challenges[body.challenge].hidden)


def _wish_like(program: Program) -> Wish:
    """Exercises with the concepts of a program and about its length."""
    size = program.size
    return Wish(concepts_of(program) - {"nested"}, (max(5, size - 6), size + 8))


def _solve(queue: SolveQueue, client: str, task: Task, seconds: float) -> Sequence[Program]:
    """Right programs for a client's task, through the queue; waits for them, but not much longer than `seconds`."""
    ends: SimpleQueue[SearchEvent] = SimpleQueue()
    try:
        ticket = queue.submit(task, seconds, ends.put, client, watched=False)
    except (QueueFull, ServerStopping):  # a hint without a search is better than none
        return []
    try:
        solution = ends.get(timeout=seconds)
    except Empty:
        if queue.cancel(ticket):  # it has not begun
            return []
        try:
            solution = ends.get(timeout=_STOPPING)
        except Empty:
            return []
    if not isinstance(solution, Solution) or not solution.solved:
        return []
    return [answer.program for answer in solution.answers]
