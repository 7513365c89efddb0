"""Asking a language model for programs: any endpoint that speaks OpenAI's chat protocol, such as vLLM or llama.cpp.

    endpoint = Endpoint("http://localhost:8000/v1", "NAME")
    ask(endpoint, named_tasks("test", 100), Path("answers.jsonl"))

Requests run at the same time, and those that fail for a passing reason are sent again. Each answer is appended to the
file as soon as it is complete, so the same call resumes after an interruption. `karelsynth.score` reads the file.
"""

from __future__ import annotations

import email.utils
import json
import math
import os
import queue
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Final

from karelsynth.errors import KarelsynthError
from karelsynth.files import check_writable, locked_folder
from karelsynth.parsing import ParseError, parse_json

KEY_VARIABLE: Final = "OPENAI_API_KEY"
"""The environment variable that has the endpoint's key. It is never written to a file or into a message."""
_PASSING: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses of requests that may succeed later."""
_LONGEST_PAUSE: Final = 60.0
"""Seconds between two tries, unless the endpoint names a time itself."""
_LARGEST_REPLY: Final = 32 * 2**20
"""Bytes of the largest reply that is read."""
_LARGEST_RECORD: Final = 64 * 2**20
"""Bytes of the longest line of answers that is read."""


class EndpointError(KarelsynthError):
    """The endpoint cannot be used."""


class AnswersError(KarelsynthError):
    """The file of answers belongs to other questions."""


@dataclass(frozen=True)
class Endpoint:
    """A model behind a chat endpoint, and how it is asked."""

    url: str
    """The address up to and including the version, such as `http://localhost:8000/v1`."""
    model: str
    temperature: float = 0.0
    max_tokens: int = 4096
    timeout: float = 600.0
    """Seconds for one request."""
    tries: int = 6
    """Of a request, before giving up."""
    pause: float = 1.0
    """Seconds after the first failure; they double with each further one."""
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise EndpointError(f"{self.url}: not the address of an endpoint; write http://HOST:PORT/v1")
        if parts.username is not None or parts.password is not None:
            raise EndpointError(f"the address holds a password; put the key into {KEY_VARIABLE} instead")
        if self.key is not None and not (
            self.key.isascii() and self.key.isprintable() and self.key == self.key.strip()
        ):
            raise EndpointError(
                f"the key in {KEY_VARIABLE} has characters that no header may have, such as a line break"
            )

    @property
    def chat(self) -> str:
        """The address of chat requests."""
        return f"{self.url.rstrip('/')}/chat/completions"

    def reply(self, messages: Sequence[dict[str, str]], stop: threading.Event) -> str:
        """The model's reply. A failure that may pass is tried again after a pause; raises EndpointError."""
        reason = "none was made"
        for attempt in range(self.tries):
            pause = min(_LONGEST_PAUSE, self.pause * 2**attempt) * random.uniform(0.5, 1)
            try:
                return reply_text(self._send(messages))
            except urllib.error.HTTPError as error:
                with error:
                    reason = self._without_key(f"{error.code} {error.reason}{_detail(error)}")
                    named = _retry_after(error.headers.get("Retry-After"))
                if error.code not in _PASSING:
                    raise EndpointError(f"{self.chat}: {reason}{_advice(error.code)}") from None
                pause = pause if named is None else named
            except (OSError, HTTPException, EndpointError) as error:  # not reached, cut off, or not a reply
                reason = self._without_key(str(getattr(error, "reason", "") or error) or type(error).__name__)
            if attempt + 1 < self.tries and stop.wait(pause):
                break
        raise EndpointError(f"{self.chat}: {self.tries} tries failed; the last: {reason}")

    def _send(self, messages: Sequence[dict[str, str]]) -> bytes:
        body = {
            "model": self.model,
            "messages": list(messages),
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(self.chat, json.dumps(body).encode(), headers)
        response: HTTPResponse
        with _OPENER.open(request, timeout=self.timeout) as response:
            content = response.read(_LARGEST_REPLY + 1)
        if len(content) > _LARGEST_REPLY:
            raise EndpointError(f"a reply of more than {_LARGEST_REPLY:,} bytes")
        return content

    def _without_key(self, text: str) -> str:
        """A server may repeat the key in its message."""
        return text.replace(self.key, "…") if self.key else text


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would send the key to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


def endpoint_key() -> str | None:
    """The key from the environment, if there is one."""
    return os.environ.get(KEY_VARIABLE) or None


def reply_text(content: bytes) -> str:
    """The text of a chat completion; raises EndpointError."""
    try:
        record = parse_json(content)
    except ParseError as error:
        raise EndpointError(f"the reply is not JSON ({error.reason})") from None
    try:
        text = record["choices"][0]["message"]["content"]
    except (LookupError, TypeError):
        raise EndpointError("the reply is not a chat completion: it has no choices[0].message.content") from None
    if not isinstance(text, str | None):
        raise EndpointError("the reply's message.content is not a text")
    return text or ""


def ask(
    endpoint: Endpoint,
    prompts: Sequence[dict[str, Any]],
    path: Path,
    *,
    samples: int = 1,
    at_once: int = 8,
    progress: Callable[[int], None] = lambda more: None,
) -> int:
    """Ask for every prompt without an answer, and append the answers to a file.

    Args:
        endpoint: whom to ask.
        prompts: the lines of `tasks.prompts.prompt_lines`, parsed: `number`, `id` and `messages`.
        path: the file of answers; an unfinished one is continued.
        samples: how often each prompt is asked. The replies count as ranked in this order.
        at_once: how many prompts are asked at the same time.
        progress: is called with the number of prompts that have been answered since the last call.

    Returns:
        How many prompts were asked now.

    Raises EndpointError if a request fails for good, and AnswersError if the file has answers to other questions. Both
    leave complete answers in the file.
    """
    check_writable(path)
    with locked_folder(path.absolute().parent):
        asked = _asked(endpoint, samples)
        done = read_answered(path, {prompt["number"]: prompt["id"] for prompt in prompts}, asked)
        progress(len(done))
        missing = [prompt for prompt in prompts if prompt["number"] not in done]
        with path.open("ab") as file:
            for record in _Workers(endpoint, missing, samples, at_once):
                file.write(json.dumps({**record, "asked": asked}).encode() + b"\n")
                file.flush()
                progress(1)
    return len(missing)


def _asked(endpoint: Endpoint, samples: int) -> dict[str, Any]:
    """What an answer depends on, beside its prompt."""
    settings = asdict(endpoint)
    return {**{name: settings[name] for name in ("model", "temperature", "max_tokens")}, "samples": samples}


def read_answered(path: Path, ids: dict[int, str], asked: dict[str, Any]) -> set[int]:
    """The numbers of the prompts that have an answer in a file. A last line that was cut off is removed from it.

    Raises AnswersError, and leaves the file as it is, if a line answers another prompt or was asked for differently.
    """
    done, whole = set[int](), 0
    if not path.exists():
        return done
    with path.open("rb") as file:
        for at, line in enumerate(iter(lambda: file.readline(_LARGEST_RECORD), b""), 1):
            if not line.endswith(b"\n"):
                break
            try:
                record = parse_json(line)
                number, same = record["number"], (ids.get(record["number"]), asked) == (record["id"], record["asked"])
            except (ParseError, LookupError, TypeError):
                raise AnswersError(f"{path}: line {at} is no answer of this command; choose a new file") from None
            if not same:
                raise AnswersError(
                    f"{path}: line {at} answers another prompt, or was asked of another model or with other settings; "
                    "choose a new file"
                )
            done.add(number)
            whole += len(line)
    if whole < path.stat().st_size:
        os.truncate(path, whole)
    return done


class _Workers:
    """Answers in the order in which they arrive. The threads end with the process, so Ctrl-C does not wait for them."""

    def __init__(self, endpoint: Endpoint, prompts: Sequence[dict[str, Any]], samples: int, at_once: int) -> None:
        self._endpoint, self._samples, self._count = endpoint, samples, len(prompts)
        self._stop = threading.Event()
        self._waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._found: queue.SimpleQueue[dict[str, Any] | BaseException] = queue.SimpleQueue()
        for prompt in prompts:
            self._waiting.put(prompt)
        for _ in range(min(at_once, len(prompts))):
            threading.Thread(target=self._work, daemon=True).start()

    def __iter__(self) -> Any:
        try:
            for _ in range(self._count):
                found = self._found.get()
                if isinstance(found, BaseException):
                    raise found
                yield found
        finally:
            self._stop.set()

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                prompt = self._waiting.get_nowait()
                start = time.perf_counter()
                replies = [self._endpoint.reply(prompt["messages"], self._stop) for _ in range(self._samples)]
                seconds = round(time.perf_counter() - start, 3)
                self._found.put({"number": prompt["number"], "id": prompt["id"], "answer": replies, "seconds": seconds})
        except queue.Empty:
            pass
        except BaseException as error:
            self._found.put(error)


def _detail(error: urllib.error.HTTPError) -> str:
    """The beginning of an error's body, in one line."""
    try:
        text = " ".join(error.read(300).decode(errors="replace").split())
    except (OSError, HTTPException):
        text = ""
    return f": {text}" if text else ""


def _advice(status: int) -> str:
    if status in (401, 403):
        return f"; the key is read from the environment variable {KEY_VARIABLE}"
    if status in (301, 302, 303, 307, 308):
        return "; redirects are not followed: give the address that it points to"
    if status == 404:
        return "; check the model's name, and that the address ends in /v1"
    return ""


def _retry_after(value: str | None) -> float | None:
    """The seconds that a Retry-After header asks for, as a number or as a date; None if it is neither."""
    if value is None:
        return None
    if value.strip().isdecimal() and len(value) < 10:
        return float(value)
    try:
        when = email.utils.parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    seconds = (when - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), 86_400.0) if math.isfinite(seconds) else None
