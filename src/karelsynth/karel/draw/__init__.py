"""Drawings of worlds and runs: SVG, PNG, GIF and the terminal.

    >>> svg = world_svg(world)
    >>> save_world_picture(world, "world.png", theme="dark", cell=80)
    >>> save_run_picture(program, world, "run.gif")
    >>> save_examples_picture(task.examples, "task.svg", title=task.name)

`board` makes scenes of worlds and of a task's examples. `scene` writes a scene as SVG, `raster` paints it as pixels.
`film` makes the frames of a run, as a GIF or an animated SVG. `terminal` shows worlds and runs as text. Pillow and rich
are imported only when they are needed.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karelsynth.errors import KarelsynthError, listed
from karelsynth.files import write_atomically
from karelsynth.karel.draw.board import layout_of, sheet_scene, world_scene
from karelsynth.karel.draw.film import Frame, film_gif, film_layout, film_svg, frame_scene, run_frames
from karelsynth.karel.draw.scene import scene_svg
from karelsynth.karel.interpreter import MAX_TICKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL import Image

    from karelsynth.karel.draw.scene import Scene
    from karelsynth.karel.program import Program
    from karelsynth.karel.world import World

__all__ = [
    "Frame",
    "examples_svg",
    "run_frames",
    "run_svg",
    "save_examples_picture",
    "save_run_picture",
    "save_world_picture",
    "world_image",
    "world_svg",
]

CELL: Final = 40
"""The default side of a cell in pixels."""
EXAMPLES_CELL: Final = 22
"""The same for pictures of all examples of a task."""


def world_svg(
    world: World, *, theme: str = "light", cell: int = CELL, labels: bool = False, title: str | None = None
) -> str:
    """A standalone SVG. `theme` is `light` or `dark`, `labels` numbers rows and columns, `title` is put on top."""
    return scene_svg(world_scene(world, layout_of(world, theme=theme, cell=cell, labels=labels, title=title)))


def world_image(
    world: World, *, theme: str = "light", cell: int = CELL, labels: bool = False, title: str | None = None
) -> Image.Image:
    """The same picture as a Pillow image."""
    from karelsynth.karel.draw.raster import scene_image

    return scene_image(world_scene(world, layout_of(world, theme=theme, cell=cell, labels=labels, title=title)))


def save_world_picture(
    world: World,
    path: str | Path,
    *,
    theme: str = "light",
    cell: int = CELL,
    labels: bool = False,
    title: str | None = None,
) -> None:
    """Save a picture of the world as `.svg` or `.png`."""
    suffix = _suffix_of(path, (".svg", ".png"))
    scene = world_scene(world, layout_of(world, theme=theme, cell=cell, labels=labels, title=title))
    write_atomically(path, scene_svg(scene).encode() if suffix == ".svg" else _png(scene))


def examples_svg(
    pairs: Sequence[tuple[World, World]],
    *,
    theme: str = "light",
    cell: int = EXAMPLES_CELL,
    labels: bool = False,
    title: str | None = None,
    name: str = "",
    about: str = "",
) -> str:
    """Pairs of worlds as one SVG, each input above its output. `name` and `about` are for screen readers."""
    scene = sheet_scene(pairs, theme=theme, cell=cell, labels=labels, title=title, name=name, about=about)
    return scene_svg(scene, each_once=True)


def save_examples_picture(
    pairs: Sequence[tuple[World, World]],
    path: str | Path,
    *,
    theme: str = "light",
    cell: int = EXAMPLES_CELL,
    labels: bool = False,
    title: str | None = None,
    name: str = "",
    about: str = "",
) -> None:
    """Save pairs of worlds in one picture, `.svg` or `.png`."""
    suffix = _suffix_of(path, (".svg", ".png"))
    scene = sheet_scene(pairs, theme=theme, cell=cell, labels=labels, title=title, name=name, about=about)
    write_atomically(path, scene_svg(scene, each_once=True).encode() if suffix == ".svg" else _png(scene))


def run_svg(
    program: Program,
    world: World,
    *,
    theme: str = "light",
    cell: int | None = None,
    labels: bool = False,
    speed: float | None = None,
    max_ticks: int = MAX_TICKS,
) -> str:
    """The run as an SVG that plays by itself, `speed` ticks a second; without `cell`, small worlds get large cells."""
    layout = film_layout(world, theme=theme, cell=cell, labels=labels)
    return film_svg(run_frames(program, world, max_ticks), layout, speed=speed)


def save_run_picture(
    program: Program,
    world: World,
    path: str | Path,
    *,
    theme: str = "light",
    cell: int | None = None,
    labels: bool = False,
    speed: float | None = None,
    max_ticks: int = MAX_TICKS,
) -> None:
    """Save a run: a film as `.gif` or `.svg`, its last frame as `.png`."""
    suffix = _suffix_of(path, (".gif", ".svg", ".png"))
    layout = film_layout(world, theme=theme, cell=cell, labels=labels)
    frames = run_frames(program, world, max_ticks)
    match suffix:
        case ".gif":
            picture = film_gif(frames, layout, speed=speed)
        case ".svg":
            picture = film_svg(frames, layout, speed=speed).encode()
        case _:
            picture = _png(frame_scene(frames[-1], layout))
    write_atomically(path, picture)


def _png(scene: Scene) -> bytes:
    from karelsynth.karel.draw.raster import scene_image

    file = io.BytesIO()
    scene_image(scene).save(file, format="PNG", optimize=True)
    return file.getvalue()


def _suffix_of(path: str | Path, supported: Sequence[str]) -> str:
    """The file's suffix in lower case; raises KarelsynthError if it is not a supported one."""
    suffix = Path(path).suffix.lower()
    if suffix not in supported:
        given = f"not `{suffix}`" if suffix else "and this name has none"
        raise KarelsynthError(f"cannot save a picture as {path}: the name must end in {listed(supported)}, {given}")
    return suffix
