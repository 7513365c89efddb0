"""Challenges: made by a teacher, solved by students, kept in the browser, in order in a class set."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from karelsynth.tutor.challenges import parse_challenges
from karelsynth.tutor.lesson import grade_lesson, parse_work
from karelsynth.web.app import ServiceSettings
from tests.page.driver import (
    LESSON,
    ONE,
    POOL,
    PUT,
    STARTER,
    TAKE_ALL,
    TAKE_ONE,
    TWO,
    TWO_AND_PUT,
    NewPage,
    link,
    opened,
)
from tests.page_server import PoolSolver, served


def test_a_student_works_through_a_set(new_page: NewPage, tmp_path: Path) -> None:
    page = opened(new_page(), tmp_path)
    challenge = page.locator("#challenge")
    expect(challenge.get_by_role("heading", name="Clean")).to_be_visible()
    expect(challenge).to_contain_text("Take all markers.")
    expect(challenge).to_contain_text("1 hidden test")
    expect(page.locator("#solve")).to_be_hidden()
    expect(page.locator("#program-text")).to_have_value(STARTER)
    page.fill("#program-text", TAKE_ONE)
    expect(challenge.locator(".challenge-examples .verdict")).to_have_text("Right")
    expect(challenge.locator(".challenge-tests")).to_have_text("0 of 1 hidden test right.")
    tutor = page.locator("#tutor")
    tutor.get_by_role("button", name="Where should I look?").click()
    expect(tutor.locator(".tutor-steps")).to_contain_text("Look at line 4")
    expect(tutor.get_by_role("button", name="What kind of change?")).to_be_hidden()  # the teacher said so
    page.fill("#program-text", TAKE_ALL)
    expect(challenge.locator(".challenge-state")).to_contain_text("Solved")
    challenge.get_by_role("button", name="Next challenge").click()
    expect(challenge.get_by_role("heading", name="Put")).to_be_visible()
    expect(page.locator("#program-text")).to_have_value("")
    expect(page.locator("#program-text")).to_have_attribute("placeholder", re.compile("Write your program here"))
    expect(tutor).to_be_hidden()  # there are no hints to this one
    page.fill("#program-text", "def run():\n  putMarker()")
    expect(tutor).to_contain_text("Right on 0 of 1")
    expect(tutor.get_by_role("button", name="Where should I look?")).to_be_hidden()
    page.reload()  # on another day
    page.wait_for_selector("html[data-challenge][data-ready]")
    expect(challenge.get_by_role("heading", name="Put")).to_be_visible()
    expect(page.locator("#program-text")).to_have_value("def run():\n  putMarker()")
    page.get_by_role("button", name="1. Clean, solved").click()
    expect(page.locator("#program-text")).to_have_value(TAKE_ALL)
    challenge.get_by_role("button", name="Start over").click()
    expect(page.locator("#program-text")).to_have_value(STARTER)
    challenge.get_by_role("button", name="Bring my program back").click()
    expect(page.locator("#program-text")).to_have_value(TAKE_ALL)


def test_a_student_who_has_written_nothing_gets_a_hint(new_page: NewPage, tmp_path: Path) -> None:
    lesson = {**LESSON, "challenges": [{"name": "Clean", "examples": [ONE, TWO]}]}
    (tmp_path / "lesson.json").write_text(json.dumps(lesson), encoding="utf-8")
    page = new_page()
    page.set_input_files("#task-file", tmp_path / "lesson.json")
    page.wait_for_selector("html[data-challenge][data-ready]")
    tutor = page.locator("#tutor")
    expect(tutor).to_contain_text("No program yet")
    tutor.get_by_role("button", name="Where should I look?").click()
    expect(tutor.locator(".tutor-steps")).to_contain_text("Nothing is written yet. Look at example 1")
    page.fill("#program-text", "# mine\ndef run():\n")
    for name in ("Where should I look?", "What kind of change?", "Show me the change"):
        tutor.get_by_role("button", name=name).click()
    expect(tutor.locator(".tutor-steps")).to_contain_text("begins with a loop: it goes on while the way ahead is clear")
    tutor.get_by_role("button", name="Accept the change at line 3").click()
    expect(page.locator("#program-text")).to_have_value("# mine\ndef run():\n  while(frontIsClear):\n    move()\n")
    expect(tutor).to_contain_text("Right on 0 of 2")
    page.fill("#program-text", "def run():\n  mvoe()")
    expect(tutor).to_be_hidden()


def test_work_is_saved_and_graded(new_page: NewPage, tmp_path: Path) -> None:
    page = opened(new_page(), tmp_path)
    sheet = page.get_by_role("dialog", name="Save my work")
    page.get_by_role("button", name="Save my work").click()
    sheet.get_by_label("Your name").fill("Zoë M.")
    sheet.get_by_role("button", name="Save the file").click()
    expect(page.locator("#notice")).to_contain_text("nothing to save yet")  # it is the starter still
    page.fill("#program-text", TAKE_ONE)
    page.get_by_role("button", name="Save my work").click()
    expect(sheet.get_by_label("Your name")).to_have_value("Zoë M.")
    assert Axe().run(page).response["violations"] == []
    with page.expect_download() as download:
        sheet.get_by_label("Your name").press("Enter")
    assert download.value.suggested_filename == "Zoë-M-week-2.json"
    expect(page.locator("#notice")).to_contain_text("Saved 1 program.")
    lesson = parse_challenges(json.dumps(LESSON))
    handed_in = parse_work(download.value.path().read_text(encoding="utf-8"), lesson)
    (student,) = grade_lesson(lesson, handed_in)
    assert student.name == "Zoë M."
    first, second = student.grades
    assert first is not None
    assert (first.right, first.hidden_right, second) == ((True,), (False,), None)


def test_a_challenge_leaves_the_playground_as_it_was(new_page: NewPage, tmp_path: Path) -> None:
    page = new_page(link([("> . .\n. . .", ". . >\n. . .")], name="Mine"))
    page.fill("#program-text", TWO_AND_PUT)
    page.fill("#task-name", "Mine, too")
    opened(page, tmp_path)
    page.fill("#program-text", TAKE_ALL)
    page.get_by_role("button", name="Close the challenge").click()
    page.wait_for_selector("html[data-ready]:not([data-challenge])")
    expect(page.locator("#task-name")).to_have_value("Mine, too")
    expect(page.locator("#program-text")).to_have_value(TWO_AND_PUT)
    expect(page.locator("#solve")).to_be_visible()


def test_a_teacher_makes_a_challenge_and_a_set(new_page: NewPage, tmp_path: Path) -> None:
    pairs = [(pair["input"], pair["output"]) for pair in (ONE, TWO)]
    page = new_page(link(pairs, name="Clean"))
    page.fill("#program-text", STARTER)
    expect(page.locator("#tutor")).to_be_visible()
    page.click("#class-button")
    sheet = page.get_by_role("dialog", name="A challenge for a class")
    sheet.get_by_role("checkbox", name="Example 2").uncheck()
    sheet.get_by_role("checkbox", name="They begin with").check()
    sheet.get_by_label("Hints up to").select_option("Where to look")
    sheet.get_by_role("button", name="Add to the class set").click()
    sheet.get_by_role("button", name="Add to the class set").click()
    sheet.get_by_label("Title of the set").fill("Week 3")
    sheet.get_by_role("button", name="Remove Clean").first.click()
    expect(sheet.get_by_role("heading", name="Class set")).to_have_text("Class set: 1 challenge")
    (tmp_path / "tasks.jsonl").write_text(
        "\n".join(json.dumps(each) for each in LESSON["challenges"]), encoding="utf-8"
    )
    page.set_input_files("#class-file", tmp_path / "tasks.jsonl")
    expect(sheet.get_by_role("heading", name="Class set")).to_have_text("Class set: 3 challenges")
    sheet.get_by_role("button", name="Move Put up").click()
    with page.expect_download() as download:
        sheet.get_by_role("button", name="Save the set").click()
    assert download.value.suggested_filename == "week-3.json"
    lesson = parse_challenges(download.value.path().read_text(encoding="utf-8"))
    assert [each.task.name for each in lesson.challenges] == ["Clean", "Put", "Clean"]
    first = lesson.challenges[0]
    assert (len(first.task.examples), len(first.hidden), first.starter, first.hints) == (1, 1, STARTER, 1)


def test_a_link_holds_a_challenge(new_page: NewPage) -> None:
    page = new_page(link([(PUT["input"], PUT["output"])], name="Put"))
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.click("#class-button")
    page.get_by_role("dialog", name="A challenge for a class").get_by_role("button", name="Copy the link").click()
    expect(page.locator("#notice")).to_contain_text("Link copied.")
    address = page.evaluate("window.copied")
    student = new_page(f"#{address.partition('#')[2]}")
    expect(student.locator("#challenge").get_by_role("heading", name="Put")).to_be_visible()
    student.fill("#program-text", TWO_AND_PUT)
    expect(student.locator(".challenge-state")).to_contain_text("Solved")
    student.reload()
    student.wait_for_selector("html[data-challenge][data-ready]")
    expect(student.locator("#program-text")).to_have_value(TWO_AND_PUT)
    broken = new_page(f"#{address.partition('#')[2][:60]}")
    expect(broken.locator("#notice")).to_contain_text("does not hold a whole challenge")
    expect(broken.locator("#solve")).to_be_visible()


def test_a_browser_that_keeps_nothing_says_so_and_loses_nothing_meanwhile(new_page: NewPage, tmp_path: Path) -> None:
    page = new_page()
    page.add_init_script("Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    opened(page, tmp_path)
    expect(page.locator("#notice")).to_contain_text("Save your work before you close")
    page.fill("#program-text", TAKE_ALL)
    page.get_by_role("button", name="Next challenge").click()
    page.get_by_role("button", name="1. Clean, solved").click()
    expect(page.locator("#program-text")).to_have_value(TAKE_ALL)
    page.get_by_role("button", name="Save my work").click()
    page.fill("#work-name", "Ada")
    page.get_by_role("button", name="Save the file").click()
    expect(page.locator("#notice")).to_contain_text("Saved 1 program.")


def test_two_tabs_with_one_challenge_know_of_each_other(new_page: NewPage, tmp_path: Path) -> None:
    page = opened(new_page(), tmp_path)
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector("html[data-challenge][data-ready]")
    expect(page.locator("#notice")).to_be_hidden()
    other.fill("#program-text", TAKE_ONE)
    expect(page.locator("#notice")).to_contain_text("open in another tab")
    expect(page.locator("#program-text")).to_have_value(STARTER)


def test_a_served_set_opens_with_the_page(browser: Browser) -> None:
    settings = ServiceSettings(challenges=parse_challenges(json.dumps(LESSON)))
    with served(PoolSolver(POOL), settings) as address:
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("html[data-challenge][data-ready]")
        assert TWO["input"] not in page.evaluate("fetch('/api/challenges').then((answer) => answer.text())")
        page.fill("#program-text", TAKE_ONE)
        expect(page.locator(".challenge-tests")).to_have_text("0 of 1 hidden test right.")
        page.get_by_role("button", name="Close the challenge").click()
        page.wait_for_selector("html[data-ready]:not([data-challenge])")
        context.close()


@pytest.mark.parametrize("width", [390, 1366])
def test_a_challenge_fits_the_screen(new_page: NewPage, tmp_path: Path, width: int) -> None:
    page = opened(new_page(viewport={"width": width, "height": 800}, color_scheme="dark"), tmp_path)
    page.fill("#program-text", "def run():\n  move()")
    expect(page.locator("#tutor")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
