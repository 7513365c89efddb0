"""Where beam search's time goes: the kernels that take longest, and tasks per second.

On a CPU, with OMP_NUM_THREADS=1 everything happens in the thread that is looked at; compiled cells are not in the list.

python tools/profile_decoding.py MODEL [--batch 128] [--beam 64]
"""

from __future__ import annotations

import argparse
import time

import torch
from torch.profiler import ProfilerActivity, profile

from karelsynth.evaluate import decode
from karelsynth.model.synthesizer import Synthesizer
from karelsynth.tasks.generate import generate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--beam", type=int, default=64)
    parser.add_argument("--rows", type=int, default=25)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Synthesizer.from_pretrained(arguments.model, device)
    parts = [generate(5, at * arguments.batch, arguments.batch) for at in range(8)]
    for part in parts[:3]:
        decode(model, part, beam=arguments.beam)
    start = time.perf_counter()
    for part in parts[3:]:
        decode(model, part, beam=arguments.beam)
    print(f"{5 * arguments.batch / (time.perf_counter() - start):,.0f} tasks/s without running candidates")
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()
    with profile(activities=activities) as profiler:
        decode(model, parts[4], beam=arguments.beam)
    key = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    print(profiler.key_averages().table(sort_by=key, row_limit=arguments.rows, max_name_column_width=60))


if __name__ == "__main__":
    main()
