"""The structure of token rows, for compiled code: statements of whole programs, open blocks of prefixes.

Both functions make one pass over the tokens. They do not check syntax; `machine_kernel.compile_program` does.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled
from karelsynth.karel.tokens import ACTIONS, CLOSERS, ID, OPENERS

FIRST_ACTION, LAST_ACTION = ID["move"], ID["putMarker"]
"""The ids between them are actions, too."""
BEGINS: Final = np.isin(np.arange(256), [ID[name] for name in (*ACTIONS, "WHILE", "IF", "IFELSE", "REPEAT")])
"""bool [256], by token id: the token begins a statement."""
OPENS: Final = np.isin(np.arange(256), [ID[name] for name in OPENERS])
"""bool [256]: the token begins a block."""
CLOSES: Final = np.isin(np.arange(256), [ID[name] for name in CLOSERS])
"""bool [256]: the token ends a block."""
_IF, _IFELSE, _ELSE = ID["IF"], ID["IFELSE"], ID["ELSE"]
_OPEN_W, _OPEN_R, _OPEN_I, _OPEN_E = ID["w("], ID["r("], ID["i("], ID["e("]
_CLOSE_W, _CLOSE_R, _CLOSE_I, _CLOSE_E = ID["w)"], ID["r)"], ID["i)"], ID["e)"]


@compiled()
def structure(
    tokens: NDArray[np.uint8], length: int, ends: NDArray[np.int64], opens: NDArray[np.int64], elses: NDArray[np.int64]
) -> None:  # pragma: no cover - compiled
    """Find the statements of a program.

    At the index of each statement's first token, `ends` gets the index after the statement, `opens` the index of its
    `w(`, `r(` or `i(`, and `elses` the index of its ELSE. All other entries are 0.
    """
    stack = np.empty(length + 1, np.int64)
    depth = 0
    for at in range(length):
        ends[at], opens[at], elses[at] = 0, 0, 0
    for at in range(3, length - 1):
        token = tokens[at]
        if FIRST_ACTION <= token <= LAST_ACTION:
            ends[at] = at + 1
        elif BEGINS[token]:
            stack[depth] = at
            depth += 1
        elif token == _ELSE:
            elses[stack[depth - 1]] = at
        elif OPENS[token]:
            if elses[stack[depth - 1]] == 0:
                opens[stack[depth - 1]] = at
        elif CLOSES[token]:
            begin = stack[depth - 1]
            if tokens[begin] != _IFELSE or elses[begin] > 0:
                ends[begin] = at + 1
                depth -= 1


@compiled()
def open_blocks(tokens: NDArray[np.uint8], closing: NDArray[np.uint8]) -> int:  # pragma: no cover - compiled
    """The number of open blocks at the end of tokens [L]; an IFELSE counts as one, open from `i(` to `e)`.

    Writes the token that closes each to `closing` [L + 1], 0 for an IFELSE whose ELSE has not begun.
    """
    depth, kind = 0, 0
    for token in tokens:
        if token == _IF or token == _IFELSE:
            kind = token
        elif token == _OPEN_W or token == _OPEN_R or token == _OPEN_I:
            if token == _OPEN_I:
                closing[depth] = 0 if kind == _IFELSE else _CLOSE_I
            else:
                closing[depth] = _CLOSE_W if token == _OPEN_W else _CLOSE_R
            depth += 1
        elif token == _OPEN_E and depth > 0:
            closing[depth - 1] = _CLOSE_E
        elif token == _CLOSE_I and depth > 0 and closing[depth - 1] == 0:
            continue  # its ELSE is still to come
        elif token == _CLOSE_W or token == _CLOSE_R or token == _CLOSE_I or token == _CLOSE_E:
            depth = max(0, depth - 1)
    return depth
