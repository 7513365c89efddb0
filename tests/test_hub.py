"""Models and the original's validation set from a hub: one of our own, on loopback."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from karelsynth.errors import KarelsynthError, MissingExtra
from karelsynth.hub import download_model, is_hub_id
from karelsynth.model.storage import model_folder
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.tasks import original_files
from karelsynth.tasks.generate import generate
from karelsynth.tasks.msr_tasks import write_tasks
from karelsynth.tasks.original_files import ORIGINALS, recognise_original
from karelsynth.tasks.sets import load_tasks, open_set
from tests.command_line import call
from tests.models import tiny_model

pytest.importorskip("huggingface_hub")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CARD = Path(__file__).parent.parent / "src" / "karelsynth" / "pretrained" / "README.md"
pytestmark = pytest.mark.filterwarnings("default")  # those of other packages are theirs


class Hub(ThreadingHTTPServer):
    """A server with files by path, as the hub serves them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        """By `owner/name/file`; data sets have `datasets/` in front."""
        self.asked: list[str] = []
        self.faults: list[str] = []
        """What goes wrong with the next downloads: `cut` ends one in its middle, `flip` changes a byte."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        self.server.asked.append(self.path)
        if found := re.fullmatch(r"/api/models/([\w.-]+/[\w.-]+)(?:/revision/\w+)?(\?.*)?", self.path):
            names = [name.removeprefix(f"{found[1]}/") for name in self.server.files if name.startswith(f"{found[1]}/")]
            content: bytes | None = json.dumps(
                {"id": found[1], "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
            ).encode()
            content = content if names else None
        elif found := re.fullmatch(r"/api/models/([\w.-]+/[\w.-]+)/tree/\w+(\?.*)?", self.path):
            own = {name: data for name, data in self.server.files.items() if name.startswith(f"{found[1]}/")}
            entries = [
                {"type": "file", "path": name.removeprefix(f"{found[1]}/"), "size": len(data), "oid": "0" * 40}
                for name, data in own.items()
            ]
            content = json.dumps(entries).encode()
        else:
            path = re.sub(r"/resolve/[^/]+/", "/", self.path.split("?")[0]).lstrip("/")
            content = self.server.files.get(path)
        self.send_response(404 if content is None else 200)
        if content is None:
            self.send_header("X-Error-Code", "RepoNotFound" if "/api/" in self.path else "EntryNotFound")
            self.send_header("Content-Length", "0")
        else:
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body and content is not None:
            fault = self.server.faults.pop(0) if self.server.faults and "/resolve/" in self.path else None
            if fault == "flip":
                content = content[:-1] + bytes([content[-1] ^ 1])
            self.wfile.write(content[: len(content) // 2] if fault == "cut" else content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        download_model.cache_clear()
        yield server
        download_model.cache_clear()
        server.shutdown()


# Models


def test_what_is_an_id_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for name in ("someone/karel", "someone/karel@v1", "some.one/karel-2_0"):
        assert is_hub_id(name)
    for name in ("karel", "./karel", "runs/mle", "runs/mle/best", "/a/b", "a/b/c", "../a/b", "someone/", "~/karel"):
        assert not is_hub_id(name)
    assert model_folder("runs/mle") == Path("runs/mle")
    assert model_folder(Path("someone/karel")) == Path("someone/karel")


def test_a_model_of_the_hub_is_loaded(hub: Hub, tmp_path: Path) -> None:
    tiny_model(seed=4).save_pretrained(tmp_path / "model")
    for path in (tmp_path / "model").iterdir():
        hub.files[f"someone/karel/{path.name}"] = path.read_bytes()
    hub.files["someone/karel/training.log"] = b"not needed"
    for name in ("someone/karel", f"someone/karel@{COMMIT}"):
        model = Synthesizer.from_pretrained(name)
        assert all(
            (one == two).all()
            for one, two in zip(model.state_dict().values(), tiny_model(seed=4).state_dict().values(), strict=True)
        )
    assert not any("training.log" in path and "resolve" in path for path in hub.asked)
    said = call("evaluate", "someone/karel", "test", "--limit", 2, "--beam", 2, "--device", "cpu").stdout
    assert "unfiltered top-1" in said


def test_a_model_that_is_not_there(hub: Hub) -> None:
    message = "no/such: there is no such folder here, and it cannot be downloaded from the Hugging Face hub: 404"
    with pytest.raises(KarelsynthError, match=message):
        Synthesizer.from_pretrained("no/such")


def test_a_hub_that_cannot_be_reached(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between its tries
    with pytest.raises(KarelsynthError, match=r"no/such: .* cannot be downloaded from the Hugging Face hub"):
        Synthesizer.from_pretrained("no/such")
    with pytest.raises(KarelsynthError, match=r"val\.zip of the data set .*dataset_Karel cannot be downloaded from"):
        call("download-val", "--out", tmp_path / "set")


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"no/such2: there is no such folder here, .* 'karelsynth\[hub\]'"):
        Synthesizer.from_pretrained("no/such2")
    with pytest.raises(MissingExtra, match=r"^val\.zip of the data set .*: pip install 'karelsynth\[hub\]'"):
        call("download-val", "--out", tmp_path / "set")


def test_the_card_has_the_hubs_header() -> None:
    """Its figures are those of the table below it."""
    from huggingface_hub import ModelCard

    card = ModelCard.load(CARD)
    data = card.data.to_dict()
    assert (data["license"], data["library_name"]) == ("mit", "karelsynth")
    assert "program-synthesis" in data["tags"]
    (model,) = data["model-index"]
    metrics = [metric for result in model["results"] for metric in result["metrics"]]
    assert len(metrics) >= 3
    for metric in metrics:
        assert f"{metric['value']:.2f}" in card.text


# The original's validation set


def archive(content: bytes, name: str = "val.json") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, content)
        file.writestr("__MACOSX/._val.json", b"")
    return packed.getvalue()


@pytest.fixture
def original(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A small file in the place of the original's, with its checksums."""
    write_tasks([generate(5, 0, 6, reserved=True)], tmp_path / "val.json")
    content = (tmp_path / "val.json").read_bytes()
    packed = archive(content)
    known = ORIGINALS["val"]._replace(
        revision=COMMIT,
        archive=hashlib.sha256(packed).hexdigest(),
        content=hashlib.sha256(content).hexdigest(),
        tasks=6,
    )
    monkeypatch.setitem(original_files.ORIGINALS, "val", known)
    hub.files[f"datasets/{known.repository}/{known.file}"] = packed
    return content


