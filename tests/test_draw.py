"""Drawings: SVG, pixels, films and files.

The golden SVGs under tests/golden/draw are rewritten by `KARELSYNTH_UPDATE_GOLDEN=1 pytest tests/test_draw.py`;
look at them before you commit them.
"""

from __future__ import annotations

import io
import itertools
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from PIL import Image, ImageColor, ImageFont

from karelsynth.errors import KarelsynthError
from karelsynth.karel.draw import (
    examples_svg,
    raster,
    run_frames,
    run_svg,
    save_examples_picture,
    save_run_picture,
    save_world_picture,
    world_image,
    world_svg,
)
from karelsynth.karel.draw.board import layout_of, sheet_scene
from karelsynth.karel.draw.film import durations, film_gif, film_images, film_layout, frame_scene
from karelsynth.karel.draw.raster import scene_image
from karelsynth.karel.draw.scene import THEMES, fitted
from karelsynth.karel.interpreter import Status, run
from karelsynth.karel.program import Action, If, Not, Program, Repeat, Sensor, While
from karelsynth.karel.world import HEADINGS, Hero, World
from tests.drawn import CRASH, ON_MARKERS, ROOM, TIDY
from tests.strategies import programs, random_program, random_world, worlds

if TYPE_CHECKING:
    from karelsynth.karel.draw import Frame
    from karelsynth.karel.draw.board import BoardLayout

GOLDEN = Path(__file__).parent / "golden" / "draw"
SVG = "{http://www.w3.org/2000/svg}"


def groups(svg: str, name: str) -> list[ElementTree.Element]:
    """The groups of that class, first of all a check that the text is XML."""
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    return [group for group in root.iter(f"{SVG}g") if name in group.get("class", "").split()]


def a_film(seed: int, cell: int | None = 20) -> tuple[tuple[Frame, ...], BoardLayout]:
    rng = random.Random(seed)
    world, program = random_world(rng), random_program(rng)
    return run_frames(program, world, max_ticks=30), film_layout(world, theme="light", cell=cell, labels=True)


# Still pictures


def test_examples_stand_in_rows_of_about_equal_length() -> None:
    pairs = [(ROOM, ROOM.with_hero(0, 0, "south"))] * 25
    one = layout_of(ROOM, theme="light", cell=30)
    for cell in (22, 30, 100):  # the same at any size
        scene = sheet_scene(pairs, theme="light", cell=cell, title="Rows")
        arrows = [group.at for group in scene.groups if group.name == "arrow"]
        heights = sorted({y for _, y in arrows})
        assert len(heights) == 3
        assert [sum(at == y for _, at in arrows) for y in heights] == [9, 9, 7]
    scene = sheet_scene(pairs[:2], theme="light", cell=30)
    assert (scene.width, scene.height) == (2 * one.width, 2 * one.height + 19)
    assert sheet_scene(pairs[:1], theme="light", cell=400).width > 1000  # one always has its place


def test_examples_are_painted_alike_by_both_back_ends(tmp_path: Path) -> None:
    pairs = [(ROOM, ROOM.with_hero(0, 0, "south")), (ROOM.with_hero(0, 3, "west"), ROOM)]
    svg = examples_svg(pairs, title="Two", about="Wanted.")
    root = ElementTree.fromstring(svg)
    assert root.findtext(f"{SVG}title") == "Two"
    assert root.findtext(f"{SVG}desc") == "2 examples. Wanted."
    shown = {use.get("href") for use in root.iter(f"{SVG}use")}
    assert shown == {f"#{group.get('id')}" for group in root.iter(f"{SVG}g")}
    save_examples_picture(pairs, tmp_path / "two.png", title="Two")
    scene = sheet_scene(pairs, theme="light", cell=22, title="Two")
    with Image.open(tmp_path / "two.png") as image:
        assert image.size == (scene.width, scene.height) == (int(root.get("width", 0)), int(root.get("height", 0)))
        (x, y), *_ = (group.at for group in scene.groups if group.name == "arrow")
        assert image.convert("RGB").getpixel((int(x), int(y) + 5)) == ImageColor.getrgb(THEMES["light"].muted)


