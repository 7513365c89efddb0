"""Drawing worlds for plans (Numba).

A scene is drawn on a stage of at most 16 × 16 cells with Karel facing east and left being up. `stage_world` then
mirrors and rotates it and sets it into a larger world: beyond a wall there may be more cells, which are scenery.

Kinds of scenes: open rooms; rooms with a hanging ceiling; corridors with niches on one side or both; a wall with a gap;
stairs, descents, mountains; hurdles; a house in the way; an island to walk around; a wall with a door; a room with a
door; winding corridors; trails of markers; snail shells; mazes; signs to follow; a road of two lanes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from karelsynth.karel.compiled import I64Array, U8Array, U64Array, compiled
from karelsynth.karel.formats.codes import BEYOND, FRAME, SIDE, WALL
from karelsynth.karel.machine_kernel import CELLS
from karelsynth.tasks.purposeful.program_kernel import below, percent

KINDS: Final = (
    "room", "fetch", "ceiling", "potholes", "niches", "gap", "stairs", "descent", "mountain", "hurdles", "hurdles-any",
    "house", "island", "door", "room-door", "winding", "trail", "snail", "maze", "signs", "lanes",
    "cliffs", "square", "obstacles",
)  # fmt: skip
"""Kinds of scenes, as plans name them."""
PLACES: Final = ("corner", "floor", "start", "any", "roomy")
"""Where Karel stands: bottom left, in the bottom row, in the first column, anywhere, or with room ahead."""
MARKERS: Final = (
    "none", "row", "full", "one", "two", "trail", "few", "field", "full-field", "one-field", "columns", "pile", "piles",
    "pile-front", "niches", "path", "goal", "towers", "above", "two-rows",
)  # fmt: skip
"""Where markers lie."""
STAGE: Final = 16
COLS, ROWS, ROW, COL = 0, 1, 2, 3
"""Of `info` [4]: the stage's size and Karel's place."""
VALUES, ROTATION, QUARTER, SCENERY, DENSITY, DISTRACTED, SCALE, MIRRORED = range(8)
"""Of `taste` [8], what a task's worlds have in common."""
(
    ROOM, FETCH, CEILING, POTHOLES, NICHES, GAP, STAIRS, DESCENT, MOUNTAIN, HURDLES, HURDLES_ANY, HOUSE, ISLAND, DOOR,
    ROOM_DOOR, WINDING, TRAIL, SNAIL, MAZE, SIGNS, LANES, CLIFFS, SQUARE, OBSTACLES,
) = range(len(KINDS))  # fmt: skip
CORNER, FLOOR, START, ANY, ROOMY = range(len(PLACES))
(
    NO_MARKERS, IN_ROW, FULL_ROW, ONE, TWO, RUN, FEW, FIELD, FULL_FIELD, ONE_IN_FIELD, COLUMNS, PILE, PILES, PILE_FRONT,
    IN_NICHES, PATH, GOAL, TOWERS, ABOVE, TWO_ROWS,
) = range(len(MARKERS))  # fmt: skip
_MOST: Final = 9
_SIZES: Final = np.repeat(np.arange(2, 17), [4, 9, 12, 13, 13, 12, 10, 8, 6, 3, 3, 2, 1, 1, 1])
"""Side lengths, each repeated in proportion to its probability."""
_ATTEMPTS: Final = np.array([[0, 1, 3], [1, 3, 0], [0, 1, 3], [3, 1, 0]])
"""[4, 3]: the quarter turns that a winding way tries one after the other, by the first of them."""
_STEP_ROW: Final = np.array([1, 0, -1, 0])
_STEP_COL: Final = np.array([0, 1, 0, -1])


@compiled()
def draw_taste(state: U64Array, taste: I64Array) -> None:
    """Draw what the worlds of a task have in common."""
    kind = below(state, 100)
    taste[VALUES] = 0 if kind < 72 else 1 if kind < 88 else 2
    kind = below(state, 100)
    taste[ROTATION] = 0 if kind < 72 else 1 if kind < 88 else 2
    taste[QUARTER] = below(state, 4)
    taste[SCENERY] = percent(state, 18)
    taste[DENSITY] = 20 + below(state, 65)
    taste[DISTRACTED] = percent(state, 15)
    kind = below(state, 100)
    taste[SCALE] = 0 if kind < 70 else 1 if kind < 88 else 2
    taste[MIRRORED] = percent(state, 30)


