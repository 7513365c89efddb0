"""The ten Karel tasks of LEAPS and HPRL, as rewards by execution.

    returns = program_returns("Harvester", programs, seeds=range(32))      # [P, 32]; their mean is the usual score

The tasks are those of Trivedi et al. 2021 (LEAPS: the first six) and Liu et al. 2023 (HPRL: the last four,
"Karel-Hard"), written anew from the descriptions in their papers. Where a paper does not say something, we follow the
published code; `docs/gym.md` lists every decision.

The return of an episode is the task's score, at most 1. The reward of an action is what it adds to the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from karelsynth.errors import KarelsynthError, checked_int, listed, names_hint
from karelsynth.karel.formats.codes import FRAME, HERO, SIDE, WALL
from karelsynth.karel.grammar import KAREL
from karelsynth.karel.interpreter import MAX_TICKS, MOST_IN_PASSING
from karelsynth.karel.machine import encode_programs
from karelsynth.karel.syntax_compiler import compile_grammar
from karelsynth.karel.threads import parallel_for
from karelsynth.karel.tokens import token_bytes
from karelsynth.karel.world import MOST_MARKERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karelsynth.gym.task_kernel import Rules, Worlds
    from karelsynth.karel.program import Program

Bump = Literal["stay", "turn", "crash"]
BUMPS: Final[tuple[Bump, ...]] = ("stay", "turn", "crash")
"""What an impossible action does: nothing; nothing, but a move against a wall turns Karel around, as in the published
code of LEAPS and HPRL; or it ends the episode, as in the language."""
MAX_ACTIONS: Final = 1000
"""The actions after which an episode is truncated. The papers do not give a number."""
HOUSE: Final = """
    ....#......#........
    ....#......#........
    ...........#....#...
    ....#...........#...
    ....#......#....#...
    ##.###.#####.####.##
    ....................
    >...................
    ###.####.###.#####.#
    ....#......#...#....
    ....#......#........
    ....#......#...#....
"""
"""A flat of 12 × 20 cells. LEAPS's is of that size, too, but its plan is not in the paper; this one is ours."""


@dataclass(frozen=True)
class KarelTask:
    """A task."""

    name: str
    number: int
    """Its number in `task_kernel`."""
    height: int
    """Rows and columns with the frame, as the papers count them."""
    width: int
    most_markers: int
    """The most markers of a cell, in passing."""
    about: str
    """What to do, and the return."""


_ALL: Final = (
    KarelTask("StairClimber", 1, 12, 12, 1, "Climb the stairs to the marker: 1; −1 for leaving the stairs."),
    KarelTask("FourCorner", 2, 12, 12, 1, "Put a marker into each corner: a quarter each; 0 for one elsewhere."),
    KarelTask("TopOff", 3, 12, 12, 2, "Add a marker to each marker of the bottom row and end on its last cell."),
    KarelTask("Maze", 4, 8, 8, 1, "Find the marker in a random maze: 1."),
    KarelTask("CleanHouse", 5, 14, 22, 1, "Pick up the ten markers of a flat: a tenth each."),
    KarelTask("Harvester", 6, 8, 8, 1, "Pick up the marker of every cell: the share that is picked up."),
    KarelTask("DoorKey", 7, 8, 8, 2, "Pick up the key, which opens the door: ½; put a marker on the one behind it: ½."),
    KarelTask("OneStroke", 8, 8, 8, 1, "Visit every cell once: the share visited. Visited cells become walls."),
    KarelTask("Seeder", 9, 8, 8, 2, "Put one marker into every cell: the share that has one. A second one ends it."),
    KarelTask("Snake", 10, 8, 8, 2, "Eat twenty markers and grow with each: a twentieth each. Its body ends it."),
)
TASKS: Final = {task.name: task for task in _ALL}
"""The ten tasks by name."""
EXAMPLE: Final = KarelTask(
    "Example", 0, SIDE, SIDE, MOST_IN_PASSING, "Change the world into the one that an example shows: 1."
)
"""A pair of worlds of a generated task."""


