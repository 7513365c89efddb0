"""Answers of language models: any endpoint that speaks OpenAI's chat protocol, such as vLLM, llama.cpp or Ollama.

    endpoint = Endpoint("http://localhost:8000/v1", "NAME")
    prompts = [json.loads(line) for line in prompt_lines(named_tasks("test", 100))]
    collect_answers(endpoint, prompts, Path("answers.jsonl"))
    report = score("answers.jsonl", "test", limit=100)

Requests run at the same time, and those that fail for a passing reason are sent again. Each answer is appended to the
file as soon as it is complete, so the same call resumes after an interruption.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from karelsynth._version import __version__
from karelsynth.errors import KarelsynthError
from karelsynth.files import appending
from karelsynth.parsing import ParseError, parse_json

KEY_VARIABLE: Final = "OPENAI_API_KEY"
"""The environment variable that has the endpoint's key. It is never written to a file or into a message."""
_PASSING: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses of requests that may succeed if they are sent again."""
_REFUSED: Final = frozenset({400, 413, 422})
"""Statuses that refuse this prompt. Others may be answered."""
_MOST_REFUSED: Final = 20
"""If this many prompts are refused before the first answer, the cause is not their text: the endpoint is given up."""
_LONGEST_PAUSE: Final = 60.0
"""Seconds between two tries, unless the endpoint names a time itself."""
_LONGEST_NAMED_PAUSE: Final = 3600.0
"""Seconds that an endpoint may name."""
_LARGEST_REPLY: Final = 32 * 2**20
"""Bytes of the largest reply that is read."""
_LARGEST_RECORD: Final = 64 * 2**20
"""Bytes of the longest line of answers that is read."""
_START: Final = b'{"prompt": "'
"""How every line of answers begins."""
_OWN_FIELDS: Final = {"model": "the model has an argument of its own", "messages": "the prompt is sent there"} | {
    "n": "ask for several samples instead",
    "stream": "replies are read as a whole",
}
"""Fields of a request that cannot be set by hand, and why."""


class EndpointError(KarelsynthError):
    """The endpoint cannot be used."""


class RefusedError(EndpointError):
    """The endpoint will not answer this prompt: it is too long, for example, or filtered."""


class AnswersError(KarelsynthError):
    """The file of answers belongs to other prompts, or to another model."""


class Reply(NamedTuple):
    """What a model wrote."""

    text: str
    finish: str | None
    """Why it ended, as the endpoint says: `stop`, or `length` if it was cut off."""


@dataclass(frozen=True)
class Endpoint:
    """A model behind a chat endpoint, and the settings of its requests."""

    url: str
    """The address up to and including the version, such as `http://localhost:8000/v1`."""
    model: str
    temperature: float = 0.0
    max_tokens: int = 4096
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Further fields of a request, such as `top_p` or `seed`; None leaves a field out."""
    timeout: float = 600.0
    """Seconds for one request."""
    tries: int = 6
    """Of a request, before giving up."""
    pause: float = 1.0
    """Seconds after the first failure; they double with each further one."""
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urllib.parse.urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is no number, half an IPv6 address
            usable = False
        if not usable or not self.url.isascii() or not self.url.isprintable() or " " in self.url:
            raise EndpointError(f"{self.url}: not the address of an endpoint; write http://HOST:PORT/v1")
        if parts.username is not None or parts.password is not None:
            raise EndpointError(f"the address holds a password; put the key into {KEY_VARIABLE} instead")
        if self.key is not None and not (
            self.key.isascii() and self.key.isprintable() and self.key == self.key.strip()
        ):
            raise EndpointError(
                f"the key in {KEY_VARIABLE} has characters that no header may have, such as a line break"
            )
        for name, reason in _OWN_FIELDS.items():
            if name in self.fields:
                raise EndpointError(f"the field `{name}` of a request cannot be set: {reason}")

    @property
    def chat(self) -> str:
        """The address of chat requests."""
        return f"{self.url.rstrip('/')}/chat/completions"

    @property
    def settings(self) -> dict[str, Any]:
        """What a reply depends on, beside its prompt: the fields of a request without the messages."""
        fields = {"model": self.model, "temperature": self.temperature, "max_tokens": self.max_tokens, **self.fields}
        return {name: value for name, value in fields.items() if value is not None}

    def reply(
        self,
        messages: Sequence[dict[str, str]],
        stop: threading.Event | None = None,
        retrying: Callable[[str], None] = lambda reason: None,
    ) -> Reply:
        """The model's reply. A failure that may pass is tried again after a pause, which `stop` ends at once.

        `retrying` is called with the reason before each further try. Raises EndpointError, and RefusedError if other
        prompts may be answered.
        """
        reason, stop = "none was made", stop or threading.Event()
        for attempt in range(self.tries):
            pause = min(_LONGEST_PAUSE, self.pause * 2 ** min(attempt, 30)) * random.uniform(0.5, 1)
            try:
                return parse_reply(self._send(messages))
            except urllib.error.HTTPError as error:
                with error:
                    reason = self._without_key(f"{error.code} {error.reason}{_detail(error)}")
                    named = retry_after(error.headers.get("Retry-After"))
                if error.code not in _PASSING:
                    kind = RefusedError if error.code in _REFUSED else EndpointError
                    raise kind(f"{self.chat}: {reason}{_advice(error.code)}") from None
                pause = pause if named is None else named
            except (OSError, HTTPException, EndpointError) as error:  # not reached, cut off, or not a reply
                reason = self._without_key(str(getattr(error, "reason", "") or error) or type(error).__name__)
            if attempt + 1 < self.tries:
                retrying(reason)
                if stop.wait(pause):
                    break
        tries = "1 try" if self.tries == 1 else f"{self.tries} tries"
        raise EndpointError(f"{self.chat}: {tries} failed; the last: {reason}")

    def _send(self, messages: Sequence[dict[str, str]]) -> bytes:
        body = {**self.settings, "messages": list(messages)}
        headers = {"Content-Type": "application/json", "User-Agent": f"karelsynth/{__version__}"}
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