@compiled()
def _side(state: U64Array, taste: I64Array, least: int, most: int) -> int:
    """The length of a side from least to most."""
    size: int = least + below(state, min(most, least + 4) - least + 1)
    for _ in range(6):
        other: int = _SIZES[below(state, len(_SIZES))]
        if taste[SCALE] == 1:
            other = 2 + (other - 1) // 2
        elif taste[SCALE] == 2:
            other = min(other + 2, 16)
        if least <= other <= most:
            return other
    return size


@compiled()
def _value(state: U64Array, taste: I64Array) -> int:
    """The number of markers of a cell that has some."""
    highest = 1 if taste[VALUES] == 0 else 3 if taste[VALUES] == 1 else 5 if percent(state, 80) else _MOST
    number: int = 1 + below(state, highest)
    return number


@compiled()
def _pile(state: U64Array) -> int:
    """The height of a pile: small ones are more frequent, none is rare."""
    height: int = 0 if percent(state, 8) else 1 + min(below(state, 7), below(state, _MOST))
    return height


@compiled()
def _density(state: U64Array, taste: I64Array) -> int:
    """The share of cells with markers, in percent. 0 and 100 are drawn on purpose, as edge cases."""
    kind = below(state, 100)
    return 0 if kind < 6 else 100 if kind < 14 else max(5, min(95, taste[DENSITY] + below(state, 31) - 15))


@compiled()
def _block(grid: U8Array, first_row: int, last_row: int, first_col: int, last_col: int, value: int) -> None:
    """Fill the cells of rows first_row … last_row − 1 in columns first_col … last_col − 1."""
    for row in range(np.uint64(first_row), np.uint64(last_row)):  # signed indices are checked, which takes time
        for col in range(np.uint64(first_col), np.uint64(last_col)):
            grid[row, col] = value


@compiled()
def _begin(grid: U8Array, info: I64Array, cols: int, rows: int, value: int) -> None:
    """Set the size of the stage, and all its cells to a value."""
    info[COLS], info[ROWS] = cols, rows
    for row in range(rows):
        for col in range(cols):
            grid[row, col] = value


