"""Weights of rows in one archive: to carry them from one session to the next, and to publish them.

    pack_weights([Path("runs/reproduce-long/mle-seed0")], Path("mle.zip"), part_bytes=15_000_000)
    check_weights(Path("mle.zip"))
    unpack_weights(Path("mle.zip"), Path("kept"))        # then `karelsynth reproduce … --keep kept`

The archive is a zip file with a folder for each model, and `manifest.json` with the SHA-256 of all weights. Weights are
in bfloat16. Their first and second bytes are stored apart, since only the ones with the exponent can be compressed: the
paper's network takes 17 to 18 MB instead of 25. Nothing else is lost. Large archives are split into `NAME.1-of-2` and
so on.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

import safetensors.torch
import torch

from karelsynth.errors import KarelsynthError
from karelsynth.files import exists, write_atomically
from karelsynth.model.storage import CONFIG, RECIPE, WEIGHTS, joined_parts, load_model, write_model_files, write_parts
from karelsynth.parsing import parse_json, reading_zip
from karelsynth.reproduce.results import read_json
from karelsynth.reproduce.trained import KEPT, is_finished, read_run
from karelsynth.train.loop import BEST

PART_BYTES: Final = 15_000_000
_MANIFEST: Final = "manifest.json"
_PLANES: Final = "weights.planes"
_FORMAT: Final = 1
_LARGEST: Final = 2**31
"""Bytes of the largest file in an archive."""
_AGAIN: Final = "save the model again"


class ArchiveError(KarelsynthError):
    """An archive that cannot be made or used."""


def pack_weights(folders: Sequence[Path], archive: Path, part_bytes: int | None = None) -> int:
    """Write the models of runs, of kept models, or of any model's folder; returns the number of bytes.

    Of a run, the model that validation chose is packed; the run must have finished. A model is named after its folder.
    """
    if not folders:
        raise ArchiveError("there is no model to pack: name the folders of runs or models")
    names = [folder.resolve().name for folder in folders]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ArchiveError(f"two models are called {twice}; pack them into different archives, or rename a folder")
    content, digests = io.BytesIO(), dict[str, dict[str, Any]]()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as file:
        for name, folder in zip(names, folders, strict=True):
            model, record = _described(folder)
            weights = _in_bfloat16(model)
            digests[name] = {"sha256": hashlib.sha256(weights).hexdigest(), "bytes": len(weights)}
            for member, data in (
                (CONFIG, (model / CONFIG).read_bytes()),
                (KEPT, json.dumps(record, indent=1).encode()),
                (_PLANES, weights[::2] + weights[1::2]),
            ):
                file.writestr(_entry(f"{name}/{member}"), data)
        file.writestr(_entry(_MANIFEST), json.dumps({"format": _FORMAT, "models": digests}, indent=1))
    data = content.getvalue()
    write_parts(archive, data, part_bytes)
    return len(data)


def _entry(name: str) -> zipfile.ZipInfo:
    """An entry without a date, so that the same weights give the same archive."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _described(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of the model itself, and its recipe, start and cost of training, as far as they are known."""
    if exists(folder / BEST):
        if not is_finished(folder):
            raise ArchiveError(f"{folder}: this run has not finished; run it to its end, or pack {folder / BEST}")
        trained = read_run(folder)
        recipe = read_json(folder / BEST / RECIPE, _AGAIN)
        return folder / BEST, {"recipe": recipe, "start": trained.start, "training": trained.training}
    if not exists(folder / CONFIG):
        raise ArchiveError(f"{folder}: neither a run nor a model: there is no {BEST} and no {CONFIG} in it")
    if exists(folder / KEPT):
        return folder, read_json(folder / KEPT, _AGAIN)
    return folder, {"recipe": read_json(folder / RECIPE, _AGAIN) if exists(folder / RECIPE) else None}


def _in_bfloat16(model: Path) -> bytes:
    _, weights = load_model(model)
    small = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in weights.tensors.items()}
    return safetensors.torch.save(small, metadata={"format": "pt"})


def check_weights(archive: Path) -> list[str]:
    """The names of an archive's models; raises ArchiveError unless all of it is intact."""
    return [name for name, _ in _read(archive)]


def unpack_weights(archive: Path, folder: Path) -> list[Path]:
    """Write every model of an archive to its own folder below `folder`, as `--keep` has them; returns these folders.

    The whole archive is checked first. A folder that exists is replaced file by file.
    """
    written = []
    for name, members in _read(archive):
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        record = parse_json(members[KEPT])
        write_model_files(target, members[CONFIG], members[WEIGHTS], PART_BYTES)
        if record.get("recipe") is not None:
            write_atomically(target / RECIPE, json.dumps(record["recipe"], indent=1).encode())
        if "training" in record:
            write_atomically(target / KEPT, members[KEPT])  # last: it marks the folder as complete
        written.append(target)
    return written


def _read(archive: Path) -> list[tuple[str, dict[str, bytes]]]:
    """Every model's files by name, checked."""
    with (
        reading_zip(ArchiveError, f"{archive}: not an intact archive of weights; get it again"),
        zipfile.ZipFile(io.BytesIO(joined_parts(archive))) as file,
    ):
        manifest = parse_json(_member(file, _MANIFEST))
        if not isinstance(manifest, dict) or not isinstance(manifest.get("models"), dict):
            raise ValueError(f"{_MANIFEST} lists no models")
        if manifest.get("format") != _FORMAT:
            raise ArchiveError(f"{archive}: of another version (format {manifest.get('format')}); update karelsynth")
        models = []
        for name, known in manifest["models"].items():
            if PurePosixPath(name).name != name or name in (".", "..") or "\0" in name:
                raise ValueError(f"`{name}` is no folder's name")
            members = {member: _member(file, f"{name}/{member}") for member in (CONFIG, KEPT, _PLANES)}
            weights = _interleaved(members.pop(_PLANES))
            if not isinstance(known, dict) or hashlib.sha256(weights).hexdigest() != known.get("sha256"):
                raise ValueError(f"the weights of {name} are not those that were packed")
            if not isinstance(parse_json(members[KEPT]), dict):
                raise ValueError(f"{name}/{KEPT} is no JSON object")
            models.append((name, {**members, WEIGHTS: weights}))
        return models


def _member(file: zipfile.ZipFile, name: str) -> bytes:
    """A file of an archive. It has no more bytes than the archive says, and that is bounded."""
    if file.getinfo(name).file_size > _LARGEST:
        raise ValueError(f"{name} has more than {_LARGEST:,} bytes")
    return file.read(name)


def _interleaved(planes: bytes) -> bytes:
    whole, half = bytearray(len(planes)), -(-len(planes) // 2)
    whole[::2], whole[1::2] = planes[:half], planes[half:]
    return bytes(whole)
