"""Where compiled functions are kept: nothing of others is touched there, and processes may begin together."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from karelsynth.karel import compiled

fresh_cache_folder = compiled.cache_folder.__wrapped__


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the folders of digests are."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path / "karelsynth"


def make_old(base: Path, count: int) -> list[Path]:
    """Folders of digests, the oldest first."""
    folders = [base / f"{number:016x}" for number in range(count)]
    for age, folder in enumerate(folders):
        folder.mkdir(parents=True)
        os.utime(folder, (1000 + age, 1000 + age))
    return folders


def test_only_old_folders_of_ours_are_removed(base: Path, tmp_path: Path) -> None:
    foreign = [tmp_path / f"project{number}" for number in range(12)] + [tmp_path / "0123456789abcdef"]
    foreign += [base / "notes", base / "0123456789abcdef0"]
    for folder in foreign:
        folder.mkdir(parents=True)
        os.utime(folder, (1, 1))
    old = make_old(base, 10)
    folder = fresh_cache_folder()
    assert folder.parent == base
    assert folder.is_dir()
    assert all(path.is_dir() for path in foreign)
    assert [path for path in old if path.exists()] == old[-7:]  # with the new one, eight


def test_another_process_may_make_the_folder_first(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fresh_cache_folder()
    assert first.parent == base
    real = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path != first and real(path))  # as it was a moment ago
    assert fresh_cache_folder() == first


def test_another_process_may_remove_old_folders_first(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = make_old(base, 10)
    real = Path.is_dir

    def gone_right_after(path: Path) -> bool:
        found = real(path)
        if path == old[0] and found:
            path.rmdir()
        return found

    monkeypatch.setattr(Path, "is_dir", gone_right_after)
    assert fresh_cache_folder().parent == base
    assert not old[0].exists()


def test_a_folder_for_one_process_is_removed_at_its_end(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    code = "from karelsynth.karel.compiled import cache_folder; print(cache_folder(), cache_folder().is_dir())"
    output = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"NUMBA_CACHE_DIR": str(in_the_way), "TMPDIR": str(temporary)},
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    assert output.startswith(str(temporary))
    assert output.endswith(" True\n")
    assert not list(temporary.iterdir())


def test_a_user_without_a_home_compiles_for_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is run under any user's number."""

    def no_home(_: str) -> None:
        raise KeyError("uid not found")

    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", no_home)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(RuntimeError, match="home"):
        Path.home()
    assert fresh_cache_folder().parent == tmp_path
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert fresh_cache_folder().parent == tmp_path / "cache" / "karelsynth" / "compiled"


def test_files_that_kernels_import_from_are_in_the_digest() -> None:
    """Or a constant that changes there would go on living in compiled code."""
    package = Path(compiled.__file__).parent.parent
    sources = {path for pattern in compiled._SOURCES for path in package.glob(pattern)}
    taken = set()
    for path in package.glob("*/*.py"):
        nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        modules = {node.module for node in nodes if node.module is not None and node.module.startswith("karelsynth.")}
        kernels = (node for node in nodes if node.module == "karelsynth.karel.compiled")
        if any(alias.name == "compiled" for node in kernels for alias in node.names):
            taken |= {path} | {package.parent.joinpath(*module.split(".")).with_suffix(".py") for module in modules}
    assert len(taken) > 5
    assert taken <= sources
