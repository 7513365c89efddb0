"""A run as a series of frames, and that series as a GIF."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Final

from karelsynth.errors import KarelsynthError
from karelsynth.karel.draw.board import BoardLayout, caption_group, layout_of, world_scene
from karelsynth.karel.interpreter import MAX_TICKS, Status, Tick, run
from karelsynth.karel.program import Action, Condition, Not, Program, Repeat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from PIL import Image

    from karelsynth.karel.draw.scene import Palette, Scene
    from karelsynth.karel.world import World

FIRST_SECONDS: Final = 0.6
LAST_SECONDS: Final = 2.0
FILM_SIDE: Final = 448
"""About how many pixels the longer side of a film's board has, unless the size of a cell is given."""
MOST_FRAMES: Final = 1000
"""Of a GIF, whose frames are all held in memory: about half a megabyte each."""


@dataclass(frozen=True)
class Frame:
    """A moment of a run: the world after tick number `tick`, the token index of the statement that took it (None
    for the start and for a good end), what happened in words, and how the run ended (None while it goes on)."""

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
            # A repeat that is entered again has run all its rounds before, so the rounds of all entries can be counted.
            caption = f"repeat: {rounds[tick.where] % statement.times + 1} of {statement.times}"
            rounds[tick.where] += 1
        else:
            caption = f"{_words(statement.condition)}? {'yes' if tick.outcome else 'no'}"
        frames.append(Frame(tick.world, tick.where, tick.number, caption))

    result = run(program, world, max_ticks=max_ticks, observe=observe)
    if result.ok:
        caption = result.explain()
    else:
        caption = f"crashed: {result.status.reason}" if result.status.crashed else result.status.reason
    frames.append(Frame(result.world, result.where, result.ticks, caption, result.status))
    return tuple(frames)


def _words(condition: Condition) -> str:
    return f"not {_words(condition.condition)}" if isinstance(condition, Not) else condition.value


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
    palette = _gif_palette(layout.theme)
    images = (_indexed(image, palette) for image in film_images(frames, layout))
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
    """The frames as RGB images. From the second on, only the cells that changed and the caption are painted anew."""
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
    """The cells that look different: where the hero was and is, and where markers came or went."""
    cells = {before.world.hero[:2], after.world.hero[:2]}
    return cells | {cell for cell, _ in before.world.markers.items() ^ after.world.markers.items()}


def _gif_palette(theme: Palette) -> Image.Image:
    """The theme's colours, and between every two of them shades for smooth edges.

    A shade that is hardly another colour is left out: Pillow's search for the nearest is coarse and would mix them up.
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


def _indexed(image: Image.Image, palette: Image.Image) -> Image.Image:
    from PIL import Image

    return image.quantize(palette=palette, dither=Image.Dither.NONE)
