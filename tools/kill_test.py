"""Kill every command that writes at random moments, and see that nothing is half written.

python tools/kill_test.py --kills 20

A command runs once undisturbed. Then it is started again and again in a new folder and killed (SIGKILL) at a random
moment. After each kill, every file is absent, as the undisturbed run left it, or a temporary or unfinished one that the
command itself removes. Finally the command runs to its end: its files must be those of the undisturbed run.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

COMMAND: Final = (sys.executable, "-m", "karelsynth")
TRAINING: Final = (
    *(
        "--set",
        "optimizer.warmup=0",
        "--set",
        "run.steps=20",
        "--set",
        "run.batch_size=8",
        "--set",
        "run.checkpoint_every=2",
    ),
    *("--set", "run.validate_every=10", "--set", "run.validation_tasks=8", "--set", "run.log_every=5"),
    *("--set", "model.channels=2", "--set", "model.blocks=1", "--set", "model.code_size=12"),
    *("--set", "model.embedding_size=6", "--set", "model.hidden_size=10"),
)
COMMANDS: Final = {
    "generate": ("generate", "--count", "4000", "--seed", "1", "--shard-size", "500", "--out", "out"),
    "export-msr": ("export-msr", "../set", "--out", "tasks.jsonl.gz"),
    "import-msr": ("import-msr", "../tasks.jsonl", "--out", "out"),
    "convert": ("convert", "../program", "--to", "stanford", "--out", "program.py"),
    "draw": ("draw", "newspaper", "--out", "picture.svg"),
    "run": ("run", "../program", "../world", "--out", "run.gif"),
    "grade": ("grade", "newspaper", "../program", "--csv", "--out", "grades.csv"),
    "stats": ("stats", "--generate", "2000", "--json", "stats.json"),
    "prompt": ("prompt", "classroom", "--out", "prompts.jsonl"),
    "train": ("train", "mle", "--out", "out", *TRAINING),
    "pack-weights": ("pack-weights", "../model", "--out", "weights.zip"),
}
"""By name, the arguments of commands that write; those that search for a time never write the same twice."""
CHANGING: Final = ("metrics.jsonl", "notes.json", "SHA256SUMS", "recipe.json", "tensorboard", "events.out")
"""Parts of names of files that hold times, or that tell of an unfinished state."""


def prepare(folder: Path) -> None:
    """The inputs of the commands."""
    (folder / "program").write_text("def run():\n  while(frontIsClear):\n    move()\n")
    (folder / "world").write_text("> . .\n. . .\n")
    karelsynth(folder, "generate", "--count", "300", "--seed", "2", "--out", "set")
    karelsynth(folder, "export-msr", "set", "--out", "tasks.jsonl")
    karelsynth(folder, "train", "mle", "--out", "trained", *TRAINING)
    (folder / "trained" / "final").rename(folder / "model")


def karelsynth(folder: Path, *arguments: str) -> None:
    """Run a command to its end. A class that is not all right is no failure: `grade` exits with 1."""
    ended = subprocess.run([*COMMAND, *arguments], cwd=folder, capture_output=True, text=True)
    if ended.returncode > 1 or "Traceback" in ended.stderr or (ended.returncode and arguments[0] != "grade"):
        raise SystemExit(f"{' '.join(arguments)}: exit status {ended.returncode}\n{ended.stderr}")


def contents(folder: Path) -> dict[str, bytes]:
    """All files that must be the same every time, by path."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if not any(part in str(path) for part in CHANGING) and not path.name.startswith(".")
    }


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
            unfinished = "checkpoint" in path or path.endswith("manifest.json") or "best" in path
            assert unfinished or content == expected.get(path), f"{name}: {path} is neither absent nor whole"
    karelsynth(killed, *arguments)
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
        prepare(folder)
        for command in options.only or COMMANDS:
            count, seconds = attack(command, COMMANDS[command], folder, options.kills, rng)
            print(f"{command:14} {count:3} kills, {seconds:5.1f} s undisturbed: nothing half written", flush=True)


if __name__ == "__main__":
    main()
