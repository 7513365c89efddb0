"""Routes for everything but solving: programs, worlds, task files, the gallery, and the service's state.

Most route functions are synchronous, so FastAPI runs them in threads and a long text does not delay other requests.
Those that report the service's state are not: they never wait for a thread.
"""

from __future__ import annotations

import random
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from karelsynth._version import __version__
from karelsynth.errors import ProgramSyntaxError
from karelsynth.karel.dialects import convert as convert_text
from karelsynth.karel.dialects import read_source, recognise
from karelsynth.karel.dialects.stanford import render as render_stanford
from karelsynth.karel.interpreter import Tick
from karelsynth.karel.interpreter import run as run_program
from karelsynth.karel.program import Action, Program
from karelsynth.karel.world import HEADINGS, LARGEST_SIDE, SMALLEST_SIDE, Cell, Hero, World
from karelsynth.tasks.task_files import gallery, parse_task, render_task
from karelsynth.web.errors import BODY_ERRORS
from karelsynth.web.messages import (
    LONGEST_PROGRAM,
    PROGRAM,
    Dialect,
    Drawing,
    Examples,
    ProgramText,
    RequestModel,
    ResponseModel,
    Seed,
    SyntaxProblem,
    TaskResponse,
    read_examples,
    read_world,
)

router = APIRouter()
_LONGEST_TASK: Final = 40_000
"""Characters of a task file."""
_WALLS: Final = (0.0, 0.05, 0.1, 0.2)
_MARKERS: Final = (0.0, 0.1, 0.2, 0.4)
"""Probabilities that a cell of a random world has a wall, or markers. One of each is drawn for every world."""
_COUNTS: Final = (1, 1, 1, 1, 2, 2, 3, 4, 5, 9)
"""Numbers of markers on a cell of a random world, equally likely."""


class HealthResponse(ResponseModel):
    """The service's state: how many searches run, and how many requests wait."""

    status: Literal["ok"] = "ok"
    solving: int
    waiting: int


@router.get("/api/health")
async def health(request: Request) -> HealthResponse:
    """Report that the service runs, and how busy it is."""
    queue = request.app.state.queue
    return HealthResponse(solving=queue.solving, waiting=queue.waiting)


class VersionResponse(ResponseModel):
    """The package's version and the model's name."""

    version: str
    model: str


@router.get("/api/version")
async def version(request: Request) -> VersionResponse:
    """Report the package's version and the model's name."""
    return VersionResponse(version=__version__, model=request.app.state.settings.model)


class RunRequest(RequestModel):
    """A program, and the world to run it on."""

    program: ProgramText
    world: Drawing


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


@router.post("/api/run", responses=BODY_ERRORS)
def run(body: RunRequest) -> RunResponse:
    """Run a program on a world, step by step."""
    world = read_world(body.world, "world")
    source = read_source(body.program)
    program, spans = source.program, source.spans
    ends = {at: at + statement.size for at, statement in program.walk()}
    steps: list[RunStep] = []

    def observe(tick: Tick) -> None:
        row, col, heading = tick.hero
        count = tick.piles.get((row, col), 0)
        span = spans[tick.where]
        steps.append(
            RunStep(
                line=span.line,
                column=span.column,
                width=span.width,
                token=program.tokens[tick.where],
                start=tick.where,
                end=ends[tick.where],
                hero=(row, col, heading),
                markers=(row, col, count) if tick.action in (Action.PICK_MARKER, Action.PUT_MARKER) else None,
            )
        )

    outcome = run_program(program, world, observe=observe)
    end = None if outcome.where is None else spans[outcome.where]
    return RunResponse(
        status=outcome.status.name.lower(),
        explanation=outcome.explain(),
        world=outcome.world.to_text(),
        line=end and end.line,
        column=end and end.column,
        steps=steps,
        calls=[RunCall(**call.span._asdict(), name=call.name, start=call.start, end=call.end) for call in source.calls],
    )


class CheckRequest(RequestModel):
    """The text of a program, possibly unfinished."""

    program: Annotated[str, Field(max_length=LONGEST_PROGRAM, examples=[PROGRAM])]


class CheckResponse(ResponseModel):
    """Whether a program's syntax is right."""

    ok: bool
    dialect: str | None = Field(description="The dialect that was detected; null for an empty text.")
    problem: SyntaxProblem | None


