"""Archives of weights: the same models come out, damage is noticed, and RL rows start from them."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from karelsynth.cli import app
from karelsynth.errors import KarelsynthError
from karelsynth.model.storage import load_model
from karelsynth.reproduce.archive import ArchiveError, check_weights, pack_weights, unpack_weights
from karelsynth.reproduce.running import Paths
from tests.reproduce.small import jobs, runner


@pytest.mark.parametrize("part_bytes", [None, 3_000])
def test_packed_weights_are_restored(part_bytes: int | None, measured: Paths, tmp_path: Path) -> None:
    """A run's folder and a kept model's, whole and in parts; the same again gives the same bytes."""
    assert measured.keep is not None
    folders = [measured.runs / "small_rl_beam-seed0", measured.keep / "mle-seed0"]
    archive = tmp_path / "weights.zip"
    size = pack_weights(folders, archive, part_bytes)
    parts = sorted(tmp_path.glob("weights.zip*"))
    assert sum(part.stat().st_size for part in parts) == size
    assert len(parts) == (1 if part_bytes is None else -(-size // part_bytes))
    assert check_weights(archive) == ["small_rl_beam-seed0", "mle-seed0"]
    for folder, model in zip(unpack_weights(archive, tmp_path / "out"), (folders[0] / "best", folders[1]), strict=True):
        (settings, found), (known, before) = load_model(folder), load_model(model)
        assert settings == known
        for name, tensor in before.tensors.items():
            assert torch.equal(found.tensors[name], tensor.to(torch.bfloat16))
        record = json.loads((folder / "trained.json").read_text())
        assert record["recipe"] == json.loads((folder / "recipe.json").read_text())
        assert record["training"]["tasks"] == 16
    if part_bytes is None:
        content = archive.read_bytes()
        pack_weights(folders, archive)
        assert archive.read_bytes() == content


def test_rl_starts_from_restored_weights(measured: Paths, tmp_path: Path) -> None:
    """As in a new session: neither the run nor the kept model of before is there."""
    assert measured.keep is not None
    pack_weights([measured.keep / "small_mle-seed0"], tmp_path / "mle.zip")
    unpack_weights(tmp_path / "mle.zip", tmp_path / "kept")
    paths = replace(measured, runs=tmp_path / "runs", results=tmp_path / "results", keep=tmp_path / "kept")
    wanted = jobs("small_rl_signed")
    assert runner(paths).run(wanted) == dict.fromkeys(wanted, "done")
    assert not (tmp_path / "runs" / "small_mle-seed0").exists()


def test_damage_is_noticed(measured: Paths, tmp_path: Path) -> None:
    archive = tmp_path / "weights.zip"
    pack_weights([measured.runs / "small_mle-seed1"], archive, 2_000)
    parts = sorted(tmp_path.glob("weights.zip.*"))
    whole = parts[1].read_bytes()
    parts[1].write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with pytest.raises(ArchiveError, match="not an intact archive of weights"):
        unpack_weights(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    parts[1].unlink()
    with pytest.raises(KarelsynthError, match="there is no such file"):
        check_weights(archive)
    with zipfile.ZipFile(tmp_path / "foreign.zip", "w") as file:
        file.writestr("a", "b")
    with pytest.raises(ArchiveError, match=r"foreign\.zip: not an intact archive"):
        check_weights(tmp_path / "foreign.zip")
    with pytest.raises(ArchiveError, match="neither a run nor a model"):
        pack_weights([tmp_path], archive)
    unfinished = tmp_path / "unfinished"
    (unfinished / "best").mkdir(parents=True)
    with pytest.raises(ArchiveError, match="has not finished"):
        pack_weights([unfinished], archive)
    with pytest.raises(ArchiveError, match="two models are called small_mle-seed1"):
        pack_weights([measured.runs / "small_mle-seed1"] * 2, archive)


def test_the_commands(measured: Paths, tmp_path: Path) -> None:
    def call(*arguments: object) -> str:
        ended = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
        assert ended.exit_code == 0
        return ended.output

    archive = tmp_path / "weights.zip"
    assert "packed 1 into" in call("pack-weights", measured.runs / "rl_beam-seed0", "--out", archive)
    assert "intact: rl_beam-seed0" in call("unpack-weights", archive)
    assert "restored: " in call("unpack-weights", archive, "--out", tmp_path / "models")
    assert (tmp_path / "models" / "rl_beam-seed0" / "model.safetensors").is_file()
