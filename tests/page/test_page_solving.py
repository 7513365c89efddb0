"""Solving on the page: progress, answers, partial ones, and the question which outcome is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.driver import TAKE_ALL, TAKE_ONE, NewPage, cell, expect_verdicts, grid, link, question, share, solve
from tests.page_server import PoolSolver

LATE_GALLERY = """
const soon = window.fetch;
window.fetch = async (what, ...rest) => {
  if (String(what).includes("/api/gallery")) await new Promise((resolve) => setTimeout(resolve, 400));
  return soon(what, ...rest);
};
"""
DEAF = """() => {
  const usual = window.fetch;
  window.fetch = (what, ...rest) => (String(what).includes("/api/solve/stop") ? ANSWER : usual(what, ...rest));
}"""
"""A server that does not hear that a search shall end."""
PRESS_TWICE = """() => {
  for (const _ of "12") document.getElementById("cancel").click();
  return document.getElementById("progress-text").textContent;
}"""
RARE = """
const usual = window.fetch;
const rare = () => new Response(new ReadableStream({
  start(controller) {
    const first = { seconds: 0, budget: 1, beam: 1, checked: 0, best: null };
    controller.enqueue(new TextEncoder().encode(`event: progress\\ndata: ${JSON.stringify(first)}\\n\\n`));
  },
}));
window.fetch = async (what, ...rest) => (String(what).includes("/stream") ? rare() : usual(what, ...rest));
null;
"""
"""A search that reports once, and then nothing."""


def test_a_newcomer_can_press_solve_at_once(new_page: NewPage) -> None:
    page = new_page()
    expect(page.locator("#tagline")).to_contain_text("Draw a world before and after")
    solve(page)
    expect(page.locator("#program-text")).to_have_value(TAKE_ALL)
    expect_verdicts(page, "Right", "Right")


def test_it_asks_which_outcome_is_meant(page: Page) -> None:
    solve(page)
    expect(page.locator("#ambiguity")).to_be_visible()
    expect(page.locator("#ambiguity-world")).to_be_hidden()  # one line until it is unfolded
    expect(page.locator("#answer-number")).to_have_text("1 of 2")
    page.get_by_role("button", name="Next program").click()
    expect(page.locator("#program-text")).to_have_value(TAKE_ONE)
    asked = question(page)
    expect(asked.locator(".outcome")).to_have_count(2)
    marked = [asked.locator(".outcome").nth(place).locator(".change").count() for place in (0, 1)]
    assert marked[0] == marked[1] > 0  # the cells in which the outcomes differ
    asked.get_by_role("button", name="Outcome 2 is meant").click()
    expect(page.locator("#examples > li")).to_have_count(2)
    expect(page.locator("#result")).to_contain_text("Right on both examples")
    expect(page.locator("#program-text")).to_have_value(TAKE_ONE)
    expect(asked).to_be_hidden()
    expect_verdicts(page, "Right", "Right")


def test_an_unsolved_task_says_so_and_shows_the_best_partial_answer(page: Page) -> None:
    add_unchanged(page)
    solve(page, "unsolved")
    expect(page.locator("#result")).to_contain_text("The closest one is right on example 1, and wrong on the others.")
    expect(page.locator("#result")).to_contain_text("Example 2 is the hard part")
    expect(page.locator("#result")).to_contain_text("3 programs tried")
    expect(page.locator("#program-text")).to_have_value("")  # a bad program is not what was asked for
    page.get_by_role("button", name="Show the closest program").click()
    expect(page.locator("#program-text")).to_have_value(TAKE_ALL)
    expect(page.locator("#partial")).to_be_visible()
    expect_verdicts(page, "Right", "Wrong")
    page.get_by_role("button", name="Search for 10 s").click()
    expect(page.locator("#budget")).to_have_value("10")
    expect(page.locator("#result")).to_contain_text("The closest one is right on example 1")
    expect(page.get_by_role("button", name="Search for 10 s")).to_have_count(0)


def add_unchanged(page: Page) -> None:
    """A second example in which nothing changes, which no program here does."""
    page.get_by_role("button", name="Add an example").click()
    page.get_by_role("button", name="Nothing changes").click()


def test_nothing_is_pushed_away_once_the_page_is_ready(page: Page) -> None:
    """However late the tasks of the strip above the examples come."""
    page.add_init_script(LATE_GALLERY)
    page.reload()
    page.wait_for_selector("html[data-ready]")
    add = page.get_by_role("button", name="Add an example")
    before = add.bounding_box()
    expect(page.locator("#gallery-strip")).to_be_visible()
    assert add.bounding_box() == before


def test_what_is_right_nowhere_is_no_answer(new_page: NewPage) -> None:
    page = new_page(link([("> . .\n. . .", ". . .\n. . <")]))  # which no program here does
    solve(page, "unsolved")
    expect(page.locator("#result")).to_contain_text("No program was found that is right on every example.")
    expect(page.locator("#result")).not_to_contain_text("closest")
    expect(page.locator("#program-text")).to_have_value("")
    expect(page.locator("#partial")).to_be_hidden()


def test_a_search_shows_progress_and_can_be_cancelled(page: Page, solver: PoolSolver) -> None:
    solver.seconds = 20
    try:
        page.click("#solve")
        expect(page.locator("#progress-text")).to_contain_text("tried · closest so far: right on 1 of 1")
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#result")).to_contain_text("Stopped early. Right on the example.")
        expect(page.locator("#result")).to_contain_text("One other program fits")
        expect(page.locator("#result")).to_contain_text("Checked by running it")
        expect(page.locator("#program-text")).to_have_value(TAKE_ALL)
        expect(page.locator("#answer-number")).to_have_text("1 of 2")  # reports of progress tell of the best only
        expect(page.locator("#ambiguity")).to_be_visible()
        expect(page.locator("#solve")).to_be_enabled()
        expect(page.locator("#solve")).to_be_focused()
    finally:
        solver.seconds = 0


@pytest.fixture
def slow(solver: PoolSolver) -> Iterator[PoolSolver]:
    """A solver that searches until it is told to stop, or for as long as a test says."""
    solver.seconds = 20
    yield solver
    solver.seconds = 0


def await_idle(page: Page) -> None:
    """Until the server has noticed that nobody waits for the search any more."""
    for _ in range(200):
        if page.evaluate("fetch('/api/health').then((answer) => answer.json())")["solving"] == 0:
            return
        page.wait_for_timeout(50)
    raise AssertionError("the search goes on")


@pytest.mark.parametrize("answer", ["new Promise(() => {})", "Promise.reject(new TypeError())"])
def test_a_search_that_cannot_be_stopped_is_given_up(page: Page, slow: PoolSolver, answer: str) -> None:
    """What it has reported is shown then, and the server notices that nobody listens."""
    page.evaluate(DEAF.replace("ANSWER", answer))
    page.click("#solve")
    expect(page.locator("#progress-text")).to_contain_text("closest so far: right on 1 of 1")
    assert page.evaluate(PRESS_TWICE) == "Stopping…"
    expect(page.locator("#result")).to_contain_text("Stopped early. The best program so far is right on every example.")
    expect(page.locator("#program-text")).to_have_value(TAKE_ALL)
    expect(page.locator("#ambiguity")).to_be_hidden()
    await_idle(page)
    slow.seconds = 0
    page.click("#solve")  # nothing is left of the first search that would be in the way
    expect(page.locator("#result")).to_contain_text("Solved.")


def test_a_search_that_is_stopped_without_an_answer_says_so(new_page: NewPage, slow: PoolSolver) -> None:
    page = new_page(link([("> . .\n. . .", ". . .\n. . <")]))  # which no program here does
    page.click("#solve")
    expect(page.locator("#progress-text")).to_contain_text("tried")
    page.click("#cancel")
    expect(page.locator("#result")).to_contain_text("Stopped. No program was found that is right on every example.")
    expect(page.get_by_role("button", name="Search for 10 s")).to_have_count(0)
    expect(page.locator("#program-text")).to_have_value("")


def leave_by_gallery(page: Page) -> None:
    page.locator("#gallery-strip .chip").first.click()


def leave_by_undo(page: Page) -> None:
    page.click("#undo")


@pytest.mark.parametrize("leave", [leave_by_gallery, leave_by_undo])
def test_a_search_ends_with_its_task(page: Page, slow: PoolSolver, leave: Callable[[Page], None]) -> None:
    page.locator("#gallery-strip .chip").nth(2).click()
    page.click("#solve")
    expect(page.locator("#progress-text")).to_contain_text("tried")
    leave(page)
    expect(page.locator("#progress")).to_be_hidden()
    expect(page.locator("#solve")).to_be_enabled()
    await_idle(page)
    expect(page.locator("#result")).to_be_hidden()
    expect(page.locator("#ambiguity")).to_be_hidden()
    expect(page.locator("#program-text")).to_have_value("")
    slow.seconds = 0
    page.click("#solve")  # nothing is left of the first search that would be in the way
    expect(page.locator("#result")).to_be_visible()


def test_a_result_that_comes_after_an_edit_asks_nothing(page: Page, slow: PoolSolver) -> None:
    page.click("#solve")
    expect(page.locator("#progress-text")).to_contain_text("tried")
    cell(page, "Example 1, before", 2, 4).press("7")
    slow.seconds = 0
    expect(page.locator("#result")).to_contain_text("The examples have changed since: solve again.")
    expect(page.locator("#ambiguity")).to_be_hidden()
    expect(page.get_by_role("button", name="Which do you mean?")).to_have_count(0)


def test_a_task_never_has_more_examples_than_it_may(new_page: NewPage) -> None:
    def row(markers: int) -> tuple[str, str]:
        return (f". . .\n. . .\n> {markers} .", ". . .\n. . .\n. . >")

    page = new_page(link([row(1)] * 19))
    card = page.locator("#examples > li")
    solve(page)
    card.first.get_by_role("button", name="Copy this example").click()
    expect(card).to_have_count(20)
    expect(card.first.get_by_role("button", name="Copy this example")).to_be_disabled()
    expect(page.get_by_role("button", name="Add an example")).to_be_hidden()
    solve(page)
    for name in ("Outcome 1 is meant", "None of these"):
        question(page).get_by_role("button", name=name).click()
        expect(page.locator("#notice")).to_contain_text("A task has at most 20 examples: remove one first.")
        page.click("#notice-close")
        expect(card).to_have_count(20)
    expect(new_page(share(page)).locator("#examples > li")).to_have_count(20)
    page.goto(page.url.partition("#")[0])
    page.wait_for_selector("html[data-ready]")
    expect(card).to_have_count(20)  # the draft


def test_the_page_says_when_the_server_has_gone(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    page.route("**/api/**", lambda route: route.abort())
    page.click("#solve")
    expect(page.locator("#result")).to_contain_text("The server does not answer.")
    page.fill("#program-text", TAKE_ALL)
    expect(page.locator("#notice")).to_contain_text("Is karelsynth serve still running?")
    page.context.close()


def test_the_bar_moves_although_reports_are_rare(page: Page) -> None:
    page.evaluate(RARE)
    page.click("#solve")
    bar = page.locator("#progress-bar")
    page.wait_for_timeout(400)
    assert bar.evaluate("bar => bar.value") > 0.2
    expect(bar).to_have_js_property("value", 1)
    expect(page.locator("#progress-text")).to_have_text("1.0 of 1 s · Looking at the examples…")


@pytest.mark.parametrize(("width", "height"), [(390, 844), (800, 1000)])
def test_a_search_can_be_seen_and_cancelled_on_small_screens(
    new_page: NewPage, slow: PoolSolver, width: int, height: int
) -> None:
    page = new_page(viewport={"width": width, "height": height})
    expect(page.locator("#solve")).to_be_in_viewport(ratio=1)
    page.click("#solve")
    for shown in ("#progress-bar", "#progress-text", "#cancel"):
        expect(page.locator(shown)).to_be_in_viewport(ratio=1)
    page.click("#cancel")
    expect(page.locator("#result")).to_be_in_viewport(ratio=1)


def test_no_program_of_another_task_stays(page: Page) -> None:
    solve(page)
    cell(page, "Example 1, after", 2, 2).press("4")  # which no program here does
    solve(page, "unsolved")
    expect(page.locator("#program-text")).to_have_value("")
    page.click("#undo")
    solve(page)
    expect(page.locator("#program-text")).to_have_value(TAKE_ALL)
    page.get_by_role("button", name="New", exact=True).click()
    page.click("#solve")
    expect(page.locator("#result")).to_be_visible()
    page.click("#undo")
    expect(page.locator("#program-text")).to_have_value("")


def test_undo_takes_the_other_tasks_program_along(page: Page) -> None:
    page.evaluate("fragment => { location.hash = fragment }", link([(". 1\n> .", ". 1\n. >")]))
    expect(grid(page, "Example 1, before").get_by_role("gridcell")).to_have_count(4)
    solve(page)
    expect(page.locator("#program-text")).to_have_value(TAKE_ALL)
    page.click("#undo")
    expect(page.locator("#program-text")).to_have_value("")
    expect(page.locator("#answers")).to_be_hidden()


def test_a_partial_answer_is_called_so_while_it_is_one(page: Page) -> None:
    add_unchanged(page)
    solve(page, "unsolved")
    page.get_by_role("button", name="Show the closest program").click()
    expect(page.locator("#partial")).to_be_visible()
    page.get_by_role("button", name="Remove this example").nth(1).click()
    expect_verdicts(page, "Right")
    expect(page.locator("#partial")).to_be_hidden()
    page.click("#undo")
    expect(page.locator("#partial")).to_be_visible()
    page.fill("#program-text", TAKE_ONE)
    expect(page.locator("#partial")).to_be_hidden()
    page.get_by_role("button", name="Back to the answer").click()
    expect(page.locator("#partial")).to_be_visible()


def test_a_contradiction_is_not_called_a_failure(new_page: NewPage) -> None:
    page = new_page(link([("> .\n. .", ". >\n. ."), ("> .\n. .", ". .\n. >")]))
    solve(page, "problem")
    expect(page.locator("#result")).to_contain_text("Look at the examples again.")
    expect(page.locator("#result")).not_to_contain_text("Something went wrong")


def test_a_problem_in_the_stream_is_a_sentence(page: Page) -> None:
    told = 'event: error\ndata: {"message": "internal error: see the log"}\n\n'
    page.route("**/api/solve/stream", lambda route: route.fulfill(body=told, content_type="text/event-stream"))
    solve(page, "problem")
    expect(page.locator("#result")).to_contain_text("Something went wrong. Internal error: see the log")


def test_the_page_is_of_use_while_the_gallery_hangs(new_page: NewPage) -> None:
    page = new_page()
    page.add_init_script(LATE_GALLERY.replace("400", "1e9"))
    page.reload()
    page.wait_for_selector("html[data-ready]", timeout=8000)
    solve(page)


def test_the_page_notices_that_the_server_is_back(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    page.route("**/api/**", lambda route: route.abort())
    page.fill("#program-text", TAKE_ALL)
    expect(page.locator("#notice")).to_contain_text("The server does not answer.")
    page.unroute("**/api/**")
    page.fill("#program-text", TAKE_ONE)
    expect(page.locator("#notice")).to_be_hidden()
    page.context.close()


def test_a_text_is_read_as_soon_as_the_server_is_back(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    page.route("**/api/**", lambda route: route.abort())
    page.fill("#program-text", TAKE_ALL)
    expect(page.locator("#notice")).to_contain_text("The server does not answer.")
    page.unroute("**/api/**")
    expect(page.locator("#player-play")).to_be_enabled()
    expect(page.locator("#notice")).to_be_hidden()
    page.context.close()
