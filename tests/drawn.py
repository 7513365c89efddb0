"""Worlds and programs that tests of drawings draw, and the text in a chart."""

from __future__ import annotations

import re
from html import unescape

from karelsynth.karel.program import Action, If, Program, Repeat, Sensor, While
from karelsynth.karel.world import Hero, World

ROOM = World(3, 4, Hero(0, 0, "east"), frozenset({(1, 1), (1, 2), (2, 2)}), {(0, 1): 2, (0, 3): 10, (2, 0): 1})
ON_MARKERS = World(2, 2, Hero(1, 0, "west"), frozenset({(0, 0), (0, 1)}), {(1, 0): 10})
TIDY = Program(
    (
        While(Sensor.FRONT_IS_CLEAR, (Action.MOVE, If(Sensor.MARKERS_PRESENT, (Action.PICK_MARKER,)))),
        Action.TURN_LEFT,
        Repeat(2, (Action.MOVE,)),
    )
)
CRASH = Program((Action.MOVE, Action.TURN_LEFT, Action.MOVE))


def chart_description(svg: str) -> str:
    """The description in a chart. It is the same in every version of matplotlib; the drawing may differ."""
    found = re.search(r"<desc>(.*?)</desc>", svg, re.DOTALL)
    return unescape(found[1]) if found else ""
