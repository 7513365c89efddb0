"""The program as blocks: dragged, moved by keyboard, always the same as the text."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.page.driver import ROW, TAKE_ALL, TAKE_ONE, NewPage, expect_verdicts, violations

PYTHON = """\
from stanfordkarel import *

# my own way
def main():
    while front_is_clear():  # to the wall
        move()

if __name__ == "__main__":
    run_karel_program()
"""


def show(page: Page, text: str, mode: str = "Both") -> None:
    page.fill("#program-text", text)
    page.get_by_role("group", name="Show the program as").get_by_role("button", name=mode).click()
    expect(page.locator(".block-tree .block").first).to_be_visible()


def block(page: Page, name: str) -> Locator:
    return page.get_by_role("treeitem", name=name, exact=True)


def text(page: Page) -> Locator:
    return page.locator("#program-text")


def drag(page: Page, what: Locator, to: Locator, *, below: bool = True) -> None:
    """Drags from the left end of something to just below, or above, something else, once both have come to rest."""
    to.hover(trial=True)
    what.hover(trial=True)
    start, end = what.bounding_box(), to.bounding_box()
    assert start is not None
    assert end is not None
    page.mouse.move(start["x"] + 8, start["y"] + start["height"] / 2)
    page.mouse.down()
    y = end["y"] + end["height"] + 2 if below else end["y"] - 2
    page.mouse.move(end["x"] + 14, y, steps=5)
    page.mouse.up()


def test_looking_at_blocks_changes_nothing(page: Page) -> None:
    show(page, PYTHON)
    expect(text(page)).to_have_value(PYTHON)
    expect(block(page, "while front is clear").locator("select").first).to_have_value("WHILE")
    page.get_by_role("button", name="Blocks", exact=True).click()
    expect(page.locator("#program-frame")).to_be_hidden()
    expect(page.get_by_role("button", name="turn_left()")).to_be_visible()  # in the words of the text
    page.get_by_role("button", name="Text", exact=True).click()
    expect(page.locator("#blocks")).to_be_hidden()
    expect(text(page)).to_have_value(PYTHON)


def test_a_block_is_dragged_into_the_program_and_only_that_line_is_new(page: Page) -> None:
    show(page, PYTHON)
    drag(page, page.locator(".palette-block", has_text="pick_beeper"), block(page, "move").locator(".block-head"))
    expect(text(page)).to_have_value(PYTHON.replace("        move()\n", "        move()\n        pick_beeper()\n"))
    expect(block(page, "pick a marker")).to_be_focused()
    drag(page, block(page, "pick a marker").locator(".grip"), block(page, "move").locator(".block-head"), below=False)
    expect(text(page)).to_have_value(PYTHON.replace("        move()\n", "        pick_beeper()\n        move()\n"))
    drag(page, block(page, "pick a marker").locator(".grip"), page.locator(".palette-block").first)  # back to the shelf
    expect(text(page)).to_have_value(PYTHON)
    page.get_by_role("button", name="Undo the last edit of blocks").click()
    expect(text(page)).to_have_value(PYTHON.replace("        move()\n", "        pick_beeper()\n        move()\n"))


def test_a_program_is_built_without_a_mouse(page: Page) -> None:
    page.get_by_role("button", name="Blocks", exact=True).click()
    hole = page.get_by_role("treeitem", name="Empty: add a block here")
    hole.focus()
    page.get_by_role("button", name="while", exact=True).press("Enter")
    expect(text(page)).to_have_value("def run():\n  while(frontIsClear):\n    # nothing here yet")
    page.get_by_role("button", name="move()", exact=True).press("Enter")  # goes into the empty loop
    expect(text(page)).to_have_value("def run():\n  while(frontIsClear):\n    move()")
    page.get_by_role("button", name="if", exact=True).press("Enter")
    page.get_by_role("button", name="pickMarker()", exact=True).press("Enter")
    choice = block(page, "if front is clear")
    choice.focus()
    choice.press("Enter")
    expect(choice.locator("select").first).to_be_focused()
    choice.get_by_label("Condition").select_option("markersPresent")
    block(page, "if markers are present").get_by_label("Kind of block").select_option("WHILE")
    expect(text(page)).to_have_value(TAKE_ALL)
    expect_verdicts(page, "Right")


def test_the_shelf_is_one_stop_of_the_tab_key_in_the_words_of_the_dialect(page: Page) -> None:
    show(page, "DEF run m( WHILE c( frontIsClear c) w( move w) m)", "Blocks")
    shelf = page.get_by_role("toolbar", name="Blocks to add")
    words = ["move", "turnLeft", "turnRight", "pickMarker", "putMarker", "WHILE", "REPEAT", "IF", "IFELSE"]
    expect(shelf.get_by_role("button")).to_have_text(words)
    shelf.get_by_role("button", name="move", exact=True).focus()
    for key in ("ArrowRight", "End", "ArrowRight", "ArrowLeft", "Home", "ArrowDown"):
        page.keyboard.press(key)
    expect(shelf.get_by_role("button", name="turnLeft", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(text(page)).to_have_value("DEF run m( WHILE c( frontIsClear c) w( move w) turnLeft m)")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Undo the last edit of blocks")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(shelf.get_by_role("button", name="turnLeft", exact=True)).to_be_focused()


def test_blocks_are_picked_up_and_moved_by_keyboard(page: Page) -> None:
    show(page, "def run():\n  putMarker()\n  while(frontIsClear):\n    move()", "Blocks")
    put = block(page, "put a marker")
    put.focus()
    put.press(" ")
    expect(page.locator("#live")).to_contain_text("picked up")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#live")).to_have_text("1 of 2 inside while front is clear")
    page.keyboard.press("ArrowDown")
    page.keyboard.press(" ")
    expect(text(page)).to_have_value("def run():\n  while(frontIsClear):\n    move()\n    putMarker()")
    expect(put).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(block(page, "move")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(block(page, "while front is clear")).to_be_focused()
    page.keyboard.press("Alt+ArrowDown")  # nowhere to go
    page.keyboard.press("ArrowRight")
    page.keyboard.press("c")
    expect(text(page)).to_have_value("def run():\n  while(frontIsClear):\n    move()\n    move()\n    putMarker()")
    page.keyboard.press("Delete")
    page.keyboard.press("Control+z")
    expect(text(page)).to_have_value("def run():\n  while(frontIsClear):\n    move()\n    move()\n    putMarker()")


def test_typing_and_blocks_stay_in_step(page: Page) -> None:
    show(page, TAKE_ONE)
    page.fill("#program-text", TAKE_ALL)
    expect(block(page, "while markers are present")).to_be_visible()
    page.fill("#program-text", TAKE_ALL.replace("move", "mvoe"))
    expect(page.locator(".block-note")).to_contain_text("line 3, column 5: unknown word")
    page.fill("#program-text", TAKE_ALL)
    expect(page.locator(".block-note")).to_be_hidden()
    page.locator("#player-forth").click()
    page.locator("#player-forth").click()
    expect(page.locator(".block-running")).to_have_attribute("aria-label", "move")


def test_blocks_on_a_phone(new_page: NewPage) -> None:
    page = new_page(ROW, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    show(page, TAKE_ONE, "Blocks")
    page.get_by_role("button", name="turnLeft()", exact=True).tap()
    expect(text(page)).to_have_value(f"{TAKE_ONE}\n  turnLeft()")
    grip, loop = (
        block(page, "turn left").locator(".grip"),
        block(page, "while front is clear").locator(".block-head").first,
    )
    grip.scroll_into_view_if_needed()
    start, end = grip.bounding_box(), loop.bounding_box()
    assert start is not None
    assert end is not None
    touch = page.context.new_cdp_session(page)
    x, y = start["x"] + 8, start["y"] + 8
    way = [(x, y), (x, y - 20), (end["x"] + 14, end["y"] - 2), (end["x"] + 14, end["y"] - 3)]
    for number, (left, top) in enumerate(way):
        points = [{"x": left, "y": top}]
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove" if number else "touchStart", "touchPoints": points})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(text(page)).to_have_value(TAKE_ONE.replace("def run():\n", "def run():\n  turnLeft()\n"))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_helper_is_made_named_called_and_deleted_with_the_mouse(page: Page) -> None:
    show(page, "def run():\n  move()", "Both")
    page.get_by_role("button", name="New helper").click()
    name = page.get_by_role("textbox", name="Name of the helper")
    expect(name).to_be_focused()
    expect(text(page)).to_have_value("def helper():\n  # nothing here yet\n\ndef run():\n  move()")
    page.keyboard.type("turnAround")  # the old name is selected
    page.locator(".palette-block", has_text="turnLeft()").click()  # goes into the helper, which is selected
    expect(text(page)).to_have_value("def turnAround():\n  turnLeft()\n\ndef run():\n  move()")
    page.locator(".palette-block", has_text="turnLeft()").click()
    expect(text(page)).to_have_value("def turnAround():\n  turnLeft()\n  turnLeft()\n\ndef run():\n  move()")
    drag(page, page.locator(".palette-block", has_text="turnAround()"), block(page, "move").locator(".block-head"))
    made = "def turnAround():\n  turnLeft()\n  turnLeft()\n\ndef run():\n  move()\n  turnAround()"
    expect(text(page)).to_have_value(made)
    expect_verdicts(page, "Wrong")  # it runs
    page.get_by_role("treeitem", name="helper turnAround").locator(".block-word").click()
    page.get_by_role("button", name="Remove the selected block").click()
    expect(page.locator("#notice-text")).to_contain_text("turnAround is still called in line 7: remove that call first")
    expect(text(page)).to_have_value(made)
    block(page, "call turnAround").locator(".block-head").click()
    page.get_by_role("button", name="Remove the selected block").click()
    expect(text(page)).to_have_value(made.removesuffix("\n  turnAround()"))
    page.get_by_role("treeitem", name="helper turnAround").locator(".block-word").click()
    page.get_by_role("button", name="Remove the selected block").click()
    expect(text(page)).to_have_value("def run():\n  move()")
    expect(page.locator(".palette-block", has_text="turnAround")).to_have_count(0)
    page.get_by_role("button", name="Undo the last edit of blocks").click()
    expect(text(page)).to_have_value(made.removesuffix("\n  turnAround()"))


def test_a_helper_is_renamed_by_keyboard_and_bad_names_are_refused(page: Page) -> None:
    show(page, "def back():\n  turnLeft()\n\ndef run():\n  back()\n  move()  # back")
    block(page, "turn left").focus()
    page.keyboard.press("ArrowLeft")
    head = page.get_by_role("treeitem", name="helper back")
    expect(head).to_be_focused()
    name = page.get_by_role("textbox", name="Name of the helper")
    for bad, why in (("", "needs a name"), ("move", "already means something"), ("a b", "is no name")):
        page.keyboard.press("Enter")
        expect(name).to_be_focused()
        name.fill(bad)
        page.keyboard.press("Enter")
        expect(page.locator("#notice-text")).to_contain_text(why)
        expect(name).to_have_value("back")  # as it was
        expect(name).to_be_focused()
        page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    name.fill("lost")
    page.keyboard.press("Escape")  # taken back
    expect(head).to_be_focused()
    page.keyboard.press("Enter")
    name.fill("half")
    page.keyboard.press("Enter")
    expect(text(page)).to_have_value("def half():\n  turnLeft()\n\ndef run():\n  half()\n  move()  # back")
    expect(page.get_by_role("treeitem", name="helper half")).to_be_focused()
    page.keyboard.press("Delete")
    expect(page.locator("#notice-text")).to_contain_text("half is still called in line 5")
    page.get_by_role("button", name="New helper").press("Enter")
    expect(page.get_by_role("textbox", name="Name of the helper").last).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Delete")
    expect(text(page)).to_have_value("def half():\n  turnLeft()\n\ndef run():\n  half()\n  move()  # back")


def test_a_helper_is_made_with_a_finger(new_page: NewPage) -> None:
    page = new_page(ROW, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.get_by_role("button", name="Blocks", exact=True).tap()
    page.get_by_role("button", name="New helper").tap()
    name = page.get_by_role("textbox", name="Name of the helper")
    expect(name).to_be_focused()
    name.fill("go")
    page.get_by_role("button", name="move()", exact=True).tap()
    expect(text(page)).to_have_value("def go():\n  move()\n\ndef run():\n  # nothing here yet")
    page.get_by_role("treeitem", name="Empty: add a block here").tap()
    page.get_by_role("button", name="go()", exact=True).tap()
    expect(text(page)).to_have_value("def go():\n  move()\n\ndef run():\n  go()")
    assert violations(page) == []
