"""Proposals of the Markov chain: random changes of programs (Numba).

Each kind of change has one that undoes it. `propose` returns the logarithm of the Hastings ratio: the probability of
the reverse proposal over that of the proposal. New statements are drawn from the generator's distribution in their
place.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

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
from karelsynth.karel.structure_kernel import CLOSES, FIRST_ACTION, LAST_ACTION, OPENS, structure
from karelsynth.karel.tokens import COUNTS, ID

REPLACE, INSERT, DELETE, RETEST, SWAP, WRAP, UNWRAP, RENAME, ADD_ELSE, DROP_ELSE, REDRAW = range(11)
KINDS: Final = 11
_LONGEST_WRAP: Final = 3
"""Statements that are wrapped at a time."""
_WRAPPERS: Final = 3
"""REPEAT, WHILE and IF."""
_FIRST_COUNT = ID[COUNTS[2]]
_OPEN_C, _CLOSE_C, _OPEN_R, _CLOSE_R = (ID[name] for name in ("c(", "c)", "r(", "r)"))
_OPEN_W, _CLOSE_W, _OPEN_I, _CLOSE_I = (ID[name] for name in ("w(", "w)", "i(", "i)"))
_ELSE, _OPEN_E, _CLOSE_E = (ID[name] for name in ("ELSE", "e(", "e)"))
assert tuple(range(REPEAT, REPEAT + 4)) == (REPEAT, WHILE, IF, IFELSE)
assert SURVEYED == SIBLINGS + 1


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

    Returns the new length, or 0 if the change does not apply, and the log of the Hastings ratio.
    """
    count, places = survey(tokens, length, parts[0], parts[1], parts[2], statements, gaps)
    kind = int(uniform(state) * KINDS)
    size, ratio = 0, 0.0
    if kind == INSERT:
        gap = gaps[int(uniform(state) * places)]
        size, ratio = _insert(state, sampler, logs, tokens, parts, length, gap, count, places, out, new_parts)
    else:
        chosen = statements[int(uniform(state) * count)]
        control = not FIRST_ACTION <= tokens[chosen[AT]] <= LAST_ACTION
        if kind == REPLACE:
            size, ratio = _replace(state, sampler, logs, tokens, parts, length, chosen, count, out, new_parts)
        elif kind == DELETE:
            size, ratio = _delete(logs, tokens, parts, length, chosen, out, new_parts)
            if size > 0:
                _, left = survey(out, size, new_parts[0], new_parts[1], new_parts[2], statements, gaps)
                ratio += np.log(count / left)
        elif kind == SWAP:
            size, ratio = _swap(tokens, parts, length, chosen, out, new_parts)
        elif kind == WRAP:
            size, ratio = _wrap(state, sampler, logs, tokens, parts, length, chosen, count, out, new_parts)
        elif control and kind == UNWRAP:
            size, ratio = _unwrap(logs, tokens, parts, length, chosen, count, out, new_parts)
        elif control and kind == RETEST:
            size, ratio = _retest(state, sampler, logs, tokens, parts, length, chosen, out, new_parts)
        elif control and kind == RENAME:
            size, ratio = _rename(tokens, parts, length, chosen, out, new_parts)
        elif control and kind == ADD_ELSE:
            size, ratio = _add_else(state, sampler, logs, tokens, parts, length, chosen, count, out, new_parts)
        elif control and kind == DROP_ELSE:
            size, ratio = _drop_else(logs, tokens, parts, length, chosen, count, out, new_parts)
        elif control:
            size, ratio = _redraw(state, sampler, logs, tokens, parts, length, chosen, count, out, new_parts)
    return size, ratio


# The functions below are inlined into `propose`: Numba counts references to the arrays of a call, which would cost as
# much as the proposal.


@compiled(inline="always")
def _copy(
    tokens: NDArray[np.uint8], first: int, last: int, out: NDArray[np.uint8], size: int
) -> int:  # pragma: no cover - compiled
    """Append tokens[first : last] to out[:size]; returns the new size, or -1 if there is no room."""
    if size < 0 or size + last - first > LONGEST_BLOCK:
        return -1
    for place in range(first, last):
        out[size] = tokens[place]
        size += 1
    return size


@compiled(inline="always")
def _finish(
    tokens: NDArray[np.uint8], first: int, length: int, out: NDArray[np.uint8], new_parts: NDArray[np.int64], size: int
) -> int:  # pragma: no cover - compiled
    """Append tokens[first : length] to out[:size] and parse the result; returns its length, or 0 without room."""
    size = _copy(tokens, first, length, out, size)
    if size < 0:
        return 0
    structure(out, size, new_parts[0], new_parts[1], new_parts[2])
    return size


