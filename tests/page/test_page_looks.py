"""How the page looks: on a phone, in the dark, and with nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from karelsynth.tasks.task_files import gallery
from tests.page.driver import ROW, NewPage, cell, content, resize, solve, tool

STATIC = Path(__file__).parents[2] / "src" / "karelsynth" / "web" / "static"


def test_a_phone_needs_no_scrolling_sideways(new_page: NewPage) -> None:
    page = new_page(ROW, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)

    def fits() -> bool:
        return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth && innerWidth === 360"))

    assert fits()
    tool(page, "Marker")
    cell(page, "Example 1, before", 2, 1).tap()
    cell(page, "Example 1, before", 2, 1).tap()
    assert content(page, "Example 1, before", 2, 1) == "2 markers"
    page.click("#undo")
    page.click("#undo")
    resize(page, 16, 16)
    assert fits()
    page.click("#undo")
    page.get_by_role("button", name="Drive", exact=True).tap()
    page.get_by_role("group", name="Drive Karel").get_by_role("button", name="Turn left").tap()
    assert content(page, "Example 1, after", 0, 5) == "Karel facing north"
    assert fits()
    page.click("#undo")
    solve(page)
    expect(page.locator("#ambiguity")).to_be_visible()
    page.select_option("#player-source", label="A world of your own")
    assert fits()
    expect(page.locator("#solve")).to_be_in_viewport()
    page.get_by_role("button", name=f"All {len(gallery())}").tap()
    assert fits()


def swipe(page: Page, x: float, y: float, *, up: int) -> None:
    """A finger put down at a place and drawn upwards."""
    session = page.context.new_cdp_session(page)
    for kind, by in [("touchStart", 0), *(("touchMove", at) for at in range(8, up + 1, 8)), ("touchEnd", None)]:
        points = [] if by is None else [{"x": x, "y": y - by}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def test_a_swipe_scrolls_until_a_tool_is_taken_that_paints(new_page: NewPage) -> None:
    page = new_page(ROW, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    resize(page, 6, 6)
    board = cell(page, "Example 1, before", 0, 3)

    def swiped() -> float:
        """How far the page scrolls when a finger goes up from the board's lowest row."""
        board.evaluate("cell => cell.scrollIntoView({ block: 'center', behavior: 'instant' })")
        box = board.bounding_box()
        assert box is not None
        start = page.evaluate("scrollY")
        swipe(page, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, up=120)
        page.wait_for_timeout(300)
        return float(page.evaluate("scrollY") - start)

    assert swiped() > 20
    assert content(page, "Example 1, before", 0, 0) == "Karel facing east"
    board.tap()
    assert content(page, "Example 1, before", 0, 3) == "Karel facing east"
    board.tap()
    assert content(page, "Example 1, before", 0, 3) == "Karel facing south"
    tool(page, "Marker")
    assert swiped() == 0
    assert content(page, "Example 1, before", 1, 3) == "1 marker"


def test_two_fingers_make_a_world_larger_and_draw_nothing(new_page: NewPage) -> None:
    page = new_page(ROW, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    tool(page, "Marker")
    box = cell(page, "Example 1, before", 1, 2).bounding_box()
    assert box is not None
    x, y = box["x"] + 5, box["y"] + 5
    session = page.context.new_cdp_session(page)

    def touch(kind: str, *places: float) -> None:
        points = [{"x": place, "y": y, "id": number} for number, place in enumerate(places)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", x)
    assert content(page, "Example 1, before", 1, 2) == "1 marker"
    touch("touchStart", x, x + 40)
    for by in range(0, 100, 10):
        touch("touchMove", x - by / 2, x + 40 + by)
    touch("touchEnd")
    page.wait_for_function("visualViewport.scale > 1.5")
    assert [content(page, "Example 1, before", 1, col) for col in range(6)] == ["empty"] * 6


def test_the_system_decides_on_dark_until_somebody_does(new_page: NewPage) -> None:
    page = new_page(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_have_contrast(theme: str) -> None:
    """4.5 to 1 for all text on what it stands on (WCAG AA)."""
    css = (STATIC / "base.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root[^{]*\{([^}]*)\}", css)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", blocks[theme == "dark"]))
    code = [(f"code-{kind}", "sunken") for kind in ("keyword", "action", "sensor", "number", "quiet")]
    code += [(f"code-{kind}", "running") for kind in ("keyword", "action", "sensor", "number")]
    soft = [(kind, f"{kind}-soft") for kind in ("good", "warn", "bad", "brand")]
    plain = [(ink, back) for ink in ("ink", "muted") for back in ("canvas", "surface", "sunken", "brand-soft")]
    plain += [("ink", f"{kind}-soft") for kind in ("good", "warn", "bad")]
    plain += [("muted", f"{kind}-soft") for kind in ("good", "warn")] + [("brand", "surface"), ("brand", "canvas")]
    buttons = [("on-brand", "brand"), ("on-brand", "brand-strong"), ("marker-text", "marker")]
    weak = {pair: ratio for pair in code + soft + plain + buttons if (ratio := contrast(colours, *pair)) < 4.5}
    assert weak == {}


def contrast(colours: dict[str, str], one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(colours[one]), luminance(colours[other])))
    return round((light + 0.05) / (dark + 0.05), 2)


def test_the_page_asks_for_nothing_from_elsewhere() -> None:
    """No address of another host in any file, and nothing that the policy against inline code would refuse."""
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z]+\.[a-z]|\beval\(|innerHTML|\balert\(", text), file.name
    html = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\ssrc=)", html)


def test_no_light_flash_in_the_dark(browser: Browser, address: str) -> None:
    """The colours are there before any module has run."""
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.route("**/static/app.js", lambda route: route.abort())
    page.route("**/static/theme.js", lambda route: route.abort())
    page.goto(address)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(11, 17, 32)"
    page.evaluate("localStorage.setItem('karelsynth.theme', 'light')")
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(243, 245, 249)"
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_chosen_can_be_told_in_forced_colours(new_page: NewPage, scheme: str) -> None:
    page = new_page(ROW, forced_colors="active", color_scheme=scheme)
    highlight = page.evaluate(
        """() => {
          const probe = document.body.appendChild(document.createElement("i"));
          probe.style.background = "Highlight";
          return getComputedStyle(probe).backgroundColor;
        }"""
    )
    looks = "node => [getComputedStyle(node).backgroundColor, getComputedStyle(node).forcedColorAdjust]"
    for chosen in ("#tools [aria-checked=true]", "#dialects [aria-pressed=true]"):
        assert page.locator(chosen).evaluate(looks) == [highlight, "none"]
    for other in ("#tools [aria-checked=false]", "#dialects [aria-pressed=false]"):
        assert page.locator(other).first.evaluate(looks) != [highlight, "none"]