def parse_reply(content: bytes) -> Reply:
    """Read a chat completion; raises EndpointError."""
    try:
        record = parse_json(content)
    except ParseError as error:
        raise EndpointError(f"the reply is not JSON ({error.reason})") from None
    try:
        choice = record["choices"][0]
        text, finish = choice["message"]["content"], choice.get("finish_reason")
    except (LookupError, TypeError, AttributeError):
        raise EndpointError("the reply is not a chat completion: it has no choices[0].message.content") from None
    if isinstance(text, list):  # parts, of which some may be thoughts
        text = "".join(part["text"] for part in text if isinstance(part, dict) and isinstance(part.get("text"), str))
    if not isinstance(text, str | None):
        raise EndpointError("the reply's message.content is not a text")
    return Reply(text or "", finish if isinstance(finish, str) else None)


class Collected(NamedTuple):
    """What a file of answers holds for some prompts."""

    answers: int
    cut_off: int
    """Answers with a reply that reached its longest length."""
    refused: int = 0
    """Prompts that the endpoint would not answer. They are not in the file."""


def collect_answers(
    endpoint: Endpoint,
    prompts: Sequence[Mapping[str, Any]],
    path: Path,
    *,
    samples: int = 1,
    at_once: int = 8,
    skip_refused: bool = False,
    progress: Callable[[int], None] = lambda more: None,
    retrying: Callable[[str], None] = lambda reason: None,
) -> Collected:
    """Send every prompt that has no answer yet, and append the answers to a file.

    Args:
        endpoint: the model.
        prompts: the lines of `tasks.prompts.prompt_lines`, parsed: `number`, `id` and `messages`.
        path: the file of answers; an unfinished one is continued.
        samples: how often each prompt is sent. The replies are ranked in this order.
        at_once: how many prompts are sent at the same time.
        skip_refused: go on if the endpoint refuses a prompt (RefusedError). It is sent again by the next call.
        progress: is called with the number of prompts that have been answered or refused since the last call.
        retrying: is called with the reason when a request has failed and is sent again; by several threads.

    Raises EndpointError if a request fails for good, and AnswersError if the file has answers to other prompts or of
    another model. Both leave complete answers in the file.
    """
    settings = {**endpoint.settings, "samples": samples}
    with appending(path) as file:
        cut_off = read_answers(file, path, prompts, settings)
        missing = [prompt for prompt in prompts if prompt["number"] not in cut_off]
        progress(len(cut_off))
        refused = 0
        try:
            for prompt, replies, seconds in _replies(endpoint, missing, samples, at_once, retrying):
                if isinstance(replies, RefusedError):
                    refused += 1
                    if not skip_refused or (not cut_off and refused >= min(_MOST_REFUSED, len(missing))):
                        raise replies
                    progress(1)
                    continue
                record = {
                    "prompt": prompt_digest(prompt),  # first: see _START
                    "number": prompt["number"],
                    "id": prompt["id"],
                    "settings": settings,
                    "answer": [reply.text for reply in replies],
                    "finish": [reply.finish for reply in replies],
                    "seconds": seconds,
                }
                file.write(json.dumps(record).encode() + b"\n")
                file.flush()
                cut_off[prompt["number"]] = _is_cut_off(record["finish"])
                progress(1)
        except EndpointError as error:
            kept = f"{len(cut_off):,} of {len(prompts):,} answers are in {path}; the same command resumes"
            raise EndpointError(f"{error}\n{kept}") from None
    return Collected(len(cut_off), sum(cut_off.values()), refused)


