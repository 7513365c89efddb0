"""What an operator needs: metrics, readiness, and a log of requests.

`/metrics` is Prometheus' text format. `/api/ready` says whether searches are accepted; `/api/health` (`toolkit`) only
says that the process runs. The log has one line for each request and each search, as text or as JSON; it has no
bodies.
"""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
from bisect import bisect_left
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel
from starlette.types import Scope

from karelsynth._version import __version__
from karelsynth.web.connections import scope_client
from karelsynth.web.errors import BUSY_ERRORS
from karelsynth.web.queue import SolveQueue, Ticket

router = APIRouter()
access_log = logging.getLogger("karelsynth.access")
LOGGERS: Final = ("karelsynth.web", "karelsynth.access", "uvicorn.error", "asyncio")
"""What the service writes its log by."""
LogFormat = Literal["off", "text", "json"]
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


class Histogram:
    """Counts of values up to each bound."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: str = "") -> list[str]:
        """In Prometheus' text format; `labels` such as `path="/"`."""
        lines, total, comma = [], 0, "," if labels else ""
        for bound, number in zip((*self.bounds, math.inf), self.counts, strict=True):
            total += number
            shown = "+Inf" if bound == math.inf else f"{bound:g}"
            lines.append(f'{name}_bucket{{{labels}{comma}le="{shown}"}} {total}')
        of = f"{{{labels}}}" if labels else ""
        return [*lines, f"{name}_sum{of} {self.sum:.6f}", f"{name}_count{of} {total}"]


class ServiceMetrics:
    """Counts since the start. Threads may share it. It observes the queue (`QueueObserver`)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = time.time()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._request_seconds: dict[str, Histogram] = {}
        self._searches: Counter[str] = Counter()
        self._waits, self._searches_seconds = Histogram(_SECONDS), Histogram(_SECONDS)
        self._batches = Histogram(_SIZES)
        self._limited = 0

    def request_ended(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request, and log it."""
        path, status = _route(scope), scope.get("state", {}).get("status", status)
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other"
        with self._lock:
            self._requests[method, path, status] += 1
            self._request_seconds.setdefault(path, Histogram(_SECONDS)).add(seconds)
        _log_line(
            "request",
            client=scope_client(scope),
            method=method,
            path=path,
            status=status,
            seconds=round(seconds, 4),
        )

    def request_limited(self) -> None:
        """Count a request that was refused because of its client's rate."""
        with self._lock:
            self._limited += 1

    def search_ended(self, outcome: str, ticket: Ticket) -> None:
        """Count a search, and log it."""
        now = time.monotonic()
        waited = (ticket.began or now) - ticket.submitted
        whole = now - ticket.submitted
        with self._lock:
            self._searches[outcome] += 1
            if outcome in ("solved", "unsolved", "stopped"):
                self._waits.add(waited)
                self._searches_seconds.add(whole)
        _log_line(
            "search",
            client=ticket.client,
            outcome=outcome,
            examples=len(ticket.task.examples),
            budget=ticket.budget,
            waited=round(waited, 4),
            seconds=round(whole, 4),
        )

    def batch_began(self, size: int) -> None:
        with self._lock:
            self._batches.add(size)

    def render(self, queue: SolveQueue, connections: Any, model: str) -> str:
        """In Prometheus' text format."""
        with self._lock:
            lines = _metric("karelsynth_info", "gauge", "The version and the model.")
            lines.append(f'karelsynth_info{{version="{__version__}",model="{_escaped(model)}"}} 1')
            lines += _metric("karelsynth_requests_total", "counter", "Requests, by path and status.")
            for (method, path, status), number in sorted(self._requests.items()):
                lines.append(
                    f'karelsynth_requests_total{{method="{method}",path="{_escaped(path)}",status="{status}"}} {number}'
                )
            lines += _metric("karelsynth_request_seconds", "histogram", "Time from a request to its response's end.")
            for path, histogram in sorted(self._request_seconds.items()):
                lines += histogram.lines("karelsynth_request_seconds", f'path="{_escaped(path)}"')
            lines += _metric("karelsynth_rate_limited_total", "counter", "Requests refused by rate limits.")
            lines.append(f"karelsynth_rate_limited_total {self._limited}")
            lines += _metric("karelsynth_searches_total", "counter", "Searches, by their outcome.")
            for outcome in ("solved", "unsolved", "stopped", "cancelled", "refused", "failed"):
                lines.append(f'karelsynth_searches_total{{outcome="{outcome}"}} {self._searches[outcome]}')
            lines += _metric("karelsynth_search_wait_seconds", "histogram", "Time until a search began.")
            lines += self._waits.lines("karelsynth_search_wait_seconds")
            lines += _metric("karelsynth_search_seconds", "histogram", "Time until a search ended, with its wait.")
            lines += self._searches_seconds.lines("karelsynth_search_seconds")
            lines += _metric("karelsynth_batch_size", "histogram", "Searches that make a round together.")
            lines += self._batches.lines("karelsynth_batch_size")
        gauges: tuple[tuple[str, float, str], ...] = (
            ("karelsynth_searches_waiting", queue.waiting, "Searches that have not begun."),
            ("karelsynth_searches_running", queue.solving, "Searches that have begun."),
            ("karelsynth_connections", 0 if connections is None else len(connections), "Open connections."),
            ("process_resident_memory_bytes", _memory(), "Memory of the process."),
            ("process_start_time_seconds", round(self._started, 3), "When the process started, as a Unix time."),
        )
        for name, value, what in gauges:
            lines += [*_metric(name, "gauge", what), f"{name} {value}"]
        if connections is not None:
            lines += _metric("karelsynth_connections_closed_total", "counter", "Connections closed, by reason.")
            for reason, number in sorted(connections.closed.items()):
                lines.append(f'karelsynth_connections_closed_total{{reason="{reason}"}} {number}')
        return "\n".join(lines) + "\n"


