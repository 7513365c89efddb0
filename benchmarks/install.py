"""How long an installation takes and how large it is: the wheel in a fresh environment, for each extra.

    python benchmarks/install.py [EXTRA ...] [--torch torch==2.13.0] [--wheel FILE]

`core` is the package without extras. For extras with PyTorch, that is installed first, so that the build for CPUs can
be chosen. Its time is part of the row. The words of the table:

- packages: the distributions in the environment, pip left out;
- size: all files of the environment below `site-packages`, pip and compiled byte code left out;
- seconds: `pip install` without pip's cache; downloads are part of it, from wherever pip is configured to get them;
- first command: `karelsynth solve --list` afterwards, which imports the package and compiles nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("core", "gym", "hub", "solve", "serve", "train", "all")
MEGABYTE = 1_000_000


def needs_torch(extra: str) -> bool:
    """Whether an extra, or one that it names, has PyTorch."""
    lines = PROJECT["optional-dependencies"].get(extra, [])
    own = [name for line in lines if line.startswith("karelsynth[") for name in line[11:-1].split(",")]
    return any(line.startswith("torch") for line in lines) or any(map(needs_torch, own))


def size_of(folder: Path) -> int:
    """The bytes of all files that an installation has brought."""
    kept = [path for path in folder.iterdir() if not path.name.startswith(("pip", "setuptools", "__pycache__"))]
    files = [file for path in kept for file in (path.rglob("*") if path.is_dir() else [path])]
    return sum(file.stat().st_size for file in files if file.is_file() and "__pycache__" not in file.parts)


def measured(extra: str, wheel: Path, torch: str) -> str:
    """The row of an extra."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        binaries = Path(folder) / "bin"
        install = [str(binaries / "python"), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
        start = time.perf_counter()
        if needs_torch(extra):
            subprocess.run([*install, torch], check=True, cwd=folder)
        what = str(wheel) if extra == "core" else f"{wheel}[{extra}]"
        subprocess.run([*install, what], check=True, cwd=folder)
        seconds = time.perf_counter() - start
        (packages,) = Path(folder).glob("lib/python*/site-packages")
        names = {path.name for path in packages.glob("*.dist-info")}
        count = sum(not name.startswith(("pip-", "setuptools-")) for name in names)
        size = size_of(packages) / MEGABYTE
        start = time.perf_counter()
        subprocess.run([str(binaries / "karelsynth"), "solve", "--list"], check=True, cwd=folder, capture_output=True)
        first = time.perf_counter() - start
    name = "none" if extra == "core" else f"`{extra}`"
    return f"| {name} | {count} | {size:,.0f} MB | {seconds:.0f} s | {first:.1f} s |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="*", default=EXTRAS, metavar="EXTRA", help=f"of {', '.join(EXTRAS)}")
    parser.add_argument("--torch", default="torch==2.13.0", help="default: %(default)s")
    parser.add_argument("--wheel", type=Path, help="default: built from this clone")
    options = parser.parse_args(arguments)
    for extra in options.extras:
        if extra not in EXTRAS:
            parser.error(f"there is no extra {extra!r}; there are {', '.join(EXTRAS)}")
    with tempfile.TemporaryDirectory() as folder:
        wheel = options.wheel
        if wheel is None:
            command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(ROOT)]
            subprocess.run(command, check=True)
            (wheel,) = Path(folder).glob("*.whl")
        print(f"{wheel.name}: {wheel.stat().st_size / MEGABYTE:.1f} MB\n")
        print("| extra | packages | size | `pip install` | first command |\n|---|---:|---:|---:|---:|")
        for extra in options.extras:
            print(measured(extra, wheel.resolve(), options.torch), flush=True)


if __name__ == "__main__":
    main()
