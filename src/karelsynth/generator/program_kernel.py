"""Programs (Numba): drawing them from the sampler's tables, and the log-probability of such draws, the log prior.

`draw_program` draws the number of statements of a body, then each statement given the one before it. It keeps the
program with a probability that depends on the whole program. All programs are in the normal form. `log_prior` adds
the log-probabilities of the same draws. `draw_block` and `block_log_probability` do both for a part of a program, as
MCMC proposals need them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from karelsynth.generator.random_kernel import GAMMA, choose, draw, mix, setting, signed
from karelsynth.generator.sampler import (
    ALONE,
    BODY_ROW,
    CONDITION_ROW,
    CONTEXTS,
    COUNT_ROW,
    KEEP_CONTROLS_ROW,
    KEEP_HOLDING_ROW,
    KEEP_LENGTH_ROW,
    KEEP_TRACES_ROW,
    LEVELS,
    MAX_TOKENS,
    MOST_TOKENS,
    ONE,
    SETTINGS_ROW,
    SLOTS,
    STATEMENT_ROW,
    STATEMENTS,
    TRACE_EDGES,
    Sampler,
)
from karelsynth.karel.compiled import BoolArray, F64Array, I64Array, U8Array, U64Array, compiled
from karelsynth.karel.grammar import CONDITIONS
from karelsynth.karel.machine_kernel import REPEAT
from karelsynth.karel.structure_kernel import FIRST_ACTION, LAST_ACTION, Statements, find_statements, new_statements
from karelsynth.karel.tokens import COUNTS, ID, PAD

SCRATCH_TOKENS: Final = MAX_TOKENS + 16
"""Room for the longest program and for the tokens that `draw_program` writes before it finds a program too long."""
BLOCK_TOKENS: Final = 80
"""The width of programs that parts are drawn for, as in MCMC. They have at most LONGEST_BLOCK tokens."""
LONGEST_BLOCK: Final = BLOCK_TOKENS - 16
SHORTEST_RESERVED: Final = 12
"""Shorter programs are never reserved for testing."""
_RESERVED: Final = np.uint64((1 << 32) // 10)
RUN_BODY, REPEAT_BODY, WHILE_BODY, IF_BODY, THEN_BODY, ELSE_BODY = range(6)  # as in sampler.BODIES
_PICK_KIND, _PUT_KIND, _REPEAT_KIND, _WHILE_KIND, _IFELSE_KIND = (
    STATEMENTS.index(name) for name in ("pickMarker", "putMarker", "REPEAT", "WHILE", "IFELSE")
)  # kinds below REPEAT's are actions
_MOVE_BIT, _MARK_BITS = 1 << STATEMENTS.index("move"), 1 << _PICK_KIND | 1 << _PUT_KIND
_FIRST_COUNT, _COUNTS = ID[COUNTS[2]], 9
_NOT, _ELSE, _OPEN_C, _CLOSE_C = (ID[name] for name in ("not", "ELSE", "c(", "c)"))
_FIRST_SENSOR, _SENSORS, _FIRST_CLEAR = ID["markersPresent"], 5, ID["leftIsClear"]
_OPENERS = np.array([ID[name] for name in ("m(", "r(", "w(", "i(", "i(", "e(")], np.uint8)
_CLOSERS = np.array([ID[name] for name in ("m)", "r)", "w)", "i)", "i)", "e)")], np.uint8)
_HEAD = np.array([ID["DEF"], ID["run"], ID["m("]], np.uint8)
_KINDS = np.full(256, -1, np.int64)
for _number, _name in enumerate(STATEMENTS):
    _KINDS[ID[_name]] = _number
_CLASSES = np.searchsorted(TRACE_EDGES, np.arange(TRACE_EDGES[-1] + 1), side="right")
"""The class of a trace's length, up to the last edge."""
_ZERO, _S16, _S32 = np.uint64(0), np.uint64(16), np.uint64(32)
assert len(CONDITIONS) == _SENSORS + 3
# Columns of the rows that `survey` writes.
AT, END, BODY, DEPTH, PREVIOUS, SIBLINGS = range(6)
SURVEYED: Final = 6


@compiled()
def is_reserved_program(tokens: U8Array, length: int) -> bool:
    """Whether a program of `length` tokens is reserved: a tenth of those of 12 tokens and more, by hash."""
    if length < SHORTEST_RESERVED:
        return False
    bits = np.uint64(length)
    for at in range(length):
        bits = mix(bits * GAMMA + np.uint64(tokens[at]))
    return bool((bits >> _S32) < _RESERVED)


