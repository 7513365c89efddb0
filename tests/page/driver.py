"""What a person does on the page and sees there, in words of its tests."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, Route, expect

PATIENCE = 20_000
"""Milliseconds until something that does not happen counts as failed; long, as tests run side by side."""
TWO_AND_PUT = "def run():\n  move()\n  move()\n  putMarker()"
TAKE_ALL = "def run():\n  while(frontIsClear):\n    move()\n    while(markersPresent):\n      pickMarker()"
TAKE_ONE = "def run():\n  while(frontIsClear):\n    move()\n    if(markersPresent):\n      pickMarker()"
POOL = (TAKE_ALL, TAKE_ONE, TWO_AND_PUT)

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
ONE = {"input": "> . 1 . 1 .\n. . . . . .", "output": ". . . . . >\n. . . . . ."}
TWO = {"input": "> 2 .\n. . .", "output": ". . >\n. . ."}
PUT = {"input": "> . . .\n. . . .", "output": ". . >1 .\n. . . ."}
STARTER = "def run():\n  move()"
LESSON: dict[str, Any] = {
    "karelsynth": "challenges",
    "title": "Week 2",
    "challenges": [
        {
            "name": "Clean",
            "about": "Take all markers.",
            "examples": [ONE],
            "hidden": [TWO],
            "starter": STARTER,
            "hints": 1,
        },
        {"name": "Put", "examples": [PUT], "hints": 0},
    ],
}

NewPage = Callable[..., Page]


def link(examples: list[tuple[str, str]], name: str = "") -> str:
    """The part of an address that holds a task."""
    pairs = [{"input": before, "output": after} for before, after in examples]
    squeezer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    text = json.dumps({"name": name, "about": "", "examples": pairs}).encode()
    return "#task=" + base64.urlsafe_b64encode(squeezer.compress(text) + squeezer.flush()).decode().rstrip("=")


ROW = link([(". . . . . .\n. . . . . .\n> . 1 . 1 .", ". . . . . .\n. . . . . .\n. . . . . >")])
"""One example, in which Karel takes the markers of a row."""


def grid(page: Page, label: str) -> Locator:
    return page.get_by_role("grid", name=label, exact=True)


def cell(page: Page, label: str, row: int, col: int) -> Locator:
    return grid(page, label).locator(f"[data-at='{row},{col}']")


def content(page: Page, label: str, row: int, col: int) -> str:
    """What a screen reader says is on a cell."""
    said = cell(page, label, row, col).get_attribute("aria-label") or ""
    return said.partition(": ")[2]


def tool(page: Page, name: str) -> None:
    page.locator("#tools").get_by_role("radio", name=name, exact=True).click()


def solve(page: Page, kind: str = "solved") -> None:
    page.click("#solve")
    expect(page.locator("#result")).to_have_attribute("data-kind", kind)
    expect(page.locator("#result")).to_be_visible()


def question(page: Page) -> Locator:
    """The question which outcome is meant, unfolded."""
    asked = page.locator("#ambiguity")
    expect(asked).to_be_visible()
    if not asked.evaluate("asked => asked.open"):
        asked.locator("summary").click()
    return asked


def share(page: Page) -> str:
    """The part of the address that holds the task, once it has been shared."""
    page.click("#share-task")
    page.click("#share-copy")
    page.wait_for_url("**/#task=*")
    return "#" + page.url.partition("#")[2]


def resize(page: Page, rows: int, cols: int) -> None:
    for name, value in (("Rows", rows), ("Columns", cols)):
        field = page.locator("#examples li").last.get_by_role("spinbutton", name=name)
        field.fill(str(value))
        field.press("Enter")


def expect_verdicts(page: Page, *expected: str) -> None:
    expect(page.locator("#examples .verdict:visible")).to_have_text(list(expected))


def opened(page: Page, tmp_path: Path) -> Page:
    """The page with the lesson open, as a student gets it."""
    (tmp_path / "lesson.json").write_text(json.dumps(LESSON), encoding="utf-8")
    page.set_input_files("#task-file", tmp_path / "lesson.json")
    page.wait_for_selector("html[data-challenge][data-ready]")
    return page


def hasty(page: Page) -> Page:
    """Probes for a moment only: these tests are not about how much is found."""

    def shorter(route: Route) -> None:
        route.continue_(post_data=json.dumps({**(route.request.post_data_json or {}), "budget": 0.3}))

    page.route("**/api/probe", shorter)
    return page


def violations(page: Page) -> list[str]:
    """The accessibility rules that the page breaks, by axe."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found]