def task_named(name: str) -> KarelTask:
    """The task of that name."""
    if name not in TASKS:
        raise KarelsynthError(f"there is no Karel task called `{name}`; {names_hint(name, TASKS)}")
    return TASKS[name]


def rules_of(task: KarelTask, bump: Bump) -> Rules:
    """The task's rules for the compiled code."""
    from karelsynth.gym.task_kernel import Rules

    if bump not in BUMPS:
        raise KarelsynthError(f"`bump` is {listed(BUMPS)}, not `{bump}`")
    above_ten = task.most_markers - MOST_MARKERS
    most = HERO + above_ten - 1 if above_ten > 0 else task.most_markers
    return Rules(task.number, task.height, task.width, BUMPS.index(bump), most)


def new_worlds(task: KarelTask, count: int) -> Worlds:
    """Memory for `count` worlds of a task."""
    from karelsynth.gym.task_kernel import MEMORY, Worlds

    cells = np.zeros((count, task.height * task.width), np.uint8)
    return Worlds(
        cells,
        np.zeros_like(cells),
        np.zeros((count, 2), np.int32),
        np.zeros((count, MEMORY), np.int32),
        np.zeros(count),
        np.zeros((count, 1), np.uint64),
    )


@cache
def house_plan(drawing: str = HOUSE) -> NDArray[np.uint8]:
    """A plan of 12 × 20 cells, drawn with `.`, `#` and one `^>v<`, as cell codes, uint8 [14 · 22]."""
    lines = drawing.split()[::-1]
    height, width = TASKS["CleanHouse"].height, TASKS["CleanHouse"].width
    codes = np.full((height, width), FRAME, np.uint8)
    known = {".": 0, "#": WALL} | {letter: HERO * (heading + 1) for heading, letter in enumerate("^>v<")}
    if [len(line) for line in lines] != [width - 2] * (height - 2) or not set("".join(lines)) <= known.keys():
        size = f"{height - 2} lines of {width - 2} characters"
        raise KarelsynthError(f"the plan of a house has {size}, `.`, `#` or `^>v<`")
    codes[1:-1, 1:-1] = [[known[letter] for letter in line] for line in lines]
    if (codes >= HERO).sum() != 1:
        raise KarelsynthError("the plan of a house has one Karel, `^`, `>`, `v` or `<`")
    return codes.ravel()


def program_returns(
    task: str,
    programs: NDArray[Any] | Sequence[Program | Sequence[int]],
    seeds: Sequence[int] = range(32),
    *,
    bump: Bump = "turn",
    max_actions: int = MAX_ACTIONS,
    max_ticks: int = MAX_TICKS,
    house: str = HOUSE,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """The returns [P, K] of programs on the K worlds of the seeds; NaN for tokens that are no program.

    Args:
        task: one of `TASKS`.
        programs: Programs, lists of token ids, or an array [P, L] of these.
        seeds: K numbers, each of which makes one world.
        bump: what an impossible action does, see `BUMPS`.
        max_actions, max_ticks: the end of runs that do not end by themselves.
        house: the plan of CleanHouse.
        threads: by default one for each core.
    """
    from karelsynth.gym.task_kernel import run_range

    chosen = task_named(task)
    tokens = token_bytes(encode_programs(programs) if isinstance(programs, Sequence) else np.asarray(programs))
    numbers = np.array([checked_int("a seed", seed, 0, (1 << 63) - 1) for seed in seeds], np.uint64)
    returns = np.empty((len(tokens), len(numbers)))
    rules, worlds, plan = rules_of(chosen, bump), new_worlds(chosen, len(tokens)), house_plan(house)
    limits = (checked_int("max_actions", max_actions, 1), checked_int("max_ticks", max_ticks, 1))
    parallel_for(
        run_range, len(tokens), len(numbers), threads,
        tokens, numbers, rules, plan, compile_grammar(KAREL).parser, worlds, *limits, returns,
    )  # fmt: skip
    return returns
