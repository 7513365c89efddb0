"""Program aliasing, the paper's first figure: two programs, one behaviour.

On worlds without markers, program A (the reference) and program B (with a loop that ends when it is back where it
began) do the same, so both are right; supervised training nevertheless holds B to be wrong. Here both are run to show
it, and models are asked what they think of either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

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
"""Where the two differ: Karel begins on a marker, so that B has nothing to do."""


def aliasing_examples() -> tuple[Example, ...]:
    """Six examples, the first of which is drawn; the last is held out."""
    return tuple(Example(world, PROGRAM_A.run(world).world) for world in map(World.parse, _BEFORE))


def both_right() -> bool:
    """Whether A and B are right on every example, by running them."""
    return all(
        (run := program.run(example.input)).ok and run.world == example.output
        for program in (PROGRAM_A, PROGRAM_B)
        for example in aliasing_examples()
    )


def score_programs(model: Synthesizer, *, beam: int) -> list[dict[str, Any]]:
    """What a model thinks of A and of B, given five of the examples.

    For each {"logprob", "rank"}: log p(program | examples), and its place among `beam` candidates, from 1, or None.
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
