"""What the package says of itself: everything it imports is declared, and its tests can be run from the sdist."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def imported(folder: Path) -> set[str]:
    """The packages that the files of a folder import, anywhere in them."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    return found


def test_every_library_that_is_imported_is_declared() -> None:
    declared = {re.split(r"[<>=]", line)[0] for line in PROJECT["project"]["dependencies"]}
    installed = packages_distributions()
    with_torch = {"triton"}  # PyTorch for GPUs brings it, and nothing needs it elsewhere
    foreign = imported(ROOT / "src") - set(sys.stdlib_module_names) - {"karelsynth"} - with_torch
    needed = {name for module in foreign for name in map(str.lower, installed[module])}
    charts = {"matplotlib"}  # an extra: charts.py imports it on first use, and says what to install
    assert charts <= {re.split(r"[<>=]", line)[0] for line in PROJECT["project"]["optional-dependencies"]["docs"]}
    hub = {"huggingface_hub"}  # an extra: hub.py likewise
    assert hub == {re.split(r"[<>=]", line)[0] for line in PROJECT["project"]["optional-dependencies"]["hub"]}
    assert needed - charts - hub == declared


def test_the_source_distribution_holds_what_its_tests_read() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"src", "tests", "README.md", "docs", "examples", "results", "tools"} <= set(included)
    assert all((ROOT / name).exists() for name in included)
