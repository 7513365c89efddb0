"""Saved models: weights in parts."""

from __future__ import annotations

import contextlib
import re
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


@pytest.mark.parametrize("device", ["gpu", "meta", "cuda:99", "hpu"])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    with pytest.raises(KarelsynthError, match=f"there is no device `{device}` here"):
        Synthesizer.from_pretrained(SHIPPED, device)
