"""Draw a run's curve: training loss, and if its log has any, the share of validation tasks solved.

python tools/plot_run.py results/mle_stream/metrics.jsonl docs/pictures/mle_stream.svg

Of a run that went on from another, give both logs: their steps are counted through.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from karelsynth.files import read_text, write_atomically
from karelsynth.karel.draw.scene import THEMES, Circle, Line, Scene, Shape, ShapeGroup, Text
from karelsynth.karel.draw.svg import scene_svg

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 340, 60, 60, 50, 46
THEME = THEMES["light"]
SOLVED = "#b45309"

Curve = Sequence[tuple[float, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("metrics", type=Path, nargs="+")
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    loss: list[tuple[float, float]] = []
    solved: list[tuple[float, float]] = []
    for path in arguments.metrics:
        entries = [json.loads(line) for line in read_text(path).splitlines()]
        if not any("loss" in entry for entry in entries):
            sys.exit(f"{path} has no losses: is it the metrics.jsonl of a run?")
        before = loss[-1][0] if loss else 0
        for name, curve in (("loss", loss), ("validation_generalization", solved)):
            curve += [(before + entry["step"], entry[name]) for entry in entries if name in entry]
    write_atomically(arguments.picture, scene_svg(picture(loss, solved)).encode())


def picture(loss: Curve, solved: Curve) -> Scene:
    """Both curves over the steps, the loss with its scale at the left, the share with its scale at the right."""
    steps = loss[-1][0]
    shapes: list[Shape] = []
    for tick in range(6):
        share = tick / 5
        y = _y(share)
        shapes.append(Line(LEFT, y, WIDTH - RIGHT, y, 1, THEME.grid))
        shapes.append(Text(LEFT - 22, y, f"{1.25 * share:.2f}", 11, THEME.hero, bold=False))
        if solved:
            shapes.append(Text(WIDTH - RIGHT + 20, y, f"{100 * share:.0f} %", 11, SOLVED, bold=False))
        shapes.append(Text(_x(share), HEIGHT - BOTTOM + 16, f"{steps * share:,.0f}", 11, THEME.muted, bold=False))
    shapes += _curve([(step / steps, value / 1.25) for step, value in loss], THEME.hero)
    shapes += _curve([(step / steps, value / 100) for step, value in solved], SOLVED, dots=True)
    shapes.append(Text(LEFT + 90, 24, "loss, nats", 13, THEME.hero))
    shapes.append(Text(WIDTH / 2, HEIGHT - 12, "steps", 12, THEME.muted))
    told = f"After {steps:,} steps the loss is {loss[-1][1]:.3f}."
    if solved:
        shapes.append(Text(WIDTH - RIGHT - 150, 24, "validation tasks solved", 13, SOLVED))
        told = told[:-1] + f" and {solved[-1][1]:.1f} % of validation tasks are solved."
    return Scene(WIDTH, HEIGHT, THEME.floor, (ShapeGroup("curves", tuple(shapes)),), "A training run", told)


def _curve(points: Curve, colour: str, *, dots: bool = False) -> list[Shape]:
    places = [(_x(x), _y(min(y, 1.0))) for x, y in points]
    shapes: list[Shape] = [Line(*one, *two, 2, colour) for one, two in pairwise(places)]
    return shapes + [Circle(*place, 4, colour) for place in places if dots]


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


if __name__ == "__main__":
    main()