def prompt_digest(prompt: Mapping[str, Any]) -> str:
    """16 hexadecimal digits of what is sent."""
    return sha256(json.dumps(prompt["messages"]).encode()).hexdigest()[:16]


def read_answers(
    file: BinaryIO, path: Path, prompts: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
) -> dict[int, bool]:
    """By the number of each prompt that has an answer in a file, whether the answer was cut off.

    A last line that is incomplete, because a process was killed while it wrote, is removed. Answers to prompts beyond
    the last are skipped: another call had a higher limit. Raises AnswersError, and leaves the file as it is, if a line
    belongs to another prompt or was requested with other settings.
    """
    digests = {prompt["number"]: (prompt["id"], prompt_digest(prompt)) for prompt in prompts}
    done, whole = dict[int, bool](), 0
    file.seek(0)
    for at, line in enumerate(iter(lambda: file.readline(_LARGEST_RECORD), b""), 1):
        wrong = AnswersError(f"{path}: line {at} is not an answer that this command wrote; choose a new file")
        if not line.endswith(b"\n"):
            if not (line.startswith(_START) or _START.startswith(line)) or len(line) == _LARGEST_RECORD:
                raise wrong
            file.truncate(whole)
            break
        try:
            record = parse_json(line)
            number, found = record["number"], (record["id"], record["prompt"])
            same, finish = record["settings"] == settings, record["finish"]
        except (ParseError, LookupError, TypeError):
            raise wrong from None
        whole += len(line)
        if type(number) is not int or number < 1 or not isinstance(finish, list) or number in done:
            raise wrong
        if not same or found != digests.get(number, found):
            raise AnswersError(
                f"{path}: line {at} answers another prompt, or is of another model or of other settings; choose a new "
                "file"
            )
        if number in digests:
            done[number] = _is_cut_off(finish)
    file.seek(0, os.SEEK_END)
    return done


def _is_cut_off(finish: Sequence[Any]) -> bool:
    return "length" in finish


def _replies(
    endpoint: Endpoint,
    prompts: Sequence[Mapping[str, Any]],
    samples: int,
    at_once: int,
    retrying: Callable[[str], None],
) -> Iterator[tuple[Mapping[str, Any], list[Reply] | RefusedError, float]]:
    """Each prompt with its replies, or why there are none, and seconds; in the order in which they arrive.

    The threads end with the process, so Ctrl-C does not wait for them.
    """
    found: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stop, left = threading.Event(), iter(prompts)

    def work() -> None:
        try:
            for prompt in left:  # each thread takes the next one
                if stop.is_set():
                    break
                start = time.perf_counter()
                replies: list[Reply] | RefusedError
                try:
                    replies = [endpoint.reply(prompt["messages"], stop, retrying) for _ in range(samples)]
                except RefusedError as error:
                    replies = error
                found.put((prompt, replies, round(time.perf_counter() - start, 3)))
        except BaseException as error:
            found.put(error)

    for _ in range(min(at_once, len(prompts))):
        threading.Thread(target=work, daemon=True).start()
    try:
        for _ in prompts:
            answer = found.get()
            if isinstance(answer, BaseException):
                raise answer
            yield answer
    finally:
        stop.set()


def _detail(error: urllib.error.HTTPError) -> str:
    """The beginning of an error's body, in one line."""
    try:
        text = " ".join(error.read(300).decode(errors="replace").split())
    except (OSError, HTTPException):
        text = ""
    return f": {text}" if text else ""


def _advice(status: int) -> str:
    match status:
        case 400 | 422:
            return (
                "; --set changes fields of the request: `--set max_tokens=null` leaves one out; --skip-refused goes on "
                "without this prompt"
            )
        case 413:
            return "; --skip-refused goes on without this prompt"
        case 401 | 403:
            return f"; the key is read from the environment variable {KEY_VARIABLE}"
        case 301 | 302 | 303 | 307 | 308:
            return "; redirects are not followed: give the address that it points to"
        case 404:
            return "; check the model's name, and that the address ends in /v1"
        case _:
            return ""


def retry_after(value: str | None) -> float | None:
    """The seconds that a Retry-After header asks for, as a number or as a date; None if it is neither."""
    if value is None:
        return None
    if value.strip().isdecimal() and len(value) < 10:
        return min(float(value), _LONGEST_NAMED_PAUSE)
    try:
        when = email.utils.parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    seconds = (when - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), _LONGEST_NAMED_PAUSE) if math.isfinite(seconds) else None
