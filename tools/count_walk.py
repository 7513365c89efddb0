"""Count the files and lines of the package, and the files and functions that a task and a training batch go through.

    python tools/count_walk.py [--src DIR] [--list]

DIR is the folder that holds `karelsynth`; by default the one of this repository, else that of another checkout.

- The walk of a task: read a task file of the gallery and solve it with a loaded solver, up to the `Solution`.
- The walk of a batch: one step of MLE training on a CPU with a tiny recipe, from the recipe file to the saved model.

A function counts if its code was entered in a walk. Comprehensions, lambdas, class bodies, module bodies and generated
code (dataclasses) are not functions here. Compiled functions count when Python calls them: Numba shows such calls to
the profiler. Calls from one compiled function to another cannot be seen. A file counts if any of its code was entered,
module bodies excepted. Each walk runs twice in a process of its own, in all its threads. The first run also imports
modules, compiles kernels and fills caches; the second is what every further task or batch goes through.
"""

from __future__ import annotations

import argparse
import inspect
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TASK = "*climb-the-stairs.task"
BUDGET = 20.0
"""Seconds, enough for the first run; the search ends as soon as it may."""
RECIPE = """
[model]
channels = 2
blocks = 1
code_size = 12
embedding_size = 6
hidden_size = 10
[run]
steps = 1
batch_size = 4
log_every = 1
validate_every = 1
validation_tasks = 2
checkpoint_every = 1
"""


class Recorder:
    """Notes which code objects of a package are entered, in this thread and in those started later."""

    def __init__(self, package: Path) -> None:
        self._package = f"{package}/"
        self._entered: set[CodeType] = set()
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(self._package):
            self._entered.add(frame.f_code)

    def record(self, walk: Callable[[], object]) -> set[CodeType]:
        """The code objects that a run of the walk enters, without module bodies."""
        self._entered.clear()
        walk()
        return {code for code in self._entered if code.co_name != "<module>"}


def is_function(code: CodeType) -> bool:
    return not code.co_name.startswith("<") and bool(code.co_flags & inspect.CO_OPTIMIZED)


def task_walk(package: Path) -> Callable[[], object]:
    from karelsynth.solve import Solver
    from karelsynth.tasks.task_files import read_tasks

    (path,) = (package / "tasks" / "gallery_tasks").glob(TASK)
    solver = Solver.load()
    return lambda: solver.solve(read_tasks(path)[0], budget=BUDGET)


def batch_walk(package: Path) -> Callable[[], object]:
    import torch

    from karelsynth.train.loop import train
    from karelsynth.train.recipe import load_recipe

    def walk() -> None:
        with tempfile.TemporaryDirectory() as folder:
            recipe = Path(folder) / "tiny.toml"
            recipe.write_text(RECIPE)
            train(load_recipe(recipe), Path(folder) / "run", device=torch.device("cpu"))

    return walk


WALKS = {"task": task_walk, "batch": batch_walk}


def print_walk(name: str, source: Path, every: bool) -> None:
    """Count one walk, in this process, and print it."""
    package = source / "karelsynth"
    sys.path.insert(0, str(source))
    recorder = Recorder(package)
    walk = WALKS[name](package)
    for run in ("first", "second"):
        entered = recorder.record(walk)
        functions = {code for code in entered if is_function(code)}
        files = sorted({code.co_filename for code in entered})
        print(f"walk of a {name}, {run} run: {len(files)} files, {len(functions)} functions", flush=True)
    for file in files if every else ():
        names = sorted(code.co_qualname for code in functions if code.co_filename == file)
        print(f"  {Path(file).relative_to(source)}: {', '.join(names)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, default=ROOT / "src", help="the folder that holds the package")
    parser.add_argument("--list", action="store_true", help="list the files and functions of each second run")
    parser.add_argument("--walk", choices=WALKS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    source = arguments.src.resolve()
    if arguments.walk:
        print_walk(arguments.walk, source, arguments.list)
        return
    files = sorted(source.rglob("*.py"))
    lines = sum(file.read_bytes().count(b"\n") for file in files)
    print(f"{source}: {len(files)} Python files, {lines:,} lines", flush=True)
    for walk in WALKS:  # each in a process of its own, so that one does not fill the other's caches
        listing = ["--list"] * arguments.list
        subprocess.run([sys.executable, __file__, "--src", str(source), "--walk", walk, *listing], check=True)


if __name__ == "__main__":
    main()
