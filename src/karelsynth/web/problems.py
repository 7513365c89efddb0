"""All error responses, in the one form that the API promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from karelsynth.errors import KarelsynthError, ProgramSyntaxError
from karelsynth.karel.world import quoted
from karelsynth.web.messages import Problem, ProblemBody
from karelsynth.web.queue import Closed, NoSuchSearch, QueueFull

_KINDS: Final = {
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


class Misplaced(KarelsynthError):
    """An error with the part of the request that it is about."""

    def __init__(self, where: str, error: KarelsynthError) -> None:
        self.where, self.error = where, error
        super().__init__(str(error))


def answer(status: int, problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The response that tells a problem."""
    return JSONResponse(ProblemBody(error=problem).model_dump(), status, headers)


def register(app: FastAPI) -> None:
    """See to it that errors of these kinds, raised anywhere in a request, are answered in the promised form."""
    app.add_exception_handler(KarelsynthError, _on_own_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)


async def _on_own_error(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, QueueFull):
        return answer(503, Problem(message=str(error)), {"Retry-After": str(error.retry_after)})
    if isinstance(error, Closed):
        return answer(503, Problem(message=str(error)), {"Retry-After": "10"})
    if isinstance(error, NoSuchSearch):
        return answer(404, Problem(message=str(error), where="id"))
    return answer(422, problem_of(error))


def problem_of(error: Exception, where: str | None = None) -> Problem:
    """The problem that an error of ours tells."""
    if isinstance(error, Misplaced):
        return problem_of(error.error, error.where)
    if isinstance(error, ProgramSyntaxError):
        hint = f". Did you mean `{error.suggestion}`?" if error.suggestion else ""
        return Problem(message=error.reason + hint, where=where or "program", line=error.line, column=error.column)
    return Problem(message=str(error), where=where)


async def _on_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    match error.status_code:
        case 404:
            message = "there is nothing here: the page is at /, and /openapi.json describes the API"
        case 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            message = f"{request.method} is not allowed here: use {allowed}"
        case 400:  # FastAPI's answer to a body that cannot even be decoded
            return answer(422, Problem(message="the body is not JSON in UTF-8", where="body"))
        case _:
            message = HTTPStatus(error.status_code).phrase.lower()
    return answer(error.status_code, Problem(message=message), error.headers)


async def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # FastAPI reads no JSON that is not declared as such. What a form on a foreign page can send never is.
    if not _is_json(request.headers.get("content-type", "")):
        message = "the body must be JSON: send it with the header `Content-Type: application/json`"
        return answer(415, Problem(message=message))
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return answer(422, _bad_json(str(error.body), first))
    path = [part for part in first["loc"] if part != "body"]
    return answer(422, Problem(message=_in_words(first, path), where=_place(path)))


def _bad_json(text: str, error: Mapping[str, Any]) -> Problem:
    before = text[: error["loc"][1]]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    reason = str(error["ctx"]["error"]).lower()
    return Problem(message=f"the body is not valid JSON: {reason}", where="body", line=line, column=column)


def _in_words(error: Mapping[str, Any], path: Sequence[str | int]) -> str:
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
            return f"{name} is too small: it must be at least {limits['ge']:g}"
        case "less_than_equal":
            return f"{name} is too large: it must be at most {limits['le']:g}"
        case "literal_error":
            return f"{name} must be {limits['expected']}"
        case kind if kind in _KINDS:
            return f"{name} must be {_KINDS[kind]}"
        case _:
            return f"{name}: {error['msg']}"


def _place(path: Sequence[str | int]) -> str | None:
    """`("examples", 1, "output")` as `example 2, output`."""
    words: list[str] = []
    for before, part in zip([None, *path], path, strict=False):
        if isinstance(part, int):
            words[-1] = f"{str(before).removesuffix('s')} {part + 1}"
        else:
            words.append(quoted(part).strip("`"))
    return ", ".join(words) or None


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
