"""Write the newest weights of a training run in bfloat16.

    python tools/newest_weights.py runs/mle model.safetensors

These are the final model's, or those of the newest checkpoint. Nothing is written if there is neither.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

NAME = "model.safetensors"
TRIES = 3  # a checkpoint may be replaced while it is read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    for attempt in range(TRIES):
        try:
            write_newest(arguments.run, arguments.file)
            return
        except OSError as error:
            if attempt == TRIES - 1:
                sys.exit(f"{arguments.run}: {error}")


def write_newest(run: Path, file: Path) -> None:
    folders = [run / "final", *sorted(run.glob("checkpoint-*"), reverse=True)]
    newest = next((folder for folder in folders if (folder / NAME).exists()), None)
    if newest is None:
        return
    weights = load_file(newest / NAME)
    save_file({name: value.bfloat16() if value.is_floating_point() else value for name, value in weights.items()}, file)
    print(f"weights of {newest.name}")


if __name__ == "__main__":
    main()
