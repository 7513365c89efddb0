"""The chance that the generator draws a program, and drawing parts of programs (Numba).

`tasks.program_kernel.draw_program` draws a body's number of statements, then each statement by what stands before it,
and keeps the program by a chance that depends on all of it. The same tables are read here the other way round: what
was the chance of every draw?
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from karelsynth.karel.compiled import compiled
from karelsynth.karel.machine_kernel import REPEAT
from karelsynth.karel.tokens import COUNTS, ID
from karelsynth.tasks.edit_kernel import FIRST_ACTION, LAST_ACTION, structure
from karelsynth.tasks.kernel_layout import (
    ALONE,
    BEFORE,
    BODY_ROW,
    CONDITION_ROW,
    CONDITIONS,
    COUNT_ROW,
    KEEP_CONTROLS_ROW,
    KEEP_HOLDING_ROW,
    KEEP_LENGTH_ROW,
    KEEP_TRACES_ROW,
    LEVELS,
    MOST_TOKENS,
    ONE,
    SETTINGS_ROW,
    SLOTS,
    STATEMENT_ROW,
    STATEMENTS,
    TRACE_EDGES,
    Sampler,
)
from karelsynth.tasks.program_kernel import choose, draw, setting, signed

LONGEST: Final = 80
"""Tokens that there is room for."""
RUN_BODY, REPEAT_BODY, WHILE_BODY, IF_BODY, THEN_BODY, ELSE_BODY = range(6)  # as in kernel_layout.BODIES
_REPEAT_KIND, _WHILE_KIND, _IF_KIND = (STATEMENTS.index(name) for name in ("REPEAT", "WHILE", "IF"))
_FIRST_COUNT, _COUNTS = ID[COUNTS[2]], 9
_NOT, _ELSE, _OPEN_C, _CLOSE_C = (ID[name] for name in ("not", "ELSE", "c(", "c)"))
_FIRST_SENSOR, _SENSORS, _FIRST_CLEAR = ID["markersPresent"], 5, ID["leftIsClear"]
_OPENERS = np.array([ID[name] for name in ("m(", "r(", "w(", "i(", "i(", "e(")], np.uint8)
_CLOSERS = np.array([ID[name] for name in ("m)", "r)", "w)", "i)", "i)", "e)")], np.uint8)
_KINDS = np.full(256, -1, np.int64)
for _number, _name in enumerate(STATEMENTS):
    _KINDS[ID[_name]] = _number
_CLASSES = np.searchsorted(TRACE_EDGES, np.arange(TRACE_EDGES[-1] + 1), side="right")
_NEEDED_MOVE, _NEEDED_MARK = (
    1 << STATEMENTS.index("move"),
    1 << STATEMENTS.index("pickMarker") | 1 << STATEMENTS.index("putMarker"),
)
assert len(CONDITIONS) == _SENSORS + 3
# Columns of what `survey` notes.
AT, END, BODY, DEPTH, PREVIOUS, SIBLINGS = range(6)
NOTED: Final = 6


@compiled()
def kind_of(token: int) -> int:  # pragma: no cover - compiled
    """The number of a statement's kind, by its first token."""
    kind: int = _KINDS[token]
    return kind


@compiled()
def body_of(token: int) -> int:  # pragma: no cover - compiled
    """Which body a control statement has first, by its first token."""
    body: int = kind_of(token) - _REPEAT_KIND + 1
    return body


@compiled()
def condition_at(tokens: NDArray[np.uint8], at: int) -> int:  # pragma: no cover - compiled
    """The number of the condition whose first token is at `at`; -1 if it is none that the generator draws."""
    if tokens[at] == _NOT:
        clear = signed(tokens[at + 2]) - _FIRST_CLEAR
        return _SENSORS + clear if 0 <= clear < 3 else -1
    sensor: int = signed(tokens[at]) - _FIRST_SENSOR
    return sensor


@compiled()
def write_condition(condition: int, out: NDArray[np.uint8], size: int) -> int:  # pragma: no cover - compiled
    """Write a condition to out[size :]; returns the size then."""
    if condition < _SENSORS:
        out[size] = _FIRST_SENSOR + condition
        return size + 1
    out[size], out[size + 1] = _NOT, _OPEN_C
    out[size + 2], out[size + 3] = _FIRST_CLEAR + condition - _SENSORS, _CLOSE_C
    return size + 4


@compiled()
def statement_count(ends: NDArray[np.int64], at: int, stop: int) -> int:  # pragma: no cover - compiled
    """How many statements there are from `at` to `stop`."""
    count = 0
    while at < stop:
        at = ends[at]
        count += 1
    return count


@compiled()
def size_chance(logs: NDArray[np.float64], body: int, count: int) -> float:  # pragma: no cover - compiled
    """The logarithm of the chance that a body has so many statements."""
    if count < 1 or count > SLOTS:
        return -np.inf
    chance: float = logs[(BODY_ROW + body) * SLOTS + count - 1]
    return chance


