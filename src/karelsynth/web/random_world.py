"""A random world, for people who want to try something at once.

The tasks' sampler draws a world for a program while it runs there; here is no program, so the worlds have a plainer
recipe: some walls, some markers, mostly few on a cell, and often none of either.
"""

from __future__ import annotations

import random
from typing import Final

from karelsynth.karel.world import HEADINGS, Cell, Hero, World

_WALLS: Final = (0.0, 0.05, 0.1, 0.2)
_MARKERS: Final = (0.0, 0.1, 0.2, 0.4)
"""Shares of the cells; one is drawn for each world."""
_COUNTS: Final = (1, 1, 1, 1, 2, 2, 3, 4, 5, 9)


def random_world(rows: int, cols: int, seed: int | None = None) -> World:
    """A world of that size; the same seed gives the same world."""
    rng = random.Random(seed)
    cells = [(row, col) for row in range(rows) for col in range(cols)]
    (row, col), heading = rng.choice(cells), rng.choice(HEADINGS)
    walls, markers = rng.choice(_WALLS), rng.choice(_MARKERS)
    blocked: set[Cell] = set()
    counts: dict[Cell, int] = {}
    for cell in cells:
        if cell != (row, col) and rng.random() < walls:
            blocked.add(cell)
        elif rng.random() < markers:
            counts[cell] = rng.choice(_COUNTS)
    return World(rows, cols, Hero(row, col, heading), frozenset(blocked), counts)
