"""The application: routes, the line before the solver, the page's files, and the guard around it all."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles

from karelsynth._version import __version__
from karelsynth.web import problems, solving, toolkit
from karelsynth.web.guard import Guard
from karelsynth.web.queue import SolveQueue, Solving

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_STATIC: Final = Path(__file__).parent / "static"
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
_ABOUT: Final = "Programs from examples, for Karel the robot. Worlds are text drawings, programs texts in any dialect."


@dataclass(frozen=True)
class Settings:
    """How the service is run."""

    workers: int = 1
    """Searches at once."""
    queue: int = 32
    """How many requests may wait for one; more are refused."""
    hosts: frozenset[str] | None = LOOPBACK
    """The names that requests may use for the server; None allows all."""
    model: str = "shipped"
    """What to call the model."""


def create_app(solver: Solving, settings: Settings | None = None) -> FastAPI:
    """The service around a solver. While it is up, `app.state.queue` is the line before the solver."""
    settings = settings or Settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.queue = SolveQueue(solver, workers=settings.workers, length=settings.queue)
        yield
        app.state.queue.close()

    app = FastAPI(
        title="karelsynth",
        version=__version__,
        description=_ABOUT,
        docs_url=None,  # these pages would load their scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.settings = settings
    problems.register(app)
    app.include_router(solving.router)
    app.include_router(toolkit.router)
    _serve_files(app)
    app.add_middleware(Guard, hosts=settings.hosts)
    return app


def _serve_files(app: FastAPI) -> None:
    """The page at `/` and its files below `/static`, each with an ETag."""
    for suffix, kind in _TYPES.items():  # some systems' own tables are wrong, and browsers are told not to guess
        mimetypes.add_type(kind, suffix)
    static = StaticFiles(directory=_STATIC, check_dir=False)

    @app.get("/", include_in_schema=False)
    @app.head("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        return await static.get_response("index.html", request.scope)

    app.mount("/static", static)
