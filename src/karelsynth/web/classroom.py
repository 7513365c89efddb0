"""Routes for building programs of blocks, and for challenges.

The route functions are synchronous, so FastAPI runs them in threads.
"""

from __future__ import annotations

from fastapi import APIRouter, Request

from karelsynth.errors import ProgramSyntaxError
from karelsynth.karel.dialects import recognise
from karelsynth.tutor.blocks import BlockFunction, BlockNode, read_blocks, write_blocks
from karelsynth.tutor.challenges import ChallengeSet, parse_challenges
from karelsynth.tutor.helpers import define_helper, delete_helper, rename_helper
from karelsynth.web.messages import (
    BODY_ERRORS,
    BlockMessage,
    BlocksResponse,
    ChallengeSetResponse,
    ChallengeTextRequest,
    ChangeHelperRequest,
    ReadBlocksRequest,
    SyntaxProblem,
    WriteBlocksRequest,
)

router = APIRouter()


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


@router.post("/api/blocks/write", responses=BODY_ERRORS)
def text_of_blocks(body: WriteBlocksRequest) -> BlocksResponse:
    """Change a program's text so that it has these blocks. Everything else in the text stays as it is."""
    functions = [BlockFunction(each.name, tuple(map(_node, each.body))) for each in body.functions]
    return BlocksResponse.of(read_blocks(write_blocks(body.program, functions, body.dialect), body.dialect))


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


@router.get("/api/challenges")
def served_challenges(request: Request) -> ChallengeSetResponse:
    """The challenges that the server was started with; none if there are none."""
    lesson = request.app.state.settings.challenges
    return ChallengeSetResponse.of(lesson or ChallengeSet(()), served=True)


@router.post("/api/challenges/parse", responses=BODY_ERRORS)
def read_challenges(body: ChallengeTextRequest) -> ChallengeSetResponse:
    """Read the text of a file with challenges, or the JSON lines of `karelsynth pose`."""
    return ChallengeSetResponse.of(parse_challenges(body.text))


def _node(block: BlockMessage) -> BlockNode:
    inner = tuple(tuple(map(_node, each)) for each in block.blocks)
    return BlockNode(block.keyword, block.detail, inner, block.number)
