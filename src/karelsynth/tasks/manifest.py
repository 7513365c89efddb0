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
from dataclasses import asdict, dataclass, fields
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO, Final

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
    def shapes(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of each field of a TaskBatch, in order."""
        worlds = (self.count, self.examples, SIDE, SIDE)
        return {
            "tokens": ("U8", (self.count, self.width)),
            "lengths": ("U8", (self.count,)),
            "inputs": ("U8", worlds),
            "outputs": ("U8", worlds),
            "novel": ("BOOL", (self.count,)),
        }

    @property
    def places(self) -> dict[str, tuple[int, int]]:
        """First byte and end of each tensor, from the end of the header. All types are one byte wide."""
        places, at = {}, 0
        for name, (_, shape) in self.shapes.items():
            places[name] = at, at + prod(shape)
            at += prod(shape)
        return places

    @property
    def header(self) -> bytes:
        """The file up to its first tensor."""
        tensors = {
            name: {"dtype": dtype, "shape": shape, "data_offsets": self.places[name]}
            for name, (dtype, shape) in self.shapes.items()
        }
        text = json.dumps({"__metadata__": dict(sorted(self.metadata.items())), **tensors}).encode()
        text += b" " * (-(8 + len(text)) % _ALIGNED)
        return len(text).to_bytes(8, "little") + text

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self.header) + self.places["novel"][1]

    def write(self, file: BinaryIO, tasks: TaskBatch) -> str:
        """Write the shard; returns its SHA-256."""
        digest = hashlib.sha256()
        for part in (memoryview(self.header), *(self._checked(tasks, name) for name in self.shapes)):
            file.write(part)
            digest.update(part)
        return digest.hexdigest()

    def _checked(self, tasks: TaskBatch, name: str) -> memoryview:
        """A field of the tasks as bytes."""
        array = getattr(tasks, name)
        dtype, shape = self.shapes[name]
        if array.dtype != _DTYPES[dtype] or array.shape != shape:
            raise ValueError(f"{name} is {array.dtype} {list(array.shape)}, not {_DTYPES[dtype]} {list(shape)}")
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data

    def fault(self, path: Path) -> str | None:
        """What is wrong with the size or the header of a file, or None."""
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                header = file.read(len(self.header))
        except FileNotFoundError:
            return "is missing"
        except OSError as error:
            return f"cannot be read: {error.strerror or error}"
        if size != self.size:
            return f"has {size:,} bytes instead of {self.size:,}: it was cut off, or is another file"
        if header != self.header:
            return "has the wrong header: it was altered, or is from another set or another place in this one"
        return None

    def map(self, path: Path) -> tuple[TaskBatch, NDArray[np.uint8]]:
        """The tasks of a file without `fault`, memory-mapped, and all its bytes.

        The map is copy-on-write: torch can share the arrays, and writes to them do not change the file.
        """
        data = np.asarray(np.memmap(path, np.uint8, "c"))
        body = data[len(self.header) :]
        arrays = (
            body[slice(*self.places[field.name])].view(_DTYPES[dtype]).reshape(shape)
            for field in fields(TaskBatch)
            for dtype, shape in [self.shapes[field.name]]
        )
        return TaskBatch(*arrays), data


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
        first = number * self.shard_size
        metadata = {
            "format": FORMAT,
            "format_version": str(FORMAT_VERSION),
            "source": json.dumps(_described(self.source), sort_keys=True),
            "first": str(first),
        }
        return ShardFile(min(self.shard_size, self.count - first), self.examples, self.width, metadata)

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
        manifest = _manifest(record)
    except _Unfit as unfit:
        raise TaskFileError(f"{path}: {unfit}: the manifest was altered; get or make the set again") from None
    return manifest


class _Unfit(Exception):
    """A field with an invalid value."""


def _manifest(record: dict[str, Any]) -> Manifest:
    source = _typed(record, "source", dict)
    kinds: dict[Any, type[Generated] | type[Imported]] = {"generated": Generated, "imported": Imported}
    kind = kinds.get(_typed(source, "kind", str))
    if kind is None:
        raise _Unfit("`source.kind` is neither `generated` nor `imported`")
    manifest = Manifest(
        source=_generated(source) if kind is Generated else Imported(_typed(source, "file", str), _original(source)),
        count=_number(record, "count"),
        examples=_number(record, "examples", 1),
        shard_size=_number(record, "shard_size", 1),
        width=_number(record, "width", 1),
        karelsynth=_typed(record, "karelsynth", str),
        complete=_typed(record, "complete", bool),
        shards=tuple(_shard(shard) for shard in _typed(record, "shards", list)),
        statistics=record.get("statistics"),
    )
    _check_shards(manifest)
    return manifest


def _generated(source: dict[str, Any]) -> Generated:
    purposeful = True if source.get("purposeful") is True else None
    name = _typed(source, "name", str) if "name" in source else None
    return Generated(
        _number(source, "seed"), _number(source, "start"), _typed(source, "reserved", bool), purposeful, name
    )


def _original(source: dict[str, Any]) -> str | None:
    return None if source.get("original") is None else str(_typed(source, "original", str))


def _check_shards(manifest: Manifest) -> None:
    """The shards are the first of the set, without a gap, and all of them if it is complete."""
    listed = len(manifest.shards)
    if manifest.complete and not manifest.count:  # an unfinished import has no count yet
        raise _Unfit("`count` is 0")
    if listed > manifest.shard_count or (manifest.complete and listed < manifest.shard_count):
        raise _Unfit(f"{manifest.count:,} tasks make {manifest.shard_count} shards, and it lists {listed}")
    for number, shard in enumerate(manifest.shards):
        expected = manifest.shard_file(number)
        if shard.file != shard_name(number):
            raise _Unfit(f"shard {number} is called `{shard.file}` instead of `{shard_name(number)}`")
        if shard.count != expected.count or shard.bytes != expected.size:
            raise _Unfit(f"count or size of {shard.file} do not fit the set's")


def _shard(record: Any) -> Shard:
    if not isinstance(record, dict):
        raise _Unfit("an entry of `shards` is no object")
    return Shard(
        _typed(record, "file", str),
        _number(record, "count"),
        _number(record, "bytes"),
        _typed(record, "sha256", str),
        _number(record, "novel"),
    )


def _number(record: dict[str, Any], key: str, least: int = 0) -> int:
    value = record.get(key)
    if type(value) is not int or value < least:
        raise _Unfit(f"`{key}` is no whole number from {least}")
    return value


def _typed(record: dict[str, Any], key: str, kind: type) -> Any:
    if not isinstance(record.get(key), kind):
        raise _Unfit(f"`{key}` is missing or of another type")
    return record[key]
