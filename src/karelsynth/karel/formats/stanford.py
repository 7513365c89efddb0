"""Stanford Karel's `.w` files.

    Dimension: (3, 2)
    Wall: (3, 2); west
    Beeper: (2, 1); 2
    Karel: (1, 1); east
    BeeperBag: INFINITY

Places are (avenue, street): column and row from 1, street 1 at the bottom. As in the package `stanfordkarel`, case and
spacing do not matter, lines without a colon are comments, `Speed` and `Color` are ignored, several `Beeper` lines for a
place add up, and without a `Karel` line the hero stands at (1, 1) facing east. There, a file without a `BeeperBag` line
has an empty bag; here the bag is always full.

Their walls are edges between cells; ours fill cells. The writer states all four edges of a wall cell from that cell,
and the reader takes such a cell for a wall. Other files may state an edge from either side and leave out edges on the
border of the grid. There, a cell that is closed on all sides is a wall if otherwise one of its edges would belong to no
wall. An edge between two cells that are no walls is an error.
"""

from __future__ import annotations

import re
from typing import Final

from karelsynth.errors import WorldError, did_you_mean, listed, nearest, quoted
from karelsynth.karel.world import HEADINGS, LARGEST_SIDE, MOST_MARKERS, SMALLEST_SIDE, STEP, Cell, Hero, World

KEYWORDS: Final = ("Dimension", "Wall", "Beeper", "Karel", "BeeperBag", "Speed", "Color")
_BY_FOLDED: Final = {keyword.casefold(): keyword for keyword in KEYWORDS}
_FORMS: Final = {
    "Dimension": "(avenues, streets)",
    "Wall": "(avenue, street); direction",
    "Beeper": "(avenue, street); count",
    "Karel": "(avenue, street); direction",
    "BeeperBag": "INFINITY",
}
_NUMBER: Final = r"[0-9]{1,18}"
_PLACE: Final = re.compile(rf"\(\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\)")
_PATTERNS: Final = {
    "(avenue, street)": _PLACE,
    "(avenues, streets)": _PLACE,
    "direction": re.compile("|".join(HEADINGS), re.IGNORECASE),
    "count": re.compile(_NUMBER),
    "INFINITY": re.compile("infinity|infinite", re.IGNORECASE),
}

_Edge = tuple[Cell, str]
"""A side of a cell: the cell, and the heading that points to the side."""


def parse(text: str) -> World:
    """Read the text of a `.w` file."""
    reader = _Reader()
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        reader.line(number, line.strip())
    return reader.world()


def render(world: World) -> str:
    """Write a world. In the package `stanfordkarel`, the same cells are blocked."""

    def place(cell: Cell) -> str:
        return f"({cell[1] + 1}, {cell[0] + 1})"

    row, col, heading = world.hero
    lines = [
        f"Dimension: ({world.cols}, {world.rows})",
        *(f"Wall: {place(cell)}; {side}" for cell in sorted(world.walls) for side in HEADINGS),
        *(f"Beeper: {place(cell)}; {count}" for cell, count in world.markers.items()),
        f"Karel: {place((row, col))}; {heading}",
        "BeeperBag: INFINITY",
    ]
    return "\n".join(lines) + "\n"


def recognises(text: str) -> bool:
    """Whether a text looks like a `.w` file: a line begins with a keyword, or the first line with a misspelt one."""
    words = [word.strip() for word, colon, _ in (line.partition(":") for line in text.splitlines()) if colon]
    return any(word.casefold() in _BY_FOLDED for word in words) or bool(words and nearest(words[0], KEYWORDS))


class _Reader:
    """Collects the lines. Places are checked in the end, because `Dimension` may come last."""

    def __init__(self) -> None:
        self.size: tuple[int, Cell] | None = None  # line, (rows, cols)
        self.karel: tuple[int, Hero] | None = None
        self.edges: dict[_Edge, int] = {}  # to the line that states it first
        self.beepers: dict[Cell, tuple[int, int]] = {}  # the last line, and the sum of all

    def line(self, number: int, line: str) -> None:
        word, colon, rest = (part.strip() for part in line.partition(":"))
        if not colon:
            self.comment(number, line)
            return
        keyword = _BY_FOLDED.get(word.casefold())
        if keyword is None:
            hint = did_you_mean(word, KEYWORDS, aside=True)
            raise WorldError(f"line {number}: unknown keyword {quoted(word)}{hint}; a line is {listed(KEYWORDS)}, "
                             "then a colon")  # fmt: skip
        if keyword in _FORMS:
            self.statement(number, keyword, rest)

    def comment(self, number: int, line: str) -> None:
        """A line without a colon is ignored, unless only the colon is missing."""
        match = re.match(r"(\w+)\s*\(", line)
        keyword = _BY_FOLDED.get(match[1].casefold()) if match else None
        if keyword is not None:
            raise WorldError(f"line {number}: a colon is missing after `{keyword}`: `{keyword}: {_FORMS[keyword]}`")

    def statement(self, number: int, keyword: str, rest: str) -> None:
        found = _arguments(number, keyword, rest)
        match keyword:
            case "Dimension":
                if self.size is not None:
                    raise WorldError(f"line {number}: a second `Dimension`; the first is on line {self.size[0]}")
                size = _cell(found["(avenues, streets)"])
                self.size = number, (size[0] + 1, size[1] + 1)
            case "Karel":
                if self.karel is not None:
                    raise WorldError(f"line {number}: a second Karel; the first is on line {self.karel[0]}")
                self.karel = number, Hero(*_cell(found["(avenue, street)"]), found["direction"][0].lower())
            case "Wall":
                edge = _cell(found["(avenue, street)"]), found["direction"][0].lower()
                self.edges.setdefault(edge, number)
            case "Beeper":
                cell = _cell(found["(avenue, street)"])
                _, count = self.beepers.get(cell, (0, 0))
                self.beepers[cell] = number, count + int(found["count"][0])

    def world(self) -> World:
        rows, cols = self.checked_size()
        line, hero = self.karel or (0, Hero(0, 0, "east"))
        _check_inside(line, "Karel", hero[:2], rows, cols)
        for cell, (line, count) in self.beepers.items():
            _check_inside(line, "a beeper", cell, rows, cols)
            if count > MOST_MARKERS:
                raise WorldError(
                    f"line {line}: a cell holds 0 to {MOST_MARKERS} beepers, not {count} at {_named(cell)}"
                )
        markers = {cell: count for cell, (_, count) in self.beepers.items() if count}
        walls = _wall_cells(self.edges, rows, cols, {hero[:2], *markers})
        return World(rows, cols, hero, walls, markers)

    def checked_size(self) -> Cell:
        if self.size is None:
            raise WorldError("a `.w` file needs a line `Dimension: (avenues, streets)`, and this has none")
        line, (rows, cols) = self.size
        for size, side in ((cols, "avenues"), (rows, "streets")):
            if not SMALLEST_SIDE <= size <= LARGEST_SIDE:
                raise WorldError(f"line {line}: a world has {SMALLEST_SIDE} to {LARGEST_SIDE} {side}, not {size}")
        return rows, cols


