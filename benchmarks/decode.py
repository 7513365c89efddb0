"""How fast decoding is: tasks per second of beam search, candidates run on all examples included.

    python benchmarks/decode.py MODEL [--tasks 2500] [--beam 64 256] [--batch 32 64 128 256] [--alone 20] [--json FILE]

MODEL is a trained model's folder; an untrained one would write endless programs. The best batch size of those tried
is reported for each beam, and how long a task takes that comes alone (the median of `--alone` tasks), as when a person
waits for the answer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

from karelsynth.evaluate import evaluate
from karelsynth.files import write_whole
from karelsynth.karel.threads import core_count
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.sets import named_tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--tasks", type=int, default=2500)
    parser.add_argument("--beam", type=int, nargs="+", default=[64])
    parser.add_argument("--batch", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--alone", type=int, default=20)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Synthesizer.from_pretrained(arguments.model, device)
    tasks = named_tasks("val", arguments.tasks)
    evaluate(model, tasks[: 2 * max(arguments.batch)], beam=max(arguments.beam), batch_size=max(arguments.batch))
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {core_count()} cores"
    print(f"{name}, {len(tasks):,} tasks of val\n")
    print("| beam | batch | tasks/s | alone | top-1 | filtered |\n|---:|---:|---:|---:|---:|---:|")
    rows = []
    for beam in arguments.beam:
        tried = []
        for batch in arguments.batch:
            report = evaluate(model, tasks, beam=beam, batch_size=batch).to_json()
            tried.append((1 / report["seconds_per_task"], batch, report))
        rate, batch, report = max(tried, key=lambda row: row[0])
        alone = statistics.median(_seconds(model, tasks[at : at + 1], beam) for at in range(arguments.alone))
        print(
            f"| {beam} | {batch} | {rate:,.1f} | {1000 * alone:,.0f} ms | {report['generalization']['1']:.2f} "
            f"| {report['filtered_generalization']:.2f} |"
        )
        every = [row[:2] for row in tried]
        rows.append({"beam": beam, "batch": batch, "tasks_per_second": rate, "seconds_alone": alone, "all": every})
    if arguments.json:
        write_whole(arguments.json, json.dumps({"device": name, "rows": rows}, indent=1).encode())


def _seconds(model: Synthesizer, task: TaskBatch, beam: int) -> float:
    start = time.perf_counter()
    evaluate(model, task, beam=beam)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
