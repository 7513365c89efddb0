"""The world as a value: grid, hero, walls, markers.

    >>> world = World.parse('''
    ... . . #
    ... > 2 .
    ... ''')
    >>> world.hero
    Hero(row=0, col=0, heading='east')

Rows count from 0 at the bottom, columns from 0 at the left; north is row + 1. The limits are the original data's. The
constructor checks every world, so that every `World` is a valid one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from karelsynth.errors import WorldError, did_you_mean, listed, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

SMALLEST_SIDE: Final = 2
LARGEST_SIDE: Final = 16
MOST_MARKERS: Final = 10
HEADINGS: Final = ("north", "east", "south", "west")
"""In the order of a right turn, which is also the order of the tensor's planes."""
STEP: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {"north": (1, 0), "east": (0, 1), "south": (-1, 0), "west": (0, -1)}
)
"""The change of row and column with a move."""

Cell = tuple[int, int]


class Hero(NamedTuple):
    """Karel's cell and heading."""

    row: int
    col: int
    heading: str


@dataclass(frozen=True, eq=True)
class World:
    """A Karel world; see the module's docstring. `markers` maps cells to counts of 1 to 10."""

    rows: int
    cols: int
    hero: Hero
    walls: frozenset[Cell] = frozenset()
    markers: Mapping[Cell, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _set = object.__setattr__
        *place, heading = self.hero
        markers = {_cell(cell, "a marker"): _whole(n, "a number of markers") for cell, n in self.markers.items()}
        _set(self, "rows", _whole(self.rows, "the number of rows"))
        _set(self, "cols", _whole(self.cols, "the number of columns"))
        _set(self, "hero", Hero(*_cell(place, "the hero"), heading))
        _set(self, "walls", frozenset(_cell(cell, "a wall") for cell in self.walls))
        _set(self, "markers", MappingProxyType({cell: n for cell, n in sorted(markers.items()) if n != 0}))
        self._check()

    def _check(self) -> None:
        for side, size in (("rows", self.rows), ("columns", self.cols)):
            if not SMALLEST_SIDE <= size <= LARGEST_SIDE:
                raise WorldError(f"a world has {SMALLEST_SIDE} to {LARGEST_SIDE} {side}, not {size}")
        if self.hero.heading not in HEADINGS:
            heading = str(self.hero.heading)
            hint = did_you_mean(heading, HEADINGS)
            raise WorldError(f"the hero's heading is {listed(HEADINGS)}, not {quoted(heading)}{hint}")
        self._check_cells("the hero", [self.hero[:2]])
        self._check_cells("a wall", self.walls)
        self._check_cells("a marker", self.markers)
        if self.hero[:2] in self.walls:
            raise WorldError(f"the hero stands in a wall at {_place(self.hero[:2])}")
        for cell, count in self.markers.items():
            if cell in self.walls:
                raise WorldError(f"there are markers in a wall at {_place(cell)}")
            if not 1 <= count <= MOST_MARKERS:
                raise WorldError(f"a cell holds 0 to {MOST_MARKERS} markers, not {count} (at {_place(cell)})")

    def _check_cells(self, what: str, cells: Iterable[Cell]) -> None:
        for row, col in cells:
            if not (0 <= row < self.rows and 0 <= col < self.cols):
                raise WorldError(
                    f"{what} is outside the grid at {_place((row, col))}: "
                    f"rows go from 0 to {self.rows - 1}, columns from 0 to {self.cols - 1}"
                )

    def __hash__(self) -> int:
        return hash((self.rows, self.cols, self.hero, self.walls, tuple(self.markers.items())))

    def __reduce__(self) -> tuple[Any, ...]:  # a mapping proxy cannot be pickled or copied
        return World, (self.rows, self.cols, self.hero, self.walls, dict(self.markers))

    def is_clear(self, cell: Cell) -> bool:
        """Whether Karel could stand there: inside the grid and no wall."""
        row, col = cell
        return 0 <= row < self.rows and 0 <= col < self.cols and cell not in self.walls

    def with_hero(self, row: int, col: int, heading: str) -> World:
        """The same world with the hero elsewhere."""
        return replace(self, hero=Hero(row, col, heading))

    # Reading and writing. The formats live in karelsynth.karel.formats; here are the short names.

    @classmethod
    def parse(cls, text: str) -> World:
        """Read a text drawing; see `karelsynth.karel.formats.drawing`."""
        from karelsynth.karel.formats.drawing import parse

        return parse(text)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> World:
        """Read the original data's JSON object (`rows`, `cols`, `hero`, `blocked`, `markers`)."""
        from karelsynth.karel.formats.msr import world_from_json

        return world_from_json(record)

    @classmethod
    def from_codes(cls, codes: NDArray[np.uint8]) -> World:
        """Read cell codes, [18, 18]; see `karelsynth.karel.formats.codes`."""
        from karelsynth.karel.formats.codes import world_from_codes

        return world_from_codes(codes)

    @classmethod
    def from_tensor(cls, tensor: NDArray[Any]) -> World:
        """Read the network's tensor, [16, 18, 18]."""
        from karelsynth.karel.formats.codes import tensor_to_codes

        return cls.from_codes(tensor_to_codes(tensor))

    @classmethod
    def from_stanford(cls, text: str) -> World:
        """Read the text of a Stanford Karel `.w` file."""
        from karelsynth.karel.formats.stanford import parse

        return parse(text)

    @classmethod
    def load(cls, path: str | Path) -> World:
        """Read a world file: a drawing, the data's JSON, or Stanford's `.w`, recognised by its content."""
        from karelsynth.karel.formats import load_world

        return load_world(path)

    def save(self, path: str | Path) -> None:
        """Write a world file in the format of its suffix: `.w`, `.json`, or a drawing for any other."""
        from karelsynth.karel.formats import save_world

        save_world(self, path)

    def to_text(self) -> str:
        """The drawing that `parse` reads."""
        from karelsynth.karel.formats.drawing import render

        return render(self)

    def to_json(self) -> dict[str, Any]:
        """The original data's JSON object."""
        from karelsynth.karel.formats.msr import world_to_json

        return world_to_json(self)

    def to_codes(self) -> NDArray[np.uint8]:
        """Cell codes, uint8 [18, 18]: the compact form of the tensor."""
        from karelsynth.karel.formats.codes import world_to_codes

        return world_to_codes(self)

    def to_tensor(self) -> NDArray[np.float32]:
        """The network's input, float32 [16, 18, 18]."""
        from karelsynth.karel.formats.codes import codes_to_tensor

        return codes_to_tensor(self.to_codes())

    def to_stanford(self) -> str:
        """The text of a Stanford Karel `.w` file."""
        from karelsynth.karel.formats.stanford import render

        return render(self)

    def to_svg(self) -> str:
        """A picture, as SVG."""
        from karelsynth.karel.draw import world_svg

        return world_svg(self)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f'World.parse("""\n{self.to_text()}\n""")'

    def _repr_svg_(self) -> str:
        return self.to_svg()


def _whole(value: Any, what: str) -> int:
    """An int, also from NumPy's integers."""
    try:
        return index(value)
    except TypeError:
        raise WorldError(f"{what} is a whole number, not {quoted(repr(value))}") from None


def _cell(cell: Any, what: str) -> Cell:
    try:
        row, col = cell
    except (TypeError, ValueError):
        raise WorldError(f"{what} stands on a cell (row, column), not {quoted(repr(cell))}") from None
    return _whole(row, f"the row of {what}"), _whole(col, f"the column of {what}")


def _place(cell: Cell) -> str:
    return f"row {cell[0]}, column {cell[1]}"
