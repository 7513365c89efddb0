"""Drawing a task on the page: cells, walls, Karel, examples, and taking things back."""

from __future__ import annotations

import random

from playwright.sync_api import Page, expect

from karelsynth.karel.interpreter import run
from karelsynth.karel.program import Action, Program
from karelsynth.tasks.task_files import gallery
from tests.page.driver import (
    ROW,
    TWO_AND_PUT,
    NewPage,
    cell,
    content,
    expect_verdicts,
    grid,
    question,
    resize,
    solve,
    tool,
)
from tests.strategies import random_world


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
    cell(page, "Example 1, before", 3, 2).hover()
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
    expect(page.locator("#examples .hint")).to_have_text("There is a wall in the way.")
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
    expect(page.locator("#live")).to_have_text("row 2, column 5: wall")
    for key in ("ArrowLeft", "3", "+", "-"):
        page.keyboard.press(key)
    expect(page.locator("#live")).to_have_text("row 2, column 4: 3 markers")
    page.keyboard.press("Delete")
    tab_to("[aria-label^='Start over']")
    page.keyboard.press("Enter")
    tab_to("#examples [role=gridcell]")
    for key in ("D", "ArrowUp", "ArrowUp", "Space", "Escape"):  # upper case, as with Caps Lock
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
    expect(page.locator("#player-caption")).to_have_text("Step 1 of 3, line 2: move()")


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


def test_a_quick_stroke_has_no_holes(page: Page) -> None:
    tool(page, "Marker")
    cell(page, "Example 1, before", 2, 0).hover()
    page.mouse.down()
    cell(page, "Example 1, before", 1, 5).hover()
    page.mouse.up()
    rows = [[content(page, "Example 1, before", row, col) for col in range(6)] for row in (1, 2)]
    assert [sorted(column) for column in zip(*rows, strict=True)] == [["1 marker", "empty"]] * 6
    page.click("#undo")
    assert content(page, "Example 1, before", 2, 1) == "empty"


def test_a_second_finger_draws_nothing(page: Page) -> None:
    tool(page, "Marker")
    board = grid(page, "Example 1, before")
    cell(page, "Example 1, before", 2, 0).hover()
    page.mouse.down()
    board.evaluate(
        """board => {
          const { right, bottom } = board.getBoundingClientRect();
          const event = { pointerId: 77, clientX: right - 8, clientY: bottom - 8, bubbles: true };
          board.dispatchEvent(new PointerEvent("pointermove", event));
          board.dispatchEvent(new PointerEvent("pointerup", event));
        }"""
    )
    cell(page, "Example 1, before", 2, 2).hover()
    page.mouse.up()
    row = [content(page, "Example 1, before", 2, col) for col in range(4)]
    assert row == ["1 marker", "1 marker", "1 marker", "empty"]
    assert content(page, "Example 1, before", 0, 5) == "empty"


def test_a_wall_that_cannot_be_built_changes_nothing(page: Page) -> None:
    cell(page, "Example 1, before", 0, 5).press("3")
    tool(page, "Wall")
    cell(page, "Example 1, before", 0, 5).click()  # where Karel stands in After
    assert content(page, "Example 1, before", 0, 5) == "3 markers"
    expect(page.locator("#notice")).to_contain_text("Karel stands there in After")
    page.click("#undo")
    assert content(page, "Example 1, before", 0, 5) == "empty"  # there was no empty step before that one


def test_size_fields_obey_the_pages_keys(page: Page) -> None:
    resize(page, 5, 6)
    expect(grid(page, "Example 1, before").get_by_role("gridcell")).to_have_count(30)
    page.keyboard.press("Control+z")
    expect(grid(page, "Example 1, before").get_by_role("gridcell")).to_have_count(18)
    rows = page.locator("#examples li").last.get_by_role("spinbutton", name="Rows")
    rows.fill("7")
    with page.expect_request("**/api/solve/stream") as asked:
        rows.press("Control+Enter")
    body = asked.value.post_data_json
    assert body is not None
    assert body["examples"][0]["input"].count("\n") == 6


def test_driving_goes_on_after_a_click_on_the_pad_and_ends_with_another(page: Page) -> None:
    page.get_by_role("button", name="Start over").click()
    page.get_by_role("button", name="Copy this example").click()
    drive = page.get_by_role("button", name="Drive", exact=True)
    drive.first.click()
    pad = page.get_by_role("group", name="Drive Karel")
    pad.get_by_role("button", name="Move").click()
    page.keyboard.press("ArrowUp")
    assert content(page, "Example 1, after", 0, 2) == "Karel facing east, 1 marker"
    pad.get_by_role("button", name="Turn left").focus()
    page.keyboard.press("Space")  # presses the button
    page.keyboard.press("ArrowUp")  # drives
    assert content(page, "Example 1, after", 1, 2) == "Karel facing north"
    page.keyboard.press("ArrowDown")  # turns around, which is one step
    assert content(page, "Example 1, after", 1, 2) == "Karel facing south"
    page.keyboard.press("Control+z")
    assert content(page, "Example 1, after", 1, 2) == "Karel facing north"
    drive.nth(1).click()
    expect(pad).to_have_count(1)
    expect(drive.first).to_have_attribute("aria-pressed", "false")
    expect(drive.nth(1)).to_have_attribute("aria-pressed", "true")


def test_the_cursor_stays_on_the_screen(new_page: NewPage) -> None:
    page = new_page(ROW, viewport={"width": 1280, "height": 420})
    resize(page, 16, 6)
    cell(page, "Example 1, before", 0, 0).focus()
    for _ in range(15):
        page.keyboard.press("ArrowUp")
    expect(cell(page, "Example 1, before", 15, 0)).to_be_focused()
    expect(cell(page, "Example 1, before", 15, 0)).to_be_in_viewport(ratio=0.99)
    for _ in range(15):
        page.keyboard.press("ArrowDown")
    expect(cell(page, "Example 1, before", 0, 0)).to_be_in_viewport(ratio=0.99)


def test_the_keyboard_is_never_lost(page: Page) -> None:
    page.get_by_role("button", name="Add an example").click()
    expect(cell(page, "Example 2, before", 0, 0)).to_be_focused()
    page.keyboard.press("Control+z")
    expect(page.locator("#examples > li")).to_have_count(1)
    expect(page.locator("#examples > li [role=gridcell]:focus")).to_have_count(1)
    page.locator("#redo").press("Enter")
    expect(page.locator("#undo")).to_be_focused()  # there is nothing else to redo
    page.locator("#undo").press("Enter")
    solve(page)
    page.get_by_role("button", name="Next program").press("Enter")
    expect(page.get_by_role("button", name="Previous program")).to_be_focused()
    question(page).get_by_role("button", name="Outcome 2 is meant").press("Enter")
    expect(page.locator("#result")).to_contain_text("Right on both examples")
    expect(page.locator("#solve")).to_be_focused()
