"""A real browser on the real service around a small solver, for all tests of the page.

Whatever a test does, the page may log no error and ask no other host for anything.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.page.driver import PATIENCE, POOL, ROW, NewPage
from tests.page_server import PoolSolver, served

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run"
).split()
REFUSED = "status of 422"
"""The browser itself logs every answer that is no success; the page shows what this one says."""


@pytest.fixture(scope="module")
def solver() -> PoolSolver:
    return PoolSolver(POOL)


@pytest.fixture(scope="module")
def address(solver: PoolSolver) -> Iterator[str]:
    with served(solver) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.fail("the page's tests need Chromium: `make test` installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        expect.set_options(timeout=PATIENCE)
        yield browser
        browser.close()


@pytest.fixture
def new_page(browser: Browser, address: str) -> Iterator[NewPage]:
    """Opens pages, each in a browser that remembers nothing, and watches what they do until the test ends."""
    wrong: list[str] = []
    contexts = []

    def logged(message: ConsoleMessage) -> None:
        if message.type == "error" and REFUSED not in message.text:
            wrong.append(f"{message.text} {message.location['url']}")

    def requested(request: Request) -> None:
        if not request.url.startswith((address, f"blob:{address}")):
            wrong.append(f"asked for {request.url}")

    def open_page(fragment: str = "", **options: object) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", logged)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", requested)
        page.goto(address + fragment)
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture
def page(new_page: NewPage) -> Page:
    return new_page(ROW)
