"""Render the gallery: a picture of each task's examples, and docs/gallery.md.

    python tools/render_gallery.py                      # pictures and page from the task files and results
    python tools/render_gallery.py --solve              # first let the shipped model solve them: results/gallery.json

The results are a list of {"slug", "solved", "budget", "seconds", "program", "right", "fresh"}. `program` is the paper's
text, or null. It is right on `right` of `fresh` worlds that the task's generator draws (tools/gallery_worlds.py). It is
*general* if it is right on all of them. Every run of this command counts these anew.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tools.drawn_tasks import rights  # noqa: E402
from tools.gallery_worlds import gallery_tasks  # noqa: E402

from karelsynth.files import read_text, write_atomically  # noqa: E402
from karelsynth.karel.draw import examples_svg  # noqa: E402
from karelsynth.karel.program import Program  # noqa: E402
from karelsynth.tasks.task_files import GalleryTask, gallery  # noqa: E402

PAGE: Final = ROOT / "docs" / "gallery.md"
PICTURES: Final = ROOT / "docs" / "pictures" / "gallery"
RESULTS: Final = ROOT / "results" / "gallery.json"

BUDGET: Final = 2.0
"""Seconds a task, if no other number is given; that of results that do not say theirs."""
FRESH: Final = 100
"""Worlds on which a program is tried that it was not made for."""

Results = Mapping[str, Mapping[str, Any]]
"""By slug."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--solve", action="store_true", help="solve the tasks with the shipped model first")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds a task when solving")
    arguments = parser.parse_args()
    rows = solve(arguments.budget) if arguments.solve else list(read_results().values())
    if rows:
        RESULTS.parent.mkdir(exist_ok=True)
        write_atomically(RESULTS, (json.dumps(judged(rows), indent=1) + "\n").encode())
    PICTURES.mkdir(parents=True, exist_ok=True)
    wanted = {PICTURES / f"{entry.slug}.svg": entry for entry in gallery()}
    for path, entry in wanted.items():
        write_atomically(path, picture(entry).encode())
    for old in set(PICTURES.glob("*.svg")) - wanted.keys():
        old.unlink()
    write_atomically(PAGE, page(read_results()).encode())
    for slug, result in read_results().items():
        if not is_general(result):
            print(f"{slug}: {'right on ' + _of_fresh(result) if result['solved'] else 'not solved'}")
    print(f"{len(gallery())} tasks: {PAGE.relative_to(ROOT)}")


def solve(budget: float) -> list[dict[str, Any]]:
    """What the shipped model makes of each task in `budget` seconds."""
    from karelsynth.solve.solver import Solver

    solver = Solver.load()
    solver.warm_up()
    rows = []
    for entry in gallery():
        solution = solver.solve(entry.task, budget=budget)
        print(f"{entry.slug}: {'solved' if solution else 'not solved'} ({solution.seconds:.2f} s)")
        program = solution.program.to("paper") if solution and solution.program else None
        told = {"solved": solution.solved, "budget": budget, "seconds": round(solution.seconds, 3), "program": program}
        rows.append({"slug": entry.slug, **told})
    return rows


def judged(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same rows, with the number of fresh worlds on which each program is right."""
    tasks = {task.name: task for task in gallery_tasks()}
    told = []
    for row in rows:
        right = 0
        if row["program"] is not None:
            pairs = tasks[row["slug"]].pairs(Random(f"fresh worlds of {row['slug']}"), FRESH)
            right = int(rights([Program.parse(row["program"], "paper")], pairs).sum())
        told.append({**row, "right": right, "fresh": FRESH})
    return told


def is_general(result: Mapping[str, Any]) -> bool:
    """Whether the task was solved by a program that is right on all fresh worlds."""
    return bool(result["solved"] and result["right"] == result["fresh"])


def _of_fresh(result: Mapping[str, Any]) -> str:
    return f"{result['right']} of {result['fresh']} fresh worlds"


def read_results() -> Results:
    """The results of the last `--solve`, if there was one."""
    return {row["slug"]: row for row in json.loads(read_text(RESULTS))} if RESULTS.exists() else {}


def page(results: Results) -> str:
    """docs/gallery.md."""
    solved = sum(bool(results.get(entry.slug, {}).get("solved")) for entry in gallery())
    intro = [
        "# Gallery",
        f"{len(gallery())} tasks made by hand, from easy to hard. Each picture shows the worlds before\n"
        "(above) and after (below).\n"
        "`karelsynth solve NAME` solves one; in Python, `karelsynth.tasks.task_files.gallery_task(NAME)` is the task.",
    ]
    if results:
        budget = max(result.get("budget", BUDGET) for result in results.values())
        general = sum(is_general(result) for result in results.values())
        intro.append(
            f"The shipped model solves **{solved} of {len(gallery())}** with a budget of {budget:g} s each. It found\n"
            f"the programs below, and each was run on every example. **{general}** of them are *general*: they are\n"
            f"also right on {FRESH} fresh worlds, which a generator draws for each task.\n"
            "`python tools/render_gallery.py --solve` solves the tasks again."
        )
    sections = [_section(number, entry, results.get(entry.slug)) for number, entry in enumerate(gallery(), 1)]
    return "\n\n".join([*intro, *sections]) + "\n"


def _section(number: int, entry: GalleryTask, result: Mapping[str, Any] | None) -> str:
    task = entry.task
    parts = [
        f"## {number}. {task.name}",
        f"{task.about} (`karelsynth solve {entry.slug}`)",
        f"![{task.name}: {len(task.examples)} examples, before and after](pictures/gallery/{entry.slug}.svg)",
    ]
    if result and result["solved"]:
        told = "General: right on" if is_general(result) else "Not general: right on only"
        parts += [
            f"Solved in {result['seconds']:.2f} s. {told} {_of_fresh(result)}.",
            f"```\n{result['program'].rstrip()}\n```",
        ]
    elif result:
        parts.append(f"Not solved in {result['seconds']:.2f} s.")
    return "\n\n".join(parts)


def picture(entry: GalleryTask) -> str:
    """An SVG of the examples."""
    return examples_svg(entry.task.examples, name=entry.task.name, about=entry.task.about)


if __name__ == "__main__":
    main()