@compiled()
def block_chance(
    tokens: NDArray[np.uint8],
    ends: NDArray[np.int64],
    opens: NDArray[np.int64],
    elses: NDArray[np.int64],
    at: int,
    stop: int,
    body: int,
    depth: int,
    before: int,
    alone: bool,
    exact: bool,
    logs: NDArray[np.float64],
) -> tuple[float, int, int, int]:  # pragma: no cover - compiled
    """The logarithm of the chance of the statements tokens[at : stop] in a body, and what a program is kept by.

    `before` is 1 plus the kind of the statement before them, or 0; `alone`, whether they are a body's only statement.
    With `exact`, a third equal action is drawn again, as the generator does; without, that is overlooked, as
    `draw_block` does. Returns besides the number of control statements, the kinds that occur, as bits, and the
    expected number of actions, in sixteenths.
    """
    outer = np.empty((LEVELS + 2, 5), np.int64)
    total, controls, held, actions = 0.0, 0, 0, 0
    runs, twice, top = 16, 0, 0
    while True:
        if at == stop:
            if top == 0:
                break
            if body == THEN_BODY:
                body, before, twice = ELSE_BODY, 0, 0
                at, stop = at + 3, outer[top - 1, 4] - 1
                count = statement_count(ends, at, stop)
                alone = count == 1
                total += size_chance(logs, body, count)
                continue
            top -= 1
            depth -= 1
            body, before, runs, stop = outer[top, 0], outer[top, 1], outer[top, 2], outer[top, 3]
            at, twice = outer[top, 4], 0
            continue
        kind = kind_of(tokens[at])
        if kind < 0 or depth >= LEVELS:
            return -np.inf, 0, 0, 0
        row = STATEMENT_ROW + (min(body, THEN_BODY) * LEVELS + depth) * BEFORE
        row += ALONE if before == 0 and alone else before
        again = before == kind + 1
        total += logs[row * SLOTS + kind]
        if exact and twice:
            if again:
                return -np.inf, 0, 0, 0
            total -= np.log1p(-np.exp(logs[row * SLOTS + before - 1]))
        if total == -np.inf:
            return total, 0, 0, 0
        twice = again and kind < _REPEAT_KIND
        before = kind + 1
        held |= 1 << kind
        if kind < _REPEAT_KIND:
            actions += runs
            at += 1
            continue
        outer[top, 0], outer[top, 1], outer[top, 2], outer[top, 3], outer[top, 4] = body, before, runs, stop, ends[at]
        top += 1
        depth += 1
        controls += 1
        body = kind - _REPEAT_KIND + 1
        if kind == _REPEAT_KIND:
            times = signed(tokens[at + 1]) - _FIRST_COUNT
            if times < 0 or times >= _COUNTS:
                return -np.inf, 0, 0, 0
            total += logs[COUNT_ROW * SLOTS + times]
            runs *= 2 + times
        else:
            condition = condition_at(tokens, at + 2)
            if condition < 0:
                return -np.inf, 0, 0, 0
            total += logs[CONDITION_ROW * SLOTS + condition]
            runs = runs * 2 if kind == _WHILE_KIND else runs >> 1
        first = opens[at] + 1
        stop = elses[at] - 1 if elses[at] > 0 else ends[at] - 1
        at, before, twice = first, 0, 0
        count = statement_count(ends, at, stop)
        alone = count == 1
        total += size_chance(logs, body, count)
    return total, controls, held, actions


@compiled()
def program_chance(
    tokens: NDArray[np.uint8],
    length: int,
    ends: NDArray[np.int64],
    opens: NDArray[np.int64],
    elses: NDArray[np.int64],
    logs: NDArray[np.float64],
    sampler: Sampler,
) -> float:  # pragma: no cover - compiled
    """The logarithm of the chance that one try of `draw_program` gives this program, whose `structure` is given."""
    if length > signed(setting(sampler, SETTINGS_ROW, MOST_TOKENS)):
        return -np.inf
    count = statement_count(ends, 3, length - 1)
    total, controls, held, actions = block_chance(
        tokens, ends, opens, elses, 3, length - 1, RUN_BODY, 0, 0, count == 1, True, logs
    )
    if total == -np.inf or not held & _NEEDED_MOVE or not held & _NEEDED_MARK:
        return -np.inf
    total += size_chance(logs, RUN_BODY, count)
    keep = setting(sampler, KEEP_LENGTH_ROW, length) / ONE * (setting(sampler, KEEP_CONTROLS_ROW, controls) / ONE)
    if controls > 0:
        keep *= setting(sampler, KEEP_TRACES_ROW, _CLASSES[min(actions >> 4, TRACE_EDGES[-1])]) / ONE
    for kind in range(len(STATEMENTS)):
        keep *= setting(sampler, KEEP_HOLDING_ROW + (held >> kind & 1), kind) / ONE
    return total + np.log(keep) if keep > 0 else -np.inf


@compiled()
def program_chances(
    tokens: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    logs: NDArray[np.float64],
    sampler: Sampler,
    chances: NDArray[np.float64],
) -> None:  # pragma: no cover - compiled
    """`program_chance` of programs [N, L], which must parse, to chances [N]."""
    ends, opens, elses = (np.empty(LONGEST, np.int64), np.empty(LONGEST, np.int64), np.empty(LONGEST, np.int64))
    for row in range(len(tokens)):
        structure(tokens[row], lengths[row], ends, opens, elses)
        chances[row] = program_chance(tokens[row], lengths[row], ends, opens, elses, logs, sampler)


