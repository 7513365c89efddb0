"""Models as folders: `config.json` and `model.safetensors`, the names that the Hugging Face hub uses.

Where files may not be that large, the weights are split into `model.safetensors.1-of-2` and so on; concatenated
(`cat model.safetensors.?-of-2`) they are the file. The hub's own way, whole tensors distributed over files, does not
help here: five sixths of the paper's network are one matrix.

`SHA256SUMS` beside them has their checksums, as `sha256sum` writes and checks them. Loading compares them. Models of
earlier versions have none, and a model whose saving was interrupted has none.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from karelsynth._version import __version__
from karelsynth.errors import KarelsynthError
from karelsynth.files import exists, is_folder, read_text, write_atomically
from karelsynth.hub import download_model, is_hub_id
from karelsynth.model.settings import ModelSettings
from karelsynth.parsing import ParseError, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
RECIPE: Final = "recipe.json"
"""The recipe that the model was trained by, if there is one."""
SUMS: Final = "SHA256SUMS"
MODEL_TYPE: Final = "karelsynth"
_VERSION_KEY: Final = "karelsynth_version"
SHIPPED: Final = "shipped"
"""The name of the package's own model, in place of a model's folder."""
_SHIPPED_FOLDER: Final = Path(__file__).parent.parent / "pretrained"
_ALTERED: Final = "it was cut off or altered; get or save the model again"
_LARGEST_CONFIG: Final = 2**20
_LARGEST_WEIGHTS: Final = 2**32
"""Bytes. The paper's network has 50 MB."""


def model_folder(model: str | Path) -> Path:
    """The folder of a model, given as such, as `shipped`, or as an id of the Hugging Face hub, which is downloaded.

    An id is `owner/name` or `owner/name@revision`. A path that exists comes first, and one below a folder that exists
    is never an id. Write `./shipped`, or a `Path`, for a folder called so.
    """
    if isinstance(model, str):
        if model == SHIPPED:
            return _SHIPPED_FOLDER
        if is_hub_id(model):
            return download_model(model)
    return Path(model)


@dataclass(frozen=True)
class Weights:
    """The tensors of a file, by name."""

    path: Path
    tensors: Mapping[str, Tensor]

    def checked(self, expected: Mapping[str, torch.Size]) -> dict[str, Tensor]:
        """The tensors in float32, if their names and shapes are those expected."""
        for name, shape in expected.items():
            if name not in self.tensors:
                raise KarelsynthError(f"{self.path}: has no `{name}`: it does not belong to the {CONFIG} beside it")
            if self.tensors[name].shape != shape:
                raise KarelsynthError(
                    f"{self.path}: `{name}` is {list(self.tensors[name].shape)}, but the {CONFIG} beside it expects "
                    f"{list(shape)}: the two files do not match"
                )
        unknown = next((name for name in self.tensors if name not in expected), None)
        if unknown is not None:
            raise KarelsynthError(f"{self.path}: holds `{unknown}`, which the {CONFIG} beside it does not describe")
        return {name: tensor.float() for name, tensor in self.tensors.items()}


def save_model(
    folder: str | Path,
    settings: ModelSettings,
    tensors: Mapping[str, Tensor],
    dtype: torch.dtype | None,
    *,
    part_bytes: int | None = None,
) -> None:
    """Write the files, the weights in parts of at most `part_bytes` if given; the folder is made if need be."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KarelsynthError(f"{folder}: cannot be made: {error.strerror or error}") from None
    whole = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in tensors.items()}
    config = {"model_type": MODEL_TYPE, _VERSION_KEY: __version__, **asdict(settings)}
    weights = safetensors.torch.save(whole, metadata={"format": "pt"})
    write_model_files(folder, (json.dumps(config, indent=2) + "\n").encode(), weights, part_bytes)


def write_model_files(folder: Path, config: bytes, weights: bytes, part_bytes: int | None) -> None:
    """Write configuration, weights and, last, checksums. An interruption leaves none rather than wrong ones."""
    (folder / SUMS).unlink(missing_ok=True)
    parts = write_parts(folder / WEIGHTS, weights, part_bytes)
    write_atomically(folder / CONFIG, config)
    write_sums(folder, {CONFIG: config, **parts})


def write_sums(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the checksums of a folder's files, given by name and content."""
    lines = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items()))
    write_atomically(folder / SUMS, "".join(lines).encode())


class Checksums:
    """The checksums of a folder's files, if there are any: `SHA256SUMS`."""

    def __init__(self, folder: Path) -> None:
        self._path, self._known = folder / SUMS, dict[str, str]()
        self._present = exists(self._path)
        for line in read_text(self._path).splitlines() if self._present else ():
            match = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", line)
            if match is None:
                raise KarelsynthError(f"{self._path}: not a list of checksums: {_ALTERED}")
            self._known[match[2]] = match[1]

    def check(self, path: Path, content: bytes) -> bytes:
        """The content of a file; raises KarelsynthError if it has another checksum, or none among those there are."""
        if self._present and self._known.get(path.name) != hashlib.sha256(content).hexdigest():
            raise KarelsynthError(
                f"{path}: does not match its checksum in {self._path}: {_ALTERED}. "
                f"If you changed it on purpose, remove {SUMS}"
            )
        return content


