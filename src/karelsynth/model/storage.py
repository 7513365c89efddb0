"""Models as folders: `config.json` and `model.safetensors`, the names that the Hugging Face hub uses.

Where files may not be that large, the weights are split into `model.safetensors.1-of-2` and so on; concatenated
(`cat model.safetensors.?-of-2`) they are the file. The hub's own way, whole tensors distributed over files, does not
help here: five sixths of the paper's network are one matrix.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import safetensors.torch
import torch
from torch import Tensor

from karelsynth._version import __version__
from karelsynth.errors import KarelsynthError
from karelsynth.files import exists, is_folder, read_text, write_atomically
from karelsynth.hub import download_model, is_hub_id
from karelsynth.model.settings import ModelSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
RECIPE: Final = "recipe.json"
"""The recipe that the model was trained by, if there is one."""
MODEL_TYPE: Final = "karelsynth"
_VERSION_KEY: Final = "karelsynth_version"
SHIPPED: Final = "shipped"
"""The name of the package's own model, wherever a model's folder is expected."""
_SHIPPED_FOLDER: Final = Path(__file__).parent.parent / "pretrained"
_ALTERED: Final = "it was cut off or altered; get or save the model again"


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
                    f"{self.path}: `{name}` is {list(self.tensors[name].shape)}, but the {CONFIG} beside it asks for "
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
    """Write both files, the weights in parts of at most `part_bytes` if given; the folder is made if need be."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KarelsynthError(f"{folder}: cannot be made: {error.strerror or error}") from None
    whole = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in tensors.items()}
    config = {"model_type": MODEL_TYPE, _VERSION_KEY: __version__, **asdict(settings)}
    write_parts(folder / WEIGHTS, safetensors.torch.save(whole, metadata={"format": "pt"}), part_bytes)
    write_atomically(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())


def write_parts(path: Path, content: bytes, part_bytes: int | None) -> None:
    """Write a file, or if it is larger, parts of so many bytes; they replace an earlier one, whole or in parts.

    An interruption leaves the old content, the new one, or a missing part, which reading reports: never parts of both.
    """
    older = list(path.parent.glob(f"{path.name}.*-of-*"))
    size = part_bytes or len(content)
    parts = -(-len(content) // size)
    if parts == 1:
        write_atomically(path, content)  # from now on this file is read
        for part in older:
            part.unlink(missing_ok=True)
        return
    for part in (path, *older):
        part.unlink(missing_ok=True)
    for number in range(parts):
        part = path.with_name(f"{path.name}.{number + 1}-of-{parts}")
        write_atomically(part, content[number * size : (number + 1) * size])


def load_model(folder: str | Path) -> tuple[ModelSettings, Weights]:
    """Read both files of a folder, or of the package's model for `shipped`; KarelsynthError says what is wrong."""
    folder = model_folder(folder)
    if not is_folder(folder):
        what = "is a file, not" if exists(folder) else "there is no such folder; a model is"
        raise KarelsynthError(f"{folder}: {what} a folder with {CONFIG} and {WEIGHTS}")
    return _settings(folder / CONFIG), Weights(folder / WEIGHTS, _tensors(folder / WEIGHTS))


def load_settings(folder: str | Path) -> ModelSettings:
    """The settings of the model in a folder; KarelsynthError says what is wrong."""
    return _settings(model_folder(folder) / CONFIG)


def _settings(path: Path) -> ModelSettings:
    try:
        config: Any = json.loads(_content(path))
    except (ValueError, RecursionError):
        raise KarelsynthError(f"{path}: not valid JSON: {_ALTERED}") from None
    if not isinstance(config, dict) or config.get("model_type") != MODEL_TYPE:
        raise KarelsynthError(f'{path}: belongs to another kind of model: its "model_type" is not "{MODEL_TYPE}"')
    values = {name: value for name, value in config.items() if name not in ("model_type", _VERSION_KEY)}
    try:
        return ModelSettings.from_dict(values)
    except KarelsynthError as error:
        raise KarelsynthError(f"{path}: {error}") from None


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load(joined_parts(path))
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise KarelsynthError(f"{path}: not a complete safetensors file ({error}): {_ALTERED}") from None


def joined_parts(path: Path) -> bytes:
    """The content of a file, or if there is none, of the parts that it was split into."""
    some = None if exists(path) else next(path.parent.glob(f"{path.name}.*-of-*"), None)
    if some is None:
        return _content(path)
    parts = some.name.rpartition("-of-")[2]
    if not parts.isdecimal():
        raise KarelsynthError(f"{some}: parts of weights are named {path.name}.1-of-2 and so on; rename or remove it")
    return b"".join(_content(path.with_name(f"{path.name}.{number + 1}-of-{parts}")) for number in range(int(parts)))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise KarelsynthError(
            f"{path}: there is no such file; a model is a folder with {CONFIG} and {WEIGHTS}"
        ) from None
    except OSError as error:
        raise KarelsynthError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_recipe(folder: str | Path) -> Any:
    """The content of the `recipe.json` beside a model, None if there is none; KarelsynthError if it is unreadable."""
    path = model_folder(folder) / RECIPE
    if not exists(path):
        return None
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise KarelsynthError(f"{path}: not valid JSON ({error}); {_ALTERED}, or remove the file") from None
