"""The files of a task set: its manifest, and its shards as safetensors files.

The manifest says what is in the set, where it came from, and the checksums of its shards. It holds no time and no name
of a machine: the same set has the same manifest, byte by byte.

A safetensors file is the length of its header (8 bytes), the header (JSON: type, shape and place of each tensor), and
the tensors. We write it ourselves because the package orders metadata differently from run to run, and a set must have
the same bytes every time. We read it ourselves, by memory-map, because the package's numpy reader copies. Any
safetensors reader reads these files (the tests use the package's). The manifest determines the header of every shard,
so a header is checked by comparing bytes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from karelsynth import _version
from karelsynth.errors import TaskFileError
from karelsynth.files import FileError, atomic_writer, exists, is_file, is_folder, read_text
from karelsynth.generator.sampler import MAX_TOKENS
from karelsynth.karel.formats.codes import SIDE
from karelsynth.parsing import ParseError, parse_json
from karelsynth.tasks.batch import TaskBatch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

FILE_NAME: Final = "manifest.json"
FORMAT: Final = "karelsynth-tasks"
FORMAT_VERSION: Final = 1
_ALIGNED: Final = 64
"""Tensors begin at a multiple of this many bytes from the start of the file."""
_LARGEST: Final = 2**26
"""Bytes of the largest manifest."""
_DTYPES: Final = {"U8": np.dtype(np.uint8), "BOOL": np.dtype(np.bool_)}


@dataclass(frozen=True)
class ShardFile:
    """The layout of a shard file of `count` tasks. `metadata` identifies the tasks."""

    count: int
    examples: int
    width: int
    """Of the token array."""
    metadata: Mapping[str, str]

    @property
    def tensors(self) -> dict[str, dict[str, Any]]:
        """For each field of a TaskBatch what the header says: type, shape, and the first byte and the end after it.

        All types are one byte wide.
        """
        worlds = (self.count, self.examples, SIDE, SIDE)
        shapes = {
            "tokens": (self.count, self.width),
            "lengths": (self.count,),
            "inputs": worlds,
            "outputs": worlds,
            "novel": (self.count,),
        }
        places = pairwise(accumulate(map(prod, shapes.values()), initial=0))
        return {
            name: {"dtype": "BOOL" if name == "novel" else "U8", "shape": shape, "data_offsets": place}
            for (name, shape), place in zip(shapes.items(), places, strict=True)
        }

    @property
    def header(self) -> bytes:
        """The file up to its first tensor."""
        text = json.dumps({"__metadata__": dict(sorted(self.metadata.items())), **self.tensors}).encode()
        text += b" " * (-(8 + len(text)) % _ALIGNED)
        return len(text).to_bytes(8, "little") + text

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self.header) + int(self.tensors["novel"]["data_offsets"][1])

    def parts(self, tasks: TaskBatch) -> list[memoryview]:
        """The content of the file: its header and the tensors of the tasks."""
        parts = [memoryview(self.header)]
        for name, tensor in self.tensors.items():
            array = np.ascontiguousarray(getattr(tasks, name), _DTYPES[tensor["dtype"]])
            parts.append(array.reshape(-1).view(np.uint8).data)
        return parts

    def tasks(self, content: NDArray[np.uint8]) -> TaskBatch:
        """The tasks in the content of a file, without a copy."""
        body = content[len(self.header) :]
        arrays = {
            name: body[slice(*tensor["data_offsets"])].view(_DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
            for name, tensor in self.tensors.items()
        }
        return TaskBatch(**arrays)


@dataclass(frozen=True)
class Generated:
    """Tasks `start`, `start` + 1, … of the generator's stream with this seed."""

    seed: int
    start: int
    reserved: bool
    """Whether programs reserved for testing occur, at their natural rate."""
    purposeful: bool | None = None
    """True for tasks of the stream of purposeful tasks."""
    name: str | None = None
    """The name of a set that is not simply a part of a seed's stream."""


@dataclass(frozen=True)
class Imported:
    """Tasks of a file in the original format."""

    file: str
    original: str | None = None
    """The name of the original's file that this is, by its checksum; None for any other."""


