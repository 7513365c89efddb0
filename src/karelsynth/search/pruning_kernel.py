"""Which of a task's prefixes have the same futures, compiled."""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled, read_only
from karelsynth.karel.tokens import ID, PAD

_IFELSE, _IF = ID["IFELSE"], ID["IF"]
_OPEN_W, _CLOSE_W, _OPEN_R, _CLOSE_R = ID["w("], ID["w)"], ID["r("], ID["r)"]
_OPEN_I, _CLOSE_I, _CLOSE_E = ID["i("], ID["i)"], ID["e)"]
_MOVE, _PUT = ID["move"], ID["putMarker"]
_DEEPEST: Final = 30
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


@compiled()
def _open_branches(tokens: NDArray[np.uint8], row: int, length: int) -> int:  # pragma: no cover - compiled
    """The open IFs and IFELSEs at the end of a prefix as one number, two bits each; -1 if it can not be compared.

    It can not if a loop is open, whose body will run again, or if it ends within a head.
    """
    last = tokens[row, length - 1]
    if not (_MOVE <= last <= _PUT or last == _CLOSE_W or last == _CLOSE_R or last == _CLOSE_I or last == _CLOSE_E):
        return -1
    blocks, depth, loops, kind, before_else = 0, 0, 0, 0, 0
    for at in range(length):
        token = tokens[row, at]
        before_else = 0
        if token == _IF:
            kind = 1
        elif token == _IFELSE:
            kind = 2
        elif token == _OPEN_W or token == _OPEN_R:
            loops += 1
        elif token == _CLOSE_W or token == _CLOSE_R:
            loops -= 1
        elif token == _OPEN_I:
            blocks = blocks << 2 | kind
            depth += 1
        elif token == _CLOSE_I:
            if blocks & 3 == 2:
                blocks += 1  # 3: past its first part
                before_else = 1
            else:
                blocks >>= 2
                depth -= 1
        elif token == _CLOSE_E:
            blocks >>= 2
            depth -= 1
        if depth > _DEEPEST:
            return -1
    return -1 if loops else blocks << 1 | before_else


@compiled(
    types.void(
        types.int64, types.int64, read_only(types.int64, 1), read_only(types.uint8, 2), read_only(types.uint32, 3),
        read_only(types.int16, 2), read_only(types.int16, 2), types.boolean[::1],
    )
)  # fmt: skip
def merge_range(
    first: int,
    last: int,
    offsets: NDArray[np.int64],
    tokens: NDArray[np.uint8],
    worlds: NDArray[np.uint32],
    waits: NDArray[np.int16],
    ticks: NDArray[np.int16],
    alive: NDArray[np.bool_],
) -> None:  # pragma: no cover - compiled
    """Of prefixes with the same futures leave only the likeliest alive, for tasks first … last − 1.

    Args:
        offsets: [T + 1], task t has rows offsets[t] … offsets[t + 1] − 1, the likeliest first.
        tokens: [N, L], prefixes, padded.
        worlds: [N, K, 81], where they lead, the cells four to a word.
        waits, ticks: [N, K], as the machine tells.
        alive: [N], read and written.

    Two prefixes are alike if they have the same branches open and no loop, and every example's world is in the same
    state and waits for the same thing. All that can follow then does the same, except that the one that has used more
    ticks may run out of them first, and the longer one of tokens: so one goes only if the other has used no more of
    either.
    """
    examples, words = worlds.shape[1], worlds.shape[2]
    for task in range(first, last):
        begin, end = offsets[task], offsets[task + 1]
        size = 4
        while size < 2 * (end - begin):
            size *= 2
        table = np.full(size, -1, np.int64)
        shape, long = np.empty(end - begin, np.int64), np.empty(end - begin, np.int64)
        for row in range(begin, end):
            if not alive[row]:
                continue
            length = tokens.shape[1]
            while length > 0 and tokens[row, length - 1] == PAD:
                length -= 1
            branches = _open_branches(tokens, row, length) if length > 0 else -1
            shape[row - begin], long[row - begin] = branches, length
            if branches < 0:
                continue
            code = np.uint64(branches)
            for example in range(examples):
                code = (code ^ np.uint64(waits[row, example] + 1)) * _MIX
                for word in range(words):
                    code = (code ^ np.uint64(worlds[row, example, word])) * _MIX
                    code ^= code >> np.uint64(29)
            slot = np.int64(code >> np.uint64(1)) & (size - 1)
            while table[slot] >= 0:
                other = table[slot]
                same = shape[other - begin] == branches and long[other - begin] <= length
                for example in range(examples):
                    if not same:
                        break
                    same = waits[other, example] == waits[row, example] and ticks[other, example] <= ticks[row, example]
                    word = 0
                    while same and word < words:
                        same = worlds[other, example, word] == worlds[row, example, word]
                        word += 1
                if same:
                    alive[row] = False
                    break
                slot = (slot + 1) & (size - 1)
            if alive[row]:
                table[slot] = row
