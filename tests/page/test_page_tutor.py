"""The tutor on the page: what is wrong and where, hints, repairs, clear tasks, and more of them."""

from __future__ import annotations

from playwright.sync_api import Page, expect

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


def test_it_jumps_to_the_step_that_fails(new_page: NewPage) -> None:
    page = typed(new_page, "def run():\n  move()\n  putMarker()\n  move()\n  pickMarker()\n  move()")
    page.locator("#tutor").get_by_role("button", name="Go to step 2, line 3").click()
    expect(page.locator("#player-caption")).to_contain_text("Step 2 of 5")
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
    expect(tutor.locator(".change-come")).to_have_text("+    while(markersPresent):")
    accept.click()
    expect(page.locator("#program-text")).to_have_value(f"# mine\n{TAKE_ALL}  # one")
    expect_verdicts(page, "Right", "Right")
    tutor.get_by_role("button", name="Take back the change at line 5").click()
    expect(page.locator("#program-text")).to_have_value(f"# mine\n{TAKE_ONE}  # one")
    page.fill("#program-text", TWO_AND_PUT)
    expect(tutor.locator(".tutor-help")).to_be_hidden()  # it was about another text


def test_is_my_task_clear(new_page: NewPage) -> None:
    page = hasty(typed(new_page, TAKE_ALL, link([("> . 1\n. . .", ". . >\n. . .")])))
    tutor = page.locator("#tutor")
    tutor.get_by_role("button", name="Is my task clear?").click()
    expect(tutor.locator(".tutor-found")).to_contain_text("Not quite clear.")
    tutor.get_by_role("button", name="Add this as an example").first.click()
    expect(page.locator("#examples > li")).to_have_count(2)
    expect_verdicts(page, "Right", "Right")
    expect(tutor.locator(".tutor-found")).to_be_hidden()  # it was about other examples
    tutor.get_by_role("button", name="Is my task clear?").click()
    expect(tutor.locator(".tutor-found strong")).to_be_visible()


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