@compiled()
def draw_block(
    state: NDArray[np.uint64],
    sampler: Sampler,
    body: int,
    depth: int,
    before: int,
    left: int,
    out: NDArray[np.uint8],
    size: int,
) -> int:  # pragma: no cover - compiled
    """Draw `left` statements of a body into out[size :]; with `left` 0, first how many, as for a whole body.

    Returns the size then, or -1 if there was no room, or if it would be too deep. The chance is that of `block_chance`
    without `exact`, and for a whole body that of its size.
    """
    outer = np.empty((LEVELS + 2, 3), np.int64)
    top, whole = 0, left == 0
    alone = False
    if whole:
        left = 1 + signed(choose(sampler, BODY_ROW + body, draw(state)))
        alone = left == 1
    while True:
        if size < 0 or size > LONGEST - 16 or depth >= LEVELS:
            return -1
        if left == 0:
            if top == 0:
                return size
            out[size] = _CLOSERS[body]
            size += 1
            if body == THEN_BODY:
                out[size], out[size + 1] = _ELSE, _OPENERS[ELSE_BODY]
                size += 2
                body, before = ELSE_BODY, 0
                left = 1 + signed(choose(sampler, BODY_ROW + body, draw(state)))
                alone = left == 1
                continue
            top -= 1
            depth -= 1
            body, left, before = outer[top, 0], outer[top, 1], outer[top, 2]
            continue
        row = STATEMENT_ROW + (min(body, THEN_BODY) * LEVELS + depth) * BEFORE
        row += ALONE if before == 0 and alone else before
        kind = signed(choose(sampler, row, draw(state)))
        left -= 1
        before = kind + 1
        if kind < _REPEAT_KIND:
            out[size] = FIRST_ACTION + kind
            size += 1
            continue
        outer[top, 0], outer[top, 1], outer[top, 2] = body, left, before
        top += 1
        depth += 1
        body = kind - _REPEAT_KIND + 1
        out[size] = REPEAT + kind - _REPEAT_KIND
        size += 1
        if kind == _REPEAT_KIND:
            out[size] = _FIRST_COUNT + signed(choose(sampler, COUNT_ROW, draw(state)))
            size += 1
        else:
            out[size] = _OPEN_C
            size = write_condition(signed(choose(sampler, CONDITION_ROW, draw(state))), out, size + 1)
            out[size] = _CLOSE_C
            size += 1
        out[size] = _OPENERS[body]
        size += 1
        before = 0
        left = 1 + signed(choose(sampler, BODY_ROW + body, draw(state)))
        alone = left == 1


@compiled()
def survey(
    tokens: NDArray[np.uint8],
    length: int,
    ends: NDArray[np.int64],
    opens: NDArray[np.int64],
    elses: NDArray[np.int64],
    statements: NDArray[np.int64],
    gaps: NDArray[np.int64],
) -> tuple[int, int]:  # pragma: no cover - compiled
    """Note where statements stand, and where others could be put: rows [·, NOTED] of each; returns how many of both.

    A row holds the first token, the place after the last, which body it is in, how deep, 1 plus the kind of the
    statement before, and how many statements the body has.
    """
    blocks = np.empty((LONGEST, 4), np.int64)  # first, stop, body, depth
    blocks[0, 0], blocks[0, 1], blocks[0, 2], blocks[0, 3] = 3, length - 1, RUN_BODY, 0
    waiting, count, places = 1, 0, 0
    while waiting > 0:
        waiting -= 1
        at, stop, body, depth = blocks[waiting, 0], blocks[waiting, 1], blocks[waiting, 2], blocks[waiting, 3]
        siblings, before = statement_count(ends, at, stop), 0
        while True:
            gaps[places, AT], gaps[places, END], gaps[places, BODY], gaps[places, DEPTH] = at, at, body, depth
            gaps[places, PREVIOUS], gaps[places, SIBLINGS] = before, siblings
            places += 1
            if at == stop:
                break
            statements[count, AT], statements[count, END] = at, ends[at]
            statements[count, BODY], statements[count, DEPTH] = body, depth
            statements[count, PREVIOUS], statements[count, SIBLINGS] = before, siblings
            count += 1
            token = tokens[at]
            before = kind_of(token) + 1
            if not FIRST_ACTION <= token <= LAST_ACTION:
                close = elses[at] - 1 if elses[at] > 0 else ends[at] - 1
                blocks[waiting, 0], blocks[waiting, 1] = opens[at] + 1, close
                blocks[waiting, 2], blocks[waiting, 3] = body_of(token), depth + 1
                waiting += 1
                if elses[at] > 0:
                    blocks[waiting, 0], blocks[waiting, 1] = elses[at] + 2, ends[at] - 1
                    blocks[waiting, 2], blocks[waiting, 3] = ELSE_BODY, depth + 1
                    waiting += 1
            at = ends[at]
    return count, places