def write_parts(path: Path, content: bytes, part_bytes: int | None) -> dict[str, bytes]:
    """Write a file; if it is larger than `part_bytes`, in parts. Replaces an earlier one, whole or in parts.

    Returns the files by name. An interruption leaves the old content, the new one, or a missing part, which reading
    reports: never parts of both.
    """
    older = list(path.parent.glob(f"{path.name}.*-of-*"))
    size = part_bytes or len(content)
    parts = -(-len(content) // size)
    if parts == 1:
        write_atomically(path, content)  # from now on this file is read
        for part in older:
            part.unlink(missing_ok=True)
        return {path.name: content}
    for part in (path, *older):
        part.unlink(missing_ok=True)
    written = {
        f"{path.name}.{number + 1}-of-{parts}": content[number * size : (number + 1) * size] for number in range(parts)
    }
    for name, part_content in written.items():
        write_atomically(path.with_name(name), part_content)
    return written


def load_model(folder: str | Path) -> tuple[ModelSettings, Weights]:
    """Read the model of a folder, or the package's for `shipped`; KarelsynthError says what is wrong."""
    folder = model_folder(folder)
    if not is_folder(folder):
        what = "is a file, not" if exists(folder) else "there is no such folder; a model is"
        raise KarelsynthError(f"{folder}: {what} a folder with {CONFIG} and {WEIGHTS}")
    sums, path = Checksums(folder), folder / WEIGHTS
    return _settings(folder / CONFIG, sums), Weights(path, read_tensors(path, joined_parts(path, sums)))


def load_settings(folder: str | Path) -> ModelSettings:
    """The settings of the model in a folder; KarelsynthError says what is wrong."""
    folder = model_folder(folder)
    return _settings(folder / CONFIG, Checksums(folder))


def _settings(path: Path, sums: Checksums) -> ModelSettings:
    try:
        config: Any = parse_json(sums.check(path, _content(path, _LARGEST_CONFIG)))
    except ParseError as error:
        raise KarelsynthError(f"{path}: {error}: {_ALTERED}") from None
    if not isinstance(config, dict) or config.get("model_type") != MODEL_TYPE:
        raise KarelsynthError(f'{path}: belongs to another kind of model: its "model_type" is not "{MODEL_TYPE}"')
    values = {name: value for name, value in config.items() if name not in ("model_type", _VERSION_KEY)}
    try:
        return ModelSettings.from_dict(values)
    except KarelsynthError as error:
        raise KarelsynthError(f"{path}: {error}") from None


def read_tensors(path: Path, content: bytes) -> dict[str, Tensor]:
    """The tensors of a safetensors file; raises KarelsynthError, also if a number is not finite."""
    try:
        tensors = safetensors.torch.load(content)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise KarelsynthError(f"{path}: not a complete safetensors file ({error}): {_ALTERED}") from None
    for name, tensor in tensors.items():
        if not _is_finite(tensor):
            raise KarelsynthError(
                f"{path}: `{name}` holds numbers that are infinite or not a number: the training that made it has "
                "diverged, or it was altered; get or train the model again"
            )
    return tensors


def _is_finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite. By NumPy: torch's `isfinite` takes half a second for the shipped model."""
    if tensor.dtype == torch.bfloat16:  # which NumPy lacks: infinite and undefined numbers have exponents of ones
        return not bool(((tensor.view(torch.int16).numpy() & 0x7F80) == 0x7F80).any())
    return bool(np.isfinite(tensor.float().numpy()).all())


def joined_parts(path: Path, sums: Checksums | None = None) -> bytes:
    """The content of a file, or if there is none, of the parts that it was split into; checksums are compared."""
    check = (lambda _, content: content) if sums is None else sums.check
    some = None if exists(path) else next(path.parent.glob(f"{path.name}.*-of-*"), None)
    if some is None:
        return check(path, _content(path, _LARGEST_WEIGHTS))
    parts = some.name.rpartition("-of-")[2]
    if not parts.isdecimal():
        raise KarelsynthError(f"{some}: parts of weights are named {path.name}.1-of-2 and so on; rename or remove it")
    names = (path.with_name(f"{path.name}.{number + 1}-of-{parts}") for number in range(int(parts)))
    return b"".join(check(part, _content(part, _LARGEST_WEIGHTS)) for part in names)


def _content(path: Path, largest: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(largest + 1)
    except FileNotFoundError:
        raise KarelsynthError(
            f"{path}: there is no such file; a model is a folder with {CONFIG} and {WEIGHTS}"
        ) from None
    except OSError as error:
        raise KarelsynthError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(content) > largest:
        raise KarelsynthError(f"{path}: too large: more than {largest:,} bytes; is it the right file?")
    return content


def read_recipe(folder: str | Path) -> Any:
    """The content of the `recipe.json` beside a model, None if there is none; KarelsynthError if it is unreadable."""
    path = model_folder(folder) / RECIPE
    if not exists(path):
        return None
    try:
        return parse_json(read_text(path))
    except ParseError as error:
        raise KarelsynthError(f"{path}: {error}; {_ALTERED}, or remove the file") from None
