"""A bottom-up enumerator as a synthesizer of one's own, scored: `python examples/enumerator.py [TASKS LIMIT]`.

It grows programs statement by statement, the short statements first. Of all prefixes that lead the examples to the same
worlds it keeps the first (observational equivalence). A statement is an action, or a loop or a choice over up to two
actions. `evaluate` scores any such function: from the examples of some tasks to a list of programs for each.
"""

from __future__ import annotations

import sys
from collections import deque
from itertools import product

import numpy as np
from numpy.typing import NDArray

from karelsynth import GivenExamples, Program, encode_programs, evaluate, run_batch
from karelsynth.karel.tokens import ACTIONS

BUDGET = 100
"""Prefixes that are extended for each task."""
CONDITIONS = "frontIsClear leftIsClear rightIsClear markersPresent noMarkersPresent".split()
CONDITIONS += [f"not c( {side}IsClear c)" for side in ("front", "left", "right")]
BLOCKS = [" ".join(block) for count in (1, 2) for block in product(ACTIONS, repeat=count)]
STATEMENTS = [
    *ACTIONS,
    *(f"REPEAT R={count} r( {block} r)" for block in BLOCKS for count in range(2, 10)),
    *(f"IF c( {test} c) i( {block} i)" for block in BLOCKS for test in CONDITIONS),
    *(f"WHILE c( {test} c) w( {block} w)" for block in BLOCKS for test in CONDITIONS),
]
TOKENS = encode_programs([Program.parse(f"DEF run m( {statement} m)") for statement in STATEMENTS])


def enumerate_programs(tasks: GivenExamples) -> list[list[str]]:
    """For each task the first program found that is right on the given examples, or none."""
    return [search(*task) for task in zip(tasks.inputs, tasks.outputs, strict=True)]


def search(inputs: NDArray[np.uint8], outputs: NDArray[np.uint8]) -> list[str]:
    """A program for examples [K, 18, 18], as a list of one; an empty list if none was found."""
    waiting, seen = deque([("", inputs)]), {inputs.tobytes()}
    for _ in range(BUDGET):
        if not waiting:
            break
        prefix, worlds = waiting.popleft()
        runs = run_batch(TOKENS, worlds)
        assert runs.worlds is not None
        for row in np.flatnonzero(runs.ok.all(1)):
            program, after = f"{prefix} {STATEMENTS[row]}", runs.worlds[row]
            if (after == outputs).all():
                return [f"DEF run m( {program} m)"]
            if after.tobytes() not in seen:
                seen.add(after.tobytes())
                waiting.append((program, after))
    return []


if __name__ == "__main__":
    name, limit = sys.argv[1:3] if len(sys.argv) > 2 else ("test", "100")
    report = evaluate(enumerate_programs, name, limit=int(limit)).to_json()
    low, high = report["confidence_95"]["generalization"]["1"]
    sys.stdout.write(
        f"{report['tasks']:,} tasks of `{name}`: generalization {report['generalization']['1']:.2f} % "
        f"(95 %: {low:.2f} to {high:.2f}), {report['seconds_per_task']:.2f} s a task\n"
    )
