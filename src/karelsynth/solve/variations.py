"""Small changes of a person's own worlds: one more column, a marker less, Karel one cell further.

Programs that fit the examples are compared on these worlds. A program that was meant works there, too, and where the
programs differ, a person can say which outcome is right. Each variation says in words what was changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from karelsynth.karel.formats.codes import BEYOND, FRAME, HERO, SIDE, WALL
from karelsynth.karel.interpreter import Status
from karelsynth.karel.world import LARGEST_SIDE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SMALLEST_SIDE: Final = 2
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
    "higher": ("size", "the world is one row higher (row {row} from the bottom occurs twice)"),
    "lower": ("size", "the world is one row lower (without row {row} from the bottom)"),
    "markers": ("markers", "{piles} in column {column}, row {row} from the bottom"),
    "start": ("start", "Karel starts in column {column}, row {row} from the bottom"),
    "wall": ("walls", "a wall in column {column}, row {row} from the bottom"),
    "no wall": ("walls", "no wall in column {column}, row {row} from the bottom"),
}
"""For each change its kind and its words."""


def vary(inputs: NDArray[np.uint8]) -> tuple[list[Variation], NDArray[np.uint8]]:
    """Variations of a task's inputs [K, 18, 18], and their worlds, uint8 [V, 18, 18]; deterministic."""
    every: dict[str, list[Variation]] = {kind: [] for kind in QUOTAS}
    for example, codes in enumerate(inputs):
        for variation in _variations(example, codes):
            every[variation.kind].append(variation)
    random = np.random.default_rng(_SEED)
    chosen: list[Variation] = []
    for kind, quota in QUOTAS.items():
        found = every[kind]
        if len(found) > quota:
            found = [found[number] for number in np.sort(random.choice(len(found), quota, replace=False))]
        chosen += found
    worlds = np.empty((len(chosen), SIDE, SIDE), np.uint8)
    for world, variation in zip(worlds, chosen, strict=True):
        world[:] = apply(variation, inputs[variation.example])
    return chosen, worlds


def _variations(example: int, codes: NDArray[np.uint8]) -> Iterator[Variation]:
    """All variations of one world, cell codes [18, 18]."""
    content = codes % HERO
    rows, columns = (int(np.argmax(line == FRAME)) for line in (content[1:, 1], content[1, 1:]))
    ((hero_row, hero_column),) = np.argwhere(codes >= HERO).tolist()
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
    _, change, row, column, markers = variation
    if change in ("wider", "narrower"):
        return _resized(codes, column, change == "wider")
    if change in ("higher", "lower"):
        return _resized(codes.T, row, change == "higher").T
    changed = codes.copy()
    if change == "start":
        hero = codes >= HERO
        changed[row, column] += codes[hero][0] // HERO * HERO
        changed[hero] %= HERO
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