@router.post("/api/check", responses=BODY_ERRORS)
def check(body: CheckRequest) -> CheckResponse:
    """Check a program's syntax. A syntax error is part of the response; the status is 200."""
    dialect = recognise(body.program) if body.program.strip() else None
    try:
        Program.parse(body.program)
    except ProgramSyntaxError as error:
        return CheckResponse(ok=False, dialect=dialect, problem=SyntaxProblem.of(error))
    return CheckResponse(ok=True, dialect=dialect, problem=None)


class ConvertRequest(RequestModel):
    """A program, and the dialect to write it in."""

    program: ProgramText
    to: Dialect


class ConvertResponse(ResponseModel):
    """A program's text in another dialect."""

    program: str
    notes: list[str] = Field(description="What could not be kept, one sentence each; empty if nothing is lost.")


@router.post("/api/convert", responses=BODY_ERRORS)
def convert(body: ConvertRequest) -> ConvertResponse:
    """Write a program in another dialect, with its helper functions and comments."""
    converted = convert_text(body.program, body.to)
    return ConvertResponse(program=converted.text, notes=list(converted.notes))


class StanfordRequest(RunRequest):
    """A program, a world, and the name of the files."""

    name: str = Field("karel_task", pattern=r"^[\w-]{1,200}$", description="Without `.py` and `.w`.")


class StanfordFiles(ResponseModel):
    """The contents of the two files that Stanford Karel needs."""

    py: str
    w: str


@router.post("/api/stanford", responses=BODY_ERRORS)
def stanford(body: StanfordRequest) -> StanfordFiles:
    """Write a program and a world as the two files that Stanford Karel needs."""
    program = Program.parse(body.program)
    world = read_world(body.world, "world")
    return StanfordFiles(py=render_stanford(program, f"{body.name}.w"), w=world.to_stanford())


Side = Annotated[int, Field(ge=SMALLEST_SIDE, le=LARGEST_SIDE)]


class RandomWorldRequest(RequestModel):
    """The size of a random world."""

    rows: Side = 8
    cols: Side = 8
    seed: Seed | None = None


class WorldResponse(ResponseModel):
    """A world."""

    world: str


@router.post("/api/random-world", responses=BODY_ERRORS)
def make_random_world(body: RandomWorldRequest) -> WorldResponse:
    """Make a random world."""
    return WorldResponse(world=random_world(body.rows, body.cols, body.seed).to_text())


class GalleryTaskResponse(TaskResponse):
    """A task of the gallery; `slug` is its name in URLs."""

    slug: str


@router.get("/api/gallery")
def list_gallery() -> list[GalleryTaskResponse]:
    """List the tasks of the gallery."""
    return [GalleryTaskResponse.of(entry.task, slug=entry.slug) for entry in gallery()]


class TaskTextRequest(RequestModel):
    """The text of a task file."""

    text: Annotated[str, Field(max_length=_LONGEST_TASK)]


class TaskTextResponse(ResponseModel):
    """The text of a task file."""

    text: str


class TaskRequest(RequestModel):
    """A task with its name and description."""

    name: Annotated[str, Field(max_length=200)] = ""
    about: Annotated[str, Field(max_length=4_000)] = ""
    examples: Examples


@router.post("/api/task/parse", responses=BODY_ERRORS)
def read_task(body: TaskTextRequest) -> TaskResponse:
    """Read the text of a task file."""
    return TaskResponse.of(parse_task(body.text))


@router.post("/api/task/render", responses=BODY_ERRORS)
def write_task(body: TaskRequest) -> TaskTextResponse:
    """Write the text of a task file."""
    return TaskTextResponse(text=render_task(read_examples(body.examples, body.name, body.about)))


def random_world(rows: int, cols: int, seed: int | None = None) -> World:
    """A random world of that size; the same seed gives the same world.

    The generator of tasks draws a world for a given program. Here there is no program: walls and markers are
    independent.
    """
    rng = random.Random(seed)
    cells = [(row, col) for row in range(rows) for col in range(cols)]
    (row, col), heading = rng.choice(cells), rng.choice(HEADINGS)
    wall_probability, marker_probability = rng.choice(_WALLS), rng.choice(_MARKERS)
    walls: set[Cell] = set()
    markers: dict[Cell, int] = {}
    for cell in cells:
        if cell != (row, col) and rng.random() < wall_probability:
            walls.add(cell)
        elif rng.random() < marker_probability:
            markers[cell] = rng.choice(_COUNTS)
    return World(rows, cols, Hero(row, col, heading), frozenset(walls), markers)
