"""The application: the API's routes, the page's files, and the guard around both."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles

from karelsynth._version import __version__
from karelsynth.tutor.challenges import ChallengeSet
from karelsynth.web import classroom, operations, solving, toolkit, tutoring
from karelsynth.web.errors import add_error_handlers
from karelsynth.web.guard import GuardMiddleware, RateLimits
from karelsynth.web.operations import LogFormat, ServiceMetrics
from karelsynth.web.queue import SolveQueue, TaskSolver

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_STATIC: Final = Path(__file__).parent / "static"
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
_DESCRIPTION: Final = (
    "Program synthesis for Karel the robot. Worlds are text drawings, programs are texts in any dialect."
)


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of the service."""

    workers: int = 1
    """Number of batches of searches that run at the same time."""
    queue: int = 128
    """Number of searches that may wait; further ones get status 503."""
    cores: int = 1
    """Cores that all workers share."""
    hosts: frozenset[str] | None = LOOPBACK
    """Host names that requests may use; None allows all."""
    model: str = "shipped"
    """The model's name, as `/api/version` reports it."""
    rate: float = 0.0
    """Requests a minute that a client may send with POST; 0 for any number."""
    log: LogFormat = "off"
    """How requests and searches are logged."""
    proxies: frozenset[str] = frozenset()
    """Addresses of reverse proxies, whose header X-Forwarded-For names the client."""
    challenges: ChallengeSet | None = None
    """What the page opens with: a class set, whose hidden examples stay on the server."""


def create_app(solver: TaskSolver, settings: ServiceSettings | None = None) -> FastAPI:
    """The service for a solver. `app.state.queue` is the queue in front of the solver while the service runs."""
    settings = settings or ServiceSettings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.queue = SolveQueue(
            solver,
            workers=settings.workers,
            length=settings.queue,
            cores=settings.cores,
            observer=app.state.metrics,
        )
        yield
        await asyncio.to_thread(app.state.queue.close)

    app = FastAPI(
        title="karelsynth",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,  # FastAPI's pages load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.settings, app.state.metrics = settings, ServiceMetrics()
    add_error_handlers(app)
    app.include_router(solving.router)
    app.include_router(toolkit.router)
    app.include_router(tutoring.router)
    app.include_router(operations.router)
    app.include_router(classroom.router)
    _serve_files(app)
    app.add_middleware(
        GuardMiddleware, hosts=settings.hosts, limits=RateLimits(settings.rate), metrics=app.state.metrics
    )
    return app


def _serve_files(app: FastAPI) -> None:
    """Serve the page at `/` and its files below `/static`, each with an ETag."""
    for suffix, kind in _TYPES.items():  # some systems' tables are wrong, and `nosniff` forbids browsers to guess
        mimetypes.add_type(kind, suffix)
    static = StaticFiles(directory=_STATIC, check_dir=False)

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def index(request: Request) -> Response:
        return await static.get_response("index.html", request.scope)

    app.mount("/static", static)
