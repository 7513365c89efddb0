"""Proposals of the Markov chain: random changes of programs (Numba).

Each kind of change has one that undoes it. `propose` returns the logarithm of the Hastings ratio: the probability of
the reverse proposal over that of the proposal. New statements are drawn from the generator's distribution in their
place.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

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
from karelsynth.karel.compiled import F64Array, I64Array, U8Array, U64Array, compiled
from karelsynth.karel.machine_kernel import IF, IFELSE, REPEAT, WHILE
from karelsynth.karel.structure_kernel import CLOSES, FIRST_ACTION, LAST_ACTION, OPENS, Statements, find_statements
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


class Proposal(NamedTuple):
    """A program of BLOCK_TOKENS tokens at most, what its change is drawn from, and room for the changed program."""

    random: U64Array
    """[1], the state of the random numbers."""
    sampler: Sampler
    logs: F64Array
    """`log_probabilities` of the sampler."""
    tokens: U8Array
    """[BLOCK_TOKENS], the program."""
    length: int
    statements: Statements
    """Of the program."""
    total: int
    """The number of its statements, nested ones too."""
    out: U8Array
    """[BLOCK_TOKENS], gets the changed program."""
    new_statements: Statements
    """Gets the statements of the changed program."""


@compiled()
def propose(
    random: U64Array,
    sampler: Sampler,
    logs: F64Array,
    tokens: U8Array,
    length: int,
    statements: Statements,
    places: I64Array,
    gaps: I64Array,
    out: U8Array,
    new_statements: Statements,
) -> tuple[int, float]:
    """Change a program at random. Most arguments are fields of `Proposal`.

    `places` [BLOCK_TOKENS, SURVEYED] and `gaps` [2 · BLOCK_TOKENS, SURVEYED] are scratch space for `survey`.

    Returns the new length, or 0 if the change does not apply, and the log of the Hastings ratio.
    """
    count, gap_count = survey(tokens, length, statements, places, gaps)
    given = Proposal(random, sampler, logs, tokens, length, statements, count, out, new_statements)
    kind = int(uniform(random) * KINDS)
    size, ratio = 0, 0.0
    if kind == INSERT:
        size, ratio = _insert(given, gaps[int(uniform(random) * gap_count)], gap_count)
    else:
        chosen = places[int(uniform(random) * count)]
        control = not FIRST_ACTION <= tokens[chosen[AT]] <= LAST_ACTION
        if kind == REPLACE:
            size, ratio = _replace(given, chosen)
        elif kind == DELETE:
            size, ratio = _delete(given, chosen)
            if size > 0:
                _, left = survey(out, size, new_statements, places, gaps)
                ratio += np.log(count / left)
        elif kind == SWAP:
            size, ratio = _swap(given, chosen)
        elif kind == WRAP:
            size, ratio = _wrap(given, chosen)
        elif control and kind == UNWRAP:
            size, ratio = _unwrap(given, chosen)
        elif control and kind == RETEST:
            size, ratio = _retest(given, chosen)
        elif control and kind == RENAME:
            size, ratio = _rename(given, chosen)
        elif control and kind == ADD_ELSE:
            size, ratio = _add_else(given, chosen)
        elif control and kind == DROP_ELSE:
            size, ratio = _drop_else(given, chosen)
        elif control:
            size, ratio = _redraw(given, chosen)
    return size, ratio


# The functions below are inlined into `propose`: Numba counts references to the arrays of a call, which would cost as
# much as the proposal. For the same reason each takes what it needs out of the tuple once.


@compiled(inline="always")
def _copy(tokens: U8Array, first: int, last: int, out: U8Array, size: int) -> int:
    """Append tokens[first : last] to out[:size]; returns the new size, or -1 if there is no room."""
    if size < 0 or size + last - first > LONGEST_BLOCK:
        return -1
    for place in range(first, last):
        out[size] = tokens[place]
        size += 1
    return size


@compiled(inline="always")
def _finish(given: Proposal, first: int, size: int) -> int:
    """Append tokens[first :] to out[:size] and find its statements; returns its length, or 0 without room."""
    size = _copy(given.tokens, first, given.length, given.out, size)
    if size < 0:
        return 0
    find_statements(given.out, size, given.new_statements)
    return size


@compiled(inline="always")
def _first_close(statements: Statements, at: int) -> int:
    """Where the first body of the control statement at `at` closes."""
    return int(statements.elses[at] - 1 if statements.elses[at] > 0 else statements.ends[at] - 1)


@compiled(inline="always")
def _one_statement(
    logs: F64Array, tokens: U8Array, statements: Statements, at: int, end: int, place: I64Array
) -> float:
    """The log-probability that `draw_block` draws the statement tokens[at : end] in a place of the survey."""
    found: float = block_log_probability(
        tokens, statements, at, end, place[BODY], place[DEPTH], place[PREVIOUS], False, False, logs
    )[0]
    return found


@compiled(inline="always")
def _whole_body(
    logs: F64Array, tokens: U8Array, statements: Statements, at: int, stop: int, body: int, depth: int
) -> float:
    """The log-probability that `draw_block` draws the whole body tokens[at : stop]."""
    count = statement_count(statements.ends, at, stop)
    found: float = block_log_probability(tokens, statements, at, stop, body, depth, 0, count == 1, False, logs)[0]
    found += size_log_probability(logs, body, count)
    return found


@compiled(inline="always")
def _height(tokens: U8Array, first: int, last: int) -> int:
    """The depth of the deepest block in tokens[first : last]."""
    height, most = 0, 0
    for place in range(first, last):
        height += signed(OPENS[tokens[place]]) - signed(CLOSES[tokens[place]])
        most = max(most, height)
    return most


@compiled(inline="always")
def _inside(tokens: U8Array, first: int, last: int) -> int:
    """The number of statements in tokens[first : last], nested ones too."""
    count = 0
    for place in range(first, last):
        token = tokens[place]
        count += (FIRST_ACTION <= token <= LAST_ACTION) or REPEAT <= token <= IFELSE
    return count


@compiled(inline="always")
def _insert(given: Proposal, gap: I64Array, gaps: int) -> tuple[int, float]:
    """Insert a new statement into one of the gaps."""
    out, at = given.out, gap[AT]
    size = _copy(given.tokens, 0, at, out, 0)
    middle = draw_block(given.random, given.sampler, gap[BODY], gap[DEPTH], gap[PREVIOUS], 1, out, size)
    size = _finish(given, at, middle)
    if size == 0:
        return 0, 0.0
    ratio = np.log(gaps / (given.total + _inside(out, at, middle)))
    return size, ratio - _one_statement(given.logs, out, given.new_statements, at, middle, gap)


@compiled(inline="always")
def _replace(given: Proposal, chosen: I64Array) -> tuple[int, float]:
    """Replace a statement by a new one."""
    tokens, out, at, end = given.tokens, given.out, chosen[AT], chosen[END]
    size = _copy(tokens, 0, at, out, 0)
    middle = draw_block(given.random, given.sampler, chosen[BODY], chosen[DEPTH], chosen[PREVIOUS], 1, out, size)
    size = _finish(given, end, middle)
    if size == 0:
        return 0, 0.0
    ratio = _one_statement(given.logs, tokens, given.statements, at, end, chosen)
    ratio -= _one_statement(given.logs, out, given.new_statements, at, middle, chosen)
    now = given.total - _inside(tokens, at, end) + _inside(out, at, middle)
    return size, ratio + np.log(given.total / now)


@compiled(inline="always")
def _delete(given: Proposal, chosen: I64Array) -> tuple[int, float]:
    """Delete a statement that is not the only one of its body; `propose` completes the ratio."""
    if chosen[SIBLINGS] < 2:
        return 0, 0.0
    at, end = chosen[AT], chosen[END]
    ratio = _one_statement(given.logs, given.tokens, given.statements, at, end, chosen)
    return _finish(given, end, _copy(given.tokens, 0, at, given.out, 0)), ratio


@compiled(inline="always")
def _swap(given: Proposal, chosen: I64Array) -> tuple[int, float]:
    """Swap a statement with the next one of its body."""
    tokens, out, at, end = given.tokens, given.out, chosen[AT], chosen[END]
    last = given.statements.ends[end]
    if last == 0:
        return 0, 0.0
    size = _copy(tokens, end, last, out, _copy(tokens, 0, at, out, 0))
    return _finish(given, last, _copy(tokens, at, end, out, size)), 0.0


@compiled(inline="always")
def _wrap(given: Proposal, chosen: I64Array) -> tuple[int, float]:
    """Wrap up to three statements in a REPEAT, a WHILE or an IF."""
    random, tokens, out, ends = given.random, given.tokens, given.out, given.statements.ends
    at, last = chosen[AT], chosen[END]
    for _ in range(int(uniform(random) * _LONGEST_WRAP)):
        if ends[last] == 0:
            return 0, 0.0
        last = ends[last]
    wrapper = REPEAT + int(uniform(random) * _WRAPPERS)
    if chosen[DEPTH] + 1 + _height(tokens, at, last) >= LEVELS:  # deeper than the generator goes
        return 0, 0.0
    size = _copy(tokens, 0, at, out, 0)
    out[size] = wrapper
    if wrapper == REPEAT:
        times = signed(choose(given.sampler, COUNT_ROW, draw(random)))
        ratio = -given.logs[COUNT_ROW * SLOTS + times]
        out[size + 1], out[size + 2] = _FIRST_COUNT + times, _OPEN_R
        size += 3
    else:
        condition = signed(choose(given.sampler, CONDITION_ROW, draw(random)))
        ratio = -given.logs[CONDITION_ROW * SLOTS + condition]
        out[size + 1] = _OPEN_C
        size = write_condition(condition, out, size + 2)
        out[size], out[size + 1] = _CLOSE_C, _OPEN_W if wrapper == WHILE else _OPEN_I
        size += 2
    size = _copy(tokens, at, last, out, size)
    if size < 0:
        return 0, 0.0
    out[size] = _CLOSE_R if wrapper == REPEAT else _CLOSE_W if wrapper == WHILE else _CLOSE_I
    size = _finish(given, last, size + 1)
    return size, ratio + np.log(_WRAPPERS * _LONGEST_WRAP * given.total / (given.total + 1))


@compiled(inline="always")
def _unwrap(given: Proposal, chosen: I64Array) -> tuple[int, float]:
    """Replace a REPEAT, a WHILE or an IF by its body of up to three statements."""
    tokens, statements, count, at = given.tokens, given.statements, given.total, chosen[AT]
    first, close = statements.opens[at] + 1, _first_close(statements, at)
    if tokens[at] == IFELSE or statement_count(statements.ends, first, close) > _LONGEST_WRAP:
        return 0, 0.0
    size = _copy(tokens, first, close, given.out, _copy(tokens, 0, at, given.out, 0))
    size = _finish(given, chosen[END], size)
    ratio = _test_log_probability(given.logs, tokens, at)
    return size, ratio + np.log(count / ((count - 1) * _WRAPPERS * _LONGEST_WRAP))


@compiled(inline="always")
def _test_log_probability(logs: F64Array, tokens: U8Array, at: int) -> float:
    """The log-probability that the generator draws the count or condition of the control statement at `at`."""
    if tokens[at] == REPEAT:
        found: float = logs[COUNT_ROW * SLOTS + signed(tokens[at + 1]) - _FIRST_COUNT]
    else:
        found = logs[CONDITION_ROW * SLOTS + condition_at(tokens, at + 2)]
    return found


@compiled(inline="always")
def _retest(given: Proposal, chosen: I64Array) -> tuple[int, float]:
    """Draw a new count or condition for a control statement."""
    tokens, out, logs, at = given.tokens, given.out, given.logs, chosen[AT]
    ratio = _test_log_probability(logs, tokens, at)
    if tokens[at] == REPEAT:
        times = signed(choose(given.sampler, COUNT_ROW, draw(given.random)))
        size = _copy(tokens, 0, at + 1, out, 0)
        out[size] = _FIRST_COUNT + times
        return _finish(given, at + 2, size + 1), ratio - logs[COUNT_ROW * SLOTS + times]
    condition = signed(choose(given.sampler, CONDITION_ROW, draw(given.random)))
    size = write_condition(condition, out, _copy(tokens, 0, at + 2, out, 0))
    size = _finish(given, given.statements.opens[at] - 1, size)
    return size, ratio - logs[CONDITION_ROW * SLOTS + condition]


@compiled(inline="always")
def _rename(given: Proposal, chosen: I64Array) -> tuple[int, float]:
    """Make an IF a WHILE, or the reverse."""
    tokens, out, at = given.tokens, given.out, chosen[AT]
    if tokens[at] != IF and tokens[at] != WHILE:
        return 0, 0.0
    loop = tokens[at] == IF
    size = _copy(tokens, 0, given.length, out, 0)
    if size < 0:
        return 0, 0.0
    out[at], out[given.statements.opens[at]] = WHILE if loop else IF, _OPEN_W if loop else _OPEN_I
    out[chosen[END] - 1] = _CLOSE_W if loop else _CLOSE_I
    find_statements(out, size, given.new_statements)
    return size, 0.0


@compiled(inline="always")
def _add_else(given: Proposal, chosen: I64Array) -> tuple[int, float]:
    """Make an IF an IFELSE with a new body."""
    tokens, out, count = given.tokens, given.out, given.total
    at, end, depth = chosen[AT], chosen[END], chosen[DEPTH] + 1
    size = _copy(tokens, 0, end, out, 0)
    if tokens[at] != IF or size < 0:
        return 0, 0.0
    out[at], out[size], out[size + 1] = IFELSE, _ELSE, _OPEN_E
    first = size + 2
    middle = draw_block(given.random, given.sampler, ELSE_BODY, depth, 0, 0, out, first)
    if middle < 0:
        return 0, 0.0
    out[middle] = _CLOSE_E
    size = _finish(given, end, middle + 1)
    if size == 0:
        return 0, 0.0
    ratio = np.log(count / (count + _inside(out, first, middle)))
    return size, ratio - _whole_body(given.logs, out, given.new_statements, first, middle, ELSE_BODY, depth)


@compiled(inline="always")
def _drop_else(given: Proposal, chosen: I64Array) -> tuple[int, float]:
    """Make an IFELSE an IF without its second body."""
    tokens, out, count, at, end = given.tokens, given.out, given.total, chosen[AT], chosen[END]
    if tokens[at] != IFELSE:
        return 0, 0.0
    otherwise = given.statements.elses[at]
    size = _copy(tokens, 0, otherwise, out, 0)
    out[at] = IF
    size = _finish(given, end, size)
    first = otherwise + 2
    ratio = _whole_body(given.logs, tokens, given.statements, first, end - 1, ELSE_BODY, chosen[DEPTH] + 1)
    return size, ratio + np.log(count / (count - _inside(tokens, first, end - 1)))


@compiled(inline="always")
def _redraw(given: Proposal, chosen: I64Array) -> tuple[int, float]:
    """Redraw a body of a control statement."""
    tokens, out, statements, at, depth = given.tokens, given.out, given.statements, chosen[AT], chosen[DEPTH] + 1
    first, stop, body = statements.opens[at] + 1, _first_close(statements, at), body_of(tokens[at])
    if tokens[at] == IFELSE and uniform(given.random) < 0.5:
        first, stop, body = statements.elses[at] + 2, chosen[END] - 1, ELSE_BODY
    size = _copy(tokens, 0, first, out, 0)
    middle = draw_block(given.random, given.sampler, body, depth, 0, 0, out, size)
    size = _finish(given, stop, middle)
    if size == 0:
        return 0, 0.0
    ratio = _whole_body(given.logs, tokens, statements, first, stop, body, depth)
    ratio -= _whole_body(given.logs, out, given.new_statements, first, middle, body, depth)
    now = given.total - _inside(tokens, first, stop) + _inside(out, first, middle)
    return size, ratio + np.log(given.total / now)