@compiled()
def reserved_rows(tokens: U8Array, reserved: BoolArray) -> None:
    """Fill `reserved` [N] for programs [N, L], padded with `<pad>`."""
    for row in range(len(tokens)):
        length = 0
        while length < tokens.shape[1] and tokens[row, length] != PAD:
            length += 1
        reserved[row] = is_reserved_program(tokens[row], length)


@compiled()
def _longest(sampler: Sampler) -> int:
    """Tokens of the longest program."""
    tokens: int = signed(setting(sampler, SETTINGS_ROW, MOST_TOKENS))
    return tokens


@compiled()
def draw_program(state: U64Array, sampler: Sampler, tokens: U8Array, blocks: I64Array) -> int:
    """Draw one program into `tokens` [SCRATCH_TOKENS]; returns its length, or 0 if the program is rejected.

    The loop variables describe the innermost block: `body`, which body it is; `left`, how many statements are still to
    draw; `before`, 1 plus the kind of the last statement, or 0; `twice`, whether the last two are the same action;
    `runs`, the expected number of runs in sixteenths, where a WHILE counts as two runs and an IF as half a run.
    `blocks` [4 · LEVELS] is scratch space for the enclosing blocks.

    Nineteen of twenty programs are rejected, so this is a third of the generator's work. For speed the counter of the
    random bits is a local variable, and the bits of the next draw are computed before the branches on this one.
    """
    counter = state[0] + GAMMA
    ahead = mix(counter)
    tokens[0], tokens[1], tokens[2] = _HEAD[0], _HEAD[1], _HEAD[2]
    size, depth, controls, held, actions = 3, 0, 0, 0, 0
    body, before, twice, runs = 0, 0, False, 16
    left = 1 + signed(choose(sampler, BODY_ROW, ahead))
    counter += GAMMA
    ahead = mix(counter)
    while depth >= 0 and size <= _longest(sampler):
        if left == 0:
            tokens[size] = _CLOSERS[body]
            size += 1
            if body == THEN_BODY:
                tokens[size], tokens[size + 1] = _ELSE, _OPENERS[ELSE_BODY]
                size += 2
                body, before, twice = ELSE_BODY, 0, False
                left = 1 + signed(choose(sampler, BODY_ROW + ELSE_BODY, ahead))
                counter += GAMMA
                ahead = mix(counter)
            else:
                depth -= 1
                outer = 4 * max(depth, 0)
                body, left, before, runs = blocks[outer], blocks[outer + 1], blocks[outer + 2], blocks[outer + 3]
                twice = False  # the last statement was a control statement
            continue
        # The only statement of a body has a row of its own.
        row = STATEMENT_ROW + (min(body, THEN_BODY) * LEVELS + depth) * CONTEXTS
        row += ALONE if before == 0 and left == 1 else before
        kind = signed(choose(sampler, row, ahead))
        counter += GAMMA
        ahead = mix(counter)
        again = before == kind + 1
        if again and twice:
            continue  # a third equal action: draw again
        twice = again and kind < _REPEAT_KIND
        left -= 1
        before = kind + 1
        held |= 1 << kind
        if kind < _REPEAT_KIND:
            tokens[size] = FIRST_ACTION + kind
            size += 1
            actions += runs
            continue
        outer = 4 * depth
        blocks[outer], blocks[outer + 1], blocks[outer + 2], blocks[outer + 3] = body, left, before, runs
        depth += 1
        controls += 1
        body = kind - _REPEAT_KIND + 1
        tokens[size] = REPEAT + kind - _REPEAT_KIND
        if kind == _REPEAT_KIND:
            count = signed(choose(sampler, COUNT_ROW, ahead))
            tokens[size + 1] = _FIRST_COUNT + count
            size += 2
            runs *= 2 + count
        else:
            runs = runs * 2 if kind == _WHILE_KIND else runs >> 1
            condition = signed(choose(sampler, CONDITION_ROW, ahead))
            tokens[size + 1] = _OPEN_C
            size += 2
            if condition < _SENSORS:
                tokens[size] = _FIRST_SENSOR + condition
                size += 1
            else:
                tokens[size], tokens[size + 1] = _NOT, _OPEN_C
                tokens[size + 2], tokens[size + 3] = _FIRST_CLEAR + condition - _SENSORS, _CLOSE_C
                size += 4
            tokens[size] = _CLOSE_C
            size += 1
        tokens[size] = _OPENERS[body]
        size += 1
        counter += GAMMA
        before, twice = 0, False
        left = 1 + signed(choose(sampler, BODY_ROW + body, mix(counter)))
        counter += GAMMA
        ahead = mix(counter)
    drawn, keep = ahead >> _S32, _ZERO
    if size > _longest(sampler) or not held & _MOVE_BIT or not held & _MARK_BITS:
        counter -= GAMMA  # the next program draws the bits that were computed ahead
    else:
        keep = setting(sampler, KEEP_LENGTH_ROW, size) * setting(sampler, KEEP_CONTROLS_ROW, controls)
        if controls > 0:
            keep = keep * setting(sampler, KEEP_TRACES_ROW, _CLASSES[min(actions >> 4, TRACE_EDGES[-1])]) >> _S16
    kind = 0
    while drawn < keep and kind <= _IFELSE_KIND:  # probabilities are at most 1, so the product only shrinks
        keep = keep * setting(sampler, KEEP_HOLDING_ROW + (held >> kind & 1), kind) >> _S16
        kind += 1
    state[0] = counter
    return size if drawn < keep else 0