@given(worlds())
@settings(max_examples=40, deadline=None)
def test_svg_shows_everything_once(world: World) -> None:
    svg = world_svg(world)
    walls = groups(svg, "walls")
    assert sum(len(group) for group in walls) == len(world.walls)
    assert len(groups(svg, "hero")) == 1
    here = world.hero[:2] in world.markers
    assert len(groups(svg, "badge")) == len(groups(svg, "tint")) == here
    assert len(groups(svg, "marker")) == len(world.markers) - here
    shown = [text.text for kind in ("marker", "badge") for g in groups(svg, kind) for text in g.iter(f"{SVG}text")]
    counts = [count for cell, count in world.markers.items() if count > 1 or cell == world.hero[:2]]
    assert sorted(shown, key=str) == sorted(map(str, counts))


@pytest.mark.parametrize(("heading", "turn"), [("north", ""), ("east", "rotate(90)"), ("south", "rotate(180)")])
def test_hero_is_turned(heading: str, turn: str) -> None:
    (hero,) = groups(world_svg(ROOM.with_hero(0, 0, heading), cell=40), "hero")
    assert hero.get("transform") == f"translate(36 116) {turn}".strip()


def test_svg_has_a_description_for_screen_readers() -> None:
    root = ElementTree.fromstring(world_svg(ON_MARKERS, title="Ten & <more>", labels=True))
    assert root.get("role") == "img"
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    assert root.findtext(f"{SVG}title") == "Ten & <more>"
    described = root.findtext(f"{SVG}desc")
    assert described == (
        "Karel stands at row 2, column 1 and faces west. Walls (row:column): 1:1 1:2. "
        "Markers (row:column:count): 2:1:10."
    )
    labels = [text.text for group in root.iter(f"{SVG}g") if group.get("class") == "labels" for text in group]
    assert labels == ["1", "2", "1", "2"]


