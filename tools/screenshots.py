"""Take the pictures of the page in docs/pictures: light, dark and on a phone, with a task solved, and a challenge.

    python tools/screenshots.py                         # over those in docs/pictures
    python tools/screenshots.py --out /tmp/pictures     # elsewhere, to look at them first

It starts a server of its own, with the solver if there are weights for it; without, a stand-in that knows the
gallery's programs. Needs Chromium and the development packages (`make test` installs both).
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import sys
import zlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Browser, Page, sync_playwright  # noqa: E402
from tests.page_server import PoolSolver, served  # noqa: E402

from karelsynth.errors import KarelsynthError  # noqa: E402
from karelsynth.tasks.task_files import gallery_task  # noqa: E402
from karelsynth.web.queue import TaskSolver  # noqa: E402

TASK = "climb-the-stairs"
LAPTOP = {"viewport": {"width": 1440, "height": 1024}}
PHONE = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "has_touch": True,
    "is_mobile": True,
}
STEPS = 9
STARTED = "def run():\n  while(frontIsClear):\n    move()\n    if(markersPresent):\n      pickMarker()"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures", help="the folder to write")
    pictures = parser.parse_args().out
    pictures.mkdir(parents=True, exist_ok=True)
    solver = best_solver()
    with served(solver) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for theme in ("light", "dark"):
            page = solved(browser, address, color_scheme=theme, **LAPTOP)
            page.screenshot(path=pictures / f"page-{theme}.png")
        page = solved(browser, address, **LAPTOP)
        page.keyboard.press("p")
        page.wait_for_timeout(500)
        page.screenshot(path=pictures / "page-projector.png")
        page = solved(browser, address, **PHONE)
        page.locator("#player").evaluate("player => player.scrollIntoView({ block: 'end' })")
        page.screenshot(path=pictures / "page-phone.png")
        page = challenged(browser, address, **LAPTOP)
        page.screenshot(path=pictures / "page-challenge.png")
        browser.close()


def best_solver() -> TaskSolver:
    try:
        from karelsynth.solve.solver import Solver

        solver = Solver.load()
        solver.warm_up()  # may compile for minutes
        return solver
    except (ImportError, OSError, KarelsynthError) as error:
        print(f"with a stand-in for the solver: {error}")
        return PoolSolver([file.read_text() for file in sorted((ROOT / "tests/golden/gallery").glob("*.karel"))])


def solved(browser: Browser, address: str, **options: Any) -> Page:
    """A page where the task has been solved and its program is being watched."""
    page = browser.new_context(**options).new_page()
    page.goto(address)
    page.wait_for_selector("#gallery-strip:not([hidden])")
    page.locator("#gallery-strip .chip.more").click()
    page.locator(f".gallery-card[data-slug='{TASK}']").click()
    page.select_option("#budget", "3")
    page.click("#solve")
    page.wait_for_selector("#result:not([hidden])", timeout=60_000)
    page.wait_for_selector("#examples .verdict:visible")
    for _ in range(STEPS):
        page.click("#player-forth")
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    page.locator(".answer").evaluate("answer => { answer.scrollTop = 0 }")
    page.wait_for_timeout(500)  # until Karel stands still
    return page


def challenged(browser: Browser, address: str, **options: Any) -> Page:
    """A page where a student builds a program of blocks for a challenge."""
    task = gallery_task("clean-the-row")
    pairs = [{"input": pair.input.to_text(), "output": pair.output.to_text()} for pair in task.examples]
    about = "Take every marker of the row and stop at the wall. Some cells have more than one."
    challenge = {"name": task.name, "about": about, "examples": pairs[:3], "hidden": pairs[3:], "starter": STARTED}
    lesson = {"title": "Week 2", "challenges": [challenge, {**challenge, "name": "Another"}]}
    squeezer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed = squeezer.compress(json.dumps(lesson).encode()) + squeezer.flush()
    page = browser.new_context(**options).new_page()
    page.goto(f"{address}#challenge={base64.urlsafe_b64encode(packed).decode().rstrip('=')}")
    page.locator("#program-modes [data-mode=both]").click()
    page.wait_for_selector(".block-tree .block")
    page.wait_for_selector("#tutor:not([hidden])")
    page.locator(".block-tree .block").nth(2).focus()
    page.locator(".answer").evaluate("answer => { answer.scrollTop = 0 }")
    page.wait_for_timeout(500)
    return page


if __name__ == "__main__":
    main()
