"""The service under load: requests per second, latencies, and whether every answer is right.

    python benchmarks/serve.py [--clients 64] [--seconds 30] [--budget 1] [--fake SECONDS] [-- --workers 1 --queue 32]

Starts `karelsynth serve` in a process of its own; arguments after `--` are passed on. Each client sends a task of the
gallery or of the generator, waits for the response, runs the program on the examples, and sends the next task. After a
503 it waits for the time in the header Retry-After. Wrong answers are those that claim to be solved and are not, and
all statuses but 200 and 503. `--fake`: a solver that only waits, to measure the service alone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.tasks.batch import GIVEN_EXAMPLES
from karelsynth.tasks.gallery import gallery
from karelsynth.tasks.generate import generate
from karelsynth.tasks.task import Example, Task

ROOT = Path(__file__).parent.parent


@dataclass
class Tally:
    """What all clients have seen."""

    latencies: list[float] = field(default_factory=list)
    """Seconds that each 200 took."""
    solved: int = 0
    busy: int = 0
    wrong: list[str] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--budget", type=float, default=1.0)
    parser.add_argument("--fake", type=float, metavar="SECONDS")
    parser.add_argument("options", nargs="*", help="for `karelsynth serve`, after --")
    arguments = parser.parse_args()
    tasks = [entry.task for entry in gallery()] + generated(200)
    module = ["karelsynth"] if arguments.fake is None else ["tests.fake_solver", str(arguments.fake)]
    command = [sys.executable, "-m", *module, "serve", "--port", "0", *arguments.options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert server.stdout is not None
        ready = server.stdout.readline()
        if not ready:
            sys.exit(server.wait() or 1)  # it has said itself what is wrong
        host = urlsplit(ready.split(" ready at ")[1].split()[0]).netloc
        tally = load_test(host, tasks, arguments.clients, arguments.seconds, arguments.budget)
    finally:
        server.send_signal(signal.SIGINT)
        status = server.wait(10)
    report(tally, arguments.clients, arguments.seconds)
    if tally.wrong or status != 130:
        sys.exit(f"wrong: {tally.wrong[:3]}; the server ended with status {status}")


def generated(count: int) -> list[Task]:
    """Tasks as in training, with the examples that are given."""
    batch = generate(20_261_115, 0, count)
    return [
        Task(tuple(Example(World.from_codes(before), World.from_codes(after)) for before, after in pairs))
        for pairs in (
            zip(inputs[:GIVEN_EXAMPLES], outputs[:GIVEN_EXAMPLES], strict=True)
            for inputs, outputs in zip(batch.inputs, batch.outputs, strict=True)
        )
    ]


def load_test(host: str, tasks: list[Task], clients: int, seconds: float, budget: float) -> Tally:
    """Run all clients until the time is up."""
    tally, lock = Tally(), threading.Lock()
    until = time.monotonic() + seconds

    def ask(number: int) -> None:
        rng = random.Random(number)
        while time.monotonic() < until:
            task = rng.choice(tasks)
            began = time.monotonic()
            try:
                status, pause, answer = post(host, task, budget)
            except (OSError, http.client.HTTPException) as error:
                status, pause, answer = 0, 1.0, {"error": repr(error)}
            took = time.monotonic() - began
            with lock:
                if status == 200:
                    tally.latencies.append(took)
                    tally.solved += answer["solved"]
                    tally.wrong += ["not what it claims"] * (not honest(answer, task))
                elif status == 503:
                    tally.busy += 1
                else:
                    tally.wrong.append(f"{status} {answer}")
            time.sleep(min(pause, max(0.0, until - time.monotonic())))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tally


def post(host: str, task: Task, budget: float) -> tuple[int, float, dict[str, Any]]:
    """One request: the status, the seconds to wait before the next one, and the body."""
    pairs = [{"input": pair.input.to_text(), "output": pair.output.to_text()} for pair in task.examples]
    body = json.dumps({"examples": pairs, "budget": budget})
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        connection.request("POST", "/api/solve", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, float(response.headers.get("Retry-After", 0)), json.load(response)
    finally:
        connection.close()


def honest(answer: dict[str, Any], task: Task) -> bool:
    """Whether the verdicts of all programs and `solved` are true, checked by running the programs."""
    answers = answer["answers"]
    for found in answers:
        runs = [(Program.parse(found["programs"]["tokens"]).run(pair.input), pair.output) for pair in task.examples]
        if found["right"] != [run.ok and run.world == output for run, output in runs]:
            return False
    return bool(answer["solved"]) == bool(answers and all(answers[0]["right"]))


def report(tally: Tally, clients: int, seconds: float) -> None:
    taken = sorted(tally.latencies) or [float("nan")]
    median, nearly, almost = (taken[min(len(taken) - 1, int(len(taken) * share))] for share in (0.5, 0.95, 0.99))
    print(f"{clients} clients, {seconds:g} s, {len(tally.wrong)} wrong answers\n")
    print("| answers/s | solved | median | 95 % | 99 % | 200 | 503 |\n|---:|---:|---:|---:|---:|---:|---:|")
    share = tally.solved / max(1, len(tally.latencies))
    print(
        f"| {len(tally.latencies) / seconds:.1f} | {share:.1%} | {median:.3f} s | {nearly:.3f} s | {almost:.3f} s "
        f"| {len(tally.latencies):,} | {tally.busy:,} |"
    )


if __name__ == "__main__":
    main()
