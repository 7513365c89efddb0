"""A run as an SVG that plays by itself, in any browser, without scripts.

What never changes is drawn once. The hero is drawn once too and moves; a marker's look is drawn once for every
count it takes and shown while it has it; the captions are a strip behind a window. All of it is CSS keyframes
over one duration, whose attributes without CSS are those of the outcome: readers who prefer no motion, and
programs that know no CSS, see how the run ends.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from karelsynth.karel.draw.board import (
    CAPTION_HEIGHT,
    BoardLayout,
    board_groups,
    caption_group,
    groups_above,
    groups_below,
    hero_group,
    scene_of,
)
from karelsynth.karel.draw.film import Frame, durations
from karelsynth.karel.draw.scene import ShapeGroup
from karelsynth.karel.draw.svg import group_svg, number, scene_svg
from karelsynth.karel.world import HEADINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

GLIDE: Final = 0.7
"""The share of a tick that a move or a turn takes; Karel rests for the other."""


def film_svg(frames: Sequence[Frame], layout: BoardLayout, *, speed: float | None) -> str:
    """The frames as an endless animated SVG."""
    clock = _Clock.of(durations(frames, speed))
    rules: list[str] = []
    below = _shown_in_turn([groups_below(layout, frame.world) for frame in frames], clock, "b", rules)
    hero = _moving_hero(frames, layout, clock, rules)
    above_frames = [groups_above(layout, frame.world, alarm=frame.failed) for frame in frames]
    above = _shown_in_turn(above_frames, clock, "a", rules)
    captions = _caption_strip(frames, layout, clock, rules)
    body = "\n".join([*below, hero, *above, captions])

    # A page may show several runs, and the names of keyframes are the page's: they get the content's hash.
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


@dataclass(frozen=True)
class _Clock:
    """When each frame begins, in seconds from the start, and when the last one ends."""

    starts: tuple[float, ...]
    total: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> _Clock:
        *starts, total = accumulate(seconds, initial=0.0)
        return cls(tuple(starts), total)

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
    """Every group that occurs, once; those that some frames lack are shown only during the others."""
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
        # A change happens half-way through the hero's glide.
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
    """The hero's place and heading as CSS; angles go on past a full turn, so that it turns the short way."""
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
