"""What the page opens, saves, shares and remembers."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from karelsynth.karel.world import World
from karelsynth.tasks.gallery import gallery
from karelsynth.tasks.task import Example, Task
from karelsynth.tasks.task_files import parse_task, render_task
from tests.page.driver import NewPage, cell, content


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
