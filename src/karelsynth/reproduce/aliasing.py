"""Program aliasing, the paper's Figure 1: two programs with one behaviour.

On worlds without markers, program A (the reference) and program B (a loop that ends where it began) do the same. So
both are correct, but supervised training treats B as wrong. This module runs both, draws them and scores both under a
model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from karelsynth.karel.draw.board import layout_of, world_scene
from karelsynth.karel.draw.scene import THEMES, Scene, ShapeGroup, Text
from karelsynth.karel.program import Program
from karelsynth.karel.world import World
from karelsynth.tasks.task import Example

if TYPE_CHECKING:
    from karelsynth.model.synthesizer import Synthesizer

PROGRAM_A: Final = Program.parse("def run():\n  repeat(4):\n    putMarker()\n    move()\n    turnLeft()\n")
PROGRAM_B: Final = Program.parse(
    "def run():\n  while(noMarkersPresent):\n    putMarker()\n    move()\n    turnLeft()\n"
)
_BEFORE: Final = (
    ". . . . .\n. . . . .\n. > . . .\n. . . . .",
    ". . # .\n. . . .\n. . . #\n. ^ . .\n. . . .",
    ". . . . . .\n. . v . # .\n. . . . . .",
    "# . . .\n. . . .\n. . < .\n. . . .",
    ". . . .\n. . . .\n> . . .",
    ". . . . .\n. # . . .\n. . . ^ .",
)
ELSEWHERE: Final = World.parse(". . . .\n. . 1 .\n. >1 . .")
"""A world on which the two differ: Karel starts on a marker, so B ends at once."""
_CELL: Final = 30
_CAPTION: Final = 16


def aliasing_examples() -> tuple[Example, ...]:
    """Six examples. The first is drawn; the last is held out."""
    return tuple(Example(world, PROGRAM_A.run(world).world) for world in map(World.parse, _BEFORE))


def both_right() -> bool:
    """Whether A and B are correct on every example, by running them."""
    return all(
        (run := program.run(example.input)).ok and run.world == example.output
        for program in (PROGRAM_A, PROGRAM_B)
        for example in aliasing_examples()
    )


def score_aliases(model: Synthesizer, *, beam: int) -> list[dict[str, Any]]:
    """A model's scores of A and of B, given five of the examples.

    For each {"logprob", "rank"}: log p(program | examples), and its rank in the beam, from 1, or None.
    """
    import numpy as np
    import torch

    from karelsynth.karel.formats.codes import worlds_to_codes
    from karelsynth.karel.machine import encode_programs
    from karelsynth.search import beam_search

    given = aliasing_examples()[:-1]
    inputs, outputs = (
        torch.from_numpy(worlds_to_codes([pair[side] for pair in given]))[None].to(model.device) for side in (0, 1)
    )
    tokens = encode_programs([PROGRAM_A, PROGRAM_B])
    lengths = np.array([PROGRAM_A.size, PROGRAM_B.size])
    with torch.no_grad():
        encoded = model.encode(inputs, outputs)
        packed = model.pack(tokens, lengths, encoded=encoded, tasks=np.zeros(2, np.int64))
        logprobs = model.program_logprobs(encoded, packed)
        found = beam_search(model, encoded, beam=beam).cpu()
    written = [row[:length].tolist() for row, length in zip(found.tokens[0], found.lengths[0].tolist(), strict=True)]
    return [
        {"logprob": round(float(logprob), 3), "rank": _rank(written, program.token_ids)}
        for logprob, program in zip(logprobs.tolist(), (PROGRAM_A, PROGRAM_B), strict=True)
    ]


def _rank(written: Sequence[Sequence[int]], tokens: Sequence[int]) -> int | None:
    return next((place for place, program in enumerate(written, 1) if list(program) == list(tokens)), None)


def aliasing_scene() -> Scene:
    """An example on which both programs are correct, and below it a world on which they differ."""
    theme = THEMES["light"]
    before, after = aliasing_examples()[0]
    same = (("before", before), ("after A, and after B", after))
    elsewhere = (
        ("elsewhere, before", ELSEWHERE),
        ("after A", PROGRAM_A.run(ELSEWHERE).world),
        ("after B", PROGRAM_B.run(ELSEWHERE).world),
    )
    groups: list[ShapeGroup] = []
    top, widest = _CAPTION, 0
    for line in (same, elsewhere):
        left = 0
        for caption, world in line:
            layout = layout_of(world, theme="light", cell=_CELL)
            for group in world_scene(world, layout).groups:
                groups.append(replace(group, at=(group.at[0] + left, group.at[1] + top)))
            groups.append(ShapeGroup("caption", (Text(left + layout.width / 2, top, caption, 12, theme.ink),)))
            left += layout.width
        widest = max(widest, left)
        top += layout.height + _CAPTION
    description = "Two programs that are both right on the example above, and differ on the one below."
    return Scene(widest, top, theme.canvas, tuple(groups), "Program aliasing", description)
