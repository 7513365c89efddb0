"""Everything but solving: running, checking and converting programs, random worlds, tasks, and the service's state.

These are plain functions, so each runs in a thread of its own and a long text delays nobody else's search.
"""

from __future__ import annotations

from fastapi import APIRouter, Request

from karelsynth._version import __version__
from karelsynth.errors import ProgramSyntaxError, WorldError
from karelsynth.karel.dialects import recognise
from karelsynth.karel.dialects.stanford import render as render_stanford
from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.tasks.gallery import gallery
from karelsynth.tasks.task_files import parse_task, render_task
from karelsynth.web.messages import (
    FAILURES,
    Checked,
    ConvertRequest,
    GalleryTaskTold,
    Health,
    ProgramMessage,
    ProgramOnWorld,
    ProgramTold,
    Ran,
    RandomWorldRequest,
    StanfordFiles,
    StanfordRequest,
    SyntaxProblem,
    TaskFile,
    TaskMessage,
    TaskText,
    TaskTold,
    Version,
    WorldTold,
)
from karelsynth.web.problems import Misplaced
from karelsynth.web.random_world import random_world
from karelsynth.web.solving import read_examples
from karelsynth.web.steps import run_in_steps

router = APIRouter()


@router.get("/api/health")
def health(request: Request) -> Health:
    """Whether the service is there, and how busy it is."""
    queue = request.app.state.queue
    return Health(solving=queue.solving, waiting=queue.waiting)


@router.get("/api/version")
def version(request: Request) -> Version:
    """What is running."""
    return Version(version=__version__, model=request.app.state.settings.model)


@router.post("/api/run", responses=FAILURES)
def run(body: ProgramOnWorld) -> Ran:
    """Run a program on a world, step by step."""
    return run_in_steps(body.program, _world(body.world))


@router.post("/api/check", responses=FAILURES)
def check(body: ProgramMessage) -> Checked:
    """Check a program's syntax; what is wrong with it is part of the answer, not an error."""
    dialect = recognise(body.program) if body.program.strip() else None
    try:
        Program.parse(body.program)
    except ProgramSyntaxError as error:
        problem = SyntaxProblem(
            message=error.reason,
            line=error.line,
            column=error.column,
            width=error.width,
            suggestion=error.suggestion,
        )
        return Checked(ok=False, dialect=dialect, problem=problem)
    return Checked(ok=True, dialect=dialect, problem=None)


@router.post("/api/convert", responses=FAILURES)
def convert(body: ConvertRequest) -> ProgramTold:
    """Write a program in another dialect."""
    return ProgramTold(program=Program.parse(body.program).to(body.to))


@router.post("/api/stanford", responses=FAILURES)
def stanford(body: StanfordRequest) -> StanfordFiles:
    """The pair of files with which the classroom's package runs the same program in the same world."""
    program = Program.parse(body.program)
    return StanfordFiles(py=render_stanford(program, f"{body.name}.w"), w=_world(body.world).to_stanford())


@router.post("/api/random-world", responses=FAILURES)
def a_random_world(body: RandomWorldRequest) -> WorldTold:
    """A random world."""
    return WorldTold(world=random_world(body.rows, body.cols, body.seed).to_text())


@router.get("/api/gallery")
def show_gallery() -> list[GalleryTaskTold]:
    """Tasks to try."""
    return [GalleryTaskTold(slug=entry.slug, **dict(TaskTold.of(entry.task))) for entry in gallery()]


@router.post("/api/task/parse", responses=FAILURES)
def read_task(body: TaskText) -> TaskTold:
    """Read the text of a task file."""
    return TaskTold.of(parse_task(body.text))


@router.post("/api/task/render", responses=FAILURES)
def write_task(body: TaskMessage) -> TaskFile:
    """Write the text of a task file."""
    return TaskFile(text=render_task(read_examples(body.examples, body.name, body.about)))


def _world(drawing: str) -> World:
    try:
        return World.parse(drawing)
    except WorldError as error:
        raise Misplaced("world", error) from None