class ReadyResponse(BaseModel):
    """The service accepts searches."""

    status: Literal["ready"] = "ready"


@router.get("/api/ready", responses=BUSY_ERRORS)
async def ready(request: Request) -> ReadyResponse:
    """Report whether searches are accepted: status 503 if the queue is full or the server is stopping."""
    request.app.state.queue.check_ready()
    return ReadyResponse()


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> PlainTextResponse:
    """Metrics in Prometheus' text format."""
    state = request.app.state
    text = state.metrics.render(state.queue, getattr(state, "connections", None), state.settings.model)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


class _JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {"time": _timestamp(record.created), "level": record.levelname.lower()}
        fields |= getattr(record, "fields", None) or {"event": "message", "message": record.getMessage()}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


class _TextFormatter(logging.Formatter):
    """`2026-11-18T07:00:00Z request client=127.0.0.1 …`; other messages as they are."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", None)
        if fields is None:
            return super().format(record)
        rest = " ".join(f"{name}={value}" for name, value in fields.items() if name != "event")
        return f"{_timestamp(record.created)} {fields['event']} {rest}"


def start_logging(kind: LogFormat) -> None:
    """Write errors to the standard error stream; unless `kind` is off, also requests and searches.

    The libraries' errors are written in the same form, because a line that is no JSON would stop whoever reads the log.
    Their warnings are not written: malformed requests and clients that leave would cause them by the million.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonFormatter() if kind == "json" else _TextFormatter())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(logging.ERROR)
    access_log.setLevel(logging.CRITICAL if kind == "off" else logging.INFO)


def _log_line(event: str, **fields: Any) -> None:
    if access_log.isEnabledFor(logging.INFO):
        access_log.info(event, extra={"fields": {"event": event, **fields}})


def _timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"


def _route(scope: Scope) -> str:
    """The path of a request as its route declares it, even if it was refused before; `other` without a route."""
    path = getattr(scope.get("route"), "path", None)
    if path is not None:
        return str(path)
    if scope["path"].startswith("/static/"):
        return "/static"
    return str(scope["path"]) if scope["path"] in scope["app"].openapi()["paths"] else "other"


def _metric(name: str, kind: str, what: str) -> list[str]:
    return [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _memory() -> int:
    with suppress(OSError, IndexError, ValueError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return 0
