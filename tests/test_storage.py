"""Saved models: weights in parts."""

from __future__ import annotations

import contextlib
import math
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from karelsynth.errors import KarelsynthError
from karelsynth.files import write_atomically
from karelsynth.model import storage
from karelsynth.model.storage import SHIPPED, load_model, model_folder, save_model
from karelsynth.model.synthesizer import Synthesizer
from tests.models import tiny_model


def test_weights_in_parts_are_read_as_one(tmp_path: Path) -> None:
    model = tiny_model(syntax="learned")
    save_model(tmp_path, model.settings, model.state_dict(), torch.bfloat16, part_bytes=1000)
    parts = sorted(path.name for path in tmp_path.glob("model.safetensors*"))
    assert len(parts) > 2
    assert all(path.stat().st_size <= 1000 for path in tmp_path.glob("model.safetensors*"))
    loaded = Synthesizer.from_pretrained(tmp_path)
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value.bfloat16().float()), name
    (tmp_path / parts[0]).unlink()
    with pytest.raises(KarelsynthError, match=re.escape(f"{parts[0]}: there is no such file")):
        load_model(tmp_path)
    save_model(tmp_path, model.settings, model.state_dict(), None)
    assert [path.name for path in tmp_path.glob("model.safetensors*")] == ["model.safetensors"]
    (tmp_path / "model.safetensors").rename(tmp_path / "model.safetensors.x-of-y")
    with pytest.raises(KarelsynthError, match="rename or remove it"):
        load_model(tmp_path)


def test_only_the_bare_name_is_the_shipped_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tiny_model().save_pretrained("shipped")
    assert model_folder(SHIPPED).is_absolute()
    assert load_model(SHIPPED)[0].execution
    for folder in ("./shipped", Path("shipped"), tmp_path / "shipped"):
        assert load_model(folder)[0] == tiny_model().settings


@pytest.mark.parametrize("before", [None, 40_000, 60_000])
@pytest.mark.parametrize("after", [None, 40_000])
def test_saving_that_is_killed_never_leaves_parts_of_two_models(
    before: int | None, after: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after any number of files: the old weights, the new ones, or a message that some are missing."""
    old, new = (tiny_model(seed=seed) for seed in (1, 2))
    lost = range(3) if after else ()  # of three parts
    read = 0
    for files in range(6):
        monkeypatch.setattr(storage, "write_atomically", write_atomically)
        save_model(tmp_path, old.settings, old.state_dict(), None, part_bytes=before)
        left = iter(range(files))

        def killed(path: Path, content: bytes, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            write_atomically(path, content)

        monkeypatch.setattr(storage, "write_atomically", killed)
        with contextlib.suppress(KeyboardInterrupt):
            save_model(tmp_path, new.settings, new.state_dict(), None, part_bytes=after)
        if files in lost:
            with pytest.raises(KarelsynthError, match="there is no such file"):
                load_model(tmp_path)
            continue
        _, weights = load_model(tmp_path)
        read += 1
        assert any(
            all(torch.equal(weights.tensors[name], value) for name, value in model.state_dict().items())
            for model in (old, new)
        )
    assert read == 6 - len(lost)


def test_flipped_bits_are_found_and_named(tmp_path: Path) -> None:
    model = tiny_model()
    save_model(tmp_path, model.settings, model.state_dict(), torch.bfloat16, part_bytes=40_000)
    files = sorted(path for path in tmp_path.iterdir() if path.name != "SHA256SUMS")
    assert len(files) > 2
    rng = random.Random(0)
    for path in files:
        whole = path.read_bytes()
        for _ in range(5):
            at = rng.randrange(len(whole))
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
            with pytest.raises(KarelsynthError, match=f"{re.escape(path.name)}: does not match its checksum"):
                load_model(tmp_path)
        path.write_bytes(whole)
    load_model(tmp_path)
    sums = tmp_path / "SHA256SUMS"
    sums.write_text("nonsense\n")
    with pytest.raises(KarelsynthError, match="not a list of checksums"):
        load_model(tmp_path)
    sums.unlink()  # as in models of earlier versions
    load_model(tmp_path)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum")
def test_the_shipped_checksums_can_be_compared_by_hand() -> None:
    folder = model_folder(SHIPPED)
    listed = {line.split()[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    assert listed == {"config.json", "model.safetensors"}
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_no_numbers_are_refused_by_name(dtype: torch.dtype, value: float, tmp_path: Path) -> None:
    model = tiny_model()
    tensors = dict(model.state_dict())
    name = sorted(tensors)[3]
    tensors[name] = tensors[name].clone()
    tensors[name].view(-1)[-1] = value
    save_model(tmp_path, model.settings, tensors, dtype)
    with pytest.raises(KarelsynthError, match=f"`{re.escape(name)}` holds numbers that are infinite or not a number"):
        Synthesizer.from_pretrained(tmp_path)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path)
    (tmp_path / "SHA256SUMS").unlink()
    (tmp_path / "config.json").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(KarelsynthError, match=r"config\.json: too large: more than 1,048,576 bytes"):
        load_model(tmp_path)


@pytest.mark.parametrize("device", ["gpu", "meta", "cuda:99", "hpu"])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    with pytest.raises(KarelsynthError, match=f"there is no device `{device}` here"):
        Synthesizer.from_pretrained(SHIPPED, device)
