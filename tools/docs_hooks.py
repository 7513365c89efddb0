"""MkDocs hooks: pages of the repository that stand outside docs/ become part of the site.

Notebooks in docs/ become pages, too, with the outputs that are stored in them.

They are found below `repository/` there. Links are written for a reader of the repository, `../CHANGELOG.md` from a
page and `docs/log.md` from the changelog; the hooks turn both into links of the site.
"""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any, Final

from mkdocs.structure.files import File

ROOT: Final = Path(__file__).parent.parent
OUTSIDE: Final = ("CONTRIBUTING.md", "CHANGELOG.md", "results/README.md", "src/karelsynth/pretrained/README.md")
_LINK: Final = re.compile(r"\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside docs/, and make pages of notebooks."""
    for path in sorted((ROOT / "docs").rglob("*.ipynb")):
        name = path.relative_to(ROOT / "docs").as_posix()
        files.remove(files.get_file_from_path(name))
        page = NotebookFile(name, config.docs_dir, config.site_dir, config.use_directory_urls)
        files.append(page)
    for name in OUTSIDE:
        files.append(File.generated(config, f"repository/{name}", abs_src_path=str(ROOT / name)))
    return files


class NotebookFile(File):
    """A notebook as a page of the site."""

    def is_documentation_page(self) -> bool:
        return True

    @property  # type: ignore[misc]  # the base class also sets it
    def content_string(self) -> str:
        assert self.abs_src_path is not None
        return notebook_page(Path(self.abs_src_path))


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: its text, its code, and the stored outputs."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else fenced(source, "python"))
        parts += [_output(output) for output in cell.get("outputs", ())]
    return "\n\n".join(part for part in parts if part) + "\n"


def _output(output: Any) -> str:
    """An output: a picture, or text. Standard error, such as progress bars, is left out."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        svg = " ".join("".join(data["image/svg+xml"]).split())  # on one line: a blank one would end the block
        return f"<div>{svg}</div>"
    text = "".join(data.get("text/plain", output.get("text", "") if output.get("name") != "stderr" else ""))
    return fenced(text.rstrip(), "text") if text.strip() else ""


def fenced(text: str, language: str) -> str:
    """A text as a block of code, with a longer fence than any in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


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
