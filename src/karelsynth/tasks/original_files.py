"""The original's files: recognising them by checksum, and downloading the one that survives.

The official links are dead. A copy of the validation set is on the Hugging Face hub, at a fixed revision. We know of no
source for the training and test sets.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from karelsynth.errors import KarelsynthError, TaskFileError
from karelsynth.files import STDIN, is_file, opened
from karelsynth.hub import download_dataset_file
from karelsynth.parsing import reading_zip
from karelsynth.tasks.msr_records import uncompressed


class OriginalFile(NamedTuple):
    """A file of the original data on the hub."""

    repository: str
    revision: str
    file: str
    archive: str
    """SHA-256 of the file, a zip archive."""
    content: str
    """SHA-256 of the JSON lines in it."""
    tasks: int


ORIGINALS: Final = {
    "val": OriginalFile(
        repository="akdo00001/dataset_Karel",
        revision="86ec5251bf3956d598c6e34c4b1b996de3d9e8d8",
        file="val.zip",
        archive="967dc1c557595e7c4a5ff08a636ec3fe2b5a5320fd6548be50295cf36c5ab4cd",
        content="612d8564801c80bd39d80fca306e18d76f1694d3fe98cc58215ac96452728b63",
        tasks=2_500,
    )
}
"""By the name of the original's part."""
_LARGEST: Final = 2**31
"""Bytes of the largest file whose checksum is taken; none that we know is as large."""
_ZIP_MAGIC: Final = b"PK\x03\x04"
_LINES: Final = (".json", ".jsonl")


def recognise_original(path: str | Path) -> str | None:
    """Which part of the original a file of JSON lines is, `.gz` too, by its checksum; None for any other file."""
    if path == STDIN or not is_file(path) or Path(path).stat().st_size > _LARGEST:
        return None
    try:
        with opened(path) as file:
            content = hashlib.file_digest(uncompressed(file), "sha256").hexdigest()
    except (OSError, EOFError, zlib.error):  # reported when the file is read
        return None
    return next((name for name, known in ORIGINALS.items() if known.content == content), None)


def download_original(name: str = "val") -> Path:
    """Download the archive of a part of the original, and check it; raises KarelsynthError.

    A damaged copy in the hub's cache is downloaded once more.
    """
    known = ORIGINALS[name]
    download = partial(download_dataset_file, known.repository, known.file, known.revision)
    path = download()
    if wrong := _wrong_archive(path, known):
        try:
            path = download(again=True)
        except KarelsynthError as error:
            raise KarelsynthError(f"{wrong}\n{error}") from None
        if wrong := _wrong_archive(path, known):
            raise KarelsynthError(f"{wrong}; the server gave it twice")
    with unpacked(path) as lines:
        if recognise_original(lines) != name:
            raise KarelsynthError(
                f"{path}: its JSON lines are not the original's: their SHA-256 is not {known.content}"
            )
    return path


def _wrong_archive(path: Path, known: OriginalFile) -> str | None:
    """What to say of a file that is not the original's archive."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found == known.archive:
        return None
    return f"{path}: this is not the original's file: its SHA-256 is {found}, and {known.archive} is expected"


@contextmanager
def unpacked(path: str | Path) -> Iterator[str | Path]:
    """The JSON lines of a zip archive with one such file, in a temporary folder; any other file as it is."""
    if path == STDIN or not is_file(path) or not _is_zip(Path(path)):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="karelsynth-") as folder:
        damaged = f"{path}: the archive is cut off or damaged; get it again"
        with reading_zip(TaskFileError, damaged), zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.lower().endswith(_LINES) and "__MACOSX" not in name]
            if len(names) != 1:
                raise TaskFileError(
                    f"{path}: an archive with {len(names)} files of JSON lines, and one is expected; unpack it and "
                    "choose one"
                )
            if archive.getinfo(names[0]).file_size > shutil.disk_usage(folder).free:
                raise TaskFileError(f"{path}: unpacked, it does not fit into {folder}; set TMPDIR to a larger place")
            lines = Path(folder) / Path(names[0]).name
            with archive.open(names[0]) as packed, lines.open("wb") as file:
                shutil.copyfileobj(packed, file)
        yield lines


def _is_zip(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC
    except OSError:  # reported when the file is read
        return False
