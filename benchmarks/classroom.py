"""How well `solve` generalizes on tasks that people pose: classroom tasks with worlds that the solver does not see.

    python benchmarks/classroom.py [FILE] [--budget 1] [--given 5] [--tasks N] [--only NAME ...] [--part P] \\
        [--without PART] [--model DIR] [--json OUT]

FILE has one JSON object per line. The package's own, `tasks/classroom.jsonl`, is the set `classroom`: 50 tasks.
`benchmarks/held_out.jsonl`, `held_out_2`, `held_out_3` and `held_out_4.jsonl` have 230 others. The fields of a task:

- `name`, `about`, `concepts`, `source`: what it is, and where it comes from;
- `reference`: a program in the paper's dialect; `tokens`: its length;
- `level`: easy (up to 14 tokens), medium (up to 35) or hard;
- `examples`: five pairs of text drawings that a careful teacher would choose;
- `fresh`: 24 further pairs of the same kind, on which answers are scored;
- `needs_ticks`: the most ticks that the reference takes on a fresh world, if more than 200;
- `part`: a or b, in the held-out files. Part b is for one final measurement: do not look at it before.

Do not train on these tasks, and do not tune anything to a single one.

The words of the table:

- solved: the top-ranked program is right on all given examples;
- general: it is solved, and the top-ranked program is right on all fresh worlds;
- overfit: it is solved, but not general;
- fresh right: the share of fresh worlds on which the top-ranked program is right;
- another answer general: tasks whose top-ranked program is not general, but another listed answer is;
- core, extended: tasks without and with `needs_ticks`;
- cores got: processor seconds per second while solving. If other work shares the machine, a budget buys less.

`--without` leaves out one part of the search, as an ablation: see `leave_out`.

On fresh worlds programs may take 5 × max(200, `needs_ticks`) ticks, so a slow program is not a wrong one.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from karelsynth import Program, World, encode_programs, run_batch
from karelsynth.solve import Solver, ranking

TASKS = Path(str(files("karelsynth.tasks") / "classroom.jsonl"))
PARTS = ("continuation", "later rounds", "repair", "MCMC", "brevity")
LEVELS = ("easy", "medium", "hard")
TICKS = 200
"""The fewest ticks that a task's reference is taken to need."""
SLACK = 5
"""How many times more ticks than the reference's a program may take on a fresh world."""
Pairs = list[tuple[World, World]]
Row = dict[str, Any]


def read_tasks(
    path: Path, only: Sequence[str] | None = None, count: int | None = None, part: str | None = None
) -> list[dict[str, Any]]:
    """The tasks of a file: those named, or all; those of a part, or all; at most `count`."""
    tasks = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    if only:
        unknown = set(only) - {task["name"] for task in tasks}
        if unknown:
            raise SystemExit(f"{path}: no task is called {', '.join(sorted(unknown))}")
        tasks = [task for task in tasks if task["name"] in only]
    if part is not None:
        tasks = [task for task in tasks if task.get("part") == part]
        if not tasks:
            raise SystemExit(f"{path}: no task is in part {part}")
    return tasks[:count]


def leave_out(solver: Solver, part: str) -> None:
    """Change a solver: search and choose without one of PARTS."""
    if part == "continuation":  # the first answer ends the search, however unlikely it is, and is not simplified
        solver.plausible = -math.inf
    elif part == "later rounds":
        solver.rounds = solver.rounds[:1]
    elif part == "repair":
        solver.rounds = tuple(one._replace(repair=0.0) for one in solver.rounds)
    elif part == "brevity":  # the first answer in the search's order, however long
        ranking.choose_for_people = lambda *_: 0
    else:
        ranking.look_random = lambda inputs, outputs: False


def read_pairs(pairs: list[dict[str, str]]) -> Pairs:
    return [(World.parse(pair["input"]), World.parse(pair["output"])) for pair in pairs]


def shares_right(programs: Sequence[Program], pairs: Pairs, max_ticks: int) -> list[float]:
    """For each program, the share of pairs on which it is right."""
    if not programs:
        return []
    inputs, outputs = zip(*pairs, strict=True)
    runs = run_batch(encode_programs(programs), inputs, expected=outputs, keep_worlds=False, max_ticks=max_ticks)
    assert runs.correct is not None
    return [float(share) for share in runs.correct.mean(1)]


