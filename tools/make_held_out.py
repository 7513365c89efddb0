"""Write benchmarks/held_out.jsonl: `python tools/make_held_out.py [--only NAME ...]`

Sixty tasks of the kind that people pose, independent of the set `classroom` and in the same format, with one
more field: `part`, a or b, half of each level, by a hash of the name. Part a may be looked at. Part b is for one final
measurement: `python benchmarks/classroom.py benchmarks/held_out.jsonl --part a`.

The tasks are in tools/held_out_easy.py, held_out_medium.py and held_out_hard.py. Everything is seeded: the same
sources write the same file.

With --only nothing is written: the examples of these tasks are printed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tools import held_out_easy, held_out_hard, held_out_medium  # noqa: E402
from tools.drawn_tasks import TICKS, DrawnTask, Pair, choose_examples, mutants, rights  # noqa: E402

from karelsynth.files import write_atomically  # noqa: E402
from karelsynth.karel.world import World  # noqa: E402

FILE: Final = ROOT / "benchmarks" / "held_out.jsonl"
TASKS: Final = (*held_out_easy.TASKS, *held_out_medium.TASKS, *held_out_hard.TASKS)
POOL: Final = 80
"""Worlds from which the examples are chosen."""
FRESH: Final = 24
TYPICAL: Final = 0.85
"""An example is typical if it rules out at least this share of the mutants that the best example rules out."""
FEW: Final = 0.05
"""If the first three examples leave more than this share of the mutants, the three that leave fewest come first."""


def main() -> None:
    write_tasks(__doc__.splitlines()[0], TASKS, make, FILE)


def write_tasks(
    about: str, tasks: Sequence[DrawnTask], make_record: Callable[[DrawnTask], tuple[dict[str, Any], int]], file: Path
) -> None:
    """The command: make the records of all tasks and write them to a file, or print those named by `--only`."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="print these tasks, write nothing")
    only = parser.parse_args().only
    records = []
    for task in tasks:
        if only and task.name not in only:
            continue
        record, survivors = make_record(task)
        records.append(record)
        ticks = record.get("needs_ticks", "")
        print(
            f"{record['level']:6s} {record['tokens']:3d} {task.name:28s} survivors {survivors:3d} {ticks}", flush=True
        )
        for example in record["examples"] if only else ():
            print(f"{example['input']}\n ->\n{example['output']}\n")
    if not only:
        write_atomically(file, "".join(json.dumps(record) + "\n" for record in with_parts(records)).encode())
        print(f"{len(records)} tasks: {file.relative_to(ROOT)}")


def make(task: DrawnTask) -> tuple[dict[str, Any], int]:
    """The task's record without its part, and the number of mutants that survive the examples."""
    pool = task.pairs(Random(f"examples of {task.name}"), POOL, ticks=TICKS)
    examples, survivors = choose_examples(task, pool)
    fresh = task.pairs(Random(f"fresh worlds of {task.name}"), FRESH, but=[before for before, _ in examples])
    if len(fresh) < FRESH:
        raise AssertionError(f"{task.name}: only {len(fresh)} fresh worlds")
    tokens = task.reference.size
    ticks = max(task.answer(before)[1] for before, _ in fresh)
    record = {
        "name": task.name,
        "about": task.about,
        "concepts": list(task.concepts),
        "source": task.source,
        "reference": task.reference.to("paper"),
        "tokens": tokens,
        "level": "easy" if tokens <= 14 else "medium" if tokens <= 35 else "hard",
        "examples": drawings(examples),
        "fresh": drawings(fresh),
    }
    return record | ({"needs_ticks": ticks} if ticks > TICKS else {}), survivors


def make_ordered(task: DrawnTask) -> tuple[dict[str, Any], int]:
    """The task's record without its part, and how many mutants survive that the pool or a fresh world tells apart."""
    record, survivors = make(task)
    examples, fresh = pairs_of(record["examples"]), pairs_of(record["fresh"])
    changed = mutants(task.reference)
    wrong, wrong_later = ~rights(changed, examples), ~rights(changed, fresh)
    survivors += int((wrong_later.any(1) & ~wrong.any(1)).sum())
    atypical = wrong.sum(0) < TYPICAL * max(wrong.sum(0))

    def late(at: int) -> tuple[bool, int, int]:
        before = examples[at][0]
        return bool(atypical[at]), task.answer(before)[1], before.rows * before.cols

    def left(three: Sequence[int]) -> int:
        return int((wrong.any(1) & ~wrong[:, three].any(1)).sum())

    order = sorted(range(len(examples)), key=late)
    if left(order[:3]) > FEW * len(changed):
        three = min(combinations(order, 3), key=left)
        order = [*three, *(at for at in order if at not in three)]
    return record | {"examples": drawings([examples[at] for at in order])}, survivors


def pairs_of(drawn: list[dict[str, str]]) -> list[Pair]:
    return [(World.parse(pair["input"]), World.parse(pair["output"])) for pair in drawn]


def drawings(pairs: list[Pair]) -> list[dict[str, str]]:
    return [{"input": before.to_text(), "output": after.to_text()} for before, after in pairs]


def with_parts(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same records with `part`: of each level, the half with the smaller hashes of their names is a, the rest b."""
    part: dict[str, str] = {}
    for level in {record["level"] for record in records}:
        names = [record["name"] for record in records if record["level"] == level]
        names.sort(key=lambda name: hashlib.sha256(name.encode()).hexdigest())
        part |= {name: "a" if rank < len(names) / 2 else "b" for rank, name in enumerate(names)}
    return [record | {"part": part[record["name"]]} for record in records]


if __name__ == "__main__":
    main()
