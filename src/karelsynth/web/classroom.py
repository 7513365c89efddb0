"""Routes for building programs of blocks, and for challenges.

The route functions are synchronous, so FastAPI runs them in threads.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from fastapi import APIRouter, Request
from pydantic import Field

from karelsynth.errors import ProgramSyntaxError
from karelsynth.karel.dialects import recognise
from karelsynth.tutor.blocks import BlockFunction, BlockNode, BlockProgram, read_blocks, write_blocks
from karelsynth.tutor.challenges import LONGEST_SET, ChallengeSet, parse_challenges
from karelsynth.tutor.helpers import define_helper, delete_helper, rename_helper
from karelsynth.web.errors import BODY_ERRORS
from karelsynth.web.messages import (
    LONGEST_PROGRAM,
    Dialect,
    ExampleMessage,
    RequestModel,
    ResponseModel,
    SyntaxProblem,
    TaskResponse,
    pair_message,
)

router = APIRouter()


class BlockMessage(RequestModel):
    """A statement as a block."""

    keyword: Annotated[
        str, Field(max_length=20, description="An action's token, WHILE, IF, IFELSE, REPEAT, or `call`.")
    ]
    detail: Annotated[str, Field(max_length=200)] | int | None = Field(
        default=None, description="A condition such as `not frontIsClear`, a count, or a function's name."
    )
    blocks: list[list[BlockMessage]] = Field(default=[], max_length=2)
    number: int | None = Field(default=None, description="Which statement of the text this is; null for a new one.")
    line: int | None = Field(default=None, description="The statement's line in the text, from 1; `column` too.")
    column: int | None = None


class BlockFunctionMessage(RequestModel):
    """A function as blocks."""

    name: Annotated[str, Field(max_length=200)]
    body: list[BlockMessage]


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
        return cls.model_validate(blocks, strict=False, from_attributes=True)


class ReadBlocksRequest(RequestModel):
    """A program's text, possibly empty or with empty blocks; `dialect` is that of an empty text."""

    program: Annotated[str, Field(max_length=LONGEST_PROGRAM)]
    dialect: Dialect = "paper"


@router.post("/api/blocks/read", responses=BODY_ERRORS)
def blocks_of_text(body: ReadBlocksRequest) -> BlocksResponse:
    """Read a program as blocks. The text may have empty blocks. A syntax error is part of the response."""
    try:
        return BlocksResponse.of(read_blocks(body.program, body.dialect))
    except ProgramSyntaxError as error:
        problem = SyntaxProblem.of(error)
        dialect = recognise(body.program)
        return BlocksResponse(
            program=body.program, dialect=dialect, main="", complete=False, functions=[], problem=problem
        )


class WriteBlocksRequest(ReadBlocksRequest):
    """A program's text, and what its functions have become."""

    functions: Annotated[list[BlockFunctionMessage], Field(max_length=200)]


@router.post("/api/blocks/write", responses=BODY_ERRORS)
def text_of_blocks(body: WriteBlocksRequest) -> BlocksResponse:
    """Change a program's text so that it has these blocks. Everything else in the text stays as it is."""
    functions = [BlockFunction(each.name, tuple(map(_node, each.body))) for each in body.functions]
    return BlocksResponse.of(read_blocks(write_blocks(body.program, functions, body.dialect), body.dialect))


class ChangeHelperRequest(ReadBlocksRequest):
    """A program's text, and what to do with one of its helper functions."""

    change: Literal["define", "rename", "delete"]
    name: Annotated[str, Field(max_length=200, description="The helper's name; that of the new one for `define`.")]
    new_name: Annotated[str, Field(max_length=200, description="For `rename`.")] = ""


@router.post("/api/blocks/helper", responses=BODY_ERRORS)
def change_helper(body: ChangeHelperRequest) -> BlocksResponse:
    """Define, rename or delete a helper function. One that is still called is not deleted."""
    if body.change == "define":
        text = define_helper(body.program, body.name, body.dialect)
    elif body.change == "rename":
        text = rename_helper(body.program, body.name, body.new_name)
    else:
        text = delete_helper(body.program, body.name)
    return BlocksResponse.of(read_blocks(text, body.dialect))


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
                hidden=[] if served else [pair_message(pair) for pair in each.hidden],
                hidden_count=len(each.hidden),
                starter=each.starter,
                hints=each.hints,
                served=place if served else None,
            )
            for place, each in enumerate(lesson.challenges)
        ]
        return cls(title=lesson.title, challenges=challenges)


@router.get("/api/challenges")
def served_challenges(request: Request) -> ChallengeSetResponse:
    """The challenges that the server was started with; none if there are none."""
    lesson = request.app.state.settings.challenges
    return ChallengeSetResponse.of(lesson or ChallengeSet(()), served=True)


class ChallengeTextRequest(RequestModel):
    """The text of a file with challenges, or of the JSON lines that `karelsynth pose` writes."""

    text: Annotated[str, Field(max_length=LONGEST_SET)]


@router.post("/api/challenges/parse", responses=BODY_ERRORS)
def read_challenges(body: ChallengeTextRequest) -> ChallengeSetResponse:
    """Read the text of a file with challenges, or the JSON lines of `karelsynth pose`."""
    return ChallengeSetResponse.of(parse_challenges(body.text))


def _node(block: BlockMessage) -> BlockNode:
    inner = tuple(tuple(map(_node, each)) for each in block.blocks)
    return BlockNode(block.keyword, block.detail, inner, block.number)
