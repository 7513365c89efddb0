"""A run as a series of frames, as a GIF, and as an animated SVG that plays in any browser without scripts.

The SVG draws once what never changes. It also draws the hero once, and moves it. Each count of markers on a cell is
drawn once and shown while it holds. The captions are a strip behind a window. All of it is CSS keyframes over one
duration. Without the CSS, the attributes show the last frame, so people who prefer no motion, and programs without CSS,
see the end of the run.
"""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from dataclasses import dataclass, replace
from itertools import accumulate, combinations, pairwise
from typing import TYPE_CHECKING, Final

from karelsynth.errors import KarelsynthError
from karelsynth.karel.dialects.indented import condition_text
from karelsynth.karel.dialects.paper import SPELLING
from karelsynth.karel.draw.board import (
    CAPTION_HEIGHT,
    BoardLayout,
    board_groups,
    caption_group,
    groups_above,
    groups_below,
    hero_group,
    layout_of,
    scene_of,
    world_scene,
)
from karelsynth.karel.draw.scene import ShapeGroup, group_svg, number, scene_svg
from karelsynth.karel.interpreter import MAX_TICKS, Status, Tick, run
from karelsynth.karel.program import Action, Program, Repeat
from karelsynth.karel.world import HEADINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from PIL import Image

    from karelsynth.karel.draw.scene import Palette, Scene
    from karelsynth.karel.world import World

GLIDE: Final = 0.7
"""The share of a tick that a move or a turn takes. Karel rests for the remainder."""
FIRST_SECONDS: Final = 0.6
LAST_SECONDS: Final = 2.0
FILM_SIDE: Final = 448
"""The default length of the longer side of a film's board, in pixels."""
MOST_FRAMES: Final = 1000
"""The most frames of a GIF. They are all held in memory, about half a megabyte each."""


@dataclass(frozen=True)
class Frame:
    """A moment of a run.

    `world` is the world after tick number `tick`, `where` the token index of the statement that took the tick (None for
    the start and for a good end), `caption` what happened, and `status` how the run ended (None before the end).
    """

    world: World
    where: int | None
    tick: int
    caption: str
    status: Status | None = None

    @property
    def failed(self) -> bool:
        return self.status not in (None, Status.OK)


def run_frames(program: Program, world: World, max_ticks: int = MAX_TICKS) -> tuple[Frame, ...]:
    """The start, a frame a tick, and the outcome."""
    statements = dict(program.walk())
    rounds: Counter[int] = Counter()
    frames = [Frame(world, None, 0, "start")]

    def observe(tick: Tick) -> None:
        statement = statements[tick.where]
        if isinstance(statement, Action):
            caption = statement.value
        elif isinstance(statement, Repeat):
            # A REPEAT that is entered again has run all its iterations before, so one counter serves all entries.
            caption = f"repeat: {rounds[tick.where] % statement.times + 1} of {statement.times}"
            rounds[tick.where] += 1
        else:
            caption = f"{condition_text(statement.condition, SPELLING)}? {'yes' if tick.outcome else 'no'}"
        frames.append(Frame(tick.world, tick.where, tick.number, caption))

    result = run(program, world, max_ticks=max_ticks, observe=observe)
    if result.ok:
        caption = result.explain()
    else:
        caption = f"crashed: {result.status.reason}" if result.status.crashed else result.status.reason
    frames.append(Frame(result.world, result.where, result.ticks, caption, result.status))
    return tuple(frames)


