"""The documentation holds: links lead somewhere, and files, commands and options that it names exist.

`make docs` builds the site from the same pages, strictly.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from karelsynth.cli import app

ROOT = Path(__file__).parent.parent
OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "results/README.md", "src/karelsynth/pretrained/README.md")
PAGES = sorted([*(ROOT / name for name in OUTSIDE), *(ROOT / "docs").glob("*.md")])
SOURCE = ROOT / "src" / "karelsynth"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", text_of(page))


def code(page: Path) -> Iterator[str]:
    """Everything in backticks: words of the prose, line breaks taken out, and lines of console blocks."""
    yield from (" ".join(found.split()) for found in re.findall(r"`([^`]+)`", prose(page)))
    for language, block in FENCE.findall(text_of(page)):
        if language == "console":
            lines = block.replace("\\\n", " ").splitlines()
            yield from (line.removeprefix("$ ") for line in lines if line.startswith("$ "))


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pages
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith(("http:", "https:")):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.is_file(), f"{target}: no such file"
        if anchor:
            assert anchor in anchors(linked), f"{target}: no such heading"


PATH = re.compile(r"(?<![\w./<$-])((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|toml|md|yml|js|css))(?![\w/<*])")
TOP = ("src", "docs", "tests", "tools", "benchmarks", "results", "examples")
PACKAGES = tuple(path.name for path in SOURCE.iterdir() if path.is_dir() and not path.name.startswith("_"))


def paths(words: str) -> Iterator[str]:
    """Paths of the repository or of the package that a piece of code names."""
    for found in PATH.findall(words):
        first = found.split("/")[0]
        placeholder = re.search(r"(?<![A-Za-z])[A-Z]{3,}(?!\w*\.md)", found)  # such as ROW
        if (first in TOP or first in PACKAGES or "/" not in found) and not placeholder:
            yield found.rstrip(".")


@pages
def test_files_exist(page: Path) -> None:
    folders = (ROOT, SOURCE, SOURCE / "karel", page.parent, SOURCE / "web" / "static")
    named = {name for words in code(page) for name in paths(words)}
    assert not [name for name in sorted(named) if not any((folder / name).exists() for folder in folders)]


COMMANDS: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def options(command: str) -> set[str]:
    return {name for each in COMMANDS[command].params for name in (*each.opts, *each.secondary_opts)} | {"--help"}


@pages
def test_commands_and_options_exist(page: Path) -> None:
    for words in code(page):
        for line in re.split(r"\s*[|;&]\s+|\s+#\s", words):
            used = re.sub(r"^(\.venv/bin/|torchrun \S+ -m )", "", line)
            if not re.match(r"karelsynth [a-z]", used):
                continue
            command, *arguments = shlex.split(used)[1:]
            assert command in COMMANDS, f"`{used}`: no such command"
            for argument in arguments:
                if argument.startswith("-") and argument != "-":
                    name = argument.split("=")[0].rstrip("],.…")
                    assert name in options(command), f"`{used}`: no option {name}"


@pages
def test_scripts_and_their_options_exist(page: Path) -> None:
    for words in code(page):
        if found := re.search(r"python ((?:benchmarks|tools|examples)/\w+\.py)(.*)", words):
            script = ROOT / found[1]
            assert script.is_file(), words
            for name in re.findall(r"(?<![\w-])--[a-z-]+", found[2].split("#")[0]):
                assert f'"{name}"' in text_of(script), f"`{words}`: no option {name}"


def homes(name: str) -> list[str]:
    """The sources that define a class."""
    sources = [text_of(path) for path in SOURCE.rglob("*.py")]
    return [text for text in sources if re.search(rf"^class {name}\b", text, re.MULTILINE)]


@pages
def test_names_of_the_package_exist(page: Path) -> None:
    """`Class.member`, and modules written with their package, such as `karelsynth.solve`."""
    if page.name == "CHANGELOG.md":  # which also has names that are gone
        return
    for words in code(page):
        if found := re.fullmatch(r"([A-Z][a-z]\w+)\.([a-z]\w+)(\(.*)?", words):
            if texts := homes(found[1]):
                assert any(re.search(rf"\b{found[2]}\b", text) for text in texts), words
            else:
                assert found[1] in ("Conv2d", "Linear", "Embedding", "LSTM"), f"{words}: no such class"
        for dotted in re.findall(r"(?<![\w/.])karelsynth(?:\.[a-z_]+)+", words):
            *parents, last = dotted.split(".")
            path = ROOT / "src" / Path(*parents)
            module = (path / last).is_dir() or (path / f"{last}.py").is_file()
            text = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            assert module or re.search(rf"\b{last}\b", text_of(text)), f"{dotted}: no such module or name"


def test_names_in_tables_of_the_architecture_are_in_the_files_beside_them() -> None:
    """A cell such as `run_batch`, `karel/machine.py`: the file has the name."""
    checked = 0
    lines = text_of(ROOT / "docs" / "architecture.md").splitlines()
    for cell in (cell for line in lines if line.startswith("|") for cell in line.split("|")):
        words = re.findall(r"`([\w./]+)`", cell)
        files = [path for word in words for path in (SOURCE / word, ROOT / word) if path.suffix == ".py"]
        names = [word for word in words if re.fullmatch(r"[A-Za-z_][\w.]*", word) and not word.endswith(".py")]
        text = "".join(text_of(path) for path in files if path.is_file())
        for name in names if text else ():
            assert re.search(rf"\b{name.split('.')[-1]}\b", text), f"{cell.strip()}: `{name}` is in none of the files"
            checked += 1
    assert checked > 10


@pages
def test_python_compiles(page: Path) -> None:
    for language, block in FENCE.findall(text_of(page)):
        if language == "python":
            compile(block, str(page), "exec")


def test_the_search_in_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block for _, block in FENCE.findall(text_of(ROOT / "docs" / "training.md")) if "beam_search(" in block]
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "training.md", "exec"), names)
    assert "def run():" in capsys.readouterr().out
    assert len(blocks) == 1
    assert any(weight.grad is not None for weight in names["model"].parameters())


def test_pages_of_the_site_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    built = list(tmp_path.rglob("*.html"))
    assert len(built) > len(PAGES) - 2  # the README is for the repository only
    for page in built:
        loaded = re.findall(r"<(?:script|img|iframe)[^>]+src=\"([^\"]+)|<link[^>]+href=\"([^\"]+)", text_of(page))
        assert not [first or second for first, second in loaded if re.match(r"(https?:)?//", first or second)], page


def test_training_names_every_recipe() -> None:
    named = set(re.findall(r"`([a-z_]+)`", text_of(ROOT / "docs" / "training.md")))
    recipes = {path.stem.removeprefix("small_") for path in (SOURCE / "recipes").glob("*.toml")}
    assert recipes <= named


def test_the_picture_of_the_layers_is_that_of_the_test() -> None:
    """If this fails: `python tools/draw_layers.py`."""
    path = ROOT / "tools" / "draw_layers.py"
    namespace = runpy.run_path(str(path))
    assert (ROOT / "docs" / "pictures" / "layers.svg").read_text(encoding="utf-8") == namespace["picture"]()


def test_the_readme_is_short() -> None:
    assert len(text_of(ROOT / "README.md").splitlines()) <= 150


@pytest.mark.parametrize("page", ["README.md", "docs/toolkit.md"])
def test_its_python_runs(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for language, block in FENCE.findall(text_of(ROOT / page)):
        if language == "python":
            exec(compile(block, page, "exec"), names)
    assert "finished after" in capsys.readouterr().out
    assert "solution" not in names or names["solution"].solved
