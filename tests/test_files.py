"""Reading of files: what cannot be read is told in one message."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from karelsynth.files import FileError, read_text


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
