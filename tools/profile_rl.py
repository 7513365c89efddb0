"""Where the time of an RL step goes: by phase on the host and on the GPU, kernel launches, and the longest kernels.

    python tools/profile_rl.py [--recipe rl_beam …] [--batch 512 …] [--model FOLDER] [--seconds 25]

Without `--model` the recipe's network is first trained by MLE on the stream for `--seconds`, since an untrained model
writes endless programs. Three parts follow. *Whole steps* are what a run does. *Phases, one after the other* waits for
the GPU after each phase. *Profile* counts launches and kernels by phase, and lists the kernels that take longest. The
sizes of the last trie tell a trained model from a barely trained one, whose searches do not end.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from karelsynth.model.prefix_trie import PrefixTrie
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.search import BackgroundChecks
from karelsynth.tasks.streams import TaskStream
from karelsynth.train import steps as steps_module
from karelsynth.train.batches import BatchLoader, TrainingBatch
from karelsynth.train.distributed import ProcessGroup
from karelsynth.train.optimizers import Optimizers, learning_rate
from karelsynth.train.recipe import ObjectiveRecipe, Recipe, load_recipe
from karelsynth.train.steps import Loss

_PHASE = "phase: "
_WARM = 10
"""Steps of MLE before the clock starts."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipe", nargs="+", default=["rl_beam"], help="of one network")
    parser.add_argument("--batch", type=int, nargs="+", default=[512])
    parser.add_argument("--model", help="a trained model to start from")
    parser.add_argument("--seconds", type=float, default=25.0, help="of MLE training without --model")
    parser.add_argument("--mle-batch", type=int, default=1024)
    parser.add_argument("--save", metavar="FOLDER", help="where to save the model that MLE gave")
    parser.add_argument("--steps", type=int, default=10, help="measured by phase; whole steps are three times as many")
    parser.add_argument("--rows", type=int, default=30)
    arguments = parser.parse_args()
    recipes = [load_recipe(path) for path in arguments.recipe]
    group = ProcessGroup.join()
    if arguments.model:
        model = Synthesizer.from_pretrained(arguments.model, group.device)
    else:
        model = trained_for(recipes[0], group, arguments.seconds, arguments.mle_batch)
        if arguments.save:
            model.save_pretrained(arguments.save)
    for recipe, batch in itertools.product(recipes, arguments.batch):
        measure(replace(recipe, run=replace(recipe.run, batch_size=batch)), model, group, arguments)


def trained_for(recipe: Recipe, group: ProcessGroup, seconds: float, mle_batch: int) -> Synthesizer:
    """The recipe's network after so many seconds of MLE on the stream."""
    torch.manual_seed(0)
    model = Synthesizer(recipe.model).to(group.device)
    mle = replace(recipe, objective=ObjectiveRecipe(), run=replace(recipe.run, batch_size=mle_batch))
    rates = replace(recipe.optimizer, learning_rate=1e-3, warmup=200, clip=1.0)
    loss_of, optimizers = Loss(model, mle.objective, group), Optimizers(model, rates)
    start, number, loss = 0.0, 0, torch.zeros(())
    with batches_of(mle, model, seed=7) as batches:
        for batch in batches:
            with group.precision(recipe.run.precision):
                loss, _ = loss_of(batch, torch.Generator(group.device))
            optimizers.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizers.step(learning_rate(rates, number, 10**9))
            number += 1
            if number == _WARM:  # kernels are compiled
                synchronise()
                start = time.perf_counter()
            if number > _WARM and time.perf_counter() - start > seconds:
                break
    rate = mle_batch * (number - _WARM) / (time.perf_counter() - start)
    print(f"MLE: {number} steps of {mle_batch:,}, {rate:,.0f} tasks/s, loss {float(loss.detach()):.3f}\n")
    return model


@contextmanager
def batches_of(recipe: Recipe, model: Synthesizer, seed: int) -> Iterator[Iterator[TrainingBatch]]:
    """Batches of the stream; their threads end with the context."""
    source = TaskStream(seed, recipe.data.simplify)
    pack = recipe.objective.name == "mle"
    batches: Any = BatchLoader(source, model, batch_size=recipe.run.batch_size, seed=0, pack=pack).batches(0, 10**9)
    try:
        yield batches
    finally:
        batches.close()


