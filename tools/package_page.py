"""The package's page on PyPI: the README, with links that work there. The build runs this (`pyproject.toml`).

A link within the repository needs an address. On GitHub, the workflow's environment says the repository and the tag,
and the links lead there. Anywhere else they become plain text, and pictures are left out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK: Final = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!https?:)(?P<target>[^)#]+)(?P<anchor>#[^)]*)?\)")


class PackagePage(MetadataHookInterface):  # type: ignore[misc]  # the build has it, we do not
    """Gives the package's metadata their `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository, ref = os.environ.get("GITHUB_REPOSITORY"), os.environ.get("GITHUB_REF_NAME", "main")
        server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
        address = f"{server}/{repository}" if repository else None
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_links(text, address, ref)}
        metadata["urls"] = {"Source": address, "Issues": f"{address}/issues"} if address else {}


def with_links(text: str, address: str | None, ref: str) -> str:
    """Markdown whose links into the repository lead to its `address`, or are plain text without one."""

    def replaced(match: re.Match[str]) -> str:
        if address is None:
            return "" if match["picture"] else match["text"]
        kind = "raw" if match["picture"] else "blob"
        target = f"{address}/{kind}/{ref}/{match['target']}{match['anchor'] or ''}"
        return f"{match['picture']}[{match['text']}]({target})"

    return re.sub(r"\n{3,}", "\n\n", _LINK.sub(replaced, text))
