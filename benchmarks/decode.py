"""How fast decoding is: tasks per second of beam search, candidates run on all examples included.

    python benchmarks/decode.py MODEL [--tasks 2500] [--beam 64 256] [--batch 32 64 128 256] [--json FILE]

MODEL is a trained model's folder; an untrained one would write endless programs. The best batch size of those tried
is reported for each beam.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from karelsynth.evaluate import evaluate
from karelsynth.karel.threads import core_count
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.tasks.generator import generate
from karelsynth.tasks.sets import NAMED_SETS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--tasks", type=int, default=2500)
    parser.add_argument("--beam", type=int, nargs="+", default=[64])
    parser.add_argument("--batch", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Synthesizer.from_pretrained(arguments.model, device)
    val = NAMED_SETS["val"]
    tasks = generate(val.seed, 0, arguments.tasks, reserved=val.reserved)
    evaluate(model, tasks[: 2 * max(arguments.batch)], beam=max(arguments.beam), batch_size=max(arguments.batch))
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {core_count()} cores"
    print(f"{name}, {len(tasks):,} tasks of val\n")
    print("| beam | batch | tasks/s | top-1 | filtered |\n|---:|---:|---:|---:|---:|")
    rows = []
    for beam in arguments.beam:
        tried = []
        for batch in arguments.batch:
            report = evaluate(model, tasks, beam=beam, batch_size=batch).to_json()
            tried.append((1 / report["seconds_per_task"], batch, report))
        rate, batch, report = max(tried, key=lambda row: row[0])
        print(
            f"| {beam} | {batch} | {rate:,.0f} | {report['generalization']['1']:.2f} "
            f"| {report['filtered_generalization']:.2f} |"
        )
        rows.append({"beam": beam, "batch": batch, "tasks_per_second": rate, "all": [row[:2] for row in tried]})
    if arguments.json:
        arguments.json.write_text(json.dumps({"device": name, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
