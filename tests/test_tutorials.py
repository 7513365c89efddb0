"""The tutorials: every notebook runs from start to end, and the site shows it."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
EXECUTED = runpy.run_path(str(ROOT / "tools" / "run_tutorials.py"))["executed"]
PAGE = runpy.run_path(str(ROOT / "tools" / "docs_hooks.py"))["notebook_page"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_the_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KARELSYNTH_SHORT", "1")
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.chdir(tmp_path)
    ran = json.loads(EXECUTED(path, timeout=120.0))
    assert all(cell["execution_count"] for cell in ran["cells"] if cell["cell_type"] == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_a_page_of_the_site_with_its_outputs(path: Path) -> None:
    page, notebook = PAGE(path), json.loads(path.read_text(encoding="utf-8"))
    assert page.startswith("# ")
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert page.count("```python") == len(code)
    assert any(cell["outputs"] for cell in code), "run tools/run_tutorials.py"
    assert f"tutorials/{path.stem}.ipynb" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
