"""Write benchmarks/development.jsonl: `python tools/make_development.py [--only NAME ...]`

Unusual tasks that people might pose, for development: they may be read, and search and ranking may be tuned on them. So
scores on them are no measure of what karelsynth can do; the clean held-out sets are (docs/tasks.md). The format is that
of benchmarks/held_out.jsonl.

The tasks are in tools/development_school.py and tools/development_puzzles.py. Their two authors saw one task of another
set, no generator and not each other's tasks. Examples are chosen as in tools/make_held_out.py and ordered by its
`make_ordered`. Eleven tasks were taken out, because their references also solve a task of the third or fourth held-out
set. Everything is seeded: the same sources write the same file.

With --only nothing is written: the examples of these tasks are printed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tools import development_puzzles, development_school  # noqa: E402
from tools.make_held_out import make_ordered, write_tasks  # noqa: E402

FILE: Final = ROOT / "benchmarks" / "development.jsonl"
TASKS: Final = (*development_school.TASKS, *development_puzzles.TASKS)

if __name__ == "__main__":
    write_tasks(__doc__.splitlines()[0], TASKS, make_ordered, FILE)
