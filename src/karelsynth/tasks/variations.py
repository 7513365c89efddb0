"""Changes of a person's own worlds: one more column, a marker less, Karel one cell further.

- `vary`: worlds with one small change each, which can be said in words. Programs that fit the examples are compared on
  them. The program that a person means works there, too. Where programs differ, the person can say which outcome is
  right.
- `RandomVariations`: worlds with several random changes, of the same kind as the inputs.
- `fresh_examples`: such worlds with the outcomes of a right program, the reference. Worlds on which it crashes or does
  not end are not of the task's kind and are left out.
- `smaller`: a world with less in it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from karelsynth.errors import checked_int
from karelsynth.karel.formats.codes import BEYOND, FRAME, HERO, SIDE, WALL, world_from_codes
from karelsynth.karel.interpreter import Status
from karelsynth.karel.machine import run_batch
from karelsynth.karel.world import LARGEST_SIDE, SMALLEST_SIDE
from karelsynth.tasks.task import Example

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from karelsynth.karel.program import Program
    from karelsynth.tasks.task import Task

MOST_PILED: Final = 9
"""The most markers on a cell of a variation."""
QUOTAS: Final = {"size": 64, "markers": 64, "start": 16, "walls": 16}
"""The most variations of each kind for a task."""
KINDS: Final = tuple(QUOTAS)
"""The kinds of changes, those that a person grasps at once first."""
_SEED: Final = 2018
_FACTORS: Final = np.random.default_rng(_SEED).integers(1, 1 << 63, SIDE * SIDE // 4, dtype=np.uint64)
"""The factors of each four cells in `fingerprints`."""


class Variation(NamedTuple):
    """One world of the task with one change."""

    example: int
    """The example whose input was changed, from 0."""
    change: str
    """What was changed: see `_CHANGES`."""
    row: int
    """Where, counted from 1 at the bottom; 0 if the change concerns a column."""
    column: int
    """Counted from 1 at the left; 0 if the change concerns a row."""
    markers: int = 0
    """The number of markers that lie there now, if they were changed."""
    heading: int | None = None
    """Karel's new heading, from 0, if it starts elsewhere with another one."""

    @property
    def kind(self) -> str:
        """One of the kinds of QUOTAS."""
        return _CHANGES[self.change][0]

    def __str__(self) -> str:
        """In words, for a person."""
        piles = "no marker" if self.markers == 0 else "1 marker" if self.markers == 1 else f"{self.markers} markers"
        text = _CHANGES[self.change][1].format(row=self.row, column=self.column, piles=piles)
        return f"Example {self.example + 1} changed: {text}."


_CHANGES: Final = {
    "wider": ("size", "the world is one column wider (column {column} occurs twice)"),
    "narrower": ("size", "the world is one column narrower (without column {column})"),
    "higher": ("size", "the world is one row higher (row {row} occurs twice)"),
    "lower": ("size", "the world is one row lower (without row {row})"),
    "markers": ("markers", "{piles} at row {row}, column {column}"),
    "start": ("start", "Karel starts at row {row}, column {column}"),
    "wall": ("walls", "a wall at row {row}, column {column}"),
    "no wall": ("walls", "no wall at row {row}, column {column}"),
}
"""For each change its kind and its words."""


def vary(inputs: NDArray[np.uint8]) -> tuple[list[Variation], NDArray[np.uint8]]:
    """Variations of a task's inputs [K, 18, 18], and their worlds, uint8 [V, 18, 18]; deterministic."""
    every: dict[str, list[Variation]] = {kind: [] for kind in QUOTAS}
    for example, codes in enumerate(inputs):
        for variation in _variations(example, codes):
            every[variation.kind].append(variation)
    rng = np.random.default_rng(_SEED)
    chosen: list[Variation] = []
    for kind, quota in QUOTAS.items():
        found = every[kind]
        if len(found) > quota:
            found = [found[number] for number in np.sort(rng.choice(len(found), quota, replace=False))]
        chosen += found
    worlds = np.empty((len(chosen), SIDE, SIDE), np.uint8)
    for world, variation in zip(worlds, chosen, strict=True):
        world[:] = apply(variation, inputs[variation.example])
    return chosen, worlds


def _layout(codes: NDArray[np.uint8]) -> tuple[int, int, int, int]:
    """The rows and columns of a world, cell codes [18, 18]; the hero's row and column, from 1."""
    content = codes % HERO
    rows, columns = (int(np.argmax(line == FRAME)) for line in (content[1:, 1], content[1, 1:]))
    hero_row, hero_column = divmod(int((codes >= HERO).argmax()), SIDE)
    return rows, columns, hero_row, hero_column


