"""What the page opens, saves, shares and remembers."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from karelsynth.karel.world import World
from karelsynth.tasks.task import Example, Task
from karelsynth.tasks.task_files import gallery, parse_task, render_task
from tests.page.driver import NewPage, cell, content, link, share


def test_a_link_holds_the_whole_task(page: Page, new_page: NewPage) -> None:
    page.locator("#gallery-strip .chip").nth(3).click()
    name, examples = gallery()[3].task.name, gallery()[3].task.examples
    fragment = share(page).removeprefix("#")
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


def test_the_gallery_is_one_click_away(page: Page) -> None:
    page.get_by_role("button", name=f"All {len(gallery())}").click()
    dialog = page.get_by_role("dialog", name="Gallery")
    expect(dialog.locator(".gallery-card")).to_have_count(len(gallery()))
    last = gallery()[-1]
    dialog.locator(f"[data-slug='{last.slug}']").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#task-name")).to_have_value(last.task.name)
    expect(page.locator("#examples > li")).to_have_count(len(last.task.examples))


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


def test_a_link_does_not_cost_the_last_drawing(page: Page, address: str) -> None:
    cell(page, "Example 1, before", 2, 4).press("7")
    page.goto("about:blank")
    page.goto(address + link([("> . .\n. . .", ". . >\n. . .")], name="A colleague's"))
    page.wait_for_selector("html[data-ready]")
    expect(page.locator("#task-name")).to_have_value("A colleague's")
    expect(page.locator("#notice")).to_contain_text("Undo brings back your last drawing.")
    cell(page, "Example 1, before", 0, 0).press("5")
    for _ in range(2):  # at once, and on another day
        page.click("#undo")
        if content(page, "Example 1, before", 0, 0) == "empty":
            page.click("#undo")  # the edit, then the link
        expect(page.locator("#task-name")).to_have_value("")
        assert content(page, "Example 1, before", 2, 4) == "7 markers"
        page.click("#redo")
        expect(page.locator("#task-name")).to_have_value("A colleague's")
        page.reload()
        page.wait_for_selector("html[data-ready]")


def test_an_edit_is_kept_even_if_the_page_is_closed_at_once(page: Page) -> None:
    cell(page, "Example 1, before", 2, 4).press("7")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert content(page, "Example 1, before", 2, 4) == "7 markers"


def test_skipping_to_solve_leaves_the_task_in_the_address(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to Solve")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#solve")).to_be_focused()
    assert "#task=" in page.url
    page.get_by_role("link", name="Skip to the program").press("Enter")
    expect(page.locator("#program-text")).to_be_focused()
    page.get_by_role("group", name="Show the program as").get_by_role("button", name="Blocks").click()
    expect(page.locator(".block-tree [data-path]").first).to_be_visible()
    page.get_by_role("link", name="Skip to the program").press("Enter")
    expect(page.locator("#blocks :focus")).to_have_count(1)


def test_a_description_can_be_edited_and_removed(page: Page, tmp_path: Path) -> None:
    world = World.parse(". . 2\n> # .")
    task = Task((Example(world, world.with_hero(1, 1, "west")),), name="Over there", about="Go.")
    (tmp_path / "mine.task").write_text(render_task(task), encoding="utf-8")
    page.set_input_files("#task-file", tmp_path / "mine.task")
    about = page.get_by_role("textbox", name="Description of the task")
    about.fill("Go away.")
    expect(page.locator("#undo")).to_be_enabled()
    about.fill("")
    expect(about).to_be_visible()  # while somebody is in it
    page.locator("#solve").focus()
    expect(page.locator("#task-about")).to_be_hidden()
    page.click("#undo")
    expect(page.locator("#task-about")).to_have_text("Go.")  # typing is one step


def test_words_are_for_people(page: Page) -> None:
    page.click("#new-task")
    expect(page.locator("#live")).to_have_text("Opened a task, 1 example.")
    expect(page.locator("#version")).to_contain_text("model: shipped")


def test_a_link_is_copied_without_a_clipboard(page: Page) -> None:
    """As on plain http, from another machine in the room."""
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.evaluate("addEventListener('copy', () => (window.copied = document.activeElement.value))")
    page.click("#share-task")
    page.click("#share-copy")
    expect(page.locator("#notice")).to_contain_text("Link copied.")
    assert page.evaluate("window.copied") == page.url
    expect(page.locator("#share-task")).to_be_focused()


def test_a_dialog_is_closed_by_a_click_around_it_only(page: Page) -> None:
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="How it works")
    box = dialog.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 6, box["y"] + box["height"] / 2)  # its padding
    expect(dialog).to_be_visible()
    page.mouse.move(box["x"] + 100, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] - 40, box["y"] + box["height"] / 2)  # a text is selected, and let go outside
    page.mouse.up()
    expect(dialog).to_be_visible()
    page.keyboard.press("Control+Enter")
    page.mouse.click(box["x"] - 40, box["y"] + box["height"] / 2)
    expect(dialog).to_be_hidden()
    expect(page.locator("#result")).to_be_hidden()  # no search was started behind it
    expect(page.locator("#program-text")).to_have_value("")
