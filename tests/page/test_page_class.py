"""The page in a classroom: on a projector, a laptop, a phone, at 200 %, on paper; with nothing in anybody's way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.page.driver import (
    ROW,
    TAKE_ALL,
    TWO_AND_PUT,
    NewPage,
    cell,
    expect_verdicts,
    grid,
    link,
    question,
    resize,
    share,
    solve,
    tool,
)

PROJECTOR = {"viewport": {"width": 1920, "height": 1080}}
LAPTOP = {"viewport": {"width": 1366, "height": 768}}
ZOOMED = {"viewport": {"width": 683, "height": 384}, "device_scale_factor": 2}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SCREENS = {"projector": PROJECTOR, "laptop": LAPTOP, "200 %": ZOOMED, "phone": PHONE}
MINE = """# my own
from stanfordkarel import *


def turn_around():   # twice
    turn_left()
    turn_left()


def main():
    while front_is_clear():
        move()
    turn_around()


if __name__ == "__main__":
    run_karel_program()
"""
IS_SEEN = """node => {
  const { x, y, width, height } = node.getBoundingClientRect();
  return node.contains(document.elementFromPoint(x + width / 2, y + height / 2));
}"""
"""Whether nothing lies on the middle of a node."""
LONG = "def run():\n  repeat(19):\n    repeat(8):\n      turnLeft()\n  move()"
"""Takes 324 ticks: all the way around, and then a step."""


# Layout


@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS)
def test_program_and_world_are_seen_together(new_page: NewPage, screen: dict[str, object]) -> None:
    page = new_page(ROW, **screen)
    solve(page)
    for _ in range(3):
        page.click("#player-forth")
    page.click("#player-play")
    expect(page.locator("#program-paint .running").first).to_be_in_viewport(ratio=1)
    expect(page.locator("#stage svg[role='img']")).to_be_in_viewport(ratio=1)
    expect(page.locator("#player-play")).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_run_stays_in_sight_beside_a_long_program(new_page: NewPage) -> None:
    page = new_page(ROW, **LAPTOP)
    page.get_by_role("group", name="Show the program as").get_by_role("button", name="Both").click()
    page.fill("#program-text", TWO_AND_PUT + "\n  move()" * 12)
    expect(page.locator("#tutor")).to_be_visible()
    expect(page.locator(".controls")).to_be_in_viewport(ratio=1)
    page.locator("#bench").evaluate("bench => { bench.scrollTop = 90 }")
    expect(page.locator("#stage")).to_be_in_viewport(ratio=1)
    page.get_by_role("group", name="Show the program as").get_by_role("button", name="Text").click()
    lines = page.locator("#program-paint .code-line")
    page.locator("#bench").evaluate("bench => { bench.scrollTop = 0 }")
    for number in range(12):  # with the head of the tutor below
        expect(lines.nth(number)).to_be_in_viewport(ratio=0.9)
    expect(page.get_by_role("button", name="Where should I look?")).to_be_in_viewport(ratio=0.5)


@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS)
def test_nothing_covers_the_tutor(new_page: NewPage, screen: dict[str, object]) -> None:
    page = new_page(ROW, **screen)
    page.fill("#program-text", TWO_AND_PUT)
    page.click("#player-forth")  # on a phone, the lines that run stay above the world from now on
    page.locator(".tutor-worlds").evaluate("worlds => worlds.scrollIntoView({ block: 'end' })")
    for world in page.locator(".tutor-picture svg").all():
        assert world.evaluate(IS_SEEN)


@pytest.mark.parametrize("mode", ["Blocks", "Both"])
@pytest.mark.parametrize("screen", [ZOOMED, PHONE], ids=["200 %", "phone"])
def test_blocks_cover_no_button(new_page: NewPage, screen: dict[str, object], mode: str) -> None:
    page = new_page(ROW, **screen)
    page.fill("#program-text", TAKE_ALL)
    page.get_by_role("group", name="Show the program as").get_by_role("button", name=mode).click()
    expect(page.locator(".block-tree .block").last).to_be_visible()
    tree, copy = page.locator(".block-tree").bounding_box(), page.locator("#copy-program").bounding_box()
    assert tree is not None
    assert copy is not None
    assert tree["y"] + tree["height"] <= copy["y"]
    for _ in range(3):
        page.click("#player-forth")
    page.click("#player-play", trial=True)
    running = page.locator("#program-card :is(.running, .block-running > .block-head)")
    expect(running.filter(visible=True).last).to_be_in_viewport()
    expect(page.locator("#stage")).to_be_in_viewport(ratio=0.9)
    assert page.locator("#stage svg[role='img']").evaluate(IS_SEEN)


def test_the_projectors_view_at_200_percent_cuts_nothing(new_page: NewPage) -> None:
    page = new_page(ROW, **ZOOMED)
    page.fill("#program-text", TAKE_ALL)
    page.click("#projector")
    for _ in range(3):
        page.click("#player-forth")
    assert len({line.bounding_box()["height"] for line in page.locator(".code-line").all()}) == 1  # type: ignore[index]
    caption, slider = (page.locator(each).bounding_box() for each in ("#player-caption", "#player-place"))
    assert caption is not None
    assert slider is not None
    assert caption["y"] + caption["height"] <= slider["y"]
    page.click("#projector-end")
    expect(page.locator(".top")).to_be_visible()


@pytest.mark.parametrize("screen", [PROJECTOR, LAPTOP], ids=["projector", "laptop"])
def test_a_projector_shows_the_program_and_the_world_only(new_page: NewPage, screen: dict[str, object]) -> None:
    page = new_page(ROW, **screen)
    solve(page)
    page.keyboard.press("p")
    for other in (".top", ".drawing", "#solve-panel", "#copy-program"):
        expect(page.locator(other)).to_be_hidden()
    size = page.locator("#program-paint").evaluate("code => parseFloat(getComputedStyle(code).fontSize)")
    assert size >= 24
    board = page.locator("#stage svg[role='img']").bounding_box()
    assert board is not None
    assert board["width"] > 0.4 * page.evaluate("innerWidth")
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(page.locator(".top")).to_be_visible()
    expect(page.locator("#projector")).to_be_focused()


@pytest.mark.parametrize(("screen", "grows"), [(LAPTOP, 2), (ZOOMED, 1.5)], ids=["laptop", "200 %"])
def test_a_large_world_has_numbers_and_can_be_enlarged(
    new_page: NewPage, screen: dict[str, object], grows: float
) -> None:
    page = new_page(ROW, **screen)
    resize(page, 16, 16)
    board = grid(page, "Example 1, before")
    numbers = board.locator(".axes text")
    assert numbers.all_text_contents() == [str(number) for number in range(1, 17)] * 2
    small = board.bounding_box()
    assert small is not None
    seen = [each.bounding_box() for each in numbers.all() if each.is_visible()]
    assert min(box["height"] for box in seen if box is not None) > 9  # pixels: they can be read
    page.get_by_role("button", name="Make this example larger or smaller").click()
    large = board.bounding_box()
    assert large is not None
    assert large["width"] > grows * small["width"]
    expect(board).to_be_in_viewport(ratio=0.9 if screen is LAPTOP else 0.5)
    assert all(each.is_visible() for each in numbers.all())
    line = page.locator("#examples .lines").first
    assert line.evaluate("line => getComputedStyle(line).vectorEffect") == "non-scaling-stroke"


def test_a_phone_names_its_tools_and_shows_the_result(new_page: NewPage) -> None:
    page = new_page(ROW, **PHONE)
    assert page.locator("#tools .tool span").all_inner_texts() == ["Karel", "Wall", "Marker", "Take", "Erase"]
    for label in page.locator("#tools .tool span").all():
        expect(label).to_be_in_viewport()
    page.select_option("#player-source", label="A world of your own")
    expect(page.locator("#own-tools .tool span").first).to_be_visible()
    solve(page)
    result, bar = page.locator("#result").bounding_box(), page.locator(".solve-bar").bounding_box()
    assert result is not None
    assert bar is not None
    assert result["y"] + result["height"] <= bar["y"]


def test_a_phone_shows_why_karel_cannot_go_on(new_page: NewPage) -> None:
    page = new_page(link([("> . . .\n. . . .", "> . . .\n. . . .")]), **PHONE)
    page.get_by_role("button", name="Drive", exact=True).click()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    expect(page.locator(".hint.bumped")).to_have_text("There is a wall in the way.")
    bar = page.locator(".solve-bar").bounding_box()
    hint = page.locator(".hint.bumped").bounding_box()
    assert hint is not None
    assert bar is not None
    assert hint["y"] + hint["height"] <= bar["y"]


def test_a_phone_shows_lines_and_world_of_a_run_together(new_page: NewPage) -> None:
    page = new_page(link([("> . . .\n. . . .", ". . > .\n. . . .")] * 6, name="Six the same"), **PHONE)
    page.fill("#program-text", TAKE_ALL)
    expect(page.locator("#tutor")).to_contain_text("Right on 0 of 6")  # six buttons to choose a wrong example
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["viewport"]["width"]  # type: ignore[index]
    for _ in range(3):
        page.click("#player-forth")
    code, world, bar = (page.locator(each).bounding_box() for each in ("#program-frame", "#stage", ".solve-bar"))
    controls = page.locator(".controls").bounding_box()
    assert code is not None
    assert world is not None
    assert bar is not None
    assert controls is not None
    assert code["y"] > 0
    assert code["y"] + code["height"] <= world["y"]
    assert controls["y"] + controls["height"] < bar["y"] + 1  # scrolled by less than a pixel
    name = page.locator("#task-name")
    assert name.evaluate("name => name.scrollWidth <= name.clientWidth")  # it is not cut


def test_a_task_is_printed_as_a_worksheet(new_page: NewPage, tmp_path: Path) -> None:
    page = new_page(ROW, **LAPTOP)
    page.fill("#task-name", "Take them all")
    page.get_by_role("button", name="Add an example").click()  # not filled in: it is left out
    solve(page)
    page.emulate_media(media="print")
    expect(page.locator("#print-name")).to_have_text("Take them all")
    expect(page.locator("#print-name")).to_be_visible()
    expect(page.locator("#examples > li").first).to_be_visible()
    expect(page.locator("#examples > li").nth(1)).to_be_hidden()
    for line in page.locator("#program-paint .code-line").all():
        expect(line).to_be_visible()
    expect(page.get_by_text("Date: ____")).to_be_visible()
    for other in (".top", "#tools", "#solve-panel", "#player", "#copy-program", "#add-example"):
        expect(page.locator(other)).to_be_hidden()
    page.locator("#program-text").focus()
    assert page.locator("#program-frame").evaluate("frame => getComputedStyle(frame).outlineStyle") == "none"
    marker = page.locator("#examples .marker").first
    assert marker.evaluate("marker => getComputedStyle(marker).stroke") == "rgb(0, 0, 0)"  # seen on a copy, too
    page.emulate_media(media="null")  # "screen" would be printed as it is there
    assert page.pdf(format="A4").count(b"/Type /Page\n") == 1
    page.click("#projector")
    page.pdf(format="A4")
    expect(page.locator("#examples")).to_be_visible()  # the examples are printed from there, too


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_axe_finds_no_barrier(new_page: NewPage, screen: dict[str, object], scheme: str) -> None:
    page = new_page(ROW, color_scheme=scheme, **screen)

    def violations() -> list[str]:
        found = Axe().run(page).response["violations"]
        return [f"{each['id']}: {node['target']}" for each in found for node in each["nodes"]]

    solve(page)
    question(page)
    page.click("#player-forth")
    assert violations() == []
    page.click("#share-task")
    assert violations() == []
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("p")
    assert violations() == []


# Defects that a class met


def test_what_was_typed_is_never_rewritten(page: Page, new_page: NewPage) -> None:
    text = page.locator("#program-text")
    text.fill(MINE)
    expect_verdicts(page, "Wrong")
    dialects = page.locator("#dialects")
    for name, words in (("Karel", "def turn_around"), ("One line", "DEF run m"), ("Karel", "# my own")):
        dialects.get_by_role("button", name=name).click()
        expect(text).to_have_value(re.compile(words))
        expect(text).not_to_have_value(MINE)
        expect(page.locator("#program-view")).to_contain_text("kept as you typed it (Python)")
        if name == "One line":
            expect(page.locator("#program-view")).to_contain_text("One line has no functions: turn_around is written")
    dialects.get_by_role("button", name="Python").click()
    expect(text).to_have_value(MINE)
    expect(page.locator("#program-view")).to_be_hidden()
    dialects.get_by_role("button", name="Karel").click()
    expect(page.locator("#program-view")).to_be_visible()
    expect(new_page(share(page)).locator("#program-text")).to_have_value(MINE)  # others get what was typed, too
    page.reload()
    page.wait_for_selector("html[data-ready]")
    expect(text).to_have_value(MINE)
    dialects.get_by_role("button", name="Karel").click()
    expect(page.locator("#program-view")).to_be_visible()
    text.press("End")
    text.press_sequentially(" ")  # the view becomes a text of its own, and the first one waits
    expect(page.locator("#program-view")).to_be_hidden()
    page.get_by_role("button", name="Back to what you typed").click()
    expect(text).to_have_value(MINE)


def test_undo_in_a_view_leaves_it_a_view(page: Page) -> None:
    text = page.locator("#program-text")
    text.fill(MINE)
    expect(page.locator("#download-program")).to_be_enabled()
    page.locator("#dialects [data-dialect='paper']").click()
    expect(page.locator("#program-view")).to_be_visible()
    text.press("Control+z")
    page.locator("#dialects [data-dialect='stanford']").click()
    expect(text).to_have_value(MINE)
    expect(page.locator("#other-program")).to_be_hidden()


def test_a_text_with_a_mistake_is_not_converted(page: Page) -> None:
    broken = MINE.replace("move", "mvoe")
    page.fill("#program-text", broken)
    expect(page.locator("#program-problem")).to_be_visible()
    page.locator("#dialects").get_by_role("button", name="Karel").click()
    expect(page.locator("#notice")).to_contain_text("Without the mistake, it can be shown as Karel.")
    expect(page.locator("#program-text")).to_have_value(broken)


def test_an_example_counts_when_it_was_filled_in(page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.click("#new-task")
    page.click("#solve")
    expect(page.locator("#result")).to_contain_text("No example is filled in yet.")
    assert not [url for url in asked if "/api/solve" in url]
    page.click("#undo")
    solve(page)
    page.get_by_role("button", name="Add an example").click()
    expect(page.locator("#result")).to_be_visible()  # still the answer to this task
    page.wait_for_timeout(300)
    expect_verdicts(page, "Right")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    solve(page)
    expect_verdicts(page, "Right")
    expect(page.locator("#result")).to_contain_text("Right on the example.")
    page.get_by_role("button", name="Nothing changes").click()
    expect_verdicts(page, "Right", "Wrong")
    with page.expect_download() as download:
        page.click("#save-task")
    assert download.value.path().read_text("utf-8").count("input:") == 2


def test_numbers_of_examples_are_those_of_the_page(new_page: NewPage) -> None:
    """Although the server does not get those that are not filled in."""
    page = new_page(link([("> .\n. .", ". >\n. ."), ("^ .\n. .", ". .\n> ."), ("> # .\n# # .", ". # >\n# # .")]))
    page.get_by_role("button", name="Start over").nth(1).click()
    solve(page, "problem")
    expect(page.locator("#result")).to_contain_text("Example 3: No program can do this: no way leads Karel")
    expect(page.locator("#examples > li").nth(2).locator(".example-problem")).to_contain_text("No program can do this")
    expect(page.locator("#examples > li").nth(0).locator(".example-problem")).to_be_hidden()


def test_an_after_that_cannot_be_reached_is_named_while_it_is_drawn(page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    tool(page, "Wall")
    for row in range(3):
        cell(page, "Example 1, before", row, 4).click()
    problem = page.locator("#examples .example-problem")
    expect(problem).to_contain_text("no way leads Karel from row 1, column 1 to row 1, column 6")
    page.click("#solve")
    expect(page.locator("#result")).to_contain_text("Look at the examples again.")
    expect(page.get_by_role("button", name="Search for 10 s")).to_have_count(0)
    assert not [url for url in asked if "/api/solve" in url]
    page.click("#undo")
    expect(problem).to_be_hidden()


def test_a_long_run_is_judged_to_its_end(new_page: NewPage) -> None:
    page = new_page(link([("> . .\n. . .", ". > .\n. . .")]))
    page.fill("#program-text", LONG)
    expect_verdicts(page, "Right")
    page.click("#player-last")
    expect(page.locator("#player-caption")).to_contain_text("The program is done.")


def test_all_examples_are_judged_by_one_request(page: Page) -> None:
    for _ in range(3):
        page.get_by_role("button", name="Copy this example").first.click()
    page.wait_for_timeout(300)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.fill("#program-text", TAKE_ALL)
    expect_verdicts(page, "Right", "Right", "Right", "Right")
    assert len([url for url in asked if url.endswith("/api/judge")]) == 1
    assert not [url for url in asked if url.endswith("/api/run")]


def test_a_new_task_gets_a_description(page: Page) -> None:
    page.click("#new-task")
    page.get_by_role("button", name="Add a description").click()
    about = page.get_by_role("textbox", name="Description of the task")
    expect(about).to_be_focused()
    page.keyboard.type("Walk to the wall.")
    page.locator("#solve").focus()
    expect(about).to_have_text("Walk to the wall.")
    expect(page.locator("#add-about")).to_be_hidden()


def test_a_link_says_where_it_works_and_takes_the_program_along(page: Page, new_page: NewPage) -> None:
    page.fill("#program-text", TWO_AND_PUT)
    expect_verdicts(page, "Wrong")
    page.click("#share-task")
    expect(page.locator("#share-local")).to_be_visible()
    expect(page.locator("#share-local")).to_contain_text("works on this computer only")
    with_program = page.locator("#share-address").input_value()
    page.get_by_role("checkbox", name="with the program").uncheck()
    expect(page.locator("#share-address")).not_to_have_value(with_program)
    page.click("#share-copy")
    expect(page.locator("#notice")).to_contain_text("It holds the whole task.")
    expect(new_page(f"#{page.url.partition('#')[2]}").locator("#program-text")).to_have_value("")
    other = new_page(f"#{with_program.partition('#')[2]}")
    expect(other.locator("#program-text")).to_have_value(TWO_AND_PUT)
    expect_verdicts(other, "Wrong")


def test_each_world_is_one_stop_of_the_tab_key(page: Page) -> None:
    stops = []
    for _ in range(40):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.closest('svg')?.getAttribute('aria-label') ?? ''"))
    assert stops.count("Example 1, before") == 1
    assert stops.count("Example 1, after") == 1


def test_how_sure_it_is_with_the_reason_and_what_would_help(page: Page) -> None:
    solve(page)
    sure = page.locator("#result .sure")
    expect(sure).to_contain_text("Probably what you mean. Of answers like this one, about 2 in 3 are right")
    expect(sure).to_contain_text("One example says little. One other program fits")
    expect(sure).to_contain_text("The question below decides.")
    question(page).get_by_role("button", name="Outcome 2 is meant").click()
    expect(page.locator("#result")).to_contain_text("Right on both examples")
    expect(sure).to_contain_text("Very likely what you mean.")
    expect(sure).to_contain_text("No other program was found that fits.")


# Watching


def test_a_run_stops_at_breakpoints(page: Page) -> None:
    page.fill("#program-text", TAKE_ALL)
    expect_verdicts(page, "Right")
    page.locator("#program-gutter").get_by_role("button", name="Breakpoint at line 5").click()
    page.locator("#player-speed").press("End")
    page.click("#player-play")
    caption = page.locator("#player-caption")
    expect(caption).to_contain_text("Stopped before line 5 · Step 6 of 20, line 4: while(markersPresent)")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    expect(page.locator("#program-gutter .next")).to_have_text(re.compile("5"))
    page.click("#player-play")
    expect(caption).to_contain_text("Stopped before line 5 · Step 14 of 20")
    page.locator("#program-text").focus()
    page.keyboard.press("Control+End")
    page.keyboard.press("F9")  # takes it away again
    expect(page.locator("#live")).to_have_text("No breakpoint at line 5 any more.")
    page.click("#player-play")
    expect(caption).to_contain_text("The program is done.")


def test_a_loop_is_stepped_over_and_out_of(page: Page) -> None:
    page.fill("#program-text", TAKE_ALL + "\n  turnLeft()")
    expect_verdicts(page, "Wrong")
    caption = page.locator("#player-caption")
    for _ in range(5):
        page.click("#player-forth")
    expect(page.locator("#program-gutter .next")).to_have_text(re.compile("^4"))
    page.get_by_role("button", name="Step over").click()  # the inner loop, with its one round
    expect(caption).to_contain_text("Step 8 of 21, line 4")
    expect(page.locator("#program-gutter .next")).to_have_text(re.compile("^2"))
    page.get_by_role("button", name="Step out").click()
    expect(caption).to_contain_text("Step 20 of 21, line 2")
    expect(page.locator("#program-gutter .next")).to_have_text(re.compile("^6"))
    page.get_by_role("button", name="Step out").click()  # of no loop: to the end
    expect(caption).to_contain_text("The program is done")
    page.locator("#player-place").press("Home")
    expect(caption).to_have_text("At the start")


def test_a_helper_is_stepped_over_and_out_of(page: Page) -> None:
    helper = "def twoSteps():\n  move()\n  move()\n"
    page.fill("#program-text", helper + "def run():\n  twoSteps()\n  turnLeft()\n  turnLeft()\n  twoSteps()")
    expect_verdicts(page, "Wrong")
    caption, arrow = page.locator("#player-caption"), page.locator("#program-gutter .next")
    over, out = (page.get_by_role("button", name=name) for name in ("Step over", "Step out"))
    page.click("#player-forth")
    expect(arrow).to_have_text(re.compile("^3"))  # inside
    out.click()
    expect(caption).to_contain_text("Step 2 of 6, line 3: move()")
    expect(arrow).to_have_text(re.compile("^6"))
    page.click("#player-first")
    expect(arrow).to_have_text(re.compile("^5"))  # the call, not the helper's first line
    over.click()
    expect(caption).to_contain_text("Step 2 of 6")
    over.click()
    over.click()
    expect(arrow).to_have_text(re.compile("^8"))
    over.click()
    expect(caption).to_contain_text("Step 6 of 6, line 3: move() · The program is done")
    page.locator("#program-gutter").get_by_role("button", name="Breakpoint at line 8").click()  # at a call
    page.locator("#player-speed").press("End")
    page.click("#player-play")
    expect(caption).to_contain_text("Stopped before line 8 · Step 4 of 6")


def test_the_words_of_a_run_are_those_of_the_text(page: Page) -> None:
    page.fill("#program-text", MINE)
    expect_verdicts(page, "Wrong")
    page.click("#player-forth")
    expect(page.locator("#player-caption")).to_have_text(
        re.compile(r"Step 1 of \d+, line 11: while front_is_clear\(\)")
    )
