"""Typing a program on the page: what is typed is never lost, and can be undone as in any text field."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from karelsynth.karel.program import Program
from tests.page.driver import ROW, TAKE_ALL, TAKE_ONE, TWO_AND_PUT, NewPage, cell, expect_verdicts, link, solve

BACK = "Back to what you typed"


def test_what_was_typed_can_be_had_back_after_a_search(page: Page) -> None:
    text = page.locator("#program-text")
    text.fill(TWO_AND_PUT)
    expect(page.locator("#other-program")).to_be_hidden()
    text.press("Control+Enter")
    expect(text).to_have_value(TAKE_ALL)
    page.get_by_role("button", name=BACK).click()
    expect(text).to_have_value(TWO_AND_PUT)
    expect_verdicts(page, "Wrong")
    page.get_by_role("button", name="Back to the answer").click()
    expect(text).to_have_value(TAKE_ALL)
    expect_verdicts(page, "Right")


def test_edits_of_an_answer_outlive_the_look_at_another(page: Page) -> None:
    text = page.locator("#program-text")
    text.fill(TWO_AND_PUT)
    solve(page)
    expect(text).to_have_value(TAKE_ALL)
    edited = TAKE_ALL + "\n  turnLeft()"
    text.fill(edited)
    page.get_by_role("button", name="Next program").click()
    expect(text).to_have_value(TAKE_ONE)
    page.get_by_role("button", name=BACK).click()
    expect(text).to_have_value(edited)
    page.get_by_role("button", name="Back to the answer").click()
    expect(text).to_have_value(TAKE_ONE)
    page.get_by_role("button", name=BACK).click()
    expect(text).to_have_value(TWO_AND_PUT)  # the older one is still there, too


def test_an_unchanged_answer_is_nobodys_typing(page: Page) -> None:
    solve(page)
    page.get_by_role("button", name="Next program").click()
    expect(page.locator("#program-text")).to_have_value(TAKE_ONE)
    expect(page.locator("#other-program")).to_be_hidden()


def test_typing_is_remembered(page: Page) -> None:
    page.locator("#dialects").get_by_role("button", name="Python").click()
    page.select_option("#budget", "10")
    python = Program.parse(TWO_AND_PUT).to("stanford")
    page.fill("#program-text", python)
    cell(page, "Example 1, before", 2, 4).press("7")
    page.reload()  # at once: what is due to be saved is saved when the page goes
    page.wait_for_selector("html[data-ready]")
    expect(page.locator("#program-text")).to_have_value(python)
    expect(page.locator("#dialects [data-dialect='stanford']")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#budget")).to_have_value("10")
    expect_verdicts(page, "Wrong")
    page.goto("about:blank")
    page.go_back()
    page.wait_for_selector("html[data-ready]")
    expect(page.locator("#program-text")).to_have_value(python)


def test_what_was_typed_for_another_task_waits_beside_a_link(page: Page, address: str) -> None:
    page.fill("#program-text", TWO_AND_PUT)
    page.reload()  # the same task
    page.wait_for_selector("html[data-ready]")
    expect(page.locator("#program-text")).to_have_value(TWO_AND_PUT)
    page.goto("about:blank")
    page.goto(address + link([("> . .\n. . .", ". . >\n. . .")]))
    page.wait_for_selector("html[data-ready]")
    expect(page.locator("#program-text")).to_have_value("")
    page.reload()  # what was put aside has not become this task's
    page.wait_for_selector("html[data-ready]")
    expect(page.locator("#program-text")).to_have_value("")
    page.get_by_role("button", name=BACK).click()
    expect(page.locator("#program-text")).to_have_value(TWO_AND_PUT)
    expect(page.locator("#program-text")).to_be_focused()  # the button has gone


def test_undo_knows_of_every_line(page: Page) -> None:
    text = page.locator("#program-text")
    text.click()
    page.keyboard.type("def run():")
    page.keyboard.press("Enter")
    page.keyboard.type("mvoe()")
    expect(text).to_have_value("def run():\n  mvoe()")
    page.get_by_role("button", name="Use it").click()
    expect(text).to_have_value("def run():\n  move()")
    seen = []
    for _ in range(60):
        page.keyboard.press("Control+z")
        seen.append(text.input_value())
        if not seen[-1]:
            break
    assert "def run():\n  mvoe()" in seen
    assert "def run():" in seen
    assert seen[-1] == ""


def test_a_text_that_is_too_long_is_not_cut(new_page: NewPage) -> None:
    page = new_page(ROW)
    long = TAKE_ALL + "\n" + "#" * 25_000
    page.locator("#program-text").focus()
    page.keyboard.insert_text(long)
    expect(page.locator("#program-text")).to_have_value(long)
    expect(page.locator("#program-problem")).to_contain_text("at most 20,000 characters, this text has 25,0")
    expect(page.locator("#program-paint .problem")).to_have_count(1)
    page.fill("#program-text", TAKE_ALL)
    expect(page.locator("#program-problem")).to_be_hidden()
    expect_verdicts(page, "Right")
