"""Kill every command that writes at random moments, and see that nothing is half written.

python tools/kill_test.py --kills 20

A command runs once undisturbed. Then it is started again and again in a new folder and killed (SIGKILL) at a random
moment. After each kill, every file is absent, as the undisturbed run left it, or a temporary or unfinished one that the
command itself removes. Finally the command runs to its end: its files must be those of the undisturbed run.
"""

from __future__ import annotations

import argparse
import http.server
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import karelsynth as package

COMMAND: Final = (sys.executable, "-m", "karelsynth")
SETTINGS: Final = (
    *("optimizer.warmup=0", "run.steps=20", "run.batch_size=8", "run.checkpoint_every=2", "run.validate_every=10"),
    *("run.validation_tasks=8", "run.log_every=5", "model.channels=2", "model.blocks=1", "model.code_size=12"),
    *("model.embedding_size=6", "model.hidden_size=10", "run.compile=false"),
)
TRAINING: Final = tuple(part for setting in SETTINGS for part in ("--set", setting))
PORT: Final = 18473
"""Of the language model that `ask` asks. It is the same in every run, since answers are kept with their settings."""
COMMANDS: Final = {
    "generate": ("generate", "--count", "4000", "--seed", "1", "--shard-size", "500", "--out", "out"),
    "export-msr": ("export-msr", "../set", "--out", "tasks.jsonl.gz"),
    "import-msr": ("import-msr", "../tasks.jsonl", "--out", "out"),
    "convert": ("convert", "../program", "--to", "stanford", "--out", "program.py"),
    "draw": ("draw", "newspaper", "--out", "picture.svg"),
    "run": ("run", "../program", "../world", "--out", "run.gif"),
    "grade": ("grade", "newspaper", "../program", "--csv", "--out", "grades.csv"),
    "stats": ("stats", "--generate", "2000", "--json", "stats.json", "--plot", "stats.svg"),
    "prompt": ("prompt", "classroom", "--out", "prompts.jsonl"),
    "train": ("train", "mle", "--out", "out", *TRAINING),
    "pack-weights": ("pack-weights", "../model", "--out", "weights.zip"),
    "unpack-weights": ("unpack-weights", "../weights.zip", "--out", "out"),
    "solve": ("solve", "newspaper", "--budget", "60", "--out", "out"),
    "hint": ("hint", "../given.task", "../wrong", "--level", "3", "--out", "hinted"),
    "probe": (
        "probe",
        "../given.task",
        "--reference",
        "../program",
        "--add",
        "--programs",
        "20000",
        "--out",
        "more.task",
    ),
    "pose": ("pose", "--count", "3", "--tokens", "6-12", "--out", "out"),
    "score": ("score", "../predictions.jsonl", "../set", "--json", "report.json"),
    "evaluate": ("evaluate", "../model", "../set", "--limit", "60", "--beam", "2", "--json", "report.json"),
    "curves": ("curves", "../model", "--tasks", "4", "--beam", "2", "--only", "length", "--json", "curves.json"),
    "ask": (
        *("ask", "../set", "--model", "m", "--endpoint", f"http://127.0.0.1:{PORT}/v1", "--limit", "200"),
        *("--at-once", "1", "--out", "answers.jsonl", "--json", "report.json"),
    ),
    "reproduce": (
        *("reproduce", "objectives", "--only", "mle", "--seeds", "0", "--recipes", "../recipes", "--commit", "none"),
        *("--data", "../other", "--train", "../set", "--val", "../set", "--device", "cpu"),
        *("--results", "results", "--runs", "runs"),
    ),
}
"""By name, the arguments of commands that write. Not here: `download-val`, which is `import-msr` after a download."""
CHANGING: Final = ("metrics.jsonl", "notes.json", "SHA256SUMS", "recipe.json", "tensorboard", "events.out")
"""Parts of names of files that hold times, or that tell of an unfinished state."""
TIMES: Final = ("seconds", "date", "time", "measured")
"""Parts of names of values in JSON files that differ each time."""
PARTIAL: Final = ("checkpoint", "manifest.json", "best", "curves.json", "more.task")
"""Parts of names of files that are whole, but grow or depend on the time that a search had."""
ONE: Final = ("grade", "probe", "hint", "pose")
"""Commands whose exit status 1 is an answer."""


