"""Reading and writing files: atomic writes, and one message for each error."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from karelsynth import files
from karelsynth.files import (
    FileError,
    atomic_writer,
    check_writable,
    exists,
    is_file,
    is_folder,
    make_new_folder,
    read_text,
    write_atomically,
    write_folder,
)

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="devices, pipes and locks of POSIX")


def test_text_is_read_from_files_and_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes("\ufeffä".encode())
    assert read_text(tmp_path / "a") == "ä"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"sent")))
    assert read_text("-") == "sent"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x" * (2**20 + 1), "too large: more than 1,048,576 bytes"),
        (b"ab\xff", r"not UTF-8 text \(byte 2\)"),
    ],
)
def test_what_is_no_text_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(FileError, match=f"a: {message}"):
        read_text(tmp_path / "a")


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "b", "there is no such file"), (tmp_path, "a directory"), ("a\0b", "cannot be")):
        with pytest.raises(FileError, match=message):
            read_text(path)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell that closes standard input")
def test_a_closed_standard_input_is_one_message() -> None:
    command = f'"{sys.executable}" -m karelsynth check - <&-'
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    assert "there is no standard input; give a file" in " ".join(ended.stderr.split())


def test_what_may_not_be_looked_at_is_not_there() -> None:
    for path in ("x" * 300, "a\0b", Path("x" * 300) / "y"):
        assert not is_folder(path)
        assert not is_file(path)
        assert not exists(path)


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a"
    (tmp_path / ".a.tmp").write_bytes(b"left by a killed process, and longer")
    write_atomically(path, b"first")

    def fail() -> None:
        with atomic_writer(path) as file:
            file.write(b"second")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [(found.name, found.read_bytes()) for found in tmp_path.iterdir()] == [("a", b"first")]


@POSIX
def test_of_a_link_what_it_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    for name in ("far/there", "far/dangling"):
        link = tmp_path / Path(name).name
        link.symlink_to(name)
        write_atomically(link, b"new")
        assert link.is_symlink()
        assert (tmp_path / name).read_bytes() == b"new"
    assert sorted(found.name for found in (tmp_path / "far").iterdir()) == ["dangling", "there"]


@POSIX
def test_pipes_and_devices_are_written_to_as_they_are(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, b"sent")
    reader.join()
    assert got == [b"sent"]
    assert pipe.is_fifo()
    write_atomically("/dev/null", b"gone")
    assert Path("/dev/null").is_char_device()
    shown = "from karelsynth.files import *; print('a'); write_atomically('/dev/stdout', b'shown'); print('b')"
    assert subprocess.run([sys.executable, "-c", shown], capture_output=True).stdout == b"a\nshownb\n"
    with (tmp_path / "log").open("wb") as log:  # and what it has is not lost
        log.write(b"kept ")
        log.flush()
        subprocess.run([sys.executable, "-c", shown], stdout=log, check=True)
    assert (tmp_path / "log").read_bytes() == b"kept a\nshownb\n"


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no /dev/shm")
def test_files_in_memory_are_files() -> None:
    path = Path(f"/dev/shm/karelsynth-{os.getpid()}")
    try:
        write_atomically(path, b"first")
        with path.open("rb") as held:
            write_atomically(path, b"second")
            assert held.read() == b"first"  # another one has taken its place
    finally:
        path.unlink(missing_ok=True)


def test_places_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    for path, message in (
        (".", "it is a folder"),
        ("", "it is a folder"),
        ("/", "it is a folder"),
        ("a\0b", "null"),
        ("none/a", "there is no folder none; make it first"),
        ("taken/a", "a file of that name is in the way"),
        ("x" * 300, "too long"),
    ):
        with pytest.raises(FileError, match=f"cannot be written: .*{message}"), atomic_writer(Path(path)):
            pass
        with pytest.raises(FileError, match=f"cannot be written: .*{message}"):
            check_writable(Path(path))
    assert [found.name for found in tmp_path.iterdir()] == ["taken"]


@POSIX
def test_a_place_that_is_looked_at_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("kept")
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for a reader
    for name in ("old", "new", "pipe"):
        check_writable(tmp_path / name)
    for device in ("/dev/null", "/dev/stdout"):
        check_writable(Path(device))
    assert (tmp_path / "old").read_text() == "kept"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["old", "pipe"]


@POSIX
def test_two_who_write_the_same_file_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOCK_TIMEOUT", 0.05)
    path = tmp_path / "a"
    with atomic_writer(path) as file:
        file.write(b"first")
        with pytest.raises(FileError, match="another process is writing there"):
            write_atomically(path, b"second")
    assert path.read_bytes() == b"first"
    monkeypatch.setattr(files, "LOCK_TIMEOUT", 60.0)
    contents = [bytes([letter]) * 300_000 for letter in b"abcdefgh"]
    writers = [threading.Thread(target=write_atomically, args=(path, content)) for content in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert path.read_bytes() in contents
    assert [found.name for found in tmp_path.iterdir()] == ["a"]


def test_the_files_of_a_folder_appear_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, content = tmp_path / "new", {"a.txt": b"one", "more/b.txt": b"two"}
    seen: list[list[str]] = []

    def interrupted(path: Path, written: bytes) -> None:
        seen.append(sorted(each.name for each in folder.iterdir()))
        if len(seen) == 2:
            raise KeyboardInterrupt
        path.write_bytes(written)

    make_new_folder(folder)
    with monkeypatch.context() as patched:
        patched.setattr(files, "write_atomically", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_folder(folder, content)
    assert seen == [[files._UNFINISHED]] * 2
    make_new_folder(folder)  # what was left does not stand in the way
    write_folder(folder, content)
    found = {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    assert found == content
    assert not (folder / files._UNFINISHED).exists()
    with pytest.raises(FileError, match="something already"):
        make_new_folder(folder)
    with pytest.raises(FileError, match="in the way"):
        make_new_folder(folder / "a.txt")
