"""No violations of accessibility rules, by axe, in the states of the page that matter most."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.page.driver import TAKE_ALL, TAKE_ONE, NewPage, hasty, link, opened, violations

PILES = link([("> . 1 . 2 .\n. . . . . .", ". . . . . >\n. . . . . .")])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_teachers_page(new_page: NewPage, scheme: str) -> None:
    page = hasty(new_page(PILES, color_scheme=scheme))
    page.fill("#program-text", TAKE_ONE)
    page.get_by_role("group", name="Show the program as").get_by_role("button", name="Both").click()
    page.get_by_role("button", name="Where should I look?").click()
    expect(page.locator(".tutor-steps")).to_be_visible()
    page.locator(".block-tree .block").first.focus()
    assert violations(page) == []
    page.fill("#program-text", TAKE_ALL)
    page.get_by_role("button", name="Is my task clear?").click()
    expect(page.locator(".tutor-found strong")).to_be_visible()
    assert violations(page) == []
    page.click("#class-button")
    page.get_by_role("button", name="Add to the class set").click()
    assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_students_page(new_page: NewPage, tmp_path: Path, scheme: str) -> None:
    page = opened(new_page(color_scheme=scheme), tmp_path)
    page.fill("#program-text", TAKE_ONE)
    page.get_by_role("group", name="Show the program as").get_by_role("button", name="Blocks").click()
    page.locator(".palette-block", has_text="if else").click()
    expect(page.locator(".hole")).to_have_count(2)
    assert violations(page) == []