def _variations(example: int, codes: NDArray[np.uint8]) -> Iterator[Variation]:
    """All variations of one world, cell codes [18, 18]."""
    rows, columns, hero_row, hero_column = _layout(codes)
    content = codes % HERO
    for column in range(1, columns + 1):
        if columns < LARGEST_SIDE:
            yield Variation(example, "wider", 0, column)
        if columns > SMALLEST_SIDE and column != hero_column:
            yield Variation(example, "narrower", 0, column)
    for row in range(1, rows + 1):
        if rows < LARGEST_SIDE:
            yield Variation(example, "higher", row, 0)
        if rows > SMALLEST_SIDE and row != hero_row:
            yield Variation(example, "lower", row, 0)
    for row in range(1, rows + 1):
        for column in range(1, columns + 1):
            markers = int(content[row, column])
            if markers == WALL:
                yield Variation(example, "no wall", row, column)
                continue
            for changed in {0, 1} if markers < 2 else {0, markers - 1, markers + 1}:
                if changed != markers and changed <= MOST_PILED:
                    yield Variation(example, "markers", row, column, changed)
            distance = abs(row - hero_row) + abs(column - hero_column)
            if distance == 1:
                yield Variation(example, "start", row, column)
            if distance and not markers:
                yield Variation(example, "wall", row, column)


