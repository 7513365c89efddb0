"""Counting statements, conditions and blocks of programs (Numba): one pass over the tokens with a stack of blocks."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karelsynth.generator.sampler import BODIES, PARENTS, STATEMENTS
from karelsynth.karel.compiled import I64Array, U8Array, compiled
from karelsynth.karel.grammar import CONDITIONS
from karelsynth.karel.tokens import COUNTS, ID

_LONGEST_BODY: Final = 64
_MOVE, _PUT, _REPEAT, _IFELSE, _NOT = ID["move"], ID["putMarker"], ID["REPEAT"], ID["IFELSE"], ID["not"]
_SENSOR, _LAST_SENSOR, _FIRST_CLEAR = ID["markersPresent"], ID["frontIsClear"], ID["leftIsClear"]
_COUNT, _LAST_COUNT = ID[COUNTS[0]], ID[COUNTS[-1]]
_OPEN_M, _OPEN_R, _OPEN_W, _OPEN_I, _OPEN_E = (ID[name] for name in ("m(", "r(", "w(", "i(", "e("))
_CLOSE_M, _CLOSE_R, _CLOSE_W, _CLOSE_I, _CLOSE_E = (ID[name] for name in ("m)", "r)", "w)", "i)", "e)"))
_ACTIONS: Final = 5


class ProgramCounts(NamedTuple):
    """Counts over N programs."""

    children: U8Array
    """[N, 5, 9]: statements by the statement that they are directly in (PARENTS), and by kind (STATEMENTS)."""
    depth: I64Array
    """[N]: control depth."""
    pairs: I64Array
    """[9, 9]: neighbours in a block. This and the following are sums over all programs."""
    alone: I64Array
    """[9]: statements that are the whole body of a control statement."""
    bodies: I64Array
    """[6, 64]: bodies by kind and by number of statements."""
    conditions: I64Array
    """[8]."""
    repeats: I64Array
    """[20]: REPEATs by count."""
    equal_branches: int
    """IFELSEs whose two branches are the same."""

    @property
    def statements(self) -> NDArray[np.int64]:
        """[N, 9]: statements by kind."""
        statements: NDArray[np.int64] = self.children.sum(axis=1, dtype=np.int64)
        return statements


def count_programs(tokens: U8Array) -> ProgramCounts:
    """Count over valid programs, uint8 [N, L], padded with `<pad>`. Conditions are classified as in the normal form."""
    kinds = len(STATEMENTS)
    counts = ProgramCounts(
        np.zeros((len(tokens), len(PARENTS), kinds), np.uint8),
        np.zeros(len(tokens), np.int64), np.zeros((kinds, kinds), np.int64), np.zeros(kinds, np.int64),
        np.zeros((len(BODIES), _LONGEST_BODY), np.int64), np.zeros(len(CONDITIONS), np.int64),
        np.zeros(len(COUNTS), np.int64), 0,
    )  # fmt: skip
    return counts._replace(equal_branches=_count(tokens, *counts[:-1]))


@compiled()
def _count(
    tokens: U8Array,
    children: U8Array,
    depths: I64Array,
    pairs: I64Array,
    alone: I64Array,
    bodies: I64Array,
    conditions: I64Array,
    repeats: I64Array,
) -> int:
    """Fill the arrays of ProgramCounts; returns the number of IFELSEs with equal branches."""
    width = tokens.shape[1]
    # For each open block: which body, statements so far, kind of the last one, kind of the statement it belongs to,
    # its first token; `branch` remembers where a then-block lay until its else-block is done.
    body = np.zeros(width + 1, np.int64)
    size = np.zeros(width + 1, np.int64)
    last = np.zeros(width + 1, np.int64)
    begin = np.zeros(width + 1, np.int64)
    branch = np.zeros((width + 1, 2), np.int64)
    equal = 0
    for program in range(len(tokens)):
        row = tokens[program]
        depth, deepest, pending, negated = -1, 0, 0, False
        for at in range(width):
            token = row[at]
            kind = -1
            if _MOVE <= token <= _PUT:
                kind = token - _MOVE
            elif _REPEAT <= token <= _IFELSE:
                kind = token - _REPEAT + _ACTIONS
                pending = kind
            if kind >= 0:
                children[program, min(body[depth], 4), kind] += 1
                if size[depth] > 0:
                    pairs[last[depth], kind] += 1
                size[depth] += 1
                last[depth] = kind
            elif token == _NOT:
                negated = not negated
            elif _SENSOR <= token <= _LAST_SENSOR:
                if not negated:
                    conditions[token - _SENSOR] += 1
                elif token >= _FIRST_CLEAR:
                    conditions[token - _FIRST_CLEAR + 5] += 1
                else:  # the two tests of markers are each other's negation
                    conditions[_FIRST_CLEAR - 1 - token] += 1
                negated = False
            elif _COUNT <= token <= _LAST_COUNT:
                repeats[token - _COUNT] += 1
            elif token == _OPEN_M or token == _OPEN_R or token == _OPEN_W or token == _OPEN_I or token == _OPEN_E:
                depth += 1
                deepest = max(deepest, depth)
                if token == _OPEN_M:
                    body[depth] = 0
                elif token == _OPEN_E:
                    body[depth] = 5
                else:
                    body[depth] = pending - _ACTIONS + 1
                size[depth], begin[depth] = 0, at + 1
            elif token == _CLOSE_M or token == _CLOSE_R or token == _CLOSE_W or token == _CLOSE_I or token == _CLOSE_E:
                bodies[body[depth], min(size[depth], _LONGEST_BODY - 1)] += 1
                if size[depth] == 1 and depth > 0:
                    alone[last[depth]] += 1
                if token == _CLOSE_I:
                    branch[depth, 0], branch[depth, 1] = begin[depth], at
                elif token == _CLOSE_E:
                    length = branch[depth, 1] - branch[depth, 0]
                    if at - begin[depth] == length:
                        same = True
                        for offset in range(length):
                            same &= row[branch[depth, 0] + offset] == row[begin[depth] + offset]
                        equal += same
                elif token == _CLOSE_M:
                    depths[program] = deepest
                    break
                depth -= 1
    return equal
