"""How long commands take from start to exit, first with nothing compiled, then with a warm cache.

    python benchmarks/startup.py [--times 5] [--against CHECKOUT] [--no-cold]

Each row is the median over some runs of new processes; the first two are a single run, with an empty cache of compiled
functions. `--against` runs every command of another checkout in turn, for a ratio within one run. `serve` is timed
until it says that it is ready.
"""

from __future__ import annotations

import argparse
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent
PROGRAM = "def run():\n  while(frontIsClear):\n    move()\n"
WORLD = ". . .\n> . .\n"
COLD, FIRST_WORD = "`solve newspaper`, nothing compiled", "the same, until it says what it does"
Row = tuple[str, float]


class Checkout:
    """A source tree with a cache of compiled functions of its own."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        cache = scratch / f"cache-{folder.name}"
        self._environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "NUMBA_CACHE_DIR": str(cache)}

    def _start(self, arguments: tuple[str, ...], **more: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "karelsynth", *arguments]
        process: subprocess.Popen[bytes] = subprocess.Popen(
            command, env=self._environment, stdin=subprocess.DEVNULL, **more
        )
        return process

    def until_exit(self, *arguments: str) -> float:
        """Seconds from start to exit."""
        start = time.perf_counter()
        with self._start(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            status = process.wait()
        assert status == 0, f"karelsynth {' '.join(arguments)} has failed; is the machine busy?"
        return time.perf_counter() - start

    def on_a_terminal(self, *arguments: str) -> tuple[float, float]:
        """Seconds until the first character on a terminal, and until exit."""
        ours, theirs = pty.openpty()
        start = time.perf_counter()
        with self._start(arguments, stdout=subprocess.DEVNULL, stderr=theirs) as process:
            os.close(theirs)
            first = None
            try:
                while os.read(ours, 4096):
                    first = first or time.perf_counter() - start
            except OSError:  # the terminal's other side is closed
                pass
            process.wait()
        os.close(ours)
        ended = time.perf_counter() - start
        return first or ended, ended

    def until_ready(self) -> float:
        """Seconds until `serve` is ready."""
        start = time.perf_counter()
        with self._start(("serve", "--port", "0"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            spent = time.perf_counter() - start
            process.terminate()
        assert b"ready" in line
        return spent


def measure(checkouts: list[Checkout], times: int, cold: bool, scratch: Path) -> dict[str, list[float]]:
    """By row, the seconds of each checkout."""
    program, world = scratch / "walk.karel", scratch / "room.w"
    program.write_text(PROGRAM)
    world.write_text(WORLD)
    rows: dict[str, list[float]] = {}
    if cold:
        found = [one.on_a_terminal("solve", "newspaper") for one in checkouts]
        rows[COLD], rows[FIRST_WORD] = [ended for _, ended in found], [first for first, _ in found]
    for one in checkouts:  # what is left to compile
        one.until_exit("solve", "newspaper")
        one.until_ready()
    commands: dict[str, Callable[[Checkout], float]] = {
        "`solve newspaper`": lambda one: one.until_exit("solve", "newspaper"),
        "`serve`, until it is ready": Checkout.until_ready,
        "`check`": lambda one: one.until_exit("check", str(program)),
        "`run`": lambda one: one.until_exit("run", str(program), str(world)),
        "`--help`": lambda one: one.until_exit("--help"),
    }
    for name, command in commands.items():
        runs = [[command(one) for one in checkouts] for _ in range(times)]  # in turn
        rows[name] = [statistics.median(column) for column in zip(*runs, strict=True)]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    parser.add_argument("--cold", action=argparse.BooleanOptionalAction, default=True)
    given = parser.parse_args()
    folders = [HERE, *([given.against] if given.against else [])]
    with tempfile.TemporaryDirectory() as scratch:
        checkouts = [Checkout(folder.absolute(), Path(scratch)) for folder in folders]
        rows = measure(checkouts, given.times, given.cold, Path(scratch))
    other = " against, s | ratio |" if given.against else ""
    print(f"| command | seconds |{other}\n|---|---:|{'---:|---:|' if given.against else ''}")
    for name, (now, *before) in rows.items():
        print(f"| {name} | {now:.2f} |" + "".join(f" {one:.2f} | {one / now:.1f} |" for one in before))


if __name__ == "__main__":
    main()
