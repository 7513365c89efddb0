"""Routes of the tutor: judging examples, grading a class, hints, probing a task, posing exercises.

The route functions are synchronous, so FastAPI runs them in threads, a few at a time (`operations.FairTurns`). A hint
for a student who is far off needs a search, which waits in the same queue as all others.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter, Request

from karelsynth.errors import KarelsynthError
from karelsynth.karel.dialects import read_source, recognise
from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.solve.solution import Solution
from karelsynth.tasks.task import Example, Task
from karelsynth.tutor.beginning import first_hint, opened
from karelsynth.tutor.grade import Submission
from karelsynth.tutor.grade import grade as grade_all
from karelsynth.tutor.hint import find_hint
from karelsynth.tutor.pose import Wish, concepts_of
from karelsynth.tutor.pose import pose as pose_all
from karelsynth.tutor.probe import impossible_examples
from karelsynth.tutor.probe import probe as probe_task
from karelsynth.web.errors import RequestError
from karelsynth.web.messages import (
    BODY_ERRORS,
    ExampleProblem,
    ExerciseResponse,
    GradeRequest,
    GradeResponse,
    GradesResponse,
    HintRequest,
    HintResponse,
    JudgeRequest,
    JudgeResponse,
    PoseRequest,
    PoseResponse,
    ProbeRequest,
    ProbeResponse,
    VerdictResponse,
)
from karelsynth.web.operations import scope_client
from karelsynth.web.queue import QueueFull, SearchEvent, SearchFailure, ServerStopping, SolveQueue
from karelsynth.web.toolkit import read_examples, read_pairs

router = APIRouter()
_MOST_EXPLAINED: Final = 1_000_000
"""The most ticks of all runs that are explained for a request: about a second. Each of 600 runs may have 1,666."""
_STOPPING: Final = 0.2
"""Seconds to wait for a search that was asked to stop."""


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
        raise RequestError("programs", KarelsynthError(message))
    return GradesResponse(grades=[GradeResponse.model_validate(each.to_json()) for each in grades])


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


@router.post("/api/probe", responses=BODY_ERRORS)
def probe(body: ProbeRequest) -> ProbeResponse:
    """Search wrong programs that pass all examples of a task."""
    task = read_examples(body.examples)
    for number, reason in impossible_examples(task):
        raise RequestError(f"example {number}", KarelsynthError(f"this cannot be done by any program: {reason}"))
    reference = Program.parse(body.reference)
    report = probe_task(task, reference, add=body.add, seconds=body.budget)
    return ProbeResponse.model_validate(report.to_json(recognise(body.reference)))


@router.post("/api/pose", responses=BODY_ERRORS)
def pose(body: PoseRequest) -> PoseResponse:
    """Pose exercises with the concepts of a lesson, from easy to hard; fewer than requested if time runs out."""
    wish = Wish(frozenset(body.concepts), (body.least_tokens, body.most_tokens))
    if body.like is not None:
        wish = _wish_like(Program.parse(body.like))
    elif not body.concepts:
        raise RequestError("concepts", KarelsynthError("name a concept, or a program with `like`"))
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
        raise RequestError("challenge", KarelsynthError("this server has no such challenge: load the page again"))
    return (*hidden, *lesson.challenges[body.challenge].hidden)


def _wish_like(program: Program) -> Wish:
    """Exercises with the concepts of a program and about its length."""
    size = program.size
    return Wish(concepts_of(program) - {"nested"}, (max(5, size - 6), size + 8))


def _solve(queue: SolveQueue, client: str, task: Task, seconds: float) -> Sequence[Program]:
    """Right programs for a client's task, through the queue; waits for them, but not much longer than `seconds`."""
    ended = threading.Event()
    result: list[SearchEvent] = []

    def on_event(event: SearchEvent) -> None:
        if isinstance(event, Solution | SearchFailure):
            result.append(event)
            ended.set()

    try:
        ticket = queue.submit(task, seconds, on_event, client, watched=False)
    except (QueueFull, ServerStopping):  # a hint without a search is better than none
        return []
    if not ended.wait(seconds):
        waiting = queue.cancel(ticket)
        if waiting or not ended.wait(_STOPPING):
            return []
    solution = result[0]
    if not isinstance(solution, Solution) or not solution.solved:
        return []
    return [answer.program for answer in solution.answers]
