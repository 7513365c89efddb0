"""Saved models: weights in parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from karelsynth.errors import KarelsynthError
from karelsynth.model.storage import load_model, save_model
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
    (tmp_path / "model.safetensors.1-of-2").write_bytes(b"")
    with pytest.raises(KarelsynthError, match="weights in parts are beside it"):
        load_model(tmp_path)
    (tmp_path / "model.safetensors.1-of-2").unlink()
    (tmp_path / "model.safetensors").rename(tmp_path / "model.safetensors.x-of-y")
    with pytest.raises(KarelsynthError, match="rename or remove it"):
        load_model(tmp_path)