def _wall_cells(edges: dict[_Edge, int], rows: int, cols: int, occupied: set[Cell]) -> frozenset[Cell]:
    """The wall cells that explain every stated edge inside the grid; see the module's docstring."""

    def inside(cell: Cell) -> bool:
        return 0 <= cell[0] < rows and 0 <= cell[1] < cols

    def closed(cell: Cell, side: str) -> bool:
        other = _across((cell, side))
        return (cell, side) in edges or other in edges or not inside(other[0])

    free = {(row, col) for row in range(rows) for col in range(cols)} - occupied
    walls = {cell for cell in free if all((cell, side) in edges for side in HEADINGS)}
    closed_cells = {cell for cell in free - walls if all(closed(cell, side) for side in HEADINGS)}

    unexplained = []
    for edge, line in edges.items():
        cells = (edge[0], _across(edge)[0])
        if not any(map(inside, cells)):
            _check_inside(line, "a wall", edge[0], rows, cols)
        if all(map(inside, cells)) and not walls.intersection(cells):
            unexplained.append((line, edge, closed_cells.intersection(cells)))
    # A closed cell beside an open one is a wall. The remaining edges lie between two closed cells. Nobody can enter
    # those, so both count as walls.
    walls |= {cell for _, _, beside in unexplained if len(beside) == 1 for cell in beside}
    walls |= {cell for _, _, beside in unexplained if not walls & beside for cell in beside}
    for line, (cell, side), beside in unexplained:
        if not beside:
            raise WorldError(
                f"line {line}: the wall {side} of {_named(cell)} is an edge between two cells that are no walls; in "
                "this Karel a wall fills a cell, so close all four sides of an empty cell, or remove this line"
            )
    return frozenset(walls)


def _arguments(number: int, keyword: str, rest: str) -> dict[str, re.Match[str]]:
    """The parts of a line between semicolons, by kind, in any order."""
    form = _FORMS[keyword]
    missing = form.split("; ")
    found: dict[str, re.Match[str]] = {}
    for part in filter(None, map(str.strip, rest.split(";"))):
        for kind in missing:
            if match := _PATTERNS[kind].fullmatch(part):
                found[kind] = match
                missing.remove(kind)
                break
        else:
            raise WorldError(f"line {number}: {_bad_part(keyword, part)}; the line is `{keyword}: {form}`")
    if missing:
        raise WorldError(f"line {number}: `{missing[0]}` is missing; the line is `{keyword}: {form}`")
    return found


def _bad_part(keyword: str, part: str) -> str:
    if keyword == "BeeperBag" and _PATTERNS["count"].fullmatch(part):
        return f"Karel's bag never runs out here, so it cannot hold {part} beepers"
    if keyword == "Beeper" and _PATTERNS["INFINITY"].fullmatch(part):
        return f"a cell holds 0 to {MOST_MARKERS} beepers, not infinitely many"
    if "direction" in _FORMS[keyword] and part.isalpha():
        hint = did_you_mean(part, HEADINGS, aside=True)
        return f"{quoted(part)} is no direction{hint}; they are {listed(HEADINGS, 'and')}"
    return f"{quoted(part)} does not belong here"


def _cell(place: re.Match[str]) -> Cell:
    avenue, street = int(place[1]), int(place[2])
    return street - 1, avenue - 1


def _across(edge: _Edge) -> _Edge:
    """The same edge, seen from the other cell."""
    (row, col), side = edge
    by_row, by_col = STEP[side]
    return (row + by_row, col + by_col), HEADINGS[(HEADINGS.index(side) + 2) % 4]


def _check_inside(line: int, what: str, cell: Cell, rows: int, cols: int) -> None:
    if not (0 <= cell[0] < rows and 0 <= cell[1] < cols):
        raise WorldError(
            f"line {line}: {what} is outside the grid at {_named(cell)}: avenues go from 1 to {cols}, "
            f"streets from 1 to {rows}"
        )


def _named(cell: Cell) -> str:
    return f"({cell[1] + 1}, {cell[0] + 1})"
