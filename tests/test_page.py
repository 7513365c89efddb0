"""The page, as people use it: in a real browser, on the real service around a small solver.

Whatever a test does, the page may log no error and ask no other host for anything.
"""

from __future__ import annotations

import base64
import json
import random
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect, sync_playwright

from karelsynth.karel.interpreter import run
from karelsynth.karel.program import Action, Program
from karelsynth.karel.world import World
from karelsynth.tasks.gallery import gallery
from karelsynth.tasks.task import Example, Task
from karelsynth.tasks.task_files import parse_task, render_task
from tests.page_server import PoolSolver, served
from tests.strategies import random_world

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run"
).split()
PATIENCE = 20_000
"""Milliseconds until something that does not happen counts as failed; long, as tests run side by side."""
REFUSED = "status of 422"
"""The browser itself logs every answer that is no success; the page shows what this one says."""
STATIC = Path(__file__).parent.parent / "src" / "karelsynth" / "web" / "static"

TWO_AND_PUT = "def run():\n  move()\n  move()\n  putMarker()"
TAKE_ALL = "def run():\n  while(frontIsClear):\n    move()\n    while(markersPresent):\n      pickMarker()"
TAKE_ONE = "def run():\n  while(frontIsClear):\n    move()\n    if(markersPresent):\n      pickMarker()"
POOL = (TAKE_ALL, TAKE_ONE, TWO_AND_PUT)

NewPage = Callable[..., Page]


def link(examples: list[tuple[str, str]], name: str = "") -> str:
    """The part of an address that holds a task."""
    pairs = [{"input": before, "output": after} for before, after in examples]
    squeezer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    text = json.dumps({"name": name, "about": "", "examples": pairs}).encode()
    return "#task=" + base64.urlsafe_b64encode(squeezer.compress(text) + squeezer.flush()).decode().rstrip("=")


ROW = link([(". . . . . .\n. . . . . .\n> . 1 . 1 .", ". . . . . .\n. . . . . .\n. . . . . >")])
"""One example, in which Karel takes the markers of a row."""


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
            wrong.append(message.text)

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


def resize(page: Page, rows: int, cols: int) -> None:
    for name, value in (("Rows", rows), ("Columns", cols)):
        field = page.locator("#examples li").last.get_by_role("spinbutton", name=name)
        field.fill(str(value))
        field.press("Enter")


def expect_verdicts(page: Page, *expected: str) -> None:
    expect(page.locator("#examples .verdict:visible")).to_have_text(list(expected))


def test_a_newcomer_can_press_solve_at_once(new_page: NewPage) -> None:
    page = new_page()
    expect(page.locator("#tagline")).to_contain_text("Draw a world before and after")
    solve(page)
    expect(page.locator("#program-text")).to_have_value(TAKE_ALL)
    expect_verdicts(page, "Right", "Right")


def test_a_task_is_drawn_from_nothing_and_solved(page: Page) -> None:
    page.click("#new-task")
    expect(page.locator("#examples .hint")).to_contain_text("After is still the same as Before")
    resize(page, 4, 5)
    tool(page, "Karel")
    cell(page, "Example 1, before", 1, 1).click()  # places it
    cell(page, "Example 1, before", 1, 1).click()  # turns it
    assert content(page, "Example 1, before", 1, 1) == "Karel facing south"
    for _ in range(3):
        cell(page, "Example 1, before", 1, 1).click()
    tool(page, "Wall")
    cell(page, "Example 1, before", 3, 0).hover()
    page.mouse.down()
    cell(page, "Example 1, before", 3, 2).hover()  # a stroke may skip cells; its ends are painted
    page.mouse.up()
    tool(page, "Marker")
    for _ in range(2):
        cell(page, "Example 1, before", 1, 3).click()
    assert content(page, "Example 1, after", 1, 3) == "2 markers"  # After follows, as nobody has touched it
    tool(page, "Karel")
    cell(page, "Example 1, after", 1, 3).click()
    tool(page, "Marker")
    cell(page, "Example 1, after", 1, 3).click()
    assert content(page, "Example 1, before", 1, 1) == "Karel facing east"
    assert content(page, "Example 1, before", 1, 3) == "2 markers"
    assert content(page, "Example 1, after", 1, 3) == "Karel facing east, 3 markers"
    assert content(page, "Example 1, after", 3, 2) == "wall"

    solve(page)
    expect(page.locator("#program-text")).to_have_value(TWO_AND_PUT)
    expect_verdicts(page, "Right")
    cell(page, "Example 1, after", 0, 0).click()  # a marker where the program puts none
    expect_verdicts(page, "Wrong")
    expect(page.locator("#result")).to_be_hidden()