@compiled(inline="always")
def _first_close(parts: NDArray[np.int64], at: int) -> int:  # pragma: no cover - compiled
    """Where the first body of the control statement at `at` closes."""
    return int(parts[2][at] - 1 if parts[2][at] > 0 else parts[0][at] - 1)


@compiled(inline="always")
def _one_statement(
    logs: NDArray[np.float64],
    tokens: NDArray[np.uint8],
    parts: NDArray[np.int64],
    at: int,
    end: int,
    place: NDArray[np.int64],
) -> float:  # pragma: no cover - compiled
    """The log-probability that `draw_block` draws the statement tokens[at : end] in a place of the survey."""
    found: float = block_log_probability(
        tokens, parts[0], parts[1], parts[2], at, end, place[BODY], place[DEPTH],
        place[PREVIOUS], False, False, logs,
    )[0]  # fmt: skip
    return found


@compiled(inline="always")
def _whole_body(
    logs: NDArray[np.float64],
    tokens: NDArray[np.uint8],
    parts: NDArray[np.int64],
    at: int,
    stop: int,
    body: int,
    depth: int,
) -> float:  # pragma: no cover - compiled
    """The log-probability that `draw_block` draws the whole body tokens[at : stop]."""
    count = statement_count(parts[0], at, stop)
    found: float = block_log_probability(
        tokens, parts[0], parts[1], parts[2], at, stop, body, depth, 0, count == 1, False,
        logs,
    )[0]  # fmt: skip
    found += size_log_probability(logs, body, count)
    return found


@compiled(inline="always")
def _height(tokens: NDArray[np.uint8], first: int, last: int) -> int:  # pragma: no cover - compiled
    """The depth of the deepest block in tokens[first : last]."""
    height, most = 0, 0
    for place in range(first, last):
        height += signed(OPENS[tokens[place]]) - signed(CLOSES[tokens[place]])
        most = max(most, height)
    return most


@compiled(inline="always")
def _inside(tokens: NDArray[np.uint8], first: int, last: int) -> int:  # pragma: no cover - compiled
    """The number of statements in tokens[first : last], nested ones too."""
    count = 0
    for place in range(first, last):
        token = tokens[place]
        count += (FIRST_ACTION <= token <= LAST_ACTION) or REPEAT <= token <= IFELSE
    return count


