"""Shards as safetensors files whose bytes follow from their content, and which are read by memory-map.

A safetensors file is the length of its header (8 bytes), the header (JSON: type, shape and place of each
tensor), the tensors. We write it ourselves because the package's order of metadata changes from run to run, and
a set must come out with the same bytes every time; we read it ourselves because the package's numpy reader
copies. Any safetensors reader reads these files (the tests use the package's).

The header of a shard is known before it is opened, so checking it is comparing bytes, not trusting them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from math import prod
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from karelsynth.karel.formats.codes import SIDE
from karelsynth.tasks.batch import TaskBatch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_ALIGNED: Final = 64
"""Tensors begin at a multiple of this many bytes from the start of the file."""
_DTYPES: Final = {"U8": np.dtype(np.uint8), "BOOL": np.dtype(np.bool_)}


@dataclass(frozen=True)
class ShardFile:
    """What a shard file of `count` tasks looks like. `metadata` says which tasks: it tells shards apart."""

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
        """Write the shard; its SHA-256."""
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
        """What a look at size and header finds wrong with a file, or None."""
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

        The map is copy-on-write: torch can share the arrays, and whoever writes to them does not change the file.
        """
        data = np.asarray(np.memmap(path, np.uint8, "c"))
        body = data[len(self.header) :]
        arrays = (
            body[slice(*self.places[field.name])].view(_DTYPES[dtype]).reshape(shape)
            for field in fields(TaskBatch)
            for dtype, shape in [self.shapes[field.name]]
        )
        return TaskBatch(*arrays), data