def test_karel_is_driven_to_make_an_example(page: Page) -> None:
    page.get_by_role("button", name="Start over").click()
    page.get_by_role("button", name="Drive", exact=True).click()
    for key in ("ArrowUp", "ArrowUp", "Backspace", "ArrowLeft", "ArrowUp", "Space", "Space", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert content(page, "Example 1, after", 1, 2) == "Karel facing west, 2 markers"
    assert content(page, "Example 1, after", 0, 2) == "empty"
    assert content(page, "Example 1, before", 0, 2) == "1 marker"
    for _ in range(3):
        page.keyboard.press("ArrowUp")  # the third would leave the grid
    assert content(page, "Example 1, after", 1, 0) == "Karel facing west"
    expect(page.locator("#live")).to_have_text("Karel cannot do that: there is a wall in the way.")
    page.get_by_role("group", name="Drive Karel").get_by_role("button", name="Put a marker").click()
    assert content(page, "Example 1, after", 1, 0) == "Karel facing west, 1 marker"
    page.keyboard.press("Control+z")
    assert content(page, "Example 1, after", 1, 0) == "Karel facing west"


def test_walls_and_size_are_shared_and_never_bury_karel(page: Page) -> None:
    tool(page, "Wall")
    cell(page, "Example 1, after", 2, 3).click()
    assert content(page, "Example 1, before", 2, 3) == "wall"
    cell(page, "Example 1, before", 0, 5).click()  # where Karel stands afterwards
    assert content(page, "Example 1, before", 0, 5) == "empty"
    cell(page, "Example 1, before", 0, 2).click()
    assert [content(page, f"Example 1, {side}", 0, 2) for side in ("before", "after")] == ["wall", "wall"]
    resize(page, 2, 3)
    assert content(page, "Example 1, after", 0, 2) == "Karel facing east"  # came along, and the wall gave way
    assert content(page, "Example 1, before", 0, 2) == "empty"
    expect(grid(page, "Example 1, before").get_by_role("gridcell")).to_have_count(6)


def test_undo_takes_back_whole_strokes_and_other_tasks(page: Page) -> None:
    tool(page, "Marker")
    cell(page, "Example 1, before", 2, 0).hover()
    page.mouse.down()
    for col in (1, 2, 3):
        cell(page, "Example 1, before", 2, col).hover()
    page.mouse.up()
    row = [content(page, "Example 1, before", 2, col) for col in range(5)]
    assert row == ["1 marker", "1 marker", "1 marker", "1 marker", "empty"]
    page.locator("#gallery-strip .chip").first.click()
    expect(page.locator("#task-name")).to_have_value(gallery()[0].task.name)
    page.click("#undo")
    assert content(page, "Example 1, before", 2, 3) == "1 marker"
    page.click("#undo")
    assert [content(page, "Example 1, before", 2, col) for col in range(4)] == ["empty"] * 4
    page.click("#redo")
    assert content(page, "Example 1, before", 2, 0) == "1 marker"


def test_a_run_is_watched_step_by_step(page: Page) -> None:
    solve(page)
    caption = page.locator("#player-caption")
    marked = page.locator("#program-paint .running")
    page.get_by_role("button", name="Step forward").click()
    expect(caption).to_have_text("Step 1 of 20: WHILE")
    assert "".join(marked.all_inner_texts()).startswith("while(frontIsClear")
    page.get_by_role("button", name="Step forward").click()
    expect(caption).to_have_text("Step 2 of 20: move")
    assert "".join(marked.all_inner_texts()) == "move()"
    stage = page.locator("#stage svg[role='img']")
    expect(stage).to_have_attribute("aria-label", re.compile("Karel at row 0, column 1 facing east.* 2 markers"))
    page.get_by_role("button", name="Step back").click()
    expect(stage).to_have_attribute("aria-label", re.compile("Karel at row 0, column 0"))
    page.get_by_role("button", name="To the end").click()
    expect(stage).to_have_attribute("aria-label", re.compile("Karel at row 0, column 5 .* 0 markers"))
    expect(caption).to_contain_text("The program finished after 20 ticks.")
    page.locator("#player-place").press("ArrowLeft")
    expect(caption).to_contain_text("Step 19 of 20")
    page.locator("#player-speed").press("End")
    page.get_by_role("button", name="Play", exact=True).click()
    expect(caption).to_contain_text("The program finished after 20 ticks.")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()


def test_a_program_is_tried_on_a_world_of_ones_own(page: Page) -> None:
    page.fill("#program-text", TWO_AND_PUT)
    page.select_option("#player-source", label="A world of your own")
    own = "A world to try the program on"
    page.locator("#own-tools").get_by_role("radio", name="Wall").click()
    cell(page, own, 0, 2).click()
    page.get_by_role("button", name="To the end").click()
    expect(page.locator("#player-caption")).to_contain_text("crashed: moved into a wall")
    expect(page.locator("#program-paint .crashed")).to_have_text("move")
    page.get_by_role("button", name="To the start").click()
    cell(page, own, 0, 2).focus()
    page.keyboard.press("Control+z")  # undo in this world, not in the examples
    expect(cell(page, own, 0, 2)).to_have_attribute("aria-label", "row 0, column 2: 1 marker")
    page.get_by_role("button", name="To the end").click()
    expect(page.locator("#player-caption")).to_contain_text("finished after 3 ticks")


def test_a_mistake_in_a_typed_program_is_marked_and_mended(page: Page) -> None:
    page.fill("#program-text", TAKE_ALL.replace("move", "mvoe"))
    problem = page.locator("#program-problem")
    expect(problem).to_contain_text("Line 3, column 5")
    expect(problem).to_contain_text("unknown word mvoe")
    expect(page.locator("#program-paint .problem")).to_have_text("mvoe")
    expect(page.locator("#program-text")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#player-play")).to_be_disabled()
    problem.get_by_role("button", name="Use it").click()
    expect(page.locator("#program-text")).to_have_value(TAKE_ALL)
    expect(problem).to_be_hidden()
    expect_verdicts(page, "Right")
    page.locator("#dialects").get_by_role("button", name="Python").click()
    expect(page.locator("#program-text")).to_have_value(Program.parse(TAKE_ALL).to("stanford"))


def test_a_link_holds_the_whole_task(page: Page, new_page: NewPage) -> None:
    page.locator("#gallery-strip .chip").nth(3).click()
    name, examples = gallery()[3].task.name, gallery()[3].task.examples
    page.click("#share-task")
    page.wait_for_url("**/#task=*")
    fragment = page.url.partition("#")[2]
    other = new_page(f"#{fragment}")
    expect(other.locator("#task-name")).to_have_value(name)
    expect(other.locator("#examples > li")).to_have_count(len(examples))
    row, col, heading = examples[1].output.hero
    assert content(other, "Example 2, after", row, col).startswith(f"Karel facing {heading}")
    cell(other, "Example 1, before", 0, 0).press("9")
    other.wait_for_url(lambda url: "#" not in url)  # what the address says is no longer so

    page.click("#undo")
    page.evaluate("fragment => { location.hash = fragment }", fragment)  # pasted into the address of an open page
    expect(page.locator("#task-name")).to_have_value(name)

    broken = new_page(f"#{fragment[:60]}")
    expect(broken.locator("#notice")).to_contain_text("This link does not hold a whole task")
    expect(broken.locator("#tagline")).to_be_visible()  # the newcomer's page instead


def test_the_keyboard_is_enough(page: Page) -> None:
    def tab_to(selector: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"Tab does not lead to {selector}")

    tab_to("#examples [role=gridcell]")  # Before: the one cell in the tab order is Karel's
    for key in ("ArrowRight", "ArrowRight", "0", "ArrowRight", "ArrowRight", "Delete", "ArrowUp", "w"):
        page.keyboard.press(key)
    expect(page.locator("#live")).to_have_text("row 1, column 4: wall")
    for key in ("ArrowLeft", "3", "+", "-"):
        page.keyboard.press(key)
    expect(page.locator("#live")).to_have_text("row 1, column 3: 3 markers")
    page.keyboard.press("Delete")
    tab_to("[aria-label^='Start over']")
    page.keyboard.press("Enter")
    tab_to("#examples [role=gridcell]")
    for key in ("d", "ArrowUp", "ArrowUp", "Space", "Escape"):
        page.keyboard.press(key)
    assert content(page, "Example 1, after", 0, 2) == "Karel facing east, 1 marker"
    assert content(page, "Example 1, after", 1, 4) == "wall"
    page.keyboard.press("Control+Enter")
    expect(page.locator("#live")).to_contain_text("Solved. Right on the example")
    expect(page.locator("#program-text")).to_have_value(TWO_AND_PUT)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="How it works")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    tab_to("#player-forth")
    page.keyboard.press("Enter")
    expect(page.locator("#player-caption")).to_have_text("Step 1 of 3: move")


def test_it_asks_which_outcome_is_meant(page: Page) -> None:
    solve(page)
    question = page.locator("#ambiguity")
    expect(question).to_be_visible()
    expect(page.locator("#answer-number")).to_have_text("1 of 2")
    page.get_by_role("button", name="Next program").click()
    expect(page.locator("#program-text")).to_have_value(TAKE_ONE)
    question.get_by_role("button", name="Outcome 2 is meant").click()
    expect(page.locator("#examples > li")).to_have_count(2)
    expect(page.locator("#result")).to_contain_text("Right on both examples")
    expect(page.locator("#program-text")).to_have_value(TAKE_ONE)
    expect(question).to_be_hidden()
    expect_verdicts(page, "Right", "Right")


def test_an_unsolved_task_says_so_and_shows_the_best_partial_answer(page: Page) -> None:
    page.get_by_role("button", name="Add an example").click()  # nothing changes in it, which no program here does
    solve(page, "unsolved")
    expect(page.locator("#result")).to_contain_text("right on 1 of 2: a partial answer")
    expect(page.locator("#partial")).to_be_visible()
    expect_verdicts(page, "Right", "Wrong")
    page.get_by_role("button", name="Search for 10 s").click()
    expect(page.locator("#budget")).to_have_value("10")
    expect(page.locator("#result")).to_contain_text("partial answer")


def test_a_search_shows_progress_and_can_be_cancelled(page: Page, solver: PoolSolver) -> None:
    solver.seconds = 20
    try:
        page.click("#solve")
        expect(page.locator("#progress-text")).to_contain_text("tried · best so far: right on 1 of 1")
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#result")).to_contain_text("Stopped early.")
        expect(page.locator("#program-text")).to_have_value(TAKE_ALL)
        expect(page.locator("#solve")).to_be_enabled()
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
    question = page.locator("#ambiguity")
    expect(question).to_be_visible()
    card.first.get_by_role("button", name="Copy this example").click()
    expect(card).to_have_count(20)
    expect(card.first.get_by_role("button", name="Copy this example")).to_be_disabled()
    expect(page.get_by_role("button", name="Add an example")).to_be_hidden()
    solve(page)
    for name in ("Outcome 1 is meant", "None of these"):
        expect(question).to_be_visible()
        question.get_by_role("button", name=name).click()
        expect(page.locator("#notice")).to_contain_text("A task has at most 20 examples: remove one first.")
        page.click("#notice-close")
        expect(card).to_have_count(20)
    page.click("#share-task")
    page.wait_for_url("**/#task=*")
    expect(new_page(f"#{page.url.partition('#')[2]}").locator("#examples > li")).to_have_count(20)
    page.goto(page.url.partition("#")[0])
    page.wait_for_selector("html[data-ready]")
    expect(card).to_have_count(20)  # the draft


def test_examples_are_copied_moved_and_removed(page: Page) -> None:
    card = page.locator("#examples > li")
    card.first.get_by_role("button", name="Copy this example").click()
    cell(page, "Example 2, before", 2, 2).press("5")
    page.get_by_role("button", name="Move this example earlier").nth(1).click()
    assert content(page, "Example 1, before", 2, 2) == "5 markers"
    assert content(page, "Example 2, before", 2, 2) == "empty"
    card.first.get_by_role("button", name="A random world").click()
    expect(card.first.locator(".hint")).to_contain_text("After is still the same as Before")
    card.first.get_by_role("button", name="Remove this example").click()
    expect(card).to_have_count(1)
    expect(card.first.get_by_role("button", name="Remove this example")).to_be_disabled()


def test_task_files_are_saved_and_opened(page: Page, tmp_path: Path) -> None:
    world = World.parse(". . 2\n> # .")
    task = Task((Example(world, world.with_hero(1, 1, "west")),), name="Over there", about="Go.")
    (tmp_path / "mine.task").write_text(render_task(task), encoding="utf-8")
    page.set_input_files("#task-file", tmp_path / "mine.task")
    expect(page.locator("#task-name")).to_have_value("Over there")
    expect(page.locator("#task-about")).to_have_text("Go.")
    page.fill("#task-name", "Over here")
    with page.expect_download() as download:
        page.click("#save-task")
    assert download.value.suggested_filename == "over-here.task"
    saved = parse_task(download.value.path().read_text(encoding="utf-8"))
    assert saved == Task(task.examples, name="Over here", about="Go.")

    (tmp_path / "broken.task").write_text("name: Broken\n\ninput:\n> ?\n", encoding="utf-8")
    page.set_input_files("#task-file", tmp_path / "broken.task")
    expect(page.locator("#notice")).to_contain_text("line")
    expect(page.locator("#task-name")).to_have_value("Over here")


def test_the_program_is_downloaded_for_stanford_karel(page: Page) -> None:
    page.fill("#program-text", TWO_AND_PUT)
    downloads: dict[str, str] = {}
    page.on("download", lambda file: downloads.update({file.suggested_filename: file.path().read_text("utf-8")}))
    page.click("#download-program")
    expect(page.locator("#notice")).to_contain_text("Saved karel_task.py and karel_task.w")
    page.wait_for_timeout(300)
    assert Program.parse(downloads["karel_task.py"]) == Program.parse(TWO_AND_PUT)
    assert World.from_stanford(downloads["karel_task.w"]) == World.parse(". . . . . .\n. . . . . .\n> . 1 . 1 .")


def test_the_gallery_is_one_click_away(page: Page) -> None:
    page.get_by_role("button", name=f"All {len(gallery())}").click()
    dialog = page.get_by_role("dialog", name="Gallery")
    expect(dialog.locator(".gallery-card")).to_have_count(len(gallery()))
    last = gallery()[-1]
    dialog.locator(f"[data-slug='{last.slug}']").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#task-name")).to_have_value(last.task.name)
    expect(page.locator("#examples > li")).to_have_count(len(last.task.examples))


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


def test_drawings_and_colours_are_remembered(page: Page) -> None:
    theme = page.locator("html")
    expect(theme).to_have_attribute("data-theme", "light")
    page.click("#theme")
    cell(page, "Example 1, before", 2, 4).press("7")
    page.wait_for_timeout(500)
    page.reload()
    page.wait_for_selector("html[data-ready]")
    expect(theme).to_have_attribute("data-theme", "dark")
    assert content(page, "Example 1, before", 2, 4) == "7 markers"


def test_the_system_decides_on_dark_until_somebody_does(new_page: NewPage) -> None:
    page = new_page(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


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


def test_the_pages_worlds_are_the_interpreters(page: Page) -> None:
    """Drawings read and written, and every action, on random worlds: the same as in Python."""
    rng = random.Random(1)
    worlds = [random_world(rng) for _ in range(150)]
    asked = [[world.to_text(), rng.choice([action.value for action in Action])] for world in worlds]
    told = page.evaluate(
        """async (asked) => {
          const { act, parse, render } = await import("/static/world.js");
          return asked.map(([text, action]) => {
            const { world, problem } = act(parse(text), action);
            return [render(parse(text)), render(world), problem !== null];
          });
        }""",
        asked,
    )
    for world, (text, action), (same, after, problem) in zip(worlds, asked, told, strict=True):
        expected = run(Program((Action(action),)), world)
        assert (same, after, problem) == (text, expected.world.to_text(), not expected.ok)


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