def film_layout(world: World, *, theme: str, cell: int | None, labels: bool) -> BoardLayout:
    """The layout of a film's pictures; without `cell`, small worlds get large cells."""
    chosen = max(28, min(72, FILM_SIDE // max(world.rows, world.cols))) if cell is None else cell
    return layout_of(world, theme=theme, cell=chosen, labels=labels, caption=True)


def frame_scene(frame: Frame, layout: BoardLayout) -> Scene:
    """The picture of a frame, with its caption."""
    caption = caption_group(layout, frame.caption, frame.tick, alarm=frame.failed)
    return world_scene(frame.world, layout, alarm=frame.failed, caption=caption)


def durations(frames: Sequence[Frame], speed: float | None) -> list[float]:
    """How many seconds each frame stays. `speed` is in ticks a second; None plays long runs faster than short ones.

    The start stays a little longer, the outcome long enough to be read.
    """
    if speed is not None and not 0.1 <= speed <= 50:
        raise KarelsynthError(f"the speed is 0.1 to 50 ticks a second, not {speed:g}")
    seconds = 1 / (speed or (4 if len(frames) <= 40 else 6))
    return [FIRST_SECONDS, *([seconds] * (len(frames) - 2)), LAST_SECONDS]


def film_gif(frames: Sequence[Frame], layout: BoardLayout, *, speed: float | None) -> bytes:
    """The frames as an endless GIF."""
    if len(frames) > MOST_FRAMES:
        raise KarelsynthError(
            f"{len(frames):,} frames are too many for a GIF, which must be held in memory: at most {MOST_FRAMES:,}; "
            "save an .svg, or let the run take fewer ticks"
        )
    from PIL import Image

    palette = _gif_palette(layout.theme)
    images = (image.quantize(palette=palette, dither=Image.Dither.NONE) for image in film_images(frames, layout))
    file = io.BytesIO()
    next(images).save(
        file,
        format="GIF",
        save_all=True,
        append_images=images,
        duration=[round(100 * seconds) * 10 for seconds in durations(frames, speed)],  # GIF counts in hundredths
        loop=0,
        optimize=True,
    )
    return file.getvalue()


def film_images(frames: Sequence[Frame], layout: BoardLayout) -> Iterator[Image.Image]:
    """The frames as RGB images. After the first, only changed cells and the caption are painted."""
    from karelsynth.karel.draw.raster import scene_image

    image = scene_image(frame_scene(frames[0], layout))
    yield image
    for before, frame in pairwise(frames):
        scene, image = frame_scene(frame, layout), image.copy()
        boxes = [(0, layout.caption_top, layout.width, layout.height)]
        for cell in _changed(before, frame):
            x, y = layout.corner(cell)
            boxes.append((x, y, x + layout.cell, y + layout.cell))
        for box in boxes:
            image.paste(scene_image(scene, box), box)
        yield image


def _changed(before: Frame, after: Frame) -> set[tuple[int, int]]:
    """The cells that look different: the hero's old and new cell, and cells whose markers changed."""
    cells = {before.world.hero[:2], after.world.hero[:2]}
    return cells | {cell for cell, _ in before.world.markers.items() ^ after.world.markers.items()}


def _gif_palette(theme: Palette) -> Image.Image:
    """The theme's colours, and shades between every two of them for smooth edges.

    Shades close to another colour are left out: Pillow's search for the nearest colour is coarse and would mix them up.
    """
    from PIL import Image, ImageColor

    pure = [ImageColor.getrgb(colour) for colour in theme.colours]
    colours: list[tuple[int, ...]] = [*pure]
    for start, end in combinations(pure, 2):
        for quarter in (1, 2, 3):
            shade = tuple(round(a + (b - a) * quarter / 4) for a, b in zip(start, end, strict=True))
            if all(max(abs(a - b) for a, b in zip(shade, other, strict=True)) >= 12 for other in colours):
                colours.append(shade)
    palette = Image.new("P", (1, 1))
    palette.putpalette([value for colour in colours for value in colour])
    return palette


def film_svg(frames: Sequence[Frame], layout: BoardLayout, *, speed: float | None) -> str:
    """The frames as an endless animated SVG."""
    clock = _Clock(durations(frames, speed))
    rules: list[str] = []
    below = _shown_in_turn([groups_below(layout, frame.world) for frame in frames], clock, "b", rules)
    hero = _moving_hero(frames, layout, clock, rules)
    above_frames = [groups_above(layout, frame.world, alarm=frame.failed) for frame in frames]
    above = _shown_in_turn(above_frames, clock, "a", rules)
    captions = _caption_strip(frames, layout, clock, rules)
    body = "\n".join([*below, hero, *above, captions])

    # A page may show several runs and shares the names of keyframes between them, so names carry a content hash.
    identity = "k" + hashlib.sha256("\n".join([*rules, body]).encode()).hexdigest()[:8]
    style = "\n".join(
        [
            f"#{identity} .run{{animation-duration:{number(clock.total)}s;animation-iteration-count:infinite}}",
            *(rule.replace("@ID", identity) for rule in rules),
            f"@media (prefers-reduced-motion:reduce){{#{identity} .run{{animation:none!important}}}}",
        ]
    )
    last = frames[-1]
    scene = scene_of(layout, last.world, board_groups(layout, last.world.walls))
    scene = replace(scene, title=f"Karel runs a program: {last.caption}")
    return scene_svg(scene, style=style, extra=body, identity=identity)


class _Clock:
    """When each frame begins, in seconds from the start, and when the last one ends."""

    def __init__(self, seconds: Sequence[float]) -> None:
        *self.starts, self.total = accumulate(seconds, initial=0.0)

    def percent(self, seconds: float) -> str:
        return f"{100 * seconds / self.total:.3f}".rstrip("0").rstrip(".") + "%"

    def glide(self, place: int) -> float:
        """The seconds that a change into a frame takes."""
        end = self.starts[place + 1] if place + 1 < len(self.starts) else self.total
        return GLIDE * min(0.5, end - self.starts[place])


def _rule(name: str, timing: str, keyframes: Sequence[tuple[str, str]]) -> str:
    """The CSS that makes `.name` follow the keyframes; `@ID` stands for the document's id."""
    steps = "".join(f"{at}{{{what}}}" for at, what in keyframes)
    follow = f"#@ID .{name}{{animation-name:@ID-{name};animation-timing-function:{timing}}}"
    return f"{follow}\n@keyframes @ID-{name}{{{steps}}}"


def _shown_in_turn(groups_of_frames: list[list[ShapeGroup]], clock: _Clock, prefix: str, rules: list[str]) -> list[str]:
    """Every group once. A group that some frames lack is shown during the others."""
    shown: dict[ShapeGroup, list[bool]] = {}
    for place, groups in enumerate(groups_of_frames):
        for group in groups:
            shown.setdefault(group, [False] * len(groups_of_frames))[place] = True
    drawn = []
    for group, when in shown.items():
        if all(when):
            drawn.append(group_svg(group))
            continue
        name = f"{prefix}{len(drawn)}"
        # A group changes halfway through the hero's glide.
        changes = [("0%", when[0])] + [
            (clock.percent(clock.starts[place] + clock.glide(place) / 2), now)
            for place, (before, now) in enumerate(pairwise(when), 1)
            if before != now
        ]
        rules.append(_rule(name, "step-end", [(at, f"opacity:{now:d}") for at, now in [*changes, ("100%", when[-1])]]))
        drawn.append(group_svg(group, classes=f"run {name}", attributes="" if when[-1] else ' opacity="0"'))
    return drawn


def _moving_hero(frames: Sequence[Frame], layout: BoardLayout, clock: _Clock, rules: list[str]) -> str:
    poses = _poses(frames, layout)
    keyframes = [("0%", poses[0])]
    for place, (before, now) in enumerate(pairwise(poses), 1):
        if now != before:
            start = clock.starts[place]
            keyframes += [(clock.percent(start), before), (clock.percent(start + clock.glide(place)), now)]
    keyframes.append(("100%", poses[-1]))
    rules.append(_rule("h", "ease-in-out", [(at, f"transform:{pose}") for at, pose in keyframes]))
    return group_svg(hero_group(layout, frames[-1].world.hero), classes="run h")


def _poses(frames: Sequence[Frame], layout: BoardLayout) -> list[str]:
    """The hero's place and heading as CSS. Angles grow past a full turn, so that the hero turns the short way."""
    angle = HEADINGS.index(frames[0].world.hero.heading) * 90
    poses = []
    for frame in frames:
        row, col, heading = frame.world.hero
        turn = (HEADINGS.index(heading) * 90 - angle) % 360
        angle += turn if turn <= 180 else turn - 360
        x, y = layout.centre((row, col))
        poses.append(f"translate({number(x)}px,{number(y)}px) rotate({angle}deg)")
    return poses


def _caption_strip(frames: Sequence[Frame], layout: BoardLayout, clock: _Clock, rules: list[str]) -> str:
    """The captions below each other, behind a window that shows one of them."""
    lines = []
    for place, frame in enumerate(frames):
        group = caption_group(layout, frame.caption, frame.tick, alarm=frame.failed)
        lines.append(group_svg(ShapeGroup(group.name, group.shapes, (0, place * CAPTION_HEIGHT - layout.caption_top))))
    keyframes = [
        (clock.percent(start), f"transform:translateY({-place * CAPTION_HEIGHT}px)")
        for place, start in enumerate(clock.starts)
    ]
    keyframes.append(("100%", keyframes[-1][1]))
    rules.append(_rule("c", "step-end", keyframes))
    size = f'width="{layout.width}" height="{CAPTION_HEIGHT}"'
    return (
        f'<svg y="{layout.caption_top}" {size} overflow="hidden">\n'
        f'<g class="run c" transform="translate(0 {-(len(frames) - 1) * CAPTION_HEIGHT})">\n'
        + "\n".join(lines)
        + "\n</g>\n</svg>"
    )