@dataclass(frozen=True)
class Shard:
    """A complete shard: its file has been written and summed."""

    file: str
    count: int
    bytes: int
    sha256: str
    novel: int
    """Tasks whose programs are reserved for testing."""


@dataclass(frozen=True)
class Manifest:
    """The contents of `manifest.json`."""

    source: Generated | Imported
    count: int
    """Tasks in the whole set; of an unfinished import, those in its shards."""
    examples: int
    shard_size: int
    """Tasks in every shard but the last, which may have fewer."""
    width: int = MAX_TOKENS
    """Of the token array."""
    karelsynth: str = _version.__version__
    complete: bool = False
    shards: tuple[Shard, ...] = ()
    statistics: Mapping[str, Any] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The values that must agree for an interrupted set to be continued."""
        return {
            **_described(self.source),
            "count": self.count,
            "examples": self.examples,
            "shard size": self.shard_size,
            "karelsynth version": self.karelsynth,
        }

    @property
    def novel(self) -> int:
        """How many tasks have programs reserved for testing."""
        return sum(shard.novel for shard in self.shards)

    @property
    def shard_count(self) -> int:
        """How many shards the complete set has."""
        return -(-self.count // self.shard_size)

    def shard_file(self, number: int) -> ShardFile:
        """The layout of shard `number`."""
        count = min(self.shard_size, self.count - number * self.shard_size)
        return ShardFile(count, self.examples, self.width, self.shard_metadata(number))

    def shard_metadata(self, number: int) -> dict[str, str]:
        """What identifies the tasks of shard `number`."""
        return {
            "format": FORMAT,
            "format_version": str(FORMAT_VERSION),
            "source": json.dumps(_described(self.source), sort_keys=True),
            "first": str(number * self.shard_size),
        }

    def check_shard(self, folder: Path, number: int) -> None:
        """Raise TaskFileError unless the file of a shard is there and has the right size and header."""
        expected, path = self.shard_file(number), folder / shard_name(number)
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                header = file.read(len(expected.header))
        except FileNotFoundError:
            raise self._damaged(path, "is missing") from None
        except OSError as error:
            raise self._damaged(path, f"cannot be read: {error.strerror or error}") from None
        if size != expected.size:
            fault = f"has {size:,} bytes instead of {expected.size:,}: it was cut off, or is another file"
            raise self._damaged(path, fault)
        if header != expected.header:
            fault = "has the wrong header: it was altered, or is from another set or another place in this one"
            raise self._damaged(path, fault)

    def read_shard(self, folder: Path, number: int) -> TaskBatch:
        """The tasks of a shard, memory-mapped. Raises TaskFileError if its file is damaged in any way.

        The map is copy-on-write: torch can share the arrays, and writes to them do not change the file.
        """
        self.check_shard(folder, number)
        path = folder / shard_name(number)
        try:
            content = np.asarray(np.memmap(path, np.uint8, "c"))
            checksum = hashlib.sha256(content.data).hexdigest()
        except OSError as error:
            raise self._damaged(path, f"cannot be read: {error.strerror or error}") from None
        if checksum != self.shards[number].sha256:
            raise self._damaged(path, "does not match its checksum in the manifest: it was altered")
        return self.shard_file(number).tasks(content)

    def _damaged(self, path: Path, fault: str) -> TaskFileError:
        if isinstance(self.source, Generated):
            cure = "run the `karelsynth generate` command that made the set again: it regenerates damaged shards"
        else:
            cure = "import it again into a new folder"
        return TaskFileError(f"{path}: {fault}; {cure}")

    def write(self, folder: Path) -> None:
        """Write `manifest.json`, atomically."""
        kind = "generated" if isinstance(self.source, Generated) else "imported"
        values = {**asdict(self), "source": _described(self.source)}
        record = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "karelsynth": values.pop("karelsynth"),
            "source": {"kind": kind, **values.pop("source")},
            **values,
        }
        with atomic_writer(folder / FILE_NAME) as file:
            file.write((json.dumps(record, indent=1) + "\n").encode())


def _described(source: Generated | Imported) -> dict[str, Any]:
    """A source as it is written; without what it does not have, as older sets are without it."""
    return {key: value for key, value in asdict(source).items() if value is not None}


def shard_name(number: int) -> str:
    """`shard-00007.safetensors`."""
    return f"shard-{number:05}.safetensors"


def read_manifest(folder: Path) -> Manifest:
    """Read and check `manifest.json`; raises TaskFileError if something is wrong."""
    path = folder / FILE_NAME
    if not exists(path):
        missing = f"no task set: there is no {FILE_NAME} in it" if is_folder(folder) else "there is no such folder"
        raise TaskFileError(f"{folder}: {'a file, but a task set is a folder' if is_file(folder) else missing}")
    try:
        record = parse_json(read_text(path, _LARGEST))
    except FileError as error:  # it names the file
        raise TaskFileError(str(error)) from None
    except ParseError as error:
        raise TaskFileError(f"{path}: no manifest of a task set, or it was altered: {error}") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise TaskFileError(f'{path}: no manifest of a task set: its "format" is not "{FORMAT}"')
    if record.get("format_version") != FORMAT_VERSION:
        raise TaskFileError(
            f"{path}: format version {record.get('format_version')!r}, but this karelsynth reads version "
            f"{FORMAT_VERSION}; use the karelsynth version that wrote it"
        )
    try:
        return _manifest(record)
    except TaskFileError as error:
        raise TaskFileError(f"{path}: {error}: the manifest was altered; get or make the set again") from None


def _manifest(record: dict[str, Any]) -> Manifest:
    manifest = Manifest(
        source=_source(_field(record, "source", dict)),
        count=_field(record, "count", int),
        examples=_field(record, "examples", int, 1),
        shard_size=_field(record, "shard_size", int, 1),
        width=_field(record, "width", int, 1),
        karelsynth=_field(record, "karelsynth", str),
        complete=_field(record, "complete", bool),
        shards=tuple(_shard(shard) for shard in _field(record, "shards", list)),
        statistics=record.get("statistics"),
    )
    _check_shards(manifest)
    return manifest


def _source(source: dict[str, Any]) -> Generated | Imported:
    kind = _field(source, "kind", str)
    if kind == "imported":
        original = None if source.get("original") is None else _field(source, "original", str)
        return Imported(_field(source, "file", str), original)
    if kind != "generated":
        raise TaskFileError("`source.kind` is neither `generated` nor `imported`")
    return Generated(
        _field(source, "seed", int),
        _field(source, "start", int),
        _field(source, "reserved", bool),
        True if source.get("purposeful") is True else None,
        _field(source, "name", str) if "name" in source else None,
    )


def _shard(record: Any) -> Shard:
    if not isinstance(record, dict):
        raise TaskFileError("an entry of `shards` is no object")
    kinds = {"file": str, "count": int, "bytes": int, "sha256": str, "novel": int}
    return Shard(**{key: _field(record, key, kind) for key, kind in kinds.items()})


def _field(record: dict[str, Any], key: str, kind: type, least: int = 0) -> Any:
    """A value of a JSON object. Raises TaskFileError if it is missing, of another type, or a number below `least`."""
    value = record.get(key)
    if kind is int and (type(value) is not int or value < least):
        raise TaskFileError(f"`{key}` is no whole number from {least}")
    if not isinstance(value, kind):
        raise TaskFileError(f"`{key}` is missing or of another type")
    return value


def _check_shards(manifest: Manifest) -> None:
    """The shards are the first of the set, without a gap, and all of them if it is complete."""
    listed = len(manifest.shards)
    if manifest.complete and not manifest.count:  # an unfinished import has no count yet
        raise TaskFileError("`count` is 0")
    if listed > manifest.shard_count or (manifest.complete and listed < manifest.shard_count):
        raise TaskFileError(f"{manifest.count:,} tasks make {manifest.shard_count} shards, and it lists {listed}")
    for number, shard in enumerate(manifest.shards):
        expected = manifest.shard_file(number)
        if shard.file != shard_name(number):
            raise TaskFileError(f"shard {number} is called `{shard.file}` instead of `{shard_name(number)}`")
        if shard.count != expected.count or shard.bytes != expected.size:
            raise TaskFileError(f"count or size of {shard.file} do not fit the set's")