@compiled()
def _place(state: U64Array, info: I64Array, place: int) -> None:
    """Put Karel into an open room."""
    cols, rows = info[COLS], info[ROWS]
    row, col = 0, 0
    if place == FLOOR:
        col = min(below(state, cols), below(state, cols))
    elif place == START:
        row = below(state, rows)
        if percent(state, 30):
            row = 0
    elif place == ANY:
        row = below(state, rows)
        col = min(below(state, cols), below(state, cols))
    elif place == ROOMY:
        row = below(state, rows)
        col = below(state, max(1, cols // 2))
    info[ROW], info[COL] = row, col


@compiled()
def _room_markers(state: U64Array, taste: I64Array, some: int, grid: U8Array, info: I64Array) -> None:
    """Lay markers in an open room."""
    cols, rows, row, col = info[COLS], info[ROWS], info[ROW], info[COL]
    ahead = cols - 1 - col
    if some == IN_ROW or some == FULL_ROW:
        density = 100 if some == FULL_ROW else _density(state, taste)
        first = col if some == FULL_ROW or percent(state, 60) else col + 1
        for at in range(first, cols):
            if percent(state, density):
                grid[row, at] = _value(state, taste)
    elif some == ONE:
        if ahead > 0:
            grid[row, col + 1 + below(state, ahead)] = _value(state, taste)
    elif some == TWO:
        if ahead > 1:
            one = below(state, ahead)
            other = below(state, ahead)
            if one != other:
                grid[row, col + 1 + one] = _value(state, taste)
                grid[row, col + 1 + other] = _value(state, taste)
    elif some == RUN:
        length = below(state, ahead + 1)
        first = 0 if percent(state, 75) else 1
        for at in range(first, min(length + first, ahead + 1)):
            grid[row, col + at] = _value(state, taste)
        for at in range(length + first + 1, ahead + 1):
            if taste[DENSITY] > 50 and percent(state, 45):
                grid[row, col + at] = _value(state, taste)
    elif some == FEW or some == ONE_IN_FIELD:
        number = 1 if some == ONE_IN_FIELD else 1 + below(state, 4)
        for _ in range(number):
            r, c = below(state, rows), below(state, cols)
            grid[r, c] = _value(state, taste)
    elif some == FIELD or some == FULL_FIELD:
        density = 100 if some == FULL_FIELD else _density(state, taste)
        for r in range(rows):
            for c in range(cols):
                if percent(state, density):
                    grid[r, c] = _value(state, taste)
    elif some == COLUMNS:
        every = 1 + taste[QUARTER]
        for c in range(0, cols, every):
            if percent(state, 85):
                for r in range(rows):
                    if percent(state, taste[DENSITY]):
                        grid[r, c] = 1
    elif some == TOWERS:
        for c in range(cols):
            if percent(state, 85 if c == 0 else taste[DENSITY]):
                for r in range(1 + below(state, rows - 1)):
                    grid[r, c] = _value(state, taste) if taste[VALUES] == 2 else 1
    elif some == ABOVE or some == TWO_ROWS:
        density = _density(state, taste)
        for r in range(row if some == TWO_ROWS else row + 1, min(row + 2, rows)):
            for c in range(cols):
                if percent(state, density):
                    grid[r, c] = _value(state, taste)
    elif some == PILE:
        grid[row, col] = _pile(state)
    elif some == PILES:
        grid[row, col] = _pile(state)
        if ahead > 0:
            grid[row, col + 1 + (below(state, min(ahead, 3)) if percent(state, 25) else 0)] = _pile(state)
    elif some == PILE_FRONT and ahead > 0:
        grid[row, col + 1] = _pile(state)
    elif some == GOAL and ahead > 0:
        grid[row, cols - 1] = 1
    if taste[DISTRACTED] and (some <= FEW or PILE <= some <= PILE_FRONT):
        for _ in range(below(state, 4)):
            r, c = below(state, rows), below(state, cols)
            if r != row:
                grid[r, c] = _value(state, taste)


@compiled()
def _open_room(
    state: U64Array, taste: I64Array, kind: int, place: int, some: int, grid: U8Array, info: I64Array
) -> None:
    field = some == FIELD or some == FULL_FIELD or some == COLUMNS or some == TOWERS
    most = 8 if field else 16
    cols, rows = _side(state, taste, 3 if place == ROOMY else 2, most), _side(state, taste, 2, most)
    if kind == SQUARE:
        rows = cols
    elif not field and place != CORNER and percent(state, 25):
        rows = 2 + below(state, 2)
    _begin(grid, info, cols, rows, 0)
    if kind == CEILING:
        for col in range(cols):
            deep = below(state, rows) if percent(state, 60) else 0
            _block(grid, rows - deep, rows, col, col + 1, WALL)
    _place(state, info, place)
    _room_markers(state, taste, some, grid, info)
    if kind == OBSTACLES:
        for row in range(rows):
            for col in range(cols):
                free = (row == info[ROW] and col == info[COL]) or grid[row, col] > 0
                if not free and percent(state, taste[DENSITY] // 3):
                    grid[row, col] = WALL


@compiled()
def _fetch(state: U64Array, taste: I64Array, grid: U8Array, info: I64Array) -> None:
    """A house with one door in its east wall. Karel stands at the west wall. Other code lays markers where it picks."""
    cols, rows = _side(state, taste, 2, 8), _side(state, taste, 2, 7)
    beyond = 1 + below(state, 3)
    _begin(grid, info, cols + 1 + beyond, rows, 0)
    door = below(state, rows)
    _block(grid, 0, rows, cols, cols + 1, WALL)
    grid[door, cols] = 0
    info[ROW], info[COL] = below(state, rows), 0
    if percent(state, 50):
        grid[door, cols] = 1


@compiled()
def _hall(state: U64Array, taste: I64Array, kind: int, grid: U8Array, info: I64Array) -> None:
    """A corridor with niches below (POTHOLES), on both sides (NICHES), or one opening above (GAP)."""
    cols = _side(state, taste, 3, 14)
    down = 1 if percent(state, 65) else 1 + below(state, 3)
    above = 1 + below(state, 3)
    if kind == NICHES:
        above = 1 if percent(state, 60) else 1 + below(state, 3)
    _begin(grid, info, cols, down + 1 + above, 0)
    hall = down
    holes = 20 + below(state, 50)
    filled = _density(state, taste)
    extra = percent(state, 30)
    if kind == GAP:
        gap = 1 + below(state, cols - 1)
        _block(grid, hall + 1, info[ROWS] if extra else hall + 2, 0, cols, WALL)
        _block(grid, hall + 1, info[ROWS], gap, gap + 1, 0)
        info[ROW], info[COL] = hall, below(state, max(1, gap - 1)) if percent(state, 40) else 0
        return
    for side in range(2 if kind == NICHES else 1):
        room = down if side == 0 else above
        sign = -1 if side == 0 else 1
        for col in range(cols):
            depth = 1 + below(state, room) if percent(state, holes) and (col > 0 or percent(state, 30)) else 0
            for distance in range(1, room + 1):
                row = hall + sign * distance
                if distance > depth:
                    grid[row, col] = WALL
                elif distance == depth and percent(state, filled):
                    grid[row, col] = _value(state, taste)
    if kind == NICHES and percent(state, 50) and info[ROWS] + 2 <= STAGE:
        for row in range(info[ROWS], 0, -1):  # a closed outer wall
            for col in range(cols):
                grid[row, col] = grid[row - 1, col]
        _block(grid, 0, 1, 0, cols, WALL)
        _block(grid, info[ROWS] + 1, info[ROWS] + 2, 0, cols, WALL)
        info[ROWS] += 2
        hall += 1
    info[ROW], info[COL] = hall, 0


@compiled()
def _begin_with_ground(grid: U8Array, info: I64Array, cols: int, rows: int, heights: I64Array) -> None:
    """Begin a stage whose columns are wall up to some heights [STAGE]."""
    _begin(grid, info, cols, rows, 0)
    for col in range(cols):
        _block(grid, 0, heights[col], col, col + 1, WALL)


@compiled()
def _tread(heights: I64Array, col: int, height: int, width: int) -> int:
    """Give the next columns a height, the last one of the stage where there are no more; returns the column after."""
    for _ in range(width):
        heights[min(col, STAGE - 1)] = height
        col += 1
    return col


@compiled()
def _slopes(state: U64Array, taste: I64Array, kind: int, grid: U8Array, info: I64Array) -> None:
    """Stairs up, down, or up and down. Steps are one cell high and, in some tasks, several cells long."""
    steps = below(state, 6) if percent(state, 60) else 1 + below(state, 3)
    if steps == 0 and percent(state, 50):
        steps = 1
    wide = taste[DENSITY] >= 60
    lead = 0 if taste[QUARTER] < 2 else below(state, 4)
    tail = below(state, 4)
    down = 0
    if kind != STAIRS:
        down = steps if percent(state, 60) else below(state, steps + 2)
    flat = 0 if percent(state, 60) else below(state, 3)
    up = 0 if kind == DESCENT else steps
    rows = max(2, (down if kind == DESCENT else up) + 1 + below(state, 4))
    heights, height = np.zeros(STAGE, np.int64), down if kind == DESCENT else 0
    col = _tread(heights, 0, height, 1 + lead)
    start = col - 1 - (lead if percent(state, 70) else 0)
    for _ in range(up):
        height += 1
        col = _tread(heights, col, height, 1 + below(state, 3) if wide else 1)
    col = _tread(heights, col, height, flat)
    for _ in range(down):
        height = max(0, height - 1)
        col = _tread(heights, col, height, 1 + below(state, 2) if wide else 1)
    col = _tread(heights, col, height, tail)
    if col < 2:
        heights[1] = height
    _begin_with_ground(grid, info, max(2, min(col, STAGE)), rows, heights)
    info[ROW], info[COL] = heights[start], start


@compiled()
def _cliffs(state: U64Array, taste: I64Array, grid: U8Array, info: I64Array) -> None:
    """Steps of any height: up, then down where a task has a second slope."""
    climbs, falls = below(state, 4), 0
    if taste[QUARTER] > 0:
        falls = 1 + below(state, 3)
    if taste[QUARTER] == 1:
        climbs = 0
    heights = np.zeros(STAGE, np.int64)
    height, col = 0, 1 + (below(state, 3) if taste[QUARTER] == 2 else 0)
    if climbs == 0:
        height = min(12, 2 * falls + 1)
        heights[:] = height
    for step in range(climbs + falls):
        height += (1 + below(state, 3)) * (1 if step < climbs else -1)
        height = max(0, min(12, height))
        for _ in range(1 + below(state, 3)):
            if col < STAGE:
                heights[col] = height
                col += 1
    rows = heights[:col].max() + 1 + below(state, 3)
    _begin_with_ground(grid, info, max(2, col), max(2, rows), heights)
    info[ROW], info[COL] = heights[0], 0


@compiled()
def _mark_end(grid: U8Array, info: I64Array) -> None:
    """Lay a marker on the ground of the last column."""
    row, last = 0, info[COLS] - 1
    while row < info[ROWS] - 1 and grid[row, last] == WALL:
        row += 1
    if grid[row, last] == 0:
        grid[row, last] = 1


@compiled()
def _hurdles(state: U64Array, taste: I64Array, kind: int, some: int, grid: U8Array, info: I64Array) -> None:
    """A track with hurdles of height one, or of any height."""
    cols = _side(state, taste, 4, 14)
    highest = 1 if kind == HURDLES else 1 + below(state, 5)
    if kind == HURDLES and taste[QUARTER] == 3:
        highest = 2
    _begin(grid, info, cols, highest + 1 + below(state, 3), 0)
    dense = 25 + below(state, 60)
    last, left, height = cols - 1, 0, 0
    wide = kind == HURDLES_ANY and taste[QUARTER] >= 2
    for col in range(1, last):
        if left == 0 and height == 0 and percent(state, dense):
            height = highest if kind == HURDLES else 1 + below(state, highest)
            left = 1 + (below(state, 3) if wide else 0)
        if left > 0:
            _block(grid, 0, height, col, col + 1, WALL)
            left -= 1
        else:
            height = 0
    info[ROW], info[COL] = 0, 0
    if some == GOAL:
        goal = last if percent(state, 70) else last - below(state, max(1, cols // 3))
        if grid[0, goal] == 0:
            grid[0, goal] = 1
        else:
            grid[0, last] = 1


@compiled()
def _house(state: U64Array, grid: U8Array, info: I64Array) -> None:
    """A house on the floor in Karel's way."""
    wide, high = 1 + below(state, 5), 1 + below(state, 5)
    before, after = 1 + below(state, 4), 1 + below(state, 4)
    _begin(grid, info, before + wide + after, high + 1 + below(state, 3), 0)
    _block(grid, 0, high, before, before + wide, WALL)
    info[ROW], info[COL] = 0, below(state, before)


@compiled()
def _island(state: U64Array, grid: U8Array, info: I64Array) -> None:
    """A block that can be walked around; Karel has it on its right."""
    wide, high = 1 + below(state, 5), 1 + below(state, 4)
    left, low = 1 + below(state, 2), 1 + below(state, 2)
    _begin(grid, info, left + wide + 1 + below(state, 3), low + high + 1 + below(state, 3), 0)
    _block(grid, low, low + high, left, left + wide, WALL)
    info[ROW], info[COL] = low + high, left + (0 if percent(state, 60) else below(state, wide))


@compiled()
def _door(state: U64Array, taste: I64Array, grid: U8Array, info: I64Array) -> None:
    """A wall with one door, not below Karel's row."""
    before, after = 1 + below(state, 5), 1 + below(state, 4)
    rows = _side(state, taste, 3, 10)
    _begin(grid, info, before + 1 + after, rows, 0)
    start = below(state, max(1, rows // 3))
    door = start + 1 + below(state, rows - 1 - start)
    _block(grid, 0, rows, before, before + 1, WALL)
    grid[door, before] = 0
    info[ROW], info[COL] = start, below(state, before)


@compiled()
def _room_door(state: U64Array, place: int, grid: U8Array, info: I64Array) -> None:
    """A room with one door and space outside; Karel stands at its lower wall, or anywhere in it."""
    cols, rows = 2 + below(state, 6), 2 + below(state, 5)
    ring = 2 + below(state, 2)
    _begin(grid, info, cols + 2 * ring, rows + 2 * ring, 0)
    _block(grid, ring - 1, ring + rows + 1, ring - 1, ring + cols + 1, WALL)
    _block(grid, ring, ring + rows, ring, ring + cols, 0)
    wall = below(state, 4)
    if wall == 0:
        grid[ring - 1, ring + below(state, cols)] = 0
    elif wall == 1:
        grid[ring + below(state, rows), ring + cols] = 0
    elif wall == 2:
        grid[ring + rows, ring + below(state, cols)] = 0
    else:
        grid[ring + below(state, rows), ring - 1] = 0
    info[ROW], info[COL] = ring + (below(state, rows) if place == ANY else 0), ring + below(state, cols)


@compiled()
def _winding(state: U64Array, taste: I64Array, kind: int, some: int, grid: U8Array, info: I64Array) -> None:
    """A corridor that winds through solid wall, or a trail of markers through an open room.

    Each cell of the way touches only the cell before it and the cell after it.
    """
    cols, rows = _side(state, taste, 3, 10), _side(state, taste, 3, 10)
    _begin(grid, info, cols, rows, WALL)
    row, col, heading = below(state, rows), 0, 1
    info[ROW], info[COL] = row, col
    grid[row, col] = 0
    density = _density(state, taste)
    wanted = 2 + below(state, 22)
    length = 0
    straight = 30 + below(state, 50)
    while length < wanted:
        turns = 0
        if length > 0 and not percent(state, straight):
            turns = 1 if percent(state, 50) else 3
        found = False
        for attempt in range(3):
            direction = (heading + _ATTEMPTS[turns, attempt]) & 3
            r, c = row + _STEP_ROW[direction], col + _STEP_COL[direction]
            if length == 0 and direction != 1:
                continue
            if r < 0 or c < 0 or r >= rows or c >= cols or grid[r, c] != WALL:
                continue
            touching = 0
            for side in range(4):
                rr, cc = r + _STEP_ROW[side], c + _STEP_COL[side]
                if 0 <= rr < rows and 0 <= cc < cols and grid[rr, cc] != WALL:
                    touching += 1
            if touching > 1:
                continue
            row, col, heading = r, c, direction
            grid[row, col] = 0
            if some == PATH and percent(state, density):
                grid[row, col] = _value(state, taste)
            found = True
            break
        if not found:
            break
        length += 1
    if some == GOAL:
        grid[row, col] = 1
    if kind == TRAIL:
        for r in range(rows):
            for c in range(cols):
                grid[r, c] = 0 if grid[r, c] == WALL else 1


@compiled()
def _snail(state: U64Array, taste: I64Array, some: int, grid: U8Array, info: I64Array) -> None:
    """A spiral that turns left, of one to eight legs."""
    cols, rows = _side(state, taste, 3, 10), _side(state, taste, 3, 10)
    _begin(grid, info, cols, rows, WALL)
    legs = 1 + below(state, 7)
    density = _density(state, taste)
    row, col, heading = 0, 0, 1
    grid[0, 0] = 0
    for _ in range(legs):
        moved = 0
        while True:
            r, c = row + _STEP_ROW[heading], col + _STEP_COL[heading]
            r2, c2 = r + _STEP_ROW[heading], c + _STEP_COL[heading]
            if r < 0 or c < 0 or r >= rows or c >= cols or grid[r, c] != WALL:
                break
            if 0 <= r2 < rows and 0 <= c2 < cols and grid[r2, c2] != WALL:
                break
            row, col = r, c
            grid[row, col] = _value(state, taste) if some == PATH and percent(state, density) else 0
            moved += 1
        if moved == 0:
            break
        heading = (heading + 3) & 3
    info[ROW], info[COL] = 0, 0


@compiled()
def _maze(state: U64Array, grid: U8Array, info: I64Array) -> None:
    """A maze without loops; the goal is one of its cells."""
    wide, high = 2 + below(state, 4), 2 + below(state, 4)
    _begin(grid, info, 2 * wide - 1, 2 * high - 1, WALL)
    stack = np.empty(64, np.int64)
    visited = np.zeros(64, np.bool_)
    stack[0], depth = 0, 1
    visited[0] = True
    grid[0, 0] = 0
    furthest, deepest = 0, 0
    while depth > 0:
        cell = stack[depth - 1]
        row, col = cell // wide, cell % wide
        options = 0
        chosen = -1
        for side in range(4):
            r, c = row + _STEP_ROW[side], col + _STEP_COL[side]
            if 0 <= r < high and 0 <= c < wide and not visited[r * wide + c]:
                options += 1
                if below(state, options) == 0:
                    chosen = side
        if chosen < 0:
            depth -= 1
            continue
        r, c = row + _STEP_ROW[chosen], col + _STEP_COL[chosen]
        visited[r * wide + c] = True
        grid[row + r, col + c] = 0
        grid[2 * r, 2 * c] = 0
        stack[depth] = r * wide + c
        depth += 1
        if depth > deepest:
            furthest, deepest = r * wide + c, depth
    if percent(state, 50):
        furthest = 1 + below(state, wide * high - 1)
    grid[2 * (furthest // wide), 2 * (furthest % wide)] = 1
    info[ROW], info[COL] = 0, 0


@compiled()
def _signs(state: U64Array, taste: I64Array, grid: U8Array, info: I64Array) -> None:
    """Signs along a way through an open room: one marker for left, two for right."""
    cols, rows = _side(state, taste, 3, 10), _side(state, taste, 3, 10)
    _begin(grid, info, cols, rows, 0)
    row, col, heading = below(state, rows), below(state, max(1, cols // 2)), 1
    info[ROW], info[COL] = row, col
    for _ in range(below(state, 6)):
        room = cols - 1 - col if heading == 1 else col if heading == 3 else rows - 1 - row if heading == 0 else row
        if room == 0:
            break
        distance = 1 + below(state, room)
        row, col = row + distance * _STEP_ROW[heading], col + distance * _STEP_COL[heading]
        if grid[row, col] == 0:
            grid[row, col] = 1 if taste[VALUES] == 0 else 1 + below(state, 2)
        heading = (heading + (3 if grid[row, col] == 1 else 1)) & 3
    if percent(state, 40):
        for _ in range(below(state, 4)):
            r, c = below(state, rows), below(state, cols)
            grid[r, c] = 1 + (below(state, 2) if taste[VALUES] > 0 else 0)


@compiled()
def _lanes(state: U64Array, taste: I64Array, grid: U8Array, info: I64Array) -> None:
    """A road of two lanes with stones, which never close the road."""
    cols = _side(state, taste, 4, 14)
    _begin(grid, info, cols, 2, 0)
    blocked = -2
    lane = 0
    for col in range(1, cols - 1):
        if percent(state, 40):
            side = below(state, 2)
            if col > blocked + 1 or side == lane:
                grid[side, col] = WALL
                blocked, lane = col, side
    _block(grid, 0, 2, cols - 1, cols, 1)
    info[ROW], info[COL] = below(state, 2), 0


@compiled()
def draw_scene(
    state: U64Array, taste: I64Array, kind: int, place: int, some: int, grid: U8Array, info: I64Array
) -> None:
    """Draw a scene to `grid` [16, 16], the lowest row first, and `info` [4]."""
    if kind == ROOM or kind == CEILING or kind == SQUARE or kind == OBSTACLES:
        _open_room(state, taste, kind, place, some, grid, info)
    elif kind == FETCH:
        _fetch(state, taste, grid, info)
    elif kind == POTHOLES or kind == NICHES or kind == GAP:
        _hall(state, taste, kind, grid, info)
    elif kind == STAIRS or kind == DESCENT or kind == MOUNTAIN or kind == CLIFFS:
        if kind == CLIFFS:
            _cliffs(state, taste, grid, info)
        else:
            _slopes(state, taste, kind, grid, info)
        if some == GOAL:
            _mark_end(grid, info)
    elif kind == HURDLES or kind == HURDLES_ANY:
        _hurdles(state, taste, kind, some, grid, info)
    elif kind == HOUSE:
        _house(state, grid, info)
    elif kind == ISLAND:
        _island(state, grid, info)
    elif kind == DOOR:
        _door(state, taste, grid, info)
    elif kind == ROOM_DOOR:
        _room_door(state, place, grid, info)
    elif kind == WINDING or kind == TRAIL:
        _winding(state, taste, kind, some, grid, info)
    elif kind == SNAIL:
        _snail(state, taste, some, grid, info)
    elif kind == MAZE:
        _maze(state, grid, info)
    elif kind == SIGNS:
        _signs(state, taste, grid, info)
    else:
        _lanes(state, taste, grid, info)


@compiled()
def stage_world(state: U64Array, taste: I64Array, grid: U8Array, info: I64Array, out: U8Array, slot: int) -> int:
    """Mirror, rotate and frame a scene of `draw_scene` into row `slot` of `out` [E, 324], without Karel.

    Returns Karel's cell times 4 plus its heading.
    """
    cols, rows = info[COLS], info[ROWS]
    quarter = 0
    if taste[ROTATION] == 1:
        quarter = below(state, 4)
    elif taste[ROTATION] == 2:
        quarter = taste[QUARTER]
    wide, high = (cols, rows) if quarter % 2 == 0 else (rows, cols)
    # Scenery: on each side a wall and more cells behind it. The order is west, east, south, north.
    west, east, south, north = 0, 0, 0, 0
    if taste[SCENERY]:
        west = 1 + below(state, 3) if percent(state, 35) else 0
        east = 1 + below(state, 3) if percent(state, 35) else 0
        south = 1 + below(state, 3) if percent(state, 35) else 0
        north = 1 + below(state, 3) if percent(state, 35) else 0
        if wide + west + east > STAGE:
            west, east = 0, 0
        if high + south + north > STAGE:
            south, north = 0, 0
    all_cols, all_rows = wide + west + east, high + south + north
    for cell in range(CELLS):
        out[slot, cell] = BEYOND
    for row in range(all_rows + 2):
        inside = 0 < row <= all_rows
        for col in range(all_cols + 2):
            out[slot, row * SIDE + col] = 0 if inside and 0 < col <= all_cols else FRAME
    if west + east + south + north > 0:
        first_row, last_row = south - (south > 0), south + high + (north > 0)
        first_col, last_col = west - (west > 0), west + wide + (east > 0)
        for row in range(first_row, last_row):
            for col in range(first_col, last_col):
                out[slot, (row + 1) * SIDE + col + 1] = WALL
    at = 0
    for row in range(rows):
        flipped = rows - 1 - row if taste[MIRRORED] else row
        for col in range(cols):
            if quarter == 0:
                r, c = flipped, col
            elif quarter == 1:
                r, c = col, rows - 1 - flipped
            elif quarter == 2:
                r, c = rows - 1 - flipped, cols - 1 - col
            else:
                r, c = cols - 1 - col, flipped
            place = (r + south + 1) * SIDE + c + west + 1
            out[slot, place] = grid[row, col]
            if row == info[ROW] and col == info[COL]:
                at = place
    heading = (1 - quarter) & 3
    return at * 4 + heading
