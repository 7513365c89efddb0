"""What a release needs: workflows that name what exists, issue forms, and a citation that says the version."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from karelsynth import __version__

yaml: Any = pytest.importorskip("yaml")
ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
if not GITHUB.is_dir():  # a source distribution has none
    pytest.skip("no workflows here", allow_module_level=True)
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_complete(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}  # and no more, except where a job says so
    assert {"name", "jobs"} <= workflow.keys()
    assert True in workflow or "on" in workflow  # YAML reads `on` as a truth value
    for job in workflow["jobs"].values():
        assert {"runs-on", "timeout-minutes", "steps"} <= job.keys()
        needed = [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])
        assert set(needed) <= workflow["jobs"].keys()
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert "uses" not in step or re.fullmatch(r"[\w.-]+/[\w.-]+@[\w./]+", step["uses"])


def test_workflows_run_what_exists() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    targets = re.findall(r"run: make (\w+)", text)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    for named in re.findall(r"run_path\('([^']+)'\)", text):
        assert (ROOT / named).is_file()


def test_only_a_tag_is_published_and_no_secret_is_needed() -> None:
    release = load(GITHUB / "workflows" / "release.yml")
    publish = release["jobs"]["publish"]
    assert publish["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"]["name"] == "pypi"
    assert "secrets." not in (GITHUB / "workflows" / "release.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms(path: Path) -> None:
    form = load(path)
    assert {"name", "description", "body"} <= form.keys()
    for field in form["body"]:
        assert field["type"] in ("markdown", "textarea", "input", "dropdown", "checkboxes")
        assert field["attributes"]["label"]


def test_the_citation_is_of_this_version() -> None:
    citation = load(ROOT / "CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == __version__
    assert {"title", "message", "authors", "license", "url"} <= citation.keys()
    (paper,) = citation["references"]
    assert paper["doi"] == "10.48550/arXiv.1805.04276"
