"""Ask a language model for programs: any endpoint that speaks OpenAI's chat protocol, such as vLLM or llama.cpp.

    karelsynth prompt test --limit 100 --out prompts.jsonl
    python examples/language_model.py prompts.jsonl answers.jsonl --endpoint http://localhost:8000/v1 --model NAME
    karelsynth score answers.jsonl test --limit 100

Requests run at the same time, and failed ones are tried again. Every answer is written at once, so the same command
resumes after an interruption. A key, if the endpoint needs one, is read from the environment variable OPENAI_API_KEY.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

TRIED_AGAIN = (408, 409, 425, 429, 500, 502, 503, 504)
"""Statuses of requests that may succeed later."""
LONGEST_WAIT = 60.0
"""Seconds between two tries."""
INTERRUPTED = 130


class EndpointError(Exception):
    """The endpoint cannot be used."""


def ask(options: argparse.Namespace, messages: list[dict[str, str]], stop: threading.Event) -> str:
    """The model's reply. Failures that may pass are tried again, each time after a longer pause."""
    body = {"model": options.model, "messages": messages, "temperature": options.temperature}
    body["max_tokens"] = options.max_tokens
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    url = f"{options.endpoint.rstrip('/')}/chat/completions"
    reason = "none was made"
    for attempt in range(options.tries):
        pause = min(LONGEST_WAIT, options.pause * 2**attempt) * random.uniform(0.5, 1)
        try:
            request = urllib.request.Request(url, json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=options.timeout) as response:
                return str(json.load(response)["choices"][0]["message"]["content"] or "")
        except urllib.error.HTTPError as error:
            reason = f"{error.code} {error.reason}: {error.read(300).decode(errors='replace').strip()}"
            if error.code not in TRIED_AGAIN:
                raise EndpointError(f"{url}: {reason}") from None
            after = error.headers.get("Retry-After", "")
            pause = float(after) if after.isdecimal() else pause
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:  # not reached, cut off, or not JSON
            reason = f"{type(error).__name__}: {error}"
        if stop.wait(pause):
            break
    raise EndpointError(f"{url}: {options.tries} tries failed; the last: {reason}")


def answered(path: Path, prompts: dict[int, dict[str, Any]], model: str) -> set[int]:
    """The numbers of the prompts that have an answer. A last line that was cut off is removed."""
    if not path.exists():
        return set()
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        with path.open("r+b") as file:
            file.truncate(len(whole))
    done = set()
    for at, line in enumerate(whole.splitlines(), 1):
        record = json.loads(line)
        if prompts.get(record["number"], {}).get("id") != record["id"] or record["model"] != model:
            raise EndpointError(
                f"{path}, line {at}: an answer to another prompt or by another model; choose a new file"
            )
        done.add(record["number"])
    return done


def answer(options: argparse.Namespace, prompt: dict[str, Any], stop: threading.Event) -> dict[str, Any]:
    """The line for a prompt."""
    start = time.perf_counter()
    replies = [ask(options, prompt["messages"], stop) for _ in range(options.samples)]
    seconds = round(time.perf_counter() - start, 3)
    return {
        "number": prompt["number"],
        "id": prompt["id"],
        "model": options.model,
        "answer": replies,
        "seconds": seconds,
    }


def run(options: argparse.Namespace, console: Console) -> int:
    """Answer all prompts that have no answer yet; returns the exit status."""
    lines = options.prompts.read_text(encoding="utf-8").splitlines()
    prompts = {prompt["number"]: prompt for prompt in map(json.loads, lines)}
    done = answered(options.answers, prompts, options.model)
    missing = [prompt for number, prompt in prompts.items() if number not in done]
    columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    stop, waiting = threading.Event(), set[Future[dict[str, Any]]]()
    with (
        options.answers.open("a", encoding="utf-8") as file,
        ThreadPoolExecutor(options.at_once) as pool,
        Progress(*columns, console=console) as bar,
    ):
        shown = bar.add_task("", total=len(prompts), completed=len(done))
        try:
            waiting = {pool.submit(answer, options, prompt, stop) for prompt in missing}
            while waiting:
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    file.write(json.dumps(future.result()) + "\n")
                    file.flush()
                    bar.advance(shown)
        except BaseException:  # also Ctrl-C: end the others, and keep what is there
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    console.print(f"{options.answers}: {len(prompts):,} answers", markup=False, soft_wrap=True)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", type=Path, help="what `karelsynth prompt` wrote")
    parser.add_argument("answers", type=Path, help="the file to write; an unfinished one is continued")
    parser.add_argument("--endpoint", default="http://localhost:8000/v1", help="default: %(default)s")
    parser.add_argument("--model", required=True, help="the model's name at the endpoint")
    parser.add_argument("--samples", type=int, default=1, help="answers to each prompt, ranked in their order")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--max-tokens", type=int, default=4096)
    parser.add_argument("--at-once", type=int, default=8, help="requests at the same time")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for a request")
    parser.add_argument("--tries", type=int, default=6, help="of a request, before giving up")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds after the first failure; doubles each time")
    options = parser.parse_args(arguments)
    console = Console(stderr=True, highlight=False)
    try:
        return run(options, console)
    except KeyboardInterrupt:
        console.print(f"stopped; the same command resumes from {options.answers}", markup=False, soft_wrap=True)
        return INTERRUPTED
    except (EndpointError, OSError, ValueError, KeyError) as error:
        console.print(f"{error}\nanswers so far are in {options.answers}", markup=False, soft_wrap=True, style="red")
        return 1


if __name__ == "__main__":
    sys.exit(main())