class Phases:
    """Times phases: seconds by name, waiting for the GPU at the end of each if `wait`."""

    def __init__(self) -> None:
        self.wait = False
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        with record_function(_PHASE + name):
            yield
            if self.wait and torch.cuda.is_available():
                torch.cuda.synchronize()
        self.seconds[name] += time.perf_counter() - start

    def of(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self(name):
                return function(*args, **kwargs)

        return timed


def measure(recipe: Recipe, model: Synthesizer, group: ProcessGroup, arguments: argparse.Namespace) -> None:
    phases, size, count = Phases(), recipe.run.batch_size, arguments.steps
    wrapped = {
        "beam_search": "search",
        "sample_rollouts": "search",
        "rescore": "rescore: pack, forward",
    }
    before = {name: getattr(steps_module, name) for name in wrapped if hasattr(steps_module, name)}
    for name, function in before.items():
        setattr(steps_module, name, phases.of(wrapped[name], function))
    encode, pack, results = model.encode, model.pack, BackgroundChecks.results
    BackgroundChecks.results = phases.of("wait for candidates to be run", results)  # type: ignore[method-assign]
    tries: list[PrefixTrie] = []

    def noted_pack(*args: Any, **kwargs: Any) -> PrefixTrie:
        tries[:] = [pack(*args, **kwargs)]
        return tries[0]

    model.encode, model.pack = phases.of("encode", encode), phases.of("… of rescore: pack on the host", noted_pack)  # type: ignore[method-assign]
    loss_of, optimizers = Loss(model, recipe.objective, group), Optimizers(model, recipe.optimizer)
    generator = torch.Generator(group.device)

    def step(batch: TrainingBatch) -> None:
        with phases("loss, in all"), group.precision(recipe.run.precision):
            loss, _ = loss_of(batch, generator)
        with phases("backward"):
            optimizers.zero_grad()
            loss.backward()
        with phases("clip, optimizer"):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizers.step(1e-9)

    with batches_of(recipe, model, seed=3) as batches:
        few = list(itertools.islice(batches, 4 + 4 * count))
    for batch in few[:4]:
        step(batch)
    synchronise()
    start = time.perf_counter()
    for batch in few[4 : 4 + 3 * count]:
        step(batch)
    synchronise()
    each = (time.perf_counter() - start) / (3 * count)
    print(f"## {recipe.name}, beam {recipe.objective.beam}, batch {size}\n")
    print(f"whole steps: {1000 * each:.1f} ms, {size / each:,.0f} tasks/s\n")
    for trie in tries:
        tokens, nodes, depths = len(trie.targets), sum(trie.sizes), len(trie.sizes)
        print(f"scored again: {trie.count:,} programs, {tokens:,} tokens, {nodes:,} prefixes, {depths} depths")
    if torch.cuda.is_available():
        memory = torch.cuda.memory_stats()
        retries, used = memory.get("num_alloc_retries", 0), torch.cuda.max_memory_reserved() / 2**30
        print(f"GPU memory: {used:.1f} GiB, {retries} times freed and asked for again\n")
    phases.wait = True
    phases.seconds.clear()
    for batch in few[4 + 3 * count :]:
        step(batch)
    print("| phase, one after the other | ms | tasks/s |\n|---|---:|---:|")
    for name, seconds in phases.seconds.items():
        print(f"| {name} | {1000 * seconds / count:.1f} | {size * count / seconds:,.0f} |")
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()
    with profile(activities=activities) as profiler:
        for batch in few[4:6]:
            step(batch)
        synchronise()
    report(profiler, 2, arguments.rows)
    for name, function in before.items():
        setattr(steps_module, name, function)
    BackgroundChecks.results = results  # type: ignore[method-assign]
    model.encode, model.pack = encode, pack  # type: ignore[method-assign]


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def report(profiler: Any, steps: int, rows: int) -> None:
    """Launches and kernels by phase, and the longest kernels."""
    events = list(profiler.events())
    on_host = [event for event in events if event.device_type.name == "CPU"]
    kernels = [event for event in events if event.device_type.name == "CUDA"]
    kernels = [event for event in kernels if not event.name.startswith(_PHASE)]
    launches = [event for event in on_host if "Launch" in event.name or "cuLaunch" in event.name]
    waits = [event for event in on_host if "Synchronize" in event.name or event.name == "aten::item"]
    spans: dict[str, list[Any]] = defaultdict(list)
    for event in on_host:
        if event.name.startswith(_PHASE):
            spans[event.name.removeprefix(_PHASE)].append(event.time_range)

    def inside(event: Any, ranges: list[Any]) -> bool:
        return any(span.start <= event.time_range.start <= span.end for span in ranges)

    print("\n| phase, profiled (slower) | host ms | kernels ms | launches | waits |\n|---|---:|---:|---:|---:|")
    for name, ranges in spans.items():
        host = sum(span.elapsed_us() for span in ranges) / 1000 / steps
        busy = sum(event.time_range.elapsed_us() for event in kernels if inside(event, ranges)) / 1000 / steps
        number, wait = (sum(inside(event, ranges) for event in some) / steps for some in (launches, waits))
        print(f"| {name} | {host:.1f} | {busy:.1f} | {number:,.0f} | {wait:,.0f} |")
    for name, ranges in spans.items():
        if not name.startswith(("…", "loss")):
            top(name, [event for event in kernels if inside(event, ranges)], steps, rows // 3)
    key = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    print(profiler.key_averages().table(sort_by=key, row_limit=rows, max_name_column_width=60))


def top(phase: str, kernels: list[Any], steps: int, rows: int) -> None:
    by_name: dict[str, list[float]] = defaultdict(list)
    for event in kernels:
        by_name[event.name].append(event.time_range.elapsed_us() / 1000)
    ordered = sorted(by_name.items(), key=lambda pair: -sum(pair[1]))[:rows]
    if ordered:
        print(f"\n{phase}: kernels, ms and number in a step")
        for name, times in ordered:
            print(f"  {sum(times) / steps:7.2f} {len(times) / steps:6.0f}  {name[:110]}")


if __name__ == "__main__":
    main()
