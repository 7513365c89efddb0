"""Worlds and runs as text in a terminal, with rich.

A cell is two columns wide, about as wide as it is high. Walls are solid, the hero is an arrow, numbers are markers.
The number behind the hero counts the markers under it, `+` for ten. The colours are the pictures' colours. They have
their own background or medium brightness, so that they are visible on dark and on light terminals. Without colour,
nothing is lost.
"""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from karelsynth.karel.dialects import read_source
from karelsynth.karel.draw.film import Frame, durations, run_frames
from karelsynth.karel.draw.scene import THEMES
from karelsynth.karel.interpreter import MAX_TICKS
from karelsynth.karel.world import HEADINGS, Cell, World

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import Console, RenderableType
    from rich.text import Text

    from karelsynth.karel.program import Program

_COLOURS: Final = THEMES["light"]
HERO: Final = f"bold {_COLOURS.hero_face} on {_COLOURS.hero}"
HERO_ON_MARKERS: Final = f"bold {_COLOURS.marker} on {_COLOURS.hero}"
MARKER: Final = f"{_COLOURS.marker_text} on {_COLOURS.marker}"
WALL: Final = _COLOURS.muted
FAINT: Final = "dim"
MARKED: Final = "bold white on red"
_GAP: Final = "   "
"""Between worlds side by side."""


@dataclass(frozen=True)
class _Signs:
    """The characters of a drawing, two a cell. `top` and `bottom`: the border's left corner, edge, right corner."""

    heroes: str
    """In the order of HEADINGS."""
    wall: str
    empty: str
    top: str
    bottom: str
    side: str
    pointer: str


_UNICODE: Final = _Signs("▲▶▼◀", "██", "· ", "╭─╮", "╰─╯", "│", "▶ ")
_ASCII: Final = _Signs("^>v<", "##", ". ", "+-+", "+-+", "|", "> ")


def supports_unicode(encoding: str | None) -> bool:
    """Whether text in that encoding can hold the drawing's characters."""
    return (encoding or "").lower().replace("-", "").replace("_", "").startswith("utf")


def world_text(
    world: World, *, color: bool, unicode: bool | None = None, marked: Collection[Cell] = frozenset()
) -> Text:
    """The world within a border. Without `unicode`, the encoding of the standard output decides the characters.

    Cells of `marked` are red. Where there is room, they have a `!`, for terminals without colour.
    """
    from rich.text import Text

    if unicode is None:
        unicode = supports_unicode(sys.stdout.encoding)
    signs = _UNICODE if unicode else _ASCII
    wall = WALL if color else ""
    text = Text(no_wrap=True).append(_edge(signs.top, world.cols), wall)
    for row in reversed(range(world.rows)):
        text.append(f"\n{signs.side}", wall)
        for col in range(world.cols):
            piece, style = _cell(world, (row, col), signs)
            if (row, col) in marked:
                piece, style = piece[0] + (piece[1] if piece[1] != " " else "!"), MARKED
            text.append(piece, style if color else "")
        text.append(signs.side, wall)
    return text.append(f"\n{_edge(signs.bottom, world.cols)}", wall)


def _edge(signs: str, cols: int) -> str:
    return signs[0] + signs[1] * 2 * cols + signs[2]


def _cell(world: World, cell: Cell, signs: _Signs) -> tuple[str, str]:
    """Two characters and their style."""
    count = world.markers.get(cell, 0)
    if cell == world.hero[:2]:
        below = " " if count == 0 else str(count) if count < 10 else "+"
        return signs.heroes[HEADINGS.index(world.hero.heading)] + below, HERO_ON_MARKERS if count else HERO
    if cell in world.walls:
        return signs.wall, WALL
    return (f"{count:<2}", MARKER) if count else (signs.empty, FAINT)


