"""Completing prefixes of programs, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled
from karelsynth.karel.tokens import CLOSERS, ID, OPENERS, PAD

_IF, _IFELSE, _WHILE, _REPEAT = ID["IF"], ID["IFELSE"], ID["WHILE"], ID["REPEAT"]
_OPEN_I, _CLOSE_I, _OPEN_E = ID["i("], ID["i)"], ID["e("]
_MOVE, _PUT = ID["move"], ID["putMarker"]
_OPENS = np.isin(np.arange(256), [ID[name] for name in OPENERS])
_CLOSES = np.isin(np.arange(256), [ID[name] for name in CLOSERS])
_CLOSER = np.zeros(256, np.uint8)
_CLOSER[[ID[name] for name in OPENERS]] = [ID[name] for name in CLOSERS]


@compiled()
def close_rows(
    prefixes: NDArray[np.uint8], tokens: NDArray[np.uint8], lengths: NDArray[np.int64]
) -> None:  # pragma: no cover - compiled
    """Write padded prefixes [N, L], made whole, to `tokens` [N, 2 L or more], and their lengths; 0 if it cannot be."""
    opened, heads = np.empty(prefixes.shape[1] + 1, np.int64), np.empty(prefixes.shape[1] + 1, np.int64)
    for row in range(len(prefixes)):
        lengths[row] = 0
        length = prefixes.shape[1]
        while length > 0 and prefixes[row, length - 1] == PAD:
            length -= 1
        if length > 1 and prefixes[row, length - 1] == _OPEN_E:
            length -= 2  # an ELSE with nothing in it yet
        if length == 0:
            continue
        last = prefixes[row, length - 1]
        if not (_MOVE <= last <= _PUT or _CLOSES[last]):
            continue  # within a head, or in a block that has no statement yet
        depth, head, ended = 0, 0, -1
        for at in range(length):
            token = prefixes[row, at]
            tokens[row, at] = token
            ended = -1
            if token == _IF or token == _IFELSE or token == _WHILE or token == _REPEAT:
                head = at
            elif _OPENS[token]:
                opened[depth], heads[depth] = token, head
                depth += 1
            elif _CLOSES[token]:
                if depth == 0:  # it closes more than it has opened
                    length = 0
                    break
                depth -= 1
                if token == _CLOSE_I and tokens[row, heads[depth]] == _IFELSE:
                    ended = heads[depth]  # its ELSE is still to come
        if length == 0:
            continue
        if ended >= 0:
            tokens[row, ended] = _IF
        size = length
        while depth > 0:
            depth -= 1
            if opened[depth] == _OPEN_I and tokens[row, heads[depth]] == _IFELSE:
                tokens[row, heads[depth]] = _IF
            tokens[row, size] = _CLOSER[opened[depth]]
            size += 1
        lengths[row] = size
