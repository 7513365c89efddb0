"""MkDocs hooks: pages of the repository that stand outside docs/ become part of the site.

They are found below `repository/` there. Links are written for a reader of the repository, `../CHANGELOG.md` from a
page and `docs/log.md` from the changelog; the hooks turn both into links of the site.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any, Final

from mkdocs.structure.files import File

ROOT: Final = Path(__file__).parent.parent
OUTSIDE: Final = ("CONTRIBUTING.md", "CHANGELOG.md", "results/README.md", "src/karelsynth/pretrained/README.md")
_LINK: Final = re.compile(r"\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside docs/."""
    for name in OUTSIDE:
        files.append(File.generated(config, f"repository/{name}", abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links between docs/ and the rest of the repository at pages of the site."""
    own = page.file.src_uri
    path = PurePosixPath(_path(own))

    def link(match: re.Match[str]) -> str:
        target = normpath(path.parent / match[1])
        if target not in OUTSIDE and not target.startswith("docs/"):
            return match[0]
        return f"]({relpath(_uri(target), str(PurePosixPath(own).parent))}{match[2] or ''})"

    return _LINK.sub(link, markdown)


def _path(uri: str) -> str:
    """Where a page of the site stands in the repository."""
    return uri.removeprefix("repository/") if uri.startswith("repository/") else f"docs/{uri}"


def _uri(path: str) -> str:
    """Where a file of the repository stands in the site."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"repository/{path}"