def test_the_validation_set_is_downloaded_checked_and_imported(hub: Hub, original: bytes, tmp_path: Path) -> None:
    said = call("download-val", "--out", tmp_path / "set").stdout
    assert "this is the original's `val`, 6 tasks: its checksum is right" in said
    tasks = open_set(tmp_path / "set")
    assert tasks[:].digest == generate(5, 0, 6, reserved=True).digest
    source = json.loads((tmp_path / "set" / "manifest.json").read_text())["source"]
    assert source == {"kind": "imported", "file": "val.zip", "original": "val"}
    assert any(f"/resolve/{ORIGINALS['val'].revision}/val.zip" in path for path in hub.asked)
    assert load_tasks(tmp_path / "set").digest == tasks[:].digest


def test_import_recognises_it_in_any_packing(original: bytes, tmp_path: Path) -> None:
    import gzip

    files = {"a.json": original, "a.jsonl.gz": gzip.compress(original), "a.zip": archive(original, "any.jsonl")}
    for number, (name, content) in enumerate(files.items()):
        (tmp_path / name).write_bytes(content)
        assert (
            "this is the original's `val`"
            in call("import-msr", tmp_path / name, "--out", tmp_path / str(number)).stdout
        )
    (tmp_path / "other.json").write_bytes(original + b"\n")
    said = call("import-msr", tmp_path / "other.json", "--out", tmp_path / "other").stdout
    assert "this is the original's" not in said
    assert "original" not in json.loads((tmp_path / "other" / "manifest.json").read_text())["source"]
    assert recognise_original("-") is recognise_original(tmp_path) is recognise_original(tmp_path / "none") is None


def test_another_file_in_its_place_is_refused(hub: Hub, original: bytes, tmp_path: Path) -> None:
    known = ORIGINALS["val"]
    hub.files[f"datasets/{known.repository}/{known.file}"] = archive(original, "renamed.json")
    with pytest.raises(KarelsynthError, match=rf"not the original's file: its SHA-256 is \w+, and {known.archive}"):
        call("download-val", "--out", tmp_path / "set")
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize("fault", ["cut", "flip"])
def test_a_download_that_was_cut_off_or_damaged_is_made_again(
    hub: Hub, original: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The package of the hub does not compare checksums itself, and keeps what it has in its cache."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between its tries
    hub.faults = [fault]
    assert "its checksum is right" in call("download-val", "--out", tmp_path / "set").stdout
    assert hub.faults == []
    assert open_set(tmp_path / "set")[:].digest == generate(5, 0, 6, reserved=True).digest


def test_a_damaged_copy_cannot_be_replaced_while_the_hub_is_switched_off(
    hub: Hub, original: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("download-val", "--out", tmp_path / "set")
    (copy,) = (path for path in (tmp_path / "cache").rglob("blobs/*") if path.is_file())
    copy.write_bytes(copy.read_bytes()[:-1])
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        KarelsynthError, match=r"(?s)its SHA-256 is .*\nval\.zip of the data set .* cannot be downloaded"
    ):
        call("download-val", "--out", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_file_in_the_folders_place_is_said_before_the_download(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "set").write_text("mine")
    with pytest.raises(KarelsynthError, match="a file of that name is in the way"):
        call("download-val", "--out", tmp_path / "set")
    assert hub.asked == []


def test_other_lines_in_the_archive_are_refused(
    hub: Hub, original: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = archive(original + b"\n")
    known = ORIGINALS["val"]._replace(archive=hashlib.sha256(packed).hexdigest())
    monkeypatch.setitem(original_files.ORIGINALS, "val", known)
    hub.files[f"datasets/{known.repository}/{known.file}"] = packed
    with pytest.raises(KarelsynthError, match="its JSON lines are not the original's"):
        call("download-val", "--out", tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_archives_that_cannot_be_read(tmp_path: Path) -> None:
    for content, message in (
        (archive(b"")[:30], "the archive is cut off or damaged"),
        (archive(b"", "readme.txt"), "an archive with 0 files of JSON lines, and one is expected"),
    ):
        (tmp_path / "a.zip").write_bytes(content)
        with pytest.raises(KarelsynthError, match=message):
            call("import-msr", tmp_path / "a.zip", "--out", tmp_path / "set")
        assert not (tmp_path / "set").exists()


def test_the_command_as_users_run_it_says_what_is_wrong(hub: Hub, tmp_path: Path) -> None:
    """In a process of its own, with the real checksums: the stub's file is not the original's."""
    known = ORIGINALS["val"]
    packed = archive(b"{}\n")
    hub.files[f"datasets/{known.repository}/{known.file}"] = packed
    command = [sys.executable, "-m", "karelsynth", "download-val", "--out", str(tmp_path / "set")]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "HF_HOME": str(tmp_path / "home")}
    )
    assert done.returncode == 1
    assert f"its SHA-256 is {hashlib.sha256(packed).hexdigest()}" in done.stderr
    assert "Traceback" not in done.stderr
