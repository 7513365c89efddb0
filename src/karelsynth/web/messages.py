"""What several routes share: the bases of requests and responses, worlds and examples in them.

Requests and responses are Pydantic models, from which FastAPI makes the OpenAPI description. Each stands beside its
route. Worlds are text drawings, programs are texts in any dialect. The models check types and sizes; the parsers of
worlds and programs check the texts.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from karelsynth.errors import ProgramSyntaxError, TaskFileError, WorldError
from karelsynth.karel.world import World
from karelsynth.tasks.task import MOST_EXAMPLES, Example, Task
from karelsynth.web.errors import RequestError

_LONGEST_DRAWING: Final = 4_000
LONGEST_PROGRAM: Final = 20_000
PROGRAM: Final = "def run():\n  while(frontIsClear):\n    move()\n  putMarker()"
_BEFORE: Final = ". . . .\n> . . ."
_AFTER: Final = ". . . .\n. . . >1"

Drawing = Annotated[
    str,
    Field(
        max_length=_LONGEST_DRAWING,
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
        examples=[PROGRAM],
        json_schema_extra={"format": "karel-program"},
    ),
]
Dialect = Literal["paper", "stanford", "tokens"]
Seed = Annotated[int, Field(ge=0, le=2**53 - 1, description="The same seed gives the same world.")]


class RequestModel(BaseModel):
    """A request. Unknown fields and values of other types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ResponseModel(BaseModel):
    """A response or a part of one. Unknown fields are errors, so that none is dropped by mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ExampleMessage(RequestModel):
    """The world before the program runs, and after."""

    input: Drawing
    output: Annotated[Drawing, Field(examples=[_AFTER])]


Examples = Annotated[list[ExampleMessage], Field(min_length=1, max_length=MOST_EXAMPLES)]


class TaskResponse(ResponseModel):
    """A task with its name and description."""

    name: str
    about: str
    examples: list[ExampleMessage]

    @classmethod
    def of(cls, task: Task, **fields: Any) -> Self:
        """The task in this form; `fields` are those of a subclass."""
        pairs = [pair_message(pair) for pair in task.examples]
        return cls(name=task.name, about=task.about, examples=pairs, **fields)


def pair_message(pair: Example) -> ExampleMessage:
    return ExampleMessage(input=pair.input.to_text(), output=pair.output.to_text())


class SyntaxProblem(ResponseModel):
    """The first syntax error of a program."""

    message: str = Field(validation_alias="reason")
    line: int
    column: int
    width: int
    suggestion: str | None = Field(description="A known word similar to the unknown one.")

    @classmethod
    def of(cls, error: ProgramSyntaxError) -> Self:
        return cls.model_validate(error, from_attributes=True)


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
