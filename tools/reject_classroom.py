"""Write the hashes of programs that the purposeful generator never draws: `python tools/reject_classroom.py`.

These are the references of the set `classroom` and their mirror images (left and right exchanged), so that no task of
the benchmark is trained on: each as it stands and in the normal form, which is what the generator draws. A turn around
counts as the same to the left and to the right.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np

from karelsynth import Program, encode_programs
from karelsynth.tasks.purposeful.generator_kernel import hash_rows
from karelsynth.tasks.purposeful.program_kernel import RAW, normalise

ROOT = Path(__file__).parent.parent
MIRRORED = {
    "turnLeft": "turnRight",
    "turnRight": "turnLeft",
    "leftIsClear": "rightIsClear",
    "rightIsClear": "leftIsClear",
}


def variants(text: str) -> set[str]:
    """A program in tokens, its mirror image, and both with all turns around in either direction."""
    images = (text, " ".join(MIRRORED.get(token, token) for token in text.split()))
    around = ("turnLeft turnLeft", "turnRight turnRight")
    return {image.replace(around[0], turn).replace(around[1], turn) for image, turn in product(images, around)} | set(
        images
    )


def in_normal_form(text: str) -> str:
    """The program as the generator writes it."""
    (tokens,) = encode_programs([Program.parse(text)])
    out = np.zeros(RAW, np.uint8)
    size = normalise(tokens[3:-1].copy(), len(tokens) - 4, out)
    return Program.from_tokens(out[:size].tolist()).to("tokens")


def main() -> None:
    """Read the benchmark, write `rejected.txt`."""
    lines = (ROOT / "src" / "karelsynth" / "tasks" / "classroom.jsonl").read_text().splitlines()
    references = [Program.parse(json.loads(line)["reference"]).to("tokens") for line in lines]
    found = {variant for reference in references for variant in variants(reference)}
    programs = sorted(found | set(map(in_normal_form, found)))
    tokens = encode_programs([Program.parse(program) for program in programs])
    hashes = np.empty(len(tokens), np.uint64)
    hash_rows(tokens, np.array([len(program.split()) for program in programs]), hashes)
    out = ROOT / "src" / "karelsynth" / "tasks" / "purposeful" / "rejected.txt"
    out.write_text("".join(f"{value:016x}\n" for value in sorted(hashes.tolist())))
    print(f"{len(references)} references, {len(hashes)} programs: {out}")


if __name__ == "__main__":
    main()