def score_task(solver: Solver, task: dict[str, Any], *, budget: float, given: int) -> Row:
    """Solve a task from its first examples; score the answers on its fresh worlds."""
    pairs = read_pairs(task["examples"])
    start, cpu = time.perf_counter(), time.process_time()
    solution = solver.solve(pairs[:given], budget=budget)
    seconds = time.perf_counter() - start
    cores = (time.process_time() - cpu) / seconds
    max_ticks = SLACK * max(TICKS, task.get("needs_ticks", 0))
    programs = [answer.program for answer in solution.answers]
    shares = shares_right(programs, read_pairs(task["fresh"]), max_ticks)
    share = shares[0] if shares else 0.0
    others = [rank for rank, other in enumerate(shares) if rank and other == 1] if solution.solved else []
    row = {
        "name": task["name"],
        "level": task["level"],
        "extended": "needs_ticks" in task,
        "reference_tokens": task["tokens"],
        "solved": solution.solved,
        "share": share,
        "general": solution.solved and share == 1,
        "other": bool(others) and share < 1,
        "other_ranks": others[:3],
        "answers": len(programs) if solution.solved else 0,
        "tokens": len(programs[0].tokens) if programs else None,
        "seconds": seconds,
        "cores": cores,
        "probability": solution.answers[0].probability if programs else None,
        "beam": solution.beam,
        "checked": solution.checked,
        "program": programs[0].to("paper") if programs else None,
        "reference": task["reference"],
    }
    if given < len(pairs) and programs:
        row["unseen_examples"] = shares_right(programs[:1], pairs[given:], max_ticks)[0]
    return row


def print_row(row: Row) -> None:
    verdict = "general" if row["general"] else "other" if row["other"] else "overfit" if row["solved"] else "-"
    print(
        f"{verdict:7s} {row['name']:24s} {row['level'][0]}{'x' if row['extended'] else ' '} "
        f"fresh {100 * row['share']:5.1f} %  tokens {row['tokens'] or 0:3d} / {row['reference_tokens']:3d}  "
        f"answers {row['answers']:2d}  {row['seconds']:6.2f} s",
        flush=True,
    )


def summarize(title: str, rows: Sequence[Row]) -> dict[str, Any]:
    """The figures of some tasks, in percent; at least one task."""
    seconds = sum(row["seconds"] for row in rows)
    return {
        "title": title,
        "tasks": len(rows),
        **{name: 100 * statistics.fmean(row[name] for row in rows) for name in ("solved", "general", "share")},
        "other": sum(row["other"] for row in rows),
        "seconds": statistics.median(row["seconds"] for row in rows),
        "cores": sum(row["cores"] * row["seconds"] for row in rows) / seconds,
    }


def groups(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """All tasks, core and extended ones, and those of each level; groups without tasks are left out."""
    parts = [
        ("all", list(rows)),
        ("core", [row for row in rows if not row["extended"]]),
        ("extended", [row for row in rows if row["extended"]]),
        *((level, [row for row in rows if row["level"] == level]) for level in LEVELS),
    ]
    return [(title, part) for title, part in parts if part]


def print_total(total: dict[str, Any]) -> None:
    print(
        f"{total['title']:10s} {total['tasks']:4d} tasks   solved {total['solved']:5.1f} %   "
        f"GENERAL {total['general']:5.1f} %   fresh right {total['share']:5.1f} %   "
        f"another answer general {total['other']:2d}   median {total['seconds']:.2f} s   cores got {total['cores']:.2f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=TASKS, help="a file of tasks (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds to search for each task")
    parser.add_argument("--given", type=int, default=5, help="how many examples of each task the solver gets")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write all figures as JSON")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only the tasks of these names")
    parser.add_argument("--part", choices=("a", "b"), help="only the tasks of this part of held_out.jsonl")
    parser.add_argument("--tasks", type=int, metavar="N", help="only the first N tasks")
    parser.add_argument("--without", choices=PARTS, metavar="PART", help=f"an ablation, one of: {', '.join(PARTS)}")
    parser.add_argument("--model", type=Path, metavar="DIR", help="other weights than the shipped ones")
    options = parser.parse_args(arguments)
    tasks = read_tasks(options.file, options.only, options.tasks, options.part)
    solver = Solver.load(options.model)
    if options.without is not None:
        leave_out(solver, options.without)
    solver.warm_up()
    rows = []
    for task in tasks:
        rows.append(score_task(solver, task, budget=options.budget, given=options.given))
        print_row(rows[-1])
    totals = [summarize(title, part) for title, part in groups(rows)]
    without = "" if options.without is None else f", without {options.without}"
    print(f"\n{options.file}, budget {options.budget:g} s, {options.given} examples{without}")
    for total in totals:
        print_total(total)
    if options.json is not None:
        report = {"file": str(options.file), "budget": options.budget, "given": options.given}
        options.json.write_text(json.dumps({**report, "totals": totals, "rows": rows}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
