"""Sets of tasks that have a name: those of the original, and KarelBench.

    named_tasks("test")                           # or the first ones: named_tasks("deeper", 100)
    named_set("examples_2").given                 # how many examples a synthesizer sees

A name always means the same tasks: `digest` pins them. A set that has to change gets another name, and
KarelBench another version. docs/karelbench.md describes the sets and what each tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache, partial
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from karelsynth.errors import KarelsynthError, checked_int, names_hint, quoted
from karelsynth.generator.sampler import MAX_TOKENS, PARENTS, STATEMENTS, Sampler, build, read_weights
from karelsynth.karel.formats.codes import worlds_to_codes
from karelsynth.karel.interpreter import PAPER_TICKS
from karelsynth.karel.program import Program
from karelsynth.karel.tokens import PAD
from karelsynth.karel.world import World
from karelsynth.tasks.batch import EXAMPLES, GIVEN_EXAMPLES, TaskBatch, concatenate
from karelsynth.tasks.generate import TEST_SEED, generate
from karelsynth.tasks.shifted import shifted_sampler
from karelsynth.tasks.statistics_kernel import count_programs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.resources.abc import Traversable

    from numpy.typing import NDArray

KARELBENCH: Final = 1
"""The version of KarelBench. It changes when a set is replaced or added, never because of anything else."""
DIGESTED: Final = 100_000
"""The digest of a set covers at most this many tasks, the first."""
_CHUNK: Final = 8_192
"""Tasks that are drawn at once for a set with a condition."""
_DEEP: Final = 4
"""The least depth of control statements in `deeper`."""

Nesting = tuple[str, str]
"""An outer control statement and one directly in it, with no other control statement between them."""
HELD_OUT: Final[tuple[Nesting, ...]] = (
    ("IFELSE", "WHILE"),
    ("WHILE", "REPEAT"),
    ("REPEAT", "IF"),
    ("IF", "IFELSE"),
)
"""`compositions_train` has none of these nestings; every task of `compositions` has at least one. Each of the four
control statements is the outer one once and the inner one once. So training still shows each of them in both places."""

ProgramFilter = Callable[["NDArray[np.uint8]"], "NDArray[np.bool_]"]
"""From programs [N, L] to which of them a set takes, bool [N]."""


@dataclass(frozen=True)
class NamedSet:
    """A set that has a name: how its tasks are made, and how programs are scored on them."""

    about: str
    digest: str
    """`TaskBatch.digest` of all tasks, or of the first 100,000."""
    seed: int = TEST_SEED
    """Sets share no task with streams of other seeds, so training on an endless stream needs another seed."""
    count: int = 2_500
    reserved: bool = True
    """Whether programs that are reserved for testing occur."""
    given: int = GIVEN_EXAMPLES
    """How many examples a synthesizer sees. Any others are held out."""
    examples: int = EXAMPLES
    max_ticks: int = PAPER_TICKS
    """The time that programs may take when they are scored."""
    sampler: Callable[[], Sampler] | None = None
    """The generator's table, if it is not the fitted one."""
    condition: ProgramFilter | None = None
    """Of the stream's tasks, only those whose programs meet it belong to the set."""
    width: int = MAX_TOKENS
    """Of the token array."""

    def tasks(self, first: int, count: int, threads: int | None = None) -> TaskBatch:
        """Tasks `first` … `first + count - 1` of the set."""
        sampler = None if self.sampler is None else self.sampler()
        draw = partial(generate, self.seed, reserved=self.reserved, threads=threads, sampler=sampler)
        if self.condition is None:
            return draw(first, count)
        # Which tasks of the stream belong to the set is known only after drawing them, all from the first.
        found, at, missing = [draw(0, 0)], 0, first + count
        while missing > 0:
            drawn = draw(at, min(_CHUNK, 64 * missing))
            kept = drawn[self.condition(drawn.tokens)][:missing]
            at, missing = at + len(drawn), missing - len(kept)
            found.append(kept)
        return concatenate(found)[first:]

    def titles(self, count: int) -> list[str]:
        """The names of the first tasks, for people."""
        return [f"task {number + 1}" for number in range(count)]

    @property
    def is_plain(self) -> bool:
        """Whether the set is the beginning of a seed's stream, scored in the usual way."""
        usual = self.sampler is None and self.condition is None and self.given == GIVEN_EXAMPLES
        return usual and type(self) is NamedSet


@dataclass(frozen=True)
class NamedFile(NamedSet):
    """A set that is a file of the package: JSON lines with `reference`, `examples` (given) and `fresh` (held out)."""

    file: str = ""

    @property
    def path(self) -> Traversable:
        """The file."""
        return files("karelsynth.tasks") / self.file

    def tasks(self, first: int, count: int, threads: int | None = None) -> TaskBatch:
        """See `NamedSet.tasks`."""
        return _read(self)[first : first + count]

    def titles(self, count: int) -> list[str]:
        """See `NamedSet.titles`."""
        return [str(line["name"]) for line in self.lines()][:count]

    def lines(self) -> list[dict[str, Any]]:
        """The tasks as the file has them."""
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]


