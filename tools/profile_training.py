"""Where a training step's time goes on the GPU: the kernels that take longest.

python tools/profile_training.py [--recipe mle_stream] [--batch 1024]
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import replace

import torch
from torch.profiler import ProfilerActivity, profile

from karelsynth.model.synthesizer import Synthesizer
from karelsynth.tasks.streams import TaskStream
from karelsynth.train.batches import BatchLoader
from karelsynth.train.distributed import ProcessGroup
from karelsynth.train.recipe import load_recipe
from karelsynth.train.steps import Loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipe", default="mle_stream")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--rows", type=int, default=25)
    arguments = parser.parse_args()
    recipe = load_recipe(arguments.recipe)
    if arguments.batch:
        recipe = replace(recipe, run=replace(recipe.run, batch_size=arguments.batch))
    group = ProcessGroup.join()
    model = Synthesizer(recipe.model).to(group.device)
    if recipe.run.compile:
        model.compile_parts()
    loader = BatchLoader(
        TaskStream(1, recipe.data.simplify),
        model,
        batch_size=recipe.run.batch_size,
        seed=0,
        pack=recipe.objective.name == "mle",
    )
    loss_of = Loss(model, recipe.objective, group)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=group.device.type == "cuda")
    generator = torch.Generator(group.device)
    batches = list(itertools.islice(loader.batches(0, 12), 12))

    def step(number: int) -> None:
        with group.precision(recipe.run.precision):
            loss, _ = loss_of(batches[number], generator)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    for number in range(8):
        step(number)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()
    with profile(activities=activities) as profiler:
        for number in range(8, 12):
            step(number)
    key = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    print(profiler.key_averages().table(sort_by=key, row_limit=arguments.rows, max_name_column_width=70))


if __name__ == "__main__":
    main()
