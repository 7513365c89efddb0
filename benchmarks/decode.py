"""How fast decoding is: tasks per second of beam search, candidates run on all examples included.

    python benchmarks/decode.py MODEL [--tasks 2500] [--beam 64 256] [--batch 32 64 128] [--alone 20] [--precisions]
        [--json FILE]

MODEL is a trained model's folder; an untrained one would write endless programs. The best batch size of those tried
is reported for each beam, and how long a task takes that comes alone (the median of `--alone` tasks), preparing the
model's weights for decoding included. `--precisions` compares those that the device may decode in, beam search alone,
in turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

from karelsynth.evaluate import decode, evaluate
from karelsynth.files import write_atomically
from karelsynth.karel.threads import core_count
from karelsynth.model.devices import has_eight_bits
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.tasks.batch import TaskBatch
from karelsynth.tasks.named import named_tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--tasks", type=int, default=2500)
    parser.add_argument("--beam", type=int, nargs="+", default=[64])
    parser.add_argument("--batch", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--alone", type=int, default=20)
    parser.add_argument("--precisions", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Synthesizer.from_pretrained(arguments.model, device)
    tasks = named_tasks("val", arguments.tasks)
    evaluate(model, tasks[: 2 * max(arguments.batch)], beam=max(arguments.beam), batch_size=max(arguments.batch))
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {core_count()} cores"
    print(f"{name}, {len(tasks):,} tasks of val\n")
    print("| beam | batch | tasks/s | alone | top-1 | filtered |\n|---:|---:|---:|---:|---:|---:|")
    rows, best = [], 0
    for beam in arguments.beam:
        tried = []
        for batch in arguments.batch:
            report = evaluate(model, tasks, beam=beam, batch_size=batch).to_json()
            tried.append((1 / report["seconds_per_task"], batch, report))
        rate, batch, report = max(tried, key=lambda row: row[0])
        alone = statistics.median(
            _seconds(model, tasks[at : at + 1], beam) for at in range(min(arguments.alone, len(tasks)))
        )
        print(
            f"| {beam} | {batch} | {rate:,.1f} | {1000 * alone:,.0f} ms | {report['generalization']['1']:.2f} "
            f"| {report['filtered_generalization']:.2f} |"
        )
        every = [row[:2] for row in tried]
        rows.append({"beam": beam, "batch": batch, "tasks_per_second": rate, "seconds_alone": alone, "all": every})
        best = batch
    told: dict[str, object] = {"device": name, "rows": rows}
    if arguments.precisions:
        told["precisions"] = _compare_precisions(model, tasks, arguments.beam[-1], best)
    if arguments.json:
        write_atomically(arguments.json, json.dumps(told, indent=1).encode())


def _compare_precisions(model: Synthesizer, tasks: TaskBatch, beam: int, batch: int) -> dict[str, float]:
    """Tasks per second in each precision; all take turns, three times, and the best of these counts."""
    small = [torch.int8] if model.device.type == "cpu" and has_eight_bits() else []
    weights = {dtype: model.step_model(dtype) for dtype in (torch.float32, torch.bfloat16, *small)}
    rates = dict.fromkeys(weights, 0.0)
    for _ in range(3):
        for dtype, own in weights.items():
            start = time.perf_counter()
            for at in range(0, len(tasks), batch):
                decode(model, tasks[at : at + batch], beam=beam, weights=own)
            rates[dtype] = max(rates[dtype], len(tasks) / (time.perf_counter() - start))
    print("\n| precision of states and products | tasks/s | ratio |\n|---|---:|---:|")
    for dtype, rate in rates.items():
        print(f"| {dtype} | {rate:,.1f} | {rate / rates[torch.float32]:.2f} |")
    return {str(dtype): rate for dtype, rate in rates.items()}


def _seconds(model: Synthesizer, task: TaskBatch, beam: int) -> float:
    start = time.perf_counter()
    evaluate(model, task, beam=beam)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