@cache
def _read(named: NamedFile) -> TaskBatch:
    lines = named.lines()
    tokens = np.full((len(lines), named.width), PAD, np.uint8)
    lengths = np.zeros(len(lines), np.uint8)
    worlds: dict[str, list[NDArray[np.uint8]]] = {"input": [], "output": []}
    for number, line in enumerate(lines):
        ids = Program.parse(line["reference"], "paper").token_ids
        tokens[number, : len(ids)], lengths[number] = ids, len(ids)
        for side, codes in worlds.items():
            codes.append(worlds_to_codes([World.parse(pair[side]) for pair in line["examples"] + line["fresh"]]))
    novel = np.zeros(len(lines), np.bool_)
    batch = TaskBatch(tokens, lengths, np.stack(worlds["input"]), np.stack(worlds["output"]), novel)
    for field in fields(batch):  # the batch is kept: nobody may change it
        getattr(batch, field.name).setflags(write=False)
    return batch


# Nestings, for the sets that hold compositions out of training.


def holds_nesting(tokens: NDArray[np.uint8], pairs: Iterable[Nesting]) -> NDArray[np.bool_]:
    """Which programs [N, L], padded with `<pad>`, have at least one of these nestings: bool [N]."""
    children = count_programs(tokens).children
    held = np.zeros(len(tokens), np.bool_)
    for outer, inner in pairs:
        held |= children[:, PARENTS.index(outer), STATEMENTS.index(inner)] > 0
    return held


def sampler_without(pairs: Iterable[Nesting]) -> Sampler:
    """The fitted sampler, except that it never draws these nestings."""
    weights: dict[str, Any] = read_weights()
    for outer, inner in pairs:
        weights["children"][PARENTS.index(outer)][STATEMENTS.index(inner)] = 0
    return build(weights)


# The sets.


def _deep(tokens: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return count_programs(tokens).depth >= _DEEP


def _composed(tokens: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return holds_nesting(tokens, HELD_OUT)


def _shifted(family: str, point: str, about: str, digest: str) -> NamedSet:
    """A set with the random numbers of `test` and one of the sampler's weights changed, as in `karelsynth curves`."""
    return NamedSet(about, digest, sampler=partial(shifted_sampler, family, point))


def _fewer(given: int, words: str) -> NamedSet:
    return NamedSet(f"`test`, with {words} given", "650b691bdc20b496", given=given)


NAMED_SETS: Final[Mapping[str, NamedSet]] = MappingProxyType(
    {
        "full": NamedSet("training tasks, as many as the original has", "141de8cc9e791703", 1, 1_116_854, False),
        "small": NamedSet("training tasks: the first of `full`", "0bf91c9dcf3d177e", 1, 10_000, False),
        "val": NamedSet("for choosing models and settings", "9bb45315ddef9c61", 2),
        "test": NamedSet("for final figures; as the original's test set", "650b691bdc20b496"),
        "val_large": NamedSet("`val` and more of its kind, for closer choices", "acfe65e8c6a9f3b4", 2, 10_000),
        "test_large": NamedSet("tasks of the kind of `test`, for small differences", "723e4c27d4c57ae6", 33, 100_000),
        "longer": _shifted(
            "length", "66-72", "programs of 66 to 72 tokens; training has at most 65", "a26faea44139d017"
        ),
        "deeper": NamedSet(
            "control statements nested four or five deep (2 % of training)", "960ea12ccda1a689", 11, condition=_deep
        ),
        "compositions_train": NamedSet(
            "training tasks without four nestings of control statements",
            "271d7199bd6fc91e",
            seed=12,
            count=1_116_854,
            reserved=False,
            sampler=partial(sampler_without, HELD_OUT),
        ),
        "compositions": NamedSet(
            "programs with at least one of these four nestings", "8dc534c1adaa2bd1", 13, condition=_composed
        ),
        "examples_1": _fewer(1, "one example"),
        "examples_2": _fewer(2, "two examples"),
        "examples_3": _fewer(3, "three examples"),
        "small_worlds": _shifted("size", "3", "worlds of 3 rows and 3 columns", "8754369a9d3a703a"),
        "large_worlds": _shifted("size", "16", "worlds of 16 rows and 16 columns, the largest", "d74abf325cc17820"),
        "many_walls": _shifted("walls", "40", "40 % of the cells are walls", "bb20c8e2761da24e"),
        "many_markers": _shifted("markers", "50", "half of the cells have markers", "2c1528b752db6d60"),
        "classroom": NamedFile(
            "tasks that people pose in class; a program must also be right on 24 further worlds",
            "e6900a359e82ac01",
            seed=0,
            count=50,
            reserved=False,
            examples=29,
            max_ticks=5 * 376,
            file="classroom.jsonl",
        ),
    }
)
"""The first four are named as the original's parts. In `classroom`, the slowest reference takes 376 ticks, and programs
may take five times as many: a slow program is not a wrong one."""


def named_set(name: str) -> NamedSet:
    """The named set of this name; raises KarelsynthError for an unknown name."""
    if name not in NAMED_SETS:
        raise KarelsynthError(f"there is no set called {quoted(name)}; {names_hint(name, NAMED_SETS)}")
    return NAMED_SETS[name]


def named_tasks(name: str, limit: int | None = None) -> TaskBatch:
    """The tasks of a named set, or the first `limit`; raises KarelsynthError for an unknown name."""
    named = named_set(name)
    return named.tasks(0, named.count if limit is None else min(checked_int("limit", limit, 0), named.count))
