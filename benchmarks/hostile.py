"""The service under attack: who is served while many connections send the worst bodies that it accepts?

    python benchmarks/hostile.py [--connections 64] [--seconds 60] [--addresses 1] [-- --workers 2 --queue 128]
    python benchmarks/hostile.py --bodies               # the processor time of each body, in a service of this process

Starts `karelsynth serve` in a process of its own; arguments after `--` are passed on. The attackers are threads of
another process. They share an address, or have as many as `--addresses` says (127.0.3.1 and so on). Each sends the
bodies in turn, to every path of the interface, as fast as it is answered. Meanwhile, two clients with an address of
their own each ask for `/api/health` four times a second, and for everything that a class needs. For each request the
report has its seconds, and the processor seconds that the server took meanwhile, which do not depend on other programs
of this machine. The exit status is 1 if an honest request failed, if the server's log has a traceback, or if it did not
end with status 0.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent
HONEST, WATCHING = "127.0.2.2", "127.0.2.1"
SIDE: Final = 16
PROGRAM: Final = "def run():\n  while(frontIsClear):\n    move()\n  putMarker()\n"
EXAMPLE: Final = {"input": ". . . .\n> . . .", "output": ". . . .\n. . . >1"}
HONEST_BODIES: Final[dict[str, dict[str, Any]]] = {
    "check": {"program": PROGRAM},
    "run": {"program": PROGRAM, "world": EXAMPLE["input"]},
    "judge": {"examples": [EXAMPLE], "program": PROGRAM},
    "grade": {"examples": [EXAMPLE], "programs": [{"name": "Ada", "program": "def run(): move()"}] * 30},
    "hint": {"examples": [EXAMPLE], "program": "def run():\n  move()\n  putMarker()\n"},
    "solve": {"examples": [EXAMPLE], "budget": 1.0},
    "probe": {"examples": [EXAMPLE], "reference": PROGRAM, "budget": 0.5},
    "pose": {"concepts": ["while"], "count": 1, "budget": 1.0},
}
"""What a class asks for."""


def world(cell: str) -> str:
    """The largest world, full of one kind of cell."""
    rows = [[cell] * SIDE for _ in range(SIDE)]
    rows[-1][0] = ">" + cell.strip(".")
    return "\n".join(map(" ".join, rows))


def hostile_bodies() -> dict[str, list[Any]]:
    """For each path, bodies that are accepted and cost most; None for GET."""
    full = [{"input": world("9").replace("9", "8", number), "output": world(".")} for number in range(1, 21)]
    loops = "  repeat(19):\n    repeat(19):\n      repeat(19):\n        pickMarker()\n        putMarker()\n"
    long = "def run():\n" + "  turnLeft()\n" * 1_500
    calls = "".join(f"def f{level}():\n" + f"  f{level - 1}()\n" * 10 for level in range(1, 4))
    helpers = "def f0():\n" + "  turnLeft()\n" * 9 + calls + "def run():\n  f3()\n"

    def endless(number: int) -> str:
        """Each is another program, so that none is run only once."""
        bits = "".join(f"  turn{'Left' if number >> bit & 1 else 'Right'}()\n" for bit in range(8))
        return f"def run():\n{bits}{loops}"

    blocks = [{"keyword": "turnLeft", "number": number} for number in reversed(range(1_500))]
    challenge = {"examples": full[:8], "hidden": [], "hints": 1, "name": "a", "about": "b", "starter": ""}
    challenges = {"karelsynth": "challenges", "title": "t", "challenges": [challenge] * 20}
    ran = {"program": endless(0), "world": world("9")}
    return {
        "/api/health": [None],
        "/api/version": [None],
        "/api/ready": [None],
        "/api/gallery": [None],
        "/api/challenges": [None],
        "/metrics": [None],
        "/api/run": [ran, {**ran, "program": helpers}],
        "/api/check": [{"program": long}, {"program": "def run():\n  " + "moev" * 4_900}],
        "/api/convert": [{"program": text, "to": to} for text in (helpers, long) for to in ("tokens", "stanford")],
        "/api/stanford": [{"program": helpers, "world": world("9")}],
        "/api/random-world": [{"rows": SIDE, "cols": SIDE}],
        "/api/task/parse": [{"text": "\n".join(f"example:\n{world('9')}\n->\n{world('.')}" for _ in range(20))}],
        "/api/task/render": [{"examples": full}],
        "/api/judge": [{"examples": full, "program": endless(0)}],
        "/api/blocks/read": [{"program": long}],
        "/api/blocks/write": [{"program": long, "functions": [{"name": "run", "body": blocks}]}],
        "/api/blocks/helper": [{"program": long, "change": "define", "name": "x"}],
        "/api/challenges/parse": [{"text": json.dumps(challenges)}],
        "/api/grade": [
            {"examples": full, "programs": [{"name": str(each), "program": endless(each)} for each in range(200)]},
            {"examples": full[:3], "programs": [{"name": "a", "program": f"{long}# {each}"} for each in range(10)]},
        ],
        "/api/hint": [
            {"examples": full, "program": endless(0), "level": 3},
            {"examples": full[:3], "program": long, "level": 3},
        ],
        "/api/probe": [{"examples": [EXAMPLE], "reference": PROGRAM, "add": True, "budget": 10}],
        "/api/pose": [
            {"concepts": ["nested", "ifelse"], "least_tokens": 90, "most_tokens": 100, "count": 10, "budget": 10},
            {"like": helpers, "count": 10, "budget": 10},
        ],
        "/api/solve": [{"examples": full, "budget": 10}, {"examples": full[:1], "budget": 10}],
        "/api/solve/stream": [{"examples": full[:6], "budget": 10}],
        "/api/solve/stop": [{"id": "x" * 100}],
    }


def send(connection: http.client.HTTPConnection, path: str, body: Any) -> tuple[int, bytes]:
    """One request: the status and the body of the response."""
    if body is None:
        connection.request("GET", path)
    else:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, response.read()


@contextmanager
def connected(host: str, source: str) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(host, timeout=300, source_address=(source, 0))
    try:
        yield connection
    finally:
        connection.close()


def attack(host: str, connections: int, addresses: int, seconds: float, told: Any) -> None:
    """A process of attackers; sends the number of responses by path and status."""
    bodies = [(path, body) for path, some in hostile_bodies().items() for body in some]
    until, statuses = time.monotonic() + seconds, Counter[tuple[str, int]]()

    def run(number: int) -> None:
        source, at = f"127.0.3.{number % addresses + 1}", number * 7
        while time.monotonic() < until:
            path, body = bodies[at % len(bodies)]
            at += 1
            try:
                with connected(host, source) as connection:
                    status = send(connection, path, body)[0]
            except (OSError, http.client.HTTPException):
                status = 0
            statuses[path, status] += 1

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(connections)]
    for thread in threads:
        thread.start()
    time.sleep(max(0.0, until - time.monotonic()))
    told.send(dict(statuses))


class Watch:
    """What honest clients see, and how much memory the server takes."""

    def __init__(self, host: str, pid: int) -> None:
        self.host, self.pid = host, pid
        self.memory: list[float] = []
        self.served: dict[str, list[tuple[float, float]]] = {path: [] for path in ("health", *HONEST_BODIES)}
        """For each request its seconds, and the server's processor seconds meanwhile."""
        self.failed: list[str] = []
        self.over = threading.Event()

    def run(self, seconds: float) -> None:
        """Ask until the time is up, and wait for the last responses."""
        threads = [threading.Thread(target=each) for each in (self.ask_for_health, self.ask_for_all)]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        self.over.set()
        for thread in threads:
            thread.join()

    def ask_for_health(self) -> None:
        while not self.over.is_set():
            self.ask(WATCHING, "health", None)
            with suppress(OSError, IndexError):
                pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
                self.memory.append(pages * os.sysconf("SC_PAGESIZE") / 1e6)
            self.over.wait(0.25)

    def ask_for_all(self) -> None:
        while not self.over.is_set():
            for path, body in HONEST_BODIES.items():
                if not self.over.is_set():
                    self.ask(HONEST, path, body)

    def ask(self, source: str, path: str, body: Any) -> None:
        """Send a request, and note how long it takes."""
        began, worked = time.monotonic(), self.processor_time()
        try:
            with connected(self.host, source) as connection:
                status, said = send(connection, f"/api/{path}", body)
        except (OSError, http.client.HTTPException) as error:
            status, said = 0, repr(error).encode()
        if status != 200:
            self.failed.append(f"{path}: {status} {said[:200]!r}")
        self.served[path].append((time.monotonic() - began, self.processor_time() - worked))

    def processor_time(self) -> float:
        """The processor seconds of the server so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--addresses", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--bodies", action="store_true")
    parser.add_argument("options", nargs="*", help="for `karelsynth serve`, after --")
    arguments = parser.parse_args()
    if arguments.bodies:
        weigh_bodies()
        return
    command = [sys.executable, "-m", "karelsynth", "serve", "--port", "0", *arguments.options]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the server, too
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert server.stdout is not None
            ready = server.stdout.readline()
            if not ready:
                sys.exit(server.wait() or 1)
            host = urlsplit(ready.split(" ready at ")[1].split()[0]).netloc
            watch = Watch(host, server.pid)
            told, telling = multiprocessing.Pipe(duplex=False)
            settings = host, arguments.connections, arguments.addresses, arguments.seconds, telling
            attackers = multiprocessing.Process(target=attack, args=settings, daemon=True)
            attackers.start()
            watch.run(arguments.seconds)
            statuses = told.recv() if told.poll(30) else {}
            attackers.kill()
        finally:
            server.terminate()
            status = server.wait(60)
        log.seek(0)
        lines = log.read().decode(errors="replace").splitlines()
    report(watch, statuses)
    print(*lines[:40], sep="\n")
    if watch.failed or status or any("Traceback" in line for line in lines):
        sys.exit(f"failed: {watch.failed[:3]}; the server ended with status {status}")


def report(watch: Watch, statuses: dict[tuple[str, int], int]) -> None:
    by_status = Counter[int]()
    for (_, status), count in statuses.items():
        by_status[status] += count
    print("attackers' responses by status:", ", ".join(f"{count} × {status}" for status, count in by_status.items()))
    first, most, last = watch.memory[0], max(watch.memory), watch.memory[-1]
    print(f"memory: {first:.0f} MB at first, {most:.0f} MB at most, {last:.0f} MB at last\n")
    print("| an honest client's | answers | median | slowest | of the server's time: median | most |")
    print("|---|---:|---:|---:|---:|---:|")
    for path, times in watch.served.items():
        if times:
            columns = [sorted(column) for column in zip(*times, strict=True)]
            cells = [f"{column[at]:.2f} s" for column in columns for at in (len(column) // 2, -1)]
            print(f"| `{path}` | {len(times)} | {' | '.join(cells)} |")


def weigh_bodies() -> None:
    """The processor time of each body, and the size of its response."""
    from fastapi.testclient import TestClient

    from karelsynth.solve import Solver
    from karelsynth.web.app import create_app

    solver = Solver.load()
    solver.warm_up()
    print("| path | sent | status | received | processor time |\n|---|---:|---:|---:|---:|")
    with TestClient(create_app(solver), base_url="http://127.0.0.1:8000") as client:
        for path, bodies in hostile_bodies().items():
            for body in bodies:
                sent = "" if body is None else json.dumps(body)
                began = time.process_time()
                if body is None:
                    response = client.get(path)
                else:
                    response = client.post(path, content=sent, headers={"Content-Type": "application/json"})
                took, size = time.process_time() - began, len(response.content)
                print(f"| `{path}` | {len(sent):,} | {response.status_code} | {size:,} | {took:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
