"""Changes of programs that a Markov chain proposes (Numba).

Each change has one that undoes it; `propose` returns the logarithm of how much likelier the way back is than the way
there, so that a chain can be kept in balance. New statements are drawn as the generator would draw them in their place.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.generator.edit_kernel import CLOSES, FIRST_ACTION, LAST_ACTION, OPENS, structure
from karelsynth.generator.program_kernel import (
    AT,
    BODY,
    DEPTH,
    ELSE_BODY,
    END,
    LONGEST_BLOCK,
    PREVIOUS,
    SIBLINGS,
    SURVEYED,
    block_log_probability,
    body_of,
    condition_at,
    draw_block,
    size_log_probability,
    statement_count,
    survey,
    write_condition,
)
from karelsynth.generator.random_kernel import choose, draw, signed, uniform
from karelsynth.generator.sampler import CONDITION_ROW, COUNT_ROW, LEVELS, SLOTS, Sampler
from karelsynth.karel.compiled import compiled
from karelsynth.karel.machine_kernel import IF, IFELSE, REPEAT, WHILE
from karelsynth.karel.tokens import COUNTS, ID

REPLACE, INSERT, DELETE, RETEST, SWAP, WRAP, UNWRAP, RENAME, ADD_ELSE, DROP_ELSE, REDRAW = range(11)
"""A statement becomes another, is put in, is left out; another condition or count; two neighbours change places; up to
three statements are put into a loop or an IF, and out of one; IF and WHILE; IF and IFELSE; a body is drawn anew."""
MOVES: Final = 11
_LONGEST_WRAP: Final = 3
_FIRST_COUNT = ID[COUNTS[2]]
_OPEN_C, _CLOSE_C, _OPEN_R, _CLOSE_R = (ID[name] for name in ("c(", "c)", "r(", "r)"))
_OPEN_W, _CLOSE_W, _OPEN_I, _CLOSE_I = (ID[name] for name in ("w(", "w)", "i(", "i)"))
_ELSE, _OPEN_E, _CLOSE_E = (ID[name] for name in ("ELSE", "e(", "e)"))


@compiled()
def _copy(tokens: NDArray[np.uint8], first: int, last: int, out: NDArray[np.uint8], size: int) -> int:
    """Append tokens[first : last] to `out`; returns the size then, or -1 if there is no room."""
    if size < 0 or size + last - first > LONGEST_BLOCK:
        return -1
    for place in range(first, last):
        out[size] = tokens[place]
        size += 1
    return size


@compiled()
def _whole_body(
    tokens: NDArray[np.uint8],
    ends: NDArray[np.int64],
    opens: NDArray[np.int64],
    elses: NDArray[np.int64],
    at: int,
    stop: int,
    body: int,
    depth: int,
    logs: NDArray[np.float64],
) -> float:  # pragma: no cover - compiled
    """The logarithm of the chance that `draw_block` draws a whole body."""
    count = statement_count(ends, at, stop)
    chance = block_log_probability(tokens, ends, opens, elses, at, stop, body, depth, 0, count == 1, False, logs)[0]
    total: float = chance + size_log_probability(logs, body, count)
    return total


@compiled()
def propose(
    state: NDArray[np.uint64],
    sampler: Sampler,
    logs: NDArray[np.float64],
    tokens: NDArray[np.uint8],
    length: int,
    parts: NDArray[np.int64],
    statements: NDArray[np.int64],
    gaps: NDArray[np.int64],
    out: NDArray[np.uint8],
    new_parts: NDArray[np.int64],
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Change a program at random.

    Args:
        tokens, length: the program; `parts` [3, BLOCK_TOKENS + 1], its `structure`: ends, opens, elses.
        statements, gaps: scratch space, [BLOCK_TOKENS, SURVEYED] and [2 · BLOCK_TOKENS, SURVEYED].
        out: gets the changed program [BLOCK_TOKENS], and `new_parts` its structure.

    Returns its length, 0 if this change does not apply, and log(chance of the way back / chance of the way there).
    """
    ends, opens, elses = parts[0], parts[1], parts[2]
    count, places = survey(tokens, length, ends, opens, elses, statements, gaps)
    move = int(uniform(state) * MOVES)
    ratio = 0.0
    if move == INSERT:
        gap = gaps[int(uniform(state) * places)]
        at, body, depth, before = gap[AT], gap[BODY], gap[DEPTH], gap[PREVIOUS]
        size = draw_block(state, sampler, body, depth, before, 1, out, _copy(tokens, 0, at, out, 0))
        middle = size
        size = _copy(tokens, at, length, out, size)
        if size < 0:
            return 0, 0.0
        structure(out, size, new_parts[0], new_parts[1], new_parts[2])
        ratio -= block_log_probability(
            out, new_parts[0], new_parts[1], new_parts[2], at, middle, body, depth, before, False, False, logs
        )[0]
        ratio += np.log(places / (count + _inside(out, at, middle)))
        return size, ratio
    chosen = statements[int(uniform(state) * count)]
    at, end, body, depth, before = chosen[AT], chosen[END], chosen[BODY], chosen[DEPTH], chosen[PREVIOUS]
    token = tokens[at]
    control = not FIRST_ACTION <= token <= LAST_ACTION
    size = _copy(tokens, 0, at, out, 0)
    close = elses[at] - 1 if elses[at] > 0 else end - 1
    if move == REPLACE:
        size = draw_block(state, sampler, body, depth, before, 1, out, size)
        middle = size
        size = _copy(tokens, end, length, out, size)
        if size < 0:
            return 0, 0.0
        structure(out, size, new_parts[0], new_parts[1], new_parts[2])
        ratio += block_log_probability(tokens, ends, opens, elses, at, end, body, depth, before, False, False, logs)[0]
        ratio -= block_log_probability(
            out, new_parts[0], new_parts[1], new_parts[2], at, middle, body, depth, before, False, False, logs
        )[0]
        now = count - _inside(tokens, at, end) + _inside(out, at, middle)
        return size, ratio + np.log(count / now)
    if move == DELETE:
        if chosen[SIBLINGS] < 2:
            return 0, 0.0
        size = _copy(tokens, end, length, out, size)
        ratio += block_log_probability(tokens, ends, opens, elses, at, end, body, depth, before, False, False, logs)[0]
        structure(out, size, new_parts[0], new_parts[1], new_parts[2])
        _, left = survey(out, size, new_parts[0], new_parts[1], new_parts[2], statements, gaps)
        return size, ratio + np.log(count / left)
    if move == SWAP:
        last = ends[end]
        if last == 0:
            return 0, 0.0
        size = _copy(tokens, end, last, out, size)
        size = _copy(tokens, at, end, out, size)
        size = _copy(tokens, last, length, out, size)
    elif move == WRAP:
        run = 1 + int(uniform(state) * _LONGEST_WRAP)
        last = end
        for _ in range(run - 1):
            if ends[last] == 0:
                return 0, 0.0
            last = ends[last]
        kind = int(uniform(state) * 3)
        if depth + 1 + _height(tokens, at, last) >= LEVELS:  # as deep as no program is drawn
            return 0, 0.0
        if kind == 0:
            times = signed(choose(sampler, COUNT_ROW, draw(state)))
            ratio -= logs[COUNT_ROW * SLOTS + times]
            out[size], out[size + 1], out[size + 2] = REPEAT, _FIRST_COUNT + times, _OPEN_R
            size = _copy(tokens, at, last, out, size + 3)
        else:
            condition = signed(choose(sampler, CONDITION_ROW, draw(state)))
            ratio -= logs[CONDITION_ROW * SLOTS + condition]
            out[size], out[size + 1] = WHILE if kind == 1 else IF, _OPEN_C
            size = write_condition(condition, out, size + 2)
            out[size], out[size + 1] = _CLOSE_C, _OPEN_W if kind == 1 else _OPEN_I
            size = _copy(tokens, at, last, out, size + 2)
        if size < 0:
            return 0, 0.0
        out[size] = _CLOSE_R if kind == 0 else _CLOSE_W if kind == 1 else _CLOSE_I
        size = _copy(tokens, last, length, out, size + 1)
        ratio += np.log(3 * _LONGEST_WRAP * count / (count + 1))
    elif not control:
        return 0, 0.0
    elif move == UNWRAP:
        if token == IFELSE:
            return 0, 0.0
        run, place = 0, opens[at] + 1
        while place < close:
            place = ends[place]
            run += 1
        if run > _LONGEST_WRAP:
            return 0, 0.0
        if token == REPEAT:
            ratio += logs[COUNT_ROW * SLOTS + signed(tokens[at + 1]) - _FIRST_COUNT]
        else:
            ratio += logs[CONDITION_ROW * SLOTS + condition_at(tokens, at + 2)]
        size = _copy(tokens, opens[at] + 1, close, out, size)
        size = _copy(tokens, end, length, out, size)
        ratio += np.log(count / ((count - 1) * 3 * _LONGEST_WRAP))
    elif move == RETEST:
        if token == REPEAT:
            times = signed(choose(sampler, COUNT_ROW, draw(state)))
            ratio = logs[COUNT_ROW * SLOTS + signed(tokens[at + 1]) - _FIRST_COUNT] - logs[COUNT_ROW * SLOTS + times]
            size = _copy(tokens, at, length, out, size)
            out[at + 1] = _FIRST_COUNT + times
        else:
            condition = signed(choose(sampler, CONDITION_ROW, draw(state)))
            ratio = logs[CONDITION_ROW * SLOTS + condition_at(tokens, at + 2)]
            ratio -= logs[CONDITION_ROW * SLOTS + condition]
            size = write_condition(condition, out, _copy(tokens, at, at + 2, out, size))
            size = _copy(tokens, opens[at] - 1, length, out, size)
    elif move == RENAME:
        if token != IF and token != WHILE:
            return 0, 0.0
        size = _copy(tokens, at, length, out, size)
        loop = token == IF
        out[at], out[opens[at]], out[end - 1] = (
            WHILE if loop else IF,
            _OPEN_W if loop else _OPEN_I,
            _CLOSE_W if loop else _CLOSE_I,
        )
    elif move == ADD_ELSE:
        if token != IF:
            return 0, 0.0
        size = _copy(tokens, at, end, out, size)
        if size < 0:
            return 0, 0.0
        out[at] = IFELSE
        out[size], out[size + 1] = _ELSE, _OPEN_E
        first = size + 2
        size = draw_block(state, sampler, ELSE_BODY, depth + 1, 0, 0, out, first)
        if size < 0:
            return 0, 0.0
        middle = size
        out[size] = _CLOSE_E
        size = _copy(tokens, end, length, out, size + 1)
        if size < 0:
            return 0, 0.0
        structure(out, size, new_parts[0], new_parts[1], new_parts[2])
        ratio -= _whole_body(out, new_parts[0], new_parts[1], new_parts[2], first, middle, ELSE_BODY, depth + 1, logs)
        return size, ratio + np.log(count / (count + _inside(out, first, middle)))
    elif move == DROP_ELSE:
        if token != IFELSE:
            return 0, 0.0
        size = _copy(tokens, at, close + 1, out, size)
        out[at] = IF
        size = _copy(tokens, end, length, out, size)
        first = elses[at] + 2
        ratio += _whole_body(tokens, ends, opens, elses, first, end - 1, ELSE_BODY, depth + 1, logs)
        ratio += np.log(count / (count - _inside(tokens, first, end - 1)))
    else:  # REDRAW
        if token == IFELSE and uniform(state) < 0.5:
            first, stop, inner = elses[at] + 2, end - 1, ELSE_BODY
        else:
            first, stop = opens[at] + 1, close
            inner = body_of(token)
        size = draw_block(state, sampler, inner, depth + 1, 0, 0, out, _copy(tokens, at, first, out, size))
        if size < 0:
            return 0, 0.0
        middle = size
        size = _copy(tokens, stop, length, out, size)
        if size < 0:
            return 0, 0.0
        structure(out, size, new_parts[0], new_parts[1], new_parts[2])
        ratio += _whole_body(tokens, ends, opens, elses, first, stop, inner, depth + 1, logs)
        ratio -= _whole_body(out, new_parts[0], new_parts[1], new_parts[2], first, middle, inner, depth + 1, logs)
        now = count - _inside(tokens, first, stop) + _inside(out, first, middle)
        return size, ratio + np.log(count / now)
    if size < 0:
        return 0, 0.0
    structure(out, size, new_parts[0], new_parts[1], new_parts[2])
    return size, ratio


@compiled()
def _height(tokens: NDArray[np.uint8], first: int, last: int) -> int:  # pragma: no cover - compiled
    """How many blocks are open at once in tokens[first : last], at most."""
    height, most = 0, 0
    for place in range(first, last):
        height += signed(OPENS[tokens[place]]) - signed(CLOSES[tokens[place]])
        most = max(most, height)
    return most


@compiled()
def _inside(tokens: NDArray[np.uint8], first: int, last: int) -> int:  # pragma: no cover - compiled
    """How many statements begin in tokens[first : last]."""
    count = 0
    for place in range(first, last):
        token = tokens[place]
        count += (FIRST_ACTION <= token <= LAST_ACTION) or REPEAT <= token <= IFELSE
    return count


assert SURVEYED == SIBLINGS + 1
assert tuple(range(REPEAT, REPEAT + 4)) == (REPEAT, WHILE, IF, IFELSE)