@compiled()
def kind_of(token: int) -> int:
    """The kind of a statement, by its first token: its number in STATEMENTS, or -1."""
    kind: int = _KINDS[token]
    return kind


@compiled()
def body_of(token: int) -> int:
    """The first body of a control statement, by the statement's first token."""
    body: int = kind_of(token) - _REPEAT_KIND + 1
    return body


@compiled()
def condition_at(tokens: U8Array, at: int) -> int:
    """The number in CONDITIONS of the condition that starts at `at`; -1 if the generator never draws it."""
    if tokens[at] == _NOT:
        clear = signed(tokens[at + 2]) - _FIRST_CLEAR
        return _SENSORS + clear if 0 <= clear < 3 else -1
    sensor: int = signed(tokens[at]) - _FIRST_SENSOR
    return sensor


@compiled()
def write_condition(condition: int, out: U8Array, size: int) -> int:
    """Append a condition to out[:size]; returns the new size."""
    if condition < _SENSORS:
        out[size] = _FIRST_SENSOR + condition
        return size + 1
    out[size], out[size + 1] = _NOT, _OPEN_C
    out[size + 2], out[size + 3] = _FIRST_CLEAR + condition - _SENSORS, _CLOSE_C
    return size + 4


@compiled()
def draw_block(
    state: U64Array, sampler: Sampler, body: int, depth: int, before: int, left: int, out: U8Array, size: int
) -> int:
    """Append `left` statements of a body to out[:size]; with `left` 0 a whole body, whose size is drawn, too.

    Returns the new size, or -1 if there is no room or if blocks are nested too deep. The log-probability is that of
    `block_log_probability` without `exact`, plus `size_log_probability` for a whole body.
    """
    outer = np.empty((LEVELS + 2, 3), np.int64)
    top, whole = 0, left == 0
    alone = False
    if whole:
        left = 1 + signed(choose(sampler, BODY_ROW + body, draw(state)))
        alone = left == 1
    while True:
        if size < 0 or size > LONGEST_BLOCK or depth >= LEVELS:
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
        row = STATEMENT_ROW + (min(body, THEN_BODY) * LEVELS + depth) * CONTEXTS
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
def statement_count(ends: I64Array, at: int, stop: int) -> int:
    """The number of statements in tokens[at : stop] of one block."""
    count = 0
    while at < stop:
        at = ends[at]
        count += 1
    return count


@compiled()
def size_log_probability(logs: F64Array, body: int, count: int) -> float:
    """The log-probability that a body has `count` statements."""
    if count < 1 or count > SLOTS:
        return -np.inf
    found: float = logs[(BODY_ROW + body) * SLOTS + count - 1]
    return found