@compiled(inline="always")
def _insert(
    state: NDArray[np.uint64],
    sampler: Sampler,
    logs: NDArray[np.float64],
    tokens: NDArray[np.uint8],
    parts: NDArray[np.int64],
    length: int,
    gap: NDArray[np.int64],
    count: int,
    gaps: int,
    out: NDArray[np.uint8],
    new_parts: NDArray[np.int64],
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Insert a new statement."""
    at = gap[AT]
    size = _copy(tokens, 0, at, out, 0)
    middle = draw_block(state, sampler, gap[BODY], gap[DEPTH], gap[PREVIOUS], 1, out, size)
    size = _finish(tokens, at, length, out, new_parts, middle)
    if size == 0:
        return 0, 0.0
    ratio = np.log(gaps / (count + _inside(out, at, middle)))
    return size, ratio - _one_statement(logs, out, new_parts, at, middle, gap)


@compiled(inline="always")
def _replace(
    state: NDArray[np.uint64],
    sampler: Sampler,
    logs: NDArray[np.float64],
    tokens: NDArray[np.uint8],
    parts: NDArray[np.int64],
    length: int,
    chosen: NDArray[np.int64],
    count: int,
    out: NDArray[np.uint8],
    new_parts: NDArray[np.int64],
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Replace a statement by a new one."""
    at, end = chosen[AT], chosen[END]
    size = _copy(tokens, 0, at, out, 0)
    middle = draw_block(state, sampler, chosen[BODY], chosen[DEPTH], chosen[PREVIOUS], 1, out, size)
    size = _finish(tokens, end, length, out, new_parts, middle)
    if size == 0:
        return 0, 0.0
    ratio = _one_statement(logs, tokens, parts, at, end, chosen) - _one_statement(
        logs, out, new_parts, at, middle, chosen
    )
    now = count - _inside(tokens, at, end) + _inside(out, at, middle)
    return size, ratio + np.log(count / now)


@compiled(inline="always")
def _delete(
    logs: NDArray[np.float64],
    tokens: NDArray[np.uint8],
    parts: NDArray[np.int64],
    length: int,
    chosen: NDArray[np.int64],
    out: NDArray[np.uint8],
    new_parts: NDArray[np.int64],
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Delete a statement that is not the only one of its body; `propose` completes the ratio."""
    if chosen[SIBLINGS] < 2:
        return 0, 0.0
    at, end = chosen[AT], chosen[END]
    ratio = _one_statement(logs, tokens, parts, at, end, chosen)
    size = _finish(tokens, end, length, out, new_parts, _copy(tokens, 0, at, out, 0))
    return size, ratio


@compiled(inline="always")
def _swap(
    tokens: NDArray[np.uint8],
    parts: NDArray[np.int64],
    length: int,
    chosen: NDArray[np.int64],
    out: NDArray[np.uint8],
    new_parts: NDArray[np.int64],
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Swap a statement with the next one of its body."""
    at, end = chosen[AT], chosen[END]
    last = parts[0][end]
    if last == 0:
        return 0, 0.0
    size = _copy(tokens, end, last, out, _copy(tokens, 0, at, out, 0))
    return _finish(tokens, last, length, out, new_parts, _copy(tokens, at, end, out, size)), 0.0


@compiled(inline="always")
def _wrap(
    state: NDArray[np.uint64],
    sampler: Sampler,
    logs: NDArray[np.float64],
    tokens: NDArray[np.uint8],
    parts: NDArray[np.int64],
    length: int,
    chosen: NDArray[np.int64],
    count: int,
    out: NDArray[np.uint8],
    new_parts: NDArray[np.int64],
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Wrap up to three statements in a REPEAT, a WHILE or an IF."""
    at, last = chosen[AT], chosen[END]
    for _ in range(int(uniform(state) * _LONGEST_WRAP)):
        if parts[0][last] == 0:
            return 0, 0.0
        last = parts[0][last]
    wrapper = REPEAT + int(uniform(state) * _WRAPPERS)
    if chosen[DEPTH] + 1 + _height(tokens, at, last) >= LEVELS:  # deeper than the generator goes
        return 0, 0.0
    size = _copy(tokens, 0, at, out, 0)
    out[size] = wrapper
    if wrapper == REPEAT:
        times = signed(choose(sampler, COUNT_ROW, draw(state)))
        ratio = -logs[COUNT_ROW * SLOTS + times]
        out[size + 1], out[size + 2] = _FIRST_COUNT + times, _OPEN_R
        size += 3
    else:
        condition = signed(choose(sampler, CONDITION_ROW, draw(state)))
        ratio = -logs[CONDITION_ROW * SLOTS + condition]
        out[size + 1] = _OPEN_C
        size = write_condition(condition, out, size + 2)
        out[size], out[size + 1] = _CLOSE_C, _OPEN_W if wrapper == WHILE else _OPEN_I
        size += 2
    size = _copy(tokens, at, last, out, size)
    if size < 0:
        return 0, 0.0
    out[size] = _CLOSE_R if wrapper == REPEAT else _CLOSE_W if wrapper == WHILE else _CLOSE_I
    size = _finish(tokens, last, length, out, new_parts, size + 1)
    return size, ratio + np.log(_WRAPPERS * _LONGEST_WRAP * count / (count + 1))


@compiled(inline="always")
def _unwrap(
    logs: NDArray[np.float64],
    tokens: NDArray[np.uint8],
    parts: NDArray[np.int64],
    length: int,
    chosen: NDArray[np.int64],
    count: int,
    out: NDArray[np.uint8],
    new_parts: NDArray[np.int64],
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Replace a REPEAT, a WHILE or an IF by its body of up to three statements."""
    at, first = chosen[AT], parts[1][chosen[AT]] + 1
    close = _first_close(parts, at)
    if tokens[at] == IFELSE or statement_count(parts[0], first, close) > _LONGEST_WRAP:
        return 0, 0.0
    size = _copy(tokens, first, close, out, _copy(tokens, 0, at, out, 0))
    size = _finish(tokens, chosen[END], length, out, new_parts, size)
    ratio = _test_log_probability(logs, tokens, at)
    return size, ratio + np.log(count / ((count - 1) * _WRAPPERS * _LONGEST_WRAP))


@compiled(inline="always")
def _test_log_probability(
    logs: NDArray[np.float64], tokens: NDArray[np.uint8], at: int
) -> float:  # pragma: no cover - compiled
    """The log-probability that the generator draws the count or condition of the control statement at `at`."""
    if tokens[at] == REPEAT:
        found: float = logs[COUNT_ROW * SLOTS + signed(tokens[at + 1]) - _FIRST_COUNT]
    else:
        found = logs[CONDITION_ROW * SLOTS + condition_at(tokens, at + 2)]
    return found


@compiled(inline="always")
def _retest(
    state: NDArray[np.uint64],
    sampler: Sampler,
    logs: NDArray[np.float64],
    tokens: NDArray[np.uint8],
    parts: NDArray[np.int64],
    length: int,
    chosen: NDArray[np.int64],
    out: NDArray[np.uint8],
    new_parts: NDArray[np.int64],
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Draw a new count or condition for a control statement."""
    at = chosen[AT]
    ratio = _test_log_probability(logs, tokens, at)
    if tokens[at] == REPEAT:
        times = signed(choose(sampler, COUNT_ROW, draw(state)))
        size = _copy(tokens, 0, at + 1, out, 0)
        out[size] = _FIRST_COUNT + times
        size = _finish(tokens, at + 2, length, out, new_parts, size + 1)
        return size, ratio - logs[COUNT_ROW * SLOTS + times]
    condition = signed(choose(sampler, CONDITION_ROW, draw(state)))
    size = write_condition(condition, out, _copy(tokens, 0, at + 2, out, 0))
    size = _finish(tokens, parts[1][at] - 1, length, out, new_parts, size)
    return size, ratio - logs[CONDITION_ROW * SLOTS + condition]


@compiled(inline="always")
def _rename(
    tokens: NDArray[np.uint8],
    parts: NDArray[np.int64],
    length: int,
    chosen: NDArray[np.int64],
    out: NDArray[np.uint8],
    new_parts: NDArray[np.int64],
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Make an IF a WHILE, or the reverse."""
    at = chosen[AT]
    if tokens[at] != IF and tokens[at] != WHILE:
        return 0, 0.0
    loop = tokens[at] == IF
    size = _copy(tokens, 0, length, out, 0)
    if size < 0:
        return 0, 0.0
    out[at], out[parts[1][at]] = WHILE if loop else IF, _OPEN_W if loop else _OPEN_I
    out[chosen[END] - 1] = _CLOSE_W if loop else _CLOSE_I
    structure(out, size, new_parts[0], new_parts[1], new_parts[2])
    return size, 0.0


@compiled(inline="always")
def _add_else(
    state: NDArray[np.uint64],
    sampler: Sampler,
    logs: NDArray[np.float64],
    tokens: NDArray[np.uint8],
    parts: NDArray[np.int64],
    length: int,
    chosen: NDArray[np.int64],
    count: int,
    out: NDArray[np.uint8],
    new_parts: NDArray[np.int64],
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Make an IF an IFELSE with a new body."""
    at, end, depth = chosen[AT], chosen[END], chosen[DEPTH] + 1
    size = _copy(tokens, 0, end, out, 0)
    if tokens[at] != IF or size < 0:
        return 0, 0.0
    out[at], out[size], out[size + 1] = IFELSE, _ELSE, _OPEN_E
    first = size + 2
    middle = draw_block(state, sampler, ELSE_BODY, depth, 0, 0, out, first)
    if middle < 0:
        return 0, 0.0
    out[middle] = _CLOSE_E
    size = _finish(tokens, end, length, out, new_parts, middle + 1)
    if size == 0:
        return 0, 0.0
    ratio = np.log(count / (count + _inside(out, first, middle)))
    return size, ratio - _whole_body(logs, out, new_parts, first, middle, ELSE_BODY, depth)


@compiled(inline="always")
def _drop_else(
    logs: NDArray[np.float64],
    tokens: NDArray[np.uint8],
    parts: NDArray[np.int64],
    length: int,
    chosen: NDArray[np.int64],
    count: int,
    out: NDArray[np.uint8],
    new_parts: NDArray[np.int64],
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Make an IFELSE an IF without its second body."""
    at, end = chosen[AT], chosen[END]
    if tokens[at] != IFELSE:
        return 0, 0.0
    size = _copy(tokens, 0, parts[2][at], out, 0)
    out[at] = IF
    size = _finish(tokens, end, length, out, new_parts, size)
    first = parts[2][at] + 2
    ratio = _whole_body(logs, tokens, parts, first, end - 1, ELSE_BODY, chosen[DEPTH] + 1)
    return size, ratio + np.log(count / (count - _inside(tokens, first, end - 1)))


@compiled(inline="always")
def _redraw(
    state: NDArray[np.uint64],
    sampler: Sampler,
    logs: NDArray[np.float64],
    tokens: NDArray[np.uint8],
    parts: NDArray[np.int64],
    length: int,
    chosen: NDArray[np.int64],
    count: int,
    out: NDArray[np.uint8],
    new_parts: NDArray[np.int64],
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Draw a body of a control statement anew."""
    at, depth = chosen[AT], chosen[DEPTH] + 1
    first, stop, body = parts[1][at] + 1, _first_close(parts, at), body_of(tokens[at])
    if tokens[at] == IFELSE and uniform(state) < 0.5:
        first, stop, body = parts[2][at] + 2, chosen[END] - 1, ELSE_BODY
    size = _copy(tokens, 0, first, out, 0)
    middle = draw_block(state, sampler, body, depth, 0, 0, out, size)
    size = _finish(tokens, stop, length, out, new_parts, middle)
    if size == 0:
        return 0, 0.0
    ratio = _whole_body(logs, tokens, parts, first, stop, body, depth)
    ratio -= _whole_body(logs, out, new_parts, first, middle, body, depth)
    now = count - _inside(tokens, first, stop) + _inside(out, first, middle)
    return size, ratio + np.log(count / now)
