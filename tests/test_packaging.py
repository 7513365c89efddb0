"""What the package says of itself: everything it imports is declared, and its tests can be run from the sdist."""

from __future__ import annotations

import ast
import json
import re
import runpy
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

import pytest

from karelsynth.errors import EXTRA_OF_LIBRARY

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "karelsynth"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
TOOLKIT = ("errors.py", "files.py", "terminal_text.py", "karel", "generator", "tasks", "posterior")
"""What works without any extra."""


def imported(room: Path) -> set[str]:
    """The packages that a file, or the files of a folder, import, anywhere in them."""
    found: set[str] = set()
    for path in room.rglob("*.py") if room.is_dir() else (room,):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    return found


def declared(*extras: str) -> set[str]:
    """The libraries that the package requires, and those of some extras and the extras that these name."""
    lines = [*PROJECT["project"]["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    own = [name for line in lines if line.startswith("karelsynth[") for name in line[11:-1].split(",")]
    found = {re.split(r"[<>=\[]", line)[0] for line in lines} - {"karelsynth"}
    return found | (declared(*own) if own else set())


def test_every_library_that_is_imported_is_declared() -> None:
    """By the package, or by the extra of the room that imports it; and nothing else is."""
    installed = packages_distributions()
    with_torch = {"triton"}  # PyTorch for GPUs brings it, and nothing needs it elsewhere
    needed: dict[str, set[str]] = {}
    for room in {path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py")}:
        foreign = imported(SOURCE / room) - set(sys.stdlib_module_names) - {"karelsynth"} - with_torch
        needed[room] = {name for module in foreign for name in map(str.lower, installed.get(module, [module]))}
    for room in TOOLKIT:
        assert needed[room] <= declared(), room
    for room, extra in {"web": "serve", "gym": "gym"}.items():
        assert needed[room] <= declared(extra), room
    assert set.union(*needed.values()) == declared("all", "ray") - {"tensorboard"}  # torch imports it


def test_the_extras_that_messages_name() -> None:
    for library, extra in EXTRA_OF_LIBRARY.items():
        assert library in declared(extra) - declared(), library


def test_the_recipes_and_the_weights_are_in_the_wheel() -> None:
    """As everything in the package's folder is: nothing is left out."""
    assert "exclude" not in json.dumps(PROJECT["tool"]["hatch"])
    assert (SOURCE / "recipes" / "small_mle.toml").is_file()


def test_the_source_distribution_holds_what_its_tests_read() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"src", "tests", "README.md", "docs", "examples", "results", "tools"} <= set(included)
    assert all((ROOT / name).exists() for name in included)


def test_the_page_of_the_package_has_no_link_into_the_void(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyPI shows the README without the repository around it."""
    interface = ModuleType("hatchling.metadata.plugin.interface")  # the build's own, not installed here
    interface.__dict__["MetadataHookInterface"] = object
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    with_links = runpy.run_path(str(ROOT / "tools" / "package_page.py"))["with_links"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for address in (None, "https://github.com/someone/karelsynth"):
        page = with_links(text, address, "v1")
        assert re.findall(r"\]\((?!https?:)[^)]*\)", page) == []
        assert ("/blob/v1/docs/quickstart.md)" in page, "/raw/v1/docs/pictures/" in page) == (address is not None,) * 2
        assert "](https://arxiv.org/abs/1805.04276)" in page
    for name in re.findall(r"/(?:blob|raw)/v1/([^)#]+)", page):
        assert (ROOT / name).is_file(), name


def test_pytorch_has_one_version_wherever_it_is_installed() -> None:
    files = ("Makefile", "README.md", "deploy/Containerfile", "deploy/karelsynth.service")
    found = {name: set(re.findall(r"torch==([\d.]+)", (ROOT / name).read_text(encoding="utf-8"))) for name in files}
    assert len(set.union(*found.values())) == 1
    assert all(found.values()), found
