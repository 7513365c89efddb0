"""Draw a sheet of purposeful tasks: docs/pictures/purposeful.png.

    python tools/render_purposeful.py [--seed 1] [--out FILE]

It shows the first task of each of 50 plans in the stream of the seed: the plan's name, the program, and as many
examples as there is room for, each world before above the world after.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw, ImageFont

from karelsynth.karel.draw import world_image
from karelsynth.karel.formats.codes import world_from_codes
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.purposeful.generator import generate_purposeful, plans_of

ROOT: Final = Path(__file__).resolve().parents[1]
SEARCHED: Final = 4_000
"""Tasks among which the first of each plan is looked for."""
SHOWN: Final = 50
ACROSS: Final = 5
LINES: Final = 20
"""Lines of a program that there is room for."""
TILE: Final = (340, 300)
CELL: Final = 12
INK, PAPER, LINE = "#1f2430", "#ffffff", "#d5d8e0"


def tile(tasks: TaskBatch, number: int, name: str) -> Image.Image:
    """One task."""
    picture = Image.new("RGB", TILE, PAPER)
    pen = ImageDraw.Draw(picture)
    pen.rectangle((0, 0, TILE[0] - 1, TILE[1] - 1), outline=LINE)
    pen.text((8, 6), name, INK, ImageFont.load_default(15))
    pen.multiline_text((8, 30), program_text(tasks, number), INK, ImageFont.load_default(10), spacing=2)
    top = 8
    for example in range(tasks.inputs.shape[1]):
        worlds = (world_from_codes(side[number, example]) for side in (tasks.inputs, tasks.outputs))
        before, after = (world_image(world, cell=CELL) for world in worlds)
        if top + 2 * before.height + 4 <= TILE[1] or (top == 8 and example == tasks.inputs.shape[1] - 1):
            left = TILE[0] - 6 - before.width
            picture.paste(before, (left, top))
            picture.paste(after, (left, top + before.height + 2))
            top += 2 * before.height + 10
    return picture


def program_text(tasks: TaskBatch, number: int) -> str:
    """The program in the paper's dialect; actions that follow each other share a line."""
    lines: list[str] = []
    for line in tasks.program(number).to("paper").splitlines():
        indent = len(line) - len(line.lstrip())
        same = lines and not line.endswith(":") and lines[-1].endswith(")") and len(lines[-1]) < 26
        if same and len(lines[-1]) - len(lines[-1].lstrip()) == indent:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return "\n".join(lines if len(lines) <= LINES else [*lines[: LINES - 1], "  …"])


def main() -> None:
    """Draw the sheet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures" / "purposeful.png")
    arguments = parser.parse_args()
    tasks = generate_purposeful(arguments.seed, 0, SEARCHED)
    first: dict[str, int] = {}
    for number, name in enumerate(plans_of(arguments.seed, 0, SEARCHED)):
        first.setdefault(name, number)
    tiles = [tile(tasks, number, name) for name, number in list(first.items())[:SHOWN]]
    sheet = Image.new("RGB", (ACROSS * TILE[0], -(-len(tiles) // ACROSS) * TILE[1]), PAPER)
    for place, picture in enumerate(tiles):
        sheet.paste(picture, (place % ACROSS * TILE[0], place // ACROSS * TILE[1]))
    sheet.quantize(64).save(arguments.out, optimize=True)
    print(f"{arguments.out}: {len(tiles)} tasks")


if __name__ == "__main__":
    main()
