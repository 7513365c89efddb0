"""Score systems on KarelBench and render the table of docs/karelbench.md.

    python tools/karelbench.py network [--tasks 250] [--only SET ...] [--device cuda] [--seconds 60]
    python tools/karelbench.py enumerator [--tasks 250]
    python tools/karelbench.py --render

Systems: `network`, the shipped weights with a beam of 64; `solve`, the solver within a second a task; `enumerator`,
that of `examples/`. Each set's scores are written to results/karelbench.json as soon as they are there. A set that has
been scored on as many tasks is not scored again, unless other weights ship now; with `--seconds`, no set is begun after
that time.
"""

from __future__ import annotations

import argparse
import json
import runpy
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from karelsynth.evaluate import Report, evaluate
from karelsynth.files import read_text, write_atomically
from karelsynth.tasks.batch import GivenExamples
from karelsynth.tasks.named import KARELBENCH, NAMED_SETS

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = ROOT / "results" / "karelbench.json"
WEIGHTS: Final = ROOT / "src" / "karelsynth" / "pretrained" / "model.safetensors"
PAGE: Final = ROOT / "docs" / "karelbench.md"
TRAINING: Final = ("full", "small", "compositions_train", "val", "val_large")
"""Sets that nothing is scored on."""
SETS: Final = tuple(name for name in NAMED_SETS if name not in TRAINING)
SYSTEMS: Final = {
    "network": "shipped network, beam 64",
    "solve": "`solve`, 1 s a task",
    "enumerator": "bottom-up enumerator",
}
Scores = dict[str, dict[str, Any]]


def scorer(system: str, device: str) -> Callable[[str, int], Report]:
    """A function that scores a system on the first tasks of a set."""
    if system == "enumerator":
        enumerate_programs = runpy.run_path(str(ROOT / "examples" / "enumerator.py"))["enumerate_programs"]
        return lambda name, limit: evaluate(enumerate_programs, name, limit=limit)
    from karelsynth.solve.solver import Solver

    solver = Solver.load(device=device)
    if system == "network":
        return lambda name, limit: evaluate(solver.model, name, limit=limit, beam=64)
    solver.warm_up()

    def solve(tasks: GivenExamples) -> list[list[Any]]:
        return [[answer.program for answer in solution.answers] for solution in solver.solve_many(tasks, budget=1.0)]

    return lambda name, limit: evaluate(solve, name, limit=limit)


def weights_of(system: str) -> str | None:
    """The beginning of the SHA-256 of the shipped weights; None for a system without any."""
    return None if system == "enumerator" else sha256(WEIGHTS.read_bytes()).hexdigest()[:12]


def summary(report: Report, weights: str | None) -> dict[str, Any]:
    """The figures that the page shows, and where they come from."""
    figures = report.to_json()
    sources = {key: figures["provenance"].get(key) for key in ("device", "commit", "decoding")}
    bounds = figures["confidence_95"]
    return {
        "tasks": figures["tasks"],
        "digest": report.digest,
        "top_1": [figures["generalization"]["1"], *bounds["generalization"]["1"]],
        "filtered": [figures["filtered_generalization"], *bounds["filtered_generalization"]],
        "any_consistent": figures["any_consistent"],
        "exact": figures["exact"]["1"],
        "novel": figures["novel"].get("generalization", {}).get("1"),
        "seconds_per_task": round(figures["seconds_per_task"], 4),
        **({} if weights is None else {"weights": weights}),
        **sources,
    }


def read() -> dict[str, Any]:
    """The file of results, or an empty one."""
    empty: dict[str, Any] = {"karelbench": KARELBENCH, "systems": {}}
    return json.loads(read_text(RESULTS)) if RESULTS.exists() else empty


def measure(options: argparse.Namespace) -> None:
    """Score a system on all sets that have no score yet."""
    began, run, weights = time.monotonic(), None, weights_of(options.system)
    for name in options.only or SETS:
        limit = min(options.tasks, NAMED_SETS[name].count)
        done = read()["systems"].get(options.system, {}).get(name)
        if done is not None and done["tasks"] >= limit and done.get("weights") == weights:
            continue
        if time.monotonic() - began > options.seconds:
            print(f"{name}: not begun")
            continue
        run = run or scorer(options.system, options.device)
        found = summary(run(name, limit), weights)
        record = read()
        record["systems"].setdefault(options.system, {})[name] = found
        write_atomically(RESULTS, (json.dumps(record, indent=1) + "\n").encode())
        print(
            f"{name}: {found['tasks']:,} tasks, top 1 {found['top_1'][0]:.2f} %, filtered {found['filtered'][0]:.2f} %"
        )


def sets_table() -> list[str]:
    """What each set is."""
    rows = ["| set | tasks | given | digest | what it tests |", "|---|---:|---:|---|---|"]
    for name, made in NAMED_SETS.items():
        held = made.examples - made.given
        rows.append(f"| `{name}` | {made.count:,} | {made.given}, {held} held out | `{made.digest}` | {made.about} |")
    return rows


def scores_table(systems: Mapping[str, Scores]) -> list[str]:
    """The scores of our systems."""
    rows = [
        "| set | system | tasks | top 1 | filtered top 1 | some consistent | exact | s a task | machine |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name in SETS:
        for system, label in SYSTEMS.items():
            if (found := systems.get(system, {}).get(name)) is not None:
                label += "" if found.get("weights") == weights_of(system) else ", earlier weights"
                top, filtered = (f"{one:.1f} ({low:.1f} to {high:.1f})" for one, low, high in _shares(found))
                rows.append(
                    f"| `{name}` | {label} | {found['tasks']:,} | {top} | {filtered} | {found['any_consistent']:.1f} | "
                    f"{found['exact']:.1f} | {found['seconds_per_task']:.3f} | {found['device']} |"
                )
    return rows


def _shares(found: Mapping[str, Any]) -> Sequence[tuple[float, float, float]]:
    return [found["top_1"], found["filtered"]]


def rendered(text: str) -> str:
    """The page with its two tables made anew."""
    for mark, rows in (("sets", sets_table()), ("scores", scores_table(read()["systems"]))):
        before, after = (f"<!-- {word} -->\n" for word in (mark, f"end of {mark}"))
        head, _, rest = text.partition(before)
        _, _, tail = rest.partition(after)
        text = "".join([head, before, "\n", "\n".join(rows), "\n\n", after, tail])
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", nargs="?", choices=SYSTEMS, help="what to score")
    parser.add_argument("--tasks", type=int, default=250, help="the first tasks of each set")
    parser.add_argument("--only", nargs="+", choices=SETS, metavar="SET")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no set after this time")
    parser.add_argument("--render", action="store_true", help="write the tables of docs/karelbench.md")
    options = parser.parse_args(arguments)
    if options.system is not None:
        measure(options)
    if options.render:
        write_atomically(PAGE, rendered(read_text(PAGE)).encode())
    if options.system is None and not options.render:
        parser.error("choose a system, or --render")


if __name__ == "__main__":
    main()