@pytest.mark.parametrize(
    ("name", "svg"),
    [
        ("room.svg", world_svg(ROOM)),
        ("on_markers_dark.svg", world_svg(ON_MARKERS, theme="dark", cell=64, labels=True, title="Ten markers")),
    ],
)
def test_golden_svg(name: str, svg: str) -> None:
    if os.environ.get("KARELSYNTH_UPDATE_GOLDEN") == "1":
        (GOLDEN / name).write_text(svg, encoding="utf-8")
    assert svg == (GOLDEN / name).read_text(encoding="utf-8"), "the look has changed; if it should, see this file's top"


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("cell", [12, 40, 75])
def test_pixels_of_an_image(theme: str, cell: int) -> None:
    world = ROOM.with_hero(0, 0, "south")
    image = world_image(world, theme=theme, cell=cell)
    colours, layout = THEMES[theme], layout_of(world, theme=theme, cell=cell)
    assert image.size == (4 * cell + 2 * layout.margin, 3 * cell + 2 * layout.margin)

    def colour(row: int, col: int, down: float = 0.0) -> object:
        x, y = layout.centre((row, col))
        return image.getpixel((int(x), int(y + down * cell)))

    assert image.getpixel((0, 0)) == ImageColor.getrgb(colours.canvas)
    assert colour(1, 1) == colour(1, 2) == colour(2, 2) == ImageColor.getrgb(colours.wall)
    assert colour(1, 3) == ImageColor.getrgb(colours.floor)
    assert colour(2, 0) == ImageColor.getrgb(colours.marker)
    assert colour(0, 0, 0.26) == ImageColor.getrgb(colours.hero)  # its prow
    between = layout.corner((1, 2))
    assert image.getpixel((between[0], between[1] + cell // 2)) == ImageColor.getrgb(colours.wall)  # joined


def test_headings_look_different() -> None:
    pictures = {world_image(ROOM.with_hero(0, 0, heading)).tobytes() for heading in HEADINGS}
    assert len(pictures) == len(HEADINGS)


def test_a_text_is_made_to_fit() -> None:
    assert fitted("move", 16, 300) == ("move", 16)
    text, size = fitted("crashed: moved into a wall or off the grid", 16, 280)
    assert text.endswith("grid")
    assert 9 < size < 16
    text, size = fitted("not " * 50 + "frontIsClear? yes", 16, 280)
    assert text.endswith("…")
    assert size == 9
    for length in range(10, 60):  # a size that was made for a text is not too large for it
        text = "n" * length
        assert fitted(text, 16, 400)[0] == text


def test_wide_letters_are_given_room() -> None:
    """A browser paints a Chinese letter as a square: that many sizes of the font must not exceed the room."""
    for length in (3, 15, 20, 40, 400):
        text, size = fitted("課" * length, 16, 280)
        assert len(text) * size <= 280
        assert (text == "課" * length) == (length <= 20)
    assert fitted("e\u0301" * 10, 16, 100)[1] == fitted("e" * 10, 16, 100)[1]


# Runs


@given(programs(), worlds())
@settings(max_examples=40, deadline=None)
def test_frames_agree_with_the_interpreter(program: Program, world: World) -> None:
    frames, result = run_frames(program, world), run(program, world)
    first, *middle, last = frames
    assert (first.world, first.where, first.tick, first.caption) == (world, None, 0, "start")
    assert (last.world, last.where, last.tick, last.status) == (result.world, result.where, result.ticks, result.status)
    # A crashing action takes a tick but is shown by the last frame only.
    assert [frame.tick for frame in middle] == list(range(1, result.ticks + 1 - result.status.crashed))
    statements = dict(program.walk())
    acted = [statements[frame.where] for frame in middle if frame.where is not None]
    assert tuple(statement for statement in acted if isinstance(statement, Action)) == result.trace


def test_captions() -> None:
    program = Program((Repeat(2, (If(Not(Sensor.MARKERS_PRESENT), (Action.MOVE,)), Action.TURN_LEFT)),))
    assert [frame.caption for frame in run_frames(program, ROOM)] == [
        "start",
        "repeat: 1 of 2",
        "not markersPresent? yes",
        "move",
        "turnLeft",
        "repeat: 2 of 2",
        "not markersPresent? no",
        "turnLeft",
        "finished after 7 ticks",
    ]
    crash = run_frames(CRASH, ROOM)[-1]
    assert (crash.caption, crash.where, crash.failed) == ("crashed: moved into a wall or off the grid", 5, True)
    late = run_frames(TIDY, ROOM, max_ticks=3)[-1]
    assert (late.caption, late.status, late.tick) == ("ran out of ticks", Status.OUT_OF_TICKS, 3)


@pytest.mark.parametrize("seed", range(4))
def test_repainting_a_part_gives_the_whole(seed: int) -> None:
    frames, layout = a_film(seed)
    for frame, image in zip(frames, film_images(frames, layout), strict=True):
        assert image.tobytes() == scene_image(frame_scene(frame, layout)).tobytes()


def test_gif() -> None:
    frames = run_frames(TIDY, ROOM)
    layout = film_layout(ROOM, theme="light", cell=None, labels=False)
    with Image.open(io.BytesIO(film_gif(frames, layout, speed=5))) as gif:
        assert gif.format == "GIF"
        assert gif.size == (layout.width, layout.height)
        assert gif.info["loop"] == 0
        assert getattr(gif, "n_frames", 1) == len(frames)
        shown = []
        for number in range(len(frames)):
            gif.seek(number)
            shown.append(gif.info["duration"])
            assert gif.convert("RGB").getpixel((1, 1)) == ImageColor.getrgb(THEMES["light"].canvas)
    assert shown == [600, *([200] * (len(frames) - 2)), 2000]


def test_long_runs_play_faster() -> None:
    short, long = run_frames(TIDY, ROOM), run_frames(Program((Repeat(19, (Action.TURN_LEFT,) * 3),)), ROOM)
    assert durations(short, None)[1] == 1 / 4
    assert durations(long, None)[1] == 1 / 6
    with pytest.raises(KarelsynthError, match=r"speed is 0\.1 to 50 ticks a second, not 0"):
        durations(short, 0)


def test_small_worlds_have_room_for_the_caption() -> None:
    layout = film_layout(ON_MARKERS, theme="light", cell=20, labels=False)
    assert layout.width == 300
    assert layout.left == (300 - 40) // 2


# The animated SVG


def keyframes(svg: str, name: str) -> list[tuple[float, str]]:
    """The times (0 … 1) and declarations of an animation."""
    found = re.search(rf"@keyframes \w+-{name}{{(.*)}}", svg)
    assert found is not None
    return [(float(at) / 100, what) for at, what in re.findall(r"([\d.]+)%{([^}]*)}", found[1])]


def value_at(steps: list[tuple[float, str]], time: float) -> str:
    """What an animation shows at a time at which nothing moves."""
    return next(what for at, what in reversed(steps) if at <= time)


@pytest.mark.parametrize("seed", range(8))
def test_key_times_increase_from_0_to_1(seed: int) -> None:
    rng = random.Random(seed)
    svg = run_svg(random_program(rng), random_world(rng))
    ElementTree.fromstring(svg)
    names = re.findall(r"@keyframes \w+-(\w+){", svg)
    assert {"h", "c"} <= set(names)
    for name in names:
        times = [at for at, _ in keyframes(svg, name)]
        assert (times[0], times[-1]) == (0, 1)
        assert all(before < after for before, after in itertools.pairwise(times))
        assert svg.count(f" {name}") >= 1


@pytest.mark.parametrize("program", [TIDY, CRASH], ids=["tidy", "crash"])
def test_the_animation_shows_the_frames(program: Program) -> None:
    """At the end of each frame's time, hero, caption and markers are those of the frame."""
    frames, svg = run_frames(program, ROOM), run_svg(program, ROOM, speed=4)
    layout, seconds = film_layout(ROOM, theme="light", cell=None, labels=False), durations(frames, 4)
    toggled = [(g, keyframes(svg, g.get("class", "").split()[-1])) for g in groups(svg, "run") if g.get("class")]
    toggled = [(group, steps) for group, steps in toggled if "opacity" in steps[0][1]]
    always = [g for kind in ("marker", "badge", "alarm") for g in groups(svg, kind) if "run" not in str(g.get("class"))]
    for number, frame in enumerate(frames):
        time = sum(seconds[: number + 1]) / sum(seconds) - 1e-4
        x, y = layout.centre((frame.world.hero.row, frame.world.hero.col))
        pose = re.fullmatch(
            r"transform:translate\((.*)px,(.*)px\) rotate\((.*)deg\)", value_at(keyframes(svg, "h"), time)
        )
        assert pose is not None
        assert (float(pose[1]), float(pose[2])) == (x, y)
        assert int(pose[3]) % 360 == 90 * HEADINGS.index(frame.world.hero.heading)
        assert value_at(keyframes(svg, "c"), time) == f"transform:translateY({-56 * number}px)"
        shown = [g for g, steps in toggled if value_at(steps, time) == "opacity:1"] + always
        kinds = [str(group.get("class")).split()[0] for group in shown]
        assert kinds.count("marker") + kinds.count("badge") == len(frame.world.markers)
        assert kinds.count("alarm") == frame.failed


def test_without_motion_the_outcome_is_shown() -> None:
    svg = run_svg(TIDY, ROOM)
    assert re.search(r"@media \(prefers-reduced-motion:reduce\){#k\w+ \.run{animation:none!important}}", svg)
    end = run(TIDY, ROOM).world
    still = [g for kind in ("marker", "badge") for g in groups(svg, kind) if g.get("opacity") != "0"]
    assert len(still) == len(end.markers)
    (hero,), (expected,) = groups(svg, "hero"), groups(world_svg(end, cell=72), "hero")
    assert str(hero.get("transform")).split()[-1] == str(expected.get("transform")).split()[-1]


def test_several_films_on_a_page_keep_apart() -> None:
    names = [set(re.findall(r"@keyframes (\w+)-", run_svg(program, ROOM))) for program in (TIDY, CRASH)]
    assert [len(one) for one in names] == [1, 1]
    assert names[0] != names[1]


def test_the_animated_svg_is_of_modest_size() -> None:
    assert len(run_svg(TIDY, ROOM)) < 15_000
    spin = Program((While(Sensor.LEFT_IS_CLEAR, (Action.TURN_LEFT, Action.TURN_RIGHT)),))
    assert len(run_svg(spin, World(16, 16, Hero(5, 5, "north")))) < 75_000


# Files


def test_saving(tmp_path: Path) -> None:
    save_world_picture(ROOM, tmp_path / "w.svg", theme="dark")
    assert (tmp_path / "w.svg").read_text(encoding="utf-8") == world_svg(ROOM, theme="dark")
    save_world_picture(ROOM, str(tmp_path / "w.PNG"), cell=30)
    with Image.open(tmp_path / "w.PNG") as image:
        assert image.size == world_image(ROOM, cell=30).size
    for name, form in (("r.gif", "GIF"), ("r.png", "PNG")):
        save_run_picture(TIDY, ROOM, tmp_path / name)
        with Image.open(tmp_path / name) as image:
            assert image.format == form
    save_run_picture(TIDY, ROOM, tmp_path / "r.svg")
    assert (tmp_path / "r.svg").read_text(encoding="utf-8") == run_svg(TIDY, ROOM)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.gif", "r.png", "r.svg", "w.PNG", "w.svg"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w.svg"
    path.write_text("old")

    def broken(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(KarelsynthError, match=r"w\.svg: cannot be written: the disk is full"):
        save_world_picture(ROOM, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("w.jpg", r"must end in `\.svg` or `\.png`, not `\.jpg`"),
        ("w", r"must end in `\.svg` or `\.png`, and this name has none"),
        ("no/w.svg", r"there is no folder .*no; make it first"),
        ("folder.svg", r"it is a folder"),
    ],
)
def test_names_that_do_not_work(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(KarelsynthError, match=message):
        save_world_picture(ROOM, tmp_path / name)
    with pytest.raises(KarelsynthError, match=r"`\.gif`, `\.svg` or `\.png`"):
        save_run_picture(TIDY, ROOM, tmp_path / "run.mp4")


def test_a_title_is_one_printable_line() -> None:
    odd = "two\nlines\x1b(\udc80"
    assert ElementTree.fromstring(world_svg(ROOM, title=odd)).findtext(f"{SVG}title") == "two lines ("
    assert world_image(ROOM, title=odd).size == world_image(ROOM, title="fine").size


def test_letters_that_no_font_has_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Fonts paint boxes for them, and who makes fifty pictures does not look at each."""
    monkeypatch.setattr(raster, "_SYSTEM_FONTS", ("no such font.ttf",))
    with pytest.raises(KarelsynthError, match=r"no font here can paint `ü` and `é` of `für é`; .* as \.svg"):
        save_world_picture(ROOM, tmp_path / "room.png", cell=80, title="für é")
    assert not list(tmp_path.iterdir())
    save_world_picture(ROOM, tmp_path / "room.svg", title="für é")
    save_world_picture(ROOM, tmp_path / "room.png", title="plain letters")


def test_a_font_of_the_system_has_more_letters() -> None:
    try:
        ImageFont.truetype("DejaVuSans.ttf")
    except OSError:
        pytest.skip("DejaVu is not installed")
    pictures = {letter: world_image(ROOM, cell=80, title=f"f{letter}r").tobytes() for letter in "uüéß"}
    assert len(set(pictures.values())) == len(pictures)
    assert world_image(ROOM, cell=80, title="fu\u0308r").tobytes() == pictures["ü"]


def test_settings_that_do_not_work() -> None:
    with pytest.raises(KarelsynthError, match="no theme `Dark`: choose `light`, `dark` or `paper`; did you mean"):
        world_svg(ROOM, theme="Dark")
    with pytest.raises(KarelsynthError, match="12 to 400 pixels wide, not 1000"):
        world_image(ROOM, cell=1000)


def test_importing_is_light() -> None:
    modules = "karelsynth.karel.draw, karelsynth.karel.draw.film, karelsynth.karel.draw.terminal"
    code = f"import sys, {modules}; print({{'PIL', 'rich'}} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def test_a_film_that_is_too_long_for_a_gif_is_refused() -> None:
    world = World.parse("> .\n. .")
    frames = run_frames(Program.parse("DEF run m( WHILE c( frontIsClear c) w( turnLeft w) m)"), world)
    layout = film_layout(world, theme="light", cell=None, labels=False)
    with pytest.raises(KarelsynthError, match=r"1,200 frames are too many for a GIF.*save an \.svg"):
        film_gif(frames[:1] * 1200, layout, speed=None)
