"""Where beam search's time goes: tasks per second of each way to search, and the kernels that take longest.

On a CPU, with OMP_NUM_THREADS=1 everything happens in the thread that is looked at; compiled cells are not in the list.

python tools/profile_decoding.py MODEL [--tasks 2048] [--batch 512] [--at-once 256 1024] [--beam 64] [--rows 25]

The ways: all tasks of a batch at once, with empty places (`compact=False`) or without; and all tasks, some at a time,
where others take the places of those that are done. Every way is run twice, and the second run counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from karelsynth.model.devices import decoding_dtype
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.search.beam import beam_search, encode_for_search
from karelsynth.tasks.batch import GIVEN_EXAMPLES
from karelsynth.tasks.generate import generate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--tasks", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--at-once", type=int, nargs="*", default=[256, 1024])
    parser.add_argument("--beam", type=int, default=64)
    parser.add_argument("--rows", type=int, default=25)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Synthesizer.from_pretrained(arguments.model, device)
    weights = model.step_model(decoding_dtype(device))
    tasks = generate(5, 0, arguments.tasks)
    inputs, outputs = (np.ascontiguousarray(part[:, :GIVEN_EXAMPLES]) for part in (tasks.inputs, tasks.outputs))

    def search(size: int, **ways: object) -> None:
        for at in range(0, len(inputs), size):
            encoded = encode_for_search(model, inputs[at : at + size], outputs[at : at + size])
            beam_search(model, encoded, beam=arguments.beam, weights=weights, **ways).cpu()  # type: ignore[arg-type]

    batch, every = arguments.batch, len(inputs)
    ways: dict[str, Callable[[], None]] = {
        f"batches of {batch}, with empty places": partial(search, batch, compact=False, at_once=batch),
        f"batches of {batch}, without": partial(search, batch, compact=True, at_once=batch),
        **{f"{some} at a time": partial(search, every, compact=True, at_once=some) for some in arguments.at_once},
    }
    print("| way to search | tasks/s |\n|---|---:|")
    for name, work in ways.items():
        work()
        start = time.perf_counter()
        work()
        print(f"| {name} | {every / (time.perf_counter() - start):,.0f} |", flush=True)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()
    with profile(activities=activities) as profiler:
        work()
    key = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    parts = sorted(profiler.key_averages(), key=lambda part: -getattr(part, key.replace("cuda", "device")))
    print("\n| kernel or operation | calls | ms |\n|---|---:|---:|")
    for part in parts[: arguments.rows]:
        spent = getattr(part, key.replace("cuda", "device"))
        print(f"| `{part.key[:70]}` | {part.count} | {spent / 1000:,.1f} |")


if __name__ == "__main__":
    main()
