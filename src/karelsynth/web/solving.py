"""Routes for solving: one response at the end, or a stream of server-sent events.

Both use the same queue. Both cancel their search when the client disconnects. A stream's first event has an id, with
which the client can stop the search and still get what was found.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from karelsynth.errors import KarelsynthError
from karelsynth.solve.solution import Progress, Solution
from karelsynth.tasks.task import Task
from karelsynth.web.connections import client_name
from karelsynth.web.messages import (
    BODY_ERRORS,
    BUSY_ERRORS,
    AcceptedEvent,
    ErrorBody,
    ErrorEvent,
    ProgressEvent,
    QueuedEvent,
    SolutionResponse,
    SolveRequest,
    StopRequest,
)
from karelsynth.web.queue import QueuePosition, SearchEvent, SearchFailure, ServerStopping, SolveQueue
from karelsynth.web.toolkit import read_examples

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
_NOT_FOUND: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": ErrorBody, "description": "No search with this id runs or waits."}
}


class _EventStream(StreamingResponse):
    """Server-sent events. Without a media type here, FastAPI describes the error responses as JSON, as they are.

    FastAPI's own class is not used: it raises an error when a client leaves while an event is being sent (seen in
    0.162, https://github.com/fastapi/fastapi/pull/15824).
    """

    media_type = None


class _ClientSearch:
    """A client's search, as seen from the event loop."""

    def __init__(self, queue: SolveQueue, request: Request, task: Task, budget: float) -> None:
        self._queue, self._request = queue, request
        self._events: asyncio.Queue[SearchEvent | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        host = request.client.host if request.client else ""
        self._ticket = queue.submit(
            task, budget, self._on_event, client_name(host), watched=request.url.path.endswith("/stream")
        )
        self.id = self._ticket.id
        self._watch = asyncio.create_task(self._cancel_on_disconnect())

    def _on_event(self, event: SearchEvent) -> None:
        with suppress(RuntimeError):  # the event loop has ended: no client is left
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def events(self, idle: float | None = None) -> AsyncIterator[SearchEvent | None]:
        """The search's events, up to a solution, a failure, or the client's disconnect.

        After `idle` seconds without an event, there is a None.
        """
        while True:
            try:
                event = await asyncio.wait_for(self._events.get(), idle)
            except TimeoutError:
                yield None
                continue
            if event is None:
                return
            yield event
            if isinstance(event, Solution | SearchFailure):
                return

    async def _cancel_on_disconnect(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":  # the body has been read already
            pass
        self._queue.cancel(self._ticket)
        self._events.put_nowait(None)

    def close(self) -> None:
        """Cancel the search, if it has not ended."""
        self._watch.cancel()
        self._queue.cancel(self._ticket)


async def _submit(body: SolveRequest, request: Request) -> AsyncIterator[_ClientSearch]:
    """Submit the examples; close the search after the response. Raises KarelsynthError before any response begins."""
    task = await run_in_threadpool(read_examples, body.examples)
    search = _ClientSearch(request.app.state.queue, request, task, body.budget)
    try:
        yield search
    finally:
        search.close()


_Submitted = Annotated[_ClientSearch, Depends(_submit)]


@router.post("/api/solve", responses={**BODY_ERRORS, **BUSY_ERRORS})
async def solve(search: _Submitted) -> SolutionResponse:
    """Find a program for examples; the response comes when the search has ended."""
    async for event in search.events():
        if isinstance(event, Solution):
            return SolutionResponse.of(event)
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
    yield _server_sent_event("accepted", AcceptedEvent(id=search.id))
    async for event in search.events(idle=_KEEP_ALIVE):
        match event:
            case None:
                yield ": still here\n\n"
            case QueuePosition():
                yield _server_sent_event("queued", QueuedEvent(position=event.position))
            case Progress():
                yield _server_sent_event("progress", ProgressEvent.of(event))
            case Solution():
                yield _server_sent_event("solution", SolutionResponse.of(event))
            case SearchFailure():
                yield _server_sent_event("error", ErrorEvent(message=_message(event.error)))


def _server_sent_event(name: str, data: BaseModel) -> str:
    """An event as text. Its data are one line: JSON escapes line breaks."""
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n"


@router.post("/api/solve/stop", status_code=204, responses={**BODY_ERRORS, **_NOT_FOUND})
async def stop(body: StopRequest, request: Request) -> None:
    """Stop a streamed search; its stream then ends with the solution found so far."""
    request.app.state.queue.stop(body.id)


def _message(error: Exception) -> str:
    if isinstance(error, KarelsynthError):
        return str(error)
    log.error("while solving", exc_info=error)
    return "internal error: your examples are not to blame; see the server's log"
