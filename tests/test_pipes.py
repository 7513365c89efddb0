"""Tasks in the original's format that come through a pipe, which cannot go back."""

from __future__ import annotations

import gzip
import io
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from karelsynth.errors import TaskFileError
from karelsynth.tasks.generate import generate
from karelsynth.tasks.msr_tasks import verify_file, write_tasks
from karelsynth.tasks.sets import import_msr, load_tasks

COUNT = 12
PIPES = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
PACKED = pytest.mark.parametrize("pack", [bytes, gzip.compress])


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    write_tasks([generate(7, 0, COUNT)], tmp_path / "tasks.jsonl")
    return (tmp_path / "tasks.jsonl").read_bytes()


def pipe_of(path: Path, content: bytes) -> Path:
    """A pipe that gives some content once, at first a single byte of it."""

    def send() -> None:
        with path.open("wb", buffering=0) as end:
            end.write(content[:1])
            time.sleep(0.05)
            left = memoryview(content)[1:]
            while left:
                left = left[end.write(left) :]

    os.mkfifo(path)
    threading.Thread(target=send, daemon=True).start()
    return path


@PIPES
@PACKED
def test_pipes_are_read_as_files_are(tmp_path: Path, content: bytes, pack: Callable[[bytes], bytes]) -> None:
    assert verify_file(pipe_of(tmp_path / "a", pack(content))).outputs_equal == 6 * COUNT
    found = load_tasks(pipe_of(tmp_path / "b", pack(content)))
    assert (found.inputs == generate(7, 0, COUNT).inputs).all()


@PIPES
def test_a_set_can_be_made_of_a_pipe(tmp_path: Path, content: bytes) -> None:
    read: list[int] = []
    made = import_msr(pipe_of(tmp_path / "a", content), tmp_path / "set", progress=read.append)
    assert len(made) == COUNT
    assert sum(read) == len(content)


@PACKED
def test_standard_input(content: bytes, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]) -> None:
    def give(text: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(pack(text))))

    give(content)
    assert verify_file("-").all_equal
    give(b"{}")
    with pytest.raises(TaskFileError, match=r"^standard input, line 1: the program is missing"):
        load_tasks("-")
    with pytest.raises(TaskFileError, match=r"^-: there is no such file"):  # a path is no name of anything else
        load_tasks(Path("-"))