def apply(variation: Variation, codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The changed world, cell codes [18, 18]."""
    _, change, row, column, markers, heading = variation
    if change in ("wider", "narrower"):
        return _resized(codes, column, change == "wider")
    if change in ("higher", "lower"):
        return _resized(codes.T, row, change == "higher").T
    changed = codes.copy()
    if change == "start":
        changed[codes >= HERO] %= HERO
        changed[row, column] += codes.max() // HERO * HERO if heading is None else HERO * (heading + 1)
    elif change == "markers":
        changed[row, column] = codes[row, column] // HERO * HERO + markers
    else:
        changed[row, column] = WALL if change == "wall" else 0
    return changed


def _resized(codes: NDArray[np.uint8], column: int, wider: bool) -> NDArray[np.uint8]:
    """The world with a column twice, or without it. A copy of the hero's column has no hero."""
    if not wider:
        outside = np.full((SIDE, 1), BEYOND, np.uint8)
        return np.concatenate([codes[:, :column], codes[:, column + 1 :], outside], axis=1)
    copy = codes[:, column : column + 1] % HERO
    return np.concatenate([codes[:, : column + 1], copy, codes[:, column + 1 : -1]], axis=1)


def fingerprints(worlds: NDArray[np.uint8], statuses: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A hash of each outcome, uint64 [N, V]: of the statuses [N, V] and the final worlds [N, V, 18, 18]."""
    cells = np.ascontiguousarray(worlds).reshape(*statuses.shape, SIDE * SIDE).view(np.uint32)
    hashed: NDArray[np.uint64] = (cells * _FACTORS).sum(-1, dtype=np.uint64)
    return hashed * np.uint64(len(Status)) + statuses


def smaller(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The world, cell codes [18, 18], without a row, a column, a wall, or some markers of a cell: [N, 18, 18]."""
    content = codes % HERO
    made = [
        apply(variation, codes)
        for variation in _variations(0, codes)
        if variation.change in ("narrower", "lower", "no wall")
        or (variation.change == "markers" and variation.markers < content[variation.row, variation.column])
    ]
    return np.stack(made) if made else np.empty((0, SIDE, SIDE), np.uint8)


# Several changes at random

_MOST_CHANGES: Final = 4
_MOST_DRAWN: Final = 3
"""The most markers that are put on a cell at random."""
_AT_ONCE: Final = 64
"""Worlds that are varied and run at once."""
_FRUITLESS: Final = 40
"""The number of batches after which a search for fresh worlds ends."""


class RandomVariations:
    """Makes worlds of the same kind as some inputs. Only what differs between inputs, or is there at all, is varied:
    Karel's start, its heading, walls and markers."""

    def __init__(self, inputs: NDArray[np.uint8], seed: int) -> None:
        """Inputs are cell codes [K, 18, 18]."""
        self.inputs, self.random = inputs, random.Random(seed)
        content = inputs % HERO
        self.headings = sorted({int(codes.max()) // HERO - 1 for codes in inputs})
        self.draws: list[Callable[[NDArray[np.uint8]], Variation | None]] = [self._wider, self._wider]
        self.draws += [self._narrower, self._narrower]
        if ((content > 0) & (content < WALL)).any():
            self.draws += [self._markers] * 3
        if (content == WALL).any():
            self.draws.append(self._walls)
        if len({int((codes >= HERO).argmax()) for codes in inputs}) > 1 or len(inputs) == 1:
            self.draws.append(self._start)

    def __call__(self, number: int) -> NDArray[np.uint8]:
        """One of the inputs, by number, with one to four changes: cell codes [18, 18]."""
        codes: NDArray[np.uint8] = self.inputs[number % len(self.inputs)]
        for _ in range(self.random.randint(1, _MOST_CHANGES)):
            variation = self.random.choice(self.draws)(codes)
            if variation is not None:
                codes = apply(variation, codes)
        return codes

    def worlds(self, count: int) -> NDArray[np.uint8]:
        """Variations of all inputs in turn, [count, 18, 18]; some may be equal."""
        return np.stack([self(number) for number in range(count)])

    # Each draws one change of a world, cell codes [18, 18]; None if the one that was drawn is not possible.

    def _wider(self, codes: NDArray[np.uint8]) -> Variation | None:
        rows, columns, _, _ = _layout(codes)
        if self.random.random() < 0.5:
            return None if rows == LARGEST_SIDE else Variation(0, "higher", self.random.randint(1, rows), 0)
        return None if columns == LARGEST_SIDE else Variation(0, "wider", 0, self.random.randint(1, columns))

    def _narrower(self, codes: NDArray[np.uint8]) -> Variation | None:
        rows, columns, hero_row, hero_column = _layout(codes)
        if self.random.random() < 0.5:
            row = self.random.randint(1, rows)
            return None if rows == SMALLEST_SIDE or row == hero_row else Variation(0, "lower", row, 0)
        column = self.random.randint(1, columns)
        return None if columns == SMALLEST_SIDE or column == hero_column else Variation(0, "narrower", 0, column)

    def _markers(self, codes: NDArray[np.uint8]) -> Variation:
        """Another number of markers in one cell; more often in one that has some."""
        content = codes % HERO
        marked = np.argwhere((content > 0) & (content < WALL)).tolist()
        row, column = self.random.choice([*_free_cells(codes), *marked * 3])
        gone = content[row, column] and self.random.random() < 0.5
        return Variation(0, "markers", row, column, 0 if gone else self.random.randint(1, _MOST_DRAWN))

    def _walls(self, codes: NDArray[np.uint8]) -> Variation | None:
        """One wall more or less."""
        walls = np.argwhere(codes == WALL).tolist()
        if walls and self.random.random() < 0.5:
            return Variation(0, "no wall", *self.random.choice(walls))
        row, column = self.random.choice(_free_cells(codes))
        return None if codes[row, column] >= HERO else Variation(0, "wall", row, column)

    def _start(self, codes: NDArray[np.uint8]) -> Variation:
        """Karel starts elsewhere; seldom with another heading."""
        heading = None if self.random.random() < 0.8 else self.random.choice(self.headings)
        row, column = self.random.choice(_free_cells(codes))
        return Variation(0, "start", row, column, heading=heading)


def _free_cells(codes: NDArray[np.uint8]) -> list[list[int]]:
    """The rows and columns, from 1, of the cells without a wall."""
    cells: list[list[int]] = np.argwhere(codes % HERO < WALL).tolist()
    return cells


def fresh_examples(task: Task, reference: Program, *, count: int, seed: int = 0) -> list[Example]:
    """Up to `count` examples that the task does not have, with the outputs of the reference; fewer if few are found."""
    count = checked_int("the number of fresh worlds", count, 0)
    inputs, _ = task.codes()
    variations, known = RandomVariations(inputs, seed), {codes.tobytes() for codes in inputs}
    found: list[Example] = []
    for _ in range(_FRUITLESS):
        if len(found) >= count:
            break
        new = []
        for codes in variations.worlds(_AT_ONCE):
            if codes.tobytes() not in known:
                known.add(codes.tobytes())
                new.append(codes)
        if new:
            runs = run_batch([reference], np.stack(new))
            assert runs.worlds is not None
            for number in np.flatnonzero(runs.ok[0]).tolist():
                found.append(Example(world_from_codes(new[number]), world_from_codes(runs.worlds[0, number])))
    return found[:count]
