"""Error responses: every error has the same JSON body, `{"error": {message, where, line, column}}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from karelsynth.errors import KarelsynthError, ProgramSyntaxError, quoted
from karelsynth.web.queue import QueueFull, ServerStopping, UnknownSearch

_TYPE_NAMES: Final = {
    "string_type": "a string",
    "string_unicode": "a string",
    "float_type": "a number",
    "finite_number": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dict_type": "an object",
}
"""Pydantic's error types for values of the wrong type, with the type that was expected."""


class ProblemDetails(BaseModel, extra="forbid", frozen=True):
    """What is wrong, in one message for people, and where.

    It has the role of RFC 9457's problem details, with fields of its own.
    """

    message: str
    where: str | None = Field(default=None, description="The part of the request, such as `example 2, output`.")
    line: int | None = Field(default=None, description="The line, from 1, if the problem is in a text.")
    column: int | None = None


class ErrorBody(BaseModel, extra="forbid", frozen=True):
    """The body of every error response."""

    error: ProblemDetails


BODY_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    413: {"model": ErrorBody, "description": "The body is too large."},
    415: {"model": ErrorBody, "description": "The body is not declared as JSON."},
    422: {"model": ErrorBody, "description": "Something in the body is wrong."},
}
"""Error responses of every operation that takes a body, for the OpenAPI description."""
BUSY_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    503: {
        "model": ErrorBody,
        "description": "All workers are busy and the queue is full, or the server is stopping.",
        "headers": {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}},
    }
}
"""Further error responses of the operations that solve."""


class RequestError(KarelsynthError):
    """An error in one part of a request; `where` names the part."""

    def __init__(self, where: str, error: KarelsynthError | str) -> None:
        self.where, self.error = where, error
        super().__init__(str(error))


def error_response(
    status: int, message: str, *, headers: Mapping[str, str] | None = None, **place: Any
) -> JSONResponse:
    """An error response. `place` holds `where`, `line` and `column`, as far as they are known."""
    body = ErrorBody(error=ProblemDetails(message=message, **place))
    return JSONResponse(body.model_dump(), status, headers)


def add_error_handlers(app: FastAPI) -> None:
    """Answer errors that are raised while a request is handled."""
    app.add_exception_handler(KarelsynthError, _on_karelsynth_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_error)


async def _on_karelsynth_error(request: Request, error: Exception) -> JSONResponse:
    where = None
    if isinstance(error, RequestError):
        where = error.where
        error = error.error if isinstance(error.error, KarelsynthError) else error
    match error:
        case QueueFull():
            return error_response(503, str(error), headers={"Retry-After": str(error.retry_after)})
        case ServerStopping():
            return error_response(503, str(error), headers={"Retry-After": "10"})
        case UnknownSearch():
            return error_response(404, str(error), where="id")
        case ProgramSyntaxError():
            hint = f". Did you mean `{error.suggestion}`?" if error.suggestion else ""
            where = where or "program"
            return error_response(422, error.reason + hint, where=where, line=error.line, column=error.column)
        case _:
            return error_response(422, str(error), where=where)


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    match error.status_code:
        case 404:
            message = "there is nothing here: the page is at /, and /openapi.json describes the API"
        case 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            message = f"{request.method} is not allowed here: use {allowed}"
        case 400:  # FastAPI's status for a body that it cannot parse, for any other reason than its syntax
            message = "the body cannot be read: it is not UTF-8, is nested too deep, or holds a number that is too long"
            return error_response(422, message, where="body")
        case _:
            message = HTTPStatus(error.status_code).phrase.lower()
    return error_response(error.status_code, message, headers=error.headers)


async def _on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # FastAPI parses a body only if it is declared as JSON. A form on another site's page cannot declare that.
    if not _is_json(request.headers.get("content-type", "")):
        message = "the body must be JSON: send it with the header `Content-Type: application/json`"
        return error_response(415, message)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        before = str(error.body)[: first["loc"][1]]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        reason = str(first["ctx"]["error"]).lower()
        return error_response(422, f"the body is not valid JSON: {reason}", where="body", line=line, column=column)
    path = [part for part in first["loc"][1:] if part != "constrained-str"]  # not "body", nor a branch of a union
    return error_response(422, _validation_message(first, path), where=_place(path))


def _validation_message(error: Mapping[str, Any], path: Sequence[str | int]) -> str:
    """One of Pydantic's errors as a sentence; `path` leads to the value in the body."""
    name = quoted(str(path[-1])) if path and isinstance(path[-1], str) else "this" if path else "the body"
    limits: Mapping[str, Any] = error.get("ctx", {})
    match error["type"]:
        case "missing":
            return f"{name} is missing" + ("" if path else ": send a JSON object")
        case "extra_forbidden":
            return f"unknown field {name}: leave it out"
        case "string_too_long":
            return f"{name} is too long: at most {limits['max_length']:,} characters are allowed"
        case "too_long":
            return f"{name} has too many items: {limits['actual_length']} where {limits['max_length']} are allowed"
        case "too_short":
            return f"{name} is empty: it needs at least {limits['min_length']} item"
        case "greater_than_equal":
            return f"{name} is too small: it must be at least {limits['ge']:,.16g}"
        case "less_than_equal":
            return f"{name} is too large: it must be at most {limits['le']:,.16g}"
        case "literal_error":
            return f"{name} must be {limits['expected']}"
        case kind if kind in _TYPE_NAMES:
            return f"{name} must be {_TYPE_NAMES[kind]}"
        case _:
            return f"{name}: {error['msg']}"


def _place(path: Sequence[str | int]) -> str | None:
    """`("examples", 1, "output")` as `example 2, output`."""
    words: list[str] = []
    for before, part in zip([None, *path], path, strict=False):
        if isinstance(part, str):
            words.append(quoted(part).strip("`"))
        elif isinstance(before, str):
            words[-1] = f"{before.removesuffix('s')} {part + 1}"
        else:  # a list in a list
            words.append(f"item {part + 1}")
    return ", ".join(words) or None


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
