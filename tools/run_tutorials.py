"""Execute the notebooks of docs/tutorials and store their outputs in them.

    python tools/run_tutorials.py [NAME …]

Execution stops at the first cell that fails. `tests/test_tutorials.py` executes them, too, and stores nothing.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from karelsynth.files import write_atomically

FOLDER = Path(__file__).parent.parent / "docs" / "tutorials"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="notebooks without .ipynb; by default all")
    arguments = parser.parse_args()
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not arguments.names or path.stem in arguments.names:
            started = time.monotonic()
            write_atomically(path, executed(path).encode())
            print(f"{path.stem}: {time.monotonic() - started:.0f} s", flush=True)


def executed(path: Path, timeout: float = 900.0) -> str:
    """The text of a notebook with fresh outputs. Raises CellExecutionError if a cell fails."""
    notebook = nbformat.read(path, 4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": "."}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times, which differ every time
    notebook.metadata.language_info = {"name": "python"}
    return nbformat.writes(notebook) + "\n"  # type: ignore[no-untyped-call, no-any-return]


if __name__ == "__main__":
    main()
