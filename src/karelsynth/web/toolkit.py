"""Routes for everything but solving: programs, worlds, task files, the gallery, and the service's state.

Most route functions are synchronous, so FastAPI runs them in threads and a long text does not delay other requests.
Those that say how the service does are not: they never wait for a thread.
"""

from __future__ import annotations

import random
from typing import Final

from fastapi import APIRouter, Request

from karelsynth._version import __version__
from karelsynth.errors import ProgramSyntaxError, TaskFileError, WorldError
from karelsynth.karel.dialects import convert as convert_text
from karelsynth.karel.dialects import read_source, recognise
from karelsynth.karel.dialects.stanford import render as render_stanford
from karelsynth.karel.interpreter import Tick
from karelsynth.karel.interpreter import run as run_program
from karelsynth.karel.program import Action, Program
from karelsynth.karel.world import HEADINGS, Cell, Hero, World
from karelsynth.tasks.task import Example, Task
from karelsynth.tasks.task_files import gallery, parse_task, render_task
from karelsynth.web.errors import RequestError
from karelsynth.web.messages import (
    BODY_ERRORS,
    CheckRequest,
    CheckResponse,
    ConvertRequest,
    ConvertResponse,
    ExampleMessage,
    GalleryTaskResponse,
    HealthResponse,
    RandomWorldRequest,
    RunCall,
    RunRequest,
    RunResponse,
    RunStep,
    StanfordFiles,
    StanfordRequest,
    SyntaxProblem,
    TaskRequest,
    TaskResponse,
    TaskTextRequest,
    TaskTextResponse,
    VersionResponse,
    WorldResponse,
)

router = APIRouter()
_WALLS: Final = (0.0, 0.05, 0.1, 0.2)
_MARKERS: Final = (0.0, 0.1, 0.2, 0.4)
"""Probabilities that a cell of a random world has a wall, or markers. One of each is drawn for every world."""
_COUNTS: Final = (1, 1, 1, 1, 2, 2, 3, 4, 5, 9)
"""Numbers of markers on a cell of a random world, equally likely."""


@router.get("/api/health")
async def health(request: Request) -> HealthResponse:
    """Report that the service runs, and how busy it is."""
    queue = request.app.state.queue
    return HealthResponse(solving=queue.solving, waiting=queue.waiting)


@router.get("/api/version")
async def version(request: Request) -> VersionResponse:
    """Report the package's version and the model's name."""
    return VersionResponse(version=__version__, model=request.app.state.settings.model)


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


@router.post("/api/check", responses=BODY_ERRORS)
def check(body: CheckRequest) -> CheckResponse:
    """Check a program's syntax. A syntax error is part of the response; the status is 200."""
    dialect = recognise(body.program) if body.program.strip() else None
    try:
        Program.parse(body.program)
    except ProgramSyntaxError as error:
        return CheckResponse(ok=False, dialect=dialect, problem=SyntaxProblem.of(error))
    return CheckResponse(ok=True, dialect=dialect, problem=None)


@router.post("/api/convert", responses=BODY_ERRORS)
def convert(body: ConvertRequest) -> ConvertResponse:
    """Write a program in another dialect, with its helper functions and comments."""
    converted = convert_text(body.program, body.to)
    return ConvertResponse(program=converted.text, notes=list(converted.notes))


@router.post("/api/stanford", responses=BODY_ERRORS)
def stanford(body: StanfordRequest) -> StanfordFiles:
    """Write a program and a world as the two files that Stanford Karel needs."""
    program = Program.parse(body.program)
    world = read_world(body.world, "world")
    return StanfordFiles(py=render_stanford(program, f"{body.name}.w"), w=world.to_stanford())


@router.post("/api/random-world", responses=BODY_ERRORS)
def make_random_world(body: RandomWorldRequest) -> WorldResponse:
    """Make a random world."""
    return WorldResponse(world=random_world(body.rows, body.cols, body.seed).to_text())


@router.get("/api/gallery")
def list_gallery() -> list[GalleryTaskResponse]:
    """List the tasks of the gallery."""
    return [GalleryTaskResponse.of(entry.task, slug=entry.slug) for entry in gallery()]


@router.post("/api/task/parse", responses=BODY_ERRORS)
def read_task(body: TaskTextRequest) -> TaskResponse:
    """Read the text of a task file."""
    return TaskResponse.of(parse_task(body.text))


@router.post("/api/task/render", responses=BODY_ERRORS)
def write_task(body: TaskRequest) -> TaskTextResponse:
    """Write the text of a task file."""
    return TaskTextResponse(text=render_task(read_examples(body.examples, body.name, body.about)))


def read_world(drawing: str, where: str) -> World:
    """The world of a drawing. Raises RequestError, which names `where`."""
    try:
        return World.parse(drawing)
    except WorldError as error:
        raise RequestError(where, error) from None


def read_examples(examples: list[ExampleMessage], name: str = "", about: str = "") -> Task:
    """The task of these drawings. Raises RequestError, which names the example and the world."""
    return Task(tuple(read_pairs(examples)), name, about)


def read_pairs(examples: list[ExampleMessage]) -> list[Example]:
    """Each example of these drawings by itself; together, they may contradict each other. Raises RequestError."""
    pairs = []
    for number, drawings in enumerate(examples, 1):
        where = f"example {number}"
        pair = Example(read_world(drawings.input, f"{where}, input"), read_world(drawings.output, f"{where}, output"))
        try:
            Task((pair,))
        except TaskFileError as error:  # its message calls every example the first
            raise RequestError(where, TaskFileError(str(error).removeprefix("example 1: "))) from None
        pairs.append(pair)
    return pairs


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
