"""Machines that several people use: what another user has planted is neither followed, reused nor run."""

from __future__ import annotations

import logging
import os
import stat
import sys
from pathlib import Path

import pytest

from karelsynth import files, ownership
from karelsynth.files import FileError, check_writable, write_atomically
from karelsynth.karel import compiled
from karelsynth.ownership import SharedFolder, cache_home, follow_links, keep_torch_code_private, private_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes of POSIX")
OTHER = 65534
"""The number of another user."""


@pytest.fixture
def as_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Act as a user who owns nothing here: what root or this user has made is then another's. Needs no privileges."""
    real = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    monkeypatch.setattr(ownership, "_is_ours", lambda status: status.st_uid == OTHER)
    assert real != OTHER


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_folder_is_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = private_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert mode_of(folder) == 0o700
    assert mode_of(folder.parent) == 0o755  # or others could rename what is in it
    folder.chmod(0o755)
    assert mode_of(private_folder(folder)) == 0o700


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(SharedFolder, match="other users may write to"):
        private_folder(shared)
    with pytest.raises(SharedFolder, match=r"other users may write to .*shared$"):
        private_folder(shared / "below")  # they could rename it
    shared.chmod(0o1777)
    assert private_folder(shared / "mine").is_dir()  # as in /tmp
    with pytest.raises(SharedFolder, match="other users may write to"):
        private_folder(shared)


def test_a_folder_of_another_user_is_refused(tmp_path: Path, as_another: None) -> None:
    with pytest.raises(SharedFolder, match="belongs to another user"):
        private_folder(tmp_path / "a")


def test_a_group_with_one_member_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    folder.chmod(0o775)
    for alone in (True, False):
        monkeypatch.setattr(ownership, "_is_private_group", lambda number, alone=alone: alone)
        if alone:
            assert private_folder(folder / "mine").is_dir()
        else:
            with pytest.raises(SharedFolder, match="other users may write to"):
                private_folder(folder / "mine")


def test_compiled_code_is_not_read_from_a_shared_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The cache is a pickle: code of the user who wrote it."""
    planted = tmp_path / "shared" / "karelsynth"
    planted.mkdir(parents=True)
    planted.chmod(0o777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "shared"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    with caplog.at_level(logging.WARNING):
        folder = compiled.cache_folder.__wrapped__()
    assert folder.parent == tmp_path / "home" / "karelsynth" / "compiled"
    assert mode_of(folder) == 0o700
    assert not list(planted.iterdir())
    assert "other users may write to" in caplog.text


def test_what_pytorch_compiles_is_kept_privately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    keep_torch_code_private()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / f"karelsynth-torch-{os.geteuid()}")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(shared))
    keep_torch_code_private()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] != str(shared)
    assert mode_of(Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])) == 0o700
    assert "is not kept" in caplog.text


def test_a_cache_folder_has_one_place_whatever_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for chosen, folder in (
        (str(tmp_path / "x"), tmp_path / "x"),
        ("x", tmp_path / ".cache"),
        ("", tmp_path / ".cache"),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", chosen)
        assert cache_home() == folder / "karelsynth"
    monkeypatch.setenv("HOME", "relative")
    with pytest.raises(RuntimeError):
        cache_home()


def test_links_are_followed_step_by_step(tmp_path: Path) -> None:
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "near").symlink_to("far")
    (tmp_path / "far" / "up").symlink_to("../near/deep")
    assert follow_links(tmp_path / "near" / "up" / ".." / "file") == (tmp_path / "far" / "file").resolve()
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(FileError, match=r"Too many levels of symbolic links|links that lead to each other"):
        write_atomically(tmp_path / "one", b"x")


def test_a_link_that_another_user_planted_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, precious = tmp_path / "shared", tmp_path / "precious"
    shared.mkdir()
    precious.write_bytes(b"kept")
    (shared / "out").symlink_to(precious)
    (shared / "folder").symlink_to(tmp_path)
    real = ownership._is_ours
    planted = {(shared / name).lstat().st_ino for name in ("out", "folder")}
    monkeypatch.setattr(ownership, "_is_ours", lambda status: status.st_ino not in planted and real(status))
    write_atomically(shared / "out", b"by root, who may give links away, in a folder of ours")
    shared.chmod(0o1777)
    precious.write_bytes(b"kept")
    for name in ("out", "folder/precious"):
        with pytest.raises(FileError, match="is a link that another user made; name the file"):
            write_atomically(shared / name, b"lost")
        with pytest.raises(FileError, match="is a link that another user made"):
            check_writable(shared / name)
    assert precious.read_bytes() == b"kept"


def test_a_temporary_file_is_new(tmp_path: Path) -> None:
    """A process that holds the old one open does not see what is written."""
    path, planted = tmp_path / "a", tmp_path / ".a.tmp"
    planted.write_bytes(b"")
    planted.chmod(0o666)
    with planted.open("rb") as spy:
        write_atomically(path, b"secret")
        assert spy.read() == b""
    assert [found.name for found in tmp_path.iterdir()] == ["a"]
    planted.symlink_to(tmp_path / "elsewhere")
    write_atomically(path, b"secret")
    assert not (tmp_path / "elsewhere").exists()


def test_what_cannot_be_removed_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".a.tmp" / "full").mkdir(parents=True)
    write_atomically(tmp_path / "a", b"written")
    assert (tmp_path / "a").read_bytes() == b"written"
    assert sorted(found.name for found in tmp_path.iterdir()) == [".a.tmp", "a"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o444])
def test_a_file_that_is_replaced_keeps_its_mode(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomically(path, b"new")
    assert (path.read_bytes(), mode_of(path)) == (b"new", mode)


def test_a_new_file_has_the_mode_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_atomically(tmp_path / "a", b"new")
    assert mode_of(tmp_path / "a") == mode_of(tmp_path / "plain")


def test_the_mode_of_anothers_file_is_not_kept(tmp_path: Path, as_another: None) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"planted")
    path.chmod(0o666)
    assert files._own_file(path) is None


def test_names_as_long_as_they_can_be(tmp_path: Path) -> None:
    for name in ("x" * 255, "ä" * 127):
        write_atomically(tmp_path / name, b"written")
        assert (tmp_path / name).read_bytes() == b"written"
    assert len(list(tmp_path.iterdir())) == 2


def test_another_user_cannot_keep_us_from_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By taking the name of the folder of locks."""
    temporary = tmp_path / "temporary"
    squatted = temporary / f"karelsynth-locks-{os.geteuid()}"
    squatted.mkdir(parents=True)
    squatted.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    write_atomically(tmp_path / "a", b"written")
    assert not list(squatted.iterdir())
    assert (tmp_path / "home" / "karelsynth" / "locks").is_dir()
    (tmp_path / "home" / "karelsynth" / "locks").chmod(0o777)
    with pytest.raises(FileError, match=r"other users may write to .*; set TMPDIR to a folder of yours"):
        write_atomically(tmp_path / "a", b"written")
