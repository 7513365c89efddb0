"""The page's modules that need no page, tested by Node's own test runner.

Node takes files called `.js` for modules only below a `package.json` that says so; the package has none, so they are
copied beside one.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "node"
STATIC = Path(__file__).parents[2] / "src" / "karelsynth" / "web" / "static"
NODE = shutil.which("node")
PURE = ("blocktree", "changes", "classwork", "highlight", "history", "link", "run", "shelf", "sure", "task", "world")


@pytest.mark.skipif(NODE is None, reason="needs Node.js 18 or later, which is not installed")
@pytest.mark.parametrize("test", sorted(path.name for path in HERE.glob("*.test.mjs")))
def test_modules(test: str, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (tmp_path / "static").mkdir()
    for path in STATIC.glob("*.js"):
        shutil.copy(path, tmp_path / "static")
    shutil.copy(HERE / test, tmp_path)
    assert NODE is not None
    ended = subprocess.run(
        [NODE, "--test", test], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "# tests 0" not in ended.stdout


def test_modules_without_a_page_ask_for_none() -> None:
    for name in PURE:
        text = (STATIC / f"{name}.js").read_text(encoding="utf-8")
        for word in ("document", "byId", "window.", "localStorage", "./dom.js"):
            assert word not in text, f"{name}.js uses {word}"
