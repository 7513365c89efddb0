"""The toolkit without the libraries of its extras, and what is said where one is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from karelsynth.errors import EXTRA_OF_LIBRARY

MISSING = sorted({*EXTRA_OF_LIBRARY, "tensorboard", "triton"} - {"pydantic"})  # newer versions of typer need that one
BLOCK = f"import sys\nfor name in {MISSING}:\n    sys.modules[name] = None\n"
"""Makes every import of these libraries fail, as if they were not installed."""


def without_extras(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCK + code], capture_output=True, text=True, cwd=folder)


TOOLKIT = """
import numpy as np
from karelsynth import NORMAL_FORM, Program, SyntaxMachine, Task, World, generate, load_tasks, run_batch
from karelsynth.cli import app
from karelsynth.posterior import MarkovChain
from karelsynth.tasks.purposeful.generator import generate_purposeful
from karelsynth.tasks.streams import TaskIterator, task_source

program = Program.parse("def run():\\n  while(frontIsClear):\\n    move()\\n  putMarker()")
world = World.parse("> . .\\n. . .")
assert program.run(world).ok and run_batch([program], [world]).ok.all()
assert SyntaxMachine(NORMAL_FORM).mask(SyntaxMachine().initial(1)).any()
assert len(generate(1, 0, 4)) == len(generate_purposeful(1, 0, 4)) == 4
assert next(iter(TaskIterator(task_source("stream", seed=1), 4)))["tokens"].shape[0] == 4
open("p.karel", "w").write(str(program))
open("t.karel", "w").write("def run():\\n  while(frontIsClear):\\n    move()")
open("w.txt", "w").write(str(world))
for command in (
    "--help", "solve --list", "train --help", "run p.karel w.txt", "check p.karel", "convert p.karel --to stanford",
    "draw w.txt --out w.svg", "generate --count 4 --seed 1 --out tasks", "stats tasks",
    "export-msr tasks --out t.jsonl", "import-msr t.jsonl --out again",
    "grade clean-the-row p.karel", "hint clean-the-row p.karel",
    "probe walk-to-the-wall --reference t.karel --programs 1",
):
    app(command.split(), standalone_mode=False)
assert len(load_tasks("again")) == 4
assert not any(name.split(".")[0] == "torch" for name, module in sys.modules.items() if module is not None)
"""


def test_the_toolkit_works_without_torch(tmp_path: Path) -> None:
    """The language, the machine, the syntax, the generators, sets of tasks, the commands for these, and the tutor."""
    ran = without_extras(TOOLKIT, tmp_path)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("command", "library", "extra"),
    [
        ("solve turn-around", "torch", "solve"),
        ("train small_mle", "torch", "solve"),
        ("evaluate shipped test", "torch", "solve"),
        ("reproduce objectives", "torch", "solve"),
        ("serve", "uvicorn", "serve"),
        ("stats --generate 20 --plot p.svg", "matplotlib", "train"),
    ],
)
def test_commands_say_which_extra_they_need(command: str, library: str, extra: str, tmp_path: Path) -> None:
    code = f"sys.argv = {['karelsynth', *command.split()]}\nfrom karelsynth.__main__ import main\nmain()"
    ran = without_extras(code, tmp_path)
    assert ran.returncode == 1, ran.stderr
    assert f"error: this needs {library}, which is not installed: pip install 'karelsynth[{extra}]'" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not list(tmp_path.iterdir())


def test_nothing_is_compiled_for_a_command_that_cannot_run(tmp_path: Path) -> None:
    command = "sys.argv = ['karelsynth', 'solve', 'turn-around']\nfrom karelsynth.__main__ import main\nmain()"
    ran = without_extras(f"import os\nos.environ['NUMBA_CACHE_DIR'] = 'cache'\n{command}", tmp_path)
    assert "this needs torch" in ran.stderr
    assert "compiling" not in ran.stderr
    assert not list(tmp_path.rglob("*.nb?"))  # Numba's files


@pytest.mark.parametrize(
    "statement",
    [
        "from karelsynth import Solver",
        "from karelsynth.model import Synthesizer",
        "from karelsynth.objectives import register_objective",
        "from karelsynth.search import beam_search",
        "from karelsynth.solve import Solver",
        "from karelsynth.train import train",
        "from karelsynth.train.dataset import TaskDataset",
    ],
)
def test_imports_say_which_extra_they_need(statement: str, tmp_path: Path) -> None:
    ran = without_extras(statement, tmp_path)
    assert "MissingExtra: this needs torch, which is not installed: pip install 'karelsynth[solve]'" in ran.stderr
