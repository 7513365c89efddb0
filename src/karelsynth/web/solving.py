"""Routes for solving: one response at the end, or a stream of server-sent events.

Both use the same queue. Both cancel their search when the client disconnects. A stream's first event has an id, with
which the client can stop the search and still get what was found.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import Field, TypeAdapter

from karelsynth.errors import KarelsynthError
from karelsynth.solve.solution import Progress, Solution
from karelsynth.web.connections import scope_client
from karelsynth.web.errors import BODY_ERRORS, BUSY_ERRORS, ErrorBody
from karelsynth.web.messages import Examples, RequestModel, ResponseModel, read_examples
from karelsynth.web.queue import QueuePosition, SearchEvent, SearchFailure, ServerStopping, SolveQueue

log = logging.getLogger("karelsynth.web")
router = APIRouter()
_KEEP_ALIVE: Final = 15.0
"""Seconds without an event after which a stream sends a comment: proxies close connections that stay silent."""
_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The events `accepted` {id}, `queued` {position}, `progress` {seconds, budget, beam, checked, "
        "best}, then one of `solution` (the same as the response of /api/solve) and `error` {message}. Data are JSON."
    }
}
_EVENT_DATA: Final = TypeAdapter(dict[str, Any])
_NOT_FOUND: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": ErrorBody, "description": "No search with this id runs or waits."}
}


class _EventStream(StreamingResponse):
    """Server-sent events. Without a media type here, FastAPI describes the error responses as JSON, as they are.

    FastAPI's own class is not used: it raises an error when a client leaves while an event is being sent (seen in
    0.162, https://github.com/fastapi/fastapi/pull/15824).
    """

    media_type = None


class SolveRequest(RequestModel):
    """Examples of what the program should do."""

    examples: Examples
    budget: Annotated[float, Field(ge=0.1, le=10, description="Seconds that the search may take.")] = 1.0


class _ClientSearch(NamedTuple):
    """A client's search, as seen from the event loop."""

    id: str
    events: asyncio.Queue[SearchEvent | None]
    """Ends with a solution or a failure, or with None once the client has disconnected."""


async def _submit(body: SolveRequest, request: Request) -> AsyncIterator[_ClientSearch]:
    """Submit the examples. Cancel the search when the client disconnects, and at the latest after the response.

    Raises KarelsynthError before any response begins.
    """
    task = await run_in_threadpool(read_examples, body.examples)
    queue: SolveQueue = request.app.state.queue
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[SearchEvent | None] = asyncio.Queue()

    def on_event(event: SearchEvent) -> None:
        with suppress(RuntimeError):  # the event loop has ended: no client is left
            loop.call_soon_threadsafe(events.put_nowait, event)

    async def cancel_on_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":  # the body has been read already
            pass
        queue.cancel(ticket)
        events.put_nowait(None)

    watched = request.url.path.endswith("/stream")
    ticket = queue.submit(task, body.budget, on_event, scope_client(request.scope), watched=watched)
    watch = asyncio.create_task(cancel_on_disconnect())
    try:
        yield _ClientSearch(ticket.id, events)
    finally:
        watch.cancel()
        queue.cancel(ticket)


_Submitted = Annotated[_ClientSearch, Depends(_submit)]


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


@router.post("/api/solve", responses={**BODY_ERRORS, **BUSY_ERRORS})
async def solve(search: _Submitted) -> SolutionResponse:
    """Find a program for examples; the response comes when the search has ended."""
    while (event := await search.events.get()) is not None:
        if isinstance(event, Solution):
            return SolutionResponse.model_validate(event.to_json())
        if isinstance(event, SearchFailure):
            raise event.error
    raise ServerStopping  # the client has disconnected: nobody reads this


@router.post("/api/solve/stream", response_class=_EventStream, responses={**_STREAM, **BODY_ERRORS, **BUSY_ERRORS})
async def solve_stream(search: _Submitted) -> _EventStream:
    """Find a program for examples and report progress as server-sent events."""
    headers = {
        "Content-Type": "text/event-stream",
        "X-Accel-Buffering": "no",
    }  # the second: nginx passes events on at once
    return _EventStream(_server_sent_events(search), headers=headers)


async def _server_sent_events(search: _ClientSearch) -> AsyncIterator[str]:
    yield _server_sent_event("accepted", {"id": search.id})
    while True:
        try:
            event = await asyncio.wait_for(search.events.get(), _KEEP_ALIVE)
        except TimeoutError:
            yield ": still here\n\n"
            continue
        match event:
            case None:
                return
            case QueuePosition():
                yield _server_sent_event("queued", {"position": event.position})
            case Progress():
                yield _server_sent_event("progress", event.to_json())
            case Solution():
                yield _server_sent_event("solution", event.to_json())
                return
            case SearchFailure():
                yield _server_sent_event("error", {"message": _message(event.error)})
                return


def _server_sent_event(name: str, data: dict[str, Any]) -> str:
    """An event as text. Its data are one line: JSON escapes line breaks."""
    return f"event: {name}\ndata: {_EVENT_DATA.dump_json(data).decode()}\n\n"


class StopRequest(RequestModel):
    """The search to stop."""

    id: Annotated[str, Field(max_length=100, description="The id from the stream's first event.")]


@router.post("/api/solve/stop", status_code=204, responses={**BODY_ERRORS, **_NOT_FOUND})
async def stop(body: StopRequest, request: Request) -> None:
    """Stop a streamed search; its stream then ends with the solution found so far."""
    request.app.state.queue.stop(body.id)


def _message(error: Exception) -> str:
    if isinstance(error, KarelsynthError):
        return str(error)
    log.error("while solving", exc_info=error)
    return "internal error: your examples are not to blame; see the server's log"