def side_by_side(
    worlds: Sequence[tuple[str, World]],
    *,
    color: bool,
    width: int | None = None,
    unicode: bool | None = None,
    marked: Collection[Cell] = frozenset(),
) -> Text:
    """Worlds with headings next to each other, as many in a line as fit into `width` columns (the terminal's)."""
    from rich.text import Text

    room = shutil.get_terminal_size().columns if width is None else width
    blocks = [_block(heading, world, color=color, unicode=unicode, marked=marked) for heading, world in worlds]
    lines: list[Text] = []
    while blocks:
        ends = accumulate(block[0].cell_len + len(_GAP) for block in blocks)
        fitting = max(1, sum(end - len(_GAP) <= room for end in ends))
        row, blocks = blocks[:fitting], blocks[fitting:]
        lines += [Text()] if lines else []
        for number in range(max(map(len, row))):
            parts = [block[number] if number < len(block) else Text(" " * block[0].cell_len) for block in row]
            line = Text(_GAP).join(parts)
            line.rstrip()
            lines.append(line)
    return Text("\n", no_wrap=True).join(lines)


def _block(heading: str, world: World, *, color: bool, unicode: bool | None, marked: Collection[Cell]) -> list[Text]:
    """The lines of a world under its heading, all of the same width."""
    from rich.text import Text

    drawing = world_text(world, color=color, unicode=unicode, marked=marked).split("\n")
    lines = [Text(heading, "bold" if color else ""), *drawing]
    width = max(line.cell_len for line in lines)
    for line in lines:
        line.pad_right(width - line.cell_len)
    return lines


def line_of_token(program: Program) -> dict[int, int]:
    """For each statement, by the index of its first token, its line in `program.to("paper")`, counted from 0."""
    spans = read_source(program.to("paper"), "paper").spans
    return {at: span.line - 1 for at, span in spans.items()}


def play(
    program: Program,
    world: World,
    *,
    console: Console | None = None,
    speed: float | None = None,
    max_ticks: int = MAX_TICKS,
) -> None:
    """Play a run in the terminal, `speed` ticks a second, the program beside the world with its current line marked.

    Ctrl-C restores the terminal and raises KeyboardInterrupt. If the output is no terminal, the start and the end are
    printed.
    """
    from rich.console import Console
    from rich.live import Live

    console = console or Console()
    frames = run_frames(program, world, max_ticks)
    seconds = durations(frames, speed)
    if not console.is_terminal:
        pair = [("start", frames[0].world), ("end", frames[-1].world)]
        unicode = supports_unicode(console.encoding)
        console.print(side_by_side(pair, color=False, width=console.width, unicode=unicode))
        console.print(frames[-1].caption, highlight=False, markup=False)
        return
    stage = _Stage(program, console)
    with Live(stage.picture(frames[0]), console=console, auto_refresh=False) as live:  # restores the cursor
        for frame, pause in zip(frames, seconds, strict=True):
            live.update(stage.picture(frame), refresh=True)
            if frame.status is None:
                time.sleep(pause)


class _Stage:
    """The picture of `play`: world and program side by side, and a status line below."""

    def __init__(self, program: Program, console: Console) -> None:
        self.console = console
        self.lines = program.to("paper").splitlines()
        self.line_of = line_of_token(program)
        self.color = console.color_system is not None
        self.unicode = supports_unicode(console.encoding)

    def picture(self, frame: Frame) -> RenderableType:
        from rich.console import Group
        from rich.table import Table

        grid = Table.grid(padding=(0, 3))
        grid.add_row(world_text(frame.world, color=self.color, unicode=self.unicode), self.program_text(frame))
        return Group(grid, self.status_line(frame))

    def program_text(self, frame: Frame) -> Text:
        """The lines of the program that fit on the screen, the current one in the middle and marked."""
        from rich.text import Text

        current = None if frame.where is None else self.line_of[frame.where]
        height = max(frame.world.rows + 2, self.console.height - 3)
        top = max(0, min((current or 0) - height // 2, len(self.lines) - height))
        pointer = (_UNICODE if self.unicode else _ASCII).pointer
        text = Text(no_wrap=True, overflow="ellipsis" if self.unicode else "crop")
        for number, line in enumerate(self.lines[top : top + height], top):
            here = number == current
            style = ("bold red" if frame.failed else "bold reverse") if here else ""
            text.append((pointer if here else "  ") + line, style if self.color else "")
            text.append("\n")
        text.rstrip()
        return text

    def status_line(self, frame: Frame) -> Text:
        from rich.text import Text

        style = "bold red" if frame.failed else "bold green" if frame.status is not None else "bold"
        text = Text(no_wrap=True).append(f"tick {frame.tick:>3}  ", FAINT if self.color else "")
        return text.append(frame.caption, style if self.color else "")
