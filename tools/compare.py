"""Train variants of a recipe for the same time each, and print how good they are: one idea at a time, fairly.

    python tools/compare.py execution_stream --minutes 1.5 --out runs/compare --json compare.json \
        --variant base --variant "plain: model.mixing=false" --variant "narrow: model.hidden_size=384"

A variant is a name and changes as `karelsynth train --set` takes them. How many steps a variant gets follows from its
speed, measured over a few hundred steps first, so that each has its whole learning-rate schedule within the time. The
scores are those of the first tasks of `val`, so a choice made here has not seen `test`. What has been measured is kept
in the JSON file and not measured again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from karelsynth.evaluate import environment, evaluate
from karelsynth.files import read_text, write_atomically
from karelsynth.model import Synthesizer
from karelsynth.tasks.named import named_tasks
from karelsynth.train.loop import train
from karelsynth.train.metrics import METRICS
from karelsynth.train.recipe import load_recipe

PROBE = 200
"""Steps to measure the speed with; the first half, which compiles things, does not count."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--variant", action="append", required=True, metavar="NAME[: KEY=VALUE …]")
    parser.add_argument("--minutes", type=float, default=1.5, help="of training, for each")
    parser.add_argument("--tasks", type=int, default=1000, help="of `val` to score with")
    parser.add_argument("--beam", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("runs/compare"))
    parser.add_argument("--json", type=Path, default=Path("runs/compare/compare.json"))
    arguments = parser.parse_args()
    known: dict[str, Any] = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
    print(
        "| variant | steps | tasks/s | loss | top-1 | filtered | consistent |\n|---|---|---|---|---|---|---|",
        flush=True,
    )
    for variant in arguments.variant:
        name, _, changes = (part.strip() for part in variant.partition(":"))
        settings = {
            "recipe": load_recipe(arguments.recipe, changes.split()).to_json(),
            "minutes": arguments.minutes,
            "tasks": arguments.tasks,
            "beam": arguments.beam,
        }
        settings = json.loads(json.dumps(settings))
        if name in known and known[name].get("settings") != settings:
            raise SystemExit(f"{arguments.json} has another variant `{name}`: give this one another name")
        if name not in known:
            known[name] = {"settings": settings, **measure(name, changes.split(), arguments)}
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(arguments.json, json.dumps(known, indent=1).encode())
        print(row(name, known[name]), flush=True)


def measure(name: str, changes: list[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Train and score one variant; both runs go on where they were if they have been stopped."""
    folder = arguments.out / name
    few = [f"run.steps={PROBE}", f"run.log_every={PROBE // 2}", f"run.validate_every={PROBE}", "run.validation_tasks=1"]
    few.append("optimizer.warmup=0")
    train(load_recipe(arguments.recipe, changes + few), folder / "probe")
    speed = logged(folder / "probe", "tasks_per_second")[-1]
    recipe = load_recipe(arguments.recipe, changes)
    steps = int(arguments.minutes * 60 * speed / recipe.run.batch_size) // PROBE * PROBE or PROBE
    once = [f"run.steps={steps}", f"run.validate_every={steps}", f"run.checkpoint_every={steps}"]
    once.append(f"optimizer.warmup={min(recipe.optimizer.warmup, steps // 10)}")
    final = train(load_recipe(arguments.recipe, changes + once), folder / "run")
    model = Synthesizer.from_pretrained(final, "cuda" if torch.cuda.is_available() else "cpu")
    report = evaluate(model, named_tasks("val", arguments.tasks), beam=arguments.beam).to_json()
    losses = logged(folder / "run", "loss")
    last = losses[-max(1, len(losses) // 10) :]
    return {
        "changes": changes,
        "steps": steps,
        "batch_size": recipe.run.batch_size,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "seconds": logged(folder / "run", "seconds")[-1],
        "tasks_per_second": logged(folder / "run", "tasks_per_second")[-1],
        "loss": sum(last) / len(last),
        "report": report,
        "provenance": environment(model.device),
    }


def logged(folder: Path, name: str) -> list[float]:
    """A figure of a run's log, over its steps."""
    entries = map(json.loads, read_text(folder / METRICS).splitlines())
    return [entry[name] for entry in entries if name in entry]


def row(name: str, found: dict[str, Any]) -> str:
    """A line of the table."""
    report = found["report"]
    scores = (report["generalization"]["1"], report["filtered_generalization"], report["any_consistent"])
    figures = [f"{found['steps']:,}", f"{found['tasks_per_second']:,.0f}", f"{found['loss']:.4f}", *map(str, scores)]
    return f"| {' | '.join([name, *figures])} |"


if __name__ == "__main__":
    main()
