"""How fast training is: tasks per second, end to end, with the data generated beside it.

    python benchmarks/train.py [--recipe mle_stream] [--model FOLDER] [--batch N] [--rows mle …]
        [--seconds 20] [--peak TFLOPS] [--json FILE]

Rows: the generator alone, the network alone on four batches over and over, both together (what a run does), and RL_beam
with beam 64 from `--model` (a trained model; an untrained one writes endless programs), with the steps of its search
launched operation by operation and as a run does, replayed as CUDA graphs, and the ratio of the two. RL has the model's
own network and the precision of `--recipe`. The last columns say how much arithmetic a task takes and which share of
the machine's matrix rate that is; `--peak` is that rate in TFLOP/s (790 was measured on one H200 with large bfloat16
products).
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from karelsynth.files import write_atomically
from karelsynth.karel.threads import core_count
from karelsynth.model.settings import ModelSettings
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.search.replay import without_replay
from karelsynth.tasks.generate import generate
from karelsynth.tasks.streams import TaskSource, TaskStream
from karelsynth.train.batches import BatchLoader, TrainingBatch
from karelsynth.train.distributed import ProcessGroup
from karelsynth.train.recipe import Recipe, load_recipe
from karelsynth.train.steps import Loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipe", default="mle_stream")
    parser.add_argument("--model", help="a trained model for the RL row")
    parser.add_argument("--batch", type=int, help="another batch size than the recipe's")
    parser.add_argument("--rl-batch", type=int, default=512)
    parser.add_argument("--rows", nargs="+", choices=["generator", "network", "mle", "rl"], help="by default all")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--peak", type=float, help="the machine's matrix rate in TFLOP/s")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if "rl" in (arguments.rows or ()) and not arguments.model:
        parser.error("--rows rl needs --model: `python tools/profile_rl.py --save FOLDER` makes one in a minute")
    group = ProcessGroup.join()
    recipe = load_recipe(arguments.recipe)
    if arguments.batch:
        recipe = replace(recipe, run=replace(recipe.run, batch_size=arguments.batch))
    wanted = arguments.rows or ["generator", "network", "mle", "rl"]
    rows = {}
    if "generator" in wanted:
        rows["generator alone"] = generator_rate(arguments.seconds / 4)
    model = Synthesizer(recipe.model).to(group.device)
    if "network" in wanted:
        rows["network alone"] = training_rate(
            recipe, model, group, TaskStream(1, recipe.data.simplify), arguments.seconds, same_batch=True
        )
    if "mle" in wanted:
        rows["MLE, end to end"] = training_rate(
            recipe, model, group, TaskStream(1, recipe.data.simplify), arguments.seconds
        )
    if "rl" in wanted and arguments.model:
        trained = Synthesizer.from_pretrained(arguments.model, group.device)
        rl = replace(
            recipe,
            objective=replace(recipe.objective, name="rl_beam", beam=64),
            run=replace(recipe.run, batch_size=arguments.rl_batch),
            optimizer=replace(recipe.optimizer, learning_rate=1e-6),
        )
        source, what = TaskStream(1, recipe.data.simplify), f"RL_beam, beam 64, batch {arguments.rl_batch}"
        with without_replay():
            launched = training_rate(rl, trained, group, source, arguments.seconds)
        replayed = training_rate(rl, trained, group, source, arguments.seconds)
        rows |= {
            f"{what}, every operation launched": launched,
            f"{what}, replayed ({replayed / launched:.2f}×)": replayed,
        }
    beyond = recipe.model.execution or recipe.model.mixing or recipe.model.head_size or recipe.model.patch > 1
    flops = None if beyond else 3 * forward_flops(recipe.model)
    name = torch.cuda.get_device_name() if group.device.type == "cuda" else "CPU"
    print(f"{name}, {core_count()} cores, batch {recipe.run.batch_size}, {recipe.run.precision}")
    if flops is not None:
        print(f"about {flops / 1e9:.2f} GFLOP a task for MLE (forward and backward, 18.4 tokens)")
    print()
    print("| what | tasks/s | TFLOP/s | of the matrix rate |\n|---|---:|---:|---:|")
    for what, rate in rows.items():
        used = rate * flops / 1e12 if flops and what in ("network alone", "MLE, end to end") else None
        share = f"{used / arguments.peak:.0%}" if used and arguments.peak else ""
        print(f"| {what} | {rate:,.0f} | {f'{used:.1f}' if used else ''} | {share} |")
    if arguments.json:
        report = {"device": name, "rows": rows, "flops_per_task": flops}
        write_atomically(arguments.json, json.dumps(report, indent=1).encode())


def generator_rate(seconds: float) -> float:
    generate(0, 0, 2000)
    start, made = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        made += len(generate(1, made, 20_000))
    return made / (time.perf_counter() - start)


def training_rate(
    recipe: Recipe,
    model: Synthesizer,
    group: ProcessGroup,
    source: TaskSource,
    seconds: float,
    *,
    same_batch: bool = False,
) -> float:
    """Tasks per second of whole training steps, after a warm-up."""
    loader = BatchLoader(source, model, batch_size=recipe.run.batch_size, seed=0, pack=recipe.objective.name == "mle")
    batches: Iterator[TrainingBatch] = loader.batches(0, 10**9)
    if same_batch:
        few = list(itertools.islice(batches, 4))
        batches = itertools.cycle(few)
    loss_of = Loss(model, recipe.objective, group)
    if recipe.run.compile and group.device.type == "cuda":
        model.compile_parts()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.optimizer.learning_rate, fused=group.device.type == "cuda"
    )
    generator = torch.Generator(group.device)
    started, steps, warm = 0.0, 0, 0
    for batch in batches:
        with group.precision(recipe.run.precision):
            loss, _ = loss_of(batch, generator)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if recipe.optimizer.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.optimizer.clip)
        optimizer.step()
        steps += 1
        if steps % 20 == 0:
            if group.device.type == "cuda":
                torch.cuda.synchronize()
            now = time.perf_counter()
            if warm == 0 and steps >= 20:
                started, warm = now, steps
            elif warm and now - started > seconds:
                break
    batches.close() if hasattr(batches, "close") else None
    return recipe.run.batch_size * (steps - warm) / (time.perf_counter() - started)


def forward_flops(settings: ModelSettings, examples: int = 5, tokens: float = 18.4) -> float:
    """Multiplications and additions of one task's forward pass through the paper's network."""
    cells, joined = 18 * 18, 2 * settings.channels
    convolutions = 2 * cells * 9 * (2 * 16 * settings.channels + 3 * settings.blocks * joined * joined)
    linear = 2 * cells * joined * settings.code_size
    width = settings.hidden_size
    step = 2 * 4 * width * (width + 2 * width * (settings.layers - 1))
    code = 2 * 4 * width * settings.code_size  # once for an example; tokens are looked up
    return examples * (convolutions + linear + code + tokens * step)


if __name__ == "__main__":
    main()
