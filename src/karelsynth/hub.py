"""Files from the Hugging Face hub, by the package `huggingface_hub` (the extra `hub`).

It keeps what it has downloaded in its own cache. `HF_ENDPOINT` names another server, and `HF_HUB_OFFLINE=1` allows the
cache only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from karelsynth.errors import KarelsynthError, MissingExtra
from karelsynth.files import exists, is_folder

MODEL_FILES: Final = ("config.json", "model.safetensors*", "recipe.json", "SHA256SUMS", "README.md")
_ID: Final = re.compile(r"(?P<repository>(?P<owner>[A-Za-z0-9][\w.-]*)/[\w.-]+)(@(?P<revision>[\w./-]+))?")

_THEIRS: Final = ("huggingface_hub", "httpx", "httpx2", "requests", "hf_xet")
"""Packages whose errors mean that a file cannot be downloaded. Which of them are installed depends on the version."""


def is_hub_id(name: str) -> bool:
    """Whether a model's name is one of the hub, `owner/name` or `owner/name@revision`, and no path here."""
    match = _ID.fullmatch(name)
    return match is not None and not exists(name) and not is_folder(match["owner"])


@cache
def download_model(name: str) -> Path:
    """The folder of a model of the hub; raises KarelsynthError if it cannot be downloaded."""
    match = _ID.fullmatch(name)
    assert match is not None
    with _readable_errors(f"{name}: there is no such folder here, and it"):
        from huggingface_hub import snapshot_download

        found = snapshot_download(
            match["repository"], revision=match["revision"], allow_patterns=list(MODEL_FILES), **_server()
        )
    return Path(str(found))


def download_dataset_file(repository: str, file: str, revision: str, *, again: bool = False) -> Path:
    """One file of a data set of the hub, at a revision; raises KarelsynthError if it cannot be downloaded.

    With `again`, a copy in the cache is replaced.
    """
    with _readable_errors(f"{file} of the data set {repository}"):
        from huggingface_hub import hf_hub_download

        found = hf_hub_download(
            repository, file, repo_type="dataset", revision=revision, force_download=again, **_server()
        )
    return Path(str(found))


def _server() -> dict[str, Any]:
    """Server and cache, read at each call rather than when `huggingface_hub` is imported."""
    return {"endpoint": os.environ.get("HF_ENDPOINT"), "cache_dir": os.environ.get("HF_HUB_CACHE")}


@contextmanager
def _readable_errors(what: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("huggingface_hub"):
            raise
        raise MissingExtra(
            f"{what} would be downloaded from the Hugging Face hub, which needs huggingface_hub: pip install "
            "'karelsynth[hub]' (karelsynth[all] has everything)",
            name="huggingface_hub",
        ) from None
    except Exception as error:  # of many kinds: the network's, the server's, the cache's
        # ValueError: settings that contradict each other, such as a download while the hub is switched off.
        if not isinstance(error, OSError | ValueError) and type(error).__module__.split(".")[0] not in _THEIRS:
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        # Of a refused request, the second line says what is missing: the repository, the revision or the file.
        reason = " ".join(lines[:2]) if "Client Error" in lines[0] else lines[0]
        raise KarelsynthError(f"{what} cannot be downloaded from the Hugging Face hub: {reason}") from None