def prepare(folder: Path, names: Iterable[str]) -> None:
    """The inputs of these commands."""
    used = {argument for name in names for argument in COMMANDS[name]}
    (folder / "program").write_text("def run():\n  while(frontIsClear):\n    move()\n")
    (folder / "wrong").write_text("def run():\n  while(frontIsClear):\n    turnLeft()\n")
    (folder / "world").write_text("> . .\n. . .\n")
    karelsynth(folder, "generate", "--count", "300", "--seed", "2", "--out", "set")
    karelsynth(folder, "generate", "--count", "30", "--seed", "3", "--out", "other")
    karelsynth(folder, "export-msr", "set", "--out", "tasks.jsonl")
    if used & {"../model", "../weights.zip"}:
        karelsynth(folder, "train", "mle", "--out", "trained", *TRAINING)
        (folder / "trained" / "final").rename(folder / "model")
        karelsynth(folder, "pack-weights", "model", "--out", "weights.zip")
    line = json.dumps({"number": 1, "programs": ["def run(): move()"]})
    (folder / "predictions.jsonl").write_text(f"{line}\n")
    (folder / "given.task").write_text("example:\n> . . . -> . . . >\n. . . .    . . . .\n")
    shutil.copytree(Path(package.__file__).parent / "recipes", folder / "recipes")
    (folder / "recipes" / "mle.toml").write_text("\n".join(('objective.name="mle"', *SETTINGS)))


def karelsynth(folder: Path, *arguments: str) -> None:
    """Run a command to its end. A class that is not all right is no failure: `grade` exits with 1."""
    ended = subprocess.run([*COMMAND, *arguments], cwd=folder, capture_output=True, text=True)
    if ended.returncode > 1 or "Traceback" in ended.stderr or (ended.returncode and arguments[0] not in ONE):
        raise SystemExit(f"{' '.join(arguments)}: exit status {ended.returncode}\n{ended.stderr}")


def contents(folder: Path) -> dict[str, bytes]:
    """All files that must be the same every time, by path."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(folder)): _without_times(path)
        for path in files
        if not any(part in str(path) for part in CHANGING)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def _without_times(path: Path) -> bytes:
    """The content of a file; of JSON without the values that are times. It must be complete, but for answers."""
    content = path.read_bytes()
    if path.name == "answers.jsonl":  # the last line may be incomplete
        whole, _, _ = content.rpartition(b"\n")
        return b"\n".join(json.dumps(_kept(json.loads(line))).encode() for line in whole.splitlines())
    return json.dumps(_kept(json.loads(content))).encode() if path.suffix == ".json" else content


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _kept(part) for key, part in value.items() if not any(time in key for time in TIMES)}
    return [_kept(part) for part in value] if isinstance(value, list) else value


class LanguageModel(http.server.BaseHTTPRequestHandler):
    """Answers every prompt with the same program."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "```\ndef run():\n  move()\n```"}
        body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        time.sleep(0.01)
        with suppress(OSError):  # the command was killed
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def attack(name: str, arguments: tuple[str, ...], folder: Path, kills: int, rng: random.Random) -> tuple[int, float]:
    """Kill a command again and again. Returns how often it was killed, and the seconds of the undisturbed run."""
    whole, killed = folder / f"{name}-whole", folder / f"{name}-killed"
    whole.mkdir()
    killed.mkdir()
    began = time.monotonic()
    karelsynth(whole, *arguments)
    seconds, expected, count = time.monotonic() - began, contents(whole), 0
    assert expected or name == "train", f"{name} wrote nothing"
    for _ in range(kills):
        child = subprocess.Popen(
            [*COMMAND, *arguments], cwd=killed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(seconds * (0.3 + 0.7 * rng.random()))
        count += child.poll() is None
        child.kill()
        child.wait()
        for path, content in contents(killed).items():
            unfinished = any(part in path for part in PARTIAL)
            if path == "answers.jsonl":  # grows by lines
                unfinished = expected[path].startswith(content)
            assert unfinished or content == expected.get(path), f"{name}: {path} is neither absent nor whole"
    karelsynth(killed, *arguments)
    if name != "probe":
        assert contents(killed) == expected, f"{name}: killed and run again, it wrote something else"
    left = [path.name for path in killed.rglob(".*.tmp")]
    assert not left, f"{name}: it left {left}"
    return count, seconds


def main() -> None:
    """Attack the chosen commands and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=5, help="how often to kill each command")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--only", action="append", choices=sorted(COMMANDS), help="only this command; may be repeated")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="karelsynth-kill-") as name:
        folder = Path(name)
        chosen = options.only or list(COMMANDS)
        prepare(folder, chosen)
        if "ask" in chosen:
            server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), LanguageModel)
            threading.Thread(target=server.serve_forever, daemon=True).start()
        for command in chosen:
            count, seconds = attack(command, COMMANDS[command], folder, options.kills, rng)
            print(f"{command:14} {count:3} kills, {seconds:5.1f} s undisturbed: nothing half written", flush=True)


if __name__ == "__main__":
    main()
