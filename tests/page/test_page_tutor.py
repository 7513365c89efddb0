"""The tutor on the page: what is wrong and where, hints, repairs, clear tasks, and more of them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from karelsynth.karel.program import Program
from tests.page.driver import TAKE_ALL, TAKE_ONE, TWO_AND_PUT, NewPage, expect_verdicts, hasty, link

PILES = link([("> . 1 . 2 .\n. . . . . .", ". . . . . >\n. . . . . ."), ("> 3 .\n. . .", ". . >\n. . .")])


def typed(new_page: NewPage, text: str, fragment: str = PILES) -> Page:
    page = new_page(fragment)
    page.fill("#program-text", text)
    expect(page.locator("#tutor")).to_be_visible()
    return page


def test_what_differs_is_marked_and_the_step_is_found(new_page: NewPage) -> None:
    page = typed(new_page, TAKE_ONE)
    tutor = page.locator("#tutor")
    expect(tutor.locator(".verdict")).to_have_text("Right on 0 of 2")
    expect(tutor.get_by_role("img", name="Expected; 1 cell differs")).to_be_visible()
    actual = tutor.get_by_role("img", name="Actual; 1 cell differs")
    expect(actual.locator(".change")).to_have_count(1)
    expect(tutor.locator(".tutor-says")).to_contain_text("there should be no marker, but there is 1")
    tutor.get_by_role("button", name="Example 2").click()
    expect(tutor.locator(".tutor-says")).to_contain_text("but there are 2")
    tutor.get_by_role("button", name="Watch how it ends").click()
    expect(page.locator("#player-source")).to_have_value(
        page.locator("#player-source option").nth(1).get_attribute("value") or ""
    )
    expect(page.locator("#player-caption")).to_contain_text("The program")


def test_the_tutor_waits_while_examples_contradict_each_other(new_page: NewPage) -> None:
    page = new_page(link([("> . .\n. . .", ". . >\n. . ."), ("> . .\n. . .", ". > .\n. . .")]))
    page.fill("#program-text", "def run():\n  move()\n  move()")
    expect_verdicts(page, "Right", "Wrong")
    expect(page.locator(".example-problem:visible")).to_contain_text("contradicts example 1")
    page.wait_for_timeout(600)
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#tutor")).to_be_hidden()


def test_it_jumps_to_the_step_that_fails(new_page: NewPage) -> None:
    page = typed(new_page, "def run():\n  move()\n  putMarker()\n  move()\n  pickMarker()\n  move()")
    page.locator("#tutor").get_by_role("button", name="Show me that moment, at line 3").click()
    expect(page.locator("#player-caption")).to_contain_text("Step 2 of 5")
    expect(page.locator("#tutor .tutor-says")).to_contain_text("Line 3: putMarker() puts a marker")
    expect(page.locator("#program-paint .line-running")).to_contain_text("putMarker()")


def test_hints_by_level_and_a_repair_that_is_accepted(new_page: NewPage) -> None:
    page = typed(new_page, f"# mine\n{TAKE_ONE}  # one")
    tutor = page.locator("#tutor")
    tutor.get_by_role("button", name="Where should I look?").click()
    expect(tutor.locator(".tutor-steps")).to_contain_text("Look at line 5")
    expect(tutor.locator(".tutor-steps")).not_to_contain_text("instead of")
    tutor.get_by_role("button", name="What kind of change?").click()
    expect(tutor.locator(".tutor-steps")).to_contain_text("again and again")
    tutor.get_by_role("button", name="Show me the change").click()
    accept = tutor.get_by_role("button", name="Accept the change at line 5")
    expect(tutor.locator(".change-gone td").first).to_have_text("5")
    expect(tutor.locator(".change-come code")).to_have_text("    while(markersPresent):")
    expect(tutor.locator(".change-come mark")).to_have_text("while")
    accept.click()
    expect(page.locator("#program-text")).to_have_value(f"# mine\n{TAKE_ALL}  # one")
    expect_verdicts(page, "Right", "Right")
    tutor.get_by_role("button", name="Take back the change at line 5").click()
    expect(page.locator("#program-text")).to_have_value(f"# mine\n{TAKE_ONE}  # one")
    page.fill("#program-text", TWO_AND_PUT)
    expect(tutor.locator(".tutor-help")).to_be_hidden()  # it was about another text


@pytest.mark.parametrize(
    ("dialect", "old", "new"), [("stanford", "if", "while"), ("tokens", "IF", "WHILE")], ids=["Python", "One line"]
)
def test_a_hint_in_the_words_of_a_dialect_by_keyboard_on_a_phone(
    new_page: NewPage, dialect: str, old: str, new: str
) -> None:
    page = new_page(PILES, viewport={"width": 390, "height": 844})
    text, right = (Program.parse(each).to(dialect) for each in (TAKE_ONE, TAKE_ALL))
    page.fill("#program-text", text)
    tutor = page.locator("#tutor")
    tutor.get_by_role("button", name="Where should I look?").focus()
    for name in ("What kind of change?", "Show me the change"):
        page.keyboard.press("Enter")
        expect(tutor.get_by_role("button", name=name)).to_be_focused()
    page.keyboard.press("Enter")
    expect(tutor.get_by_role("region", name="Hint")).to_be_focused()
    expect(tutor.locator(".tutor-steps")).to_contain_text(f"Make a loop of it: {new} instead of {old}")
    accept = tutor.get_by_role("button", name="Accept the change")
    expect(accept).to_be_in_viewport(ratio=1)
    page.keyboard.press("Tab")
    expect(accept).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#program-text")).to_have_value(right)
    expect(tutor.get_by_role("status")).to_have_text("Right on both examples")
    expect(tutor.get_by_role("button", name="Take back the change")).to_be_focused()


def test_is_my_task_clear(new_page: NewPage) -> None:
    page = hasty(typed(new_page, TAKE_ALL, link([("> . 1\n. . .", ". . >\n. . .")])))
    tutor = page.locator("#tutor")
    tutor.get_by_role("button", name="Is my task clear?").click()
    expect(tutor.locator(".tutor-found")).to_contain_text("Not quite clear.")
    expect(tutor.locator(".impostors .tutor-says").first).to_contain_text("The wrong one crashed")
    tutor.get_by_role("button", name="Add this as an example").first.click()
    expect(page.locator("#notice")).to_contain_text("1 example added, below the others.")
    expect(tutor.get_by_role("button", name="Is my task clear?")).to_be_focused()
    expect(page.locator("#examples > li")).to_have_count(2)
    expect_verdicts(page, "Right", "Right")
    expect(tutor.locator(".tutor-found")).to_be_hidden()  # it was about other examples
    tutor.get_by_role("button", name="Is my task clear?").click()
    expect(tutor.locator(".tutor-found strong")).to_be_visible()


def test_wrong_programs_are_shown_in_the_chosen_dialect_with_what_differs(new_page: NewPage) -> None:
    page = typed(new_page, Program.parse(TAKE_ALL).to("stanford"), link([("> . 1\n. . .", ". . >\n. . .")]))
    impostor = {"program": Program.parse(TWO_AND_PUT).to("stanford"), "world": "> . . .\n. . . ."}
    ends = {"expected": ". . . >\n. . . .", "actual": ". . >1 .\n. . . .", "share": 0.5}
    said = "Karel ends at row 2, column 3 instead of row 2, column 4."
    found = {"well_posed": False, "passing": 1, "tried": 9, "added": [], "reference": "", "seconds": 0.1}
    answer = {**found, "impostors": [{**impostor, **ends, "explanation": said}]}
    page.route("**/api/probe", lambda route: route.fulfill(json=answer))
    tutor = page.locator("#tutor")
    tutor.get_by_role("button", name="Is my task clear?").click()
    code = tutor.get_by_role("group", name="Wrong program 1")
    expect(code).to_have_text("def main():\n    move()\n    move()\n    put_beeper()")
    expect(tutor.get_by_role("img", name="The wrong one; 2 cells differ")).to_be_visible()
    expect(tutor.locator(".impostors .tutor-says")).to_have_text(said)
    two = [
        {"input": f"> .{' .' * more}\n. .{' .' * more}", "output": f". >{' .' * more}\n. .{' .' * more}"}
        for more in (0, 1)
    ]
    page.unroute("**/api/probe")
    page.route("**/api/probe", lambda route: route.fulfill(json={**answer, "added": two}))
    tutor.get_by_role("button", name="Add as many examples as are needed").click()
    expect(page.locator("#examples > li")).to_have_count(3)
    page.click("#undo")
    expect(page.locator("#examples > li")).to_have_count(1)


def test_more_like_this(new_page: NewPage) -> None:
    page = typed(new_page, TAKE_ALL)
    exercise = {"name": "1. Find", "about": "", "program": TAKE_ALL, "level": "easy"}
    pairs = [{"input": "> .\n. .", "output": ". >\n. ."}]
    page.route("**/api/pose", lambda route: route.fulfill(json={"exercises": [{**exercise, "examples": pairs}]}))
    page.get_by_role("button", name="More like this").click()
    page.get_by_role("button", name="Add all to the class set").click()
    expect(page.locator("#notice")).to_contain_text("1 challenge added")
    page.locator("#tutor .gallery-card").click()
    expect(page.locator("#task-name")).to_have_value("1. Find")
    expect(page.locator("#task-name")).to_be_focused()