@compiled()
def block_log_probability(
    tokens: U8Array,
    statements: Statements,
    at: int,
    stop: int,
    body: int,
    depth: int,
    before: int,
    alone: bool,
    exact: bool,
    logs: F64Array,
) -> tuple[float, int, int, int]:
    """The log-probability of the statements tokens[at : stop] of a body, and what the filters of programs depend on.

    Args:
        body, depth: where the statements stand.
        before: 1 plus the kind of the statement before them, or 0.
        alone: whether they are the only statement of the body.
        exact: whether a third equal action is drawn again, as in `draw_program`; `draw_block` does not do so.

    Returns the log-probability, the number of control statements, the set of kinds as bits, and the expected number of
    actions in sixteenths.
    """
    ends, opens, elses = statements
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
                total += size_log_probability(logs, body, count)
                continue
            top -= 1
            depth -= 1
            body, before, runs, stop = outer[top, 0], outer[top, 1], outer[top, 2], outer[top, 3]
            at, twice = outer[top, 4], 0
            continue
        kind = kind_of(tokens[at])
        if kind < 0 or depth >= LEVELS:
            return -np.inf, 0, 0, 0
        row = STATEMENT_ROW + (min(body, THEN_BODY) * LEVELS + depth) * CONTEXTS
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
        total += size_log_probability(logs, body, count)
    return total, controls, held, actions


@compiled()
def log_prior(tokens: U8Array, length: int, statements: Statements, logs: F64Array, sampler: Sampler) -> float:
    """The log-probability that one call of `draw_program` draws this program with these statements."""
    if length > signed(setting(sampler, SETTINGS_ROW, MOST_TOKENS)):
        return -np.inf
    count = statement_count(statements.ends, 3, length - 1)
    total, controls, held, actions = block_log_probability(
        tokens, statements, 3, length - 1, RUN_BODY, 0, 0, count == 1, True, logs
    )
    if total == -np.inf or not held & _MOVE_BIT or not held & _MARK_BITS:
        return -np.inf
    total += size_log_probability(logs, RUN_BODY, count)
    keep = setting(sampler, KEEP_LENGTH_ROW, length) / ONE * (setting(sampler, KEEP_CONTROLS_ROW, controls) / ONE)
    if controls > 0:
        keep *= setting(sampler, KEEP_TRACES_ROW, _CLASSES[min(actions >> 4, TRACE_EDGES[-1])]) / ONE
    for kind in range(len(STATEMENTS)):
        keep *= setting(sampler, KEEP_HOLDING_ROW + (held >> kind & 1), kind) / ONE
    return total + np.log(keep) if keep > 0 else -np.inf


@compiled()
def log_priors(tokens: U8Array, lengths: I64Array, logs: F64Array, sampler: Sampler, priors: F64Array) -> None:
    """Write `log_prior` of programs [N, L], which must parse, to `priors` [N]."""
    statements = new_statements(BLOCK_TOKENS)
    for row in range(len(tokens)):
        find_statements(tokens[row], lengths[row], statements)
        priors[row] = log_prior(tokens[row], lengths[row], statements, logs, sampler)


@compiled()
def survey(tokens: U8Array, length: int, statements: Statements, places: I64Array, gaps: I64Array) -> tuple[int, int]:
    """List the statements of a program in `places`, and where others could be inserted in `gaps`; returns the counts.

    Rows [·, SURVEYED] hold the first token, the end, the body and its depth, 1 plus the kind of the statement before,
    and the number of statements of the body.
    """
    ends, opens, elses = statements
    blocks = np.empty((BLOCK_TOKENS, 4), np.int64)  # first, stop, body, depth
    blocks[0, 0], blocks[0, 1], blocks[0, 2], blocks[0, 3] = 3, length - 1, RUN_BODY, 0
    waiting, count, gap_count = 1, 0, 0
    while waiting > 0:
        waiting -= 1
        at, stop, body, depth = blocks[waiting, 0], blocks[waiting, 1], blocks[waiting, 2], blocks[waiting, 3]
        siblings, before = statement_count(ends, at, stop), 0
        while True:
            gaps[gap_count, AT], gaps[gap_count, END] = at, at
            gaps[gap_count, BODY], gaps[gap_count, DEPTH] = body, depth
            gaps[gap_count, PREVIOUS], gaps[gap_count, SIBLINGS] = before, siblings
            gap_count += 1
            if at == stop:
                break
            places[count, AT], places[count, END] = at, ends[at]
            places[count, BODY], places[count, DEPTH] = body, depth
            places[count, PREVIOUS], places[count, SIBLINGS] = before, siblings
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
    return count, gap_count
