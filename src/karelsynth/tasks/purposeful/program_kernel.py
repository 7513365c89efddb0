"""Drawing programs from the plans (Numba): expansion of a plan, small mutations, and the normal form."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from karelsynth.generator.random_kernel import draw, signed
from karelsynth.karel.compiled import BoolArray, I64Array, U8Array, U64Array, compiled
from karelsynth.karel.structure_kernel import BEGINS, CLOSES, OPENS
from karelsynth.karel.tokens import ACTIONS, COUNTS, ID, SENSORS

REGISTERS: Final = 100
"""The first symbol of `PlanTables` that stands for a count drawn once for each program."""
RULE: Final = 200
"""The first symbol that stands for a rule."""
LONGEST: Final = 112
"""Tokens of the longest program."""
RAW: Final = 320
"""Room for a program before it is in the normal form."""
_MOST_RAW: Final = RAW - 8
STACK: Final = 512
"""Room for symbols that are still to be expanded."""
_S32 = np.uint64(32)
_MOVE, _LEFT, _RIGHT, _PICK, _PUT = (ID[name] for name in ACTIONS)
_REPEAT, _OPEN_R, _CLOSE_R, _NOT = ID["REPEAT"], ID["r("], ID["r)"], ID["not"]
_OPEN_W, _CLOSE_W, _IF, _IFELSE, _ELSE = ID["w("], ID["w)"], ID["IF"], ID["IFELSE"], ID["ELSE"]
_OPEN_C, _CLOSE_C, _OPEN_I, _CLOSE_I = ID["c("], ID["c)"], ID["i("], ID["i)"]
_LEFT_CLEAR, _RIGHT_CLEAR = ID["leftIsClear"], ID["rightIsClear"]
_FIRST_SENSOR, _LAST_SENSOR, _FIRST_CLEAR = ID[SENSORS[0]], ID[SENSORS[-1]], ID["leftIsClear"]
_COUNT, _LAST_COUNT = ID[COUNTS[0]], ID[COUNTS[10]]
_HEAD, _RUN, _OPEN_M, _CLOSE_M = ID["DEF"], ID["run"], ID["m("], ID["m)"]


class PlanTables(NamedTuple):
    """The grammar for the kernel. Rules are numbered in their order; plans are rules, too, and come last."""

    first: I64Array
    """[rules + 1]: the first alternative of each rule."""
    once: BoolArray
    """[rules]: whether a program draws the alternative only once."""
    threshold: U64Array
    """[alternatives]: cumulated weights within the rule, of 2³²."""
    begins: I64Array
    """[alternatives + 1]: where the symbols of each alternative begin."""
    symbols: I64Array
    """Token ids; `REGISTERS` + i for the i-th letter; `RULE` + r for rule r."""
    plans: I64Array
    """[plans]: the rule of each plan."""
    plan_threshold: U64Array
    """[plans]: cumulated weights, of 2³²."""
    worlds_first: I64Array
    """[plans + 1]."""
    worlds: I64Array
    """[worlds, 3]: kind, place and markers."""
    joint: int
    """The rule for what stands between two parts of a program."""
    part: int
    """The rule for a part that suits any world."""
    depart: int
    """The rule for what comes before the way out, in programs that also have the way back."""
    back: int
    """The rule for what stands between the way out and the way back."""
    inner: int
    """The rule for something small to put into a program."""
    guard: int
    """The rule for a condition."""


@compiled()
def below(state: U64Array, limit: int) -> int:
    """A random whole number from 0 to limit − 1."""
    number: int = signed((draw(state) >> _S32) * np.uint64(limit) >> _S32)
    return number


@compiled()
def percent(state: U64Array, chance: int) -> bool:
    """True with the given probability in percent."""
    drawn: int = below(state, 100)
    return drawn < chance


@compiled()
def pick_threshold(state: U64Array, thresholds: U64Array, first: int, last: int) -> int:
    """A number from first to last − 1, drawn by cumulated weights of 2³²."""
    drawn = draw(state) >> _S32
    number = first
    while number < last - 1 and drawn >= thresholds[number]:
        number += 1
    return number


@compiled()
def draw_counts(state: U64Array, chosen: I64Array, counts: I64Array) -> None:
    """Draw the counts [3] of a program, and set `chosen` [rules] to -1: no rule has drawn its alternative yet."""
    for number in range(len(chosen)):
        chosen[number] = -1
    counts[0] = 2 + below(state, 8) if percent(state, 12) else max(2, 2 + below(state, 3) - (percent(state, 20)))
    counts[1] = 2 + below(state, 8) if percent(state, 12) else 2 + below(state, 4)
    counts[2] = 3 + below(state, 8) if percent(state, 12) else 3 + below(state, 6)


@compiled()
def expand(
    state: U64Array,
    rule: int,
    tables: PlanTables,
    chosen: I64Array,
    counts: I64Array,
    stack: I64Array,
    raw: U8Array,
    size: int,
) -> int:
    """Append the tokens of a rule to raw[:size]; returns the new size, or 0 if they are too many.

    `chosen` and `counts` are those of `draw_counts`; `stack` [STACK] is scratch space.
    """
    depth = 1
    stack[0] = RULE + rule
    while depth > 0:
        depth -= 1
        symbol = stack[depth]
        if symbol < REGISTERS:
            raw[size] = symbol
            size += 1
        elif symbol < RULE:
            raw[size] = _COUNT + counts[symbol - REGISTERS]
            size += 1
        else:
            number = symbol - RULE
            alternative = chosen[number]
            if alternative < 0:
                alternative = pick_threshold(state, tables.threshold, tables.first[number], tables.first[number + 1])
                if tables.once[number]:
                    chosen[number] = alternative
            for at in range(tables.begins[alternative + 1] - 1, tables.begins[alternative] - 1, -1):
                stack[depth] = tables.symbols[at]
                depth += 1
        if size > _MOST_RAW or depth > STACK - 64:
            return 0
    return size


@compiled()
def append_way_back(raw: U8Array, begin: int, end: int, size: int) -> int:
    """Append the mirror image of raw[begin:end] to raw[:size]; returns the new size, or 0 if that is too long."""
    if size + end - begin > _MOST_RAW:
        return 0
    length = end - begin
    for place in range(length):
        raw[size + place] = raw[begin + place]
    mirror(raw[size : size + length], length)
    return size + length


@compiled()
def mutate(state: U64Array, raw: U8Array, size: int) -> int:
    """Change one thing of the program raw[:size]; returns its new size. The program may stay the same."""
    kind = below(state, 6)
    at = below(state, size)
    for _ in range(size):
        token = raw[at]
        action = _MOVE <= token <= _PUT
        if kind < 3 and action:
            if kind == 0:
                raw[at] = _MOVE + below(state, 5)
            elif kind == 1 and size < _MOST_RAW:
                for place in range(size, at, -1):
                    raw[place] = raw[place - 1]
                raw[at] = _MOVE + below(state, 5)
                return size + 1
            else:
                for place in range(at, size - 1):
                    raw[place] = raw[place + 1]
                return size - 1
            return size
        if kind == 3 and _FIRST_SENSOR <= token <= _LAST_SENSOR:
            if at >= 2 and raw[at - 2] == _NOT:
                raw[at] = _FIRST_CLEAR + below(state, 3)
            else:
                raw[at] = _FIRST_SENSOR + below(state, 5)
            return size
        if kind == 4 and _COUNT < token <= _LAST_COUNT:
            raw[at] = _COUNT + 2 + below(state, 7)
            return size
        if kind == 5 and (token == _LEFT or token == _RIGHT):
            raw[at] = _LEFT + _RIGHT - token
            return size
        at = at + 1 if at + 1 < size else 0
    return size


@compiled()
def _find_action(state: U64Array, raw: U8Array, size: int) -> int:
    """The first action of raw[:size] from a random place on, past its end to its start; that place if it has none."""
    at = below(state, size)
    for _ in range(size):
        if _MOVE <= raw[at] <= _PUT:
            break
        at = at + 1 if at + 1 < size else 0
    return int(at)


@compiled()
def insert(state: U64Array, raw: U8Array, size: int, piece: U8Array, length: int) -> int:
    """Put piece[:length] before or after an action of the program raw[:size], or in its place; returns the new size."""
    if length == 0 or size + length > _MOST_RAW:
        return size
    at = _find_action(state, raw, size)
    where = below(state, 3)
    removed = 1 if where == 2 else 0
    at += where & 1
    for place in range(size - 1, at + removed - 1, -1):
        raw[place + length - removed] = raw[place]
    for place in range(length):
        raw[at + place] = piece[place]
    return size + length - removed


@compiled()
def choose_statement(state: U64Array, raw: U8Array, size: int) -> tuple[int, int]:
    """A random statement of raw[:size]: the index of its first token, and the one after its last."""
    at = below(state, size)
    for _ in range(size):
        if BEGINS[raw[at]]:
            break
        at = at + 1 if at + 1 < size else 0
    end, depth = at, 0
    while end < size:
        token = raw[end]
        end += 1
        if OPENS[token]:
            depth += 1
        elif CLOSES[token]:
            depth -= 1
        if depth == 0 and (_MOVE <= token <= _PUT or CLOSES[token]) and not (end < size and raw[end] == _ELSE):
            break
    return at, end


@compiled()
def wrap(state: U64Array, raw: U8Array, size: int, piece: U8Array, length: int) -> int:
    """Put an IF with the condition piece[:length] around an action of the program raw[:size]; returns the new size."""
    if size + length + 6 > _MOST_RAW:
        return size
    at = _find_action(state, raw, size)
    action = raw[at]
    for place in range(size - 1, at, -1):
        raw[place + length + 5] = raw[place]
    raw[at], raw[at + 1] = _IF, _OPEN_C
    for place in range(length):
        raw[at + 2 + place] = piece[place]
    at += 2 + length
    raw[at], raw[at + 1], raw[at + 2], raw[at + 3] = _CLOSE_C, _OPEN_I, action, _CLOSE_I
    return size + length + 5


@compiled()
def counts_markers(raw: U8Array, size: int) -> bool:
    """Whether a program treats piles other than single markers: it picks in a loop, or looks again after a pick."""
    found = False
    for at in range(5, size - 2):
        loop = raw[at] == _PICK and raw[at - 1] == _OPEN_W and raw[at + 1] == _CLOSE_W
        found |= loop or (raw[at] == _PICK and (raw[at + 1] == _IF or raw[at + 1] == _IFELSE))
    return found


@compiled()
def needs_markers(tokens: U8Array, length: int) -> bool:
    """Whether a program picks markers or looks at them."""
    found = False
    for at in range(length):
        found |= tokens[at] == _PICK or tokens[at] == _FIRST_SENSOR or tokens[at] == _FIRST_SENSOR + 1
    return found


@compiled()
def mirror(raw: U8Array, size: int) -> None:
    """Swap left and right."""
    for at in range(size):
        token = raw[at]
        if token == _LEFT or token == _RIGHT:
            raw[at] = _LEFT + _RIGHT - token
        elif token == _LEFT_CLEAR or token == _RIGHT_CLEAR:
            raw[at] = _LEFT_CLEAR + _RIGHT_CLEAR - token


@compiled()
def _append(out: U8Array, size: int, action: int) -> int:
    """Append a move, pick or put to out[:size] in the normal form: runs of three and more become a REPEAT."""
    repeated = size >= 5 and out[size - 1] == _CLOSE_R and out[size - 2] == action and out[size - 3] == _OPEN_R
    if repeated and out[size - 4] < _LAST_COUNT:
        out[size - 4] += 1
        return size
    if size >= 2 and out[size - 1] == action and out[size - 2] == action:
        out[size - 2], out[size - 1], out[size], out[size + 1], out[size + 2] = (
            _REPEAT, _COUNT + 3, _OPEN_R, action, _CLOSE_R,
        )  # fmt: skip
        return size + 3
    if size >= 1 and action != _MOVE and out[size - 1] == _PICK + _PUT - action:
        return size - 1
    out[size] = action
    return size + 1


@compiled()
def _turns(out: U8Array, size: int, quarters: int) -> int:
    """Append quarter turns to the left."""
    quarters &= 3
    if quarters == 3:
        out[size] = _RIGHT
        return size + 1
    for _ in range(quarters):
        out[size] = _LEFT
        size += 1
    return size


@compiled()
def _take_turns(out: U8Array, size: int) -> tuple[int, int]:
    """Remove the turns at the end of out[:size]; returns the new size and their sum in quarter turns to the left."""
    quarters = 0
    while out[size - 1] == _LEFT or out[size - 1] == _RIGHT:
        quarters += 1 if out[size - 1] == _LEFT else 3
        size -= 1
    return size, quarters


@compiled()
def normalise(raw: U8Array, length: int, out: U8Array) -> int:
    """Write `DEF run m( … m)` around raw[:length] to `out` [RAW], in the normal form; returns the size.

    Turns are summed up, markers are put and picked before turns, what undoes itself goes, runs become REPEATs. A block
    may become empty: the parser then rejects the program.
    """
    out[0], out[1], out[2] = _HEAD, _RUN, _OPEN_M
    size = 3
    for at in range(length):
        token = signed(raw[at])
        if size > _MOST_RAW - 8:
            return 0
        if _MOVE <= token <= _PUT:
            quarters = 0
            if token != _MOVE:
                size, quarters = _take_turns(out, size)
            if token == _LEFT:
                quarters += 1
            elif token == _RIGHT:
                quarters += 3
            else:
                size = _append(out, size, token)
            size = _turns(out, size, quarters)
        elif token == _CLOSE_R and out[size - 2] == _OPEN_R and _MOVE <= out[size - 1] <= _PUT:
            action, count = signed(out[size - 1]), signed(out[size - 3]) - _COUNT
            size -= 4
            if action == _LEFT or action == _RIGHT:
                size, quarters = _take_turns(out, size)
                size = _turns(out, size, quarters + count * (1 if action == _LEFT else 3))
            else:
                quarters = 0
                if action != _MOVE:
                    size, quarters = _take_turns(out, size)
                for _ in range(count):
                    size = _append(out, size, action)
                size = _turns(out, size, quarters)
        else:
            out[size] = token
            size += 1
    out[size] = _CLOSE_M
    return size + 1
