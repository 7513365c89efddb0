"""The package as a whole: what is public, what imports what, and how fast it comes up."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

import karelsynth

SOURCE = Path(karelsynth.__file__).parent
# Each layer may import itself and those before it.
LAYERS = (
    (
        "errors",
        "_version",
        "files",
        "parsing",
        "ownership",
        "terminal_text",
        "charts",
        "callable_module",
        "hub",
        "cluster",
    ),
    ("karel",),
    ("generator",),
    ("tasks",),
    ("posterior", "gym"),
    ("model",),
    ("search",),
    ("objectives",),
    ("evaluate",),
    ("train", "solve"),
    ("tutor",),
    ("reproduce", "curves", "score", "language_model"),
    ("cli", "web", "__main__"),
)


def layer_of(module: str) -> int:
    for number, names in enumerate(LAYERS):
        if module in names:
            return number
    raise AssertionError(f"{module} belongs to no layer: add it to LAYERS")


def imported(tree: ast.AST) -> set[str]:
    """The modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import; write `from karelsynth.…`"
            assert node.module is not None  # as it is in those
            whole = node.module == "karelsynth"
            found |= {f"karelsynth.{alias.name}" for alias in node.names} if whole else {node.module}
    return found


def test_every_form_of_import_is_seen() -> None:
    text = (
        "import karelsynth.web\nfrom karelsynth.train import loop\ndef late():\n    from karelsynth import cli, solve"
    )
    assert imported(ast.parse(text)) == {"karelsynth.web", "karelsynth.train", "karelsynth.cli", "karelsynth.solve"}
    for relative in ("from . import cli", "from .cli import show", "from ..cli import show"):
        with pytest.raises(AssertionError, match="relative import"):
            imported(ast.parse(relative))


def sources() -> list[Path]:
    return [path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py"]


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for module in imported(ast.parse(path.read_text(encoding="utf-8"))):
        if module.startswith("karelsynth."):
            assert layer_of(module.split(".")[1]) <= layer_of(own), f"{path} imports {module}"
        if module.split(".")[0] == "torch":
            assert layer_of(own) >= layer_of("model"), f"{path} imports torch"


TESTS = sorted(Path(__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(Path(__file__).parent)))
def test_tests_import_no_tests_and_no_private_names(path: Path) -> None:
    """What several tests need is in modules of its own, such as `tests/posed.py`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [*node.module.split("."), *(alias.name for alias in node.names)]
            if names[0] == "tests":
                assert not any(name.startswith("test_") for name in names), f"line {node.lineno}"
            if names[0] == "karelsynth":
                private = [name for name in names if name.startswith("_") and not name.endswith("_")]
                assert not private, f"line {node.lineno}"


def test_public_names() -> None:
    """Removing or adding a public name is a decision, so it shows here."""
    assert sorted(karelsynth.__all__) == sorted(
        """KAREL NORMAL_FORM TOKENS Action BatchRun Example GivenExamples Grammar Hero If IfElse KarelsynthError
        ModelSettings Not Program ProgramSyntaxError Repeat Report Run Sensor Solution Solver Status SyntaxMachine
        Synthesizer Task TaskBatch TaskFileError While World WorldError __version__ beam_search encode_programs evaluate
        generate load_recipe load_tasks named_tasks programs_from_answer prompt_of rescore run_batch score solve
        train""".split()
    )
    for name in karelsynth.__all__:
        assert getattr(karelsynth, name) is not None
    assert dir(karelsynth) == sorted(karelsynth.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Porgram'"):
        _ = karelsynth.Porgram  # type: ignore[attr-defined]


def test_modules_with_the_name_of_their_function_can_be_called() -> None:
    """In any order of imports, and their other names stay where they are."""
    for first in ("", "import karelsynth.evaluate, karelsynth.solve.solver, karelsynth.train.loop, karelsynth.score\n"):
        code = (
            f"{first}from karelsynth import evaluate, score, solve, train, named_tasks\n"
            "report = evaluate(lambda tasks: [[] for _ in tasks], named_tasks('test', 2))\n"
            "import karelsynth.solve, karelsynth.train.loop, karelsynth\n"
            "assert isinstance(report, karelsynth.evaluate.Report)\n"
            "assert callable(solve) and callable(train) and callable(score)\n"
            "assert karelsynth.solve.Solver and karelsynth.train.loop.train is train.train\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
    from karelsynth import train

    with pytest.raises(TypeError, match="missing 2 required positional arguments: 'recipe' and 'folder'"):
        train()  # type: ignore[call-arg]


def test_modules_that_can_be_called_have_their_functions_signature() -> None:
    from karelsynth import evaluate, score

    assert list(signature(evaluate).parameters)[:3] == ["synthesizer", "tasks", "beam"]
    assert list(signature(score).parameters)[:2] == ["predictions", "tasks"]


def modules_after(statement: str) -> set[str]:
    code = f"import sys, json\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return set(json.loads(output.splitlines()[-1]))


def test_heavy_libraries_load_when_first_needed() -> None:
    heavy = {"numba", "torch", "numpy", "rich", "PIL", "typer"}
    assert not heavy & modules_after("import karelsynth")
    everyday = "from karelsynth import *\nprint(Program.parse('def run(): move()').run(World.parse('> .\\n. .')).world)"
    everyday = everyday.replace("from karelsynth import *", "from karelsynth import Program, World")
    assert not heavy & modules_after(everyday)
    assert "torch" not in modules_after("from karelsynth import generate, load_tasks, run_batch")
    assert "torch" not in modules_after("from karelsynth import evaluate, named_tasks, prompt_of, score")
    training = modules_after("import karelsynth.train.loop")
    assert not {"fastapi", "matplotlib", "pydantic"} & training


def test_a_command_imports_no_other_commands_module() -> None:
    """So each starts as soon as its own imports are done; looking a command up is enough to import it."""
    looked_up = "from karelsynth.cli import app\nfrom typer.main import get_command\nget_command(app).commands['check']"
    found = {name for name in modules_after(looked_up) if name.startswith("karelsynth.cli.")}
    assert found == {"karelsynth.cli.common", "karelsynth.cli.karel"}
