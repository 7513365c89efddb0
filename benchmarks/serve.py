"""The service under load: answers per second, latencies, fairness, memory, and whether every answer is right.

    python benchmarks/serve.py [--clients 64] [--seconds 30] [--budget 1] [-- --workers 2 --queue 128]
    python benchmarks/serve.py --minutes 10               # a soak: a line every minute
    python benchmarks/serve.py --greedy 33                # one more client sends 33 searches of 10 s at a time
    python benchmarks/serve.py --idle 1100 --seconds 20   # and so many connections that send nothing, or half a request
    python benchmarks/serve.py --fake 0                   # a solver that only waits: the service alone
    python benchmarks/serve.py --threads 1 2 4 8          # no service: threads that share a solver, 64 tasks
    python benchmarks/serve.py --haste 240                # no service: first rounds of so many tasks, also narrow ones

Starts `karelsynth serve` in a process of its own; arguments after `--` are passed on. Each client has an address of its
own (127.0.0.2 and so on; all of 127.0.0.0/8 is this machine), sends a task, waits for the response, and sends the next
one: of the gallery (one in seven), or of the generator (none of them twice). After a 503 it waits for the time in the
header Retry-After. Once the time is up, the programs of all responses are run on the examples by the interpreter that
specifies the language. Wrong answers are those that claim to be solved and are not, and all statuses but 200 and 503.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.tasks.batch import GIVEN_EXAMPLES
from karelsynth.tasks.generate import generate
from karelsynth.tasks.task import Example, Task
from karelsynth.tasks.task_files import gallery

ROOT = Path(__file__).parent.parent
SEED = 20_261_115
PER_SECOND = 20
"""Tasks that are made for each second of the test: more than are answered."""
GREEDY = "127.0.1.1"
HALVES = (
    b"",
    b"GET / HTTP/1.1\r\nHost: local",
    b"POST /api/solve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{",
)


@dataclass
class Tally:
    """What all clients have seen."""

    latencies: list[float] = field(default_factory=list)
    """Seconds that each 200 took."""
    in_time: int = 0
    """200s that came before the time was up."""
    answers: list[tuple[Task, bytes]] = field(default_factory=list)
    """The bodies of all 200s, to be checked later."""
    by_client: Counter[int] = field(default_factory=Counter)
    busy: int = 0
    wrong: list[str] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    """Seconds that `/api/health` took."""
    memory: list[float] = field(default_factory=list)
    """MB of the server, once a second."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--minutes", type=float, help="instead of --seconds")
    parser.add_argument("--budget", type=float, default=1.0)
    parser.add_argument("--greedy", type=int, default=0, metavar="N")
    parser.add_argument("--idle", type=int, default=0, metavar="N")
    parser.add_argument("--fake", type=float, metavar="SECONDS")
    parser.add_argument("--threads", type=int, nargs="+", metavar="N")
    parser.add_argument("--haste", type=int, metavar="N")
    parser.add_argument("options", nargs="*", help="for `karelsynth serve`, after --")
    arguments = parser.parse_args()
    if arguments.threads:
        share_a_solver(arguments.threads, arguments.budget)
        return
    if arguments.haste:
        compare_haste(arguments.haste)
        return
    seconds = 60 * arguments.minutes if arguments.minutes else arguments.seconds
    known = [entry.task for entry in gallery()]
    tasks = generated(int(PER_SECOND * seconds))
    tasks += random.Random(0).choices(known, k=len(tasks) * len(known) // 200)
    random.Random(0).shuffle(tasks)
    module = ["karelsynth"] if arguments.fake is None else ["tests.fake_solver", str(arguments.fake)]
    command = [sys.executable, "-m", *module, "serve", "--port", "0", *arguments.options]
    if arguments.idle:
        command = ["sh", "-c", 'ulimit -n 1024; exec "$@"', "sh", *command]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the server, too
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert server.stdout is not None
        ready = server.stdout.readline()
        if not ready:
            sys.exit(server.wait() or 1)  # it has said itself what is wrong
        host = urlsplit(ready.split(" ready at ")[1].split()[0]).netloc
        with ExitStack() as opened:
            for number in range(arguments.idle):
                open_idle(opened, host, number)
            test = LoadTest(host, tasks, arguments.budget, server.pid)
            test.run(arguments.clients, arguments.greedy, seconds, every=60.0 if arguments.minutes else None)
    finally:
        server.terminate()
        status = server.wait(60)  # on a busy machine
    report(test.tally, arguments.clients, seconds)
    if test.tally.wrong or status != 0:
        sys.exit(f"wrong: {test.tally.wrong[:3]}; the server ended with status {status}")


def share_a_solver(numbers: list[int], budget: float) -> None:
    """Threads that share a solver: does each search get its budget?"""
    from karelsynth.solve import Solver

    solver, tasks = Solver.load(), generated(64)
    solver.warm_up()
    print("| threads | solved | seconds in all | longest search by its own clock |\n|---:|---:|---:|---:|")
    for number in numbers:
        began = time.monotonic()
        with ThreadPoolExecutor(number) as pool:
            solutions = list(pool.map(lambda task: solver.solve(task, budget=budget), tasks))
        took, longest = time.monotonic() - began, max(solution.seconds for solution in solutions)
        print(f"| {number} | {sum(map(bool, solutions))} | {took:.1f} | {longest:.2f} s |", flush=True)


def compare_haste(count: int) -> None:
    """The first round alone, as `solve` runs it and as the service does while another batch waits."""
    from karelsynth.solve import Solver

    solver, tasks, batch = Solver.load(), generated(count), generate(SEED, 0, count)
    solver.warm_up()
    print("| | solved | right on the held-out example | answers | finding | choosing |\n|---|---:|---:|---:|---:|---:|")
    for name, haste in (("as `solve`", False), ("narrow", True)):
        with solver.turns.turn() as turn:
            began = time.monotonic()
            states = [solver.begin(task) for task in tasks]
            for at in range(0, count, solver.together(0)):
                solver.advance(states[at : at + solver.together(0)], turn, narrow=haste)
            found = time.monotonic()
            solutions = [solver.conclude(state, turn, quick=haste) for state in states]
            ended = time.monotonic()
        right = 0
        for number, solution in enumerate(solutions):
            before, after = (World.from_codes(part[number][GIVEN_EXAMPLES]) for part in (batch.inputs, batch.outputs))
            if solution.solved and solution.program is not None:
                run = solution.program.run(before)
                right += run.ok and run.world == after
        answers = sum(len(solution.answers) for solution in solutions) / count
        times = " | ".join(f"{1000 * seconds / count:.1f} ms" for seconds in (found - began, ended - found))
        print(f"| {name} | {sum(map(bool, solutions))} | {right} | {answers:.1f} | {times} |", flush=True)


def generated(count: int) -> list[Task]:
    """Tasks as in training, with the examples that are given."""
    batch = generate(SEED, 0, count)
    return [
        Task(tuple(Example(World.from_codes(before), World.from_codes(after)) for before, after in pairs))
        for pairs in (
            zip(inputs[:GIVEN_EXAMPLES], outputs[:GIVEN_EXAMPLES], strict=True)
            for inputs, outputs in zip(batch.inputs, batch.outputs, strict=True)
        )
    ]


def open_idle(opened: ExitStack, host: str, number: int) -> None:
    """A connection that sends nothing, half a head, or half a body."""
    name, port = host.split(":")
    with suppress(OSError):  # the server may close it at once
        connection = opened.enter_context(socket.create_connection((name, int(port)), timeout=5))
        connection.sendall(HALVES[number % len(HALVES)])


class LoadTest:
    """Clients in threads."""

    def __init__(self, host: str, tasks: list[Task], budget: float, pid: int) -> None:
        self.host, self.tasks, self.budget, self.pid = host, tasks, budget, pid
        self.tally = Tally()
        self.lock = threading.Lock()
        self.until = 0.0

    def run(self, clients: int, greedy: int, seconds: float, every: float | None) -> None:
        """Run all clients until the time is up, then check all answers."""
        self.until = time.monotonic() + seconds
        threads = [threading.Thread(target=self.ask, args=(number,)) for number in range(clients)]
        greedily = [threading.Thread(target=self.ask_greedily, daemon=True) for _ in range(greedy)]
        for thread in (*greedily, *threads):
            thread.start()
        began = last = time.monotonic()
        answered = 0
        while (now := time.monotonic()) < self.until:
            self.watch()
            if every is not None and now - last >= every:
                done, last = len(self.tally.latencies), now
                memory, slowest = self.tally.memory[-1], max(self.tally.latencies[answered:], default=float("nan"))
                print(
                    f"{(now - began) / 60:.0f} min: {(done - answered) / every:.1f} answers/s, "
                    f"slowest {slowest:.1f} s, {memory:.0f} MB, {self.tally.busy} × 503, {len(self.tally.wrong)} wrong",
                    flush=True,
                )
                answered = done
            time.sleep(1)
        for thread in threads:
            thread.join()
        for task, body in self.tally.answers:
            if not honest(json.loads(body), task):
                self.tally.wrong.append("not what it claims")

    def watch(self) -> None:
        """Measure the server's memory, and how long it takes to say that it is well."""
        with suppress(OSError, IndexError):
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
            self.tally.memory.append(pages * os.sysconf("SC_PAGESIZE") / 1e6)
        began = time.monotonic()
        try:
            connection = http.client.HTTPConnection(self.host, timeout=300, source_address=("127.0.2.1", 0))
            connection.request("GET", "/api/health")
            status = connection.getresponse().status
            connection.close()
        except (OSError, http.client.HTTPException):
            status = 0
        self.tally.health.append(time.monotonic() - began)
        if status != 200:
            self.tally.wrong.append(f"health: {status}")

    def ask(self, number: int) -> None:
        """One client: a task after the other."""
        source = f"127.0.{number // 250}.{number % 250 + 2}"
        while time.monotonic() < self.until:
            with self.lock:
                if not self.tasks:
                    return
                task = self.tasks.pop()
            began = time.monotonic()
            status, pause, body = self.post(task, self.budget, source)
            with self.lock:
                if status == 200:
                    self.tally.latencies.append(time.monotonic() - began)
                    self.tally.answers.append((task, body))
                    self.tally.by_client[number] += 1
                    self.tally.in_time += time.monotonic() < self.until
                elif status == 503:
                    self.tally.busy += 1
                else:
                    self.tally.wrong.append(f"{status} {body[:200]!r}")
            time.sleep(min(pause, max(0.0, self.until - time.monotonic())))

    def ask_greedily(self) -> None:
        """A thread of the greedy client: an impossible task that takes ten seconds, again and again."""
        before = World.parse("> . . . . .\n. . . . . .")
        pairs = [(before, before.with_hero(1, 5, "west"))]
        pairs.append((World.parse("> . . .\n. . . ."), World.parse(". . 9 .\n. . . >")))
        task = Task(tuple(Example(*pair) for pair in pairs))
        while time.monotonic() < self.until:
            _, pause, _ = self.post(task, 10.0, GREEDY)
            time.sleep(min(pause, max(0.0, self.until - time.monotonic())))

    def post(self, task: Task, budget: float, source: str) -> tuple[int, float, bytes]:
        """One request: the status, the seconds to wait before the next one, and the body."""
        pairs = [{"input": pair.input.to_text(), "output": pair.output.to_text()} for pair in task.examples]
        body = json.dumps({"examples": pairs, "budget": budget})
        connection = http.client.HTTPConnection(self.host, timeout=300, source_address=(source, 0))
        try:
            connection.request("POST", "/api/solve", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, float(response.headers.get("Retry-After", 0)), response.read()
        except (OSError, http.client.HTTPException) as error:
            return 0, 1.0, repr(error).encode()
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
    served = [tally.by_client[number] for number in range(clients)] or [0]
    print(f"{clients} clients, {seconds:g} s, {len(tally.wrong)} wrong answers\n")
    print("| answers/s | solved | median | 95 % | 99 % | 200 | 503 |\n|---:|---:|---:|---:|---:|---:|---:|")
    share = sum(json.loads(body)["solved"] for _, body in tally.answers) / max(1, len(taken))
    print(
        f"| {tally.in_time / seconds:.1f} | {share:.1%} | {median:.3f} s | {nearly:.3f} s | {almost:.3f} s "
        f"| {len(tally.latencies):,} | {tally.busy:,} |\n"
    )
    print(f"answers by client: {min(served)} to {max(served)}")
    if tally.health:
        print(f"health: slowest of {len(tally.health)} in {max(tally.health):.2f} s")
    if tally.memory:
        first, last = tally.memory[0], tally.memory[-1]
        print(f"memory: {first:.0f} MB at first, {max(tally.memory):.0f} MB at most, {last:.0f} MB at last")


if __name__ == "__main__":
    main()
