"""Watching programs run on the page, typing them, and taking them along."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from tests.page.driver import TAKE_ALL, TWO_AND_PUT, cell, expect_verdicts, solve


def test_a_run_is_watched_step_by_step(page: Page) -> None:
    solve(page)
    caption = page.locator("#player-caption")
    marked = page.locator("#program-paint .running")
    page.get_by_role("button", name="Step forward").click()
    expect(caption).to_have_text("Step 1 of 20, line 2: while(frontIsClear)")
    assert "".join(marked.all_inner_texts()).startswith("while(frontIsClear")
    page.get_by_role("button", name="Step forward").click()
    expect(caption).to_have_text("Step 2 of 20, line 3: move()")
    assert "".join(marked.all_inner_texts()) == "move()"
    stage = page.locator("#stage svg[role='img']")
    expect(stage).to_have_attribute("aria-label", re.compile("Karel at row 1, column 2 facing east.* 2 markers"))
    page.get_by_role("button", name="Step back").click()
    expect(stage).to_have_attribute("aria-label", re.compile("Karel at row 1, column 1"))
    page.get_by_role("button", name="To the end").click()
    expect(stage).to_have_attribute("aria-label", re.compile("Karel at row 1, column 6 .* 0 markers"))
    expect(caption).to_contain_text("The program is done.")
    page.locator("#player-place").press("ArrowLeft")
    expect(caption).to_contain_text("Step 19 of 20")
    page.locator("#player-speed").press("End")
    page.get_by_role("button", name="Play", exact=True).click()
    expect(caption).to_contain_text("The program is done.")
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
    expect(cell(page, own, 0, 2)).to_have_attribute("aria-label", "row 1, column 3: 1 marker")
    page.get_by_role("button", name="To the end").click()
    expect(page.locator("#player-caption")).to_contain_text("is done")


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


def test_what_is_typed_while_a_dialect_is_changed_stays(page: Page) -> None:
    held: list[Route] = []
    page.route("**/api/convert", lambda route: held.append(route))
    page.fill("#program-text", TAKE_ALL)
    page.locator("#dialects").get_by_role("button", name="Python").click()
    page.fill("#program-text", TWO_AND_PUT)
    with page.expect_response("**/api/convert"):
        held[0].continue_()
    expect_verdicts(page, "Wrong")
    expect(page.locator("#program-text")).to_have_value(TWO_AND_PUT)


def test_the_program_is_downloaded_for_stanford_karel(page: Page) -> None:
    page.fill("#program-text", TWO_AND_PUT)
    downloads: dict[str, str] = {}
    page.on("download", lambda file: downloads.update({file.suggested_filename: file.path().read_text("utf-8")}))
    page.click("#download-program")
    expect(page.locator("#notice")).to_contain_text("Saved karel_task.py and karel_task.w")
    page.wait_for_timeout(300)
    assert Program.parse(downloads["karel_task.py"]) == Program.parse(TWO_AND_PUT)
    assert World.from_stanford(downloads["karel_task.w"]) == World.parse(". . . . . .\n. . . . . .\n> . 1 . 1 .")


def test_the_slider_knows_the_end_before_the_first_play(page: Page) -> None:
    page.fill("#program-text", TWO_AND_PUT)
    expect(page.locator("#player-play")).to_be_enabled()
    page.locator("#player-place").press("End")
    expect(page.locator("#player-caption")).to_contain_text("Step 3 of 3")
    page.fill("#program-text", TAKE_ALL)
    expect_verdicts(page, "Right")
    page.locator("#player-place").press("ArrowRight")
    expect(page.locator("#player-caption")).to_contain_text("Step 1 of 20")
    page.locator("#player-place").press("ArrowRight")
    expect(page.locator("#player-caption")).to_contain_text("Step 2 of 20")


def test_a_run_goes_on_while_the_task_is_named_and_the_dialect_changed(page: Page) -> None:
    solve(page)
    for _ in range(2):
        page.get_by_role("button", name="Step forward").click()
    page.fill("#task-name", "Sweep")
    expect(page.locator("#player-caption")).to_have_text("Step 2 of 20, line 3: move()")
    page.locator("#dialects").get_by_role("button", name="Python").click()
    expect(page.locator("#program-paint .running")).to_have_count(2)  # a word, and what follows it
    expect(page.locator("#player-caption")).to_have_text(re.compile(r"Step 2 of 20, line \d+: move\(\)"))
    assert "".join(page.locator("#program-paint .running").all_inner_texts()) == "move()"
    page.get_by_role("button", name="Step forward").click()
    expect(page.locator("#player-caption")).to_contain_text("Step 3 of 20")
    cell(page, "Example 1, before", 2, 2).press("1")  # another world: another run
    expect(page.locator("#player-caption")).to_have_text("Press play to watch the program here.")


def test_a_click_after_a_run_leads_back_to_drawing(page: Page) -> None:
    page.fill("#program-text", TWO_AND_PUT)
    page.select_option("#player-source", label="A world of your own")
    page.get_by_role("button", name="To the end").click()
    expect(page.locator("#player-caption")).to_contain_text("is done")
    page.locator("#stage svg[role='img']").click()
    expect(page.locator("#player-caption")).to_contain_text("draw here")
    own = "A world to try the program on"
    cell(page, own, 2, 2).press("4")
    expect(cell(page, own, 2, 2)).to_have_attribute("aria-label", "row 3, column 3: 4 markers")
