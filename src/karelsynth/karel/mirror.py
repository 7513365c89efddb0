"""Mirror images of worlds and programs, as arrays.

A program is right on an example if and only if its mirror image, with left and right exchanged, is right on the
example's. So a mirrored task is another view of the same task. `tutor.pose` does the same for single worlds and
programs. Unlike there, turning around stays two turns to the left: that is the normal form, the only one that networks
learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from karelsynth.karel.formats.codes import CODES, FRAME, HERO, SIDE
from karelsynth.karel.tokens import ID, VOCABULARY_SIZE
from karelsynth.karel.world import HEADINGS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEFT: Final = ID["turnLeft"]
_RIGHT: Final = ID["turnRight"]


def _mirrored_tokens() -> NDArray[np.uint8]:
    tokens = np.arange(VOCABULARY_SIZE, dtype=np.uint8)
    for left, right in (("turnLeft", "turnRight"), ("leftIsClear", "rightIsClear")):
        tokens[[ID[left], ID[right]]] = ID[right], ID[left]
    return tokens


def _mirrored_codes() -> NDArray[np.uint8]:
    codes = np.arange(CODES, dtype=np.uint8).reshape(-1, HERO)
    east, west = (1 + HEADINGS.index(heading) for heading in ("east", "west"))
    codes[[east, west]] = codes[[west, east]]
    return codes.ravel()


_TOKENS: Final = _mirrored_tokens()
_CODES: Final = _mirrored_codes()


def mirrored_worlds(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Worlds with east and west exchanged, cell codes [..., 18, 18]."""
    columns = (codes[..., 1, 1:] % HERO == FRAME).argmax(-1)[..., None, None]
    place = np.arange(SIDE)
    source = np.where(place <= columns + 1, columns + 1 - place, place)
    mirrored: NDArray[np.uint8] = _CODES[np.take_along_axis(codes, np.broadcast_to(source, codes.shape), -1)]
    return mirrored


def mirrored_programs(tokens: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Programs [N, L] with left and right exchanged; two turns to the right are written as two to the left."""
    mirrored: NDArray[np.uint8] = _TOKENS[tokens]
    for at in range(mirrored.shape[1] - 1):
        around = (mirrored[:, at] == _RIGHT) & (mirrored[:, at + 1] == _RIGHT)
        mirrored[around, at : at + 2] = _LEFT
    return mirrored
