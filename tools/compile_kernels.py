"""Compile what the tests need before they start: workers that start together would each compile the same.

    python tools/compile_kernels.py

Numba compiles one function at a time in a process, so the generators and the Markov chains are compiled in processes of
their own.
"""

from __future__ import annotations

import subprocess
import sys


def compile_solver() -> None:
    """The machine, the search and all that chooses among answers; `warm_up` has a helper for the Markov chains."""
    from karelsynth.solve import Solver

    Solver.load().warm_up()


def compile_generators() -> None:
    """Both generators of tasks, and the statistics."""
    from karelsynth.tasks.generate import generate
    from karelsynth.tasks.purposeful.generator import generate_purposeful
    from karelsynth.tasks.statistics import compute

    generate_purposeful(1, 0, 8)
    compute(generate(1, 0, 8))


if __name__ == "__main__":
    if sys.argv[1:]:
        compile_generators()
    else:
        with subprocess.Popen([sys.executable, __file__, "generators"]) as generators:
            compile_solver()
        sys.exit(generators.returncode)
