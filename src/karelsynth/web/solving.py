"""The two ways to ask for a program: with one answer at the end, or with a stream of events on the way.

Both wait in the same queue, and both give up their place or stop their search as soon as the client disconnects. A
stream begins with an id, by which the client can end the search and still hear what it has found.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from karelsynth.errors import KarelsynthError, TaskFileError, WorldError
from karelsynth.karel.world import World
from karelsynth.solve.solution import Progress, Solution
from karelsynth.tasks.task import Example, Task
from karelsynth.web.messages import (
    BUSY,
    FAILURES,
    ExampleMessage,
    ProblemBody,
    ProgressTold,
    SolutionTold,
    SolveRequest,
    StopRequest,
)
from karelsynth.web.problems import Misplaced
from karelsynth.web.queue import Closed, Event, Failure, SolveQueue, Waiting

log = logging.getLogger("karelsynth.web")
router = APIRouter()
_EVENT: Final = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "enum": ["accepted", "queued", "progress", "solution", "error"]},
        "data": {"type": "string", "description": "JSON."},
    },
    "required": ["event", "data"],
}
_STREAM: Final = {
    "description": "Events `accepted` {id}, `queued` {position}, `progress` {seconds, budget, beam, checked, best}, "
    "then one of `solution` (as /api/solve answers) and `error` {message}.",
    "content": {"text/event-stream": {"schema": _EVENT}},
}
_ENDED: Final[dict[int | str, dict[str, Any]]] = {404: {"model": ProblemBody, "description": "No such search goes on."}}


@router.post("/api/solve", responses={**FAILURES, **BUSY})
async def solve(body: SolveRequest, request: Request) -> SolutionTold:
    """Find a program for examples; the answer comes when the search is over."""
    search = await _Search.enter(body, request)
    async with aclosing(search.events()) as events:
        async for event in events:
            if isinstance(event, Solution):
                return SolutionTold.of(event)
            if isinstance(event, Failure):
                raise event.error
    raise Closed  # the client has gone, so nobody reads this


@router.post("/api/solve/stream", response_class=StreamingResponse, responses={200: _STREAM, **FAILURES, **BUSY})
async def solve_stream(body: SolveRequest, request: Request) -> StreamingResponse:
    """Find a program for examples and report progress as server-sent events."""
    search = await _Search.enter(body, request)
    # A proxy that gathers small pieces would keep the events back; the header is nginx's.
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(_stream(search), media_type="text/event-stream", headers=headers)


@router.post("/api/solve/stop", status_code=204, responses={**FAILURES, **_ENDED})
async def stop(body: StopRequest, request: Request) -> None:
    """End a streamed search now: its stream then ends with the solution, which is what it has found so far."""
    request.app.state.queue.stop(body.id)


async def _stream(search: _Search) -> AsyncIterator[bytes]:
    async with aclosing(search.events()) as events:
        async for event in events:
            if isinstance(event, _Accepted):
                yield _event("accepted", event)
            elif isinstance(event, Waiting):
                yield _event("queued", _Queued(position=event.position))
            elif isinstance(event, Progress):
                yield _event("progress", ProgressTold.of(event))
            elif isinstance(event, Solution):
                yield _event("solution", SolutionTold.of(event))
            else:
                yield _event("error", _Error(message=_message(event.error)))


class _Accepted(BaseModel):
    """By which id the search can be stopped."""

    id: str


class _Queued(BaseModel):
    position: int


class _Error(BaseModel):
    message: str


def _event(name: str, data: BaseModel) -> bytes:
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n".encode()


def _message(error: Exception) -> str:
    if isinstance(error, KarelsynthError):
        return str(error)
    log.error("while solving", exc_info=error)
    return "internal error: your examples are not to blame; see the server's log"


def read_examples(examples: list[ExampleMessage], name: str = "", about: str = "") -> Task:
    """The task of drawings; errors say of which example and world they tell."""
    pairs = []
    for number, pair in enumerate(examples, 1):
        worlds = []
        for side in ("input", "output"):
            try:
                worlds.append(World.parse(getattr(pair, side)))
            except WorldError as error:
                raise Misplaced(f"example {number}, {side}", error) from None
        pairs.append(Example(*worlds))
        try:
            Task((pairs[-1],))
        except TaskFileError as error:  # which knows of one example only
            reason = TaskFileError(str(error).removeprefix("example 1: "))
            raise Misplaced(f"example {number}", reason) from None
    return Task(tuple(pairs), name, about)


class _Search:
    """One client's place in the line and search, seen from the event loop."""

    def __init__(self, queue: SolveQueue, request: Request, task: Task, budget: float) -> None:
        self._queue, self._request = queue, request
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._ticket = queue.enter(task, budget, self._tell)
        self._watch = asyncio.create_task(self._leave_with_the_client())

    @classmethod
    async def enter(cls, body: SolveRequest, request: Request) -> _Search:
        """Read the examples and join the line. Raises KarelsynthError."""
        task = await run_in_threadpool(read_examples, body.examples)
        return cls(request.app.state.queue, request, task, body.budget)

    def _tell(self, event: Event) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it everybody who could read this
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def events(self) -> AsyncGenerator[_Accepted | Event, None]:
        """What happens, until there is a result or the client has gone."""
        try:
            yield _Accepted(id=self._ticket.id)
            while (event := await self._events.get()) is not None:
                yield event
                if isinstance(event, Solution | Failure):
                    return
        finally:
            self._watch.cancel()
            self._queue.leave(self._ticket)

    async def _leave_with_the_client(self) -> None:
        """Wait for the client to go, even if nobody asks for events. The body has been read: nothing else can come."""
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self._queue.leave(self._ticket)
        self._events.put_nowait(None)
