"""Cell codes and tensors: worlds as arrays.

The network's input is a tensor of 16 planes over 18 × 18 cells: the grid in rows and columns 1 …, a frame of
one cell around it, nothing beyond. Planes: hero facing north, east, south, west; wall; frame; 1 … 10 markers.

A cell code holds the 16 planes of a cell in one byte. A world is 324 bytes, and a batch of worlds an array
uint8 [..., 18, 18]. The low four bits are the content (0 … 10 markers, WALL, FRAME or BEYOND). The high four bits are
1 + the hero's heading, or 0 without a hero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from karelsynth.errors import WorldError
from karelsynth.karel.world import HEADINGS, LARGEST_SIDE, MOST_MARKERS, Hero, World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SIDE: Final = LARGEST_SIDE + 2
PLANES: Final = 16
WALL: Final = MOST_MARKERS + 1
FRAME: Final = MOST_MARKERS + 2
BEYOND: Final = MOST_MARKERS + 3
HERO: Final = 16
"""A hero with heading h adds HERO · (h + 1) to the code of the cell it stands on."""
CODES: Final = HERO * (len(HEADINGS) + 1)
"""One more than the largest code."""
WALL_PLANE: Final = 4
FRAME_PLANE: Final = 5


def _planes_of_codes() -> NDArray[np.float32]:
    planes = np.zeros((CODES, PLANES), np.float32)
    for code in range(CODES):
        content, hero = code % HERO, code // HERO
        if 1 <= content <= MOST_MARKERS:
            planes[code, FRAME_PLANE + content] = 1
        planes[code, WALL_PLANE] = content == WALL
        planes[code, FRAME_PLANE] = content == FRAME
        if hero:
            planes[code, hero - 1] = 1
    return planes


CODE_PLANES: Final = _planes_of_codes()
"""float32 [80, 16]: the planes of each code. `CODE_PLANES[codes]` is the tensor, planes last."""


def world_to_codes(world: World) -> NDArray[np.uint8]:
    """uint8 [18, 18]."""
    codes = np.full((SIDE, SIDE), BEYOND, np.uint8)
    codes[: world.rows + 2, : world.cols + 2] = FRAME
    codes[1 : world.rows + 1, 1 : world.cols + 1] = 0
    for row, col in world.walls:
        codes[row + 1, col + 1] = WALL
    for (row, col), count in world.markers.items():
        codes[row + 1, col + 1] = count
    row, col, heading = world.hero
    codes[row + 1, col + 1] += HERO * (HEADINGS.index(heading) + 1)
    return codes


def worlds_to_codes(worlds: Sequence[World]) -> NDArray[np.uint8]:
    """uint8 [len(worlds), 18, 18]."""
    return np.stack([world_to_codes(world) for world in worlds]) if worlds else np.empty((0, SIDE, SIDE), np.uint8)


def world_from_codes(codes: NDArray[np.uint8]) -> World:
    """The world of uint8 [18, 18] codes; raises WorldError if they are not a world's."""
    codes = np.asarray(codes)
    if codes.shape != (SIDE, SIDE) or codes.dtype.kind not in "iu":
        raise WorldError(
            f"cell codes of a world are integers of shape ({SIDE}, {SIDE}), not {codes.dtype} of shape {codes.shape}"
        )
    content, hero = codes % HERO, codes // HERO
    rows = int(np.argmin(content[1:, 1] < FRAME))
    cols = int(np.argmin(content[1, 1:] < FRAME))
    heroes = np.argwhere(hero > 0)
    if len(heroes) != 1:
        raise WorldError(f"a world has one hero, but these cell codes hold {len(heroes)}")
    (at_row, at_col), heading = heroes[0], int(hero.max()) - 1
    if heading >= len(HEADINGS):
        raise WorldError(f"{codes[at_row, at_col]} is no cell code (row {at_row - 1}, column {at_col - 1})")
    world = World(
        rows,
        cols,
        Hero(int(at_row) - 1, int(at_col) - 1, HEADINGS[heading]),
        frozenset((int(row) - 1, int(col) - 1) for row, col in np.argwhere(content == WALL)),
        {
            (int(row) - 1, int(col) - 1): int(content[row, col])
            for row, col in np.argwhere((content > 0) & (content <= MOST_MARKERS))
        },
    )
    different = np.argwhere(world_to_codes(world) != codes)
    if len(different):
        row, col = different[0]
        raise WorldError(
            f"cell code {codes[row, col]} at row {row - 1}, column {col - 1} fits no {rows} × {cols} world"
        )
    return world


def codes_to_tensor(codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """uint8 [..., 18, 18] to float32 [..., 16, 18, 18]."""
    codes = np.asarray(codes)
    if codes.size and codes.max() >= CODES:
        raise WorldError(f"{codes.max()} is no cell code: they go from 0 to {CODES - 1}")
    return np.ascontiguousarray(np.moveaxis(CODE_PLANES[codes], -1, -3))


def tensor_to_codes(tensor: NDArray[Any]) -> NDArray[np.uint8]:
    """[..., 16, 18, 18] of zeros and ones to uint8 [..., 18, 18]; the inverse of `codes_to_tensor`."""
    tensor = np.asarray(tensor)
    if tensor.shape[-3:] != (PLANES, SIDE, SIDE) or tensor.dtype.kind not in "biuf":
        raise WorldError(
            f"the tensor of a world holds numbers in shape ({PLANES}, {SIDE}, {SIDE}), "
            f"not {tensor.dtype} in shape {tensor.shape}"
        )
    _refuse((tensor != 0) & (tensor != 1), "holds values other than 0 and 1")
    tensor = tensor.astype(np.float32, copy=False)
    values = np.array([HERO * (plane + 1) for plane in range(4)] + [WALL, FRAME] + list(range(1, MOST_MARKERS + 1)))
    codes = np.tensordot(values.astype(np.float32), np.moveaxis(tensor, -3, 0), axes=1)
    # Cells past the frame's last row or column have no plane.
    frame = tensor[..., FRAME_PLANE, :, :] > 0
    inside = frame.max(-1, keepdims=True) & frame.max(-2, keepdims=True)
    codes = np.where(inside, np.minimum(codes, CODES - 1), BEYOND).astype(np.uint8)
    _refuse(np.not_equal(codes_to_tensor(codes), tensor), "has two things on one cell, or something beyond the frame")
    return codes


def _refuse(wrong: NDArray[np.bool_], reason: str) -> None:
    """Raise WorldError for the first plane and cell that are wrong, [..., 16, 18, 18]."""
    if wrong.any():
        *batch, plane, row, col = (int(at) for at in np.argwhere(wrong)[0])
        which = f" {batch}" if batch else ""
        raise WorldError(f"tensor{which} {reason}, first in plane {plane} at row {row - 1}, column {col - 1}")
